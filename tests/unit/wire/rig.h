/* A ZeroMQ context and a loop for the tests of sockets, made and checked for leftovers around each
 * test. One thread. */
#ifndef TEST_WIRE_RIG_H
#define TEST_WIRE_RIG_H

#include <check.h>
#include <uv.h>

#include "base/clock.h"
#include "base/mem.h"
#include "wire/socket.h"

extern lac_wire *wire;
extern uv_loop_t loop;
extern lac_error err;
extern uint64_t timer_fired; /* times a run's timer did */

void setup(void);
void teardown(void);
lac_socket *open_socket(lac_socket_kind kind, const char *endpoint,
                        const lac_socket_events *events);
/* Turns the loop until `done`, or fails after a minute (a busy machine under sanitizers is slow,
 * not stalled). The loop may block for `pause_ms` at most. */
void run_with_pauses(bool (*done)(void), uint64_t pause_ms);
void run_until(bool (*done)(void));
lac_msg cancel(uint64_t request);
/* Runs the tests, NULL-ended: what main() returns. */
int run_suite(const char *name, const TTest *const *tests);

#endif
