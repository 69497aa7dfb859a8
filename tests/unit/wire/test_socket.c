/* Sockets in a real loop: slow and vanished peers are told apart, nothing stale reaches a restarted
 * router, and what is malformed is counted and leaves the connection usable. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "rig.h"
#include "wire/codec.h"

/* ---- peers ---- */

static struct {
    lac_socket *router, *dealer;
    uint64_t peer, lost;
    unsigned received, at_dealer, bad;
    uint64_t last_seq;
    lac_status bad_status;
} pair;

static void on_router(void *arg, uint64_t peer, const lac_msg *msg)
{
    (void)arg;
    pair.peer = peer;
    pair.last_seq = msg->envelope.seq;
    pair.received++;
}

static void on_dealer(void *arg, uint64_t peer, const lac_msg *msg)
{
    (void)arg;
    (void)msg;
    ck_assert_uint_eq(peer, 1);
    pair.at_dealer++;
}

static void on_lost(void *arg, uint64_t peer)
{
    (void)arg;
    pair.lost = peer;
}

static void on_bad(void *arg, uint64_t peer, const lac_envelope *envelope, const lac_error *e)
{
    (void)arg;
    (void)envelope;
    pair.peer = peer;
    pair.bad++;
    pair.bad_status = e->status;
}

static const lac_socket_events router_events = {
    .message = on_router, .bad = on_bad, .lost = on_lost};
static unsigned ups, downs;
static void on_up(void *arg)
{
    (void)arg;
    ups++;
}

static void on_down(void *arg, uint64_t peer)
{
    (void)arg;
    ck_assert_uint_eq(peer, 1);
    downs++;
}

static const lac_socket_events dealer_events = {
    .message = on_dealer, .lost = on_down, .connected = on_up};

static void try_send(uint64_t seq)
{
    lac_msg msg = cancel(seq);
    lac_socket_send(pair.dealer, 1, &msg, NULL);
}

static bool heard(void)
{
    if (!pair.received)
        try_send(1); /* refused with LAC_BUSY until the connection stands */
    return pair.received;
}

static void make_pair_of(lac_socket_kind kind, const char *endpoint)
{
    pair.router = open_socket(kind, endpoint, &router_events);
    pair.dealer = open_socket(LAC_SOCKET_CONNECT, lac_socket_endpoint(pair.router), &dealer_events);
    lac_msg msg = cancel(1);
    lac_status status = lac_socket_send(pair.dealer, 1, &msg, &err);
    ck_assert(status == LAC_BUSY || status == LAC_OK);
    run_until(heard);
    ck_assert_uint_eq(pair.peer, 1);
}

static void make_pair(const char *endpoint)
{
    make_pair_of(LAC_SOCKET_LISTEN_WORKERS, endpoint);
}

static bool is_lost(void)
{
    lac_msg msg = cancel(1);
    if (pair.lost)
        return true;
    lac_status status = lac_socket_send(pair.router, pair.peer, &msg, &err);
    ck_assert(status == LAC_OK || status == LAC_BUSY || status == LAC_EPEER);
    ck_assert_msg(pair.lost == 0, "told inside a send");
    return false;
}

START_TEST(a_peer_that_left_is_told)
{
    make_pair("tcp://127.0.0.1:0");
    lac_socket_close(&pair.dealer);
    run_until(is_lost);
    ck_assert_uint_eq(pair.lost, 1);
    lac_msg msg = cancel(1);
    ck_assert_int_eq(lac_socket_send(pair.router, 1, &msg, &err), LAC_EPEER);
    ck_assert_ptr_nonnull(strstr(err.text, "peer 1"));
    ck_assert_int_eq(lac_socket_send(pair.router, 99, &msg, &err), LAC_EPEER);

    /* Who comes back is somebody new. */
    pair.received = 0;
    pair.dealer = open_socket(LAC_SOCKET_CONNECT, lac_socket_endpoint(pair.router), &dealer_events);
    run_until(heard);
    ck_assert_uint_eq(pair.peer, 2);
    ck_assert_int_eq(lac_socket_send(pair.dealer, 2, &msg, &err), LAC_EPEER);
    lac_socket_close(&pair.dealer);
    lac_socket_close(&pair.router);
}
END_TEST

static uint64_t outage_end;
static bool outage_over(void)
{
    return lac_now_ms() >= outage_end;
}

static bool told_lost(void)
{
    return pair.lost != 0;
}

/* Nobody sends to it: that it left is told all the same, after what it said last. */
START_TEST(a_quiet_peer_that_left_is_told)
{
    make_pair("tcp://127.0.0.1:0");
    try_send(30);
    outage_end = lac_now_ms() + 50; /* until its frame is on the way */
    run_until(outage_over);
    lac_socket_close(&pair.dealer);
    run_until(told_lost);
    ck_assert_uint_eq(pair.lost, 1);
    ck_assert_uint_eq(pair.last_seq, 30);
    ck_assert_uint_eq(lac_socket_stats_get(pair.router).lost, 1);
    lac_socket_close(&pair.router);
}
END_TEST

/* A dealer in plain ZeroMQ that says one thing and reads nothing. */
static void *mute(const char *endpoint, void **context)
{
    lac_buf frame = {.cap = 1000};
    lac_msg msg = cancel(7);
    lac_codec_pack(&msg, &frame, NULL);
    *context = zmq_ctx_new();
    void *dealer = zmq_socket(*context, ZMQ_DEALER);
    int linger = 0, hwm = 10;
    zmq_setsockopt(dealer, ZMQ_LINGER, &linger, sizeof linger);
    zmq_setsockopt(dealer, ZMQ_RCVHWM, &hwm, sizeof hwm);
    zmq_connect(dealer, endpoint);
    zmq_send(dealer, frame.data, frame.length, 0);
    lac_buf_free(&frame);
    return dealer;
}

static bool mute_heard(void)
{
    return pair.last_seq == 7;
}

static bool dealer_got_some(void)
{
    return pair.at_dealer >= 3;
}

/* On the client plane: one who takes nothing answers no heartbeat either (it waits behind what is
 * not taken), so after HEARTBEAT_TIMEOUT it is gone instead of busy. Three seconds are too few to
 * fill a worker's queue of 1,000 under a sanitizer; 200 messages within fifteen are not. */
START_TEST(a_slow_peer_is_busy_and_others_are_not)
{
    make_pair_of(LAC_SOCKET_LISTEN_CLIENTS, "tcp://127.0.0.1:0");
    uint64_t quick = pair.peer;
    void *context, *slow = mute(lac_socket_endpoint(pair.router), &context);
    run_until(mute_heard);
    uint64_t slow_peer = pair.peer;
    ck_assert_uint_ne(slow_peer, quick);

    lac_msg big = {.envelope = {.type = LAC_MSG_DISPATCH}};
    char *text = lac_alloc(1 << 16, 1);
    big.body.dispatch =
        (lac_dispatch){.request = 1,
                       .prompt = {.kind = LAC_PROMPT_TEXT, .text = {text, 1 << 16}},
                       .sampling = {.top_p = 1, .repetition_penalty = 1, .has_seed = true}};
    lac_status status = LAC_OK;
    unsigned taken = 0;
    while (taken < 3000 &&
           (status = lac_socket_send(pair.router, slow_peer, &big, &err)) == LAC_OK) {
        taken++;
    }
    ck_assert_int_eq(status, LAC_BUSY);
    ck_assert_uint_eq(lac_socket_stats_get(pair.router).busy, 1);
    lac_msg msg = cancel(1);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(lac_socket_send(pair.router, quick, &msg, &err), LAC_OK);
    run_until(dealer_got_some);
    ck_assert_uint_eq(pair.lost, 0);
    zmq_close(slow);
    zmq_ctx_term(context);
    free(text);
    lac_socket_close(&pair.dealer);
    lac_socket_close(&pair.router);
}
END_TEST

static bool many_lost(void)
{
    return lac_socket_stats_get(pair.router).lost == 40;
}

/* Forty come, say one thing and go, many on a descriptor that was another's: each is told once, and
 * the one that stays never. */
START_TEST(peers_that_come_and_go_are_told_apart)
{
    make_pair("tcp://127.0.0.1:0");
    for (int i = 0; i < 40; i++) {
        pair.last_seq = 0;
        void *context, *dealer = mute(lac_socket_endpoint(pair.router), &context);
        if (i % 2)
            run_until(mute_heard); /* the others may be gone before they are heard */
        int linger = 1000;
        zmq_setsockopt(dealer, ZMQ_LINGER, &linger, sizeof linger);
        zmq_close(dealer);
        zmq_ctx_term(context);
        run_until(mute_heard);
    }
    run_until(many_lost);
    outage_end = lac_now_ms() + 100;
    run_until(outage_over);
    ck_assert_uint_eq(lac_socket_stats_get(pair.router).lost, 40);
    lac_msg msg = cancel(1);
    ck_assert_int_eq(lac_socket_send(pair.router, 1, &msg, &err), LAC_OK);
    lac_socket_close(&pair.dealer);
    lac_socket_close(&pair.router);
}
END_TEST

/* Once: a second one, sent because the first was not there yet, would look like a stale one. */
static bool at_twenty(void)
{
    static bool sent;
    lac_msg msg = cancel(20);
    if (!sent)
        sent = lac_socket_send(pair.dealer, 1, &msg, NULL) == LAC_OK;
    return pair.last_seq >= 20;
}

START_TEST(nothing_stale_reaches_a_restarted_router)
{
    make_pair("tcp://127.0.0.1:0");
    char endpoint[LAC_ENDPOINT_MAX + 1];
    strcpy(endpoint, lac_socket_endpoint(pair.router));
    lac_socket_close(&pair.router);
    outage_end = lac_now_ms() + 300;
    run_until(outage_over);
    ck_assert_uint_eq(ups, 1);
    ck_assert_uint_eq(downs, 1);
    for (uint64_t seq = 2; seq < 12; seq++) {
        lac_msg msg = cancel(seq);
        lac_status status = lac_socket_send(pair.dealer, 1, &msg, &err);
        ck_assert_msg(status == LAC_BUSY, "%d", status);
    }
    pair.received = 0;
    pair.last_seq = 0;
    pair.router = open_socket(LAC_SOCKET_LISTEN_WORKERS, endpoint, &router_events);
    run_until(at_twenty);
    ck_assert_uint_eq(pair.last_seq, 20);
    ck_assert_uint_eq(pair.received, 1); /* seq 2 to 11 are gone */
    ck_assert_uint_eq(ups, 2);
    ck_assert_uint_eq(downs, 1);
    lac_socket_close(&pair.dealer);
    lac_socket_close(&pair.router);
}
END_TEST

/* ---- malformed ---- */

static bool three_bad(void)
{
    return pair.bad >= 3;
}

START_TEST(malformed_messages_are_counted_and_the_connection_stays)
{
    pair.router = open_socket(LAC_SOCKET_LISTEN_CLIENTS, "tcp://127.0.0.1:0", &router_events);
    void *context, *dealer = mute(lac_socket_endpoint(pair.router), &context);
    run_until(mute_heard);
    uint64_t peer = pair.peer;
    zmq_send(dealer, "garbage", 7, 0);
    for (int i = 0; i < 5000; i++)
        zmq_send(dealer, "part", 4, ZMQ_SNDMORE);
    zmq_send(dealer, "last", 4, 0);
    zmq_send(dealer, "", 0, 0);
    run_until(three_bad);
    ck_assert_uint_eq(pair.bad, 3);
    ck_assert_uint_eq(pair.peer, peer);
    ck_assert_int_eq(pair.bad_status, LAC_EPROTO);
    ck_assert_uint_eq(lac_socket_stats_get(pair.router).multipart, 1);
    ck_assert_uint_eq(lac_socket_stats_get(pair.router).bad, 3);
    lac_msg msg = cancel(1);
    ck_assert_int_eq(lac_socket_send(pair.router, peer, &msg, &err), LAC_OK);
    zmq_close(dealer);
    zmq_ctx_term(context);
    lac_socket_close(&pair.router);
}
END_TEST

/* A frame over the cap costs its sender the connection; the others are not touched. */
START_TEST(an_oversize_frame_ends_its_connection)
{
    pair.router = open_socket(LAC_SOCKET_LISTEN_CLIENTS, "tcp://127.0.0.1:0", &router_events);
    void *context, *dealer = mute(lac_socket_endpoint(pair.router), &context);
    run_until(mute_heard);
    uint64_t first = pair.peer;
    char *big = lac_alloc(LAC_CLIENT_FRAME_MAX + 1, 1);
    zmq_send(dealer, big, LAC_CLIENT_FRAME_MAX + 1, 0);
    run_until(is_lost);
    ck_assert_uint_eq(pair.lost, first);
    ck_assert_uint_eq(pair.bad, 0);
    pair.last_seq = 0;
    void *second_context, *second = mute(lac_socket_endpoint(pair.router), &second_context);
    run_until(mute_heard);
    ck_assert_uint_gt(pair.peer, first);
    zmq_close(dealer);
    zmq_ctx_term(context);
    zmq_close(second);
    zmq_ctx_term(second_context);
    free(big);
    lac_socket_close(&pair.router);
}
END_TEST

/* ---- opening ---- */

START_TEST(listening_wide_is_refused_by_name)
{
    static const char *const wide[] = {"tcp://*:0", "tcp://0.0.0.0:0", "tcp://[::]:0"};
    lac_socket *s = NULL;
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(lac_socket_open(wire, &loop, LAC_SOCKET_LISTEN_CLIENTS, wide[i], false,
                                         &router_events, &s, &err),
                         LAC_EREFUSED);
        ck_assert_msg(strstr(err.text, wide[i]) != NULL, "%s", err.text);
        ck_assert_ptr_null(s);
    }
    lac_status status = lac_socket_open(wire, &loop, LAC_SOCKET_LISTEN_CLIENTS, wide[1], true,
                                        &router_events, &s, &err);
    ck_assert_int_eq(status, LAC_OK);
    lac_socket *other = NULL;
    char taken[LAC_ENDPOINT_MAX + 1];
    snprintf(taken, sizeof taken, "tcp://127.0.0.1:%s", strrchr(lac_socket_endpoint(s), ':') + 1);
    ck_assert_int_eq(lac_socket_open(wire, &loop, LAC_SOCKET_LISTEN_CLIENTS, taken, false,
                                     &router_events, &other, &err),
                     LAC_EEXIST);
    ck_assert_msg(strstr(err.text, taken) != NULL, "%s", err.text);
    lac_socket_close(&s);
    lac_socket_close(&s);
    ck_assert_int_eq(
        lac_socket_open(wire, &loop, LAC_SOCKET_CONNECT, "7070", false, &dealer_events, &s, &err),
        LAC_EINVAL);
}
END_TEST

START_TEST(over_a_local_path)
{
    char endpoint[100];
    snprintf(endpoint, sizeof endpoint, "ipc:///tmp/lacuna-test-%d", (int)getpid());
    make_pair(endpoint);
    lac_socket_close(&pair.dealer);
    lac_socket_close(&pair.router);
}
END_TEST

/* A callback may close the socket it was called for. */
static void close_inside(void *arg, uint64_t peer, const lac_msg *msg)
{
    (void)arg, (void)peer, (void)msg;
    pair.received++;
    lac_socket_close(&pair.router);
}

START_TEST(closing_from_a_callback)
{
    lac_socket_events events = {.message = close_inside};
    pair.router = open_socket(LAC_SOCKET_LISTEN_WORKERS, "tcp://127.0.0.1:0", &events);
    pair.dealer = open_socket(LAC_SOCKET_CONNECT, lac_socket_endpoint(pair.router), &dealer_events);
    run_until(heard);
    ck_assert_ptr_null(pair.router);
    lac_socket_close(&pair.dealer);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {a_peer_that_left_is_told,
                                  a_quiet_peer_that_left_is_told,
                                  peers_that_come_and_go_are_told_apart,
                                  a_slow_peer_is_busy_and_others_are_not,
                                  nothing_stale_reaches_a_restarted_router,
                                  malformed_messages_are_counted_and_the_connection_stays,
                                  an_oversize_frame_ends_its_connection,
                                  listening_wide_is_refused_by_name,
                                  over_a_local_path,
                                  closing_from_a_callback,
                                  NULL};
    return run_suite("socket", tests);
}
