"""`lacuna path explain` against a real coordinator, which needs no worker for it.

usage: test_path.py LACUNA LACUNA_COORDINATOR HOOKS"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

LACUNA, COORDINATOR, HOOKS = sys.argv[1:4]
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

    def test_labels(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "set.jsonl")
            lines = [{"id": "a", "text": LOG, "kept": 1}, {"id": "b", "messages": [
                {"role": "system", "content": LOG * 9}, {"role": "user", "content": "x"}, {"role": "user", "content": PROSE}]}]
            with open(path, "w") as f:
                f.writelines(json.dumps(x) + "\n" for x in lines)
            result = self.explain("label", "--input", path)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            with open(path + ".paths") as f:
                labels = [json.loads(x) for x in f]
            self.assertEqual(labels, [{"id": "a", "type": "structured", "class": "full", "status": "full"},
                                      {"id": "b", "type": "unstructured", "class": "full", "status": "full"}])
            self.assertEqual(self.explain("label", "--input", path, "--check").returncode, 0)
            with open(path, "w") as f:
                f.writelines(json.dumps(x) + "\n" for x in [{"id": "a", "text": PROSE}, lines[1], {"id": "c", "text": LOG}])
            result = self.explain("label", "--input", path, "--check")
            self.assertEqual(result.returncode, 1, result)
            self.assertIn("line 1: was {", result.stdout)
            self.assertIn("line 3: was not labelled", result.stdout)
            self.assertIn("2 labels of", result.stderr)
            self.assertEqual(sorted(os.listdir(folder)), ["set.jsonl", "set.jsonl.paths"])
            with open(path, "w") as f:
                f.write('{"id": "a"}\n')
            result = self.explain("label", "--input", path)
            self.assertEqual((result.returncode, result.stderr.count("\n")), (1, 1), result)
            self.assertIn("line 1", result.stderr)
            self.assertEqual(sorted(os.listdir(folder)), ["set.jsonl", "set.jsonl.paths"])
            self.assertEqual(self.explain("label", "--input", path + "no").returncode, 1)

    def test_the_commit_hook(self):
        hook = os.path.join(HOOKS, "pre-commit")
        with tempfile.TemporaryDirectory() as folder:
            def git(*args, code=0):
                done = subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e@x", *args], cwd=folder, env=env,
                                      capture_output=True, text=True)
                self.assertEqual(done.returncode, code, done)
                return done.stdout + done.stderr
            env = dict(os.environ, LACUNA_CONNECT=self.endpoint, LACUNA=LACUNA)
            git("init", "-q")
            os.symlink(hook, os.path.join(folder, ".git/hooks/pre-commit"))
            path = os.path.join(folder, "set.jsonl")
            with open(path, "w") as f:
                f.write(json.dumps({"id": "a", "text": LOG}) + "\n")
            self.assertEqual(self.explain("label", "--input", path).returncode, 0)
            git("add", ".")
            git("commit", "-qm", "labelled")
            with open(path, "w") as f:
                f.write(json.dumps({"id": "a", "text": PROSE}) + "\n")
            git("add", ".")
            self.assertIn("changed", git("commit", "-qm", "another path", code=1))
            with open(os.path.join(folder, "other.txt"), "w") as f:
                f.write("x")
            git("reset", "-q", "set.jsonl")
            git("add", "other.txt")
            git("commit", "-qm", "nothing labelled")

    def test_an_unknown_request(self):
        result = self.explain("explain", "--request", "0x123")
        self.assertEqual(result.returncode, 0, result)
        self.assertIn("not among the last 1024 requests", result.stdout)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=1)
