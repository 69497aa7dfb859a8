/* The KV pool's free lists and block tables. Owned by the engine thread; pure bookkeeping over page
 * numbers. Must not know what a page contains or why a sequence needs one. */
#include "kv/pool.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "parts.h"

static lac_status options_check(const lac_kv_options *o, lac_error *err)
{
    if (o->block_tokens == 0)
        return lac_fail(err, LAC_EINVAL, "kv block_tokens is 0, allowed from 1");
    if (o->context_max == 0 || o->context_max > LAC_CONTEXT_MAX)
        return lac_fail(err, LAC_EINVAL, "kv context_max is %u, allowed 1..%d", o->context_max,
                        LAC_CONTEXT_MAX);
    if (o->sequences_max == 0 || o->sequences_max > LAC_SLOTS_MAX + 1)
        return lac_fail(err, LAC_EINVAL, "kv sequences_max is %u, allowed 1..%d", o->sequences_max,
                        LAC_SLOTS_MAX + 1);
    if (o->units_count > LAC_LAYERS_MAX)
        return lac_fail(err, LAC_EINVAL, "kv units_count is %u, allowed up to %d", o->units_count,
                        LAC_LAYERS_MAX);
    if (o->sizes_count > LAC_KV_SIZES_MAX || (o->units_count > 0 && o->sizes_count == 0))
        return lac_fail(err, LAC_EINVAL, "kv sizes_count is %u, allowed 1..%d", o->sizes_count,
                        LAC_KV_SIZES_MAX);
    if (o->prefix_blocks > LAC_PREFIX_CACHE_MAX)
        return lac_fail(err, LAC_EINVAL, "kv prefix_blocks is %u, allowed up to %d",
                        o->prefix_blocks, LAC_PREFIX_CACHE_MAX);
    if (o->windowed && o->window == 0)
        return lac_fail(err, LAC_EINVAL, "kv window is 0, allowed from 1 where units are windowed");
    for (uint32_t u = 0; u < o->units_count; u++)
        if (o->size_of[u] >= o->sizes_count)
            return lac_fail(err, LAC_EINVAL, "kv size_of[%u] is %u, sizes_count is %u", u,
                            o->size_of[u], o->sizes_count);
    return LAC_OK;
}

/* Fills the stack so that pages leave it in ascending order: memory is first touched from the
 * front. */
static bool list_create(lac__page_list *list, uint32_t count)
{
    list->free = lac_try_alloc(count ? count : 1, sizeof(uint32_t));
    list->holders = lac_try_alloc(count ? count : 1, sizeof(uint32_t));
    if (!list->free || !list->holders)
        return false;
    list->count = list->free_count = count;
    for (uint32_t i = 0; i < count; i++)
        list->free[i] = count - 1 - i;
    return true;
}

lac_status lac_kv_create(const lac_kv_options *options, lac_kv_pool **out, lac_error *err)
{
    lac_status status = options_check(options, err);
    if (status != LAC_OK)
        return status;
    lac_kv_pool *pool = lac_alloc(1, sizeof(*pool));
    pool->block_tokens = options->block_tokens;
    pool->context_max = options->context_max;
    pool->units_count = options->units_count;
    pool->sizes_count = options->sizes_count;
    pool->sequences_max = options->sequences_max;
    pool->stride = (options->context_max + options->block_tokens - 1) / options->block_tokens;
    pool->size_of = lac_alloc(pool->units_count + 1, sizeof(uint32_t));
    for (uint32_t u = 0; u < pool->units_count; u++)
        pool->size_of[u] = options->size_of[u];
    pool->windowed = lac_alloc(pool->units_count + 1, sizeof(bool));
    for (uint32_t u = 0; u < pool->units_count && options->windowed; u++)
        if ((pool->windowed[u] = options->windowed[u]))
            pool->window = options->window;
    pool->sequences = lac_alloc(pool->sequences_max, sizeof(*pool->sequences));

    size_t rows = (size_t)pool->sequences_max * pool->units_count;
    pool->kept = lac_try_alloc(rows + 1, sizeof(bool));
    pool->tables = lac_try_alloc(rows * pool->stride + 1, sizeof(uint32_t));
    bool enough = pool->kept && pool->tables;
    for (uint32_t s = 0; s < pool->sizes_count && enough; s++)
        enough = list_create(&pool->lists[s], options->pages[s]);
    enough = enough && lac__prefix_create(pool, options->prefix_blocks, options->prefix_seed);
    if (!enough) {
        lac_kv_destroy(&pool);
        return lac_fail(err, LAC_ENOMEM,
                        "no memory for the block tables of %u sequences × %u tokens",
                        options->sequences_max, options->context_max);
    }
    for (uint32_t i = 0; i < pool->sequences_max; i++) {
        pool->sequences[i].kept = pool->kept + (size_t)i * pool->units_count;
        pool->sequences[i].tables = pool->tables + (size_t)i * pool->units_count * pool->stride;
        pool->sequences[i].tip = LAC__NODE_NONE;
    }
    *out = pool;
    return LAC_OK;
}

void lac_kv_destroy(lac_kv_pool **pool)
{
    if (!pool || !*pool)
        return;
    for (uint32_t s = 0; s < LAC_KV_SIZES_MAX; s++) {
        free((*pool)->lists[s].free);
        free((*pool)->lists[s].holders);
    }
    lac__prefix_destroy(*pool);
    free((*pool)->size_of);
    free((*pool)->windowed);
    free((*pool)->sequences);
    free((*pool)->kept);
    free((*pool)->tables);
    free(*pool);
    *pool = NULL;
}

lac__sequence_tables *lac__sequence_at(const lac_kv_pool *pool, int sequence)
{
    LAC_ASSERT(sequence >= 0 && (uint32_t)sequence < pool->sequences_max);
    LAC_ASSERT(pool->sequences[sequence].open);
    return &pool->sequences[sequence];
}

void lac_kv_block_cost(const lac_kv_pool *pool, const bool *kept, uint32_t cost[LAC_KV_SIZES_MAX],
                       uint32_t windowed[LAC_KV_SIZES_MAX])
{
    memset(cost, 0, LAC_KV_SIZES_MAX * sizeof(uint32_t));
    memset(windowed, 0, LAC_KV_SIZES_MAX * sizeof(uint32_t));
    for (uint32_t u = 0; u < pool->units_count; u++) {
        if (kept && !kept[u])
            continue;
        cost[pool->size_of[u]]++;
        windowed[pool->size_of[u]] += pool->windowed[u];
    }
}

int lac_kv_open(lac_kv_pool *pool, const bool *kept)
{
    uint32_t i = 0;
    while (i < pool->sequences_max && pool->sequences[i].open)
        i++;
    if (i == pool->sequences_max)
        return LAC_KV_SEQUENCE_NONE;
    lac__sequence_tables *sequence = &pool->sequences[i];
    sequence->open = true;
    sequence->blocks = 0;
    for (uint32_t u = 0; u < pool->units_count; u++)
        sequence->kept[u] = !kept || kept[u];
    lac_kv_block_cost(pool, kept, sequence->cost, sequence->windowed);
    memcpy(sequence->node_cost, sequence->cost, sizeof sequence->cost);
    memcpy(sequence->node_windowed, sequence->windowed, sizeof sequence->windowed);
    sequence->narrowed = false;
    return (int)i;
}

void lac_kv_close(lac_kv_pool *pool, int sequence)
{
    lac_kv_release(pool, sequence);
    pool->sequences[sequence].open = false;
}

static uint32_t page_take(lac__page_list *list)
{
    LAC_ASSERT(list->free_count > 0);
    uint32_t page = list->free[--list->free_count];
    LAC_ASSERT(list->holders[page] == 0);
    list->holders[page] = 1;
    return page;
}

void lac__page_give(lac__page_list *list, uint32_t page)
{
    LAC_ASSERT(page < list->count && list->holders[page] > 0);
    if (--list->holders[page] == 0)
        list->free[list->free_count++] = page;
}

bool lac_kv_reserve(lac_kv_pool *pool, int sequence, uint32_t tokens)
{
    lac__sequence_tables *s = lac__sequence_at(pool, sequence);
    LAC_ASSERT(tokens <= pool->context_max);
    uint32_t blocks = (tokens + pool->block_tokens - 1) / pool->block_tokens;
    if (blocks <= s->blocks)
        return true;
    uint64_t more = blocks - s->blocks;
    for (uint32_t size = 0; size < pool->sizes_count; size++)
        if (more * s->cost[size] > lac_kv_free_count(pool, size))
            return false;
    for (uint32_t size = 0; size < pool->sizes_count; size++)
        while (more * s->cost[size] > pool->lists[size].free_count)
            lac__prefix_evict(pool);
    for (uint32_t u = 0; u < pool->units_count; u++) {
        uint32_t *row = s->tables + (size_t)u * pool->stride;
        lac__page_list *list = &pool->lists[pool->size_of[u]];
        for (uint32_t b = s->blocks; b < blocks; b++)
            row[b] = s->kept[u] ? page_take(list) : LAC_KV_PAGE_NONE;
    }
    s->blocks = blocks;
    return true;
}

/* Gives back what a unit's row of the tables has in blocks from … to−1. */
static void row_give(lac_kv_pool *pool, uint32_t unit, uint32_t *row, uint32_t from, uint32_t to)
{
    for (uint32_t b = from; b < to; b++) {
        if (row[b] != LAC_KV_PAGE_NONE)
            lac__page_give(&pool->lists[pool->size_of[unit]], row[b]);
        row[b] = LAC_KV_PAGE_NONE;
    }
}

uint32_t lac_kv_narrow(lac_kv_pool *pool, int sequence, const bool *kept)
{
    lac__sequence_tables *s = lac__sequence_at(pool, sequence);
    for (uint32_t u = 0; u < pool->units_count; u++) {
        uint32_t *row = s->tables + (size_t)u * pool->stride;
        LAC_ASSERT(s->kept[u] || !kept[u]); /* left out is never taken up again */
        if (s->kept[u] && !kept[u])
            row_give(pool, u, row, s->shared, s->blocks);
        s->kept[u] = kept[u];
    }
    lac_kv_block_cost(pool, kept, s->cost, s->windowed);
    s->narrowed = true;
    return s->shared;
}

/* Gives back blocks from `blocks` on. */
static void blocks_give(lac_kv_pool *pool, lac__sequence_tables *s, uint32_t blocks)
{
    for (uint32_t u = 0; u < pool->units_count; u++)
        row_give(pool, u, s->tables + (size_t)u * pool->stride, blocks, s->blocks);
    s->blocks = blocks;
}

/* ---- windows ---- */

uint32_t lac__first_seen(const lac_kv_pool *pool, uint32_t tokens)
{
    bool some = pool->window > 0 && tokens + 1 > pool->window;
    return some ? (tokens + 1 - pool->window) / pool->block_tokens : 0;
}

void lac__window_pass(lac_kv_pool *pool, lac__sequence_tables *s, uint32_t to)
{
    if (to <= s->passed)
        return;
    lac__prefix_pass(pool, s, to);
    for (uint32_t u = 0; u < pool->units_count; u++)
        if (pool->windowed[u])
            row_give(pool, u, s->tables + (size_t)u * pool->stride, s->passed,
                     to < s->blocks ? to : s->blocks);
    s->passed = to;
}

void lac_kv_pass(lac_kv_pool *pool, int sequence, uint32_t tokens)
{
    lac__sequence_tables *s = lac__sequence_at(pool, sequence);
    LAC_ASSERT(tokens <= s->blocks * pool->block_tokens);
    lac__window_pass(pool, s, lac__first_seen(pool, tokens));
}

uint32_t lac_kv_window_blocks(const lac_kv_pool *pool)
{
    /* Of the window − 1 positions before it a block's first query sees so many blocks, and its own.
     */
    return pool->window == 0 ? 0
                             : (pool->window - 1 + pool->block_tokens - 1) / pool->block_tokens + 1;
}

uint32_t lac_kv_passed(const lac_kv_pool *pool, int sequence)
{
    return lac__sequence_at(pool, sequence)->passed;
}

void lac_kv_held(const lac_kv_pool *pool, int sequence, uint32_t held[LAC_KV_SIZES_MAX])
{
    const lac__sequence_tables *s = lac__sequence_at(pool, sequence);
    uint32_t shared_seen = s->shared > s->passed ? s->shared - s->passed : 0;
    uint32_t own = s->blocks - s->shared, own_seen = s->blocks - s->passed - shared_seen;
    for (uint32_t i = 0; i < LAC_KV_SIZES_MAX; i++)
        held[i] = own * (s->cost[i] - s->windowed[i]) + own_seen * s->windowed[i] +
                  s->shared * (s->node_cost[i] - s->node_windowed[i]) +
                  shared_seen * s->node_windowed[i];
}

/* ---- giving back ---- */

void lac_kv_trim(lac_kv_pool *pool, int sequence, uint32_t tokens)
{
    lac__sequence_tables *s = lac__sequence_at(pool, sequence);
    uint32_t blocks = (tokens + pool->block_tokens - 1) / pool->block_tokens;
    if (blocks < s->shared)
        blocks = s->shared;
    if (blocks < s->blocks)
        blocks_give(pool, s, blocks);
}

void lac_kv_release(lac_kv_pool *pool, int sequence)
{
    lac__sequence_tables *s = lac__sequence_at(pool, sequence);
    lac__prefix_leave(pool, s);
    blocks_give(pool, s, 0);
    s->passed = 0;
}

const uint32_t *lac_kv_tables(const lac_kv_pool *pool, int sequence)
{
    return lac__sequence_at(pool, sequence)->tables;
}

uint32_t lac_kv_table_stride(const lac_kv_pool *pool)
{
    return pool->stride;
}

uint32_t lac_kv_blocks(const lac_kv_pool *pool, int sequence)
{
    return lac__sequence_at(pool, sequence)->blocks;
}

uint32_t lac_kv_tokens_max(const lac_kv_pool *pool, const bool *kept)
{
    uint32_t cost[LAC_KV_SIZES_MAX], windowed[LAC_KV_SIZES_MAX];
    lac_kv_block_cost(pool, kept, cost, windowed);
    uint64_t blocks = pool->stride, seen = lac_kv_window_blocks(pool);
    for (uint32_t s = 0; s < pool->sizes_count; s++) {
        if (cost[s] == 0)
            continue;
        uint64_t pages = pool->lists[s].count, most = pages / cost[s];
        if (windowed[s] > 0 && most >= seen)
            most = cost[s] > windowed[s] ? (pages - seen * windowed[s]) / (cost[s] - windowed[s])
                                         : pool->stride;
        blocks = most < blocks ? most : blocks;
    }
    uint64_t tokens = blocks * pool->block_tokens;
    return tokens < pool->context_max ? (uint32_t)tokens : pool->context_max;
}

uint32_t lac_kv_free_count(const lac_kv_pool *pool, uint32_t size)
{
    LAC_ASSERT(size < pool->sizes_count);
    return pool->lists[size].free_count + pool->lists[size].cached;
}

uint64_t lac_kv_pages_count(const lac_kv_pool *pool)
{
    uint64_t count = 0;
    for (uint32_t s = 0; s < pool->sizes_count; s++)
        count += pool->lists[s].count;
    return count;
}

uint64_t lac_kv_used_count(const lac_kv_pool *pool)
{
    uint64_t used = 0;
    for (uint32_t s = 0; s < pool->sizes_count; s++)
        used += pool->lists[s].count - lac_kv_free_count(pool, s);
    return used;
}

uint64_t lac_kv_cached_count(const lac_kv_pool *pool)
{
    uint64_t cached = 0;
    for (uint32_t s = 0; s < pool->sizes_count; s++)
        cached += pool->lists[s].cached;
    return cached;
}
