/* The scheduler: its rules one by one, then a simulation of thousands of steps against a model of
 * the pool that checks that nothing is lost, starved or overbooked. */
#include "sched/sched.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

enum { BLOCK = 32, COUNT_MAX = 64 };

static lac_sched_run runs[COUNT_MAX];
static uint32_t preempted[COUNT_MAX];
static lac_sched_order order;

static lac_sched_sequence waiting(uint32_t tokens)
{
    return (lac_sched_sequence){.state = LAC_SEQUENCE_WAITING, .tokens = tokens, .cost = {2}};
}

static lac_sched_sequence active(lac_sequence_state state, uint32_t tokens, uint32_t computed)
{
    return (lac_sched_sequence){.state = state,
                                .tokens = tokens,
                                .computed = computed,
                                .blocks = (computed + BLOCK - 1) / BLOCK,
                                .owned = {(computed + BLOCK - 1) / BLOCK * 2},
                                .alone = {(computed + BLOCK - 1) / BLOCK * 2},
                                .cost = {2}};
}

static lac_sched_budget budget_of(uint32_t pages_free)
{
    return (lac_sched_budget){.slots = 4,
                              .rows_max = 512,
                              .block_tokens = BLOCK,
                              .pages_free = {pages_free},
                              .itl_target_us = 50000};
}

static void decide(const lac_sched_sequence *s, uint32_t count, const lac_sched_budget *budget)
{
    order = (lac_sched_order){.runs = runs, .preempted = preempted};
    lac_sched_decide(s, count, budget, &order);
}

START_TEST(alone_a_prompt_runs_in_large_chunks)
{
    lac_sched_budget budget = budget_of(1000);
    lac_sched_sequence s[1] = {waiting(700)};
    decide(s, 1, &budget);
    ck_assert_uint_eq(order.runs_count, 1);
    ck_assert_uint_eq(runs[0].rows, 32); /* nobody knows yet what a row costs */
    budget.row_us = 1000;
    decide(s, 1, &budget);
    ck_assert_uint_eq(runs[0].rows, 512);
    s[0] = active(LAC_SEQUENCE_PREFILL, 700, 512);
    decide(s, 1, &budget);
    ck_assert_uint_eq(runs[0].rows, 188);
    budget.row_us = 10000; /* a slow or busy machine: still no step over a second */
    decide(s, 1, &budget);
    ck_assert_uint_eq(runs[0].rows, 96);
}
END_TEST

START_TEST(decodes_come_first_and_shape_the_chunk)
{
    lac_sched_budget budget = budget_of(1000);
    budget.decode_us = 10000;
    budget.row_us = 500;
    lac_sched_sequence s[3] = {active(LAC_SEQUENCE_PREFILL, 900, 300),
                               active(LAC_SEQUENCE_DECODE, 41, 40),
                               active(LAC_SEQUENCE_DECODE, 65, 64)};
    decide(s, 3, &budget);
    ck_assert_uint_eq(order.runs_count, 3);
    ck_assert_uint_eq(order.decodes, 2);
    ck_assert_uint_eq(runs[0].sequence, 1);
    ck_assert_uint_eq(runs[0].rows, 1);
    ck_assert_uint_eq(runs[1].sequence, 2);
    ck_assert_uint_eq(runs[2].sequence, 0);
    ck_assert_uint_eq(runs[2].rows, 80); /* (50 ms − 10 ms) / 0.5 ms */
    budget.row_us = 50000;               /* however slow, prefill moves */
    decide(s, 3, &budget);
    ck_assert_uint_eq(runs[2].rows, 8);
    budget.row_us = 0; /* nothing measured yet */
    decide(s, 3, &budget);
    ck_assert_uint_eq(runs[2].rows, 32);
}
END_TEST

START_TEST(admission_is_first_come_first_served)
{
    lac_sched_budget budget = budget_of(10); /* five blocks */
    lac_sched_sequence s[3] = {active(LAC_SEQUENCE_DECODE, 10, 9), waiting(200), waiting(5)};
    decide(s, 3, &budget);
    /* The second needs seven blocks; the third would fit but must not overtake it. */
    ck_assert_uint_eq(order.runs_count, 1);
    budget.pages_free[0] = 16;
    decide(s, 3, &budget);
    ck_assert_uint_eq(order.runs_count, 2);
    ck_assert_uint_eq(runs[1].sequence, 1);
    budget.pages_free[0] = 1000;
    budget.row_us = 10;
    decide(s, 3, &budget);
    ck_assert_uint_eq(order.runs_count, 3);
    budget.slots = 2;
    decide(s, 3, &budget);
    ck_assert_uint_eq(order.runs_count, 2);
}
END_TEST

START_TEST(the_youngest_gives_way)
{
    lac_sched_budget budget = budget_of(0);
    lac_sched_sequence s[4] = {active(LAC_SEQUENCE_DECODE, 33, 32), /* needs a block */
                               active(LAC_SEQUENCE_DECODE, 41, 40),
                               active(LAC_SEQUENCE_PREFILL, 100, 20), waiting(3)};
    decide(s, 4, &budget);
    ck_assert_uint_eq(order.preempted_count, 1);
    ck_assert_uint_eq(preempted[0], 2);
    ck_assert_uint_eq(order.runs_count, 2); /* and nobody is admitted in the same step */
    ck_assert_uint_eq(runs[0].sequence, 0);
    ck_assert_uint_eq(runs[1].sequence, 1);
}
END_TEST

START_TEST(the_youngest_decode_gives_way_itself)
{
    lac_sched_budget budget = budget_of(0);
    lac_sched_sequence s[2] = {active(LAC_SEQUENCE_DECODE, 41, 40),
                               active(LAC_SEQUENCE_DECODE, 65, 64)};
    decide(s, 2, &budget);
    ck_assert_uint_eq(order.preempted_count, 1);
    ck_assert_uint_eq(preempted[0], 1);
    ck_assert_uint_eq(order.runs_count, 1);
    ck_assert_uint_eq(runs[0].sequence, 0);
}
END_TEST

START_TEST(prefills_do_not_lock_each_other)
{
    lac_sched_budget budget = budget_of(0);
    budget.row_us = 1000;
    lac_sched_sequence s[2] = {active(LAC_SEQUENCE_PREFILL, 96, 32),
                               active(LAC_SEQUENCE_PREFILL, 96, 64)};
    decide(s, 2, &budget);
    ck_assert_uint_eq(order.preempted_count, 1);
    ck_assert_uint_eq(preempted[0], 1);
    ck_assert_uint_eq(order.runs_count, 1);
    ck_assert_uint_eq(runs[0].sequence, 0);
    ck_assert_uint_eq(runs[0].rows, 64); /* the two blocks given back */
}
END_TEST

START_TEST(cost_is_measured)
{
    lac_sched_cost cost = {0};
    lac_sched_cost_add(&cost, 4, 0, 8000);
    ck_assert_double_eq_tol(cost.decode_us, 8000, 1e-9);
    lac_sched_cost_add(&cost, 4, 0, 16000);
    ck_assert_double_eq_tol(cost.decode_us, 9000, 1e-9);
    lac_sched_cost_add(&cost, 0, 512, 256000);
    ck_assert_double_eq_tol(cost.row_us, 500, 1e-9);
    lac_sched_cost_add(&cost, 4, 32, 9000 + 32 * 500);
    ck_assert_double_eq_tol(cost.row_us, 500, 1e-9);
    lac_sched_cost_add(&cost, 4, 1, 1e9); /* one row says nothing about a row */
    ck_assert_double_eq_tol(cost.row_us, 500, 1e-9);
}
END_TEST

/* ---- shared blocks ---- */

START_TEST(cached_blocks_save_rows_and_pages)
{
    lac_sched_budget budget = budget_of(8); /* four blocks */
    budget.row_us = 100;
    lac_sched_sequence s[2] = {active(LAC_SEQUENCE_DECODE, 40, 39), waiting(5 * BLOCK + 1)};
    decide(s, 2, &budget);
    ck_assert_uint_eq(order.runs_count, 1); /* six blocks do not fit */
    s[1].blocks = 3, s[1].computed = 3 * BLOCK, s[1].alone[0] = 6;
    decide(s, 2, &budget);
    ck_assert_uint_eq(order.runs_count, 1); /* nobody holds the three: they are free pages too */
    s[1].alone[0] = 2;
    decide(s, 2, &budget);
    ck_assert_uint_eq(order.runs_count, 2); /* two are held: one and three more are needed */
    ck_assert_uint_eq(runs[1].rows, 2 * BLOCK + 1);
    budget.pages_free[0] = 7;
    decide(s, 2, &budget);
    ck_assert_uint_eq(order.runs_count, 1);
}
END_TEST

START_TEST(preempting_a_sharer_frees_what_is_its_own)
{
    lac_sched_budget budget = budget_of(0);
    budget.row_us = 100;
    /* The oldest needs a block. The youngest owns none: the second has to go too. */
    lac_sched_sequence s[3] = {active(LAC_SEQUENCE_DECODE, 65, 64),
                               active(LAC_SEQUENCE_DECODE, 70, 69),
                               active(LAC_SEQUENCE_DECODE, 64, 63)};
    s[2].owned[0] = s[2].alone[0] = 0;
    s[1].owned[0] = 2, s[1].alone[0] = 0; /* one that the youngest held as well */
    decide(s, 3, &budget);
    ck_assert_uint_eq(order.preempted_count, 2);
    ck_assert_uint_eq(order.runs_count, 1);
    /* A prefill that shares with a decode that stays: only its own blocks come back. */
    budget.pages_free[0] = 1;
    s[0] = active(LAC_SEQUENCE_PREFILL, 200, 64);
    s[1] = active(LAC_SEQUENCE_PREFILL, 200, 64);
    s[1].owned[0] = 4, s[1].alone[0] = 0;
    s[2] = active(LAC_SEQUENCE_DECODE, 65, 63);
    s[2].owned[0] = 0, s[2].alone[0] = 0;
    decide(s, 3, &budget);
    ck_assert_uint_eq(order.preempted_count, 1);
    ck_assert_uint_eq(preempted[0], 1);
    ck_assert_uint_eq(order.runs_count, 1);
    ck_assert_uint_eq(runs[0].sequence, 2);
}
END_TEST

START_TEST(draft_rows_take_what_is_free)
{
    lac_sched_budget budget = budget_of(4);
    budget.row_us = 100;
    budget.decode_us = 10000;
    lac_sched_sequence s[3] = {active(LAC_SEQUENCE_DECODE, 63, 62),
                               active(LAC_SEQUENCE_DECODE, 64, 63),
                               active(LAC_SEQUENCE_PREFILL, 900, 320)};
    s[0].draft = 8;
    s[1].draft = 3;
    decide(s, 3, &budget);
    ck_assert_uint_eq(order.decodes, 2);
    ck_assert_uint_eq(order.drafts, 11); /* a block for each */
    ck_assert_uint_eq(runs[0].rows, 9);
    ck_assert_uint_eq(runs[1].rows, 4);
    ck_assert_uint_eq(order.runs_count, 2); /* none left for the prompt */
    budget.pages_free[0] = 2;
    decide(s, 3, &budget);
    ck_assert_uint_eq(runs[0].rows, 9);
    ck_assert_uint_eq(runs[1].rows, 1);
    budget.pages_free[0] = 0;
    decide(s, 3, &budget);
    ck_assert_uint_eq(runs[0].rows, 2); /* up to the end of its block */
    ck_assert_uint_eq(order.drafts, 1);
    s[1] =
        active(LAC_SEQUENCE_DECODE, 65, 64); /* the older needs a block: no drafts, somebody goes */
    decide(s, 3, &budget);
    ck_assert_uint_eq(order.preempted_count, 1);
    ck_assert_uint_eq(order.drafts, 0);
    budget = budget_of(100);
    budget.rows_max = 6;
    decide(s, 2, &budget);
    ck_assert_uint_eq(order.rows, 6);
    ck_assert_uint_eq(order.drafts, 4);
}
END_TEST

/* Requests arrive at random and run to random lengths in a pool that holds a few of them. */
enum { REQUESTS = 40, PAGES0 = 24, PAGES1 = 13 };

typedef struct {
    lac_sched_sequence s;
    uint32_t total, id;
} simulated;

typedef struct {
    lac_rng rng;
    simulated live[COUNT_MAX];
    uint32_t count, arrived, done, preemptions;
    bool finished[REQUESTS];
    uint32_t free0, free1; /* pages of the two sizes: a block takes two and one */
    uint32_t window;       /* tokens; 0 = none, else one unit of size 0 has it */
} world;

static void arrive(world *w)
{
    while (w->arrived < REQUESTS && w->count < COUNT_MAX && lac_rng_below(&w->rng, 3) == 0) {
        uint32_t prompt = 1 + (uint32_t)lac_rng_below(&w->rng, 150);
        simulated *n = &w->live[w->count++];
        *n = (simulated){.s = waiting(prompt), .id = w->arrived++};
        n->s.cost[1] = 1;
        n->s.windowed[0] = w->window > 0;
        n->total = prompt + 1 + (uint32_t)lac_rng_below(&w->rng, 12 * BLOCK - prompt - 1);
    }
}

static void ask(const world *w)
{
    static lac_sched_sequence input[COUNT_MAX];
    for (uint32_t i = 0; i < w->count; i++) {
        input[i] = w->live[i].s;
        for (uint32_t p = 0; p < 2; p++)
            input[i].owned[p] = input[i].alone[p] =
                input[i].blocks * input[i].cost[p] - input[i].passed * input[i].windowed[p];
    }
    lac_sched_budget budget = budget_of(w->free0);
    budget.pages_free[1] = w->free1;
    budget.window_blocks = w->window ? (w->window - 1 + BLOCK - 1) / BLOCK + 1 : 0;
    budget.rows_max = 64;
    budget.row_us = 1500;
    budget.decode_us = 3000;
    decide(input, w->count, &budget);
    ck_assert_uint_gt(order.rows, 0);
    ck_assert_uint_le(order.rows, 64);
}

static void give_back(world *w, const lac_sched_sequence *s)
{
    w->free0 += s->blocks * 2 - s->passed * s->windowed[0];
    w->free1 += s->blocks;
}

static void preempt(world *w)
{
    for (uint32_t i = 0; i < order.preempted_count; i++) {
        lac_sched_sequence *s = &w->live[preempted[i]].s;
        give_back(w, s);
        s->state = lac_sched_next(s->state, LAC_SEQUENCE_PREEMPT);
        s->blocks = s->computed = s->passed = 0;
        w->preemptions++;
    }
}

/* One run of the step; true when its sequence has its last token. */
static bool run(world *w, const lac_sched_run *r)
{
    lac_sched_sequence *s = &w->live[r->sequence].s;
    if (s->state == LAC_SEQUENCE_WAITING)
        s->state = lac_sched_next(s->state, LAC_SEQUENCE_ADMIT);
    s->computed += r->rows;
    ck_assert_uint_le(s->computed, s->tokens);
    uint32_t blocks = (s->computed + BLOCK - 1) / BLOCK;
    if (blocks > s->blocks) {
        ck_assert_uint_ge(w->free0, (blocks - s->blocks) * 2);
        ck_assert_uint_ge(w->free1, blocks - s->blocks);
        w->free0 -= (blocks - s->blocks) * 2;
        w->free1 -= blocks - s->blocks;
        s->blocks = blocks;
    }
    uint32_t to =
        w->window && s->computed + 1 > w->window ? (s->computed + 1 - w->window) / BLOCK : 0;
    for (; s->passed < to; s->passed++)
        w->free0 += s->windowed[0];
    if (s->computed < s->tokens)
        return false;
    if (s->state == LAC_SEQUENCE_PREFILL)
        s->state = lac_sched_next(s->state, LAC_SEQUENCE_PREFILLED);
    return ++s->tokens == w->live[r->sequence].total;
}

static void take_away(world *w, const bool *gone)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < w->count; i++) {
        if (!gone[i]) {
            w->live[kept++] = w->live[i];
            continue;
        }
        give_back(w, &w->live[i].s);
        ck_assert(!w->finished[w->live[i].id]);
        w->finished[w->live[i].id] = true;
        w->done++;
    }
    w->count = kept;
}

static void simulate(uint64_t seed, uint32_t window)
{
    /* With a window the longest fits with so many pages fewer. */
    uint32_t pages0 = window ? 12 + (window + BLOCK - 2) / BLOCK + 1 : PAGES0;
    world w = {.free0 = pages0, .free1 = PAGES1, .window = window};
    lac_rng_seed(&w.rng, seed);
    for (int step = 0; w.done < REQUESTS; step++) {
        ck_assert_msg(step < 60000, "seed %llu: not finished", (unsigned long long)seed);
        arrive(&w);
        if (w.count == 0)
            continue;
        ask(&w);
        preempt(&w);
        bool gone[COUNT_MAX] = {false};
        for (uint32_t r = 0; r < order.runs_count; r++)
            if (run(&w, &runs[r]))
                gone[runs[r].sequence] = true;
        take_away(&w, gone);
    }
    ck_assert_uint_eq(w.free0, pages0);
    ck_assert_uint_eq(w.free1, PAGES1);
    ck_assert_uint_gt(w.preemptions, 0);
}

START_TEST(nothing_is_lost_in_a_small_pool)
{
    for (uint64_t seed = 1; seed <= (_i ? 15 : 60); seed++)
        simulate(seed, (uint32_t)_i);
}
END_TEST

/* A prompt that passes most of its windowed pages on the way is admitted where they once fit. */
START_TEST(a_window_is_counted_once)
{
    lac_sched_budget budget = budget_of(10 + 3);
    budget.row_us = 100;
    budget.window_blocks = 3;
    lac_sched_sequence s[2] = {active(LAC_SEQUENCE_DECODE, 40, 39), waiting(10 * BLOCK - 1)};
    s[1].cost[0] = 2, s[1].windowed[0] = 1;
    decide(s, 2, &budget);
    ck_assert_uint_eq(order.runs_count, 2);
    ck_assert_uint_eq(runs[1].rows, 6 * BLOCK); /* of ten: as many as there are pages for now */
    budget.pages_free[0]--;
    decide(s, 2, &budget);
    ck_assert_uint_eq(order.runs_count, 1);
    s[1].blocks = 4, s[1].computed = 4 * BLOCK, s[1].passed = 2; /* found: it holds what it sees */
    budget.pages_free[0] = 6 + 1;
    decide(s, 2, &budget);
    ck_assert_uint_eq(order.runs_count, 2);
    budget.pages_free[0]--;
    decide(s, 2, &budget);
    ck_assert_uint_eq(order.runs_count, 1);
}
END_TEST

START_TEST(an_illegal_move_aborts)
{
    lac_sched_next(LAC_SEQUENCE_GONE, LAC_SEQUENCE_ADMIT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sched");
    TCase *tc = tcase_create("sched");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, alone_a_prompt_runs_in_large_chunks);
    tcase_add_test(tc, decodes_come_first_and_shape_the_chunk);
    tcase_add_test(tc, admission_is_first_come_first_served);
    tcase_add_test(tc, the_youngest_gives_way);
    tcase_add_test(tc, the_youngest_decode_gives_way_itself);
    tcase_add_test(tc, prefills_do_not_lock_each_other);
    tcase_add_test(tc, cost_is_measured);
    tcase_add_test(tc, cached_blocks_save_rows_and_pages);
    tcase_add_test(tc, preempting_a_sharer_frees_what_is_its_own);
    tcase_add_test(tc, draft_rows_take_what_is_free);
    tcase_add_test(tc, a_window_is_counted_once);
    tcase_add_loop_test(tc, nothing_is_lost_in_a_small_pool, 0, 1);
    tcase_add_loop_test(tc, nothing_is_lost_in_a_small_pool, 20, 22);
    tcase_add_loop_test(tc, nothing_is_lost_in_a_small_pool, 90, 92);
    tcase_add_test_raise_signal(tc, an_illegal_move_aborts, 6);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
