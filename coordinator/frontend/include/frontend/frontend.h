/* The HTTP side of the coordinator: connections, OpenAI's API, server-sent events, limits. It is a
 * client of the core like any other: it turns exchanges into SUBMIT and CLIENT_CANCEL messages and
 * turns ACCEPTED, TOKENS, DONE and REFUSED back into responses. It decides nothing about requests.
 * Loop thread only. Nothing outside knows llhttp, OpenSSL or JSON. */
#ifndef LAC_FRONTEND_H
#define LAC_FRONTEND_H

#include <stdbool.h>
#include <uv.h>

#include "base/mem.h"
#include "base/metric.h"
#include "base/msg.h"
#include "base/status.h"

typedef struct lac_frontend lac_frontend;
struct lac_store;

typedef struct {
    const char *host; /* an address or "localhost"; wider than loopback needs TLS and API keys, or
                         allow_wide */
    uint16_t port;    /* 0 = any free one */
    bool allow_wide;
    const char *api_keys; /* file of those let in, not copied; NULL or "": everybody */
    struct lac_store *store;     /* of files and batches, outlives the front end's calls; NULL: none */
    const char *tls_certificate, *tls_key; /* PEM files, not copied; NULL or "": plain HTTP */
    const char *cors_origins; /* of web pages that may ask, commas between, or "*"; copied; NULL or
                                 "": none */
    /* Bounds that an installation or a test may narrow; 0 = the value of base/limits.h. */
    size_t body_max;
    uint32_t connections_max, per_address_max;
    uint32_t header_ms, idle_ms, body_grace_ms, ping_ms, slow_reader_ms, linger_ms;
} lac_frontend_options;

/* What the front end asks of the process around it. */
typedef struct {
    void *arg;
    /* Hands a client message on to the core; body is SUBMIT, CLIENT_CANCEL or CREDIT. Called from
     * the loop, never from inside lac_frontend_deliver; it may deliver at once. */
    void (*emit)(void *arg, const lac_msg *msg);
    bool (*ready)(void *arg);
    bool (*alive)(void *arg);
    /* Appends the JSON array elements of /v1/models. */
    void (*models)(void *arg, lac_buf *out);
    void (*metrics)(void *arg, lac_buf *out);
    /* What a tenant ("" = nobody's key) says of an answer: LAC_ENOTFOUND, LAC_EEXIST, LAC_EINVAL.
     */
    lac_status (*feedback)(void *arg, const char *tenant, uint64_t request, bool good,
                           lac_error *err);
    /* Appends the state as JSON; the three answers of health, true when all is well. */
    void (*status)(void *arg, lac_buf *out);
    bool (*health)(void *arg, lac_buf *out);
} lac_frontend_hooks;

/* Listens and counts into `metrics`, which outlives it; `hooks` is copied. Ignores SIGPIPE for the
 * process, because peers may go at any time. LAC_EINVAL: no such address; LAC_EREFUSED: it is wider
 * than loopback; LAC_EIO: it is in use or not ours. After LAC_EIO the loop must run once more, so
 * that the handles it opened can close. */
lac_status lac_frontend_create(uv_loop_t *loop, const lac_frontend_options *options,
                               const lac_frontend_hooks *hooks, lac_metrics *metrics,
                               lac_frontend **out, lac_error *err);
/* Reads API keys and certificate again; on an error all stays as it was. */
lac_status lac_frontend_reload(lac_frontend *frontend, lac_error *err);
/* "127.0.0.1:8080" with the port in use. */
const char *lac_frontend_address(const lac_frontend *frontend);
/* A message for one of its streams; unknown streams are ignored. Only takes notes: writing and
 * emitting happen later in the same turn of the loop, so the core's own sink may call this. */
void lac_frontend_deliver(lac_frontend *frontend, const lac_msg *msg);
/* Stops listening; open exchanges go on, each connection closes after its reply. */
void lac_frontend_drain(lac_frontend *frontend);
/* Closes everything; `done` is called from the loop once all handles are closed, then it is freed.
 */
void lac_frontend_close(lac_frontend **frontend, void (*done)(void *arg), void *arg);

#endif
