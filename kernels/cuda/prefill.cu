// Prefill attention over pages: sixteen rows of one sequence at a time, all query heads of one KV
// head, so that a page is read once for them. A page's keys and values become floats in shared
// memory; a warp owns some queries, lane l is token l while scores are made and softened, and every
// 32nd dimension while values are added up. Running maximum a query, pages ascending. Keys and
// values of the rows themselves are in their pages already.
#include "device.cuh"

struct tile_place {
    unsigned i, rows, segment, position, kv_head, group;
    unsigned query, queries; // of this block: row × group + head
};

LAC__DEVICE bool find_tile(const lac__attention_args &a, unsigned a_block, tile_place &p)
{
    if (blockIdx.x >= a.step.head->tiles)
        return false;
    lac__tile_item tile = a.step.tiles[blockIdx.x];
    int packed = (int)list_of(a.step, a.list).inverse[tile.row];
    if (packed == LAC__ABSENT)
        return false;
    p.i = (unsigned)packed;
    p.rows = tile.rows;
    p.segment = a.step.segment[tile.row];
    p.position = a.step.position[tile.row];
    p.kv_head = blockIdx.y;
    p.group = a.heads / a.kv_heads;
    p.query = blockIdx.z * a_block;
    unsigned all = p.rows * p.group;
    if (p.query >= all)
        return false;
    p.queries = all - p.query < a_block ? all - p.query : a_block;
    return true;
}

// Tokens of a page that the row at a position sees: lo … hi − 1.
LAC__DEVICE void seen(const lac__attention_args &a, unsigned position, unsigned block, unsigned &lo,
                      unsigned &hi)
{
    unsigned first = a.window > 0 && position + 1 > a.window ? position + 1 - a.window : 0;
    unsigned start = block * LAC__PAGE, end = position + 1;
    lo = first > start ? (first - start < LAC__PAGE ? first - start : LAC__PAGE) : 0;
    hi = end > start ? (end - start < LAC__PAGE ? end - start : LAC__PAGE) : 0;
}

// A page to shared memory: keys [dim][33] (a token a bank), values [32][dim]; zero where no row of
// the block sees the token, for a page may hold anything there.
LAC__DEVICE void page_open(const lac__attention_args &a, const tile_place &p, unsigned block,
                           unsigned lo, unsigned hi, float *keys, float *values)
{
    unsigned dim = a.head_dim;
    const uint8_t *page = page_of(a, p.segment, block);
    size_t at = head_at(a, p.kv_head);
    for (unsigned i = threadIdx.x; i < 4 * dim; i += LAC__ATTENTION_THREADS) {
        float k[8];
        unsigned token = i / dim * 8, d = i % dim;
        page_load8(page, a.wide, at + (size_t)i * 8, k);
        for (unsigned t = 0; t < 8; t++)
            keys[d * (LAC__PAGE + 1) + token + t] = k[t];
    }
    at += (size_t)LAC__PAGE * dim;
    for (unsigned i = threadIdx.x; i < 4 * dim; i += LAC__ATTENTION_THREADS) {
        float v[8];
        unsigned token = i * 8 / dim;
        page_load8(page, a.wide, at + (size_t)i * 8, v);
        for (unsigned k = 0; k < 8; k++)
            values[(size_t)i * 8 + k] = token >= lo && token < hi ? v[k] : 0.0f;
    }
}

// Q queries a warp, N × 32 dimensions at most.
template <int Q, int N> struct tile_state {
    float m[Q], l[Q], o[Q][N];
};

template <int Q, int N>
LAC__DEVICE void tile_page(const lac__attention_args &a, const tile_place &p, unsigned block,
                           const float *q, const float *keys, const float *values, float *weights,
                           tile_state<Q, N> &w)
{
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, dim = a.head_dim;
    float s[Q];
    for (int j = 0; j < Q; j++)
        s[j] = 0.0f;
    for (unsigned d = 0; d < dim; d++) {
        float k = keys[d * (LAC__PAGE + 1) + lane];
#pragma unroll
        for (int j = 0; j < Q; j++)
            s[j] = fmaf(q[(warp * Q + j) * dim + d], k, s[j]);
    }
#pragma unroll
    for (int j = 0; j < Q; j++) {
        unsigned query = p.query + warp * Q + j, lo, hi;
        seen(a, p.position + query / p.group, block, lo, hi);
        float x = s[j] * a.scale;
        if (a.softcap > 0.0f)
            x = a.softcap * tanhf(x / a.softcap);
        bool there = warp * Q + j < p.queries && lane >= lo && lane < hi;
        x = there ? x : -INFINITY;
        float top = fmaxf(w.m[j], warp_max(x));
        float back = w.m[j] == -INFINITY ? 0.0f : expf(w.m[j] - top);
        float e = there ? expf(x - top) : 0.0f;
        w.l[j] = w.l[j] * back + e;
        w.m[j] = top;
        weights[(warp * Q + j) * LAC__PAGE + lane] = e;
#pragma unroll
        for (int n = 0; n < N; n++)
            w.o[j][n] *= back;
    }
    __syncwarp();
    for (unsigned t = 0; t < LAC__PAGE; t++)
#pragma unroll
        for (int n = 0; n < N; n++) {
            unsigned d = lane + 32 * n;
            float v = d < dim ? values[t * dim + d] : 0.0f;
#pragma unroll
            for (int j = 0; j < Q; j++)
                w.o[j][n] = fmaf(weights[(warp * Q + j) * LAC__PAGE + t], v, w.o[j][n]);
        }
    __syncwarp();
}

// Results to shared memory (where the queries were), then out in whole blocks of 32.
template <int Q, int N>
LAC__DEVICE void tile_publish(const lac__attention_args &a, const tile_place &p,
                              const tile_state<Q, N> &w, float *room)
{
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, dim = a.head_dim;
    unsigned width = p.group * dim, cols = a.heads * dim;
    for (int j = 0; j < Q; j++) {
        float l = warp_sum(w.l[j]);
        for (int n = 0; n < N; n++)
            if (lane + 32 * n < dim)
                room[(warp * Q + j) * dim + lane + 32 * n] = w.o[j][n] / l;
    }
    __syncthreads();
    for (unsigned j = warp; j < p.queries; j += LAC__ATTENTION_WARPS) {
        unsigned query = p.query + j, at = p.kv_head * width + query % p.group * dim;
        size_t row = p.i + query / p.group;
        const float *from = room + j * dim;
        bool whole = a.to.q && dim % 32 == 0;
        for (unsigned d = 0; whole && d < dim; d += 32)
            panel_put32(a.to, row, cols, at + d, from[d + lane]);
        for (unsigned d = lane; !whole && d < dim; d += 32)
            a.to.f[row * cols + at + d] = from[d];
    }
}

// Shared memory in floats: queries [4Q][dim], keys [dim][33], values [32][dim], weights [4Q][32].
template <int Q, int N> LAC__DEVICE void prefill(const lac__attention_args &a)
{
    LAC__DYNAMIC(room);
    tile_place p;
    if (!find_tile(a, LAC__ATTENTION_WARPS * Q, p))
        return;
    unsigned dim = a.head_dim, heads = a.heads + 2 * a.kv_heads, lo, hi, ignored;
    float *q = (float *)room, *values = q + LAC__ATTENTION_WARPS * Q * dim;
    float *weights = values + LAC__PAGE * dim, *keys = weights + LAC__ATTENTION_WARPS * Q * 32;
    for (unsigned i = threadIdx.x; i < LAC__ATTENTION_WARPS * Q * dim;
         i += LAC__ATTENTION_THREADS) {
        unsigned query = p.query + i / dim;
        size_t at =
            ((p.i + query / p.group) * (size_t)heads + p.kv_head * p.group + query % p.group) * dim;
        q[i] = i / dim < p.queries ? a.raw[at + i % dim] : 0.0f;
    }
    tile_state<Q, N> w;
    for (int j = 0; j < Q; j++) {
        w.m[j] = -INFINITY;
        w.l[j] = 0.0f;
        for (int n = 0; n < N; n++)
            w.o[j][n] = 0.0f;
    }
    unsigned first = p.position + p.query / p.group;
    unsigned last = p.position + (p.query + p.queries - 1) / p.group;
    unsigned from = a.window > 0 && first + 1 > a.window ? (first + 1 - a.window) / LAC__PAGE : 0;
    for (unsigned block = from; block <= last / LAC__PAGE; block++) {
        seen(a, first, block, lo, ignored);
        seen(a, last, block, ignored, hi);
        __syncthreads();
        page_open(a, p, block, lo, hi, keys, values);
        __syncthreads();
        tile_page<Q, N>(a, p, block, q, keys, values, weights, w);
    }
    __syncthreads();
    tile_publish<Q, N>(a, p, w, q);
}

// Named by the widest head they take.
LAC__KERNEL(lac_prefill_64, lac__attention_args, LAC__ATTENTION_THREADS, 3)
{
    prefill<8, 2>(a);
}
LAC__KERNEL(lac_prefill_128, lac__attention_args, LAC__ATTENTION_THREADS, 3)
{
    prefill<8, 4>(a);
}
LAC__KERNEL(lac_prefill_256, lac__attention_args, LAC__ATTENTION_THREADS, 2)
{
    prefill<4, 8>(a);
}
LAC__KERNEL(lac_prefill_512, lac__attention_args, LAC__ATTENTION_THREADS, 1)
{
    prefill<2, 16>(a);
}
