#ifndef LAC_TESTS_WORKER_LINK_SUITES_H
#define LAC_TESTS_WORKER_LINK_SUITES_H

#include <check.h>

Suite *suite_session(void);
Suite *suite_tasks(void);
Suite *suite_report(void);
Suite *suite_canary(void);
Suite *suite_link(void);
Suite *suite_rank(void);

#endif
