"""`lacuna` as people use it: answers, options, exit codes, errors that name the cure, Ctrl-C, a terminal.

usage: test_cli.py LACUNA FAKE_COORDINATOR"""

import hashlib
import json
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

LACUNA, FAKE = sys.argv[1:3]
# Port 1 is privileged and, on a machine that runs tests, unused.
NOBODY = "tcp://127.0.0.1:1"


class Cli(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fake = subprocess.Popen([FAKE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        cls.endpoint = cls.fake.stdout.readline().strip()

    @classmethod
    def tearDownClass(cls):
        cls.fake.stdin.close()
        cls.fake.stdout.close()
        assert cls.fake.wait(10) == 0

    def run_lacuna(self, *args, stdin="", connect=True, env=None):
        head = [LACUNA, "--connect", self.endpoint] if connect else [LACUNA]
        return subprocess.run(
            [*head, *args],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, **(env or {})},
        )

    def expect(self, result, code, out=None, err=None):
        self.assertEqual(result.returncode, code, result)
        if out is not None:
            self.assertEqual(result.stdout, out)
        if err is not None:
            self.assertIn(err, result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        else:
            self.assertEqual(result.stderr, "")

    # ---- submit

    def test_answer(self):
        self.expect(self.run_lacuna("submit", "hello"), 0, "You said: hello\n")
        self.expect(self.run_lacuna("submit", "-", stdin="two\nlines\n"), 0, "You said: two\nlines\n")
        self.expect(self.run_lacuna("submit", "--raw", "params"), 0,
                    "model= max=0 temp=1 top_p=1 top_k=0 raw\n")
        long = self.run_lacuna("submit", "count 2000")
        self.expect(long, 0, "".join(f"{i} " for i in range(2000)) + "\n")

    def test_options_reach_the_server(self):
        r = self.run_lacuna("submit", "--model", "m", "--max-tokens=9", "--temp", "0", "--top-p", "0.5",
                            "params", "--top-k", "3", "--seed", "4", "--stop", "A", "--stop", "B b",
                            "--system", "s")
        self.expect(r, 0, "model=m max=9 temp=0 top_p=0.5 top_k=3 seed=4 stop=A stop=B b system user\n")
        self.expect(self.run_lacuna("submit", "--", "--odd"), 0, "You said: --odd\n")

    def test_json(self):
        r = self.run_lacuna("submit", "--json", "say \"hi\" ☃")
        self.expect(r, 0)
        self.assertEqual(json.loads(r.stdout), {
            "text": "You said: say \"hi\" ☃", "tokens": [0, 1, 2], "finish": "stop",
            "usage": {"prompt_tokens": 3, "completion_tokens": 3, "cached_tokens": 2}})

    def test_address(self):
        env = {"LACUNA_CONNECT": self.endpoint}
        self.expect(self.run_lacuna("submit", "x", connect=False, env=env), 0, "You said: x\n")
        env = {"LACUNA_CONNECT": NOBODY}
        self.expect(self.run_lacuna("submit", "x", "--connect", self.endpoint, connect=False, env=env),
                    0, "You said: x\n")
        r = self.run_lacuna("--connect", NOBODY, "submit", "x", connect=False)
        self.expect(r, 4, "", f"no coordinator at {NOBODY}: start one with lacuna-coordinator")
        r = self.run_lacuna("--connect", "7070", "submit", "x", connect=False)
        self.expect(r, 2, "", "tcp://HOST:PORT")

    def test_server_errors(self):
        self.expect(self.run_lacuna("submit", "busy"), 3, "", "256 requests wait, allowed: 256: try again in 1.5 s")
        self.expect(self.run_lacuna("submit", "invalid"), 2, "", "temperature is 9")
        self.expect(self.run_lacuna("submit", "nobody"), 1, "", "no worker serves m")
        self.expect(self.run_lacuna("submit", "gap"), 1, "a\n", "position 5")

    def test_wrong_use(self):
        for args, word in [
            (["submit"], "no prompt"),
            (["submit", "a", "b"], "'b' is one word too many"),
            (["submit", "--tempo", "1", "x"], "--tempo is unknown"),
            (["submit", "x", "--temp"], "--temp has no value"),
            (["submit", "--temp", "3", "x"], "--temp is '3', allowed: a number from 0 to 2"),
            (["submit", "--temp", "nan", "x"], "--temp is 'nan'"),
            (["submit", "--top-k", "1.5", "x"], "--top-k is '1.5', allowed: a whole number"),
            (["submit", "--raw", "--system", "s", "x"], "--system"),
            (["submit", "--json=1", "x"], "--json takes no value"),
            (["fly"], "'fly' is unknown"),
            (["--verbose", "status"], "--verbose is unknown"),
        ]:
            with self.subTest(args=args):
                self.expect(self.run_lacuna(*args), 2, "", word)
        self.expect(self.run_lacuna("submit", "--raw", "-", stdin="a\0b"), 2, "", "NUL byte")
        stops = [x for i in range(5) for x in ("--stop", str(i))]
        self.expect(self.run_lacuna("submit", *stops, "x"), 2, "", "stops_count is 5")

    def test_help(self):
        r = self.run_lacuna("--help", connect=False)
        self.expect(r, 0)
        for word in ("submit", "chat", "status", "LACUNA_CONNECT", "exit status", "130"):
            self.assertIn(word, r.stdout)
        for command in ("submit", "chat", "status"):
            r = self.run_lacuna(command, "--help", connect=False)
            self.expect(r, 0)
            self.assertIn(f"usage: lacuna [--connect tcp://HOST:PORT] {command}", r.stdout)
        self.assertIn("--max-tokens N", self.run_lacuna("submit", "--help").stdout)
        self.assertEqual(self.run_lacuna(connect=False).returncode, 2)
        self.assertRegex(self.run_lacuna("--version").stdout, r"^lacuna \d+\.\d+\.\d+\n$")

    def test_interrupt(self):
        p = subprocess.Popen([LACUNA, "--connect", self.endpoint, "submit", "wait"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(0.5)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=10)
        self.assertEqual((p.returncode, out.strip(), err), (130, b"", b""))

    def test_closed_pipe(self):
        p = subprocess.Popen([LACUNA, "--connect", self.endpoint, "submit", "count 100000"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        p.stdout.read(100)
        p.stdout.close()
        self.assertEqual(p.wait(20), 1)
        self.assertIn(b"cannot be written", p.stderr.read())
        p.stderr.close()

    # ---- status

    def test_status(self):
        r = self.run_lacuna("status")
        self.expect(r, 0)
        lines = r.stdout.splitlines()
        self.assertEqual(lines[0], "coordinator 0.1.0, epoch 3, up 1:02:03, http 127.0.0.1:8080")
        self.assertEqual(lines[3].split(), "GROUP STATE MODEL ISA RUNNING QUEUED KV ITL ms TOK/S BEAT".split())
        self.assertEqual(lines[4].split(), "g0 READY SmolLM2-135M-Instruct avx512-vnni 3/16 0 25% 8.0 0.0 0.1 s".split())
        self.assertEqual(lines[5].split(), "g1 DEAD - - 0/0 0 0% 0.0 0.0 61.0 s".split())
        r = self.run_lacuna("status", "--json")
        self.expect(r, 0)
        rank = json.loads(r.stdout)["groups"][0]["ranks"][0]
        self.assertEqual((rank["rank"], rank["pid"], rank["active_layers"]), (0, 4711, 30))
        self.expect(self.run_lacuna("--connect", NOBODY, "status", connect=False), 4, "", "start one with")

    def test_top(self):
        r = self.run_lacuna("top", "--every", "0.1", "--count", "2")
        self.expect(r, 0)
        self.assertEqual(r.stdout.count("GROUP"), 2)
        self.assertNotIn("\033", r.stdout)
        self.expect(self.run_lacuna("--connect", NOBODY, "top", connect=False), 4, "", "start one with")
        pid, fd = pty.fork()
        if pid == 0:
            os.execv(LACUNA, [LACUNA, "--connect", self.endpoint, "top", "--every", "0.1"])
        seen, end = b"", time.time() + 20
        while seen.count(b"q ends") < 2:
            self.assertTrue(select.select([fd], [], [], max(0, end - time.time()))[0], seen)
            seen += os.read(fd, 4096)
        self.assertIn(b"\033[?1049h", seen)
        os.write(fd, b"q")
        rest = b""
        try:
            while piece := os.read(fd, 4096):
                rest += piece
        except OSError:
            pass  # its end
        self.assertIn(b"\033[?1049l", rest)  # the screen before is back
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        os.close(fd)

    # ---- orders and keys

    def test_orders_are_checked_here(self):
        for words, says in (
            (["scale"], "expected N or MIN:MAX"),
            (["scale", "-1"], "'-1'"),
            (["scale", "4:2"], "'4:2'"),
            (["scale", "257"], "'257'"),
            (["scale", "2x"], "'2x'"),
            (["drain"], "expected the name of one group"),
            (["drain", "g0", "--deadline", "0"], "deadline"),
            (["keys"], "allowed: new FILE, api NAME"),
        ):
            r = self.run_lacuna(*words)
            self.assertEqual(r.returncode, 2, r)
            self.assertIn(says, r.stderr)

    def test_keys(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.key")
            self.expect(self.run_lacuna("keys", "new", path, connect=False), 0)
            self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
            with open(path + ".pub") as f:
                self.assertEqual(len(f.read().split()[1]), 40)
            r = self.run_lacuna("keys", "new", path, connect=False)
            self.assertEqual(r.returncode, 1)
            self.assertIn("never replaced", r.stderr)
            r = self.run_lacuna("keys", "api", "kim", connect=False)
            key, line = r.stdout.strip(), r.stderr.splitlines()[-1]
            self.assertEqual(line, "kim " + hashlib.sha256(key.encode()).hexdigest())
            r = self.run_lacuna("--key", path, "status")
            self.assertEqual(r.returncode, 2, r)
            self.assertIn("keys need both", r.stderr)

    # ---- chat

    def test_chat_from_a_pipe(self):
        r = self.run_lacuna("chat", stdin="one\n\nparams\n/system be brief\nparams\n/reset\nparams\n/exit\nnever\n")
        self.assertEqual(r.returncode, 0, r)
        base = "model= max=0 temp=1 top_p=1 top_k=0"
        self.assertEqual(r.stdout.splitlines(), [
            "You said: one",
            f"{base} user assistant user",
            f"{base} system user assistant user assistant user",
            f"{base} system user"])
        r = self.run_lacuna("chat", stdin="hi\nbusy\n")
        self.assertEqual((r.returncode, r.stdout), (3, "You said: hi\n"))
        r = self.run_lacuna("chat", "--temp", "0", stdin="busy\nparams\n/what\n")
        self.assertEqual((r.returncode, r.stdout), (0, "model= max=0 temp=0 top_p=1 top_k=0 user\n"))
        self.assertIn("/what is no command", r.stderr)

    def test_chat_on_a_terminal(self):
        pid, fd = pty.fork()
        if pid == 0:
            os.environ.update(TERM="dumb", LC_ALL="C.UTF-8")
            os.execv(LACUNA, [LACUNA, "--connect", self.endpoint, "chat"])
        seen = b""

        def until(word, timeout=10):
            nonlocal seen
            end = time.time() + timeout
            while word not in seen:
                ready, _, _ = select.select([fd], [], [], max(0, end - time.time()))
                self.assertTrue(ready, f"{word} did not come: {seen}")
                try:
                    seen += os.read(fd, 4096)
                except OSError:
                    self.fail(f"it ended before {word}: {seen}")
            seen = seen.split(word, 1)[1]

        until(b"> ")
        os.write(fd, b"hellp\x7fo\n")  # a typing error and its mending
        until(b"You said: hello")
        until(b"> ")
        os.write(fd, b"wait\n")
        time.sleep(0.5)
        os.write(fd, b"\x03")  # stops the answer, not the program
        until(b"> ")
        os.write(fd, b"\x1b[A\x1b[A\n")  # two lines up in the history
        until(b"You said: hello")
        until(b"> ")
        os.write(fd, b"half a line\x03")
        until(b"> ")
        os.write(fd, b"still here\n")
        until(b"You said: still here")
        until(b"> ")
        os.write(fd, "na\u00efve \u8a9e\n".encode())
        until("You said: na\u00efve \u8a9e".encode())
        until(b"> ")
        os.write(fd, b"/exit\n")
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        os.close(fd)


unittest.main(argv=sys.argv[:1])
