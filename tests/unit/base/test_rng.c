/* Random numbers: the published known answers of Philox4x32-10 (Random123's kat_vectors) and of
 * xoshiro256** (first outputs of the authors' program from the state 1, 2, 3, 4), and coarse
 * statistics. */
#include <string.h>

#include "base/rng.h"
#include "suites.h"

START_TEST(philox_known_answers)
{
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } cases[] = {{{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
                 {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
                  {0xffffffff, 0xffffffff},
                  {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
                 {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                  {0xa4093822, 0x299f31d0},
                  {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t out[4];
        lac_philox4x32(cases[i].counter, cases[i].key, out);
        ck_assert_mem_eq(out, cases[i].out, sizeof(out));
    }
}
END_TEST

START_TEST(draw_is_the_block_function_as_a_fraction)
{
    double want = (double)(UINT64_C(0x6627e8d5e169c58d) >> 11) / 9007199254740992.0;
    ck_assert(lac_rng_draw(0, 0, 0) == want);
    /* Each key matters, its high half too. */
    double base = lac_rng_draw(5, 1, 9);
    ck_assert(base == lac_rng_draw(5, 1, 9));
    ck_assert(base != lac_rng_draw(6, 1, 9) && base != lac_rng_draw(5, 2, 9) &&
              base != lac_rng_draw(5, 1, 10));
    ck_assert(base != lac_rng_draw(5 + (UINT64_C(1) << 32), 1, 9));
    ck_assert(base != lac_rng_draw(5, 1, 9 + (UINT64_C(1) << 32)));
}
END_TEST

START_TEST(draws_are_uniform)
{
    enum { DRAWS = 100000, BINS = 10 };
    int bins[BINS] = {0};
    for (uint64_t i = 0; i < DRAWS; i++) {
        double x = lac_rng_draw(42, 0, i);
        ck_assert(x >= 0 && x < 1);
        bins[(int)(x * BINS)]++;
    }
    for (int i = 0; i < BINS; i++) /* ± 5 standard deviations of 10,000 ± 95 */
        ck_assert_int_lt(bins[i] > DRAWS / BINS ? bins[i] - DRAWS / BINS : DRAWS / BINS - bins[i],
                         475);
}
END_TEST

START_TEST(xoshiro_known_answers)
{
    static const uint64_t want[] = {UINT64_C(11520),
                                    UINT64_C(0),
                                    UINT64_C(1509978240),
                                    UINT64_C(1215971899390074240),
                                    UINT64_C(1216172134540287360),
                                    UINT64_C(607988272756665600),
                                    UINT64_C(16172922978634559625),
                                    UINT64_C(8476171486693032832),
                                    UINT64_C(10595114339597558777),
                                    UINT64_C(2904607092377533576)};
    lac_rng rng = {{1, 2, 3, 4}};
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
        ck_assert_uint_eq(lac_rng_next(&rng), want[i]);
}
END_TEST

START_TEST(seeding_spreads_one_number)
{
    /* SplitMix64's first outputs from 0, as its authors publish them. */
    lac_rng zero, one;
    lac_rng_seed(&zero, 0);
    lac_rng_seed(&one, 1);
    ck_assert_uint_eq(zero.s[0], UINT64_C(0xE220A8397B1DCDAF));
    ck_assert_uint_eq(zero.s[1], UINT64_C(0x6E789E6AA1B965F4));
    ck_assert_uint_ne(lac_rng_next(&zero), lac_rng_next(&one));
}
END_TEST

START_TEST(below_stays_below_and_reaches_all)
{
    lac_rng rng;
    lac_rng_seed(&rng, 3);
    int seen[7] = {0};
    for (int i = 0; i < 7000; i++) {
        uint64_t x = lac_rng_below(&rng, 7);
        ck_assert_uint_lt(x, 7);
        seen[x]++;
    }
    for (int i = 0; i < 7; i++)
        ck_assert_int_gt(seen[i], 800);
    for (int i = 0; i < 100; i++) {
        ck_assert_uint_eq(lac_rng_below(&rng, 1), 0);
        ck_assert_uint_lt(lac_rng_below(&rng, UINT64_MAX), UINT64_MAX);
        double unit = lac_rng_unit(&rng);
        ck_assert(unit >= 0 && unit < 1);
    }
}
END_TEST

START_TEST(the_system_gives_fresh_bytes)
{
    unsigned char a[64] = {0}, b[64] = {0}, zero[64] = {0};
    lac_random_bytes(a, sizeof(a));
    lac_random_bytes(b, sizeof(b) - 32);
    ck_assert_mem_ne(a, zero, sizeof(a));
    ck_assert_mem_ne(a, b, 32);
    ck_assert_mem_eq(b + 32, zero, 32);
    lac_random_bytes(NULL, 0);
}
END_TEST

Suite *suite_rng(void)
{
    Suite *suite = suite_create("rng");
    TCase *tc = tcase_create("rng");
    tcase_add_test(tc, philox_known_answers);
    tcase_add_test(tc, draw_is_the_block_function_as_a_fraction);
    tcase_add_test(tc, draws_are_uniform);
    tcase_add_test(tc, xoshiro_known_answers);
    tcase_add_test(tc, seeding_spreads_one_number);
    tcase_add_test(tc, below_stays_below_and_reaches_all);
    tcase_add_test(tc, the_system_gives_fresh_bytes);
    suite_add_tcase(suite, tc);
    return suite;
}
