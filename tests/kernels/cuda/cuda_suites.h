/* The suites of the CUDA kernels' tests; each is one file. */
#ifndef LAC_TESTS_CUDA_CUDA_SUITES_H
#define LAC_TESTS_CUDA_CUDA_SUITES_H

#include <check.h>

Suite *suite_emulator(void);
Suite *suite_gemv(void);
Suite *suite_gemm_cuda(void);
Suite *suite_rows_cuda(void);
Suite *suite_attention(void);
Suite *suite_pick(void);
Suite *suite_backend(void);

#endif
