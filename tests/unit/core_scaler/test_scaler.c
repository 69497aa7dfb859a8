/* Each rule of the autoscaler by itself; tests/sim/scale.c tries them together on traces. */
#include <check.h>
#include <stdlib.h>

#include "core/scaler.h"

enum { SECOND = 1000 };

static lac_scaler scaler;
static lac_scaler_policy policy;
static lac_scaler_snapshot now;
static lac_scaler_decision got;

static void setup(void)
{
    scaler = (lac_scaler){0};
    policy = lac_scaler_policy_default(1, 20);
    now = (lac_scaler_snapshot){.now_ms = 1,
                                .known = true,
                                .slot_seconds = 4,
                                .slots_per_group = 8,
                                .cold_start_s = 10,
                                .ready = 1};
}

static void decide(void)
{
    lac_scaler_decide(&scaler, &policy, &now, &got);
}

static void arrive(double rate)
{
    now.arrivals_s = now.arrivals_short_s = rate;
}

/* Decides again and again while nothing changes but what is ordered becomes ready at once. */
static void pass(uint32_t seconds)
{
    for (uint64_t end = now.now_ms + seconds * (uint64_t)SECOND; now.now_ms < end;
         now.now_ms += LAC_SCALER_PERIOD_MS) {
        decide();
        now.ready = got.groups;
    }
}

START_TEST(need_is_littles_law_and_a_margin)
{
    arrive(4); /* 16 busy slots, margin 1.5 × 4 */
    decide();
    ck_assert_double_eq_tol(got.busy, 16, 1e-9);
    ck_assert_double_eq_tol(got.margin, 6, 1e-9);
    ck_assert_uint_eq(got.groups, 3);
    ck_assert_int_eq(got.reason, LAC_SCALER_UP);
    now.queued_slot_seconds = 400; /* 10 slots over cold start and grace */
    decide();
    ck_assert_uint_eq(got.need, 4);
}
END_TEST

START_TEST(slower_requests_need_more_before_a_queue_grows)
{
    arrive(4);
    decide();
    uint32_t before = got.need;
    now.slot_seconds = 6; /* the skip rate fell */
    decide();
    ck_assert_uint_gt(got.need, before);
}
END_TEST

START_TEST(groups_that_start_count)
{
    arrive(4);
    now.starting = 2;
    decide();
    ck_assert_uint_eq(got.groups, 3);
    ck_assert_int_eq(got.reason, LAC_SCALER_STEADY);
}
END_TEST

START_TEST(growth_is_bounded_within_a_cold_start)
{
    arrive(100);
    decide();
    ck_assert_uint_eq(got.need, 20);
    ck_assert_uint_eq(got.groups, 1 + 8);
    now.starting = 8;
    now.now_ms += 5 * SECOND;
    decide();
    ck_assert_uint_eq(got.groups, 9);
    now.now_ms += 5 * SECOND;
    decide();
    ck_assert_uint_eq(got.groups, 18);
}
END_TEST

START_TEST(a_surge_counts_only_beyond_chance)
{
    now.arrivals_s = 4;
    now.arrivals_short_s = 6;
    decide();
    ck_assert_double_eq_tol(got.busy, 16, 1e-9);
    now.arrivals_short_s = 12;
    decide();
    ck_assert_double_eq_tol(got.busy, 48, 1e-9);
}
END_TEST

START_TEST(down_needs_the_window_and_goes_by_steps)
{
    arrive(12);
    pass(20);
    uint32_t most = now.ready;
    ck_assert_uint_ge(most, 8);
    arrive(0.5);
    pass(100); /* the window is 12 cold starts */
    ck_assert_uint_eq(now.ready, most);
    ck_assert_int_eq(got.reason, LAC_SCALER_WAIT);
    uint32_t before = now.ready, steps = 0;
    uint64_t last_ms = 0;
    for (int i = 0; i < 1000; i++) {
        decide();
        if (got.groups < before) {
            ck_assert(!last_ms || now.now_ms - last_ms >= policy.down_step_ms);
            last_ms = now.now_ms;
            steps++;
        }
        before = now.ready = got.groups;
        now.now_ms += LAC_SCALER_PERIOD_MS;
    }
    ck_assert_uint_eq(now.ready, 1);
    ck_assert_uint_ge(steps, 3);
}
END_TEST

START_TEST(nothing_goes_while_something_starts)
{
    arrive(12);
    pass(20);
    arrive(1);
    now.starting = 1;
    uint32_t ready = now.ready;
    for (int i = 0; i < 400; i++) {
        decide();
        ck_assert_uint_eq(got.groups, ready + 1);
        now.now_ms += LAC_SCALER_PERIOD_MS;
    }
}
END_TEST

START_TEST(blind_means_hold)
{
    arrive(12);
    pass(20);
    uint32_t ready = now.ready;
    now.known = false;
    arrive(0);
    pass(3600);
    ck_assert_uint_eq(now.ready, ready);
    ck_assert_int_eq(got.reason, LAC_SCALER_BLIND);
}
END_TEST

START_TEST(changes_its_mind_twice_in_ten_minutes_at_most)
{
    uint64_t turns[64];
    uint32_t count = 0;
    int direction = 0;
    for (int i = 0; i < 2000; i++) {
        arrive(i / 60 % 2 ? 1 : 12); /* its own window as a period */
        decide();
        if (got.groups != now.ready) {
            int way = got.groups > now.ready ? 1 : -1;
            if (direction && way != direction) {
                ck_assert_uint_lt(count, 64);
                turns[count++] = now.now_ms;
                ck_assert(count < 3 || turns[count - 1] - turns[count - 3] >= LAC_SCALER_TURN_MS);
            }
            direction = way;
        }
        now.ready = got.groups;
        now.now_ms += LAC_SCALER_PERIOD_MS;
    }
    ck_assert_uint_ge(count, 2);
}
END_TEST

START_TEST(zero_is_reached_idle_and_left_at_once)
{
    policy.groups_min = 0;
    now.waiting = 0;
    now.running = 1;
    pass(1200);
    ck_assert_uint_eq(now.ready, 1); /* something runs */
    now.running = 0;
    pass(200);
    ck_assert_uint_eq(now.ready, 1); /* idle, but not for long */
    pass(400);
    ck_assert_uint_eq(now.ready, 0);
    now.waiting = 1;
    decide();
    ck_assert_uint_eq(got.groups, 1);
}
END_TEST

START_TEST(waiting_too_long_adds_one)
{
    now.wait_target_ms = 1000;
    now.wait_ms = 600;
    now.waiting = 1;
    decide();
    ck_assert_uint_eq(got.groups, 2);
    ck_assert_int_eq(got.reason, LAC_SCALER_GUARD);
    now.starting = 1; /* one comes already */
    decide();
    ck_assert_uint_eq(got.groups, 2);
    ck_assert_int_ne(got.reason, LAC_SCALER_GUARD);
}
END_TEST

START_TEST(the_time_of_day_is_learned)
{
    now.wall_s = 86400 * 20000LL;
    now.cold_start_s = 300;
    uint64_t start = now.now_ms;
    bool ahead = false;
    for (int i = 0; i < 2 * 86400000 / LAC_SCALER_PERIOD_MS; i++) {
        double hour = (double)((now.now_ms - start) % 86400000) / 3600000.0;
        bool busy = hour >= 9 && hour < 10;
        arrive(busy ? 12 : 1);
        decide();
        if (now.now_ms - start > 86400000 && hour > 8.7 && hour < 9 &&
            got.reason == LAC_SCALER_FORECAST)
            ahead = true;
        now.ready = got.groups;
        now.now_ms += LAC_SCALER_PERIOD_MS;
        now.wall_s = 86400 * 20000LL + (int64_t)((now.now_ms - start) / 1000);
    }
    ck_assert(ahead);
}
END_TEST

START_TEST(limits_hold)
{
    policy.groups_max = 3;
    arrive(1000);
    pass(60);
    ck_assert_uint_eq(now.ready, 3);
    policy.groups_max = 2; /* lowered by people */
    decide();
    ck_assert_uint_eq(got.groups, 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("core_scaler");
    TCase *rules = tcase_create("rules");
    tcase_add_checked_fixture(rules, setup, NULL);
    tcase_set_timeout(rules, 60);
    tcase_add_test(rules, need_is_littles_law_and_a_margin);
    tcase_add_test(rules, slower_requests_need_more_before_a_queue_grows);
    tcase_add_test(rules, groups_that_start_count);
    tcase_add_test(rules, growth_is_bounded_within_a_cold_start);
    tcase_add_test(rules, a_surge_counts_only_beyond_chance);
    tcase_add_test(rules, down_needs_the_window_and_goes_by_steps);
    tcase_add_test(rules, nothing_goes_while_something_starts);
    tcase_add_test(rules, blind_means_hold);
    tcase_add_test(rules, changes_its_mind_twice_in_ten_minutes_at_most);
    tcase_add_test(rules, zero_is_reached_idle_and_left_at_once);
    tcase_add_test(rules, waiting_too_long_adds_one);
    tcase_add_test(rules, the_time_of_day_is_learned);
    tcase_add_test(rules, limits_hold);
    suite_add_tcase(suite, rules);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
