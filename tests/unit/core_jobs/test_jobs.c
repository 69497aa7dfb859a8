/* The rules of batch work: what it may have, whose turn it is, what errors and leases mean. */
#include <check.h>

#include "base/limits.h"
#include "base/rng.h"
#include "core/jobs.h"

static int32_t room(double share, uint32_t slots, uint32_t running, uint32_t waiting,
                    uint32_t batch)
{
    /* What may be had is the sum over calls when nothing is starting any more in each. */
    lac_jobs_load load = {slots, running, waiting, batch, 0};
    int32_t sum = 0, more;
    while ((more = lac_jobs_room(share, &load)) > 0) {
        sum += more;
        load.batch += (uint32_t)more;
    }
    return sum ? sum : more;
}

START_TEST(takes_what_is_left)
{
    ck_assert_int_eq(room(1, 16, 0, 0, 0), 16);
    ck_assert_int_eq(room(1, 16, 6, 0, 4), 6);
    ck_assert_int_eq(room(0.5, 16, 6, 0, 4), 1);
    ck_assert_int_eq(room(0.5, 16, 6, 0, 5), 0);
    ck_assert_int_eq(room(1, 16, 16, 0, 0), 0);
    ck_assert_int_eq(room(0, 16, 0, 0, 0), 0);
    ck_assert_int_eq(room(1, 100000, 0, 0, 0), LAC_JOBS_IN_FLIGHT_MAX);
    ck_assert_int_eq(room(0.1, 4, 0, 0, 0), 1); /* an idle small fleet still gets on */
    ck_assert_int_eq(room(0.1, 4, 1, 0, 0), 0);
}
END_TEST

START_TEST(few_start_at_a_time)
{
    lac_jobs_load load = {.slots = 16};
    ck_assert_int_eq(lac_jobs_room(1, &load), 4);
    load = (lac_jobs_load){.slots = 16, .batch = 5, .starting = 3};
    ck_assert_int_eq(lac_jobs_room(1, &load), 1);
    load.starting = 4;
    ck_assert_int_eq(lac_jobs_room(1, &load), 0);
    load = (lac_jobs_load){.slots = 2, .batch = 1};
    ck_assert_int_eq(lac_jobs_room(1, &load), 1);
    load.starting = 1;
    ck_assert_int_eq(lac_jobs_room(1, &load), 0);
    load = (lac_jobs_load){.slots = 16, .running = 14, .batch = 2, .starting = 2, .waiting = 1};
    ck_assert_int_eq(lac_jobs_room(1, &load), -1);
}
END_TEST

START_TEST(gives_way)
{
    /* Nobody waits: what runs may finish, although interactive work has grown. */
    ck_assert_int_eq(room(1, 16, 12, 0, 8), 0);
    /* Four wait for slots that batch items have. */
    ck_assert_int_eq(room(1, 16, 8, 4, 8), -4);
    ck_assert_int_eq(room(1, 16, 8, 20, 8), -8);
    ck_assert_int_eq(room(1, 16, 14, 1, 2), -1);
    ck_assert_int_eq(room(0.5, 16, 8, 2, 8), -2);
}
END_TEST

START_TEST(wakes_a_fleet_at_zero)
{
    ck_assert_int_eq(room(0.5, 0, 0, 0, 0), 1);
    ck_assert_int_eq(room(0.5, 0, 0, 0, 1), 0);
    ck_assert_int_eq(room(0.5, 0, 0, 3, 5), 0); /* there is nothing to give back to */
    ck_assert_int_eq(room(0, 0, 0, 0, 0), 0);
}
END_TEST

/* Whatever the load: never more than is left, never more taken back than wait. */
START_TEST(stays_within_bounds)
{
    lac_rng rng;
    lac_rng_seed(&rng, 7);
    for (int i = 0; i < 100000; i++) {
        uint32_t slots = (uint32_t)lac_rng_below(&rng, 40),
                 running = (uint32_t)lac_rng_below(&rng, 40),
                 waiting = (uint32_t)lac_rng_below(&rng, 5),
                 batch = (uint32_t)lac_rng_below(&rng, 40);
        double share = lac_rng_unit(&rng);
        int32_t n = room(share, slots, running, waiting, batch);
        ck_assert_int_ge(n, -(int32_t)waiting);
        ck_assert_int_ge(n, -(int32_t)batch);
        if (n > 0 && slots)
            ck_assert_uint_le(running + waiting + batch + (uint32_t)n, slots);
    }
}
END_TEST

/* A fleet of 16 slots, items of 5 steps, interactive bursts: they never wait longer than one step
 * for a slot that batch work has, and batch work gets all the rest. */
START_TEST(interactive_work_is_not_pushed_out)
{
    uint32_t batch[6] = {0}, running = 0, waiting = 0, done = 0, idle = 0;
    lac_rng rng;
    lac_rng_seed(&rng, 11);
    for (int step = 0; step < 5000; step++) {
        uint32_t held = batch[0] + batch[1] + batch[2] + batch[3] + batch[4];
        /* Slots that ended or were given back go to those who wait. */
        while (waiting && running + held < 16)
            running++, waiting--;
        ck_assert_msg(!waiting || running == 16, "step %d: %u wait beside %u batch items", step,
                      waiting, held);
        done += batch[4];
        for (int k = 4; k > 0; k--)
            batch[k] = batch[k - 1];
        batch[0] = 0;
        running -= (uint32_t)lac_rng_below(&rng, running + 1) / 2;
        waiting += lac_rng_below(&rng, 10) ? 0 : (uint32_t)lac_rng_below(&rng, 24);
        held = batch[1] + batch[2] + batch[3] + batch[4];
        int32_t n = room(1, 16, running, waiting, held);
        if (n > 0)
            batch[0] = (uint32_t)n;
        for (int k = 1; k < 5 && n < 0; k++) /* the youngest goes first */
            while (batch[k] && n < 0)
                batch[k]--, n++;
        idle += !waiting && running + held + batch[0] < 16;
    }
    ck_assert_uint_gt(done, 1000);
    ck_assert_uint_eq(idle, 0);
}
END_TEST

START_TEST(whose_turn_it_is)
{
    lac_jobs_candidate c[] = {{.priority = 0, .deadline_ms = 0, .served = 0},
                              {.priority = 0, .deadline_ms = 900, .served = 9},
                              {.priority = 0, .deadline_ms = 800, .served = 5},
                              {.priority = 0, .deadline_ms = 800, .served = 4},
                              {.priority = -1, .deadline_ms = 1, .served = 0},
                              {.priority = 2, .deadline_ms = 0, .served = 99}};
    ck_assert_uint_eq(lac_jobs_next(c, 6), 5);
    ck_assert_uint_eq(lac_jobs_next(c, 5), 3);
    c[3].served = 6;
    ck_assert_uint_eq(lac_jobs_next(c, 5), 2);
    ck_assert_uint_eq(lac_jobs_next(c, 2), 1);
    ck_assert_uint_eq(lac_jobs_next(c, 1), 0);
    ck_assert_uint_eq(lac_jobs_next(c, 0), 0);
}
END_TEST

START_TEST(what_errors_mean)
{
    int64_t at = 0;
    ck_assert_int_eq(lac_jobs_after(LAC_EINVAL, 1, 3, 100, 0, &at), LAC_JOBS_FAIL);
    ck_assert_int_eq(lac_jobs_after(LAC_ENOTFOUND, 1, 3, 100, 0, &at), LAC_JOBS_FAIL);
    ck_assert_int_eq(lac_jobs_after(LAC_ECANCELLED, 1, 3, 100, 0, &at), LAC_JOBS_CANCEL);
    ck_assert_int_eq(at, 0);
    ck_assert_int_eq(lac_jobs_after(LAC_BUSY, 3, 3, 100, 0, &at), LAC_JOBS_REFUND);
    ck_assert_int_eq(at, 100 + LAC_JOB_RETRY_MS);
    ck_assert_int_eq(lac_jobs_after(LAC_EREFUSED, 1, 3, 100, 50, &at), LAC_JOBS_EXPIRE);
    ck_assert_int_eq(lac_jobs_after(LAC_EPEER, 1, 3, 100, 0, &at), LAC_JOBS_AGAIN);
    ck_assert_int_eq(at, 100 + LAC_JOB_RETRY_MS);
    ck_assert_int_eq(lac_jobs_after(LAC_EPEER, 2, 3, 100, 0, &at), LAC_JOBS_AGAIN);
    ck_assert_int_eq(at, 100 + 2 * LAC_JOB_RETRY_MS);
    ck_assert_int_eq(lac_jobs_after(LAC_EPEER, 90, 100, 100, 0, &at), LAC_JOBS_AGAIN);
    ck_assert_int_eq(at, 100 + LAC_JOB_RETRY_MAX_MS);
    ck_assert_int_eq(lac_jobs_after(LAC_EPEER, 3, 3, 100, 0, &at), LAC_JOBS_FAIL);
    ck_assert_int_eq(lac_jobs_after(LAC_EDEADLINE, 1, 3, 100, 100, &at), LAC_JOBS_EXPIRE);
    ck_assert_int_eq(lac_jobs_after(LAC_EDEADLINE, 1, 3, 100, 101, &at), LAC_JOBS_AGAIN);
}
END_TEST

START_TEST(leases)
{
    ck_assert(!lac_jobs_lease_over(3, 3, 1000, 999));
    ck_assert(lac_jobs_lease_over(3, 3, 1000, 1000));
    ck_assert(lac_jobs_lease_over(2, 3, 1000, 0));
    ck_assert_int_eq(lac_jobs_after_lease(2, 3), LAC_JOBS_AGAIN);
    ck_assert_int_eq(lac_jobs_after_lease(3, 3), LAC_JOBS_FAIL);
    ck_assert_int_eq(lac_jobs_lease_until(500, 0), 500 + LAC_JOB_LEASE_MS);
    ck_assert_int_eq(lac_jobs_lease_until(500, 700), 700);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("core_jobs");
    TCase *tcase = tcase_create("jobs");
    tcase_add_test(tcase, takes_what_is_left);
    tcase_add_test(tcase, few_start_at_a_time);
    tcase_add_test(tcase, gives_way);
    tcase_add_test(tcase, wakes_a_fleet_at_zero);
    tcase_add_test(tcase, stays_within_bounds);
    tcase_add_test(tcase, interactive_work_is_not_pushed_out);
    tcase_add_test(tcase, whose_turn_it_is);
    tcase_add_test(tcase, what_errors_mean);
    tcase_add_test(tcase, leases);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
