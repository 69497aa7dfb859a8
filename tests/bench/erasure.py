#!/usr/bin/env python3
"""What leaving parts out saves, and what being able to costs, on one engine.

    tests/bench/erasure.py [PART …] [--quick] [--repeats N] [--out FOLDER]

half     half of all units left out: share of (total − fixed) time that goes; time against executed cost over six
         masks, a straight line and its residual
mixed    a batch of 8 in as many classes as the plan has, with full: each sequence's tokens against the same sequence
         in a batch of its class alone; throughput against the mean of those batches
long     the plan's deepest class against full at 2,048 tokens: prefill against the cost model, decode of 8 against the
         sum of the measured costs of the units it leaves out, with the bytes beside it
expand   a model with as many blocks again that do nothing against the original: speed, start, memory
full     class full in an engine with all classes against an engine without: instructions of a step (callgrind)

Without a part all of them run, in turns where they compare. Needs the Python standard library, and valgrind for
`full`. Nothing here is a pass or fail: the figures are for people."""
import argparse, json, pathlib, re, subprocess, sys, tempfile

import figures
from figures import classes, engine, line, median, plot, save, table, turns, verdict
from peer import run, say


def units_of(args):
    found = json.loads(run([args.bin / "lacuna-engine", "inspect", "--model", args.model, "--json"]))
    return found["layers"]


def spread(layers):
    """Layer numbers so that every beginning of the list lies evenly over the model."""
    bits = max(1, (layers - 1).bit_length())
    order = [int(format(i, f"0{bits}b")[::-1], 2) for i in range(1 << bits)]
    return [l for l in order if l < layers]


def mask_of(layers):
    return ",".join(f"A{l},F{l}" for l in sorted(layers))


# ---------------------------------------------------------------- half


def half(args):
    layers, order = units_of(args), spread(units_of(args))
    steps = 8 if args.quick else 128
    shares = [0, 0.1, 0.2, 0.3, 0.4, 0.5, 1]

    def case(share):
        gone = order[:round(share * layers)]
        options = ["--mask", mask_of(gone)] if gone else []
        return lambda: engine(args, "bench", "--prefill", 32, "--decode", steps, *options)

    results = turns(args, [(s, case(s)) for s in shares])
    time = {s: 1e3 / median(r, "decode_tok_s") for s, r in results.items()}
    cost = {s: median(r, "decode_flops") / median(results[0], "decode_flops") for s, r in results.items()}
    a, b, residual = line([cost[s] for s in shares[:6]], [time[s] for s in shares[:6]])
    table("half: time of a token against executed cost (decode, batch 1)",
          ["units left out", "executed cost", "ms a token", "by the line"],
          [[f"{s:.0%}", f"{cost[s]:.3f}", f"{time[s]:.3f}", f"{a + b * cost[s]:.3f}"] for s in shares])
    removed = (time[0] - time[0.5]) / (time[0] - time[1])
    checks = [verdict("half of all units removes of (total − fixed)", 100 * removed, 45, " %"),
              verdict("largest residual of the line", 100 * residual, 5, " %", least=False)]
    plot(args, "half", "time of a token against executed cost", "executed cost, of full", "ms",
         {"measured": [(cost[s], time[s]) for s in shares[:6]],
          "line": [(x, a + b * x) for x in (cost[0.5], cost[0])]})
    return {"time_ms": time, "cost": cost, "line": [a, b, residual], "checks": checks, "raw": results}


# ---------------------------------------------------------------- mixed


def mixed(args):
    names = (["full"] + [n for n, _ in classes(args)])[:4]
    steps, prompt = (8, 16) if args.quick else (64, 64)

    def case(mix):
        return lambda: engine(args, "bench", "--plan", args.plan, "--mix", mix, "--batch", 8, "--prefill", prompt,
                              "--decode", steps)

    results = turns(args, [(n, case(n)) for n in names] + [("mixed", case(",".join(names)))])
    speed = {n: median(r, "decode_tok_s") for n, r in results.items()}
    hashes = {n: r[0]["hashes"] for n, r in results.items()}
    wrong = [b for b in range(8) if hashes["mixed"][b] != hashes[names[b % len(names)]][b]]
    mean = sum(speed[n] for n in names) / len(names)
    table("mixed: 8 sequences, output tokens a second", ["batch of", "tok/s"],
          [[n, f"{v:.1f}"] for n, v in speed.items()] + [["mean of the single ones", f"{mean:.1f}"]])
    checks = [verdict("sequences whose tokens differ", len(wrong), 0, least=False),
              verdict("mixed against the mean", speed["mixed"] / mean, 0.9)]
    return {"tok_s": speed, "wrong": wrong, "checks": checks, "raw": results}


# ---------------------------------------------------------------- long


def long_context(args):
    name, mask = max(classes(args), key=lambda c: len(c[1]))
    context = 256 if args.quick else 2048
    steps = 4 if args.quick else 32

    def bench(which, *options):
        return lambda: engine(args, "bench", "--plan", args.plan, "--mix", which, *options)

    one = turns(args, [(n, bench(n, "--prefill", context, "--decode", 1)) for n in ("full", name)])
    flops = {n: median(r, "prefill_flops") for n, r in one.items()}
    first = {n: context / median(r, "prefill_tok_s") for n, r in one.items()}
    asked, got = 1 - flops[name] / flops["full"], 1 - first[name] / first["full"]
    table(f"long: a prompt of {context} tokens, class {name} ({','.join(mask)})",
          ["", "full", name, "saved"],
          [["prefill, s", f"{first['full']:.3f}", f"{first[name]:.3f}", f"{got:.2%}"],
           ["GFLOP, the cost model", f"{flops['full'] / 1e9:.1f}", f"{flops[name] / 1e9:.1f}", f"{asked:.2%}"]])
    checks = [verdict("of what the cost model says is saved", 100 * got / asked, 80, " %")]

    eight = turns(args, [(n, bench(n, "--prefill", 16, "--depth", context - 16, "--batch", 8, "--decode", steps))
                         for n in ("full", name)])
    step = {n: 8e3 / median(r, "decode_tok_s") for n, r in eight.items()}
    parts = {n: engine(args, "profile", "--plan", args.plan, "--mix", n, "--prefill", context, "--batch", 8,
                       "--decode", steps)["units"] for n in ("full", name)}
    cost = sum(u["us"] for u in parts["full"] if u["unit"] in mask) - sum(u["patch_us"] for u in parts[name])
    moved = {n: sum(u["weight_bytes"] + u["kv_bytes"] for u in parts[n]) for n in parts}
    kv = {n: median(r, "kv_bytes") for n, r in eight.items()}
    saved = step["full"] - step[name]
    layers = units_of(args)
    table(f"long: decode of 8 sequences at context {context}", ["", "full", name, "saved"],
          [["step, ms", f"{step['full']:.2f}", f"{step[name]:.2f}", f"{saved / step['full']:.2%}"],
           ["units left out, measured, ms", "", "", f"{cost / 1e3:.2f} ({cost / 1e3 / step['full']:.2%})"],
           ["bytes a step, MB", f"{moved['full'] / 1e6:.1f}", f"{moved[name] / 1e6:.1f}",
            f"{1 - moved[name] / moved['full']:.2%}"],
           ["KV, MB", f"{kv['full'] / 1e6:.1f}", f"{kv[name] / 1e6:.1f}", f"{1 - kv[name] / kv['full']:.2%}"]])
    checks += [verdict("of the measured cost of the units is saved", 100 * saved / (cost / 1e3), 80, " %"),
               verdict("KV bytes off what is computed", abs(kv[name] / kv["full"] - 1 + len(mask) / layers), 1e-9,
                       least=False)]
    return {"prefill_s": first, "prefill_flops": flops, "step_ms": step, "units_us": cost, "bytes": moved, "kv": kv,
            "checks": checks, "raw": [one, eight, parts]}


# ---------------------------------------------------------------- expand


def expand(args):
    layers, steps = units_of(args), 8 if args.quick else 128
    with tempfile.TemporaryDirectory() as folder:
        bigger = pathlib.Path(folder) / "expanded.gguf"
        run([args.bin / "lacuna-engine", "expand", "--model", args.model, "--blocks", layers, "--out", bigger])

        def case(model):
            return lambda: json.loads(run([args.bin / "lacuna-engine", "bench", "--model", model, "--threads",
                                           args.threads, "--prefill", 32, "--decode", steps, "--json"]))

        results = turns(args, [("original", case(args.model)), ("expanded", case(bigger))])
    a, b = results["original"], results["expanded"]
    rows, off = [], []
    for what, key, limit in (("decode, ms a token", "decode_tok_s", 5), ("cold start, s", "load_s", 5),
                             ("resident, MB", "rss_bytes", 3)):
        turn = (lambda v: 1e3 / v) if key == "decode_tok_s" else (lambda v: v / 1e6) if key == "rss_bytes" else float
        x, y = turn(median(a, key)), turn(median(b, key))
        rows.append([what, f"{x:.3f}", f"{y:.3f}", f"{y / x - 1:+.2%}"])
        off.append((f"{what}: expanded off the original", 100 * abs(y / x - 1), limit))
    table(f"expand: {layers} + {layers} blocks", ["", "original", "expanded", "difference"], rows)
    checks = [verdict(*o, " %", least=False) for o in off]
    checks.append(verdict("sequences whose tokens differ", a[0]["hashes"] != b[0]["hashes"], 0, least=False))
    return {"checks": checks, "raw": results}


# ---------------------------------------------------------------- full


def instructions(args, *options):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "callgrind"
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--toggle-collect=lac_engine_step",
             args.bin / "lacuna-engine", "bench", "--model", args.model, "--threads", "1", "--isa", "avx2",
             "--prefill", "8", "--decode", "4", "--json", *map(str, options)], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"valgrind failed: {done.stderr[-800:]}")
        return int(re.search(r"^summary: (\d+)", out.read_text(), re.M).group(1))


def full(args):
    without = instructions(args)
    within = instructions(args, "--plan", args.plan, "--mix", "full")
    table("full: instructions of the steps of one run (8 tokens in, 4 steps)", ["engine", "instructions"],
          [["without classes", f"{without:,}"], ["with all of the plan, class full", f"{within:,}"]])
    return {"without": without, "with": within,
            "checks": [verdict("more instructions", 100 * (within / without - 1), 0.5, " %", least=False)]}


PARTS = {"half": half, "mixed": mixed, "long": long_context, "expand": expand, "full": full}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    ap.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    figures.arguments(ap)
    args = ap.parse_args()
    unknown = [p for p in args.parts if p not in PARTS]
    if unknown:
        ap.error(f"no part {unknown[0]}; there are {', '.join(PARTS)}")
    idle = figures.begin(args, "lacuna-engine")
    for name in args.parts or PARTS:
        say(f"{name}: begins")
        save(args, name, {"idle_before": idle, "quick": args.quick, "threads": args.threads, **PARTS[name](args)})


if __name__ == "__main__":
    main()
