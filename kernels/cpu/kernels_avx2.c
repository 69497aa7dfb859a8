/* The table of AVX2 kernels (AVX2, FMA, F16C). */
#if defined(__x86_64__)
#include "lanes_avx2.h"

#include <math.h>

#include "gemm.h"

#include "lanes_kernels.inc.h"

const lac__kernels lac__kernels_avx2 = {.name = "avx2", LAC__GEMM_TABLE(avx2), LAC__LANE_KERNELS};
#endif
