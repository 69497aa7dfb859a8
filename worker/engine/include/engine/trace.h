/* What each operation of a step did, for people who look where time and bytes go. The engine's
 * thread. */
#ifndef LAC_ENGINE_TRACE_H
#define LAC_ENGINE_TRACE_H

#include "engine/engine.h"

/* Lives until the tracer returns. Bytes are what the operation has to move if no cache helps:
 * weights once a step whatever the rows, keys and values of every position that a row looks at. */
typedef struct {
    const char *name; /* "embed", "qkv", "attention", "project", "gate_up", "experts", "linear",
                         "patch", "head" */
    bool of_unit;     /* false: embedding and head belong to none */
    uint32_t unit;    /* of a patch: the unit it stands in for */
    uint64_t begin_ns, end_ns; /* lac_now_ns() */
    uint32_t rows;
    uint64_t weight_bytes, kv_read_bytes, kv_written_bytes;
} lac_engine_op;
typedef void (*lac_engine_tracer)(void *arg, const lac_engine_op *op);

/* From the next step on `tracer` hears of every operation that ran, in order, after each step; NULL
 * ends it. What no row ran is not heard of. LAC_EUNSUPPORTED in a group of more than one rank. */
lac_status lac_engine_trace(lac_engine *engine, lac_engine_tracer tracer, void *arg,
                            lac_error *err);

#endif
