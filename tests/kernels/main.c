/* Runs the kernel suites. */
#include "suites.h"

#include <stdlib.h>

const lac__kernels *const *kernels_fast(void)
{
    static const lac__kernels *list[8];
    size_t n = 0;
#if LAC_TEST_SIMDE
    list[n++] = &lac__kernels_simde;
#endif
#if defined(__x86_64__)
    if (lac_cpu_isa_have(LAC_ISA_AVX2)) {
        list[n++] = &lac__kernels_avx2;
        list[n++] = &lac__kernels_emulated;
    }
    if (lac__cpu_vex_vnni())
        list[n++] = &lac__kernels_avxvnni;
    if (lac_cpu_isa_have(LAC_ISA_AVX512))
        list[n++] = &lac__kernels_vnni256;
#endif
    if (lac_cpu_isa_have(LAC_ISA_AVX512))
        list[n++] = &lac__kernels_avx512;
    list[n] = NULL;
    return list;
}

int main(void)
{
    SRunner *runner = srunner_create(suite_gemm());
    srunner_add_suite(runner, suite_rows());
    srunner_add_suite(runner, suite_attention());
    srunner_add_suite(runner, suite_step());
    srunner_add_suite(runner, suite_experts());
    srunner_add_suite(runner, suite_pool());
    srunner_add_suite(runner, suite_memory());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
