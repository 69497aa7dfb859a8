/* Batch jobs on the client plane: native messages ⇄ calls of the store. Loop thread. */
#ifndef LAC_COORDINATOR_JOBS_PLANE_H
#define LAC_COORDINATOR_JOBS_PLANE_H

#include <stdbool.h>

#include "link/link.h"
#include "store/store.h"

/* Takes a message about jobs; false: it is about something else. `link` is where its answer goes:
 * it may be NULL by the time the store has it. `store` NULL: refused. */
bool lac__jobs_plane_take(lac_store *store, lac_link **link, const lac_event *event);

#endif
