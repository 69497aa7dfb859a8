"""Two hosts joined by a cable (network namespaces, a veth pair): a worker and a client on the second reach
the coordinator on the first with keys, and nobody reaches it without. The steps of the README."""

import os
import re
import shutil
import subprocess
import tempfile
import time

from cluster import Process, Skipped, main, model_file, program, wait_for

A, B = f"lacA{os.getpid()}", f"lacB{os.getpid()}"
HOST_A, HOST_B = "10.213.7.1", "10.213.7.2"


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def on(host, *command, **options):
    return subprocess.run(["ip", "netns", "exec", host, *command], capture_output=True, text=True,
                          timeout=120, **options)


def hosts():
    if os.geteuid() != 0 or not shutil.which("ip"):
        raise Skipped("network namespaces need root and the program ip")
    try:
        ip("netns", "add", A)
        ip("netns", "add", B)
        ip("link", "add", "cable0", "netns", A, "type", "veth", "peer", "name", "cable1", "netns", B)
        for host, link, address in ((A, "cable0", HOST_A), (B, "cable1", HOST_B)):
            ip("-n", host, "addr", "add", f"{address}/24", "dev", link)
            ip("-n", host, "link", "set", "lo", "up")
            ip("-n", host, "link", "set", link, "up")
    except subprocess.CalledProcessError as refused:
        raise Skipped(f"this machine makes no network namespaces: {refused.stderr.strip()}")


def key(folder, name):
    path = os.path.join(folder, name)
    made = subprocess.run([program("lacuna"), "keys", "new", path], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    with open(path + ".pub") as f:
        return path, f.read().split()[1]


def two_hosts():
    folder = tempfile.mkdtemp(prefix="lacuna-hosts-")
    processes = []
    try:
        model = model_file()
        hosts()
        server, _ = key(folder, "coordinator.key")
        worker, worker_key = key(folder, "g0.key")
        kim, kim_key = key(folder, "kim.key")
        root, root_key = key(folder, "root.key")
        stranger, _ = key(folder, "stranger.key")
        allow = os.path.join(folder, "allowed")
        with open(allow, "w") as f:
            f.write(f"worker g0 {worker_key}\nclient kim {kim_key}\nadmin root {root_key}\n")

        wide = ["--client-plane", f"tcp://{HOST_A}:7070", "--worker-plane", f"tcp://{HOST_A}:7071",
                "--http", "off", "--state-dir", os.path.join(folder, "state")]
        refused = on(A, program("lacuna-coordinator"), *wide)
        assert refused.returncode == 1 and "not allowed without keys" in refused.stderr, refused
        coordinator = Process("coordinator", ["ip", "netns", "exec", A, program("lacuna-coordinator"),
                                              *wide, "--key", server, "--allow", allow], folder)
        processes.append(coordinator)
        lines = coordinator.read_lines_until("ready to accept workers")
        assert any(l.startswith("protection worker-plane: CURVE keys") for l in lines), lines

        def start_worker(group, own):
            p = Process(f"worker-{len(processes)}", [
                "ip", "netns", "exec", B, program("lacuna-worker"), "--coordinator",
                f"tcp://{HOST_A}:7071", "--model", model, "--group", group, "--threads", "1",
                "--kv-mem", "128M", "--key", own, "--server-key", server + ".pub"], folder)
            processes.append(p)
            return p

        def lacuna(own, *words):
            keys = ["--key", own, "--server-key", server + ".pub"] if own else []
            return on(B, program("lacuna"), "--connect", f"tcp://{HOST_A}:7070", *keys, *words)

        start_worker("g0", worker)
        wait_for(lambda: "READY" in lacuna(kim, "status").stdout, 60, "the worker is ready")
        said = lacuna(kim, "submit", "--raw", "--temp", "0", "--max-tokens", "8",
                      "The boiling point of water is")
        assert said.returncode == 0 and said.stdout.strip(), said
        # Orders are for admins.
        denied = lacuna(kim, "drain", "g0")
        assert denied.returncode != 0 and "orders need an admin's" in denied.stderr, denied
        # Nobody without a key, or with a key that is on no list.
        for own in (None, stranger):
            began = time.monotonic()
            outside = lacuna(own, "status")
            assert outside.returncode in (4, 5), outside
            assert time.monotonic() - began < 30
        # A worker may be the group its key names and no other.
        wrong = start_worker("g1", worker)
        wrong.expected = 1
        assert wrong.wait(60) == 1, wrong.tail()
        assert 'key allows "g0"' in wrong.text(), wrong.tail()
        processes.remove(wrong)
        wrong.close()
        done = lacuna(root, "drain", "g0")
        assert done.returncode == 0, done
        wait_for(lambda: not processes[1].alive(), 30, "the drained worker ended")
        assert not re.search(r"\berror\b", coordinator.text()), coordinator.tail()
    finally:
        for p in processes:
            p.close()
        for host in (A, B):
            subprocess.run(["ip", "netns", "del", host], capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)


main(two_hosts)
