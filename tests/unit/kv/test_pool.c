/* The KV pool: all-or-nothing reservations, no page held twice, every page back after release. */
#include "kv/pool.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

enum { UNITS = 6, BLOCK = 32, CONTEXT = 320, SEQUENCES = 5 };

static const uint32_t size_of[UNITS] = {0, 0, 1, 0, 1, 1};

static lac_kv_pool *make(uint32_t pages0, uint32_t pages1)
{
    lac_kv_options options = {.block_tokens = BLOCK,
                              .context_max = CONTEXT,
                              .sequences_max = SEQUENCES,
                              .units_count = UNITS,
                              .size_of = size_of,
                              .sizes_count = 2,
                              .pages = {pages0, pages1}};
    lac_kv_pool *pool = NULL;
    lac_error err;
    ck_assert_int_eq(lac_kv_create(&options, &pool, &err), LAC_OK);
    return pool;
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
    uint32_t cost[LAC_KV_SIZES_MAX];
    lac_kv_block_cost(pool, kept, cost);
    ck_assert_uint_eq(cost[0], 2);
    ck_assert_uint_eq(cost[1], 1);
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
    lac_kv_pool *pool = make(PAGES0, PAGES1);
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
    tcase_add_test(tc, random_moves_keep_the_books);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
