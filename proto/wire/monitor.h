/* Whether a connecting socket's connection stands, from ZeroMQ's own events. Loop thread. */
#ifndef LAC_WIRE_MONITOR_H
#define LAC_WIRE_MONITOR_H

#include "base/status.h"

typedef enum { LAC__MONITOR_NOTHING, LAC__MONITOR_UP, LAC__MONITOR_DOWN } lac__monitor_event;

/* Watches `zmq` (not yet connected); *pair is a socket of the context, closed by zmq_close before
 * `zmq` is. */
lac_status lac__monitor_open(void *context, void *zmq, void **pair, lac_error *err);
/* The next event, without waiting. */
lac__monitor_event lac__monitor_take(void *pair);

#endif
