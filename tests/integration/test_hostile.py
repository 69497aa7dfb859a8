"""Hostile bodies and bytes against a cluster without workers: the right status, OpenAI's error shape, and
a coordinator that lives on. The front end's own limits are tested in tests/unit/frontend."""

import json
import socket

from cluster import Cluster, main, wait_for

HI = {"messages": [{"role": "user", "content": "hi"}]}
NEST = b'{"metadata":' + b"[" * 5000 + b"]" * 5000 + b"}"

# (path, body, status, what the message names)
BODIES = [
    ("chat/completions", b"", 400, "body is empty"),
    ("chat/completions", b"{", 400, "not valid JSON"),
    ("chat/completions", b"\xff\xfe", 400, "not valid JSON"),
    ("chat/completions", b"[]", 400, "body is an array"),
    ("chat/completions", NEST, 400, "deeper than 32"),
    ("chat/completions", b'{"a":' * 20000, 400, "deeper than 32"),
    ("chat/completions", b'{"messages":[],"messages":[]}', 400, "duplicate"),
    ("chat/completions", {}, 400, "messages is missing"),
    ("chat/completions", {"messages": "x"}, 400, "messages is a string"),
    ("chat/completions", {"messages": [{"role": "root", "content": "x"}]}, 400, "messages[0].role"),
    ("chat/completions", {"messages": [{"role": "user", "content": {}}]}, 400, "messages[0].content"),
    ("chat/completions", {**HI, "temperature": 3}, 400, "temperature is 3, allowed 0..2"),
    ("chat/completions", {**HI, "temperature": "hot"}, 400, "temperature is a string"),
    ("chat/completions", {**HI, "top_p": -1}, 400, "top_p is -1"),
    ("chat/completions", {**HI, "top_k": 1 << 40}, 400, "top_k is"),
    ("chat/completions", {**HI, "max_tokens": -5}, 400, "max_tokens is -5"),
    ("chat/completions", {**HI, "n": 100}, 400, "n is 100, allowed 1..8"),
    ("chat/completions", {**HI, "stop": ["x" * 65]}, 400, "65 bytes, allowed 1..64"),
    ("chat/completions", {**HI, "stop": list("abcdef")}, 400, "stop has 6 strings"),
    ("chat/completions", {**HI, "logit_bias": {"-1": 1}}, 400, "logit_bias"),
    ("chat/completions", {**HI, "logit_bias": {str(i): 1 for i in range(400)}}, 400, "400 entries"),
    ("chat/completions", {**HI, "top_logprobs": 3}, 400, "top_logprobs is 3"),
    ("chat/completions", {**HI, "tools": [{"type": "function"}]}, 400, "tools[0].function is missing"),
    ("chat/completions", {**HI, "response_format": {"type": "xml"}}, 400, "response_format"),
    ("chat/completions", {**HI, "no_such": 1}, 400, "no_such"),
    ("chat/completions", {**HI, "model": "../../etc/passwd"}, 404, "model is"),
    ("chat/completions", {**HI, "model": "m" * 100}, 400, "model is 100 bytes long"),
    ("completions", {"prompt": ["a", "b"]}, 400, "prompt has 2 entries"),
    ("completions", {"prompt": [1.5]}, 400, "prompt"),
    ("completions", {"prompt": "a", "echo": True, "logprobs": 1}, 400, "echo and logprobs"),
    ("completions", {"prompt": [1, 2], "echo": True}, 400, "prompt is token ids"),
    ("completions", {"prompt": "a", "best_of": 2}, 400, "best_of is 2"),
    ("completions", b'{"prompt":"' + b"x" * (8 << 20) + b'"}', 413, "allowed at most 8388608"),
]


def bodies():
    for path, body, status, says in BODIES:
        got, headers, reply = c.post(f"/v1/{path}", body, {"X-Request-Id": "abc-1"})
        name = body if len(str(body)) < 200 else str(body)[:80]
        assert got == status, (name, got, reply)
        error = reply["error"]
        assert set(error) == {"message", "type", "param", "code"}, reply
        assert says in error["message"], (name, error)
        assert headers["X-Request-Id"] == "abc-1" and headers["Content-Type"] == "application/json", name


def paths_and_methods():
    for path, status in [("/nothing", 404), ("/v1", 404), ("/v1/chat/completions", 405), ("/v1/models/x", 404),
                         ("/v1/models", 200), ("/livez", 200), ("/readyz", 503), ("/health", 503),
                         ("/metrics", 200)]:
        got, text = c.get(path)
        assert got == status, (path, got, text)
        if status >= 400:
            assert json.loads(text)["error"]["message"], text


def raw_bytes():
    host, port = c.http.split(":")
    for data, status in [
        (b"\x16\x03\x01\x02\x00", b"400"), (b"GET / HTTP/1.1\r\n\r\n", b"400"),
        (b"GET / HTTP/3.7\r\nHost: x\r\n\r\n", b"505"), (b"FETCH / HTTP/1.1\r\nHost: x\r\n\r\n", b"501"),
        (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n", b"414"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 100, b"431"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"b" * 20000, b"431"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", b"400"),
        (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n"
         b"Transfer-Encoding: chunked\r\n\r\n", b"400"),
    ]:
        with socket.create_connection((host, int(port)), timeout=20) as s:
            s.sendall(data)
            reply = b""
            while b"\r\n\r\n" not in reply:
                piece = s.recv(65536)
                assert piece, (data[:60], reply)
                reply += piece
            assert reply.startswith(b"HTTP/1.1 " + status), (data[:60], reply[:200])


def nobody_serves():
    """A streamed request waits for a worker; its client may leave meanwhile."""
    host, port = c.http.split(":")
    body = json.dumps({**HI, "stream": True}).encode()
    for _ in range(20):
        with socket.create_connection((host, int(port)), timeout=20) as s:
            s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" %
                      len(body) + body)
    wait_for(lambda: c.metric("lacuna_queue_requests") == 0 and c.metric("lacuna_http_connections") == 1, 10,
             "nothing is queued for clients that left")
    assert c.get("/livez")[0] == 200


with Cluster(workers=0) as c:
    main(bodies, paths_and_methods, raw_bytes, nobody_serves)
