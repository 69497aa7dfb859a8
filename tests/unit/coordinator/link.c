/* Both planes over real sockets: what decodes becomes an event, what does not is answered, counted
 * and in the end ignored. */
#include "link/link.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>
#include <zmq.h>

#include "wire/codec.h"

static uv_loop_t loop;
static lac_wire *wire;
static lac_metrics *metrics;
static lac_link *links;
static void *context; /* of the peers */

static int events, lost;
static lac_plane last_plane;
static uint64_t last_peer;
static uint16_t last_type;

static void on_event(void *arg, const lac_event *event)
{
    (void)arg;
    if (event->kind == LAC_EVENT_LOST) {
        lost++;
        return;
    }
    events++;
    last_plane = event->plane;
    last_peer = event->peer;
    last_type = event->msg->envelope.type;
}

static void setup(void)
{
    lac_error err = {0};
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(lac_wire_create(&wire, &err), LAC_OK);
    metrics = lac_metrics_create(64);
    lac_link_options options = {
        .workers = "tcp://127.0.0.1:0", .clients = "tcp://127.0.0.1:0", .epoch = 9};
    ck_assert_msg(lac_link_create(wire, &loop, &options, metrics, on_event, NULL, &links, &err) ==
                      LAC_OK,
                  "%s", err.text);
    context = zmq_ctx_new();
}

static void teardown(void)
{
    zmq_ctx_term(context);
    lac_link_destroy(&links);
    lac_link_destroy(&links); /* a no-op */
    uv_run(&loop, UV_RUN_DEFAULT);
    lac_wire_destroy(&wire);
    lac_metrics_destroy(&metrics);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

static void *dial(lac_plane plane)
{
    void *socket = zmq_socket(context, ZMQ_DEALER);
    int linger = 0;
    zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger);
    ck_assert_int_eq(zmq_connect(socket, lac_link_endpoint(links, plane)), 0);
    return socket;
}

static void send_frame(void *socket, const void *data, size_t length)
{
    ck_assert_int_eq(zmq_send(socket, data, length, 0), (int)length);
}

static void send_msg(void *socket, const lac_msg *msg)
{
    lac_buf frame = {0};
    lac_error err = {0};
    ck_assert_msg(lac_codec_pack(msg, &frame, &err) == LAC_OK, "%s", err.text);
    send_frame(socket, frame.data, frame.length);
    lac_buf_free(&frame);
}

/* Turns the loop until the socket has an answer or half a second passed. */
static bool receive(void *socket, lac_msg *out)
{
    char frame[4096];
    for (int i = 0; i < 100; i++) {
        for (int k = 0; k < 20; k++)
            uv_run(&loop, UV_RUN_NOWAIT);
        zmq_pollitem_t item = {.socket = socket, .events = ZMQ_POLLIN};
        if (zmq_poll(&item, 1, 5) > 0) {
            int got = zmq_recv(socket, frame, sizeof frame, 0);
            ck_assert_int_gt(got, 0);
            lac_error err = {0};
            ck_assert_msg(lac_codec_unpack(frame, (size_t)got, out, &err) == LAC_OK, "%s",
                          err.text);
            return true;
        }
    }
    return false;
}

static bool turn_until(const int *count, int wanted)
{
    for (int i = 0; i < 2000 && *count < wanted; i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
        uv_sleep(1);
    }
    return *count >= wanted;
}

static double counted(const char *name, const char *labels)
{
    return lac_metric_value(lac_metrics_series(metrics, LAC_METRIC_COUNTER, name, "", labels));
}

static lac_msg query(void)
{
    return (lac_msg){.envelope = {.major = LAC_PROTO_MAJOR, .type = LAC_MSG_STATUS_QUERY, .seq = 1},
                     .body.status_query.stream = 5};
}

START_TEST(message_becomes_event_and_action_becomes_frame)
{
    void *client = dial(LAC_PLANE_CLIENT);
    lac_msg msg = query();
    send_msg(client, &msg);
    ck_assert(turn_until(&events, 1));
    ck_assert_int_eq(last_plane, LAC_PLANE_CLIENT);
    ck_assert_uint_eq(last_type, LAC_MSG_STATUS_QUERY);
    lac_msg reply = {.envelope.type = LAC_MSG_DONE,
                     .body.done = {.stream = 5, .finish = LAC_FINISH_STOP}};
    lac_action action = {.plane = LAC_PLANE_CLIENT, .peer = last_peer, .msg = &reply};
    ck_assert_int_eq(lac_link_send(links, &action), LAC_OK);
    lac_msg got;
    ck_assert(receive(client, &got));
    ck_assert_uint_eq(got.envelope.type, LAC_MSG_DONE);
    ck_assert_uint_eq(got.envelope.seq, 1);
    ck_assert_uint_eq(got.body.done.stream, 5);
    lac_msg_free(&got);
    action.peer = 999999;
    ck_assert_int_eq(lac_link_send(links, &action), LAC_EPEER);
    zmq_close(client);
}
END_TEST

START_TEST(planes_are_apart)
{
    void *worker = dial(LAC_PLANE_WORKER);
    lac_msg msg = {.envelope = {.major = LAC_PROTO_MAJOR, .type = LAC_MSG_HEARTBEAT, .session = 3}};
    send_msg(worker, &msg);
    ck_assert(turn_until(&events, 1));
    ck_assert_int_eq(last_plane, LAC_PLANE_WORKER);
    zmq_close(worker);
}
END_TEST

START_TEST(bad_client_frame_is_refused_with_the_reason)
{
    void *client = dial(LAC_PLANE_CLIENT);
    send_frame(client, "this is no frame", 16);
    lac_msg got;
    ck_assert(receive(client, &got));
    ck_assert_uint_eq(got.envelope.type, LAC_MSG_REFUSED);
    ck_assert_uint_eq(got.body.refused.stream, 0);
    ck_assert_int_ne(got.body.refused.status, LAC_OK);
    ck_assert_uint_gt(strlen(got.body.refused.reason), 0);
    lac_msg_free(&got);
    ck_assert(counted("lacuna_bad_frames_total", "plane=\"client\"") == 1);
    ck_assert_int_eq(events, 0);
    /* The connection is not held against it. */
    lac_msg msg = query();
    send_msg(client, &msg);
    ck_assert(turn_until(&events, 1));
    zmq_close(client);
}
END_TEST

START_TEST(another_major_version_is_told_ours)
{
    void *worker = dial(LAC_PLANE_WORKER);
    lac_buf frame = {0};
    lac_error err = {0};
    lac_msg msg = {.envelope = {.major = LAC_PROTO_MAJOR, .type = LAC_MSG_HEARTBEAT, .session = 3}};
    ck_assert_int_eq(lac_codec_pack(&msg, &frame, &err), LAC_OK);
    /* Whatever the layout, a frame of nonsense has no major of ours. */
    memset(frame.data, 0x08, frame.length);
    send_frame(worker, frame.data, frame.length);
    lac_buf_free(&frame);
    lac_msg got;
    ck_assert(receive(worker, &got));
    ck_assert_uint_eq(got.envelope.type, LAC_MSG_HELLO_REJECT);
    ck_assert_uint_eq(got.envelope.epoch, 9);
    ck_assert_uint_eq(got.body.hello_reject.major_max, LAC_PROTO_MAJOR);
    lac_msg_free(&got);
    zmq_close(worker);
}
END_TEST

START_TEST(too_many_bad_frames_are_ignored_with_all_else)
{
    void *client = dial(LAC_PLANE_CLIENT);
    for (int i = 0; i <= LAC_BAD_FRAMES_MAX; i++)
        send_frame(client, "nonsense", 8);
    int refused = 0;
    lac_msg got;
    while (receive(client, &got)) {
        refused++;
        lac_msg_free(&got);
    }
    ck_assert_int_eq(refused, LAC_BAD_FRAMES_MAX);
    lac_msg msg = query();
    send_msg(client, &msg);
    ck_assert(!receive(client, &got));
    ck_assert_int_eq(events, 0);
    ck_assert(counted("lacuna_ignored_frames_total", "plane=\"client\"") == 1);
    /* Others are heard. */
    void *other = dial(LAC_PLANE_CLIENT);
    send_msg(other, &msg);
    ck_assert(turn_until(&events, 1));
    zmq_close(other);
    zmq_close(client);
}
END_TEST

START_TEST(gone_peer_is_found_by_a_send)
{
    void *client = dial(LAC_PLANE_CLIENT);
    lac_msg msg = query();
    send_msg(client, &msg);
    ck_assert(turn_until(&events, 1));
    zmq_close(client);
    lac_msg reply = {.envelope.type = LAC_MSG_DONE,
                     .body.done = {.stream = 5, .finish = LAC_FINISH_STOP}};
    lac_action action = {.plane = LAC_PLANE_CLIENT, .peer = last_peer, .msg = &reply};
    lac_status status = LAC_OK;
    for (int i = 0; i < 500 && status != LAC_EPEER; i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
        uv_sleep(2);
        status = lac_link_send(links, &action);
    }
    ck_assert_int_eq(status, LAC_EPEER);
}
END_TEST

START_TEST(bad_endpoints_leave_nothing_open)
{
    lac_error err = {0};
    lac_link *second = NULL;
    lac_link_options options = {.workers = lac_link_endpoint(links, LAC_PLANE_WORKER),
                                .clients = "tcp://127.0.0.1:0"};
    ck_assert_int_eq(lac_link_create(wire, &loop, &options, metrics, on_event, NULL, &second, &err),
                     LAC_EEXIST);
    ck_assert_ptr_nonnull(strstr(err.text, options.workers));
    options.workers = "tcp://0.0.0.0:0";
    ck_assert_int_eq(lac_link_create(wire, &loop, &options, metrics, on_event, NULL, &second, &err),
                     LAC_EREFUSED);
    ck_assert_ptr_null(second);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("coordinator_link");
    TCase *c = tcase_create("link");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 60);
    tcase_add_test(c, message_becomes_event_and_action_becomes_frame);
    tcase_add_test(c, planes_are_apart);
    tcase_add_test(c, bad_client_frame_is_refused_with_the_reason);
    tcase_add_test(c, another_major_version_is_told_ours);
    tcase_add_test(c, too_many_bad_frames_are_ignored_with_all_else);
    tcase_add_test(c, gone_peer_is_found_by_a_send);
    tcase_add_test(c, bad_endpoints_leave_nothing_open);
    suite_add_tcase(suite, c);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
