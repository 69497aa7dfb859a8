/* TLS on a connection: bytes of the wire ⇄ bytes of HTTP, by OpenSSL over memory. Knows no socket:
 * whoever has one brings what came and takes what is to go. Loop thread. */
#ifndef LAC__FRONTEND_TLS_H
#define LAC__FRONTEND_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/status.h"

/* A certificate with its key. Connections keep the one they began with. */
typedef struct lac__tls lac__tls;
/* One connection's end of it. */
typedef struct lac__tls_conn lac__tls_conn;

/* PEM files: the certificate with its chain, and the key, which nobody but its owner may read. TLS
 * 1.2 and 1.3, HTTP/1.1 alone. LAC_EINVAL, LAC_EREFUSED (the key's mode), LAC_ENOTFOUND. */
lac_status lac__tls_load(const char *certificate, const char *key, lac__tls **out, lac_error *err);
void lac__tls_free(lac__tls **tls);
/* Seconds since 1970 when the certificate ends. */
int64_t lac__tls_expires_s(const lac__tls *tls);

/* NULL when there is no memory for it. */
lac__tls_conn *lac__tls_accept(lac__tls *tls);
void lac__tls_conn_free(lac__tls_conn **conn);
/* The handshake is over. */
bool lac__tls_established(const lac__tls_conn *conn);

/* Takes bytes from the wire. */
void lac__tls_take(lac__tls_conn *conn, const char *data, size_t length);
typedef enum {
    LAC__TLS_BYTES,
    LAC__TLS_NONE, /* until more comes */
    LAC__TLS_BYE,  /* the peer says nothing more */
    LAC__TLS_BAD   /* nonsense, or nothing both sides speak: what waits to go says so to the peer */
} lac__tls_result;
/* The next plain bytes of what was taken; `length` is set with BYTES. */
lac__tls_result lac__tls_next(lac__tls_conn *conn, char *to, size_t size, size_t *length);
/* Turns plain bytes into those of the wire, after whatever else waits to go. False: out of memory
 * or a bug of ours. Plain bytes only once it is established. */
bool lac__tls_seal(lac__tls_conn *conn, lac_buf *bytes);
/* Something waits to go. */
bool lac__tls_waits(const lac__tls_conn *conn);
/* Says goodbye; true the first time. */
bool lac__tls_bye(lac__tls_conn *conn);

#endif
