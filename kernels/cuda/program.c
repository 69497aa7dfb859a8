/* A list of operations checked once: shapes, types, row lists, page tables, RoPE tables. Nothing is
 * checked in a step any more. */
#include "backend.h"

#include <math.h>
#include <stdlib.h>

#include "base/limits.h"
#include "base/mem.h"
#include "kernels/pack.h"

#define SHAPE(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return lac_fail(err, LAC_EINVAL, __VA_ARGS__);                                         \
    } while (0)

static uint32_t max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

void lac__cuda_program_free(lac_backend *be)
{
    for (uint32_t i = 0; i < be->graphs_count; i++) {
        if (be->graphs[i].exec)
            (void)be->cu->exec_destroy(be->graphs[i].exec);
        if (be->graphs[i].graph)
            (void)be->cu->graph_destroy(be->graphs[i].graph);
        free(be->graphs[i].nodes);
    }
    for (uint32_t i = 0; i < be->ropes_count; i++)
        (void)be->cu->mem_free(be->ropes[i].angles);
    lac__step_free(be);
    free(be->count_of);
    be->count_of = NULL;
    be->graphs_count = be->ropes_count = 0;
    be->ops = NULL;
    be->ops_count = 0;
}

/* ---- checks ---- */

static bool is_vector(const lac_weight *v, uint32_t cols)
{
    return !v || (v->vector && v->cols == cols);
}

static bool is_matrix(const lac_weight *w, uint32_t rows, uint32_t cols)
{
    return w && !w->vector && (rows == 0 || w->rows == rows) && w->cols == cols;
}

static lac_status heads_check(lac_backend *be, size_t at, uint32_t heads, uint32_t kv_heads,
                              uint32_t head_dim, const lac_kv_view *kv, lac_error *err)
{
    const lac_backend_options *o = &be->options;
    SHAPE(head_dim >= 8 && head_dim % 8 == 0 && head_dim <= LAC__HEAD_MAX,
          "op %zu: head_dim is %u, allowed multiples of 8 up to %d", at, head_dim, LAC__HEAD_MAX);
    SHAPE(kv_heads >= 1 && heads >= kv_heads && heads % kv_heads == 0 &&
              (uint64_t)heads * head_dim <= o->q_width_max &&
              (uint64_t)kv_heads * head_dim <= o->kv_width_max,
          "op %zu: %u heads and %u kv heads of %u, allowed widths %u and %u", at, heads, kv_heads,
          head_dim, o->q_width_max, o->kv_width_max);
    SHAPE(kv->region && kv->page_bytes % 16 == 0 &&
              kv->page_bytes >= lac_cuda_backend()->kv_page_bytes(be, kv_heads, head_dim),
          "op %zu: a kv page of %zu bytes is too small, or no multiple of 16", at, kv->page_bytes);
    SHAPE(kv->table < LAC_LAYERS_MAX, "op %zu: page table is %u, allowed 0..%d", at, kv->table,
          LAC_LAYERS_MAX - 1);
    be->tables = max_u32(be->tables, kv->table + 1);
    be->kv_heads = max_u32(be->kv_heads, kv_heads);
    be->group = max_u32(be->group, heads / kv_heads);
    be->head_dim = max_u32(be->head_dim, head_dim);
    return LAC_OK;
}

static lac_status rope_make(lac_backend *be, const lac_rope *rope, uint32_t head_dim, size_t at,
                            lac_error *err)
{
    if (rope->style == LAC_ROPE_NONE)
        return LAC_OK;
    SHAPE(rope->dims >= 2 && rope->dims % 2 == 0 && rope->dims <= head_dim,
          "op %zu: rope dims is %u, allowed even 2..%u", at, rope->dims, head_dim);
    for (uint32_t i = 0; i < be->ropes_count; i++)
        if (lac__rope_same(&be->ropes[i].rope, rope))
            return LAC_OK;
    SHAPE(be->ropes_count < LAC__CUDA_ROPES_MAX, "op %zu: more than %d different rope settings", at,
          LAC__CUDA_ROPES_MAX);
    uint32_t half = rope->dims / 2, positions = be->options.context_max;
    size_t bytes = (size_t)positions * rope->dims * sizeof(float);
    float *angles = lac_try_alloc((size_t)positions * rope->dims, sizeof *angles);
    if (!angles)
        return lac_fail(err, LAC_ENOMEM, "op %zu: no memory for %u rope positions", at, positions);
    for (uint32_t i = 0; i < half; i++) {
        double f = pow((double)rope->base, -2.0 * i / rope->dims) * rope->scale;
        f = rope->factors ? f / rope->factors[i] : f;
        for (uint32_t p = 0; p < positions; p++) {
            angles[(size_t)p * rope->dims + i] = (float)(cos(p * f) * rope->magnitude);
            angles[(size_t)p * rope->dims + half + i] = (float)(sin(p * f) * rope->magnitude);
        }
    }
    lac__cuda_rope *to = &be->ropes[be->ropes_count];
    lac_status status =
        lac__cu_check(be->cu, be->cu->mem_alloc(&to->angles, bytes), "rope table", err);
    if (status == LAC_OK) {
        to->rope = *rope;
        be->ropes_count++;
        status = lac__cu_check(be->cu, be->cu->to_device(to->angles, angles, bytes, be->stream),
                               "rope table", err);
    }
    if (status == LAC_OK)
        status = lac__cuda_wait(be, err);
    free(angles);
    return status;
}

static lac_status qkv_check(lac_backend *be, const lac_op *op, size_t at, lac_error *err)
{
    uint32_t hidden = be->options.hidden, dim = op->u.qkv.head_dim;
    lac_status status =
        heads_check(be, at, op->u.qkv.heads, op->u.qkv.kv_heads, dim, &op->u.qkv.kv, err);
    if (status != LAC_OK)
        return status;
    uint32_t q = op->u.qkv.heads * dim, kv = op->u.qkv.kv_heads * dim;
    SHAPE(op->u.qkv.norm && is_vector(op->u.qkv.norm, hidden) &&
              is_matrix(op->u.qkv.q, q, hidden) && is_matrix(op->u.qkv.k, kv, hidden) &&
              is_matrix(op->u.qkv.v, kv, hidden) && is_vector(op->u.qkv.q_bias, q) &&
              is_vector(op->u.qkv.k_bias, kv) && is_vector(op->u.qkv.v_bias, kv) &&
              is_vector(op->u.qkv.q_norm, dim) && is_vector(op->u.qkv.k_norm, dim),
          "op %zu: weights of qkv do not fit %u, %u and %u", at, hidden, q, kv);
    return rope_make(be, &op->u.qkv.rope, dim, at, err);
}

/* Width of what `op` hands to the projection after it; 0 when it hands nothing on. */
static uint32_t inner_of(const lac_op *op)
{
    if (op->kind == LAC_OP_ATTENTION)
        return op->u.attention.heads * op->u.attention.head_dim;
    return op->kind == LAC_OP_GATE_UP && op->u.gate_up.gate ? op->u.gate_up.gate->rows : 0;
}

static lac_status linear_check(const lac_backend *be, const lac_op *op, size_t at, lac_error *err)
{
    const lac_backend_options *o = &be->options;
    const lac_weight *down = op->u.linear.down, *up = op->u.linear.up;
    uint32_t rank = down ? down->rows : o->hidden;
    uint32_t most = max_u32(max_u32(o->q_width_max, o->ffn_max), o->hidden);
    SHAPE(rank <= most && is_matrix(up, o->hidden, rank) &&
              is_vector(op->u.linear.norm, o->hidden) &&
              (!down || (is_matrix(down, rank, o->hidden) && !lac__type_quantised(down->type) &&
                         !lac__type_quantised(up->type))),
          "op %zu: a linear map is not %u x %u x %u, or of quantised factors", at, o->hidden, rank,
          o->hidden);
    return LAC_OK;
}

static lac_status op_check(lac_backend *be, const lac_op *op, const lac_op *before,
                           const lac_op *next, size_t at, lac_error *err)
{
    const lac_backend_options *o = &be->options;
    uint32_t hidden = o->hidden, inner = before ? inner_of(before) : 0;
    bool projected = next && next->kind == LAC_OP_PROJECT && next->u.project.weight;
    switch (op->kind) {
    case LAC_OP_EMBED:
        if (op->u.embed.sum || op->u.embed.first != 0)
            return lac_fail(err, LAC_EUNSUPPORTED, "op %zu: cuda does not split embeddings", at);
        SHAPE(is_matrix(op->u.embed.table, 0, hidden) && op->u.embed.table->rows >= o->vocab,
              "op %zu: embedding table is not %u x %u", at, o->vocab, hidden);
        return LAC_OK;
    case LAC_OP_QKV: return qkv_check(be, op, at, err);
    case LAC_OP_ATTENTION:
        SHAPE(projected && before && before->kind == LAC_OP_QKV &&
                  before->u.qkv.heads == op->u.attention.heads &&
                  before->u.qkv.kv_heads == op->u.attention.kv_heads &&
                  before->u.qkv.head_dim == op->u.attention.head_dim,
              "op %zu: attention does not stand between its heads and a projection", at);
        return heads_check(be, at, op->u.attention.heads, op->u.attention.kv_heads,
                           op->u.attention.head_dim, &op->u.attention.kv, err);
    case LAC_OP_PROJECT:
        if (op->u.project.sum)
            return lac_fail(err, LAC_EUNSUPPORTED,
                            "op %zu: cuda does not sum a projection over ranks", at);
        SHAPE(inner > 0 && is_matrix(op->u.project.weight, hidden, inner) &&
                  is_vector(op->u.project.bias, hidden) &&
                  is_vector(op->u.project.post_norm, hidden),
              "op %zu: projection is not %u x %u, or nothing comes before it", at, hidden, inner);
        return LAC_OK;
    case LAC_OP_GATE_UP:
        SHAPE(
            projected && is_matrix(op->u.gate_up.gate, 0, hidden) &&
                op->u.gate_up.gate->rows <= o->ffn_max &&
                is_matrix(op->u.gate_up.up, op->u.gate_up.gate->rows, hidden) &&
                op->u.gate_up.norm && is_vector(op->u.gate_up.norm, hidden),
            "op %zu: weights of gate and up do not fit %u and at most %u, or no projection follows",
            at, hidden, o->ffn_max);
        return LAC_OK;
    case LAC_OP_HEAD:
        SHAPE(op->u.head.norm && is_vector(op->u.head.norm, hidden) &&
                  is_matrix(op->u.head.weight, o->vocab, hidden),
              "op %zu: head is not %u x %u", at, o->vocab, hidden);
        return LAC_OK;
    case LAC_OP_PATCH:
    case LAC_OP_LINEAR: return linear_check(be, op, at, err);
    case LAC_OP_TAP:
        return lac_fail(err, LAC_EUNSUPPORTED, "op %zu: cuda has no tap", at);
    case LAC_OP_EXPERTS:
        return lac_fail(err, LAC_EUNSUPPORTED, "op %zu: cuda does not run routed experts", at);
    }
    return lac_fail(err, LAC_EINVAL, "op %zu: kind is %d", at, (int)op->kind);
}

lac_status lac__cuda_program_make(lac_backend *be, const lac_op *ops, size_t count, lac_error *err)
{
    lac_status status = LAC_OK;
    lac__cuda_program_free(be);
    be->units = be->patches = be->tables = 0;
    be->kv_heads = be->group = be->head_dim = 1;
    for (size_t i = 0; i < count && status == LAC_OK; i++) {
        const lac_op *op = &ops[i];
        uint32_t *numbers = op->kind == LAC_OP_PATCH ? &be->patches : &be->units;
        if (op->unit >= 4 * LAC_LAYERS_MAX)
            status = lac_fail(err, LAC_EINVAL, "op %zu: unit is %u, allowed 0..%d", i, op->unit,
                              4 * LAC_LAYERS_MAX - 1);
        else if (op->kind != LAC_OP_EMBED && op->kind != LAC_OP_HEAD)
            *numbers = max_u32(*numbers, op->unit + 1);
        if (status == LAC_OK)
            status = op_check(be, op, i > 0 ? op - 1 : NULL, i + 1 < count ? op + 1 : NULL, i, err);
    }
    if (status == LAC_OK) {
        be->count_of = lac_alloc(lac__numbers(be), sizeof *be->count_of);
        status = lac__step_make(be, err);
    }
    if (status != LAC_OK) {
        lac__cuda_program_free(be);
        return status;
    }
    be->ops = ops;
    be->ops_count = count;
    return LAC_OK;
}
