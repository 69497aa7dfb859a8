#!/usr/bin/env python3
"""The honest rival: pruned checkpoints behind a router against one worker with classes, on the same hardware.

    tests/bench/rival.py [--quick] [--clients 8] [--requests 64] [--repeats N] [--out FOLDER]

The rival has a checkpoint for each class of the plan (lacuna-engine erase with the same units and no patches,
since that form of file holds none of low rank) and the original, each in a worker of its own, and a router that
sends structured prompts to the checkpoint of the class and all others to the original. Ours is one worker with
the plan. Both get the same mixed load in turns, all threads each. Told are memory (each process's own and its share
of what is mapped), throughput, latency, and quality: mean KL to full of a held-out text (lacuna-engine score), and
how many answers are full's. Standard library only; the figures are for people."""
import argparse, array, json, math, pathlib, random, tempfile

import figures
from figures import classes, save, table
from http import percentile
from peer import run, say
from served import Cluster, ask_all


def structured(rng):
    day = rng.randrange(1, 28)
    return "\n".join(f"2024-06-{day:02d} 08:{i:02d}:{rng.randrange(60):02d} {rng.choice(('INFO', 'WARN'))} [store] "
                     f"item={rng.randrange(1000, 9999)} shelf={rng.choice('ABCD')}{rng.randrange(9)} "
                     f"count={rng.randrange(1, 99)}" for i in range(rng.randrange(6, 14)))


def prose(rng):
    who, where = rng.choice(("a fisherman", "the old teacher", "her brother")), rng.choice(("a harbour", "the hills", "a mill"))
    return (f"Long ago {who} lived near {where} and told everybody who came by the same story, of a winter in which the "
            f"snow lay so high that nobody could open a door for {rng.randrange(3, 20)} days. How did the story end?")


def load_of(count):
    rng = random.Random("rival")
    kinds = [rng.random() < 0.6 for _ in range(count)]
    return [(s, (structured if s else prose)(rng)) for s in kinds]


def divergence(args, text, options):
    """Mean KL of full's next token to that of the engine with these options."""
    with tempfile.TemporaryDirectory() as folder:
        prompt, rows = pathlib.Path(folder) / "text", []
        prompt.write_text(text)
        for i, own in enumerate(([], options)):
            out = pathlib.Path(folder) / f"{i}"
            run([args.bin / "lacuna-engine", "score", "--model", args.model, "--threads", args.threads, "--text-file",
                 prompt, "--logprobs-file", out, *own])
            rows.append(out.read_bytes())
        return kl(rows[0], rows[1], len(rows[0]) // (4 * args.vocab))


def kl(full, masked, tokens):
    p, q = array.array("f", full), array.array("f", masked)
    return sum(math.exp(x) * (x - y) for x, y in zip(p, q) if x > -20) / tokens


def measure(args, address, load, model_of):
    requests = [{"messages": [{"role": "user", "content": text}], "model": model_of(is_structured),
                 "max_tokens": 8 if args.quick else 32} for is_structured, text in load]
    answers, wall = ask_all(address, requests, args.clients)
    seconds = [a["s"] for a in answers]
    return {"tok_s": sum(a["usage"]["completion_tokens"] for a in answers) / wall, "p50_s": percentile(seconds, 0.5),
            "p99_s": percentile(seconds, 0.99), "texts": [a["text"] for a in answers],
            "classes": [a["usage"]["lacuna"]["class"] for a in answers]}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    figures.arguments(ap)
    ap.add_argument("--clients", default=8, type=int)
    ap.add_argument("--requests", default=64, type=int)
    ap.add_argument("--tier", default="standard", help="deepest certificate that serves")
    args = ap.parse_args()
    idle = figures.begin(args, "lacuna-coordinator", "lacuna-worker", "lacuna-engine")
    args.vocab = json.loads(run([args.bin / "lacuna-engine", "inspect", "--model", args.model, "--json"]))["vocab"]
    load = load_of(6 if args.quick else args.requests)
    chosen = next((n for n, _ in classes(args) if n.endswith(args.tier)), classes(args)[-1][0])
    worker = ["--prefix-cache", "off", "--slots", "8", "--kv-mem", "128M"]
    with tempfile.TemporaryDirectory() as folder:
        rivals = [[*worker, "--model", args.model, "--model-name", "full"]]
        for name, mask in classes(args):
            path = pathlib.Path(folder) / f"{name}.gguf"
            run([args.bin / "lacuna-engine", "erase", "--model", args.model, "--mask", ",".join(mask), "--out", path])
            rivals.append([*worker, "--model", path, "--model-name", name])
        sides = {"one worker, classes": ([[*worker, "--model", args.model, "--model-name", "model", "--plan", args.plan]],
                                         lambda _: "model"),
                 "checkpoints, router": (rivals, lambda s: chosen if s else "full")}
        clusters = {}
        try:
            for side, (workers, _) in sides.items():
                clusters[side] = Cluster(args, workers, "--tier", args.tier, "--shadow-share", "0")
            results = {side: [] for side in sides}
            for turn in range(args.repeats):
                for side, (_, model_of) in sides.items():
                    results[side].append(measure(args, clusters[side].address, load, model_of))
                say(f"round {turn + 1} of {args.repeats} done")
            memory = {side: c.resident() for side, c in clusters.items()}
            full = measure(args, clusters["checkpoints, router"].address, load, lambda _: "full")
        finally:
            for cluster in clusters.values():
                cluster.stop()
    report(args, idle, chosen, load, results, memory, full)


def report(args, idle, chosen, load, results, memory, full):
    text = structured(random.Random("held out"))[:200 if args.quick else 1200]
    mask = ",".join(dict(classes(args))[chosen])
    loss = {"one worker, classes": divergence(args, text, ["--plan", args.plan, "--class", chosen]),
            "checkpoints, router": divergence(args, text, ["--mask", mask])}
    mid = lambda side, key: sorted(r[key] for r in results[side])[len(results[side]) // 2]
    same = {side: sum(a == b for a, b in zip(r[0]["texts"], full["texts"])) / len(load) for side, r in results.items()}
    sides = list(results)
    table(f"{len(load)} requests, {sum(s for s, _ in load)} of them structured (class {chosen}: {mask})", ["", *sides],
          [["memory of all workers, MB", *(f"{memory[s] / 1e6:.0f}" for s in sides)],
           ["output tokens a second", *(f"{mid(s, 'tok_s'):.1f}" for s in sides)],
           ["latency p50, s", *(f"{mid(s, 'p50_s'):.3f}" for s in sides)],
           ["latency p99, s", *(f"{mid(s, 'p99_s'):.3f}" for s in sides)],
           ["KL to full, structured text", *(f"{loss[s]:.4f}" for s in sides)],
           ["answers that are full's", *(f"{same[s]:.0%}" for s in sides)]])
    save(args, "rival", {"idle_before": idle, "quick": args.quick, "class": chosen, "memory": memory, "kl": loss,
                         "same": same, "results": results})


if __name__ == "__main__":
    main()
