/* Runs the suites of the CUDA kernels on the emulator. Needs no GPU and no toolkit. */
#include <stdlib.h>

#include "cuda_suites.h"

int main(void)
{
    SRunner *runner = srunner_create(suite_emulator());
    srunner_add_suite(runner, suite_gemv());
    srunner_add_suite(runner, suite_gemm_cuda());
    srunner_add_suite(runner, suite_rows_cuda());
    srunner_add_suite(runner, suite_attention());
    srunner_add_suite(runner, suite_pick());
    srunner_add_suite(runner, suite_backend());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
