/* When a moved request may run again, and which are taken for the cause of deaths. */
#include "harness.h"

static bench B;

static void submit_text(uint64_t stream, const char *text)
{
    lac_submit s = submit_of(stream, text);
    submit(&B, 50, &s);
}

START_TEST(backoff_doubles_and_jitters)
{
    uint64_t waits[2][8];
    for (int run = 0; run < 8; run++) {
        bench_open(&B);
        uint64_t session = join(&B, 1, "g0", 8);
        for (uint64_t other = 0; other < (uint64_t)run; other++) { /* other draws each run */
            submit_and_dispatch(&B, 50, 100 + other);
        }
        const sent *d = submit_and_dispatch(&B, 50, 1);
        for (int move = 0; move < 2; move++) {
            uint64_t from = B.now;
            output(&B, 1, session, d, 5, 1, LAC_FINISH_NONE);
            for (d = NULL; !d && B.now < from + 1000; d = next_sent(&B, LAC_MSG_DISPATCH))
                tick(&B, 1);
            ck_assert_ptr_nonnull(d);
            waits[move][run] = B.now - from;
            ck_assert_uint_ge(waits[move][run], move ? 50 : 25);
            ck_assert_uint_le(waits[move][run], move ? 151 : 76);
        }
        bench_close(&B);
    }
    bool differs = false;
    for (int run = 1; run < 8; run++)
        differs |= waits[0][run] != waits[0][0];
    ck_assert(differs);
}
END_TEST

START_TEST(suspects_run_one_a_group)
{
    bench_open(&B);
    join(&B, 1, "g0", 4);
    for (uint64_t i = 1; i <= 3; i++)
        submit_and_dispatch(&B, 50, i);
    uint64_t session = join(&B, 2, "g1", 4);
    lost(&B, LAC_PLANE_WORKER, 1);
    wait_ms(&B, 500);
    sent first = *expect(&B, LAC_MSG_DISPATCH);
    expect_none(&B, LAC_MSG_DISPATCH);
    submit_text(9, "an innocent one need not wait");
    expect(&B, LAC_MSG_DISPATCH);
    /* Once it gets beyond the place where it was, the next one may go there. */
    output(&B, 2, session, &first, 0, 1, LAC_FINISH_NONE);
    sent second = *expect(&B, LAC_MSG_DISPATCH);
    expect_none(&B, LAC_MSG_DISPATCH);
    output(&B, 2, session, &second, 0, 1, LAC_FINISH_STOP);
    expect(&B, LAC_MSG_DISPATCH);
    bench_close(&B);
}
END_TEST

START_TEST(two_flaps_are_no_crashes)
{
    bench_open(&B);
    lac_hello h = hello_of("g0", "tiny", 4);
    memset(h.incarnation, 5, 16);
    say_hello(&B, 1, &h);
    submit_text(1, "hello");
    expect(&B, LAC_MSG_DISPATCH);
    uint64_t session = 0;
    for (uint64_t peer = 2; peer <= 3; peer++) {
        lost(&B, LAC_PLANE_WORKER, peer - 1);
        wait_ms(&B, 1500);
        expect_none(&B, LAC_MSG_DISPATCH);
        say_hello(&B, peer, &h);
        session = expect(&B, LAC_MSG_HELLO_ACK)->session;
        ck_assert_uint_eq(expect_moved(&B)->attempt, peer);
    }
    ck_assert(metric(&B, "lacuna_crash_doubts_forgiven_total", "") == 2);
    const sent last = B.log[B.read - 1];
    output(&B, 3, session, &last, 0, 1, LAC_FINISH_STOP);
    expect(&B, LAC_MSG_DONE);
    bench_close(&B);
}
END_TEST

/* Starts group `peer` and lets it die under what it is given within the backoff. */
static void die_under_next(uint64_t peer)
{
    char name[16];
    snprintf(name, sizeof name, "g%d", (int)peer);
    forget(&B);
    lac_hello h = hello_of(name, "tiny", 4);
    say_hello(&B, peer, &h);
    uint64_t session = expect(&B, LAC_MSG_HELLO_ACK)->session;
    wait_ms(&B, 200);
    expect(&B, LAC_MSG_DISPATCH);
    lac_msg msg = {.envelope = {.type = LAC_MSG_FAULT, .epoch = EPOCH, .session = session}};
    msg.body.fault.status = LAC_EIO;
    event(&B, LAC_PLANE_WORKER, peer, &msg);
}

START_TEST(poison_is_kept_out_for_an_hour)
{
    bench_open(&B);
    submit_text(1, "poison");
    die_under_next(1);
    expect_none(&B, LAC_MSG_REFUSED);
    die_under_next(2);
    ck_assert_int_eq(expect(&B, LAC_MSG_REFUSED)->status, LAC_EPEER);
    join(&B, 3, "g3", 4);
    submit_text(2, "poison");
    const sent *no = expect(&B, LAC_MSG_REFUSED);
    ck_assert_int_eq(no->status, LAC_EPEER);
    ck_assert_uint_eq(no->retry_after_ms, LAC_QUARANTINE_MS);
    ck_assert(metric(&B, "lacuna_quarantine_refusals_total", "") == 1);
    submit_text(3, "poison ");
    expect(&B, LAC_MSG_DISPATCH);
    expect_none(&B, LAC_MSG_REFUSED);
    tick(&B, LAC_QUARANTINE_MS);
    ck_assert(metric(&B, "lacuna_quarantined_contents", "") == 0);
    forget(&B);
    submit_text(4, "poison");
    expect_none(&B, LAC_MSG_REFUSED);
    bench_close(&B);
}
END_TEST

START_TEST(quarantine_forgets_the_oldest)
{
    bench_open(&B);
    for (uint64_t i = 0; i <= LAC_QUARANTINE_MAX; i++) {
        char text[32];
        snprintf(text, sizeof text, "poison %d", (int)i);
        submit_text(i + 1, text);
        die_under_next(2 * i + 1);
        die_under_next(2 * i + 2);
        B.log_count = B.read = 0;
        B.notes[0] = 0;
        tick(&B, 1000); /* within the budget */
    }
    tick(&B, 100);
    ck_assert(metric(&B, "lacuna_quarantined_contents", "") == LAC_QUARANTINE_MAX);
    submit_text(5000, "poison 1");
    expect(&B, LAC_MSG_REFUSED);
    submit_text(5001, "poison 0");
    expect_none(&B, LAC_MSG_REFUSED);
    bench_close(&B);
}
END_TEST

START_TEST(a_crash_further_on_is_no_quarantine)
{
    bench_open(&B);
    submit_text(1, "unlucky");
    die_under_next(1);
    uint64_t session = join(&B, 2, "g2", 4);
    wait_ms(&B, 200);
    sent d = *expect(&B, LAC_MSG_DISPATCH);
    output(&B, 2, session, &d, 0, 3, LAC_FINISH_NONE);
    lost(&B, LAC_PLANE_WORKER, 2);
    wait_ms(&B, 2100);
    expect(&B, LAC_MSG_REFUSED);
    ck_assert(metric(&B, "lacuna_quarantined_contents", "") == 0);
    bench_close(&B);
}
END_TEST

START_TEST(what_killed_three_groups_is_not_moved)
{
    bench_open(&B);
    for (uint64_t peer = 1; peer <= 3; peer++) {
        submit_text(peer, "spreading");
        die_under_next(peer);
        if (peer < 3) {
            expect_none(&B, LAC_MSG_REFUSED);
            cancel(&B, 50, peer);
        }
    }
    B.read = 0;
    const sent *no = expect(&B, LAC_MSG_REFUSED);
    ck_assert_uint_eq(no->stream, 3);
    ck_assert_ptr_nonnull(strstr(no->reason, "not moved any more"));
    ck_assert(metric(&B, "lacuna_guarded_requests_total", "") == 1);
    bench_close(&B);
}
END_TEST

START_TEST(what_ends_well_is_not_guarded)
{
    bench_open(&B);
    for (uint64_t peer = 1; peer <= 3; peer++) {
        submit_text(peer, "popular");
        die_under_next(peer);
        expect_none(&B, LAC_MSG_REFUSED);
        char name[16];
        snprintf(name, sizeof name, "h%d", (int)peer);
        uint64_t session = join(&B, 10 + peer, name, 4);
        const sent *d = expect_moved(&B);
        output(&B, 10 + peer, session, d, 0, 1, LAC_FINISH_STOP);
        lost(&B, LAC_PLANE_WORKER, 10 + peer);
    }
    ck_assert(metric(&B, "lacuna_guarded_requests_total", "") == 0);
    bench_close(&B);
}
END_TEST

START_TEST(deaths_long_ago_do_not_count)
{
    bench_open(&B);
    for (uint64_t peer = 1; peer <= 3; peer++) {
        submit_text(peer, "spreading");
        die_under_next(peer);
        expect_none(&B, LAC_MSG_REFUSED);
        cancel(&B, 50, peer);
        tick(&B, LAC_GUARD_MS / 2 + 1000);
    }
    ck_assert(metric(&B, "lacuna_guarded_requests_total", "") == 0);
    bench_close(&B);
}
END_TEST

START_TEST(retries_have_a_budget)
{
    bench_open(&B);
    uint64_t peers[] = {1}, session = join(&B, 1, "g0", 8);
    int moved = 0, refused = 0;
    for (uint64_t i = 1; i <= 40; i++) { /* each has to move once */
        sent d = *submit_and_dispatch(&B, 50, i);
        lac_step_item full = {.request = d.request,
                              .attempt = d.attempt,
                              .finish = LAC_FINISH_ERROR,
                              .error = LAC_BUSY};
        output_item(&B, 1, session, &full);
        wait_ms(&B, 100);
        const sent *again = next_sent(&B, LAC_MSG_DISPATCH);
        if (!again)
            continue;
        moved++;
        output(&B, 1, session, again, 0, 1, LAC_FINISH_STOP);
    }
    ck_assert_int_eq(moved, LAC_RETRY_FLOOR);
    ck_assert(metric(&B, "lacuna_retry_budget_waits_total", "") == 40 - LAC_RETRY_FLOOR);
    /* The window moves on and lets others go; what waits too long is given up. */
    forget(&B);
    keep_alive(&B, 12000, 1, peers, &session);
    for (const sent *s; (s = next_sent(&B, LAC_MSG_REFUSED)); refused++)
        ck_assert_int_eq(s->status, LAC_BUSY);
    ck_assert_int_le(refused, 40 - LAC_RETRY_FLOOR);
    bench_close(&B);
}
END_TEST

TCase *retry_case(void)
{
    TCase *c = tcase_create("retry");
    tcase_add_test(c, backoff_doubles_and_jitters);
    tcase_add_test(c, suspects_run_one_a_group);
    tcase_add_test(c, two_flaps_are_no_crashes);
    tcase_add_test(c, poison_is_kept_out_for_an_hour);
    tcase_add_test(c, quarantine_forgets_the_oldest);
    tcase_add_test(c, a_crash_further_on_is_no_quarantine);
    tcase_add_test(c, what_killed_three_groups_is_not_moved);
    tcase_add_test(c, what_ends_well_is_not_guarded);
    tcase_add_test(c, deaths_long_ago_do_not_count);
    tcase_add_test(c, retries_have_a_budget);
    return c;
}
