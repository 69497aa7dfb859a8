"""What `lacuna-engine erase` writes, read by llama.cpp: test_erase_peer.py PROGRAM MAKE-PLAN.

The logits of llama.cpp on the erased file are compared with ours, in float32, on the model and the class. A
model with parts left out amplifies what quantising activations costs, in theirs as in ours; so the yardstick
is how far our own quantised path is from our float32. Needs llama-server (LACUNA_TEST_LLAMA_SERVER or the PATH) and the default model
(LACUNA_TEST_MODEL or the cache folder); exit status 77 without."""

import array
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

PROGRAM, MAKE_PLAN = sys.argv[1:3]
TOP = 20
IDS = [1, 198, 2683, 359, 253, 5356, 5646, 11173, 335, 3365, 1046, 28, 260, 2683, 314, 1343, 411, 702, 28, 564]
CUTS = (5, 12, 20)  # prompts: so many of the ids


def find_model():
    for path in (os.environ.get("LACUNA_TEST_MODEL"),
                 *sorted((pathlib.Path.home() / ".cache/lacuna").glob("SmolLM2-135M*.gguf"))):
        if path and os.path.exists(path):
            return str(path)
    return None


def our_logprobs(folder, isa, *options):
    out = folder / "logprobs"
    (folder / "ids").write_text(" ".join(map(str, IDS)))
    subprocess.run([PROGRAM, "score", "--ids-file", folder / "ids", "--logprobs-file", out, "--isa", isa, *options],
                   check=True, stdout=subprocess.DEVNULL)
    values = array.array("f", out.read_bytes())
    vocab = len(values) // len(IDS)
    return [values[i * vocab:(i + 1) * vocab] for i in range(len(IDS))]


def their_logprobs(server, model):
    """{cut: {token: logprob}} of the TOP tokens after the first `cut` ids."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    process = subprocess.Popen([server, "-m", model, "--port", str(port), "--host", "127.0.0.1", "-c", "512",
                                "-t", "2", "--no-warmup"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        return ask(process, port)
    finally:
        process.kill()
        process.communicate()


def ask(process, port):
    deadline = time.monotonic() + 120
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as reply:
                if reply.status == 200:
                    break
        except OSError:
            pass
        if process.poll() is not None or time.monotonic() > deadline:
            sys.exit(f"llama-server did not load the file, status {process.poll()}")
        time.sleep(0.2)
    found = {}
    for cut in CUTS:
        body = json.dumps({"prompt": IDS[:cut], "n_predict": 1, "n_probs": TOP, "temperature": 0,
                           "cache_prompt": False}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{port}/completion", body,
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as reply:
            answer = json.load(reply)
        entry = answer["completion_probabilities"][0]
        found[cut] = {t["id"]: t["logprob"] for t in entry.get("top_logprobs", entry.get("top_probs"))}
    return found


def distance(ours, theirs):
    """Largest difference of the likeliest tokens' log-probabilities."""
    worst = 0
    for cut, top in theirs.items():
        row = ours[cut - 1]
        likely = sorted(top, key=top.get, reverse=True)[:10]
        worst = max(worst, *(abs(row[t] - top[t]) for t in likely))
    return worst


def main():
    server = os.environ.get("LACUNA_TEST_LLAMA_SERVER") or shutil.which("llama-server")
    model = find_model()
    if not server or not model:
        print("skipped: needs llama-server and the default model")
        return 77
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        plan = folder / "plan.json"
        subprocess.run([MAKE_PLAN, model, plan, "0.02"], check=True)
        full = our_logprobs(folder, "reference", "--model", model)
        for options in ((), ("--mask", "A25,A7"), ("--mask", "A25,F14,A7,F7,F29,A29"), ("--mask", "A0,F0,F3"),
                        ("--plan", plan, "--class", "square"), ("--plan", plan, "--class", "mixed")):
            erased = folder / "erased.gguf" if options else model
            if options:
                subprocess.run([PROGRAM, "erase", "--model", model, *options, "--out", erased], check=True)
            theirs = their_logprobs(server, erased)
            ours = our_logprobs(folder, "reference", "--model", model, *options)
            quantised = our_logprobs(folder, "auto", "--model", model, *options)
            off, moved = distance(ours, theirs), distance(full, theirs)
            noise = distance(quantised, {c: {t: ours[c - 1][t] for t in theirs[c]} for c in CUTS})
            print(*options, f"off by {off:.4f}, ours by {noise:.4f}, moved from full by {moved:.4f}")
            failed |= off > 2 * noise + 0.1 or (bool(options) and moved < 2 * off)
    return 1 if failed else 0


sys.exit(main())
