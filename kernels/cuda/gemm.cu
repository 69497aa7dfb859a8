// Products of a quantised matrix with many columns (prefill and large batches) on the tensor cores,
// in the reference's own arithmetic: exact integer sums of 32 (Q6_K: 16) by mma.m16n8k32, then
// acc = fma(d·dx, Σ, acc) and acc = fma(m, dx·Σq, acc).
//
// A warp owns 16 weight rows (two groups of D8) and 64 columns. Weights go from memory to fragments
// without shared memory: word i of a chunk is what lane 4·row+i needs, and a warp reads 128 bytes
// in one piece. Activations are shared by the four warps: four chunks at a time through shared
// memory, rows 144 bytes apart so that the eight rows of a fragment lie in different banks, the
// next ones on their way in registers meanwhile.
#include "weights.cuh"

enum {
    STAGE = 4,                     // chunks of 32 columns
    STAGE_BYTES = STAGE * 32,      // of one batch row
    PITCH = STAGE_BYTES + 16,      // bytes between rows in shared memory
    TILES = LAC__GEMM_COLUMNS / 8, // of eight columns
    Q_LOADS = LAC__GEMM_COLUMNS * STAGE_BYTES / 16 / LAC__GEMM_THREADS,
    S_LOADS = LAC__GEMM_COLUMNS * STAGE / LAC__GEMM_THREADS
};

struct stage_loads {
    uint4 q[Q_LOADS];
    float4 s[S_LOADS];
};

// Batch rows past the last and chunks past the end are zero.
LAC__DEVICE void stage_load(const lac__product_args &a, unsigned first, unsigned n, unsigned chunk,
                            stage_loads &to)
{
    unsigned chunks = a.cols / 32;
#pragma unroll
    for (unsigned i = 0; i < Q_LOADS; i++) {
        unsigned at = threadIdx.x + i * LAC__GEMM_THREADS;
        unsigned column = at / (STAGE_BYTES / 16), piece = at % (STAGE_BYTES / 16);
        bool there = column < n && chunk + piece / 2 < chunks;
        to.q[i] = there ? *(const uint4 *)(a.x.q + (size_t)(first + column) * a.cols + chunk * 32 +
                                           piece * 16)
                        : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (unsigned i = 0; i < S_LOADS; i++) {
        unsigned at = threadIdx.x + i * LAC__GEMM_THREADS, column = at / STAGE, b = at % STAGE;
        bool there = column < n && chunk + b < chunks;
        to.s[i] =
            there ? *(const float4 *)(a.x.s + ((size_t)(first + column) * chunks + chunk + b) * 4)
                  : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
}

LAC__DEVICE void stage_put(const stage_loads &from, unsigned char *q, float4 *s)
{
#pragma unroll
    for (unsigned i = 0; i < Q_LOADS; i++) {
        unsigned at = threadIdx.x + i * LAC__GEMM_THREADS;
        unsigned column = at / (STAGE_BYTES / 16), piece = at % (STAGE_BYTES / 16);
        *(uint4 *)(q + column * PITCH + piece * 16) = from.q[i];
    }
#pragma unroll
    for (unsigned i = 0; i < S_LOADS; i++)
        s[threadIdx.x + i * LAC__GEMM_THREADS] = from.s[i];
}

// What a lane holds of 16 rows × 32 columns of weights.
struct weight_fragment {
    unsigned a[4]; // rows g, g+8 of columns 4t…, then of 16+4t…
    float d[2], m[2];
};

template <int T>
LAC__DEVICE void fragment_row(const uint8_t *group, unsigned chunks, unsigned chunk, unsigned which,
                              weight_fragment &to)
{
    typedef weight_facts<T> facts;
    unsigned r = threadIdx.x % 32 / 4, t = threadIdx.x % 4, at = chunk * LAC__GROUP + r;
    size_t plane = (size_t)chunks * LAC__GROUP;
    const uint8_t *high = group + plane * facts::codes, *scales = high + plane * facts::high;
    unsigned word = lac__load_stream4(group + (size_t)at * 16 + t * 4);
    if (T == W_Q8_0) {
        to.a[which] = word;
        to.a[2 + which] = lac__load_stream4(group + plane * 16 + (size_t)at * 16 + t * 4);
    } else {
        unsigned fifth = 0, pairs = 0;
        if (facts::five)
            fifth = lac__load_stream4(high + (size_t)at * 4);
        if (facts::six) {
            uint2 both = lac__load_stream8(high + (size_t)at * 8);
            fifth = both.x, pairs = both.y;
        }
        word_codes<T>(word, fifth, pairs, t, to.a[which], to.a[2 + which]);
    }
    unsigned scale = facts::minimum ? lac__load_stream4(scales + (size_t)at * 4)
                                    : *(const uint16_t *)(scales + (size_t)at * 2);
    unsigned of_super = 0;
    if (facts::super) {
        const uint8_t *super = scales + plane * facts::scales;
        unsigned s = chunk / 8 * LAC__GROUP + r;
        of_super = facts::six ? *(const uint16_t *)(super + (size_t)s * 2)
                              : lac__load_stream4(super + (size_t)s * 4);
    }
    chunk_scales<T>(scale, of_super, to.d[which], to.m[which]);
}

// One chunk times eight columns: c[0], c[1] of row g, c[2], c[3] of row g+8, columns 2t and 2t+1.
template <int T>
LAC__DEVICE void tile_add(const weight_fragment &w, const unsigned char *q, const float4 *s,
                          unsigned chunk, float c[4])
{
    unsigned lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const unsigned char *x = q + g * PITCH + chunk * 32 + t * 4;
    unsigned b[2] = {*(const unsigned *)x, *(const unsigned *)(x + 16)};
    float4 first = s[2 * t * STAGE + chunk], second = s[(2 * t + 1) * STAGE + chunk];
    if (weight_facts<T>::six) {
        const unsigned low[4] = {w.a[0], w.a[1], 0, 0}, high[4] = {0, 0, w.a[2], w.a[3]};
        int lo[4] = {0, 0, 0, 0}, hi[4] = {0, 0, 0, 0};
        lac__mma_s8(lo, low, b);
        lac__mma_s8(hi, high, b);
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            float4 x4 = i % 2 ? second : first;
            float d_lo = w.d[i / 2], d_hi = w.m[i / 2];
            c[i] = fmaf(d_lo * x4.x, (float)lo[i], c[i]);
            c[i] = fmaf(-32.0f * d_lo, x4.z, c[i]);
            c[i] = fmaf(d_hi * x4.x, (float)hi[i], c[i]);
            c[i] = fmaf(-32.0f * d_hi, x4.w, c[i]);
        }
        return;
    }
    int sum[4] = {0, 0, 0, 0};
    lac__mma_s8(sum, w.a, b);
#pragma unroll
    for (unsigned i = 0; i < 4; i++) {
        float4 x4 = i % 2 ? second : first;
        c[i] = fmaf(w.d[i / 2] * x4.x, (float)sum[i], c[i]);
        if (T != W_Q8_0)
            c[i] = fmaf(w.m[i / 2], x4.y, c[i]);
    }
}

LAC__DEVICE void tile_store(const lac__product_args &a, const lac__part &part, const row_list &list,
                            unsigned row, unsigned column, unsigned columns, float y)
{
    if (row >= part.rows || column >= columns)
        return;
    if (a.bias)
        y += a.bias[row];
    size_t to = a.epilogue == LAC__EPILOGUE_RESIDUAL ? list.rows[column] : column;
    float *at = a.out + to * a.stride + part.out + row;
    *at = a.epilogue == LAC__EPILOGUE_RESIDUAL ? *at + y : y;
}

// Grid: 64 rows of one of the parts (z), 64 columns.
template <int T> LAC__DEVICE void gemm(const lac__product_args &a)
{
    LAC__SHARED(uint4, q_room, [LAC__GEMM_COLUMNS * PITCH / 16]);
    LAC__SHARED(float4, s, [LAC__GEMM_COLUMNS * STAGE]);
    unsigned char *q = (unsigned char *)&q_room[0];
    row_list list = list_of(a.step, a.list);
    lac__part part = a.part[blockIdx.z];
    unsigned first = blockIdx.y * LAC__GEMM_COLUMNS, chunks = a.cols / 32;
    unsigned group = blockIdx.x * (LAC__GEMM_ROWS / LAC__GROUP) + threadIdx.x / 32 * 2;
    if (first >= list.count || blockIdx.x * LAC__GEMM_ROWS >= part.rows)
        return;
    unsigned n = list.count - first < LAC__GEMM_COLUMNS ? list.count - first : LAC__GEMM_COLUMNS;
    unsigned tiles = (n + 7) / 8;
    // Groups past the last repeat it; their results are not stored.
    unsigned g0 = group < part.groups ? group : part.groups - 1;
    unsigned g1 = group + 1 < part.groups ? group + 1 : part.groups - 1;
    const uint8_t *rows0 = part.data + (size_t)g0 * a.group_bytes;
    const uint8_t *rows1 = part.data + (size_t)g1 * a.group_bytes;
    float c[TILES][4];
    for (unsigned t = 0; t < TILES; t++)
        for (unsigned i = 0; i < 4; i++)
            c[t][i] = 0.0f;
    stage_loads next;
    stage_load(a, first, n, 0, next);
    for (unsigned chunk = 0; chunk < chunks; chunk += STAGE) {
        __syncthreads();
        stage_put(next, q, s);
        __syncthreads();
        if (chunk + STAGE < chunks)
            stage_load(a, first, n, chunk + STAGE, next);
        for (unsigned b = 0; b < STAGE && chunk + b < chunks; b++) {
            weight_fragment w;
            fragment_row<T>(rows0, chunks, chunk + b, 0, w);
            fragment_row<T>(rows1, chunks, chunk + b, 1, w);
#pragma unroll
            for (unsigned t = 0; t < TILES; t++)
                if (t < tiles)
                    tile_add<T>(w, q + t * 8 * PITCH, s + t * 8 * STAGE, b, c[t]);
        }
    }
    unsigned lane = threadIdx.x % 32, row = group * LAC__GROUP + lane / 4;
#pragma unroll
    for (unsigned t = 0; t < TILES; t++)
#pragma unroll
        for (unsigned i = 0; i < 4; i++)
            tile_store(a, part, list, row + i / 2 * 8, first + t * 8 + lane % 4 * 2 + i % 2,
                       first + n, c[t][i]);
}

#define GEMM(name, T)                                                                              \
    LAC__KERNEL(lac_gemm_##name, lac__product_args, LAC__GEMM_THREADS, 4)                          \
    {                                                                                              \
        gemm<T>(a);                                                                                \
    }

GEMM(q4_0, W_Q4_0)
GEMM(q4_1, W_Q4_1)
GEMM(q5_0, W_Q5_0)
GEMM(q5_1, W_Q5_1)
GEMM(q8_0, W_Q8_0)
GEMM(q4_k, W_Q4_K)
GEMM(q5_k, W_Q5_K)
GEMM(q6_k, W_Q6_K)
