/* Products for AVX-VNNI: 256 bits in the VEX encoding, for processors without
 * AVX-512. */
#if defined(__x86_64__)
#include <immintrin.h>

#define LAC__DPBUSD _mm256_dpbusd_avx_epi32
#include "gemm_vnni256.inc.h"

LAC__GEMM_DEFINE(avxvnni)
#endif
