/* The probe: features of states that are known, training on data whose truth is known, what is left
 * out, and the threshold's guarantee against its definition. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "probe/probe.h"

enum { HIDDEN = 64, ROWS = 20, SAMPLES = 1200 };

static double normal(lac_rng *rng)
{
    double u = lac_rng_unit(rng), v = lac_rng_unit(rng);
    return sqrt(-2 * log(u > 0 ? u : 1e-300)) * cos(2 * 3.14159265358979323846 * v);
}

START_TEST(features_of_equal_rows)
{
    float states[ROWS * HIDDEN];
    double f[LAC_PROBE_FEATURES];
    for (int i = 0; i < ROWS * HIDDEN; i++)
        states[i] = i % HIDDEN == 7 ? 3.0f : 0.0f;
    lac_probe_features(states, ROWS, HIDDEN, f);
    ck_assert_double_eq_tol(f[0], log(ROWS), 1e-9);
    ck_assert_double_eq_tol(f[1], log(3), 1e-6);
    ck_assert_double_eq_tol(f[2], 0, 1e-4);
    ck_assert_double_eq_tol(f[3], 1, 1e-6); /* neighbours point the same way */
    ck_assert_double_eq_tol(f[5], 1, 1e-6); /* all in one component */
    ck_assert_double_eq_tol(f[6], 1, 1e-6);
    for (int p = 8; p < LAC_PROBE_FEATURES; p++)
        ck_assert_double_eq_tol(fabs(f[p]), 1, 1e-6);
    for (int r = 1; r < ROWS; r += 2)
        states[r * HIDDEN + 7] = -3;
    lac_probe_features(states, ROWS, HIDDEN, f);
    ck_assert_double_eq_tol(f[3], -1, 1e-6);
    ck_assert_double_eq_tol(f[6], 0, 1e-6); /* they cancel */
}
END_TEST

START_TEST(only_the_first_rows_count)
{
    enum { MANY = LAC_PROBE_ROWS_MAX + 40 };
    float *states = malloc(MANY * HIDDEN * sizeof *states);
    double a[LAC_PROBE_FEATURES], b[LAC_PROBE_FEATURES];
    for (int i = 0; i < MANY * HIDDEN; i++)
        states[i] = (float)sin(i * 0.37);
    lac_probe_features(states, LAC_PROBE_ROWS_MAX, HIDDEN, a);
    lac_probe_features(states, MANY, HIDDEN, b);
    ck_assert_mem_eq(a, b, sizeof a);
    free(states);
}
END_TEST

/* Requests whose badness follows two of the features (`strength` 0: none of them). */
static lac_probe_sample *samples_make(uint64_t seed, double strength)
{
    lac_rng rng;
    lac_rng_seed(&rng, seed);
    lac_probe_sample *list = calloc(SAMPLES, sizeof *list);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        for (int f = 0; f < LAC_PROBE_FEATURES; f++)
            list[i].features[f] = 5 + 2 * normal(&rng);
        double z = strength * (list[i].features[3] - 5 - (list[i].features[10] - 5)) - 1;
        list[i].bad = lac_rng_unit(&rng) < 1 / (1 + exp(-z));
        list[i].document = i / 4;
    }
    return list;
}

START_TEST(it_learns_what_is_there)
{
    lac_probe_sample *list = samples_make(1, 1.0);
    lac_probe p;
    lac_probe_report r;
    lac_probe_train(list, SAMPLES, 0.1, &p, &r);
    ck_assert(r.worth && lac_probe_valid(&p));
    ck_assert_uint_eq(r.trained + r.tested, SAMPLES);
    ck_assert_msg(r.auc > 0.8, "AUC %f", r.auc);
    ck_assert(p.weight[3] > 0.8 && p.weight[10] < -0.8);
    for (int f = 0; f < LAC_PROBE_FEATURES; f++)
        ck_assert(f == 3 || f == 10 || fabs(p.weight[f]) < 0.5);
    double bad[LAC_PROBE_FEATURES], good[LAC_PROBE_FEATURES];
    for (int f = 0; f < LAC_PROBE_FEATURES; f++)
        bad[f] = good[f] = 5;
    bad[3] = good[10] = 12;
    ck_assert(lac_probe_says_no(&p, bad) && !lac_probe_says_no(&p, good));
    bad[3] = NAN;
    ck_assert(lac_probe_says_no(&p, bad)); /* what cannot be judged runs in full */
    free(list);
}
END_TEST

START_TEST(noise_is_left_out)
{
    uint32_t kept = 0;
    for (uint64_t seed = 2; seed < 12; seed++) {
        lac_probe_sample *list = samples_make(seed, 0);
        lac_probe p;
        lac_probe_report r;
        lac_probe_train(list, SAMPLES, 0.1, &p, &r);
        kept += r.worth;
        ck_assert(r.auc > 0.35 && r.auc < 0.65);
        free(list);
    }
    ck_assert_uint_le(kept, 3); /* 0.53 is about one deviation away */
}
END_TEST

START_TEST(too_few_are_left_out)
{
    lac_probe_sample *list = samples_make(3, 1);
    lac_probe p;
    lac_probe_report r;
    for (uint32_t i = 0; i < SAMPLES; i++)
        list[i].bad &= i < 20;
    lac_probe_train(list, SAMPLES, 0.1, &p, &r);
    ck_assert(!r.worth && r.auc == 0.5);
    lac_probe_train(list, 0, 0.1, &p, &r);
    ck_assert(!r.worth && r.trained == 0);
    free(list);
}
END_TEST

/* The table of exact binomials that the threshold stands on: n clean or with k bad ones certify 5 %
 * at 95 %. */
START_TEST(binomials_are_exact)
{
    static const uint32_t n[] = {59, 93, 124, 208, 336}, k[] = {0, 1, 2, 5, 10};
    for (int i = 0; i < 5; i++) {
        ck_assert_double_le(lac_probe_binomial(n[i], 0.05, k[i]), 0.05);
        ck_assert_double_gt(lac_probe_binomial(n[i] - 1, 0.05, k[i]), 0.05);
    }
    ck_assert_double_eq_tol(lac_probe_binomial(10, 0.5, 4), 386.0 / 1024, 1e-12);
    ck_assert_double_eq(lac_probe_binomial(3, 0.5, 3), 1);
}
END_TEST

START_TEST(the_threshold_keeps_its_promise)
{
    enum { RUNS = 40 };
    const double share = 0.15;
    uint32_t certified = 0, broken = 0;
    for (uint64_t seed = 100; seed < 100 + RUNS; seed++) {
        lac_probe_sample *list = samples_make(seed, 0.8), *fresh = samples_make(seed + 5000, 0.8);
        lac_probe p;
        lac_probe_report r;
        lac_probe_train(list, SAMPLES, share, &p, &r);
        uint32_t passed = 0, bad = 0;
        for (uint32_t i = 0; i < SAMPLES; i++)
            if (!lac_probe_says_no(&p, fresh[i].features)) {
                passed++;
                bad += fresh[i].bad;
            }
        certified += r.certified;
        broken += r.certified && bad > (share + 0.03) * passed; /* 0.03: the noise of 1,200 */
        free(list);
        free(fresh);
    }
    ck_assert_uint_gt(certified, RUNS / 2);
    ck_assert_uint_le(broken, 4); /* 5 % of forty, and three deviations of that would be 6 */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("probe");
    TCase *tc = tcase_create("probe");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, features_of_equal_rows);
    tcase_add_test(tc, only_the_first_rows_count);
    tcase_add_test(tc, it_learns_what_is_there);
    tcase_add_test(tc, noise_is_left_out);
    tcase_add_test(tc, too_few_are_left_out);
    tcase_add_test(tc, binomials_are_exact);
    tcase_add_test(tc, the_threshold_keeps_its_promise);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
