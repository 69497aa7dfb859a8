/* The table of plain C kernels: the truth that the fast ones equal bit for bit. */
#include "lanes_scalar.h"

#include "gemm.h"

#include "lanes_kernels.inc.h"

const lac__kernels lac__kernels_scalar = {
    .name = "scalar", LAC__GEMM_TABLE(scalar), LAC__LANE_KERNELS};
