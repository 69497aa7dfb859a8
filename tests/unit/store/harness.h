/* A real store in a folder of its own, with calls that wait for their end. */
#ifndef STORE_HARNESS_H
#define STORE_HARNESS_H

#include <uv.h>

#include "store/store.h"

typedef struct {
    char dir[64];
    uv_loop_t loop;
    lac_metrics *metrics;
    lac_store *store;
    lac_store_options options;
    int changed; /* times the store said so */
} rig;

/* Makes the folder; `options` may be NULL. Does not open. */
void rig_make(rig *r, const lac_store_options *options);
void rig_free(rig *r);
/* Opens with the next epoch; the status, its text in `err`. */
lac_status rig_try_open(rig *r, lac_error *err);
void rig_open(rig *r);
void rig_close(rig *r);

/* Sets the bool that call->arg points to. */
void harness_done(lac_store_call *call);
/* Hands the call in and turns the loop until it is done; the call's own status. */
lac_status rig_do(rig *r, lac_store_call *call);

/* A job of `count` items with bodies "0", "1", …; 0 when it was refused. */
uint64_t rig_submit(rig *r, const char *key, uint32_t count);
lac_job_view rig_view(rig *r, uint64_t id);
/* Claims one item, 0 = none. */
uint32_t rig_claim(rig *r, lac_store_claim *out);
lac_status rig_end(rig *r, const lac_store_claim *claim, lac_item_state state, bool refund);

#endif
