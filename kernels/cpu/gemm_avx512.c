/* Products for AVX-512 with VNNI: two groups of eight rows side by side, sixteen lanes, sixteen
 * rows. One vpdpbusd adds four products a lane in 32 bits, so nothing can overflow; the arithmetic
 * around the exact integer sums is gemm_scalar.c's, term by term. Q8_0 codes become unsigned by
 * +128, taken back as −128 × Σq. With LAC__SIMDE the same text is compiled for any machine, which
 * the tests do. */
#if defined(__x86_64__)
#include "gemm.h"

#include "avx512_any.h"

enum { PREFETCH_BYTES = 3072 };

typedef struct {
    __m512i w0, w1, w2, w3, w4, w5, w6, w7;
    __m512 d, m, d_hi, m_hi; /* the last two: Q6_K's second half */
} unit;

/* The same 32 bytes of two groups; `next` is how far the second lies behind the first. */
LAC__ALWAYS __m512i load_bytes(const uint8_t *p, size_t next)
{
    __m256i lo = _mm256_loadu_si256((const __m256i *)(const void *)p);
    __m256i hi = _mm256_loadu_si256((const __m256i *)(const void *)(p + next));
    return _mm512_inserti64x4(_mm512_castsi256_si512(lo), hi, 1);
}

LAC__ALWAYS __m512 join(__m256 lo, __m256 hi)
{
    return _mm512_castsi512_ps(_mm512_inserti64x4(_mm512_castps_si512(_mm512_castps256_ps512(lo)),
                                                  _mm256_castps_si256(hi), 1));
}

LAC__ALWAYS __m256 load_half(const uint8_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

LAC__ALWAYS __m512 load_f16(const uint8_t *p, size_t next)
{
    return join(load_half(p), load_half(p + next));
}

LAC__ALWAYS __m128i load_pair(const uint8_t *p, size_t next)
{
    return _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)(const void *)p),
                              _mm_loadl_epi64((const __m128i *)(const void *)(p + next)));
}

LAC__ALWAYS __m512 load_u8(const uint8_t *p, size_t next)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(load_pair(p, next)));
}

LAC__ALWAYS __m512 load_i8(const uint8_t *p, size_t next)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load_pair(p, next)));
}

LAC__ALWAYS void load_scales(const lac_type type, const uint8_t *g, size_t next, lac__unit_place at,
                             unit *u)
{
    u->d = load_f16(g + at.d, next);
    switch (type) {
    case LAC_TYPE_Q4_0: u->m = _mm512_mul_ps(_mm512_set1_ps(-8.0f), u->d); break;
    case LAC_TYPE_Q5_0: u->m = _mm512_mul_ps(_mm512_set1_ps(-16.0f), u->d); break;
    case LAC_TYPE_Q4_1:
    case LAC_TYPE_Q5_1: u->m = load_f16(g + at.m, next); break;
    case LAC_TYPE_Q4_K:
    case LAC_TYPE_Q5_K:
        u->m = _mm512_mul_ps(load_f16(g + at.m, next), load_u8(g + at.scale + 8, next));
        u->m = _mm512_castsi512_ps(
            _mm512_xor_si512(_mm512_castps_si512(u->m), _mm512_set1_epi32(INT32_MIN)));
        u->d = _mm512_mul_ps(u->d, load_u8(g + at.scale, next));
        break;
    case LAC_TYPE_Q6_K:
        u->d_hi = _mm512_mul_ps(u->d, load_i8(g + at.scale + 8, next));
        u->d = _mm512_mul_ps(u->d, load_i8(g + at.scale, next));
        u->m = _mm512_mul_ps(_mm512_set1_ps(-32.0f), u->d);
        u->m_hi = _mm512_mul_ps(_mm512_set1_ps(-32.0f), u->d_hi);
        break;
    default: break;
    }
}

/* Bits of `from` moved left (right when negative) and masked, put over a code. */
LAC__ALWAYS __m512i over(__m512i code, __m512i from, const int left, __m512i mask)
{
    __m512i moved = left >= 0 ? _mm512_slli_epi16(from, (unsigned)(left >= 0 ? left : 0))
                              : _mm512_srli_epi16(from, (unsigned)(left < 0 ? -left : 0));
    return _mm512_or_si512(code, _mm512_and_si512(moved, mask));
}

LAC__ALWAYS void load_high(const lac_type type, const uint8_t *q, size_t next, unit *u)
{
    if (type == LAC_TYPE_Q5_0 || type == LAC_TYPE_Q5_1 || type == LAC_TYPE_Q5_K) {
        const __m512i h = load_bytes(q + 128, next), bit = _mm512_set1_epi8(16);
        u->w0 = over(u->w0, h, 4, bit), u->w1 = over(u->w1, h, 3, bit);
        u->w2 = over(u->w2, h, 2, bit), u->w3 = over(u->w3, h, 1, bit);
        u->w4 = over(u->w4, h, 0, bit), u->w5 = over(u->w5, h, -1, bit);
        u->w6 = over(u->w6, h, -2, bit), u->w7 = over(u->w7, h, -3, bit);
    } else if (type == LAC_TYPE_Q6_K) {
        const __m512i lo = load_bytes(q + 128, next), hi = load_bytes(q + 160, next);
        const __m512i pair = _mm512_set1_epi8(48);
        u->w0 = over(u->w0, lo, 4, pair), u->w1 = over(u->w1, lo, 2, pair);
        u->w2 = over(u->w2, lo, 0, pair), u->w3 = over(u->w3, lo, -2, pair);
        u->w4 = over(u->w4, hi, 4, pair), u->w5 = over(u->w5, hi, 2, pair);
        u->w6 = over(u->w6, hi, 0, pair), u->w7 = over(u->w7, hi, -2, pair);
    }
}

LAC__ALWAYS void load_codes(const lac_type type, const uint8_t *q, size_t next, unit *u)
{
    if (type == LAC_TYPE_Q8_0) {
        const __m512i sign = _mm512_set1_epi8(-128); /* flipping the top bit adds 128 */
        u->w0 = _mm512_xor_si512(load_bytes(q, next), sign);
        u->w1 = _mm512_xor_si512(load_bytes(q + 32, next), sign);
        u->w2 = _mm512_xor_si512(load_bytes(q + 64, next), sign);
        u->w3 = _mm512_xor_si512(load_bytes(q + 96, next), sign);
        u->w4 = _mm512_xor_si512(load_bytes(q + 128, next), sign);
        u->w5 = _mm512_xor_si512(load_bytes(q + 160, next), sign);
        u->w6 = _mm512_xor_si512(load_bytes(q + 192, next), sign);
        u->w7 = _mm512_xor_si512(load_bytes(q + 224, next), sign);
        return;
    }
    const __m512i nibble = _mm512_set1_epi8(15);
    __m512i a = load_bytes(q, next), b = load_bytes(q + 32, next);
    __m512i c = load_bytes(q + 64, next), d = load_bytes(q + 96, next);
    u->w0 = _mm512_and_si512(a, nibble), u->w1 = _mm512_and_si512(b, nibble);
    u->w2 = _mm512_and_si512(c, nibble), u->w3 = _mm512_and_si512(d, nibble);
    u->w4 = _mm512_and_si512(_mm512_srli_epi16(a, 4), nibble);
    u->w5 = _mm512_and_si512(_mm512_srli_epi16(b, 4), nibble);
    u->w6 = _mm512_and_si512(_mm512_srli_epi16(c, 4), nibble);
    u->w7 = _mm512_and_si512(_mm512_srli_epi16(d, 4), nibble);
    load_high(type, q, next, u);
}

LAC__ALWAYS __m512i dot(__m512i sum, __m512i w, const int8_t *q)
{
    int32_t four;
    memcpy(&four, q, 4);
    return _mm512_dpbusd_epi32(sum, w, _mm512_set1_epi32(four));
}

LAC__ALWAYS __m512 scaled(__m512 d, float dx, __m512i sum, __m512 acc)
{
    return lac__fma512(_mm512_mul_ps(d, _mm512_set1_ps(dx)), _mm512_cvtepi32_ps(sum), acc);
}

LAC__ALWAYS __m512 column(const lac_type type, const unit *u, const lac__xblock *x, __m512 acc)
{
    const int8_t *q = x->q;
    __m512i start =
        type == LAC_TYPE_Q8_0 ? _mm512_set1_epi32(-128 * x->sum) : _mm512_setzero_si512();
    __m512i lo = dot(dot(dot(dot(start, u->w0, q), u->w1, q + 4), u->w2, q + 8), u->w3, q + 12);
    __m512i hi =
        dot(dot(dot(dot(_mm512_setzero_si512(), u->w4, q + 16), u->w5, q + 20), u->w6, q + 24),
            u->w7, q + 28);
    if (type == LAC_TYPE_Q6_K) {
        acc = scaled(u->d, x->d, lo, acc);
        acc = lac__fma512(u->m, _mm512_set1_ps(x->s_lo), acc);
        acc = scaled(u->d_hi, x->d, hi, acc);
        return lac__fma512(u->m_hi, _mm512_set1_ps(x->s_hi), acc);
    }
    acc = scaled(u->d, x->d, _mm512_add_epi32(lo, hi), acc);
    return type == LAC_TYPE_Q8_0 ? acc : lac__fma512(u->m, _mm512_set1_ps(x->s), acc);
}

/* Sixteen lanes to out; eight when there is no second group. */
LAC__ALWAYS void put(float *out, __m512 acc, bool both)
{
    if (both)
        _mm512_storeu_ps(out, acc);
    else
        _mm256_storeu_ps(out, _mm512_castps512_ps256(acc));
}

/* What put() left. */
LAC__ALWAYS __m512 get(const float *out, bool both)
{
    return both ? _mm512_loadu_ps(out) : join(_mm256_loadu_ps(out), _mm256_setzero_ps());
}

LAC__ALWAYS void integer_columns(const lac_type type, const uint32_t n, uint32_t stride,
                                 const uint8_t *g, size_t next, uint32_t blocks,
                                 const lac__xblock *x, bool goes_on, float *out, size_t ld)
{
    __m512 acc[8];
    for (uint32_t c = 0; c < n; c++)
        acc[c] = goes_on ? get(out + c * ld, next != 0) : _mm512_setzero_ps();
    for (uint32_t b = 0; b < blocks; b++, x += stride) {
        lac__unit_place at = lac__unit_at(type, b);
        unit u;
        for (size_t line = 0; line < (type == LAC_TYPE_Q8_0 ? 320 : 192); line += 64) {
            _mm_prefetch((const char *)g + at.codes + PREFETCH_BYTES + line, _MM_HINT_T0);
            _mm_prefetch((const char *)g + next + at.codes + PREFETCH_BYTES + line, _MM_HINT_T0);
        }
        load_scales(type, g, next, at, &u);
        load_codes(type, g + at.codes, next, &u);
        for (uint32_t c = 0; c < n; c++)
            acc[c] = column(type, &u, x + c, acc[c]);
    }
    for (uint32_t c = 0; c < n; c++)
        put(out + c * ld, acc[c], next != 0);
}

LAC__ALWAYS void integer_gemm(const lac_type type, const lac_weight *w, uint32_t group,
                              uint32_t groups, const lac__tile *x, float *out, size_t ld)
{
    const uint8_t *g = w->data + (size_t)group * w->group_bytes;
    uint32_t blocks = w->cols / 32;
    for (uint32_t i = 0; i < groups; i += 2, g += 2 * w->group_bytes, out += 16) {
        size_t next = i + 1 < groups ? w->group_bytes : 0;
        uint32_t c = 0;
        for (; c + 8 <= x->n; c += 8)
            integer_columns(type, 8, x->n, g, next, blocks, x->x + c, x->goes_on, out + c * ld, ld);
        for (; c + 4 <= x->n; c += 4)
            integer_columns(type, 4, x->n, g, next, blocks, x->x + c, x->goes_on, out + c * ld, ld);
        for (; c < x->n; c++)
            integer_columns(type, 1, x->n, g, next, blocks, x->x + c, x->goes_on, out + c * ld, ld);
    }
}

/* ---- float weights ---- */

LAC__ALWAYS __m512 load_weights(const lac_type type, const uint8_t *g, size_t next, size_t k)
{
    if (type == LAC_TYPE_F32) {
        g += k * 32;
        return join(_mm256_loadu_ps((const float *)(const void *)g),
                    _mm256_loadu_ps((const float *)(const void *)(g + next)));
    }
    g += k * 16;
    if (type == LAC_TYPE_F16)
        return load_f16(g, next);
    __m128i lo = _mm_loadu_si128((const __m128i *)(const void *)g);
    __m128i hi = _mm_loadu_si128((const __m128i *)(const void *)(g + next));
    __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_cvtepu16_epi32(lo)),
                                      _mm256_cvtepu16_epi32(hi), 1);
    return _mm512_castsi512_ps(_mm512_slli_epi32(both, 16));
}

LAC__ALWAYS void float_columns(const lac_type type, const uint32_t n, const uint8_t *g, size_t next,
                               uint32_t cols, const float *f, uint32_t stride, float *out,
                               size_t ld)
{
    __m512 acc[4][4];
    for (uint32_t c = 0; c < n; c++)
        for (uint32_t i = 0; i < 4; i++)
            acc[c][i] = _mm512_setzero_ps();
    uint32_t k = 0;
    for (; k + 4 <= cols; k += 4) {
        for (uint32_t i = 0; i < 4; i++) {
            __m512 w = load_weights(type, g, next, k + i);
            for (uint32_t c = 0; c < n; c++)
                acc[c][i] =
                    lac__fma512(w, _mm512_set1_ps(f[(size_t)(k + i) * stride + c]), acc[c][i]);
        }
    }
    for (uint32_t i = 0; i < 3; i++) {
        if (k + i >= cols)
            break;
        __m512 w = load_weights(type, g, next, k + i);
        for (uint32_t c = 0; c < n; c++)
            acc[c][i] = lac__fma512(w, _mm512_set1_ps(f[(size_t)(k + i) * stride + c]), acc[c][i]);
    }
    for (uint32_t c = 0; c < n; c++)
        put(out + c * ld,
            _mm512_add_ps(_mm512_add_ps(acc[c][0], acc[c][1]), _mm512_add_ps(acc[c][2], acc[c][3])),
            next != 0);
}

LAC__ALWAYS void float_gemm(const lac_type type, const lac_weight *w, uint32_t group,
                            uint32_t groups, const lac__tile *x, float *out, size_t ld)
{
    const uint8_t *g = w->data + (size_t)group * w->group_bytes;
    for (uint32_t i = 0; i < groups; i += 2, g += 2 * w->group_bytes, out += 16) {
        size_t next = i + 1 < groups ? w->group_bytes : 0;
        uint32_t c = 0;
        for (; c + 4 <= x->n; c += 4)
            float_columns(type, 4, g, next, w->cols, x->f + c, x->n, out + c * ld, ld);
        for (; c < x->n; c++)
            float_columns(type, 1, g, next, w->cols, x->f + c, x->n, out + c * ld, ld);
    }
}

LAC__GEMM_DEFINE(LAC__AVX512)
#endif
