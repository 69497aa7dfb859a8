/* What silence and stillness mean: the verdicts on a connected group from its frames, steps and
 * measured speed, and when there are to be none because so many vanished at once that the fault is
 * more likely ours or the network's. Loop thread. */
#include "state.h"

#include <stdio.h>

enum {
    LAC__STALL_STEPS = 20,     /* a step may take so many times the slowest hundredth */
    LAC__SICK_TIMES = 3,       /* slower than its own baseline */
    LAC__BASELINE_SAMPLES = 20 /* reports before a baseline counts */
};

static uint64_t silent_ms(const lac_core *core, const lac__rank *rank)
{
    return core->now_ms - rank->seen_ms;
}

static uint64_t stalled_ms(const lac_core *core, const lac__rank *rank)
{
    return rank->beat_ms && rank->beat.busy ? core->now_ms - rank->step_ms : 0;
}

/* ---- measured steps ---- */

void lac__verdict_measure(const lac_core *core, lac__rank *rank, const lac_heartbeat *beat)
{
    lac__pace *pace = &rank->group->pace;
    if (!rank->beat_ms || !rank->beat.busy || beat->step_counter <= rank->beat.step_counter)
        return;
    uint64_t steps = beat->step_counter - rank->beat.step_counter;
    uint64_t mean_ms = (core->now_ms - rank->step_ms) / steps;
    pace->steps_ms[pace->next] = mean_ms > UINT32_MAX ? UINT32_MAX : (uint32_t)mean_ms;
    pace->next = (pace->next + 1) % LAC__STEPS_KEPT;
    if (pace->count < LAC__STEPS_KEPT)
        pace->count++;
}

/* Of the last hundred measurements, so their largest is the slowest hundredth. */
uint64_t lac__verdict_stall_ms(const lac__group *group)
{
    uint64_t slowest = 0;
    for (uint32_t i = 0; i < group->pace.count; i++)
        if (group->pace.steps_ms[i] > slowest)
            slowest = group->pace.steps_ms[i];
    uint64_t limit = slowest * LAC__STALL_STEPS;
    if (limit < LAC_STALLED_MS)
        return LAC_STALLED_MS;
    return limit < LAC_HUNG_MS ? limit : LAC_HUNG_MS;
}

/* ---- sick: slower than itself ---- */

/* A full batch is slower than a single sequence and not sick: each load has its own baseline. */
static lac__baseline *baseline_of(lac__group *group, uint32_t running)
{
    int bucket = 0;
    while (running > 1 && bucket < LAC__LOADS - 1) {
        running /= 2;
        bucket++;
    }
    return &group->pace.baselines[bucket];
}

void lac__verdict_pace(lac_core *core, lac__group *group, const lac_heartbeat *beat)
{
    if (!beat->itl_us || !beat->running)
        return; /* idle: nothing is learned and nothing is forgiven */
    lac__baseline *base = baseline_of(group, beat->running);
    bool known = base->samples >= LAC__BASELINE_SAMPLES;
    if (known && beat->itl_us > LAC__SICK_TIMES * base->itl_us) {
        if (!group->pace.slow_ms)
            group->pace.slow_ms = core->now_ms;
        return; /* a sick group does not teach what is normal */
    }
    group->pace.slow_ms = 0;
    if (base->samples < LAC__BASELINE_SAMPLES)
        base->samples++;
    double weight = known ? 1.0 / 64 : 1.0 / base->samples;
    base->itl_us += (beat->itl_us - base->itl_us) * weight;
}

static bool slow(const lac_core *core, const lac__group *group)
{
    return group->pace.slow_ms && core->now_ms - group->pace.slow_ms >= LAC_SICK_MS;
}

/* When others are slow too it is the machine or the load, and a drain would make it worse; the last
 * one that serves a model is not sent away either. */
static bool alone_slow(const lac_core *core, const lac__group *group)
{
    size_t others_slow = 0, others_ready = 0;
    for (const lac__group *g = core->groups_head; g; g = g->next) {
        if (g == group || g->state != LAC__GROUP_READY)
            continue;
        others_slow += g->pace.slow_ms != 0;
        others_ready += g->model == group->model && !g->pace.slow_ms;
    }
    return others_ready &&
           (!others_slow || (others_slow + 1) * 100 <= core->groups_count * LAC_FREEZE_PERCENT);
}

static void judge_pace(lac_core *core, lac__group *group)
{
    if (group->state != LAC__GROUP_READY || core->freeze.since_ms || !slow(core, group) ||
        !alone_slow(core, group))
        return;
    lac_msg msg = {.body.drain = {.deadline_ms = LAC_DRAIN_MS}};
    lac__group_send(core, group, LAC_MSG_DRAIN, &msg);
    group->drain_until_ms = core->now_ms + LAC_DRAIN_MS;
    lac__group_step(core, group, LAC__GROUP_SICK, "slower than 3 times its own baseline");
}

/* ---- self-suspicion ---- */

bool lac__verdict_frozen(const lac_core *core)
{
    return core->freeze.since_ms != 0;
}

void lac__verdict_vanished(lac_core *core, lac__group *group)
{
    group->vanished_ms = core->now_ms ? core->now_ms : 1;
    if (core->freeze.since_ms || core->now_ms < core->freeze.rest_until_ms)
        return;
    size_t vanished = 0, ready = 0;
    for (const lac__group *g = core->groups_head; g; g = g->next) {
        ready += g->state == LAC__GROUP_READY;
        vanished += g->state == LAC__GROUP_SUSPECT && g->vanished_ms &&
                    core->now_ms - g->vanished_ms <= core->options.suspect_ms;
    }
    if (vanished < 2 || vanished * 100 <= (ready + vanished) * LAC_FREEZE_PERCENT)
        return;
    core->freeze.since_ms = core->now_ms;
    lac_metric_add(core->meters.freezes, 1);
    lac_metric_set(core->meters.frozen, 1);
    lac__note(core, LAC_LOG_ERROR,
              "%zu of %zu ready groups vanished within %u ms: verdicts are frozen, it may be us or "
              "the network",
              vanished, ready + vanished, core->options.suspect_ms);
}

/* Most of them are back, or it lasted long enough to be true. */
void lac__verdict_tick(lac_core *core)
{
    if (!core->freeze.since_ms)
        return;
    size_t back = 0, gone = 0;
    for (const lac__group *g = core->groups_head; g; g = g->next) {
        back += g->state == LAC__GROUP_READY;
        gone += g->state == LAC__GROUP_SUSPECT;
    }
    bool over = core->now_ms - core->freeze.since_ms >= LAC_FREEZE_MS;
    if (!over && gone * 100 > (back + gone) * LAC_FREEZE_PERCENT)
        return;
    lac__note(core, LAC_LOG_WARN, "verdicts again after %llu ms: %zu groups are back, %zu are not",
              (unsigned long long)(core->now_ms - core->freeze.since_ms), back, gone);
    core->freeze.since_ms = 0;
    if (over) /* those that are gone are not to freeze it again */
        core->freeze.rest_until_ms = core->now_ms + core->options.lease_ms;
    lac_metric_set(core->meters.frozen, 0);
}

/* ---- the verdict ---- */

static void late(lac_core *core, lac__group *group, const char *why)
{
    bool first = group->state == LAC__GROUP_READY;
    lac__group_step(core, group, LAC__GROUP_LATE, why);
    if (first)
        lac__verdict_vanished(core, group);
}

/* The rank that was not heard of for longest. */
static const lac__rank *quietest(const lac__group *group)
{
    const lac__rank *quiet = group->ranks[0];
    for (uint32_t i = 1; i < group->ranks_count; i++)
        if (group->ranks[i]->seen_ms < quiet->seen_ms)
            quiet = group->ranks[i];
    return quiet;
}

void lac__verdict_judge(lac_core *core, lac__group *group)
{
    if (!lac__group_whole(group))
        return; /* what a missing connection means is known already */
    const lac__rank *leader = group->ranks[0], *quiet = quietest(group);
    char why[96];
    uint64_t silent = silent_ms(core, quiet), stalled = stalled_ms(core, leader);
    bool frozen = lac__verdict_frozen(core);
    if (silent >= core->options.suspect_ms) {
        snprintf(why, sizeof why, "no frame%s for %llu ms",
                 group->ranks_count > 1 ? " of one rank" : "", (unsigned long long)silent);
        if (silent >= core->options.lease_ms && !frozen)
            lac__group_step(core, group, LAC__GROUP_EXPIRED, why);
        else
            late(core, group, why);
    } else if (stalled >= lac__verdict_stall_ms(group)) {
        snprintf(why, sizeof why, "busy without a step for %llu ms", (unsigned long long)stalled);
        if (stalled >= LAC_HUNG_MS && !frozen)
            lac__group_step(core, group, LAC__GROUP_HUNG, why);
        else
            late(core, group, why);
    } else {
        lac__group_step(core, group, LAC__GROUP_ALIVE, "frames and steps again");
        judge_pace(core, group);
    }
}
