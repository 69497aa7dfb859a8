/* Membership: who may come, who is believed, when somebody is given up. */
#include "harness.h"

static bench B;

START_TEST(hello_makes_ready)
{
    bench_open(&B);
    ck_assert(!lac_core_ready(B.core));
    join(&B, 1, "g0", 4);
    ck_assert(lac_core_ready(B.core));
    bench_close(&B);
}
END_TEST

START_TEST(hand_started_gets_an_incarnation)
{
    bench_open(&B);
    static const uint8_t zero[16];
    lac_hello h = hello_of("g0", "tiny", 4);
    say_hello(&B, 1, &h);
    const sent *ack = expect(&B, LAC_MSG_HELLO_ACK);
    ck_assert(memcmp(ack->incarnation, zero, 16) != 0);
    uint8_t given[16];
    memcpy(given, ack->incarnation, 16);
    uint64_t session = ack->session;
    /* The answer was lost: the same connection asks again and keeps the number. */
    say_hello(&B, 1, &h);
    ack = expect(&B, LAC_MSG_HELLO_ACK);
    ck_assert_mem_eq(ack->incarnation, given, 16);
    ck_assert_uint_ne(ack->session, session);
    /* Another connection with the number is the same start. */
    memcpy(h.incarnation, given, 16);
    say_hello(&B, 2, &h);
    ack = expect(&B, LAC_MSG_HELLO_ACK);
    ck_assert_uint_eq(ack->peer, 2);
    ck_assert_mem_eq(ack->incarnation, given, 16);
    bench_close(&B);
}
END_TEST

START_TEST(unknown_session_must_register_again)
{
    bench_open(&B);
    beat(&B, 9, 1234, (lac_heartbeat){0});
    ck_assert_uint_eq(expect(&B, LAC_MSG_REREGISTER)->peer, 9);
    uint64_t session = join(&B, 1, "g0", 4);
    beat(&B, 1, session + 1, (lac_heartbeat){0});
    expect(&B, LAC_MSG_REREGISTER);
    beat(&B, 2, session, (lac_heartbeat){0}); /* the session of another connection */
    expect(&B, LAC_MSG_REREGISTER);
    lac_msg msg = {.envelope = {.type = LAC_MSG_HEARTBEAT, .epoch = EPOCH - 1, .session = session}};
    event(&B, LAC_PLANE_WORKER, 1, &msg);
    expect(&B, LAC_MSG_REREGISTER);
    beat(&B, 1, session, (lac_heartbeat){0});
    expect_none(&B, LAC_MSG_REREGISTER);
    bench_close(&B);
}
END_TEST

START_TEST(silence_makes_suspect_then_dead)
{
    bench_open(&B);
    uint64_t session = join(&B, 1, "g0", 4);
    wait_ms(&B, 1900);
    ck_assert(lac_core_ready(B.core));
    wait_ms(&B, 200);
    ck_assert(!lac_core_ready(B.core));
    beat(&B, 1, session, (lac_heartbeat){0}); /* a sign of life */
    ck_assert(lac_core_ready(B.core));
    wait_ms(&B, 5900);
    forget(&B);
    expect_none(&B, LAC_MSG_DIE);
    wait_ms(&B, 200);
    expect(&B, LAC_MSG_DIE);
    ck_assert(metric(&B, "lacuna_group_verdicts_total", "event=\"expired\"") == 1);
    /* It wakes: nothing it says counts, and it cannot come back as what it was. */
    forget(&B);
    beat(&B, 1, session, (lac_heartbeat){0});
    expect(&B, LAC_MSG_DIE);
    ck_assert(!lac_core_ready(B.core));
    ck_assert(metric(&B, "lacuna_fenced_frames_total", "") == 1);
    bench_close(&B);
}
END_TEST

START_TEST(fenced_incarnation_never_returns)
{
    bench_open(&B);
    lac_hello h = hello_of("g0", "tiny", 4);
    memset(h.incarnation, 5, 16);
    say_hello(&B, 1, &h);
    expect(&B, LAC_MSG_HELLO_ACK);
    wait_ms(&B, 6100);
    forget(&B);
    say_hello(&B, 2, &h);
    expect(&B, LAC_MSG_DIE);
    expect_none(&B, LAC_MSG_HELLO_ACK);
    memset(h.incarnation, 6, 16); /* a new start may */
    say_hello(&B, 3, &h);
    expect(&B, LAC_MSG_HELLO_ACK);
    ck_assert(lac_core_ready(B.core));
    bench_close(&B);
}
END_TEST

START_TEST(hung_engine_is_fenced_in_20_s)
{
    bench_open(&B);
    uint64_t session = join(&B, 1, "g0", 4);
    beat(&B, 1, session, (lac_heartbeat){.busy = true, .step_counter = 3, .running = 1});
    for (int i = 0; i < 39; i++) {
        wait_ms(&B, 500);
        beat(&B, 1, session, (lac_heartbeat){.busy = true, .step_counter = 3, .running = 1});
        ck_assert_int_eq(lac_core_ready(B.core), (i + 1) * 500 < 3000);
        expect_none(&B, LAC_MSG_DIE);
    }
    wait_ms(&B, 600);
    expect(&B, LAC_MSG_DIE);
    ck_assert(metric(&B, "lacuna_group_verdicts_total", "event=\"hung\"") == 1);
    bench_close(&B);
}
END_TEST

START_TEST(slow_steps_are_not_hung)
{
    bench_open(&B);
    uint64_t session = join(&B, 1, "g0", 4);
    for (uint64_t i = 0; i < 100; i++) {
        wait_ms(&B, 500);
        beat(&B, 1, session, (lac_heartbeat){.busy = true, .step_counter = i / 5});
        ck_assert(lac_core_ready(B.core));
    }
    bench_close(&B);
}
END_TEST

START_TEST(second_process_of_a_name_is_rejected)
{
    bench_open(&B);
    join(&B, 1, "g0", 4);
    lac_hello h = hello_of("g0", "tiny", 4);
    h.pid = 4712;
    say_hello(&B, 2, &h);
    /* The older is asked first whether it is still there. */
    ck_assert_uint_eq(expect(&B, LAC_MSG_REREGISTER)->peer, 1);
    const sent *no = expect(&B, LAC_MSG_HELLO_REJECT);
    ck_assert_uint_eq(no->peer, 2);
    ck_assert_ptr_nonnull(strstr(no->reason, "g0"));
    ck_assert_ptr_nonnull(strstr(no->reason, "4711"));
    /* Once the older is known to be gone, the newer takes the name at once. */
    B.gone_plane = LAC_PLANE_WORKER;
    B.gone_peer = 1;
    say_hello(&B, 3, &h);
    ck_assert_uint_eq(expect(&B, LAC_MSG_HELLO_ACK)->peer, 3);
    ck_assert(lac_core_ready(B.core));
    bench_close(&B);
}
END_TEST

START_TEST(what_does_not_fit_is_rejected)
{
    bench_open(&B);
    join(&B, 1, "g0", 4);
    lac_hello h = hello_of("g1", "tiny", 4);
    h.model_digest.bytes[3] = 1;
    say_hello(&B, 2, &h);
    ck_assert_ptr_nonnull(strstr(expect(&B, LAC_MSG_HELLO_REJECT)->reason, "digest"));
    h = hello_of("g1", "tiny", 4);
    h.slots = LAC_SLOTS_MAX + 1;
    say_hello(&B, 2, &h);
    ck_assert_ptr_nonnull(strstr(expect(&B, LAC_MSG_HELLO_REJECT)->reason, "slots is 1025"));
    bench_close(&B);
}
END_TEST

START_TEST(lost_connection_has_two_seconds)
{
    bench_open(&B);
    lac_hello h = hello_of("g0", "tiny", 4);
    memset(h.incarnation, 5, 16);
    say_hello(&B, 1, &h);
    lost(&B, LAC_PLANE_WORKER, 1);
    ck_assert(!lac_core_ready(B.core));
    wait_ms(&B, 1500);
    say_hello(&B, 2, &h);
    ck_assert(lac_core_ready(B.core));
    lost(&B, LAC_PLANE_WORKER, 2);
    wait_ms(&B, 2100);
    forget(&B);
    say_hello(&B, 3, &h);
    expect(&B, LAC_MSG_DIE);
    bench_close(&B);
}
END_TEST

START_TEST(no_session_without_its_ack)
{
    bench_open(&B);
    lac_hello h = hello_of("g0", "tiny", 4);
    B.busy_plane = LAC_PLANE_WORKER;
    B.busy_peer = 1;
    say_hello(&B, 1, &h); /* the answer does not get through */
    B.busy_peer = 0;
    ck_assert(!lac_core_ready(B.core));
    lac_submit s = submit_of(1, "x");
    submit(&B, 50, &s);
    expect_none(&B, LAC_MSG_DISPATCH);
    say_hello(&B, 1, &h); /* it asks again */
    expect(&B, LAC_MSG_HELLO_ACK);
    expect(&B, LAC_MSG_DISPATCH);
    bench_close(&B);
}
END_TEST

START_TEST(silence_is_probed_before_the_lease)
{
    bench_open(&B);
    join(&B, 1, "g0", 4);
    wait_ms(&B, 900);
    expect_none(&B, LAC_MSG_REREGISTER);
    wait_ms(&B, 300);
    expect(&B, LAC_MSG_REREGISTER);
    wait_ms(&B, 800);
    expect_none(&B, LAC_MSG_REREGISTER); /* once a silence */
    bench_close(&B);
}
END_TEST

START_TEST(models_are_those_of_ready_groups)
{
    bench_open(&B);
    join(&B, 1, "g0", 4);
    lac_hello h = hello_of("g1", "other", 4);
    say_hello(&B, 2, &h);
    lac_submit s = submit_of(1, "x");
    strcpy(s.model, "nothing");
    forget(&B);
    submit(&B, 50, &s);
    const sent *no = expect(&B, LAC_MSG_REFUSED);
    ck_assert_int_eq(no->status, LAC_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(no->reason, "nothing"));
    strcpy(s.model, "other");
    submit(&B, 50, &s);
    ck_assert_str_eq(expect(&B, LAC_MSG_ACCEPTED)->model, "other");
    ck_assert_uint_eq(expect(&B, LAC_MSG_DISPATCH)->peer, 2);
    s.stream = 2;
    *s.model = 0; /* the default is the first that came */
    submit(&B, 50, &s);
    ck_assert_str_eq(expect(&B, LAC_MSG_ACCEPTED)->model, "tiny");
    ck_assert_uint_eq(expect(&B, LAC_MSG_DISPATCH)->peer, 1);
    bench_close(&B);
}
END_TEST

START_TEST(dead_groups_leave_status)
{
    bench_open(&B);
    join(&B, 1, "g0", 4);
    wait_ms(&B, 6100);
    ck_assert(metric(&B, "lacuna_groups", "state=\"fenced\"") == 1);
    wait_ms(&B, LAC_DEAD_SHOWN_MS + 200);
    ck_assert(metric(&B, "lacuna_groups", "state=\"fenced\"") == 0);
    bench_close(&B);
}
END_TEST

TCase *registry_case(void)
{
    TCase *c = tcase_create("registry");
    tcase_add_test(c, hello_makes_ready);
    tcase_add_test(c, hand_started_gets_an_incarnation);
    tcase_add_test(c, unknown_session_must_register_again);
    tcase_add_test(c, silence_makes_suspect_then_dead);
    tcase_add_test(c, fenced_incarnation_never_returns);
    tcase_add_test(c, hung_engine_is_fenced_in_20_s);
    tcase_add_test(c, slow_steps_are_not_hung);
    tcase_add_test(c, second_process_of_a_name_is_rejected);
    tcase_add_test(c, what_does_not_fit_is_rejected);
    tcase_add_test(c, lost_connection_has_two_seconds);
    tcase_add_test(c, no_session_without_its_ack);
    tcase_add_test(c, silence_is_probed_before_the_lease);
    tcase_add_test(c, models_are_those_of_ready_groups);
    tcase_add_test(c, dead_groups_leave_status);
    return c;
}
