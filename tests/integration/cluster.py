"""Starts real coordinators and workers for the tests of this folder, watches and stops them.

Nothing here sleeps blindly: every wait polls a condition with a deadline. A test fails when a process
ends badly, stays behind, or logs a warning that the test did not announce."""

import http.client
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.request

SKIP = 77


class Skipped(Exception):
    pass


def cache():
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "lacuna")


def model_file():
    path = os.environ.get("LACUNA_TEST_MODEL") or os.path.join(
        cache(), "SmolLM2-135M-Instruct.Q4_1.gguf")
    if not os.path.isfile(path):
        raise Skipped(f"no model at {path}: set LACUNA_TEST_MODEL or run ops/quickstart once")
    return path


def program(name):
    path = os.path.join(os.environ["LACUNA_BIN"], name)
    if not os.access(path, os.X_OK):
        raise AssertionError(f"{path} is not built")
    return path


def openai_client(cluster, **options):
    try:
        import openai
    except ImportError:
        raise Skipped("the Python package openai is not installed: run this through ops/test")
    options.setdefault("max_retries", 0)
    return openai.OpenAI(base_url=f"http://{cluster.http}/v1", api_key="unused", timeout=120, **options)


def wait_for(condition, seconds, what):
    """Polls until the condition gives something true; returns it."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.02)


class Process:
    def __init__(self, name, arguments, folder, environment=None):
        self.name = name
        self.log_path = os.path.join(folder, name + ".log")
        self.log = open(self.log_path, "wb")
        self.child = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=self.log,
                                      stdin=subprocess.DEVNULL, env=environment)
        self.pid = self.child.pid
        self.expected = 0  # the exit status that is no failure; None = any

    def read_lines_until(self, last, seconds=30):
        """Standard output up to a line that is `last`."""
        text, end = b"", time.monotonic() + seconds
        fd = self.child.stdout.fileno()
        while last.encode() not in text.split(b"\n"):
            ready, _, _ = select.select([fd], [], [], max(0, end - time.monotonic()))
            piece = os.read(fd, 65536) if ready else b""
            if not piece:
                raise AssertionError(f"{self.name} did not print \"{last}\": {text!r}\n{self.tail()}")
            text += piece
        return text.decode().splitlines()

    def alive(self):
        return self.child.poll() is None

    def signal(self, number):
        self.child.send_signal(number)

    def kill(self):
        """As a crash: no clean-up, no exit status to check."""
        self.expected = None
        self.child.kill()
        self.child.wait()

    def wait(self, seconds=20):
        try:
            return self.child.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} (pid {self.pid}) did not end in {seconds} s\n{self.tail()}")

    def text(self):
        self.log.flush()
        with open(self.log_path, errors="replace") as f:
            return f.read()

    def tail(self):
        return "".join(f"    {line}\n" for line in self.text().splitlines()[-15:])

    def close(self):
        if self.alive():
            self.child.kill()
            self.child.wait()
        self.child.stdout.close()
        self.log.close()


class Cluster:
    """with Cluster(workers=2) as c: …"""

    def __init__(self, workers=2, coordinator_arguments=(), worker_arguments=(), warnings=()):
        self.workers_count = workers
        self.coordinator_arguments = list(coordinator_arguments)
        self.worker_arguments = list(worker_arguments)
        self.warnings = list(warnings)  # regular expressions of warnings this test provokes
        self.processes, self.workers = [], []
        self.coordinator = None
        self.started = 0

    # -- life --

    def __enter__(self):
        self.model = model_file() if self.workers_count else None
        self.folder = tempfile.mkdtemp(prefix="lacuna-test-")
        try:
            self.start_coordinator()
            for _ in range(self.workers_count):
                self.start_worker()
            if self.workers_count:
                self.wait_workers(self.workers_count)
        except BaseException:
            self.show_logs()
            self.destroy()
            raise
        return self

    def __exit__(self, kind, value, trace):
        try:
            if kind is None:
                self.stop()
                self.check_logs()
            else:
                self.show_logs()
        finally:
            self.destroy()

    def start_coordinator(self, http="127.0.0.1:0", client="tcp://127.0.0.1:0",
                          worker="tcp://127.0.0.1:0"):
        self.started += 1
        self.coordinator = Process(f"coordinator-{self.started}", [
            program("lacuna-coordinator"), "--http", http, "--client-plane", client, "--worker-plane",
            worker, "--state-dir", os.path.join(self.folder, "state"), *self.coordinator_arguments,
        ], self.folder)
        self.processes.append(self.coordinator)
        lines = self.coordinator.read_lines_until("ready to accept workers")
        said = dict(line.split(" ", 1) for line in lines if " " in line)
        self.http, self.client_plane = said["http"], said["client-plane"]
        self.worker_plane = said["worker-plane"]
        return self.coordinator

    def start_worker(self):
        name = f"w{len(self.workers)}"
        threads = str(max(1, (os.cpu_count() or 2) // 2))
        worker = Process(name, [
            program("lacuna-worker"), "--coordinator", self.worker_plane, "--model",
            model_file(), "--model-name", "smol", "--group", name, "--threads", threads,
            "--ranks-here", "2", "--kv-mem", "256M", "--die-with-parent", *self.worker_arguments,
        ], self.folder)
        self.workers.append(worker)
        self.processes.append(worker)
        return worker

    def wait_workers(self, count, seconds=60):
        def ready():
            for process in self.processes:
                if not process.alive() and process.expected is not None:
                    raise AssertionError(f"{process.name} ended by itself:\n{process.tail()}")
            return self.metric('lacuna_groups{state="ready"}') == count
        wait_for(ready, seconds, f"{count} groups are ready")

    def stop(self):
        """Workers and coordinator end by SIGTERM, cleanly."""
        for process in [*self.workers, self.coordinator]:
            if process.alive():
                process.signal(signal.SIGTERM)
        for process in self.processes:
            status = process.wait(45)
            if process.expected is not None and status != process.expected:
                raise AssertionError(f"{process.name} ended with {status}:\n{process.tail()}")

    def destroy(self):
        for process in self.processes:
            process.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    # -- logs --

    def check_logs(self):
        for process in self.processes:
            for line in process.text().splitlines():
                bad = re.search(r"\b(warn|error|WARN|ERROR)\b|Sanitizer|runtime error", line)
                if bad and not any(re.search(known, line) for known in self.warnings):
                    raise AssertionError(f"unexpected in the log of {process.name}: {line}")

    def show_logs(self):
        for process in self.processes:
            print(f"-- {process.name} (pid {process.pid}):\n{process.tail()}", file=sys.stderr)

    # -- asking --

    def get(self, path):
        """(status, text)"""
        try:
            with urllib.request.urlopen(f"http://{self.http}{path}", timeout=20) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()

    def post(self, path, body, headers=None):
        """(status, headers, object or text) of one POST; `body` is an object or bytes."""
        connection = http.client.HTTPConnection(self.http, timeout=300)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        try:
            connection.request("POST", path, data, headers or {})
            reply = connection.getresponse()
            text = reply.read().decode()
        finally:
            connection.close()
        try:
            return reply.status, reply.headers, json.loads(text)
        except ValueError:
            return reply.status, reply.headers, text

    def answer(self, body):
        """The text of a chat answer."""
        status, _, reply = self.post("/v1/chat/completions", body)
        assert status == 200, (status, reply)
        return reply["choices"][0]["message"]["content"]

    def metric(self, name):
        status, text = self.get("/metrics")
        assert status == 200, status
        for line in text.splitlines():
            if line.startswith(name + " "):
                return float(line.rsplit(" ", 1)[1])
        return None

    def metric_sum(self, name):
        """Over all labels."""
        lines = [x for x in self.get("/metrics")[1].splitlines() if re.match(re.escape(name) + r"[ {]", x)]
        return sum(float(x.rsplit(" ", 1)[1]) for x in lines)

    def status(self):
        done = subprocess.run([program("lacuna"), "--connect", self.client_plane, "status", "--json"],
                              capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, (done.returncode, done.stderr)
        return json.loads(done.stdout)

    def run(self, name, *arguments, **options):
        """A program of ours to its end: its standard output."""
        done = subprocess.run([program(name), *arguments], capture_output=True, text=True, timeout=300,
                              **options)
        assert done.returncode == 0, (name, arguments, done.returncode, done.stderr[-2000:])
        return done.stdout


def chat(text, **more):
    """A greedy request of one user message."""
    return {"model": "smol", "messages": [{"role": "user", "content": text}], "temperature": 0,
            "max_tokens": 48, **more}


PROMPTS = [
    "What is the capital of France?",
    "Write a haiku about the sea.",
    "Name three prime numbers.",
    "Translate 'good morning' into Spanish.",
    "Why is the sky blue? Answer in one sentence.",
    "List the planets of the solar system.",
    "Write a SQL query that counts the rows of a table named users.",
    "Tell me a short story about a robot and a cat, with 日本語 and emoji 🙂 in it.",
]


def events(stream):
    """The data of server-sent events, from an iterable of lines."""
    for line in stream:
        line = line.decode() if isinstance(line, bytes) else line
        if line.startswith("data: "):
            yield line[6:].rstrip("\r\n")


def main(*tests):
    """Runs the tests in order; the first failure ends it. Exit 77 when one is skipped."""
    for test in tests:
        began = time.monotonic()
        try:
            test()
        except Skipped as reason:
            print(f"skipped: {reason}")
            sys.exit(SKIP)
        except BaseException:
            traceback.print_exc()
            print(f"failed: {test.__name__}")
            sys.exit(1)
        print(f"passed: {test.__name__} ({time.monotonic() - began:.1f} s)", flush=True)
