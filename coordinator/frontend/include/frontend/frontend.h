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

typedef struct {
    const char *host; /* an address; wider than loopback is refused unless `allow_wide` */
    uint16_t port;    /* 0 = any free one */
    bool allow_wide;
} lac_frontend_options;

/* What the front end asks of the process around it. */
typedef struct {
    void *arg;
    /* Hands a client message on to the core; body is SUBMIT, CLIENT_CANCEL or CREDIT. */
    void (*emit)(void *arg, const lac_msg *msg);
    bool (*ready)(void *arg);
    bool (*alive)(void *arg);
    /* Appends the JSON array elements of /v1/models. */
    void (*models)(void *arg, lac_buf *out);
    void (*metrics)(void *arg, lac_buf *out);
} lac_frontend_hooks;

lac_status lac_frontend_create(uv_loop_t *loop, const lac_frontend_options *options,
                               const lac_frontend_hooks *hooks, lac_metrics *metrics,
                               lac_frontend **out, lac_error *err);
/* "127.0.0.1:8080" with the port in use. */
const char *lac_frontend_address(const lac_frontend *frontend);
/* A message for one of its streams; unknown streams are ignored. */
void lac_frontend_deliver(lac_frontend *frontend, const lac_msg *msg);
/* Stops listening; open exchanges go on. */
void lac_frontend_drain(lac_frontend *frontend);
/* Closes everything; `done` is called from the loop once all handles are closed, then it is freed. */
void lac_frontend_close(lac_frontend **frontend, void (*done)(void *arg), void *arg);

#endif
