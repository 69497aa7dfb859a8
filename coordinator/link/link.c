/* Frames on two planes ⇄ events and actions of the core. Owns the sockets and the score of bad
 * frames; must not know what any message means beyond its plane. Loop thread. */
#include "link/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"

#define uthash_fatal(text) lac__assert_fail("uthash: " text, __FILE__, __LINE__)
#include <uthash.h>

/* A connection that sent bad frames, kept while it lives and there is room. */
typedef struct {
    uint64_t peer;
    UT_hash_handle hh;
    uint32_t frames;
} bad_peer;

typedef struct {
    lac_link *link;
    lac_plane plane;
    lac_socket *socket;
    bad_peer *bad;
    uint64_t seq;
    lac_metric *bad_frames, *ignored, *busy, *denied;
} plane_side;

struct lac_link {
    plane_side workers, clients;
    lac_link_event event;
    void *arg;
    uint64_t epoch;
};

static plane_side *side_of(lac_link *link, lac_plane plane)
{
    LAC_ASSERT(plane == LAC_PLANE_WORKER || plane == LAC_PLANE_CLIENT);
    return plane == LAC_PLANE_WORKER ? &link->workers : &link->clients;
}

static const char *side_name(const plane_side *side)
{
    return side->plane == LAC_PLANE_WORKER ? "worker" : "client";
}

/* ---- bad frames ---- */

static bad_peer *find_bad(const plane_side *side, uint64_t peer)
{
    bad_peer *found = NULL;
    HASH_FIND(hh, side->bad, &peer, sizeof peer, found);
    return found;
}

static void forget_bad(plane_side *side, bad_peer *entry)
{
    HASH_DEL(side->bad, entry);
    free(entry);
}

static uint32_t count_bad(plane_side *side, uint64_t peer)
{
    bad_peer *entry = find_bad(side, peer);
    if (!entry) {
        if (HASH_COUNT(side->bad) >= LAC_CLIENTS_MAX)
            forget_bad(side, side->bad); /* the oldest score */
        entry = lac_alloc(1, sizeof *entry);
        entry->peer = peer;
        HASH_ADD(hh, side->bad, peer, sizeof entry->peer, entry);
    }
    return ++entry->frames;
}

static bool ignores(plane_side *side, uint64_t peer)
{
    const bad_peer *entry = find_bad(side, peer);
    if (!entry || entry->frames <= LAC_BAD_FRAMES_MAX)
        return false;
    lac_metric_add(side->ignored, 1);
    return true;
}

/* The sender is told what was wrong, so that a version too new or a field out of range is seen at
 * its end too. Heartbeats and output get no answer: their sender has nobody to tell. */
static void answer_bad(plane_side *side, uint64_t peer, const lac_envelope *envelope,
                       const lac_error *err)
{
    lac_msg msg = {0};
    char reason[LAC_REASON_MAX + 1];
    snprintf(reason, sizeof reason, "%.*s", LAC_REASON_MAX, err->text);
    reason[lac_utf8_whole(reason, strlen(reason))] = 0;
    if (side->plane == LAC_PLANE_CLIENT) {
        msg.envelope.type = LAC_MSG_REFUSED;
        msg.body.refused.status = err->status;
        memcpy(msg.body.refused.reason, reason, sizeof reason);
    } else if (envelope->major != LAC_PROTO_MAJOR || envelope->type == LAC_MSG_HELLO) {
        msg.envelope.type = LAC_MSG_HELLO_REJECT;
        msg.envelope.epoch = side->link->epoch;
        msg.body.hello_reject.major_min = msg.body.hello_reject.major_max = LAC_PROTO_MAJOR;
        memcpy(msg.body.hello_reject.reason, reason, sizeof reason);
    } else {
        return;
    }
    lac_action action = {.plane = side->plane, .peer = peer, .msg = &msg};
    lac_link_send(side->link, &action);
}

/* ---- what a key may do ---- */

/* The client's number for an order, or for a request that only an admin may make; 0 = anybody may.
 */
static uint64_t order_of(const lac_msg *msg)
{
    switch (msg->envelope.type) {
    case LAC_MSG_SCALE: return msg->body.scale.stream;
    case LAC_MSG_DRAIN_GROUP: return msg->body.drain_group.stream;
    case LAC_MSG_PATH_FORCE: return msg->body.path_force.stream;
    case LAC_MSG_SUBMIT: return msg->body.submit.force[0] ? msg->body.submit.stream : 0;
    default: return 0;
    }
}

/* Answers what the sender's key does not allow. Without keys only this machine can connect. */
static bool permitted(plane_side *side, uint64_t peer, const lac_msg *msg)
{
    const char *name;
    lac_msg answer = {0};
    lac_role role = lac_socket_sender(side->socket, &name);
    if (role == LAC_ROLE_WORKER && msg->envelope.type == LAC_MSG_HELLO && strcmp(name, "*") != 0 &&
        strcmp(name, msg->body.hello.group) != 0) {
        lac_hello_reject *reject = &answer.body.hello_reject;
        answer.envelope.type = LAC_MSG_HELLO_REJECT;
        answer.envelope.epoch = side->link->epoch;
        reject->major_min = reject->major_max = LAC_PROTO_MAJOR;
        snprintf(reject->reason, sizeof reject->reason,
                 "group is \"%s\", this worker's key allows \"%s\"", msg->body.hello.group, name);
    } else if (role == LAC_ROLE_CLIENT && order_of(msg)) {
        answer.envelope.type = LAC_MSG_REFUSED;
        answer.body.refused = (lac_refused){.stream = order_of(msg), .status = LAC_EREFUSED};
        snprintf(answer.body.refused.reason, sizeof answer.body.refused.reason,
                 "the key of \"%s\" is a client's: orders need an admin's", name);
    } else {
        return true;
    }
    lac_metric_add(side->denied, 1);
    lac_action action = {.plane = side->plane, .peer = peer, .msg = &answer};
    lac_link_send(side->link, &action);
    return false;
}

/* ---- events ---- */

static void on_message(void *arg, uint64_t peer, const lac_msg *msg)
{
    plane_side *side = arg;
    if (ignores(side, peer) || !permitted(side, peer, msg))
        return;
    lac_msg named;
    const char *name;
    if (side->plane == LAC_PLANE_CLIENT && lac_socket_sender(side->socket, &name)) {
        named = *msg; /* it is the socket's; what it points to stays its own */
        named.tenant = name;
        msg = &named;
    }
    lac_event event = {.kind = LAC_EVENT_MESSAGE, .plane = side->plane, .peer = peer, .msg = msg};
    side->link->event(side->link->arg, &event);
}

static void on_bad(void *arg, uint64_t peer, const lac_envelope *envelope, const lac_error *err)
{
    plane_side *side = arg;
    lac_metric_add(side->bad_frames, 1);
    if (ignores(side, peer))
        return;
    uint32_t frames = count_bad(side, peer);
    if (frames == 1 || frames == LAC_BAD_FRAMES_MAX + 1)
        lac_warn("bad frame plane=%s peer=%llu count=%u%s: %s", side_name(side),
                 (unsigned long long)peer, frames,
                 frames > LAC_BAD_FRAMES_MAX ? " (ignored from here)" : "", err->text);
    if (frames <= LAC_BAD_FRAMES_MAX)
        answer_bad(side, peer, envelope, err);
}

static void on_lost(void *arg, uint64_t peer)
{
    plane_side *side = arg;
    bad_peer *entry = find_bad(side, peer);
    if (entry)
        forget_bad(side, entry);
    lac_event event = {.kind = LAC_EVENT_LOST, .plane = side->plane, .peer = peer};
    side->link->event(side->link->arg, &event);
}

/* ---- life ---- */

static lac_status open_side(lac_link *link, lac_plane plane, lac_wire *wire, uv_loop_t *loop,
                            const lac_link_options *options, lac_metrics *metrics, lac_error *err)
{
    plane_side *side = side_of(link, plane);
    bool workers = plane == LAC_PLANE_WORKER;
    const char *labels = workers ? "plane=\"worker\"" : "plane=\"client\"";
    side->link = link;
    side->plane = plane;
    side->bad_frames = lac_metrics_get(metrics, LAC_M_BAD_FRAMES, labels);
    side->ignored = lac_metrics_get(metrics, LAC_M_IGNORED_FRAMES, labels);
    side->busy = lac_metrics_get(metrics, LAC_M_SEND_BUSY, labels);
    side->denied = lac_metrics_get(metrics, LAC_M_DENIED_MESSAGES, labels);
    lac_socket_events events = {.arg = side, .message = on_message, .bad = on_bad, .lost = on_lost};
    return lac_socket_open(wire, loop,
                           workers ? LAC_SOCKET_LISTEN_WORKERS : LAC_SOCKET_LISTEN_CLIENTS,
                           workers ? options->workers : options->clients, options->allow_wide,
                           &events, &side->socket, err);
}

lac_status lac_link_create(lac_wire *wire, uv_loop_t *loop, const lac_link_options *options,
                           lac_metrics *metrics, lac_link_event event, void *arg, lac_link **out,
                           lac_error *err)
{
    lac_link *link = lac_alloc(1, sizeof *link);
    link->event = event;
    link->arg = arg;
    link->epoch = options->epoch;
    lac_status status = open_side(link, LAC_PLANE_CLIENT, wire, loop, options, metrics, err);
    if (status == LAC_OK)
        status = open_side(link, LAC_PLANE_WORKER, wire, loop, options, metrics, err);
    if (status != LAC_OK) {
        lac_link_destroy(&link);
        return status;
    }
    *out = link;
    return LAC_OK;
}

static void close_side(plane_side *side)
{
    if (side->socket)
        lac_socket_close(&side->socket);
    while (side->bad)
        forget_bad(side, side->bad);
}

void lac_link_destroy(lac_link **link)
{
    if (!*link)
        return;
    close_side(&(*link)->workers);
    close_side(&(*link)->clients);
    free(*link);
    *link = NULL;
}

const char *lac_link_endpoint(const lac_link *link, lac_plane plane)
{
    LAC_ASSERT(plane == LAC_PLANE_WORKER || plane == LAC_PLANE_CLIENT);
    return lac_socket_endpoint(plane == LAC_PLANE_WORKER ? link->workers.socket
                                                         : link->clients.socket);
}

lac_status lac_link_send(lac_link *link, const lac_action *action)
{
    plane_side *side = side_of(link, action->plane);
    lac_error err = {0};
    lac_msg msg = *action->msg;
    msg.envelope.major = LAC_PROTO_MAJOR;
    msg.envelope.minor = LAC_PROTO_MINOR;
    msg.envelope.seq = ++side->seq;
    lac_status status = lac_socket_send(side->socket, action->peer, &msg, &err);
    if (status == LAC_BUSY)
        lac_metric_add(side->busy, 1);
    else if (status != LAC_OK && status != LAC_EPEER)
        lac_warn("message %s to a %s not sent: %s", lac_msg_name(msg.envelope.type),
                 side_name(side), err.text);
    return status;
}
