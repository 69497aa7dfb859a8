/* The prefix cache's tree, its hash table and its list of unused nodes. Owned by the engine thread;
 * bookkeeping over page numbers. Must not know what a key is made of, nor requests. */
#include "kv/prefix.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "parts.h"

/* ---- tables ---- */

static uint32_t *tokens_of(const lac_kv_pool *pool, uint32_t node)
{
    return pool->prefix.tokens + (size_t)node * pool->block_tokens;
}

static uint32_t *pages_of(const lac_kv_pool *pool, uint32_t node)
{
    return pool->prefix.pages + (size_t)node * pool->units_count;
}

bool lac__prefix_create(lac_kv_pool *pool, uint32_t nodes_max, uint64_t seed)
{
    lac__prefix *prefix = &pool->prefix;
    if (nodes_max == 0)
        return true;
    uint32_t buckets = 64;
    while (buckets < nodes_max)
        buckets *= 2;
    prefix->buckets = lac_try_alloc(buckets, sizeof *prefix->buckets);
    prefix->nodes = lac_try_alloc(nodes_max, sizeof *prefix->nodes);
    prefix->tokens = lac_try_alloc((size_t)nodes_max * pool->block_tokens, sizeof(uint32_t));
    prefix->pages = lac_try_alloc((size_t)nodes_max * pool->units_count + 1, sizeof(uint32_t));
    if (!prefix->buckets || !prefix->nodes || !prefix->tokens || !prefix->pages)
        return false;
    for (uint32_t i = 0; i < buckets; i++)
        prefix->buckets[i] = LAC__NODE_NONE;
    for (uint32_t i = 0; i < nodes_max; i++)
        prefix->nodes[i].next = i + 1 < nodes_max ? i + 1 : LAC__NODE_NONE;
    prefix->buckets_mask = buckets - 1;
    prefix->unused = 0;
    prefix->oldest = prefix->newest = LAC__NODE_NONE;
    prefix->seed = seed;
    prefix->nodes_max = nodes_max;
    return true;
}

void lac__prefix_destroy(lac_kv_pool *pool)
{
    free(pool->prefix.buckets);
    free(pool->prefix.nodes);
    free(pool->prefix.tokens);
    free(pool->prefix.pages);
    pool->prefix = (lac__prefix){0};
}

static uint64_t mix(uint64_t h, uint64_t word)
{
    h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ (h >> 29);
}

/* The seed keeps outsiders from choosing texts that all fall into one bucket. */
static uint32_t *bucket_of(const lac_kv_pool *pool, const lac_digest *key, uint32_t parent,
                           const uint32_t *tokens)
{
    uint64_t h, word;
    memcpy(&word, key->bytes, sizeof word);
    h = mix(pool->prefix.seed ^ parent, word);
    for (uint32_t i = 0; i < pool->block_tokens; i++)
        h = mix(h, tokens[i] ^ pool->prefix.seed);
    return &pool->prefix.buckets[(h ^ (h >> 32)) & pool->prefix.buckets_mask];
}

static uint32_t node_find(const lac_kv_pool *pool, const lac_digest *key, uint32_t parent,
                          const uint32_t *tokens)
{
    if (pool->prefix.nodes_max == 0)
        return LAC__NODE_NONE;
    uint32_t n = *bucket_of(pool, key, parent, tokens);
    for (; n != LAC__NODE_NONE; n = pool->prefix.nodes[n].next) {
        const lac__node *node = &pool->prefix.nodes[n];
        if (node->parent == parent && memcmp(&node->key, key, sizeof *key) == 0 &&
            memcmp(tokens_of(pool, n), tokens, pool->block_tokens * sizeof *tokens) == 0)
            return n;
    }
    return LAC__NODE_NONE;
}

/* ---- nodes without a user ---- */

static void list_remove(lac__prefix *prefix, uint32_t n)
{
    lac__node *node = &prefix->nodes[n];
    if (node->older != LAC__NODE_NONE)
        prefix->nodes[node->older].newer = node->newer;
    else
        prefix->oldest = node->newer;
    if (node->newer != LAC__NODE_NONE)
        prefix->nodes[node->newer].older = node->older;
    else
        prefix->newest = node->older;
}

static void list_add(lac__prefix *prefix, uint32_t n)
{
    prefix->nodes[n].older = prefix->newest;
    prefix->nodes[n].newer = LAC__NODE_NONE;
    if (prefix->newest != LAC__NODE_NONE)
        prefix->nodes[prefix->newest].newer = n;
    else
        prefix->oldest = n;
    prefix->newest = n;
}

void lac__prefix_leave(lac_kv_pool *pool, lac__sequence_tables *sequence)
{
    lac__prefix *prefix = &pool->prefix;
    for (uint32_t n = sequence->tip; n != LAC__NODE_NONE; n = prefix->nodes[n].parent) {
        LAC_ASSERT(prefix->nodes[n].users > 0);
        if (--prefix->nodes[n].users > 0)
            continue;
        list_add(prefix, n);
        for (uint32_t s = 0; s < pool->sizes_count; s++)
            pool->lists[s].cached += sequence->node_cost[s];
    }
    sequence->tip = LAC__NODE_NONE;
    sequence->shared = 0;
}

void lac__prefix_evict(lac_kv_pool *pool)
{
    lac__prefix *prefix = &pool->prefix;
    uint32_t n = prefix->oldest;
    LAC_ASSERT(n != LAC__NODE_NONE);
    lac__node *node = &prefix->nodes[n];
    LAC_ASSERT(node->users == 0 && node->children == 0);
    uint32_t *link = bucket_of(pool, &node->key, node->parent, tokens_of(pool, n));
    while (*link != n)
        link = &prefix->nodes[*link].next;
    *link = node->next;
    list_remove(prefix, n);
    if (node->parent != LAC__NODE_NONE)
        prefix->nodes[node->parent].children--;
    const uint32_t *pages = pages_of(pool, n);
    for (uint32_t u = 0; u < pool->units_count; u++) {
        if (pages[u] == LAC_KV_PAGE_NONE)
            continue;
        lac__page_list *list = &pool->lists[pool->size_of[u]];
        list->cached--;
        lac__page_give(list, pages[u]);
    }
    node->next = prefix->unused;
    prefix->unused = n;
}

void lac_prefix_clear(lac_kv_pool *pool)
{
    while (pool->prefix.nodes_max > 0 && pool->prefix.oldest != LAC__NODE_NONE)
        lac__prefix_evict(pool);
}

/* ---- sharing ---- */

/* The sequence's next shared block is node n. Pages of its own for that block go back. */
static void node_use(lac_kv_pool *pool, lac__sequence_tables *sequence, uint32_t n)
{
    lac__node *node = &pool->prefix.nodes[n];
    uint32_t block = sequence->shared;
    LAC_ASSERT(node->parent == sequence->tip && block < pool->stride);
    if (node->users++ == 0) {
        list_remove(&pool->prefix, n);
        for (uint32_t s = 0; s < pool->sizes_count; s++)
            pool->lists[s].cached -= sequence->node_cost[s];
    }
    const uint32_t *pages = pages_of(pool, n);
    for (uint32_t u = 0; u < pool->units_count; u++) {
        lac__page_list *list = &pool->lists[pool->size_of[u]];
        uint32_t *entry = &sequence->tables[(size_t)u * pool->stride + block];
        LAC_ASSERT((pages[u] != LAC_KV_PAGE_NONE) == sequence->kept[u]);
        if (block < sequence->blocks && *entry != LAC_KV_PAGE_NONE)
            lac__page_give(list, *entry);
        *entry = pages[u];
        if (pages[u] != LAC_KV_PAGE_NONE)
            list->holders[pages[u]]++;
    }
    sequence->tip = n;
    sequence->shared = block + 1;
    if (sequence->blocks < sequence->shared)
        sequence->blocks = sequence->shared;
}

/* Makes the sequence's next own block a node; false when there is no room for one. */
static bool node_add(lac_kv_pool *pool, lac__sequence_tables *sequence, const lac_digest *key,
                     const uint32_t *tokens)
{
    lac__prefix *prefix = &pool->prefix;
    uint32_t block = sequence->shared;
    LAC_ASSERT(block < sequence->blocks);
    if (prefix->unused == LAC__NODE_NONE && prefix->oldest != LAC__NODE_NONE)
        lac__prefix_evict(pool);
    uint32_t n = prefix->unused;
    if (n == LAC__NODE_NONE)
        return false;
    lac__node *node = &prefix->nodes[n];
    prefix->unused = node->next;
    uint32_t *bucket = bucket_of(pool, key, sequence->tip, tokens);
    *node = (lac__node){
        .parent = sequence->tip, .next = *bucket, .users = 1, .children = 0, .key = *key};
    *bucket = n;
    if (node->parent != LAC__NODE_NONE)
        prefix->nodes[node->parent].children++;
    memcpy(tokens_of(pool, n), tokens, pool->block_tokens * sizeof *tokens);
    uint32_t *pages = pages_of(pool, n);
    for (uint32_t u = 0; u < pool->units_count; u++) {
        pages[u] = sequence->tables[(size_t)u * pool->stride + block];
        if (pages[u] != LAC_KV_PAGE_NONE)
            pool->lists[pool->size_of[u]].holders[pages[u]]++;
    }
    sequence->tip = n;
    sequence->shared = block + 1;
    return true;
}

uint32_t lac_prefix_find(const lac_kv_pool *pool, const lac_digest *key, const uint32_t *tokens,
                         uint32_t count, uint32_t *held)
{
    uint32_t parent = LAC__NODE_NONE, blocks = 0;
    *held = 0;
    for (; (blocks + 1) * pool->block_tokens <= count; blocks++) {
        uint32_t n = node_find(pool, key, parent, tokens + (size_t)blocks * pool->block_tokens);
        if (n == LAC__NODE_NONE)
            break;
        *held += pool->prefix.nodes[n].users > 0;
        parent = n;
    }
    return blocks;
}

uint32_t lac_prefix_take(lac_kv_pool *pool, int sequence, const lac_digest *key,
                         const uint32_t *tokens, uint32_t count)
{
    lac__sequence_tables *s = lac__sequence_at(pool, sequence);
    LAC_ASSERT(count <= pool->context_max && !s->narrowed);
    while ((s->shared + 1) * pool->block_tokens <= count) {
        uint32_t n = node_find(pool, key, s->tip, tokens + (size_t)s->shared * pool->block_tokens);
        if (n == LAC__NODE_NONE)
            break;
        node_use(pool, s, n);
    }
    return s->shared * pool->block_tokens;
}

void lac_prefix_offer(lac_kv_pool *pool, int sequence, const lac_digest *key,
                      const uint32_t *tokens, uint32_t count)
{
    lac__sequence_tables *s = lac__sequence_at(pool, sequence);
    LAC_ASSERT(count <= pool->context_max && !s->narrowed);
    if (pool->prefix.nodes_max == 0)
        return;
    while ((s->shared + 1) * pool->block_tokens <= count) {
        const uint32_t *block = tokens + (size_t)s->shared * pool->block_tokens;
        uint32_t n = node_find(pool, key, s->tip, block);
        if (n != LAC__NODE_NONE)
            node_use(pool, s, n);
        else if (!node_add(pool, s, key, block))
            return;
    }
}

static void pages_add(uint32_t to[LAC_KV_SIZES_MAX], const uint32_t cost[LAC_KV_SIZES_MAX],
                      uint32_t blocks)
{
    for (uint32_t s = 0; s < LAC_KV_SIZES_MAX; s++)
        to[s] += cost[s] * blocks;
}

void lac_prefix_shares(lac_kv_pool *pool, const int *sequences, uint32_t count,
                       lac_prefix_share *out)
{
    lac__prefix *prefix = &pool->prefix;
    prefix->round++;
    for (uint32_t i = 0; i < count; i++) {
        const lac__sequence_tables *s = lac__sequence_at(pool, sequences[i]);
        uint32_t owned = 0, alone = 0; /* nodes */
        /* Users never grow along a chain: from its end, nodes used by nobody else come first, and
         * the first node that an earlier sequence holds ends what this one owns. */
        for (uint32_t n = s->tip; n != LAC__NODE_NONE && prefix->nodes[n].round != prefix->round;
             n = prefix->nodes[n].parent) {
            prefix->nodes[n].round = prefix->round;
            owned++;
            alone += prefix->nodes[n].users == 1;
        }
        out[i] = (lac_prefix_share){0};
        pages_add(out[i].owned, s->cost, s->blocks - s->shared);
        pages_add(out[i].owned, s->node_cost, owned);
        pages_add(out[i].alone, s->cost, s->blocks - s->shared);
        pages_add(out[i].alone, s->node_cost, alone);
    }
}
