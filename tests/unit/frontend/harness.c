/* See harness.h. */
#include "harness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *const hello[] = {"Hello", " world", NULL};

/* ---- the scripted core ---- */

static void deliver(harness *h, const lac_msg *msg)
{
    lac_frontend_deliver(h->frontend, msg);
}

void core_accept(harness *h, uint64_t stream)
{
    lac_msg msg = {.envelope.type = LAC_MSG_ACCEPTED};
    msg.body.accepted.stream = stream;
    msg.body.accepted.request = 77;
    snprintf(msg.body.accepted.model, sizeof msg.body.accepted.model, "tiny");
    deliver(h, &msg);
}

void core_tokens(harness *h, uint64_t stream, uint32_t first_pos, const char *text)
{
    uint32_t token = 1000 + first_pos;
    lac_span span = {.data = text, .length = (uint32_t)strlen(text)};
    lac_top_logprob top[2] = {
        {.token = token, .logprob = -0.25f, .text = span},
        {.token = 7, .logprob = -1.5f, .text = {.data = "\xe2\x82", .length = 2}}};
    lac_logprob entry = {.chosen = top[0], .top_count = 2, .top = top};
    lac_msg msg = {.envelope.type = LAC_MSG_TOKENS};
    msg.body.tokens.stream = stream;
    msg.body.tokens.account = h->account;
    msg.body.tokens.chunk = (lac_chunk){.first_pos = first_pos,
                                        .tokens_count = 1,
                                        .tokens = &token,
                                        .text = span,
                                        .logprobs_count = h->logprobs ? 1 : 0,
                                        .logprobs = &entry};
    deliver(h, &msg);
}

void core_done(harness *h, uint64_t stream, lac_finish finish)
{
    lac_msg msg = {.envelope.type = LAC_MSG_DONE};
    msg.body.done.stream = stream;
    msg.body.done.finish = finish;
    msg.body.done.account = h->account;
    msg.body.done.usage =
        (lac_usage){.prompt_tokens = 11, .completion_tokens = 2, .cached_tokens = 4};
    deliver(h, &msg);
}

void core_refuse(harness *h, uint64_t stream)
{
    lac_msg msg = {.envelope.type = LAC_MSG_REFUSED};
    msg.body.refused.stream = stream;
    msg.body.refused.status = h->status;
    msg.body.refused.retry_after_ms = h->retry_after_ms;
    snprintf(msg.body.refused.reason, sizeof msg.body.refused.reason, "%s", h->reason);
    deliver(h, &msg);
}

static void answer(harness *h, uint64_t stream)
{
    if (h->script == CORE_REFUSE) {
        core_refuse(h, stream);
        return;
    }
    core_accept(h, stream);
    if (h->script == CORE_SILENT)
        return;
    for (uint32_t i = 0; h->pieces[i]; i++)
        core_tokens(h, stream, i, h->pieces[i]);
    core_done(h, stream, h->finish);
}

typedef struct {
    uv_timer_t timer;
    harness *h;
    uint64_t stream;
} later_answer;

static void on_later_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void on_later(uv_timer_t *timer)
{
    later_answer *later = timer->data;
    answer(later->h, later->stream);
    uv_close((uv_handle_t *)timer, on_later_closed);
}

static void copy_submit(harness *h, const lac_submit *s)
{
    ck_assert_uint_lt(h->submits_count, SUBMITS_MAX);
    submit_copy *copy = &h->submits[h->submits_count++];
    memset(copy, 0, sizeof *copy);
    copy->stream = s->stream;
    copy->kind = s->prompt.kind;
    copy->credit = s->credit;
    memcpy(copy->model, s->model, sizeof copy->model);
    memcpy(copy->hint, s->hint, sizeof copy->hint);
    memcpy(copy->force, s->force, sizeof copy->force);
    copy->sparse = s->sparse;
    memcpy(copy->trace, s->trace, sizeof copy->trace);
    copy->want = s->prompt.want;
    copy->has_tier = s->has_tier;
    copy->tier_max = s->tier_max;
    copy->sampling = s->sampling;
    copy->sampling.bias = NULL;
    if (s->sampling.bias_count)
        copy->bias = s->sampling.bias[0];
    lac_span text = s->prompt.text;
    if (s->prompt.kind == LAC_PROMPT_CHAT) {
        copy->messages = s->prompt.messages_count;
        memcpy(copy->first_role, s->prompt.messages[0].role, sizeof copy->first_role);
        text = s->prompt.messages[0].content;
    }
    lac_buf_add(&copy->text, text.data, text.length);
    copy->ids = s->prompt.ids_count;
    copy->first_id = copy->ids ? s->prompt.ids[0] : 0;
}

static void on_emit(void *arg, const lac_msg *msg)
{
    harness *h = arg;
    if (msg->envelope.type == LAC_MSG_CLIENT_CANCEL) {
        h->cancels_count++;
        h->cancelled = msg->body.client_cancel.stream;
        return;
    }
    if (msg->envelope.type == LAC_MSG_CREDIT) {
        h->credits_count++;
        h->credited += msg->body.credit.messages;
        return;
    }
    ck_assert_uint_eq(msg->envelope.type, LAC_MSG_SUBMIT);
    copy_submit(h, &msg->body.submit);
    if (!h->later) {
        answer(h, msg->body.submit.stream);
        return;
    }
    later_answer *later = lac_alloc(1, sizeof *later);
    later->h = h;
    later->stream = msg->body.submit.stream;
    uv_timer_init(&h->loop, &later->timer);
    later->timer.data = later;
    uv_timer_start(&later->timer, on_later, 2, 0);
}

static bool on_ready(void *arg)
{
    return ((harness *)arg)->is_ready;
}

static bool on_alive(void *arg)
{
    (void)arg;
    return true;
}

static void on_models(void *arg, lac_buf *out)
{
    (void)arg;
    lac_buf_text(out,
                 "{\"id\":\"tiny\",\"object\":\"model\",\"created\":5,\"owned_by\":\"lacuna\"},"
                 "{\"id\":\"tiny-2\",\"object\":\"model\",\"created\":6,\"owned_by\":\"lacuna\"}");
}

static void on_metrics(void *arg, lac_buf *out)
{
    lac_metrics_render(((harness *)arg)->metrics, out);
}

static bool on_health(void *arg, lac_buf *out)
{
    lac_buf_printf(out, "{\"ready\":%s}", ((harness *)arg)->is_ready ? "true" : "false");
    return ((harness *)arg)->is_ready;
}

static void on_status(void *arg, lac_buf *out)
{
    (void)arg;
    lac_buf_text(out, "{\"state\":1}");
}

/* Request 1 was judged already, 2 is nobody's. */
static lac_status on_feedback(void *arg, const char *tenant, uint64_t request, bool good,
                              lac_error *err)
{
    (void)arg, (void)good, (void)tenant;
    if (request == 1)
        return lac_fail(err, LAC_EEXIST, "request 1 was judged already");
    return request == 2 ? lac_fail(err, LAC_ENOTFOUND, "request 2 is not yours") : LAC_OK;
}

/* ---- life ---- */

static void on_done(void *arg)
{
    ((harness *)arg)->closed = true;
}

void harness_start(harness *h, const lac_frontend_options *options)
{
    memset(h, 0, sizeof *h);
    h->pieces = hello;
    h->finish = LAC_FINISH_STOP;
    h->reason = "queue is full: 256 requests, allowed 256";
    h->is_ready = true;
    ck_assert_int_eq(uv_loop_init(&h->loop), 0);
    h->metrics = lac_metrics_create(256);
    lac_frontend_options own = {.host = "127.0.0.1"};
    lac_frontend_hooks hooks = {.arg = h,
                                .emit = on_emit,
                                .ready = on_ready,
                                .alive = on_alive,
                                .models = on_models,
                                .metrics = on_metrics,
                                .status = on_status,
                                .health = on_health,
                                .feedback = on_feedback};
    lac_error err;
    lac_status status = lac_frontend_create(&h->loop, options ? options : &own, &hooks, h->metrics,
                                            &h->frontend, &err);
    ck_assert_msg(status == LAC_OK, "%s", err.text);
    const char *colon = strrchr(lac_frontend_address(h->frontend), ':');
    h->port = (unsigned)strtoul(colon + 1, NULL, 10);
    ck_assert_uint_gt(h->port, 0);
}

void harness_stop(harness *h)
{
    lac_frontend_close(&h->frontend, on_done, h);
    ck_assert_ptr_null(h->frontend);
    for (int i = 0; i < WAIT_MS && !h->closed; i++)
        harness_turn(h, 1);
    ck_assert(h->closed);
    uv_run(&h->loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&h->loop), 0);
    lac_metrics_destroy(&h->metrics);
    for (size_t i = 0; i < h->submits_count; i++)
        lac_buf_free(&h->submits[i].text);
}

void harness_turn(harness *h, int ms)
{
    struct pollfd fd = {.fd = uv_backend_fd(&h->loop), .events = POLLIN};
    int timeout = uv_backend_timeout(&h->loop);
    if (timeout != 0)
        poll(&fd, 1, ms);
    uv_run(&h->loop, UV_RUN_NOWAIT);
}

/* ---- the client ---- */

void client_open(client *c, harness *h)
{
    memset(c, 0, sizeof *c);
    c->h = h;
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_ge(c->fd, 0);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)h->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ck_assert_int_eq(connect(c->fd, (struct sockaddr *)&to, sizeof to), 0);
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
}

void client_close(client *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
    lac_buf_free(&c->in);
}

void client_send(client *c, const char *bytes, size_t length)
{
    for (int turns = 0; length > 0 && turns < WAIT_MS;) {
        ssize_t sent = send(c->fd, bytes, length, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN)
            return; /* refused early: the reply says why */
        if (sent > 0) {
            bytes += sent;
            length -= (size_t)sent;
        } else {
            harness_turn(c->h, 1);
            turns++;
        }
    }
}

void client_text(client *c, const char *text)
{
    client_send(c, text, strlen(text));
}

bool client_take(client *c)
{
    char bytes[65536];
    while (!c->eof) {
        ssize_t n = recv(c->fd, bytes, sizeof bytes, 0);
        if (n > 0) {
            lac_buf_add(&c->in, bytes, (size_t)n);
        } else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return true;
        } else {
            c->eof = true;
            c->reset = n < 0;
        }
    }
    return false;
}

bool client_wait(client *c, const char *text, int ms)
{
    for (int i = 0; i < ms; i++) {
        bool open = client_take(c);
        if (c->in.length > 0 && memmem(c->in.data, c->in.length, text, strlen(text)))
            return true;
        if (!open)
            return false;
        harness_turn(c->h, 1);
    }
    return false;
}

bool client_wait_end(client *c, int ms)
{
    for (int i = 0; i < ms && client_take(c); i++)
        harness_turn(c->h, 1);
    return c->eof;
}

/* ---- replies ---- */

const char *reply_header(const reply *r, const char *name)
{
    static char value[512];
    size_t length = strlen(name);
    for (const char *line = r->head.data; line; line = strstr(line, "\r\n")) {
        line += strncmp(line, "\r\n", 2) == 0 ? 2 : 0;
        if (strncasecmp(line, name, length) != 0 || line[length] != ':')
            continue;
        snprintf(value, sizeof value, "%.*s", (int)strcspn(line + length + 2, "\r"),
                 line + length + 2);
        return value;
    }
    return NULL;
}

/* Unframes what is there; true when the last chunk was seen. *used is what it took. Looks for the
 * end of a size line in its first bytes alone: a search through all that follows is quadratic where
 * a sanitizer checks the whole range, and the server may give up a client that takes seconds. */
static bool unchunk(const char *data, size_t length, lac_buf *body, size_t *used)
{
    enum { SIZE_LINE_MAX = 18 };
    size_t at = 0;
    lac_buf_clear(body);
    for (;;) {
        char *end;
        const char *line = data + at;
        size_t left = length - at;
        if (!memmem(line, left < SIZE_LINE_MAX ? left : SIZE_LINE_MAX, "\r\n", 2))
            return false;
        unsigned long size = strtoul(line, &end, 16);
        ck_assert_msg(strncmp(end, "\r\n", 2) == 0, "chunk framing broken: %.20s", line);
        at = (size_t)(end - data) + 2;
        if (length - at < size + 2)
            return false;
        ck_assert(memcmp(data + at + size, "\r\n", 2) == 0);
        lac_buf_add(body, data + at, size);
        at += size + 2;
        *used = at;
        if (size == 0)
            return true;
    }
}

/* One attempt to cut a reply out of the input. */
static bool cut(client *c, reply *r, bool head_only)
{
    char *end = c->in.length ? memmem(c->in.data, c->in.length, "\r\n\r\n", 4) : NULL;
    if (!end)
        return false;
    size_t head = (size_t)(end - c->in.data) + 4, used = head;
    lac_buf_clear(&r->head);
    lac_buf_add(&r->head, c->in.data, head);
    r->status = atoi(r->head.data + 9);
    const char *rest = c->in.data + head;
    size_t have = c->in.length - head, framed = 0;
    if (r->status == 100) {
        lac_buf_drop(&c->in, head);
        return cut(c, r, head_only);
    }
    const char *length = reply_header(r, "Content-Length");
    if (head_only) {
        r->complete = true;
    } else if (length) {
        size_t need = strtoul(length, NULL, 10);
        if (have < need)
            return false;
        lac_buf_add(&r->body, rest, need);
        used += need;
        r->complete = true;
    } else if (reply_header(r, "Transfer-Encoding")) {
        r->complete = unchunk(rest, have, &r->body, &framed);
        if (!r->complete && !c->eof)
            return false;
        used += framed;
    } else {
        if (!c->eof)
            return false;
        lac_buf_add(&r->body, rest, have);
        used += have;
    }
    lac_buf_drop(&c->in, used);
    return true;
}

void client_reply(client *c, reply *r, bool head_only)
{
    memset(r, 0, sizeof *r);
    for (int i = 0; i < WAIT_MS; i++) {
        bool open = client_take(c);
        if (cut(c, r, head_only) || !open)
            return;
        harness_turn(c->h, 1);
    }
}

void reply_free(reply *r)
{
    lac_buf_free(&r->head);
    lac_buf_free(&r->body);
}

void client_post(client *c, const char *path, const char *body)
{
    lac_buf request = {0};
    lac_buf_printf(&request, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n", path,
                   strlen(body));
    lac_buf_text(&request, body);
    client_send(c, request.data, request.length);
    lac_buf_free(&request);
}

void client_get(client *c, const char *path, reply *r)
{
    char text[256];
    snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path);
    client_text(c, text);
    client_reply(c, r, false);
}

void open_chat(harness *h, client *c, bool stream)
{
    size_t before = h->submits_count;
    client_open(c, h);
    client_post(c, "/v1/chat/completions", stream ? "{" HI ",\"stream\":true}" : "{" HI "}");
    WAIT_FOR(h, h->submits_count == before + 1);
}

void post(harness *h, const char *path, const char *body, reply *r)
{
    client c;
    client_open(&c, h);
    client_post(&c, path, body);
    client_reply(&c, r, false);
    client_close(&c);
}

double metric_sum(harness *h, const char *name, const char *labels)
{
    lac_buf text = {0};
    lac_metrics_render(h->metrics, &text);
    double sum = 0;
    size_t length = strlen(name);
    for (char *line = text.data; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        char *end = strchr(line, '\n');
        if (!end)
            break;
        if (strncmp(line, name, length) != 0 || (line[length] != '{' && line[length] != ' '))
            continue;
        *end = '\0';
        if (strstr(line, labels))
            sum += strtod(strrchr(line, ' '), NULL);
        *end = '\n';
    }
    lac_buf_free(&text);
    return sum;
}

int run_suite(const char *name, const TTest *const *tests)
{
    Suite *suite = suite_create(name);
    TCase *tcase = tcase_create("all");
    tcase_set_timeout(tcase, 60);
    for (; *tests; tests++)
        tcase_add_test(tcase, *tests);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
