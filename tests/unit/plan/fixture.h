/* A plan with every field in use, written to a folder of its own. */
#ifndef LAC_TESTS_PLAN_FIXTURE_H
#define LAC_TESTS_PLAN_FIXTURE_H

#include <check.h>

#include "plan/plan.h"

typedef struct {
    lac_model *model;
    char folder[64], path[96];
} fixture;

void fixture_open(fixture *f);
void fixture_close(fixture *f); /* removes the folder */

/* Three classes: "one" (A0, A1; structured and code; checks; patches of rank 8 and of full rank),
 * "two" (A1; decode; unstructured), "three" (F0; forced only). */
lac_plan *fixture_plan(const fixture *f);
/* A certificate that holds for the tier. */
lac_certificate fixture_certificate(lac_tier tier);
/* Element i of a matrix, as F16. */
uint16_t fixture_half(uint32_t seed, size_t i);
/* The only companion in the folder; its name within it. */
void fixture_companion(const fixture *f, char name[300]);

char *fixture_read(const char *path, size_t *length);
void fixture_write(const char *path, const char *bytes, size_t length);

Suite *suite_hostile(void);

#endif
