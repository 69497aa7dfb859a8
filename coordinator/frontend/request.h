/* One HTTP request from bytes: the parser, its limits, what the head said, the body. Pure: no
 * socket, no clock. The same bytes give the same result however they are cut. */
#ifndef LAC__FRONTEND_REQUEST_H
#define LAC__FRONTEND_REQUEST_H

#include <llhttp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/msg.h"
#include "errors.h"

_Static_assert(LLHTTP_STRICT_MODE == 1, "llhttp without strict mode lets requests be smuggled");

enum { LAC__REQUEST_ID_MAX = 64 };

typedef enum {
    LAC__REQUEST_HEAD,     /* waiting for the blank line */
    LAC__REQUEST_BODY,     /* the head is complete and valid */
    LAC__REQUEST_COMPLETE, /* all of it is here */
    LAC__REQUEST_FAILED    /* `problem` says why; the connection cannot go on */
} lac__request_stage;

typedef struct {
    lac__request_stage stage;
    lac__problem problem;
    size_t body_max;

    /* Of the head, valid from BODY on. */
    uint32_t url_length;
    uint8_t method; /* a llhttp_method_t */
    bool http10, keep_alive, expects_body, expect_continue;
    char id[LAC__REQUEST_ID_MAX + 1]; /* X-Request-Id when it came and is valid, else "" */

    char trace[LAC_TRACE_MAX + 1]; /* traceparent when it is valid, else "" */
    char origin[256];              /* Origin, or "" */
    bool asks_method;              /* Access-Control-Request-Method came */

    char host[128]; /* Host when it fits, else "" */
    char key[256];  /* of "Authorization: Bearer …", or ""; wiped once it was looked at */

    /* X-Lacuna-…: which class is asked for; the core judges them. */
    char hint[LAC_HINT_TEXT_MAX + 1], force[LAC_NAME_MAX + 1];
    lac_sparse sparse;
    bool has_tier;
    lac_tier tier_max;

    char content_type[256];                    /* or "" */
    char idempotency_key[LAC_JOB_KEY_MAX + 1]; /* Idempotency-Key, or "" */

    bool discard_body; /* set by the owner: count the body, do not keep it */
    lac_buf body;
    uint64_t body_seen; /* bytes of body so far, kept or not */

    /* The scanner of the head: counts lines and bytes apart from the parser. */
    uint32_t lines, line_bytes, header_bytes, blank_lines;
    char first;
    /* The header being read. */
    char name[32], value[256];
    uint32_t name_length, value_length;
    bool value_cut, has_host;
    uint32_t chunks;
    uint64_t overhead; /* framing bytes of a chunked body */
    llhttp_t parser;
    char url[LAC_HTTP_URL_MAX + 1]; /* last: starting a request clears what is before it */
} lac__request;

/* An empty request; `request` must not hold a body. */
void lac__request_start(lac__request *request, size_t body_max);
/* Gives the body back. */
void lac__request_free(lac__request *request);

/* Takes bytes and returns how many: stops early right after the head, at the end of the request,
 * and at a failure. Call again with the rest. */
size_t lac__request_feed(lac__request *request, const char *data, size_t length);

#endif
