/* The choice of a group by cost: what it weighs, what it keeps to, and that it says why. */
#include "harness.h"

static bench B;
static char text_a[1201], text_b[1201];

static void open_two(void)
{
    memset(text_a, 'a', 1200);
    memset(text_b, 'b', 1200);
    bench_open(&B);
}

static const sent *submit_long(uint64_t stream, const char *text)
{
    lac_submit s = submit_of(stream, text);
    forget(&B);
    submit(&B, 50, &s);
    return expect(&B, LAC_MSG_DISPATCH);
}

START_TEST(what_shares_a_prefix_shares_a_group)
{
    open_two();
    uint64_t sessions[] = {join(&B, 1, "g0", 8), join(&B, 2, "g1", 8)};
    int together = 0, spread[2] = {0};
    for (uint64_t i = 0; i < 40; i++) {
        const char *text = i % 2 ? text_a : text_b;
        const sent *d = submit_long(1 + i, text);
        static uint64_t last[2];
        together += i >= 2 && last[i % 2] == d->peer;
        last[i % 2] = d->peer;
        spread[d->peer - 1]++;
        output(&B, d->peer, sessions[d->peer - 1], d, 0, 1, LAC_FINISH_STOP);
        tick(&B, 10);
    }
    ck_assert_int_ge(together, 34); /* but for the odd exploration */
    ck_assert_ptr_nonnull(strstr(B.notes, "4 of 4 blocks known"));
    ck_assert_ptr_nonnull(strstr(B.notes, "score"));
    bench_close(&B);
}
END_TEST

START_TEST(a_hot_prefix_heats_nobody)
{
    open_two();
    for (uint64_t peer = 1; peer <= 4; peer++) {
        char name[8] = {'g', (char)('0' + peer), 0};
        join(&B, peer, name, 16);
    }
    int count[5] = {0};
    for (uint64_t i = 1; i <= 40; i++)
        count[submit_long(i, text_a)->peer]++;
    for (int peer = 1; peer <= 4; peer++)
        ck_assert_int_le(count[peer], 13); /* 1.25 × 10, rounded up */
    bench_close(&B);
}
END_TEST

START_TEST(the_faster_group_is_cheaper)
{
    open_two();
    uint64_t s1 = join(&B, 1, "g0", 64), s2 = join(&B, 2, "g1", 64);
    beat(&B, 1, s1, (lac_heartbeat){.itl_us = 40000, .prefill_us = 4000});
    beat(&B, 2, s2, (lac_heartbeat){.itl_us = 10000, .prefill_us = 1000});
    ck_assert_uint_eq(submit_long(1, "a short one")->peer, 2);
    ck_assert(metric(&B, "lacuna_protocol_errors_total", "") == 0);
    bench_close(&B);
}
END_TEST

START_TEST(stale_reports_count_as_full_unless_all_are)
{
    open_two();
    uint64_t s1 = join(&B, 1, "g0", 8);
    join(&B, 2, "g1", 8);
    for (int i = 0; i < 5; i++) {
        wait_ms(&B, 500);
        beat(&B, 1, s1, (lac_heartbeat){0});
        /* The other still speaks, but does not report. */
        lac_msg msg = {.envelope = {.type = LAC_MSG_STEP_OUTPUT, .epoch = EPOCH}};
        for (size_t k = 0; k < B.log_count; k++)
            if (B.log[k].type == LAC_MSG_HELLO_ACK && B.log[k].peer == 2)
                msg.envelope.session = B.log[k].session;
        event(&B, LAC_PLANE_WORKER, 2, &msg);
    }
    for (uint64_t i = 1; i <= 10; i++)
        ck_assert_uint_eq(submit_long(i, "x")->peer, 1);
    lac_submit s = submit_of(11, "x");
    forget(&B);
    submit(&B, 50, &s);
    expect_none(&B, LAC_MSG_DISPATCH);
    lac_core_drain_group(B.core, B.now, "g0", 30000); /* now all are stale */
    tick(&B, 10);
    ck_assert_uint_eq(expect(&B, LAC_MSG_DISPATCH)->peer, 2);
    bench_close(&B);
}
END_TEST

START_TEST(a_new_group_starts_slowly)
{
    open_two();
    uint64_t peers[] = {1, 2}, sessions[] = {join(&B, 1, "g0", 64), 0};
    keep_alive(&B, 61000, 1, peers, sessions);
    sessions[1] = join(&B, 2, "g1", 64);
    int count[3] = {0};
    for (uint64_t i = 1; i <= 40; i++)
        count[submit_long(i, "x")->peer]++;
    ck_assert_int_ge(count[2], 1);
    ck_assert_int_le(count[2], 8); /* its share is a tenth of the other's */
    bench_close(&B);
}
END_TEST

TCase *router_case(void)
{
    TCase *c = tcase_create("router");
    tcase_add_test(c, what_shares_a_prefix_shares_a_group);
    tcase_add_test(c, a_hot_prefix_heats_nobody);
    tcase_add_test(c, the_faster_group_is_cheaper);
    tcase_add_test(c, stale_reports_count_as_full_unless_all_are);
    tcase_add_test(c, a_new_group_starts_slowly);
    return c;
}
