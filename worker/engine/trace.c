/* Tells who asked what the operations of each step did. The engine's thread, inside a step. Must
 * not know what becomes of it. */
#include "engine/trace.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "parts.h"

typedef struct lac__trace {
    lac_engine_tracer tracer;
    void *arg;
    lac_op_time *times; /* [program.count] */
} lac__trace;

lac_status lac_engine_trace(lac_engine *engine, lac_engine_tracer tracer, void *arg, lac_error *err)
{
    LAC_ASSERT(!engine->in_step);
    if (engine->trace)
        free(engine->trace->times);
    free(engine->trace);
    engine->trace = NULL;
    if (!tracer)
        return LAC_OK;
    if (strcmp(engine->table->name, "cpu") != 0)
        return lac_fail(err, LAC_EUNSUPPORTED, "operations are traced on CPUs only");
    if (engine->group)
        return lac_fail(err, LAC_EUNSUPPORTED, "operations are traced in a group of one rank only");
    engine->trace = lac_alloc(1, sizeof *engine->trace);
    *engine->trace = (lac__trace){.tracer = tracer, .arg = arg};
    engine->trace->times = lac_alloc(engine->program.count, sizeof *engine->trace->times);
    return LAC_OK;
}

static uint64_t sum_of(const lac_engine *e, const lac_weight *const *weights, size_t count)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += weights[i] ? e->table->weight_bytes(weights[i]) : 0;
    return bytes;
}
#define BYTES(...)                                                                                 \
    sum_of(e, (const lac_weight *const[]){__VA_ARGS__},                                            \
           sizeof((const lac_weight *const[]){__VA_ARGS__}) / sizeof(const lac_weight *))

/* Of experts: as many as the rows can pick. */
static uint64_t experts_bytes(const lac_engine *e, const lac_op *op, uint32_t rows)
{
    uint64_t picked = (uint64_t)rows * op->u.experts.used;
    if (picked > op->u.experts.count)
        picked = op->u.experts.count;
    const lac_expert_weights *one = &op->u.experts.expert[0];
    return BYTES(op->u.experts.norm, op->u.experts.router) +
           picked * BYTES(one->gate, one->up, one->down);
}

static uint64_t weights_of(const lac_engine *e, const lac_op *op, uint32_t rows)
{
    switch (op->kind) {
    case LAC_OP_EMBED: return BYTES(op->u.embed.table) / e->model->vocab * rows;
    case LAC_OP_QKV:
        return BYTES(op->u.qkv.norm, op->u.qkv.q, op->u.qkv.k, op->u.qkv.v, op->u.qkv.q_bias,
                     op->u.qkv.k_bias, op->u.qkv.v_bias, op->u.qkv.q_norm, op->u.qkv.k_norm);
    case LAC_OP_TAP:
    case LAC_OP_ATTENTION: return 0;
    case LAC_OP_PROJECT:
        return BYTES(op->u.project.weight, op->u.project.bias, op->u.project.post_norm);
    case LAC_OP_GATE_UP: return BYTES(op->u.gate_up.norm, op->u.gate_up.gate, op->u.gate_up.up);
    case LAC_OP_HEAD: return BYTES(op->u.head.norm, op->u.head.weight);
    case LAC_OP_PATCH:
    case LAC_OP_LINEAR: return BYTES(op->u.linear.norm, op->u.linear.down, op->u.linear.up);
    case LAC_OP_EXPERTS: return experts_bytes(e, op, rows);
    }
    return 0;
}

/* Positions that the rows which run `unit` look at, a segment's once: its rows share them. */
static uint64_t positions(const lac_batch *batch, uint32_t unit, uint32_t window)
{
    uint64_t sum = 0;
    uint32_t at = 0;
    const lac_row_list *list = batch->unit_rows ? &batch->unit_rows[unit] : NULL;
    for (uint32_t s = 0; s < batch->segments_count; s++) {
        const lac_segment *g = &batch->segments[s];
        while (list && at < list->count && list->rows[at] < g->row)
            at++;
        if (list && (at == list->count || list->rows[at] >= g->row + g->rows))
            continue; /* the segment leaves the unit out */
        uint64_t seen = g->pos + g->rows;
        sum += window > 0 && seen > (uint64_t)window + g->rows ? (uint64_t)window + g->rows : seen;
    }
    return sum;
}

static const char *name_of(lac_op_kind kind)
{
    static const char *const names[] = {
        [LAC_OP_TAP] = "tap",         [LAC_OP_EMBED] = "embed",
        [LAC_OP_QKV] = "qkv",         [LAC_OP_ATTENTION] = "attention",
        [LAC_OP_PROJECT] = "project", [LAC_OP_GATE_UP] = "gate_up",
        [LAC_OP_HEAD] = "head",       [LAC_OP_PATCH] = "patch",
        [LAC_OP_LINEAR] = "linear",   [LAC_OP_EXPERTS] = "experts"};
    return names[kind];
}

static void tell(const lac_engine *e, const lac_batch *batch, const lac_op *op,
                 const lac_op_time *time)
{
    bool none = op->kind == LAC_OP_EMBED || op->kind == LAC_OP_HEAD;
    lac_engine_op out = {.name = name_of(op->kind),
                         .of_unit = !none,
                         .unit = none ? 0 : op->unit,
                         .begin_ns = time->begin_ns,
                         .end_ns = time->end_ns,
                         .rows = time->rows,
                         .weight_bytes = weights_of(e, op, time->rows)};
    if (op->kind == LAC_OP_PATCH)
        out.unit = op->u.linear.stands_for;
    if (op->kind == LAC_OP_ATTENTION)
        out.kv_read_bytes = positions(batch, op->unit, op->u.attention.window) *
                            op->u.attention.kv.page_bytes / LAC_KV_BLOCK;
    if (op->kind == LAC_OP_QKV)
        out.kv_written_bytes = (uint64_t)time->rows * op->u.qkv.kv.page_bytes / LAC_KV_BLOCK;
    e->trace->tracer(e->trace->arg, &out);
}

lac_status lac__trace_run(lac_engine *e, lac_batch *batch, lac_error *err)
{
    lac__trace *trace = e->trace;
    batch->times = trace->times;
    lac_status status = e->table->run(e->backend, e->program.ops, e->program.count, batch, err);
    batch->times = NULL;
    for (size_t i = 0; i < e->program.count && status == LAC_OK; i++)
        if (trace->times[i].rows > 0)
            tell(e, batch, &e->program.ops[i], &trace->times[i]);
    return status;
}
