/* Runs batch jobs: claims items of the store while the fleet has room, hands them to the core as
 * one more client, and writes their ends down. Loop thread. */
#ifndef LAC_COORDINATOR_RUNNER_H
#define LAC_COORDINATOR_RUNNER_H

#include <stdbool.h>
#include <uv.h>

#include "base/metric.h"
#include "base/msg.h"
#include "core/jobs.h"
#include "store/store.h"

typedef struct lac__runner lac__runner;

typedef struct {
    void *arg;
    /* Hands a message on to the core, as plane BATCH. It may deliver at once. */
    void (*emit)(void *arg, const lac_msg *msg);
    /* How busy the fleet is. */
    void (*load)(void *arg, lac_jobs_load *out);
} lac__runner_hooks;

/* `share` (0 … 1) of what interactive work leaves is for batch work. The store outlives the
 * runner's work, not its memory: close the store between stop and destroy. */
lac__runner *lac__runner_create(uv_loop_t *loop, lac_store *store, double share,
                                const lac__runner_hooks *hooks, lac_metrics *metrics);
/* The store has something new. */
void lac__runner_wake(lac__runner *runner);
/* A message of the core for one of its streams; only takes notes, so the core's sink may call it.
 */
void lac__runner_deliver(lac__runner *runner, const lac_msg *msg);
/* Time has passed; at least every 100 ms. */
void lac__runner_tick(lac__runner *runner);
/* Claims nothing any more and gives back what it has. Emits cancels. */
void lac__runner_drain(lac__runner *runner);
/* The same without a word to the core, which is going too; closes its handle. */
void lac__runner_stop(lac__runner *runner);
/* After the store was closed and the loop has turned. NULL is a no-op. */
void lac__runner_destroy(lac__runner **runner);

#endif
