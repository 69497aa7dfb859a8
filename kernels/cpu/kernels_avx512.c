/* The table of AVX-512 kernels (F, BW, VL, VNNI). */
#if defined(__x86_64__)
#include "lanes_avx512.h"

#include <math.h>

#include "gemm.h"

#include "lanes_kernels.inc.h"

#if defined(LAC__SIMDE)
const lac__kernels lac__kernels_simde =
#else
const lac__kernels lac__kernels_avx512 =
#endif
    {.name = "avx512", LAC__GEMM_TABLE_OF(LAC__AVX512), LAC__LANE_KERNELS};
#endif
