/* Cuts attention into items: (rows of one sequence, range of splits). Large ones first, so that the
 * threads end together. Splitting one query's tokens over threads does not change its result: the
 * splits are folded in order by whoever finishes last. */
#include "backend.h"

size_t lac__attention_scratch(uint32_t rows, uint32_t group, uint32_t head_dim)
{
    size_t padded = lac__pad16(head_dim), state = padded + 16;
    return 32 * (size_t)head_dim + 32 * padded + 32 * 8 + 2 * (size_t)rows * group * state;
}

static uint64_t item_cost(const lac_batch *batch, const lac__item *it)
{
    uint64_t tokens = (uint64_t)(it->split_last - it->split_first) * LAC__SPLIT;
    uint64_t end = (uint64_t)batch->segments[it->segment].pos + it->first + it->rows;
    if (it->split_last == it->splits)
        tokens -= (uint64_t)it->splits * LAC__SPLIT - end;
    return tokens * (it->rows + 1);
}

/* Insertion: the list is nearly sorted already (later tiles cost more, and are built first). */
static void sort_items(const lac_batch *batch, lac__item *items, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        lac__item it = items[i];
        uint64_t cost = item_cost(batch, &it);
        uint32_t j = i;
        for (; j > 0 && item_cost(batch, &items[j - 1]) < cost; j--)
            items[j] = items[j - 1];
        items[j] = it;
    }
}

/* First split that a window leaves to the first row of an item. */
static uint32_t split_begin(const lac_op *op, uint32_t pos)
{
    uint32_t window = op->u.attention.window;
    return window > 0 && pos + 1 > window ? (pos + 1 - window) / LAC__SPLIT : 0;
}

void lac__items_build(lac_backend *be, lac__items *out, const lac_op *op)
{
    const lac_batch *batch = be->batch;
    lac__rows rows = lac__unit_rows(batch, op);
    uint32_t kv_heads = op->u.attention.kv_heads;
    size_t state = (size_t)lac__pad16(op->u.attention.head_dim) + 16, partial = 0;
    uint32_t count = 0, packed = 0, counters = 0;
    out->count = 0;
    out->made_for = op;
    if (rows.count == 0)
        return;
    /* Room to spread: with few tiles (decode) each may be cut so that all threads find work. */
    uint32_t tiles = 0;
    for (uint32_t i = 0; i < rows.count;) {
        const lac_segment *g = &batch->segments[be->row_segment[lac__row_at(rows, i)]];
        tiles += (g->rows + LAC__QTILE - 1) / LAC__QTILE;
        i += g->rows;
    }
    uint32_t parts_want =
        tiles * kv_heads < 4 * be->threads ? 4 * be->threads / (tiles * kv_heads) : 1;
    while (packed < rows.count) {
        uint32_t segment = be->row_segment[lac__row_at(rows, packed)];
        const lac_segment *g = &batch->segments[segment];
        uint32_t n_tiles = (g->rows + LAC__QTILE - 1) / LAC__QTILE;
        for (uint32_t t = n_tiles; t-- > 0;) {
            uint32_t first = t * LAC__QTILE;
            uint32_t n = g->rows - first < LAC__QTILE ? g->rows - first : LAC__QTILE;
            uint32_t splits = (g->pos + first + n - 1) / LAC__SPLIT + 1;
            uint32_t begin = split_begin(op, g->pos + first);
            lac__item whole = {.row0 = packed + first,
                               .segment = segment,
                               .first = first,
                               .rows = n,
                               .split_first = begin,
                               .split_last = splits,
                               .splits = splits,
                               .counter = UINT32_MAX,
                               .parts = 1};
            uint32_t parts = splits - begin < parts_want ? splits - begin : parts_want;
            size_t floats = (size_t)n * (op->u.attention.heads / kv_heads) * state * splits;
            if (parts <= 1 || count + parts + (n_tiles - t) >= be->items_max ||
                partial + floats * kv_heads > LAC__PARTIAL_FLOATS) {
                out->items[count++] = whole;
                continue;
            }
            for (uint32_t p = 0; p < parts; p++) {
                lac__item part = whole;
                part.split_first = begin + (splits - begin) * p / parts;
                part.split_last = begin + (splits - begin) * (p + 1) / parts;
                part.partial = partial;
                part.begin = begin;
                part.counter = counters;
                part.parts = parts;
                out->items[count++] = part;
            }
            partial += floats * kv_heads;
            counters++;
        }
        packed += g->rows;
    }
    sort_items(batch, out->items, count);
    out->count = count;
}
