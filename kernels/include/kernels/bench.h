/* The kernels of the CPU backend one by one, for the person who tunes them. */
#ifndef LAC_KERNELS_BENCH_H
#define LAC_KERNELS_BENCH_H

#include "kernels/kernels.h"

/* Prints time, GB/s and GMAC/s of each hot kernel of `isa` (one that lac_cpu_isa_have() allows) on
 * standard output, after the read bandwidth of the same minute. Takes a second or two. */
void lac_cpu_bench(lac_isa isa);

#endif
