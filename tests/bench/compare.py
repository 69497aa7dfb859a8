#!/usr/bin/env python3
"""Our engine beside llama.cpp in one interleaved run, as ratios, with the machine's own limits.

Builds the peer once from the PyPI sdist of llama-cpp-python at a pinned version, refuses a busy
machine, runs A, B, A, B …, prints a table of medians and spreads, and writes JSON and an SVG plot of
decode speed against context and of total speed against batch.

    tests/bench/compare.py --model FILE [--threads 2] [--repeats 5] [--json OUT] [--svg OUT]

Needs only the Python standard library, a compiler and CMake. Nothing here is a pass or fail: the
figures are for people."""
import argparse, json, os, pathlib, platform, statistics, sys

import peer
from peer import CACHE, ROOT, run, say


class Ours:
    name = "lacuna"

    def __init__(self, args):
        self.engine, self.model, self.threads = args.engine, args.model, args.threads
        self.bandwidth = []

    def bench(self, prefill, decode, batch, context=0):
        command = [self.engine, "bench", "--model", self.model, "--threads", self.threads,
                   "--prefill", prefill, "--decode", decode, "--batch", batch, "--json"]
        if context:
            command += ["--depth", context]
        out = json.loads(run(command))
        self.bandwidth.append(out["read_gb_s"])
        return out

    def prefill(self, tokens):
        return self.bench(tokens, 1, 1)["prefill_tok_s"]

    def decode(self, tokens, context):
        return self.bench(16, tokens, 1, context)["decode_tok_s"]

    def batch(self, size, prompt, tokens):
        return self.bench(prompt, tokens, size)["decode_tok_s"]


class Peer:
    name = "llama.cpp"

    def __init__(self, args, binaries):
        self.bin, self.model, self.threads = binaries, args.model, args.threads

    def bench(self, *flags):
        out = json.loads(run([self.bin / "llama-bench", "-m", self.model, "-t", self.threads,
                              "-r", 1, "-o", "json", *flags]))
        return out[0]["avg_ts"]

    def prefill(self, tokens):
        return self.bench("-p", tokens, "-n", 0)

    def decode(self, tokens, context):
        return self.bench("-p", 0, "-n", tokens, "-d", context)

    def batch(self, size, prompt, tokens):
        out = run([self.bin / "llama-batched-bench", "-m", self.model, "-t", self.threads,
                   "-c", size * (prompt + tokens) + 64, "-b", 2048, "-ub", 512,
                   "-npp", prompt, "-ntg", tokens, "-npl", size, "--output-format", "jsonl"])
        lines = [json.loads(l) for l in out.splitlines() if l.startswith("{")]
        return lines[-1]["speed_tg"]


def cases(quick):
    contexts = (0, 512) if quick else (0, 512, 1024, 2048, 4096)
    batches = (1, 8) if quick else (1, 2, 4, 8, 16)
    yield "prefill 512", lambda e: e.prefill(512), ("prefill", 512)
    for c in contexts:
        yield f"decode, context {c}", lambda e, c=c: e.decode(64, c), ("context", c)
    for b in batches:
        yield f"decode, batch {b}", lambda e, b=b: e.batch(b, 64, 64), ("batch", b)


def measure(engines, repeats, quick):
    """{case: {engine: [speeds]}}, engines taking turns within each repeat."""
    results, plan = {}, list(cases(quick))
    for turn in range(repeats):
        for name, call, key in plan:
            row = results.setdefault(name, {"key": key, "speed": {e.name: [] for e in engines}})
            for engine in engines:
                row["speed"][engine.name].append(call(engine))
        say(f"round {turn + 1} of {repeats} done")
    return results


def table(results, names, out=sys.stdout):
    print(f"{'tok/s, median (least … most)':28}" + "".join(f"{n:>30}" for n in names) +
          f"{'ratio':>8}", file=out)
    for case, row in results.items():
        cells, medians = "", []
        for n in names:
            v = row["speed"][n]
            medians.append(statistics.median(v))
            cells += f"{medians[-1]:12.1f} ({min(v):7.1f} … {max(v):7.1f})"
        ratio = medians[0] / medians[1] if len(medians) > 1 else float("nan")
        print(f"{case:28}{cells}{ratio:8.2f}", file=out)


def svg(results, names, path):
    """Two line charts side by side: decode against context, total against batch."""
    colours, parts = ["#1b6ca8", "#c0562b"], []
    for panel, (kind, title) in enumerate((("context", "decode tok/s against context"),
                                           ("batch", "total decode tok/s against batch"))):
        rows = sorted((r for r in results.values() if r["key"][0] == kind), key=lambda r: r["key"][1])
        if not rows:
            continue
        left, top, width, height = 60 + 420 * panel, 40, 320, 220
        medians = {n: [statistics.median(r["speed"][n]) for r in rows] for n in names}
        peak = max(max(v) for v in medians.values()) * 1.1
        xs = [left + width * i / max(1, len(rows) - 1) for i in range(len(rows))]
        parts.append(f'<text x="{left}" y="24" font-weight="bold">{title}</text>')
        parts.append(f'<path d="M{left},{top} V{top + height} H{left + width}" fill="none" stroke="#444"/>')
        for k in range(5):
            y = top + height - height * k / 4
            parts.append(f'<text x="{left - 6}" y="{y + 4}" text-anchor="end">{peak * k / 4:.0f}</text>')
            parts.append(f'<path d="M{left},{y} H{left + width}" stroke="#ddd"/>')
        for x, r in zip(xs, rows):
            parts.append(f'<text x="{x}" y="{top + height + 16}" text-anchor="middle">{r["key"][1]}</text>')
        for n, colour in zip(names, colours):
            points = [(x, top + height - height * m / peak) for x, m in zip(xs, medians[n])]
            line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
            x, y = points[-1]
            parts.append(f'<text x="{x + 6}" y="{y + 4}" fill="{colour}">{n}</text>')
    path.write_text('<svg xmlns="http://www.w3.org/2000/svg" width="900" height="300" '
                    'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" '
                    'fill="white"/>' + "".join(parts) + "</svg>\n")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    ap.add_argument("--model", default=CACHE / "SmolLM2-135M-Instruct.Q4_1.gguf", type=pathlib.Path)
    ap.add_argument("--engine", default=ROOT / "build/release/bin/lacuna-engine", type=pathlib.Path)
    ap.add_argument("--threads", default=os.cpu_count(), type=int)
    ap.add_argument("--repeats", default=5, type=int)
    ap.add_argument("--quick", action="store_true", help="fewer contexts and batch sizes")
    ap.add_argument("--peer-dir", default=peer.FOLDER, type=pathlib.Path)
    ap.add_argument("--no-peer", action="store_true")
    ap.add_argument("--busy", action="store_true", help="run although the machine is not idle")
    ap.add_argument("--json", type=pathlib.Path)
    ap.add_argument("--svg", type=pathlib.Path)
    args = ap.parse_args()
    for needed in (args.engine, args.model):
        if not needed.exists():
            sys.exit(f"{needed} is not there")
    ours = Ours(args)
    engines = [ours] if args.no_peer else [ours, Peer(args, peer.build(args.peer_dir))]
    idle = peer.demand_quiet(args.busy)
    results = measure(engines, args.repeats, args.quick)
    names = [e.name for e in engines]
    table(results, names)
    bandwidth = statistics.median(ours.bandwidth)
    weights = args.model.stat().st_size
    best = [statistics.median(r["speed"]["lacuna"]) for r in results.values()
            if r["key"] == ("context", 0)]
    print(f"read bandwidth in the same run: {bandwidth:.1f} GB/s; decode uses "
          f"{best[0] * weights / 1e9:.1f} GB/s of weights ({best[0] * weights / 1e9 / bandwidth:.0%})")
    if args.json:
        args.json.write_text(json.dumps({
            "machine": platform.processor() or platform.machine(), "threads": args.threads,
            "idle_before": idle, "read_gb_s": ours.bandwidth, "peer": peer.VERSION,
            "results": results}, indent=1, default=str) + "\n")
    if args.svg:
        svg(results, names, args.svg)


if __name__ == "__main__":
    main()
