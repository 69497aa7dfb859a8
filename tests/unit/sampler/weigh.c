/* Exponential and logarithm against the C library's, cleaning, order of keys. */
#include "weigh.h"

#include <check.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

START_TEST(weights_are_exponentials)
{
    float in[LAC__BLOCK], out[LAC__BLOCK];
    double worst = 0;
    for (int round = 0; round < 2000; round++) {
        for (int i = 0; i < LAC__BLOCK; i++)
            in[i] = -87.0f * ((float)(round * LAC__BLOCK + i) / (2000.0f * LAC__BLOCK));
        double sum = lac__weigh(in, LAC__BLOCK, 0.0f, 1.0f, out), want_sum = 0;
        for (int i = 0; i < LAC__BLOCK; i++) {
            double want = exp((double)in[i]);
            worst = fmax(worst, fabs((double)out[i] - want) / want);
            want_sum += want;
        }
        ck_assert_double_lt(fabs(sum - want_sum) / want_sum, 3e-7);
    }
    ck_assert_double_lt(worst, 3e-7);
}
END_TEST

START_TEST(lengths_that_are_no_multiple_of_a_lane)
{
    float in[LAC__BLOCK], out[LAC__BLOCK];
    for (int i = 0; i < LAC__BLOCK; i++)
        in[i] = (float)(i % 7) - 7.0f;
    for (size_t length = 0; length <= LAC__BLOCK; length++) {
        memset(out, 0x7f, sizeof out);
        double sum = lac__weigh(in, length, -1.0f, 0.5f, out), want = 0;
        for (size_t i = 0; i < length; i++)
            want += exp(((double)in[i] + 1.0) * 0.5);
        ck_assert_double_lt(fabs(sum - want), 1e-6 * (1 + want));
        if (length < LAC__BLOCK) {
            unsigned char after;
            memcpy(&after, out + length, 1);
            ck_assert_uint_eq(after, 0x7f);
        }
    }
}
END_TEST

START_TEST(far_and_excluded_weigh_nothing)
{
    float in[4] = {0.0f, -87.5f, -INFINITY, -FLT_MAX}, out[LAC__BLOCK];
    ck_assert_double_eq(lac__weigh(in, 4, 0.0f, 1.0f, out), 1.0);
    ck_assert(out[0] == 1.0f && out[1] == 0.0f && out[2] == 0.0f && out[3] == 0.0f);
    in[0] = FLT_MAX;
    ck_assert_double_eq(lac__weigh(in, 4, FLT_MAX, FLT_MAX, out), 1.0);
}
END_TEST

START_TEST(logarithm)
{
    for (int i = 0; i < 100000; i++) {
        double x = exp(((double)i - 50000.0) / 1000.0), want = log(x);
        ck_assert_double_lt(fabs(lac__log(x) - want), 1e-15 + 1e-15 * fabs(want));
    }
    ck_assert_double_eq(lac__log(1.0), 0.0);
}
END_TEST

START_TEST(cleaning)
{
    float x[6] = {NAN, INFINITY, -0.0f, 3.0f, -INFINITY, -2.0f};
    ck_assert(lac__clean(x, 6) == FLT_MAX);
    ck_assert(x[0] == -INFINITY && x[1] == FLT_MAX && !signbit(x[2]) && x[3] == 3.0f);
    float none[2] = {NAN, -INFINITY};
    ck_assert(lac__clean(none, 2) == -INFINITY);
}
END_TEST

START_TEST(keys_order_as_floats)
{
    const float rising[] = {-INFINITY, -FLT_MAX, -2.0f,   -1.0f,  -1e-30f, 0.0f,
                            1e-30f,    1.0f,     1.0001f, 100.0f, FLT_MAX};
    for (size_t i = 1; i < sizeof rising / sizeof *rising; i++)
        ck_assert_uint_lt(lac__key(rising[i - 1]), lac__key(rising[i]));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("weigh");
    TCase *tests = tcase_create("weigh");
    tcase_add_test(tests, weights_are_exponentials);
    tcase_add_test(tests, lengths_that_are_no_multiple_of_a_lane);
    tcase_add_test(tests, far_and_excluded_weigh_nothing);
    tcase_add_test(tests, logarithm);
    tcase_add_test(tests, cleaning);
    tcase_add_test(tests, keys_order_as_floats);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
