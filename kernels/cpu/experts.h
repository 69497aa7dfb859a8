/* Routed experts: an FFN of which each row runs only the few that a router picks for it. Five
 * phases of their own: norm, router, choice, gate and up, down. Shared by program.c, run.c,
 * experts.c. */
#ifndef LAC_KERNELS_EXPERTS_H
#define LAC_KERNELS_EXPERTS_H

#include "cpu.h"

/* What all threads see of the operation that runs. A pair is one packed row and one of its experts;
 * pairs are ordered by expert, then by row, so that an expert's rows lie together. */
typedef struct {
    float *scores;    /* [rows_max][experts]: router results, then probabilities */
    uint32_t *chosen; /* [rows_max][used]: ascending experts of a row */
    float *weight;    /* [rows_max][used]: what their results are multiplied by */
    lac__panel inner; /* [pairs][ffn]: act(gate) × up, tiles within an expert */
    size_t pairs_max;
    uint32_t experts_max, used_max, ffn_max; /* largest of all operations; 0 = there are none */
} lac__experts;

/* One thread's order of the pairs, and the rows of one tile put side by side. */
typedef struct {
    const lac_op *made_for; /* NULL = not made in this step */
    uint32_t *first;        /* [experts + 1]: first pair of each expert */
    uint32_t *active;       /* [experts]: those with a pair, ascending */
    uint32_t active_count;
    uint32_t *row, *place; /* [pairs]: packed row; index into chosen and weight */
    lac__panel tile;       /* [16][hidden] */
    uint32_t gathered;     /* first pair of what `tile` holds; UINT32_MAX = nothing */
} lac__experts_local;

#endif
