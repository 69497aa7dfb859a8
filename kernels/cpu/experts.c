/* The experts' operation: what a row's router picks is run for it and for nobody else, and each
 * expert's weights are read once a step, for all rows that picked it.
 *
 * Nothing depends on the other rows: a row's scores, choice and products are its own, and its
 * results are added in ascending order of experts, whoever else uses them. A thread orders the
 * pairs for itself only after it has got a job: until that job is done nobody can choose anew. */
#include "experts.h"

#include <math.h>
#include <stdlib.h>

#include "backend.h"
#include "base/assert.h"
#include "base/limits.h"
#include "base/mem.h"

enum {
    EXPERT_SLICE = 128, /* FFN rows a job of gate and up: a tile is put together once for them */
    SCORE_SLICE = 32    /* router rows a job */
};

#define SHAPE(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return lac_fail(err, LAC_EINVAL, __VA_ARGS__);                                         \
    } while (0)

static uint32_t ceil_div(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static bool is_matrix(const lac_weight *w, uint32_t rows, uint32_t cols)
{
    return w && !w->vector && w->rows == rows && w->cols == cols;
}

/* ---- made once ---- */

lac_status lac__experts_check(const lac_backend *be, const lac_op *op, size_t at, lac_error *err)
{
    const lac_backend_options *o = &be->options;
    const lac_expert_weights *e = op->u.experts.expert;
    uint32_t count = op->u.experts.count;
    SHAPE(count >= 2 && count <= LAC_EXPERTS_MAX && op->u.experts.used >= 1 &&
              op->u.experts.used <= count,
          "op %zu: %u of %u experts, allowed 1..all of 2..%d", at, op->u.experts.used, count,
          LAC_EXPERTS_MAX);
    SHAPE(op->u.experts.norm && op->u.experts.norm->vector &&
              op->u.experts.norm->cols == o->hidden &&
              is_matrix(op->u.experts.router, count, o->hidden) && e && e[0].gate,
          "op %zu: norm and router do not fit %u experts and %u", at, count, o->hidden);
    uint32_t ffn = e[0].gate->rows;
    for (uint32_t i = 0; i < count; i++) {
        SHAPE(is_matrix(e[i].gate, ffn, o->hidden) && is_matrix(e[i].up, ffn, o->hidden) &&
                  is_matrix(e[i].down, o->hidden, ffn) && ffn <= o->ffn_max,
              "op %zu: weights of expert %u do not fit %u and %u (at most %u)", at, i, o->hidden,
              ffn, o->ffn_max);
        SHAPE(e[i].gate->type == e[0].gate->type && e[i].up->type == e[0].up->type &&
                  e[i].down->type == e[0].down->type,
              "op %zu: expert %u has other types than expert 0", at, i);
    }
    return LAC_OK;
}

static void panel_free(lac__panel *p)
{
    free(p->x);
    free(p->f);
    *p = (lac__panel){0};
}

static bool panel_make(lac__panel *p, size_t rows, uint32_t cols, bool quant, bool floats)
{
    size_t blocks = rows * ((cols + 31) / 32), values = (rows * cols + 15) & ~(size_t)15;
    if (quant)
        p->x = aligned_alloc(LAC__CACHE_LINE, blocks * sizeof *p->x);
    if (floats)
        p->f = aligned_alloc(LAC__CACHE_LINE, values * sizeof *p->f);
    return (!quant || p->x) && (!floats || p->f);
}

void lac__experts_free(lac_backend *be)
{
    lac__experts *x = &be->experts;
    free(x->scores);
    free(x->chosen);
    free(x->weight);
    panel_free(&x->inner);
    *x = (lac__experts){0};
    for (uint32_t t = 0; be->locals && t < be->threads; t++) {
        lac__experts_local *l = &be->locals[t].experts;
        free(l->first);
        free(l->active);
        free(l->row);
        free(l->place);
        panel_free(&l->tile);
        *l = (lac__experts_local){0};
    }
}

static bool local_make(lac__experts_local *l, const lac__experts *x, uint32_t hidden)
{
    l->first = lac_try_alloc(x->experts_max + 1, sizeof *l->first);
    l->active = lac_try_alloc(x->experts_max, sizeof *l->active);
    l->row = lac_try_alloc(x->pairs_max, sizeof *l->row);
    l->place = lac_try_alloc(x->pairs_max, sizeof *l->place);
    return l->first && l->active && l->row && l->place &&
           panel_make(&l->tile, LAC__TILE, hidden, true, true);
}

lac_status lac__experts_make(lac_backend *be, const lac_op *ops, size_t count, lac_error *err)
{
    lac__experts *x = &be->experts;
    bool quant = false, floats = false;
    size_t rows = be->options.rows_max;
    for (size_t i = 0; i < count; i++) {
        if (ops[i].kind != LAC_OP_EXPERTS)
            continue;
        const lac_weight *down = ops[i].u.experts.expert[0].down;
        x->experts_max =
            x->experts_max > ops[i].u.experts.count ? x->experts_max : ops[i].u.experts.count;
        x->used_max = x->used_max > ops[i].u.experts.used ? x->used_max : ops[i].u.experts.used;
        x->ffn_max = x->ffn_max > down->cols ? x->ffn_max : down->cols;
        *(lac__type_quantised(down->type) ? &quant : &floats) = true;
    }
    if (x->experts_max == 0)
        return LAC_OK;
    x->pairs_max = rows * x->used_max;
    x->scores = lac_try_alloc(rows * x->experts_max + 16, sizeof *x->scores);
    x->chosen = lac_try_alloc(x->pairs_max, sizeof *x->chosen);
    x->weight = lac_try_alloc(x->pairs_max, sizeof *x->weight);
    bool made = x->scores && x->chosen && x->weight &&
                panel_make(&x->inner, x->pairs_max, x->ffn_max, quant, floats);
    for (uint32_t t = 0; made && t < be->threads; t++)
        made = local_make(&be->locals[t].experts, x, be->options.hidden);
    if (!made)
        return lac_fail(err, LAC_ENOMEM, "experts: no memory for %zu rows of %u", x->pairs_max,
                        x->ffn_max);
    return LAC_OK;
}

/* ---- norm, router, choice ---- */

/* Values at … at+n−1 of column c into a tile, in the forms its readers want. */
static void tile_put(const lac_backend *be, bool quant, bool floats, const lac__tile *t, uint32_t c,
                     uint32_t at, const float *x, uint32_t n)
{
    if (quant)
        be->kernels->quantise(x, n, t->x + (size_t)(at / 32) * t->n + c, t->n);
    for (uint32_t k = 0; floats && k < n; k++)
        t->f[(size_t)(at + k) * t->n + c] = x[k];
}

static void job_norm(lac_backend *be, const lac__phase *ph, lac__local *l, lac__rows rows,
                     uint32_t i)
{
    uint32_t hidden = be->options.hidden;
    const float *norm = (const float *)(const void *)ph->op->u.experts.norm->data;
    float sum = be->kernels->norm(be->h + (size_t)lac__row_at(rows, i) * hidden, norm, hidden,
                                  ph->op->u.experts.eps, l->row);
    l->odd |= !isfinite(sum);
    lac__tile t = lac__panel_tile(&be->normed, hidden, rows.count, i / LAC__TILE);
    tile_put(be, ph->quant, ph->floats, &t, i % LAC__TILE, 0, l->row, hidden);
}

static void product(const lac_backend *be, const lac_weight *w, uint32_t first, uint32_t n,
                    const lac__tile *x, float *out, size_t ld)
{
    uint32_t groups = min_u32(ceil_div(n, 8), w->groups - first / 8);
    be->kernels->gemm[w->type](w, first / 8, groups, x, out, ld);
}

static void job_score(lac_backend *be, const lac__phase *ph, lac__local *l, lac__rows rows,
                      uint32_t job)
{
    const lac_op *op = ph->op;
    uint32_t experts = op->u.experts.count, first = job * SCORE_SLICE;
    uint32_t n = min_u32(SCORE_SLICE, experts - first);
    for (uint32_t t = 0; t < ceil_div(rows.count, LAC__TILE); t++) {
        lac__tile x = lac__panel_tile(&be->normed, be->options.hidden, rows.count, t);
        product(be, op->u.experts.router, first, n, &x, l->tile, SCORE_SLICE);
        for (uint32_t c = 0; c < x.n; c++)
            memcpy(be->experts.scores + (size_t)(t * LAC__TILE + c) * experts + first,
                   l->tile + (size_t)c * SCORE_SLICE, n * sizeof(float));
    }
}

/* Softmax over all, then the most probable; the lowest number among equals. Fills both arrays in
 * ascending order of experts. What is not finite still gives numbers of experts. */
static void job_choose(lac_backend *be, const lac__phase *ph, lac__local *l, uint32_t i)
{
    const lac_op *op = ph->op;
    uint32_t experts = op->u.experts.count, used = op->u.experts.used;
    float *p = be->experts.scores + (size_t)i * experts, total = 0;
    uint32_t *chosen = be->experts.chosen + (size_t)i * used;
    float *weight = be->experts.weight + (size_t)i * used;
    be->kernels->softmax(p, experts);
    for (uint32_t k = 0; k < used; k++) {
        uint32_t best = UINT32_MAX, at = k;
        for (uint32_t e = 0, taken = 0; e < experts; e++) {
            if (taken < k && chosen[taken] == e)
                taken++;
            else if (best == UINT32_MAX || p[e] > p[best])
                best = e;
        }
        for (; at > 0 && chosen[at - 1] > best; at--)
            chosen[at] = chosen[at - 1];
        chosen[at] = best;
    }
    for (uint32_t k = 0; k < used; k++)
        total += p[chosen[k]];
    float scale = op->u.experts.scale / (op->u.experts.normalise ? total : 1.0f);
    l->odd |= !isfinite(scale * total);
    for (uint32_t k = 0; k < used; k++)
        weight[k] = p[chosen[k]] * scale;
}

/* ---- pairs ---- */

/* Counting sort by expert; stable, so rows stay ascending within one. */
static void pairs_order(lac_backend *be, lac__experts_local *l, const lac_op *op, uint32_t rows)
{
    const lac__experts *x = &be->experts;
    uint32_t experts = op->u.experts.count, used = op->u.experts.used;
    memset(l->first, 0, (experts + 1) * sizeof *l->first);
    for (uint32_t i = 0; i < rows * used; i++) {
        LAC_ASSERT(x->chosen[i] < experts);
        l->first[x->chosen[i] + 1]++;
    }
    l->active_count = 0;
    for (uint32_t e = 0; e < experts; e++) {
        if (l->first[e + 1] > 0)
            l->active[l->active_count++] = e;
        l->first[e + 1] += l->first[e];
    }
    for (uint32_t i = 0; i < rows * used; i++) {
        uint32_t at = l->first[x->chosen[i]]++;
        l->row[at] = i / used;
        l->place[at] = i;
    }
    for (uint32_t e = experts; e > 0; e--)
        l->first[e] = l->first[e - 1];
    l->first[0] = 0;
    l->made_for = op;
    l->gathered = UINT32_MAX;
}

/* Pairs `pair` … of the inner panel, at most a tile and none of the next expert. */
static lac__tile inner_tile(const lac__experts *x, uint32_t ffn, uint32_t pair, uint32_t end)
{
    return (lac__tile){.n = min_u32(LAC__TILE, end - pair),
                       .x = x->inner.x ? x->inner.x + (size_t)pair * ((ffn + 31) / 32) : NULL,
                       .f = x->inner.f ? x->inner.f + (size_t)pair * ffn : NULL};
}

/* The normed rows of these pairs side by side; kept while the same ones are asked for. */
static lac__tile gather(const lac_backend *be, const lac__phase *ph, lac__experts_local *l,
                        uint32_t rows, uint32_t pair, uint32_t end)
{
    uint32_t hidden = be->options.hidden, blocks = (hidden + 31) / 32;
    lac__tile to = {.n = min_u32(LAC__TILE, end - pair), .x = l->tile.x, .f = l->tile.f};
    if (l->gathered == pair)
        return to;
    for (uint32_t c = 0; c < to.n; c++) {
        uint32_t i = l->row[pair + c], k = i % LAC__TILE;
        lac__tile from = lac__panel_tile(&be->normed, hidden, rows, i / LAC__TILE);
        for (uint32_t b = 0; ph->quant && b < blocks; b++)
            to.x[(size_t)b * to.n + c] = from.x[(size_t)b * from.n + k];
        for (uint32_t d = 0; ph->floats && d < hidden; d++)
            to.f[(size_t)d * to.n + c] = from.f[(size_t)d * from.n + k];
    }
    l->gathered = pair;
    return to;
}

/* ---- gate and up; down ---- */

static void job_gate_up(lac_backend *be, const lac__phase *ph, lac__local *l, uint32_t rows,
                        uint32_t job)
{
    const lac_op *op = ph->op;
    lac__experts_local *x = &l->experts;
    uint32_t ffn = op->u.experts.expert[0].gate->rows, slices = ceil_div(ffn, EXPERT_SLICE);
    if (job / slices >= x->active_count)
        return; /* rows agree on fewer experts than they might have picked */
    uint32_t e = x->active[job / slices], first = job % slices * EXPERT_SLICE;
    uint32_t n = min_u32(EXPERT_SLICE, ffn - first), end = x->first[e + 1];
    const lac_expert_weights *w = &op->u.experts.expert[e];
    bool quant = lac__type_quantised(w->down->type);
    for (uint32_t pair = x->first[e]; pair < end; pair += LAC__TILE) {
        lac__tile from = gather(be, ph, x, rows, pair, end);
        lac__tile to = inner_tile(&be->experts, ffn, pair, end);
        product(be, w->gate, first, n, &from, l->tile, EXPERT_SLICE);
        product(be, w->up, first, n, &from, l->tile2, EXPERT_SLICE);
        for (uint32_t c = 0; c < from.n; c++) {
            float *gate = l->tile + (size_t)c * EXPERT_SLICE;
            be->kernels->act(op->u.experts.act, gate, l->tile2 + (gate - l->tile), n, gate);
            tile_put(be, quant, !quant, &to, c, first, gate, n);
        }
    }
}

/* 32 values of every row: zero, then its experts one after the other, then the stream. */
static void job_down(lac_backend *be, const lac__phase *ph, lac__local *l, lac__rows rows,
                     uint32_t job)
{
    const lac_op *op = ph->op;
    const lac__experts_local *x = &l->experts;
    uint32_t hidden = be->options.hidden, ffn = op->u.experts.expert[0].down->cols;
    uint32_t first = job * LAC__SLICE, n = min_u32(LAC__SLICE, hidden - first);
    for (uint32_t i = 0; i < rows.count; i++)
        memset(be->branch + (size_t)i * hidden + first, 0, n * sizeof(float));
    for (uint32_t a = 0; a < x->active_count; a++) {
        uint32_t e = x->active[a], end = x->first[e + 1];
        for (uint32_t pair = x->first[e]; pair < end; pair += LAC__TILE) {
            lac__tile from = inner_tile(&be->experts, ffn, pair, end);
            product(be, op->u.experts.expert[e].down, first, n, &from, l->tile, LAC__SLICE);
            for (uint32_t c = 0; c < from.n; c++) {
                float *to = be->branch + (size_t)x->row[pair + c] * hidden + first;
                const float *y = l->tile + (size_t)c * LAC__SLICE;
                float weight = be->experts.weight[x->place[pair + c]];
                for (uint32_t k = 0; k < n; k++)
                    to[k] += weight * y[k]; /* two roundings on every instruction set */
            }
        }
    }
    for (uint32_t i = 0; i < rows.count; i++)
        be->kernels->add(be->h + (size_t)lac__row_at(rows, i) * hidden + first,
                         be->branch + (size_t)i * hidden + first, n);
}

/* ---- the walk ---- */

/* The same on every thread, also on one that comes late: of the batch and the shapes alone. */
uint32_t lac__experts_jobs(const lac_backend *be, const lac__phase *ph, lac__local *l)
{
    const lac_op *op = ph->op;
    uint32_t rows = lac__unit_rows(be->batch, op).count;
    if (rows == 0)
        return 0;
    switch (ph->kind) {
    case PHASE_EXPERTS_NORM: l->experts.made_for = NULL; return rows;
    case PHASE_EXPERTS_SCORE: return ceil_div(op->u.experts.count, SCORE_SLICE);
    case PHASE_EXPERTS_CHOOSE: return rows;
    case PHASE_EXPERTS_GATE_UP:
        return min_u32(op->u.experts.count, rows * op->u.experts.used) *
               ceil_div(op->u.experts.expert[0].gate->rows, EXPERT_SLICE);
    default: return ceil_div(be->options.hidden, LAC__SLICE);
    }
}

void lac__experts_job(lac_backend *be, const lac__phase *ph, lac__local *l, uint32_t job)
{
    lac__rows rows = lac__unit_rows(be->batch, ph->op);
    bool pairs = ph->kind == PHASE_EXPERTS_GATE_UP || ph->kind == PHASE_EXPERTS_DOWN;
    if (pairs && l->experts.made_for != ph->op)
        pairs_order(be, &l->experts, ph->op, rows.count);
    switch (ph->kind) {
    case PHASE_EXPERTS_NORM: job_norm(be, ph, l, rows, job); break;
    case PHASE_EXPERTS_SCORE: job_score(be, ph, l, rows, job); break;
    case PHASE_EXPERTS_CHOOSE: job_choose(be, ph, l, job); break;
    case PHASE_EXPERTS_GATE_UP: job_gate_up(be, ph, l, rows.count, job); break;
    default: job_down(be, ph, l, rows, job); break;
    }
}
