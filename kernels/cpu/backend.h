/* The CPU backend's insides that its own files share: buffers, the program made of an operation
 * list, and the state of the step that runs. */
#ifndef LAC_KERNELS_BACKEND_H
#define LAC_KERNELS_BACKEND_H

#include "cpu.h"
#include "experts.h"
#include "pool.h"

enum { LAC__PARTIAL_FLOATS = 2 << 20 }; /* room for split attention: 8 MiB */

/* A phase is what runs between two waits. */
typedef enum {
    PHASE_START,       /* a job a row: embedding and RoPE angles */
    PHASE_NORM,        /* a job a row; no jobs where every thread norms for itself */
    PHASE_QKV,         /* a job a head */
    PHASE_ATTENTION,   /* a job an item */
    PHASE_QUANTISE,    /* a job a row; only for head groups that are no whole blocks wide */
    PHASE_PROJECT,     /* a job 32 output rows */
    PHASE_POST_NORM,   /* a job a row; only for models that norm the branch's result */
    PHASE_GATE_UP,     /* a job 32 FFN rows */
    PHASE_HEAD,        /* a job 64 vocabulary rows */
    PHASE_LINEAR_DOWN, /* a job 32 rows of the rank */
    PHASE_LINEAR_UP,   /* a job 32 output rows */
    PHASE_BEFORE,      /* one job: what the ranks before this one have of a result */
    PHASE_SUM,         /* one job: a result over the ranks of a group */
    PHASE_TAP,         /* a job a row; none unless the batch asks for it */
    PHASE_TOP,         /* a job a logit row: its best ones */
    PHASE_RESIDUAL,    /* a job a row; only for results that were summed up, without a post norm */
    /* Of experts.c: */
    PHASE_EXPERTS_NORM,    /* a job a row */
    PHASE_EXPERTS_SCORE,   /* a job 32 experts */
    PHASE_EXPERTS_CHOOSE,  /* a job a row */
    PHASE_EXPERTS_GATE_UP, /* a job an expert and 128 of its FFN rows */
    PHASE_EXPERTS_DOWN     /* a job 32 output rows */
} lac__phase_kind;

typedef struct {
    lac__phase_kind kind;
    const lac_op *op;
    const lac_op *project; /* who reads the result of ATTENTION, GATE_UP */
    uint32_t rope;         /* index of QKV's angles */
    bool quant, floats;    /* forms of activation panel that this phase's result is read in */
    bool shared; /* NORM: never left to each thread, for the next phase writes what it reads */
} lac__phase;

typedef struct {
    lac_rope rope;
    double *frequency; /* [dims/2], scaled and divided by factors */
    float *angles;     /* [rows_max][dims]: cosines, then sines */
} lac__rope_table;

typedef struct {
    uint32_t row0;                 /* packed row of its first query row */
    uint32_t segment, first, rows; /* rows first … first+rows−1 of the segment */
    uint32_t split_first, split_last, splits;
    size_t partial;   /* offset of its partial results, when split_first…split_last is not all */
    uint32_t begin;   /* first split its window leaves */
    uint32_t parts;   /* items this tile was cut into */
    uint32_t counter; /* which count of finished parts they share; UINT32_MAX when whole */
} lac__item;

typedef struct {
    lac__item *items; /* [items_max], largest first */
    uint32_t count;
    const lac_op *made_for; /* the operation these were made for in this step; NULL = none */
} lac__items;

enum {
    LAC__REFINED = 16, /* best logits of a row that are computed once more */
    LAC__TOP_MAX = LAC_TOP_LOGITS_MAX + LAC__REFINED
};

/* The best logits of a row that a thread has seen. (top.c) */
typedef struct {
    uint32_t count;
    lac_top_logit list[LAC__TOP_MAX];
} lac__top;

/* One thread's own memory. */
typedef struct {
    lac__panel panel; /* normed rows when every thread norms for itself */
    float *row;       /* [max width]: one row being normed, embedded, quantised */
    float *tile;      /* [16][max slice]: results of a product */
    float *tile2;     /* the same: up beside gate */
    float *attention; /* attention scratch */
    lac__items items;
    float *weights; /* [hidden]: one row of weights as floats */
    lac__top *top;  /* [logit_rows_max] */
    lac__experts_local experts;
    bool odd; /* saw something not finite */
} lac__local;

/* Where packed weights lie. */
typedef struct {
    lac__chunk *first; /* the one that is being filled, then older ones */
} lac__arena;

struct lac_backend {
    lac_backend_options options;
    const lac__kernels *kernels;
    lac__pool *pool;
    uint32_t threads;
    lac__arena arena;
    /* program */
    const lac_op *ops;
    size_t ops_count;
    lac__phase *phases;
    uint32_t phases_count;
    lac__rope_table ropes[LAC__ROPES_MAX];
    uint32_t ropes_count;
    /* shared buffers, rows_max wide */
    float *h;               /* [rows][hidden] */
    float *q;               /* [rows][q_width] */
    float *attended;        /* [rows][q_width] */
    float *branch;          /* [rows][hidden]: a result before its post norm */
    float *ones;            /* [hidden]: the norm weight of patches */
    lac__panel normed;      /* normed rows, when they are shared out */
    lac__panel inner;       /* attention's or gate-up's result */
    float *partial;         /* split attention */
    _Atomic uint32_t *left; /* [items_max]: finished parts of a tile and KV head */
    uint32_t items_max;
    lac__experts experts;
    lac__local *locals;
    /* step */
    lac_batch *batch;
    lac_status sum_status; /* the first failure of a sum over ranks */
    uint32_t *row_segment; /* [rows]: segment of a row */
};

/* Makes the phases of a list of operations; checks shapes. (program.c) */
lac_status lac__program_make(lac_backend *be, const lac_op *ops, size_t count, lac_error *err);
void lac__program_free(lac_backend *be);

/* Writes the key or value of token t of a block to its head's part of the page. (kv.c) */
void lac__kv_write(const lac_backend *be, uint8_t *head, uint32_t t, uint32_t dim, bool is_v,
                   const float *x);

/* Takes the logits of tokens first … first+n−1 for a row, of which `largest` is the largest; then
 * the i-th logit row's best out of all threads' lists. (top.c) */
void lac__top_take(lac__top *top, const lac_logit_row *row, uint32_t first, const float *x,
                   uint32_t n, float largest);
void lac__top_finish(lac_backend *be, const lac__phase *ph, lac__local *l, uint32_t i);

/* Builds the attention items of one operation for the running step. (items.c) */
void lac__items_build(lac_backend *be, lac__items *out, const lac_op *op);

/* Experts (experts.c): shapes of an operation; memory for all of them, before the first step; jobs
 * of a phase, and one of them. */
lac_status lac__experts_check(const lac_backend *be, const lac_op *op, size_t at, lac_error *err);
lac_status lac__experts_make(lac_backend *be, const lac_op *ops, size_t count, lac_error *err);
void lac__experts_free(lac_backend *be);
uint32_t lac__experts_jobs(const lac_backend *be, const lac__phase *ph, lac__local *l);
void lac__experts_job(lac_backend *be, const lac__phase *ph, lac__local *l, uint32_t job);

/* Zeroed, in huge pages from 2 MiB on; NULL when there is no memory. (memory.c) */
void *lac__big_alloc(size_t bytes);
void lac__big_free(void *p, size_t bytes);
/* Zeroed, by cache lines, beside what was asked for before; *chunk goes back with it. */
void *lac__arena_alloc(lac__arena *arena, size_t bytes, lac__chunk **chunk);
void lac__arena_free(lac__arena *arena, lac__chunk *chunk, void *p, size_t bytes);

/* Runs the program over a checked batch. (run.c) */
lac_status lac__run(lac_backend *be, lac_batch *batch, lac_error *err);

/* Widest result that one product hands to the next: of attention, of gate and up, of a patch. */
static inline uint32_t lac__inner_max(const lac_backend_options *o)
{
    uint32_t inner = o->q_width_max > o->ffn_max ? o->q_width_max : o->ffn_max;
    return inner > o->hidden ? inner : o->hidden;
}

/* ---- rows of a unit ---- */

typedef struct {
    uint32_t count;
    const uint32_t *rows; /* NULL: all of them in order */
} lac__rows;

static inline lac__rows lac__unit_rows(const lac_batch *batch, const lac_op *op)
{
    bool patch = op->kind == LAC_OP_PATCH;
    if (patch && !batch->patch_rows)
        return (lac__rows){0, NULL};
    if (!patch && (!batch->unit_rows || op->kind == LAC_OP_EMBED || op->kind == LAC_OP_HEAD ||
                   op->kind == LAC_OP_TAP))
        return (lac__rows){batch->rows, NULL};
    const lac_row_list *list = &(patch ? batch->patch_rows : batch->unit_rows)[op->unit];
    return (lac__rows){list->count, list->rows};
}

static inline uint32_t lac__row_at(lac__rows rows, uint32_t i)
{
    return rows.rows ? rows.rows[i] : i;
}

/* Results of which each rank adds its share to those of the ranks before it; this one has some
 * before it. */
static inline bool lac__chains(const lac_op *op)
{
    const lac_reducer *sum = op->u.project.sum;
    return sum && sum->whole && lac__type_quantised(op->u.project.weight->type);
}
static inline bool lac__goes_on(const lac_op *op)
{
    return lac__chains(op) && op->u.project.sum->before;
}

#endif
