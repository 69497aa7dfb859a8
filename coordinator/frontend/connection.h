/* One client's socket: bytes ⇄ requests, replies ⇄ bytes, deadlines. Loop thread. */
#ifndef LAC__FRONTEND_CONNECTION_H
#define LAC__FRONTEND_CONNECTION_H

#include "errors.h"
#include "parts.h"
#include "response.h"

/* A connection that owns a handle initialised on the loop, not yet accepted into. */
lac__conn *lac__conn_create(lac_frontend *frontend);
/* Begins to read. Counts it against its address; one too many gets a 429 and is closed. */
void lac__conn_start(lac__conn *conn);
/* Drops everything now: an exchange is told that its client is gone. No-op when closing already. */
void lac__conn_close(lac__conn *conn);
/* Looks at its deadlines. */
void lac__conn_tick(lac__conn *conn, uint64_t now_ms);

/* What shapes replies to the present request. */
lac__response lac__conn_response(const lac__conn *conn);
/* Bytes of replies that the client has not taken. */
size_t lac__conn_backlog(const lac__conn *conn);
/* The buffer replies are appended to; flush afterwards. */
lac_buf *lac__conn_out(lac__conn *conn);
void lac__conn_flush(lac__conn *conn);

/* A whole reply to the present request, which is then over. */
void lac__conn_reply(lac__conn *conn, int http, const char *type, const char *extra,
                     const lac_buf *body);
void lac__conn_problem(lac__conn *conn, const lac__problem *problem);
/* The present request is over, its reply appended: next request, or close once it is written. */
void lac__conn_finish(lac__conn *conn, bool keep_alive);

#endif
