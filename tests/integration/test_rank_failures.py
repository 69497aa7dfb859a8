"""Ranks that die or stop, again and again, at random: each time the stream goes on in the other group, the
group of the lost rank ends by itself within two seconds of being declared dead, and a rank that was stopped
and goes on finds itself fenced. LACUNA_TEST_FAILURES sets how often (20); LACUNA_TEST_SEED repeats a run."""

import os
import random
import signal
import time

from cluster import Cluster, chat, main, wait_for
from ranks import WARNINGS, Stream, ready, shared_memory, start_group

SHAPES = [(2, 1), (1, 2)]


def failures():
    count = int(os.environ.get("LACUNA_TEST_FAILURES", "20"))
    seed = int(os.environ.get("LACUNA_TEST_SEED", str(time.time_ns() % 1000000)))
    draw = random.Random(seed)
    print(f"{count} failures, seed {seed}", flush=True)
    before = shared_memory()
    for shape in SHAPES:
        run(shape, count // len(SHAPES), draw)
    assert shared_memory() <= before, shared_memory() - before


def run(shape, count, draw):
    with Cluster(workers=0, warnings=WARNINGS) as c:
        groups = {name: start_group(c, name, *shape) for name in ("a", "b")}
        wait_for(lambda: all(ready(c, g) for g in groups), 90, "both groups serve")
        expected = c.answer(chat("Tell me a story.", max_tokens=60, ignore_eos=True))
        for turn in range(count):
            stream = Stream(c, "Tell me a story.", 60)
            wait_for(lambda: len(stream.text) > 10 or stream.error, 60, "the stream began")
            running = [g["id"] for g in c.status()["groups"] if g["running"] and g["state"] == "READY"]
            name = running[0] if running else draw.choice(sorted(groups))
            rank, number = draw.randrange(2), draw.choice([signal.SIGKILL, signal.SIGSTOP])
            time.sleep(draw.random() * 0.2)
            lose(c, groups, name, rank, number)
            assert stream.end() == expected, (turn, name, rank, number)
            groups[name] = start_group(c, name, *shape)
            wait_for(lambda: ready(c, name), 90, f"group {name} serves again")


def lose(c, groups, name, rank, number):
    ranks = groups[name]
    for p in ranks:
        p.expected = None
    ranks[rank].signal(number)
    wait_for(lambda: not ready(c, name), 10, "the loss is noticed")
    other = ranks[1 - rank]
    assert other.wait(10) != 0, (name, rank, number)
    if number == signal.SIGSTOP:
        ranks[rank].signal(signal.SIGCONT)
        assert ranks[rank].wait(10) != 0, ranks[rank].tail()
    else:
        ranks[rank].wait(10)
    for p in ranks:  # their descriptors are needed no more
        p.close()
        c.processes.remove(p)
        c.workers.remove(p)


main(failures)
