#!/usr/bin/env python3
"""How much a foreign busy process on one core slows the engine down.

Runs `lacuna-engine bench` with and without a process that spins at normal priority, bound to one
core, taking turns, and prints the ratio of the medians: with two threads and two cores a fair share
of the busy core is half of it, so about 1.4 is the best to hope for and 2.2 the most that is right.

    tests/bench/busy_core.py [--model FILE] [--threads 2] [--repeats 5] [--core 0] [--limit 2.2]

Exit status 1 when the ratio of decode or prefill is above the limit."""
import argparse, json, os, pathlib, statistics, subprocess, sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "lacuna"


def bench(args):
    done = subprocess.run([args.engine, "bench", "--model", args.model, "--threads", str(args.threads),
                           "--prefill", str(args.prefill), "--decode", str(args.decode), "--json"],
                          capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"bench failed ({done.returncode}): {done.stderr.strip()[-400:]}")
    out = json.loads(done.stdout)
    return {"prefill": out["prefill_tok_s"], "decode": out["decode_tok_s"]}


class BusyCore:
    """A child that does nothing but run, on one core, while the block lasts."""

    def __init__(self, core):
        self.core = core

    def __enter__(self):
        code = f"import os\nos.sched_setaffinity(0, {{{self.core}}})\nwhile True: pass"
        self.child = subprocess.Popen([sys.executable, "-c", code])

    def __exit__(self, *_):
        self.child.kill()
        self.child.wait()


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    ap.add_argument("--model", default=CACHE / "SmolLM2-135M-Instruct.Q4_1.gguf", type=pathlib.Path)
    ap.add_argument("--engine", default=ROOT / "build/release/bin/lacuna-engine", type=pathlib.Path)
    ap.add_argument("--threads", default=os.cpu_count(), type=int)
    ap.add_argument("--prefill", default=256, type=int)
    ap.add_argument("--decode", default=64, type=int)
    ap.add_argument("--repeats", default=5, type=int)
    ap.add_argument("--core", default=min(os.sched_getaffinity(0)), type=int)
    ap.add_argument("--limit", default=2.2, type=float)
    args = ap.parse_args()
    alone, beside = [], []
    for _ in range(args.repeats):
        alone.append(bench(args))
        with BusyCore(args.core):
            beside.append(bench(args))
    worst = 0.0
    print(f"{'tok/s, median':16}{'alone':>10}{'busy core':>12}{'slowdown':>10}")
    for what in ("prefill", "decode"):
        a = statistics.median(r[what] for r in alone)
        b = statistics.median(r[what] for r in beside)
        worst = max(worst, a / b)
        print(f"{what:16}{a:10.1f}{b:12.1f}{a / b:10.2f}")
    return 1 if worst > args.limit else 0


if __name__ == "__main__":
    sys.exit(main())
