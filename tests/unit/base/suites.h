/* One suite a source file of proto/base. */
#ifndef LAC_TESTS_BASE_SUITES_H
#define LAC_TESTS_BASE_SUITES_H

#include <check.h>

Suite *suite_class(void);
Suite *suite_class_facts(void);
Suite *suite_clock(void);
Suite *suite_config(void);
Suite *suite_digest(void);
Suite *suite_group_config(void);
Suite *suite_log(void);
Suite *suite_mask(void);
Suite *suite_mem(void);
Suite *suite_metric(void);
Suite *suite_metric_list(void);
Suite *suite_msg(void);
Suite *suite_parts(void);
Suite *suite_ring(void);
Suite *suite_rng(void);
Suite *suite_sampling(void);
Suite *suite_status(void);
Suite *suite_tensor(void);
Suite *suite_text(void);

#endif
