/* The prefix cache in the step: what a sequence finds, what it leaves, what the scheduler is told
 * of shared pages. The engine's thread, between steps and at their borders. Must not know the tree
 * (worker/kv) or the scheduler's rules.
 *
 * Only keys and values that were computed as the sequence's key says are ever offered: all of them,
 * or where a class holds only from a position on those before it, under the key of full. */
#include <string.h>

#include "base/assert.h"
#include "parts.h"

void lac__prefix_key(const lac_engine *e, uint32_t class_index, const uint8_t salt[16],
                     lac_digest *out)
{
    struct {
        lac_digest computed_as; /* not the name: equal masks and patches compute equal bits */
        uint8_t salt[16];
        uint32_t kv_type;
    } what;
    memset(&what, 0, sizeof what);
    what.computed_as = e->classes[class_index].computed_as;
    memcpy(what.salt, salt, sizeof what.salt);
    what.kv_type = e->kv_type;
    lac_sha256(&what, sizeof what, out);
}

/* Tokens at the start of the sequence, `tokens` at most, that its key speaks of. */
static uint32_t reach(const lac__sequence *s, uint32_t tokens)
{
    return s->class_from > 0 && s->class_from < tokens ? s->class_from : tokens;
}

/* Tokens that it may find: at least one row is its own before its last known token, and before its
 * class begins, so that a sequence narrows only when rows of its own were computed. */
static uint32_t findable(const lac__sequence *s)
{
    return reach(s, s->known) - 1;
}

/* The sequence's shared blocks are computed; at least its last known token is not, since its row
 * gives the next one. */
static void take(lac_engine *e, lac__sequence *s, uint32_t count)
{
    LAC_ASSERT(count < s->known);
    uint32_t shared = lac_prefix_take(e->pool, s->kv, &s->prefix_key, s->tokens, count);
    if (shared <= s->computed)
        return;
    uint32_t from = s->computed < s->prompt_count ? s->computed : s->prompt_count;
    uint32_t to = shared < s->prompt_count ? shared : s->prompt_count;
    s->computed = shared;
    if (s->again)
        return;
    s->cached += to - from;
    e->cached_tokens += to - from;
}

/* A step takes no more new blocks than its rows begin, so with more free than that nobody is
 * preempted and nobody asks who owns what. */
static bool pages_are_short(const lac_engine *e, uint32_t holders)
{
    uint32_t blocks = e->rows_max / LAC_KV_BLOCK + 3 * holders + 2;
    for (uint32_t i = 0; i < e->layout.sizes_count; i++)
        if ((uint64_t)blocks * e->layout.units_of[i] > lac_kv_free_count(e->pool, i))
            return true;
    return false;
}

static bool shares_fill(lac_engine *e)
{
    lac__step_arrays *step = &e->step;
    uint32_t holders = 0;
    for (uint32_t i = 0; i < e->live_count; i++)
        if (e->live[i]->kv != LAC_KV_SEQUENCE_NONE)
            step->kv[holders++] = e->live[i]->kv;
    bool exact = pages_are_short(e, holders);
    if (exact)
        lac_prefix_shares(e->pool, step->kv, holders, step->shares);
    for (uint32_t i = 0, h = 0; i < e->live_count; i++) {
        if (e->live[i]->kv == LAC_KV_SEQUENCE_NONE)
            continue;
        lac_sched_sequence *in = &step->sequences[i];
        in->blocks = lac_kv_blocks(e->pool, e->live[i]->kv);
        in->passed = lac_kv_passed(e->pool, e->live[i]->kv);
        if (exact) {
            memcpy(in->owned, step->shares[h].owned, sizeof in->owned);
            memcpy(in->alone, step->shares[h].alone, sizeof in->alone);
        }
        h++;
    }
    return exact;
}

bool lac__prefix_prepare(lac_engine *e)
{
    uint32_t slots_left = e->slots;
    for (uint32_t i = 0; i < e->live_count; i++) {
        lac__sequence *s = e->live[i];
        if (s->state == LAC_SEQUENCE_WAITING)
            continue;
        slots_left--;
        if (s->state == LAC_SEQUENCE_PREFILL && !s->narrowed)
            take(e, s, findable(s));
        e->step.sequences[i].computed = s->computed;
    }
    bool short_of_pages = shares_fill(e);
    /* Admission is in order of arrival: nobody behind these can come in. */
    for (uint32_t i = 0; i < e->live_count && slots_left > 0; i++) {
        lac__sequence *s = e->live[i];
        if (s->state != LAC_SEQUENCE_WAITING)
            continue;
        slots_left--;
        lac_sched_sequence *in = &e->step.sequences[i];
        lac_prefix_found found = lac_prefix_find(e->pool, &s->prefix_key, s->tokens, findable(s));
        in->blocks = found.blocks;
        in->passed = found.passed;
        in->computed = found.blocks * LAC_KV_BLOCK;
        for (uint32_t p = 0; p < LAC_KV_SIZES_MAX; p++)
            in->alone[p] =
                found.idle * (in->cost[p] - in->windowed[p]) + found.unseen * in->windowed[p];
    }
    return short_of_pages;
}

void lac__prefix_admit(lac_engine *e)
{
    const lac_sched_order *order = &e->step.order;
    for (uint32_t r = 0; r < order->runs_count; r++) {
        lac__sequence *s = e->live[order->runs[r].sequence];
        if (s->state != LAC_SEQUENCE_WAITING)
            continue;
        s->state = lac_sched_next(s->state, LAC_SEQUENCE_ADMIT);
        s->kv = lac_kv_open(e->pool, e->classes[s->class_from > 0 ? 0 : s->class_index].kept);
        LAC_ASSERT(s->kv != LAC_KV_SEQUENCE_NONE);
        uint32_t promised = e->step.sequences[order->runs[r].sequence].computed;
        take(e, s, promised);
        LAC_ASSERT(s->computed == promised);
    }
}

void lac__prefix_offer(lac_engine *e, const lac__sequence *s)
{
    if (!s->narrowed)
        lac_prefix_offer(e->pool, s->kv, &s->prefix_key, s->tokens, reach(s, s->computed));
}
