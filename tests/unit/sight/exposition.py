"""A strict reader of Prometheus' text format 0.0.4, and the rules of the list of metrics held against it."""
import math
import re
import subprocess

SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)')


def number(text):
    words = {"+Inf": math.inf, "-Inf": -math.inf, "NaN": math.nan}
    if text in words:
        return words[text]
    if not re.fullmatch(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?", text):
        raise ValueError(f"{text!r} is no number")
    return float(text)


def labels_of(text):
    found, at = {}, 0
    while at < len(text):
        match = LABEL.match(text, at)
        if not match or (match[3] == "," and match.end() == len(text)):
            raise ValueError(f"labels {text!r} at {at}")
        if match[1] in found:
            raise ValueError(f"label {match[1]} comes twice")
        found[match[1]] = match[2].replace('\\"', '"').replace("\\n", "\n").replace("\\\\", "\\")
        at = match.end()
    return found


def family_of(name, families):
    for suffix in ("", "_bucket", "_sum", "_count"):
        base = name[:-len(suffix)] if suffix and name.endswith(suffix) else name if not suffix else None
        if base in families and (not suffix or families[base]["type"] == "histogram"):
            return base
    raise ValueError(f"{name} has no TYPE")


def parse(text):
    """{family: {"type", "help", "samples": [(name, labels, value)]}}; ValueError names what is wrong."""
    if not text.endswith("\n") or "\r" in text:
        raise ValueError("lines end with LF, the last one too")
    families, current, seen = {}, None, set()
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            name, _, words = line[7:].partition(" ")
            if name in families:
                raise ValueError(f"{name} is described twice, or its samples are not together")
            families[name] = {"type": None, "help": words, "samples": []}
            current = name
        elif line.startswith("# TYPE "):
            name, _, kind = line[7:].partition(" ")
            if name != current or families[name]["type"] or kind not in ("counter", "gauge", "histogram"):
                raise ValueError(f"TYPE of {name} is {kind}, after HELP of {current}")
            families[name]["type"] = kind
        else:
            match = SAMPLE.match(line)
            if not match:
                raise ValueError(f"no sample: {line!r}")
            labels = labels_of(match[2] or "")
            key = (match[1], tuple(sorted(labels.items())))
            if family_of(match[1], families) != current or key in seen:
                raise ValueError(f"{line!r} is out of place or comes twice")
            seen.add(key)
            families[current]["samples"].append((match[1], labels, number(match[3])))
    for name, family in families.items():
        check_family(name, family)
    return families


def check_family(name, family):
    if not family["type"] or not family["samples"]:
        raise ValueError(f"{name} has no type or no samples")
    if (family["type"] == "counter") != name.endswith("_total"):
        raise ValueError(f"{name} is a {family['type']}")
    if family["type"] == "counter" and any(not value >= 0 for _, _, value in family["samples"]):
        raise ValueError(f"{name} is below 0")
    if family["type"] == "histogram":
        check_histogram(name, family["samples"])


def check_histogram(name, samples):
    series = {}
    for full, labels, value in samples:
        rest = tuple(sorted((k, v) for k, v in labels.items() if k != "le"))
        one = series.setdefault(rest, {"buckets": []})
        if full == name + "_bucket":
            one["buckets"].append((number(labels["le"]), value))
        else:
            one[full[len(name):]] = value
    for rest, one in series.items():
        bounds = [bound for bound, _ in one["buckets"]]
        counts = [count for _, count in one["buckets"]]
        if bounds != sorted(set(bounds)) or counts != sorted(counts) or bounds[-1:] != [math.inf]:
            raise ValueError(f"{name}{rest}: buckets {one['buckets']}")
        if counts[-1] != one["_count"] or "_sum" not in one:
            raise ValueError(f"{name}{rest}: +Inf is {counts[-1]}, _count {one.get('_count')}")


def hold_against(families, rows):
    """Every family is on the list, of its kind, with its labels and no more series than it may have."""
    kinds = {"COUNTER": "counter", "GAUGE": "gauge", "LONG": "histogram", "SHORT": "histogram"}
    for name, family in families.items():
        row = rows.get(name)
        if not row:
            raise ValueError(f"{name} is not on the list (proto/base/include/base/metric_list.h)")
        if kinds[row["kind"]] != family["type"] or row["help"] != family["help"]:
            raise ValueError(f"{name}: {family['type']} {family['help']!r}, the list has {row}")
        series = set()
        for _, labels, _ in family["samples"]:
            keys = [key for key in labels if key != "le"]
            if keys != row["labels"]:
                raise ValueError(f"{name} has the labels {keys}, the list {row['labels']}")
            series.add(tuple(labels[key] for key in keys))
        if len(series) > row["max"]:
            raise ValueError(f"{name} has {len(series)} series, allowed {row['max']}")


def promtool(kind, text_or_path):
    """Prometheus' own checker, where it is installed: None, or what it says."""
    arguments = ["promtool", "check", kind] + ([] if kind == "metrics" else [str(text_or_path)])
    data = text_or_path.encode() if kind == "metrics" else None
    try:
        done = subprocess.run(arguments, input=data, capture_output=True, timeout=60)
    except FileNotFoundError:
        return None
    # Its advice on names ("use base unit …") is status 3 and not about the format.
    return None if done.returncode in (0, 3) else (done.stdout + done.stderr).decode()
