"""What the erasure benchmarks share: one measurement by lacuna-engine, turns, medians, a straight line, a plot."""
import json, os, pathlib, statistics, sys

import peer
from peer import CACHE, ROOT, run, say

PLAN = ROOT / "ops/models/smollm2-135m-instruct.plan.json"
COLOURS = ("#1b6ca8", "#c0562b", "#3b7d3b", "#7a4b9c", "#555555")


def arguments(parser):
    """Options that every script of erasure has."""
    parser.add_argument("--model", default=CACHE / "SmolLM2-135M-Instruct.Q4_1.gguf", type=pathlib.Path)
    parser.add_argument("--plan", default=PLAN, type=pathlib.Path)
    parser.add_argument("--bin", default=ROOT / "build/release/bin", type=pathlib.Path)
    parser.add_argument("--threads", default=os.cpu_count(), type=int)
    parser.add_argument("--repeats", default=5, type=int)
    parser.add_argument("--quick", action="store_true", help="one short turn: shows that it works, measures nothing")
    parser.add_argument("--busy", action="store_true", help="run although the machine is not idle")
    parser.add_argument("--out", type=pathlib.Path, help="folder for the JSON and SVG files")


def begin(args, *programs):
    """Checks that everything is there and the machine is quiet; returns how idle it was."""
    for needed in (args.model, args.plan, *(args.bin / p for p in programs)):
        if not needed.exists():
            sys.exit(f"{needed} is not there")
    if args.quick:
        args.repeats = 1
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
    return peer.demand_quiet(args.busy or args.quick)


def engine(args, command, *options):
    return json.loads(run([args.bin / "lacuna-engine", command, "--model", args.model, "--threads", args.threads,
                           *options, "--json"]))


def classes(args):
    """Names and masks of the plan's classes, the cheapest certificate first."""
    return [(c["name"], c["mask"].split(",")) for c in json.loads(args.plan.read_text())["classes"]]


def turns(args, cases):
    """{name: [what each turn gave]}: every case once, then every case again …"""
    results = {name: [] for name, _ in cases}
    for turn in range(args.repeats):
        for name, call in cases:
            results[name].append(call())
        say(f"round {turn + 1} of {args.repeats} done")
    return results


def median(rows, key):
    return statistics.median(r[key] for r in rows)


def line(xs, ys):
    """Least squares y = a + b·x: (a, b, largest residual as a share of the largest y)."""
    mx, my = statistics.fmean(xs), statistics.fmean(ys)
    b = sum((x - mx) * (y - my) for x, y in zip(xs, ys)) / max(sum((x - mx) ** 2 for x in xs), 1e-30)
    a = my - b * mx
    return a, b, max(abs(y - a - b * x) for x, y in zip(xs, ys)) / max(ys)


def table(title, head, rows):
    widths = [max(len(str(r[i])) for r in [head, *rows]) for i in range(len(head))]
    print(f"\n{title}")
    for r in [head, *rows]:
        print("  " + "  ".join(str(c).ljust(w) if i == 0 else str(c).rjust(w)
                               for i, (c, w) in enumerate(zip(r, widths))))


def verdict(what, got, asked, unit="", least=True):
    good = got >= asked if least else got <= asked
    print(f"  {'reached' if good else 'SHORT  '}  {what}: {got:.3g}{unit}, asked {'≥' if least else '≤'} {asked:g}{unit}")
    return {"what": what, "got": got, "asked": asked, "least": least, "reached": good}


def save(args, name, record):
    if args.out:
        (args.out / f"{name}.json").write_text(json.dumps(record, indent=1, default=str) + "\n")


def plot(args, name, title, xlabel, ylabel, series):
    """series: {label: [(x, y)]}; points, joined by a line."""
    if not args.out:
        return
    left, top, width, height = 70, 40, 520, 260
    points = [p for s in series.values() for p in s]
    x0, x1 = min(x for x, _ in points), max(x for x, _ in points)
    y1 = max(y for _, y in points) * 1.1 or 1
    px = lambda x: left + width * (x - x0) / ((x1 - x0) or 1)
    py = lambda y: top + height * (1 - y / y1)
    parts = [f'<text x="{left}" y="24" font-weight="bold">{title}</text>',
             f'<path d="M{left},{top} V{top + height} H{left + width}" fill="none" stroke="#444"/>',
             f'<text x="{left + width / 2}" y="{top + height + 34}" text-anchor="middle">{xlabel}</text>',
             f'<text x="16" y="{top + height / 2}" transform="rotate(-90 16 {top + height / 2})" '
             f'text-anchor="middle">{ylabel}</text>']
    for k in range(5):
        x, y = x0 + (x1 - x0) * k / 4, y1 * k / 4
        parts += [f'<text x="{left - 6}" y="{py(y) + 4}" text-anchor="end">{y:.3g}</text>',
                  f'<text x="{px(x)}" y="{top + height + 16}" text-anchor="middle">{x:.3g}</text>',
                  f'<path d="M{left},{py(y)} H{left + width}" stroke="#ddd"/>']
    for (label, s), colour in zip(series.items(), COLOURS):
        path = " ".join(f"{px(x):.1f},{py(y):.1f}" for x, y in sorted(s))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{px(x):.1f}" cy="{py(y):.1f}" r="3" fill="{colour}"/>' for x, y in s]
        x, y = sorted(s)[-1]
        parts.append(f'<text x="{px(x) + 8}" y="{py(y) + 4}" fill="{colour}">{label}</text>')
    (args.out / f"{name}.svg").write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" width="720" height="350" font-family="sans-serif" '
        'font-size="11"><rect width="100%" height="100%" fill="white"/>' + "".join(parts) + "</svg>\n")
