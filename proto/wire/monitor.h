/* When a socket's connections come and go, from ZeroMQ's own events. Loop thread. */
#ifndef LAC_WIRE_MONITOR_H
#define LAC_WIRE_MONITOR_H

#include "base/status.h"

typedef enum {
    LAC__MONITOR_NOTHING,
    LAC__MONITOR_UP,     /* shaken hands; no descriptor is told */
    LAC__MONITOR_OPENED, /* of a listening socket: a connection was accepted */
    LAC__MONITOR_DOWN
} lac__monitor_event;

/* Watches `zmq` (neither bound nor connected yet); *pair is a socket of the context. */
lac_status lac__monitor_open(void *context, void *zmq, void **pair, lac_error *err);
/* Before `zmq` is closed: ZeroMQ's thread would wait for ever to tell an event to nobody. */
void lac__monitor_close(void *zmq, void **pair);
/* The next event, without waiting; *fd is its descriptor. */
lac__monitor_event lac__monitor_take(void *pair, int *fd);

#endif
