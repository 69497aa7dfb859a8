// Products of a weight matrix with up to eight columns (batch rows), every weight read once, with
// the norm before and the residual or activation after it in the same kernel.
//
// A warp takes a group of eight rows, or a share of its columns: lane l holds row l mod 8 of every
// fourth chunk, so all loads are whole 128-byte lines whatever the row's length, and what is left
// at the end are two shuffles. Blocks walk over the groups, so the norm in front is done once a
// block and not once a group. Per chunk (32 weights): one 16-byte load, eight dp4a a column.
#include "weights.cuh"

// Chunks a lane loads before it uses the first: as many as registers allow, fewer where more
// columns take them.
template <int M> struct under_way {
    static const unsigned chunks = M <= 2 ? 4 : M <= 4 ? 2 : 1;
};

// ---- input ----

struct input {
    const int8_t *q;
    const float *s, *f;
    unsigned columns; // that exist, ≤ M
};

// Norms `n` rows of h into shared memory in the form that the weights read. Every block does so for
// itself: h is small and in the second cache, and a kernel boundary costs more.
template <int T, int M>
LAC__DEVICE input prologue(const lac__product_args &a, const row_list &list, unsigned first,
                           unsigned n, unsigned char *room)
{
    LAC__SHARED(float, sums, [LAC__GEMV_WARPS]);
    unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, cols = a.cols, blocks = cols / 32;
    int8_t *q = (int8_t *)room;
    float *s = (float *)(room + (size_t)M * cols), *f = (float *)room;
    for (unsigned m = 0; m < n; m++) {
        const float *h = a.h + (size_t)list.rows[first + m] * cols;
        float squares = 0.0f;
        for (unsigned k = threadIdx.x; k < cols; k += LAC__GEMV_THREADS)
            squares += h[k] * h[k];
        squares = block_sum(squares, sums);
        if (!is_finite(squares) && threadIdx.x == 0)
            *a.step.odd = 1;
        float scale = 1.0f / sqrtf(squares / (float)cols + a.eps);
        if (weight_facts<T>::quant) {
            for (unsigned b = warp; b < blocks; b += LAC__GEMV_WARPS) {
                unsigned k = b * 32 + lane;
                float x = h[k] * scale * (a.norm ? a.norm[k] : 1.0f);
                quantise32(x, q + (size_t)m * cols + b * 32, s + ((size_t)m * blocks + b) * 4);
            }
        } else {
            for (unsigned k = threadIdx.x; k < cols; k += LAC__GEMV_THREADS)
                f[(size_t)m * cols + k] = h[k] * scale * (a.norm ? a.norm[k] : 1.0f);
        }
    }
    __syncthreads();
    return {q, s, f, n};
}

template <int M>
LAC__DEVICE input from_panel(const lac__product_args &a, unsigned first, unsigned n)
{
    size_t at = (size_t)first * a.cols;
    return {a.x.q ? a.x.q + at : NULL, a.x.s ? a.x.s + at / 8 : NULL, a.x.f ? a.x.f + at : NULL, n};
}

// ---- a share of a group ----

template <int T, int M>
LAC__DEVICE void quant_share(const uint8_t *group, unsigned cols, unsigned begin, unsigned step,
                             const input &x, float acc[M])
{
    unsigned chunks = cols / 32, r = threadIdx.x % LAC__GROUP;
    const unsigned UNDER_WAY = under_way<M>::chunks;
    chunk_loads<T> loads[UNDER_WAY];
    for (unsigned chunk = begin; chunk < chunks; chunk += step * UNDER_WAY) {
#pragma unroll
        for (unsigned i = 0; i < UNDER_WAY; i++)
            if (chunk + i * step < chunks)
                chunk_load<T>(group, chunks, chunk + i * step, r, loads[i]);
#pragma unroll
        for (unsigned i = 0; i < UNDER_WAY; i++) {
            unsigned at = chunk + i * step;
            if (at >= chunks)
                break;
            quant_chunk w;
            chunk_open<T>(loads[i], w);
#pragma unroll
            for (unsigned m = 0; m < M; m++) {
                // Columns past the last repeat it: nobody reads what comes of them.
                size_t column = m < x.columns ? m : x.columns - 1;
                acc[m] = chunk_dot<T>(w, x.q + column * cols + at * 32,
                                      x.s + (column * chunks + at) * 4, acc[m]);
            }
        }
    }
}

template <int T, int M>
LAC__DEVICE void float_share(const uint8_t *group, unsigned cols, unsigned begin, unsigned step,
                             const input &x, float acc[M])
{
    const unsigned wide = weight_facts<T>::columns;
    unsigned chunks = (cols + wide - 1) / wide, r = threadIdx.x % LAC__GROUP;
    for (unsigned chunk = begin; chunk < chunks; chunk += step) {
        float w[8];
        chunk_floats<T>(group, chunk, r, w);
#pragma unroll
        for (unsigned m = 0; m < M; m++) {
            size_t column = m < x.columns ? m : x.columns - 1;
            const float *f = x.f + column * cols + chunk * wide;
#pragma unroll
            for (unsigned k = 0; k < wide; k++)
                if (chunk * wide + k < cols)
                    acc[m] = fmaf(w[k], f[k], acc[m]);
        }
    }
}

// ---- output ----

template <int M>
LAC__DEVICE void store(const lac__product_args &a, const row_list &list, unsigned first, unsigned m,
                       unsigned row, unsigned to, float y)
{
    if (a.bias)
        y += a.bias[row];
    if (a.epilogue == LAC__EPILOGUE_RESIDUAL)
        a.out[(size_t)list.rows[first + m] * a.stride + to] += y;
    else
        a.out[(size_t)(first + m) * a.stride + to] = y;
}

// Which matrix and which group of it a number means; false past the last.
LAC__DEVICE bool part_find(const lac__product_args &a, unsigned group, lac__part &part,
                           unsigned &inside)
{
    for (unsigned p = 0; p < a.parts; p++) {
        if (group < a.part[p].groups) {
            part = a.part[p];
            inside = group;
            return true;
        }
        group -= a.part[p].groups;
    }
    return false;
}

template <int T, int M>
LAC__DEVICE void share_of(const lac__product_args &a, const lac__part &part, unsigned group,
                          unsigned share, unsigned shares, const input &x, float acc[M])
{
    const uint8_t *data = part.data + (size_t)group * a.group_bytes;
    unsigned begin = threadIdx.x % 32 / LAC__GROUP + 4 * share, step = 4 * shares;
    if (weight_facts<T>::quant)
        quant_share<T, M>(data, a.cols, begin, step, x, acc);
    else
        float_share<T, M>(data, a.cols, begin, step, x, acc);
#pragma unroll
    for (unsigned m = 0; m < M; m++) {
        acc[m] += __shfl_xor_sync(LAC__ALL, acc[m], 8);
        acc[m] += __shfl_xor_sync(LAC__ALL, acc[m], 16);
    }
}

// Gate and up of 32 rows at a time: four warps each, so that a whole block of the next product's
// input comes out of one block and is quantised where it is made.
template <int T, int M>
LAC__DEVICE void walk_act(const lac__product_args &a, unsigned first, const input &x)
{
    LAC__SHARED(float, part_sum, [LAC__GEMV_WARPS][LAC__GROUP][M]);
    unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, ffn = a.part[0].rows;
    for (unsigned unit = blockIdx.x; unit * 32 < ffn; unit += gridDim.x) {
        lac__part part = a.part[warp / 4];
        unsigned group = unit * 4 + warp % 4;
        float acc[M] = {0};
        if (group < part.groups)
            share_of<T, M>(a, part, group, 0, 1, x, acc);
        if (lane < LAC__GROUP)
#pragma unroll
            for (unsigned m = 0; m < M; m++)
                part_sum[warp][lane][m] = acc[m];
        __syncthreads();
        if (warp < x.columns) {
            float gate = part_sum[lane / 8][lane % 8][warp < M ? warp : 0];
            float up = part_sum[4 + lane / 8][lane % 8][warp < M ? warp : 0];
            float y = unit * 32 + lane < ffn ? activate(a.gelu, gate) * up : 0.0f;
            panel_put32(a.inner, first + warp, ffn, unit * 32, y);
        }
        __syncthreads();
    }
}

template <int T, int M>
LAC__DEVICE void walk_rows(const lac__product_args &a, const row_list &list, unsigned first,
                           const input &x)
{
    LAC__SHARED(float, part_sum, [LAC__GEMV_WARPS][LAC__GROUP][M]);
    unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    unsigned shares = a.warps_a_group, at_once = LAC__GEMV_WARPS / shares, groups = 0;
    for (unsigned p = 0; p < a.parts; p++)
        groups += a.part[p].groups;
    for (unsigned unit = blockIdx.x; unit * at_once < groups; unit += gridDim.x) {
        lac__part part;
        unsigned group;
        float acc[M] = {0};
        if (part_find(a, unit * at_once + warp / shares, part, group))
            share_of<T, M>(a, part, group, warp % shares, shares, x, acc);
        if (lane < LAC__GROUP)
#pragma unroll
            for (unsigned m = 0; m < M; m++)
                part_sum[warp][lane][m] = acc[m];
        __syncthreads();
        for (unsigned i = threadIdx.x; i < at_once * LAC__GROUP * M; i += LAC__GEMV_THREADS) {
            unsigned slot = i / (LAC__GROUP * M), r = i % LAC__GROUP, m = i / LAC__GROUP % M;
            if (m >= x.columns || !part_find(a, unit * at_once + slot, part, group))
                continue;
            unsigned row = group * LAC__GROUP + r;
            if (row >= part.rows)
                continue;
            float y = 0.0f;
            for (unsigned s = 0; s < shares; s++)
                y += part_sum[slot * shares + s][r][m];
            store<M>(a, list, first, m, row, part.out + row, y);
        }
        __syncthreads();
    }
}

template <int T, int M> LAC__DEVICE void gemv(const lac__product_args &a)
{
    LAC__DYNAMIC(room);
    row_list list = list_of(a.step, a.list);
    unsigned first = blockIdx.y * M;
    if (first >= list.count)
        return; // a spare block of the bucket
    unsigned n = list.count - first < M ? list.count - first : M;
    input x = a.prologue ? prologue<T, M>(a, list, first, n, room) : from_panel<M>(a, first, n);
    if (a.epilogue == LAC__EPILOGUE_ACT)
        walk_act<T, M>(a, first, x);
    else
        walk_rows<T, M>(a, list, first, x);
}

// `eight`: blocks a processor with eight columns; two types need more registers than two leave.
#define GEMV(name, T, eight)                                                                       \
    LAC__KERNEL(lac_gemv_##name##_1, lac__product_args, LAC__GEMV_THREADS, 3)                      \
    {                                                                                              \
        gemv<T, 1>(a);                                                                             \
    }                                                                                              \
    LAC__KERNEL(lac_gemv_##name##_2, lac__product_args, LAC__GEMV_THREADS, 2)                      \
    {                                                                                              \
        gemv<T, 2>(a);                                                                             \
    }                                                                                              \
    LAC__KERNEL(lac_gemv_##name##_4, lac__product_args, LAC__GEMV_THREADS, 2)                      \
    {                                                                                              \
        gemv<T, 4>(a);                                                                             \
    }                                                                                              \
    LAC__KERNEL(lac_gemv_##name##_8, lac__product_args, LAC__GEMV_THREADS, eight)                  \
    {                                                                                              \
        gemv<T, 8>(a);                                                                             \
    }

GEMV(f32, W_F32, 2)
GEMV(f16, W_F16, 2)
GEMV(bf16, W_BF16, 2)
GEMV(q4_0, W_Q4_0, 2)
GEMV(q4_1, W_Q4_1, 2)
GEMV(q5_0, W_Q5_0, 2)
GEMV(q5_1, W_Q5_1, 2)
GEMV(q8_0, W_Q8_0, 1)
GEMV(q4_k, W_Q4_K, 2)
GEMV(q5_k, W_Q5_K, 2)
GEMV(q6_k, W_Q6_K, 1)
