/* What it would cost to run a request on a group, in milliseconds: its own wait and prefill, its
 * own decode, and what its presence takes from those who run there. Reads reports and local
 * accounts; decides nothing. Pure.
 *
 *   total = queue + prefill + w·own + w·harm + w·change
 *   queue   = prompt tokens before it · cost of one + the wait for a slot
 *   prefill = its prompt tokens that no cache has · cost of one
 *   own     = expected tokens · gap between tokens
 *   change  = a tenth of own, where others of another class run and none of ours: steps then mix
 *   harm    = expected tokens · growth of the gap by one more sequence · those who feel it */
#include "state.h"

static const double decode_weight = 0.3;
/* The home of a prefix that nobody has yet looks so much cheaper that it becomes the one. */
static const double home_discount = 0.25;
/* A step costs about as much as four sequences plus those it runs. */
static const double step_base = 4;

static double least(double a, double b)
{
    return a < b ? a : b;
}

/* Steps of more than one class read their rows through lists. */
static const double change_share = 0.1;

static bool changes(const lac__request *r, const lac__group *g)
{
    const lac__class *class = r->class && lac__group_holds(g, r->class) ? r->class : NULL;
    for (const lac__request *other = g->running.head; other; other = other->next)
        if (other->class == class)
            return false;
    return g->running.head != NULL;
}

lac__cost lac__cost_of(const lac_core *core, const lac__request *r, const lac__group *g,
                       const lac__prices *usual, bool home)
{
    const lac_heartbeat none = {0}, *beat = g->ranks[0] ? &g->ranks[0]->beat : &none;
    double prefill_ms = beat->prefill_us ? beat->prefill_us / 1000.0 : usual->prefill_ms;
    double itl_ms = beat->itl_us ? beat->itl_us / 1000.0 : usual->itl_ms;
    double load = (double)g->running.count + g->excess, slots = g->slots;
    double tokens = core->output_mean;
    if (r->sampling.max_tokens)
        tokens = least(tokens, (double)r->sampling.max_tokens - r->accepted_count);
    if (tokens < 1)
        tokens = 1;

    lac__cost c = {.hit = lac__prefix_hit(&g->prefixes, &r->prefix, core->now_ms)};
    double cached = (double)c.hit * LAC_PREFIX_BLOCK_BYTES / 4;
    double fresh = (double)r->tokens_estimate + r->accepted_count - cached;
    c.prefill = (fresh < 1 ? 1 : fresh) * prefill_ms;
    if (home && !c.hit)
        c.prefill *= 1 - home_discount;
    c.queue = (double)g->prefill_tokens * prefill_ms;
    if (load >= slots)
        c.queue += (load - slots + 1) / slots * core->output_mean * itl_ms;
    double share = r->class && lac__group_holds(g, r->class) ? (double)r->class->facts.cost : 1;
    c.prefill *= share;
    c.own = tokens * itl_ms * share;
    c.change = changes(r, g) ? change_share * c.own : 0;
    c.harm = tokens * itl_ms / (step_base + load) * least(load, slots);
    c.total = c.queue + c.prefill + decode_weight * (c.own + c.harm + c.change);
    return c;
}
