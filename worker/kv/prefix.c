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
    prefix->idle = prefix->passed = (lac__node_list){LAC__NODE_NONE, LAC__NODE_NONE};
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

/* ---- nodes whose pages count as free ---- */

static void list_remove(lac__prefix *prefix, lac__node_list *list, uint32_t n)
{
    lac__node *node = &prefix->nodes[n];
    if (node->older != LAC__NODE_NONE)
        prefix->nodes[node->older].newer = node->newer;
    else
        list->oldest = node->newer;
    if (node->newer != LAC__NODE_NONE)
        prefix->nodes[node->newer].older = node->older;
    else
        list->newest = node->older;
}

static void list_add(lac__prefix *prefix, lac__node_list *list, uint32_t n)
{
    prefix->nodes[n].older = list->newest;
    prefix->nodes[n].newer = LAC__NODE_NONE;
    if (list->newest != LAC__NODE_NONE)
        prefix->nodes[list->newest].newer = n;
    else
        list->oldest = n;
    list->newest = n;
}

static bool is_unseen(const lac__node *node)
{
    return node->whole && node->viewers == 0;
}

/* The list that a node belongs to, NULL for none. */
static lac__node_list *list_of(lac__prefix *prefix, const lac__node *node)
{
    return node->users == 0 ? &prefix->idle : is_unseen(node) ? &prefix->passed : NULL;
}

/* A sequence begins (+1) or ends (−1) to use the node, or to see it. Lists and counts follow. */
static void node_change(lac_kv_pool *pool, const lac__sequence_tables *s, uint32_t n, int users,
                        int viewers)
{
    lac__prefix *prefix = &pool->prefix;
    lac__node *node = &prefix->nodes[n];
    lac__node_list *from = list_of(prefix, node);
    int idle = -(node->users == 0), unseen = -is_unseen(node);
    LAC_ASSERT((int64_t)node->users + users >= 0 && (int64_t)node->viewers + viewers >= 0);
    node->users += (uint32_t)users;
    node->viewers += (uint32_t)viewers;
    LAC_ASSERT(node->viewers <= node->users);
    lac__node_list *to = list_of(prefix, node);
    idle += node->users == 0;
    unseen += is_unseen(node);
    if (from != to && from)
        list_remove(prefix, from, n);
    if (from != to && to)
        list_add(prefix, to, n);
    for (uint32_t i = 0; i < pool->sizes_count; i++)
        pool->lists[i].cached += (uint32_t)idle * (s->node_cost[i] - s->node_windowed[i]) +
                                 (uint32_t)unseen * s->node_windowed[i];
}

void lac__prefix_leave(lac_kv_pool *pool, lac__sequence_tables *s)
{
    uint32_t block = s->shared;
    for (uint32_t n = s->tip; n != LAC__NODE_NONE; n = pool->prefix.nodes[n].parent)
        node_change(pool, s, n, -1, --block >= s->passed ? -1 : 0);
    s->tip = LAC__NODE_NONE;
    s->shared = 0;
}

void lac__prefix_pass(lac_kv_pool *pool, const lac__sequence_tables *s, uint32_t to)
{
    uint32_t block = s->shared;
    for (uint32_t n = s->tip; block > s->passed; n = pool->prefix.nodes[n].parent)
        if (--block < to)
            node_change(pool, s, n, 0, -1);
}

/* Gives up what the node holds: all of it, or its windowed pages. */
static void node_pages_give(lac_kv_pool *pool, uint32_t n, bool all)
{
    uint32_t *pages = pages_of(pool, n);
    for (uint32_t u = 0; u < pool->units_count; u++) {
        if (pages[u] == LAC_KV_PAGE_NONE || !(all || pool->windowed[u]))
            continue;
        lac__page_list *list = &pool->lists[pool->size_of[u]];
        list->cached--;
        lac__page_give(list, pages[u]);
        pages[u] = LAC_KV_PAGE_NONE;
    }
}

/* Gives up the least recently used node without a user. */
static void idle_evict(lac_kv_pool *pool)
{
    lac__prefix *prefix = &pool->prefix;
    uint32_t n = prefix->idle.oldest;
    LAC_ASSERT(n != LAC__NODE_NONE);
    lac__node *node = &prefix->nodes[n];
    LAC_ASSERT(node->users == 0 && node->children == 0);
    uint32_t *link = bucket_of(pool, &node->key, node->parent, tokens_of(pool, n));
    while (*link != n)
        link = &prefix->nodes[*link].next;
    *link = node->next;
    list_remove(prefix, &prefix->idle, n);
    if (node->parent != LAC__NODE_NONE)
        prefix->nodes[node->parent].children--;
    node_pages_give(pool, n, true);
    node->next = prefix->unused;
    prefix->unused = n;
}

void lac__prefix_evict(lac_kv_pool *pool)
{
    lac__prefix *prefix = &pool->prefix;
    uint32_t n = prefix->passed.oldest;
    if (n == LAC__NODE_NONE) {
        idle_evict(pool);
        return;
    }
    list_remove(prefix, &prefix->passed, n);
    node_pages_give(pool, n, false);
    prefix->nodes[n].whole = false;
}

void lac_prefix_clear(lac_kv_pool *pool)
{
    while (pool->prefix.nodes_max > 0 && pool->prefix.idle.oldest != LAC__NODE_NONE)
        idle_evict(pool);
}

/* ---- sharing ---- */

/* The sequence's next shared block is node n. Pages of its own for that block go back, or fill the
 * node where it lacks what the sequence sees. */
static void node_use(lac_kv_pool *pool, lac__sequence_tables *sequence, uint32_t n)
{
    lac__node *node = &pool->prefix.nodes[n];
    uint32_t block = sequence->shared;
    bool sees = block >= sequence->passed;
    LAC_ASSERT(node->parent == sequence->tip && block < pool->stride);
    node_change(pool, sequence, n, 1, sees);
    uint32_t *pages = pages_of(pool, n);
    for (uint32_t u = 0; u < pool->units_count; u++) {
        lac__page_list *list = &pool->lists[pool->size_of[u]];
        uint32_t *entry = &sequence->tables[(size_t)u * pool->stride + block];
        bool has_own = block < sequence->blocks && *entry != LAC_KV_PAGE_NONE;
        if (pool->windowed[u] && sequence->kept[u] && (!sees || !node->whole)) {
            LAC_ASSERT(has_own == sees);
            if (sees) { /* the node's holder */
                pages[u] = *entry;
                list->holders[*entry]++;
            } else {
                *entry = LAC_KV_PAGE_NONE;
            }
            continue;
        }
        LAC_ASSERT((pages[u] != LAC_KV_PAGE_NONE) == sequence->kept[u]);
        if (has_own)
            lac__page_give(list, *entry);
        *entry = pages[u];
        if (pages[u] != LAC_KV_PAGE_NONE)
            list->holders[pages[u]]++;
    }
    node->whole |= sees;
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
    if (prefix->unused == LAC__NODE_NONE && prefix->idle.oldest != LAC__NODE_NONE)
        idle_evict(pool);
    uint32_t n = prefix->unused;
    if (n == LAC__NODE_NONE)
        return false;
    lac__node *node = &prefix->nodes[n];
    prefix->unused = node->next;
    uint32_t *bucket = bucket_of(pool, key, sequence->tip, tokens);
    bool sees = block >= sequence->passed;
    *node = (lac__node){.parent = sequence->tip,
                        .next = *bucket,
                        .users = 1,
                        .viewers = sees,
                        .whole = sees,
                        .key = *key};
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

/* How far a text can go on from `blocks` blocks that end with node *tip and of which the last
 * `seen` show their windowed pages: the last block whose window is there. *tip is then its node. */
static uint32_t reach_of(const lac_kv_pool *pool, const lac_digest *key, const uint32_t *tokens,
                         uint32_t count, uint32_t blocks, uint32_t seen, uint32_t *tip)
{
    uint32_t reach = blocks;
    for (uint32_t n = *tip; (blocks + 1) * pool->block_tokens <= count;) {
        n = node_find(pool, key, n, tokens + (size_t)blocks * pool->block_tokens);
        if (n == LAC__NODE_NONE)
            break;
        blocks++;
        seen = pool->prefix.nodes[n].whole ? seen + 1 : 0;
        if (blocks - lac__first_seen(pool, blocks * pool->block_tokens) <= seen) {
            reach = blocks;
            *tip = n;
        }
    }
    return reach;
}

lac_prefix_found lac_prefix_find(const lac_kv_pool *pool, const lac_digest *key,
                                 const uint32_t *tokens, uint32_t count)
{
    uint32_t tip = LAC__NODE_NONE;
    lac_prefix_found out = {.blocks = reach_of(pool, key, tokens, count, 0, 0, &tip)};
    out.passed = lac__first_seen(pool, out.blocks * pool->block_tokens);
    for (uint32_t b = out.blocks; b-- > 0; tip = pool->prefix.nodes[tip].parent) {
        out.idle += pool->prefix.nodes[tip].users == 0;
        out.unseen += b >= out.passed && is_unseen(&pool->prefix.nodes[tip]);
    }
    return out;
}

uint32_t lac_prefix_take(lac_kv_pool *pool, int sequence, const lac_digest *key,
                         const uint32_t *tokens, uint32_t count)
{
    lac__sequence_tables *s = lac__sequence_at(pool, sequence);
    LAC_ASSERT(count <= pool->context_max && !s->narrowed);
    uint32_t tip = s->tip, seen = s->shared > s->passed ? s->shared - s->passed : 0;
    uint32_t reach = reach_of(pool, key, tokens, count, s->shared, seen, &tip);
    if (reach > s->shared)
        lac__window_pass(pool, s, lac__first_seen(pool, reach * pool->block_tokens));
    while (s->shared < reach) {
        uint32_t n = node_find(pool, key, s->tip, tokens + (size_t)s->shared * pool->block_tokens);
        LAC_ASSERT(n != LAC__NODE_NONE);
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

/* Pages of so many blocks, of which so many with what windowed units have in them. */
static void pages_add(uint32_t to[LAC_KV_SIZES_MAX], const uint32_t cost[LAC_KV_SIZES_MAX],
                      const uint32_t windowed[LAC_KV_SIZES_MAX], uint32_t blocks, uint32_t seen)
{
    for (uint32_t i = 0; i < LAC_KV_SIZES_MAX; i++)
        to[i] += blocks * (cost[i] - windowed[i]) + seen * windowed[i];
}

static void share_count(lac_kv_pool *pool, const lac__sequence_tables *s, lac_prefix_share *out)
{
    lac__prefix *prefix = &pool->prefix;
    uint32_t owned = 0, alone = 0, seen_owned = 0, seen_alone = 0; /* nodes */
    /* Users never grow along a chain: from its end, nodes used by nobody else come first, and the
     * first node that an earlier sequence holds ends what this one owns. */
    for (uint32_t n = s->tip; n != LAC__NODE_NONE && prefix->nodes[n].round != prefix->round;
         n = prefix->nodes[n].parent) {
        prefix->nodes[n].round = prefix->round;
        owned++;
        alone += prefix->nodes[n].users == 1;
    }
    /* An earlier one may have passed what this one still sees. */
    for (uint32_t n = s->tip, b = s->shared; pool->window > 0 && b > s->passed;
         b--, n = prefix->nodes[n].parent) {
        lac__node *node = &prefix->nodes[n];
        seen_owned += node->seen_round != prefix->round;
        seen_alone += node->viewers == 1;
        node->seen_round = prefix->round;
    }
    uint32_t own = s->blocks - s->shared;
    uint32_t own_seen = s->blocks - (s->shared > s->passed ? s->shared : s->passed);
    *out = (lac_prefix_share){0};
    pages_add(out->owned, s->cost, s->windowed, own, own_seen);
    pages_add(out->owned, s->node_cost, s->node_windowed, owned, seen_owned);
    pages_add(out->alone, s->cost, s->windowed, own, own_seen);
    pages_add(out->alone, s->node_cost, s->node_windowed, alone, seen_alone);
}

void lac_prefix_shares(lac_kv_pool *pool, const int *sequences, uint32_t count,
                       lac_prefix_share *out)
{
    pool->prefix.round++;
    for (uint32_t i = 0; i < count; i++)
        share_count(pool, lac__sequence_at(pool, sequences[i]), &out[i]);
}
