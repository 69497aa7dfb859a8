/* The table of AVX-512 kernels (F, BW, VL, VNNI). */
#if defined(__x86_64__)
#include "lanes_avx512.h"

#include <math.h>

#include "gemm.h"

#include "lanes_kernels.inc.h"

const lac__kernels lac__kernels_avx512 = {
    .name = "avx512", LAC__GEMM_TABLE(avx512), LAC__LANE_KERNELS};
#endif
