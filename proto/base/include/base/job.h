/* Batch jobs as everybody names them: the store keeps them, the runner works on them, both APIs
 * show them. Plain data, any thread. */
#ifndef LAC_BASE_JOB_H
#define LAC_BASE_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"

/* A number on disk: never reuse or reorder. */
typedef enum {
    LAC_JOB_FILLING = 0,    /* more of its items are to come; nothing runs yet */
    LAC_JOB_RUNNING = 1,    /* items wait or run */
    LAC_JOB_CANCELLING = 2, /* nothing more is started; what runs is being stopped */
    LAC_JOB_EXPIRING = 3,   /* the same, because its deadline has passed */
    LAC_JOB_COMPLETED = 4,  /* every item has its end */
    LAC_JOB_CANCELLED = 5,
    LAC_JOB_EXPIRED = 6,
    LAC_JOB_FAILED = 7, /* its input was refused as a whole */
    LAC_JOB_STATES
} lac_job_state;

/* On disk too. An item that its job's end overtook stays FRESH or RETURNED. */
typedef enum {
    LAC_ITEM_FRESH = 0,    /* never started */
    LAC_ITEM_RETURNED = 1, /* started before, waits again */
    LAC_ITEM_RUNNING = 2,  /* leased */
    LAC_ITEM_DONE = 3,     /* has a reply */
    LAC_ITEM_FAILED = 4,   /* has an error as its reply, or was given up */
    LAC_ITEM_EXPIRED = 5,
    LAC_ITEM_CANCELLED = 6,
    LAC_ITEM_STATES
} lac_item_state;

/* What an item's body is a request of. */
typedef enum { LAC_JOB_CHAT = 1, LAC_JOB_COMPLETION = 2 } lac_job_endpoint;

const char *lac_job_state_name(lac_job_state state);     /* "running", … */
const char *lac_item_state_name(lac_item_state state);   /* "fresh", … */
const char *lac_job_endpoint_path(lac_job_endpoint end); /* "/v1/chat/completions", … or "" */
/* 0 when it is none of them. */
lac_job_endpoint lac_job_endpoint_of(const char *path);
/* Nothing of it will change any more. */
bool lac_job_ended(lac_job_state state);

typedef struct {
    uint64_t id; /* drawn at random, 1 … 2^63 − 1 */
    lac_job_endpoint endpoint;
    lac_job_state state;
    int32_t priority; /* −LAC_PRIORITY_MAX … LAC_PRIORITY_MAX */
    uint32_t attempts_max;
    int64_t created_ms, started_ms, ended_ms;       /* wall time since 1970; 0 = not yet */
    int64_t deadline_ms;                            /* the same; 0 = none */
    uint32_t total, running, done, failed, expired; /* items; what is left waits */
    uint64_t prompt_tokens, completion_tokens;      /* of ended items */
    uint8_t hidden; /* its results that people deleted: 1 = answers, 2 = errors */
    char key[LAC_JOB_KEY_MAX + 1];                  /* idempotency key, "" = none was given */
    char error[LAC_REASON_MAX + 1];                 /* of FAILED */
} lac_job_view;

#endif
