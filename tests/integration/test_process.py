"""The processes themselves: addresses, ports, signals, memory."""

import os
import signal
import socket
import subprocess
import tempfile
import threading

from cluster import Cluster, PROMPTS, chat, main, model_file, program, wait_for


def coordinator(*arguments):
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run([program("lacuna-coordinator"), "--state-dir", folder, *arguments],
                              capture_output=True, text=True, timeout=30)


FREE = ("--http", "127.0.0.1:0", "--client-plane", "tcp://127.0.0.1:0", "--worker-plane",
        "tcp://127.0.0.1:0")


def wide_binds_are_refused():
    for option, value in [("--http", "0.0.0.0:0"), ("--http", "[::]:0"),
                          ("--client-plane", "tcp://0.0.0.0:0"), ("--worker-plane", "tcp://*:0")]:
        done = coordinator(*FREE, option, value)
        assert done.returncode != 0, (option, value, done)
        assert done.stdout == "", done
        assert ("loopback" in done.stderr or "beyond this machine" in done.stderr) and len(done.stderr.strip().splitlines()) == 1, done.stderr


def busy_ports_are_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for option, value in [("--http", f"127.0.0.1:{port}"),
                              ("--client-plane", f"tcp://127.0.0.1:{port}"),
                              ("--worker-plane", f"tcp://127.0.0.1:{port}")]:
            done = coordinator(*FREE, option, value)
            assert done.returncode != 0, (option, done)
            assert str(port) in done.stderr, done.stderr


def bad_options_are_named():
    for arguments in [("--http", "here"), ("--http", "127.0.0.1:70000"), ("--nonsense", "1"),
                      ("--policy", "best")]:
        done = coordinator(*FREE, *arguments)
        assert done.returncode == 2, done
        assert arguments[1] in done.stderr or arguments[0] in done.stderr, done


def memory_of_workers():
    """Resident memory ≤ model file + pool + 100 MiB after real work."""
    pool = 80  # MiB: the long prompt fills most of it
    with Cluster(workers=1, worker_arguments=["--kv-mem", f"{pool}M"]) as c:
        for prompt in PROMPTS:
            c.answer(chat(prompt))
        c.answer(chat("word " * 3000, max_tokens=16))
        with open(f"/proc/{c.workers[0].pid}/status") as f:
            rss = int(next(line for line in f if line.startswith("VmHWM")).split()[1]) * 1024
        limit = os.path.getsize(model_file()) + (pool << 20) + (100 << 20)
        print(f"worker's peak {rss >> 20} MiB, allowed {limit >> 20} MiB")
        assert os.environ.get("LACUNA_SANITIZED") or rss <= limit, (rss, limit)


def sigterm_drains():
    """The coordinator finishes what runs, refuses what is new, ends with 0."""
    with Cluster(workers=1) as c:
        answers = []
        body = chat(PROMPTS[7], max_tokens=200, ignore_eos=True)
        asking = threading.Thread(target=lambda: answers.append(c.answer(body)))
        asking.start()
        wait_for(lambda: c.metric("lacuna_running_requests") == 1, 20, "the request runs")
        c.coordinator.signal(signal.SIGTERM)
        wait_for(lambda: "refusing new requests" in c.coordinator.text(), 5, "it drains")
        status, headers, _ = c.post("/v1/chat/completions", chat("late"))
        assert status == 503 and headers["Retry-After"], status
        asking.join(60)
        assert answers and len(answers[0].encode()) > 100, answers
        assert c.coordinator.wait(20) == 0
        # Its worker waits for a new coordinator and ends cleanly when told to, without a warning.


main(wide_binds_are_refused, busy_ports_are_named, bad_options_are_named, memory_of_workers,
     sigterm_drains)
