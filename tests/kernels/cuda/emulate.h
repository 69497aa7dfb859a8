/* Runs CUDA kernels on the CPU, for tests: one kernel at a time, by name, on the calling thread.
 *
 * The .cu files are compiled by the C++ compiler against emulator.h; each CUDA thread is a fiber.
 * Threads run in an order drawn from the seed and each runs until it meets a barrier or a warp
 * operation, so what a kernel forgot to order shows up as another result. Shared memory starts as
 * NaN in every block. Knows nothing of what kernels compute. */
#ifndef LAC_TESTS_CUDA_EMULATE_H
#define LAC_TESTS_CUDA_EMULATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { LAC_EMU_ERROR = 400, LAC_EMU_THREADS_MAX = 1024 };

typedef struct {
    const char *kernel;
    uint32_t grid[3], block[3];
    uint32_t shared; /* bytes of dynamic shared memory */
    uint64_t seed;   /* order of threads and blocks: 0 ascending, 1 descending, else drawn */
} lac_emu_launch;

/* Runs all blocks. `args` is the kernel's one argument, copied for every thread. False with a text
 * that names the kernel and the place: no such kernel, a launch it does not allow, a barrier that
 * not all threads reach, lanes that meet in different operations, an address that is not aligned.
 * After an error memory is as the threads left it. */
bool lac_emu_run(const lac_emu_launch *launch, const void *args, char error[LAC_EMU_ERROR]);

/* Bytes of a kernel's argument; 0 when there is no such kernel. */
size_t lac_emu_args_bytes(const char *kernel);

/* Threads switched to since the program started: what a test costs. */
uint64_t lac_emu_switches(void);

#ifdef __cplusplus
}
#endif
#endif
