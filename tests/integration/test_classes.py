"""Classes end to end: a worker with a plan, a log and prose over HTTP, hints, force, the shadow scores,
and what becomes of a request whose only holder dies."""

import json
import shutil
import subprocess
import tempfile
import threading

from cluster import Cluster, events, main, model_file, program, wait_for
from plan import write_plan

LOG = "".join(f"2025-03-04 10:00:{i:02d} INFO [gate] request {4711 + i} took {12 + i * 7 % 90} ms\n"
              for i in range(6))
PROSE = ("Once upon a time there was a king who lived in a castle by the sea, and he had three daughters "
         "whom he loved more than all his gold. One morning the eldest of them")


def completion(prompt, **more):
    return {"model": "smol", "prompt": prompt, "temperature": 0, "max_tokens": 12, **more}


def ask(prompt, headers=None, **more):
    status, got, reply = c.post("/v1/completions", completion(prompt, **more), headers)
    assert status == 200, (status, reply)
    return got, reply


def generated(prompt, mask):
    """The same from the engine alone."""
    text = c.run("lacuna-engine", "generate", "--model", model_file(), "--prompt", prompt, "--temp", "0",
                 "--max-tokens", "12", "--json", *(["--mask", mask] if mask else []))
    return json.loads(text)["text"]


def known():
    out = c.run("lacuna", "--connect", c.client_plane, "plan", "show", "--json")
    return {x["name"]: x for x in json.loads(out)["classes"]}


def a_log_runs_as_its_class():
    headers, reply = ask(LOG)
    assert headers["X-Lacuna-Class"] == "logs" and headers["X-Lacuna-Mask"] == "A25", dict(headers)
    assert headers["X-Lacuna-Layers"] == "active=30 total=30 skip=0.0167", dict(headers)
    assert "structured input: certified, tier standard" in headers["X-Lacuna-Why"], dict(headers)
    run = reply["usage"]["lacuna"]
    assert run["class"] == "logs" and run["active_layers"] == 30 and run["layers"] == 30, run
    assert abs(run["skip_rate"] - 1 / 60) < 1e-6 and 0 < run["cost_skip_rate"] < 0.02, run
    assert run["flops"] > 1e9 and run["kv_bytes"] > 1e5 and not run["forced"], run
    assert reply["choices"][0]["text"] == generated(LOG, "A25"), reply
    full = ask(LOG, {"X-Lacuna-Sparse": "false"})[1]
    assert full["usage"]["lacuna"]["class"] == "full", full
    assert full["usage"]["lacuna"]["kv_bytes"] * 29 == run["kv_bytes"] * 30, (full, run)
    assert full["choices"][0]["text"] == generated(LOG, None), full


def prose_runs_in_full():
    headers, reply = ask(PROSE)
    assert headers["X-Lacuna-Class"] == "full" and headers["X-Lacuna-Mask"] == "", dict(headers)
    assert headers["X-Lacuna-Why"] == "what is certified for unstructured input is beyond tier standard"
    assert reply["usage"]["lacuna"]["skip_rate"] == 0, reply
    assert reply["choices"][0]["text"] == generated(PROSE, None), reply


def a_stream_says_it_first_and_last():
    import http.client
    connection = http.client.HTTPConnection(c.http, timeout=60)
    body = completion(LOG, stream=True, stream_options={"include_usage": True})
    connection.request("POST", "/v1/completions", json.dumps(body))
    reply = connection.getresponse()
    assert reply.headers["X-Lacuna-Class"] == "logs", dict(reply.headers)
    last = [json.loads(x) for x in events(reply) if x != "[DONE]"][-1]
    assert last["usage"]["lacuna"]["class"] == "logs" and last["usage"]["lacuna"]["flops"] > 1e9, last
    connection.close()


def hints_and_force():
    hint = known()["logs2"]["hint"]
    assert len(hint) == 32
    assert ask(LOG, {"X-Lacuna-Hint": hint})[0]["X-Lacuna-Class"] == "logs2"
    assert c.metric('lacuna_hints_total{reason="honoured"}') == 1
    assert ask(LOG, {"X-Lacuna-Hint": "A" * 32})[0]["X-Lacuna-Class"] == "logs"
    assert c.metric('lacuna_hints_total{reason="unknown"}') == 1
    status, _, reply = c.post("/v1/completions", completion(LOG), {"X-Lacuna-Hint": "short"})
    assert status == 400 and "5 characters" in reply["error"]["message"], (status, reply)
    headers, reply = ask(PROSE, {"X-Lacuna-Class": "prose"})
    assert headers["X-Lacuna-Class"] == "prose" and headers["X-Lacuna-Forced"] == "true", dict(headers)
    assert reply["usage"]["lacuna"]["forced"], reply
    assert reply["choices"][0]["text"] == generated(PROSE, "A7,A25"), reply


def people_see_it():
    connect = ("--connect", c.client_plane)
    explained = c.run("lacuna", *connect, "path", "explain", LOG)
    assert "class        logs: structured input: certified" in explained, explained
    assert "left out     A25" in explained, explained
    request = ask(LOG)[0]["X-Lacuna-Request"]
    kept = c.run("lacuna", *connect, "path", "explain", "--request", request)
    assert "class        logs: structured input" in kept and "group        w0" in kept, kept
    table = c.run("lacuna", *connect, "plan", "show")
    assert "logs2" in table and "guard closed" in table, table
    status = c.run("lacuna", *connect, "status")
    assert "logs" in status and "CLASS" in status, status
    done = subprocess.run([program("lacuna"), *connect, "submit", "-v", "--raw", "--temp", "0",
                           "--max-tokens", "8", LOG], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "class logs (A25): structured input" in done.stderr, done
    c.run("lacuna", *connect, "path", "force", "full")
    assert ask(LOG)[0]["X-Lacuna-Class"] == "full"
    c.run("lacuna", *connect, "path", "force", "off")
    assert ask(LOG)[0]["X-Lacuna-Class"] == "logs"
    metric = 'lacuna_class_requests_total{model="smol",class="logs"}'
    assert c.metric(metric) >= 4, c.metric(metric)
    assert 0 < c.metric("lacuna_path_skip_rate") < 1


def masked_requests_are_scored():
    """Every one is sampled here; the mean divergence of a log is of the size the mask really costs."""
    wait_for(lambda: c.metric("lacuna_shadow_scores_total") >= 1, 60, "a score")
    wait_for(lambda: known()["logs"]["serves"]["structured"]["shadows"] >= 1, 90, "the guard knows")
    assert known()["logs"]["serves"]["structured"]["guard"] == "closed", known()


def a_lost_holder_leaves_full():
    """The other worker has no plan: what began as a class goes on there in full, and says so."""
    c.worker_arguments = []
    c.start_worker()
    c.wait_workers(2)
    result = []
    asking = threading.Thread(target=lambda: result.append(
        ask(LOG, max_tokens=150, ignore_eos=True)))
    asking.start()
    wait_for(lambda: any(x["id"] == "w0" and x["running"] for x in c.status()["groups"]), 20, "it runs")
    wait_for(lambda: c.metric("lacuna_output_tokens_total") > before + 10, 20, "it has begun")
    c.workers[0].kill()
    asking.join(120)
    headers, reply = result[0]
    assert reply["usage"]["completion_tokens"] == 150, reply
    assert reply["usage"]["lacuna"]["class"] == "full", reply
    assert "logs: no ready group has it" in reply["usage"]["lacuna"]["why"], reply
    assert c.metric('lacuna_class_fallbacks_total{reason="no_group"}') == 1


folder = tempfile.mkdtemp(prefix="lacuna-plan-")
try:
    plan = None

    def everything():
        global c, before
        plan = write_plan(folder, [
            ("logs", "A25", {"structured": ("standard", 0.012, 0.029)}),
            ("logs2", "A7", {"structured": ("gold", 0.004, 0.009)}),
            ("prose", "A7,A25", {"unstructured": ("economy", 0.06, 0.08)})])
        with Cluster(workers=1, coordinator_arguments=["--shadow-share", "1", "--allow-force"],
                     worker_arguments=["--plan", plan],
                     warnings=[r"is forced by an administrator", r"is not forced any more",
                               r"connection is gone", r"moving 1 requests", r"disconnected"]) as c:
            for test in (a_log_runs_as_its_class, prose_runs_in_full, a_stream_says_it_first_and_last,
                         hints_and_force, people_see_it, masked_requests_are_scored):
                test()
                print(f"  passed: {test.__name__}", flush=True)
            before = c.metric("lacuna_output_tokens_total")
            a_lost_holder_leaves_full()

    main(everything)
finally:
    shutil.rmtree(folder, ignore_errors=True)
