/* The scheduler: which rows of which sequences the next step runs. Pure: plain structs in, plain
 * structs out, no clock, no memory, no pages of its own; the same input gives the same order.
 *
 * Rules: decodes first, oldest first, with draft rows where pages are free for them and nobody was
 * preempted; then prefill chunks within a row budget that follows measured
 * cost and the ITL target, a chunk of up to a second when nothing decodes; waiting sequences are admitted
 * first come first served. When pages run out the youngest sequence is preempted: it keeps its
 * tokens, gives its pages back, and is prefilled again later (as far as no cache has kept them). An older sequence never waits for a
 * younger one that cannot move, so the oldest always gains a row and no request is lost. */
#ifndef LAC_SCHED_H
#define LAC_SCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"

/* ---- life of a sequence ---- */

typedef enum {
    LAC_SEQUENCE_WAITING, /* holds no pages: new, or preempted */
    LAC_SEQUENCE_PREFILL, /* tokens are known whose keys and values are not computed */
    LAC_SEQUENCE_DECODE,  /* all but the newest token computed */
    LAC_SEQUENCE_GONE,
    LAC_SEQUENCE_STATES
} lac_sequence_state;

typedef enum {
    LAC_SEQUENCE_ADMIT,     /* its first rows are in the step */
    LAC_SEQUENCE_PREFILLED, /* a token followed from its last known one */
    LAC_SEQUENCE_PREEMPT,   /* its pages were taken */
    LAC_SEQUENCE_FINISH,    /* finished, cancelled or failed */
    LAC_SEQUENCE_EVENTS
} lac_sequence_event;

/* The next state; asserts that the move is in the table. */
lac_sequence_state lac_sched_next(lac_sequence_state state, lac_sequence_event event);
const char *lac_sched_state_name(lac_sequence_state state);

/* ---- one step's order ---- */

typedef struct {
    lac_sequence_state state;        /* not GONE */
    uint32_t tokens;                 /* known: prompt and output */
    uint32_t computed;               /* of them have keys and values; < tokens. While WAITING: whole
                                        blocks that the prefix cache will give it */
    uint32_t blocks;                 /* blocks it holds pages for, or will from the cache */
    /* Pages of each size. Blocks may be shared, and some hold more units than its next one will. When
     * preempted it gives back `owned` (what no older sequence holds) once all younger ones are
     * preempted, and at any time `alone` (what no other sequence holds). While WAITING `alone` are
     * those of `blocks` that still count as free. */
    uint32_t owned[LAC_KV_SIZES_MAX], alone[LAC_KV_SIZES_MAX];
    uint32_t draft; /* DECODE: extra rows it would run for tokens that are only guessed */
    uint32_t cost[LAC_KV_SIZES_MAX]; /* pages of each size that one block takes */
    /* Of `cost` those of units that give pages back behind them, and the leading blocks that they have
     * none for any more. */
    uint32_t windowed[LAC_KV_SIZES_MAX];
    uint32_t passed;
} lac_sched_sequence;

typedef struct {
    uint32_t slots;        /* sequences that may be past WAITING at once */
    uint32_t rows_max;     /* rows of a step; ≥ slots, so that every decode has its row */
    uint32_t block_tokens; /* tokens a page holds */
    uint32_t window_blocks; /* that windowed units hold as they move on a block at a time; 0 = none are */
    uint32_t pages_free[LAC_KV_SIZES_MAX];
    double decode_us;     /* measured: a step of decodes alone; 0 = not yet */
    double row_us;        /* measured: one more prompt row; 0 = not yet */
    double itl_target_us; /* a step with decodes in it should not take longer */
} lac_sched_budget;

typedef struct {
    uint32_t sequence; /* index into the input */
    uint32_t rows;     /* its next tokens: computed … computed+rows−1, drafts after the known ones */
} lac_sched_run;

/* Arrays are the caller's, each with room for `count` entries. Preempted sequences release their
 * pages before the runs reserve theirs; none is in both lists. */
typedef struct {
    uint32_t runs_count, preempted_count;
    uint32_t rows, decodes; /* in all; and runs of sequences in DECODE */
    uint32_t drafts;        /* rows of them beyond the first */
    lac_sched_run *runs;
    uint32_t *preempted;
} lac_sched_order;

/* `sequences` are in order of arrival, oldest first; a preempted one keeps its place. Every
 * sequence fits the pool alone (checked when it was taken in), else LAC_ASSERT. Gives at least one
 * row when there is at least one sequence. */
void lac_sched_decide(const lac_sched_sequence *sequences, uint32_t count,
                      const lac_sched_budget *budget, lac_sched_order *order);

/* Rows of prompt that a step with `decodes` rows of decodes, drafts included, may carry. */
uint32_t lac_sched_prefill_rows(const lac_sched_budget *budget, uint32_t decodes);

/* ---- measured cost ---- */

typedef struct {
    double decode_us; /* smoothed time of steps without prompt rows */
    double row_us;    /* smoothed extra time of a prompt row */
} lac_sched_cost;

/* Takes one step's time into the smoothed costs. */
void lac_sched_cost_add(lac_sched_cost *cost, uint32_t decodes, uint32_t prefill_rows, double us);

#endif
