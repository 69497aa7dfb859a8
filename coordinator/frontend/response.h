/* HTTP responses as bytes: heads, bodies, server-sent events in chunks. Pure. */
#ifndef LAC__FRONTEND_RESPONSE_H
#define LAC__FRONTEND_RESPONSE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"
#include "request.h"

/* What of the request shapes its response. */
typedef struct {
    bool http10, head_only, keep_alive;
    const char *request_id;
    const char *shared; /* header lines of every reply to this request, each with its CRLF, or "" */
} lac__response;

/* A complete response. `extra` is further header lines, each with its CRLF, or "". */
void lac__response_whole(const lac__response *response, int http, const char *type,
                         const char *extra, const char *body, size_t length, lac_buf *out);
/* The head of an event stream; its events go through the next two. HTTP/1.0 streams are unframed
 * and end with the connection. */
void lac__response_stream(const lac__response *response, const char *extra, lac_buf *out);
/* "data: TEXT" and a blank line; TEXT holds no line break. Named: a line before says the type that
 * TEXT, an object, begins with. */
void lac__response_event(const lac__response *response, bool named, const char *text, size_t length,
                         lac_buf *out);
void lac__response_ping(const lac__response *response, lac_buf *out);
void lac__response_stream_end(const lac__response *response, lac_buf *out);

#endif
