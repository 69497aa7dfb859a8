"""A coordinator with workers for the erasure benchmarks, and clients that ask it over HTTP, many at once."""
import asyncio, json, time

from http import Server  # the script of this folder, which hides the library's module


class Cluster(Server):
    """workers: a list of option lists, each one worker (a group of its own)."""
    name = "lacuna"

    def __init__(self, args, workers, *options):
        super().__init__()
        said = self.start(args.bin / "lacuna-coordinator", "--http", "127.0.0.1:0", "--client-plane",
                          "tcp://127.0.0.1:0", "--worker-plane", "tcp://127.0.0.1:0", "--state-dir",
                          self.folder.name + "/state", *options, wait_line="ready to accept workers")
        where = dict(line.strip().split(" ", 1) for line in said if " " in line)
        self.address = where["http"]
        self.coordinator = self.children[0]
        for i, own in enumerate(workers):
            self.start(args.bin / "lacuna-worker", "--coordinator", where["worker-plane"], "--group", f"w{i}",
                       "--threads", args.threads, "--ranks-here", len(workers), "--log-level", "warn", *own)
        self.wait_ready("/readyz")
        end = time.monotonic() + 120
        while self.groups_ready() < len(workers) and time.monotonic() < end:
            time.sleep(0.2)
        if self.groups_ready() < len(workers):
            self.fail("not all workers are ready")

    def groups_ready(self):
        for line in asyncio.run(get(self.address, "/metrics")).splitlines():
            if line.startswith('lacuna_groups{state="ready"}'):
                return int(float(line.split()[1]))
        return 0

    def resident(self):
        """Memory of all workers, bytes: what is theirs, and each one's share of what several have mapped."""
        total = 0
        for child in self.children[1:]:
            for line in open(f"/proc/{child.pid}/smaps_rollup"):
                if line.startswith("Pss:"):
                    total += 1024 * int(line.split()[1])
        return total


async def get(address, path):
    host, port = address.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode())
    text = (await reader.read()).decode()
    writer.close()
    return text


async def body_of(reader):
    """Status and whole body of a reply that ends its connection."""
    status = int((await reader.readline()).split()[1])
    chunked, length = False, None
    while (line := (await reader.readline()).strip().lower()) != b"":
        chunked |= line.startswith(b"transfer-encoding:") and b"chunked" in line
        if line.startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    if not chunked:
        return status, await (reader.readexactly(length) if length is not None else reader.read())
    body = b""
    while (size := int((await reader.readline()).split(b";")[0], 16)) > 0:
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    return status, body


async def chat(address, messages, headers=(), model="model", **more):
    """One answer: text, usage and seconds."""
    host, port = address.rsplit(":", 1)
    body = json.dumps({"model": model, "messages": messages, "temperature": 0, **more}).encode()
    head = "".join(f"{k}: {v}\r\n" for k, v in dict(headers).items())
    reader, writer = await asyncio.open_connection(host, int(port))
    begin = time.monotonic()
    writer.write(f"POST /v1/chat/completions HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n"
                 f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
    status, reply = await body_of(reader)
    writer.close()
    answer = json.loads(reply)
    if status != 200:
        raise RuntimeError(f"{status}: {answer}")
    return {"text": answer["choices"][0]["message"]["content"], "usage": answer["usage"],
            "s": time.monotonic() - begin}


def ask_all(address, requests, clients):
    """Answers to requests (keyword arguments of chat), `clients` of them at a time, and the whole time."""
    async def run():
        gate = asyncio.Semaphore(clients)

        async def one(request):
            async with gate:
                return await chat(address, **request)
        return await asyncio.gather(*(one(r) for r in requests))
    begin = time.monotonic()
    answers = asyncio.run(run())
    return answers, time.monotonic() - begin


def rouge_l(a, b):
    """F measure of the longest common subsequence of words (Lin 2004)."""
    x, y = a.split(), b.split()
    if not x or not y:
        return float(x == y)
    row = [0] * (len(y) + 1)
    for word in x:
        last = 0
        for j, other in enumerate(y, 1):
            last, row[j] = row[j], last + 1 if word == other else max(row[j], row[j - 1])
    return 2 * row[-1] / (len(x) + len(y))
