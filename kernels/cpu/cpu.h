/* What the files of the CPU backend share: packed weights, activation panels, the table of kernels
 * that each instruction set fills, and the thread pool. Knows nothing of models, files or requests.
 *
 * Layout family "R8": the rows of a matrix are taken in groups of eight, one vector lane a row, so
 * a dot product never ends in a horizontal sum and no version has to copy another one's tree. */
#ifndef LAC_KERNELS_CPU_H
#define LAC_KERNELS_CPU_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/pack.h"

enum {
    LAC__LANES = 8,     /* rows a group */
    LAC__TILE = 16,     /* columns (batch rows) a tile of a panel */
    LAC__REDUNDANT = 8, /* up to this many rows every thread norms for itself, without a barrier */
    LAC__SLICE = 32,    /* output rows a job of PROJECT and GATE_UP; one activation block */
    LAC__HEAD_SLICE = 64, /* vocabulary rows a job of HEAD */
    LAC__HEAD_DIM_MAX = 512,
    LAC__QTILE = 16,    /* query rows an attention item */
    LAC__SPLIT = 256,   /* tokens after which a softmax starts afresh, at absolute positions */
    LAC__ROPES_MAX = 8, /* different RoPE settings in one model */
    LAC__CACHE_LINE = 64
};

typedef struct lac__chunk lac__chunk; /* memory that several weights share (memory.c) */

struct lac_weight {
    lac_type type; /* of the packed data: the file's, or F32 after dequantising */
    bool vector;   /* data is float[cols] */
    uint32_t rows, cols;
    uint32_t groups; /* of eight rows, the last one padded with zero rows */
    size_t group_bytes;
    size_t bytes; /* allocated */
    uint8_t *data;
    lac__chunk *chunk; /* where data lies */
};

/* 32 activations of one batch row as signed bytes: value = d × q, |q| ≤ 127. One cache line, so a
 * product touches nothing else of the activations. */
typedef struct {
    int8_t q[32];
    float d;
    float s;    /* d × sum of all 32 */
    float s_lo; /* d × sum of the first 16 (types with a scale per 16) */
    float s_hi;
    int32_t sum;
    int32_t pad[3];
} lac__xblock;

/* Up to 16 batch rows side by side. Column c of block b is x[b × n + c]; the float form of input k
 * is f[k × n + c]. Which of the two exists depends on the weights that read the panel. */
typedef struct {
    uint32_t n;
    lac__xblock *x;
    float *f;
    bool goes_on; /* of integer products: out holds what the columns before these came to */
} lac__tile;

/* A panel is tiles one after the other; only the last is narrower than 16. */
typedef struct {
    lac__xblock *x; /* [tiles][cols/32][n] */
    float *f;       /* [tiles][cols][n] */
} lac__panel;

static inline lac__tile lac__panel_tile(const lac__panel *p, uint32_t cols, uint32_t rows,
                                        uint32_t t)
{
    uint32_t left = rows - t * LAC__TILE;
    lac__tile out = {.n = left < LAC__TILE ? left : LAC__TILE};
    out.x = p->x ? p->x + (size_t)t * LAC__TILE * ((cols + 31) / 32) : NULL;
    out.f = p->f ? p->f + (size_t)t * LAC__TILE * cols : NULL;
    return out;
}

/* out[c × ld + 8g + lane] = row 8(group+g)+lane of w times column c, for `groups` groups. */
typedef void (*lac__gemm_fn)(const lac_weight *w, uint32_t group, uint32_t groups,
                             const lac__tile *x, float *out, size_t ld);

/* One attention item: `rows` query rows of one sequence and all query heads of one KV head, over
 * the tokens of splits first … last−1. */
typedef struct {
    const float *q; /* row r, head h of the group: q + r × q_stride + h × head_dim */
    size_t q_stride;
    float *out; /* same shape as q; written when the item covers all splits */
    size_t out_stride;
    float *partial; /* else [split][rows × group][head_dim padded + 2]: sums, then m, l */
    uint32_t rows, group, head_dim;
    uint32_t pos; /* position of row 0 */
    uint32_t split_first, split_last;
    float scale, softcap;
    uint32_t window;
    lac_kv_type kv_type;
    const uint8_t *region;
    size_t page_bytes, head_offset; /* of this KV head within a page */
    const uint32_t *pages;
    float *scratch; /* lac__attention_scratch floats */
} lac__attention_item;

typedef struct {
    const char *name;
    lac__gemm_fn gemm[32]; /* by lac_type; NULL = weights of this type become F32 at load */
    /* y = x × w / rms(x); returns the sum of squares, so that the caller sees what is not finite.
     */
    float (*norm)(const float *x, const float *w, uint32_t n, float eps, float *y);
    /* Quantises n (a multiple of 32) values into column c of a tile n_cols wide, blocks 0…n/32−1.
     */
    void (*quantise)(const float *x, uint32_t n, lac__xblock *out, uint32_t n_cols);
    /* y = act(gate) × up */
    void (*act)(lac_activation act, const float *gate, const float *up, uint32_t n, float *y);
    void (*add)(float *h, const float *x, uint32_t n);
    /* In place; cos and sin hold dims/2 values. */
    void (*rope)(float *x, lac_rope_style style, uint32_t dims, const float *cos, const float *sin);
    void (*softcap)(float *x, uint32_t n, float cap);
    /* x = exp(x − max) / sum, in place. */
    void (*softmax)(float *x, uint32_t n);
    void (*to_f16)(const float *x, uint32_t n, uint16_t *out);
    /* Signed bytes, and the scale of values 32b … into scales[b × stride]. */
    void (*to_q8)(const float *x, uint32_t n, int8_t *codes, uint16_t *scales, uint32_t stride);
    void (*attention)(const lac__attention_item *item);
    /* Folds the partial results of splits first … last−1 in order: what attention itself does when
     * it covers them all. */
    void (*attention_merge)(const lac__attention_item *item, uint32_t first, uint32_t last);
    /* Largest of x, its first index; false when one of them is not finite. */
    bool (*best)(const float *x, uint32_t n, float *value, uint32_t *index);
} lac__kernels;

extern const lac__kernels lac__kernels_reference, lac__kernels_scalar;
#if defined(__x86_64__)
extern const lac__kernels lac__kernels_avx2, lac__kernels_avx512;
extern const lac__kernels lac__kernels_avxvnni, lac__kernels_vnni256; /* VEX, EVEX */
extern const lac__kernels lac__kernels_simde, lac__kernels_emulated;  /* in the tests only */
#endif

#if defined(__x86_64__)
/* 256-bit VNNI without AVX-512. (isa.c) */
bool lac__cpu_vex_vnni(void);
#endif

/* ---- pages (kv.c) ---- */

/* Scales that a token's key, or value, has in Q8. */
static inline size_t lac__kv_scales(uint32_t dim)
{
    return (dim + 31) / 32;
}
/* Bytes of all keys, or all values, of a head in a page; of all that a head has there. */
size_t lac__kv_plane_bytes(lac_kv_type type, uint32_t dim);
size_t lac__kv_head_bytes(lac_kv_type type, uint32_t dim);

/* Floats of scratch an attention item needs. */
size_t lac__attention_scratch(uint32_t rows, uint32_t group, uint32_t head_dim);
static inline uint32_t lac__pad16(uint32_t n)
{
    return (n + 15u) & ~15u;
}

/* ---- packing (pack.c) ---- */

/* Writes one row of packed weights as floats. */
void lac__unpack_row(const lac_weight *w, uint32_t row, float *out);

#endif
