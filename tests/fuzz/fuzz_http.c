/* Any bytes as what a client sends: through the parser whole and byte by byte (both must agree),
 * and through a real connection with a core that answers at once. The connection must answer in
 * HTTP or close, and be gone when its client is. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "parts.h"

enum { TURNS_MAX = 200, BODY_MAX = 4096 };

static uv_loop_t loop;
static lac_metrics *metrics;
static lac_frontend *frontend;
static unsigned refuse;

static void deliver_tokens(uint64_t stream)
{
    lac_msg msg = {.envelope.type = LAC_MSG_TOKENS};
    msg.body.tokens.stream = stream;
    msg.body.tokens.chunk.text = (lac_span){.data = "word", .length = 4};
    lac_frontend_deliver(frontend, &msg);
}

static void on_emit(void *arg, const lac_msg *msg)
{
    (void)arg;
    if (msg->envelope.type != LAC_MSG_SUBMIT)
        return;
    uint64_t stream = msg->body.submit.stream;
    lac_msg answer = {.envelope.type = LAC_MSG_DONE};
    answer.body.done.stream = stream;
    answer.body.done.finish = LAC_FINISH_STOP;
    if (++refuse % 3 == 0) {
        answer.envelope.type = LAC_MSG_REFUSED;
        answer.body.refused = (lac_refused){.stream = stream,
                                            .status = LAC_BUSY,
                                            .cause = LAC_CAUSE_QUOTA,
                                            .quota = {.tokens_limit = 1}};
    } else {
        deliver_tokens(stream);
    }
    lac_frontend_deliver(frontend, &answer);
}

static bool on_yes(void *arg)
{
    (void)arg;
    return true;
}

static void on_list(void *arg, lac_buf *out)
{
    (void)arg;
    lac_buf_text(out, "{\"id\":\"tiny\"}");
}

static bool on_health(void *arg, lac_buf *out)
{
    on_list(arg, out);
    return true;
}

static lac_status on_feedback(void *arg, const char *tenant, uint64_t request, bool good,
                              lac_error *err)
{
    (void)arg, (void)tenant;
    return good ? LAC_OK
                : lac_fail(err, LAC_ENOTFOUND, "request %llu", (unsigned long long)request);
}

static void start(void)
{
    lac_frontend_options options = {.host = "127.0.0.1", .body_max = BODY_MAX};
    lac_frontend_hooks hooks = {.emit = on_emit,
                                .ready = on_yes,
                                .alive = on_yes,
                                .models = on_list,
                                .metrics = on_list,
                                .status = on_list,
                                .health = on_health,
                                .feedback = on_feedback};
    uv_loop_init(&loop);
    metrics = lac_metrics_create(256);
    lac_status status = lac_frontend_create(&loop, &options, &hooks, metrics, &frontend, NULL);
    LAC_ASSERT(status == LAC_OK);
}

static void parse(lac__request *request, const char *data, size_t size, size_t piece)
{
    lac__request_start(request, BODY_MAX);
    for (size_t at = 0; at < size;) {
        size_t length = size - at < piece ? size - at : piece;
        size_t used = lac__request_feed(request, data + at, length);
        at += used;
        if (request->stage == LAC__REQUEST_COMPLETE || request->stage == LAC__REQUEST_FAILED)
            break;
        LAC_ASSERT(used > 0);
    }
}

static void compare(const char *data, size_t size)
{
    static lac__request whole, pieces;
    parse(&whole, data, size, size);
    parse(&pieces, data, size, 1);
    LAC_ASSERT(whole.stage == pieces.stage);
    LAC_ASSERT(whole.problem.http == pieces.problem.http);
    if (whole.stage == LAC__REQUEST_COMPLETE) {
        LAC_ASSERT(strcmp(whole.url, pieces.url) == 0 && whole.method == pieces.method);
        LAC_ASSERT(whole.keep_alive == pieces.keep_alive);
        LAC_ASSERT(whole.body.length == pieces.body.length);
        LAC_ASSERT(whole.body.length == 0 ||
                   memcmp(whole.body.data, pieces.body.data, whole.body.length) == 0);
    }
    lac__request_free(&whole);
    lac__request_free(&pieces);
}

static void connect_and_send(const char *data, size_t size, size_t piece)
{
    int pair[2];
    char reply[65536];
    ssize_t got = 0;
    int failed = socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair);
    LAC_ASSERT(!failed);
    lac_status status = lac__frontend_adopt(frontend, pair[1]);
    LAC_ASSERT(status == LAC_OK);
    for (size_t at = 0; at < size; at += piece) {
        if (send(pair[0], data + at, size - at < piece ? size - at : piece, MSG_NOSIGNAL) < 0)
            break;
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    for (int i = 0; i < 4; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    got = recv(pair[0], reply, sizeof reply, 0);
    LAC_ASSERT(got <= 0 || (got > 9 && memcmp(reply, "HTTP/1.1 ", 9) == 0));
    close(pair[0]);
    for (int i = 0; frontend->conns; i++) {
        LAC_ASSERT(i < TURNS_MAX); /* a connection outlived its client */
        uv_run(&loop, UV_RUN_NOWAIT);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    if (!frontend)
        start();
    const char *bytes = (const char *)data + 1;
    compare(bytes, size - 1);
    connect_and_send(bytes, size - 1, data[0] % 4 ? size : 1u + data[0] / 4u);
    return 0;
}
