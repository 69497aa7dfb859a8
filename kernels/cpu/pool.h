/* Persistent threads that run one function together, phase after phase. Owns the threads and the
 * words they meet on; knows nothing of what they compute.
 *
 * A phase is over when all its jobs are done, not when all threads have come by: a thread that the
 * system has put aside between two jobs holds nobody up, and finds its place when it is back. */
#ifndef LAC_KERNELS_POOL_H
#define LAC_KERNELS_POOL_H

#include "cpu.h"

typedef struct lac__pool lac__pool;
typedef void (*lac__pool_fn)(void *context, uint32_t thread);

/* Threads this process may use: affinity and the cgroup's quota, at least 1. */
uint32_t lac__pool_cores(void);
lac_status lac__pool_create(uint32_t threads, bool pin, lac__pool **out, lac_error *err);
void lac__pool_destroy(lac__pool **pool);
uint32_t lac__pool_threads(const lac__pool *pool);

/* Runs fn on the calling thread (number 0) and the others; returns when every phase is over and no
 * thread reads `context` any more. fn must go through the same phases on every thread. */
void lac__pool_run(lac__pool *pool, lac__pool_fn fn, void *context);

/* Within fn. A walk is one thread's place in the phases of this run. */
typedef struct {
    lac__pool *pool;
    uint32_t thread;
    uint32_t phase;
    uint64_t step;
} lac__walk;
lac__walk lac__walk_begin(lac__pool *pool, uint32_t thread);
/* Next job of the current phase of `jobs`, or −1. Each thread begins in a range of its own and then
 * helps the others; `shared` hands jobs out in one order instead (largest first). */
int64_t lac__walk_claim(const lac__walk *walk, uint32_t jobs, bool shared);
/* Counts `done` claimed jobs as finished, then waits until all are; false = the run is over, leave
 * without touching the context. */
bool lac__walk_next(lac__walk *walk, uint32_t jobs, uint32_t done);

#endif
