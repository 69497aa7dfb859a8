"""Clients that leave: 200 random disconnects, by FIN and by RST, in every phase; afterwards nothing runs
and the pools of pages are as they were. And one that stays but does not read."""

import json
import random
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor

from cluster import Cluster, PROMPTS, chat, main, wait_for

DISCONNECTS = 200


def request(body):
    data = json.dumps(body).encode()
    return b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(data) + data


def connect():
    host, port = c.http.split(":")
    return socket.create_connection((host, int(port)), timeout=30)


def pages():
    groups = c.status()["groups"]
    return sum(g["kv_pages_used"] for g in groups), sum(g["running"] + g["queued"] for g in groups)


def leave(number):
    """Opens a request, reads a random part of the answer, goes."""
    dice = random.Random(number)
    body = chat(PROMPTS[number % 8] + f" ({number})", max_tokens=400, ignore_eos=True,
                stream=dice.random() < 0.8)
    with connect() as s:
        data = request(body)
        if dice.random() < 0.1:
            s.sendall(data[:dice.randrange(1, len(data))])
            return
        s.sendall(data)
        s.settimeout(dice.choice([0.001, 0.05, 0.2, 0.5]))
        try:
            for _ in range(dice.randrange(0, 20)):
                if not s.recv(dice.choice([10, 1000])):
                    return
        except TimeoutError:
            pass
        if dice.random() < 0.5:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def disconnects():
    c.answer(chat("warm up", max_tokens=4))
    wait_for(lambda: pages()[1] == 0, 10, "the cluster is idle at the start")
    before = pages()[0]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(leave, range(DISCONNECTS)))
    wait_for(lambda: pages() == (before, 0), 30, "pages and requests are back to the start")
    assert c.metric("lacuna_http_connections") == 1  # the one that asks
    assert c.metric('lacuna_http_disconnects_total{why="client_gone"}') > DISCONNECTS / 4
    assert c.answer(chat(PROMPTS[0]))


def stops_within_a_step():
    """Once a client has gone, the workers' counts of tokens stand still: an answer that went on would take
    far longer than this waits."""
    def tokens():
        return sum(g["output_tokens"] for g in c.status()["groups"])

    def still():
        first = tokens()
        time.sleep(1.2)  # longer than two heartbeats, which carry the counts
        return tokens() == first
    with connect() as s:
        s.sendall(request(chat("Tell me everything.", max_tokens=7000, ignore_eos=True, stream=True)))
        seen = b""
        while seen.count(b"data: ") < 10:
            seen += s.recv(65536)
    wait_for(lambda: pages()[1] == 0, 5, "the sequence has ended")
    wait_for(still, 5, "no worker gains tokens any more")


def slow_reader():
    """It gets a whole answer in the end; meanwhile others are served."""
    with connect() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.sendall(request(chat(PROMPTS[1], max_tokens=300, ignore_eos=True, stream=True, logprobs=True,
                               top_logprobs=20)))
        assert s.recv(1)
        for p in PROMPTS[:3]:
            assert c.answer(chat(p, max_tokens=16))
        wait_for(lambda: pages()[1] == 0, 60, "its sequence has ended or waits")
        got = b""
        while b"[DONE]" not in got:
            piece = s.recv(1 << 20)
            assert piece, got[-300:]
            got += piece
    assert got.count(b'"finish_reason":"length"') == 1


with Cluster(workers=2) as c:
    main(disconnects, stops_within_a_step, slow_reader)
