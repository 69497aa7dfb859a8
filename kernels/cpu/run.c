/* What all threads do together in a step: walks the phases, takes jobs, runs kernels.
 *
 * A thread norms and quantises for itself only after it has got a job of the phase: until that job
 * is done nobody can write the residual stream it reads. Results do not depend on who took which
 * job. */
#include "backend.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"

static uint32_t ceil_div(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

/* Column of packed row i in a panel: where its blocks (or floats) start and how far they lie apart.
 */
static lac__tile panel_column(const lac__panel *p, uint32_t cols, uint32_t rows, uint32_t i)
{
    lac__tile t = lac__panel_tile(p, cols, rows, i / LAC__TILE);
    t.x = t.x ? t.x + i % LAC__TILE : NULL;
    t.f = t.f ? t.f + i % LAC__TILE : NULL;
    return t;
}

/* Values `at` … at+n−1 of packed row i into the panel, in the forms its readers want. */
static void panel_put(lac_backend *be, const lac__phase *ph, const lac__panel *p, uint32_t cols,
                      uint32_t rows, uint32_t i, uint32_t at, const float *x, uint32_t n)
{
    lac__tile t = panel_column(p, cols, rows, i);
    if (ph->quant)
        be->kernels->quantise(x, n, t.x + (size_t)(at / 32) * t.n, t.n);
    for (uint32_t k = 0; ph->floats && k < n; k++)
        t.f[(size_t)(at + k) * t.n] = x[k];
}

/* ---- start: embedding and angles ---- */

static void job_start(lac_backend *be, const lac__phase *ph, lac__local *l, uint32_t row)
{
    const lac_batch *batch = be->batch;
    uint32_t hidden = be->options.hidden;
    (void)l;
    if (ph->op) {
        float *h = be->h + (size_t)row * hidden;
        float scale = ph->op->u.embed.scale;
        uint32_t at = batch->tokens[row] - ph->op->u.embed.first;
        bool here = at < ph->op->u.embed.table->rows; /* tokens below the first wrap around */
        LAC_ASSERT(here || ph->op->u.embed.sum);
        if (here)
            lac__unpack_row(ph->op->u.embed.table, at, h);
        else
            memset(h, 0, hidden * sizeof *h);
        for (uint32_t k = 0; scale != 1.0f && k < hidden; k++)
            h[k] *= scale;
    } else if (batch->residual_in) {
        memcpy(be->h + (size_t)row * hidden, batch->residual_in + (size_t)row * hidden,
               hidden * sizeof *be->h);
    }
    const lac_segment *g = &batch->segments[be->row_segment[row]];
    double pos = (double)(g->pos + (row - g->row));
    for (uint32_t t = 0; t < be->ropes_count; t++) {
        const lac__rope_table *table = &be->ropes[t];
        uint32_t half = table->rope.dims / 2;
        float *angles = table->angles + (size_t)row * table->rope.dims;
        for (uint32_t i = 0; i < half; i++) {
            double a = pos * table->frequency[i];
            angles[i] = (float)(cos(a) * table->rope.magnitude);
            angles[half + i] = (float)(sin(a) * table->rope.magnitude);
        }
    }
}

/* ---- norm ---- */

static const float *floats(const lac_weight *w)
{
    return (const float *)(const void *)w->data;
}

/* Rows that the product of `op` runs, as numbers in the batch. */
static uint32_t op_rows(const lac_backend *be, const lac_op *op)
{
    return op->kind == LAC_OP_HEAD ? be->batch->logit_rows_count
                                   : lac__unit_rows(be->batch, op).count;
}

static uint32_t op_row(const lac_backend *be, const lac_op *op, uint32_t i)
{
    return op->kind == LAC_OP_HEAD ? be->batch->logit_rows[i].row
                                   : lac__row_at(lac__unit_rows(be->batch, op), i);
}

static void norm_of(const lac_backend *be, const lac_op *op, const float **norm, float *eps)
{
    switch (op->kind) {
    case LAC_OP_QKV: *norm = floats(op->u.qkv.norm), *eps = op->u.qkv.eps; break;
    case LAC_OP_GATE_UP: *norm = floats(op->u.gate_up.norm), *eps = op->u.gate_up.eps; break;
    case LAC_OP_PATCH:
    case LAC_OP_LINEAR:
        *norm = op->u.linear.norm ? floats(op->u.linear.norm) : be->ones;
        *eps = op->u.linear.eps;
        break;
    default: *norm = floats(op->u.head.norm), *eps = op->u.head.eps; break;
    }
}

static void norm_row(lac_backend *be, const lac__phase *ph, lac__local *l, const lac__panel *panel,
                     uint32_t rows, uint32_t i)
{
    const float *norm;
    float eps;
    uint32_t hidden = be->options.hidden;
    norm_of(be, ph->op, &norm, &eps);
    float sum = be->kernels->norm(be->h + (size_t)op_row(be, ph->op, i) * hidden, norm, hidden, eps,
                                  l->row);
    l->odd |= !isfinite(sum);
    panel_put(be, ph, panel, hidden, rows, i, 0, l->row, hidden);
}

/* The panel a product phase reads: the thread's own when rows are few, else the shared one. */
static const lac__panel *normed_panel(lac_backend *be, lac__local *l, uint32_t rows)
{
    return rows <= LAC__REDUNDANT ? &l->panel : &be->normed;
}

static void norm_for_self(lac_backend *be, const lac__phase *ph, lac__local *l)
{
    uint32_t rows = op_rows(be, ph->op);
    for (uint32_t i = 0; rows <= LAC__REDUNDANT && i < rows; i++)
        norm_row(be, ph, l, &l->panel, rows, i);
}

/* `goes_on`: out holds what the result is to be added to. */
static void product_on(lac_backend *be, const lac_weight *w, uint32_t group, uint32_t groups,
                       const lac__panel *panel, uint32_t rows, uint32_t tile, bool goes_on,
                       float *out, size_t ld)
{
    lac__tile x = lac__panel_tile(panel, w->cols, rows, tile);
    x.goes_on = goes_on;
    if (group + groups > w->groups)
        groups = w->groups - group;
    be->kernels->gemm[w->type](w, group, groups, &x, out, ld);
}

static void product(lac_backend *be, const lac_weight *w, uint32_t group, uint32_t groups,
                    const lac__panel *panel, uint32_t rows, uint32_t tile, float *out, size_t ld)
{
    product_on(be, w, group, groups, panel, rows, tile, false, out, ld);
}

/* ---- QKV: one head a job ---- */

static void head_finish(lac_backend *be, const lac__phase *ph, uint32_t row, float *x,
                        const float *bias, const lac_weight *norm, bool rotate)
{
    const lac_op *op = ph->op;
    uint32_t dim = op->u.qkv.head_dim;
    if (bias)
        be->kernels->add(x, bias, dim);
    if (norm)
        (void)be->kernels->norm(x, floats(norm), dim, op->u.qkv.eps, x);
    const lac_rope *rope = &op->u.qkv.rope;
    if (rotate && rope->style != LAC_ROPE_NONE) {
        const float *angles = be->ropes[ph->rope].angles + (size_t)row * rope->dims;
        be->kernels->rope(x, rope->style, rope->dims, angles, angles + rope->dims / 2);
    }
}

static uint8_t *page_of(const lac_batch *batch, const lac_kv_view *kv, const lac_segment *g,
                        uint32_t pos)
{
    uint32_t page = g->tables[(size_t)kv->table * g->table_stride + pos / LAC_KV_BLOCK];
    return (uint8_t *)kv->region + (size_t)page * kv->page_bytes;
    (void)batch;
}

static void kv_write(lac_backend *be, const lac_op *op, uint32_t row, uint32_t head, bool is_v,
                     const float *x)
{
    const lac_segment *g = &be->batch->segments[be->row_segment[row]];
    uint32_t pos = g->pos + (row - g->row), dim = op->u.qkv.head_dim;
    uint8_t *page = page_of(be->batch, &op->u.qkv.kv, g, pos);
    lac__kv_write(be, page + head * lac__kv_head_bytes(be->options.kv_type, dim),
                  pos % LAC_KV_BLOCK, dim, is_v, x);
}

static void job_qkv(lac_backend *be, const lac__phase *ph, lac__local *l, uint32_t job)
{
    const lac_op *op = ph->op;
    uint32_t heads = op->u.qkv.heads, kv_heads = op->u.qkv.kv_heads, dim = op->u.qkv.head_dim;
    bool is_q = job < heads, is_v = job >= heads + kv_heads;
    uint32_t head = is_q ? job : is_v ? job - heads - kv_heads : job - heads;
    const lac_weight *w = is_q ? op->u.qkv.q : is_v ? op->u.qkv.v : op->u.qkv.k;
    const lac_weight *bias = is_q ? op->u.qkv.q_bias : is_v ? op->u.qkv.v_bias : op->u.qkv.k_bias;
    const lac_weight *norm = is_q ? op->u.qkv.q_norm : is_v ? NULL : op->u.qkv.k_norm;
    uint32_t rows = op_rows(be, op);
    const lac__panel *panel = normed_panel(be, l, rows);
    for (uint32_t t = 0; t < ceil_div(rows, LAC__TILE); t++) {
        product(be, w, head * dim / 8, dim / 8, panel, rows, t, l->tile, dim);
        for (uint32_t i = t * LAC__TILE; i < rows && i < (t + 1) * LAC__TILE; i++) {
            float *x = l->tile + (size_t)(i % LAC__TILE) * dim;
            uint32_t row = op_row(be, op, i);
            head_finish(be, ph, row, x, bias ? floats(bias) + head * dim : NULL, norm, !is_v);
            if (is_q)
                memcpy(be->q + ((size_t)i * heads + head) * dim, x, dim * sizeof *x);
            else
                kv_write(be, op, row, head, is_v, x);
        }
    }
}

/* ---- attention ---- */

/* What the items of an operation depend on: the shape of its heads, and which rows run it. */
static bool items_same(const lac_backend *be, const lac_op *a, const lac_op *b)
{
    lac__rows rows_a = lac__unit_rows(be->batch, a), rows_b = lac__unit_rows(be->batch, b);
    return a->u.attention.heads == b->u.attention.heads &&
           a->u.attention.kv_heads == b->u.attention.kv_heads &&
           a->u.attention.head_dim == b->u.attention.head_dim &&
           a->u.attention.window == b->u.attention.window && rows_a.count == rows_b.count &&
           (rows_a.rows == rows_b.rows ||
            (rows_a.rows && rows_b.rows &&
             memcmp(rows_a.rows, rows_b.rows, rows_a.count * sizeof *rows_a.rows) == 0));
}

static void items_for(lac_backend *be, lac__local *l, const lac_op *op)
{
    if (!l->items.made_for || !items_same(be, l->items.made_for, op))
        lac__items_build(be, &l->items, op);
}

static void attention_publish(lac_backend *be, const lac__phase *ph, const lac__attention_item *a,
                              const lac__item *it, uint32_t kv_head)
{
    if (!ph->quant && !ph->floats)
        return; /* a phase of its own does it */
    uint32_t width = a->group * a->head_dim, rows = op_rows(be, ph->op);
    for (uint32_t r = 0; r < a->rows; r++)
        panel_put(be, ph, &be->inner, ph->project->u.project.weight->cols, rows, it->row0 + r,
                  kv_head * width, a->out + r * a->out_stride, width);
}

static void job_attention(lac_backend *be, const lac__phase *ph, lac__local *l, uint32_t job)
{
    const lac_op *op = ph->op;
    uint32_t kv_heads = op->u.attention.kv_heads, dim = op->u.attention.head_dim;
    const lac__item *it = &l->items.items[job / kv_heads];
    uint32_t kv_head = job % kv_heads, group = op->u.attention.heads / kv_heads;
    const lac_segment *g = &be->batch->segments[it->segment];
    size_t width = (size_t)op->u.attention.heads * dim;
    size_t at = it->row0 * width + (size_t)kv_head * group * dim;
    size_t head_bytes = lac__kv_head_bytes(be->options.kv_type, dim);
    lac__attention_item a = {.q = be->q + at,
                             .q_stride = width,
                             .out = be->attended + at,
                             .out_stride = width,
                             .rows = it->rows,
                             .group = group,
                             .head_dim = dim,
                             .pos = g->pos + it->first,
                             .split_first = it->split_first,
                             .split_last = it->split_last,
                             .scale = op->u.attention.scale,
                             .softcap = op->u.attention.softcap,
                             .window = op->u.attention.window,
                             .kv_type = be->options.kv_type,
                             .region = op->u.attention.kv.region,
                             .page_bytes = op->u.attention.kv.page_bytes,
                             .head_offset = kv_head * head_bytes,
                             .pages =
                                 g->tables + (size_t)op->u.attention.kv.table * g->table_stride,
                             .scratch = l->attention};
    if (it->counter != UINT32_MAX) {
        size_t state = (size_t)lac__pad16(dim) + 16;
        a.partial = be->partial + it->partial + kv_head * (it->rows * group * state * it->splits);
        be->kernels->attention(&a);
        _Atomic uint32_t *left = &be->left[it->counter * kv_heads + kv_head];
        if (atomic_fetch_add_explicit(left, 1, memory_order_acq_rel) + 1 < it->parts)
            return;
        atomic_store_explicit(left, 0, memory_order_relaxed);
        be->kernels->attention_merge(&a, it->begin, it->splits);
    } else {
        be->kernels->attention(&a);
    }
    attention_publish(be, ph, &a, it, kv_head);
}

static void job_quantise(lac_backend *be, const lac__phase *ph, uint32_t i)
{
    lac__phase forms = *ph;
    forms.quant = true;
    uint32_t width = ph->op->u.attention.heads * ph->op->u.attention.head_dim;
    panel_put(be, &forms, &be->inner, width, op_rows(be, ph->op), i, 0,
              be->attended + (size_t)i * width, width);
}

/* ---- project ---- */

static void job_project(lac_backend *be, const lac__phase *ph, lac__local *l, uint32_t job)
{
    const lac_op *op = ph->op;
    uint32_t hidden = be->options.hidden, rows = op_rows(be, op), first = job * LAC__SLICE;
    uint32_t n = hidden - first < LAC__SLICE ? hidden - first : LAC__SLICE;
    const lac_weight *bias = op->u.project.bias;
    bool goes_on = lac__goes_on(op);
    for (uint32_t t = 0; t < ceil_div(rows, LAC__TILE); t++) {
        for (uint32_t i = t * LAC__TILE; goes_on && i < rows && i < (t + 1) * LAC__TILE; i++)
            memcpy(l->tile + (size_t)(i % LAC__TILE) * LAC__SLICE,
                   be->branch + (size_t)i * hidden + first, n * sizeof *l->tile);
        product_on(be, op->u.project.weight, first / 8, LAC__SLICE / 8, &be->inner, rows, t,
                   goes_on, l->tile, LAC__SLICE);
        for (uint32_t i = t * LAC__TILE; i < rows && i < (t + 1) * LAC__TILE; i++) {
            float *x = l->tile + (size_t)(i % LAC__TILE) * LAC__SLICE;
            if (bias)
                be->kernels->add(x, floats(bias) + first, n);
            if (op->u.project.post_norm || op->u.project.sum)
                memcpy(be->branch + (size_t)i * hidden + first, x, n * sizeof *x);
            else
                be->kernels->add(be->h + (size_t)op_row(be, op, i) * hidden + first, x, n);
        }
    }
}

static void job_post_norm(lac_backend *be, const lac__phase *ph, lac__local *l, uint32_t i)
{
    uint32_t hidden = be->options.hidden;
    float sum =
        be->kernels->norm(be->branch + (size_t)i * hidden, floats(ph->op->u.project.post_norm),
                          hidden, ph->op->u.project.eps, l->row);
    l->odd |= !isfinite(sum);
    be->kernels->add(be->h + (size_t)op_row(be, ph->op, i) * hidden, l->row, hidden);
}

/* ---- results of which each rank has a share ---- */

static void job_sum(lac_backend *be, const lac__phase *ph)
{
    bool embed = ph->op->kind == LAC_OP_EMBED;
    const lac_reducer *sum = embed ? ph->op->u.embed.sum : ph->op->u.project.sum;
    size_t rows = embed ? be->batch->rows : op_rows(be, ph->op);
    bool chain = !embed && lac__chains(ph->op);
    if (be->sum_status == LAC_OK)
        be->sum_status = (chain ? sum->whole : sum->sum)(sum->arg, embed ? be->h : be->branch,
                                                         rows * be->options.hidden);
}

static void job_before(lac_backend *be, const lac__phase *ph)
{
    const lac_reducer *sum = ph->op->u.project.sum;
    size_t count = (size_t)op_rows(be, ph->op) * be->options.hidden;
    if (be->sum_status == LAC_OK)
        be->sum_status = sum->before(sum->arg, be->branch, count);
}

static void job_residual(lac_backend *be, const lac__phase *ph, uint32_t i)
{
    uint32_t hidden = be->options.hidden;
    be->kernels->add(be->h + (size_t)op_row(be, ph->op, i) * hidden,
                     be->branch + (size_t)i * hidden, hidden);
}

/* ---- gate and up ---- */

static void job_gate_up(lac_backend *be, const lac__phase *ph, lac__local *l, uint32_t job)
{
    const lac_op *op = ph->op;
    uint32_t ffn = op->u.gate_up.gate->rows, rows = op_rows(be, op), first = job * LAC__SLICE;
    uint32_t n = ffn - first < LAC__SLICE ? ffn - first : LAC__SLICE;
    const lac__panel *panel = normed_panel(be, l, rows);
    const lac_weight *down = ph->project->u.project.weight;
    lac__phase forms = {.quant = lac__type_quantised(down->type),
                        .floats = !lac__type_quantised(down->type)};
    for (uint32_t t = 0; t < ceil_div(rows, LAC__TILE); t++) {
        product(be, op->u.gate_up.gate, first / 8, LAC__SLICE / 8, panel, rows, t, l->tile,
                LAC__SLICE);
        product(be, op->u.gate_up.up, first / 8, LAC__SLICE / 8, panel, rows, t, l->tile2,
                LAC__SLICE);
        for (uint32_t i = t * LAC__TILE; i < rows && i < (t + 1) * LAC__TILE; i++) {
            float *gate = l->tile + (size_t)(i % LAC__TILE) * LAC__SLICE;
            be->kernels->act(op->u.gate_up.act, gate, l->tile2 + (gate - l->tile), n, gate);
            panel_put(be, &forms, &be->inner, ffn, rows, i, first, gate, n);
        }
    }
}

/* ---- patch, linear ---- */

static void job_linear_down(lac_backend *be, const lac__phase *ph, lac__local *l, uint32_t job)
{
    const lac_weight *down = ph->op->u.linear.down;
    uint32_t rank = down->rows, rows = op_rows(be, ph->op), first = job * LAC__SLICE;
    uint32_t n = rank - first < LAC__SLICE ? rank - first : LAC__SLICE;
    const lac__panel *panel = normed_panel(be, l, rows);
    for (uint32_t t = 0; t < ceil_div(rows, LAC__TILE); t++) {
        product(be, down, first / 8, LAC__SLICE / 8, panel, rows, t, l->tile, LAC__SLICE);
        for (uint32_t i = t * LAC__TILE; i < rows && i < (t + 1) * LAC__TILE; i++)
            panel_put(be, ph, &be->inner, rank, rows, i, first,
                      l->tile + (size_t)(i % LAC__TILE) * LAC__SLICE, n);
    }
}

static void job_linear_up(lac_backend *be, const lac__phase *ph, lac__local *l, uint32_t job)
{
    const lac_op *op = ph->op;
    uint32_t hidden = be->options.hidden, rows = op_rows(be, op), first = job * LAC__SLICE;
    uint32_t n = hidden - first < LAC__SLICE ? hidden - first : LAC__SLICE;
    const lac__panel *panel = op->u.linear.down ? &be->inner : &be->normed;
    for (uint32_t t = 0; t < ceil_div(rows, LAC__TILE); t++) {
        product(be, op->u.linear.up, first / 8, LAC__SLICE / 8, panel, rows, t, l->tile,
                LAC__SLICE);
        for (uint32_t i = t * LAC__TILE; i < rows && i < (t + 1) * LAC__TILE; i++)
            be->kernels->add(be->h + (size_t)op_row(be, op, i) * hidden + first,
                             l->tile + (size_t)(i % LAC__TILE) * LAC__SLICE, n);
    }
}

/* ---- head ---- */

static void job_head(lac_backend *be, const lac__phase *ph, lac__local *l, uint32_t job)
{
    const lac_op *op = ph->op;
    lac_batch *batch = be->batch;
    uint32_t vocab = be->options.vocab, rows = op_rows(be, op), first = job * LAC__HEAD_SLICE;
    uint32_t n = vocab - first < LAC__HEAD_SLICE ? vocab - first : LAC__HEAD_SLICE;
    const lac__panel *panel = normed_panel(be, l, rows);
    for (uint32_t t = 0; t < ceil_div(rows, LAC__TILE); t++) {
        product(be, op->u.head.weight, first / 8, LAC__HEAD_SLICE / 8, panel, rows, t, l->tile,
                LAC__HEAD_SLICE);
        for (uint32_t i = t * LAC__TILE; i < rows && i < (t + 1) * LAC__TILE; i++) {
            float *x = l->tile + (size_t)(i % LAC__TILE) * LAC__HEAD_SLICE, value;
            uint32_t index;
            if (op->u.head.softcap > 0.0f)
                be->kernels->softcap(x, n, op->u.head.softcap);
            l->odd |= !be->kernels->best(x, n, &value, &index);
            lac__top_take(&l->top[i], &batch->logit_rows[i], first, x, n, value);
            if (batch->logit_rows[i].logits)
                memcpy(batch->logit_rows[i].logits + first, x, n * sizeof *x);
        }
    }
}

static void job_tap(lac_backend *be, uint32_t row)
{
    size_t hidden = be->options.hidden;
    memcpy(be->batch->tap + row * hidden, be->h + row * hidden, hidden * sizeof *be->h);
}

/* ---- the walk ---- */

static uint32_t phase_jobs(lac_backend *be, const lac__phase *ph, lac__local *l)
{
    const lac_op *op = ph->op;
    if (ph->kind == PHASE_START)
        return be->batch->rows;
    if (ph->kind == PHASE_TAP)
        return be->batch->tap ? be->batch->rows : 0;
    if (ph->kind >= PHASE_EXPERTS_NORM)
        return lac__experts_jobs(be, ph, l);
    uint32_t rows = op_rows(be, op);
    if (rows == 0)
        return 0;
    switch (ph->kind) {
    case PHASE_BEFORE:
    case PHASE_SUM: return 1;
    case PHASE_NORM: return rows <= LAC__REDUNDANT && !ph->shared ? 0 : rows;
    case PHASE_QKV: return op->u.qkv.heads + 2 * op->u.qkv.kv_heads;
    case PHASE_ATTENTION: items_for(be, l, op); return l->items.count * op->u.attention.kv_heads;
    case PHASE_PROJECT: return ceil_div(be->options.hidden, LAC__SLICE);
    case PHASE_GATE_UP: return ceil_div(op->u.gate_up.gate->rows, LAC__SLICE);
    case PHASE_HEAD: return ceil_div(be->options.vocab, LAC__HEAD_SLICE);
    case PHASE_LINEAR_DOWN: return ceil_div(op->u.linear.down->rows, LAC__SLICE);
    case PHASE_LINEAR_UP: return ceil_div(be->options.hidden, LAC__SLICE);
    default: return rows;
    }
}

static void job_run(lac_backend *be, const lac__phase *ph, lac__local *l, uint32_t job)
{
    switch (ph->kind) {
    case PHASE_START: job_start(be, ph, l, job); break;
    case PHASE_NORM: norm_row(be, ph, l, &be->normed, op_rows(be, ph->op), job); break;
    case PHASE_QKV: job_qkv(be, ph, l, job); break;
    case PHASE_ATTENTION: job_attention(be, ph, l, job); break;
    case PHASE_QUANTISE: job_quantise(be, ph, job); break;
    case PHASE_PROJECT: job_project(be, ph, l, job); break;
    case PHASE_POST_NORM: job_post_norm(be, ph, l, job); break;
    case PHASE_GATE_UP: job_gate_up(be, ph, l, job); break;
    case PHASE_HEAD: job_head(be, ph, l, job); break;
    case PHASE_TOP: lac__top_finish(be, ph, l, job); break;
    case PHASE_LINEAR_DOWN: job_linear_down(be, ph, l, job); break;
    case PHASE_LINEAR_UP: job_linear_up(be, ph, l, job); break;
    case PHASE_BEFORE: job_before(be, ph); break;
    case PHASE_SUM: job_sum(be, ph); break;
    case PHASE_TAP: job_tap(be, job); break;
    case PHASE_RESIDUAL: job_residual(be, ph, job); break;
    default: lac__experts_job(be, ph, l, job); break;
    }
}

static bool norms_for_self(lac__phase_kind kind)
{
    return kind == PHASE_QKV || kind == PHASE_GATE_UP || kind == PHASE_HEAD ||
           kind == PHASE_LINEAR_DOWN;
}

/* An operation's time goes from its first phase to its last. */
static void time_phase(const lac_backend *be, const lac__phase *ph, uint64_t begin_ns)
{
    if (!ph->op)
        return; /* the start of a list without an embedding */
    lac_op_time *t = &be->batch->times[ph->op - be->ops];
    if (t->rows == 0)
        t->begin_ns = begin_ns;
    t->rows = ph->kind == PHASE_START ? be->batch->rows : op_rows(be, ph->op);
    t->end_ns = lac_now_ns();
}

static void step_on_thread(void *context, uint32_t thread)
{
    lac_backend *be = context;
    lac__local *l = &be->locals[thread];
    lac__walk walk = lac__walk_begin(be->pool, thread);
    bool timed = thread == 0 && be->batch->times;
    l->items.made_for = NULL;
    for (uint32_t p = 0; p < be->phases_count; p++) {
        const lac__phase *ph = &be->phases[p];
        uint64_t begin_ns = timed ? lac_now_ns() : 0;
        uint32_t jobs = phase_jobs(be, ph, l), done = 0;
        if (jobs == 0)
            continue;
        for (int64_t job; (job = lac__walk_claim(&walk, jobs, ph->kind == PHASE_ATTENTION)) >= 0;
             done++) {
            if (done == 0 && norms_for_self(ph->kind))
                norm_for_self(be, ph, l);
            job_run(be, ph, l, (uint32_t)job);
        }
        if (!lac__walk_next(&walk, jobs, done))
            return;
        if (timed)
            time_phase(be, ph, begin_ns);
    }
}

lac_status lac__run(lac_backend *be, lac_batch *batch, lac_error *err)
{
    be->batch = batch;
    if (batch->times)
        memset(batch->times, 0, be->ops_count * sizeof *batch->times);
    be->sum_status = LAC_OK;
    for (uint32_t t = 0; t < be->threads; t++) {
        be->locals[t].odd = false;
        for (uint32_t i = 0; i < batch->logit_rows_count; i++)
            be->locals[t].top[i].count = 0;
    }
    for (uint32_t i = 0; i < batch->logit_rows_count; i++) { /* where the program has no head */
        batch->logit_rows[i].best_logit = -INFINITY;
        batch->logit_rows[i].best_token = UINT32_MAX;
    }
    lac__pool_run(be->pool, step_on_thread, be);
    be->batch = NULL;
    if (be->sum_status != LAC_OK)
        return lac_fail(err, be->sum_status, "a sum over the ranks failed");
    if (batch->residual_out)
        memcpy(batch->residual_out, be->h,
               (size_t)batch->rows * be->options.hidden * sizeof *be->h);
    bool odd = false;
    for (uint32_t t = 0; t < be->threads; t++)
        odd |= be->locals[t].odd;
    if (odd)
        return lac_fail(err, LAC_EINTERNAL, "a result of the model is not finite");
    return LAC_OK;
}
