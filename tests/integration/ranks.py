"""Groups of several ranks for the tests of this folder: starting them by hand, streams on threads, what may
be left behind."""

import glob
import json
import threading
import urllib.request

from cluster import Process, chat, events, model_file, program

WARNINGS = [r"group \w+: (READY|FORMING|SUSPECT) -> (SUSPECT|FENCED)", r"group \w+: moving \d+ requests",
            r"is gone", r"did not come up", r"ended by the coordinator", r"rank \d: ", r"sequence \d+ failed",
            r"hello rejected", r"no frame of one rank", r"nothing reached the coordinator",
            r"did not end within", r"rank \d is gone", r"meeting the other ranks"]


def rank_process(c, group, rank, pp, tp, *more):
    process = Process(f"{group}-{rank}", [
        program("lacuna-worker"), "--coordinator", c.worker_plane, "--model", model_file(), "--model-name",
        "smol", "--group", group, "--pp", str(pp), "--tp", str(tp), "--rank", str(rank), "--threads", "1",
        "--ranks-here", "3", "--kv-mem", "64M", "--ctx-max", "1024", "--slots", "4", "--die-with-parent",
        *more], c.folder)
    c.processes.append(process)
    c.workers.append(process)
    return process


def start_group(c, group, pp, tp):
    return [rank_process(c, group, r, pp, tp) for r in range(pp * tp)]


def ready(c, group):
    return any(g["id"] == group and g["state"] == "READY" for g in c.status()["groups"])


def shared_memory():
    return set(glob.glob("/dev/shm/*"))


class Stream:
    """A greedy stream on a thread of its own."""

    def __init__(self, c, prompt, tokens):
        self.text, self.error, self.done = "", None, False
        body = chat(prompt, max_tokens=tokens, ignore_eos=True, stream=True)
        self.request = urllib.request.Request(f"http://{c.http}/v1/chat/completions",
                                              json.dumps(body).encode(),
                                              {"Content-Type": "application/json"})
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        try:
            with urllib.request.urlopen(self.request, timeout=120) as reply:
                for data in events(reply):
                    if data == "[DONE]":
                        self.done = True
                        break
                    piece = json.loads(data)
                    if "error" in piece:
                        raise AssertionError(piece)
                    for choice in piece["choices"]:
                        self.text += choice["delta"].get("content") or ""
        except BaseException as e:  # noqa: BLE001 - the test looks at it
            self.error = e

    def end(self, seconds=90):
        self.thread.join(seconds)
        assert not self.thread.is_alive(), "the stream did not end"
        assert self.error is None, self.error
        assert self.done, "the stream was cut"
        return self.text
