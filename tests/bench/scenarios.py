#!/usr/bin/env python3
"""Four uses, class against full, on one cluster: latency, cost and quality.

    tests/bench/scenarios.py [--quick] [--tier economy] [--repeats N] [--out FOLDER]

tickets   100 clients, each sends a ticket as a JSON record and gets its category and priority as JSON
contract  a long contract in prose, to be summarised
word      a question with an ambiguous word: the answer has to be full's
log       a log of which the error codes are to be extracted

The class arm sends X-Lacuna-Sparse: true, which gives the best class that is certified for the input's type, if
there is one; the full arm sends false. Where nothing is certified both arms run in full, and the table says so.
All texts are made up here, the same in every run. Standard library only; the figures are for people."""
import argparse, json, random, re

import figures
from figures import save, table
from http import percentile
from served import Cluster, ask_all, rouge_l

CATEGORIES, PRIORITIES = ("billing", "network", "hardware", "account"), ("low", "normal", "high")
SUBJECTS = {"billing": "invoice shows the wrong amount", "network": "connection drops every few minutes",
            "hardware": "disk makes noise and is slow", "account": "cannot sign in after password change"}


def ticket(rng, number):
    kind, priority = rng.choice(CATEGORIES), rng.choice(PRIORITIES)
    record = {"ticket": 48000 + number, "opened": f"2024-05-{1 + number % 28:02d}T{rng.randrange(24):02d}:15:00Z",
              "customer": {"id": rng.randrange(10000, 99999), "plan": rng.choice(("basic", "pro"))},
              "subject": SUBJECTS[kind], "product": rng.choice(("router-x2", "nas-4", "phone-7")),
              "attempts": rng.randrange(1, 5), "tags": [kind, priority], "impact": priority}
    return kind, json.dumps(record, indent=1)


def tickets(quick):
    rng = random.Random("tickets")
    schema = {"type": "object", "additionalProperties": False, "required": ["category", "priority"],
              "properties": {"category": {"enum": list(CATEGORIES)}, "priority": {"enum": list(PRIORITIES)}}}
    made = [ticket(rng, i) for i in range(4 if quick else 100)]
    requests = [{"messages": [{"role": "system", "content": "Classify the ticket. Answer in JSON."},
                              {"role": "user", "content": text}], "max_tokens": 40,
                 "response_format": {"type": "json_schema", "json_schema": {"name": "ticket", "schema": schema}}}
                for _, text in made]

    def quality(answers, full):
        whole = [json.loads(a["text"]) if valid(a["text"]) else None for a in answers]
        right = [w is not None and w.get("category") == kind for w, (kind, _) in zip(whole, made)]
        return {"valid JSON": sum(w is not None for w in whole) / len(whole), "category right": sum(right) / len(right),
                "same as full": same(answers, full)}
    return requests, 100, quality


def contract(quick):
    rng = random.Random("contract")
    parties = "the supplier", "the customer"
    duties = ("deliver the goods in good condition", "pay each invoice within thirty days", "keep records for five years",
              "give written notice of any delay", "insure the goods until they are handed over",
              "allow an inspection once a year", "keep the other side's plans secret")
    limits = ("unless both sides agree otherwise in writing", "as far as the law of the place of delivery allows",
              "from the day on which this contract is signed", "at its own cost", "without undue delay")
    clauses = [f"{i + 1}. In this matter {rng.choice(parties)} shall {rng.choice(duties)}, {rng.choice(limits)}. Should "
               f"{rng.choice(parties)} fail to do so, {rng.choice(parties)} may end the contract after a reminder of "
               f"{rng.randrange(7, 60)} days, and what has been paid for goods not yet received is to be returned."
               for i in range(4 if quick else 24)]
    text = "This contract is made between a maker of wooden furniture and a chain of hotels.\n\n" + "\n\n".join(clauses)
    requests = [{"messages": [{"role": "user", "content": text + "\n\nSummarise this contract in three sentences."}],
                 "max_tokens": 16 if quick else 96}]
    return requests, 1, lambda answers, full: {"ROUGE-L to full": mean(rouge_l(a["text"], f["text"])
                                                                       for a, f in zip(answers, full)),
                                               "same as full": same(answers, full)}


def word(quick):
    questions = ("He sat down by the bank and watched the boats go by. What does the word bank mean here?",
                 "She took the book off the shelf and read the last page twice. Is read in the present or the past?",
                 "The crane stood in the shallow water on one leg. What is the crane?")
    requests = [{"messages": [{"role": "user", "content": q}], "max_tokens": 16 if quick else 48}
                for q in questions[:1 if quick else 3]]
    return requests, 1, lambda answers, full: {"same as full": same(answers, full)}


def log(quick):
    rng, requests, truth = random.Random("log"), [], []
    for _ in range(2 if quick else 12):
        codes = [f"E{rng.randrange(1000, 9999)}" for _ in range(4)]
        lines = []
        for i in range(12 if quick else 60):
            level, text = "INFO", f"request {rng.randrange(1000, 9999)} took {rng.randrange(3, 90)} ms"
            if i % (3 if quick else 15) == 2:
                level, text = "ERROR", f"code={codes[i // (3 if quick else 15)]} unit={rng.choice(('pump', 'lamp'))} failed"
            lines.append(f"2024-05-17 10:{i // 60:02d}:{i % 60:02d} {level} [gate] {text}")
        truth.append(codes)
        requests.append({"messages": [{"role": "system", "content": "List the error codes of the log, with commas."},
                                      {"role": "user", "content": "\n".join(lines)}], "max_tokens": 48})

    def quality(answers, full):
        found = [set(re.findall(r"E\d{4}", a["text"])) for a in answers]
        return {"codes found": mean(len(f & set(c)) / len(c) for f, c in zip(found, truth)),
                "same as full": same(answers, full)}
    return requests, 4, quality


SCENARIOS = {"tickets": tickets, "contract": contract, "word": word, "log": log}


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def valid(text):
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def same(answers, full):
    return mean(a["text"] == f["text"] for a, f in zip(answers, full))


def arm(address, requests, clients, sparse):
    headers = {"X-Lacuna-Sparse": "true" if sparse else "false"}
    answers, wall = ask_all(address, [{**r, "headers": headers} for r in requests], clients)
    run = [a["usage"]["lacuna"] for a in answers]
    seconds = [a["s"] for a in answers]
    return answers, {
        "classes": {c: sum(r["class"] == c for r in run) for c in sorted({r["class"] for r in run})},
        "why": run[0]["why"], "p50_s": percentile(seconds, 0.5), "p90_s": percentile(seconds, 0.9),
        "p99_s": percentile(seconds, 0.99), "wall_s": wall,
        "tok_s": sum(a["usage"]["completion_tokens"] for a in answers) / wall,
        "gflop": mean(r["flops"] for r in run) / 1e9, "kv_mb": mean(r["kv_bytes"] for r in run) / 1e6,
        "skip_rate": mean(r["skip_rate"] for r in run), "cost_skip_rate": mean(r["cost_skip_rate"] for r in run)}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    figures.arguments(ap)
    ap.add_argument("--tier", default="standard", help="deepest certificate that serves")
    ap.add_argument("--slots", default=16, type=int)
    args = ap.parse_args()
    idle = figures.begin(args, "lacuna-coordinator", "lacuna-worker")
    record = {"idle_before": idle, "quick": args.quick, "tier": args.tier, "scenarios": {}}
    worker = ["--model", args.model, "--model-name", "model", "--plan", args.plan, "--slots", args.slots,
              "--prefix-cache", "off"]
    cluster = Cluster(args, [worker], "--tier", args.tier, "--shadow-share", "0")
    try:
        for name, make in SCENARIOS.items():
            requests, clients, quality = make(args.quick)
            arms = {"class": [], "full": []}
            for turn in range(args.repeats):
                for which in arms:
                    answers, found = arm(cluster.address, requests, clients, which == "class")
                    arms[which].append((answers, found))
            full = arms["full"][0][0]
            record["scenarios"][name] = {w: {"turns": [f for _, f in runs], "quality": quality(runs[0][0], full),
                                             "answers": [a["text"] for a in runs[0][0]]} for w, runs in arms.items()}
            show(name, record["scenarios"][name])
    finally:
        cluster.stop()
    save(args, "scenarios", record)


def show(name, found):
    mid = lambda which, key: sorted(t[key] for t in found[which]["turns"])[len(found[which]["turns"]) // 2]
    rows = [[label, *(f"{mid(w, key):.4g}" for w in ("class", "full")),
             f"{mid('class', key) / mid('full', key):.3f}" if mid("full", key) else ""]
            for label, key in (("latency p50, s", "p50_s"), ("latency p90, s", "p90_s"), ("latency p99, s", "p99_s"),
                               ("output tokens a second", "tok_s"), ("GFLOP a request", "gflop"),
                               ("KV a request, MB", "kv_mb"), ("skip rate", "skip_rate"),
                               ("cost skip rate", "cost_skip_rate"))]
    for key in found["full"]["quality"]:
        rows.append([key, *(f"{found[w]['quality'][key]:.3f}" for w in ("class", "full")), ""])
    first = found["class"]["turns"][0]
    table(f"{name}: ran as {', '.join(f'{c} × {n}' for c, n in first['classes'].items())} ({first['why']})",
          ["", "class", "full", "ratio"], rows)


if __name__ == "__main__":
    main()
