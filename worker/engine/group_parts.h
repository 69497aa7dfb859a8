/* What group.c and order.c share: a group's memory and its messages. */
#ifndef LAC_ENGINE_GROUP_PARTS_H
#define LAC_ENGINE_GROUP_PARTS_H

#include "base/clock.h"
#include "group.h"

#define MS UINT64_C(1000000) /* nanoseconds */
enum {
    LAC__LOAD_MS = 600000, /* the slowest rank's load; who started them watches them meanwhile */
    LAC__IDLE_MS = 500,    /* a follower without work looks this often whether the others live */
};

struct lac__group {
    lac_fabric *fabric;
    uint32_t rank, ranks, deadline_ms;
    bool formed;
    lac_error over; /* what ended the group, once it is */
    uint32_t step;
    lac_reducer reducer;
    lac_error sum_err; /* of the step's sums */
    /* Block tables, [slots][units][stride]: as the leader sent them last, or as they came. */
    uint32_t slots, units, stride;
    uint32_t *tables;
    uint32_t *blocks;       /* [slots] known of each */
    const uint32_t **owner; /* leader: [slots] the pool's table that a copy mirrors, or NULL */
    uint32_t *order;        /* [order_words] */
    size_t order_words;
    uint8_t *result; /* [result_bytes] */
    size_t result_bytes;
    float *rows_in, *rows_out; /* [rows_max][hidden] */
    lac_segment *piece;        /* [slots] of the rows that go through the stages together */
    /* Followers: the batch that an order describes. */
    uint32_t *tokens;          /* [rows_max] */
    lac_segment *segments;     /* [slots] */
    lac_logit_row *logit_rows; /* [logit_rows_max] */
    uint32_t logit_rows_max;
    float *logits; /* [logit_rows_max][this rank's vocabulary] */
};

static inline lac_fabric_call lac__group_call(const lac__group *g)
{
    return (lac_fabric_call){.step = g->step, .deadline_ns = lac_now_ns() + g->deadline_ms * MS};
}

lac_status lac__group_reserve(lac_engine *engine, lac_error *err);
void lac__group_release(lac__group *group);

/* Begins a step by telling all ranks what is in it; NULL: that there will be no more. */
lac_status lac__order_send(lac_engine *engine, const lac_batch *batch, lac_error *err);
/* Waits for the next step, however long, while the others live. The batch lives in the group. */
lac_status lac__order_receive(lac_engine *engine, lac_batch *batch, bool *stop, lac_error *err);

/* A follower's result to the leader, and the leader's taking of it into batch and *own. */
lac_status lac__result_send(lac_engine *engine, const lac_batch *batch, const lac_error *own,
                            lac_error *err);
lac_status lac__result_take(lac_engine *engine, lac_batch *batch, uint32_t rank, lac_error *own,
                            lac_error *err);

#endif
