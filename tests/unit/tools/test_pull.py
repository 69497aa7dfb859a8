"""lacuna-engine pull against a server of the test's own: ranges, cut connections, changed files, wrong checksums,
full disks. test_pull.py PROGRAM TREE."""
import hashlib
import http.server
import os
import pty
import resource
import subprocess
import sys
import tempfile
import threading

program, tree = sys.argv[1:3]
MODEL = open(tree + "/tests/golden/logits/tiny-llama-q4_1.gguf", "rb").read()
SUM = hashlib.sha256(MODEL).hexdigest()


class State:
    """What the server serves and how badly; each test sets it anew."""

    def __init__(self, body=MODEL, **options):
        self.body, self.etag, self.ranges = body, '"one"', True
        self.cut_after = []  # the n-th answer ends after so many bytes
        self.length = True   # Content-Length is sent
        self.modified = None
        self.code = None     # answer with this code so many times
        self.gone_after = None  # so many answers, then 404
        self.log = []        # (path, Range, If-Range, status)
        self.__dict__.update(options)


state = State()


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def reply(self, code, headers, body=b""):
        state.log.append((self.path, self.headers.get("Range"), self.headers.get("If-Range"), code))
        self.send_response_only(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        cut = state.cut_after.pop(0) if body and state.cut_after else None
        self.wfile.write(body[:cut])
        self.close_connection = True

    def do_GET(self):
        if self.path.startswith("/loop"):
            return self.reply(302, {"Location": "/loop", "Content-Length": "0"})
        if self.path.startswith("/hop"):
            n = int(self.path[4:])
            return self.reply(302, {"Location": f"/hop{n - 1}" if n else "/m.gguf", "ETag": '"hop"'})
        if self.path.startswith("/disk"):
            return self.reply(302, {"Location": "file:///etc/passwd"})
        if state.code and state.code[1] > 0:
            state.code = (state.code[0], state.code[1] - 1)
            return self.reply(state.code[0], {"Content-Length": "0"})
        if state.gone_after is not None and len(state.log) >= state.gone_after:
            return self.reply(404, {"Content-Length": "0"})
        headers, body, code = {}, state.body, 200
        if state.etag:
            headers["ETag"] = state.etag
        if state.modified:
            headers["Last-Modified"] = state.modified
        asked, condition = self.headers.get("Range"), self.headers.get("If-Range")
        if asked and state.ranges and (condition is None or condition in (state.etag, state.modified) or
                                       state.ranges == "always"):
            first = int(asked[len("bytes="):-1])
            if first >= len(body):
                return self.reply(416, {"Content-Range": f"bytes */{len(body)}", "Content-Length": "0"})
            headers["Content-Range"] = f"bytes {first}-{len(body) - 1}/{len(body)}"
            code, body = 206, body[first:]
        if state.length:
            headers["Content-Length"] = str(len(body))
        self.reply(code, headers, body)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
BASE = f"http://127.0.0.1:{server.server_address[1]}"
folder = tempfile.TemporaryDirectory()
environment = {**os.environ, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
count = 0


def pull(path, *options, out=None, url=None, **run):
    """Runs it; returns what it was and where the file should be."""
    global count
    count += 1
    out = out or f"{folder.name}/{count}.gguf"
    words = [program, "pull", url or BASE + path, "--out", out, *options]
    return subprocess.run(words, capture_output=True, text=True, env=environment, timeout=60, **run), out


def check(what, got, code, pattern, out, whole, part):
    """Exit code, one pattern, whether the file is there and right, and how much of a part was left."""
    said = got.stdout + got.stderr
    assert got.returncode == code, (what, got.returncode, said)
    assert pattern in said, (what, pattern, said)
    assert os.path.exists(out) == whole, (what, said)
    if whole:
        assert open(out, "rb").read() == state.body, what
    size = os.path.getsize(out + ".part") if os.path.exists(out + ".part") else None
    assert size == part, (what, size, said)
    assert os.path.exists(out + ".part.from") == (part is not None), (what, os.listdir(folder.name))


def set_state(*args, **options):
    global state
    state = State(*args, **options)


# ---- what goes well ----
got, out = pull("/m.gguf", "--sha256", SUM)
check("plain", got, 0, SUM, out, True, None)
got, _ = pull("/m.gguf", "--sha256", SUM, out=out)
check("there already", got, 0, "is there already", out, True, None)
got, _ = pull("/m.gguf", "--sha256", "0" * 64, out=out)
check("there, but another", got, 1, "expected 0000", out, True, None)
got, _ = pull("/m.gguf", out=out)
check("there, no checksum", got, 1, "exists: remove it", out, True, None)
got = subprocess.run([program, "pull", BASE + "/folder/named.gguf?download=true"], cwd=folder.name, env=environment)
assert got.returncode == 0 and os.path.exists(folder.name + "/named.gguf")

set_state()
source = folder.name + "/named.gguf"
got, out = pull("", url="file://" + source)
check("file", got, 0, SUM, out, True, None)
got, out = pull("/hop8")
check("eight redirects", got, 1, "more than 8 redirects", out, False, 0)
got, out = pull("/hop7")
check("seven redirects and one", got, 0, SUM, out, True, None)
set_state(length=False)
got, out = pull("/m.gguf")
check("no length", got, 0, SUM, out, True, None)

# ---- cut connections ----
set_state(cut_after=[10000, 5, 0, 4321])
got, out = pull("/m.gguf")
check("cut four times", got, 0, SUM, out, True, None)
ranges = [entry[1] for entry in state.log]
assert ranges == [None, "bytes=10000-", "bytes=10005-", "bytes=10005-", "bytes=14326-"], ranges
assert [e[2] for e in state.log] == [None] + ['"one"'] * 4 and [e[3] for e in state.log] == [200] + [206] * 4

set_state(cut_after=[10000] + [0] * 99)
got, out = pull("/m.gguf")
check("cut for ever", got, 1, f"10000 of {len(MODEL)} bytes are here", out, False, 10000)
state.cut_after = []
got, _ = pull("/m.gguf", out=out)
check("gone on with", got, 0, f"{len(MODEL)} bytes ({len(MODEL) - 10000} fetched)", out, True, None)

set_state(code=(503, 3))
got, out = pull("/m.gguf")
check("busy three times", got, 0, SUM, out, True, None)
set_state(code=(500, 99))
got, out = pull("/m.gguf")
check("broken", got, 1, "the server answers 500", out, False, 0)
for code, text in ((404, "404 (not found)"), (403, "403 (not allowed)"), (418, "418")):
    set_state(code=(code, 99))
    got, out = pull("/m.gguf")
    check(text, got, 1, text, out, False, 0)
    assert len(state.log) == 1


# ---- the server's file changes ----
def interrupted(**options):
    set_state(cut_after=[10000], gone_after=1, **options)
    got, name = pull("/m.gguf")
    assert got.returncode == 1 and os.path.getsize(name + ".part") == 10000
    return name


other = MODEL[:-1000] + bytes(1000)
assert other != MODEL
for ranges, what in ((True, "another ETag"), ("always", "another ETag, If-Range not understood"), (False, "no ranges")):
    out = interrupted()
    set_state(other, etag='"two"', ranges=ranges)
    got, _ = pull("/m.gguf", out=out)
    check(what, got, 0, "from the start", out, True, None)
    assert state.log[0][1:3] == ("bytes=10000-", '"one"')

out = interrupted(etag=None, modified="Mon, 02 Feb 2026 00:00:00 GMT")
set_state(etag=None, modified="Mon, 02 Feb 2026 00:00:00 GMT")
got, _ = pull("/m.gguf", out=out)
check("by date", got, 0, f"({len(MODEL) - 10000} fetched)", out, True, None)
out = interrupted(etag='W/"weak"')
set_state(etag='W/"weak"')
got, _ = pull("/m.gguf", out=out)
check("a weak ETag proves nothing", got, 0, f"({len(MODEL)} fetched)", out, True, None)
out = interrupted(etag=None)
set_state(etag=None)
got, _ = pull("/m.gguf", "--sha256", SUM, out=out)
check("no validator, but a checksum", got, 0, f"({len(MODEL) - 10000} fetched)", out, True, None)
out = interrupted()
set_state()
got, _ = pull("/other.gguf", out=out)
check("another URL", got, 0, f"({len(MODEL)} fetched)", out, True, None)
out = interrupted()
open(out + ".part.from", "w").write("junk\n\n\n")
set_state()
got, _ = pull("/m.gguf", out=out)
check("a torn note", got, 0, f"({len(MODEL)} fetched)", out, True, None)

# Whole on disk, but not renamed: nothing is fetched. Longer than the server's: from the start.
out = interrupted()
open(out + ".part", "ab").write(MODEL[10000:])
set_state()
got, _ = pull("/m.gguf", out=out)
check("whole already", got, 0, "(0 fetched)", out, True, None)
out = interrupted()
open(out + ".part", "ab").write(MODEL)
set_state()
got, _ = pull("/m.gguf", out=out)
check("too long already", got, 0, SUM, out, True, None)

# ---- wrong files ----
set_state()
got, out = pull("/m.gguf", "--sha256", "0" * 64)
check("wrong checksum", got, 1, f"SHA-256 is {SUM}, expected 0000", out, False, None)
set_state(b"<html>sign in</html>" * 99)
got, out = pull("/m.gguf")
check("no model", got, 1, "magic", out, False, None)
set_state(MODEL[:-1000], length=False)
got, out = pull("/m.gguf")
check("ends early and nobody says so", got, 1, "tensor", out, False, None)
set_state(MODEL.replace(b"llama", b"lemma"))
got, out = pull("/m.gguf")
check("an unknown kind", got, 1, '"lemma"', out, False, None)
set_state(b"")
got, out = pull("/m.gguf")
check("empty", got, 1, "the answer is empty", out, False, 0)
for length in (True, False):
    set_state(length=length)
    got, out = pull("/m.gguf", "--max-size", "20000")
    check("too long", got, 1, "20000", out, False, 0 if length else os.path.getsize(out + ".part"))

# ---- wrong places ----
set_state()
got, out = pull("/loop")
check("redirects for ever", got, 1, "more than 8 redirects", out, False, 0)
got, out = pull("/disk")
check("a redirect to the disk", got, 1, "http, https and file are understood", out, False, 0)
got, out = pull("", url="ftp://127.0.0.1/x.gguf")
check("ftp", got, 2, "is no http, https or file URL", out, False, None)
got, out = pull("", url="file:///none.gguf")
check("no such file", got, 1, "cannot read the file", out, False, 0)
got, out = pull("/m.gguf", out=folder.name + "/none/x.gguf")
check("no such folder", got, 1, "none/x.gguf.part: No such file", out, False, None)
got, out = pull("/m.gguf", "--sha256", "abc")
check("no checksum", got, 2, "64 hexadecimal", out, False, None)
for words, text in (([], "a URL is needed"), ([BASE + "/"], "--out FILE is needed"), (["a", "b"], "b")):
    got = subprocess.run([program, "pull", *words], capture_output=True, text=True)
    assert got.returncode == 2 and text in got.stderr, got
got, out = pull("/m.gguf", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000)))
check("a full disk", got, 1, f"after 20000 bytes, {len(MODEL) - 20000} bytes are still to come", out, False, 20000)
got, _ = pull("/m.gguf", out=out)
check("and room again", got, 0, f"({len(MODEL) - 20000} fetched)", out, True, None)
with open(f"{folder.name}/held.gguf.part", "wb") as held:
    import fcntl
    fcntl.flock(held, fcntl.LOCK_EX)
    got, out = pull("/m.gguf", out=f"{folder.name}/held.gguf")
    assert got.returncode == 1 and "another process is fetching it" in got.stderr, got

# ---- a terminal sees a bar, a pipe does not ----
got, out = pull("/m.gguf")
assert got.stderr == "", got.stderr
main, side = pty.openpty()
got = subprocess.run([program, "pull", BASE + "/m.gguf", "--out", out + "2"], stdout=subprocess.PIPE, stderr=side,
                     env=environment)
os.close(side)
text = os.read(main, 100000).decode()
assert got.returncode == 0 and "100 % of" in text and "MB/s" in text, text
print(count, "pulls as they should be")
