/* The flight recorder's files, beside the other state. Loop thread. */
#ifndef LAC_COORDINATOR_FLIGHT_H
#define LAC_COORDINATOR_FLIGHT_H

#include "sight/recorder.h"

/* A recorder of that core, before its first event; a crash of the process leaves
 * STATE_DIR/flight.crash. */
lac_recorder *lac__flight_start(const char *state_dir, const lac_core *core,
                                const lac_core_options *options);
/* Writes STATE_DIR/flight-N.dump and says so in the log: somebody asked. The newest eight are kept.
 */
void lac__flight_write(const lac_recorder *recorder, const char *state_dir);

#endif
