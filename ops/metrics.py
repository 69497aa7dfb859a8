#!/usr/bin/env python3
"""Writes what Prometheus and Grafana read, from the list of metrics and the limits of the health checks.

  ops/metrics.py            writes ops/prometheus/lacuna.rules.yml and ops/grafana/lacuna.json anew
  ops/metrics.py --check    writes nothing; status 1 when one of them is not what it should be

The list is proto/base/include/base/metric_list.h, the limits are in coordinator/core/health.h. An alert
or a panel that names a metric which is not on the list is an error.
"""
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "proto/base/include/base/metric_list.h"
LIMITS = ROOT / "coordinator/core/health.h"
RULES = ROOT / "ops/prometheus/lacuna.rules.yml"
DASHBOARD = ROOT / "ops/grafana/lacuna.json"

ROW = re.compile(r'^X\((\w+), (COUNTER|GAUGE|LONG|SHORT), "(\w+)", "([\w,]*)", (\d+), (\w+), "(.*)"\)( \\)?$')


def read_list():
    """The rows of the list, by the metric's name."""
    rows = {}
    for number, line in enumerate(LIST.read_text().splitlines(), 1):
        if not line.startswith("X("):
            continue
        match = ROW.match(line)
        if not match:
            sys.exit(f"{LIST}:{number}: this is no row of the list")
        ident, kind, name, labels, most, panel, text = match.groups()[:7]
        rows[name] = {"id": ident, "kind": kind, "name": name, "labels": labels.split(",") if labels else [],
                      "max": int(most), "panel": panel, "help": text}
    return rows


def limits():
    return {name.lower(): float(value)
            for name, value in re.findall(r"#define LAC__(ECR|PES|PSR)_MIN ([\d.]+)", LIMITS.read_text())}


def metrics_of(expression):
    """The metrics an expression names, the suffixes of histograms taken off."""
    return [re.sub(r"_(bucket|sum|count)$", "", name)
            for name in re.findall(r"\b(?:lacuna|process)_\w+", re.sub(r'"[^"]*"', "", expression))]


# ---- alerts

def promise(name, limit, what):
    metric, short = f"lacuna_path_{name}", name.upper()
    return {
        "alert": f"Lacuna{short.capitalize()}Low",
        "expr": f'({metric} < {limit:g}) * on (instance) group_right () lacuna_check_cause{{check="{name}"}}',
        "for": "5m", "severity": "warning",
        "summary": f"{short} is {{{{ $value }}}}, expected at least {limit:g}",
        "description": f"{what} The largest part is due to: {{{{ $labels.cause }}}}.",
    }


def band(check, what):
    return {
        "alert": "Lacuna" + "".join(word.capitalize() for word in check.split("_")) + "Moved",
        "expr": f'lacuna_check_cause{{check="{check}"}} == 1',
        "for": "5m", "severity": "warning",
        "summary": f"{what} left its band",
        "description": "Types of input that changed: {{ range query \"lacuna_path_type_changed == 1\" }}"
                       "{{ .Labels.type }} {{ end }}(most of it: {{ $labels.cause }}).",
    }


def simple(name, expression, duration, severity, summary, description):
    return {"alert": name, "expr": expression, "for": duration, "severity": severity, "summary": summary,
            "description": description}


def alerts():
    low = limits()
    return [
        simple("LacunaGone", "absent(lacuna_uptime_seconds)", "1m", "critical", "no coordinator answers",
               "Nothing was scraped for a minute."),
        simple("LacunaNotReady", 'lacuna_check{check="ready"} == 0', "1m", "critical", "no group is READY",
               "Requests wait, and are refused after 30 s. `lacuna status` shows the groups there are."),
        promise("ecr", low["ecr"], "Requests leave out less than their classes promise."),
        promise("pes", low["pes"], "Leaving parts out saves less time than predicted."),
        promise("psr", low["psr"], "Requests do not end under the class that was chosen for them."),
        band("skip_rate", "the share of requests that run as a class"),
        band("skipped_layers", "the mean number of layers left out"),
        simple("LacunaRefusing", 'lacuna_check{check="refused_share"} == 0', "2m", "warning",
               "more than 5 % of the requests are refused",
               "By reason: {{ range query \"sum by (reason) (rate(lacuna_sheds_total[5m])) > 0\" }}"
               "{{ .Labels.reason }} {{ .Value }}/s {{ end }}"),
        simple("LacunaSlowLoop",
               "histogram_quantile(0.999, sum by (le, instance) (rate(lacuna_loop_lag_seconds_bucket[5m]))) > 0.25",
               "5m", "warning", "the coordinator's loop comes {{ $value }} s late",
               "Its machine is short of time, or a turn of the loop takes too long."),
        simple("LacunaGroupDied",
               'increase(lacuna_group_verdicts_total{event=~"expired|hung|fault"}[10m]) > 0', "0m", "warning",
               "groups were declared dead ({{ $labels.event }})", "Their streams went on elsewhere."),
        simple("LacunaVerdictsFrozen", "lacuna_verdicts_frozen == 1", "30s", "critical",
               "many groups fell silent at once", "None is declared dead: the network or this machine is suspected."),
        simple("LacunaGuardTripped", "increase(lacuna_guard_trips_total[10m]) > 0", "0m", "warning",
               "class {{ $labels.class }} does not keep its certificate for {{ $labels.type }} input",
               "Such requests run in full until the class is certified again."),
        simple("LacunaReruns", "sum by (instance) (rate(lacuna_group_reruns_total[10m])) > 0.01", "10m", "warning",
               "requests are run again in full because their class failed on them", "See the logs of the workers."),
        simple("LacunaMetricsOverflow", "increase(lacuna_metrics_overflow_total[1h]) > 0", "0m", "info",
               "a metric has more series than its bound", "What is beyond is counted by this metric only."),
    ]


def quoted(text):
    return json.dumps(text, ensure_ascii=False)


def rules_text():
    lines = ["# Made by ops/metrics.py: change it there.", "groups:", "  - name: lacuna", "    rules:"]
    for alert in alerts():
        lines += [f"      - alert: {alert['alert']}", f"        expr: {quoted(alert['expr'])}",
                  f"        for: {alert['for']}", "        labels:", f"          severity: {alert['severity']}",
                  "        annotations:", f"          summary: {quoted(alert['summary'])}",
                  f"          description: {quoted(alert['description'])}"]
    return "\n".join(lines) + "\n"


# ---- the dashboard

PANELS = {"SERVING": "Serving", "QUEUE": "Waiting", "PATHS": "Paths through the model", "CLASSES": "Classes",
          "GROUPS": "Groups", "GUARDS": "Guards", "FAULTS": "Faults", "JOBS": "Batch jobs", "FLEET": "Fleet", "HTTP": "HTTP",
          "PROCESS": "The process"}
OPEN = ("SERVING", "QUEUE", "PATHS")
RATIOS = ("lacuna_path_ecr", "lacuna_path_pes", "lacuna_path_psr")


def unit(row):
    name = row["name"]
    if name in RATIOS or name.endswith(("_rate", "_ratio", "_rate_now")):
        return "percentunit"
    if "_bytes" in name:
        return "binBps" if row["kind"] == "COUNTER" else "bytes"
    if name.endswith("_seconds"):
        return "s"
    return "ops" if row["kind"] == "COUNTER" else "short"


def targets(row):
    name, by = row["name"], row["labels"]
    legend = " ".join("{{" + label + "}}" for label in by)
    where = '{instance=~"$instance"}'
    if row["kind"] in ("LONG", "SHORT"):
        keys = ", ".join(["le"] + by)
        return [{"expr": f"histogram_quantile({q:g}, sum by ({keys}) (rate({name}_bucket{where}[$__rate_interval])))",
                 "legendFormat": f"p{q * 100:g} {legend}".strip(), "refId": ref}
                for q, ref in ((0.5, "A"), (0.95, "B"), (0.99, "C"))]
    if row["kind"] == "COUNTER":
        total = f"sum by ({', '.join(by)}) " if by else "sum "
        return [{"expr": f"{total}(rate({name}{where}[$__rate_interval]))", "legendFormat": legend or "all",
                 "refId": "A"}]
    return [{"expr": f"{name}{where}", "legendFormat": legend or "{{instance}}", "refId": "A"}]


def graph(row, number, x, y):
    panel = {
        "id": number, "type": "timeseries", "title": row["help"].split(";")[0].rstrip("."), "description": row["name"],
        "datasource": {"type": "prometheus", "uid": "${source}"}, "gridPos": {"h": 7, "w": 8, "x": x, "y": y},
        "fieldConfig": {"defaults": {"unit": unit(row), "min": 0}, "overrides": []}, "targets": targets(row),
    }
    short = row["name"].rsplit("_", 1)[-1]
    if row["name"] in RATIOS:
        panel["fieldConfig"]["defaults"].update(max=1, thresholds={"mode": "absolute", "steps": [
            {"color": "red", "value": None}, {"color": "green", "value": limits()[short]}]},
            custom={"thresholdsStyle": {"mode": "line"}})
    return panel


def dashboard(rows):
    panels, number, y = [], 1, 0
    for key, title in PANELS.items():
        mine = [row for row in rows.values() if row["panel"] == key]
        head = {"id": number, "type": "row", "title": title, "collapsed": key not in OPEN,
                "gridPos": {"h": 1, "w": 24, "x": 0, "y": y}, "panels": []}
        number, y = number + 1, y + 1
        graphs = []
        for i, row in enumerate(mine):
            graphs.append(graph(row, number, 8 * (i % 3), y + 7 * (i // 3)))
            number += 1
        if key in OPEN:
            panels += [head] + graphs
            y += 7 * ((len(mine) + 2) // 3)
        else:
            head["panels"] = graphs
            panels.append(head)
    variables = [
        {"name": "source", "type": "datasource", "query": "prometheus", "label": "Source"},
        {"name": "instance", "type": "query", "label": "Coordinator", "includeAll": True, "multi": True, "refresh": 2,
         "datasource": {"type": "prometheus", "uid": "${source}"}, "query": "label_values(lacuna_uptime_seconds, instance)"},
    ]
    return {"title": "Lacuna", "uid": "lacuna", "schemaVersion": 36, "version": 1, "editable": True, "refresh": "10s",
            "time": {"from": "now-1h", "to": "now"}, "tags": ["lacuna"], "templating": {"list": variables},
            "panels": panels}


def expressions(rows):
    for alert in alerts():
        yield alert["alert"], alert["expr"]
        for query in re.findall(r'query "([^"]*)"', alert["description"]):
            yield alert["alert"], query
    for row in rows.values():
        for target in targets(row):
            yield row["name"], target["expr"]


def main():
    rows = read_list()
    for place, expression in expressions(rows):
        for name in metrics_of(expression):
            if name not in rows:
                sys.exit(f"{place}: {name} is no metric of the list")
    texts = {RULES: rules_text(), DASHBOARD: json.dumps(dashboard(rows), indent=1, ensure_ascii=False) + "\n"}
    stale = [path for path, text in texts.items() if not path.exists() or path.read_text() != text]
    if sys.argv[1:] == ["--check"]:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is not what ops/metrics.py writes: run it", file=sys.stderr)
        return 1 if stale else 0
    if sys.argv[1:]:
        sys.exit(__doc__)
    for path in stale:
        path.write_text(texts[path])
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
