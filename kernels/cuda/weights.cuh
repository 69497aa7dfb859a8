// Weights in layout D8 (args.h): where the planes of a group lie, and one chunk of a row as words
// of signed bytes or as floats. All of it is decided at compile time by the type.
#ifndef LAC_KERNELS_CUDA_WEIGHTS_CUH
#define LAC_KERNELS_CUDA_WEIGHTS_CUH

#include "device.cuh"

// Numbers of the file format, as in base/tensor.h.
enum weight_type {
    W_F32 = 0,
    W_F16 = 1,
    W_Q4_0 = 2,
    W_Q4_1 = 3,
    W_Q5_0 = 6,
    W_Q5_1 = 7,
    W_Q8_0 = 8,
    W_Q4_K = 12,
    W_Q5_K = 13,
    W_Q6_K = 14,
    W_BF16 = 30
};

template <int T> struct weight_facts {
    static const bool quant = T != W_F32 && T != W_F16 && T != W_BF16;
    static const bool five = T == W_Q5_0 || T == W_Q5_1 || T == W_Q5_K;
    static const bool six = T == W_Q6_K;
    static const bool super = T == W_Q4_K || T == W_Q5_K || T == W_Q6_K;
    static const bool minimum = T == W_Q4_1 || T == W_Q5_1;          // d and m side by side
    static const unsigned columns = quant ? 32 : T == W_F32 ? 4 : 8; // of a chunk
    // Bytes of a chunk and row in each plane.
    static const unsigned codes = T == W_Q8_0 ? 32 : 16;
    static const unsigned high = five ? 4 : six ? 8 : 0;
    static const unsigned scales = !quant ? 0 : minimum ? 4 : 2;
};

// One chunk of one row as a lane holds it.
struct quant_chunk {
    unsigned low[4], high[4]; // columns 0-15 and 16-31 as signed bytes
    float d, m;               // Q6_K: d of the two halves, both against code − 32
};

// What is loaded, before anything is computed from it, so that several loads can be under way.
template <int T> struct chunk_loads {
    uint4 codes, more;
    uint2 high;
    unsigned scale, super;
};

template <int T>
LAC__DEVICE void chunk_load(const uint8_t *group, unsigned chunks, unsigned chunk, unsigned r,
                            chunk_loads<T> &to)
{
    typedef weight_facts<T> facts;
    unsigned at = chunk * LAC__GROUP + r;
    const uint8_t *plane = group;
    to.codes = lac__load_stream16(plane + (size_t)at * 16);
    plane += (size_t)chunks * LAC__GROUP * 16;
    if (T == W_Q8_0) {
        to.more = lac__load_stream16(plane + (size_t)at * 16);
        plane += (size_t)chunks * LAC__GROUP * 16;
    }
    if (facts::five)
        to.high.x = lac__load_stream4(plane + (size_t)at * 4);
    if (facts::six)
        to.high = lac__load_stream8(plane + (size_t)at * 8);
    plane += (size_t)chunks * LAC__GROUP * facts::high;
    if (facts::minimum)
        to.scale = lac__load_stream4(plane + (size_t)at * 4);
    else
        to.scale = *(const uint16_t *)(plane + (size_t)at * 2);
    plane += (size_t)chunks * LAC__GROUP * facts::scales;
    if (facts::super) {
        unsigned s = chunk / 8 * LAC__GROUP + r;
        to.super = facts::six ? *(const uint16_t *)(plane + (size_t)s * 2)
                              : lac__load_stream4(plane + (size_t)s * 4);
    }
}

// d and m: value = d × code + m, Q6_K excepted.
template <int T> LAC__DEVICE void chunk_scales(unsigned scale, unsigned super, float &d, float &m)
{
    typedef weight_facts<T> facts;
    if (facts::six) {
        float base = half_float(super);
        d = base * (float)(int8_t)(scale & 0xffu);
        m = base * (float)(int8_t)(scale >> 8);
        return;
    }
    if (facts::super) {
        d = low_half(super) * (float)(scale & 0xffu);
        m = -(high_half(super) * (float)(scale >> 8));
        return;
    }
    d = low_half(scale);
    m = facts::minimum ? high_half(scale)
        : T == W_Q4_0  ? -8.0f * d
        : T == W_Q5_0  ? -16.0f * d
                       : 0.0f;
}

// Word i of the codes: columns 4i … 4i+3 and 16+4i … as bytes.
template <int T>
LAC__DEVICE void word_codes(unsigned word, unsigned high, unsigned high_pairs, unsigned i,
                            unsigned &lo, unsigned &hi)
{
    lo = word & 0x0f0f0f0fu;
    hi = word >> 4 & 0x0f0f0f0fu;
    if (weight_facts<T>::five) {
        lo |= (high >> i & 0x01010101u) << 4;
        hi |= (high >> (4 + i) & 0x01010101u) << 4;
    }
    if (weight_facts<T>::six) {
        lo |= (high >> 2 * i & 0x03030303u) << 4;
        hi |= (high_pairs >> 2 * i & 0x03030303u) << 4;
    }
}

template <int T> LAC__DEVICE void chunk_open(const chunk_loads<T> &from, quant_chunk &to)
{
    const unsigned words[4] = {from.codes.x, from.codes.y, from.codes.z, from.codes.w};
    const unsigned more[4] = {from.more.x, from.more.y, from.more.z, from.more.w};
#pragma unroll
    for (unsigned i = 0; i < 4; i++) {
        if (T == W_Q8_0) {
            to.low[i] = words[i];
            to.high[i] = more[i];
        } else {
            word_codes<T>(words[i], from.high.x, from.high.y, i, to.low[i], to.high[i]);
        }
    }
    chunk_scales<T>(from.scale, from.super, to.d, to.m);
}

// One chunk times one column's block, in the order of the reference: acc = fma(d·dx, Σ code·q,
// acc), then acc = fma(m, dx·Σq, acc).
template <int T>
LAC__DEVICE float chunk_dot(const quant_chunk &w, const int8_t *q, const float *s, float acc)
{
    uint4 a = *(const uint4 *)q, b = *(const uint4 *)(q + 16);
    int lo = __dp4a((int)w.low[0], (int)a.x, 0), hi = __dp4a((int)w.high[0], (int)b.x, 0);
    lo = __dp4a((int)w.low[1], (int)a.y, lo), hi = __dp4a((int)w.high[1], (int)b.y, hi);
    lo = __dp4a((int)w.low[2], (int)a.z, lo), hi = __dp4a((int)w.high[2], (int)b.z, hi);
    lo = __dp4a((int)w.low[3], (int)a.w, lo), hi = __dp4a((int)w.high[3], (int)b.w, hi);
    if (weight_facts<T>::six) {
        float4 x = *(const float4 *)s;
        acc = fmaf(w.d * x.x, (float)lo, acc);
        acc = fmaf(-32.0f * w.d, x.z, acc);
        acc = fmaf(w.m * x.x, (float)hi, acc);
        return fmaf(-32.0f * w.m, x.w, acc);
    }
    float2 x = *(const float2 *)s;
    acc = fmaf(w.d * x.x, (float)(lo + hi), acc);
    return T == W_Q8_0 ? acc : fmaf(w.m, x.y, acc);
}

// A chunk of a float type as floats.
template <int T>
LAC__DEVICE void chunk_floats(const uint8_t *group, unsigned chunk, unsigned r, float out[8])
{
    uint4 v = lac__load_stream16(group + (size_t)(chunk * LAC__GROUP + r) * 16);
    if (T == W_F16) {
        halves8(v, out);
    } else if (T == W_BF16) {
        const unsigned two[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            out[2 * i] = bf16_float(two[i] & 0xffffu);
            out[2 * i + 1] = bf16_float(two[i] >> 16);
        }
    } else {
        out[0] = __uint_as_float(v.x), out[1] = __uint_as_float(v.y);
        out[2] = __uint_as_float(v.z), out[3] = __uint_as_float(v.w);
    }
}

#endif
