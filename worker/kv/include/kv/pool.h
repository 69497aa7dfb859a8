/* The KV pool: a fixed set of pages and the block tables of the sequences that hold them. A page is
 * one attention unit's keys and values for LAC_KV_BLOCK tokens; the pool deals in page numbers and
 * never sees the memory behind them. Knows no backend, no scheduler. One thread owns a
 * pool; nothing is allocated after create. */
#ifndef LAC_KV_POOL_H
#define LAC_KV_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/status.h"

typedef struct lac_kv_pool lac_kv_pool;

enum {
    LAC_KV_SEQUENCE_NONE = -1,
};
#define LAC_KV_PAGE_NONE UINT32_MAX

/* Attention units whose pages have the same number of bytes share a free list ("size"), and page
 * numbers count within it: page p of a unit lies at region(size of the unit) + p × page bytes. */
typedef struct {
    uint32_t block_tokens;            /* tokens a page holds */
    uint32_t context_max;             /* tokens one sequence can reach */
    uint32_t sequences_max;           /* sequences that may hold pages at once */
    uint32_t units_count;             /* attention units of the model */
    const uint32_t *size_of;          /* [units_count] each unit's size, < sizes_count; copied */
    uint32_t sizes_count;             /* 1 … LAC_KV_SIZES_MAX */
    uint32_t pages[LAC_KV_SIZES_MAX]; /* pages of each size */
    /* Units whose queries look at their own and the window − 1 positions before it only:
     * [units_count], NULL = none; copied. Units of shorter windows count as of the longest. */
    const bool *windowed;
    uint32_t window;
    uint32_t prefix_blocks; /* blocks the prefix cache may know, 0 = none (kv/prefix.h) */
    uint64_t prefix_seed;   /* of its hash table; random where strangers send texts */
} lac_kv_options;

/* LAC_EINVAL names the field, LAC_ENOMEM when the tables do not fit. */
lac_status lac_kv_create(const lac_kv_options *options, lac_kv_pool **out, lac_error *err);
void lac_kv_destroy(lac_kv_pool **pool);

/* A new sequence without pages: its number, or LAC_KV_SEQUENCE_NONE when sequences_max are open.
 * `kept` [units_count] says which units it will own pages for; NULL means all. */
int lac_kv_open(lac_kv_pool *pool, const bool *kept);
/* Gives back everything the sequence holds and forgets it. */
void lac_kv_close(lac_kv_pool *pool, int sequence);

/* Makes sure that every kept unit has pages for positions 0 … tokens−1, windowed ones for those not
 * passed. All or nothing: false leaves the pool as it was. Never gives pages back. `tokens` ≤
 * context_max. */
bool lac_kv_reserve(lac_kv_pool *pool, int sequence, uint32_t tokens);
/* From here on the sequence owns pages only for these units, each of which it owned before: their
 * keys and values are never read or written again, and what is not owned never comes back. Gives
 * back the pages of the others but in blocks that the prefix cache shares, which stay until the
 * sequence ends and cannot be taken or offered any more. Returns the number of those blocks. */
uint32_t lac_kv_narrow(lac_kv_pool *pool, int sequence, const bool *kept);
/* No query before position `tokens` comes any more: windowed units give back the pages that no
 * later one sees. Shared ones stay findable until somebody needs the room. */
void lac_kv_pass(lac_kv_pool *pool, int sequence, uint32_t tokens);
/* Gives back the pages beyond positions 0 … tokens−1 that are the sequence's own. */
void lac_kv_trim(lac_kv_pool *pool, int sequence, uint32_t tokens);
/* Gives back all pages, keeps the sequence open: what preemption does. */
void lac_kv_release(lac_kv_pool *pool, int sequence);

/* The block tables of a sequence: the page of block b of unit u is tables[u × stride + b], defined
 * for b < lac_kv_blocks; LAC_KV_PAGE_NONE in the rows of units it does not keep, and in the first
 * lac_kv_passed blocks of windowed ones. The pointer lives until the sequence is closed. */
const uint32_t *lac_kv_tables(const lac_kv_pool *pool, int sequence);
uint32_t lac_kv_table_stride(const lac_kv_pool *pool);
uint32_t lac_kv_blocks(const lac_kv_pool *pool, int sequence); /* blocks it holds pages for */

uint32_t lac_kv_passed(const lac_kv_pool *pool, int sequence);
/* Pages of each size that the sequence holds, shared ones too. */
void lac_kv_held(const lac_kv_pool *pool, int sequence, uint32_t held[LAC_KV_SIZES_MAX]);

/* Pages of each size that one block of a sequence with these kept units costs; of them those of
 * windowed units. */
void lac_kv_block_cost(const lac_kv_pool *pool, const bool *kept, uint32_t cost[LAC_KV_SIZES_MAX],
                       uint32_t windowed[LAC_KV_SIZES_MAX]);
/* Blocks that a windowed unit holds at most when a sequence moves on a block at a time, passing; 0
 * when no unit is windowed. */
uint32_t lac_kv_window_blocks(const lac_kv_pool *pool);
/* Tokens that a sequence with these kept units can reach when it has the pool to itself and moves
 * on a block at a time. */
uint32_t lac_kv_tokens_max(const lac_kv_pool *pool, const bool *kept);

/* Pages that a sequence can have: those that nobody holds, and those that only the prefix cache
 * does or whose holders have all passed them. */
uint32_t lac_kv_free_count(const lac_kv_pool *pool, uint32_t size);
uint64_t lac_kv_pages_count(const lac_kv_pool *pool);  /* of all sizes */
uint64_t lac_kv_used_count(const lac_kv_pool *pool);   /* sequences hold them */
uint64_t lac_kv_cached_count(const lac_kv_pool *pool); /* only the prefix cache holds them */

#endif
