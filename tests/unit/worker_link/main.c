/* Runs the suites of worker/link. */
#include <stdlib.h>
#include <string.h>

#include "rig.h"
#include "suites.h"

int main(int argc, char **argv)
{
    if (argc == 6 && strcmp(argv[1], "--rank") == 0)
        return rig_rank_main(argv + 2);
    SRunner *runner = srunner_create(suite_session());
    srunner_add_suite(runner, suite_tasks());
    srunner_add_suite(runner, suite_report());
    srunner_add_suite(runner, suite_link());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
