/* Sixteen virtual lanes as two AVX2 registers. The vocabulary is lanes_scalar.h's. */
#ifndef LAC_KERNELS_LANES_AVX2_H
#define LAC_KERNELS_LANES_AVX2_H

#include <immintrin.h>

#include "cpu.h"

typedef struct {
    __m256 a, b;
} vf;
typedef struct {
    __m256i a, b;
} vi;

LAC__ALWAYS vf vf_load(const float *p)
{
    return (vf){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
LAC__ALWAYS void vf_store(float *p, vf x)
{
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
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
    return (vf){_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
#define LAC__BOTH(name, op)                                                                        \
    LAC__ALWAYS vf name(vf x, vf y)                                                                \
    {                                                                                              \
        return (vf){op(x.a, y.a), op(x.b, y.b)};                                                   \
    }
LAC__BOTH(vf_add, _mm256_add_ps)
LAC__BOTH(vf_sub, _mm256_sub_ps)
LAC__BOTH(vf_mul, _mm256_mul_ps)
LAC__BOTH(vf_div, _mm256_div_ps)
LAC__BOTH(vf_max, _mm256_max_ps)
LAC__BOTH(vf_min, _mm256_min_ps)
#undef LAC__BOTH
LAC__ALWAYS vf vf_fma(vf x, vf y, vf z)
{
    return (vf){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
LAC__ALWAYS vf vf_select_below(vf x, vf limit, vf y, vf z)
{
    return (vf){_mm256_blendv_ps(z.a, y.a, _mm256_cmp_ps(x.a, limit.a, _CMP_LT_OQ)),
                _mm256_blendv_ps(z.b, y.b, _mm256_cmp_ps(x.b, limit.b, _CMP_LT_OQ))};
}
LAC__ALWAYS vf vf_keep(vf x, int32_t lo, int32_t hi, vf fill)
{
    __m256i ia = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i ib = _mm256_add_epi32(ia, _mm256_set1_epi32(8));
    __m256i l = _mm256_set1_epi32(lo - 1), h = _mm256_set1_epi32(hi);
    __m256i ma = _mm256_and_si256(_mm256_cmpgt_epi32(ia, l), _mm256_cmpgt_epi32(h, ia));
    __m256i mb = _mm256_and_si256(_mm256_cmpgt_epi32(ib, l), _mm256_cmpgt_epi32(h, ib));
    return (vf){_mm256_blendv_ps(fill.a, x.a, _mm256_castsi256_ps(ma)),
                _mm256_blendv_ps(fill.b, x.b, _mm256_castsi256_ps(mb))};
}
LAC__ALWAYS vi vf_bits(vf x)
{
    return (vi){_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)};
}
LAC__ALWAYS vf vi_floats(vi x)
{
    return (vf){_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)};
}
LAC__ALWAYS vi vi_set(int32_t x)
{
    return (vi){_mm256_set1_epi32(x), _mm256_set1_epi32(x)};
}
#define LAC__BOTH(name, op)                                                                        \
    LAC__ALWAYS vi name(vi x, vi y)                                                                \
    {                                                                                              \
        return (vi){op(x.a, y.a), op(x.b, y.b)};                                                   \
    }
LAC__BOTH(vi_add, _mm256_add_epi32)
LAC__BOTH(vi_sub, _mm256_sub_epi32)
LAC__BOTH(vi_and, _mm256_and_si256)
LAC__BOTH(vi_max, _mm256_max_epi32)
#undef LAC__BOTH
LAC__ALWAYS vi vi_shift_left(vi x, int n)
{
    return (vi){_mm256_slli_epi32(x.a, n), _mm256_slli_epi32(x.b, n)};
}
LAC__ALWAYS float vf_sum(vf x)
{
    __m256 e = _mm256_add_ps(x.a, x.b);
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(e), _mm256_extractf128_ps(e, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
LAC__ALWAYS float vf_largest(vf x)
{
    __m256 e = _mm256_max_ps(x.a, x.b);
    __m128 q = _mm_max_ps(_mm256_castps256_ps128(e), _mm256_extractf128_ps(e, 1));
    q = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}
LAC__ALWAYS int32_t vi_sum(vi x)
{
    __m256i e = _mm256_add_epi32(x.a, x.b);
    __m128i q = _mm_add_epi32(_mm256_castsi256_si128(e), _mm256_extracti128_si256(e, 1));
    q = _mm_add_epi32(q, _mm_shuffle_epi32(q, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(q, _mm_shuffle_epi32(q, 0xb1)));
}
LAC__ALWAYS int32_t vi_largest(vi x)
{
    __m256i e = _mm256_max_epi32(x.a, x.b);
    __m128i q = _mm_max_epi32(_mm256_castsi256_si128(e), _mm256_extracti128_si256(e, 1));
    q = _mm_max_epi32(q, _mm_shuffle_epi32(q, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(q, _mm_shuffle_epi32(q, 0xb1)));
}
LAC__ALWAYS void vi_store_bytes(int8_t *p, vi x)
{
    __m256i mask = _mm256_set1_epi32(255); /* packing saturates: keep the low byte first */
    __m256i w = _mm256_packus_epi32(_mm256_and_si256(x.a, mask), _mm256_and_si256(x.b, mask));
    w = _mm256_permute4x64_epi64(w, 0xd8); /* sixteen 16-bit lanes in order */
    __m128i b = _mm_packus_epi16(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1));
    _mm_storeu_si128((__m128i *)(void *)p, b);
}
LAC__ALWAYS __m256 half_load(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}
LAC__ALWAYS vf vf_load_f16(const uint16_t *p)
{
    return (vf){half_load(p), half_load(p + 8)};
}
LAC__ALWAYS void vf_store_f16(uint16_t *p, vf x)
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((__m128i *)(void *)(p + 8), _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT));
}
LAC__ALWAYS vf vf_load_two(const float *p, const float *q)
{
    return (vf){_mm256_loadu_ps(p), _mm256_loadu_ps(q)};
}
LAC__ALWAYS vf vf_load_two_f16(const uint16_t *p, const uint16_t *q)
{
    return (vf){half_load(p), half_load(q)};
}
LAC__ALWAYS __m256 bytes_load(const int8_t *p)
{
    return _mm256_cvtepi32_ps(
        _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}
LAC__ALWAYS vf vf_load_i8(const int8_t *p)
{
    return (vf){bytes_load(p), bytes_load(p + 8)};
}
LAC__ALWAYS vf vf_load_two_i8(const int8_t *p, const int8_t *q)
{
    return (vf){bytes_load(p), bytes_load(q)};
}

#endif
