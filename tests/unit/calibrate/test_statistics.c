/* Bounds against distributions whose mean is known, quantiles, divergences, kinds of tokens. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "calibrate/statistics.h"

/* Documents of an exponential mean and of different sizes: the skewed case that certificates meet.
 */
static void skewed(lac_rng *rng, lac_stat_cluster *clusters, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double weight = 300 + (double)lac_rng_below(rng, 300);
        double mean = -log(1 - lac_rng_unit(rng)) * 0.02;
        clusters[i] = (lac_stat_cluster){mean * weight, weight};
    }
}

START_TEST(bounds_hold_as_often_as_they_say)
{
    enum { TIMES = 300, DOCUMENTS = 60 };
    lac_stat_cluster clusters[DOCUMENTS];
    lac_rng rng;
    lac_rng_seed(&rng, 11);
    int above = 0, below = 0;
    double width = 0;
    for (int i = 0; i < TIMES; i++) {
        lac_stat_bounds b;
        skewed(&rng, clusters, DOCUMENTS);
        ck_assert(lac_stat_bounds_of(clusters, DOCUMENTS, (uint64_t)i, &b));
        ck_assert(b.low <= b.mean && b.mean <= b.high);
        above += b.high >= 0.02;
        below += b.low <= 0.02;
        width += (b.high - b.mean) / b.mean / TIMES;
    }
    /* 95 %, with two standard errors of the simulation and the method's own small error. */
    ck_assert_msg(above >= 0.91 * TIMES && above <= 0.985 * TIMES, "upper bound held %d of %d",
                  above, TIMES);
    ck_assert_msg(below >= 0.91 * TIMES && below <= 0.99 * TIMES, "lower bound held %d of %d",
                  below, TIMES);
    /* Not by being wide: a normal bound of 60 exponentials is 21 % above the mean. */
    ck_assert_msg(width > 0.15 && width < 0.40, "width %g", width);
}
END_TEST

START_TEST(documents_are_the_units_not_requests)
{
    /* Ten documents whose requests are all alike: more requests of them prove nothing more. */
    lac_stat_cluster few[10], many[10];
    lac_stat_bounds a, b;
    for (int i = 0; i < 10; i++) {
        few[i] = (lac_stat_cluster){(i + 1) * 0.01 * 10, 10};
        many[i] = (lac_stat_cluster){(i + 1) * 0.01 * 1000, 1000};
    }
    ck_assert(lac_stat_bounds_of(few, 10, 5, &a) && lac_stat_bounds_of(many, 10, 5, &b));
    ck_assert_double_eq_tol(a.high, b.high, 1e-12);
    ck_assert_double_eq_tol(a.mean, 0.055, 1e-12);
    ck_assert(a.high > 0.07);
}
END_TEST

START_TEST(edges)
{
    lac_stat_cluster same[4] = {{1, 10}, {1, 10}, {1, 10}, {1, 10}};
    lac_stat_bounds b = {.mean = 7}, again;
    ck_assert(!lac_stat_bounds_of(same, 1, 1, &b));
    ck_assert_double_eq(b.mean, 7);
    ck_assert(lac_stat_bounds_of(same, 4, 1, &b));
    ck_assert_double_eq_tol(b.high, 0.1, 1e-12);
    ck_assert_double_eq_tol(b.low, 0.1, 1e-12);
    same[3].sum = 3;
    ck_assert(lac_stat_bounds_of(same, 4, 1, &b) && lac_stat_bounds_of(same, 4, 1, &again));
    ck_assert_mem_eq(&b, &again, sizeof b);
    lac_stat_cluster none[2] = {{0, 0}, {0, 0}};
    ck_assert(!lac_stat_bounds_of(none, 2, 1, &b));
    double values[20];
    for (int i = 0; i < 20; i++)
        values[i] = 20 - i;
    ck_assert_double_eq(lac_stat_quantile(values, 20, 0.95), 19);
    ck_assert_double_eq(lac_stat_quantile(values, 20, 1.0), 20);
    ck_assert_double_eq(lac_stat_quantile(values, 20, 0.0), 1);
}
END_TEST

START_TEST(divergence)
{
    float p[3] = {logf(0.5f) + 4, logf(0.5f) + 4, -200}, q[3] = {logf(0.9f), logf(0.1f), -300};
    float log_p[3];
    uint32_t best;
    ck_assert_uint_eq(lac_log_softmax(p, 3, log_p), 0);
    ck_assert_double_eq_tol((double)log_p[0], log(0.5), 1e-6);
    double want = 0.5 * log(0.5 / 0.9) + 0.5 * log(0.5 / 0.1);
    ck_assert_double_eq_tol(lac_kl_divergence(log_p, q, 3, &best), want, 1e-6);
    ck_assert_uint_eq(best, 0);
    for (int i = 0; i < 3; i++)
        q[i] += 50; /* logits have no zero */
    ck_assert_double_eq_tol(lac_kl_divergence(log_p, q, 3, &best), want, 1e-5);
    ck_assert_double_eq_tol(lac_kl_divergence(log_p, log_p, 3, &best), 0, 1e-6);
    /* A vocabulary of the usual size against plain sums in double. */
    enum { VOCAB = 50000 };
    static float a[VOCAB], b[VOCAB], log_a[VOCAB];
    lac_rng rng;
    lac_rng_seed(&rng, 3);
    double sum_a = 0, sum_b = 0, kl = 0;
    for (int i = 0; i < VOCAB; i++) {
        a[i] = (float)(lac_rng_unit(&rng) * 20 - 10);
        b[i] = a[i] + (float)(lac_rng_unit(&rng) - 0.5);
        sum_a += exp((double)a[i]);
        sum_b += exp((double)b[i]);
    }
    for (int i = 0; i < VOCAB; i++)
        kl += exp((double)a[i]) / sum_a * ((double)a[i] - log(sum_a) - (double)b[i] + log(sum_b));
    (void)lac_log_softmax(a, VOCAB, log_a);
    ck_assert_double_eq_tol(lac_kl_divergence(log_a, b, VOCAB, &best), kl, 1e-5);
}
END_TEST

static const struct {
    const char *text;
    lac_token_kind kind; /* of its first byte that is no space */
} kinds[] = {
    {"12", LAC_KIND_NUMBER},
    {" 3.50 EUR", LAC_KIND_NUMBER},
    {"0x1f", LAC_KIND_NUMBER},
    {"10.0.0.7", LAC_KIND_NUMBER},
    {"2024-05-01", LAC_KIND_DATE},
    {"12:30:59 x", LAC_KIND_DATE},
    {"2024-05-01T12:30:59Z", LAC_KIND_DATE},
    {"01/May/2024:00:01:02", LAC_KIND_DATE},
    {"Berlin", LAC_KIND_NAME},
    {"name", LAC_KIND_OTHER},
    {"HTTP", LAC_KIND_OTHER},
    {"{", LAC_KIND_OTHER},
    {"libfoo2", LAC_KIND_OTHER},
    {"McDonald", LAC_KIND_OTHER},
};

START_TEST(kinds_of_tokens)
{
    uint8_t out[64];
    const char *text = kinds[_i].text;
    size_t at = text[0] == ' ' ? 1 : 0;
    lac_token_kinds(text, strlen(text), out);
    ck_assert_msg(out[at] == kinds[_i].kind, "\"%s\" is %s", text,
                  lac_token_kind_name((lac_token_kind)out[at]));
    if (at)
        ck_assert_uint_eq(out[0], LAC_KIND_OTHER);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("statistics");
    TCase *tcase = tcase_create("statistics");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, bounds_hold_as_often_as_they_say);
    tcase_add_test(tcase, documents_are_the_units_not_requests);
    tcase_add_test(tcase, edges);
    tcase_add_test(tcase, divergence);
    tcase_add_loop_test(tcase, kinds_of_tokens, 0, (int)(sizeof kinds / sizeof kinds[0]));
    suite_add_tcase(suite, tcase);
    SRunner *all = srunner_create(suite);
    srunner_run_all(all, CK_NORMAL);
    int failed = srunner_ntests_failed(all);
    srunner_free(all);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
