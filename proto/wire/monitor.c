/* Events of connections. ZeroMQ tells them over an in-process pair as two parts: number and value,
 * then the address. The value is the descriptor, but for "shaken hands". Loop thread. */
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <zmq.h>

#include "monitor.h"

enum { EVENTS_MAX = 65536 };

lac_status lac__monitor_open(void *context, void *zmq, void **pair, lac_error *err)
{
    static atomic_uint made; /* a name is used once in a process */
    char name[64];
    snprintf(name, sizeof name, "inproc://lacuna.monitor.%u", atomic_fetch_add(&made, 1));
    int events = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED;
    if (zmq_socket_monitor(zmq, name, events))
        return lac_fail(err, LAC_EIO, "zeromq monitor: %s", zmq_strerror(errno));
    void *made_pair = zmq_socket(context, ZMQ_PAIR);
    if (!made_pair)
        return lac_fail(err, LAC_EIO, "zeromq monitor socket: %s", zmq_strerror(errno));
    /* ZeroMQ's thread waits when this many events are not taken, and all traffic with it. */
    int linger = 0, hwm = EVENTS_MAX;
    zmq_setsockopt(made_pair, ZMQ_LINGER, &linger, sizeof linger);
    zmq_setsockopt(made_pair, ZMQ_RCVHWM, &hwm, sizeof hwm);
    if (zmq_connect(made_pair, name)) {
        lac_fail(err, LAC_EIO, "zeromq monitor %s: %s", name, zmq_strerror(errno));
        zmq_close(made_pair);
        return LAC_EIO;
    }
    *pair = made_pair;
    return LAC_OK;
}

void lac__monitor_close(void *zmq, void **pair)
{
    if (!*pair)
        return;
    zmq_socket_monitor(zmq, NULL, 0);
    zmq_close(*pair);
    *pair = NULL;
}

lac__monitor_event lac__monitor_take(void *pair, int *fd)
{
    lac__monitor_event event = LAC__MONITOR_NOTHING;
    while (event == LAC__MONITOR_NOTHING) {
        uint8_t head[6];
        int rc = zmq_recv(pair, head, sizeof head, ZMQ_DONTWAIT);
        if (rc < 0)
            break;
        uint16_t number = 0;
        uint32_t value = 0;
        if (rc == (int)sizeof head) {
            memcpy(&number, head, sizeof number);
            memcpy(&value, head + sizeof number, sizeof value);
        }
        *fd = (int)value;
        char address[256];
        zmq_recv(pair, address, sizeof address, ZMQ_DONTWAIT);
        if (number == ZMQ_EVENT_HANDSHAKE_SUCCEEDED)
            event = LAC__MONITOR_UP;
        else if (number == ZMQ_EVENT_ACCEPTED)
            event = LAC__MONITOR_OPENED;
        else if (number == ZMQ_EVENT_DISCONNECTED)
            event = LAC__MONITOR_DOWN;
    }
    return event;
}
