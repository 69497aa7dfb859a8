/* Sixteen virtual lanes as one AVX-512 register. The vocabulary is lanes_scalar.h's. With
 * LAC__SIMDE the same text is compiled for any machine by SIMDe, which the tests do. */
#ifndef LAC_KERNELS_LANES_AVX512_H
#define LAC_KERNELS_LANES_AVX512_H

#include "avx512_any.h"

#include "cpu.h"

typedef __m512 vf;
typedef __m512i vi;

LAC__ALWAYS vf vf_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
LAC__ALWAYS void vf_store(float *p, vf x)
{
    _mm512_storeu_ps(p, x);
}
LAC__ALWAYS vf vf_load_part(const float *p, uint32_t n)
{
    float t[16] = {0};
    memcpy(t, p, n * sizeof *p);
    return vf_load(t);
}
LAC__ALWAYS void vf_store_part(float *p, vf x, uint32_t n)
{
    float t[16];
    vf_store(t, x);
    memcpy(p, t, n * sizeof *p);
}
LAC__ALWAYS vf vf_set(float x)
{
    return _mm512_set1_ps(x);
}
#define LAC__ONE(type, name, op)                                                                   \
    LAC__ALWAYS type name(type x, type y)                                                          \
    {                                                                                              \
        return op(x, y);                                                                           \
    }
LAC__ONE(vf, vf_add, _mm512_add_ps)
LAC__ONE(vf, vf_sub, _mm512_sub_ps)
LAC__ONE(vf, vf_mul, _mm512_mul_ps)
LAC__ONE(vf, vf_div, _mm512_div_ps)
LAC__ONE(vi, vi_add, _mm512_add_epi32)
LAC__ONE(vi, vi_sub, _mm512_sub_epi32)
LAC__ONE(vi, vi_and, _mm512_and_si512)
LAC__ONE(vi, vi_max, _mm512_max_epi32)
#undef LAC__ONE
/* By compare and blend, so that an emulated maximum cannot treat NaN in its own way. */
LAC__ALWAYS vf vf_max(vf x, vf y)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(y, x, _CMP_LT_OQ), y, x);
}
LAC__ALWAYS vf vf_min(vf x, vf y)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, y, _CMP_LT_OQ), y, x);
}
LAC__ALWAYS vf vf_fma(vf x, vf y, vf z)
{
    return lac__fma512(x, y, z);
}
LAC__ALWAYS vf vf_select_below(vf x, vf limit, vf y, vf z)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, limit, _CMP_LT_OQ), z, y);
}
LAC__ALWAYS vf vf_keep(vf x, int32_t lo, int32_t hi, vf fill)
{
    uint32_t below_hi = hi >= 16 ? 0xffffu : hi <= 0 ? 0u : (1u << hi) - 1u;
    uint32_t below_lo = lo >= 16 ? 0xffffu : lo <= 0 ? 0u : (1u << lo) - 1u;
    return _mm512_mask_blend_ps((lac__mask16)(below_hi & ~below_lo), fill, x);
}
LAC__ALWAYS vi vf_bits(vf x)
{
    return _mm512_castps_si512(x);
}
LAC__ALWAYS vf vi_floats(vi x)
{
    return _mm512_castsi512_ps(x);
}
LAC__ALWAYS vi vi_set(int32_t x)
{
    return _mm512_set1_epi32(x);
}
LAC__ALWAYS vi vi_shift_left(vi x, unsigned n)
{
    return _mm512_slli_epi32(x, n);
}
LAC__ALWAYS __m256 upper_half(vf x)
{
    return _mm256_castsi256_ps(_mm512_extracti64x4_epi64(_mm512_castps_si512(x), 1));
}
LAC__ALWAYS float vf_sum(vf x)
{
    __m256 e = _mm256_add_ps(_mm512_castps512_ps256(x), upper_half(x));
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(e), _mm256_extractf128_ps(e, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
LAC__ALWAYS float vf_largest(vf x)
{
    float t[16]; /* once a token block: plain code keeps NaN rules those of the scalar version */
    vf_store(t, x);
    for (int w = 8; w > 0; w /= 2)
        for (int i = 0; i < w; i++)
            t[i] = t[i] > t[i + w] ? t[i] : t[i + w];
    return t[0];
}
LAC__ALWAYS int32_t vi_sum(vi x)
{
    __m256i e = _mm256_add_epi32(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64(x, 1));
    __m128i q = _mm_add_epi32(_mm256_castsi256_si128(e), _mm256_extracti128_si256(e, 1));
    q = _mm_add_epi32(q, _mm_shuffle_epi32(q, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(q, _mm_shuffle_epi32(q, 0xb1)));
}
LAC__ALWAYS int32_t vi_largest(vi x)
{
    __m256i e = _mm256_max_epi32(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64(x, 1));
    __m128i q = _mm_max_epi32(_mm256_castsi256_si128(e), _mm256_extracti128_si256(e, 1));
    q = _mm_max_epi32(q, _mm_shuffle_epi32(q, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(q, _mm_shuffle_epi32(q, 0xb1)));
}
LAC__ALWAYS void vi_store_bytes(int8_t *p, vi x)
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm512_cvtepi32_epi8(x));
}
LAC__ALWAYS __m256 half_load(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}
LAC__ALWAYS vf join(__m256 lo, __m256 hi)
{
    return _mm512_castsi512_ps(_mm512_inserti64x4(_mm512_castps_si512(_mm512_castps256_ps512(lo)),
                                                  _mm256_castps_si256(hi), 1));
}
LAC__ALWAYS vf vf_load_f16(const uint16_t *p)
{
    return join(half_load(p), half_load(p + 8));
}
LAC__ALWAYS void vf_store_f16(uint16_t *p, vf x)
{
    _mm_storeu_si128((__m128i *)(void *)p,
                     _mm256_cvtps_ph(_mm512_castps512_ps256(x), _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((__m128i *)(void *)(p + 8),
                     _mm256_cvtps_ph(upper_half(x), _MM_FROUND_TO_NEAREST_INT));
}
LAC__ALWAYS vf vf_load_two(const float *p, const float *q)
{
    return join(_mm256_loadu_ps(p), _mm256_loadu_ps(q));
}
LAC__ALWAYS vf vf_load_two_f16(const uint16_t *p, const uint16_t *q)
{
    return join(half_load(p), half_load(q));
}
LAC__ALWAYS vf vf_load_i8(const int8_t *p)
{
    return _mm512_cvtepi32_ps(
        _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}
LAC__ALWAYS vf vf_load_two_i8(const int8_t *p, const int8_t *q)
{
    __m128i a = _mm_loadl_epi64((const __m128i *)(const void *)p);
    __m128i b = _mm_loadl_epi64((const __m128i *)(const void *)q);
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_unpacklo_epi64(a, b)));
}

#endif
