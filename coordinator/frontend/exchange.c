/* One completion request between the client's socket and the core, as a table of states and events.
 * Loop thread; bodies above a bound are parsed in libuv's pool. Must not know HTTP's grammar or how
 * the core decides.
 *
 * What the core says is only noted when it is delivered; writing to the socket and speaking to the
 * core happen in turns of the loop. So the core may deliver from inside a step, several tokens
 * become one event by themselves, and no action here can be re-entered. */
#include "exchange.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "connection.h"
#include "quota.h"
#include "idempotency.h"
#include "items.h"
#include "routes.h"

/* ---- turns ---- */

void lac__exchange_wake(lac__exchange *x)
{
    lac_frontend *frontend = x->frontend;
    lac__exchanges *all = &frontend->exchanges;
    if (x->dirty)
        return;
    x->dirty = true;
    x->dirty_prev = all->dirty_last;
    x->dirty_next = NULL;
    if (all->dirty_last)
        all->dirty_last->dirty_next = x;
    else
        all->dirty_first = x;
    all->dirty_last = x;
    all->dirty_count++;
    lac__frontend_wake(frontend);
}

static void unwake(lac__exchange *x)
{
    lac__exchanges *all = &x->frontend->exchanges;
    if (!x->dirty)
        return;
    x->dirty = false;
    if (x->dirty_prev)
        x->dirty_prev->dirty_next = x->dirty_next;
    else
        all->dirty_first = x->dirty_next;
    if (x->dirty_next)
        x->dirty_next->dirty_prev = x->dirty_prev;
    else
        all->dirty_last = x->dirty_prev;
    all->dirty_count--;
}

/* ---- speaking to the core ---- */

static void emit(lac_frontend *frontend, lac_msg *msg)
{
    frontend->hooks.emit(frontend->hooks.arg, msg);
}

static void emit_cancel(lac__seat *seat)
{
    lac_msg msg = {.envelope.type = LAC_MSG_CLIENT_CANCEL};
    msg.body.client_cancel.stream = seat->stream;
    lac__seat_close(seat);
    emit(seat->exchange->frontend, &msg);
}

/* Grants anew what was taken, in batches: one message for half a window. */
static void emit_credit(lac__seat *seat)
{
    if (seat->stream == 0 || seat->taken < LAC_HTTP_CREDIT / 2)
        return;
    lac_msg msg = {.envelope.type = LAC_MSG_CREDIT};
    msg.body.credit.stream = seat->stream;
    msg.body.credit.messages = seat->taken;
    seat->taken = 0;
    emit(seat->exchange->frontend, &msg);
}

/* ---- actions: they append to the connection's buffer and emit; none of them flushes ---- */

/* The choices share everything but their number, which is part of every draw's key. */
static void act_submit(lac__exchange *x)
{
    lac_msg msg = {.envelope.type = LAC_MSG_SUBMIT, .tenant = x->conn->tenant};
    msg.body.submit = x->api.submit;
    msg.body.submit.credit = LAC_HTTP_CREDIT;
    const lac__request *asked = &x->conn->request;
    memcpy(msg.body.submit.hint, asked->hint, sizeof asked->hint);
    memcpy(msg.body.submit.force, asked->force, sizeof asked->force);
    msg.body.submit.sparse = asked->sparse;
    msg.body.submit.has_tier = asked->has_tier;
    msg.body.submit.tier_max = asked->tier_max;
    memcpy(msg.body.submit.trace, x->conn->trace, sizeof x->conn->trace);
    lac_debug("http request %s trace %s: submitted", x->conn->request_id,
              x->conn->trace[0] ? x->conn->trace : "none");
    x->quiet_ms = lac__frontend_now(x->frontend);
    for (uint32_t i = 0; i < x->answer.choices_count && !x->refused; i++) {
        lac__seat *seat = &x->seats[i];
        seat->exchange = x;
        lac__seat_open(seat);
        msg.body.submit.stream = seat->stream;
        msg.body.submit.sampling.choice = i;
        emit(x->frontend, &msg);
    }
    lac__api_free(&x->api);
}

/* An event a line. */
static void put_event(lac__exchange *x, const lac_buf *text)
{
    lac__response response = lac__conn_response(x->conn);
    const char *at = text->data, *end = at + text->length;
    while (at < end) {
        const char *line = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((line ? line : end) - at);
        lac__response_event(&response, x->writer->named, at, length, lac__conn_out(x->conn));
        lac__idempotent_event(x, at, length);
        at += length + (line != NULL);
    }
    x->quiet_ms = lac__frontend_now(x->frontend);
}

/* What is left of the quota; and what it ran as, known from the first tokens on: a stream that is
 * opened by a ping does not have that. */
static void own_headers(const lac__exchange *x, lac_buf *out)
{
    enum { SHOWN_MAX = 1024 };
    const lac_run_account *a = &x->account;
    lac__quota_headers(&x->quota, out);
    if (!x->has_account)
        return;
    size_t length = strlen(x->mask);
    lac_buf_printf(out, "X-Lacuna-Class: %s\r\n", a->class_name);
    if (length <= SHOWN_MAX)
        lac_buf_printf(out, "X-Lacuna-Mask: %s\r\n", x->mask);
    else
        lac_buf_text(out, "X-Lacuna-Mask: (too long for a header, see usage)\r\n");
    lac_buf_printf(out, "X-Lacuna-Layers: active=%u total=%u skip=%.4f\r\n", a->active_layers,
                   a->layers, (double)a->skip_rate);
    lac_buf_printf(out, "X-Lacuna-Why: %s\r\nX-Lacuna-Request: %llu\r\n", a->why,
                   (unsigned long long)x->request);
    if (a->forced)
        lac_buf_text(out, "X-Lacuna-Forced: true\r\n");
}

static void act_open(lac__exchange *x)
{
    lac__response response = lac__conn_response(x->conn);
    lac_buf extra = {0};
    own_headers(x, &extra);
    lac__response_stream(&response, extra.length ? extra.data : "", lac__conn_out(x->conn));
    lac_buf_free(&extra);
    lac__count_request(x->frontend, x->conn->route->name, 200);
    x->quiet_ms = lac__frontend_now(x->frontend);
    lac_buf *chunk = &x->frontend->scratch;
    for (uint32_t i = 0; x->writer->first && i < x->answer.choices_count; i++) {
        lac_buf_clear(chunk);
        x->writer->first(&x->answer, i, chunk);
        put_event(x, chunk);
    }
}

/* All that waits of a choice becomes one event, its end another. */
static void act_write(lac__exchange *x)
{
    lac_buf *chunk = &x->frontend->scratch;
    for (uint32_t i = 0; i < x->answer.choices_count; i++) {
        lac__answer_choice *choice = &x->answer.choices[i];
        if (lac__choice_pending(choice) ||
            (x->answer.items && lac__items_pending(x->answer.items))) {
            lac_buf_clear(chunk);
            x->writer->chunk(&x->answer, i, chunk);
            put_event(x, chunk);
            lac__choice_clear(choice);
        }
        if (choice->finish != LAC_FINISH_NONE && !choice->told) {
            lac_buf_clear(chunk);
            if (x->writer->last)
                x->writer->last(&x->answer, i, chunk);
            put_event(x, chunk);
            choice->told = true;
        }
    }
}

static void act_open_write(lac__exchange *x)
{
    act_open(x);
    act_write(x);
}

static void act_ping(lac__exchange *x)
{
    lac__response response = lac__conn_response(x->conn);
    lac__response_ping(&response, lac__conn_out(x->conn));
    x->quiet_ms = lac__frontend_now(x->frontend);
}

static void act_open_ping(lac__exchange *x)
{
    act_open(x);
    act_ping(x);
}

static void act_gather(lac__exchange *x)
{
    (void)x; /* the answer holds it already */
}

static const lac_run_account *account_of(const lac__exchange *x)
{
    return x->has_account ? &x->account : NULL;
}

/* HEAD-like whole replies are the connection's matter: it also decides about keep-alive. */
static void act_whole(lac__exchange *x)
{
    lac_buf *body = &x->frontend->scratch;
    lac_buf_clear(body);
    x->writer->whole(&x->answer, &x->usage, account_of(x), body);
    lac__response response = lac__conn_response(x->conn);
    x->keep_alive = response.keep_alive;
    lac_buf extra = {0};
    own_headers(x, &extra);
    lac__response_whole(&response, 200, "application/json", extra.length ? extra.data : "",
                        body->data, body->length, lac__conn_out(x->conn));
    lac_buf_free(&extra);
    lac__count_request(x->frontend, x->conn->route->name, 200);
    lac__idempotent_event(x, body->data, body->length);
    lac__idempotent_end(x);
}

static void act_last(lac__exchange *x)
{
    static const char done[] = "[DONE]";
    act_write(x);
    lac__response response = lac__conn_response(x->conn);
    lac_buf *out = lac__conn_out(x->conn), *chunk = &x->frontend->scratch;
    lac_buf_clear(chunk);
    x->writer->end(&x->answer, &x->usage, account_of(x), chunk);
    put_event(x, chunk);
    if (!x->writer->named)
        lac__response_event(&response, false, done, sizeof done - 1, out);
    lac__response_stream_end(&response, out);
    lac__idempotent_end(x);
    x->keep_alive = response.keep_alive && !response.http10;
}

static void act_open_last(lac__exchange *x)
{
    act_open(x);
    act_last(x);
}

static void act_refuse(lac__exchange *x)
{
    lac__response response = lac__conn_response(x->conn);
    x->keep_alive = response.keep_alive;
    lac_buf extra = {0};
    lac__refusal_headers(&x->problem, &x->quota, &extra);
    lac_buf *body = &x->frontend->scratch;
    lac_buf_clear(body);
    lac__problem_json(&x->problem, body);
    lac__response_whole(&response, x->problem.http, "application/json",
                        extra.length ? extra.data : "", body->data, body->length,
                        lac__conn_out(x->conn));
    lac_buf_free(&extra);
    lac__count_request(x->frontend, x->conn->route->name, x->problem.http);
}

/* The status line is long gone: the error is an event, and the missing [DONE] tells the rest. */
static void act_error_event(lac__exchange *x)
{
    act_write(x);
    lac_buf *body = &x->frontend->scratch;
    lac_buf_clear(body);
    lac__problem_json(&x->problem, body);
    put_event(x, body);
    lac__response response = lac__conn_response(x->conn);
    lac__response_stream_end(&response, lac__conn_out(x->conn));
    x->keep_alive = false;
    lac__count_disconnect(x->frontend, "stream_error");
}

static void act_drop(lac__exchange *x)
{
    (void)x; /* ending it gives the job and the stream back */
}

static void act_wait(lac__exchange *x)
{
    (void)x; /* the request with its key wakes it */
}

/* The answer that another request with this key had. */
static void act_replay(lac__exchange *x)
{
    const lac_buf *kept = lac__idempotent_answer(x);
    lac__response response = lac__conn_response(x->conn);
    lac_buf *out = lac__conn_out(x->conn);
    static const char extra[] = "Idempotent-Replayed: true\r\n";
    x->keep_alive = response.keep_alive;
    lac__count_request(x->frontend, x->conn->route->name, 200);
    if (!x->answer.stream) {
        lac__response_whole(&response, 200, "application/json", extra, kept->data, kept->length - 1,
                            out);
        return;
    }
    lac__response_stream(&response, extra, out);
    for (const char *at = kept->data, *end = at + kept->length; at < end;) {
        size_t length = strcspn(at, "\n");
        lac__response_event(&response, x->writer->named, at, length, out);
        at += length + 1;
    }
    if (!x->writer->named)
        lac__response_event(&response, false, "[DONE]", 6, out);
    lac__response_stream_end(&response, out);
    x->keep_alive = response.keep_alive && !response.http10;
}

/* ---- the table ---- */

typedef struct {
    void (*act)(lac__exchange *x);
    lac__exchange_state next;
} transition;

static const transition table[LAC__X_STATES][LAC__E_EVENTS] = {
    [LAC__X_PARSING] = {[LAC__E_PARSED] = {act_submit, LAC__X_GATHER},
                        [LAC__E_PARSED_STREAM] = {act_submit, LAC__X_HOLD},
                        [LAC__E_TWIN] = {act_wait, LAC__X_WAITING},
                        [LAC__E_KNOWN] = {act_replay, LAC__X_ENDED},
                        [LAC__E_BAD] = {act_refuse, LAC__X_ENDED},
                        [LAC__E_GONE] = {act_drop, LAC__X_ENDED}},
    [LAC__X_WAITING] = {[LAC__E_PARSED] = {act_submit, LAC__X_GATHER},
                        [LAC__E_PARSED_STREAM] = {act_submit, LAC__X_HOLD},
                        [LAC__E_KNOWN] = {act_replay, LAC__X_ENDED},
                        [LAC__E_BAD] = {act_refuse, LAC__X_ENDED},
                        [LAC__E_GONE] = {act_drop, LAC__X_ENDED}},
    [LAC__X_GATHER] = {[LAC__E_TOKENS] = {act_gather, LAC__X_GATHER},
                       [LAC__E_DONE] = {act_whole, LAC__X_ENDED},
                       [LAC__E_REFUSED] = {act_refuse, LAC__X_ENDED},
                       [LAC__E_GONE] = {act_drop, LAC__X_ENDED}},
    [LAC__X_HOLD] = {[LAC__E_TOKENS] = {act_open_write, LAC__X_OPEN},
                     [LAC__E_DONE] = {act_open_last, LAC__X_ENDED},
                     [LAC__E_REFUSED] = {act_refuse, LAC__X_ENDED},
                     [LAC__E_QUIET] = {act_open_ping, LAC__X_OPEN},
                     [LAC__E_GONE] = {act_drop, LAC__X_ENDED}},
    [LAC__X_OPEN] = {[LAC__E_TOKENS] = {act_write, LAC__X_OPEN},
                     [LAC__E_DONE] = {act_last, LAC__X_ENDED},
                     [LAC__E_REFUSED] = {act_error_event, LAC__X_ENDED},
                     [LAC__E_QUIET] = {act_ping, LAC__X_OPEN},
                     [LAC__E_GONE] = {act_drop, LAC__X_ENDED}},
};

static void job_leave(lac__exchange *x);

static void end(lac__exchange *x)
{
    struct lac__conn *conn = x->conn;
    bool keep_alive = x->keep_alive, here = conn->exchange == x;
    job_leave(x);
    unwake(x);
    for (uint32_t i = 0; i < x->answer.choices_count; i++)
        if (x->seats[i].stream)
            emit_cancel(&x->seats[i]);
    conn->exchange = here ? NULL : conn->exchange;
    lac__idempotent_leave(x);
    lac__api_free(&x->api);
    lac__answer_free(&x->answer);
    free(x->mask);
    free(x);
    if (here)
        lac__conn_finish(conn, keep_alive);
}

/* False when the exchange has ended and is freed. */
static bool fire(lac__exchange *x, lac__exchange_event event)
{
    const transition *step = &table[x->state][event];
    LAC_ASSERT(step->act); /* the caller asks only for what the state allows */
    step->act(x);
    x->state = step->next;
    if (x->state != LAC__X_ENDED)
        return true;
    end(x);
    return false;
}

/* ---- parsing ---- */

/* Owns all that the pool's thread touches, so that a client may leave meanwhile. */
struct lac__job {
    uv_work_t work;
    lac_frontend *frontend;
    lac__exchange *exchange; /* NULL once it has ended */
    lac__api_kind kind;
    lac_buf body;
    lac__api_request api;
    lac__problem problem;
    bool good;
};

static void job_leave(lac__exchange *x)
{
    if (!x->job)
        return;
    x->job->exchange = NULL;
    uv_cancel((uv_req_t *)&x->job->work); /* when it runs already, its result is dropped */
    x->job = NULL;
}

static void job_run(uv_work_t *work)
{
    struct lac__job *job = work->data;
    job->good =
        lac__api_parse(job->kind, job->body.data, job->body.length, &job->api, &job->problem);
}

/* Takes the result over; false when the exchange has ended. */
static bool job_result(lac__exchange *x, lac__api_request *api, const lac__problem *problem,
                       bool good)
{
    if (!good) {
        x->problem = *problem;
        return fire(x, LAC__E_BAD);
    }
    x->api = *api;
    lac__answer *answer = &x->answer;
    memcpy(answer->model, api->submit.model, sizeof answer->model);
    answer->include_usage = api->include_usage;
    answer->stream = api->stream;
    answer->want_logprobs = api->submit.sampling.logprobs;
    answer->choices_count = api->choices;
    lac__answer_bound(answer, api->stream ? LAC_HTTP_PENDING_MAX : LAC_HTTP_REPLY_MAX / 4);
    if (api->kind == LAC__API_RESPONSE) {
        answer->items = lac__items_create(api->echo);
        x->api.echo = NULL;
    }
    return fire(x, lac__idempotent_enter(x));
}

bool lac__exchange_run(lac__exchange *x)
{
    LAC_ASSERT(x->state == LAC__X_WAITING);
    return fire(x, x->answer.stream ? LAC__E_PARSED_STREAM : LAC__E_PARSED);
}

void lac__exchange_refuse(lac__exchange *x)
{
    fire(x, LAC__E_BAD);
}

bool lac__exchange_replay(lac__exchange *x)
{
    struct lac__conn *conn = x->conn;
    bool lives = fire(x, LAC__E_KNOWN);
    lac__conn_flush(conn);
    return lives;
}

static void job_done(uv_work_t *work, int status)
{
    struct lac__job *job = work->data;
    lac_frontend *frontend = job->frontend;
    lac__exchange *x = job->exchange;
    lac_buf_free(&job->body);
    if (x && status == 0) {
        x->job = NULL;
        job_result(x, &job->api, &job->problem, job->good);
    } else if (job->good) {
        lac__api_free(&job->api);
    }
    free(job);
    frontend->jobs--;
    lac__frontend_maybe_free(frontend);
}

static bool job_queue(lac__exchange *x, lac__api_kind kind, lac_buf *body)
{
    struct lac__job *job = lac_alloc(1, sizeof *job);
    job->work.data = job;
    job->frontend = x->frontend;
    job->exchange = x;
    job->kind = kind;
    job->body = *body;
    if (uv_queue_work(x->frontend->loop, &job->work, job_run, job_done) != 0) {
        free(job);
        return false;
    }
    *body = (lac_buf){.cap = body->cap};
    x->job = job;
    x->frontend->jobs++;
    return true;
}

void lac__exchange_start(struct lac__conn *conn, lac__api_kind kind)
{
    lac_frontend *frontend = conn->frontend;
    lac__exchange *x = lac_alloc(1, sizeof *x);
    x->frontend = frontend;
    x->conn = conn;
    x->writer = lac__writer_of(kind);
    x->answer.chat = x->writer->parts;
    x->answer.created_s = lac_wall_s();
    snprintf(x->answer.id, sizeof x->answer.id, "%s-%016" PRIx64 "%08" PRIx64, x->writer->id_prefix,
             frontend->id_prefix, ++frontend->answers);
    conn->exchange = x;
    lac_buf *body = &conn->request.body;
    lac__idempotent_key(x, body);
    if (body->length > LAC_HTTP_INLINE_BODY_MAX && job_queue(x, kind, body))
        return;
    lac__api_request api;
    lac__problem problem;
    bool good = lac__api_parse(kind, body->data, body->length, &api, &problem);
    lac_buf_free(body);
    job_result(x, &api, &problem, good);
}

/* ---- what happens from outside ---- */

void lac__exchange_gone(lac__exchange *x)
{
    fire(x, LAC__E_GONE);
}

void lac__exchange_tick(lac__exchange *x, uint64_t now_ms)
{
    bool streams = x->state == LAC__X_HOLD || x->state == LAC__X_OPEN;
    if (!streams || now_ms - x->quiet_ms < x->frontend->options.ping_ms)
        return;
    if (x->state == LAC__X_OPEN && lac__conn_backlog(x->conn) > 0)
        return; /* the client has not taken the last event yet */
    struct lac__conn *conn = x->conn;
    if (fire(x, LAC__E_QUIET))
        lac__conn_flush(conn);
}

static void turn(lac__exchange *x)
{
    if (x->state == LAC__X_WAITING) {
        lac__idempotent_turn(x);
        return;
    }
    struct lac__conn *conn = x->conn;
    bool last = x->done || x->refused;
    bool room = x->state == LAC__X_GATHER || lac__conn_backlog(conn) <= LAC_HTTP_WRITE_QUEUE_MAX;
    if (room && lac__answer_pending(&x->answer) && !last && !fire(x, LAC__E_TOKENS))
        return;
    for (uint32_t i = 0; room && i < x->answer.choices_count; i++)
        emit_credit(&x->seats[i]);
    if (last && !fire(x, x->refused ? LAC__E_REFUSED : LAC__E_DONE))
        return;
    lac__conn_flush(conn);
}

void lac__exchanges_run(lac_frontend *frontend)
{
    lac__exchanges *all = &frontend->exchanges;
    /* Those woken meanwhile wait for the next round. */
    for (uint32_t count = all->dirty_count; count > 0 && all->dirty_first; count--) {
        lac__exchange *x = all->dirty_first;
        unwake(x);
        turn(x);
    }
}
