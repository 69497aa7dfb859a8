/* The table of tasks: idempotence, bounds, walking, claims, and a long random run against a plain
 * array. */
#include <string.h>

#include "base/rng.h"
#include "link/tasks.h"
#include "suites.h"

START_TEST(an_attempt_is_taken_once)
{
    lac_tasks *tasks = lac_tasks_create(4);
    lac_task *task, *again;
    ck_assert_int_eq(lac_tasks_add(tasks, 10, 2, &task), LAC_OK);
    ck_assert_int_eq(lac_tasks_add(tasks, 10, 2, &again), LAC_EEXIST);
    ck_assert_int_eq(lac_tasks_add(tasks, 10, 1, &again), LAC_EEXIST); /* an older one */
    lac_tasks_remove(tasks, task);
    ck_assert_int_eq(lac_tasks_add(tasks, 10, 2, &again), LAC_EEXIST); /* it was here lately */
    ck_assert_int_eq(lac_tasks_add(tasks, 10, 3, &again), LAC_OK);
    lac_task *other;
    ck_assert_int_eq(lac_tasks_add(tasks, 10, 4, &other), LAC_OK); /* the older still runs */
    ck_assert_ptr_eq(lac_tasks_find(tasks, 10, 3), again);
    ck_assert_ptr_eq(lac_tasks_find(tasks, 10, 4), other);
    ck_assert_ptr_null(lac_tasks_find(tasks, 10, 2));
    ck_assert_ptr_nonnull(lac_tasks_request(tasks, 10));
    ck_assert_ptr_null(lac_tasks_request(tasks, 11));
    lac_tasks_destroy(&tasks);
    ck_assert_ptr_null(tasks);
    lac_tasks_destroy(&tasks);
}
END_TEST

START_TEST(a_full_table_is_busy_and_ids_are_never_reused)
{
    lac_tasks *tasks = lac_tasks_create(2);
    lac_task *a, *b, *c;
    ck_assert_int_eq(lac_tasks_add(tasks, 1, 1, &a), LAC_OK);
    ck_assert_int_eq(lac_tasks_add(tasks, 2, 1, &b), LAC_OK);
    ck_assert_int_eq(lac_tasks_add(tasks, 3, 1, &c), LAC_BUSY);
    uint64_t old = a->id;
    ck_assert_ptr_eq(lac_tasks_get(tasks, old), a);
    lac_tasks_remove(tasks, a);
    ck_assert_ptr_null(lac_tasks_get(tasks, old));
    ck_assert_int_eq(lac_tasks_add(tasks, 3, 1, &c), LAC_OK);
    ck_assert_uint_ne(c->id, old);
    ck_assert_ptr_null(lac_tasks_get(tasks, old));
    ck_assert_ptr_null(lac_tasks_get(tasks, 0));
    ck_assert_ptr_null(lac_tasks_get(tasks, UINT64_MAX));
    lac_tasks_destroy(&tasks);
}
END_TEST

START_TEST(claims_leave_out_what_was_cancelled)
{
    lac_tasks *tasks = lac_tasks_create(3);
    lac_task *a, *b, *c;
    lac_running out[3];
    lac_tasks_add(tasks, 1, 4, &a);
    lac_tasks_add(tasks, 2, 5, &b);
    lac_tasks_add(tasks, 3, 6, &c);
    a->next_pos = 17;
    b->cancelled = true;
    lac_task_refuse(c, LAC_EINVAL, "why");
    ck_assert_str_eq(c->reason, "why");
    ck_assert_uint_eq(lac_tasks_claim(tasks, out), 2);
    const lac_running *first = out[0].request == 1 ? &out[0] : &out[1];
    ck_assert(first->request == 1 && first->attempt == 4 && first->next_pos == 17);
    lac_tasks_destroy(&tasks);
}
END_TEST

START_TEST(reasons_are_cut_at_the_limit)
{
    lac_tasks *tasks = lac_tasks_create(1);
    lac_task *task;
    char big[1000];
    memset(big, 'r', sizeof(big));
    big[999] = '\0';
    lac_tasks_add(tasks, 1, 1, &task);
    lac_task_refuse(task, LAC_ETOOBIG, big);
    ck_assert_uint_eq(strlen(task->reason), LAC_REASON_MAX);
    lac_tasks_destroy(&tasks);
}
END_TEST

START_TEST(random_life_matches_a_plain_array)
{
    enum { MAX = 64, ROUNDS = 20000 };
    uint64_t ids[MAX] = {0}, requests[MAX] = {0};
    lac_tasks *tasks = lac_tasks_create(MAX);
    lac_rng rng;
    lac_rng_seed(&rng, 9);
    size_t live = 0;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        size_t slot = (size_t)lac_rng_below(&rng, MAX);
        lac_task *task = NULL;
        if (ids[slot] == 0) {
            ck_assert_int_eq(lac_tasks_add(tasks, round, 1, &task), LAC_OK);
            ids[slot] = task->id;
            requests[slot] = round;
            live++;
        } else {
            task = lac_tasks_get(tasks, ids[slot]);
            ck_assert_ptr_nonnull(task);
            ck_assert_uint_eq(task->request, requests[slot]);
            lac_tasks_remove(tasks, task);
            ids[slot] = 0;
            live--;
        }
        ck_assert_uint_eq(lac_tasks_count(tasks), live);
    }
    /* A walk that removes every second task still meets each exactly once. */
    size_t met = 0, removed = 0;
    for (lac_task *task = lac_tasks_next(tasks, NULL), *after; task != NULL; task = after) {
        after = lac_tasks_next(tasks, task);
        if (met++ % 2 == 0) {
            lac_tasks_remove(tasks, task);
            removed++;
        }
    }
    ck_assert_uint_eq(met, live);
    ck_assert_uint_eq(lac_tasks_count(tasks), live - removed);
    lac_tasks_destroy(&tasks);
}
END_TEST

Suite *suite_tasks(void)
{
    Suite *suite = suite_create("tasks");
    TCase *tc = tcase_create("tasks");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, an_attempt_is_taken_once);
    tcase_add_test(tc, a_full_table_is_busy_and_ids_are_never_reused);
    tcase_add_test(tc, claims_leave_out_what_was_cancelled);
    tcase_add_test(tc, reasons_are_cut_at_the_limit);
    tcase_add_test(tc, random_life_matches_a_plain_array);
    suite_add_tcase(suite, tc);
    return suite;
}
