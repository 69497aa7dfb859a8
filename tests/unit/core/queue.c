/* Admission, order, windows and the choice of a group. */
#include "harness.h"

static bench B;

START_TEST(least_loaded_spreads_by_share)
{
    bench_open_with(&B, (lac_core_options){.policy = "least-loaded"});
    join(&B, 1, "g0", 4);
    join(&B, 2, "g1", 8);
    int count[3] = {0};
    for (uint64_t i = 1; i <= 12; i++)
        count[submit_and_dispatch(&B, 50, i)->peer]++;
    ck_assert_int_eq(count[1], 4);
    ck_assert_int_eq(count[2], 8);
    bench_close(&B);
}
END_TEST

START_TEST(round_robin_takes_turns)
{
    bench_open_with(&B, (lac_core_options){.policy = "round-robin"});
    join(&B, 1, "g0", 8);
    join(&B, 2, "g1", 2);
    uint64_t last = submit_and_dispatch(&B, 50, 1)->peer;
    for (uint64_t i = 2; i <= 4; i++) {
        uint64_t peer = submit_and_dispatch(&B, 50, i)->peer;
        ck_assert_uint_ne(peer, last);
        last = peer;
    }
    ck_assert(!lac_core_policy_known("best"));
    bench_close(&B);
}
END_TEST

START_TEST(window_is_slots_and_a_quarter)
{
    bench_open(&B);
    join(&B, 1, "g0", 4);
    for (uint64_t i = 1; i <= 8; i++) {
        lac_submit s = submit_of(i, "x");
        submit(&B, 50, &s);
    }
    int count = 0;
    B.read = 0;
    while (next_sent(&B, LAC_MSG_DISPATCH))
        count++;
    ck_assert_int_eq(count, 5);
    ck_assert_uint_eq(lac_core_live(B.core), 8);
    bench_close(&B);
}
END_TEST

START_TEST(first_come_first_served_moved_ones_first)
{
    bench_open(&B);
    uint64_t session = join(&B, 1, "g0", 1);
    sent first = *submit_and_dispatch(&B, 50, 1);
    for (uint64_t i = 2; i <= 4; i++) {
        lac_submit s = submit_of(i, "x");
        submit(&B, 50, &s);
    }
    forget(&B);
    output(&B, 1, session, &first, 3, 1, LAC_FINISH_NONE); /* a gap: it goes back to its place */
    sent second = *expect(&B, LAC_MSG_DISPATCH);           /* meanwhile the next one has its turn */
    ck_assert_uint_eq(second.request, first.request + 1);
    wait_ms(&B, 100);
    output(&B, 1, session, &second, 0, 1, LAC_FINISH_STOP);
    ck_assert_uint_eq(expect(&B, LAC_MSG_DISPATCH)->request, first.request);
    cancel(&B, 50, 1);
    for (uint64_t i = 3; i <= 4; i++) {
        const sent *d = expect(&B, LAC_MSG_DISPATCH);
        ck_assert_uint_eq(d->request, first.request + i - 1);
        output(&B, 1, session, d, 0, 1, LAC_FINISH_STOP);
    }
    bench_close(&B);
}
END_TEST

START_TEST(full_queue_refuses_with_a_time)
{
    bench_open_with(&B, (lac_core_options){.queue_max = 3});
    uint64_t session = join(&B, 1, "g0", 1);
    sent d = *submit_and_dispatch(&B, 50, 1);
    for (uint64_t i = 2; i <= 4; i++) {
        lac_submit s = submit_of(i, "x");
        submit(&B, 50, &s);
    }
    expect_none(&B, LAC_MSG_REFUSED);
    lac_submit s = submit_of(5, "x");
    submit(&B, 50, &s);
    const sent *no = expect(&B, LAC_MSG_REFUSED);
    ck_assert_int_eq(no->status, LAC_BUSY);
    ck_assert_uint_gt(no->retry_after_ms, 0);
    ck_assert_ptr_nonnull(strstr(no->reason, "limit 3"));
    /* With two ends in two seconds, four to wait for take about four seconds. */
    uint64_t peers[] = {1};
    for (int i = 0; i < 2; i++) {
        keep_alive(&B, 1000, 1, peers, &session);
        forget(&B);
        output(&B, 1, session, &d, 0, 1, LAC_FINISH_STOP);
        d = *expect(&B, LAC_MSG_DISPATCH);
        s.stream = 10 + (uint64_t)i;
        submit(&B, 50, &s);
    }
    s.stream = 20;
    submit(&B, 50, &s);
    no = expect(&B, LAC_MSG_REFUSED);
    ck_assert_uint_ge(no->retry_after_ms, 3500);
    ck_assert_uint_le(no->retry_after_ms, 4500);
    ck_assert(metric(&B, "lacuna_requests_total", "outcome=\"busy\"") == 2);
    bench_close(&B);
}
END_TEST

START_TEST(queue_is_bounded_in_tokens)
{
    bench_open_with(&B, (lac_core_options){.queue_tokens_max = 100});
    char text[1001];
    memset(text, 'x', 1000);
    text[1000] = 0;
    lac_submit s = submit_of(1, text);
    submit(&B, 50, &s); /* over the bound alone, yet it may wait alone */
    expect_none(&B, LAC_MSG_REFUSED);
    s = submit_of(2, "small");
    submit(&B, 50, &s);
    ck_assert_int_eq(expect(&B, LAC_MSG_REFUSED)->status, LAC_BUSY);
    bench_close(&B);
}
END_TEST

START_TEST(nobody_ready_waits_thirty_seconds)
{
    bench_open(&B);
    lac_submit s = submit_of(1, "x");
    submit(&B, 50, &s);
    wait_ms(&B, 29000);
    expect_none(&B, LAC_MSG_REFUSED);
    wait_ms(&B, 1500);
    const sent *no = expect(&B, LAC_MSG_REFUSED);
    ck_assert_int_eq(no->status, LAC_EREFUSED);
    ck_assert_uint_gt(no->retry_after_ms, 0);
    /* One that comes in time is served. */
    s.stream = 2;
    submit(&B, 50, &s);
    wait_ms(&B, 10000);
    join(&B, 1, "g0", 1);
    B.read = 0;
    expect(&B, LAC_MSG_DISPATCH);
    bench_close(&B);
}
END_TEST

START_TEST(busy_worker_queue_is_tried_again)
{
    bench_open(&B);
    join(&B, 1, "g0", 4);
    B.busy_plane = LAC_PLANE_WORKER;
    B.busy_peer = 1;
    lac_submit s = submit_of(1, "x");
    submit(&B, 50, &s);
    expect_none(&B, LAC_MSG_DISPATCH);
    B.busy_peer = 0;
    tick(&B, 100);
    expect(&B, LAC_MSG_DISPATCH);
    bench_close(&B);
}
END_TEST

START_TEST(reports_correct_the_account)
{
    bench_open_with(&B, (lac_core_options){.policy = "least-loaded"});
    uint64_t session = join(&B, 1, "g0", 4);
    join(&B, 2, "g1", 4);
    sent d = *submit_and_dispatch(&B, 50, 1);
    ck_assert_uint_eq(d.peer, 1);
    /* It still runs three that we cancelled long ago, and had not seen the dispatch when it said
     * so: four in all, and the next four go to the other. */
    beat(&B, 1, session, (lac_heartbeat){.running = 3, .dispatch_seq_seen = d.seq - 1});
    for (uint64_t i = 2; i <= 5; i++)
        ck_assert_uint_eq(submit_and_dispatch(&B, 50, i)->peer, 2);
    /* It has seen it and runs nothing else: nothing is counted twice. */
    beat(&B, 1, session,
         (lac_heartbeat){.report_seq = 1, .running = 1, .dispatch_seq_seen = d.seq});
    for (uint64_t i = 6; i <= 8; i++)
        ck_assert_uint_eq(submit_and_dispatch(&B, 50, i)->peer, 1);
    bench_close(&B);
}
END_TEST

START_TEST(drain_refuses_new_and_finishes_old)
{
    bench_open(&B);
    uint64_t session = join(&B, 1, "g0", 4);
    const sent *d = submit_and_dispatch(&B, 50, 1);
    lac_core_drain(B.core, B.now);
    ck_assert(!lac_core_ready(B.core));
    lac_submit s = submit_of(2, "x");
    submit(&B, 50, &s);
    const sent *no = expect(&B, LAC_MSG_REFUSED);
    ck_assert_int_eq(no->status, LAC_EREFUSED);
    ck_assert_uint_gt(no->retry_after_ms, 0);
    output(&B, 1, session, d, 0, 1, LAC_FINISH_STOP);
    expect(&B, LAC_MSG_DONE);
    ck_assert_uint_eq(lac_core_live(B.core), 0);
    bench_close(&B);
}
END_TEST

START_TEST(memory_is_bounded)
{
    bench_open_with(&B, (lac_core_options){.bytes_max = 3024});
    char text[1001];
    memset(text, 'x', 1000);
    text[1000] = 0;
    for (uint64_t i = 1; i <= 3; i++) {
        lac_submit s = submit_of(i, text);
        submit(&B, 50, &s);
    }
    expect_none(&B, LAC_MSG_REFUSED);
    lac_submit s = submit_of(4, text);
    submit(&B, 50, &s);
    ck_assert_int_eq(expect(&B, LAC_MSG_REFUSED)->status, LAC_BUSY);
    bench_close(&B);
}
END_TEST

static lac_status status_sink(void *arg, const lac_action *action)
{
    lac_status_reply *out = arg;
    if (action->msg->envelope.type == LAC_MSG_STATUS_REPLY) {
        *out = action->msg->body.status_reply;
        ck_assert_uint_eq(out->groups_count, 1);
        ck_assert_str_eq(out->groups[0].id, "g0");
        ck_assert_str_eq(out->groups[0].state, "READY");
        ck_assert_uint_eq(out->groups[0].ranks_count, 1);
        ck_assert_uint_eq(out->groups[0].ranks[0].pid, 4711);
    }
    return LAC_OK;
}

START_TEST(status_shows_the_fleet)
{
    lac_status_reply reply = {0};
    lac_metrics *metrics = lac_metrics_create(256);
    lac_core_options options = {.epoch = 3, .http_address = "127.0.0.1:1"};
    lac_core *core = lac_core_create(&options, metrics, status_sink, &reply);
    lac_msg msg = {.envelope.type = LAC_MSG_HELLO, .body.hello = hello_of("g0", "tiny", 2)};
    lac_event e = {.kind = LAC_EVENT_MESSAGE, .plane = LAC_PLANE_WORKER, .peer = 1, .msg = &msg};
    lac_core_step(core, 5, &e);
    lac_msg query = {.envelope.type = LAC_MSG_STATUS_QUERY, .body.status_query.stream = 9};
    e = (lac_event){.kind = LAC_EVENT_MESSAGE, .plane = LAC_PLANE_CLIENT, .peer = 2, .msg = &query};
    lac_core_step(core, 1005, &e);
    ck_assert_uint_eq(reply.stream, 9);
    ck_assert_uint_eq(reply.epoch, 3);
    ck_assert_uint_eq(reply.uptime_ms, 1000);
    ck_assert_str_eq(reply.http, "127.0.0.1:1");
    lac_core_destroy(&core);
    lac_metrics_destroy(&metrics);
}
END_TEST

START_TEST(hopeless_waits_are_refused_at_once)
{
    bench_open(&B);
    uint64_t peers[] = {1}, session = join(&B, 1, "g0", 1);
    sent d = *submit_and_dispatch(&B, 50, 1);
    lac_submit s = submit_of(2, "x");
    submit(&B, 50, &s);
    for (uint64_t i = 0; i < 5; i++) { /* one end a second */
        s.stream = 10 + i;
        submit(&B, 50, &s);
        keep_alive(&B, 1000, 1, peers, &session);
        forget(&B);
        output(&B, 1, session, &d, 0, 1, LAC_FINISH_STOP);
        d = *expect(&B, LAC_MSG_DISPATCH);
    }
    for (uint64_t i = 0; i < 4; i++) { /* five wait now */
        s.stream = 20 + i;
        submit(&B, 50, &s);
    }
    forget(&B);
    s.stream = 30;
    s.deadline_ms = 3000;
    submit(&B, 50, &s);
    const sent *no = expect(&B, LAC_MSG_REFUSED);
    ck_assert_int_eq(no->status, LAC_BUSY);
    ck_assert_uint_ge(no->retry_after_ms, 1500);
    ck_assert_uint_le(no->retry_after_ms, 2500);
    ck_assert_ptr_nonnull(strstr(no->reason, "deadline_ms is 3000"));
    ck_assert(metric(&B, "lacuna_predicted_sheds_total", "") == 1);
    s.stream = 31;
    s.deadline_ms = 8000;
    submit(&B, 50, &s);
    expect_none(&B, LAC_MSG_REFUSED);
    s.stream = 32; /* the urgent one has only itself before it */
    s.deadline_ms = 3000;
    s.priority = 2;
    submit(&B, 50, &s);
    expect_none(&B, LAC_MSG_REFUSED);
    bench_close(&B);
}
END_TEST

START_TEST(expired_ones_are_not_dispatched)
{
    bench_open(&B);
    uint64_t session = join(&B, 1, "g0", 1);
    sent d = *submit_and_dispatch(&B, 50, 1);
    lac_submit s = submit_of(2, "x");
    submit(&B, 50, &s);
    s.stream = 3;
    s.deadline_ms = 50;
    submit(&B, 50, &s);
    forget(&B);
    B.now += 60; /* and no tick in between */
    output(&B, 1, session, &d, 0, 1, LAC_FINISH_STOP);
    output(&B, 1, session, expect(&B, LAC_MSG_DISPATCH), 0, 1, LAC_FINISH_STOP);
    expect_none(&B, LAC_MSG_DISPATCH);
    ck_assert(metric(&B, "lacuna_requests_total", "outcome=\"deadline\"") == 1);
    bench_close(&B);
}
END_TEST

START_TEST(priority_goes_first_and_starves_nobody)
{
    bench_open(&B);
    uint64_t session = join(&B, 1, "g0", 1);
    sent d = *submit_and_dispatch(&B, 50, 1);
    static const int32_t priorities[] = {-1, 0, 1, 2, 0};
    lac_submit s = submit_of(2, "x");
    for (uint64_t i = 0; i < 5; i++) {
        s.stream = 2 + i;
        s.priority = priorities[i];
        submit(&B, 50, &s);
    }
    uint64_t peers[] = {1};
    keep_alive(&B, 20500, 1, peers, &session);
    s.stream = 7; /* two steps ahead, but the others have waited longer than that */
    s.priority = 1;
    submit(&B, 50, &s);
    static const uint64_t order[] = {3, 2, 1, 4, 0, 5};
    forget(&B);
    for (int i = 0; i < 6; i++) {
        output(&B, 1, session, &d, 0, 1, LAC_FINISH_STOP);
        d = *expect(&B, LAC_MSG_DISPATCH);
        ck_assert_uint_eq((d.request & 0xff) - 2, order[i]);
    }
    bench_close(&B);
}
END_TEST

TCase *queue_case(void)
{
    TCase *c = tcase_create("queue");
    tcase_add_test(c, least_loaded_spreads_by_share);
    tcase_add_test(c, round_robin_takes_turns);
    tcase_add_test(c, window_is_slots_and_a_quarter);
    tcase_add_test(c, first_come_first_served_moved_ones_first);
    tcase_add_test(c, full_queue_refuses_with_a_time);
    tcase_add_test(c, queue_is_bounded_in_tokens);
    tcase_add_test(c, nobody_ready_waits_thirty_seconds);
    tcase_add_test(c, busy_worker_queue_is_tried_again);
    tcase_add_test(c, reports_correct_the_account);
    tcase_add_test(c, drain_refuses_new_and_finishes_old);
    tcase_add_test(c, memory_is_bounded);
    tcase_add_test(c, hopeless_waits_are_refused_at_once);
    tcase_add_test(c, expired_ones_are_not_dispatched);
    tcase_add_test(c, priority_goes_first_and_starves_nobody);
    tcase_add_test(c, status_shows_the_fleet);
    return c;
}
