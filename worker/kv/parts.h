/* What a pool consists of, for the files of worker/kv. */
#ifndef LAC_KV_PARTS_H
#define LAC_KV_PARTS_H

#include "base/digest.h"
#include "kv/pool.h"

#define LAC__NODE_NONE UINT32_MAX

typedef struct {
    uint32_t count; /* pages of this size */
    uint32_t free_count;
    uint32_t cached; /* of nodes, without a user or seen by none: free as soon as somebody asks */
    uint32_t *free;  /* [count] a stack: the page given back last goes out first, still in cache */
    uint32_t *holders; /* [count] tables and nodes that name the page; 0 = on the free list */
} lac__page_list;

typedef struct {
    bool open;
    uint32_t blocks;
    uint32_t shared; /* leading blocks of it that are nodes of the prefix cache */
    uint32_t passed; /* leading blocks that windowed units have no pages for any more */
    uint32_t tip;    /* node of block shared − 1 */
    uint32_t cost[LAC_KV_SIZES_MAX];     /* pages of each size a block takes */
    uint32_t windowed[LAC_KV_SIZES_MAX]; /* of them those of windowed units */
    uint32_t node_cost[LAC_KV_SIZES_MAX], node_windowed[LAC_KV_SIZES_MAX]; /* of a shared block */
    bool narrowed;    /* owns fewer units than it was opened with */
    bool *kept;       /* [units_count] */
    uint32_t *tables; /* [units_count][stride] */
} lac__sequence_tables;

/* One block of tokens after one chain of blocks. Its pages have the cache as a holder. */
typedef struct {
    uint32_t parent;       /* node of the block before, LAC__NODE_NONE for the first */
    uint32_t next;         /* in its bucket, or among the unused nodes */
    uint32_t older, newer; /* in the list of idle or of passed nodes */
    uint32_t users;        /* sequences whose chain it is part of */
    uint32_t viewers;      /* of them those that have not passed it */
    bool whole;            /* has its windowed pages; never without while somebody sees them */
    uint32_t children;
    uint64_t round, seen_round; /* of the last count of shares that came by */
    lac_digest key;
} lac__node;

/* Least recently used first. */
typedef struct {
    uint32_t oldest, newest;
} lac__node_list;

/* A sequence that uses a node uses its parent too, and on leaving puts the last block first; so
 * among the idle a node comes before its parent, and the oldest has no children. */
typedef struct {
    uint32_t nodes_max, unused;
    lac__node_list idle;   /* without a user */
    lac__node_list passed; /* with users, none of which sees the windowed pages that it has */
    uint32_t buckets_mask;
    uint64_t seed, round;
    uint32_t *buckets;
    lac__node *nodes;
    uint32_t *tokens; /* [nodes_max][block_tokens] */
    uint32_t *pages;  /* [nodes_max][units_count] */
} lac__prefix;

struct lac_kv_pool {
    uint32_t block_tokens, context_max;
    uint32_t units_count, sizes_count, sequences_max;
    uint32_t stride; /* blocks a full context takes */
    uint32_t window; /* 0: no unit is windowed */
    bool *windowed;  /* [units_count] */
    uint32_t *size_of;
    lac__page_list lists[LAC_KV_SIZES_MAX];
    lac__sequence_tables *sequences;
    /* One allocation each for all sequences: untouched parts cost address space only. */
    bool *kept;
    uint32_t *tables;
    lac__prefix prefix; /* nodes_max 0: there is none */
};

/* An open sequence's tables. */
lac__sequence_tables *lac__sequence_at(const lac_kv_pool *pool, int sequence);
/* Takes one holder away; the page is free after the last. */
void lac__page_give(lac__page_list *list, uint32_t page);
/* First block that a query at position `tokens`, or a later one, sees through the window. */
uint32_t lac__first_seen(const lac_kv_pool *pool, uint32_t tokens);
/* Windowed units need no block before `to` any more. */
void lac__window_pass(lac_kv_pool *pool, lac__sequence_tables *sequence, uint32_t to);

bool lac__prefix_create(lac_kv_pool *pool, uint32_t nodes_max, uint64_t seed);
void lac__prefix_destroy(lac_kv_pool *pool);
/* Ends the sequence's use of its chain; its tables still hold the pages. */
void lac__prefix_leave(lac_kv_pool *pool, lac__sequence_tables *sequence);
/* Its nodes before block `to` are not seen by it any more. */
void lac__prefix_pass(lac_kv_pool *pool, const lac__sequence_tables *sequence, uint32_t to);
/* Frees windowed pages that nobody sees, or when there are none the least recently used node
 * without a user; there must be one of both. */
void lac__prefix_evict(lac_kv_pool *pool);

#endif
