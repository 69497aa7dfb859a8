// Decode attention over pages: one query row, all query heads of one KV head, a split of the
// tokens.
//
// A warp takes whole pages; lane l is token l of the page while scores are made and softened, and
// eight dimensions of some tokens while values are added up, so keys and values are both read in
// 16-byte pieces, once for all query heads of the group. A warp keeps its own running maximum; the
// block folds its warps, and the block that ends last folds the splits in ascending order, so an
// equal batch gives equal bits. At batch 1 it also finishes queries, keys and values (bias, norm,
// RoPE) and appends to the page: a kernel less a layer.
#include "device.cuh"

enum { VALUES_WIDE = 2 }; // groups of eight dimensions a lane may hold: head_dim up to 512

struct place {
    unsigned i, row, segment, position, kv_head, group;
    unsigned first, begin, end; // tokens: first that is seen; of this split
    unsigned split, splits;     // counted from the first split that is seen
};

// The part of the row's tokens that this block sees; false when there is none.
LAC__DEVICE bool find_place(const lac__attention_args &a, place &p)
{
    if (blockIdx.x >= a.step.head->decode_rows)
        return false;
    p.row = a.step.decode_row[blockIdx.x];
    int packed = (int)list_of(a.step, a.list).inverse[p.row];
    if (packed == LAC__ABSENT)
        return false;
    p.i = (unsigned)packed;
    p.segment = a.step.segment[p.row];
    p.position = a.step.position[p.row];
    p.kv_head = blockIdx.y;
    p.group = a.heads / a.kv_heads;
    unsigned length = a.step.head->split_tokens;
    p.first = a.window > 0 && p.position + 1 > a.window ? p.position + 1 - a.window : 0;
    unsigned split = p.first / length + blockIdx.z;
    p.split = blockIdx.z;
    p.splits = p.position / length - p.first / length + 1;
    if (p.split >= p.splits)
        return false;
    p.begin = split * length > p.first ? split * length : p.first;
    p.end = (split + 1) * length < p.position + 1 ? (split + 1) * length : p.position + 1;
    return true;
}

// Queries of the group to shared memory; the new key and value to their page by the block whose
// split ends with them.
LAC__DEVICE void take_heads(const lac__attention_args &a, const place &p, float *q, float *spare)
{
    unsigned warp = threadIdx.x / 32, dim = a.head_dim;
    const float *raw = a.raw + (size_t)p.i * (a.heads + 2 * a.kv_heads) * dim;
    unsigned jobs = p.group + (a.finish && p.end == p.position + 1 ? 2 : 0);
    for (unsigned j = warp; j < jobs; j += LAC__ATTENTION_WARPS) {
        unsigned head = p.kv_head * p.group + j;
        if (j >= p.group) {
            bool value = j > p.group;
            unsigned at = a.heads + (value ? a.kv_heads : 0) + p.kv_head;
            float *x = spare + (j - p.group) * dim;
            head_finish(a, raw + at * dim, value ? a.v : a.k, p.kv_head, !value, p.position, x);
            page_append(a, p.segment, p.position, p.kv_head, value, x);
        } else if (a.finish) {
            head_finish(a, raw + head * dim, a.q, head, true, p.position, q + j * dim);
        } else {
            for (unsigned d = threadIdx.x % 32; d < dim; d += 32)
                q[j * dim + d] = raw[head * dim + d];
        }
    }
    __syncthreads();
}

// Scores of the page's 32 tokens, one a lane, for G query heads: a lane first takes eight tokens at
// every eighth dimension, then the lanes of these tokens exchange halves until each has its own.
template <int G>
LAC__DEVICE void page_scores(const lac__attention_args &a, const uint8_t *page, size_t at,
                             const float *q, float s[G])
{
    unsigned lane = threadIdx.x % 32, sub = lane % 8, dim = a.head_dim;
    float acc[G][8] = {{0}};
    for (unsigned d = sub; d < dim; d += 8) {
        float k[8];
        page_load8(page, a.wide, at + ((size_t)(lane / 8) * dim + d) * 8, k);
#pragma unroll
        for (int g = 0; g < G; g++) {
            float x = q[g * dim + d];
#pragma unroll
            for (int t = 0; t < 8; t++)
                acc[g][t] = fmaf(x, k[t], acc[g][t]);
        }
    }
#pragma unroll
    for (int g = 0; g < G; g++) {
#pragma unroll
        for (int half_of = 4; half_of > 0; half_of /= 2)
#pragma unroll
            for (int t = 0; t < half_of; t++) {
                bool upper = (sub & (unsigned)half_of) != 0;
                float mine = upper ? acc[g][t + half_of] : acc[g][t];
                float other = upper ? acc[g][t] : acc[g][t + half_of];
                acc[g][t] = mine + __shfl_xor_sync(LAC__ALL, other, half_of);
            }
        s[g] = acc[g][0];
    }
}

template <int G> struct warp_state {
    float m[G], l[G]; // maximum; this lane's share of the sum
    float o[G][VALUES_WIDE][8];
};

template <int G>
LAC__DEVICE void page_values(const lac__attention_args &a, const uint8_t *page, size_t at,
                             unsigned lo, unsigned hi, const float p[G], warp_state<G> &w)
{
    unsigned lane = threadIdx.x % 32, vectors = a.head_dim / 8;
    unsigned at_once = vectors < 32 ? 32 / vectors : 1, mine = lane / (vectors < 32 ? vectors : 32);
    for (unsigned t0 = 0; t0 < LAC__PAGE; t0 += at_once) {
        unsigned t = t0 + mine;
        bool seen = mine < at_once && t >= lo && t < hi;
        float weight[G];
#pragma unroll
        for (int g = 0; g < G; g++)
            weight[g] = __shfl_sync(LAC__ALL, p[g], (int)(t < LAC__PAGE ? t : 0));
#pragma unroll
        for (int wide = 0; wide < VALUES_WIDE; wide++) {
            unsigned vector = lane % (vectors < 32 ? vectors : 32) + 32 * wide;
            if (!seen || vector >= vectors) // what lies in a page unseen may be anything
                continue;
            float v[8];
            page_load8(page, a.wide, at + (size_t)t * a.head_dim + vector * 8, v);
#pragma unroll
            for (int g = 0; g < G; g++)
#pragma unroll
                for (int k = 0; k < 8; k++)
                    w.o[g][wide][k] = fmaf(weight[g], v[k], w.o[g][wide][k]);
        }
    }
}

template <int G>
LAC__DEVICE void page_add(const lac__attention_args &a, const place &p, unsigned block,
                          const float *q, warp_state<G> &w)
{
    unsigned lane = threadIdx.x % 32, start = block * LAC__PAGE;
    unsigned lo = p.begin > start ? p.begin - start : 0;
    unsigned hi = p.end - start < LAC__PAGE ? p.end - start : LAC__PAGE;
    const uint8_t *page = page_of(a, p.segment, block);
    size_t at = head_at(a, p.kv_head);
    float s[G];
    page_scores<G>(a, page, at, q, s);
#pragma unroll
    for (int g = 0; g < G; g++) {
        float x = s[g] * a.scale;
        if (a.softcap > 0.0f)
            x = a.softcap * tanhf(x / a.softcap);
        x = lane >= lo && lane < hi ? x : -INFINITY;
        float top = fmaxf(w.m[g], warp_max(x)), back = expf(w.m[g] - top);
        s[g] = expf(x - top);
        w.l[g] = w.l[g] * back + s[g];
        w.m[g] = top;
#pragma unroll
        for (int wide = 0; wide < VALUES_WIDE; wide++)
#pragma unroll
            for (int k = 0; k < 8; k++)
                w.o[g][wide][k] *= back;
    }
    page_values<G>(a, page, at + (size_t)LAC__PAGE * a.head_dim, lo, hi, s, w);
}

// The warp's state to shared memory: o [G][dim], m, l. Lanes that hold the same dimensions of other
// tokens add theirs one after the other.
template <int G>
LAC__DEVICE void warp_put(const lac__attention_args &a, const warp_state<G> &w, float *o, float *m,
                          float *l)
{
    unsigned lane = threadIdx.x % 32, dim = a.head_dim, vectors = dim / 8;
    unsigned at_once = vectors < 32 ? 32 / vectors : 1, mine = lane / (vectors < 32 ? vectors : 32);
    for (unsigned turn = 0; turn < at_once; turn++) {
#pragma unroll
        for (int wide = 0; wide < VALUES_WIDE; wide++) {
            unsigned vector = lane % (vectors < 32 ? vectors : 32) + 32 * wide;
            if (mine != turn || vector >= vectors)
                continue;
#pragma unroll
            for (int g = 0; g < G; g++)
#pragma unroll
                for (int k = 0; k < 8; k++) {
                    float *at = o + g * dim + vector * 8 + k;
                    *at = turn == 0 ? w.o[g][wide][k] : *at + w.o[g][wide][k];
                }
        }
        __syncwarp();
    }
#pragma unroll
    for (int g = 0; g < G; g++) {
        float sum = warp_sum(w.l[g]);
        if (lane == 0)
            m[g] = w.m[g], l[g] = sum;
    }
}

// A state {o, m, l} of `count` that fold into one, for value d of head g. Ascending, two passes.
LAC__DEVICE float fold(const float *o, const float *m, const float *l, size_t o_step, size_t m_step,
                       unsigned count, float &top, float &sum)
{
    float value = 0.0f;
    top = -INFINITY;
    sum = 0.0f;
    for (unsigned i = 0; i < count; i++)
        top = fmaxf(top, m[i * m_step]);
    for (unsigned i = 0; i < count; i++) {
        float weight = m[i * m_step] == -INFINITY ? 0.0f : expf(m[i * m_step] - top);
        sum += weight * l[i * m_step];
        value += weight == 0.0f ? 0.0f : weight * o[i * o_step];
    }
    return value;
}

// The group's result, [group × dim] in `from`, to the panel of the projection.
LAC__DEVICE void publish(const lac__attention_args &a, const place &p, const float *from)
{
    unsigned n = p.group * a.head_dim, cols = a.heads * a.head_dim, at = p.kv_head * n;
    if (!a.to.q || n % 32 != 0) {
        for (unsigned k = threadIdx.x; k < n; k += LAC__ATTENTION_THREADS)
            a.to.f[(size_t)p.i * cols + at + k] = from[k];
        return;
    }
    for (unsigned b = threadIdx.x / 32; b * 32 < n; b += LAC__ATTENTION_WARPS)
        panel_put32(a.to, p.i, cols, at + b * 32, from[b * 32 + threadIdx.x % 32]);
}

// Hands a split's result over; true in the block that came last, with everybody's results in sight.
LAC__DEVICE bool is_last(const lac__attention_args &a, const place &p)
{
    LAC__SHARED(unsigned, before);
    __threadfence();
    __syncthreads();
    uint32_t *counter = a.counter + (size_t)p.i * a.kv_heads + p.kv_head;
    if (threadIdx.x == 0)
        before = atomicAdd(counter, 1u);
    __syncthreads();
    if (before + 1 != p.splits)
        return false;
    if (threadIdx.x == 0)
        *counter = 0;
    __threadfence();
    return true;
}

// One state is [group][dim + 2].
LAC__DEVICE void fold_splits(const lac__attention_args &a, const place &p, float *result)
{
    unsigned dim = a.head_dim, state = p.group * (dim + 2);
    size_t step = (size_t)a.kv_heads * state;
    float *base = a.partial + ((size_t)p.i * gridDim.z * a.kv_heads + p.kv_head) * state;
    if (p.splits > 1) {
        float *mine = base + p.split * step;
        for (unsigned k = threadIdx.x; k < state; k += LAC__ATTENTION_THREADS)
            mine[k] = result[k];
        if (!is_last(a, p))
            return;
        for (unsigned k = threadIdx.x; k < p.group * dim; k += LAC__ATTENTION_THREADS) {
            const float *o = base + k / dim * (dim + 2);
            float top, sum;
            float value = fold(o + k % dim, o + dim, o + dim + 1, step, step, p.splits, top, sum);
            result[k] = value / sum;
        }
    } else {
        // in place: the state's rows are dim + 2 apart, the result's dim
        for (unsigned g = 0; g < p.group; g++)
            for (unsigned d0 = 0; d0 < dim; d0 += LAC__ATTENTION_THREADS) {
                unsigned d = d0 + threadIdx.x;
                float y = d < dim ? result[g * (dim + 2) + d] / result[g * (dim + 2) + dim + 1] : 0;
                __syncthreads();
                if (d < dim)
                    result[g * dim + d] = y;
                __syncthreads();
            }
    }
    __syncthreads();
    publish(a, p, result);
}

// Shared memory in floats: queries [group][dim], two heads more, states of the warps
// [warps][G][dim + 2], the block's [group][dim + 2].
template <int G> LAC__DEVICE void attend(const lac__attention_args &a)
{
    LAC__DYNAMIC(room);
    place p;
    if (!find_place(a, p))
        return;
    unsigned warp = threadIdx.x / 32, dim = a.head_dim;
    float *q = (float *)room, *spare = q + p.group * dim, *states = spare + 2 * dim;
    float *result = states + LAC__ATTENTION_WARPS * G * (dim + 2);
    take_heads(a, p, q, spare);
    for (unsigned g0 = 0; g0 < p.group; g0 += G) {
        // Heads past the group repeat its last ones; their results are not used.
        unsigned from = g0 + G <= p.group ? g0 : p.group - G;
        warp_state<G> w;
#pragma unroll
        for (int g = 0; g < G; g++) {
            w.m[g] = -INFINITY;
            w.l[g] = 0.0f;
            for (int k = 0; k < VALUES_WIDE * 8; k++)
                w.o[g][k / 8][k % 8] = 0.0f;
        }
        for (unsigned b = p.begin / LAC__PAGE + warp; b * LAC__PAGE < p.end;
             b += LAC__ATTENTION_WARPS)
            page_add<G>(a, p, b, q + from * dim, w);
        float *o = states + warp * G * (dim + 2), *m = o + G * dim, *l = m + G;
        warp_put<G>(a, w, o, m, l);
        __syncthreads();
        for (unsigned k = threadIdx.x; k < G * dim; k += LAC__ATTENTION_THREADS) {
            unsigned g = k / dim, d = k % dim;
            const float *first = states + k, *max = states + G * dim + g;
            size_t step = G * (dim + 2);
            float top, sum;
            float value = fold(first, max, max + G, step, step, LAC__ATTENTION_WARPS, top, sum);
            result[(from + g) * (dim + 2) + d] = value;
            if (d == 0) {
                result[(from + g) * (dim + 2) + dim] = top;
                result[(from + g) * (dim + 2) + dim + 1] = sum;
            }
        }
        __syncthreads();
    }
    fold_splits(a, p, result);
}

LAC__KERNEL(lac_attend_1, lac__attention_args, LAC__ATTENTION_THREADS, 4)
{
    attend<1>(a);
}
LAC__KERNEL(lac_attend_2, lac__attention_args, LAC__ATTENTION_THREADS, 4)
{
    attend<2>(a);
}
LAC__KERNEL(lac_attend_3, lac__attention_args, LAC__ATTENTION_THREADS, 3)
{
    attend<3>(a);
}
LAC__KERNEL(lac_attend_4, lac__attention_args, LAC__ATTENTION_THREADS, 3)
{
    attend<4>(a);
}
