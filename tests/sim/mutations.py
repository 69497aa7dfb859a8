#!/usr/bin/env python3
"""Breaks the coordinator's core on purpose, one bug at a time, and checks that its tests notice.

usage: mutations.py SOURCE_DIR BASE_LIBRARY [CC]

Each mutation replaces one text of one file. A mutant is caught when the scripted tests or the
simulation fail; one that survives, or whose text is no longer there, fails this run.
"""
import glob
import os
import subprocess
import sys
import tempfile

MUTATIONS = [
    ("output.c", "r->attempt != item->attempt", "false"),
    ("output.c", "r->group != rank->group", "false"),
    ("output.c", "c->first_pos > next", "false"),
    ("output.c", "lac__breaker_failed(core, rank->group);\n    lac__note", "lac__note"),
    ("requests.c", "        lac__router_discharge(r);\n", ""),
    ("requests.c", "core->running_count--;", ""),
    ("requests.c", "core->queue_tokens -= r->tokens_estimate;", ""),
    ("queue.c", "r->attempt++;", "r->attempt += !r->attempt;"),
    ("queue.c", "lac__rate_add(&core->retried, core->now_ms);", ";"),
    ("recovery.c", "r->moves > LAC_MOVES_MAX", "false"),
    ("recovery.c", "    r->crashes++;\n", ""),
    ("recovery.c", "(uint64_t)LAC__BACKOFF_MS << (r->moves - 1)", "(uint64_t)1"),
    ("recovery.c", "    if (died)\n", "    if (true)\n"),
    ("recovery.c", "if (!r->beyond)", "if (true)"),
    ("poison.c", "core->now_ms + LAC_QUARANTINE_MS", "core->now_ms + 1000"),
    ("poison.c", "    if (s)\n        *s =", "    if (false)\n        *s ="),
    ("router.c", "return !lac__recovery_suspect(r) ||", "return true ||"),
    ("router.c", "facts->fresh && stale(core, g)", "false"),
    ("router.c", "static const double bound = 1.25;", "static const double bound = 9;"),
    ("router.c", "load_of(g) >= lac__router_window(g)", "false"),
    ("prefix.c", "low = middle + 1;", "high = middle;"),
    ("verdict.c", "vanished < 2 ||", "true ||"),
    ("verdict.c", "stalled >= LAC_HUNG_MS && !frozen", "false"),
    ("verdict.c", "silent >= core->options.lease_ms && !frozen", "silent >= core->options.lease_ms"),
    ("breaker.c", "if (core->now_ms < b->until_ms)\n        return false;", ""),
    ("lifecycle.c", "    remember_fenced(core, group->incarnation);\n    for", "    for"),
    ("registry.c", "rank->session != envelope->session", "false"),
    ("forming.c", "phases[LAC__RANK_FORMED] < group->ranks_count", "false"),
    ("forming.c", "[LAC__GROUP_READY] = {BREAK, BREAK, TAKE}", "[LAC__GROUP_READY] = {TAKE, TAKE, TAKE}"),
    ("forming.c", "            return false;\n    return true;\n}\n\nstatic void config_make", "            return true;\n    return true;\n}\n\nstatic void config_make"),
    ("forming.c", "else if (digests_differ(&hello->plan_digest", "else if (false && digests_differ(&hello->plan_digest"),
    ("verdict.c", "if (group->ranks[i]->seen_ms < quiet->seen_ms)", "if (false)"),
    ("delivery.c", "r->credit--", "r->credit += 0"),
    ("path.c", "tier != LAC_TIER_NONE && tier <= most", "tier != LAC_TIER_NONE"),
    ("path.c", "guard_state(core, class, type) != LAC__GUARD_CLOSED", "false"),
    ("path.c", "key.plan.bytes[0] ^= (uint8_t)most;", ";"),
    ("path.c", "> hint_deviation * own_cost", "> 9"),
    ("path.c", "if (class->model->held_until_ms)", "if (false)"),
    ("classes.c", "now - model->tripped_ms[t] <= LAC__GUARD_COOL_MS", "true"),
    ("guard.c", "= sure - sure_full;", "= sure;"),
    ("guard.c", "loss <= LAC__GUARD_BAD * LAC__GUARD_EPSILON", "true"),
    ("router.c", "facts->holders && !lac__group_holds(g, r->class)", "false"),
    ("queue.c", "r->accepted_count || r->forced", "false"),
    ("fair.c", "rounds * LAC__QUANTUM * t->rules.weight;", "rounds * LAC__QUANTUM;"),
    ("fair.c", "        t->deficit -= work;\n", ""),
    ("fair.c", "            step_out(core, t);\n            join(core, t);\n", ""),
    ("fair.c", "return tried ? -1 : rounds;", "return rounds;"),
    ("fair.c", "    if (r->work)\n        t->deficit +=", "    if (false)\n        t->deficit +="),
    ("fair.c", "later != background || ", ""),
    ("bucket.c", "    b->level -= amount * LAC__UNITS;", ";"),
    ("bucket.c", "if (passed > missing / b->limit)", "if (true)"),
    ("tenant.c", "    lac__bucket_take(&t->requests, 1, core->now_ms);\n", ""),
    ("tenant.c", "(int64_t)used - (int64_t)r->reserved", "0"),
    ("tenant.c", "    t->live--;\n", ""),
    ("tenant.c", "return t->rules.models_count == 0;", "return true;"),
    ("brownout.c", "lasted >= (on ? LAC_BROWNOUT_CALM_MS : LAC_BROWNOUT_RISE_MS)", "true"),
    ("brownout.c", "bool other = on ? relaxed && !urgent :", "bool other = on ? false :"),
    ("brownout.c", "model->brownout.busy < fits * model->brownout.thrift", "true"),
    ("path.c", "model->brownout.on ? tiers.brownout : tiers.usual", "tiers.brownout"),
    ("classes.c", "    if (--c->holders)\n        return;\n", "    c->holders--;\n"),
]


def run(command, seconds=120):
    try:
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              timeout=seconds)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


class Build:
    def __init__(self, source, base, cc, room):
        self.core = os.path.join(source, "coordinator/core")
        self.base, self.room = base, room
        self.compile = cc.split() + [
            "-std=gnu11", "-O1", "-D_GNU_SOURCE", '-DLAC_VERSION="mutant"',
            "-I" + self.core, "-I" + self.core + "/include", "-I" + source + "/proto/base/include",
            "-I" + source + "/tests/include", "-I" + source + "/coordinator/sight/include"]
        self.link = cc.split()
        self.objects = {p: self.object(p) for p in sorted(glob.glob(self.core + "/*.c"))}
        self.tests = [self.object(p) for p in sorted(glob.glob(source + "/tests/unit/core/*.c"))]
        self.sim = [self.object(source + "/tests/sim/" + name)
                    for name in ("sim.c", "world.c", "worker.c", "client.c")]
        self.sim += [self.object(p) for p in sorted(glob.glob(source + "/coordinator/sight/*.c"))]
        self.tenants = [self.object(source + "/tests/sim/tenants.c")]

    def object(self, path):
        out = os.path.join(self.room, path.replace("/", "_") + ".o")
        subprocess.run(self.compile + ["-c", path, "-o", out], check=True)
        return out

    def holds(self, objects):
        """True when every test passes with these objects of the core."""
        libraries = [self.base, "-lcheck", "-lsubunit", "-lrt", "-lcrypto", "-lm", "-lpthread"]
        test, sim = os.path.join(self.room, "test"), os.path.join(self.room, "sim")
        subprocess.run(self.link + objects + self.tests + libraries + ["-o", test], check=True)
        subprocess.run(self.link + objects + self.sim + libraries + ["-o", sim], check=True)
        if not (run([test]) and run([sim, "--seeds", "60"])):
            return False
        tenants = os.path.join(self.room, "tenants")
        subprocess.run(self.link + objects + self.tenants + libraries + ["-o", tenants], check=True)
        return run([tenants, "--seeds", "3"])

    def mutant_holds(self, name, old, new):
        path = os.path.join(self.core, name)
        text = open(path).read()
        if text.count(old) < 1:
            return None
        broken = os.path.join(self.room, "mutant.c")
        open(broken, "w").write(text.replace(old, new, 1))
        objects = dict(self.objects)
        objects[path] = os.path.join(self.room, "mutant.o")
        command = self.compile + ["-w", "-c", broken, "-o", objects[path]]
        subprocess.run(command, check=True)
        return self.holds(list(objects.values()))


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    failed = 0
    with tempfile.TemporaryDirectory() as room:
        build = Build(sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else "cc", room)
        if not build.holds(list(build.objects.values())):
            sys.exit("the tests fail without a mutation")
        for name, old, new in MUTATIONS:
            holds = build.mutant_holds(name, old, new)
            verdict = {None: "not there any more", True: "SURVIVED", False: "caught"}[holds]
            failed += holds is not False
            print(f"{verdict:8} {name}: {old.strip().splitlines()[0]}", flush=True)
    print(f"{len(MUTATIONS) - failed} of {len(MUTATIONS)} mutants were caught")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
