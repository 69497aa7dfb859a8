/* Products for VNNI at 256 bits in the EVEX encoding (AVX-512 VL and VNNI).
 * With LAC__EMULATED the same text runs on plain AVX2, which the tests use
 * where no machine has the instruction. */
#if defined(__x86_64__)
#include <immintrin.h>

#if defined(LAC__EMULATED)
/* Even and odd bytes apart: every product fits 16 bits, every pair of
 * products 32. */
static inline __attribute__((always_inline)) __m256i dpbusd(__m256i sum, __m256i a, __m256i b)
{
    __m256i a_even = _mm256_and_si256(a, _mm256_set1_epi16(255)), a_odd = _mm256_srli_epi16(a, 8);
    __m256i b_even = _mm256_srai_epi16(_mm256_slli_epi16(b, 8), 8), b_odd = _mm256_srai_epi16(b, 8);
    return _mm256_add_epi32(
        sum, _mm256_add_epi32(_mm256_madd_epi16(a_even, b_even), _mm256_madd_epi16(a_odd, b_odd)));
}
#define LAC__DPBUSD  dpbusd
#define LAC__VNNI256 emulated
#else
#define LAC__DPBUSD  _mm256_dpbusd_epi32
#define LAC__VNNI256 vnni256
#endif
#include "gemm_vnni256.inc.h"

LAC__GEMM_DEFINE(LAC__VNNI256)
#endif
