/* The step order and the results as bytes. An order is 32-bit words: all ranks run the same version
 * on the same plan, which their digests said. What comes is checked before it is used all the same.
 * The engine's thread.
 *
 * Block tables travel as differences: the leader keeps what it sent last of each table and sends
 * the blocks from the first that changed. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "group_parts.h"
#include "parts.h"

enum { ORDER_RUN = 1, ORDER_STOP = 2, HEAD_WORDS = 4 + LAC_CLASSES_MAX, SEGMENT_WORDS = 5 };
#define WANTS_LOGITS UINT32_C(0x80000000)

/* ---- memory ---- */

lac_status lac__group_reserve(lac_engine *e, lac_error *err)
{
    lac__group *g = e->group;
    bool leads = g->rank == 0;
    g->slots = e->slots < 2 ? 2 : e->slots; /* as the pool has */
    g->units = e->layout.units_count;
    g->stride = lac_kv_table_stride(e->pool);
    g->logit_rows_max = e->slots + e->draft_rows;
    if (g->logit_rows_max < e->score_rows)
        g->logit_rows_max = e->score_rows;
    size_t table = (size_t)g->units * g->stride;
    g->order_words = HEAD_WORDS + (size_t)e->rows_max + g->logit_rows_max +
                     (size_t)g->slots * (SEGMENT_WORDS + table);
    g->result_bytes = sizeof(uint32_t) * 2 + LAC_ERROR_TEXT_MAX + (size_t)g->logit_rows_max * 8;
    /* Zeroed by the system and touched as it is used. */
    g->tables = lac_try_alloc((size_t)g->slots * table + 1, sizeof *g->tables);
    g->blocks = lac_try_alloc(g->slots, sizeof *g->blocks);
    g->owner = lac_try_alloc(g->slots, sizeof *g->owner);
    g->order = lac_try_alloc(g->order_words, sizeof *g->order);
    g->result = lac_try_alloc(g->result_bytes, 1);
    size_t rows = (size_t)e->rows_max * e->model->hidden;
    g->rows_in = lac_try_alloc(rows, sizeof *g->rows_in);
    g->rows_out = lac_try_alloc(rows, sizeof *g->rows_out);
    g->tokens = lac_try_alloc(e->rows_max, sizeof *g->tokens);
    g->segments = lac_try_alloc(g->slots, sizeof *g->segments);
    g->piece = lac_try_alloc(g->slots, sizeof *g->piece);
    g->logit_rows = lac_try_alloc(g->logit_rows_max, sizeof *g->logit_rows);
    bool head = !leads && lac__shard_last(&e->shard);
    size_t logits = head ? (size_t)g->logit_rows_max * lac__shard_vocab(&e->shard, e->model) : 1;
    g->logits = lac_try_alloc(logits, sizeof *g->logits);
    if (!g->tables || !g->blocks || !g->owner || !g->order || !g->result || !g->rows_in ||
        !g->rows_out || !g->tokens || !g->segments || !g->piece || !g->logit_rows || !g->logits)
        return lac_fail(err, LAC_ENOMEM, "no memory for the steps of %u sequences", g->slots);
    return LAC_OK;
}

void lac__group_release(lac__group *g)
{
    free(g->tables);
    free(g->blocks);
    free((void *)g->owner);
    free(g->order);
    free(g->result);
    free(g->rows_in);
    free(g->rows_out);
    free(g->tokens);
    free(g->segments);
    free(g->piece);
    free(g->logit_rows);
    free(g->logits);
}

/* ---- the leader's order ---- */

/* The copy that mirrors a table of the pool. There are as many as the pool has tables. */
static uint32_t slot_of(lac__group *g, const uint32_t *tables)
{
    for (uint32_t s = 0; s < g->slots; s++) {
        if (g->owner[s] == tables)
            return s;
        if (!g->owner[s]) {
            g->owner[s] = tables;
            return s;
        }
    }
    LAC_ASSERT(false);
    return 0;
}

/* First block of which the copy differs from the pool, `count` when none does. */
static uint32_t first_change(const lac__group *g, uint32_t slot, const uint32_t *tables,
                             uint32_t count)
{
    uint32_t known = g->blocks[slot] < count ? g->blocks[slot] : count;
    const uint32_t *copy = g->tables + (size_t)slot * g->units * g->stride;
    for (uint32_t u = 0; u < g->units && known > 0; u++) {
        const uint32_t *a = copy + (size_t)u * g->stride, *b = tables + (size_t)u * g->stride;
        if (memcmp(a, b, known * sizeof *a) == 0)
            continue;
        uint32_t i = 0;
        while (a[i] == b[i])
            i++;
        known = i;
    }
    return known;
}

static size_t segment_put(lac__group *g, const lac_segment *segment, uint32_t *at)
{
    uint32_t slot = slot_of(g, segment->tables);
    uint32_t to = (segment->pos + segment->rows + LAC_KV_BLOCK - 1) / LAC_KV_BLOCK;
    uint32_t from = first_change(g, slot, segment->tables, to);
    uint32_t *copy = g->tables + (size_t)slot * g->units * g->stride;
    size_t n = 0;
    at[n++] = slot;
    at[n++] = segment->rows;
    at[n++] = segment->pos;
    at[n++] = from;
    at[n++] = to;
    for (uint32_t u = 0; u < g->units; u++)
        for (uint32_t b = from; b < to; b++) {
            uint32_t page = segment->tables[(size_t)u * g->stride + b];
            copy[(size_t)u * g->stride + b] = page;
            at[n++] = page;
        }
    g->blocks[slot] = to;
    return n;
}

static size_t order_fill(lac_engine *e, const lac_batch *batch)
{
    lac__group *g = e->group;
    uint32_t *at = g->order;
    at[0] = ORDER_RUN;
    at[1] = batch->rows;
    at[2] = batch->segments_count;
    at[3] = batch->logit_rows_count;
    memcpy(at + 4, e->step.class_rows, sizeof e->step.class_rows);
    size_t n = HEAD_WORDS;
    memcpy(at + n, batch->tokens, batch->rows * sizeof *at);
    n += batch->rows;
    for (uint32_t i = 0; i < batch->logit_rows_count; i++)
        LAC_ASSERT(i == 0 || batch->logit_rows[i - 1].row < batch->logit_rows[i].row);
    for (uint32_t i = 0; i < batch->logit_rows_count; i++)
        at[n++] = batch->logit_rows[i].row | (batch->logit_rows[i].logits ? WANTS_LOGITS : 0);
    for (uint32_t i = 0; i < batch->segments_count; i++) {
        LAC_ASSERT(batch->segments[i].table_stride == g->stride);
        n += segment_put(g, &batch->segments[i], at + n);
    }
    LAC_ASSERT(n <= g->order_words);
    return n;
}

lac_status lac__order_send(lac_engine *e, const lac_batch *batch, lac_error *err)
{
    lac__group *g = e->group;
    g->order[0] = ORDER_STOP;
    size_t bytes = (batch ? order_fill(e, batch) : 1) * sizeof(uint32_t);
    g->step++;
    return lac_fabric_broadcast(g->fabric, 0, lac__group_call(g), g->order,
                                g->order_words * sizeof(uint32_t), &bytes, err);
}

/* ---- a follower's reading of it ---- */

typedef struct {
    const uint32_t *words;
    size_t count, at;
    lac_error *err;
} reader;

static lac_status bad(const reader *r, const char *what, uint32_t value, uint32_t limit)
{
    return lac_fail(r->err, LAC_EPROTO, "step order: %s is %u, allowed up to %u", what, value,
                    limit);
}

static bool has(const reader *r, size_t words)
{
    return r->count - r->at >= words;
}

static lac_status segment_read(lac_engine *e, reader *r, uint32_t row, uint32_t rows_left,
                               lac_segment *out)
{
    lac__group *g = e->group;
    if (!has(r, SEGMENT_WORDS))
        return bad(r, "length in words", (uint32_t)r->count, (uint32_t)r->at);
    const uint32_t *w = r->words + r->at;
    uint32_t slot = w[0], rows = w[1], pos = w[2], from = w[3], to = w[4];
    r->at += SEGMENT_WORDS;
    if (slot >= g->slots)
        return bad(r, "slot", slot, g->slots - 1);
    if (rows < 1 || rows > rows_left)
        return bad(r, "rows of a segment", rows, rows_left);
    if (pos >= e->context_max || rows > e->context_max - pos)
        return bad(r, "position", pos, e->context_max - rows);
    if (to > g->stride || from > to || from > g->blocks[slot] ||
        to != (pos + rows + LAC_KV_BLOCK - 1) / LAC_KV_BLOCK)
        return bad(r, "block", to, g->stride);
    if (!has(r, (size_t)(to - from) * g->units))
        return bad(r, "length in words", (uint32_t)r->count, (uint32_t)r->at);
    uint32_t *tables = g->tables + (size_t)slot * g->units * g->stride;
    for (uint32_t u = 0; u < g->units; u++) {
        uint32_t pages = e->layout.pages[e->layout.size_of[u]];
        for (uint32_t b = from; b < to; b++) {
            uint32_t page = r->words[r->at++];
            if (page != LAC_KV_PAGE_NONE && page >= pages)
                return bad(r, "page", page, pages - 1);
            tables[(size_t)u * g->stride + b] = page;
        }
    }
    g->blocks[slot] = to;
    *out = (lac_segment){
        .row = row, .rows = rows, .pos = pos, .tables = tables, .table_stride = g->stride};
    return LAC_OK;
}

static lac_status rows_read(lac_engine *e, reader *r, lac_batch *batch, lac_error *err)
{
    lac__group *g = e->group;
    (void)err;
    uint32_t rows = r->words[1], logit_rows = r->words[3], sum = 0;
    for (uint32_t c = 0; c < LAC_CLASSES_MAX; c++) {
        uint32_t of_class = r->words[4 + c];
        if (of_class > rows - sum || (of_class > 0 && c >= e->classes_count))
            return bad(r, "rows of a class", of_class, rows - sum);
        sum += e->step.class_rows[c] = of_class;
    }
    if (sum != rows)
        return bad(r, "rows of all classes", sum, rows);
    r->at = HEAD_WORDS;
    if (!has(r, (size_t)rows + logit_rows))
        return bad(r, "length in words", (uint32_t)r->count, rows + logit_rows);
    for (uint32_t i = 0; i < rows; i++) {
        g->tokens[i] = r->words[r->at++];
        if (g->tokens[i] >= e->model->vocab)
            return bad(r, "token", g->tokens[i], e->model->vocab - 1);
    }
    size_t vocab = lac__shard_vocab(&e->shard, e->model);
    for (uint32_t i = 0; i < logit_rows; i++) {
        uint32_t word = r->words[r->at++], row = word & ~WANTS_LOGITS;
        if (row >= rows || (i > 0 && row <= g->logit_rows[i - 1].row))
            return bad(r, "logit row", row, rows - 1);
        bool wants = (word & WANTS_LOGITS) && lac__shard_last(&e->shard);
        g->logit_rows[i] =
            (lac_logit_row){.row = row, .logits = wants ? g->logits + i * vocab : NULL};
    }
    *batch = (lac_batch){.rows = rows,
                         .tokens = g->tokens,
                         .segments_count = r->words[2],
                         .segments = g->segments,
                         .logit_rows_count = logit_rows,
                         .logit_rows = g->logit_rows};
    return LAC_OK;
}

static lac_status order_read(lac_engine *e, size_t count, lac_batch *batch, lac_error *err)
{
    lac__group *g = e->group;
    reader r = {.words = g->order, .count = count, .err = err};
    if (count < HEAD_WORDS || g->order[0] != ORDER_RUN)
        return bad(&r, "kind", g->order[0], ORDER_STOP);
    if (g->order[1] < 1 || g->order[1] > e->rows_max)
        return bad(&r, "rows", g->order[1], e->rows_max);
    if (g->order[2] < 1 || g->order[2] > g->slots)
        return bad(&r, "segments", g->order[2], g->slots);
    if (g->order[3] > g->logit_rows_max)
        return bad(&r, "logit rows", g->order[3], g->logit_rows_max);
    lac_status status = rows_read(e, &r, batch, err);
    uint32_t row = 0;
    for (uint32_t i = 0; i < g->order[2] && status == LAC_OK; i++) {
        status = segment_read(e, &r, row, batch->rows - row, &g->segments[i]);
        row += status == LAC_OK ? g->segments[i].rows : 0;
    }
    if (status == LAC_OK && (row != batch->rows || r.at != r.count))
        return bad(&r, "rows of all segments", row, batch->rows);
    if (status != LAC_OK)
        return status;
    uint32_t class_rows[LAC_CLASSES_MAX];
    memcpy(class_rows, e->step.class_rows, sizeof class_rows);
    lac__classes_batch(e, class_rows, batch);
    return LAC_OK;
}

lac_status lac__order_receive(lac_engine *e, lac_batch *batch, bool *stop, lac_error *err)
{
    lac__group *g = e->group;
    size_t bytes = 0;
    lac_status status;
    g->step++;
    do { /* no work is no error: only the others' end is */
        lac_fabric_call call = {.step = g->step, .deadline_ns = lac_now_ns() + LAC__IDLE_MS * MS};
        status = lac_fabric_broadcast(g->fabric, 0, call, g->order,
                                      g->order_words * sizeof(uint32_t), &bytes, err);
    } while (status == LAC_EDEADLINE && lac_fabric_health(g->fabric, err) == LAC_OK);
    if (status != LAC_OK)
        return err->status;
    *stop = bytes == sizeof(uint32_t) && g->order[0] == ORDER_STOP;
    if (*stop)
        return LAC_OK;
    if (bytes % sizeof(uint32_t) != 0)
        return lac_fail(err, LAC_EPROTO, "step order: %zu bytes are no words", bytes);
    return order_read(e, bytes / sizeof(uint32_t), batch, err);
}

/* ---- results: u32 status, u32 count; then a text, or count times (u32 token, f32 logit) and, as
 * messages of their own, the logits that were asked for ---- */

lac_status lac__result_send(lac_engine *e, const lac_batch *batch, const lac_error *own,
                            lac_error *err)
{
    lac__group *g = e->group;
    bool failed = own->status != LAC_OK;
    uint32_t head[2] = {(uint32_t)own->status,
                        lac__shard_last(&e->shard) && !failed ? batch->logit_rows_count : 0};
    size_t bytes = sizeof head;
    memcpy(g->result, head, sizeof head);
    if (failed) {
        size_t length = strnlen(own->text, LAC_ERROR_TEXT_MAX - 1);
        memcpy(g->result + bytes, own->text, length);
        bytes += length;
    }
    for (uint32_t i = 0; i < head[1]; i++, bytes += 8) {
        memcpy(g->result + bytes, &batch->logit_rows[i].best_token, 4);
        memcpy(g->result + bytes + 4, &batch->logit_rows[i].best_logit, 4);
    }
    lac_status status =
        lac_fabric_send(g->fabric, 0, LAC_FABRIC_RESULT, lac__group_call(g), g->result, bytes, err);
    size_t row_bytes = lac__shard_vocab(&e->shard, e->model) * sizeof(float);
    for (uint32_t i = 0; i < head[1] && status == LAC_OK; i++)
        if (batch->logit_rows[i].logits)
            status = lac_fabric_send(g->fabric, 0, LAC_FABRIC_RESULT, lac__group_call(g),
                                     batch->logit_rows[i].logits, row_bytes, err);
    return status == LAC_OK ? lac_fabric_settle(g->fabric, lac__group_call(g), err) : status;
}

/* The best of all parts, the lowest id among equals: what one rank would have found. */
static void best_merge(lac_logit_row *row, uint32_t token, float logit)
{
    if (logit > row->best_logit || (logit == row->best_logit && token < row->best_token)) {
        row->best_logit = logit;
        row->best_token = token;
    }
}

static lac_status rows_take(lac_engine *e, lac_batch *batch, uint32_t rank, uint32_t count,
                            size_t bytes, lac_error *err)
{
    lac__group *g = e->group;
    const lac_placement *p = e->shard.placement;
    uint32_t part = rank % p->parts, first = p->vocab_first[part], end = p->vocab_first[part + 1];
    if (count != batch->logit_rows_count || bytes != 8 + (size_t)count * 8)
        return lac_fail(err, LAC_EPROTO, "rank %u gave %u results in %zu bytes, %u expected", rank,
                        count, bytes, batch->logit_rows_count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t token;
        float logit;
        memcpy(&token, g->result + 8 + (size_t)i * 8, 4);
        memcpy(&logit, g->result + 12 + (size_t)i * 8, 4);
        if (token < first || token >= end)
            return lac_fail(err, LAC_EPROTO, "rank %u gave token %u, it has %u..%u", rank, token,
                            first, end - 1);
        best_merge(&batch->logit_rows[i], token, logit);
    }
    lac_status status = LAC_OK;
    for (uint32_t i = 0; i < count && status == LAC_OK; i++)
        if (batch->logit_rows[i].logits)
            status = lac_fabric_receive(g->fabric, rank, LAC_FABRIC_RESULT, lac__group_call(g),
                                        batch->logit_rows[i].logits + first,
                                        (end - first) * sizeof(float), NULL, err);
    return status;
}

lac_status lac__result_take(lac_engine *e, lac_batch *batch, uint32_t rank, lac_error *own,
                            lac_error *err)
{
    lac__group *g = e->group;
    size_t bytes = 0;
    uint32_t head[2];
    lac_status status = lac_fabric_receive(g->fabric, rank, LAC_FABRIC_RESULT, lac__group_call(g),
                                           g->result, g->result_bytes, &bytes, err);
    if (status != LAC_OK)
        return status;
    if (bytes < sizeof head)
        return lac_fail(err, LAC_EPROTO, "rank %u gave a result of %zu bytes", rank, bytes);
    memcpy(head, g->result, sizeof head);
    if (head[0] > LAC_EINTERNAL)
        return lac_fail(err, LAC_EPROTO, "rank %u gave status %u", rank, head[0]);
    if (head[0] != LAC_OK) {
        if (own->status == LAC_OK)
            lac_fail(own, (lac_status)head[0], "rank %u: %.*s", rank, (int)(bytes - sizeof head),
                     (const char *)g->result + sizeof head);
        return LAC_OK;
    }
    bool last = rank / e->shard.parts + 1 == e->shard.stages;
    return last ? rows_take(e, batch, rank, head[1], bytes, err) : LAC_OK;
}
