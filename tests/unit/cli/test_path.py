"""`lacuna path explain` against a real coordinator, which needs no worker for it.

usage: test_path.py LACUNA LACUNA_COORDINATOR"""

import json
import re
import subprocess
import sys
import tempfile
import unittest

LACUNA, COORDINATOR = sys.argv[1:3]
LOG = "2025-03-04 10:00:01 INFO [gate] request 4711 took 12 ms\n" * 5
PROSE = "Nobody knew why the old bridge had been closed, although everyone had an opinion about it."


class Path(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.state = tempfile.TemporaryDirectory()
        cls.process = subprocess.Popen(
            [COORDINATOR, "--http", "off", "--client-plane", "tcp://127.0.0.1:*", "--worker-plane", "tcp://127.0.0.1:*",
             "--state-dir", cls.state.name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        lines = []
        while not lines or "ready" not in lines[-1]:
            lines.append(cls.process.stdout.readline())
            assert lines[-1], lines
        cls.endpoint = next(re.search(r"tcp://\S+", line).group() for line in lines if "client" in line)

    @classmethod
    def tearDownClass(cls):
        cls.process.terminate()
        assert cls.process.wait(20) == 0
        cls.process.stdout.close()
        cls.state.cleanup()

    def explain(self, *args, stdin=""):
        return subprocess.run([LACUNA, "--connect", self.endpoint, "path", *args], input=stdin, capture_output=True, text=True, timeout=60)

    def json_of(self, text):
        result = self.explain("explain", "--json", "-", stdin=text)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return json.loads(result.stdout)

    def test_types(self):
        code = "int f(int n)\n{\n    return n * (n - 1);\n}\n"
        for text, kind in ((LOG, "structured"), (PROSE, "unstructured"), (code, "code"), (PROSE * 4 + "\n\n" + LOG, "hybrid")):
            answer = self.json_of(text)
            self.assertEqual(answer["type"], kind)
            self.assertEqual((answer["class"], answer["class_reason"]), ("full", "no plan is loaded"))
        self.assertEqual(self.json_of(LOG)["features"]["log"], 1000)

    def test_urgency_changes_nothing(self):
        plain, urgent = self.json_of(PROSE), self.json_of("URGENT! Please hurry: " + PROSE + " Thanks!")
        self.assertEqual(plain, urgent)
        self.assertNotEqual(plain["fingerprint"], self.json_of("Summarize: " + PROSE)["fingerprint"])

    def test_table(self):
        result = self.explain("explain", "Summarize this: " + PROSE)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("type         unstructured (data 0 <= ", result.stdout)
        self.assertIn("task         summarize\n", result.stdout)
        self.assertIn("class        full: no plan is loaded\n", result.stdout)
        self.assertRegex(result.stdout, r"fingerprint  [0-9a-f]{64}\n")

    def test_wrong_use(self):
        for args in ((), ("explain",), ("force",), ("explain", ""), ("explain", "--request", "x"),
                     ("explain", "--request", "1", "text")):
            result = self.explain(*args)
            self.assertEqual(result.returncode, 2, result)
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)

    def test_force_needs_a_server_that_allows_it(self):
        result = self.explain("force", "full")
        self.assertEqual(result.returncode, 1, result)
        self.assertIn("--allow-force", result.stderr)

    def test_an_unknown_request(self):
        result = self.explain("explain", "--request", "0x123")
        self.assertEqual(result.returncode, 0, result)
        self.assertIn("not among the last 1024 requests", result.stdout)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=1)
