/* Life of the CPU backend: options, buffers, packed weights, KV memory, and the
 * checks before a step. One thread calls it; what runs on all threads is
 * run.c's. */
#include "backend.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/limits.h"
#include "base/mem.h"

/* ---- buffers ---- */

static size_t panel_blocks(uint32_t rows, uint32_t cols)
{
    return (size_t)rows * ((cols + 31) / 32);
}

static uint32_t max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static void *line_alloc(size_t bytes)
{
    size_t size = (bytes + LAC__CACHE_LINE - 1) & ~(size_t)(LAC__CACHE_LINE - 1);
    void *p = aligned_alloc(LAC__CACHE_LINE, size ? size : LAC__CACHE_LINE);
    if (p)
        memset(p, 0, size);
    return p;
}

static bool panel_alloc(lac__panel *p, uint32_t rows, uint32_t cols)
{
    p->x = line_alloc(panel_blocks(rows, cols) * sizeof *p->x);
    p->f = line_alloc((size_t)rows * cols * sizeof *p->f);
    return p->x && p->f;
}

static bool local_alloc(lac__local *l, const lac_backend_options *o, uint32_t items_max)
{
    uint32_t inner = lac__inner_max(o);
    uint32_t slice = max_u32(LAC__HEAD_DIM_MAX, LAC__HEAD_SLICE);
    l->row = line_alloc((size_t)(max_u32(o->hidden, inner) + 16) * 4);
    l->tile = line_alloc((size_t)LAC__TILE * slice * 4);
    l->tile2 = line_alloc((size_t)LAC__TILE * slice * 4);
    l->items.items = line_alloc(items_max * sizeof *l->items.items);
    l->weights = line_alloc((size_t)lac__pad16(o->hidden) * 4);
    l->top = line_alloc(o->logit_rows_max * sizeof *l->top);
    return panel_alloc(&l->panel, LAC__REDUNDANT, o->hidden) && l->row && l->tile && l->tile2 &&
           l->items.items && l->weights && l->top;
}

static bool buffers_alloc(lac_backend *be)
{
    const lac_backend_options *o = &be->options;
    uint32_t inner = lac__inner_max(o), rows = o->rows_max;
    uint32_t normed_rows = max_u32(rows, o->logit_rows_max);
    be->items_max = rows + 8 * be->threads + 64;
    be->h = line_alloc((size_t)rows * o->hidden * 4);
    be->q = line_alloc((size_t)rows * o->q_width_max * 4);
    be->attended = line_alloc((size_t)rows * o->q_width_max * 4);
    be->branch = line_alloc((size_t)rows * o->hidden * 4);
    be->ones = line_alloc((size_t)lac__pad16(o->hidden) * 4);
    be->partial = lac__big_alloc((size_t)LAC__PARTIAL_FLOATS * 4);
    be->left = line_alloc(be->items_max * sizeof *be->left);
    be->row_segment = line_alloc((size_t)rows * 4);
    be->locals = line_alloc(be->threads * sizeof *be->locals);
    if (!be->h || !be->q || !be->attended || !be->branch || !be->ones || !be->partial ||
        !be->left || !be->row_segment || !be->locals)
        return false;
    for (uint32_t t = 0; t < be->threads; t++)
        if (!local_alloc(&be->locals[t], o, be->items_max))
            return false;
    for (uint32_t i = 0; i < o->hidden; i++)
        be->ones[i] = 1.0f;
    return panel_alloc(&be->normed, normed_rows, o->hidden) && panel_alloc(&be->inner, rows, inner);
}

static void buffers_free(lac_backend *be)
{
    for (uint32_t t = 0; be->locals && t < be->threads; t++) {
        lac__local *l = &be->locals[t];
        free(l->panel.x);
        free(l->panel.f);
        free(l->row);
        free(l->tile);
        free(l->tile2);
        free(l->attention);
        free(l->items.items);
        free(l->weights);
        free(l->top);
    }
    free(be->locals);
    free(be->h);
    free(be->q);
    free(be->attended);
    free(be->branch);
    free(be->ones);
    lac__big_free(be->partial, (size_t)LAC__PARTIAL_FLOATS * 4);
    free((void *)be->left);
    free(be->row_segment);
    free(be->normed.x);
    free(be->normed.f);
    free(be->inner.x);
    free(be->inner.f);
}

/* ---- create, destroy ---- */

static const lac__kernels *kernels_for(lac_isa isa)
{
    switch (isa) {
    case LAC_ISA_REFERENCE: return &lac__kernels_reference;
#if defined(__x86_64__)
    case LAC_ISA_AVX2: return &lac__kernels_avx2;
    case LAC_ISA_AVXVNNI:
        return lac__cpu_vex_vnni() ? &lac__kernels_avxvnni : &lac__kernels_vnni256;
    case LAC_ISA_AVX512: return &lac__kernels_avx512;
#endif
    default: return &lac__kernels_scalar;
    }
}

static lac_status options_check(const lac_backend_options *o, lac_error *err)
{
    if (o->rows_max < 1 || o->rows_max > LAC_BATCH_ROWS_MAX)
        return lac_fail(err, LAC_EINVAL, "rows_max is %u, allowed 1..%d", o->rows_max,
                        LAC_BATCH_ROWS_MAX);
    if (o->logit_rows_max > o->rows_max)
        return lac_fail(err, LAC_EINVAL, "logit_rows_max is %u, allowed 0..%u", o->logit_rows_max,
                        o->rows_max);
    const struct {
        const char *name;
        uint32_t value;
    } widths[] = {{"hidden", o->hidden},
                  {"q_width_max", o->q_width_max},
                  {"kv_width_max", o->kv_width_max},
                  {"ffn_max", o->ffn_max}};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        if (widths[i].value > 1u << 20 || (i == 0 && widths[i].value == 0))
            return lac_fail(err, LAC_EINVAL, "%s is %u, allowed %d..%u", widths[i].name,
                            widths[i].value, i == 0, 1u << 20);
    if (o->vocab > LAC_VOCAB_MAX)
        return lac_fail(err, LAC_EINVAL, "vocab is %u, allowed 0..%d", o->vocab, LAC_VOCAB_MAX);
    if (o->kv_type > LAC_KV_Q8)
        return lac_fail(err, LAC_EINVAL, "kv_type is %d, allowed 0..%d", (int)o->kv_type,
                        LAC_KV_Q8);
    if (o->isa != LAC_ISA_AUTO && !lac_cpu_isa_have(o->isa))
        return lac_fail(err, LAC_EUNSUPPORTED, "isa %s: this processor does not have it",
                        lac_isa_name(o->isa));
    return LAC_OK;
}

static void cpu_destroy(lac_backend **backend)
{
    lac_backend *be = *backend;
    if (!be)
        return;
    lac__pool_destroy(&be->pool);
    lac__program_free(be);
    buffers_free(be);
    free(be);
    *backend = NULL;
}

static lac_status cpu_create(const lac_backend_options *options, lac_backend **out, lac_error *err)
{
    lac_status status = options_check(options, err);
    if (status != LAC_OK)
        return status;
    lac_backend *be = lac_alloc(1, sizeof *be);
    be->options = *options;
    if (be->options.isa == LAC_ISA_AUTO)
        be->options.isa = lac_cpu_isa_best();
    be->kernels = kernels_for(be->options.isa);
    status = lac__pool_create(options->threads, options->pin, &be->pool, err);
    if (status != LAC_OK) {
        free(be);
        return status;
    }
    be->threads = lac__pool_threads(be->pool);
    if (!buffers_alloc(be)) {
        cpu_destroy(&be);
        return lac_fail(err, LAC_ENOMEM, "backend: no memory for %u rows", options->rows_max);
    }
    *out = be;
    return LAC_OK;
}

static const char *cpu_isa(const lac_backend *be)
{
    return be->kernels->name;
}

static uint32_t cpu_threads(const lac_backend *be)
{
    return be->threads;
}

/* ---- weights ---- */

typedef struct {
    lac_backend *be;
    const lac_weight *w;
    lac_type type;
    size_t row_bytes;
    uint32_t group_first, groups; /* to pack now */
    uint32_t rows;                /* that the source has for them */
    const uint8_t *source;
} pack_context;

enum { PACK_GROUPS = 16 }; /* groups a job */

static void pack_on_threads(void *context, uint32_t thread)
{
    const pack_context *c = context;
    const lac_weight *w = c->w;
    lac__walk walk = lac__walk_begin(c->be->pool, thread);
    uint32_t jobs = (c->groups + PACK_GROUPS - 1) / PACK_GROUPS, done = 0;
    for (int64_t job; (job = lac__walk_claim(&walk, jobs, false)) >= 0; done++) {
        uint32_t first = (uint32_t)job * PACK_GROUPS, end = first + PACK_GROUPS;
        for (uint32_t g = first; g < end && g < c->groups; g++) {
            const uint8_t *rows[8];
            for (uint32_t r = 0; r < 8; r++)
                rows[r] =
                    g * 8 + r < c->rows ? c->source + (size_t)(g * 8 + r) * c->row_bytes : NULL;
            lac__pack_group(c->type, w->type, w->cols, rows,
                            w->data + (c->group_first + g) * w->group_bytes);
        }
    }
    (void)lac__walk_next(&walk, jobs, done);
}

static lac_status cpu_weight_reserve(lac_backend *be, lac_type type, uint32_t rows, uint32_t cols,
                                     lac_weight **out, lac_error *err)
{
    const lac_type_info *info = lac_type_get(type);
    if (!info || !lac__kernels_scalar.gemm[type])
        return lac_fail(err, LAC_EUNSUPPORTED, "weight type %d: not supported", (int)type);
    if (rows == 0 || cols == 0 || cols > 1u << 20 || cols % info->block != 0)
        return lac_fail(err, LAC_EINVAL,
                        "weight %u x %u: %s needs rows ≥ 1 and columns that are a "
                        "multiple of %u, at most %u",
                        rows, cols, info->name, info->block, 1u << 20);
    lac_weight *w = lac_alloc(1, sizeof *w);
    *w = (lac_weight){.type = type, .vector = rows == 1, .rows = rows, .cols = cols};
    if (w->vector || !be->kernels->gemm[type])
        w->type = LAC_TYPE_F32;
    w->groups = (rows + 7) / 8;
    w->group_bytes = w->vector ? (size_t)lac__pad16(cols) * 4 : lac__group_bytes(w->type, cols);
    w->bytes = w->groups * w->group_bytes;
    w->data = lac__arena_alloc(&be->arena, w->bytes, &w->chunk);
    if (!w->data) {
        lac_fail(err, LAC_ENOMEM, "weight %u x %u: no memory for %zu bytes", rows, cols, w->bytes);
        free(w);
        return LAC_ENOMEM;
    }
    *out = w;
    return LAC_OK;
}

static void cpu_weight_fill(lac_backend *be, lac_weight *w, lac_type type, uint32_t row_first,
                            uint32_t rows, const void *source)
{
    const lac_type_info *info = lac_type_get(type);
    LAC_ASSERT(row_first % 8 == 0 && row_first < w->rows && rows <= w->rows - row_first);
    LAC_ASSERT(rows % 8 == 0 || row_first + rows == w->rows);
    if (w->vector) {
        lac__dequantise(type, source, w->cols, (float *)(void *)w->data);
        return;
    }
    pack_context context = {.be = be,
                            .w = w,
                            .type = type,
                            .row_bytes = (size_t)w->cols / info->block * info->block_bytes,
                            .group_first = row_first / 8,
                            .groups = (rows + 7) / 8,
                            .rows = rows,
                            .source = source};
    lac__pool_run(be->pool, pack_on_threads, &context);
}

static lac_status cpu_weight_pack(lac_backend *be, lac_type type, uint32_t rows, uint32_t cols,
                                  const void *source, lac_weight **out, lac_error *err)
{
    lac_status status = cpu_weight_reserve(be, type, rows, cols, out, err);
    if (status == LAC_OK)
        cpu_weight_fill(be, *out, type, 0, rows, source);
    return status;
}

static void cpu_weight_free(lac_backend *be, lac_weight **weight)
{
    if (!*weight)
        return;
    lac__arena_free(&be->arena, (*weight)->chunk, (*weight)->data, (*weight)->bytes);
    free(*weight);
    *weight = NULL;
}

static size_t cpu_weight_bytes(const lac_weight *w)
{
    return w->bytes;
}

/* ---- KV memory ---- */

static lac_status cpu_kv_alloc(lac_backend *be, size_t bytes, void **out, lac_error *err)
{
    (void)be;
    void *p = lac__big_alloc(bytes);
    if (!p)
        return lac_fail(err, LAC_ENOMEM, "kv pool: no memory for %zu bytes", bytes);
    *out = p;
    return LAC_OK;
}

static void cpu_kv_free(lac_backend *be, void **region, size_t bytes)
{
    (void)be;
    lac__big_free(*region, bytes);
    *region = NULL;
}

static size_t cpu_kv_page_bytes(const lac_backend *be, uint32_t kv_heads, uint32_t head_dim)
{
    return kv_heads * lac__kv_head_bytes(be->options.kv_type, head_dim);
}

/* ---- a step ---- */

static lac_status batch_check(lac_backend *be, const lac_batch *b, lac_error *err)
{
    const lac_backend_options *o = &be->options;
    if (b->rows < 1 || b->rows > o->rows_max)
        return lac_fail(err, LAC_EINVAL, "batch has %u rows, allowed 1..%u", b->rows, o->rows_max);
    if (b->logit_rows_count > o->logit_rows_max)
        return lac_fail(err, LAC_EINVAL, "batch wants %u logit rows, allowed 0..%u",
                        b->logit_rows_count, o->logit_rows_max);
    for (uint32_t i = 0; i < b->logit_rows_count; i++)
        if (b->logit_rows[i].row >= b->rows)
            return lac_fail(err, LAC_EINVAL, "logit row %u is %u, allowed 0..%u", i,
                            b->logit_rows[i].row, b->rows - 1);
        else if (b->logit_rows[i].top_count > LAC_TOP_LOGITS_MAX ||
                 b->logit_rows[i].top_count > o->vocab)
            return lac_fail(err, LAC_EINVAL, "logit row %u wants the best %u, allowed 0..%d", i,
                            b->logit_rows[i].top_count, LAC_TOP_LOGITS_MAX);
    uint32_t row = 0;
    for (uint32_t s = 0; s < b->segments_count; s++) {
        const lac_segment *g = &b->segments[s];
        if (g->row != row || g->rows < 1 || g->rows > b->rows - row || g->pos > LAC_CONTEXT_MAX ||
            g->pos + g->rows > LAC_CONTEXT_MAX)
            return lac_fail(err, LAC_EINVAL,
                            "segment %u: rows %u+%u at position %u of a batch of %u "
                            "rows",
                            s, g->row, g->rows, g->pos, b->rows);
        for (uint32_t i = 0; i < g->rows; i++)
            be->row_segment[row + i] = s;
        row += g->rows;
    }
    if (row != b->rows)
        return lac_fail(err, LAC_EINVAL, "segments cover %u of %u rows", row, b->rows);
    return LAC_OK;
}

static lac_status cpu_run(lac_backend *be, const lac_op *ops, size_t count, lac_batch *batch,
                          lac_error *err)
{
    lac_status status = batch_check(be, batch, err);
    if (status != LAC_OK)
        return status;
    if (ops != be->ops || count != be->ops_count) {
        status = lac__program_make(be, ops, count, err);
        if (status != LAC_OK)
            return status;
    }
    return lac__run(be, batch, err);
}

const lac_backend_ops *lac_cpu_backend(void)
{
    static const lac_backend_ops table = {
        .name = "cpu",
        .create = cpu_create,
        .destroy = cpu_destroy,
        .isa = cpu_isa,
        .threads = cpu_threads,
        .weight_pack = cpu_weight_pack,
        .weight_reserve = cpu_weight_reserve,
        .weight_fill = cpu_weight_fill,
        .weight_free = cpu_weight_free,
        .weight_bytes = cpu_weight_bytes,
        .kv_alloc = cpu_kv_alloc,
        .kv_free = cpu_kv_free,
        .kv_page_bytes = cpu_kv_page_bytes,
        .run = cpu_run,
    };
    return &table;
}
