"""Writes coordinator/core/type_tree.inc: a tree of depth 3 over the features of samples.py.

    make_tree.py FEATURES_OF TYPE_TREE_INC

FEATURES_OF is the built program types_features. Splits are chosen by Gini impurity with every kind of
sample weighing the same; a threshold lies in the middle of the widest gap it may lie in. The same
seeds give the same file."""
import io
import subprocess
import sys

import samples

SEED, PER_KIND, DEPTH, LEAST = 20250301, 60, 3, 30
# Only measures that mean the same in any language and domain: shares of lines, and order.
ALLOWED = ["code", "prose", "data", "mixed", "leader"]


def read_features(program, items):
    pack = io.BytesIO()
    samples.write(items, pack)
    lines = subprocess.run([program], input=pack.getvalue(), stdout=subprocess.PIPE, check=True).stdout.decode().splitlines()
    names = lines[0].split()
    return names, [(f[0], f[1], [int(v) for v in f[2:]]) for f in (line.split() for line in lines[1:])]


def gini(counts):
    total = sum(counts.values())
    return total - sum(c * c for c in counts.values()) / total if total else 0.0


def count(rows):
    counts = {}
    for label, _, _ in rows:
        counts[label] = counts.get(label, 0) + 1
    return counts


def best_split(rows, columns):
    best = None
    for f in columns:
        ordered = sorted(rows, key=lambda row: row[2][f])
        low, high = {}, count(rows)
        for i in range(len(ordered) - 1):
            label = ordered[i][0]
            low[label] = low.get(label, 0) + 1
            high[label] -= 1
            here, there = ordered[i][2][f], ordered[i + 1][2][f]
            if here == there or i + 1 < LEAST or len(ordered) - i - 1 < LEAST:
                continue
            key = (gini(low) + gini(high), -(there - here))
            if best is None or key < best[0]:
                best = (key, f, (here + there) // 2)
    return best


def grow(rows, columns, depth, out):
    """Appends the rows of the tree; returns the index of its root, or a type's name."""
    counts = count(rows)
    top = max(sorted(counts), key=lambda label: counts[label])
    split = best_split(rows, columns) if depth and len(counts) > 1 else None
    if split is None or split[0][0] > gini(counts) * 0.98:
        return top
    _, f, at_most = split
    index = len(out)
    out.append(None)
    low = grow([r for r in rows if r[2][f] <= at_most], columns, depth - 1, out)
    high = grow([r for r in rows if r[2][f] > at_most], columns, depth - 1, out)
    if low == high and isinstance(low, str):
        del out[index:]
        return low
    out[index] = (f, at_most, low, high)
    return index


def decide(tree, value):
    row = 0
    while not isinstance(row, str):
        f, at_most, low, high = tree[row]
        row = low if value[f] <= at_most else high
    return row


def report(tree, rows, to):
    wrong, kinds = {}, {}
    for label, kind, value in rows:
        kinds[kind] = kinds.get(kind, 0) + 1
        got = decide(tree, value)
        if got != label:
            wrong.setdefault(kind, []).append(got)
    bad = sum(len(w) for w in wrong.values())
    print("%d of %d wrong (%.2f %% right)" % (bad, len(rows), 100 - 100 * bad / len(rows)), file=to)
    for kind in sorted(wrong):
        print("  %-16s %d of %d: %s" % (kind, len(wrong[kind]), kinds[kind], " ".join(sorted(set(wrong[kind])))), file=to)


def main():
    program, path = sys.argv[1:3]
    names, rows = read_features(program, samples.all_samples(SEED, PER_KIND))
    tree = []
    grow(rows, [names.index(n) for n in ALLOWED], DEPTH, tree)
    report(tree, rows, sys.stdout)

    def child(c):
        return "-LAC__TYPE_" + c.upper() if isinstance(c, str) else str(c)

    with open(path, "w") as out:
        out.write("/* Made by tests/golden/types/make_tree.py from %d samples; not to be edited by hand.\n"
                  " * feature, at most, row or type below, row or type above. */\n" % len(rows))
        for f, at_most, low, high in tree:
            out.write("{LAC__F_%s, %d, %s, %s},\n" % (names[f].upper(), at_most, child(low), child(high)))


if __name__ == "__main__":
    main()
