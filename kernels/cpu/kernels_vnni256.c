/* The tables of 256-bit VNNI: AVX2 lanes, products in either encoding. */
#if defined(__x86_64__)
#include "lanes_avx2.h"

#include <math.h>

#include "gemm.h"

#include "lanes_kernels.inc.h"

#if defined(LAC__EMULATED)
const lac__kernels lac__kernels_emulated = {
    .name = "avxvnni", LAC__GEMM_TABLE(emulated), LAC__LANE_KERNELS};
#else
const lac__kernels lac__kernels_avxvnni = {
    .name = "avxvnni", LAC__GEMM_TABLE(avxvnni), LAC__LANE_KERNELS};
const lac__kernels lac__kernels_vnni256 = {
    .name = "avxvnni", LAC__GEMM_TABLE(vnni256), LAC__LANE_KERNELS};
#endif
#endif
