/* The coordinator's two ZeroMQ planes as core events and core actions: one ROUTER for workers, one
 * for native clients. It counts bad frames, answers those that can be answered, and stops listening
 * to a connection that sends nothing else. It decides nothing. Loop thread only. */
#ifndef LAC_LINK_H
#define LAC_LINK_H

#include <uv.h>

#include "base/metric.h"
#include "base/status.h"
#include "core/core.h"
#include "wire/socket.h"

typedef struct lac_link lac_link;

typedef struct {
    const char *workers, *clients; /* endpoints to listen on */
    bool allow_wide;               /* beyond loopback */
    uint64_t epoch;                /* stamped on its own answers to workers */
} lac_link_options;

/* Called from the loop with MESSAGE and LOST events; the event lives until it returns. It may send.
 */
typedef void (*lac_link_event)(void *arg, const lac_event *event);

/* Listens on both planes and counts into `metrics`, which outlives it. An endpoint in use is
 * LAC_EEXIST, a wide one LAC_EREFUSED; nothing stays open on failure. */
lac_status lac_link_create(lac_wire *wire, uv_loop_t *loop, const lac_link_options *options,
                           lac_metrics *metrics, lac_link_event event, void *arg, lac_link **out,
                           lac_error *err);
/* Stops listening; the sockets' handles close with the loop's next turns. NULL is a no-op. */
void lac_link_destroy(lac_link **link);

/* The endpoint with the port in use; `plane` is WORKER or CLIENT. */
const char *lac_link_endpoint(const lac_link *link, lac_plane plane);

/* Sends the message of an action on plane WORKER or CLIENT, with the next sequence number of its
 * plane. LAC_OK, LAC_BUSY or LAC_EPEER as a core sink answers; anything else says that the message
 * itself cannot be sent, and is logged. */
lac_status lac_link_send(lac_link *link, const lac_action *action);

#endif
