/* The test cases of this program. */
#ifndef LAC_TEST_TYPES_SUITES_H
#define LAC_TEST_TYPES_SUITES_H

#include <check.h>

TCase *accuracy_case(void);

#endif
