"""One greedy text, however it is asked for: by the engine without a cluster, over HTTP, by the command
line client, by the C client's example; alone and in a batch of eight; at one and two threads."""

import json
import os
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor

from cluster import Cluster, PROMPTS, chat, main, model_file


def alone():
    return [c.answer(chat(p)) for p in PROMPTS]


def engine_at_one_and_two_threads():
    for i, prompt in enumerate(PROMPTS):
        for threads in ("1", "2"):
            if threads == "2" and i > 2:
                continue  # the kernels' own tests cover the rest
            reply = json.loads(c.run("lacuna-engine", "generate", "--model", model_file(), "--chat",
                                     "--prompt", prompt, "--max-tokens", "48", "--temp", "0",
                                     "--threads", threads, "--json"))
            assert reply["text"] == single[i], (prompt, threads, reply["text"], single[i])


def batch_of_eight():
    for _ in range(2):
        with ThreadPoolExecutor(8) as pool:
            together = list(pool.map(lambda p: c.answer(chat(p)), PROMPTS))
        assert together == single, [(a, b) for a, b in zip(together, single) if a != b]


def command_line_client():
    for i in (0, 7):
        text = c.run("lacuna", "--connect", c.client_plane, "submit", "--temp", "0", "--max-tokens", "48",
                     PROMPTS[i])
        assert text.rstrip("\n") == single[i].rstrip("\n"), (text, single[i])


def c_client_example():
    """The example is compiled as a stranger would, against the library of this build."""
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    source = os.path.join(root, "proto", "client")
    library = os.path.join(os.environ["LACUNA_BIN"], "..", "proto", "client")
    with tempfile.TemporaryDirectory() as folder:
        ask = os.path.join(folder, "ask")
        subprocess.run([os.environ.get("CC", "cc"), os.path.join(source, "example", "ask.c"), "-o", ask,
                        "-I", os.path.join(source, "include"), "-L", library, "-llacuna_client",
                        f"-Wl,-rpath,{library}"], check=True)
        done = subprocess.run([ask, PROMPTS[0], c.client_plane], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done
        whole = c.answer(chat(PROMPTS[0], max_tokens=256))
        assert done.stdout == whole, (done.stdout, whole)


with Cluster(workers=2) as c:
    single = alone()
    assert all(single), single
    tests = [engine_at_one_and_two_threads, batch_of_eight, command_line_client]
    if not os.environ.get("LACUNA_SANITIZED"):
        tests.append(c_client_example)
    main(*tests)
