/* The session's two tables and its fence. */
#include <string.h>

#include "link/session.h"
#include "suites.h"

static lac_session serving(void)
{
    lac_session s;
    lac_hello_ack ack = {.session = 7, .epoch = 5, .heartbeat_ms = 100, .lease_ms = 900};
    memset(ack.incarnation, 0xab, sizeof(ack.incarnation));
    lac_session_init(&s);
    ck_assert(lac_session_event(&s, LAC_LINK_EV_SAID_HELLO));
    ck_assert_int_eq(lac_session_accept(&s, &ack, NULL), LAC_OK);
    ck_assert_int_eq(s.state, LAC_LINK_SERVING);
    return s;
}

START_TEST(hello_then_ack_serves)
{
    lac_session s = serving();
    ck_assert_uint_eq(s.session, 7);
    ck_assert_uint_eq(s.epoch, 5);
    ck_assert_uint_eq(s.heartbeat_ms, 100);
    ck_assert_uint_eq(s.lease_ms, 900);
    ck_assert_uint_eq(s.incarnation[15], 0xab);
    const lac_link_duties *duties = lac_session_duties(&s);
    ck_assert(duties->beats && duties->reports && duties->takes_work && !duties->says_hello);
}
END_TEST

START_TEST(a_lost_session_is_made_again)
{
    static const lac_link_event losses[] = {LAC_LINK_EV_REREGISTER, LAC_LINK_EV_SILENT};
    for (int i = 0; i < 2; i++) {
        lac_session s = serving();
        ck_assert(lac_session_event(&s, losses[i]));
        ck_assert_int_eq(s.state, LAC_LINK_DISCONNECTED);
        ck_assert(lac_session_duties(&s)->says_hello && !lac_session_duties(&s)->reports);
        ck_assert(lac_session_event(&s, LAC_LINK_EV_SAID_HELLO));
        /* Answers to what was sent before the Hello do not cause a second one. */
        ck_assert(!lac_session_event(&s, LAC_LINK_EV_REREGISTER));
        ck_assert(lac_session_event(&s, LAC_LINK_EV_SILENT)); /* but silence does */
        ck_assert_int_eq(s.state, LAC_LINK_DISCONNECTED);
    }
}
END_TEST

START_TEST(a_drain_outlives_a_reconnect)
{
    lac_session s = serving();
    ck_assert(lac_session_event(&s, LAC_LINK_EV_DRAIN));
    ck_assert_int_eq(s.state, LAC_LINK_DRAINING);
    ck_assert(lac_session_duties(&s)->reports && !lac_session_duties(&s)->takes_work);
    lac_session_event(&s, LAC_LINK_EV_REREGISTER);
    ck_assert_int_eq(s.state, LAC_LINK_DISCONNECTED);
    lac_session_event(&s, LAC_LINK_EV_SAID_HELLO);
    lac_hello_ack ack = {.session = 8, .epoch = 5};
    ck_assert_int_eq(lac_session_accept(&s, &ack, NULL), LAC_OK);
    ck_assert_int_eq(s.state, LAC_LINK_DRAINING);
    ck_assert(lac_session_event(&s, LAC_LINK_EV_DRAINED));
    ck_assert_int_eq(s.state, LAC_LINK_STOPPED);
}
END_TEST

START_TEST(a_drain_before_the_first_session_waits_for_it)
{
    lac_session s;
    lac_session_init(&s);
    ck_assert(!lac_session_event(&s, LAC_LINK_EV_DRAIN));
    lac_session_event(&s, LAC_LINK_EV_SAID_HELLO);
    lac_hello_ack ack = {.session = 1, .epoch = 1};
    ck_assert_int_eq(lac_session_accept(&s, &ack, NULL), LAC_OK);
    ck_assert_int_eq(s.state, LAC_LINK_DRAINING);
}
END_TEST

START_TEST(every_state_ends_and_stopped_stays)
{
    for (int to = 0; to < LAC_LINK_STATES; to++) {
        lac_session s;
        lac_session_init(&s);
        s.state = (lac_link_state)to;
        lac_session_event(&s, LAC_LINK_EV_END);
        ck_assert_int_eq(s.state, LAC_LINK_STOPPED);
        s.draining = true;
        for (int event = 0; event < LAC_LINK_EVENTS; event++)
            ck_assert(!lac_session_event(&s, (lac_link_event)event));
        const lac_link_duties *duties = lac_session_duties(&s);
        ck_assert(!duties->says_hello && !duties->beats && !duties->reports && !duties->takes_work);
    }
}
END_TEST

static lac_status admit(const lac_session *s, lac_msg_type type, uint64_t epoch, uint64_t session)
{
    lac_envelope envelope = {.type = (uint16_t)type, .epoch = epoch, .session = session};
    lac_error err = {.status = LAC_OK};
    lac_status status = lac_session_admit(s, &envelope, &err);
    ck_assert_int_eq(err.status, status);
    return status;
}

START_TEST(old_epochs_and_other_sessions_are_fenced)
{
    lac_session s = serving();
    ck_assert_int_eq(admit(&s, LAC_MSG_DISPATCH, 5, 7), LAC_OK);
    ck_assert_int_eq(admit(&s, LAC_MSG_DISPATCH, 4, 7), LAC_EEPOCH);
    ck_assert_int_eq(admit(&s, LAC_MSG_DISPATCH, 5, 6), LAC_EEPOCH);
    ck_assert_int_eq(admit(&s, LAC_MSG_DIE, 4, 7), LAC_EEPOCH);
    ck_assert_int_eq(admit(&s, LAC_MSG_DIE, 5, 0), LAC_OK);
    ck_assert_int_eq(admit(&s, LAC_MSG_REREGISTER, 6, 0), LAC_OK);
    ck_assert_int_eq(admit(&s, LAC_MSG_HELLO_ACK, 6, 9), LAC_OK);
    lac_session_event(&s, LAC_LINK_EV_SILENT);
    ck_assert_int_eq(admit(&s, LAC_MSG_DISPATCH, 5, 7), LAC_EEPOCH);
}
END_TEST

START_TEST(an_ack_of_a_lower_epoch_changes_nothing)
{
    lac_session s = serving(), before = s;
    lac_hello_ack ack = {.session = 9, .epoch = 4};
    lac_error err;
    ck_assert_int_eq(lac_session_accept(&s, &ack, &err), LAC_EEPOCH);
    ck_assert_mem_eq(&s, &before, sizeof(s));
    ck_assert_ptr_nonnull(strstr(err.text, "epoch 4"));
}
END_TEST

START_TEST(envelopes_count_up_within_a_session)
{
    lac_session s = serving();
    lac_envelope e = lac_session_stamp(&s, LAC_MSG_HEARTBEAT);
    ck_assert(e.seq == 1 && e.session == 7 && e.epoch == 5 && e.major == LAC_PROTO_MAJOR);
    ck_assert_uint_eq(lac_session_stamp(&s, LAC_MSG_HEARTBEAT).seq, 2);
    e = lac_session_stamp(&s, LAC_MSG_HELLO);
    ck_assert(e.session == 0 && e.seq == 1);
    lac_hello_ack ack = {.session = 8, .epoch = 5};
    ck_assert_int_eq(lac_session_accept(&s, &ack, NULL), LAC_OK);
    ck_assert_uint_eq(lac_session_stamp(&s, LAC_MSG_STEP_OUTPUT).seq, 1);
}
END_TEST

Suite *suite_session(void)
{
    Suite *suite = suite_create("session");
    TCase *tc = tcase_create("session");
    tcase_add_test(tc, hello_then_ack_serves);
    tcase_add_test(tc, a_lost_session_is_made_again);
    tcase_add_test(tc, a_drain_outlives_a_reconnect);
    tcase_add_test(tc, a_drain_before_the_first_session_waits_for_it);
    tcase_add_test(tc, every_state_ends_and_stopped_stays);
    tcase_add_test(tc, old_epochs_and_other_sessions_are_fenced);
    tcase_add_test(tc, an_ack_of_a_lower_epoch_changes_nothing);
    tcase_add_test(tc, envelopes_count_up_within_a_session);
    suite_add_tcase(suite, tc);
    return suite;
}
