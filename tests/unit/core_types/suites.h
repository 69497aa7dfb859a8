/* The test cases of this program. */
#ifndef LAC_TEST_TYPES_SUITES_H
#define LAC_TEST_TYPES_SUITES_H

#include <check.h>

/* Set before heldout_case() runs: the texts, as tests/golden/types/heldout.py writes them. */
extern const char *heldout_path;

TCase *heldout_case(void);
TCase *speed_case(void);
TCase *guard_case(void);

#endif
