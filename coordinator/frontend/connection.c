/* One client's socket. Owns its bytes both ways, the deadlines and the limits that hold per
 * connection; knows when a request begins and ends but not what it asks. Loop thread.
 *
 * Reading never stops, because the end of a waiting client is seen only by reading: while a request
 * is served, what the client sends ahead goes into a small hold buffer. Writing is one write at a
 * time from two buffers, so what is appended meanwhile goes out as one piece and costs no
 * allocation. */
#include "connection.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/rng.h"
#include "cors.h"
#include "later.h"
#include "live.h"
#include "routes.h"
#include "trace.h"

enum { OVER_LIMIT_MAX = 128 }; /* connections above the limit that still get a reply */

static void take(lac__conn *conn, const char *data, size_t length);

/* Its present request waits for the core, the store or the pool. */
static bool waits(const lac__conn *conn)
{
    return conn->exchange || conn->later;
}

/* ---- life ---- */

lac__conn *lac__conn_create(lac_frontend *frontend)
{
    lac__conn *conn = lac_alloc(1, sizeof *conn);
    int error = uv_tcp_init(frontend->loop, &conn->tcp);
    LAC_ASSERT(error == 0);
    conn->tcp.data = conn;
    conn->frontend = frontend;
    conn->fresh = true;
    conn->hold.cap = LAC_HTTP_HOLD_MAX;
    conn->out[0].cap = conn->out[1].cap = 2 * (size_t)LAC_HTTP_REPLY_MAX;
    lac__request_start(&conn->request, frontend->options.body_max);
    conn->next = frontend->conns;
    if (conn->next)
        conn->next->prev = conn;
    frontend->conns = conn;
    frontend->conns_count++;
    frontend->handles++;
    lac_metric_set(frontend->counters.connections, frontend->conns_count);
    return conn;
}

static void on_closed(uv_handle_t *handle)
{
    lac__conn *conn = handle->data;
    lac_frontend *frontend = conn->frontend;
    if (conn->prev)
        conn->prev->next = conn->next;
    else
        frontend->conns = conn->next;
    if (conn->next)
        conn->next->prev = conn->prev;
    lac__request_free(&conn->request);
    lac_buf_free(&conn->hold);
    lac_buf_free(&conn->shared);
    lac_buf_free(&conn->out[0]);
    lac_buf_free(&conn->out[1]);
    lac__tls_conn_free(&conn->tls);
    free(conn);
    frontend->conns_count--;
    frontend->handles--;
    lac_metric_set(frontend->counters.connections, frontend->conns_count);
    lac__frontend_maybe_free(frontend);
}

void lac__conn_close(lac__conn *conn)
{
    if (conn->stage == LAC__CONN_CLOSING)
        return;
    conn->stage = LAC__CONN_CLOSING;
    lac__exchange *exchange = conn->exchange;
    conn->exchange = NULL;
    if (exchange)
        lac__exchange_gone(exchange);
    if (conn->later)
        lac__later_gone(conn->later);
    uv_close((uv_handle_t *)&conn->tcp, on_closed);
}

/* ---- writing ---- */

size_t lac__conn_backlog(const lac__conn *conn)
{
    return uv_stream_get_write_queue_size((const uv_stream_t *)&conn->tcp) +
           conn->out[conn->filling].length;
}

lac_buf *lac__conn_out(lac__conn *conn)
{
    return &conn->out[conn->filling];
}

/* Memory follows work in flight: an idle connection keeps no buffer. */
static void shrink(lac_buf *buf)
{
    lac_buf_clear(buf);
    if (buf->size > 16384)
        lac_buf_free(buf);
}

static void on_shutdown(uv_shutdown_t *shutdown, int status)
{
    (void)shutdown, (void)status; /* the deadline closes what does not end by itself */
}

static void resume(lac__conn *conn)
{
    if (conn->stage != LAC__CONN_OPEN || waits(conn) || conn->feeding || conn->hold.length == 0)
        return;
    char held[LAC_HTTP_HOLD_MAX];
    size_t length = conn->hold.length;
    memcpy(held, conn->hold.data, length);
    lac_buf_free(&conn->hold);
    take(conn, held, length);
}

/* The client has taken all there was. */
static void drained(lac__conn *conn)
{
    if (conn->stage == LAC__CONN_LINGER) {
        if (conn->tls && lac__tls_bye(conn->tls)) {
            lac__conn_flush(conn); /* and back here */
        } else if (conn->eof) {
            lac__conn_close(conn);
        } else if (!conn->shutting) {
            conn->shutting = true;
            conn->since_ms = lac__frontend_now(conn->frontend);
            if (uv_shutdown(&conn->shutdown, (uv_stream_t *)&conn->tcp, on_shutdown) != 0)
                lac__conn_close(conn);
        }
    } else if (conn->exchange) {
        lac__exchange_wake(conn->exchange);
    } else {
        resume(conn);
    }
}

static void on_written(uv_write_t *write, int status)
{
    lac__conn *conn = write->handle->data;
    conn->writing = false;
    shrink(&conn->out[conn->filling ^ 1]);
    if (conn->stage == LAC__CONN_CLOSING)
        return;
    conn->progress_ms = lac__frontend_now(conn->frontend);
    if (status < 0) {
        lac__conn_close(conn);
        return;
    }
    if (conn->out[conn->filling].length > 0)
        lac__conn_flush(conn);
    else
        drained(conn);
}

void lac__conn_flush(lac__conn *conn)
{
    lac_buf *out = &conn->out[conn->filling];
    bool records = conn->tls && lac__tls_waits(conn->tls);
    if (conn->stage == LAC__CONN_CLOSING || conn->writing || (out->length == 0 && !records))
        return;
    if (out->overflow || (conn->tls && !lac__tls_seal(conn->tls, out)) ||
        out->overflow) { /* beyond every bound of what is appended: only a bug comes here */
        lac__conn_close(conn);
        return;
    }
    uv_stream_t *stream = (uv_stream_t *)&conn->tcp;
    uv_buf_t bytes = uv_buf_init(out->data, (unsigned)out->length);
    int sent = uv_try_write(stream, &bytes, 1);
    if (sent < 0 && sent != UV_EAGAIN) {
        lac__conn_close(conn);
        return;
    }
    size_t taken = sent > 0 ? (size_t)sent : 0;
    conn->progress_ms = lac__frontend_now(conn->frontend);
    lac_metric_add(conn->frontend->counters.sent, (double)out->length);
    if (taken == out->length) {
        shrink(out);
        drained(conn);
        return;
    }
    conn->filling ^= 1;
    conn->writing = true;
    bytes = uv_buf_init(out->data + taken, (unsigned)(out->length - taken));
    if (uv_write(&conn->write, stream, &bytes, 1, on_written) != 0) {
        conn->writing = false;
        lac__conn_close(conn);
    }
}

/* ---- replies ---- */

static void name_request(lac__conn *conn)
{
    lac_frontend *frontend = conn->frontend;
    if (conn->request.id[0])
        memcpy(conn->request_id, conn->request.id, sizeof conn->request_id);
    else
        snprintf(conn->request_id, sizeof conn->request_id, "req-%016llx%06llx",
                 (unsigned long long)frontend->id_prefix, (unsigned long long)++frontend->answers);
}

lac__response lac__conn_response(const lac__conn *conn)
{
    const lac__request *request = &conn->request;
    return (lac__response){
        .http10 = request->http10,
        .head_only = conn->head_done && request->method == HTTP_HEAD,
        .keep_alive = request->stage == LAC__REQUEST_COMPLETE && request->keep_alive &&
                      !conn->eof && !conn->frontend->draining,
        .request_id = conn->request_id,
        .shared = conn->shared.length ? conn->shared.data : "",
    };
}

void lac__conn_finish(lac__conn *conn, bool keep_alive)
{
    lac__request_free(&conn->request);
    conn->since_ms = lac__frontend_now(conn->frontend);
    conn->route = NULL;
    if (keep_alive) {
        lac__request_start(&conn->request, conn->frontend->options.body_max);
        conn->head_done = false;
        conn->request_id[0] = '\0';
        conn->keyed = false;
        conn->trace[0] = '\0';
        lac_buf_free(&conn->shared);
    } else {
        conn->stage = LAC__CONN_LINGER;
        lac_buf_free(&conn->hold);
    }
    if (lac__conn_backlog(conn) == 0)
        drained(conn);
    else
        lac__conn_flush(conn);
}

void lac__conn_reply(lac__conn *conn, int http, const char *type, const char *extra,
                     const lac_buf *body)
{
    if (!conn->request_id[0])
        name_request(conn);
    lac__response response = lac__conn_response(conn);
    lac__response_whole(&response, http, type, extra, body->data, body->length,
                        lac__conn_out(conn));
    lac__count_request(conn->frontend, conn->route ? conn->route->name : "none", http);
    lac__conn_finish(conn, response.keep_alive);
}

void lac__conn_problem(lac__conn *conn, const lac__problem *problem)
{
    char extra[96] = "";
    if (problem->retry_after_ms > 0)
        snprintf(extra, sizeof extra, "Retry-After: %u\r\n",
                 (problem->retry_after_ms + 999) / 1000);
    else if (problem->http == 401)
        snprintf(extra, sizeof extra, "WWW-Authenticate: Bearer\r\n");
    else if (problem->allow)
        snprintf(extra, sizeof extra, "Allow: %s\r\n", problem->allow);
    lac_buf body = {.cap = 8192};
    lac__problem_json(problem, &body);
    lac__conn_reply(conn, problem->http, "application/json", extra, &body);
    lac_buf_free(&body);
}

/* ---- reading ---- */

/* Without a key that is on the list there is no way on, whatever was asked for. */
static void check_key(lac__conn *conn)
{
    lac_frontend *frontend = conn->frontend;
    lac__request *request = &conn->request;
    bool open = !frontend->access || (conn->route && (conn->route->open || lac__live_open(conn)));
    const char *name = open ? "" : lac__access_name(frontend->access, request->key);
    snprintf(conn->tenant, sizeof conn->tenant, "%s", name ? name : "");
    if (!name) {
        lac_metric_add(frontend->counters.denied, 1);
        lac__problem_set(&request->problem, 401, "invalid_api_key", NULL, "%s",
                         request->key[0] ? "this API key is not known here"
                                         : "an API key is needed: Authorization: Bearer KEY");
        conn->route = NULL;
    }
    explicit_bzero(request->key, sizeof request->key);
}

/* What the head says that is not about this or that route. */
static void take_notes(lac__conn *conn)
{
    lac_frontend *frontend = conn->frontend;
    const lac__request *request = &conn->request;
    conn->shared.cap = 1024;
    if (request->trace[0]) {
        uint64_t parent;
        lac_random_bytes(&parent, sizeof parent);
        lac__trace_child(request->trace, parent, conn->trace);
        lac_buf_printf(&conn->shared, "traceparent: %s\r\n", conn->trace);
    }
    lac__cors_headers(frontend->cors, request->origin, &conn->shared);
    conn->keyed = request->idempotency_key[0] != '\0';
    if (!conn->keyed)
        return;
    char both[sizeof request->idempotency_key + sizeof request->key] = {0};
    memcpy(both, request->idempotency_key, sizeof request->idempotency_key);
    memcpy(both + sizeof request->idempotency_key, request->key, sizeof request->key);
    lac_sha256(both, sizeof both, &conn->idempotency);
    explicit_bzero(both, sizeof both);
}

/* The head is complete: is there such a thing, and is the client waiting for leave to send? */
static void look_at_head(lac__conn *conn)
{
    lac__request *request = &conn->request;
    conn->head_done = true;
    conn->since_ms = lac__frontend_now(conn->frontend);
    name_request(conn);
    take_notes(conn);
    conn->route = lac__cors_route(conn);
    if (!conn->route)
        conn->route = lac__route_find(request, &request->problem);
    check_key(conn);
    request->discard_body = !conn->route || conn->route->method != HTTP_POST;
    if (!request->expect_continue || request->stage != LAC__REQUEST_BODY)
        return;
    if (!conn->route) {
        lac__conn_problem(conn, &request->problem);
        return;
    }
    lac_buf_text(lac__conn_out(conn), "HTTP/1.1 100 Continue\r\n\r\n");
    lac__conn_flush(conn);
}

static size_t take_some(lac__conn *conn, const char *data, size_t length)
{
    lac__request *request = &conn->request;
    if (request->stage == LAC__REQUEST_HEAD && !request->first && !request->blank_lines)
        conn->since_ms = lac__frontend_now(conn->frontend);
    size_t used = lac__request_feed(request, data, length);
    if (request->stage == LAC__REQUEST_FAILED) {
        /* The problem is inside the request that the reply ends. */
        lac__problem problem = request->problem;
        lac__conn_problem(conn, &problem);
        return used;
    }
    if (request->stage != LAC__REQUEST_HEAD && !conn->head_done)
        look_at_head(conn);
    if (conn->stage != LAC__CONN_OPEN || request->stage != LAC__REQUEST_COMPLETE)
        return used;
    if (conn->route) {
        conn->route->handle(conn);
    } else {
        lac__problem problem = request->problem;
        lac__conn_problem(conn, &problem);
    }
    return used;
}

static bool busy(const lac__conn *conn)
{
    return waits(conn) || lac__conn_backlog(conn) > LAC_HTTP_WRITE_QUEUE_MAX;
}

static void take(lac__conn *conn, const char *data, size_t length)
{
    conn->feeding = true;
    while (length > 0 && conn->stage == LAC__CONN_OPEN && !busy(conn)) {
        size_t used = take_some(conn, data, length);
        data += used;
        length -= used;
    }
    conn->feeding = false;
    if (conn->stage != LAC__CONN_OPEN || length == 0)
        return;
    if (!lac_buf_add(&conn->hold, data, length)) {
        lac__count_disconnect(conn->frontend, "pipelined");
        lac__conn_close(conn);
    }
}

static void on_end(lac__conn *conn, ssize_t error)
{
    conn->eof = true;
    if (waits(conn))
        lac__count_disconnect(conn->frontend, "client_gone");
    else if (conn->stage == LAC__CONN_OPEN && conn->request.stage == LAC__REQUEST_BODY)
        lac__count_disconnect(conn->frontend, "body_cut");
    /* A finished reply still goes out to a client that has only closed its own side. */
    if (error == UV_EOF && !waits(conn) && lac__conn_backlog(conn) > 0)
        conn->stage = LAC__CONN_LINGER;
    else
        lac__conn_close(conn);
}

static void on_bytes(lac__conn *conn, const char *data, size_t length)
{
    conn->fresh = false;
    if (conn->stage == LAC__CONN_LINGER)
        return;
    if (conn->hold.length > 0 || busy(conn)) {
        if (!lac_buf_add(&conn->hold, data, length)) {
            lac__count_disconnect(conn->frontend, "pipelined");
            lac__conn_close(conn);
        }
        return;
    }
    take(conn, data, length);
}

static void note_established(lac__conn *conn)
{
    if (conn->established || !lac__tls_established(conn->tls))
        return;
    conn->established = true;
    conn->since_ms = lac__frontend_now(conn->frontend);
    lac_metric_add(conn->frontend->counters.handshakes, 1);
}

/* Records in, plain bytes on; what TLS has to answer by itself goes out at once. */
static void on_records(lac__conn *conn, const char *data, size_t length)
{
    char plain[16384]; /* of one record */
    lac__tls_result result = LAC__TLS_BYTES;
    lac__tls_take(conn->tls, data, length);
    while (result == LAC__TLS_BYTES && conn->stage != LAC__CONN_CLOSING) {
        result = lac__tls_next(conn->tls, plain, sizeof plain, &length);
        note_established(conn);
        if (result == LAC__TLS_BYTES)
            on_bytes(conn, plain, length);
    }
    lac__conn_flush(conn);
    if (result == LAC__TLS_BYE && conn->stage != LAC__CONN_CLOSING) {
        on_end(conn, UV_EOF);
    } else if (result == LAC__TLS_BAD) {
        lac_metric_add(conn->frontend->counters.handshakes_failed, !conn->established);
        lac__conn_close(conn);
    }
}

static void on_read(uv_stream_t *stream, ssize_t nread, const uv_buf_t *buf)
{
    lac__conn *conn = stream->data;
    if (conn->stage == LAC__CONN_CLOSING || nread == 0)
        return;
    if (nread < 0) {
        on_end(conn, nread);
        return;
    }
    lac_metric_add(conn->frontend->counters.received, (double)nread);
    if (conn->tls)
        on_records(conn, buf->base, (size_t)nread);
    else
        on_bytes(conn, buf->base, (size_t)nread);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)suggested;
    lac__conn *conn = handle->data;
    *buf = uv_buf_init(conn->frontend->read_buffer, sizeof conn->frontend->read_buffer);
}

/* ---- start ---- */

static void note_address(lac__conn *conn)
{
    struct sockaddr_storage name;
    int length = sizeof name;
    if (uv_tcp_getpeername(&conn->tcp, (struct sockaddr *)&name, &length) != 0)
        return;
    if (name.ss_family == AF_INET6) {
        memcpy(conn->address, &((struct sockaddr_in6 *)&name)->sin6_addr, 16);
    } else if (name.ss_family == AF_INET) {
        conn->address[10] = conn->address[11] = 0xff;
        memcpy(conn->address + 12, &((struct sockaddr_in *)&name)->sin_addr, 4);
    }
}

/* Connections are few and accepted rarely beside what they carry: a walk is enough. */
static uint32_t same_address(const lac__conn *conn)
{
    uint32_t count = 0;
    for (const lac__conn *other = conn->frontend->conns; other; other = other->next)
        count += other->stage == LAC__CONN_OPEN && memcmp(other->address, conn->address, 16) == 0;
    return count;
}

void lac__conn_start(lac__conn *conn)
{
    lac_frontend *frontend = conn->frontend;
    const lac_frontend_options *options = &frontend->options;
    conn->since_ms = conn->progress_ms = lac__frontend_now(frontend);
    lac_metric_add(frontend->counters.connections_total, 1);
    note_address(conn);
    uv_tcp_nodelay(&conn->tcp, 1);
    uv_tcp_keepalive(&conn->tcp, 1, 60);
    if (frontend->conns_count > options->connections_max + OVER_LIMIT_MAX ||
        uv_read_start((uv_stream_t *)&conn->tcp, on_alloc, on_read) != 0) {
        lac__conn_close(conn);
        return;
    }
    bool many = frontend->conns_count > options->connections_max;
    conn->established = !frontend->tls;
    if (frontend->tls) {
        /* Whoever is one too many is not worth a handshake. */
        conn->tls = many || same_address(conn) > options->per_address_max
                        ? NULL
                        : lac__tls_accept(frontend->tls);
        if (!conn->tls)
            lac__conn_close(conn);
        return;
    }
    lac__problem problem;
    if (many)
        lac__problem_set(&problem, 503, "too_many_connections", NULL,
                         "more than %u connections are open, the most allowed",
                         options->connections_max);
    else if (same_address(conn) > options->per_address_max)
        lac__problem_set(&problem, 429, "too_many_connections", NULL,
                         "more than %u connections from this address are open, the most allowed",
                         options->per_address_max);
    else
        return;
    problem.retry_after_ms = 1000;
    lac__conn_problem(conn, &problem);
}

/* ---- deadlines ---- */

static void time_out(lac__conn *conn, const char *what, uint32_t limit_ms)
{
    lac__problem problem;
    lac__problem_set(&problem, 408, "request_timeout", NULL, "%s, allowed %u ms", what, limit_ms);
    lac__conn_problem(conn, &problem);
}

static void tick_request(lac__conn *conn, uint64_t now_ms)
{
    const lac_frontend_options *options = &conn->frontend->options;
    const lac__request *request = &conn->request;
    uint64_t waited_ms = now_ms - conn->since_ms;
    if (request->stage == LAC__REQUEST_BODY) {
        uint64_t grace_ms = options->body_grace_ms;
        if (waited_ms > grace_ms &&
            request->body_seen < (waited_ms - grace_ms) * LAC_HTTP_BODY_RATE_MIN / 1000)
            time_out(conn, "body comes slower than 1024 bytes a second after its grace time",
                     options->body_grace_ms);
    } else if (!conn->established) {
        if (waited_ms > options->header_ms) {
            lac_metric_add(conn->frontend->counters.handshakes_late, 1);
            lac__conn_close(conn);
        }
    } else if (request->first || request->blank_lines) {
        if (waited_ms > options->header_ms)
            time_out(conn, "head of the request did not come in time", options->header_ms);
    } else if (waited_ms > (conn->fresh ? options->header_ms : options->idle_ms) ||
               (conn->frontend->draining && !conn->fresh)) {
        lac__conn_close(conn);
    }
}

void lac__conn_tick(lac__conn *conn, uint64_t now_ms)
{
    const lac_frontend_options *options = &conn->frontend->options;
    size_t queued = uv_stream_get_write_queue_size((uv_stream_t *)&conn->tcp);
    if (conn->stage == LAC__CONN_CLOSING)
        return;
    if (queued == 0 || queued != conn->backlog_seen)
        conn->progress_ms = now_ms;
    conn->backlog_seen = queued;
    if (now_ms - conn->progress_ms > options->slow_reader_ms) {
        lac__count_disconnect(conn->frontend, "slow_reader");
        lac__conn_close(conn);
    } else if (conn->stage == LAC__CONN_LINGER) {
        if (conn->shutting && now_ms - conn->since_ms > options->linger_ms)
            lac__conn_close(conn);
    } else if (conn->exchange) {
        lac__exchange_tick(conn->exchange, now_ms);
    } else if (queued == 0 && !conn->later) {
        tick_request(conn, now_ms);
    }
}
