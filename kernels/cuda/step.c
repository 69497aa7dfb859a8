/* A step: its inputs in one copy, kernels one by one or as a graph, its results in one copy.
 *
 * Decode batches run as graphs, one for each bucket of rows and of splits, made when first needed;
 * units that no row runs are switched off in them. Steps with prefill launch kernel by kernel:
 * their work is long enough. Page tables stay on the device, and only what changed is copied.
 * Nothing waits but the end, which asks an event. */
#include "backend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

static uint32_t max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* ---- memory ---- */

static size_t place(size_t *at, size_t bytes)
{
    size_t here = *at;
    *at = (here + bytes + 15) & ~(size_t)15;
    return here;
}

/* Offsets are the same here and on the device. */
static void step_place(lac_backend *be, lac__step_memory *m)
{
    size_t rows = be->options.rows_max, logits = max_u32(be->options.logit_rows_max, 1), at = 0;
    size_t list_words = 1 + 2 * rows, numbers = lac__numbers(be);
    size_t odd = place(&at, 4), best = place(&at, logits * 4), token = place(&at, logits * 4);
    size_t drawn = place(&at, logits * 4);
    m->results_bytes = at;
    size_t head = place(&at, sizeof *m->head), tokens = place(&at, rows * 4);
    size_t position = place(&at, rows * 4), segment = place(&at, rows * 4);
    size_t decode_row = place(&at, rows * 4), tiles = place(&at, rows * sizeof *m->tiles);
    size_t table_at = place(&at, rows * 4), table_stride = place(&at, rows * 4);
    size_t list_of = place(&at, numbers * 4), draws = place(&at, logits * sizeof *m->draws);
    m->lists_at = place(&at, numbers * list_words * 4);
    m->bytes = at;
    if (!m->host)
        return;
    uint8_t *h = m->host;
    const char *d = (const char *)(uintptr_t)m->device;
    m->odd = (uint32_t *)(void *)(h + odd);
    m->best = (float *)(void *)(h + best);
    m->token = (uint32_t *)(void *)(h + token);
    m->drawn = (uint32_t *)(void *)(h + drawn);
    m->head = (lac__step_head *)(void *)(h + head);
    m->tokens = (uint32_t *)(void *)(h + tokens);
    m->position = (uint32_t *)(void *)(h + position);
    m->segment = (uint32_t *)(void *)(h + segment);
    m->decode_row = (uint32_t *)(void *)(h + decode_row);
    m->tiles = (lac__tile_item *)(void *)(h + tiles);
    m->table_at = (uint32_t *)(void *)(h + table_at);
    m->table_stride = (uint32_t *)(void *)(h + table_stride);
    m->list_of = (uint32_t *)(void *)(h + list_of);
    m->draws = (lac__draw *)(void *)(h + draws);
    m->lists = (uint32_t *)(void *)(h + m->lists_at);
    m->on_device = (lac__step){.head = (const lac__step_head *)(const void *)(d + head),
                               .tokens = (const uint32_t *)(const void *)(d + tokens),
                               .position = (const uint32_t *)(const void *)(d + position),
                               .segment = (const uint32_t *)(const void *)(d + segment),
                               .decode_row = (const uint32_t *)(const void *)(d + decode_row),
                               .tiles = (const lac__tile_item *)(const void *)(d + tiles),
                               .table_at = (const uint32_t *)(const void *)(d + table_at),
                               .table_stride = (const uint32_t *)(const void *)(d + table_stride),
                               .tables = (const uint32_t *)(uintptr_t)m->tables,
                               .list_of = (const uint32_t *)(const void *)(d + list_of),
                               .lists = (const uint32_t *)(const void *)(d + m->lists_at),
                               .rows_max = be->options.rows_max,
                               .odd = (uint32_t *)(uintptr_t)(m->device + odd)};
}

lac_status lac__step_make(lac_backend *be, lac_error *err)
{
    lac__step_memory *m = &be->step;
    const lac__cu *cu = be->cu;
    size_t tables = (size_t)LAC__TABLE_ENTRIES * sizeof(uint32_t);
    *m = (lac__step_memory){0};
    step_place(be, m);
    size_t bytes = m->bytes;
    lac_status status = lac__cu_check(cu, cu->host_alloc((void **)&m->host, bytes, 0), "step", err);
    if (status == LAC_OK)
        status = lac__cu_check(cu, cu->mem_alloc(&m->device, bytes), "step", err);
    if (status == LAC_OK)
        status = lac__cu_check(cu, cu->host_alloc((void **)&m->host_tables, tables, 0),
                               "page tables", err);
    if (status == LAC_OK)
        status = lac__cu_check(cu, cu->mem_alloc(&m->tables, tables), "page tables", err);
    if (status == LAC_OK) {
        memset(m->host, 0, bytes);
        step_place(be, m);
    }
    return status;
}

void lac__step_free(lac_backend *be)
{
    lac__step_memory *m = &be->step;
    if (m->host)
        (void)be->cu->host_free(m->host);
    if (m->device)
        (void)be->cu->mem_free(m->device);
    if (m->host_tables)
        (void)be->cu->host_free(m->host_tables);
    if (m->tables)
        (void)be->cu->mem_free(m->tables);
    *m = (lac__step_memory){0};
}

/* ---- inputs ---- */

static uint32_t *list_at(lac_backend *be, uint32_t number)
{
    return be->step.lists + (size_t)number * (1 + 2 * be->options.rows_max);
}

static void list_put(lac_backend *be, uint32_t *list, uint32_t count, const uint32_t *rows)
{
    uint32_t most = be->options.rows_max;
    memset(list + 1 + most, 0xff, most * 4);
    list[0] = count;
    for (uint32_t i = 0; i < count; i++) {
        list[1 + i] = rows ? rows[i] : i;
        list[1 + most + list[1 + i]] = i;
    }
}

/* The rows of every number; lists that say the same are one. Returns how many there are. */
static uint32_t lists_put(lac_backend *be, const lac_batch *b)
{
    uint32_t made = 2, most = be->options.rows_max;
    uint32_t *logits = list_at(be, 1), *of = be->step.list_of;
    list_put(be, list_at(be, 0), b->rows, NULL);
    logits[0] = b->logit_rows_count;
    for (uint32_t i = 0; i < b->logit_rows_count; i++)
        logits[1 + i] = b->logit_rows[i].row;
    of[0] = 0, of[1] = 1;
    be->count_of[0] = b->rows, be->count_of[1] = b->logit_rows_count;
    for (uint32_t n = LAC__LIST_UNITS; n < lac__numbers(be); n++) {
        uint32_t unit = n - LAC__LIST_UNITS;
        bool patch = unit >= be->units;
        const lac_row_list *lists = patch ? b->patch_rows : b->unit_rows;
        static const lac_row_list none = {0, NULL};
        const lac_row_list *list = lists ? &lists[patch ? unit - be->units : unit] : &none;
        be->count_of[n] = !lists && !patch ? b->rows : list->count;
        of[n] = 0;
        if (be->count_of[n] == b->rows)
            continue; /* ascending row numbers: all of them */
        uint32_t same = 2;
        while (same < made && (list_at(be, same)[0] != list->count ||
                               (list->count > 0 &&
                                memcmp(list_at(be, same) + 1, list->rows, list->count * 4) != 0)))
            same++;
        of[n] = same;
        if (same < made)
            continue;
        list_put(be, list_at(be, made++), list->count, list->rows);
    }
    (void)most;
    return made;
}

/* Rows, positions, tiles; the longest position goes to *last. */
static void rows_put(lac_backend *be, const lac_batch *b, uint32_t *last)
{
    lac__step_memory *m = &be->step;
    *last = 0;
    m->head->decode_rows = m->head->tiles = 0;
    if (b->tokens)
        memcpy(m->tokens, b->tokens, b->rows * 4);
    for (uint32_t s = 0; s < b->segments_count; s++) {
        const lac_segment *g = &b->segments[s];
        *last = max_u32(*last, g->pos + g->rows - 1);
        for (uint32_t i = 0; i < g->rows; i++) {
            m->segment[g->row + i] = s;
            m->position[g->row + i] = g->pos + i;
        }
        if (g->rows == 1)
            m->decode_row[m->head->decode_rows++] = g->row;
        for (uint32_t i = 0; g->rows > 1 && i < g->rows; i += LAC__TILE_ROWS)
            m->tiles[m->head->tiles++] =
                (lac__tile_item){g->row + i, min_u32(g->rows - i, LAC__TILE_ROWS)};
    }
}

/* Page numbers, side by side; copies what is not there already. */
static lac_status tables_put(lac_backend *be, const lac_batch *b, lac_error *err)
{
    lac__step_memory *m = &be->step;
    size_t at = 0, low = SIZE_MAX, high = 0;
    for (uint32_t s = 0; s < b->segments_count; s++) {
        const lac_segment *g = &b->segments[s];
        uint32_t blocks = (g->pos + g->rows - 1) / LAC_KV_BLOCK + 1;
        m->table_at[s] = (uint32_t)at;
        m->table_stride[s] = blocks;
        if (at + (size_t)be->tables * blocks > LAC__TABLE_ENTRIES)
            return lac_fail(err, LAC_ETOOBIG, "page tables of a step: more than %d entries",
                            LAC__TABLE_ENTRIES);
        for (uint32_t t = 0; t < be->tables; t++, at += blocks) {
            const uint32_t *from = g->tables + (size_t)t * g->table_stride;
            if (at + blocks <= m->tables_used && memcmp(m->host_tables + at, from, blocks * 4) == 0)
                continue;
            memcpy(m->host_tables + at, from, blocks * 4);
            low = low < at ? low : at;
            high = at + blocks;
        }
    }
    if (low == SIZE_MAX)
        return LAC_OK;
    m->tables_used = max_u32(m->tables_used, (uint32_t)high);
    return lac__cu_check(
        be->cu,
        be->cu->to_device(m->tables + low * 4, m->host_tables + low, (high - low) * 4, be->stream),
        "page tables", err);
}

static bool draws_put(lac_backend *be, const lac_batch *b)
{
    bool any = false;
    for (uint32_t i = 0; i < b->logit_rows_count; i++) {
        const lac_sample *s = b->logit_rows[i].sample;
        be->step.draws[i] = (lac__draw){.top_p = 1.0f};
        if (!s)
            continue;
        any = true;
        float inverse = s->temperature > 0.0f ? 1.0f / s->temperature : 0.0f;
        be->step.draws[i] = (lac__draw){.unit = s->unit,
                                        .inverse_temperature = inverse < 1e30f ? inverse : 1e30f,
                                        .top_p = s->top_p,
                                        .min_p = s->min_p,
                                        .top_k = s->top_k};
    }
    return any;
}

/* Splits of decode attention: short ones while there are processors without work, none shorter than
 * two pages, and no more than the memory for their results holds. */
static void splits_choose(lac_backend *be, uint32_t last, lac__shape *shape)
{
    uint32_t decodes = max_u32(be->step.head->decode_rows, 1), length = 64;
    uint64_t state = (uint64_t)be->kv_heads * be->group * (be->head_dim + 2) * decodes;
    for (;; length *= 2) {
        uint32_t splits = last / length + 1, grid = 1;
        while (grid < splits)
            grid *= 2;
        bool enough = (uint64_t)decodes * be->kv_heads * splits <= 4ull * be->processors;
        if (grid == 1 || (enough && state * grid <= LAC__CUDA_PARTIAL)) {
            be->step.head->split_tokens = length;
            shape->splits = grid;
            return;
        }
    }
}

/* ---- graphs ---- */

static uint32_t bucket_of(uint32_t rows)
{
    static const uint32_t buckets[] = {1, 2, 4, 8, 16, 24, 32, 48, LAC__GRAPH_ROWS_MAX};
    for (size_t i = 0; i < sizeof buckets / sizeof *buckets; i++)
        if (rows <= buckets[i])
            return buckets[i];
    return 0;
}

static void graph_free(lac_backend *be, lac__graph *g)
{
    if (g->exec)
        (void)be->cu->exec_destroy(g->exec);
    if (g->graph)
        (void)be->cu->graph_destroy(g->graph);
    free(g->nodes);
    *g = (lac__graph){0};
}

static lac_status graph_make(lac_backend *be, const lac__shape *shape, lac__graph *g,
                             lac_error *err)
{
    enum { KERNELS_AN_OP = 8 };
    *g = (lac__graph){.shape = *shape};
    g->nodes = lac_alloc(be->ops_count * KERNELS_AN_OP, sizeof *g->nodes);
    lac_status status = lac__cu_check(be->cu, be->cu->graph_create(&g->graph, 0), "graph", err);
    if (status == LAC_OK) {
        be->building = g;
        be->last_node = NULL;
        lac__cuda_launch_all(be, shape);
        be->building = NULL;
        status = be->failed;
    }
    if (status == LAC_OK)
        status =
            lac__cu_check(be->cu, be->cu->graph_instantiate(&g->exec, g->graph, 0), "graph", err);
    if (status != LAC_OK)
        graph_free(be, g);
    return status;
}

static bool shape_same(const lac__shape *a, const lac__shape *b)
{
    return a->rows == b->rows && a->logit_rows == b->logit_rows && a->splits == b->splits &&
           a->draws == b->draws;
}

static lac_status graph_of(lac_backend *be, const lac__shape *shape, lac__graph **out,
                           lac_error *err)
{
    uint32_t oldest = 0;
    for (uint32_t i = 0; i < be->graphs_count; i++) {
        if (shape_same(&be->graphs[i].shape, shape)) {
            *out = &be->graphs[i];
            return LAC_OK;
        }
        if (be->graphs[i].used < be->graphs[oldest].used)
            oldest = i;
    }
    if (be->graphs_count == LAC__GRAPHS_MAX) {
        graph_free(be, &be->graphs[oldest]);
        be->graphs[oldest] = be->graphs[--be->graphs_count];
    }
    lac_status status = graph_make(be, shape, &be->graphs[be->graphs_count], err);
    if (status == LAC_OK)
        *out = &be->graphs[be->graphs_count++];
    return status;
}

static lac_status graph_run(lac_backend *be, lac__shape shape, lac_error *err)
{
    lac__graph *g;
    shape.rows = shape.decode_rows = bucket_of(shape.rows);
    shape.logit_rows =
        shape.logit_rows > 0 ? min_u32(bucket_of(shape.logit_rows), be->options.logit_rows_max) : 0;
    lac_status status = graph_of(be, &shape, &g, err);
    if (status != LAC_OK)
        return status;
    g->used = be->steps;
    for (uint32_t i = 0; i < g->nodes_count; i++) {
        bool wanted = be->count_of[g->nodes[i].list] > 0;
        if (wanted == g->nodes[i].enabled)
            continue;
        status = lac__cu_check(be->cu, be->cu->graph_enable(g->exec, g->nodes[i].node, wanted),
                               "graph node", err);
        if (status != LAC_OK)
            return status;
        g->nodes[i].enabled = wanted;
    }
    return lac__cu_check(be->cu, be->cu->graph_launch(g->exec, be->stream), "graph launch", err);
}

/* ---- the step ---- */

static lac_status inputs_copy(lac_backend *be, const lac_batch *b, uint32_t lists, lac_error *err)
{
    lac__step_memory *m = &be->step;
    size_t hidden = be->options.hidden;
    size_t used = m->lists_at + (size_t)lists * (1 + 2 * be->options.rows_max) * 4;
    *m->odd = 0;
    lac_status status = lac__cu_check(
        be->cu, be->cu->to_device(m->device, m->host, used, be->stream), "step inputs", err);
    if (status == LAC_OK && b->residual_in)
        status = lac__cu_check(
            be->cu, be->cu->to_device(be->h, b->residual_in, b->rows * hidden * 4, be->stream),
            "residual stream", err);
    return status;
}

static lac_status results_copy(lac_backend *be, const lac_batch *b, lac_error *err)
{
    lac__step_memory *m = &be->step;
    size_t hidden = be->options.hidden, vocab = be->options.vocab;
    lac_status status = lac__cu_check(
        be->cu, be->cu->to_host(m->host, m->device, m->results_bytes, be->stream), "results", err);
    for (uint32_t i = 0; i < b->logit_rows_count && status == LAC_OK; i++)
        if (b->logit_rows[i].logits)
            status =
                lac__cu_check(be->cu,
                              be->cu->to_host(b->logit_rows[i].logits, be->logits + i * vocab * 4,
                                              vocab * 4, be->stream),
                              "logits", err);
    if (status == LAC_OK && b->residual_out)
        status = lac__cu_check(
            be->cu, be->cu->to_host(b->residual_out, be->h, b->rows * hidden * 4, be->stream),
            "residual stream", err);
    return status == LAC_OK ? lac__cuda_wait(be, err) : status;
}

/* The best few of a row: its logits come here, for few rows ask for them. */
static lac_status top_pick(lac_backend *be, lac_logit_row *row, uint32_t i, lac_error *err)
{
    uint32_t vocab = be->options.vocab, wanted = min_u32(row->top_count, vocab), count = 0;
    const float *x = be->host_row;
    lac_status status =
        lac__cu_check(be->cu,
                      be->cu->to_host(be->host_row, be->logits + (size_t)i * vocab * 4,
                                      (size_t)vocab * 4, be->stream),
                      "logits", err);
    if (status == LAC_OK)
        status = lac__cuda_wait(be, err);
    for (uint32_t k = 0; k < vocab && status == LAC_OK; k++) {
        if (count == wanted && !(x[k] > row->top[count - 1].logit))
            continue;
        uint32_t at = count < wanted ? count++ : count - 1;
        for (; at > 0 && row->top[at - 1].logit < x[k]; at--)
            row->top[at] = row->top[at - 1];
        row->top[at] = (lac_top_logit){k, x[k]};
    }
    return status;
}

lac_status lac__cuda_run(lac_backend *be, lac_batch *b, lac_error *err)
{
    uint32_t last;
    lac__shape shape = {.rows = b->rows, .logit_rows = b->logit_rows_count};
    be->failed = LAC_OK;
    be->err = err;
    be->steps++;
    rows_put(be, b, &last);
    uint32_t lists = lists_put(be, b);
    shape.draws = draws_put(be, b);
    shape.decode_rows = be->step.head->decode_rows;
    shape.tiles = be->step.head->tiles;
    splits_choose(be, last, &shape);
    lac_status status = tables_put(be, b, err);
    if (status == LAC_OK)
        status = inputs_copy(be, b, lists, err);
    if (status != LAC_OK)
        return status;
    if (shape.tiles == 0 && b->rows <= LAC__GRAPH_ROWS_MAX &&
        bucket_of(b->rows) <= be->options.rows_max) {
        status = graph_run(be, shape, err);
    } else {
        lac__cuda_launch_all(be, &shape);
        status = be->failed;
    }
    if (status == LAC_OK)
        status = results_copy(be, b, err);
    if (status != LAC_OK)
        return status;
    for (uint32_t i = 0; i < b->logit_rows_count; i++) {
        lac_logit_row *out = &b->logit_rows[i];
        out->best_token = out->sample ? be->step.drawn[i] : be->step.token[i];
        out->best_logit = be->step.best[i];
        if (out->top_count > 0 && status == LAC_OK)
            status = top_pick(be, out, i, err);
    }
    if (status != LAC_OK)
        return status;
    if (*be->step.odd)
        return lac_fail(err, LAC_EINTERNAL, "a result of the model is not finite");
    return LAC_OK;
}
