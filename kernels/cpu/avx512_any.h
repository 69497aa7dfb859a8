/* AVX-512 intrinsics as the processor's own, or (LAC__SIMDE) as SIMDe's portable ones: the tests
 * compile the AVX-512 sources a second time so, and can then run them on any machine. */
#ifndef LAC_KERNELS_AVX512_ANY_H
#define LAC_KERNELS_AVX512_ANY_H

#if defined(LAC__SIMDE)
#include <math.h>
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>
#define LAC__AVX512 simde
/* SIMDe multiplies and adds in two roundings where the machine has no fma. */
static inline __m512 lac__fma512(__m512 a, __m512 b, __m512 c)
{
    float x[16], y[16], z[16];
    _mm512_storeu_ps(x, a);
    _mm512_storeu_ps(y, b);
    _mm512_storeu_ps(z, c);
    for (int i = 0; i < 16; i++)
        z[i] = fmaf(x[i], y[i], z[i]);
    return _mm512_loadu_ps(z);
}
/* What this SIMDe does not have, made of what it has or of plain C. */
#if !defined(_mm512_cvtepi32_ps)
typedef simde__mmask16 lac__mask16;
static inline __m512 lac__int_to_float512(__m512i a)
{
    int32_t x[16];
    float y[16];
    _mm512_storeu_si512(x, a);
    for (int i = 0; i < 16; i++)
        y[i] = (float)x[i];
    return _mm512_loadu_ps(y);
}
static inline __m512i lac__bytes_to_int512(__m128i a, int is_signed)
{
    int8_t x[16];
    int32_t y[16];
    _mm_storeu_si128((__m128i *)(void *)x, a);
    for (int i = 0; i < 16; i++)
        y[i] = is_signed ? x[i] : (uint8_t)x[i];
    return _mm512_loadu_si512(y);
}
static inline __m128i lac__int_to_bytes512(__m512i a)
{
    int32_t x[16];
    int8_t y[16];
    _mm512_storeu_si512(x, a);
    for (int i = 0; i < 16; i++)
        y[i] = (int8_t)(uint8_t)(uint32_t)x[i];
    return _mm_loadu_si128((const __m128i *)(const void *)y);
}
#define _mm512_cvtepi32_ps(a)   lac__int_to_float512(a)
#define _mm512_cvtepu8_epi32(a) lac__bytes_to_int512(a, 0)
#define _mm512_cvtepi8_epi32(a) lac__bytes_to_int512(a, 1)
#define _mm512_cvtepi32_epi8(a) lac__int_to_bytes512(a)
#endif
#else
#include <immintrin.h>
typedef __mmask16 lac__mask16;
#define LAC__AVX512 avx512
#define lac__fma512 _mm512_fmadd_ps
#endif

#endif
