/* Suites of the kernel tests and what they share. */
#ifndef LAC_TESTS_KERNELS_SUITES_H
#define LAC_TESTS_KERNELS_SUITES_H

#include <check.h>

#include "cpu.h"

Suite *suite_gemm(void);
Suite *suite_rows(void);
Suite *suite_step(void);
Suite *suite_attention(void);
Suite *suite_experts(void);
Suite *suite_pool(void);
Suite *suite_memory(void);

/* Tables to compare with the scalar one on this machine; ends with NULL. */
const lac__kernels *const *kernels_fast(void);

/* Repeatable numbers. */
uint32_t rnd(uint64_t *state);
float rnd_float(uint64_t *state); /* −1 … 1 */

/* One row of a file's layout with `cols` random weights of a usual size (about 1/16 each). */
void random_row(lac_type type, uint32_t cols, uint8_t *out, uint64_t *state);
size_t row_bytes(lac_type type, uint32_t cols);

extern const lac_type types_all[];
enum { TYPES_ALL = 11 };

#endif
