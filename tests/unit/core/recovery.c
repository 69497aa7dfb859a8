/* What becomes of streams when groups die, drain, forget or come back. */
#include "harness.h"

static bench B;

START_TEST(stream_continues_on_another_group)
{
    bench_open(&B);
    uint64_t sessions[] = {join(&B, 1, "g0", 4), join(&B, 2, "g1", 4)};
    const sent *d = submit_and_dispatch(&B, 50, 1);
    uint64_t first = d->peer, other = 3 - first;
    output(&B, first, sessions[first - 1], d, 0, 9, LAC_FINISH_NONE);
    forget(&B);
    lost(&B, LAC_PLANE_WORKER, first);
    const sent *again = expect_moved(&B);
    ck_assert_uint_eq(again->peer, other);
    ck_assert_uint_eq(again->request, d->request);
    ck_assert_uint_eq(again->attempt, 2);
    ck_assert_uint_eq(again->accepted_count, 9);
    for (uint32_t i = 0; i < 9; i++)
        ck_assert_uint_eq(again->accepted[i], 100 + i);
    ck_assert_uint_eq(again->seed, d->seed);
    output(&B, other, sessions[other - 1], again, 9, 1, LAC_FINISH_STOP);
    const sent *t = expect(&B, LAC_MSG_TOKENS);
    ck_assert_uint_eq(t->first_pos, 9);
    ck_assert_str_eq(t->text, "j");
    expect(&B, LAC_MSG_DONE);
    ck_assert(metric(&B, "lacuna_retries_total", "") == 1);
    bench_close(&B);
}
END_TEST

START_TEST(silent_group_loses_its_streams_at_the_lease)
{
    bench_open(&B);
    uint64_t sessions[] = {join(&B, 1, "g0", 4), join(&B, 2, "g1", 4)};
    const sent *d = submit_and_dispatch(&B, 50, 1);
    uint64_t alive = 3 - d->peer;
    forget(&B);
    keep_alive(&B, 5500, 1, &alive, &sessions[alive - 1]);
    expect_none(&B, LAC_MSG_DISPATCH); /* suspect: streams are kept */
    keep_alive(&B, 1000, 1, &alive, &sessions[alive - 1]);
    ck_assert_uint_eq(expect(&B, LAC_MSG_DISPATCH)->peer, alive);
    /* The zombie wakes and goes on: nothing of it is taken. */
    forget(&B);
    output(&B, 3 - alive, sessions[2 - alive], d, 0, 1, LAC_FINISH_STOP);
    expect_none(&B, LAC_MSG_TOKENS);
    expect_none(&B, LAC_MSG_DONE);
    expect(&B, LAC_MSG_DIE);
    bench_close(&B);
}
END_TEST

START_TEST(send_that_finds_the_worker_gone_moves_at_once)
{
    bench_open(&B);
    join(&B, 1, "g0", 4);
    join(&B, 2, "g1", 4);
    const sent *d = submit_and_dispatch(&B, 50, 1);
    B.gone_plane = LAC_PLANE_WORKER;
    B.gone_peer = d->peer;
    uint64_t other = 3 - d->peer;
    forget(&B);
    for (uint64_t stream = 2; stream <= 4; stream++) {
        lac_submit s = submit_of(stream, "x");
        submit(&B, 50, &s);
    }
    wait_ms(&B, 100);
    /* All three, and the first one again, are on the other. */
    bool moved = false;
    int count = 0;
    for (const sent *s; (s = next_sent(&B, LAC_MSG_DISPATCH)); count++) {
        ck_assert_uint_eq(s->peer, other);
        moved |= s->request == d->request;
    }
    ck_assert(moved);
    ck_assert_int_eq(count, 4);
    bench_close(&B);
}
END_TEST

START_TEST(two_crashes_make_poison)
{
    bench_open(&B);
    for (uint64_t peer = 1; peer <= 3; peer++) {
        char name[8] = {'g', (char)('0' + peer), 0};
        join(&B, peer, name, 4);
    }
    const sent *d = submit_and_dispatch(&B, 50, 1);
    lost(&B, LAC_PLANE_WORKER, d->peer);
    d = expect_moved(&B);
    forget(&B);
    lost(&B, LAC_PLANE_WORKER, d->peer);
    wait_ms(&B, 500);
    expect_none(&B, LAC_MSG_REFUSED); /* either may still come back */
    wait_ms(&B, 1600);
    expect_none(&B, LAC_MSG_DISPATCH);
    const sent *no = expect(&B, LAC_MSG_REFUSED);
    ck_assert_int_eq(no->status, LAC_EPEER);
    ck_assert(metric(&B, "lacuna_requests_total", "outcome=\"lost\"") == 1);
    bench_close(&B);
}
END_TEST

START_TEST(two_moves_are_the_most)
{
    bench_open(&B);
    uint64_t session = join(&B, 1, "g0", 4);
    const sent *d = submit_and_dispatch(&B, 50, 1);
    for (uint32_t move = 0; move < 2; move++) {
        output(&B, 1, session, d, 5, 1, LAC_FINISH_NONE);
        d = expect_moved(&B);
        ck_assert_uint_eq(d->attempt, move + 2);
    }
    output(&B, 1, session, d, 5, 1, LAC_FINISH_NONE);
    expect(&B, LAC_MSG_REFUSED);
    expect_none(&B, LAC_MSG_DISPATCH);
    bench_close(&B);
}
END_TEST

START_TEST(full_worker_gets_it_again_a_little_later)
{
    bench_open(&B);
    uint64_t session = join(&B, 1, "g0", 4);
    const sent *d = submit_and_dispatch(&B, 50, 1);
    lac_step_item item = {
        .request = d->request, .attempt = 1, .finish = LAC_FINISH_ERROR, .error = LAC_BUSY};
    output_item(&B, 1, session, &item);
    expect_none(&B, LAC_MSG_DISPATCH);
    tick(&B, 100);
    ck_assert_uint_eq(expect(&B, LAC_MSG_DISPATCH)->attempt, 2);
    bench_close(&B);
}
END_TEST

START_TEST(hello_with_running_list_is_reconciled)
{
    bench_open(&B);
    lac_hello h = hello_of("g0", "tiny", 4);
    memset(h.incarnation, 5, 16);
    say_hello(&B, 1, &h);
    uint64_t session = expect(&B, LAC_MSG_HELLO_ACK)->session;
    sent kept = *submit_and_dispatch(&B, 50, 1), missing = *submit_and_dispatch(&B, 50, 2),
         ahead = *submit_and_dispatch(&B, 50, 3);
    output(&B, 1, session, &kept, 0, 2, LAC_FINISH_NONE);
    forget(&B);
    lac_running running[] = {{kept.request, 1, 2}, {ahead.request, 1, 4}, {999, 1, 0}};
    h.running_count = 3;
    h.running = running;
    say_hello(&B, 2, &h); /* on a new connection */
    uint64_t renewed = expect(&B, LAC_MSG_HELLO_ACK)->session;
    ck_assert_uint_eq(expect(&B, LAC_MSG_CANCEL)->request, 999);
    /* What it lost, and what it is too far ahead with, starts again; what both know goes on. */
    int again = 0;
    wait_ms(&B, 100);
    for (const sent *s; (s = next_sent(&B, LAC_MSG_DISPATCH)); again++)
        ck_assert(s->request == missing.request || s->request == ahead.request);
    ck_assert_int_eq(again, 2);
    output(&B, 2, renewed, &kept, 2, 1, LAC_FINISH_STOP);
    B.read = 0;
    const sent *done = expect(&B, LAC_MSG_DONE);
    ck_assert_uint_eq(done->stream, 1);
    bench_close(&B);
}
END_TEST

START_TEST(drain_moves_the_rest_at_its_deadline)
{
    bench_open(&B);
    uint64_t peers[] = {1, 2}, sessions[] = {join(&B, 1, "g0", 4), 0};
    sent one = *submit_and_dispatch(&B, 50, 1), two = *submit_and_dispatch(&B, 50, 2);
    sessions[1] = join(&B, 2, "g1", 4);
    forget(&B);
    ck_assert_int_eq(lac_core_drain_group(B.core, B.now, "nobody", 0), LAC_ENOTFOUND);
    ck_assert_int_eq(lac_core_drain_group(B.core, B.now, "g0", 3000), LAC_OK);
    ck_assert_uint_eq(expect(&B, LAC_MSG_DRAIN)->peer, 1);
    ck_assert_uint_eq(submit_and_dispatch(&B, 50, 3)->peer, 2); /* no new work there */
    output(&B, 1, sessions[0], &one, 0, 1, LAC_FINISH_STOP);    /* what runs may finish */
    expect(&B, LAC_MSG_DONE);
    forget(&B);
    keep_alive(&B, 3000, 2, peers, sessions);
    const sent *c = expect(&B, LAC_MSG_CANCEL);
    ck_assert_uint_eq(c->request, two.request);
    const sent *moved = expect_moved(&B);
    ck_assert_uint_eq(moved->request, two.request);
    ck_assert_uint_eq(moved->peer, 2);
    lac_msg msg = {.envelope = {.type = LAC_MSG_DRAINED, .epoch = EPOCH, .session = sessions[0]}};
    event(&B, LAC_PLANE_WORKER, 1, &msg);
    tick(&B, 100);
    ck_assert(metric(&B, "lacuna_groups", "state=\"stopped\"") == 1);
    bench_close(&B);
}
END_TEST

START_TEST(worker_may_drain_itself)
{
    bench_open(&B);
    uint64_t session = join(&B, 1, "g0", 4);
    const sent *d = submit_and_dispatch(&B, 50, 1);
    beat(&B, 1, session, (lac_heartbeat){.draining = true, .running = 1});
    ck_assert(!lac_core_ready(B.core));
    output(&B, 1, session, d, 0, 1, LAC_FINISH_STOP);
    expect(&B, LAC_MSG_DONE);
    bench_close(&B);
}
END_TEST

START_TEST(fault_fences)
{
    bench_open(&B);
    uint64_t session = join(&B, 1, "g0", 4);
    submit_and_dispatch(&B, 50, 1);
    lac_msg msg = {.envelope = {.type = LAC_MSG_FAULT, .epoch = EPOCH, .session = session}};
    msg.body.fault.status = LAC_EIO;
    event(&B, LAC_PLANE_WORKER, 1, &msg);
    expect(&B, LAC_MSG_DIE);
    ck_assert_uint_eq(lac_core_live(B.core), 1); /* waits for somebody else */
    uint64_t other = join(&B, 2, "g1", 4);
    (void)other;
    ck_assert_uint_eq(expect_moved(&B)->attempt, 2);
    bench_close(&B);
}
END_TEST

START_TEST(nonsense_without_end_fences)
{
    bench_open(&B);
    uint64_t session = join(&B, 1, "g0", 8);
    sent d[LAC_PROTOCOL_ERRORS_MAX];
    for (uint64_t i = 0; i < LAC_PROTOCOL_ERRORS_MAX; i++)
        d[i] = *submit_and_dispatch(&B, 50, i + 1);
    for (uint64_t i = 0; i < LAC_PROTOCOL_ERRORS_MAX; i++)
        output(&B, 1, session, &d[i], 9, 1, LAC_FINISH_NONE);
    B.read = 0;
    expect(&B, LAC_MSG_DIE);
    ck_assert(!lac_core_ready(B.core));
    bench_close(&B);
}
END_TEST

START_TEST(echo_is_not_repeated)
{
    bench_open(&B);
    uint64_t session = join(&B, 1, "g0", 4);
    lac_submit s = submit_of(1, "x");
    s.echo = true;
    submit(&B, 50, &s);
    const sent *d = expect(&B, LAC_MSG_DISPATCH);
    ck_assert(d->echo);
    output(&B, 1, session, d, 0, 1, LAC_FINISH_NONE);
    output(&B, 1, session, d, 4, 1, LAC_FINISH_NONE);
    ck_assert(!expect_moved(&B)->echo);
    bench_close(&B);
}
END_TEST

TCase *recovery_case(void)
{
    TCase *c = tcase_create("recovery");
    tcase_add_test(c, stream_continues_on_another_group);
    tcase_add_test(c, silent_group_loses_its_streams_at_the_lease);
    tcase_add_test(c, send_that_finds_the_worker_gone_moves_at_once);
    tcase_add_test(c, two_crashes_make_poison);
    tcase_add_test(c, two_moves_are_the_most);
    tcase_add_test(c, full_worker_gets_it_again_a_little_later);
    tcase_add_test(c, hello_with_running_list_is_reconciled);
    tcase_add_test(c, drain_moves_the_rest_at_its_deadline);
    tcase_add_test(c, worker_may_drain_itself);
    tcase_add_test(c, fault_fences);
    tcase_add_test(c, nonsense_without_end_fences);
    tcase_add_test(c, echo_is_not_repeated);
    return c;
}
