/* The launcher of this process: obeys the core's wanted groups and tells it what there is. Loop
 * thread. Decides nothing. */
#ifndef LAC_COORDINATOR_LAUNCHING_H
#define LAC_COORDINATOR_LAUNCHING_H

#include <stdbool.h>
#include <uv.h>

#include "core/core.h"
#include "options.h"

typedef struct lac__launching lac__launching;

/* LAC_OK and NULL when no launcher is asked for. `worker_plane` is where the groups connect. */
lac_status lac__launching_create(uv_loop_t *loop, const lac__options *options,
                                 const char *worker_plane, lac__launching **out, lac_error *err);
/* What the launcher sees, for the core; the array lives until the next call. */
void lac__launching_look(lac__launching *launching, lac_event *event);
void lac__launching_obey(lac__launching *launching, const lac_core *core);
/* Wants nothing from now on. True once no group is left. */
bool lac__launching_stop(lac__launching *launching);
/* What runs goes on, for the next coordinator to take over. */
void lac__launching_destroy(lac__launching **launching);

#endif
