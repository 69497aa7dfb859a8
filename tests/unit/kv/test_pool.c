/* The KV pool: all-or-nothing reservations, no page held twice, every page back after release. */
#include "kv/pool.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

enum { UNITS = 6, BLOCK = 32, CONTEXT = 320, SEQUENCES = 5 };

static const uint32_t size_of[UNITS] = {0, 0, 1, 0, 1, 1};

static const bool some_windowed[UNITS] = {false, true, true, false, false, true};

/* `window` 0: none; else units 1, 2 and 5 have it. */
static lac_kv_pool *make_windowed(uint32_t pages0, uint32_t pages1, uint32_t window)
{
    lac_kv_options options = {.block_tokens = BLOCK,
                              .context_max = CONTEXT,
                              .sequences_max = SEQUENCES,
                              .units_count = UNITS,
                              .size_of = size_of,
                              .sizes_count = 2,
                              .pages = {pages0, pages1},
                              .windowed = window ? some_windowed : NULL,
                              .window = window};
    lac_kv_pool *pool = NULL;
    lac_error err;
    ck_assert_int_eq(lac_kv_create(&options, &pool, &err), LAC_OK);
    return pool;
}

static lac_kv_pool *make(uint32_t pages0, uint32_t pages1)
{
    return make_windowed(pages0, pages1, 0);
}

START_TEST(reserve_is_all_or_nothing)
{
    lac_kv_pool *pool = make(9, 6); /* three blocks by size 0, two by size 1 */
    int a = lac_kv_open(pool, NULL);
    ck_assert(lac_kv_reserve(pool, a, 1));
    ck_assert_uint_eq(lac_kv_used_count(pool), UNITS);
    ck_assert(lac_kv_reserve(pool, a, BLOCK)); /* same block: nothing more */
    ck_assert_uint_eq(lac_kv_used_count(pool), UNITS);
    ck_assert(!lac_kv_reserve(pool, a, 3 * BLOCK)); /* size 1 lacks three pages */
    ck_assert_uint_eq(lac_kv_used_count(pool), UNITS);
    ck_assert_uint_eq(lac_kv_free_count(pool, 0), 6);
    ck_assert_uint_eq(lac_kv_free_count(pool, 1), 3);
    ck_assert(lac_kv_reserve(pool, a, 2 * BLOCK));
    ck_assert_uint_eq(lac_kv_blocks(pool, a), 2);
    lac_kv_release(pool, a);
    ck_assert_uint_eq(lac_kv_used_count(pool), 0);
    ck_assert(lac_kv_reserve(pool, a, 2 * BLOCK)); /* still open */
    lac_kv_close(pool, a);
    ck_assert_uint_eq(lac_kv_used_count(pool), 0);
    lac_kv_destroy(&pool);
    ck_assert_ptr_null(pool);
}
END_TEST

START_TEST(units_not_kept_own_no_page)
{
    lac_kv_pool *pool = make(30, 30);
    bool kept[UNITS] = {true, false, false, true, true, false};
    int a = lac_kv_open(pool, kept);
    ck_assert(lac_kv_reserve(pool, a, 70)); /* three blocks */
    ck_assert_uint_eq(lac_kv_used_count(pool), 3 * 3);
    const uint32_t *tables = lac_kv_tables(pool, a);
    uint32_t stride = lac_kv_table_stride(pool);
    ck_assert_uint_eq(stride, CONTEXT / BLOCK);
    for (uint32_t u = 0; u < UNITS; u++)
        for (uint32_t b = 0; b < 3; b++)
            ck_assert_int_eq(tables[u * stride + b] != LAC_KV_PAGE_NONE, kept[u]);
    uint32_t cost[LAC_KV_SIZES_MAX], windowed[LAC_KV_SIZES_MAX];
    lac_kv_block_cost(pool, kept, cost, windowed);
    ck_assert_uint_eq(cost[0], 2);
    ck_assert_uint_eq(cost[1], 1);
    ck_assert_uint_eq(windowed[0] + windowed[1], 0);
    lac_kv_close(pool, a);
    lac_kv_destroy(&pool);
}
END_TEST

START_TEST(capacity_for_one_sequence)
{
    lac_kv_pool *pool = make(9, 6);
    bool kept[UNITS] = {true, true, false, true, false, false};
    ck_assert_uint_eq(lac_kv_tokens_max(pool, NULL), 2 * BLOCK);
    ck_assert_uint_eq(lac_kv_tokens_max(pool, kept), 3 * BLOCK);
    lac_kv_destroy(&pool);
    pool = make(3000, 3000);
    ck_assert_uint_eq(lac_kv_tokens_max(pool, NULL), CONTEXT);
    lac_kv_destroy(&pool);
}
END_TEST

/* Tokens one at a time: a windowed unit holds what the next query sees and what it writes. */
START_TEST(windowed_units_give_back_what_they_passed)
{
    enum { WINDOW = 70 };
    lac_kv_pool *pool = make_windowed(60, 60, WINDOW);
    int s = lac_kv_open(pool, NULL);
    uint32_t most = 0;
    for (uint32_t tokens = 1; tokens <= CONTEXT; tokens++) {
        ck_assert(lac_kv_reserve(pool, s, tokens));
        uint32_t held[LAC_KV_SIZES_MAX], blocks = lac_kv_blocks(pool, s), counted[2] = {0, 0};
        const uint32_t *tables = lac_kv_tables(pool, s);
        for (uint32_t u = 0; u < UNITS; u++)
            for (uint32_t b = 0; b < blocks; b++) {
                /* The row at position tokens − 1 sees from there to itself. */
                uint32_t first = tokens > WINDOW ? (tokens - WINDOW) / BLOCK : 0;
                bool there = tables[u * lac_kv_table_stride(pool) + b] != LAC_KV_PAGE_NONE;
                ck_assert_int_eq(there, !some_windowed[u] || b >= first);
                counted[size_of[u]] += there;
            }
        lac_kv_held(pool, s, held);
        ck_assert_uint_eq(held[0], counted[0]);
        ck_assert_uint_eq(held[1], counted[1]);
        ck_assert_uint_eq(held[0] + held[1], lac_kv_used_count(pool));
        uint32_t windowed = blocks - lac_kv_passed(pool, s);
        most = windowed > most ? windowed : most;
        lac_kv_pass(pool, s, tokens);
        lac_kv_pass(pool, s, tokens); /* nothing more to give */
    }
    ck_assert_uint_eq(most, lac_kv_window_blocks(pool));
    lac_kv_trim(pool, s, CONTEXT - BLOCK);
    ck_assert_uint_eq(lac_kv_blocks(pool, s), CONTEXT / BLOCK - 1);
    lac_kv_release(pool, s);
    ck_assert_uint_eq(lac_kv_used_count(pool), 0);
    ck_assert(lac_kv_reserve(pool, s, CONTEXT)); /* from the start again, all of it */
    ck_assert_uint_eq(lac_kv_used_count(pool), UNITS * (CONTEXT / BLOCK));
    lac_kv_close(pool, s);
    lac_kv_destroy(&pool);
}
END_TEST

/* What tokens_max promises can be had a block at a time, and not one block more. */
START_TEST(capacity_counts_a_window_once)
{
    for (uint32_t window = 1; window <= 200; window += 13)
        for (uint32_t pages = 3; pages <= 40; pages++) {
            lac_kv_pool *pool = make_windowed(pages, pages + 3, window);
            uint32_t most = lac_kv_tokens_max(pool, NULL), done = 0;
            int s = lac_kv_open(pool, NULL);
            while (done < CONTEXT && lac_kv_reserve(pool, s, done + BLOCK)) {
                done += BLOCK;
                lac_kv_pass(pool, s, done);
            }
            ck_assert_uint_eq(done, most);
            lac_kv_close(pool, s);
            lac_kv_destroy(&pool);
        }
}
END_TEST

START_TEST(sequences_are_bounded)
{
    lac_kv_pool *pool = make(9, 9);
    for (int i = 0; i < SEQUENCES; i++)
        ck_assert_int_eq(lac_kv_open(pool, NULL), i);
    ck_assert_int_eq(lac_kv_open(pool, NULL), LAC_KV_SEQUENCE_NONE);
    lac_kv_close(pool, 2);
    ck_assert_int_eq(lac_kv_open(pool, NULL), 2);
    lac_kv_destroy(&pool);
}
END_TEST

START_TEST(bad_options_are_named)
{
    uint32_t wrong[1] = {3};
    lac_kv_options options = {.block_tokens = BLOCK,
                              .context_max = CONTEXT,
                              .sequences_max = 1,
                              .units_count = 1,
                              .size_of = wrong,
                              .sizes_count = 2};
    lac_kv_pool *pool = NULL;
    lac_error err = {0};
    ck_assert_int_eq(lac_kv_create(&options, &pool, &err), LAC_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "size_of[0] is 3"));
    wrong[0] = 0;
    options.windowed = some_windowed;
    ck_assert_int_eq(lac_kv_create(&options, &pool, &err), LAC_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "window is 0"));
    options.context_max = 0;
    ck_assert_int_eq(lac_kv_create(&options, &pool, &err), LAC_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "context_max is 0"));
    ck_assert_ptr_null(pool);
}
END_TEST

/* Every page is in at most one table, and free + held = all, after each of many random moves. */
START_TEST(random_moves_keep_the_books)
{
    enum { PAGES0 = 40, PAGES1 = 33 };
    lac_kv_pool *pool = make_windowed(PAGES0, PAGES1, _i ? 50 : 0);
    lac_rng rng;
    lac_rng_seed(&rng, 7);
    int open[SEQUENCES];
    uint32_t open_count = 0;
    for (int move = 0; move < 20000; move++) {
        uint64_t what = lac_rng_below(&rng, 8);
        if (what == 0 && open_count < SEQUENCES) {
            bool kept[UNITS];
            for (int u = 0; u < UNITS; u++)
                kept[u] = lac_rng_below(&rng, 4) > 0;
            open[open_count++] = lac_kv_open(pool, kept);
        } else if (open_count > 0) {
            uint32_t i = (uint32_t)lac_rng_below(&rng, open_count);
            if (what == 1) {
                lac_kv_close(pool, open[i]);
                open[i] = open[--open_count];
            } else if (what == 2) {
                lac_kv_release(pool, open[i]);
            } else if (what == 3) {
                uint32_t tokens = lac_kv_blocks(pool, open[i]) * BLOCK;
                lac_kv_pass(pool, open[i], (uint32_t)lac_rng_below(&rng, tokens + 1));
            } else {
                lac_kv_reserve(pool, open[i], 1 + (uint32_t)lac_rng_below(&rng, CONTEXT));
            }
        }
        uint8_t seen[2][PAGES0] = {{0}};
        uint32_t held[2] = {0, 0};
        for (uint32_t i = 0; i < open_count; i++) {
            const uint32_t *tables = lac_kv_tables(pool, open[i]);
            for (uint32_t u = 0; u < UNITS; u++)
                for (uint32_t b = 0; b < lac_kv_blocks(pool, open[i]); b++) {
                    uint32_t page = tables[u * lac_kv_table_stride(pool) + b];
                    if (page == LAC_KV_PAGE_NONE)
                        continue;
                    ck_assert_uint_lt(page, size_of[u] == 0 ? PAGES0 : PAGES1);
                    ck_assert_uint_eq(seen[size_of[u]][page]++, 0);
                    held[size_of[u]]++;
                }
        }
        ck_assert_uint_eq(held[0] + lac_kv_free_count(pool, 0), PAGES0);
        ck_assert_uint_eq(held[1] + lac_kv_free_count(pool, 1), PAGES1);
        ck_assert_uint_eq(held[0] + held[1], lac_kv_used_count(pool));
    }
    lac_kv_destroy(&pool);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kv");
    TCase *tc = tcase_create("pool");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, reserve_is_all_or_nothing);
    tcase_add_test(tc, units_not_kept_own_no_page);
    tcase_add_test(tc, capacity_for_one_sequence);
    tcase_add_test(tc, sequences_are_bounded);
    tcase_add_test(tc, bad_options_are_named);
    tcase_add_test(tc, windowed_units_give_back_what_they_passed);
    tcase_add_test(tc, capacity_counts_a_window_once);
    tcase_add_loop_test(tc, random_moves_keep_the_books, 0, 2);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
