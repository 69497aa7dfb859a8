#!/usr/bin/env python3
"""lacuna-engine profile, graph and bench --mix: test_profile.py PROGRAM TREE MAKE-PLAN. A part that no row
runs has no event in the timeline, and what is counted agrees with the formulas."""
import json, os, pathlib, subprocess, sys, tempfile

program, tree, make_plan = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
model = tree / "tests/golden/logits/tiny-llama-q4_1.gguf"  # 3 layers


def run(*arguments, code=0):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == code, (arguments, done.returncode, done.stderr)
    return done.stdout if code == 0 else done.stderr


def trace(folder, *arguments):
    path = pathlib.Path(folder) / "trace.json"
    sums = json.loads(run("profile", "--model", model, "--threads", 2, "--trace", path, "--json", *arguments))
    events = json.loads(path.read_text())["traceEvents"]
    assert events and all(e["ph"] == "X" and e["dur"] >= 0 and e["ts"] >= 0 for e in events)
    assert all(a["ts"] <= b["ts"] for a, b in zip(events, events[1:])), "events are not in order"
    assert all(e["args"]["rows"] > 0 for e in events)
    return sums, events


def units(events):
    return {e["args"]["unit"] for e in events} - {""}


def everything_has_events(folder):
    sums, events = trace(folder, "--prefill", 40, "--decode", 3, "--batch", 2)
    assert units(events) == {"A0", "F0", "A1", "F1", "A2", "F2"}, units(events)
    decode = [e for e in events if e["cat"] == "decode"]
    assert len(decode) == 3 * (1 + 3 * 5 + 1), len(decode)  # embed, five operations a layer, head
    attention = [e for e in decode if e["name"] == "A1 attention"]
    head = {u["unit"]: u for u in sums["units"]}
    assert set(head) == {"embed", "A0", "F0", "A1", "F1", "A2", "F2", "head"}
    # Keys and values: of positions 0 … p, of two sequences; one token more each step, both of them.
    reads = [e["args"]["kv_read_bytes"] for e in attention]
    token = (reads[1] - reads[0]) // 2
    assert token > 0 and reads == [2 * token * (40 + i + 1) for i in range(3)], reads
    written = [e["args"]["kv_written_bytes"] for e in decode if e["name"] == "A1 qkv"]
    assert written == [2 * token] * 3, written


def erased_has_none(folder):
    sums, events = trace(folder, "--mask", "A1,F2", "--prefill", 8, "--decode", 2)
    assert units(events) == {"A0", "F0", "F1", "A2"}, units(events)
    assert not any(u["unit"] in ("A1", "F2") for u in sums["units"])


def a_class_in_memory_that_no_row_runs(folder, plan):
    """All units are loaded; the one class of the batch leaves its own out all the same."""
    _, events = trace(folder, "--plan", plan, "--mix", "mixed", "--prefill", 8, "--decode", 2)
    assert units(events) == {"A0", "A1", "F1", "A2"}, units(events)  # without F0, F2; a patch stands in for A1
    assert {e["name"] for e in events if e["args"]["unit"] == "A1"} == {"A1 patch"}
    _, events = trace(folder, "--plan", plan, "--mix", "full,mixed", "--batch", 2, "--prefill", 8, "--decode", 2)
    rows = {(e["name"], e["args"]["rows"]) for e in events if e["cat"] == "decode"}
    assert ("F0 gate_up", 1) in rows and ("F1 gate_up", 2) in rows and ("A1 patch", 1) in rows, rows
    assert ("A1 attention", 1) in rows and ("A0 attention", 2) in rows, rows


def mixed_batches(plan):
    bench = ["bench", "--model", model, "--plan", plan, "--prefill", 20, "--decode", 12, "--batch", 4, "--json", "--mix"]
    single = {c: json.loads(run(*bench, c)) for c in ("full", "low", "square")}
    mixed = json.loads(run(*bench, "full,low,square,low"))
    assert mixed["hashes"] == [single[c]["hashes"][i] for i, c in enumerate(("full", "low", "square", "low"))], mixed
    assert len({h for s in single.values() for h in s["hashes"]}) == 12, "the classes do nothing"
    parts = ("full", "low", "square", "low")
    for key in ("decode_flops", "prefill_flops", "kv_bytes"):
        mean = sum(single[c][key] for c in parts) / 4
        assert abs(mixed[key] - mean) <= 1e-9 * mean, (key, mixed[key], mean)
    assert single["low"]["kv_bytes"] * 3 == single["full"]["kv_bytes"] * 2, single  # one attention of three
    plain = json.loads(run("bench", "--model", model, "--prefill", 20, "--decode", 12, "--batch", 4, "--json"))
    for key in ("hashes", "decode_flops", "prefill_flops", "kv_bytes", "weight_bytes"):
        if key != "weight_bytes":  # of patches
            assert plain[key] == single["full"][key], key
    assert "which the plan has not" in run(*bench, "full,none", code=1)
    assert "--plan is needed" in run("bench", "--model", model, "--mix", "full", code=1)


def bisects(plan):
    def answer(*options):
        return json.loads(run("generate", "--model", model, "--prompt", "abc abc", "--temp", 0, "--max-tokens", 20,
                              "--json", *options))["text"]
    full = answer()
    found = json.loads(run("bisect", "--model", model, "--mask", "F0,A1,F2", "--prompt", "abc abc", "--max-tokens", 20,
                           "--json"))
    masks = {"F0": ("F0", "F0"), "A1": ("F0,A1", "A1"), "F2": ("F0,A1,F2", "F2")}
    assert [u["unit"] for u in found["units"]] == list(masks), found
    for u in found["units"]:
        sum_mask, own = masks[u["unit"]]
        assert (u["sum_differs"] >= 0) == (answer("--mask", sum_mask) != full), (u, sum_mask)
        assert (u["alone_differs"] >= 0) == (answer("--mask", own) != full), (u, own)
    assert found["breaks"] == next((u["unit"] for u in found["units"] if u["sum_differs"] >= 0), None), found
    assert found["breaks"], "no mask changes the answer: the test shows nothing"
    text = run("bisect", "--model", model, "--plan", plan, "--class", "mixed", "--prompt", "abc abc", "--max-tokens", 20)
    assert "breaks the answer" in text or "gives full's answer" in text, text
    assert "leaves nothing out" in run("bisect", "--model", model, "--plan", plan, "--class", "full", "--prompt", "a", code=1)


def graphs(plan):
    dot = run("graph", "--model", model, "--dot", "--mask", "A1,F2")
    assert "F0 -> F1" in dot and "A2 -> head" in dot and 'A1 [label="A1: left out"' in dot, dot
    assert "embed -> A0" in dot and dot.count("->") == 5, dot
    dot = run("graph", "--model", model, "--dot", "--plan", plan, "--class", "low")
    assert 'A1 [label="A1: a patch, rank 8"' in dot and "F0 -> A1" in dot and "A1 -> F1" in dot, dot
    run("graph", "--model", model, code=2)


with tempfile.TemporaryDirectory() as folder:
    plan = os.path.join(folder, "tiny.json")
    subprocess.run([make_plan, model, plan], check=True)
    everything_has_events(folder)
    erased_has_none(folder)
    a_class_in_memory_that_no_row_runs(folder, plan)
    mixed_batches(plan)
    bisects(plan)
    graphs(plan)
