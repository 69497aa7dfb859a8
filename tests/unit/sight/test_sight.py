#!/usr/bin/env python3
"""A coordinator alone: its metrics read strictly, the page, health in three answers, generated files.

Usage: test_sight.py COORDINATOR SOURCE_TREE SIM_REPLAY"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

sys.dont_write_bytecode = True
PROGRAM, TREE, REPLAY = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
sys.path[:0] = [str(TREE / "ops"), str(Path(__file__).parent)]
import exposition  # noqa: E402
import metrics  # noqa: E402


class Coordinator:
    def __init__(self, *more):
        self.folder = tempfile.TemporaryDirectory()
        self.log = open(os.path.join(self.folder.name, "log"), "wb")
        self.child = subprocess.Popen(
            [PROGRAM, "--state-dir", self.folder.name, "--http", "127.0.0.1:0", "--client-plane",
             "tcp://127.0.0.1:0", "--worker-plane", "tcp://127.0.0.1:0", *more],
            stdout=subprocess.PIPE, stderr=self.log)
        self.http = None
        for line in self.child.stdout:
            if line.startswith(b"http "):
                self.http = line.split()[1].decode()
            if line.startswith(b"ready"):
                break

    def get(self, path, **headers):
        request = urllib.request.Request(f"http://{self.http}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=10) as reply:
                return reply.status, reply.read().decode(), reply.headers
        except urllib.error.HTTPError as problem:
            return problem.code, problem.read().decode(), problem.headers

    def text(self):
        return Path(self.log.name).read_text()

    def stop(self):
        self.child.terminate()
        status = self.child.wait(20)
        self.child.stdout.close()
        self.log.close()
        self.folder.cleanup()
        return status


class Reader(unittest.TestCase):
    """The reader itself refuses what is wrong."""
    GOOD = "# HELP a_total A.\n# TYPE a_total counter\na_total{x=\"1\",y=\"\\\"\"} 1e+06\na_total{x=\"2\",y=\"\"} NaN\n"

    def test_good(self):
        with self.assertRaisesRegex(ValueError, "below 0"):  # a counter that is no number
            exposition.parse(self.GOOD)
        families = exposition.parse(self.GOOD.replace("NaN", "0"))
        self.assertEqual(families["a_total"]["samples"][0], ("a_total", {"x": "1", "y": '"'}, 1e6))

    def test_bad(self):
        for text in ("a 1\n", "# HELP a A.\n# TYPE a gauge\na 1", "# HELP a A.\n# TYPE a gauge\na 1\na 2\n",
                     "# HELP a A.\n# TYPE a gauge\na{x=\"1\",} 1\n", "# HELP a A.\n# TYPE a gauge\na{x=1} 1\n",
                     "# HELP a A.\n# TYPE a counter\na 1\n", "# HELP a A.\n# TYPE a gauge\na 0x1\n",
                     "# HELP a A.\n# TYPE a gauge\n# HELP b B.\n# TYPE b gauge\nb 1\n",
                     "# HELP a A.\n# TYPE a histogram\na_bucket{le=\"1\"} 2\na_bucket{le=\"+Inf\"} 1\na_sum 1\na_count 1\n",
                     "# HELP a A.\n# TYPE a histogram\na_bucket{le=\"1\"} 1\na_sum 1\na_count 1\n"):
            with self.assertRaises(ValueError, msg=text):
                exposition.parse(text)


class Alone(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.coordinator = Coordinator()

    @classmethod
    def tearDownClass(cls):
        assert cls.coordinator.stop() == 0

    def test_metrics(self):
        self.coordinator.get("/v1/models")
        self.coordinator.get("/nowhere")
        status, text, headers = self.coordinator.get("/metrics")
        self.assertEqual((status, headers["Content-Type"]), (200, "text/plain; version=0.0.4; charset=utf-8"))
        families = exposition.parse(text)
        rows = metrics.read_list()
        exposition.hold_against(families, rows)
        self.assertIsNone(exposition.promtool("metrics", text))
        # What is there without a worker: all but what belongs to groups, classes, guards and a launcher.
        later = {"CLASSES", "GROUPS", "FLEET"}
        missing = {n for n, r in rows.items() if n not in families and r["panel"] not in later}
        self.assertEqual(missing, {"lacuna_metrics_overflow_total", "lacuna_path_request_seconds",
                                   "lacuna_path_itl_seconds", "lacuna_guard_evidence", "lacuna_guard_trips_total",
                                   "lacuna_guard_scores_total", "lacuna_group_reruns_total",
                                   "lacuna_http_disconnects_total", "lacuna_tls_handshakes_total",
                                   "lacuna_tls_certificate_expires_seconds"} & missing)

    def test_health(self):
        self.assertEqual(self.coordinator.get("/livez")[0], 200)
        self.assertEqual(self.coordinator.get("/readyz")[0], 503)
        status, text, _ = self.coordinator.get("/healthz")
        answer = json.loads(text)
        self.assertEqual((status, answer["live"], answer["ready"], answer["well"]), (503, True, False, False))
        self.assertEqual([c["check"] for c in answer["causes"]], ["ready"])
        self.assertEqual(answer["causes"][0]["cause"], "no_group")

    def test_state(self):
        status, text, headers = self.coordinator.get("/live.json")
        state = json.loads(text)
        self.assertEqual((status, headers["Cache-Control"]), (200, "no-store"))
        self.assertEqual((state["groups"], state["decided"]), ([], []))
        by_name = {check["name"]: check for check in state["checks"]}
        self.assertEqual(set(by_name) & {"ecr", "pes", "psr", "skip_rate", "skipped_layers"},
                         {"ecr", "pes", "psr", "skip_rate", "skipped_layers"})
        self.assertIsNone(by_name["ecr"]["value"])
        self.assertTrue(by_name["ecr"]["good"])
        self.assertEqual(self.coordinator.get("/live.json", Host="elsewhere.example")[0], 403)

    def test_page(self):
        status, text, headers = self.coordinator.get("/")
        self.assertEqual(status, 200)
        self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
        self.assertEqual(text, (TREE / "coordinator/frontend/live.html").read_text())


class Crash(unittest.TestCase):
    """A coordinator that dies leaves a recording that gives the same actions again."""

    def crash(self, number):
        coordinator = Coordinator()
        try:
            coordinator.get("/v1/models")
            coordinator.child.send_signal(number)
            self.assertEqual(coordinator.child.wait(20), -number)
            path = Path(coordinator.folder.name) / "flight.crash"
            self.assertEqual(path.stat().st_mode & 0o777, 0o600)
            done = subprocess.run([REPLAY, str(path)], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("gave the same actions", done.stdout)
        finally:
            coordinator.child.stdout.close()
            coordinator.log.close()
            coordinator.folder.cleanup()

    def test_invalid_access(self):
        self.crash(signal.SIGSEGV)

    def test_assertion(self):
        self.crash(signal.SIGABRT)


class Generated(unittest.TestCase):
    """The alert rules and the dashboard are what the list makes of them."""

    def test_up_to_date(self):
        done = subprocess.run([sys.executable, "-B", str(TREE / "ops/metrics.py"), "--check"], capture_output=True)
        self.assertEqual((done.returncode, done.stderr.decode()), (0, ""))

    def test_dashboard(self):
        rows = metrics.read_list()
        board = json.loads(metrics.DASHBOARD.read_text())
        panels = [p for row in board["panels"] for p in [row] + row.get("panels", [])]
        drawn = {name for panel in panels for target in panel.get("targets", [])
                 for name in metrics.metrics_of(target["expr"])}
        self.assertEqual(drawn, set(rows))
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))

    def test_rules(self):
        text = metrics.RULES.read_text()
        for name in ("LacunaEcrLow", "LacunaPesLow", "LacunaPsrLow", "LacunaSkipRateMoved",
                     "LacunaSkippedLayersMoved"):
            self.assertIn(f"- alert: {name}\n", text)
        self.assertIn("lacuna_path_ecr < 0.95)", text)
        self.assertIn("lacuna_path_pes < 0.85)", text)
        self.assertIn("lacuna_path_psr < 0.992)", text)
        self.assertIsNone(exposition.promtool("rules", metrics.RULES))

    def test_unknown_metrics_are_found(self):
        self.assertEqual(metrics.metrics_of('rate(lacuna_nope_bucket{x="lacuna_other"}[5m])'), ["lacuna_nope"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
