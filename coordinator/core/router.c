/* Which group a request goes to. Policies are a table; a policy sees only groups that are READY,
 * serve the model and have room in their window. The account of a group's load is kept here at
 * dispatch and corrected by its reports. Loop thread; sends nothing. */
#include "state.h"

#include <string.h>

struct lac__policy {
    const char *name;
    /* True when `a` is to be preferred to `b`. */
    bool (*better)(const lac__group *a, const lac__group *b);
};

static uint64_t load_of(const lac__group *group)
{
    return group->running.count + group->excess;
}

/* Load as a share of the slots; equal shares go to the one that waited longest for work. */
static bool less_loaded(const lac__group *a, const lac__group *b)
{
    uint64_t load_a = load_of(a) * b->slots, load_b = load_of(b) * a->slots;
    if (load_a != load_b)
        return load_a < load_b;
    return a->turn < b->turn;
}

static bool longer_ago(const lac__group *a, const lac__group *b)
{
    return a->turn < b->turn;
}

static const lac__policy policies[] = {
    {"least-loaded", less_loaded},
    {"round-robin", longer_ago},
};

const lac__policy *lac__policy_find(const char *name)
{
    if (!name || !*name)
        return &policies[0];
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
        if (!strcmp(policies[i].name, name))
            return &policies[i];
    return NULL;
}

/* A quarter more than the slots keeps a group busy between two of our turns; what is beyond waits
 * in the central queue, where it can still go elsewhere. */
uint32_t lac__router_window(const lac__group *group)
{
    return group->slots + group->slots / 4;
}

lac__group *lac__router_pick(lac_core *core, const lac__request *r)
{
    const lac__model *model = r->served;
    bool suspect = lac__recovery_suspect(r);
    lac__group *best = NULL;
    for (lac__group *g = core->groups_head; g; g = g->next) {
        if (g->state != LAC__GROUP_READY || g->lost || g->model != model)
            continue;
        if (core->now_ms < g->blocked_until_ms || load_of(g) >= lac__router_window(g))
            continue;
        if (!lac__breaker_admits(core, g))
            continue;
        if (suspect && lac__recovery_has_suspect(g))
            continue;
        if (!best || core->policy->better(g, best))
            best = g;
    }
    return best;
}

/* The report says how many sequences it has at a moment when it had seen dispatches up to a number.
 * Of ours it should then have those dispatched up to there; what it has beyond them (sequences we
 * cancelled but it still runs) is load that our own count does not show. */
void lac__router_reconcile(lac__group *group, const lac_heartbeat *beat)
{
    uint64_t ours = 0, reported = (uint64_t)beat->queued + beat->running;
    for (const lac__request *r = group->running.head; r; r = r->next)
        ours += r->dispatch_seq <= beat->dispatch_seq_seen;
    uint64_t excess = reported > ours ? reported - ours : 0;
    group->excess = excess > LAC_SLOTS_MAX ? LAC_SLOTS_MAX : (uint32_t)excess;
}
