#!/usr/bin/env python3
"""Our server beside llama-server over HTTP: many clients at once, streaming.

Starts a coordinator with one worker, and llama-server with a slot a client, on free ports, and lets the
clients load them in turns. Row "own prompts": prompts that differ from the first token. Row "shared prefix":
prompts of which the first seven eighths are the same. Prints medians over the repeats and writes JSON.

    tests/bench/http.py [--model FILE] [--clients 16] [--prompt 256] [--tokens 128] [--repeats 5] [--json OUT]

Prompts are token ids, so that both serve the same number of them. A gap (ITL) is the time between two events
of a stream that carry text. Needs only the Python standard library, and for the peer a compiler and CMake."""
import argparse, asyncio, json, os, pathlib, platform, random, signal, socket, statistics, subprocess, sys
import tempfile, time

import peer  # and nothing that imports the library's own http, which this file's name hides

READY_S = 120


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def status_of(address, path):
    """The status of a GET, or 0 when nobody answers."""
    host, port = address.rsplit(":", 1)
    try:
        with socket.create_connection((host, int(port)), timeout=5) as s:
            s.sendall(f"GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode())
            return int(s.recv(64).split()[1])
    except (OSError, IndexError, ValueError):
        return 0


class Server:
    """Processes that together answer on one address; their logs lie in a folder of their own."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="lacuna-bench-")
        self.children = []

    def start(self, *command, wait_line=None):
        """Starts a process; with `wait_line`, returns what it printed up to there."""
        log = open(pathlib.Path(self.folder.name) / f"{len(self.children)}.log", "wb")
        child = subprocess.Popen([str(c) for c in command], stderr=log,
                                 stdout=subprocess.PIPE if wait_line else log, text=bool(wait_line))
        self.children.append(child)
        said = []
        while wait_line and wait_line not in "".join(said[-1:]):
            said.append(child.stdout.readline())
            if not said[-1]:
                self.fail(f"{command[0]} ended")
        return said

    def fail(self, what):
        logs = sorted(pathlib.Path(self.folder.name).glob("*.log"))
        tails = "\n".join(log.read_text(errors="replace")[-1500:] for log in logs)
        self.stop()
        sys.exit(f"{what}\n{tails}")

    def wait_ready(self, path):
        end = time.monotonic() + READY_S
        while time.monotonic() < end:
            if any(c.poll() is not None for c in self.children):
                self.fail(f"{self.name}: a process ended")
            if status_of(self.address, path) == 200:
                return
            time.sleep(0.1)
        self.fail(f"{self.name}: not ready within {READY_S} s")

    def stop(self):
        for child in reversed(self.children):
            child.send_signal(signal.SIGTERM)
        for child in self.children:
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        self.children = []


class Ours(Server):
    name = "lacuna"

    def __init__(self, args):
        super().__init__()
        said = self.start(args.bin / "lacuna-coordinator", "--http", "127.0.0.1:0", "--client-plane",
                          "tcp://127.0.0.1:0", "--worker-plane", "tcp://127.0.0.1:0", "--state-dir",
                          self.folder.name + "/state", wait_line="ready to accept workers")
        where = dict(line.strip().split(" ", 1) for line in said if " " in line)
        self.address = where["http"]
        self.start(args.bin / "lacuna-worker", "--coordinator", where["worker-plane"], "--model", args.model,
                   "--model-name", "model", "--threads", args.threads, "--slots", args.clients,
                   "--kv-mem", args.kv_mem, "--log-level", "warn")
        self.wait_ready("/readyz")


class Peer(Server):
    name = "llama.cpp"

    def __init__(self, args, binaries):
        super().__init__()
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        self.start(binaries / "llama-server", "-m", args.model, "--host", "127.0.0.1", "--port", port,
                   "-np", args.clients, "-c", args.clients * (args.prompt + args.tokens + 32), "-t", args.threads,
                   "-tb", args.threads, "--no-webui")
        self.wait_ready("/health")


# ---------------------------------------------------------------- one client


async def events(reader):
    """The data of each server-sent event of a reply, whose status must be 200."""
    status = await reader.readline()
    chunked = False
    while (line := await reader.readline()) not in (b"\r\n", b""):
        chunked |= line.lower().startswith(b"transfer-encoding:") and b"chunked" in line.lower()
    if b" 200 " not in status:
        raise RuntimeError(f"{status.decode().strip()}: {(await reader.read(2000)).decode(errors='replace')}")
    held = b""
    while True:
        if chunked:
            size = int((await reader.readline()).split(b";")[0], 16)
            piece = await reader.readexactly(size)
            await reader.readexactly(2)
        else:
            piece = await reader.read(65536)
        held += piece
        *whole, held = held.split(b"\n\n")
        for event in whole:
            for line in event.split(b"\n"):
                if line.startswith(b"data:"):
                    yield line[5:].strip()
        if not piece:
            return


async def ask(address, prompt, tokens):
    """One streamed completion: when it was sent, when each text came, how many tokens there were."""
    host, port = address.rsplit(":", 1)
    body = json.dumps({"model": "model", "prompt": prompt, "max_tokens": tokens, "temperature": 0, "stream": True,
                       "ignore_eos": True, "stream_options": {"include_usage": True}}).encode()
    reader, writer = await asyncio.open_connection(host, int(port))
    sent = time.monotonic()
    writer.write(f"POST /v1/completions HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n"
                 f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
    times, usage = [], None
    async for data in events(reader):
        now = time.monotonic()
        if data == b"[DONE]":
            break
        event = json.loads(data)
        if "error" in event:
            raise RuntimeError(event["error"])
        if any(c.get("text") for c in event.get("choices", ())):
            times.append(now)
        usage = event.get("usage") or usage
    writer.close()
    if not usage or not times:
        raise RuntimeError("a stream ended without usage or text")
    return {"sent": sent, "times": times, "end": times[-1], "prompt": usage["prompt_tokens"],
            "tokens": usage["completion_tokens"]}


async def client(address, prompts, tokens):
    return [await ask(address, prompt, tokens) for prompt in prompts]


async def load(address, plan, tokens):
    return sum(await asyncio.gather(*(client(address, prompts, tokens) for prompts in plan)), [])


# ---------------------------------------------------------------- measuring


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]


def figures(replies):
    wall = max(r["end"] for r in replies) - min(r["sent"] for r in replies)
    gaps = [b - a for r in replies for a, b in zip(r["times"], r["times"][1:])]
    first = [r["times"][0] - r["sent"] for r in replies]
    tokens = sum(r["tokens"] for r in replies)
    return {"output_tok_s": tokens / wall, "ttft_p50_ms": 1e3 * percentile(first, 0.5),
            "ttft_p99_ms": 1e3 * percentile(first, 0.99), "itl_p50_ms": 1e3 * percentile(gaps, 0.5),
            "itl_p99_ms": 1e3 * percentile(gaps, 0.99), "requests": len(replies), "tokens": tokens,
            "prompt_tokens": sum(r["prompt"] for r in replies),
            "tokens_an_event": tokens / sum(len(r["times"]) for r in replies)}


def prompts_for(args, shared, turn):
    """[clients][requests] prompts of token ids. Equal turns give both servers the same ones."""
    rng = random.Random(f"{shared} {turn}")
    low, high = args.ids

    def ids(n):
        return [rng.randrange(low, high) for _ in range(n)]

    common = random.Random("prefix")
    prefix = [common.randrange(low, high) for _ in range(args.prompt * 7 // 8)] if shared else []
    firsts = rng.sample(range(low, high), args.clients * args.requests)
    return [[prefix + [firsts[c * args.requests + r]] + ids(args.prompt - len(prefix) - 1)
             for r in range(args.requests)] for c in range(args.clients)]


ROWS = {"own prompts": False, "shared prefix": True}
COLUMNS = ("output_tok_s", "ttft_p50_ms", "ttft_p99_ms", "itl_p50_ms", "itl_p99_ms")


def measure(servers, args):
    results = {row: {s.name: [] for s in servers} for row in ROWS}
    for turn in range(-1, args.repeats):  # the first is for warming up
        for row, shared in ROWS.items():
            for server in servers:
                plan = prompts_for(args, shared, turn)
                try:
                    replies = asyncio.run(load(server.address, plan, args.tokens))
                except (RuntimeError, OSError, asyncio.IncompleteReadError, ValueError) as error:
                    server.fail(f"{server.name}: {error}")
                wrong = [r for r in replies if (r["prompt"], r["tokens"]) != (args.prompt, args.tokens)]
                if wrong:
                    server.fail(f"{server.name}: {wrong[0]['prompt']} tokens in and {wrong[0]['tokens']} out, "
                                f"{args.prompt} and {args.tokens} were asked for")
                if turn >= 0:
                    results[row][server.name].append(figures(replies))
                time.sleep(args.pause)
        peer.say(f"round {turn + 1} of {args.repeats} done")
    return results


def table(results, names, out=sys.stdout):
    print(f"{'median (least … most)':16}{'':12}" + "".join(f"{c:>26}" for c in COLUMNS), file=out)
    for row, by_name in results.items():
        medians = {}
        for name in names:
            cells = ""
            for column in COLUMNS:
                v = [round_[column] for round_ in by_name[name]]
                medians[name, column] = statistics.median(v)
                cells += f"{medians[name, column]:10.1f} ({min(v):.0f} … {max(v):.0f})".rjust(26)
            print(f"{row:16}{name:12}{cells}", file=out)
        if len(names) > 1:
            cells = "".join(f"{medians[names[0], c] / max(medians[names[1], c], 1e-9):26.2f}" for c in COLUMNS)
            print(f"{row:16}{'ratio':12}{cells}", file=out)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    ap.add_argument("--model", default=peer.CACHE / "SmolLM2-135M-Instruct.Q4_1.gguf", type=pathlib.Path)
    ap.add_argument("--bin", default=peer.ROOT / "build/release/bin", type=pathlib.Path)
    ap.add_argument("--threads", default=os.cpu_count(), type=int)
    ap.add_argument("--clients", default=16, type=int)
    ap.add_argument("--requests", default=2, type=int, help="one after the other, of each client in a round")
    ap.add_argument("--prompt", default=256, type=int, help="tokens in")
    ap.add_argument("--tokens", default=128, type=int, help="tokens out")
    ap.add_argument("--repeats", default=5, type=int)
    ap.add_argument("--pause", default=1.0, type=float, help="seconds between turns")
    ap.add_argument("--ids", default=(300, 40000), type=int, nargs=2, metavar=("LOW", "HIGH"),
                    help="token ids that prompts are made of: ordinary ones of the model")
    ap.add_argument("--kv-mem", default="1G")
    ap.add_argument("--peer-dir", default=peer.FOLDER, type=pathlib.Path)
    ap.add_argument("--no-peer", action="store_true")
    ap.add_argument("--busy", action="store_true", help="run although the machine is not idle")
    ap.add_argument("--json", type=pathlib.Path)
    args = ap.parse_args()
    for needed in (args.bin / "lacuna-coordinator", args.bin / "lacuna-worker", args.model):
        if not needed.exists():
            sys.exit(f"{needed} is not there")
    binaries = None if args.no_peer else peer.build(args.peer_dir)
    idle = peer.demand_quiet(args.busy)
    servers = []
    try:
        servers.append(Ours(args))
        if binaries:
            servers.append(Peer(args, binaries))
        results = measure(servers, args)
    finally:
        for server in servers:
            server.stop()
    names = [s.name for s in servers]
    table(results, names)
    if args.json:
        args.json.write_text(json.dumps({
            "machine": platform.processor() or platform.machine(), "threads": args.threads, "idle_before": idle,
            "clients": args.clients, "requests": args.requests, "prompt": args.prompt, "tokens": args.tokens,
            "peer": peer.VERSION, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
