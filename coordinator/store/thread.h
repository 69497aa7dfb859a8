/* The store itself, shared by the loop's side (store.c) and its thread (thread.c). Each field says
 * whose it is. */
#ifndef LAC__STORE_THREAD_H
#define LAC__STORE_THREAD_H

#include "ops.h"

enum { LAC__STORE_SAMPLES_MAX = 128 };

/* What the thread counts for the loop to show. */
typedef struct {
    double commit_s[LAC__STORE_SAMPLES_MAX];
    uint32_t commits, calls, failures, ended[LAC_ITEM_STATES];
    int64_t jobs, waiting, running; /* live jobs and their items */
} lac__store_stats;

struct lac_store {
    /* Set at the start. */
    lac_store_options options;
    char path[LAC_ENDPOINT_MAX + 16];
    int lock_fd;
    uv_thread_t thread;
    /* The loop's. */
    uv_async_t async;
    bool writable, closing;
    uint32_t live;
    lac_metric *commit, *calls, *failures, *jobs, *waiting, *running, *writable_metric;
    lac_metric *ended[LAC_ITEM_STATES];
    /* Both, under the lock. */
    uv_mutex_t lock;
    uv_cond_t wake;
    lac_store_call *in_first, *in_last, *out_first, *out_last;
    uint32_t waiting_calls;
    uint64_t waiting_bytes;
    bool stop, changed, refuses;
    lac__store_stats stats;
    /* The thread's. */
    lac__db db; /* handle NULL: it could not be opened again */
    uint64_t tick_ms, probe_ms;
};

/* What operations need to know just now. */
lac__ops lac__store_ops(const lac_store *store);
/* A call of that kind takes new work in, or gives it out: refused while the disk refuses. */
bool lac__store_grows(lac_store_kind kind);
/* The thread, until `stop` is set and nothing waits. */
void lac__store_run(void *store);

#endif
