/* Metrics: values, the exact text of a rendering, escapes, and the bound on series. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/metric.h"
#include "suites.h"

static void expect_render(const lac_metrics *metrics, const char *text)
{
    lac_buf buf = {0};
    lac_metrics_render(metrics, &buf);
    ck_assert_str_eq(buf.data != NULL ? buf.data : "", text);
    lac_buf_free(&buf);
}

START_TEST(families_render_in_order_of_first_use)
{
    lac_metrics *metrics = lac_metrics_create(10);
    expect_render(metrics, "");
    lac_metric *ok =
        lac_metrics_series(metrics, LAC_METRIC_COUNTER, "req_total", "Requests.", "code=\"200\"");
    lac_metric *depth = lac_metrics_series(metrics, LAC_METRIC_GAUGE, "depth", "A\\b\nc", "");
    lac_metric *bad =
        lac_metrics_series(metrics, LAC_METRIC_COUNTER, "req_total", "Requests.", "code=\"400\"");
    ck_assert_ptr_eq(ok, lac_metrics_series(metrics, LAC_METRIC_COUNTER, "req_total", "Requests.",
                                            "code=\"200\""));
    lac_metric_add(ok, 1);
    lac_metric_add(ok, 2);
    lac_metric_add(bad, 0.1);
    lac_metric_set(depth, -5);
    lac_metric_add(depth, -0.5);
    ck_assert_double_eq(lac_metric_value(ok), 3);
    ck_assert_double_eq(lac_metric_value(depth), -5.5);
    expect_render(metrics, "# HELP req_total Requests.\n"
                           "# TYPE req_total counter\n"
                           "req_total{code=\"200\"} 3\n"
                           "req_total{code=\"400\"} 0.1\n"
                           "# HELP depth A\\\\b\\nc\n"
                           "# TYPE depth gauge\n"
                           "depth -5.5\n");
    lac_metrics_destroy(&metrics);
    ck_assert_ptr_null(metrics);
    lac_metrics_destroy(&metrics);
}
END_TEST

START_TEST(histograms_are_cumulative)
{
    static const double bounds[] = {0.1, 1, 2.5};
    lac_metrics *metrics = lac_metrics_create(10);
    lac_metric *m = lac_metrics_histogram(metrics, "wait", "W.", "p=\"x\"", bounds, 3);
    lac_metric_observe(m, 0.1); /* a bound belongs to its own bucket */
    lac_metric_observe(m, 0.5);
    lac_metric_observe(m, 0.5);
    lac_metric_observe(m, 100);
    ck_assert_double_eq(lac_metric_value(m), 4);
    expect_render(metrics, "# HELP wait W.\n"
                           "# TYPE wait histogram\n"
                           "wait_bucket{p=\"x\",le=\"0.1\"} 1\n"
                           "wait_bucket{p=\"x\",le=\"1\"} 3\n"
                           "wait_bucket{p=\"x\",le=\"2.5\"} 3\n"
                           "wait_bucket{p=\"x\",le=\"+Inf\"} 4\n"
                           "wait_sum{p=\"x\"} 101.1\n"
                           "wait_count{p=\"x\"} 4\n");
    lac_metric *plain = lac_metrics_series(metrics, LAC_METRIC_HISTOGRAM, "t", "T.", "");
    lac_metric_observe(plain, 0.2);
    lac_buf buf = {0};
    lac_metrics_render(metrics, &buf);
    ck_assert_ptr_nonnull(strstr(buf.data, "t_bucket{le=\"0.1\"} 0\nt_bucket{le=\"0.25\"} 1\n"));
    lac_buf_free(&buf);
    lac_metrics_destroy(&metrics);
}
END_TEST

START_TEST(numbers_read_back_exactly)
{
    static const double values[] = {0, 1e-9, 1.0 / 3, 123456789012345678.0, 5e-324, 1e300, -0.1};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        lac_metrics *metrics = lac_metrics_create(1);
        lac_metric_set(lac_metrics_series(metrics, LAC_METRIC_GAUGE, "g", "G.", ""), values[i]);
        lac_buf buf = {0};
        lac_metrics_render(metrics, &buf);
        double back = NAN;
        ck_assert_int_eq(sscanf(strstr(buf.data, "\ng ") + 3, "%lf", &back), 1);
        ck_assert(back == values[i]);
        lac_buf_free(&buf);
        lac_metrics_destroy(&metrics);
    }
}
END_TEST

START_TEST(not_finite_has_its_own_words)
{
    lac_metrics *metrics = lac_metrics_create(3);
    lac_metric_set(lac_metrics_series(metrics, LAC_METRIC_GAUGE, "g", "G.", "a=\"1\""), NAN);
    lac_metric_set(lac_metrics_series(metrics, LAC_METRIC_GAUGE, "g", "G.", "a=\"2\""), INFINITY);
    lac_metric_set(lac_metrics_series(metrics, LAC_METRIC_GAUGE, "g", "G.", "a=\"3\""), -INFINITY);
    expect_render(metrics, "# HELP g G.\n# TYPE g gauge\n"
                           "g{a=\"1\"} NaN\ng{a=\"2\"} +Inf\ng{a=\"3\"} -Inf\n");
    lac_metrics_destroy(&metrics);
}
END_TEST

START_TEST(labels_are_escaped)
{
    lac_buf labels = {.cap = 100};
    lac_metric_label(&labels, "a", "q\"b\\n\nx");
    lac_metric_label(&labels, "b", "");
    ck_assert_str_eq(labels.data, "a=\"q\\\"b\\\\n\\nx\",b=\"\"");
    lac_buf_free(&labels);
}
END_TEST

START_TEST(too_many_series_share_the_overflow)
{
    lac_metrics *metrics = lac_metrics_create(100);
    lac_metric *last = NULL;
    for (int i = 0; i < 1000; i++) {
        char labels[32];
        snprintf(labels, sizeof(labels), "n=\"%d\"", i);
        last = lac_metrics_series(metrics, LAC_METRIC_COUNTER, "c", "C.", labels);
        lac_metric_add(last, 10);
    }
    ck_assert_double_eq(lac_metric_value(last), 900); /* updates, not their sum */
    lac_metric_observe(lac_metrics_series(metrics, LAC_METRIC_HISTOGRAM, "h", "H.", ""), 1);
    lac_metric_set(lac_metrics_series(metrics, LAC_METRIC_GAUGE, "g", "G.", ""), 1);
    ck_assert_double_eq(lac_metric_value(last), 902);
    lac_metric *old = lac_metrics_series(metrics, LAC_METRIC_COUNTER, "c", "C.", "n=\"99\"");
    ck_assert_double_eq(lac_metric_value(old), 10);
    lac_buf buf = {0};
    lac_metrics_render(metrics, &buf);
    ck_assert_ptr_nonnull(strstr(buf.data, "lacuna_metrics_overflow_total 902\n"));
    ck_assert_ptr_null(strstr(buf.data, "n=\"100\""));
    lac_buf_free(&buf);
    lac_metrics_destroy(&metrics);
}
END_TEST

START_TEST(a_name_keeps_its_kind)
{
    lac_metrics *metrics = lac_metrics_create(10);
    lac_metrics_series(metrics, LAC_METRIC_COUNTER, "c", "C.", "");
    lac_metrics_series(metrics, LAC_METRIC_GAUGE, "c", "C.", "x=\"1\"");
}
END_TEST

START_TEST(a_counter_never_falls)
{
    lac_metrics *metrics = lac_metrics_create(10);
    lac_metric_add(lac_metrics_series(metrics, LAC_METRIC_COUNTER, "c", "C.", ""), -1);
}
END_TEST

Suite *suite_metric(void)
{
    Suite *suite = suite_create("metric");
    TCase *tc = tcase_create("metric");
    tcase_add_test(tc, families_render_in_order_of_first_use);
    tcase_add_test(tc, histograms_are_cumulative);
    tcase_add_test(tc, numbers_read_back_exactly);
    tcase_add_test(tc, not_finite_has_its_own_words);
    tcase_add_test(tc, labels_are_escaped);
    tcase_add_test(tc, too_many_series_share_the_overflow);
    tcase_add_test_raise_signal(tc, a_name_keeps_its_kind, SIGABRT);
    tcase_add_test_raise_signal(tc, a_counter_never_falls, SIGABRT);
    suite_add_tcase(suite, tc);
    return suite;
}
