/* The front end as a whole: the listening socket, the clock, the turns, the end. Owns the list of
 * connections and the table of streams. Loop thread. Must not know HTTP or JSON. */
#include "frontend/frontend.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/rng.h"
#include "connection.h"
#include "cors.h"

enum { BACKLOG = 511, TICK_MS = 100 };

uint64_t lac__frontend_now(const lac_frontend *frontend)
{
    return uv_now(frontend->loop);
}

/* ---- counting ---- */

static void count(lac_frontend *frontend, lac_metric_id id, const char *key, const char *value,
                  int http)
{
    lac_buf labels = {.cap = 256};
    lac_metric_label(&labels, key, value);
    if (http) {
        char code[16];
        snprintf(code, sizeof code, "%d", http);
        lac_metric_label(&labels, "code", code);
    }
    lac_metric_add(lac_metrics_get(frontend->metrics, id, labels.data), 1);
    lac_buf_free(&labels);
}

void lac__count_request(lac_frontend *frontend, const char *route, int http)
{
    count(frontend, LAC_M_HTTP_REQUESTS, "route", route, http);
}

void lac__count_disconnect(lac_frontend *frontend, const char *why)
{
    count(frontend, LAC_M_HTTP_DISCONNECTS, "why", why, 0);
}

static void counters_start(lac_frontend *frontend)
{
    lac_metrics *m = frontend->metrics;
    frontend->counters = (lac__counters){
        .connections = lac_metrics_get(m, LAC_M_HTTP_CONNECTIONS, ""),
        .connections_total = lac_metrics_get(m, LAC_M_HTTP_CONNECTIONS_TOTAL, ""),
        .received = lac_metrics_get(m, LAC_M_HTTP_RECEIVED, ""),
        .denied = lac_metrics_get(m, LAC_M_HTTP_DENIED, ""),
        .sent = lac_metrics_get(m, LAC_M_HTTP_SENT, ""),
    };
    if (!frontend->tls)
        return;
    frontend->counters.handshakes = lac_metrics_get(m, LAC_M_TLS_HANDSHAKES, "result=\"ok\"");
    frontend->counters.handshakes_failed =
        lac_metrics_get(m, LAC_M_TLS_HANDSHAKES, "result=\"failed\"");
    frontend->counters.handshakes_late =
        lac_metrics_get(m, LAC_M_TLS_HANDSHAKES, "result=\"late\"");
    frontend->counters.expires = lac_metrics_get(m, LAC_M_TLS_EXPIRES, "");
    lac_metric_set(frontend->counters.expires, (double)lac__tls_expires_s(frontend->tls));
}

/* ---- the loop's calls ---- */

static void on_tick(uv_timer_t *timer)
{
    lac_frontend *frontend = timer->data;
    uint64_t now_ms = lac__frontend_now(frontend);
    for (lac__conn *conn = frontend->conns, *next; conn; conn = next) {
        next = conn->next; /* connections are freed in later callbacks only */
        lac__conn_tick(conn, now_ms);
    }
}

static void on_work(uv_idle_t *work)
{
    lac_frontend *frontend = work->data;
    lac__exchanges_run(frontend);
    if (!frontend->exchanges.dirty_first)
        uv_idle_stop(work);
}

void lac__frontend_wake(lac_frontend *frontend)
{
    if (!frontend->closing)
        uv_idle_start(&frontend->work, on_work);
}

static void on_connection(uv_stream_t *listener, int status)
{
    lac_frontend *frontend = listener->data;
    if (status < 0) {
        lac_warn("http accept failed: %s", uv_strerror(status));
        return;
    }
    lac__conn *conn = lac__conn_create(frontend);
    if (uv_accept(listener, (uv_stream_t *)&conn->tcp) != 0) {
        lac__conn_close(conn);
        return;
    }
    lac__conn_start(conn);
}

lac_status lac__frontend_adopt(lac_frontend *frontend, int fd)
{
    lac__conn *conn = lac__conn_create(frontend);
    if (uv_tcp_open(&conn->tcp, fd) != 0) {
        lac__conn_close(conn);
        return LAC_EIO;
    }
    lac__conn_start(conn);
    return LAC_OK;
}

/* ---- the address ---- */

static lac_status parse_address(const lac_frontend_options *options, struct sockaddr_storage *out,
                                bool *loopback, lac_error *err)
{
    const char *host = strcmp(options->host, "localhost") == 0 ? "127.0.0.1" : options->host;
    struct sockaddr_in *v4 = (struct sockaddr_in *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
    memset(out, 0, sizeof *out);
    if (uv_ip4_addr(host, options->port, v4) == 0)
        *loopback = ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    else if (uv_ip6_addr(host, options->port, v6) == 0)
        *loopback = IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
    else
        return lac_fail(err, LAC_EINVAL, "http host is \"%.100s\", allowed an IPv4 or IPv6 address",
                        options->host);
    bool tls = options->tls_certificate && *options->tls_certificate;
    bool keys = options->api_keys && *options->api_keys;
    if (!*loopback && !options->allow_wide && !(tls && keys))
        return lac_fail(err, LAC_EREFUSED,
                        "http host is %.100s, allowed without %s only loopback "
                        "(127.0.0.0/8, ::1, localhost)",
                        options->host,
                        tls    ? "API keys"
                        : keys ? "TLS"
                               : "TLS and API keys");
    return LAC_OK;
}

static void write_address(lac_frontend *frontend)
{
    struct sockaddr_storage name;
    int length = sizeof name;
    char host[INET6_ADDRSTRLEN] = "?";
    int error = uv_tcp_getsockname(&frontend->listener, (struct sockaddr *)&name, &length);
    LAC_ASSERT(error == 0);
    bool v6 = name.ss_family == AF_INET6;
    uint16_t port = ntohs(v6 ? ((struct sockaddr_in6 *)&name)->sin6_port
                             : ((struct sockaddr_in *)&name)->sin_port);
    if (v6)
        uv_ip6_name((struct sockaddr_in6 *)&name, host, sizeof host);
    else
        uv_ip4_name((struct sockaddr_in *)&name, host, sizeof host);
    snprintf(frontend->address, sizeof frontend->address, v6 ? "[%s]:%u" : "%s:%u", host,
             (unsigned)port);
}

/* ---- life ---- */

static lac_frontend_options with_defaults(lac_frontend_options o)
{
    o.body_max = o.body_max ? o.body_max : LAC_HTTP_BODY_MAX;
    o.connections_max = o.connections_max ? o.connections_max : LAC_HTTP_CONNECTIONS_MAX;
    o.per_address_max = o.per_address_max ? o.per_address_max : LAC_HTTP_PER_ADDRESS_MAX;
    o.header_ms = o.header_ms ? o.header_ms : LAC_HTTP_HEADER_MS;
    o.idle_ms = o.idle_ms ? o.idle_ms : LAC_HTTP_IDLE_MS;
    o.body_grace_ms = o.body_grace_ms ? o.body_grace_ms : LAC_HTTP_BODY_GRACE_MS;
    o.ping_ms = o.ping_ms ? o.ping_ms : LAC_SSE_PING_MS;
    o.slow_reader_ms = o.slow_reader_ms ? o.slow_reader_ms : LAC_SLOW_READER_MS;
    o.linger_ms = o.linger_ms ? o.linger_ms : LAC_HTTP_LINGER_MS;
    return o;
}

static void on_own_closed(uv_handle_t *handle)
{
    lac_frontend *frontend = handle->data;
    frontend->handles--;
    lac__frontend_maybe_free(frontend);
}

void lac__frontend_maybe_free(lac_frontend *frontend)
{
    if (!frontend->closing || frontend->handles > 0 || frontend->jobs > 0)
        return;
    void (*done)(void *) = frontend->done;
    void *arg = frontend->done_arg;
    lac__access_free(&frontend->access);
    lac__tls_free(&frontend->tls);
    lac_buf_free(&frontend->scratch);
    lac__kepts_free(&frontend->kepts);
    free(frontend->cors);
    free(frontend);
    if (done)
        done(arg);
}

static void init_handles(lac_frontend *frontend)
{
    uv_tcp_init(frontend->loop, &frontend->listener);
    uv_timer_init(frontend->loop, &frontend->timer);
    uv_idle_init(frontend->loop, &frontend->work);
    frontend->listener.data = frontend->timer.data = frontend->work.data = frontend;
    frontend->handles = 3;
}

/* Keys and certificate, where the options name them; on failure neither. */
static lac_status load_secrets(const lac_frontend_options *options, lac__access **access,
                               lac__tls **tls, lac_error *err)
{
    lac_status status = LAC_OK;
    *access = NULL;
    *tls = NULL;
    if (options->api_keys && *options->api_keys)
        status = lac__access_load(options->api_keys, access, err);
    if (status == LAC_OK && options->tls_certificate && *options->tls_certificate)
        status = lac__tls_load(options->tls_certificate, options->tls_key, tls, err);
    if (status != LAC_OK)
        lac__access_free(access);
    return status;
}

lac_status lac_frontend_create(uv_loop_t *loop, const lac_frontend_options *options,
                               const lac_frontend_hooks *hooks, lac_metrics *metrics,
                               lac_frontend **out, lac_error *err)
{
    struct sockaddr_storage address;
    const char *cors = options->cors_origins ? options->cors_origins : "";
    bool loopback;
    lac_status status = parse_address(options, &address, &loopback, err);
    if (status == LAC_OK)
        status = lac__cors_check(cors, err);
    if (status != LAC_OK)
        return status;
    lac__access *access = NULL;
    lac__tls *tls = NULL;
    status = load_secrets(options, &access, &tls, err);
    if (status != LAC_OK)
        return status;
    signal(SIGPIPE, SIG_IGN);
    lac_frontend *frontend = lac_alloc(1, sizeof *frontend);
    frontend->loop = loop;
    frontend->options = with_defaults(*options);
    frontend->options.host = NULL; /* the caller's text */
    frontend->hooks = *hooks;
    frontend->access = access;
    frontend->tls = tls;
    frontend->loopback = loopback;
    frontend->options.cors_origins = NULL;
    frontend->cors = lac_strndup(cors, strlen(cors));
    frontend->metrics = metrics;
    frontend->scratch.cap = 2 * (size_t)LAC_HTTP_REPLY_MAX;
    LAC_ASSERT(frontend->options.connections_max < LAC__SLOTS);
    lac_random_bytes(&frontend->id_prefix, sizeof frontend->id_prefix);
    lac__exchanges_start(&frontend->exchanges);
    counters_start(frontend);
    init_handles(frontend);
    int error = uv_tcp_bind(&frontend->listener, (struct sockaddr *)&address, 0);
    if (error == 0)
        error = uv_listen((uv_stream_t *)&frontend->listener, BACKLOG, on_connection);
    if (error != 0) {
        lac_fail(err, LAC_EIO, "http port %u on %.100s cannot be used: %s", options->port,
                 options->host, uv_strerror(error));
        lac_frontend_close(&frontend, NULL, NULL);
        return LAC_EIO;
    }
    uv_timer_start(&frontend->timer, on_tick, TICK_MS, TICK_MS);
    write_address(frontend);
    *out = frontend;
    return LAC_OK;
}

lac_status lac_frontend_reload(lac_frontend *frontend, lac_error *err)
{
    lac__access *access;
    lac__tls *tls;
    lac_status status = load_secrets(&frontend->options, &access, &tls, err);
    if (status != LAC_OK)
        return status;
    lac__access_free(&frontend->access);
    lac__tls_free(&frontend->tls); /* open connections keep what they began with */
    frontend->access = access;
    frontend->tls = tls;
    if (tls)
        lac_metric_set(frontend->counters.expires, (double)lac__tls_expires_s(tls));
    return LAC_OK;
}

const char *lac_frontend_address(const lac_frontend *frontend)
{
    return frontend->address;
}

void lac_frontend_deliver(lac_frontend *frontend, const lac_msg *msg)
{
    lac__exchanges_deliver(frontend, msg);
}

void lac_frontend_drain(lac_frontend *frontend)
{
    frontend->draining = true;
    if (!uv_is_closing((uv_handle_t *)&frontend->listener))
        uv_close((uv_handle_t *)&frontend->listener, on_own_closed);
}

void lac_frontend_close(lac_frontend **pointer, void (*done)(void *arg), void *arg)
{
    lac_frontend *frontend = *pointer;
    if (!frontend)
        return;
    *pointer = NULL;
    frontend->done = done;
    frontend->done_arg = arg;
    frontend->closing = true;
    lac_frontend_drain(frontend);
    uv_close((uv_handle_t *)&frontend->timer, on_own_closed);
    uv_close((uv_handle_t *)&frontend->work, on_own_closed);
    for (lac__conn *conn = frontend->conns; conn; conn = conn->next)
        lac__conn_close(conn);
}
