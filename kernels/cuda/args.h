/* What the host and the kernels agree on: the device's weight layout, the step's block of memory,
 * and the one argument of every kernel. Plain C, read by the C compiler, nvcc and the emulator.
 *
 * Layout D8. The rows of a matrix are taken in groups of eight. A *chunk* is 16 bytes of one row's
 * codes: 32 columns of a quantised type, 8 of F16 and BF16, 4 of F32. A group is planes, each
 * ordered [chunk][row of 8], so that lane l of a warp takes row l mod 8 of chunk l/8 and a warp
 * reads 512 bytes in one piece, whatever the row's length:
 *   codes   16 bytes: word i holds columns 4i … 4i+3 in the low nibbles, 16+4i … in the high ones
 *           (Q8_0: bytes 0-15, then a second plane with bytes 16-31)
 *   high    Q5: 4 bytes, byte j bit i = fifth bit of column 4i+j, bit 4+i of column 16+4i+j
 *           Q6_K: 8 bytes, byte j pair i = upper bits of column 4i+j; the same for 16+4i+j
 *   scales  Q8_0, Q4_0, Q5_0: d as f16; Q4_1, Q5_1: d and m; Q4_K, Q5_K: scale and min as bytes;
 *           Q6_K: the two signed scales
 *   super   K types, for 8 chunks: Q4_K, Q5_K: d and dmin as f16; Q6_K: d
 * Bytes a weight are the file's (Q4_K, Q5_K: 2-3 % more). Word i of the codes is also the fragment
 * of mma.m16n8k32 that lane 4·row+i holds, so the tensor cores need no shuffling either. */
#ifndef LAC_KERNELS_CUDA_ARGS_H
#define LAC_KERNELS_CUDA_ARGS_H

#include <stdint.h>

enum {
    LAC__GROUP = 8,          /* rows a group */
    LAC__GEMV_THREADS = 256, /* eight warps */
    LAC__GEMV_WARPS = 8,
    LAC__GEMV_COLUMNS_MAX = 8, /* batch rows that one product by dp4a takes; above, tensor cores */
    LAC__GEMM_THREADS = 128,   /* four warps of 16 weight rows */
    LAC__GEMM_ROWS = 64,
    LAC__GEMM_COLUMNS = 64,
    LAC__ROW_THREADS = 256,
    LAC__ATTENTION_THREADS = 128,
    LAC__ATTENTION_WARPS = 4,
    LAC__PAGE = 32,      /* tokens a KV page */
    LAC__TILE_ROWS = 16, /* query rows of one sequence in a prefill tile */
    LAC__HEAD_MAX = 512, /* head_dim */
    LAC__PICK_THREADS = 512,
    LAC__PICK_SLICE = 8192, /* logits that one block looks through */
    LAC__ABSENT = -1
};

typedef enum { LAC__EPILOGUE_STORE, LAC__EPILOGUE_RESIDUAL, LAC__EPILOGUE_ACT } lac__epilogue;

/* Activations: packed row i at q + i × cols. Which forms exist depends on who reads them. */
typedef struct {
    int8_t *q; /* value = d × q, |q| ≤ 127, in blocks of 32 */
    float *s;  /* [row][cols/32][4]: d, d × Σq, d × Σ of the first 16, d × Σ of the last 16 */
    float *f;  /* [row][cols] */
} lac__cuda_panel;

/* A few rows of one sequence for prefill attention. */
typedef struct {
    uint32_t row, rows;
} lac__tile_item;

typedef struct {
    uint32_t decode_rows, tiles;
    uint32_t split_tokens; /* tokens of a split of decode attention, a multiple of LAC__PAGE */
    uint32_t padding;
} lac__step_head;

/* Where a step's inputs lie on the device: fixed for the life of a program, so that graphs stay
 * valid; the contents change every step. A row list is {count, rows[rows_max], inverse[rows_max]},
 * inverse being the packed place of a batch row or LAC__ABSENT. */
typedef struct {
    const lac__step_head *head;
    const uint32_t *tokens;      /* [rows] */
    const uint32_t *position;    /* [rows] */
    const uint32_t *segment;     /* [rows] */
    const uint32_t *decode_row;  /* rows that are the only one of their sequence */
    const lac__tile_item *tiles; /* the others */
    const uint32_t *table_at;    /* [segments]: where a segment's page tables begin in `tables` */
    const uint32_t *table_stride;
    const uint32_t *tables;
    const uint32_t *list_of; /* which list a number of an operation means */
    const uint32_t *lists;
    uint32_t rows_max;
    uint32_t *odd; /* set to 1 when something is not finite */
} lac__step;

/* ---- products ---- */

typedef struct {
    const uint8_t *data;
    uint32_t rows, groups;
    uint32_t out; /* column of the output where its rows begin */
} lac__part;

typedef struct {
    lac__step step;
    uint32_t list;
    uint32_t cols;
    uint32_t group_bytes;
    uint32_t parts; /* matrices of the same type side by side; ACT: gate, up */
    lac__part part[3];
    uint32_t warps_a_group; /* 1, 2, 4 or 8; ACT: 1 */
    /* Input: rows of h, normed and quantised by every block for itself, or a panel. */
    const float *h;
    const float *norm; /* NULL: ones */
    float eps;
    uint32_t prologue;
    lac__cuda_panel x;
    /* Output. STORE: out[packed row × stride + column]; RESIDUAL: h_out[batch row × stride +
     * column] grows by it; ACT: into `inner`. */
    lac__epilogue epilogue;
    float *out;
    uint32_t stride;
    const float *bias;
    uint32_t gelu;
    lac__cuda_panel inner; /* forms that are not NULL are written */
} lac__product_args;

/* ---- rows ---- */

typedef struct {
    lac__step step;
    const uint8_t *table;
    uint32_t type, cols, group_bytes;
    float scale;
    float *h;
} lac__embed_args;

/* norm: panel row i = h[row i] / rms × weight; quantise: from `in`; act: from gate and up side by
 * side in `in`; post_norm: h[row i] += in[i] / rms × weight. */
typedef struct {
    lac__step step;
    uint32_t list;
    uint32_t cols;
    float *h;
    const float *in; /* [packed row][stride] */
    uint32_t stride;
    const float *weight; /* NULL: ones */
    float eps;
    uint32_t gelu;
    lac__cuda_panel to;
} lac__rows_args;

typedef struct {
    const float *bias; /* [heads × head_dim] or NULL */
    const float *norm; /* [head_dim] or NULL */
} lac__head_of;

/* Queries, keys and values of a unit, from the products' results to pages; and attention. */
typedef struct {
    lac__step step;
    uint32_t list;
    float *raw; /* [packed row][(heads + 2 kv_heads) × head_dim] */
    lac__head_of q, k, v;
    float eps;
    uint32_t heads, kv_heads, head_dim;
    uint32_t rope_style, rope_dims; /* lac_rope_style */
    const float *angles;            /* [position][rope_dims]: cosines, then sines */
    uint8_t *region;
    uint64_t page_bytes;
    uint32_t table;
    uint32_t wide; /* pages hold float32 */
    /* attention */
    uint32_t
        finish; /* decode: `raw` is as the products left it, this kernel finishes and appends */
    float scale, softcap;
    uint32_t window;
    lac__cuda_panel to; /* f always; q where a KV head's queries are whole blocks */
    float *partial;
    uint32_t *counter; /* [rows_max × kv_heads], zero between kernels */
} lac__attention_args;

/* ---- the end ---- */

typedef struct {
    double unit;               /* the draw, in [0, 1) */
    float inverse_temperature; /* 0: the best token */
    float top_p, min_p;        /* 1 and 0: off */
    uint32_t top_k;            /* 0: off */
} lac__draw;

typedef struct {
    lac__step step;
    float *logits; /* [packed row][vocab] */
    uint32_t vocab;
    float softcap;
    float *slice_best; /* [row][slices] */
    uint32_t *slice_id;
    uint32_t *counter; /* [row], zero between kernels */
    float *best;
    uint32_t *token;
    const lac__draw *draws; /* [row] */
    uint32_t *drawn;
} lac__pick_args;

/* Copies of whole pages inside the pool. */
typedef struct {
    uint8_t *region;
    uint64_t page_bytes;   /* a multiple of 16 */
    const uint32_t *pairs; /* from, to */
    uint32_t count;
} lac__copy_args;

#endif
