"""Durable batch jobs: OpenAI's batch API with its own client, the command line, a coordinator that is
killed again and again, a disk that refuses. LACUNA_KILLS sets how often it is killed (20)."""

import io
import json
import os
import random
import re
import resource
import subprocess
import time

from cluster import Cluster, chat, main, openai_client, program, wait_for

KILLS = int(os.environ.get("LACUNA_KILLS", "20"))
ENDED = ("completed", "failed", "expired", "cancelled")


def line(name, endpoint="/v1/chat/completions", **body):
    if endpoint.endswith("chat/completions"):
        body.setdefault("messages", [{"role": "user", "content": f"Say {name}."}])
    else:
        body.setdefault("prompt", f"Once {name}")
    body = {"model": "smol", "max_tokens": 6, "temperature": 0, **body}
    return {"custom_id": name, "method": "POST", "url": endpoint, "body": body}


def upload(client, lines):
    data = "".join(json.dumps(x) + "\n" for x in lines).encode()
    return client.files.create(file=("in.jsonl", io.BytesIO(data)), purpose="batch")


def ended(client, batch, seconds=120):
    return wait_for(lambda: (b := client.batches.retrieve(batch.id)).status in ENDED and b, seconds,
                    f"{batch.id} ends")


def results(client, file_id):
    """custom_id → line; each at most once."""
    found = {}
    for text in client.files.content(file_id).text.splitlines() if file_id else []:
        entry = json.loads(text)
        assert entry["custom_id"] not in found, entry
        found[entry["custom_id"]] = entry
    return found


def the_openai_package():
    client = openai_client(c)
    names = [f"n{i}" for i in range(12)]
    file = upload(client, [line(n) for n in names] + [line("wrong", nonsense=1)])
    assert file.purpose == "batch" and client.files.retrieve(file.id).filename == "in.jsonl"
    batch = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions",
                                  completion_window="24h", metadata={"team": "tests"})
    assert batch.status in ("validating", "in_progress"), batch
    batch = ended(client, batch)
    assert batch.status == "completed" and batch.metadata == {"team": "tests"}, batch
    counts = batch.request_counts
    assert (counts.total, counts.completed, counts.failed) == (13, 12, 1), counts
    good, bad = results(client, batch.output_file_id), results(client, batch.error_file_id)
    assert sorted(good) == sorted(names) and list(bad) == ["wrong"], (good.keys(), bad.keys())
    assert bad["wrong"]["response"]["status_code"] == 400
    assert "nonsense" in bad["wrong"]["response"]["body"]["error"]["message"]
    # The same question asked at once has the same answer.
    body = good["n3"]["response"]["body"]
    assert body["object"] == "chat.completion" and body["usage"]["completion_tokens"] > 0
    direct = c.answer(line("n3")["body"])
    assert body["choices"][0]["message"]["content"] == direct, (body, direct)
    assert batch.id in [b.id for b in client.batches.list(limit=5)]
    assert file.id in [f.id for f in client.files.list()]
    assert client.files.delete(batch.output_file_id).deleted
    assert client.batches.retrieve(batch.id).output_file_id is None


def completions_and_bad_files():
    client = openai_client(c)
    file = upload(client, [line("p0", "/v1/completions"), line("p1", "/v1/completions", n=2)])
    batch = ended(client, client.batches.create(input_file_id=file.id, endpoint="/v1/completions",
                                                completion_window="1h"))
    good = results(client, batch.output_file_id)
    assert len(good["p1"]["response"]["body"]["choices"]) == 2, good
    assert good["p0"]["response"]["body"]["object"] == "text_completion"
    file = upload(client, [line("a"), line("a")])
    batch = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions",
                                  completion_window="24h")
    assert batch.status == "failed" and batch.errors.data[0].line == 2, batch


def cancelling():
    client = openai_client(c)
    file = upload(client, [line(f"l{i}", max_tokens=1500, ignore_eos=True) for i in range(30)])
    batch = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions",
                                  completion_window="24h")
    wait_for(lambda: c.metric("lacuna_batch_in_flight"), 20, "it runs")
    batch = client.batches.cancel(batch.id)
    assert batch.status in ("cancelling", "cancelled"), batch
    batch = ended(client, batch, 20)
    assert batch.status == "cancelled" and batch.request_counts.completed < 30, batch
    assert wait_for(lambda: c.metric("lacuna_batch_in_flight") == 0, 10, "nothing of it runs")


def interactive_first():
    """While a large job runs, requests that people wait for are answered as fast as ever."""
    path = os.path.join(c.folder, "large.jsonl")
    with open(path, "w") as f:
        for i in range(200):
            f.write(json.dumps(line(f"x{i}", max_tokens=60, ignore_eos=True)) + "\n")
    job = lacuna("jobs", "submit", path).strip()
    wait_for(lambda: c.metric("lacuna_batch_in_flight"), 20, "it runs")
    for i in range(5):
        assert c.answer(chat(f"Number {i}?", max_tokens=4))
    lacuna("jobs", "cancel", job)
    wait_for(lambda: '"ended":true' in lacuna("jobs", "show", "--json", job), 20, "it ends")


def lacuna(*arguments, code=0):
    done = subprocess.run([program("lacuna"), "--connect", c.client_plane, *arguments],
                          capture_output=True, text=True, timeout=200)
    assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
    return done.stdout


def the_command_line():
    path = os.path.join(c.folder, "prompts.jsonl")
    with open(path, "w") as f:
        f.write('{"id":"a","text":"Say one."}\n\n{"id":"b","messages":[{"role":"user","content":"two"}]}\n')
    said = lacuna("jobs", "submit", "--max-tokens", "3", "--key", "night", "--wait", path)
    job = said.split()[0]
    assert "2 of 2 answered" in said, said
    assert lacuna("jobs", "submit", "--max-tokens", "3", "--key", "night", path).strip() == job
    assert f"{job}  completed" in lacuna("jobs", "list")
    lines = [json.loads(x) for x in lacuna("jobs", "show", "--results", job).splitlines()]
    assert [x["custom_id"] for x in lines] == ["a", "b"] and lines[0]["body"]["choices"], lines
    assert lacuna("jobs", "wait", job).startswith(f"{job} completed")
    lacuna("jobs", "show", "0000000000000001", code=2)
    with open(path, "w") as f:
        f.write('{"id":"c","text":"Say three."}\nnonsense\n')
    lacuna("jobs", "submit", path, code=2)


def a_disk_that_refuses():
    """Files may not grow: an error of the device. Jobs become read-only, answers go on, and when the
    disk takes writes again so does the batch API."""
    client = openai_client(c)
    pid, unlimited = c.coordinator.pid, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    before = upload(client, [line("before")])
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (65536, resource.RLIM_INFINITY))
    try:
        try:
            upload(client, [line("refused", user="x" * 1000000)])
            raise AssertionError("a file was taken that cannot be kept")
        except Exception as refused:
            assert getattr(refused, "status_code", None) == 507, refused
        assert c.metric("lacuna_store_writable") == 0
        assert client.files.retrieve(before.id).bytes > 0
        assert c.answer(chat("Still here?", max_tokens=3))
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, unlimited)
    wait_for(lambda: c.metric("lacuna_store_writable") == 1, 20, "the disk is tried again")
    batch = client.batches.create(input_file_id=before.id, endpoint="/v1/chat/completions",
                                  completion_window="24h")
    assert ended(client, batch).status == "completed"


class Submitter:
    """Submits jobs by both ways and remembers those that were acknowledged."""

    def __init__(self):
        self.batches, self.jobs, self.count = [], [], 0

    def openai(self, client, size):
        names = [f"k{self.count}-{i}" for i in range(size)]
        self.count += 1
        try:
            file = upload(client, [line(n) for n in names])
            batch = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions",
                                          completion_window="24h")
            self.batches.append((batch.id, names))
        except Exception:
            pass  # not acknowledged: nothing was promised

    def native(self, size):
        names = [f"j{self.count}-{i}" for i in range(size)]
        path = os.path.join(c.folder, "kill.jsonl")
        with open(path, "w") as f:
            f.write("".join(json.dumps(line(n)) + "\n" for n in names))
        arguments = ["jobs", "submit", "--attempts", "4", "--key", f"key{self.count}", path]
        self.count += 1
        done = subprocess.run([program("lacuna"), "--connect", c.client_plane, *arguments],
                              capture_output=True, text=True, timeout=60)
        if done.returncode == 0:
            self.jobs.append((done.stdout.strip(), names))


def attempts_in_logs():
    """(job, item) → the attempts that were started, in order, over all lives of the coordinator."""
    runs = {}
    for process in c.processes:
        for job, item, attempt, limit in re.findall(
                r"batch item: job (\w+) item (\d+) attempt (\d+) of (\d+)", process.text()):
            runs.setdefault((job, item), []).append((int(attempt), int(limit)))
    return runs


def killed_again_and_again():
    seed = random.randrange(1 << 32)
    print(f"seed {seed}, {KILLS} kills", flush=True)
    dice, submitter = random.Random(seed), Submitter()
    where = dict(http=c.http, client=c.client_plane, worker=c.worker_plane)
    for i in range(KILLS):
        client = openai_client(c)
        end = time.monotonic() + dice.uniform(0.05, 1.5)
        while time.monotonic() < end and submitter.count < 2 * (i + 1):
            submitter.native(3) if dice.random() < 0.4 else submitter.openai(client, 3)
        time.sleep(max(0, end - time.monotonic()))
        c.coordinator.kill()
        c.start_coordinator(**where)
    c.wait_workers(1)
    client = openai_client(c)
    assert submitter.batches or submitter.jobs
    for name, names in submitter.batches:
        batch = ended(client, client.batches.retrieve(name), 300)
        good, bad = results(client, batch.output_file_id), results(client, batch.error_file_id)
        assert batch.status == "completed" and sorted([*good, *bad]) == sorted(names), (batch, good, bad)
        for entry in bad.values():
            assert entry["error"]["code"] == "attempts_exhausted", entry
    for job, names in submitter.jobs:
        wait_for(lambda: '"ended":true' in lacuna("jobs", "show", "--json", job), 300, f"{job} ends")
        lines = [json.loads(x) for x in lacuna("jobs", "show", "--results", job).splitlines()]
        assert [x["custom_id"] for x in lines] == names, (job, lines)
        assert all(x["attempts"] <= 4 for x in lines), lines
    mine = {name.removeprefix("batch_") for name, _ in submitter.batches + submitter.jobs}
    runs = {item: a for item, a in attempts_in_logs().items() if item[0] in mine}
    for item, attempts in runs.items():
        numbers = [a for a, _ in attempts]
        assert all(b > a for a, b in zip(numbers, numbers[1:])), (item, attempts)
        assert all(a <= limit for a, limit in attempts), (item, attempts)
    items = sum(len(n) for _, n in submitter.batches + submitter.jobs)
    again = sum(len(a) > 1 for a in runs.values())
    print(f"{items} acknowledged items, none lost; {again} ran more than once, none past its limit")


with Cluster(workers=1, coordinator_arguments=["--log-level", "debug"],
             warnings=[r"jobs are read-only", r"REREGISTER|reregister|connection|coordinator"]) as c:
    openai_client(c)  # skipped without the package, before anything is waited for
    main(the_openai_package, completions_and_bad_files, cancelling, interactive_first,
         the_command_line, a_disk_that_refuses, killed_again_and_again)
