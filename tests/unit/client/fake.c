/* The fake coordinator. One thread with a loop and a socket; counts are atomics. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/mem.h"
#include "fake.h"
#include "wire/socket.h"

typedef struct request {
    struct request *next;
    uint64_t peer, stream;
    uint32_t credit, sent, total;
    bool counting;
    lac_finish finish;
} request;

struct fake {
    pthread_t thread;
    uv_loop_t loop;
    uv_async_t stop;
    uv_timer_t retry;
    lac_wire *wire;
    lac_socket *socket;
    request *requests;
    uint64_t last_request;
    unsigned patient; /* refusals of that rule so far */
    atomic_ullong submits, cancels, credits, credit_messages, queries, open;
};

/* False when the peer's queue is full: to be said again later. */
static bool say(fake *f, uint64_t peer, lac_msg_type type, lac_msg *msg)
{
    msg->envelope.type = (uint16_t)type;
    lac_error err;
    lac_status status = lac_socket_send(f->socket, peer, msg, &err);
    if (status && status != LAC_EPEER && status != LAC_BUSY) {
        fprintf(stderr, "fake: %s\n", err.text);
        abort();
    }
    return status != LAC_BUSY;
}

static bool say_done(fake *f, uint64_t peer, uint64_t stream, lac_finish finish, uint32_t tokens)
{
    lac_msg msg = {.body.done = {.stream = stream, .finish = finish, .usage = {3, tokens, 2}}};
    bool said = say(f, peer, LAC_MSG_DONE, &msg);
    f->open -= said;
    return said;
}

static bool say_tokens(fake *f, uint64_t peer, uint64_t stream, uint32_t pos, uint32_t count,
                       const char *text, size_t length)
{
    uint32_t tokens[16];
    for (uint32_t i = 0; i < count; i++)
        tokens[i] = pos + i;
    lac_msg msg = {.body.tokens = {.stream = stream,
                                   .chunk = {.first_pos = pos,
                                             .tokens_count = count,
                                             .tokens = tokens,
                                             .text = {text, (uint32_t)length}}}};
    return say(f, peer, LAC_MSG_TOKENS, &msg);
}

static void say_refused(fake *f, uint64_t peer, uint64_t stream, lac_status status, uint32_t retry,
                        const char *reason)
{
    lac_msg msg = {.body.refused = {.stream = stream, .status = status, .retry_after_ms = retry}};
    snprintf(msg.body.refused.reason, sizeof msg.body.refused.reason, "%s", reason);
    say(f, peer, LAC_MSG_REFUSED, &msg);
    f->open--;
}

/* Sends numbers while there is credit; true once the request has ended. */
static bool count_on(fake *f, request *r)
{
    char text[16];
    while (r->counting && r->credit && r->sent < r->total) {
        int n = snprintf(text, sizeof text, "%u ", r->sent);
        if (!say_tokens(f, r->peer, r->stream, r->sent, 1, text, (size_t)n))
            return false;
        r->sent++;
        r->credit--;
    }
    if (!r->counting || r->sent < r->total)
        return false;
    return say_done(f, r->peer, r->stream, r->finish, r->total);
}

static void keep(fake *f, request r)
{
    if (count_on(f, &r))
        return;
    request *kept = lac_alloc(1, sizeof *kept);
    *kept = r;
    kept->next = f->requests;
    f->requests = kept;
}

static request **find(fake *f, uint64_t peer, uint64_t stream)
{
    request **at = &f->requests;
    while (*at && ((*at)->peer != peer || (*at)->stream != stream))
        at = &(*at)->next;
    return at;
}

static void drop(request **at)
{
    request *gone = *at;
    *at = gone->next;
    free(gone);
}

static void on_retry(uv_timer_t *timer)
{
    fake *f = timer->data;
    for (request **at = &f->requests; *at;) {
        if (count_on(f, *at))
            drop(at);
        else
            at = &(*at)->next;
    }
}

static void list_params(const lac_submit *s, lac_buf *out)
{
    const lac_sampling *p = &s->sampling;
    lac_buf_printf(out, "model=%s max=%u temp=%g top_p=%g top_k=%d", s->model, p->max_tokens,
                   (double)p->temperature, (double)p->top_p, p->top_k);
    if (p->has_seed)
        lac_buf_printf(out, " seed=%llu", (unsigned long long)p->seed);
    for (uint32_t i = 0; i < p->stops_count; i++)
        lac_buf_printf(out, " stop=%.*s", (int)p->stops[i].length, p->stops[i].bytes);
    for (uint32_t i = 0; i < s->prompt.messages_count; i++)
        lac_buf_printf(out, " %s", s->prompt.messages[i].role);
    if (s->prompt.kind == LAC_PROMPT_TEXT)
        lac_buf_text(out, " raw");
}

static void answer(fake *f, uint64_t peer, const lac_submit *s, lac_span prompt)
{
    lac_buf text = {0};
    if (prompt.length >= 6 && !memcmp(prompt.data, "params", 6))
        list_params(s, &text);
    else
        lac_buf_printf(&text, "You said: %.*s", (int)prompt.length, prompt.data);
    size_t first = text.length < 4 ? text.length : 4;
    say_tokens(f, peer, s->stream, 0, 1, text.data, first);
    say_tokens(f, peer, s->stream, 1, 2, text.data + first, text.length - first);
    say_done(f, peer, s->stream, LAC_FINISH_STOP, 3);
    lac_buf_free(&text);
}

static void take_submit(fake *f, uint64_t peer, const lac_submit *s)
{
    f->submits++;
    f->open++;
    const lac_prompt *p = &s->prompt;
    lac_span prompt =
        p->kind == LAC_PROMPT_CHAT ? p->messages[p->messages_count - 1].content : p->text;
    char rule[16] = "";
    unsigned n = 0;
    char line[64];
    snprintf(line, sizeof line, "%.*s", (int)(prompt.length < 60 ? prompt.length : 60),
             prompt.length ? prompt.data : "");
    sscanf(line, "%15s %u", rule, &n);
    request r = {.peer = peer, .stream = s->stream, .credit = s->credit, .finish = LAC_FINISH_STOP};
    if (!strcmp(rule, "mute")) {
        f->open--;
        return;
    }
    if (!strcmp(rule, "patient") && f->patient++ < n)
        return say_refused(f, peer, s->stream, LAC_BUSY, 200, "requests are used up");
    if (!strcmp(rule, "busy"))
        return say_refused(f, peer, s->stream, LAC_BUSY, 1500, "256 requests wait, allowed: 256");
    if (!strcmp(rule, "invalid"))
        return say_refused(f, peer, s->stream, LAC_EINVAL, 0, "temperature is 9, allowed: 0 to 2");
    if (!strcmp(rule, "nobody"))
        return say_refused(f, peer, s->stream, LAC_EREFUSED, 0, "no worker serves m");
    lac_msg accepted = {.body.accepted = {.stream = s->stream, .request = ++f->last_request}};
    say(f, peer, LAC_MSG_ACCEPTED, &accepted);
    if (!strcmp(rule, "gap")) {
        say_tokens(f, peer, s->stream, 0, 1, "a", 1);
        say_tokens(f, peer, s->stream, 5, 1, "b", 1);
        f->open--;
    } else if (!strcmp(rule, "wait")) {
        keep(f, r);
    } else if (!strcmp(rule, "count") || !strcmp(rule, "rude")) {
        r.counting = true;
        r.total = n;
        if (rule[0] == 'r')
            r.credit = UINT32_MAX;
        keep(f, r);
    } else {
        answer(f, peer, s, prompt);
    }
}

static void take_query(fake *f, uint64_t peer, uint64_t stream)
{
    f->queries++;
    static const lac_rank_status rank = {.rank = 0,
                                         .pid = 4711,
                                         .active_layers = 30,
                                         .rss_bytes = 150 << 20,
                                         .layer_end = 30,
                                         .erased_units = 2,
                                         .weight_bytes = 98000000,
                                         .host = "h"};
    static const lac_group_status groups[] = {
        {.id = "g0",
         .state = "READY",
         .model = "SmolLM2-135M-Instruct",
         .isa = "avx512-vnni",
         .layers = 30,
         .slots = 16,
         .running = 3,
         .kv_pages_used = 25,
         .kv_pages = 100,
         .itl_us = 8000,
         .output_tokens = 12345,
         .heartbeat_age_ms = 120,
         .pp = 1,
         .tp = 1,
         .ranks_count = 1,
         .ranks = &rank},
        {.id = "g1", .state = "DEAD", .heartbeat_age_ms = 61000},
    };
    lac_msg msg = {.body.status_reply = {.stream = stream,
                                         .version = "0.1.0",
                                         .http = "127.0.0.1:8080",
                                         .epoch = 3,
                                         .uptime_ms = 3723000,
                                         .queued = 1,
                                         .running = 3,
                                         .requests_total = 30,
                                         .tokens_total = 12345,
                                         .groups_count = 2,
                                         .groups = groups}};
    say(f, peer, LAC_MSG_STATUS_REPLY, &msg);
}

static void on_message(void *arg, uint64_t peer, const lac_msg *msg)
{
    fake *f = arg;
    request **at;
    switch (msg->envelope.type) {
    case LAC_MSG_SUBMIT: take_submit(f, peer, &msg->body.submit); break;
    case LAC_MSG_CLIENT_CANCEL:
        f->cancels++;
        at = find(f, peer, msg->body.client_cancel.stream);
        if (*at) {
            (*at)->counting = true;
            (*at)->total = (*at)->sent;
            (*at)->finish = LAC_FINISH_CANCEL;
            if (count_on(f, *at))
                drop(at);
        }
        break;
    case LAC_MSG_CREDIT:
        f->credits++;
        f->credit_messages += msg->body.credit.messages;
        at = find(f, peer, msg->body.credit.stream);
        if (*at) {
            (*at)->credit += msg->body.credit.messages;
            if (count_on(f, *at))
                drop(at);
        }
        break;
    case LAC_MSG_STATUS_QUERY: take_query(f, peer, msg->body.status_query.stream); break;
    default: abort();
    }
}

static void on_bad(void *arg, uint64_t peer, const lac_envelope *envelope, const lac_error *err)
{
    (void)arg, (void)peer, (void)envelope;
    fprintf(stderr, "fake: bad message: %s\n", err->text);
    abort();
}

static void on_stop(uv_async_t *async)
{
    fake *f = async->data;
    lac_socket_close(&f->socket);
    uv_close((uv_handle_t *)&f->retry, NULL);
    uv_close((uv_handle_t *)async, NULL);
}

static void *run(void *arg)
{
    uv_run(&((fake *)arg)->loop, UV_RUN_DEFAULT);
    return NULL;
}

fake *fake_start(const char *endpoint)
{
    fake *f = lac_alloc(1, sizeof *f);
    lac_error err;
    lac_socket_events events = {.arg = f, .message = on_message, .bad = on_bad};
    uv_loop_init(&f->loop);
    uv_async_init(&f->loop, &f->stop, on_stop);
    uv_timer_init(&f->loop, &f->retry);
    uv_timer_start(&f->retry, on_retry, 5, 5);
    f->stop.data = f->retry.data = f;
    if (lac_wire_create(&f->wire, &err) ||
        lac_socket_open(f->wire, &f->loop, LAC_SOCKET_LISTEN_CLIENTS, endpoint, false, &events,
                        &f->socket, &err)) {
        fprintf(stderr, "fake: %s\n", err.text);
        exit(99);
    }
    pthread_create(&f->thread, NULL, run, f);
    return f;
}

const char *fake_endpoint(const fake *f)
{
    return lac_socket_endpoint(f->socket);
}

void fake_stop(fake **f)
{
    uv_async_send(&(*f)->stop);
    pthread_join((*f)->thread, NULL);
    if (uv_loop_close(&(*f)->loop))
        abort();
    lac_wire_destroy(&(*f)->wire);
    while ((*f)->requests)
        drop(&(*f)->requests);
    free(*f);
    *f = NULL;
}

fake_counts fake_seen(fake *f)
{
    return (fake_counts){.submits = f->submits,
                         .cancels = f->cancels,
                         .credits = f->credits,
                         .credit_messages = f->credit_messages,
                         .queries = f->queries,
                         .open = f->open};
}
