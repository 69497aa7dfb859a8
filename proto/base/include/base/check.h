/* What is watched and what was decided, for everyone who shows it: the core fills these, status
 * carries them, the live page, `lacuna top` and /metrics show them. Plain structs. */
#ifndef LAC_BASE_CHECK_H
#define LAC_BASE_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"

/* A value that has to keep within a band, and what is to blame when it does not. */
typedef struct {
    char name[LAC_NAME_MAX + 1]; /* "ecr" */
    bool known;                  /* false: nothing to judge by; then it counts as in order */
    bool good;
    double value, low, high; /* in order: low ≤ value ≤ high; −1 in `high`: no upper bound */
    char cause[LAC_NAME_MAX + 1];  /* one of a few words: "no_room"; "" when good */
    char text[LAC_REASON_MAX + 1]; /* the same for people, printable ASCII */
} lac_check;

/* How a request of lately was judged and what became of it. */
typedef struct {
    uint64_t request; /* as `lacuna path explain --request` takes it */
    uint64_t age_ms;  /* since it ended */
    char type[LAC_NAME_MAX + 1], task[LAC_NAME_MAX + 1];
    char class_name[LAC_NAME_MAX + 1], group[LAC_NAME_MAX + 1];
    char outcome[LAC_NAME_MAX + 1];
    uint32_t tokens, total_ms;
    char why[LAC_WHY_MAX + 1];
} lac_decided;

#endif
