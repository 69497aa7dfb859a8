/* The products each instruction set brings to its table. */
#ifndef LAC_KERNELS_GEMM_H
#define LAC_KERNELS_GEMM_H

#include "cpu.h"

#define LAC__GEMM_DECLARE(isa)                                                                     \
    void lac__gemm_f32_##isa(const lac_weight *, uint32_t, uint32_t, const lac__tile *, float *,   \
                             size_t);                                                              \
    void lac__gemm_f16_##isa(const lac_weight *, uint32_t, uint32_t, const lac__tile *, float *,   \
                             size_t);                                                              \
    void lac__gemm_bf16_##isa(const lac_weight *, uint32_t, uint32_t, const lac__tile *, float *,  \
                              size_t);                                                             \
    void lac__gemm_q8_0_##isa(const lac_weight *, uint32_t, uint32_t, const lac__tile *, float *,  \
                              size_t);                                                             \
    void lac__gemm_q4_0_##isa(const lac_weight *, uint32_t, uint32_t, const lac__tile *, float *,  \
                              size_t);                                                             \
    void lac__gemm_q4_1_##isa(const lac_weight *, uint32_t, uint32_t, const lac__tile *, float *,  \
                              size_t);                                                             \
    void lac__gemm_q5_0_##isa(const lac_weight *, uint32_t, uint32_t, const lac__tile *, float *,  \
                              size_t);                                                             \
    void lac__gemm_q5_1_##isa(const lac_weight *, uint32_t, uint32_t, const lac__tile *, float *,  \
                              size_t);                                                             \
    void lac__gemm_q4_k_##isa(const lac_weight *, uint32_t, uint32_t, const lac__tile *, float *,  \
                              size_t);                                                             \
    void lac__gemm_q5_k_##isa(const lac_weight *, uint32_t, uint32_t, const lac__tile *, float *,  \
                              size_t);                                                             \
    void lac__gemm_q6_k_##isa(const lac_weight *, uint32_t, uint32_t, const lac__tile *, float *,  \
                              size_t);

LAC__GEMM_DECLARE(scalar)
LAC__GEMM_DECLARE(avx2)
LAC__GEMM_DECLARE(avxvnni)
LAC__GEMM_DECLARE(vnni256)
LAC__GEMM_DECLARE(avx512)
LAC__GEMM_DECLARE(emulated) /* vnni256 on plain AVX2, in the tests */
LAC__GEMM_DECLARE(simde) /* the AVX-512 sources compiled portably, in the tests */

/* Expands its argument, so that it may be a macro itself. */
#define LAC__GEMM_TABLE_OF(isa) LAC__GEMM_TABLE(isa)
#define LAC__GEMM_TABLE(isa)                                                                       \
    .gemm = {[LAC_TYPE_F32] = lac__gemm_f32_##isa,   [LAC_TYPE_F16] = lac__gemm_f16_##isa,         \
             [LAC_TYPE_BF16] = lac__gemm_bf16_##isa, [LAC_TYPE_Q8_0] = lac__gemm_q8_0_##isa,       \
             [LAC_TYPE_Q4_0] = lac__gemm_q4_0_##isa, [LAC_TYPE_Q4_1] = lac__gemm_q4_1_##isa,       \
             [LAC_TYPE_Q5_0] = lac__gemm_q5_0_##isa, [LAC_TYPE_Q5_1] = lac__gemm_q5_1_##isa,       \
             [LAC_TYPE_Q4_K] = lac__gemm_q4_k_##isa, [LAC_TYPE_Q5_K] = lac__gemm_q5_k_##isa,       \
             [LAC_TYPE_Q6_K] = lac__gemm_q6_k_##isa}

/* Defines the eleven entry points over integer_gemm(type, …) and float_gemm(type, …), always-inline
 * bodies in which the type is a constant. */
#define LAC__GEMM_ENTRY(name, isa, type, body)                                                     \
    void lac__gemm_##name##_##isa(const lac_weight *w, uint32_t group, uint32_t groups,            \
                                  const lac__tile *x, float *out, size_t ld)                       \
    {                                                                                              \
        body(type, w, group, groups, x, out, ld);                                                  \
    }
#define LAC__GEMM_DEFINE(isa)                                                                      \
    LAC__GEMM_ENTRY(f32, isa, LAC_TYPE_F32, float_gemm)                                            \
    LAC__GEMM_ENTRY(f16, isa, LAC_TYPE_F16, float_gemm)                                            \
    LAC__GEMM_ENTRY(bf16, isa, LAC_TYPE_BF16, float_gemm)                                          \
    LAC__GEMM_ENTRY(q8_0, isa, LAC_TYPE_Q8_0, integer_gemm)                                        \
    LAC__GEMM_ENTRY(q4_0, isa, LAC_TYPE_Q4_0, integer_gemm)                                        \
    LAC__GEMM_ENTRY(q4_1, isa, LAC_TYPE_Q4_1, integer_gemm)                                        \
    LAC__GEMM_ENTRY(q5_0, isa, LAC_TYPE_Q5_0, integer_gemm)                                        \
    LAC__GEMM_ENTRY(q5_1, isa, LAC_TYPE_Q5_1, integer_gemm)                                        \
    LAC__GEMM_ENTRY(q4_k, isa, LAC_TYPE_Q4_K, integer_gemm)                                        \
    LAC__GEMM_ENTRY(q5_k, isa, LAC_TYPE_Q5_K, integer_gemm)                                        \
    LAC__GEMM_ENTRY(q6_k, isa, LAC_TYPE_Q6_K, integer_gemm)

#endif
