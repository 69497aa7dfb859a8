/* The arithmetic of one forward step, behind one table of functions a backend.
 *
 * A backend owns a device (CPU threads, or a GPU), its packed weights and its scratch memory. The
 * engine builds at load a flat list of operations, a few of them a unit, and runs it once a step over
 * a batch of rows. Nothing is allocated, logged or decided inside a step. One thread (the engine's)
 * calls a backend; CPU backends add their own worker threads behind the call.
 *
 * Determinism, CPU: for the same operation and row the bits do not depend on the instruction set
 * (except LAC_ISA_REFERENCE), the number of threads, the other rows of the batch, or whether the row
 * came in a prefill chunk or a decode step. DESIGN of the sums: kernels/README.md. */
#ifndef LAC_KERNELS_H
#define LAC_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/tensor.h"

enum {
    LAC_KV_BLOCK = 32,      /* tokens a KV page */
    LAC_BATCH_ROWS_MAX = 512, /* rows of one step */
    LAC_TOP_LOGITS_MAX = 64   /* best logits that a row may ask for */
};

typedef struct lac_backend lac_backend;
typedef struct lac_weight lac_weight; /* a packed matrix [rows out][cols in], or a vector */

typedef enum {
    LAC_ISA_AUTO,
    LAC_ISA_REFERENCE, /* scalar, float32 activations, weights dequantised: the yardstick of quality */
    LAC_ISA_SCALAR,    /* scalar, quantised activations: the truth the fast ones equal bit for bit */
    LAC_ISA_AVX2,
    LAC_ISA_AVXVNNI, /* AVX2 with VNNI at 256 bits, in whichever encoding the processor has */
    LAC_ISA_AVX512     /* AVX-512 F/BW/VL/VNNI */
} lac_isa;

/* How keys and values are kept. Q8: signed bytes, with a half-precision scale for every 32 dimensions
 * of a head of a token. */
typedef enum { LAC_KV_F16, LAC_KV_F32, LAC_KV_Q8 } lac_kv_type;
const char *lac_kv_type_name(lac_kv_type type); /* "f16", "f32", "q8" */
bool lac_kv_type_parse(const char *name, lac_kv_type *out);

/* Shape limits a backend sizes its scratch for; all set by the engine from the model facts. */
typedef struct {
    lac_isa isa;
    uint32_t threads;      /* ≥ 1, the calling thread included; 0 = cores this process may use */
    bool pin;              /* bind thread i to the i-th allowed core */
    lac_kv_type kv_type;
    uint32_t rows_max;     /* ≤ LAC_BATCH_ROWS_MAX */
    uint32_t logit_rows_max;
    uint32_t hidden;       /* width of the residual stream */
    uint32_t q_width_max;  /* heads × head_dim, largest of all layers */
    uint32_t kv_width_max; /* KV heads × head_dim, largest of all layers */
    uint32_t ffn_max;      /* FFN width, largest of all layers */
    uint32_t vocab;
    uint32_t context_max;
    uint32_t device; /* CUDA: number of the device */
} lac_backend_options;

/* ---- operations ---- */

typedef enum { LAC_ROPE_NONE, LAC_ROPE_PAIRS /* (2i, 2i+1) */, LAC_ROPE_HALVES /* (i, i+n/2) */ } lac_rope_style;

typedef struct {
    lac_rope_style style;
    uint32_t dims;        /* rotated dimensions of a head, even */
    float base;           /* theta */
    float scale;          /* position multiplier: 1, or 1/factor for linear scaling */
    const float *factors; /* dims/2 frequency divisors (Llama 3, YaRN tables), or NULL */
    float magnitude;      /* multiplies cos and sin: 1, or YaRN's attention factor */
} lac_rope;

/* Where a unit's keys and values live: page p of this unit is at region + p × page_bytes. A page is,
 * for each KV head in turn, K as [LAC_KV_BLOCK/8][head_dim][8 tokens] then V as
 * [LAC_KV_BLOCK][head_dim], in the backend's KV type; for Q8 then the scales of K and those of V, each
 * as [head_dim/32 rounded up][LAC_KV_BLOCK]. */
typedef struct {
    void *region;
    size_t page_bytes;
    uint32_t table; /* which row of a segment's page tables is this unit's */
} lac_kv_view;

typedef enum { LAC_ACT_SILU, LAC_ACT_GELU_TANH } lac_activation;

/* Adds a result up over the ranks that each hold a share of it: x[count] becomes the sum, equal on
 * all of them. Called by one thread of the backend, not always the same, while the others wait. */
typedef struct {
    void *arg;
    lac_status (*sum)(void *arg, float *x, size_t count);
    /* The same for products of quantised weights, whose blocks are added one after the other: each
     * rank goes on from where the one before it stopped, so that the bits are those of one rank.
     * `before` gives what the ranks before have (NULL: this is the first); `whole` passes on what
     * is there with this rank's share, and gives the end of it. NULL: sum is used. */
    lac_status (*before)(void *arg, float *x, size_t count);
    lac_status (*whole)(void *arg, float *x, size_t count);
} lac_reducer;

typedef enum {
    LAC_OP_EMBED,     /* h[row] = scale × table[token] */
    LAC_OP_QKV,       /* q,k,v = W·norm(h) (+bias, +head norms), RoPE, K and V to their pages */
    LAC_OP_ATTENTION, /* softmax(q·K × scale)·V over positions 0…p (or the last `window`) */
    LAC_OP_PROJECT,   /* h += postnorm(W·x + bias); x = attention's or gate-up's result */
    LAC_OP_GATE_UP,   /* x = act(Wg·norm(h)) × (Wu·norm(h)) */
    LAC_OP_HEAD,      /* logits = W·norm(h) for the rows that want them */
    LAC_OP_PATCH,     /* h += up·down·n, n = h / rms(h), for the rows of lac_batch.patch_rows */
    LAC_OP_LINEAR,    /* h += up·norm(h): a unit that looks at no other position */
    LAC_OP_TAP,       /* copies h to lac_batch.tap where that is wanted, all rows; changes nothing */
    LAC_OP_EXPERTS    /* h += Σ weight·Wd·(act(Wg·n) × (Wu·n)), n = norm(h), over the experts that the
                         router picks for the row: a whole FFN unit, no projection follows */
} lac_op_kind;

/* One expert of an FFN; all experts of an FFN have the same shapes and types. */
typedef struct {
    const lac_weight *gate, *up; /* [ffn][hidden] */
    const lac_weight *down;      /* [hidden][ffn] */
} lac_expert_weights;

typedef struct {
    lac_op_kind kind;
    uint32_t unit; /* index into lac_batch.unit_rows, PATCH: into patch_rows; EMBED and HEAD run all
                      rows */
    union {
        struct {
            const lac_weight *table;
            float scale;
            uint32_t first;         /* the token of its first row; others embed as zeros, */
            const lac_reducer *sum; /* and this adds up over the ranks. NULL: it has them all */
        } embed;
        struct {
            const lac_weight *norm; /* RMSNorm weight [hidden] */
            float eps;
            const lac_weight *q, *k, *v;                /* [heads×head_dim][hidden], … */
            const lac_weight *q_bias, *k_bias, *v_bias; /* or NULL */
            const lac_weight *q_norm, *k_norm;          /* per-head RMSNorm [head_dim], or NULL */
            uint32_t heads, kv_heads, head_dim;
            lac_rope rope;
            lac_kv_view kv;
        } qkv;
        struct {
            uint32_t heads, kv_heads, head_dim;
            float scale;
            float softcap;   /* 0 = none */
            uint32_t window; /* 0 = all positions */
            lac_kv_view kv;
        } attention;
        struct {
            const lac_weight *weight;
            const lac_weight *bias;      /* or NULL */
            const lac_weight *post_norm; /* RMSNorm over the branch's result, or NULL */
            float eps;
            const lac_reducer *sum; /* before norm and residual; NULL: the result is whole */
        } project;
        struct {
            const lac_weight *norm;
            float eps;
            const lac_weight *gate, *up;
            lac_activation act;
        } gate_up;
        struct {
            const lac_weight *norm;
            float eps;
            const lac_weight *weight;
            float softcap; /* 0 = none */
        } head;
        struct {
            const lac_weight *norm; /* RMSNorm weight [hidden]; NULL = ones */
            float eps;
            const lac_weight *down; /* [rank][hidden], rank ≥ 2; NULL: none, up is [hidden][hidden] */
            const lac_weight *up;   /* [hidden][rank] */
            uint32_t stands_for; /* PATCH: the unit whose place it takes; only people read it */
        } linear; /* PATCH and LINEAR; with down, both of a type that is not quantised */
        struct {
            const lac_weight *norm;
            float eps;
            const lac_weight *router; /* [count][hidden] */
            const lac_expert_weights *expert; /* [count], kept by the caller */
            uint32_t count, used;             /* a row runs the `used` most probable */
            bool normalise;                   /* their probabilities are made to sum to 1 */
            float scale;                      /* multiplies them */
            lac_activation act;
        } experts;
    } u;
} lac_op;

/* ---- one step's input ---- */

/* Consecutive rows of one sequence: rows row … row+rows−1 at positions pos, pos+1, … The pages of
 * block b of the unit with table t are tables[t × table_stride + b]. Pages exist for every position
 * that its rows write or see. Segments cover all rows in order. */
typedef struct {
    uint32_t row, rows;
    uint32_t pos;
    const uint32_t *tables;
    uint32_t table_stride;
} lac_segment;

typedef struct {
    uint32_t count;
    const uint32_t *rows; /* ascending row numbers */
} lac_row_list;

typedef struct {
    uint32_t token;
    float logit;
} lac_top_logit;

/* How a backend that can draws a token itself: top-k, then top-p, then min-p, then the token at
 * `unit` of what is left, in order of ids. */
typedef struct {
    double unit;             /* in [0, 1): lac_rng_draw() of seed, choice and position */
    float temperature;       /* 0: the best token */
    float top_p, min_p;      /* 1 and 0: off */
    uint32_t top_k;          /* 0: off */
} lac_sample;

/* One row whose next-token distribution is wanted. */
typedef struct {
    uint32_t row;
    float *logits;            /* out: [vocab], or NULL when they are not wanted as a whole */
    const lac_sample *sample; /* NULL: the best token. CUDA alone; the CPU backend ignores it */
    uint32_t best_token;      /* out: lowest id among equals; CUDA, with `sample`: the token drawn */
    float best_logit;         /* out: the largest */
    /* The best so many, up to LAC_TOP_LOGITS_MAX and the vocabulary; 0 = not wanted. out: descending,
     * equal ones by id. */
    uint32_t top_count;
    lac_top_logit *top;
} lac_logit_row;

/* When an operation ran, by the monotonic clock of the calling thread, and over how many rows.
 * rows 0: it did not run at all. */
typedef struct {
    uint64_t begin_ns, end_ns;
    uint32_t rows;
} lac_op_time;

typedef struct {
    uint32_t rows;
    const uint32_t *tokens; /* [rows], < vocab */
    uint32_t segments_count;
    const lac_segment *segments;
    uint32_t logit_rows_count;
    lac_logit_row *logit_rows;
    /* NULL: every unit runs every row. Else one list a unit: the rows that run it; a unit whose list
     * is empty is not touched at all. Row lists never split a position order: for each segment the
     * listed rows are all of its rows or none. */
    const lac_row_list *unit_rows;
    /* One list a number that a PATCH names; NULL: no row runs any. */
    const lac_row_list *patch_rows;
    /* For work on parts of a program, [rows][hidden] each, or NULL: what the residual stream starts
     * with where the list has no EMBED, and out: what it is after the last operation. */
    const float *residual_in;
    float *residual_out;
    float *tap; /* NULL, or out: [rows][hidden] the residual stream where the list has its TAP */
    lac_op_time *times; /* NULL, or out: one for each operation of the list */
} lac_batch;

/* ---- the table ---- */

typedef struct lac_backend_ops {
    const char *name; /* "cpu", "cuda" */
    lac_status (*create)(const lac_backend_options *options, lac_backend **out, lac_error *err);
    void (*destroy)(lac_backend **backend);
    /* What was chosen: "avx2", "avx512", "scalar", "reference". */
    const char *(*isa)(const lac_backend *backend);
    uint32_t (*threads)(const lac_backend *backend);

    /* Packs a matrix from the file's own layout (rows of `cols` weights, row after row) into the
     * backend's. The source may be unmapped afterwards. Vectors are rows = 1 and end as float32.
     * LAC_EUNSUPPORTED for a type, LAC_EINVAL for a shape the layout cannot hold, LAC_ENOMEM. */
    lac_status (*weight_pack)(lac_backend *backend, lac_type type, uint32_t rows, uint32_t cols,
                              const void *source, lac_weight **out, lac_error *err);
    /* The same in parts, so that the source need not be there as a whole: memory for all of it, then
     * rows row_first … row_first+rows−1 of its type, in any order and each once. row_first is a multiple
     * of 8, rows too but at the end; a vector comes in one piece. */
    lac_status (*weight_reserve)(lac_backend *backend, lac_type type, uint32_t rows, uint32_t cols,
                                 lac_weight **out, lac_error *err);
    void (*weight_fill)(lac_backend *backend, lac_weight *weight, lac_type type, uint32_t row_first,
                        uint32_t rows, const void *source);
    void (*weight_free)(lac_backend *backend, lac_weight **weight);
    size_t (*weight_bytes)(const lac_weight *weight);

    /* Memory for KV pages, zeroed on first touch. */
    lac_status (*kv_alloc)(lac_backend *backend, size_t bytes, void **out, lac_error *err);
    void (*kv_free)(lac_backend *backend, void **region, size_t bytes);
    /* Bytes of one page for these shapes. */
    size_t (*kv_page_bytes)(const lac_backend *backend, uint32_t kv_heads, uint32_t head_dim);

    /* Runs the operations in order over the batch. The operations and what they point to must not
     * change between calls with the same `ops`. LAC_EINTERNAL when a result is not finite;
     * what a reducer returned. */
    lac_status (*run)(lac_backend *backend, const lac_op *ops, size_t count, lac_batch *batch,
                      lac_error *err);
} lac_backend_ops;

/* The CPU backend: always there. */
const lac_backend_ops *lac_cpu_backend(void);

/* Best instruction set of this machine, and whether a given one can run here. */
lac_isa lac_cpu_isa_best(void);
bool lac_cpu_isa_have(lac_isa isa);
const char *lac_isa_name(lac_isa isa);
bool lac_isa_parse(const char *name, lac_isa *out);

/* Memory read bandwidth in GB/s with `threads` threads: best of `rounds` passes over `bytes`. The
 * probe every speed figure is set beside. */
double lac_cpu_read_bandwidth(uint32_t threads, size_t bytes, uint32_t rounds);

#endif
