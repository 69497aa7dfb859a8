"""Workers and coordinators that die: streams go on without a lost, doubled or changed token."""

import http.client
import json
import threading
import time

from cluster import Cluster, PROMPTS, chat, events, main, wait_for

LONG = dict(max_tokens=300, ignore_eos=True)
KILLS = 5


class Reader(threading.Thread):
    """Reads one stream; `text` grows."""

    def __init__(self, address, body):
        super().__init__(daemon=True)
        self.address, self.body = address, {**body, "stream": True}
        self.text, self.count, self.error, self.done = "", 0, None, False
        self.gap, self.last = 0.0, None

    def run(self):
        try:
            connection = http.client.HTTPConnection(self.address, timeout=120)
            connection.request("POST", "/v1/chat/completions", json.dumps(self.body))
            reply = connection.getresponse()
            assert reply.status == 200, (reply.status, reply.read())
            for data in events(reply):
                if data == "[DONE]":
                    self.done = True
                    break
                data = json.loads(data)
                assert "error" not in data, data
                self.text += data["choices"][0]["delta"].get("content", "")
                self.count += 1
                now = time.monotonic()
                self.gap = max(self.gap, now - (self.last or now))
                self.last = now
            connection.close()
        except Exception as wrong:  # shown by the test that joins
            self.error = wrong


def serving():
    return [g["id"] for g in c.status()["groups"] if g["state"] == "READY" and g["running"] > 0]


def kill_mid_stream():
    calm = c.answer(chat(PROMPTS[7], **LONG))
    for _ in range(KILLS):
        reader = Reader(c.http, chat(PROMPTS[7], **LONG))
        reader.start()
        wait_for(lambda: reader.count > 20 or reader.error, 30, "the stream flows")
        busy = wait_for(serving, 10, "a group runs it")
        victim = next(w for w in c.workers if w.name in busy and w.alive())
        victim.kill()
        reader.join(120)
        assert reader.error is None and reader.done, (reader.error, reader.text[-200:])
        assert reader.text == calm, (reader.text, calm)
        c.start_worker()
        c.wait_workers(2)
    assert c.metric_sum("lacuna_retries_total") >= KILLS


def all_workers_killed():
    for worker in c.workers:
        if worker.alive():
            worker.kill()
    wait_for(lambda: c.get("/readyz")[0] == 503, 20, "the coordinator knows that nobody serves")
    c.start_worker()
    c.wait_workers(1)
    assert c.answer(chat(PROMPTS[0]))


def coordinator_restarts():
    """kill -9, a new one on the same ports: workers find it by themselves."""
    http_, client, worker = c.http, c.client_plane, c.worker_plane
    epoch = c.status()["epoch"]
    c.coordinator.kill()
    c.start_coordinator(http_, client, worker)
    c.wait_workers(1, 20)
    assert c.status()["epoch"] > epoch
    assert c.answer(chat(PROMPTS[0]))


# What killed workers must bring about in the coordinator's log, and nothing else.
KNOWN = [
    r"group w\d+: READY -> SUSPECT: its connection is gone$",  # the kernel closes a killed process's sockets
    r"group w\d+: moving 1 requests: its connection is gone$",  # what it ran goes on elsewhere
    r"group w\d+: SUSPECT -> FENCED: disconnected and did not come back$",  # new ones have other names
    r"2 of 2 ready groups vanished within 2000 ms: verdicts are frozen",  # both are killed at once
    r"verdicts again after \d+ ms",  # and then one is there again
]
with Cluster(workers=2, warnings=KNOWN) as c:
    main(kill_mid_stream, all_workers_killed, coordinator_restarts)
