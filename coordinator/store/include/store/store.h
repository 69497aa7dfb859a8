/* Durable batch jobs in one SQLite database, STATE_DIR/jobs.db. What a call acknowledged is on
 * disk: its reply comes after the commit (WAL, synchronous=FULL) that holds it, and calls that wait
 * together share one commit.
 *
 * One thread of its own does all that touches the disk; every function here belongs to the loop's
 * thread and none of them waits. A call is its caller's memory: filled, handed in, and given back
 * once through `done`, on the loop. Nothing outside this folder knows SQLite. */
#ifndef LAC_STORE_H
#define LAC_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/job.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/msg.h"
#include "base/status.h"

typedef struct lac_store lac_store;

typedef struct {
    const char *dir;      /* STATE_DIR, which exists; not copied */
    uint64_t epoch;       /* this start's number: leases of others are void */
    uint64_t bytes_max;   /* of the database; 0 = 4 GiB */
    int64_t retention_ms; /* how long an ended job is kept; 0 = 7 days */
    /* Called from the loop when jobs may have more to run, or were cancelled or expired. */
    void (*changed)(void *arg);
    void *changed_arg;
} lac_store_options;

/* Opens or makes the database, brings an older one to this version, gives up every lease that is
 * left of earlier starts, and starts the thread. Waits for the disk, so call it at start. LAC_BUSY:
 * another process has it; LAC_EUNSUPPORTED: made by a newer version, or on a network file system;
 * LAC_ECORRUPT: no database of ours, or damaged; LAC_EIO. */
lac_status lac_store_open(uv_loop_t *loop, const lac_store_options *options, lac_metrics *metrics,
                          lac_store **out, lac_error *err);
/* Does what was handed in, gives every call back, stops the thread. The loop must turn once more.
 * NULL is a no-op. */
void lac_store_close(lac_store **store);
/* False while the disk refuses: new jobs and files are refused with LAC_EIO, nothing is claimed,
 * and reading goes on. It becomes true again by itself. */
bool lac_store_writable(const lac_store *store);
/* Jobs that had not ended about a second ago; a change of it is told as any other. */
uint32_t lac_store_live(const lac_store *store);

typedef enum {
    /* Writing. */
    LAC_STORE_SUBMIT,
    LAC_STORE_CANCEL,
    LAC_STORE_CLAIM,
    LAC_STORE_END,
    LAC_STORE_HIDE, /* `which` results of a job are shown no more */
    LAC_STORE_FILE_PUT,
    LAC_STORE_FILE_DELETE,
    /* Reading. */
    LAC_STORE_SHOW,
    LAC_STORE_LIST,
    LAC_STORE_STOPPING, /* jobs that were called off or expired and still have items leased */
    LAC_STORE_RESULTS,
    LAC_STORE_FILE_GET,
    LAC_STORE_FILE_LIST
} lac_store_kind;

/* An item as it is submitted; its body is judged when it runs. */
typedef lac_job_item lac_store_input;

typedef struct {
    char key[LAC_JOB_KEY_MAX + 1]; /* the same key again is the same job; "" = a new one */
    lac_job_endpoint endpoint;
    int32_t priority;
    uint32_t attempts_max; /* 0 = LAC_JOB_ATTEMPTS */
    int64_t deadline_ms;   /* wall time; 0 = none */
    lac_span about;        /* the API's own text, kept as it is; ≤ LAC_JOB_ABOUT_MAX */
    const char *error;     /* the input was refused: the job is kept as FAILED; NULL = it was not */
    uint32_t first;        /* place of items[0]; those that are there already must be equal */
    uint32_t items_count;
    const lac_store_input *items;
    bool more; /* further items are to come under that key */
} lac_store_submit;

/* An item to be run: everything its runner needs. */
typedef struct {
    uint64_t ref; /* of this item, in this store */
    uint64_t job; /* its id */
    char tenant[LAC_NAME_MAX + 1];
    lac_job_endpoint endpoint;
    uint32_t attempt; /* counts from 1; on disk before anybody sees it */
    uint32_t attempts_max;
    int64_t lease_until_ms, deadline_ms; /* wall time */
    lac_span body;
} lac_store_claim;

/* The end of an attempt. */
typedef struct {
    uint64_t ref;
    uint32_t attempt; /* of the claim; another one is LAC_EEPOCH and changes nothing */
    /* RETURNED: the item waits again from `not_before_ms` on, and with `refund` its attempt does
     * not count. Else DONE, FAILED, EXPIRED or CANCELLED. */
    lac_item_state state;
    bool refund;
    int64_t not_before_ms;
    uint32_t http; /* of the reply; 0 = there is none */
    uint32_t prompt_tokens, completion_tokens;
    char class_name[LAC_NAME_MAX + 1]; /* it ran as */
    lac_span reply;                    /* JSON */
} lac_store_end;

typedef lac_job_result lac_store_result;

/* Which items RESULTS shows. */
typedef enum {
    LAC_STORE_DONE = 1,  /* those with an answer */
    LAC_STORE_WRONG = 2, /* failed, expired or never started before their job's end */
    LAC_STORE_ENDED = LAC_STORE_DONE | LAC_STORE_WRONG
} lac_store_which;

typedef struct {
    lac_job_view view;
    lac_span about;
} lac_store_job;

/* An upload, kept until it is deleted or its retention is over. */
typedef struct {
    uint64_t id;
    int64_t created_ms;
    uint64_t bytes;
    char purpose[LAC_FILE_PURPOSE_MAX + 1];
    char name[LAC_FILE_NAME_MAX + 1];
    lac_span content; /* PUT: given; GET with `content`: read */
} lac_store_file;

typedef struct lac_store_call lac_store_call;
struct lac_store_call {
    lac_store_kind kind;
    void (*done)(lac_store_call *call);
    void *arg;
    char tenant[LAC_NAME_MAX + 1]; /* whose; others' jobs do not exist. CLAIM, END and
                                      STOPPING see all */
    /* What is asked. Memory behind spans is the caller's until `done`. */
    /* SHOW, CANCEL, HIDE, RESULTS: the job; FILE_GET, FILE_DELETE: the file; lists: begin after
     * that one, 0 = at the newest. */
    uint64_t id;
    uint32_t limit; /* CLAIM: items, LIST: jobs, RESULTS: items; all have bounds of their own */
    uint32_t first; /* RESULTS: from that place on */
    lac_store_which which;
    lac_store_submit submit;
    lac_store_end end;
    lac_store_file file; /* FILE_PUT: what is kept; FILE_LIST: `purpose`, "" = all */
    bool content;        /* FILE_GET: with its bytes */

    /* What came of it, from `done` on. `error` is set iff it failed. Spans point into `memory`. */
    lac_error error;
    bool created; /* SUBMIT: the job is new */
    bool more;    /* LIST, RESULTS: there are further ones; RESULTS: they begin at `next` */
    uint32_t next, count;
    lac_store_job *jobs;     /* SUBMIT, CANCEL, SHOW, RESULTS: one; LIST: `count` */
    lac_store_claim *claims; /* CLAIM: `count` */
    lac_store_result *results;
    lac_store_file *files; /* FILE_PUT, FILE_GET: one; FILE_LIST: `count` */
    lac_arena *memory;

    lac_store_call *link; /* the store's own */
};

/* Hands a call in. LAC_BUSY when too many wait already, LAC_EIO when it would write new jobs and
 * the disk refuses; the call is then still the caller's and `done` is not called. */
lac_status lac_store_do(lac_store *store, lac_store_call *call, lac_error *err);
/* Frees the memory of its results; the call can be used again. */
void lac_store_call_free(lac_store_call *call);

#endif
