"""What can be seen of a running cluster: metrics of groups, classes and paths by the strict reader,
checks and decisions, a flight recording that gives the same actions again, logs without a prompt.

The live page in a headless Chromium, where one is installed: test_live_page.py."""
import json
import os
import re
import signal
import shutil
import subprocess
import sys
import tempfile

TREE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(TREE, "ops"), os.path.join(TREE, "tests/unit/sight")]
import exposition  # noqa: E402
import metrics  # noqa: E402
from cluster import Cluster, chat, main, wait_for  # noqa: E402
from plan import write_plan  # noqa: E402

SECRET = "Xyzzyplugh"
LOG = "\n".join(f"2024-05-{d:02d} 12:00:0{d % 10} INFO service[{d}]: request {SECRET} took {d * 7} ms status=200"
                for d in range(1, 20))


def families(c):
    status, text = c.get("/metrics")
    assert status == 200, status
    read = exposition.parse(text)
    exposition.hold_against(read, metrics.read_list())
    problem = exposition.promtool("metrics", text)
    assert problem is None, problem
    return read


def value(read, name, **labels):
    found = [v for n, own, v in read[name]["samples"] if n == name and all(own[k] == x for k, x in labels.items())]
    assert len(found) == 1, (name, labels, found)
    return found[0]


def check_metrics(c):
    read = families(c)
    assert value(read, "lacuna_class_requests_total", **{"class": "logs"}) >= 2
    assert 0 < value(read, "lacuna_class_skip_rate", **{"class": "logs"}) < 1
    assert value(read, "lacuna_group_slots", group="w0") > 0
    assert value(read, "lacuna_path_chosen_total") >= 2
    assert value(read, "lacuna_path_served_total") == value(read, "lacuna_path_chosen_total")
    assert value(read, "lacuna_recorded_events_total") > 10
    for name in ("lacuna_ttft_seconds", "lacuna_itl_seconds", "lacuna_request_seconds", "lacuna_path_request_seconds"):
        assert any(n == name + "_count" and v > 0 for n, _, v in read[name]["samples"]), name


def check_status(c):
    state = c.status()
    live = json.loads(c.get("/live.json")[1])
    assert set(state) == set(live), (set(state), set(live))
    by_class = {d["class"] for d in live["decided"]}
    assert {"logs", "full"} <= by_class, live["decided"]
    masked = next(d for d in live["decided"] if d["class"] == "logs")
    assert masked["type"] == "structured" and masked["group"] == "w0" and "certified" in masked["why"], masked
    told = c.run("lacuna", "--connect", c.client_plane, "path", "explain", "--request", masked["request"])
    assert masked["why"] in told, told
    assert json.loads(c.get("/healthz")[1])["ready"]


def check_recording(c):
    c.coordinator.signal(signal.SIGUSR1)
    path = os.path.join(c.folder, "state/flight-0.dump")
    wait_for(lambda: os.path.exists(path) and "flight recording written" in c.coordinator.text(), 10, path)
    assert os.stat(path).st_mode & 0o777 == 0o600
    data = open(path, "rb").read()
    assert SECRET.encode() not in data and b"capital of France" not in data
    replay = os.path.join(os.environ["LACUNA_BIN"], "../tests/sim_replay")
    done = subprocess.run([replay, path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "gave the same actions" in done.stdout, (done.returncode, done.stdout[-500:])


def see():
    folder = tempfile.mkdtemp(prefix="lacuna-plan-")
    try:
        plan = write_plan(folder, [("logs", "A7,A25", {"structured": ("standard", 0.012, 0.029)})])
        with Cluster(workers=1, coordinator_arguments=["--log-level", "trace", "--log-json"],
                     worker_arguments=["--plan", plan, "--log-level", "trace"]) as c:
            for _ in range(2):
                c.answer(chat(f"Summarise this log.\n{LOG}", max_tokens=12))
            c.answer(chat("What is the capital of France?", max_tokens=12))
            check_metrics(c)
            check_status(c)
            check_recording(c)
            check_logs(c)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def check_logs(c):
    """JSON lines with an event each; no prompt in any of them, nor in the workers'."""
    for line in c.coordinator.text().splitlines():
        entry = json.loads(line)
        assert entry["level"] in ("error", "warn", "info", "debug", "trace"), entry
        assert re.fullmatch(r"[a-z0-9-]{1,48}", entry["event"]), entry
    for process in c.processes:
        text = process.text()
        assert SECRET not in text and "capital of France" not in text, process.name


main(see)
