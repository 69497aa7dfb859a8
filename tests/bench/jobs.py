#!/usr/bin/env python3
"""How many batch items a second are accepted, which means: are on disk.

Starts a coordinator without workers on a state directory of its own and submits jobs by both ways: native
(`lacuna jobs submit`, one job) and OpenAI's (upload a file, create a batch; several clients at once). Each figure
ends when the last acknowledgement has come. Prints items a second and the commits behind them, writes JSON.

    tests/bench/jobs.py [--bin build/release/bin] [--items 20000] [--clients 4] [--state-dir DIR] [--json OUT]

The state directory should lie on the disk that is meant: the default is this machine's temporary folder. Needs
only the Python standard library."""
import sys

sys.path.pop(0)  # http.py of this folder would hide the library's own
import argparse, concurrent.futures, http.client, json, pathlib, shutil, signal, subprocess, tempfile, time

BODY = {"model": "smol", "max_tokens": 32,
        "messages": [{"role": "user", "content": "Summarise this line of a log: " + "x" * 200}]}


def lines(count, start=0):
    return "".join(json.dumps({"custom_id": f"r{start + i}", "method": "POST", "url": "/v1/chat/completions",
                               "body": BODY}) + "\n" for i in range(count)).encode()


class Coordinator:
    def __init__(self, folder, state):
        self.child = subprocess.Popen(
            [folder / "lacuna-coordinator", "--http", "127.0.0.1:0", "--client-plane", "tcp://127.0.0.1:0",
             "--worker-plane", "tcp://127.0.0.1:0", "--state-dir", state, "--log-level", "warn"],
            stdout=subprocess.PIPE, text=True)
        said = {}
        for line in self.child.stdout:
            if line.startswith("ready"):
                break
            said.update([line.rstrip("\n").split(" ", 1)])
        self.http, self.client = said["http"], said["client-plane"]

    def ask(self, method, path, body=None, headers={}):
        connection = http.client.HTTPConnection(self.http, timeout=120)
        connection.request(method, path, body, headers)
        reply = connection.getresponse()
        text = reply.read()
        connection.close()
        assert reply.status == 200, (path, reply.status, text[:300])
        return text

    def metric(self, name):
        for line in self.ask("GET", "/metrics").decode().splitlines():
            if line.startswith(name + " "):
                return float(line.rsplit(" ", 1)[1])
        return 0.0

    def batch(self, data):
        form = (b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--b\r\nContent-Disposition: '
                b'form-data; name="file"; filename="in.jsonl"\r\n\r\n' + data + b"\r\n--b--\r\n")
        file = json.loads(self.ask("POST", "/v1/files", form,
                                   {"Content-Type": "multipart/form-data; boundary=b"}))
        batch = json.loads(self.ask("POST", "/v1/batches", json.dumps(
            {"input_file_id": file["id"], "endpoint": "/v1/chat/completions", "completion_window": "24h"})))
        return batch["request_counts"]["total"]

    def stop(self):
        self.child.send_signal(signal.SIGTERM)
        self.child.wait(30)


def measure(coordinator, what, run):
    commits = coordinator.metric("lacuna_store_commit_seconds_count")
    spent = coordinator.metric("lacuna_store_commit_seconds_sum")
    began = time.monotonic()
    items = run()
    seconds = time.monotonic() - began
    commits = coordinator.metric("lacuna_store_commit_seconds_count") - commits
    spent = coordinator.metric("lacuna_store_commit_seconds_sum") - spent
    row = {"what": what, "items": items, "seconds": round(seconds, 3), "items_per_s": round(items / seconds),
           "commits": int(commits), "commit_seconds": round(spent, 3)}
    print(f"{what:24} {items:8} items {seconds:8.2f} s {row['items_per_s']:9} items/s "
          f"{row['commits']:6} commits, {spent:.2f} s in them")
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parents[2] / "build/release/bin")
    parser.add_argument("--items", type=int, default=20000, help="of each figure, at most 50000")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--state-dir")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    work = pathlib.Path(tempfile.mkdtemp(prefix="lacuna-bench-jobs-"))
    coordinator = Coordinator(options.bin, options.state_dir or work / "state")
    rows = []
    try:
        path = work / "items.jsonl"
        path.write_bytes(lines(options.items))

        def native():
            subprocess.run([options.bin / "lacuna", "--connect", coordinator.client, "jobs", "submit", path],
                           check=True, stdout=subprocess.DEVNULL)
            return options.items

        def files():
            each = options.items // (4 * options.clients) or 1
            data = lines(each)
            with concurrent.futures.ThreadPoolExecutor(options.clients) as pool:
                return sum(pool.map(coordinator.batch, [data] * (4 * options.clients)))

        def small():
            data = lines(1)
            with concurrent.futures.ThreadPoolExecutor(16) as pool:
                return sum(pool.map(coordinator.batch, [data] * 320))

        rows.append(measure(coordinator, "native, one job", native))
        rows.append(measure(coordinator, f"batches, {options.clients} clients", files))
        rows.append(measure(coordinator, "batches of one item", small))
    finally:
        coordinator.stop()
        shutil.rmtree(work, ignore_errors=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
