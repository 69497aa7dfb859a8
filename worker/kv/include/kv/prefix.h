/* The prefix cache: pages of a pool that outlive their sequence, found again by what they hold. A
 * tree of blocks: a node is one block of tokens after one chain of blocks under one key, and names
 * the pages that hold its keys and values, one for each kept unit. Sequences share a node's pages
 * and nobody writes them: a sequence's own rows begin after its shared blocks.
 *
 * Rules. Only whole blocks; a tail is computed again. Key, chain and every token are compared, a
 * hash only finds the place, so no two texts are ever mixed up. A key says all that decides the
 * bits (what the tokens were computed as) and who may share them (the salt); it implies which units
 * are kept. Pages of nodes that no sequence uses count as free and are given up, least recently
 * used first, when the free list runs short.
 *
 * Windows. A sequence uses all its blocks but sees, through its windowed units, the last ones only.
 * Windowed pages that none of a node's users sees count as free too and go before all others: the
 * node stays, as a link to what comes after it. A text is found up to the last place from which all
 * that its window shows is still there.
 *
 * The same thread as the pool's. Must not know what a key is made of. */
#ifndef LAC_KV_PREFIX_H
#define LAC_KV_PREFIX_H

#include "base/digest.h"
#include "kv/pool.h"

/* What a new user would find and take. */
typedef struct {
    uint32_t blocks; /* whole blocks at the start of the tokens that it can go on from */
    uint32_t passed; /* of them, at the start, those it would not see through a window */
    uint32_t idle;   /* of all those that no sequence uses: their pages leave the free ones, */
    uint32_t unseen; /* and windowed pages of so many of those that it would see */
} lac_prefix_found;
/* Looks for tokens[0 … count); nothing is found without a cache. */
lac_prefix_found lac_prefix_find(const lac_kv_pool *pool, const lac_digest *key,
                                 const uint32_t *tokens, uint32_t count);

/* Continues the sequence's shared blocks as far as the cache has whole blocks of tokens[0 … count),
 * in place of pages of its own where it has some, and passes what it will not see from there.
 * Returns its shared tokens: their keys and values are there. `tokens` must be the sequence's own
 * from position 0, the key always the same. */
uint32_t lac_prefix_take(lac_kv_pool *pool, int sequence, const lac_digest *key,
                         const uint32_t *tokens, uint32_t count);

/* The sequence has computed tokens[0 … count): its whole blocks become shared. A block that the
 * cache had already replaces the sequence's own, which gives it the windowed pages that it lacks.
 * When the table of nodes is full and all are in use, the rest stays the sequence's own. */
void lac_prefix_offer(lac_kv_pool *pool, int sequence, const lac_digest *key,
                      const uint32_t *tokens, uint32_t count);

/* Pages of each size that giving back a sequence's would free. */
typedef struct {
    uint32_t
        owned[LAC_KV_SIZES_MAX]; /* none of the sequences before it in the list has a use for */
    uint32_t alone[LAC_KV_SIZES_MAX]; /* no other sequence has */
} lac_prefix_share;
/* Of `count` open sequences, all there are, in the order that matters to the caller. Time grows
 * with the blocks they hold. */
void lac_prefix_shares(lac_kv_pool *pool, const int *sequences, uint32_t count,
                       lac_prefix_share *out);

/* Gives up every node that no sequence uses. */
void lac_prefix_clear(lac_kv_pool *pool);

#endif
