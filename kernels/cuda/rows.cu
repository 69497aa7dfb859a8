// Kernels over single rows: embedding, norm, activation, quantising, the norm behind a branch,
// heads to pages, copies of pages. A block a row (of a row list: gathered and scattered as it
// goes), reads and writes whole lines; blocks past the list's end leave at once.
#include "weights.cuh"

// ---- embedding ----

// Column k of row r of a group, whatever the type: a gather of one row, so no wide loads.
template <int T>
LAC__DEVICE float value_at(const uint8_t *group, unsigned cols, unsigned r, unsigned k)
{
    typedef weight_facts<T> facts;
    unsigned at = k / facts::columns * LAC__GROUP + r, c = k % facts::columns;
    const uint8_t *chunk = group + (size_t)at * 16;
    if (T == W_F32)
        return ((const float *)chunk)[c];
    if (T == W_F16)
        return half_float(((const uint16_t *)chunk)[c]);
    if (T == W_BF16)
        return bf16_float(((const uint16_t *)chunk)[c]);
    unsigned chunks = cols / 32, word = c % 16 / 4, byte = c % 4, upper = c >= 16;
    size_t plane = (size_t)chunks * LAC__GROUP;
    const uint8_t *high = group + plane * facts::codes;
    const uint8_t *scales = high + plane * facts::high, *super = scales + plane * facts::scales;
    unsigned scale =
        facts::minimum ? ((const uint32_t *)scales)[at] : ((const uint16_t *)scales)[at];
    unsigned s = k / 256 * LAC__GROUP + r;
    unsigned of_super = !facts::super ? 0
                        : facts::six  ? ((const uint16_t *)super)[s]
                                      : ((const uint32_t *)super)[s];
    float d, m;
    chunk_scales<T>(scale, of_super, d, m);
    if (T == W_Q8_0)
        return d * (float)(int8_t)group[upper * plane * 16 + (size_t)at * 16 + word * 4 + byte];
    unsigned code = chunk[word * 4 + byte] >> 4 * upper & 15u;
    if (facts::five)
        code |= (high[(size_t)at * 4 + byte] >> (4 * upper + word) & 1u) << 4;
    if (facts::six) {
        code |= (high[(size_t)at * 8 + 4 * upper + byte] >> 2 * word & 3u) << 4;
        return (upper ? m : d) * (float)((int)code - 32);
    }
    return d * (float)code + m;
}

LAC__KERNEL(lac_embed, lac__embed_args, LAC__ROW_THREADS, 2)
{
    unsigned row = blockIdx.x;
    if (row >= list_of(a.step, 0).count)
        return;
    uint32_t token = a.step.tokens[row];
    const uint8_t *group = a.table + (size_t)(token / LAC__GROUP) * a.group_bytes;
    for (unsigned k = threadIdx.x; k < a.cols; k += LAC__ROW_THREADS) {
        unsigned r = token % LAC__GROUP;
        float x;
        switch (a.type) {
        case W_F32: x = value_at<W_F32>(group, a.cols, r, k); break;
        case W_F16: x = value_at<W_F16>(group, a.cols, r, k); break;
        case W_BF16: x = value_at<W_BF16>(group, a.cols, r, k); break;
        case W_Q4_0: x = value_at<W_Q4_0>(group, a.cols, r, k); break;
        case W_Q4_1: x = value_at<W_Q4_1>(group, a.cols, r, k); break;
        case W_Q5_0: x = value_at<W_Q5_0>(group, a.cols, r, k); break;
        case W_Q5_1: x = value_at<W_Q5_1>(group, a.cols, r, k); break;
        case W_Q8_0: x = value_at<W_Q8_0>(group, a.cols, r, k); break;
        case W_Q4_K: x = value_at<W_Q4_K>(group, a.cols, r, k); break;
        case W_Q5_K: x = value_at<W_Q5_K>(group, a.cols, r, k); break;
        default: x = value_at<W_Q6_K>(group, a.cols, r, k); break;
        }
        a.h[(size_t)row * a.cols + k] = x * a.scale;
    }
}

// ---- norms ----

// 1 / rms of a row, by the whole block; says so when the row is not finite.
LAC__DEVICE float row_scale(const lac__rows_args &a, const float *x)
{
    LAC__SHARED(float, sums, [LAC__ROW_THREADS / 32]);
    float squares = 0.0f;
    for (unsigned k = threadIdx.x; k < a.cols; k += LAC__ROW_THREADS)
        squares += x[k] * x[k];
    squares = block_sum(squares, sums);
    if (!is_finite(squares) && threadIdx.x == 0)
        *a.step.odd = 1;
    return 1.0f / sqrtf(squares / (float)a.cols + a.eps);
}

LAC__KERNEL(lac_norm, lac__rows_args, LAC__ROW_THREADS, 2)
{
    row_list list = list_of(a.step, a.list);
    unsigned i = blockIdx.x, lane = threadIdx.x % 32;
    if (i >= list.count)
        return;
    const float *x = a.h + (size_t)list.rows[i] * a.cols;
    float scale = row_scale(a, x);
    for (unsigned b = threadIdx.x / 32; b * 32 < a.cols; b += LAC__ROW_THREADS / 32) {
        unsigned k = b * 32 + lane;
        float y = k < a.cols ? x[k] * scale * (a.weight ? a.weight[k] : 1.0f) : 0.0f;
        panel_put32(a.to, i, a.cols, b * 32, y);
    }
}

LAC__KERNEL(lac_post_norm, lac__rows_args, LAC__ROW_THREADS, 2)
{
    row_list list = list_of(a.step, a.list);
    if (blockIdx.x >= list.count)
        return;
    const float *x = a.in + (size_t)blockIdx.x * a.stride;
    float *h = a.h + (size_t)list.rows[blockIdx.x] * a.cols, scale = row_scale(a, x);
    for (unsigned k = threadIdx.x; k < a.cols; k += LAC__ROW_THREADS)
        h[k] += x[k] * scale * a.weight[k];
}

// ---- into a panel ----

LAC__KERNEL(lac_act, lac__rows_args, LAC__ROW_THREADS, 2)
{
    if (blockIdx.x >= list_of(a.step, a.list).count)
        return;
    const float *gate = a.in + (size_t)blockIdx.x * a.stride, *up = gate + a.cols;
    for (unsigned b = threadIdx.x / 32; b * 32 < a.cols; b += LAC__ROW_THREADS / 32) {
        unsigned k = b * 32 + threadIdx.x % 32;
        float y = k < a.cols ? activate(a.gelu, gate[k]) * up[k] : 0.0f;
        panel_put32(a.to, blockIdx.x, a.cols, b * 32, y);
    }
}

LAC__KERNEL(lac_quantise, lac__rows_args, LAC__ROW_THREADS, 2)
{
    if (blockIdx.x >= list_of(a.step, a.list).count)
        return;
    const float *x = a.in + (size_t)blockIdx.x * a.stride;
    for (unsigned b = threadIdx.x / 32; b * 32 < a.cols; b += LAC__ROW_THREADS / 32)
        panel_put32(a.to, blockIdx.x, a.cols, b * 32, x[b * 32 + threadIdx.x % 32]);
}

// ---- heads ----

// Queries in place, keys and values to their pages: for steps whose rows see each other.
LAC__KERNEL(lac_heads, lac__attention_args, LAC__ATTENTION_THREADS, 2)
{
    LAC__DYNAMIC(room);
    row_list list = list_of(a.step, a.list);
    if (blockIdx.x >= list.count)
        return;
    unsigned warp = threadIdx.x / 32, dim = a.head_dim, row = list.rows[blockIdx.x];
    unsigned position = a.step.position[row], segment = a.step.segment[row];
    unsigned heads = a.heads + 2 * a.kv_heads;
    float *x = (float *)room + warp * dim, *raw = a.raw + (size_t)blockIdx.x * heads * dim;
    for (unsigned j = warp; j < heads; j += LAC__ATTENTION_WARPS) {
        bool query = j < a.heads, value = j >= a.heads + a.kv_heads;
        unsigned head = query ? j : value ? j - a.heads - a.kv_heads : j - a.heads;
        const lac__head_of &of = query ? a.q : value ? a.v : a.k;
        head_finish(a, raw + j * dim, of, head, !value, position, x);
        if (query)
            for (unsigned d = threadIdx.x % 32; d < dim; d += 32)
                raw[j * dim + d] = x[d];
        else
            page_append(a, segment, position, head, value, x);
        __syncwarp();
    }
}

// ---- pages ----

LAC__KERNEL(lac_copy_pages, lac__copy_args, LAC__ROW_THREADS, 2)
{
    for (unsigned i = blockIdx.x; i < a.count; i += gridDim.x) {
        const uint4 *from = (const uint4 *)(a.region + a.pairs[2 * i] * a.page_bytes);
        uint4 *to = (uint4 *)(a.region + a.pairs[2 * i + 1] * a.page_bytes);
        for (size_t k = threadIdx.x; k < a.page_bytes / 16; k += LAC__ROW_THREADS)
            to[k] = from[k];
    }
}
