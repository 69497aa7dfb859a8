/* Runs the scripted tests of the coordinator's core. */
#include "harness.h"

int main(void)
{
    Suite *suite = suite_create("core");
    suite_add_tcase(suite, registry_case());
    suite_add_tcase(suite, forming_case());
    suite_add_tcase(suite, requests_case());
    suite_add_tcase(suite, recovery_case());
    suite_add_tcase(suite, queue_case());
    suite_add_tcase(suite, retry_case());
    suite_add_tcase(suite, verdict_case());
    suite_add_tcase(suite, router_case());
    suite_add_tcase(suite, path_case());
    suite_add_tcase(suite, classes_case());
    suite_add_tcase(suite, batch_case());
    suite_add_tcase(suite, tenant_case());
    suite_add_tcase(suite, brownout_case());
    suite_add_tcase(suite, names_case());
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
