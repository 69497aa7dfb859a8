/* Many messages through a socket in a real loop: nothing stalls, where the naive pattern does. */
#include <pthread.h>
#include <string.h>
#include <zmq.h>

#include "rig.h"
#include "wire/codec.h"

enum { DEALERS = 4, MESSAGES = 80000, WINDOW = 64 };

static struct {
    lac_socket *router;
    unsigned echoed, finished;
    char endpoint[LAC_ENDPOINT_MAX + 1];
} echo;

static void echo_back(void *arg, uint64_t peer, const lac_msg *msg)
{
    (void)arg;
    ck_assert_int_eq(lac_socket_send(echo.router, peer, msg, &err), LAC_OK);
    echo.echoed++;
}

/* A dealer of plain ZeroMQ in a thread and context of its own, with WINDOW messages on the way. */
static void *dealer_thread(void *arg)
{
    lac_buf frame = {.cap = 1000};
    lac_msg msg = cancel(1);
    lac_codec_pack(&msg, &frame, NULL);
    void *context = zmq_ctx_new(), *dealer = zmq_socket(context, ZMQ_DEALER);
    int linger = 0;
    zmq_setsockopt(dealer, ZMQ_LINGER, &linger, sizeof linger);
    zmq_connect(dealer, echo.endpoint);
    unsigned sent = 0, received = 0;
    char data[256];
    while (received < MESSAGES / DEALERS) {
        while (sent < MESSAGES / DEALERS && sent < received + WINDOW) {
            zmq_send(dealer, frame.data, frame.length, 0);
            sent++;
        }
        if (zmq_recv(dealer, data, sizeof data, 0) >= 0)
            received++;
    }
    zmq_close(dealer);
    zmq_ctx_term(context);
    lac_buf_free(&frame);
    __atomic_fetch_add((unsigned *)arg, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

/* A pause without a single message, while all dealers wait for answers, is a stall: the loop sleeps
 * on messages it has. */
static bool all_echoed(void)
{
    static unsigned last_echoed;
    static uint64_t last_fired;
    if (timer_fired != last_fired) {
        ck_assert_msg(echo.echoed != last_echoed, "stalled after %u messages", echo.echoed);
        last_fired = timer_fired;
        last_echoed = echo.echoed;
    }
    return __atomic_load_n(&echo.finished, __ATOMIC_SEQ_CST) == DEALERS;
}

START_TEST(eighty_thousand_messages_without_a_stall)
{
    lac_socket_events events = {.message = echo_back};
    echo.router = open_socket(LAC_SOCKET_LISTEN_WORKERS, "tcp://127.0.0.1:0", &events);
    strcpy(echo.endpoint, lac_socket_endpoint(echo.router));
    pthread_t threads[DEALERS];
    for (int i = 0; i < DEALERS; i++)
        pthread_create(&threads[i], NULL, dealer_thread, &echo.finished);
    run_with_pauses(all_echoed, 3000);
    for (int i = 0; i < DEALERS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(echo.echoed, MESSAGES);
    ck_assert_uint_eq(lac_socket_stats_get(echo.router).received, MESSAGES);
    ck_assert_uint_eq(lac_socket_stats_get(echo.router).bad, 0);
    lac_socket_close(&echo.router);
    ck_assert_ptr_null(echo.router);
}
END_TEST

/* The same traffic through the pattern this one replaces, one receive a wake-up of the descriptor.
 * It stalls, which shows that the test above can fail. */
static struct {
    void *zmq;
    unsigned echoed;
} naive;

static void naive_poll(uv_poll_t *handle, int status, int events)
{
    (void)handle, (void)status, (void)events;
    char id[255], data[256];
    int id_length = zmq_recv(naive.zmq, id, sizeof id, ZMQ_DONTWAIT);
    int length = id_length < 0 ? -1 : zmq_recv(naive.zmq, data, sizeof data, ZMQ_DONTWAIT);
    if (length < 0)
        return;
    zmq_send(naive.zmq, id, (size_t)id_length, ZMQ_SNDMORE | ZMQ_DONTWAIT);
    zmq_send(naive.zmq, data, (size_t)length, ZMQ_DONTWAIT);
    naive.echoed++;
}

static void *naive_dealer(void *arg)
{
    void *dealer = arg;
    char data[256];
    for (unsigned sent = 0, received = 0; received < MESSAGES / DEALERS;) {
        while (sent < received + WINDOW) {
            zmq_send(dealer, "x", 1, ZMQ_DONTWAIT);
            sent++;
        }
        if (zmq_recv(dealer, data, sizeof data, 0) < 0)
            break; /* two seconds without an answer */
        received++;
    }
    return NULL;
}

START_TEST(the_naive_pattern_stalls)
{
    void *context = zmq_ctx_new();
    naive.zmq = zmq_socket(context, ZMQ_ROUTER);
    ck_assert_int_eq(zmq_bind(naive.zmq, "tcp://127.0.0.1:*"), 0);
    char endpoint[256];
    size_t size = sizeof endpoint;
    zmq_getsockopt(naive.zmq, ZMQ_LAST_ENDPOINT, endpoint, &size);
    int fd, linger = 0, wait_ms = 2000;
    size = sizeof fd;
    zmq_getsockopt(naive.zmq, ZMQ_FD, &fd, &size);
    static uv_poll_t poll; /* until the loop lets go of it */
    uv_poll_init(&loop, &poll, fd);
    uv_poll_start(&poll, UV_READABLE, naive_poll);
    void *dealers[DEALERS];
    pthread_t threads[DEALERS];
    for (int i = 0; i < DEALERS; i++) {
        dealers[i] = zmq_socket(context, ZMQ_DEALER);
        zmq_setsockopt(dealers[i], ZMQ_LINGER, &linger, sizeof linger);
        zmq_setsockopt(dealers[i], ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms);
        zmq_connect(dealers[i], endpoint);
        pthread_create(&threads[i], NULL, naive_dealer, dealers[i]);
    }
    uint64_t end = lac_now_ms() + 3000;
    while (lac_now_ms() < end && naive.echoed < MESSAGES)
        uv_run(&loop, UV_RUN_NOWAIT);
    for (int i = 0; i < DEALERS; i++) {
        pthread_join(threads[i], NULL);
        zmq_close(dealers[i]);
    }
    uv_close((uv_handle_t *)&poll, NULL);
    zmq_setsockopt(naive.zmq, ZMQ_LINGER, &linger, sizeof linger);
    zmq_close(naive.zmq);
    zmq_ctx_term(context);
    ck_assert_uint_lt(naive.echoed, MESSAGES);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {eighty_thousand_messages_without_a_stall,
                                  the_naive_pattern_stalls, NULL};
    return run_suite("flood", tests);
}
