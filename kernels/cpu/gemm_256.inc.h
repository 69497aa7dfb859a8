/* What the products of all 256-bit instruction sets share: scales and codes of
 * a unit in registers, prefetching, and the products with float weights.
 * Included once by each of them. */
#ifndef LAC_KERNELS_GEMM_256_H
#define LAC_KERNELS_GEMM_256_H

#include "gemm.h"

#include <immintrin.h>

/* Bytes ahead that a matrix-vector product asks for: what memory delivers while
 * one unit is in work. */
enum { PREFETCH_BYTES = 3072 };

/* Eight quads of columns of eight rows, and what turns their sums into values.
 */
typedef struct {
    __m256i w0, w1, w2, w3, w4, w5, w6, w7;
    __m256 d, m, d_hi, m_hi; /* the last two: Q6_K's second half */
} unit;

LAC__ALWAYS __m256 load_f16(const uint8_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

LAC__ALWAYS __m256i load_bytes(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

LAC__ALWAYS __m256 load_u8(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(
        _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}

LAC__ALWAYS __m256 load_i8(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(
        _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}

LAC__ALWAYS void load_scales(const lac_type type, const uint8_t *g, lac__unit_place at, unit *u)
{
    u->d = load_f16(g + at.d);
    switch (type) {
    case LAC_TYPE_Q4_0: u->m = _mm256_mul_ps(_mm256_set1_ps(-8.0f), u->d); break;
    case LAC_TYPE_Q5_0: u->m = _mm256_mul_ps(_mm256_set1_ps(-16.0f), u->d); break;
    case LAC_TYPE_Q4_1:
    case LAC_TYPE_Q5_1: u->m = load_f16(g + at.m); break;
    case LAC_TYPE_Q4_K:
    case LAC_TYPE_Q5_K:
        u->m = _mm256_xor_ps(_mm256_mul_ps(load_f16(g + at.m), load_u8(g + at.scale + 8)),
                             _mm256_set1_ps(-0.0f));
        u->d = _mm256_mul_ps(u->d, load_u8(g + at.scale));
        break;
    case LAC_TYPE_Q6_K:
        u->d_hi = _mm256_mul_ps(u->d, load_i8(g + at.scale + 8));
        u->d = _mm256_mul_ps(u->d, load_i8(g + at.scale));
        u->m = _mm256_mul_ps(_mm256_set1_ps(-32.0f), u->d);
        u->m_hi = _mm256_mul_ps(_mm256_set1_ps(-32.0f), u->d_hi);
        break;
    default: break;
    }
}

LAC__ALWAYS bool five_bits(const lac_type type)
{
    return type == LAC_TYPE_Q5_0 || type == LAC_TYPE_Q5_1 || type == LAC_TYPE_Q5_K;
}

/* Bytes shifted left by one: additions find a free unit more often than shifts
 * do. */
LAC__ALWAYS __m256i twice(__m256i v)
{
    return _mm256_add_epi8(v, v);
}

/* The fifth bit of a code from where it stands as bit 4. */
LAC__ALWAYS __m256i fifth(__m256i bits)
{
    return _mm256_and_si256(bits, _mm256_set1_epi8(16));
}

/* Fifth bits of a unit's high nibbles, those of quad 3 in place; doubling
 * brings the next. */
LAC__ALWAYS __m256i high_bits(const uint8_t *codes)
{
    return _mm256_srli_epi16(load_bytes(codes + 128), 3);
}

LAC__ALWAYS void load_codes(const lac_type type, const uint8_t *q, unit *u)
{
    if (type == LAC_TYPE_Q8_0) {
        u->w0 = load_bytes(q), u->w1 = load_bytes(q + 32), u->w2 = load_bytes(q + 64);
        u->w3 = load_bytes(q + 96), u->w4 = load_bytes(q + 128), u->w5 = load_bytes(q + 160);
        u->w6 = load_bytes(q + 192), u->w7 = load_bytes(q + 224);
        return;
    }
    const __m256i nibble = _mm256_set1_epi8(15);
    u->w4 = load_bytes(q), u->w5 = load_bytes(q + 32);
    u->w6 = load_bytes(q + 64), u->w7 = load_bytes(q + 96);
    u->w0 = _mm256_and_si256(u->w4, nibble), u->w1 = _mm256_and_si256(u->w5, nibble);
    u->w2 = _mm256_and_si256(u->w6, nibble), u->w3 = _mm256_and_si256(u->w7, nibble);
    u->w4 = _mm256_and_si256(_mm256_srli_epi16(u->w4, 4), nibble);
    u->w5 = _mm256_and_si256(_mm256_srli_epi16(u->w5, 4), nibble);
    u->w6 = _mm256_and_si256(_mm256_srli_epi16(u->w6, 4), nibble);
    u->w7 = _mm256_and_si256(_mm256_srli_epi16(u->w7, 4), nibble);
    if (five_bits(type)) {
        __m256i lo = twice(load_bytes(q + 128)), hi = high_bits(q);
        u->w3 = _mm256_or_si256(u->w3, fifth(lo));
        u->w2 = _mm256_or_si256(u->w2, fifth(lo = twice(lo)));
        u->w1 = _mm256_or_si256(u->w1, fifth(lo = twice(lo)));
        u->w0 = _mm256_or_si256(u->w0, fifth(twice(lo)));
        u->w7 = _mm256_or_si256(u->w7, fifth(hi));
        u->w6 = _mm256_or_si256(u->w6, fifth(hi = twice(hi)));
        u->w5 = _mm256_or_si256(u->w5, fifth(hi = twice(hi)));
        u->w4 = _mm256_or_si256(u->w4, fifth(twice(hi)));
    } else if (type == LAC_TYPE_Q6_K) {
        const __m256i lo = load_bytes(q + 128), hi = load_bytes(q + 160),
                      pair = _mm256_set1_epi8(48);
        u->w0 = _mm256_or_si256(u->w0, _mm256_and_si256(_mm256_slli_epi16(lo, 4), pair));
        u->w1 = _mm256_or_si256(u->w1, _mm256_and_si256(_mm256_slli_epi16(lo, 2), pair));
        u->w2 = _mm256_or_si256(u->w2, _mm256_and_si256(lo, pair));
        u->w3 = _mm256_or_si256(u->w3, _mm256_and_si256(_mm256_srli_epi16(lo, 2), pair));
        u->w4 = _mm256_or_si256(u->w4, _mm256_and_si256(_mm256_slli_epi16(hi, 4), pair));
        u->w5 = _mm256_or_si256(u->w5, _mm256_and_si256(_mm256_slli_epi16(hi, 2), pair));
        u->w6 = _mm256_or_si256(u->w6, _mm256_and_si256(hi, pair));
        u->w7 = _mm256_or_si256(u->w7, _mm256_and_si256(_mm256_srli_epi16(hi, 2), pair));
    }
}

LAC__ALWAYS __m256i quad(const int8_t *q)
{
    int32_t four;
    memcpy(&four, q, 4);
    return _mm256_set1_epi32(four);
}

LAC__ALWAYS __m256 scaled(__m256 d, float dx, __m256i sum, __m256 acc)
{
    return _mm256_fmadd_ps(_mm256_mul_ps(d, _mm256_set1_ps(dx)), _mm256_cvtepi32_ps(sum), acc);
}

LAC__ALWAYS void prefetch(const lac_type type, const uint8_t *codes)
{
    /* Past the end this asks for the next group, which this thread most often
     * takes next. */
    const char *ahead = (const char *)codes + PREFETCH_BYTES;
    _mm_prefetch(ahead, _MM_HINT_T0);
    _mm_prefetch(ahead + 64, _MM_HINT_T0);
    if (type != LAC_TYPE_Q4_0 && type != LAC_TYPE_Q4_K)
        _mm_prefetch(ahead + 128, _MM_HINT_T0);
    if (type == LAC_TYPE_Q8_0) {
        _mm_prefetch(ahead + 192, _MM_HINT_T0);
        _mm_prefetch(ahead + 256, _MM_HINT_T0);
    }
}

/* ---- float weights ---- */

LAC__ALWAYS __m256 load_weights(const lac_type type, const uint8_t *g, size_t k)
{
    if (type == LAC_TYPE_F32)
        return _mm256_loadu_ps((const float *)(const void *)g + k * 8);
    if (type == LAC_TYPE_F16)
        return load_f16(g + k * 16);
    __m128i h = _mm_loadu_si128((const __m128i *)(const void *)(g + k * 16));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

/* n columns (a constant, at most 3) from column c of a tile of `stride`: four
 * chains each. */
LAC__ALWAYS void float_columns(const lac_type type, const uint32_t n, const uint8_t *g,
                               uint32_t cols, const float *f, uint32_t stride, float *out,
                               size_t ld)
{
    __m256 acc[3][4];
    for (uint32_t c = 0; c < n; c++)
        for (uint32_t i = 0; i < 4; i++)
            acc[c][i] = _mm256_setzero_ps();
    uint32_t k = 0;
    for (; k + 4 <= cols; k += 4) {
        for (uint32_t i = 0; i < 4; i++) {
            __m256 w = load_weights(type, g, k + i);
            for (uint32_t c = 0; c < n; c++)
                acc[c][i] =
                    _mm256_fmadd_ps(w, _mm256_set1_ps(f[(size_t)(k + i) * stride + c]), acc[c][i]);
        }
    }
    for (uint32_t i = 0; i < 3; i++) {
        if (k + i >= cols)
            break;
        __m256 w = load_weights(type, g, k + i);
        for (uint32_t c = 0; c < n; c++)
            acc[c][i] =
                _mm256_fmadd_ps(w, _mm256_set1_ps(f[(size_t)(k + i) * stride + c]), acc[c][i]);
    }
    for (uint32_t c = 0; c < n; c++)
        _mm256_storeu_ps(out + c * ld, _mm256_add_ps(_mm256_add_ps(acc[c][0], acc[c][1]),
                                                     _mm256_add_ps(acc[c][2], acc[c][3])));
}

LAC__ALWAYS void float_gemm(const lac_type type, const lac_weight *w, uint32_t group,
                            uint32_t groups, const lac__tile *x, float *out, size_t ld)
{
    const uint8_t *g = w->data + (size_t)group * w->group_bytes;
    for (uint32_t i = 0; i < groups; i++, g += w->group_bytes, out += 8) {
        uint32_t c = 0;
        for (; c + 3 <= x->n; c += 3)
            float_columns(type, 3, g, w->cols, x->f + c, x->n, out + c * ld, ld);
        if (x->n - c == 2)
            float_columns(type, 2, g, w->cols, x->f + c, x->n, out + c * ld, ld);
        else if (x->n - c == 1)
            float_columns(type, 1, g, w->cols, x->f + c, x->n, out + c * ld, ld);
    }
}

#endif
