/* The groups that a launcher runs for us: which should be there, what became of each start, when to
 * order another. Owns the wanted set and the choice of who leaves; how many there should be is the
 * scaler's or people's business, whether one serves is the registry's. Loop thread; starts nothing
 * itself: the process around the core asks for the wanted set and tells what the launcher sees. */
#include "state.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    LAC__FLEET_START_MS = 600000, /* from order to READY, at most */
    LAC__FLEET_FOUND_MS = 30000,  /* the same of one that ran already when we started */
    LAC__FLEET_LIVED_MS = 60000,  /* an end after so long is bad luck, not a bad start */
    LAC__FLEET_BACKOFF_MS = 1000,
    LAC__FLEET_BACKOFF_MAX_MS = 60000,
    LAC__FLEET_BREAKER = 5, /* bad starts in a row: pause and say so */
    LAC__FLEET_BREAKER_MS = 300000,
    LAC__FLEET_COLD_KEPT = 8, /* cold starts remembered */
};

/* What a place in the fleet is doing. */
typedef enum {
    PLACE_FREE,
    PLACE_STARTING, /* wanted; not READY yet */
    PLACE_UP,       /* wanted; it served at least once */
    PLACE_LEAVING,  /* wanted until it has drained */
    PLACE_ENDING,   /* not wanted any more, its processes may still be there */
    PLACE_STATES
} place_state;

typedef struct {
    lac_fleet_group group;
    place_state state;
    uint64_t since_ms, ordered_ms, not_before_ms;
    bool seen;           /* by the launcher, in its last report */
    uint32_t bad_starts; /* in a row */
} place;

struct lac__fleet {
    lac_core_fleet_options options;
    place places[LAC_GROUPS_MAX];
    uint32_t target; /* groups to have */
    bool taken_over; /* the launcher's first report was read */
    uint64_t report_ms;
    uint64_t pause_until_ms; /* the breaker of starts */
    uint32_t bad_starts;     /* in a row, over all places */
    double cold_ms[LAC__FLEET_COLD_KEPT];
    uint32_t cold_next, cold_count;
    lac_scaler scaler;
    lac_scaler_policy policy;
    uint64_t decide_ms;
    lac_scaler_decision last;
    lac_metric *wanted, *need, *failures, *starts;
    lac_metric *reasons[LAC_SCALER_REASONS];
};

/* ---- what happened to a place ---- */

static void enter(lac_core *core, place *p, place_state state)
{
    p->state = state;
    p->since_ms = core->now_ms;
}

static void bad_start(lac_core *core, place *p, const char *why)
{
    lac__fleet *f = core->fleet;
    uint32_t doublings = p->bad_starts < 6 ? p->bad_starts : 6;
    uint64_t wait = (uint64_t)LAC__FLEET_BACKOFF_MS << doublings;
    p->bad_starts++;
    p->not_before_ms =
        core->now_ms + (wait < LAC__FLEET_BACKOFF_MAX_MS ? wait : LAC__FLEET_BACKOFF_MAX_MS);
    lac_metric_add(f->failures, 1);
    lac__note(core, LAC_LOG_WARN, "group %s did not come up: %s", p->group.group, why);
    if (++f->bad_starts >= LAC__FLEET_BREAKER && core->now_ms >= f->pause_until_ms) {
        f->pause_until_ms = core->now_ms + LAC__FLEET_BREAKER_MS;
        f->bad_starts = 0;
        lac__note(core, LAC_LOG_ERROR, "%d starts in a row failed: no more for %d s (last: %s)",
                  LAC__FLEET_BREAKER, LAC__FLEET_BREAKER_MS / 1000, why);
    }
}

static void came_up(lac_core *core, place *p)
{
    lac__fleet *f = core->fleet;
    if (p->ordered_ms) {
        f->cold_ms[f->cold_next] = (double)(core->now_ms - p->ordered_ms);
        f->cold_next = (f->cold_next + 1) % LAC__FLEET_COLD_KEPT;
        if (f->cold_count < LAC__FLEET_COLD_KEPT)
            f->cold_count++;
    }
    p->bad_starts = f->bad_starts = 0;
    f->pause_until_ms = 0;
    enter(core, p, PLACE_UP);
}

/* The registry's record of this very start; NULL when there is none or another has the name. */
static lac__group *registered(const lac_core *core, const place *p)
{
    lac__group *group = lac__registry_find(core, p->group.group);
    return group && !memcmp(group->incarnation, p->group.incarnation, 16) ? group : NULL;
}

/* Its processes are gone, says the launcher. */
static void ended(lac_core *core, place *p, const char *why)
{
    bool was_ordered_to_go = p->state == PLACE_LEAVING || p->state == PLACE_ENDING;
    uint64_t lived = core->now_ms - p->since_ms;
    if (!was_ordered_to_go && (p->state == PLACE_STARTING || lived < LAC__FLEET_LIVED_MS))
        bad_start(core, p, why);
    else if (!was_ordered_to_go)
        lac__note(core, LAC_LOG_WARN, "group %s is gone: %s", p->group.group, why);
    enter(core, p, PLACE_FREE);
}

static void tick_place(lac_core *core, place *p)
{
    lac__group *group = p->state == PLACE_FREE ? NULL : registered(core, p);
    switch (p->state) {
    case PLACE_STARTING:
        if (group && group->state == LAC__GROUP_READY)
            came_up(core, p);
        else if (core->now_ms - p->since_ms >=
                 (p->ordered_ms ? LAC__FLEET_START_MS : LAC__FLEET_FOUND_MS)) {
            bad_start(core, p, "it was not ready in time");
            enter(core, p, PLACE_ENDING);
        }
        break;
    case PLACE_UP:
        /* Declared dead or drained by others: this start is of no more use. */
        if (group && !lac__group_living(group))
            enter(core, p, PLACE_ENDING);
        else if (group && group->state == LAC__GROUP_DRAINING)
            enter(core, p, PLACE_LEAVING);
        break;
    case PLACE_LEAVING:
        if (!group || !lac__group_living(group))
            enter(core, p, PLACE_ENDING);
        break;
    case PLACE_FREE:
    case PLACE_ENDING:
    case PLACE_STATES: break;
    }
}

/* ---- the launcher's report ---- */

/* Groups of an earlier coordinator that the launcher found again keep their places. */
static void take_over(lac_core *core, const lac_fleet_entry *entries, size_t count)
{
    lac__fleet *f = core->fleet;
    size_t prefix = strlen(f->options.prefix);
    for (size_t i = 0; i < count; i++) {
        int64_t number;
        const lac_fleet_entry *e = &entries[i];
        if (e->state != LAC_FLEET_RUNNING || strncmp(e->group.group, f->options.prefix, prefix) ||
            !lac_parse_i64(e->group.group + prefix, 0, LAC_GROUPS_MAX - 1, &number) ||
            f->places[number].state != PLACE_FREE)
            continue;
        place *p = &f->places[number];
        p->group = e->group;
        p->ordered_ms = 0; /* its cold start was not ours to measure */
        enter(core, p, PLACE_STARTING);
    }
}

static const lac_fleet_entry *entry_of(const place *p, const lac_fleet_entry *entries, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!memcmp(entries[i].group.incarnation, p->group.incarnation, 16))
            return &entries[i];
    return NULL;
}

void lac__fleet_report(lac_core *core, const lac_fleet_entry *entries, size_t count)
{
    lac__fleet *f = core->fleet;
    if (!f)
        return;
    f->report_ms = core->now_ms;
    if (!f->taken_over) {
        f->taken_over = true;
        take_over(core, entries, count);
    }
    for (size_t i = 0; i < LAC_GROUPS_MAX; i++) {
        place *p = &f->places[i];
        if (p->state == PLACE_FREE)
            continue;
        const lac_fleet_entry *e = entry_of(p, entries, count);
        if (e && e->state == LAC_FLEET_ENDED)
            ended(core, p, e->reason);
        else if (!e && p->seen)
            ended(core, p, "the launcher lost it");
        else if (!e && p->state == PLACE_ENDING)
            enter(core, p, PLACE_FREE);
        p->seen = e && p->state != PLACE_FREE;
    }
}

size_t lac_core_fleet_wanted(const lac_core *core, lac_fleet_group *out, size_t max)
{
    size_t count = 0;
    for (size_t i = 0; core->fleet && i < LAC_GROUPS_MAX && count < max; i++) {
        const place *p = &core->fleet->places[i];
        if (p->state == PLACE_STARTING || p->state == PLACE_UP || p->state == PLACE_LEAVING)
            out[count++] = p->group;
    }
    return count;
}

/* ---- more and fewer ---- */

static uint32_t count_state(const lac__fleet *f, place_state state)
{
    uint32_t count = 0;
    for (size_t i = 0; i < LAC_GROUPS_MAX; i++)
        count += f->places[i].state == state;
    return count;
}

static void order_start(lac_core *core)
{
    lac__fleet *f = core->fleet;
    for (uint32_t i = 0; i < LAC_GROUPS_MAX; i++) {
        place *p = &f->places[i];
        if (p->state != PLACE_FREE || core->now_ms < p->not_before_ms)
            continue;
        /* A name is free once nobody living has it: a slow death must not get our new start
         * refused. */
        snprintf(p->group.group, sizeof p->group.group, "%s%u", f->options.prefix, i);
        lac__group *other = lac__registry_find(core, p->group.group);
        if (other && lac__group_living(other))
            continue;
        uint64_t draw[2] = {lac_rng_next(&core->rng), lac_rng_next(&core->rng) | 1};
        memcpy(p->group.incarnation, draw, 16);
        p->ordered_ms = core->now_ms;
        p->seen = false;
        enter(core, p, PLACE_STARTING);
        lac_metric_add(f->starts, 1);
        return;
    }
}

/* Who leaves: what is not up yet first, then the group with the least to finish, the youngest of
 * equals. */
static void order_leave(lac_core *core)
{
    lac__fleet *f = core->fleet;
    place *best = NULL;
    size_t least = SIZE_MAX;
    for (size_t i = 0; i < LAC_GROUPS_MAX; i++) {
        place *p = &f->places[i];
        if (p->state == PLACE_STARTING) {
            enter(core, p, PLACE_ENDING);
            return;
        }
        const lac__group *group = p->state == PLACE_UP ? registered(core, p) : NULL;
        size_t load = group ? group->running.count : 0;
        if (p->state == PLACE_UP &&
            (load < least || (load == least && best && p->since_ms >= best->since_ms))) {
            best = p;
            least = load;
        }
    }
    if (!best)
        return;
    enter(core, best, PLACE_LEAVING);
    lac_core_drain_group(core, core->now_ms, best->group.group, 0);
}

static double cold_start_s(const lac__fleet *f)
{
    double most = 0; /* of eight: what a p95 would be of more */
    for (uint32_t i = 0; i < f->cold_count; i++)
        most = fmax(most, f->cold_ms[i]);
    return f->cold_count ? most / 1000 : 10;
}

/* ---- the scaler's view ---- */

static void fill_snapshot(lac_core *core, lac_scaler_snapshot *s)
{
    lac__fleet *f = core->fleet;
    uint32_t slots = 0, groups = 0;
    for (const lac__group *g = core->groups_head; g; g = g->next) {
        if (g->state != LAC__GROUP_READY)
            continue;
        slots += g->slots;
        groups++;
    }
    double service_s = core->slot_ms_mean / 1000;
    const lac__request *oldest = core->queue.head;
    *s = (lac_scaler_snapshot){
        .now_ms = core->now_ms,
        .wall_s = core->wall_s,
        .known = !lac__verdict_frozen(core) && core->now_ms - f->report_ms < LAC_LEASE_MS,
        .arrivals_s =
            lac__rate_mean(&core->offered, core->now_ms, core->start_ms, LAC__RATE_SECONDS),
        .arrivals_short_s =
            lac__rate_mean(&core->offered, core->now_ms, core->start_ms, LAC_SCALER_SHORT_S),
        .slot_seconds = service_s,
        .queued_slot_seconds = (double)core->queue.count * service_s,
        .slots_per_group = groups ? (double)slots / groups : f->options.slots_per_group,
        .wait_ms = oldest ? (double)(core->now_ms - oldest->arrived_ms) : 0,
        .wait_target_ms = f->options.wait_target_ms,
        .cold_start_s = cold_start_s(f),
        .ready = count_state(f, PLACE_UP),
        .starting = count_state(f, PLACE_STARTING),
        .waiting = (uint32_t)core->queue.count,
        .running = (uint32_t)core->running_count,
    };
}

static void decide(lac_core *core)
{
    lac__fleet *f = core->fleet;
    lac_scaler_snapshot snapshot;
    fill_snapshot(core, &snapshot);
    f->decide_ms = core->now_ms;
    lac_scaler_decide(&f->scaler, &f->policy, &snapshot, &f->last);
    lac_metric_add(f->reasons[f->last.reason], 1);
    if (f->last.groups != f->target)
        lac__note(
            core, LAC_LOG_INFO,
            "fleet: %u groups instead of %u (%s): %.1f busy + %.1f waiting + %.1f margin over "
            "%.1f slots a group, cold start %.1f s",
            f->last.groups, f->target, lac_scaler_reason_name(f->last.reason), f->last.busy,
            f->last.backlog, f->last.margin, f->last.slots_per_group, snapshot.cold_start_s);
    f->target = f->last.groups;
}

static bool scales_itself(const lac__fleet *f)
{
    return f->policy.groups_min != f->policy.groups_max;
}

void lac__fleet_tick(lac_core *core)
{
    lac__fleet *f = core->fleet;
    if (!f)
        return;
    for (size_t i = 0; i < LAC_GROUPS_MAX; i++)
        tick_place(core, &f->places[i]);
    /* Before the first report nobody knows what runs already; in a freeze what is dead. */
    if (!f->taken_over || core->draining || lac__verdict_frozen(core))
        return;
    if (!scales_itself(f))
        f->target = f->policy.groups_min;
    else if (!f->decide_ms || core->now_ms - f->decide_ms >= LAC_SCALER_PERIOD_MS)
        decide(core);
    uint32_t have = count_state(f, PLACE_STARTING) + count_state(f, PLACE_UP);
    for (; have < f->target && core->now_ms >= f->pause_until_ms; have++)
        order_start(core);
    for (; have > f->target; have--)
        order_leave(core);
    lac_metric_set(f->wanted, f->target);
    lac_metric_set(f->need, f->last.need);
}

bool lac__fleet_comes(const lac_core *core)
{
    const lac__fleet *f = core->fleet;
    return f && core->now_ms >= f->pause_until_ms && f->policy.groups_max > 0 && !core->draining;
}

lac_status lac_core_scale(lac_core *core, uint64_t now_ms, uint32_t groups_min, uint32_t groups_max,
                          lac_error *err)
{
    LAC_ASSERT(now_ms >= core->now_ms);
    core->now_ms = now_ms;
    lac__fleet *f = core->fleet;
    if (!f)
        return lac_fail(err, LAC_EUNSUPPORTED,
                        "this coordinator launches no groups itself (see --launch)");
    if (groups_min > groups_max || groups_max > f->options.groups_max)
        return lac_fail(err, LAC_EINVAL, "groups is %u..%u, allowed 0..%u (groups-max)", groups_min,
                        groups_max, f->options.groups_max);
    f->policy.groups_min = groups_min;
    f->policy.groups_max = groups_max;
    f->pause_until_ms = 0; /* people who ask want it tried now */
    f->decide_ms = 0;
    lac__note(core, LAC_LOG_INFO, "fleet: %u to %u groups from now on", groups_min, groups_max);
    return LAC_OK;
}

/* ---- people ---- */

static void answer(lac_core *core, lac_plane plane, uint64_t peer, uint64_t stream,
                   const lac_error *err, const char *text)
{
    lac_msg msg = {0};
    if (err->status == LAC_OK) {
        msg.body.ordered.stream = stream;
        lac__copy_text(msg.body.ordered.text, sizeof msg.body.ordered.text, text);
        lac__send(core, plane, peer, 0, LAC_MSG_ORDERED, &msg);
        return;
    }
    msg.body.refused = (lac_refused){.stream = stream, .status = err->status};
    lac__copy_text(msg.body.refused.reason, sizeof msg.body.refused.reason, err->text);
    lac__send(core, plane, peer, 0, LAC_MSG_REFUSED, &msg);
}

void lac__fleet_scale(lac_core *core, lac_plane plane, uint64_t peer, const lac_scale *scale)
{
    char text[LAC_REASON_MAX + 1];
    lac_error err = {0};
    lac_core_scale(core, core->now_ms, scale->groups_min, scale->groups_max, &err);
    if (scale->groups_min == scale->groups_max)
        snprintf(text, sizeof text, "%u groups from now on", scale->groups_min);
    else
        snprintf(text, sizeof text, "%u to %u groups from now on, by load", scale->groups_min,
                 scale->groups_max);
    answer(core, plane, peer, scale->stream, &err, text);
}

void lac__fleet_drain(lac_core *core, lac_plane plane, uint64_t peer, const lac_drain_group *drain)
{
    char text[LAC_REASON_MAX + 1];
    lac_error err = {0};
    if (lac_core_drain_group(core, core->now_ms, drain->group, drain->deadline_ms) != LAC_OK)
        lac_fail(&err, LAC_ENOTFOUND, "group is \"%s\", no living group has that name",
                 drain->group);
    snprintf(text, sizeof text, "group %s gets no new work; what runs may finish within %u ms",
             drain->group, drain->deadline_ms ? drain->deadline_ms : LAC_DRAIN_MS);
    answer(core, plane, peer, drain->stream, &err, text);
}

/* ---- making and freeing ---- */

void lac__fleet_create(lac_core *core)
{
    const lac_core_fleet_options *options = &core->options.fleet;
    if (!options->groups_max)
        return;
    LAC_ASSERT(options->groups_max <= LAC_GROUPS_MAX && options->prefix &&
               options->start_max >= options->start_min &&
               options->start_max <= options->groups_max);
    lac__fleet *f = core->fleet = lac_alloc(1, sizeof *f);
    f->options = *options;
    if (f->options.slots_per_group <= 0)
        f->options.slots_per_group = 16;
    f->policy = lac_scaler_policy_default(options->start_min, options->start_max);
    f->wanted = lac_metrics_get(core->metrics, LAC_M_FLEET_WANTED, "");
    f->need = lac_metrics_get(core->metrics, LAC_M_FLEET_NEEDED, "");
    f->starts = lac_metrics_get(core->metrics, LAC_M_FLEET_STARTS, "");
    f->failures = lac_metrics_get(core->metrics, LAC_M_FLEET_BAD_STARTS, "");
    for (int i = 0; i < LAC_SCALER_REASONS; i++) {
        char labels[64];
        snprintf(labels, sizeof labels, "reason=\"%s\"",
                 lac_scaler_reason_name((lac_scaler_reason)i));
        f->reasons[i] = lac_metrics_get(core->metrics, LAC_M_SCALER_DECISIONS, labels);
    }
}

void lac__fleet_free(lac_core *core)
{
    free(core->fleet);
    core->fleet = NULL;
}

void lac__fleet_audit(const lac_core *core)
{
    const lac__fleet *f = core->fleet;
    if (!f)
        return;
    uint32_t there = count_state(f, PLACE_STARTING) + count_state(f, PLACE_UP);
    LAC_ASSERT(there <= f->options.groups_max);
    LAC_ASSERT(f->target <= f->options.groups_max);
}
