/* Who may connect: ZeroMQ's authentication protocol (ZAP 1.0, rfc.zeromq.org/spec/27) answered by a
 * thread of its own, so that a busy loop does not stop handshakes and a flood of handshakes does
 * not stop the loop. The list is swapped whole, behind a lock. */
#ifndef LAC_WIRE_GUARD_H
#define LAC_WIRE_GUARD_H

#include <stdint.h>

#include "wire/keys.h"

typedef struct lac__guard lac__guard;

/* Binds before any socket of the context that wants keys. Takes the list over. */
lac_status lac__guard_open(void *context, lac_allowed *list, size_t count, lac__guard **out,
                           lac_error *err);
/* Any thread. */
void lac__guard_swap(lac__guard *guard, lac_allowed *list, size_t count);
uint64_t lac__guard_refused(const lac__guard *guard);
/* After zmq_ctx_shutdown: that is what ends the thread. */
void lac__guard_close(lac__guard **guard);

/* ZAP domains of the two planes. */
#define LAC__DOMAIN_WORKERS "workers"
#define LAC__DOMAIN_CLIENTS "clients"

#endif
