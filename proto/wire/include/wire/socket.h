/* ZeroMQ sockets inside a libuv loop (prepare, check, idle, poll: the descriptor is edge-triggered,
 * so readiness is asked before the loop may block). Whole messages in and out; peers are numbers.
 * Everything here belongs to the loop's thread. */
#ifndef LAC_WIRE_SOCKET_H
#define LAC_WIRE_SOCKET_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/limits.h"
#include "base/msg.h"
#include "base/status.h"
#include "wire/keys.h"

typedef struct lac_wire lac_wire;     /* the process's one ZeroMQ context */
typedef struct lac_socket lac_socket; /* a listening ROUTER or a connecting DEALER */

lac_status lac_wire_create(lac_wire **out, lac_error *err);
/* After every socket is closed. */
void lac_wire_destroy(lac_wire **wire);

/* From here on every socket of this wire speaks CURVE as `own`. Listening ones let in the keys of
 * the file `allow` and no others, each on the planes of its role; connecting ones talk to the
 * holder of `server` alone. Before the first socket is opened. The keys are copied. */
lac_status lac_wire_guard(lac_wire *wire, const lac_key *own, const char *allow, lac_error *err);
lac_status lac_wire_trust(lac_wire *wire, const lac_key *own, const char *server, lac_error *err);
/* Reads the allow file again; on an error the old list stays. Connections that stand are kept. */
lac_status lac_wire_guard_reload(lac_wire *wire, lac_error *err);
/* Handshakes that were refused. */
uint64_t lac_wire_guard_refused(const lac_wire *wire);

typedef enum {
    LAC_SOCKET_LISTEN_WORKERS, /* ROUTER, worker plane options and frame cap */
    LAC_SOCKET_LISTEN_CLIENTS, /* ROUTER, client plane options and frame cap */
    LAC_SOCKET_CONNECT         /* DEALER; its only peer is 1 */
} lac_socket_kind;

typedef struct {
    void *arg;
    /* A validated message; free it not, it ends with the call. Peer numbers are never reused. */
    void (*message)(void *arg, uint64_t peer, const lac_msg *msg);
    /* A frame that did not decode; the connection stays. `envelope` may be zero. */
    void (*bad)(void *arg, uint64_t peer, const lac_envelope *envelope, const lac_error *err);
    /* The peer is known to be unreachable. Listening: its connection ended (everything it had said
     * was told before), a send said so, or the table of peers was full and this one had been quiet
     * longest; the number is dead from here. A process that ends is noticed at once, a host that is
     * gone by ZeroMQ's heartbeats: within 4 s on the worker plane, 20 s on the client plane.
     * Connecting: the connection broke; it is made again by itself, to what may be another process,
     * so whatever the old one knew of us must be said again. Called from the loop, never inside a
     * send. */
    void (*lost)(void *arg, uint64_t peer);
    /* Connecting: the connection stands, for the first time or again. May be NULL, as `bad` and
     * `lost`. */
    void (*connected)(void *arg);
} lac_socket_events;

/* `endpoint` is "tcp://HOST:PORT" (port 0 or "*": any free one) or "ipc://PATH". A listening socket
 * on a non-loopback host is refused (LAC_EREFUSED) unless it is guarded by keys or `allow_wide`. A
 * port in use is LAC_EEXIST. */
lac_status lac_socket_open(lac_wire *wire, uv_loop_t *loop, lac_socket_kind kind,
                           const char *endpoint, bool allow_wide, const lac_socket_events *events,
                           lac_socket **out, lac_error *err);
/* Closes and frees once the loop has let go of the handles; no event comes after the call. */
void lac_socket_close(lac_socket **socket);
/* Inside `message` and `bad`: role and name of the key that sent it; NONE and "" without keys. The
 * name lives until the callback returns. */
lac_role lac_socket_sender(const lac_socket *socket, const char **name);
/* The endpoint with the port in use. */
const char *lac_socket_endpoint(const lac_socket *socket);

typedef struct {
    uint64_t sent, received; /* messages, the bad ones included */
    uint64_t bad;            /* did not decode */
    uint64_t multipart;      /* of those, had more than one part */
    uint64_t busy;           /* sends answered LAC_BUSY */
    uint64_t lost;           /* peers told as lost */
} lac_socket_stats;
lac_socket_stats lac_socket_stats_get(const lac_socket *socket);

/* Sends without waiting. LAC_BUSY: the peer's queue is full; LAC_EPEER: it is gone (a dealer that
 * is not connected answers LAC_BUSY or LAC_EPEER and keeps trying to connect by itself). */
lac_status lac_socket_send(lac_socket *socket, uint64_t peer, const lac_msg *msg, lac_error *err);

#endif
