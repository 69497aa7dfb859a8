/* Speculation: the draft against a search that tries every place, and the decision in simulated
 * engines: a gain where there is one, next to no loss where there is none. */
#include "spec/spec.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

START_TEST(a_draft_follows_the_longest_latest_match)
{
    static const uint32_t text[] = {9, 1, 2, 3, 4, 5, 7, 2, 3, 4, 6, 8, 2, 3, 4, 8, 1, 2, 3, 4};
    uint32_t out[LAC_SPEC_DRAFT_MAX];
    ck_assert_uint_eq(lac_spec_draft(text, 20, 3, out), 3);
    ck_assert_uint_eq(out[0], 5); /* four tokens fit there, three at the later places */
    ck_assert_uint_eq(out[1], 7);
    ck_assert_uint_eq(lac_spec_draft(text, 15, 2, out), 2);
    ck_assert_uint_eq(out[0], 6); /* three fit at both: the later one */
    ck_assert_uint_eq(out[1], 8);
    ck_assert_uint_eq(lac_spec_draft(text, 9, 3, out), 0); /* only 2, 3 was there before */
    ck_assert_uint_eq(lac_spec_draft(text, 20, 0, out), 0);
    ck_assert_uint_eq(lac_spec_draft(text, 1, 4, out), 0);
}
END_TEST

START_TEST(a_loop_goes_round)
{
    static const uint32_t text[] = {5, 1, 2, 1, 2, 1, 2};
    uint32_t out[LAC_SPEC_DRAFT_MAX];
    ck_assert_uint_eq(lac_spec_draft(text, 7, LAC_SPEC_DRAFT_MAX, out), LAC_SPEC_DRAFT_MAX);
    for (uint32_t i = 0; i < LAC_SPEC_DRAFT_MAX; i++)
        ck_assert_uint_eq(out[i], 1 + i % 2);
}
END_TEST

/* The rule, said naively. */
static uint32_t naive(const uint32_t *tokens, uint32_t count, uint32_t *from)
{
    for (uint32_t n = LAC_SPEC_MATCH_MAX; n >= LAC_SPEC_MATCH_MIN; n--)
        for (uint32_t end = count - 1; count > n && end >= n; end--)
            if (memcmp(tokens + end - n, tokens + count - n, n * sizeof(*tokens)) == 0) {
                *from = end;
                return n;
            }
    return 0;
}

START_TEST(random_texts_match_the_rule)
{
    lac_rng rng;
    lac_rng_seed(&rng, 8);
    for (int round = 0; round < 3000; round++) {
        uint32_t text[80], out[LAC_SPEC_DRAFT_MAX], from = 0;
        uint32_t count = 1 + (uint32_t)lac_rng_below(&rng, 80);
        for (uint32_t i = 0; i < count; i++)
            text[i] = (uint32_t)lac_rng_below(&rng, 3);
        uint32_t found = lac_spec_draft(text, count, 5, out);
        if (naive(text, count, &from) == 0) {
            ck_assert_uint_eq(found, 0);
            continue;
        }
        ck_assert_uint_eq(found, 5);
        for (uint32_t i = 0; i < 5; i++)
            ck_assert_uint_eq(out[i], text[from + i % (count - from)]);
    }
}
END_TEST

/* One sequence decodes `tokens` tokens on a machine where a draft row costs `share` of a plain step
 * of 1000 us. With probability `found` a token has a draft ahead; each draft token is right with
 * probability `rate`. Returns the time without drafts over that with. */
static double speedup(lac_spec_cost *cost, uint64_t seed, double tokens, double found, double rate,
                      double share)
{
    lac_rng rng;
    lac_rng_seed(&rng, seed);
    lac_spec_trust trust = {0};
    double us = 0, done = 0;
    while (done < tokens) {
        uint32_t have = lac_rng_unit(&rng) < found ? LAC_SPEC_DRAFT_MAX : 0;
        uint32_t rows = lac_spec_rows(cost, &trust, 1, 0, have), right = 0;
        double noise = 0.9 + 0.2 * lac_rng_unit(&rng);
        double step_us = 1000 * (1 + share * rows) * noise;
        while (right < rows && lac_rng_unit(&rng) < rate)
            right++;
        if (rows > 0)
            lac_spec_verified(cost, &trust, rows, right);
        lac_spec_measure(cost, 1, rows, step_us);
        us += step_us;
        done += 1 + right;
    }
    return done * 1000 / us;
}

START_TEST(it_gains_where_there_is_a_gain)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        lac_spec_cost cost = {0};
        ck_assert_double_gt(speedup(&cost, seed, 300, 0.9, 0.9, 0.15), 1.5);
        ck_assert_double_gt(speedup(&cost, seed, 300, 0.9, 0.95, 0.05), 2.5);
    }
}
END_TEST

START_TEST(it_costs_next_to_nothing_where_there_is_none)
{
    double least = 2;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        static const double shares[4] = {0.1, 0.2, 0.4, 0.8};
        lac_spec_cost cost = {0};
        double all = 0;
        for (int request = 0; request < 20; request++) {
            double one =
                speedup(&cost, 100 * seed + (uint64_t)request, 200, 0.2, 0.05, shares[seed % 4]);
            all += one / 20;
        }
        least = all < least ? all : least;
    }
    ck_assert_double_gt(least, 0.98);
}
END_TEST

START_TEST(rows_that_cost_too_much_turn_it_off_and_luck_on_again)
{
    lac_spec_cost cost = {0};
    lac_spec_trust trust = {0};
    ck_assert_uint_eq(lac_spec_rows(&cost, &trust, 1, 0, 16), 0); /* no plain step was seen */
    lac_spec_measure(&cost, 1, 0, 1000);
    ck_assert_uint_gt(lac_spec_rows(&cost, &trust, 1, 0, 16), 0);
    for (int i = 0; i < 30; i++)
        lac_spec_verified(&cost, &trust, 4, 0);
    uint32_t tries = 0;
    for (int i = 0; i < 640; i++)
        tries += lac_spec_rows(&cost, &trust, 1, 0, 16) > 0;
    ck_assert_uint_eq(tries, 10);
    for (int i = 0; i < 6; i++)
        lac_spec_verified(&cost, &trust, 2, 2);
    ck_assert_uint_gt(lac_spec_rows(&cost, &trust, 1, 0, 16), 4);
    for (int i = 0; i < 60; i++)
        lac_spec_measure(&cost, 1, 8, 1000 + 8 * 1500); /* a row for more than a step */
    trust.passed = 0;
    ck_assert_uint_eq(lac_spec_rows(&cost, &trust, 1, 8, 8), 0);
    ck_assert_uint_eq(lac_spec_rows(&cost, &trust, LAC_SPEC_SEQUENCES_MAX + 1, 0, 8), 0);
}
END_TEST

/* A machine that now and then takes ten times as long: drafts still pay off. */
START_TEST(a_held_up_step_does_not_turn_it_off)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        lac_rng rng;
        lac_rng_seed(&rng, seed);
        lac_spec_cost cost = {0};
        lac_spec_trust trust = {0};
        uint32_t rows_all = 0;
        for (int step = 0; step < 60; step++) {
            uint32_t rows = lac_spec_rows(&cost, &trust, 1, 0, 8);
            double us = 1000 * (1 + 0.15 * rows) * (lac_rng_below(&rng, 4) ? 1 : 10);
            if (rows > 0)
                lac_spec_verified(&cost, &trust, rows, rows);
            lac_spec_measure(&cost, 1, rows, us);
            rows_all += rows;
        }
        ck_assert_uint_gt(rows_all, 60 * 4);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("spec");
    TCase *tc = tcase_create("spec");
    tcase_add_test(tc, a_draft_follows_the_longest_latest_match);
    tcase_add_test(tc, a_loop_goes_round);
    tcase_add_test(tc, random_texts_match_the_rule);
    tcase_add_test(tc, it_gains_where_there_is_a_gain);
    tcase_add_test(tc, it_costs_next_to_nothing_where_there_is_none);
    tcase_add_test(tc, rows_that_cost_too_much_turn_it_off_and_luck_on_again);
    tcase_add_test(tc, a_held_up_step_does_not_turn_it_off);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
