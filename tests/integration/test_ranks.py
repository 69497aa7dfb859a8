"""Groups of several ranks behind the coordinator: they answer as one rank does, one that dies or stops
takes its group with it, streams go on elsewhere, and nothing stays behind."""

import glob
import os
import signal

from cluster import Cluster, chat, main, model_file, program, wait_for
from ranks import WARNINGS, Stream, rank_process, ready, shared_memory, start_group

SHAPES = {"2x1": (2, 1), "1x2": (1, 2)}


def text_of(c, prompt, tokens=24, **more):
    return c.answer(chat(prompt, max_tokens=tokens, **more))


def same_text():
    prompts = ["What is the capital of France?", "List the planets of the solar system.",
               "Write a haiku about the sea."]
    with Cluster(workers=0, warnings=WARNINGS) as c:
        start_group(c, "one", 1, 1)
        wait_for(lambda: ready(c, "one"), 60, "one rank serves")
        expected = [text_of(c, p) for p in prompts]
        stop_group(c, "one")
        for shape, (pp, tp) in SHAPES.items():
            name = f"g{shape}"
            start_group(c, name, pp, tp)
            wait_for(lambda: ready(c, name), 60, f"the group of {shape} serves")
            got = [text_of(c, p) for p in prompts]
            assert got == expected, (shape, got, expected)
            group = next(g for g in c.status()["groups"] if g["id"] == name)
            assert (group["pp"], group["tp"], len(group["ranks"])) == (pp, tp, 2), group
            layers = [(r["layer_first"], r["layer_end"]) for r in group["ranks"]]
            assert layers == ([(0, layers[0][1]), (layers[0][1], 30)] if pp == 2 else [(0, 30)] * 2), layers
            assert all(r["weight_bytes"] > 1000000 for r in group["ranks"]), group
            shown = c.run("lacuna", "--connect", c.client_plane, "status")
            assert "WEIGHTS MB" in shown and name in shown, shown
            stop_group(c, name)


def stop_group(c, name):
    ranks = [p for p in c.workers if p.name.startswith(name + "-")]
    for p in reversed(ranks):  # a rank that does not lead has its group drained
        p.signal(signal.SIGTERM)
    for p in ranks:
        assert p.wait(30) == 0, (p.name, p.tail())


def another_plan():
    """A rank that would load something else stops the group, and both sides are told."""
    plan = os.path.join(os.path.dirname(__file__), "..", "..", "ops", "models")
    plans = sorted(glob.glob(os.path.join(plan, "*.json")))
    if not plans:
        return
    with Cluster(workers=0, warnings=[r"."]) as c:
        a = rank_process(c, "g", 0, 2, 1)
        b = rank_process(c, "g", 1, 2, 1, "--plan", plans[0])
        a.expected = b.expected = None
        assert {a.wait(60), b.wait(60)} == {1, 3}, (a.tail(), b.tail())
        for p in (a, b):
            assert p.text().count("plan digest") >= 1, p.tail()
        assert "plan digest" in c.coordinator.text()


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def loss(shape, number):
    """Each rank of a launched group is lost in the middle of a stream; another group goes on with it, and
    the launcher starts the lost one again."""
    before = shared_memory()
    words = "--model-name smol --slots 4 --ctx-max 1024 --kv-mem 64M"
    pids = set()
    with Cluster(workers=0, warnings=WARNINGS, coordinator_arguments=[
            "--launch", "local", "--launch-model", model_file(), "--launch-worker", program("lacuna-worker"),
            "--launch-arguments", words, "--groups", "2", "--group-shape", shape]) as c:
        def groups():
            found = {g["id"]: g for g in c.status()["groups"] if g["state"] == "READY"}
            for g in found.values():
                pids.update(r["pid"] for r in g["ranks"])
            return found
        expected = None
        for rank in range(2):
            wait_for(lambda: len(groups()) == 2, 90, "two groups serve")
            if expected is None:
                expected = text_of(c, "Tell me a story.", 120, ignore_eos=True)
            stream = Stream(c, "Tell me a story.", 120)
            wait_for(lambda: len(stream.text) > 20 or stream.error, 60, "the stream began")
            assert not stream.error, stream.error
            running = wait_for(lambda: [g for g in groups().values() if g["running"]], 10,
                               "somebody runs it")[0]
            old = [r["pid"] for r in running["ranks"]]
            os.kill(old[rank], number)
            assert stream.end() == expected
            wait_for(lambda: not any(alive(p) for p in old), 20, "the whole group is gone")
            wait_for(lambda: running["id"] not in groups() or
                     [r["pid"] for r in groups()[running["id"]]["ranks"]] != old, 30, "it is another start")
        wait_for(lambda: len(groups()) == 2, 90, "two groups serve again")
    wait_for(lambda: not any(alive(p) for p in pids), 10, "no process stays")
    assert shared_memory() <= before, shared_memory() - before


def pipeline_killed():
    loss("2x1", signal.SIGKILL)


def parts_killed():
    loss("1x2", signal.SIGKILL)


def pipeline_stopped():
    loss("2x1", signal.SIGSTOP)


def parts_stopped():
    loss("1x2", signal.SIGSTOP)


main(same_text, another_plan, pipeline_killed, pipeline_stopped, parts_killed, parts_stopped)
