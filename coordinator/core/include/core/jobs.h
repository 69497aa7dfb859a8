/* What batch jobs may have and what becomes of their items. Pure functions of what they are given:
 * no clock, no disk, no other part of the core. The store asks which job is next and what an ended
 * lease means; the runner asks how much of the capacity is left over, and what an error means.
 *
 * Batch work takes what interactive work leaves: it never has a slot that an interactive request
 * waits for longer than it takes to stop it. */
#ifndef LAC_CORE_JOBS_H
#define LAC_CORE_JOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Requests of the fleet; slots are those of READY groups. */
typedef struct {
    uint32_t slots;
    uint32_t running, waiting; /* interactive ones */
    uint32_t batch;            /* batch items at the core, running or waiting there */
    uint32_t starting; /* of those, without a token yet: their prompts are still worked on */
} lac_jobs_load;

/* How many more items may go to the core (> 0), or how many are to be taken back (< 0), when batch
 * work may have `share` (0 … 1) of what interactive work leaves. Taken back are only as many as
 * interactive requests wait. No more than a quarter of the slots start at a time: their prompts
 * would delay the next token of everybody else. Without a slot one item may wait alone, so that a
 * fleet at zero wakes. */
int32_t lac_jobs_room(double share, const lac_jobs_load *load);

/* A job with an item that may start. */
typedef struct {
    int32_t priority;    /* higher goes first */
    int64_t deadline_ms; /* 0 = none, which comes last */
    uint64_t served;     /* grows each time a job gets a turn: the least goes first */
} lac_jobs_candidate;

/* The index of the one whose turn it is: by priority, then the nearest deadline, then in turns.
 * `count` when there is none. */
size_t lac_jobs_next(const lac_jobs_candidate *candidates, size_t count);

typedef enum {
    LAC_JOBS_AGAIN,  /* waits for another attempt; the one it had counts */
    LAC_JOBS_REFUND, /* waits; the attempt does not count, because none was made */
    LAC_JOBS_FAIL,   /* has its end */
    LAC_JOBS_EXPIRE,
    LAC_JOBS_CANCEL
} lac_jobs_verdict;

/* What becomes of an item whose attempt ended with that error. `not_before_ms` is set for AGAIN and
 * REFUND: how long it rests, counted from `now_ms`, both wall time. */
lac_jobs_verdict lac_jobs_after(lac_status error, uint32_t attempts, uint32_t attempts_max,
                                int64_t now_ms, int64_t deadline_ms, int64_t *not_before_ms);

/* A lease holds until its time is over, and only in the epoch that gave it: of an earlier one
 * nobody is left. */
bool lac_jobs_lease_over(uint64_t epoch, uint64_t own_epoch, int64_t until_ms, int64_t now_ms);
/* And then: AGAIN or FAIL. */
lac_jobs_verdict lac_jobs_after_lease(uint32_t attempts, uint32_t attempts_max);

/* When the lease of an attempt that starts now ends: never after the job's deadline. */
int64_t lac_jobs_lease_until(int64_t now_ms, int64_t deadline_ms);

#endif
