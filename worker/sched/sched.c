/* The scheduler's decision for one step. Pure and single-threaded by nature; must not know the
 * engine, the clock or the pool. */
#include "sched/sched.h"

#include "base/assert.h"

enum {
    CHUNK_MIN = 8,         /* prompt rows a step carries at least: prefill always moves */
    CHUNK_UNKNOWN = 32,    /* while no cost has been measured */
    CHUNK_STEP = 8,        /* chunks are whole tiles of the matrix kernels */
    STEP_US_MAX = 1000000, /* what a step without decodes may take */
};

/* ---- life of a sequence ---- */

#define NEVER LAC_SEQUENCE_STATES
static const lac_sequence_state next_state[LAC_SEQUENCE_STATES][LAC_SEQUENCE_EVENTS] = {
    /*                           ADMIT                  PREFILLED              PREEMPT FINISH */
    [LAC_SEQUENCE_WAITING] = {LAC_SEQUENCE_PREFILL, NEVER, NEVER, LAC_SEQUENCE_GONE},
    [LAC_SEQUENCE_PREFILL] = {NEVER, LAC_SEQUENCE_DECODE, LAC_SEQUENCE_WAITING, LAC_SEQUENCE_GONE},
    [LAC_SEQUENCE_DECODE] = {NEVER, NEVER, LAC_SEQUENCE_WAITING, LAC_SEQUENCE_GONE},
    [LAC_SEQUENCE_GONE] = {NEVER, NEVER, NEVER, NEVER},
};

lac_sequence_state lac_sched_next(lac_sequence_state state, lac_sequence_event event)
{
    LAC_ASSERT(state < LAC_SEQUENCE_STATES && event < LAC_SEQUENCE_EVENTS);
    lac_sequence_state next = next_state[state][event];
    LAC_ASSERT(next != NEVER);
    return next;
}

const char *lac_sched_state_name(lac_sequence_state state)
{
    static const char *const names[LAC_SEQUENCE_STATES] = {"waiting", "prefill", "decode", "gone"};
    return (unsigned)state < LAC_SEQUENCE_STATES ? names[state] : "unknown";
}

/* ---- budgets ---- */

uint32_t lac_sched_prefill_rows(const lac_sched_budget *budget, uint32_t decodes)
{
    uint32_t room = budget->rows_max > decodes ? budget->rows_max - decodes : 0;
    double rows = CHUNK_UNKNOWN;
    if (budget->row_us > 0) {
        /* Nobody waits between tokens: a large chunk is the fastest. Still no step may last so long
         * that cancels go unheard and the process looks hung. */
        double target_us = decodes ? budget->itl_target_us - budget->decode_us : STEP_US_MAX;
        rows = target_us / budget->row_us;
    }
    if (rows < CHUNK_MIN)
        rows = CHUNK_MIN;
    if (rows > room)
        return room;
    return (uint32_t)rows / CHUNK_STEP * CHUNK_STEP;
}

void lac_sched_cost_add(lac_sched_cost *cost, uint32_t decodes, uint32_t prefill_rows, double us)
{
    const double weight = 0.125;
    double *value = &cost->decode_us, sample = us;
    if (prefill_rows > 0) {
        /* A chunk of a few rows says more about the step's fixed cost than about a row. */
        if (prefill_rows < CHUNK_MIN)
            return;
        value = &cost->row_us;
        double base = decodes > 0 ? cost->decode_us : 0;
        sample = (us > base ? us - base : 0) / prefill_rows;
    }
    *value = *value == 0 ? sample : *value + weight * (sample - *value);
}

/* ---- the decision ---- */

/* What one call works on. Victims are taken from the end: `victim_from` is how far that has come.
 */
typedef struct {
    const lac_sched_sequence *sequences;
    uint32_t count;
    const lac_sched_budget *budget;
    lac_sched_order *order;
    int64_t pages_free[LAC_KV_SIZES_MAX];
    uint32_t victim_from;
} decision;

static bool is_active(const lac_sched_sequence *s)
{
    return s->state == LAC_SEQUENCE_PREFILL || s->state == LAC_SEQUENCE_DECODE;
}

static uint32_t blocks_for(const decision *d, uint32_t tokens)
{
    return (tokens + d->budget->block_tokens - 1) / d->budget->block_tokens;
}

/* Pages of size i that a sequence takes on its way to `blocks` blocks, at least. Windowed units
 * hold no more than their window on the way, since a chunk takes what there is. */
static int64_t pages_to(const decision *d, const lac_sched_sequence *s, uint32_t blocks, uint32_t i)
{
    int64_t more = (int64_t)blocks - s->blocks, seen = (int64_t)s->blocks - s->passed,
            windowed = more;
    if (d->budget->window_blocks > 0 && seen + windowed > d->budget->window_blocks)
        windowed = d->budget->window_blocks > seen ? d->budget->window_blocks - seen : 0;
    return more * (s->cost[i] - s->windowed[i]) + windowed * s->windowed[i];
}

/* Whether a waiting sequence can have pages for `blocks` blocks, those from the cache among them.
 */
static bool blocks_fit(const decision *d, const lac_sched_sequence *s, uint32_t blocks)
{
    for (uint32_t i = 0; i < LAC_KV_SIZES_MAX; i++)
        if (pages_to(d, s, blocks, i) + s->alone[i] > d->pages_free[i])
            return false;
    return true;
}

/* Books blocks of a sequence. */
static void blocks_take(decision *d, const lac_sched_sequence *s, int64_t blocks)
{
    for (uint32_t i = 0; i < LAC_KV_SIZES_MAX; i++)
        d->pages_free[i] -= blocks * s->cost[i];
}

/* Books the rest of the way to `blocks` blocks after a run up to `taken`. */
static void rest_take(decision *d, const lac_sched_sequence *s, uint32_t taken, uint32_t blocks)
{
    for (uint32_t i = 0; i < LAC_KV_SIZES_MAX && blocks > taken; i++) {
        int64_t rest = pages_to(d, s, blocks, i) - (int64_t)(taken - s->blocks) * s->cost[i];
        d->pages_free[i] -= rest > 0 ? rest : 0;
    }
}

static void pages_give(decision *d, const uint32_t pages[LAC_KV_SIZES_MAX])
{
    for (uint32_t i = 0; i < LAC_KV_SIZES_MAX; i++)
        d->pages_free[i] += pages[i];
}

/* Largest number of tokens ≤ wanted for which the sequence's pages fit now. */
static uint32_t tokens_that_fit(const decision *d, const lac_sched_sequence *s, uint32_t wanted)
{
    uint32_t need = blocks_for(d, wanted);
    if (need <= s->blocks)
        return wanted;
    uint32_t more = need - s->blocks;
    for (uint32_t i = 0; i < LAC_KV_SIZES_MAX; i++)
        if (s->cost[i] > 0 && d->pages_free[i] / s->cost[i] < more)
            more = (uint32_t)(d->pages_free[i] / s->cost[i]);
    if (s->blocks + more == need)
        return wanted;
    return (s->blocks + more) * d->budget->block_tokens;
}

/* Preempts the youngest active sequence younger than `keep`; false when there is none. Once decodes
 * have their rows (`decodes_placed`) only prefills are victims, and a decode that stays may hold
 * what they share: only their own blocks are sure to come back. Else victims come strictly from the
 * end, so that what none older holds is free. */
static bool preempt_youngest(decision *d, uint32_t keep, bool decodes_placed)
{
    for (uint32_t i = d->victim_from; i-- > keep + 1;) {
        if (!is_active(&d->sequences[i]) ||
            (decodes_placed && d->sequences[i].state == LAC_SEQUENCE_DECODE))
            continue;
        d->victim_from = i;
        d->order->preempted[d->order->preempted_count++] = i;
        bool some_stay = decodes_placed && d->order->decodes > 0;
        pages_give(d, some_stay ? d->sequences[i].alone : d->sequences[i].owned);
        return true;
    }
    return false;
}

static void run_add(decision *d, uint32_t index, uint32_t rows)
{
    const lac_sched_sequence *s = &d->sequences[index];
    uint32_t need = blocks_for(d, s->computed + rows);
    if (need > s->blocks)
        blocks_take(d, s, need - s->blocks);
    d->order->runs[d->order->runs_count++] = (lac_sched_run){.sequence = index, .rows = rows};
    d->order->rows += rows;
}

/* Tokens up to `wanted` for sequence `index`, preempting younger ones until at least one more than
 * computed fits. 0 when there is nobody left to preempt. */
static uint32_t make_room(decision *d, uint32_t index, uint32_t wanted, bool decodes_placed)
{
    const lac_sched_sequence *s = &d->sequences[index];
    for (;;) {
        uint32_t tokens = tokens_that_fit(d, s, wanted);
        if (tokens > s->computed)
            return tokens;
        if (!preempt_youngest(d, index, decodes_placed))
            return 0;
    }
}

static void decide_decodes(decision *d)
{
    for (uint32_t i = 0; i < d->victim_from; i++) {
        const lac_sched_sequence *s = &d->sequences[i];
        if (s->state != LAC_SEQUENCE_DECODE || d->order->rows == d->budget->rows_max)
            continue;
        if (make_room(d, i, s->computed + 1, false) > 0) {
            run_add(d, i, 1);
            d->order->decodes++;
            continue;
        }
        /* Only older sequences hold pages now. They will finish; this one starts again behind them.
         */
        d->order->preempted[d->order->preempted_count++] = i;
        pages_give(d, s->owned);
        d->victim_from = i;
    }
}

/* Draft rows: only from what is free now, in order of arrival. Decodes all have their rows. */
static void decide_drafts(decision *d)
{
    if (d->order->preempted_count > 0)
        return;
    for (uint32_t r = 0; r < d->order->runs_count; r++) {
        lac_sched_run *run = &d->order->runs[r];
        const lac_sched_sequence *s = &d->sequences[run->sequence];
        uint32_t first = s->computed + 1, room = d->budget->rows_max - d->order->rows;
        uint32_t wanted = s->draft < room ? s->draft : room;
        lac_sched_sequence now = *s; /* with the blocks that its first row took */
        if (now.blocks < blocks_for(d, first))
            now.blocks = blocks_for(d, first);
        uint32_t tokens = tokens_that_fit(d, &now, first + wanted);
        uint32_t extra = tokens > first ? tokens - first : 0;
        if (blocks_for(d, first + extra) > now.blocks)
            blocks_take(d, s, blocks_for(d, first + extra) - now.blocks);
        run->rows += extra;
        d->order->rows += extra;
        d->order->drafts += extra;
    }
}

/* Prefills under way. Returns the rows left; *stuck says that one of them waits for pages. */
static uint32_t decide_prefills(decision *d, uint32_t rows_left, bool *stuck)
{
    for (uint32_t i = 0; i < d->victim_from && rows_left > 0; i++) {
        const lac_sched_sequence *s = &d->sequences[i];
        if (s->state != LAC_SEQUENCE_PREFILL)
            continue;
        uint32_t remaining = s->tokens - s->computed;
        uint32_t chunk = remaining < rows_left ? remaining : rows_left;
        uint32_t tokens = make_room(d, i, s->computed + chunk, true);
        if (tokens == 0) {
            *stuck = true;
            break; /* the older goes first: nobody behind it may take the pages it waits for */
        }
        run_add(d, i, tokens - s->computed);
        rows_left -= tokens - s->computed;
    }
    return rows_left;
}

/* Pages that prefills under way will still need, kept out of the reach of admissions. */
static void book_rest_of_prefills(decision *d)
{
    for (uint32_t r = 0; r < d->order->runs_count; r++) {
        const lac_sched_sequence *s = &d->sequences[d->order->runs[r].sequence];
        if (s->state != LAC_SEQUENCE_PREFILL)
            continue;
        uint32_t after = blocks_for(d, s->computed + d->order->runs[r].rows);
        uint32_t all = blocks_for(d, s->tokens + 1);
        rest_take(d, s, after < s->blocks ? s->blocks : after, all);
    }
}

static void decide_admissions(decision *d, uint32_t rows_left)
{
    uint32_t active = 0;
    for (uint32_t i = 0; i < d->count; i++)
        active += is_active(&d->sequences[i]);
    for (uint32_t i = 0; i < d->count && rows_left > 0; i++) {
        const lac_sched_sequence *s = &d->sequences[i];
        if (s->state != LAC_SEQUENCE_WAITING)
            continue;
        if (active == d->budget->slots)
            return;
        LAC_ASSERT(s->computed == s->blocks * d->budget->block_tokens);
        uint32_t all = blocks_for(d, s->tokens + 1);
        if (!blocks_fit(d, s, all)) {
            /* Alone it may start with what there is, since it fits the pool as a whole. */
            LAC_ASSERT(active > 0 || blocks_fit(d, s, blocks_for(d, s->tokens)));
            if (active > 0)
                return;
        }
        uint32_t remaining = s->tokens - s->computed;
        uint32_t rows = remaining < rows_left ? remaining : rows_left;
        for (uint32_t p = 0; p < LAC_KV_SIZES_MAX; p++)
            d->pages_free[p] -= s->alone[p];
        /* A chunk wider than the window takes more than was counted: as much as there is. */
        rows = tokens_that_fit(d, s, s->computed + rows) - s->computed;
        LAC_ASSERT(rows > 0);
        run_add(d, i, rows);
        rest_take(d, s, blocks_for(d, s->computed + rows), all);
        rows_left -= rows;
        active++;
    }
}

void lac_sched_decide(const lac_sched_sequence *sequences, uint32_t count,
                      const lac_sched_budget *budget, lac_sched_order *order)
{
    LAC_ASSERT(budget->slots > 0 && budget->rows_max >= budget->slots && budget->block_tokens > 0);
    decision d = {.sequences = sequences, .count = count, .budget = budget, .order = order};
    d.victim_from = count;
    for (uint32_t i = 0; i < LAC_KV_SIZES_MAX; i++)
        d.pages_free[i] = budget->pages_free[i];
    order->runs_count = order->preempted_count = order->rows = order->decodes = 0;
    order->drafts = 0;

    decide_decodes(&d);
    decide_drafts(&d);
    uint32_t rows_left = lac_sched_prefill_rows(budget, order->rows);
    bool stuck = false;
    rows_left = decide_prefills(&d, rows_left, &stuck);
    /* Whoever was preempted now would only take the pages back at once. */
    if (!stuck && order->preempted_count == 0) {
        book_rest_of_prefills(&d);
        decide_admissions(&d, rows_left);
    }
    LAC_ASSERT(count == 0 || order->runs_count > 0);
}
