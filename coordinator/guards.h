/* The guards of classes on disk: a tripped class stays tripped over a restart. Loop thread. */
#ifndef LAC_COORDINATOR_GUARDS_H
#define LAC_COORDINATOR_GUARDS_H

#include "core/core.h"

/* Reads STATE_DIR/guards into a fresh core; one that is not there or not whole is said, not fatal:
 * the classes are then guarded from new on. */
void lac__guards_read(const char *state_dir, lac_core *core);
/* Replaces it; a failure is logged. */
void lac__guards_write(const char *state_dir, const lac_core *core);

#endif
