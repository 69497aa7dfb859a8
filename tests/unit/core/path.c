/* A request's fingerprint is taken at admission and counted. */
#include "harness.h"

static double by_type(bench *b, const char *label)
{
    return metric(b, "lacuna_requests_by_type_total", label);
}

START_TEST(requests_are_counted_by_type_and_task)
{
    bench b;
    bench_open(&b);
    lac_submit log = submit_of(1, "2025-03-04 10:00:01 INFO [gate] request 4711 took 12 ms\n"
                                  "2025-03-04 10:00:02 WARN [gate] request 4712 took 99 ms\n");
    submit(&b, 1, &log);
    lac_submit question = submit_of(2, "Write a poem about the capital of Norway.");
    submit(&b, 1, &question);
    ck_assert_double_eq(by_type(&b, "type=\"structured\""), 1);
    ck_assert_double_eq(by_type(&b, "type=\"unstructured\""), 1);
    ck_assert_double_eq(by_type(&b, "type=\"code\""), 0);
    ck_assert_double_eq(metric(&b, "lacuna_requests_by_task_total", "task=\"generate\""), 1);
    ck_assert_double_eq(metric(&b, "lacuna_requests_by_task_total", "task=\"none\""), 1);
    /* A refused one is not counted: it took no path. */
    submit(&b, 1, &log);
    ck_assert_double_eq(by_type(&b, "type=\"structured\""), 1);
    bench_close(&b);
}
END_TEST

TCase *path_case(void)
{
    TCase *tc = tcase_create("path");
    tcase_add_test(tc, requests_are_counted_by_type_and_task);
    return tc;
}
