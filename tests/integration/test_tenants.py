"""Tenants, names of models, feedback and TLS through real processes: what curl, openssl and the CLI see."""

import http.client
import json
import os
import signal
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from cluster import Cluster, Skipped, chat, events, main, program, wait_for

CODE = "def add(a, b):\n    return a + b\n\nclass Tree:\n    def __init__(self):\n        self.left = None\n"


def api_key(folder, name):
    """Appends its line to the list of keys; gives the key itself."""
    done = subprocess.run([program("lacuna"), "keys", "api", name], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with open(os.path.join(folder, "api"), "a") as f:
        f.write(next(x for x in done.stderr.splitlines() if x.startswith(name + " ")) + "\n")
    return done.stdout.strip()


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


def ask(cluster, key, body, **headers):
    return cluster.post("/v1/chat/completions", body,
                        {"Authorization": f"Bearer {key}", **{k.replace("_", "-"): v for k, v in headers.items()}})


def tenants_and_names():
    folder = tempfile.mkdtemp(prefix="lacuna-tenants-")
    kim, lee = api_key(folder, "kim"), api_key(folder, "lee")
    rules = os.path.join(folder, "tenants.ini")
    write(rules, "[kim]\nrequests-per-minute = 3\nmodels = smol\n\n[lee]\nsparse-header = false\n")
    short = dict(max_tokens=4)
    with Cluster(workers=1, coordinator_arguments=[
            "--api-keys", os.path.join(folder, "api"), "--tenants", rules, "--default-model", "smol",
            "--model-alias", "gpt-4o=smol fast=other", "--route", "gpt-4o:code:*=other"]) as c:
        c.worker_arguments = ["--model-name", "other"]
        c.start_worker()
        c.wait_workers(2)

        status, headers, reply = ask(c, kim, {**chat("Hello", **short), "model": "gpt-4o"})
        assert status == 200 and reply["model"] == "smol", (status, reply)
        assert headers["x-ratelimit-limit-requests"] == "3", dict(headers)
        assert headers["x-ratelimit-remaining-requests"] == "2", dict(headers)
        status, _, reply = ask(c, kim, {**chat("Hello", **short), "model": "fast"})
        assert status == 403 and reply["error"]["code"] == "permission_denied", (status, reply)
        status, headers, reply = ask(c, lee, {**chat("Hello", **short), "model": "fast"})
        assert status == 200 and reply["model"] == "other", (status, reply)
        assert "x-ratelimit-limit-requests" not in headers
        status, _, reply = ask(c, lee, {**chat(CODE, **short), "model": "gpt-4o"})
        assert status == 200 and reply["model"] == "other", (status, reply)
        status, headers, reply = ask(c, lee, {k: v for k, v in chat("Hello", **short).items() if k != "model"})
        assert status == 200 and reply["model"] == "smol", (status, reply)
        request = headers["X-Lacuna-Request"]
        status, _, reply = ask(c, lee, chat("Hello", **short), X_Lacuna_Sparse="true")
        assert status == 403, (status, reply)
        status, _, reply = ask(c, lee, {**chat("Hello"), "model": "nothing"})
        assert status == 404 and "smol, other, gpt-4o (smol), fast (other)" in reply["error"]["message"], reply

        # The quota: named, with its limit, and a time.
        for _ in range(2):
            assert ask(c, kim, chat("Hello", **short))[0] == 200
        status, headers, reply = ask(c, kim, chat("Hello", **short))
        assert status == 429 and reply["error"]["code"] == "rate_limit_exceeded", (status, reply)
        assert "requests of tenant \"kim\"" in reply["error"]["message"] and "3 a minute" in reply["error"]["message"]
        assert 1 <= int(headers["Retry-After"]) <= 20, dict(headers)
        write(rules, "[kim]\nrequests-per-minute = 600\n")
        c.coordinator.signal(signal.SIGHUP)
        wait_for(lambda: ask(c, kim, {**chat("Hello", **short), "model": "fast"})[0] == 200, 15, "new rules")

        # Feedback: once, by whom it belongs to.
        def say(key, rating):
            return c.post("/v1/feedback", {"request": request, "rating": rating},
                          {"Authorization": f"Bearer {key}"})[0]
        assert say(kim, "good") == 404 and say(lee, "fine") == 400
        assert say(lee, "good") == 200 and say(lee, "bad") == 409
        assert c.metric_sum("lacuna_feedback_total") == 1


def feedback_from_the_command_line():
    with Cluster(workers=1) as c:
        status, headers, _ = c.post("/v1/chat/completions", chat("Hello", max_tokens=2))
        assert status == 200
        run = [program("lacuna"), "--connect", c.client_plane, "feedback"]
        good = subprocess.run([*run, headers["X-Lacuna-Request"], "bad"], capture_output=True, text=True)
        assert good.returncode == 0 and good.stdout.strip().endswith(": bad"), good
        again = subprocess.run([*run, headers["X-Lacuna-Request"], "bad"], capture_output=True, text=True)
        assert again.returncode != 0 and "judged already" in again.stderr, again
        assert subprocess.run([*run, "x", "bad"], capture_output=True).returncode == 2
        assert c.metric_sum("lacuna_feedback_total") == 1


class TlsCluster(Cluster):
    """Speaks HTTPS; believes one certificate file."""

    def __init__(self, cert, **options):
        self.cert = cert
        super().__init__(**options)

    def context(self):
        context = ssl.create_default_context(cafile=self.cert)
        context.check_hostname = False
        return context

    def get(self, path):
        try:
            with urllib.request.urlopen(f"https://{self.http}{path}", timeout=20, context=self.context()) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()


def certificate(cert, key, name):
    made = subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                           "-nodes", "-days", "1", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1",
                           "-keyout", key, "-out", cert], capture_output=True, text=True)
    if made.returncode != 0:
        raise Skipped(f"openssl makes no certificate: {made.stderr.strip()[-200:]}")
    os.chmod(key, 0o600)


def https():
    folder = tempfile.mkdtemp(prefix="lacuna-tls-")
    cert, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
    certificate(cert, key, "first")
    with TlsCluster(cert, workers=1, coordinator_arguments=["--tls-cert", cert, "--tls-key", key]) as c:
        host, port = c.http.split(":")
        done = subprocess.run(["curl", "-sS", "--cacert", cert, f"https://{c.http}/livez"],
                              capture_output=True, text=True)
        assert done.returncode == 0 and "ok" in done.stdout, done
        assert subprocess.run(["curl", "-s", f"http://{c.http}/livez"], capture_output=True).returncode != 0
        for options, good in ((["-tls1_2"], True), (["-tls1_3"], True), (["-tls1_1"], False),
                              (["-alpn", "http/1.1"], True), (["-alpn", "h2"], False)):
            done = subprocess.run(["openssl", "s_client", "-connect", c.http, "-CAfile", cert, *options],
                                  input="", capture_output=True, text=True, timeout=20)
            assert ("Verify return code: 0" in done.stdout and done.returncode == 0) == good, (options, done)

        # A stream that outlives its certificate.
        connection = http.client.HTTPSConnection(host, int(port), context=c.context(), timeout=120)
        connection.request("POST", "/v1/chat/completions", json.dumps(
            chat("Tell me a long story.", stream=True, max_tokens=200, ignore_eos=True)))
        reply = connection.getresponse()
        assert reply.status == 200, reply.status
        pieces = events(reply)
        next(pieces)
        old = c.context()
        certificate(cert, key, "second")
        c.coordinator.signal(signal.SIGHUP)

        def renewed():
            text = subprocess.run(["openssl", "s_client", "-connect", c.http], input="", capture_output=True,
                                  text=True, timeout=20).stdout
            return "CN = second" in text
        wait_for(renewed, 15, "the new certificate")
        rest = list(pieces)
        assert rest[-1] == "[DONE]" and len(rest) > 3, rest[-3:]
        connection.close()
        try:
            with urllib.request.urlopen(f"https://{c.http}/livez", context=old, timeout=20):
                raise AssertionError("the old certificate is still believed")
        except urllib.error.URLError:
            pass
        assert c.get("/livez")[0] == 200
        begin = time.monotonic()
        assert c.metric('lacuna_tls_handshakes_total{result="ok"}') > 5, time.monotonic() - begin


main(tenants_and_names, feedback_from_the_command_line, https)
