/* ZeroMQ inside a libuv loop. Owns the sockets' options, the endpoint rules, and the
 * pump that moves frames; peers.c owns who is who. Runs on the loop's thread. Knows what a frame is
 * by codec alone and nothing of what a message means.
 *
 * The descriptor ZeroMQ gives is edge-triggered on an internal mailbox: any send, receive or query
 * may consume the edge, so a callback that only reacts to the descriptor stalls. Hence four
 * handles: poll     only wakes the loop; prepare  asks for readiness before the loop may block, and
 * if there is work starts idle     which keeps the loop from blocking; check    moves messages, at
 * most DRAIN_MAX or DRAIN_NS, so that timers and other sockets get their turn. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "descriptors.h"
#include "endpoint.h"
#include "monitor.h"
#include "peers.h"
#include "wire.h"
#include "wire/codec.h"
#include "wire/socket.h"

enum { DRAIN_MAX = 256, DRAIN_NS = 2000000, HANDLES_MAX = 5, ONLY_PEER = 1 };

struct lac_socket {
    lac_wire *wire;
    void *zmq;
    lac_socket_kind kind;
    lac_socket_events events;
    lac_socket_stats stats;
    lac__peers *peers;             /* of a ROUTER */
    uint64_t newest;               /* of them */
    lac__descriptors *descriptors; /* of a ROUTER: who is on which connection */
    void *monitor;                 /* tells when connections come and go */
    const char *sender; /* "ROLE:NAME" of the message being delivered; NULL without keys */
    lac_buf frame;      /* of the message being sent */
    uv_poll_t poll;
    uv_poll_t monitor_poll;
    uv_prepare_t prepare;
    uv_check_t check;
    uv_idle_t idle;
    unsigned handles; /* not yet let go of by the loop */
    bool closed;
    char endpoint[LAC_ENDPOINT_MAX + 1];
};

static bool is_router(const lac_socket *s)
{
    return s->kind != LAC_SOCKET_CONNECT;
}

static bool is_client_plane(const lac_socket *s)
{
    return s->kind == LAC_SOCKET_LISTEN_CLIENTS;
}

/* ---- options ---- */

typedef struct {
    int option, value;
    const char *name;
} int_option;

static lac_status set_options(lac_socket *s, const int_option *options, size_t count,
                              lac_error *err)
{
    for (size_t i = 0; i < count; i++)
        if (zmq_setsockopt(s->zmq, options[i].option, &options[i].value, sizeof(int)) != 0)
            return lac_fail(err, LAC_EIO, "zeromq option %s = %d: %s", options[i].name,
                            options[i].value, zmq_strerror(errno));
    return LAC_OK;
}

/* HWM counts messages, so it bounds bytes only together with the frame cap. LINGER 0 because a
 * process that leaves has said what it had to; the default waits for ever. The client plane's peers
 * may be far and slow, so its heartbeats are slower. */
static lac_status set_common_options(lac_socket *s, bool ipv6, lac_error *err)
{
    bool clients = is_client_plane(s);
    int64_t frame_max = clients ? LAC_CLIENT_FRAME_MAX : LAC_FRAME_MAX;
    if (zmq_setsockopt(s->zmq, ZMQ_MAXMSGSIZE, &frame_max, sizeof frame_max) != 0)
        return lac_fail(err, LAC_EIO, "zeromq option MAXMSGSIZE: %s", zmq_strerror(errno));
    int hwm = clients ? 200 : 1000;
    int beat_ms = clients ? 5000 : 1000, dead_ms = clients ? 15000 : 3000;
    const int_option options[] = {
        {ZMQ_SNDHWM, hwm, "SNDHWM"},
        {ZMQ_RCVHWM, hwm, "RCVHWM"},
        {ZMQ_LINGER, 0, "LINGER"},
        {ZMQ_HANDSHAKE_IVL, clients ? 3000 : 5000, "HANDSHAKE_IVL"},
        {ZMQ_HEARTBEAT_IVL, beat_ms, "HEARTBEAT_IVL"},
        {ZMQ_HEARTBEAT_TIMEOUT, dead_ms, "HEARTBEAT_TIMEOUT"},
        {ZMQ_HEARTBEAT_TTL, dead_ms, "HEARTBEAT_TTL"},
        {ZMQ_TCP_MAXRT, 10000, "TCP_MAXRT"},
        {ZMQ_IPV6, ipv6, "IPV6"},
    };
    return set_options(s, options, sizeof options / sizeof options[0], err);
}

/* MANDATORY: without it a send to nobody vanishes. No HANDOVER and no fixed ids: the router makes
 * one a connection, and who a peer is it says in its Hello. */
static lac_status set_router_options(lac_socket *s, lac_error *err)
{
    const int_option options[] = {
        {ZMQ_ROUTER_MANDATORY, 1, "ROUTER_MANDATORY"},
        {ZMQ_ROUTER_HANDOVER, 0, "ROUTER_HANDOVER"},
        {ZMQ_BACKLOG, 512, "BACKLOG"},
    };
    return set_options(s, options, sizeof options / sizeof options[0], err);
}

/* IMMEDIATE: a message is queued only on a connection that is made, so nothing from before an
 * outage reaches a restarted coordinator. The jitter keeps a fleet from coming back in one instant.
 */
static lac_status set_dealer_options(lac_socket *s, lac_error *err)
{
    uint16_t jitter;
    lac_random_bytes(&jitter, sizeof jitter);
    const int_option options[] = {
        {ZMQ_IMMEDIATE, 1, "IMMEDIATE"},
        {ZMQ_CONNECT_TIMEOUT, 5000, "CONNECT_TIMEOUT"},
        {ZMQ_RECONNECT_IVL, 75 + jitter % 50, "RECONNECT_IVL"},
        {ZMQ_RECONNECT_IVL_MAX, 5000, "RECONNECT_IVL_MAX"},
    };
    return set_options(s, options, sizeof options / sizeof options[0], err);
}

/* ---- receiving ---- */

/* Takes what is left of a multipart message. */
static unsigned drop_rest(lac_socket *s)
{
    unsigned dropped = 0;
    int more = 0;
    size_t size = sizeof more;
    while (zmq_getsockopt(s->zmq, ZMQ_RCVMORE, &more, &size) == 0 && more) {
        zmq_msg_t part;
        zmq_msg_init(&part);
        int rc = zmq_msg_recv(&part, s->zmq, ZMQ_DONTWAIT);
        zmq_msg_close(&part);
        if (rc < 0)
            break;
        dropped++;
    }
    return dropped;
}

static void deliver(lac_socket *s, uint64_t peer, const void *frame, size_t length)
{
    lac_msg msg;
    lac_error err;
    s->stats.received++;
    if (lac_codec_unpack(frame, length, &msg, &err)) {
        s->stats.bad++;
        if (s->events.bad)
            s->events.bad(s->events.arg, peer, &msg.envelope, &err);
        return;
    }
    s->events.message(s->events.arg, peer, &msg);
    lac_msg_free(&msg);
}

static void refuse_parts(lac_socket *s, uint64_t peer, unsigned parts)
{
    lac_error err;
    lac_envelope none = {0};
    s->stats.received++;
    s->stats.bad++;
    s->stats.multipart++;
    lac_fail(&err, LAC_EPROTO, "message has %u parts, allowed: 1", parts);
    if (s->events.bad)
        s->events.bad(s->events.arg, peer, &none, &err);
}

/* A ROUTER's connections that came and went. */
static void take_connections(lac_socket *s)
{
    lac__monitor_event event;
    int fd;
    while ((event = lac__monitor_take(s->monitor, &fd)) != LAC__MONITOR_NOTHING) {
        if (event == LAC__MONITOR_OPENED)
            lac__descriptors_opened(s->descriptors, fd);
        if (event == LAC__MONITOR_DOWN)
            lac__descriptors_closed(s->descriptors, fd);
    }
}

/* Peer numbers grow, so a higher one is new. The descriptor is told by the payload: the part with
 * the routing id has none when it was fetched ahead. */
static void learn_connection(lac_socket *s, uint64_t peer, zmq_msg_t *payload)
{
    if (!is_router(s) || peer <= s->newest)
        return;
    s->newest = peer;
    take_connections(s);
    lac__descriptors_carries(s->descriptors, zmq_msg_get(payload, ZMQ_SRCFD), peer);
}

/* The routing id that leads each message of a ROUTER. Makes the peer known. */
static bool receive_peer(lac_socket *s, uint64_t *peer)
{
    zmq_msg_t id;
    zmq_msg_init(&id);
    int rc = zmq_msg_recv(&id, s->zmq, ZMQ_DONTWAIT);
    if (rc >= 0)
        *peer = lac__peers_number(s->peers, zmq_msg_data(&id), zmq_msg_size(&id));
    zmq_msg_close(&id);
    return rc >= 0;
}

/* One whole message; false when there is none. */
static bool receive_one(lac_socket *s)
{
    uint64_t peer = ONLY_PEER;
    if (is_router(s) && !receive_peer(s, &peer))
        return false;
    zmq_msg_t payload;
    zmq_msg_init(&payload);
    int rc = zmq_msg_recv(&payload, s->zmq, ZMQ_DONTWAIT);
    if (rc >= 0) {
        learn_connection(s, peer, &payload);
        unsigned more = drop_rest(s);
        s->sender = is_router(s) ? zmq_msg_gets(&payload, "User-Id") : NULL;
        if (more)
            refuse_parts(s, peer, 1 + more);
        else
            deliver(s, peer, zmq_msg_data(&payload), zmq_msg_size(&payload));
    }
    s->sender = NULL;
    zmq_msg_close(&payload);
    return rc >= 0;
}

lac_role lac_socket_sender(const lac_socket *s, const char **name)
{
    *name = "";
    const char *colon = s->sender ? strchr(s->sender, ':') : NULL;
    for (lac_role role = LAC_ROLE_WORKER; colon && role <= LAC_ROLE_ADMIN; role++) {
        const char *text = lac_role_name(role);
        if (strlen(text) == (size_t)(colon - s->sender) &&
            !strncmp(s->sender, text, strlen(text))) {
            *name = colon + 1;
            return role;
        }
    }
    return LAC_ROLE_NONE;
}

static bool readable(void *zmq)
{
    int events = 0;
    size_t size = sizeof events;
    return zmq_getsockopt(zmq, ZMQ_EVENTS, &events, &size) == 0 && (events & ZMQ_POLLIN);
}

/* Told from the loop, never from inside a send, so that who sends is not called back in
 * mid-thought. */
static void tell_lost(lac_socket *s)
{
    uint64_t peer;
    while (!s->closed && s->peers && lac__peers_take_lost(s->peers, &peer)) {
        s->stats.lost++;
        if (s->events.lost)
            s->events.lost(s->events.arg, peer);
    }
}

/* What a DEALER's connection did. Told before messages are taken, so that after `lost` none comes
 * that was sent on the old connection's behalf. */
static void tell_connection(lac_socket *s)
{
    lac__monitor_event event;
    int fd;
    while (!s->closed && !is_router(s) &&
           (event = lac__monitor_take(s->monitor, &fd)) != LAC__MONITOR_NOTHING) {
        if (event == LAC__MONITOR_UP && s->events.connected)
            s->events.connected(s->events.arg);
        if (event == LAC__MONITOR_DOWN) {
            s->stats.lost++;
            if (s->events.lost)
                s->events.lost(s->events.arg, ONLY_PEER);
        }
    }
}

/* What a peer said before it went is in the socket when its end is told, so it is lost once nothing
 * is left to read. */
static void lose_gone(lac_socket *s)
{
    uint64_t peer;
    if (s->closed || !is_router(s))
        return;
    take_connections(s);
    while (!readable(s->zmq) && lac__descriptors_take_gone(s->descriptors, &peer))
        lac__peers_lose(s->peers, peer);
}

static bool work_waits(lac_socket *s)
{
    return readable(s->zmq) || readable(s->monitor) ||
           (is_router(s) &&
            (lac__peers_has_lost(s->peers) || lac__descriptors_has_gone(s->descriptors)));
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
    (void)handle;
    (void)status;
    (void)events; /* woke the loop; check does the work */
}

static void on_idle(uv_idle_t *handle)
{
    (void)handle;
}

static void on_prepare(uv_prepare_t *handle)
{
    lac_socket *s = handle->data;
    if (work_waits(s))
        uv_idle_start(&s->idle, on_idle);
    else
        uv_idle_stop(&s->idle);
}

static void drain(lac_socket *s)
{
    uint64_t until = lac_now_ns() + DRAIN_NS;
    for (unsigned n = 0; n < DRAIN_MAX && !s->closed; n++)
        if (!receive_one(s) || lac_now_ns() > until)
            break;
}

static void on_check(uv_check_t *handle)
{
    lac_socket *s = handle->data;
    uv_idle_stop(&s->idle);
    tell_lost(s);
    tell_connection(s);
    if (!s->closed && readable(s->zmq))
        drain(s);
    lose_gone(s);
    tell_lost(s); /* a full table may have given up its quietest peer as well */
}

/* ---- open and close ---- */

static void free_socket(lac_socket *s)
{
    lac__peers_destroy(&s->peers);
    lac__descriptors_destroy(&s->descriptors);
    lac_buf_free(&s->frame);
    free(s);
}

static void on_closed(uv_handle_t *handle)
{
    lac_socket *s = handle->data;
    if (--s->handles == 0)
        free_socket(s);
}

/* From here the loop owns the memory. The poll handle goes before the descriptor it watches. */
static void let_go(lac_socket *s)
{
    s->closed = true;
    uv_handle_t *handles[HANDLES_MAX] = {(uv_handle_t *)&s->poll, (uv_handle_t *)&s->prepare,
                                         (uv_handle_t *)&s->check, (uv_handle_t *)&s->idle,
                                         (uv_handle_t *)&s->monitor_poll};
    for (unsigned i = 0, count = s->handles; i < count; i++)
        uv_close(handles[i], on_closed);
    lac__monitor_close(s->zmq, &s->monitor);
    zmq_close(s->zmq);
    s->zmq = NULL;
    s->wire->sockets--;
    if (!s->handles)
        free_socket(s); /* the loop never got one */
}

void lac_socket_close(lac_socket **socket)
{
    if (!*socket)
        return;
    let_go(*socket);
    *socket = NULL;
}

static lac_status watch_descriptor(uv_loop_t *loop, void *zmq, uv_poll_t *poll, lac_error *err)
{
    int fd;
    size_t size = sizeof fd;
    if (zmq_getsockopt(zmq, ZMQ_FD, &fd, &size) != 0)
        return lac_fail(err, LAC_EIO, "zeromq descriptor: %s", zmq_strerror(errno));
    int rc = uv_poll_init(loop, poll, fd);
    if (rc)
        return lac_fail(err, LAC_EIO, "watching zeromq's descriptor: %s", uv_strerror(rc));
    return LAC_OK;
}

/* The last step of opening: a handle once given to the loop only the loop can take back, so from
 * the first one on a failure ends by let_go. */
static lac_status watch(lac_socket *s, uv_loop_t *loop, lac_error *err)
{
    lac_status status = watch_descriptor(loop, s->zmq, &s->poll, err);
    if (status)
        return status;
    s->handles = HANDLES_MAX - 1;
    status = watch_descriptor(loop, s->monitor, &s->monitor_poll, err);
    s->handles += status == LAC_OK;
    uv_prepare_init(loop, &s->prepare);
    uv_check_init(loop, &s->check);
    uv_idle_init(loop, &s->idle);
    s->poll.data = s->monitor_poll.data = s->prepare.data = s->check.data = s->idle.data = s;
    if (status)
        return status;
    uv_poll_start(&s->poll, UV_READABLE, on_poll);
    uv_poll_start(&s->monitor_poll, UV_READABLE, on_poll);
    uv_prepare_start(&s->prepare, on_prepare);
    uv_check_start(&s->check, on_check);
    return LAC_OK;
}

static lac_status bind_or_connect(lac_socket *s, const lac__endpoint *endpoint, lac_error *err)
{
    if (!is_router(s)) {
        if (zmq_connect(s->zmq, endpoint->address) != 0)
            return lac_fail(err, LAC_EINVAL, "connecting to %s: %s", endpoint->address,
                            zmq_strerror(errno));
        memcpy(s->endpoint, endpoint->address, sizeof s->endpoint);
        return LAC_OK;
    }
    if (zmq_bind(s->zmq, endpoint->address) != 0)
        return lac_fail(err, errno == EADDRINUSE ? LAC_EEXIST : LAC_EIO, "listening on %s: %s",
                        endpoint->address, zmq_strerror(errno));
    size_t size = sizeof s->endpoint;
    if (zmq_getsockopt(s->zmq, ZMQ_LAST_ENDPOINT, s->endpoint, &size) != 0)
        return lac_fail(err, LAC_EIO, "address of %s: %s", endpoint->address, zmq_strerror(errno));
    return LAC_OK;
}

static lac_status make(lac_socket *s, const lac__endpoint *endpoint, lac_error *err)
{
    lac_status status = set_common_options(s, endpoint->ipv6, err);
    if (!status)
        status = lac__wire_set_keys(s->wire, s->zmq, is_router(s), is_client_plane(s), err);
    if (!status)
        status = is_router(s) ? set_router_options(s, err) : set_dealer_options(s, err);
    if (!status)
        status = lac__monitor_open(s->wire->context, s->zmq, &s->monitor, err);
    return status ? status : bind_or_connect(s, endpoint, err);
}

lac_status lac_socket_open(lac_wire *wire, uv_loop_t *loop, lac_socket_kind kind,
                           const char *endpoint, bool allow_wide, const lac_socket_events *events,
                           lac_socket **out, lac_error *err)
{
    LAC_ASSERT(events->message);
    lac__endpoint parsed;
    lac_status status = lac__endpoint_parse(endpoint, kind != LAC_SOCKET_CONNECT, &parsed, err);
    if (status)
        return status;
    if (kind != LAC_SOCKET_CONNECT && !parsed.loopback && !allow_wide && !wire->guard)
        return lac_fail(err, LAC_EREFUSED,
                        "%s listens beyond this machine, which is not allowed without keys: use "
                        "tcp://127.0.0.1:PORT, or --key and --allow",
                        endpoint);

    lac_socket *s = lac_alloc(1, sizeof *s);
    s->wire = wire;
    s->kind = kind;
    s->events = *events;
    s->frame.cap = LAC_FRAME_MAX;
    s->zmq = zmq_socket(wire->context, is_router(s) ? ZMQ_ROUTER : ZMQ_DEALER);
    if (!s->zmq) {
        status = lac_fail(err, LAC_EIO, "zeromq socket: %s", zmq_strerror(errno));
        goto free_memory;
    }
    status = make(s, &parsed, err);
    if (status)
        goto close_zmq;
    if (is_router(s)) {
        s->peers = lac__peers_create(LAC_PEERS_MAX);
        s->descriptors = lac__descriptors_create();
    }
    wire->sockets++;
    status = watch(s, loop, err);
    if (!status)
        *out = s;
    else
        let_go(s);
    return status;

close_zmq:
    lac__monitor_close(s->zmq, &s->monitor);
    zmq_close(s->zmq);
free_memory:
    free(s);
    return status;
}

const char *lac_socket_endpoint(const lac_socket *socket)
{
    return socket->endpoint;
}

lac_socket_stats lac_socket_stats_get(const lac_socket *socket)
{
    return socket->stats;
}

/* ---- sending ---- */

/* Copies, because the frame's buffer is used again by the next send; what the peer has not taken
 * yet waits in ZeroMQ's own queue. */
static lac_status send_part(lac_socket *s, const void *data, size_t length, int flags)
{
    int rc;
    do {
        rc = zmq_send(s->zmq, data, length, flags | ZMQ_DONTWAIT);
    } while (rc < 0 && errno == EINTR);
    if (rc >= 0)
        return LAC_OK;
    return errno == EAGAIN ? LAC_BUSY : errno == EHOSTUNREACH ? LAC_EPEER : LAC_EIO;
}

static lac_status send_frame(lac_socket *s, uint64_t peer, lac_error *err)
{
    lac_status status = LAC_OK;
    if (is_router(s)) {
        const lac__peer_id *id = lac__peers_id(s->peers, peer);
        if (!id)
            return lac_fail(err, LAC_EPEER, "peer %llu is gone", (unsigned long long)peer);
        /* Peer and room are decided on this part; the payload then follows it. */
        status = send_part(s, id->bytes, id->length, ZMQ_SNDMORE);
    } else if (peer != ONLY_PEER) {
        return lac_fail(err, LAC_EPEER, "peer %llu is unknown: a connecting socket has peer 1",
                        (unsigned long long)peer);
    }
    if (!status)
        status = send_part(s, s->frame.data, s->frame.length, 0);
    if (status == LAC_BUSY) {
        s->stats.busy++;
        return lac_fail(err, LAC_BUSY, "peer %llu takes no more right now",
                        (unsigned long long)peer);
    }
    if (status == LAC_EPEER) {
        if (s->peers)
            lac__peers_lose(s->peers, peer);
        return lac_fail(err, LAC_EPEER, "peer %llu is gone", (unsigned long long)peer);
    }
    if (status)
        return lac_fail(err, status, "sending to peer %llu: %s", (unsigned long long)peer,
                        zmq_strerror(errno));
    s->stats.sent++;
    return LAC_OK;
}

lac_status lac_socket_send(lac_socket *socket, uint64_t peer, const lac_msg *msg, lac_error *err)
{
    LAC_ASSERT(!socket->closed);
    lac_buf_clear(&socket->frame);
    lac_status status = lac_codec_pack(msg, &socket->frame, err);
    if (!status)
        status = send_frame(socket, peer, err);
    /* A long prompt must not keep its memory for ever. */
    enum { KEEP = 1 << 20 };
    if (socket->frame.size > KEEP)
        lac_buf_free(&socket->frame);
    return status;
}
