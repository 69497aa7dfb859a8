/* The parts of the front end: who lists whom. Shared inside this folder. */
#ifndef LAC__FRONTEND_PARTS_H
#define LAC__FRONTEND_PARTS_H

#include <sys/socket.h>
#include <uv.h>

#include "access.h"
#include "exchange.h"
#include "frontend/frontend.h"
#include "request.h"
#include "tls.h"

typedef struct lac__conn lac__conn;

typedef enum {
    LAC__CONN_OPEN,
    LAC__CONN_LINGER, /* last reply is on its way; what still comes is thrown away */
    LAC__CONN_CLOSING /* the handle is being closed; freed in its callback */
} lac__conn_stage;

struct lac__conn {
    uv_tcp_t tcp;
    uv_write_t write;
    uv_shutdown_t shutdown;
    lac_frontend *frontend;
    lac__conn *prev, *next;
    lac__tls_conn *tls;  /* NULL: plain */
    bool established;    /* its handshake was over when last looked at; true without TLS */
    uint8_t address[16]; /* IPv4 mapped into IPv6 */
    lac__conn_stage stage;

    lac__request request;
    const struct lac__route *route; /* of the present request, once its head is complete */
    char request_id[LAC__REQUEST_ID_MAX + 1];
    char tenant[LAC_NAME_MAX + 1]; /* whose key the present request has; "" = nobody's */
    bool keyed;                    /* it has an idempotency key: */
    lac_digest idempotency;        /* of that and of the API key */
    char trace[LAC_TRACE_MAX + 1]; /* it goes on here: the client's trace, our parent; "" = none */
    lac_buf shared;                /* header lines of every reply to it */
    lac__exchange *exchange;       /* the one request the core works on; NULL when none */
    struct lac__later *later;      /* or the one the store or the pool works on */
    bool head_done;                /* the present request's head was looked at */
    bool feeding;                  /* bytes are being taken: a finished reply must not take more */
    bool eof;                      /* the client sends no more */
    bool fresh;                    /* not a byte has come yet */
    lac_buf hold;                  /* pipelined bytes while a request is served */

    /* One buffer is being filled while the other is on its way. */
    lac_buf out[2];
    int filling;
    bool writing, shutting;
    size_t backlog_seen;

    uint64_t since_ms;    /* the present wait (head, body, idle, linger) began */
    uint64_t progress_ms; /* the socket last took bytes, or had none to take */
};

typedef struct {
    lac_metric *connections, *connections_total, *received, *sent, *denied;
    lac_metric *handshakes, *handshakes_failed, *handshakes_late, *expires;
} lac__counters;

struct lac_frontend {
    uv_loop_t *loop;
    uv_tcp_t listener;
    uv_timer_t timer; /* every deadline of every connection */
    uv_idle_t work;   /* runs while an exchange has something to write or to emit */
    lac_frontend_options options;
    lac_frontend_hooks hooks;
    lac_metrics *metrics;
    lac__counters counters;
    bool loopback;       /* nobody beyond this machine can ask */
    lac__access *access; /* NULL: nobody is asked for a key */
    lac__tls *tls;       /* NULL: plain HTTP */
    char address[LAC_ENDPOINT_MAX + 1];
    bool draining, closing;
    lac__conn *conns;
    uint32_t conns_count;
    lac__exchanges exchanges;
    lac__kepts kepts;            /* answers under their idempotency keys */
    char *cors;                  /* origins whose pages may ask; "" = none */
    lac_buf scratch;             /* one body or event being composed; its memory is kept */
    uint64_t answers, id_prefix; /* for ids: a number under a random prefix of this start */
    char read_buffer[65536];     /* read callbacks use it up before they return */
    uint32_t handles;            /* of its own and of connections, still open */
    uint32_t jobs;               /* bodies being parsed in the pool */
    void (*done)(void *arg);
    void *done_arg;
};

/* Frees the front end once nothing of it is left in the loop. */
void lac__frontend_maybe_free(lac_frontend *frontend);
/* An exchange wants a turn. */
void lac__frontend_wake(lac_frontend *frontend);
uint64_t lac__frontend_now(const lac_frontend *frontend);
/* lacuna_http_requests_total{route,code}. */
void lac__count_request(lac_frontend *frontend, const char *route, int http);
/* lacuna_http_disconnects_total{why}. */
void lac__count_disconnect(lac_frontend *frontend, const char *why);
/* A connection on a descriptor that is already connected, as if it had been accepted. For the fuzz
 * target, which has no use for ports. */
lac_status lac__frontend_adopt(lac_frontend *frontend, int fd);

#endif
