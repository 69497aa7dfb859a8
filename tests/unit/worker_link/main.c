/* Runs the suites of worker/link. */
#include <stdlib.h>
#include <string.h>

#include "rig.h"
#include "suites.h"

#ifdef LAC_SANITIZED
/* libzmq (C++) is not built for the thread sanitizer: what its own threads hand over looks
 * unordered. The pause the sanitizer makes at exit would be read as a slow end. */
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "called_from_lib:libzmq.so.5\ncalled_from_lib:libstdc++.so.6\n";
}
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "atexit_sleep_ms=0";
}
#endif

int main(int argc, char **argv)
{
    if (argc == 6 && strcmp(argv[1], "--rank") == 0)
        return rig_rank_main(argv + 2);
    SRunner *runner = srunner_create(suite_session());
    srunner_add_suite(runner, suite_tasks());
    srunner_add_suite(runner, suite_report());
    srunner_add_suite(runner, suite_canary());
    srunner_add_suite(runner, suite_link());
    srunner_add_suite(runner, suite_rank());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
