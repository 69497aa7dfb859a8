/* Runs the suites of proto/base. */
#include <stdlib.h>

#include "suites.h"

#ifdef LAC_SANITIZED
/* Some tests ask for impossible amounts of memory: the sanitizers must answer as malloc does. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}
const char *__tsan_default_options(void)
{
    return "allocator_may_return_null=1";
}
#endif

int main(void)
{
    static Suite *(*const suites[])(void) = {
        suite_class,        suite_class_facts, suite_clock, suite_config, suite_digest,
        suite_group_config, suite_log,         suite_mask,  suite_mem,    suite_metric,
        suite_msg,          suite_parts,       suite_ring,  suite_rng,    suite_sampling,
        suite_status,       suite_tensor,      suite_text,
        suite_metric_list};
    SRunner *runner = srunner_create(NULL);
    for (size_t i = 0; i < sizeof(suites) / sizeof(suites[0]); i++)
        srunner_add_suite(runner, suites[i]());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
