/* Verdicts: when none are to be passed, what a stall is by a group's own steps, when it is sick,
 * and the breaker. */
#include "harness.h"

static bench B;
static uint64_t peers[8], sessions[8];

static void join_many(int count)
{
    for (int i = 0; i < count; i++) {
        char name[8] = {'g', (char)('0' + i), 0};
        peers[i] = (uint64_t)i + 1;
        sessions[i] = join(&B, peers[i], name, 4);
    }
}

static double groups_in(const char *state)
{
    char label[32];
    snprintf(label, sizeof label, "state=\"%s\"", state);
    tick(&B, 0);
    return metric(&B, "lacuna_groups", label);
}

START_TEST(many_at_once_freeze_verdicts)
{
    bench_open(&B);
    join_many(6);
    keep_alive(&B, 10000, 4, peers, sessions); /* two of six are silent: a third */
    ck_assert(metric(&B, "lacuna_verdicts_frozen", "") == 1);
    ck_assert(metric(&B, "lacuna_verdict_freezes_total", "") == 1);
    ck_assert(groups_in("suspect") == 2);
    expect_none(&B, LAC_MSG_DIE);
    /* One is back: one of six is not most of a fleet, and it dies as it would have. */
    keep_alive(&B, 1000, 5, peers, sessions);
    ck_assert(metric(&B, "lacuna_verdicts_frozen", "") == 0);
    ck_assert(groups_in("fenced") == 1);
    ck_assert(groups_in("ready") == 5);
    bench_close(&B);
}
END_TEST

START_TEST(a_freeze_ends_after_thirty_seconds)
{
    bench_open(&B);
    join_many(2);
    submit_and_dispatch(&B, 50, 1);
    wait_ms(&B, 2000 + LAC_FREEZE_MS - 200);
    ck_assert(groups_in("suspect") == 2);
    expect_none(&B, LAC_MSG_DIE);
    wait_ms(&B, 400);
    ck_assert(groups_in("fenced") == 2);
    ck_assert(metric(&B, "lacuna_verdicts_frozen", "") == 0);
    ck_assert(metric(&B, "lacuna_verdict_freezes_total", "") == 1);
    bench_close(&B);
}
END_TEST

START_TEST(one_of_two_is_only_one)
{
    bench_open(&B);
    join_many(2);
    keep_alive(&B, 7000, 1, peers, sessions);
    ck_assert(metric(&B, "lacuna_verdict_freezes_total", "") == 0);
    ck_assert(groups_in("fenced") == 1);
    bench_close(&B);
}
END_TEST

START_TEST(closed_connections_are_no_silence)
{
    bench_open(&B);
    join_many(2);
    keep_alive(&B, 1000, 2, peers, sessions);
    lost(&B, LAC_PLANE_WORKER, 1);
    lost(&B, LAC_PLANE_WORKER, 2);
    ck_assert(metric(&B, "lacuna_verdict_freezes_total", "") == 0);
    wait_ms(&B, 2100);
    ck_assert(groups_in("fenced") == 2);
    bench_close(&B);
}
END_TEST

START_TEST(closed_after_silence_is_silence)
{
    bench_open(&B);
    join_many(2);
    wait_ms(&B, 1500);
    lost(&B, LAC_PLANE_WORKER, 1);
    lost(&B, LAC_PLANE_WORKER, 2);
    ck_assert(metric(&B, "lacuna_verdicts_frozen", "") == 1);
    wait_ms(&B, 3000);
    ck_assert(groups_in("suspect") == 2);
    bench_close(&B);
}
END_TEST

/* Busy beats with a step every `step_ms`, then stillness: how long until it is SUSPECT. */
static uint64_t stall_after(uint64_t step_ms)
{
    bench_open(&B);
    uint64_t session = join(&B, 1, "g0", 4), steps = 1;
    for (uint64_t at = 0; at < 20000; at += 500) {
        wait_ms(&B, 500);
        steps = 1 + (at + 500) / step_ms;
        beat(&B, 1, session, (lac_heartbeat){.busy = true, .running = 1, .step_counter = steps});
    }
    uint64_t from = B.now;
    while (groups_in("ready") == 1 && B.now < from + 30000) {
        wait_ms(&B, 500);
        beat(&B, 1, session, (lac_heartbeat){.busy = true, .running = 1, .step_counter = steps});
    }
    bench_close(&B);
    return B.now - from;
}

START_TEST(stall_is_by_its_own_steps)
{
    uint64_t fast = stall_after(50), slow = stall_after(250), very_slow = stall_after(2000);
    ck_assert_uint_ge(fast, 3000);
    ck_assert_uint_le(fast, 3600);
    ck_assert_uint_ge(slow, 5000);
    ck_assert_uint_le(slow, 5600);
    ck_assert_uint_ge(very_slow, LAC_HUNG_MS - 2000); /* its last step began before */
    ck_assert_uint_le(very_slow, LAC_HUNG_MS + 600);
}
END_TEST

static void paced(uint64_t ms, const uint32_t itl_us[2], uint32_t running)
{
    for (uint64_t at = 0; at < ms; at += 500) {
        wait_ms(&B, 500);
        for (int i = 0; i < 2; i++)
            beat(&B, peers[i], sessions[i],
                 (lac_heartbeat){.running = running, .itl_us = itl_us[i]});
    }
}

START_TEST(slower_than_itself_is_sick)
{
    bench_open(&B);
    join_many(2);
    paced(15000, (uint32_t[]){10000, 40000}, 1); /* slow by nature is not sick */
    paced(55000, (uint32_t[]){35000, 40000}, 1);
    ck_assert(groups_in("ready") == 2);
    paced(1000, (uint32_t[]){10000, 40000}, 1); /* a relief begins the minute anew */
    paced(58000, (uint32_t[]){35000, 40000}, 1);
    ck_assert(groups_in("ready") == 2);
    forget(&B);
    paced(4000, (uint32_t[]){35000, 40000}, 1);
    ck_assert(groups_in("draining") == 1);
    ck_assert_uint_eq(expect(&B, LAC_MSG_DRAIN)->peer, 1);
    ck_assert(metric(&B, "lacuna_group_verdicts_total", "event=\"sick\"") == 1);
    bench_close(&B);
}
END_TEST

START_TEST(load_and_company_are_no_sickness)
{
    bench_open(&B);
    join_many(2);
    paced(15000, (uint32_t[]){10000, 10000}, 1);
    paced(80000, (uint32_t[]){90000, 10000}, 16); /* a full batch has its own measure */
    ck_assert(groups_in("ready") == 2);
    paced(80000, (uint32_t[]){90000, 90000}, 1); /* both slow: the machine */
    ck_assert(groups_in("ready") == 2);
    bench_close(&B);
}
END_TEST

static void fail_one(uint64_t stream)
{
    const sent *d = submit_and_dispatch(&B, 50, stream);
    lac_step_item item = {.request = d->request,
                          .attempt = d->attempt,
                          .finish = LAC_FINISH_ERROR,
                          .error = LAC_EINTERNAL};
    output_item(&B, 1, sessions[0], &item);
}

START_TEST(breaker_opens_half_opens_closes)
{
    bench_open(&B);
    join_many(1);
    for (uint64_t i = 1; i <= 4; i++)
        fail_one(i);
    output(&B, 1, sessions[0], submit_and_dispatch(&B, 50, 5), 0, 1, LAC_FINISH_STOP);
    for (uint64_t i = 11; i <= 15; i++) /* in a row */
        fail_one(i);
    forget(&B);
    for (uint64_t i = 20; i <= 23; i++) {
        lac_submit s = submit_of(i, "x");
        submit(&B, 50, &s);
    }
    keep_alive(&B, 29500, 1, peers, sessions);
    expect_none(&B, LAC_MSG_DISPATCH);
    ck_assert(metric(&B, "lacuna_breakers_open", "") == 1);
    keep_alive(&B, 1000, 1, peers, sessions);
    sent d = *expect(&B, LAC_MSG_DISPATCH);
    keep_alive(&B, 1000, 1, peers, sessions);
    expect_none(&B, LAC_MSG_DISPATCH); /* exactly one */
    output(&B, 1, sessions[0], &d, 0, 1, LAC_FINISH_STOP);
    d = *expect(&B, LAC_MSG_DISPATCH);
    expect_none(&B, LAC_MSG_DISPATCH);
    output(&B, 1, sessions[0], &d, 0, 1, LAC_FINISH_STOP);
    expect(&B, LAC_MSG_DISPATCH);
    expect(&B, LAC_MSG_DISPATCH); /* closed */
    tick(&B, 100);
    ck_assert(metric(&B, "lacuna_breakers_open", "") == 0);
    ck_assert(metric(&B, "lacuna_breaker_opens_total", "") == 1);
    bench_close(&B);
}
END_TEST

START_TEST(failed_probe_opens_again)
{
    bench_open(&B);
    join_many(1);
    for (uint64_t i = 1; i <= 5; i++)
        fail_one(i);
    keep_alive(&B, LAC_BREAKER_OPEN_MS, 1, peers, sessions);
    fail_one(6);
    forget(&B);
    lac_submit s = submit_of(7, "x");
    submit(&B, 50, &s);
    keep_alive(&B, LAC_BREAKER_OPEN_MS - 500, 1, peers, sessions);
    expect_none(&B, LAC_MSG_DISPATCH);
    keep_alive(&B, 1000, 1, peers, sessions);
    expect(&B, LAC_MSG_DISPATCH);
    cancel(&B, 50, 7); /* a probe without an outcome makes room for another */
    submit_and_dispatch(&B, 50, 8);
    bench_close(&B);
}
END_TEST

START_TEST(nonsense_opens_the_breaker_too)
{
    bench_open(&B);
    join_many(1);
    for (uint64_t i = 1; i <= LAC_BREAKER_FAILURES; i++) {
        tick(&B, 0);
        ck_assert(metric(&B, "lacuna_breakers_open", "") == 0);
        output(&B, 1, sessions[0], submit_and_dispatch(&B, 50, i), 9, 1, LAC_FINISH_NONE);
        cancel(&B, 50, i);
    }
    tick(&B, 0);
    ck_assert(metric(&B, "lacuna_breakers_open", "") == 1);
    bench_close(&B);
}
END_TEST

TCase *verdict_case(void)
{
    TCase *c = tcase_create("verdict");
    tcase_add_test(c, many_at_once_freeze_verdicts);
    tcase_add_test(c, a_freeze_ends_after_thirty_seconds);
    tcase_add_test(c, one_of_two_is_only_one);
    tcase_add_test(c, closed_connections_are_no_silence);
    tcase_add_test(c, closed_after_silence_is_silence);
    tcase_add_test(c, stall_is_by_its_own_steps);
    tcase_add_test(c, slower_than_itself_is_sick);
    tcase_add_test(c, load_and_company_are_no_sickness);
    tcase_add_test(c, breaker_opens_half_opens_closes);
    tcase_add_test(c, nonsense_opens_the_breaker_too);
    tcase_add_test(c, failed_probe_opens_again);
    return c;
}
