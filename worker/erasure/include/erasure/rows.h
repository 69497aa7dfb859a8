/* Which rows of a step run each unit. Rows are ordered by class, so a class is one range of rows
 * and a unit's list is the ranges of the classes that keep it, in order. Everything is sized at
 * create; filling allocates nothing. One thread at a time. */
#ifndef LAC_ERASURE_ROWS_H
#define LAC_ERASURE_ROWS_H

#include <stdint.h>

#include "base/limits.h"
#include "base/mask.h"

typedef struct lac_unit_rows lac_unit_rows;

/* For `units` units, classes_count (1 … LAC_CLASSES_MAX) masks and at most rows_max rows a step.
 * `masks` is read here only. Units with the same set of keeping classes share one list. */
lac_unit_rows *lac_unit_rows_create(uint32_t units, const lac_mask *masks, uint32_t classes_count,
                                    uint32_t rows_max);
void lac_unit_rows_destroy(lac_unit_rows **rows);

/* Makes the lists of a step in which class c has class_rows[c] rows, the rows of class 0 first. */
void lac_unit_rows_fill(lac_unit_rows *rows, const uint32_t class_rows[LAC_CLASSES_MAX]);

/* The ascending row numbers that run a unit; they live until the next fill. */
const uint32_t *lac_unit_rows_of(const lac_unit_rows *rows, uint32_t unit, uint32_t *count);

#endif
