"""Groups that the coordinator launches itself: more under load, fewer by order, replaced when they die,
kept through a crash of the coordinator, ended with it. No request is lost on the way."""

import os
import signal
import threading

from cluster import Cluster, chat, main, model_file, program, wait_for


def launched(groups, *more):
    """A coordinator with a launcher, on ports of its own that a later start can have again."""
    words = "--model-name smol --threads 1 --slots 1 --ctx-max 1024 --kv-mem 32M"
    return Cluster(workers=0, coordinator_arguments=[
        "--launch", "local", "--launch-model", model_file(), "--launch-worker",
        program("lacuna-worker"), "--launch-arguments", words, "--groups", groups, *more],
        # A group that is killed within its first minute counts as a bad start; load beyond what
        # runs is what brings groups.
        warnings=[r"group auto\d is gone", r"did not come up: ended by signal 9", r"READY -> SUSPECT", r"SUSPECT -> FENCED",
                  r"its connection is gone", r"brownout (begins|ends)"])


def ready(c):
    return [g for g in c.status()["groups"] if g["state"] == "READY"]


def pids(c):
    return {g["id"]: g["ranks"][0]["pid"] for g in ready(c)}


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def lacuna(c, *words):
    return c.run("lacuna", "--connect", c.client_plane, *words)


def load_and_orders():
    with launched("1:3") as c:
        wait_for(lambda: len(ready(c)) == 1, 60, "the first group is ready")
        answers, errors = [], []

        def ask(number):
            try:
                answers.append(c.answer(chat(f"Count to {number + 10}.", max_tokens=60,
                                             ignore_eos=True)))
            except BaseException as e:  # noqa: BLE001 - every failure of a client counts
                errors.append(repr(e))
        clients = [threading.Thread(target=ask, args=(i,)) for i in range(24)]
        for t in clients:
            t.start()
        wait_for(lambda: len(ready(c)) == 3, 90, "load brought three groups")
        before = pids(c)
        assert len(set(before.values())) == 3
        said = lacuna(c, "scale", "1")  # while requests run: they finish or move
        assert "1 groups from now on" in said, said
        for t in clients:
            t.join(120)
        assert not errors and len(answers) == 24, (errors, len(answers))
        wait_for(lambda: len(ready(c)) == 1, 60, "one group is left")
        left = pids(c)
        wait_for(lambda: sum(alive(p) for p in before.values()) == 1, 60, "the others ended")
        # One that dies is replaced by a new start.
        os.kill(next(iter(left.values())), signal.SIGKILL)
        wait_for(lambda: ready(c) and pids(c) != left, 60, "a new group came")
        assert c.answer(chat("Say hi.", max_tokens=4))
        group, pid = next(iter(pids(c).items()))
        assert "no new work" in lacuna(c, "drain", group)
        wait_for(lambda: not alive(pid), 60, "the drained group ended")
        wait_for(lambda: ready(c), 60, "another took its place")
        pid = next(iter(pids(c).values()))
    wait_for(lambda: not alive(pid), 5, "groups end with their coordinator")


def coordinator_crash():
    with launched("2") as c:
        wait_for(lambda: len(ready(c)) == 2, 60, "two groups are ready")
        before = pids(c)
        planes = {"http": c.http, "client": c.client_plane, "worker": c.worker_plane}
        c.coordinator.kill()
        assert all(alive(p) for p in before.values())
        c.start_coordinator(**planes)
        wait_for(lambda: len(ready(c)) == 2, 30, "both groups said hello again")
        assert pids(c) == before, (pids(c), before)
        assert c.answer(chat("Say hi.", max_tokens=4))
    wait_for(lambda: not any(alive(p) for p in before.values()), 5, "they end with the new one")


def bad_model():
    with Cluster(workers=0, coordinator_arguments=[
            "--launch", "local", "--launch-model", "/nonexistent/model.gguf", "--launch-worker",
            program("lacuna-worker"), "--groups", "1"],
            warnings=[r"did not come up", r"starts in a row failed"]) as c:
        wait_for(lambda: c.metric("lacuna_fleet_bad_starts_total") >= 2, 30, "starts were tried")
        assert "/nonexistent/model.gguf" in c.coordinator.text()
        assert "ended with status 1" in c.coordinator.text()


main(load_and_orders, coordinator_crash, bad_model)
