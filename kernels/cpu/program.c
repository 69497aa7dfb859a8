/* From a list of operations to the phases that run.c walks, with every shape checked once, so that
 * a step checks nothing. One thread. */
#include "backend.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"

enum { PHASES_AN_OP = 5 }; /* at most: those of experts */

#define SHAPE(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return lac_fail(err, LAC_EINVAL, __VA_ARGS__);                                         \
    } while (0)

void lac__program_free(lac_backend *be)
{
    for (uint32_t i = 0; i < be->ropes_count; i++) {
        free(be->ropes[i].frequency);
        free(be->ropes[i].angles);
    }
    lac__experts_free(be);
    free(be->phases);
    be->phases = NULL;
    be->phases_count = be->ropes_count = 0;
    be->ops = NULL;
    be->ops_count = 0;
}

static bool rope_same(const lac_rope *a, const lac_rope *b)
{
    return a->dims == b->dims && a->base == b->base && a->scale == b->scale &&
           a->magnitude == b->magnitude && a->factors == b->factors;
}

/* Angles depend on position and settings alone; layers with equal settings share them. */
static lac_status rope_index(lac_backend *be, const lac_rope *rope, uint32_t head_dim, size_t at,
                             uint32_t *index, lac_error *err)
{
    *index = 0;
    if (rope->style == LAC_ROPE_NONE)
        return LAC_OK;
    SHAPE(rope->dims >= 2 && rope->dims % 2 == 0 && rope->dims <= head_dim,
          "op %zu: rope dims is %u, allowed even 2..%u", at, rope->dims, head_dim);
    for (uint32_t i = 0; i < be->ropes_count; i++) {
        if (rope_same(&be->ropes[i].rope, rope)) {
            *index = i;
            return LAC_OK;
        }
    }
    SHAPE(be->ropes_count < LAC__ROPES_MAX, "op %zu: more than %d different rope settings", at,
          LAC__ROPES_MAX);
    uint32_t half = rope->dims / 2;
    lac__rope_table *t = &be->ropes[be->ropes_count];
    t->rope = *rope;
    t->frequency = lac_alloc(half, sizeof *t->frequency);
    t->angles = lac_alloc((size_t)be->options.rows_max * rope->dims, sizeof *t->angles);
    for (uint32_t i = 0; i < half; i++) {
        double f = pow((double)rope->base, -2.0 * i / rope->dims) * rope->scale;
        t->frequency[i] = rope->factors ? f / rope->factors[i] : f;
    }
    *index = be->ropes_count++;
    return LAC_OK;
}

static bool is_vector(const lac_weight *v, uint32_t cols)
{
    return !v || (v->vector && v->cols == cols);
}

/* A matrix; one of a single row is held as a vector and cannot be multiplied with. */
static bool is_matrix(const lac_weight *w, uint32_t rows, uint32_t cols)
{
    return w && !w->vector && (rows == 0 || w->rows == rows) && w->cols == cols;
}

static lac_status heads_check(const lac_backend *be, size_t at, uint32_t heads, uint32_t kv_heads,
                              uint32_t head_dim, const lac_kv_view *kv, lac_error *err)
{
    const lac_backend_options *o = &be->options;
    SHAPE(head_dim >= 8 && head_dim % 8 == 0 && head_dim <= LAC__HEAD_DIM_MAX,
          "op %zu: head_dim is %u, allowed multiples of 8 up to %d", at, head_dim,
          LAC__HEAD_DIM_MAX);
    SHAPE(kv_heads >= 1 && heads % kv_heads == 0 && heads >= kv_heads &&
              (uint64_t)heads * head_dim <= o->q_width_max &&
              (uint64_t)kv_heads * head_dim <= o->kv_width_max,
          "op %zu: %u heads and %u kv heads of %u, allowed widths %u and %u", at, heads, kv_heads,
          head_dim, o->q_width_max, o->kv_width_max);
    SHAPE(kv->region && kv->page_bytes >= lac_cpu_backend()->kv_page_bytes(be, kv_heads, head_dim),
          "op %zu: a kv page of %zu bytes is too small", at, kv->page_bytes);
    return LAC_OK;
}

static lac_status op_check(lac_backend *be, const lac_op *op, size_t at, uint32_t inner,
                           lac_error *err)
{
    const lac_backend_options *o = &be->options;
    uint32_t hidden = o->hidden;
    switch (op->kind) {
    case LAC_OP_EMBED:
        SHAPE(op->u.embed.table && op->u.embed.table->cols == hidden &&
                  op->u.embed.table->rows >= o->vocab,
              "op %zu: embedding table is not %u x %u", at, o->vocab, hidden);
        break;
    case LAC_OP_QKV: {
        uint32_t dim = op->u.qkv.head_dim;
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
        break;
    }
    case LAC_OP_ATTENTION:
        return heads_check(be, at, op->u.attention.heads, op->u.attention.kv_heads,
                           op->u.attention.head_dim, &op->u.attention.kv, err);
    case LAC_OP_PROJECT:
        SHAPE(inner > 0 && is_matrix(op->u.project.weight, hidden, inner) &&
                  is_vector(op->u.project.bias, hidden) &&
                  is_vector(op->u.project.post_norm, hidden),
              "op %zu: projection is not %u x %u, or nothing comes before it", at, hidden, inner);
        break;
    case LAC_OP_GATE_UP:
        SHAPE(is_matrix(op->u.gate_up.gate, 0, hidden) && op->u.gate_up.gate->rows <= o->ffn_max &&
                  is_matrix(op->u.gate_up.up, op->u.gate_up.gate->rows, hidden) &&
                  op->u.gate_up.norm && is_vector(op->u.gate_up.norm, hidden),
              "op %zu: weights of gate and up do not fit %u and at most %u", at, hidden,
              o->ffn_max);
        break;
    case LAC_OP_HEAD:
        SHAPE(op->u.head.norm && is_vector(op->u.head.norm, hidden) &&
                  is_matrix(op->u.head.weight, o->vocab, hidden),
              "op %zu: head is not %u x %u", at, o->vocab, hidden);
        break;
    case LAC_OP_PATCH:
    case LAC_OP_LINEAR: {
        const lac_weight *down = op->u.linear.down, *up = op->u.linear.up;
        uint32_t rank = down ? down->rows : hidden;
        SHAPE(rank <= lac__inner_max(o) && is_matrix(up, hidden, rank) &&
                  is_vector(op->u.linear.norm, hidden) &&
                  (!down || (is_matrix(down, rank, hidden) && !lac__type_quantised(down->type) &&
                             !lac__type_quantised(up->type))),
              "op %zu: a linear map is not %u x %u x %u, or of quantised factors", at, hidden, rank,
              hidden);
        break;
    }
    case LAC_OP_TAP: break;
    case LAC_OP_EXPERTS: return lac__experts_check(be, op, at, err);
    default: return lac_fail(err, LAC_EINVAL, "op %zu: kind is %d", at, (int)op->kind);
    }
    return LAC_OK;
}

static void push(lac_backend *be, lac__phase_kind kind, const lac_op *op)
{
    be->phases[be->phases_count++] = (lac__phase){.kind = kind, .op = op};
}

static lac__phase *last(lac_backend *be)
{
    return &be->phases[be->phases_count - 1];
}

static void reads(lac__phase *p, const lac_weight *w)
{
    *(lac__type_quantised(w->type) ? &p->quant : &p->floats) = true;
}

/* The phase that norms rows for the products of `op`, and the phase of the products: both know
 * which forms of the panel those read. */
static void push_normed(lac_backend *be, lac__phase_kind kind, const lac_op *op,
                        const lac_weight *const *weights, uint32_t count)
{
    push(be, PHASE_NORM, op);
    push(be, kind, op);
    for (uint32_t i = 0; i < count; i++) {
        reads(&be->phases[be->phases_count - 2], weights[i]);
        reads(last(be), weights[i]);
    }
}

static void linear_add(lac_backend *be, const lac_op *op)
{
    const lac_weight *down = op->u.linear.down, *up = op->u.linear.up;
    push(be, PHASE_NORM, op);
    reads(last(be), down ? down : up);
    last(be)->shared = !down;
    if (down) {
        push(be, PHASE_LINEAR_DOWN, op);
        last(be)->floats = true;
    }
    push(be, PHASE_LINEAR_UP, op);
}

static void experts_add(lac_backend *be, const lac_op *op)
{
    const lac_weight *readers[] = {op->u.experts.router, op->u.experts.expert[0].gate,
                                   op->u.experts.expert[0].up};
    for (lac__phase_kind kind = PHASE_EXPERTS_NORM; kind <= PHASE_EXPERTS_DOWN; kind++) {
        push(be, kind, op);
        for (uint32_t i = 0; i < 3; i++)
            reads(last(be), readers[i]);
    }
}

static lac_status op_add(lac_backend *be, const lac_op *op, const lac_op *next, size_t at,
                         lac_error *err)
{
    const lac_op *project = next && next->kind == LAC_OP_PROJECT ? next : NULL;
    switch (op->kind) {
    case LAC_OP_EMBED: /* part of the start */
        if (op->u.embed.sum)
            push(be, PHASE_SUM, op);
        break;
    case LAC_OP_QKV: {
        const lac_weight *w[] = {op->u.qkv.q, op->u.qkv.k, op->u.qkv.v};
        push_normed(be, PHASE_QKV, op, w, 3);
        return rope_index(be, &op->u.qkv.rope, op->u.qkv.head_dim, at, &last(be)->rope, err);
    }
    case LAC_OP_ATTENTION: {
        SHAPE(project && project->u.project.weight, "op %zu: attention without a projection", at);
        push(be, PHASE_ATTENTION, op);
        last(be)->project = project;
        uint32_t width =
            op->u.attention.heads / op->u.attention.kv_heads * op->u.attention.head_dim;
        if (lac__type_quantised(project->u.project.weight->type) && width % 32 != 0)
            push(be, PHASE_QUANTISE, op);
        else
            reads(last(be), project->u.project.weight);
        last(be)->project = project;
        break;
    }
    case LAC_OP_GATE_UP: {
        const lac_weight *w[] = {op->u.gate_up.gate, op->u.gate_up.up};
        SHAPE(project && project->u.project.weight, "op %zu: gate and up without a projection", at);
        push_normed(be, PHASE_GATE_UP, op, w, 2);
        last(be)->project = project;
        break;
    }
    case LAC_OP_PROJECT:
        if (lac__goes_on(op))
            push(be, PHASE_BEFORE, op);
        push(be, PHASE_PROJECT, op);
        if (op->u.project.sum)
            push(be, PHASE_SUM, op);
        if (op->u.project.post_norm)
            push(be, PHASE_POST_NORM, op);
        else if (op->u.project.sum)
            push(be, PHASE_RESIDUAL, op);
        break;
    case LAC_OP_HEAD: {
        const lac_weight *w[] = {op->u.head.weight};
        push_normed(be, PHASE_HEAD, op, w, 1);
        push(be, PHASE_TOP, op);
        reads(last(be), op->u.head.weight);
        break;
    }
    case LAC_OP_PATCH:
    case LAC_OP_LINEAR: linear_add(be, op); break;
    case LAC_OP_EXPERTS: experts_add(be, op); break;
    case LAC_OP_TAP: push(be, PHASE_TAP, op); break;
    }
    return LAC_OK;
}

/* Width of what `op` hands to the projection after it; 0 when it hands nothing on. */
static uint32_t inner_of(const lac_op *op)
{
    if (op->kind == LAC_OP_ATTENTION)
        return op->u.attention.heads * op->u.attention.head_dim;
    return op->kind == LAC_OP_GATE_UP && op->u.gate_up.gate ? op->u.gate_up.gate->rows : 0;
}

static lac_status scratch_make(lac_backend *be, const lac_op *ops, size_t count, lac_error *err)
{
    size_t need = 0;
    for (size_t i = 0; i < count; i++) {
        if (ops[i].kind != LAC_OP_ATTENTION)
            continue;
        size_t n = lac__attention_scratch(LAC__QTILE,
                                          ops[i].u.attention.heads / ops[i].u.attention.kv_heads,
                                          ops[i].u.attention.head_dim);
        need = n > need ? n : need;
    }
    for (uint32_t t = 0; t < be->threads && need > 0; t++) {
        free(be->locals[t].attention);
        be->locals[t].attention = aligned_alloc(LAC__CACHE_LINE, (need * 4 + 63) & ~(size_t)63);
        if (!be->locals[t].attention)
            return lac_fail(err, LAC_ENOMEM, "attention: no memory for %zu bytes", need * 4);
    }
    return LAC_OK;
}

lac_status lac__program_make(lac_backend *be, const lac_op *ops, size_t count, lac_error *err)
{
    lac__program_free(be);
    be->phases = lac_alloc(count * PHASES_AN_OP + 1, sizeof *be->phases);
    push(be, PHASE_START, NULL);
    lac_status status = scratch_make(be, ops, count, err);
    for (size_t i = 0; i < count && status == LAC_OK; i++) {
        status = op_check(be, &ops[i], i, i > 0 ? inner_of(&ops[i - 1]) : 0, err);
        if (status == LAC_OK)
            status = op_add(be, &ops[i], i + 1 < count ? &ops[i + 1] : NULL, i, err);
        if (status == LAC_OK && ops[i].kind == LAC_OP_EMBED)
            be->phases[0].op = &ops[i];
    }
    if (status == LAC_OK)
        status = lac__experts_make(be, ops, count, err);
    if (status != LAC_OK) {
        lac__program_free(be);
        return status;
    }
    be->ops = ops;
    be->ops_count = count;
    return LAC_OK;
}
