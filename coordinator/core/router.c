/* Which group a request goes to. Policies are a table; a policy sees only groups that are READY,
 * serve the model, have room in their window and whose breaker lets it through. The account of a
 * group's load is kept here at dispatch and corrected by its reports. Loop thread; sends nothing.
 *
 * A policy with a bound follows cost and affinity only as far as no group gets more than its share
 * and a quarter (consistent hashing with bounded loads, Mirrokni et al. 2016); when every group is
 * at its bound, room is room. */
#include "state.h"

#include <math.h>
#include <string.h>

enum { LAC__STALE_MS = 2000, LAC__SLOW_START_MS = 60000, LAC__EXPLORE = 100 };
static const double bound = 1.25;

/* One decision: what is true of the fleet as a whole. */
typedef struct {
    double load, share;     /* sums over the groups of the model */
    bool holders;           /* only groups that hold the request's class will do */
    bool fresh;             /* some group has a report that is not stale */
    const lac__group *home; /* of its prefix; NULL = it has none */
    lac__prices usual;      /* for groups that have not reported theirs */
} round_facts;

struct lac__policy {
    const char *name;
    bool bounded;
    /* The lowest score wins; `cost` is filled by a policy that knows it. */
    double (*score)(const lac_core *core, const lac__request *request, const round_facts *facts,
                    const lac__group *group, lac__cost *cost);
};

static uint64_t load_of(const lac__group *group)
{
    return group->running.count + group->excess;
}

static double by_cost(const lac_core *core, const lac__request *r, const round_facts *facts,
                      const lac__group *group, lac__cost *cost)
{
    *cost = lac__cost_of(core, r, group, &facts->usual, group == facts->home);
    return cost->total;
}

static double by_load(const lac_core *core, const lac__request *r, const round_facts *facts,
                      const lac__group *group, lac__cost *cost)
{
    (void)core, (void)r, (void)facts, (void)cost;
    return (double)load_of(group) / group->slots;
}

static double by_turn(const lac_core *core, const lac__request *r, const round_facts *facts,
                      const lac__group *group, lac__cost *cost)
{
    (void)core, (void)r, (void)facts, (void)cost;
    return (double)group->turn;
}

static const lac__policy policies[] = {
    {"cost", true, by_cost}, /* the default */
    {"least-loaded", false, by_load},
    {"round-robin", false, by_turn},
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

/* ---- the fleet as a whole ---- */

/* A new group has cold caches and an unknown pace: its share grows from a tenth to all. */
static double share_of(const lac_core *core, const lac__group *group)
{
    double age = (double)(core->now_ms - group->born_ms) / LAC__SLOW_START_MS;
    return group->slots * (age >= 1 ? 1 : 0.1 + 0.9 * age);
}

static bool stale(const lac_core *core, const lac__group *group)
{
    uint64_t beat_ms = group->ranks[0] ? group->ranks[0]->beat_ms : 0;
    uint64_t known_ms = beat_ms > group->state_ms ? beat_ms : group->state_ms;
    return core->now_ms - known_ms > LAC__STALE_MS;
}

static bool serves(const lac__group *group, const lac__request *r)
{
    return group->state == LAC__GROUP_READY && !group->lost && group->model == r->served;
}

static void look(const lac_core *core, const lac__request *r, bool holders, round_facts *facts)
{
    uint64_t best = 0;
    double prefill = 0, itl = 0, known_prefill = 0, known_itl = 0;
    *facts = (round_facts){.holders = holders};
    for (const lac__group *g = core->groups_head; g; g = g->next) {
        if (!serves(g, r))
            continue;
        facts->load += (double)load_of(g);
        facts->share += share_of(core, g);
        facts->fresh |= !stale(core, g);
        uint64_t weight = lac__prefix_weight(&r->prefix, g->name_hash);
        if (weight > best && (!holders || lac__group_holds(g, r->class))) {
            best = weight;
            facts->home = g;
        }
        if (!g->ranks[0])
            continue;
        known_prefill += g->ranks[0]->beat.prefill_us != 0;
        prefill += g->ranks[0]->beat.prefill_us / 1000.0;
        known_itl += g->ranks[0]->beat.itl_us != 0;
        itl += g->ranks[0]->beat.itl_us / 1000.0;
    }
    facts->usual = (lac__prices){.prefill_ms = known_prefill ? prefill / known_prefill : 1,
                                 .itl_ms = known_itl ? itl / known_itl : 20};
}

/* ---- the choice ---- */

static bool over_bound(const lac_core *core, const round_facts *facts, const lac__group *group)
{
    double share = share_of(core, group) / facts->share;
    return (double)load_of(group) + 1 > ceil(bound * (facts->load + 1) * share);
}

static bool has_room(const lac_core *core, const lac__request *r, const round_facts *facts,
                     const lac__group *g)
{
    if (facts->holders && !lac__group_holds(g, r->class))
        return false;
    if (!serves(g, r) || core->now_ms < g->blocked_until_ms ||
        load_of(g) >= lac__router_window(g) || !lac__breaker_admits(core, g))
        return false;
    /* Of a group without a fresh report nobody knows the load: full, unless that is true of all. */
    if (facts->fresh && stale(core, g))
        return false;
    return !lac__recovery_suspect(r) || !lac__recovery_has_suspect(g);
}

static lac__group *best_of(const lac_core *core, const lac__request *r, const round_facts *facts,
                           const lac__policy *policy, bool bounded, lac__choice *choice)
{
    lac__group *best = NULL;
    *choice = (lac__choice){.bounded = bounded};
    for (lac__group *g = core->groups_head; g; g = g->next) {
        if (!has_room(core, r, facts, g) || (bounded && over_bound(core, facts, g)))
            continue;
        lac__cost cost = {0};
        double score = policy->score(core, r, facts, g, &cost);
        bool better =
            !best || score < choice->score || (score == choice->score && g->turn < best->turn);
        double loser = better ? choice->score : score;
        if (best && (choice->candidates == 1 || loser < choice->second))
            choice->second = loser;
        choice->candidates++;
        if (!better)
            continue;
        best = g;
        choice->score = score;
        choice->cost = cost;
        choice->home = g == facts->home;
    }
    return best;
}

lac__group *lac__router_pick(lac_core *core, const lac__request *r, bool holders,
                             lac__choice *choice)
{
    LAC_ASSERT(!holders || r->class);
    const lac__policy *policy = core->policy;
    round_facts facts;
    look(core, r, holders, &facts);
    /* Now and then the one that waited longest, so that a group whose last report was bad is not
     * judged by it for ever. */
    bool explore = policy->bounded && lac_rng_below(&core->rng, LAC__EXPLORE) == 0;
    if (explore)
        policy = lac__policy_find("round-robin");
    lac__group *best = NULL;
    if (policy->bounded)
        best = best_of(core, r, &facts, policy, true, choice);
    if (!best)
        best = best_of(core, r, &facts, policy, false, choice);
    choice->explored = explore;
    return best;
}

void lac__router_charge(lac_core *core, lac__request *r, lac__group *group)
{
    LAC_ASSERT(!r->charged);
    r->charged = r->tokens_estimate + r->accepted_count;
    group->prefill_tokens += r->charged;
    lac__prefix_remember(&group->prefixes, &r->prefix, core->now_ms);
}

void lac__router_discharge(lac__request *r)
{
    LAC_ASSERT(!r->charged || r->group->prefill_tokens >= r->charged);
    if (r->charged)
        r->group->prefill_tokens -= r->charged;
    r->charged = 0;
}

void lac__router_learn(lac_core *core, uint32_t tokens)
{
    core->output_mean += ((double)tokens - core->output_mean) / 32;
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
