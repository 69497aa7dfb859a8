/* Arguments of the small kernels that the emulator is tested with. */
#ifndef LAC_TESTS_CUDA_PROBES_H
#define LAC_TESTS_CUDA_PROBES_H

#include <stdint.h>

typedef struct {
    const float *in;
    float *out;
    uint32_t *counter;
    uint32_t n;
    uint32_t flaw; /* 0 = as it should be; else what the kernel does wrong */
} probe_args;

#endif
