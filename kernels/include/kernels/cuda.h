/* The CUDA backend. The driver and the kernels are looked for when a backend is created, so a program
 * that has this in it starts on any machine. */
#ifndef LAC_KERNELS_CUDA_H
#define LAC_KERNELS_CUDA_H

#include "kernels/kernels.h"

/* create(): LAC_EUNSUPPORTED names what is missing: kernels (a build without nvcc), the driver's
 * library, a device with the number asked for. run() adds to the contract of the table:
 * LAC_EUNSUPPORTED for experts and for results that are summed over ranks by the host. */
const lac_backend_ops *lac_cuda_backend(void);

/* Copy bandwidth of the device in GB/s, bytes read and bytes written both counted: best of `rounds`
 * copies of `bytes` (64 KiB … 4 GiB), of which it needs twice. */
lac_status lac_cuda_copy_bandwidth(lac_backend *backend, size_t bytes, uint32_t rounds, double *gb_s,
                                   lac_error *err);

/* Reads "cuda" or "cuda:N"; false for anything else. */
bool lac_cuda_device_parse(const char *text, uint32_t *device);

#endif
