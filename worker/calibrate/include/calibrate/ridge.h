/* Fits the patch that stands in for an erased unit: with X = rmsnorm(h) of the states before it and
 * Y what should be added, P minimises Σ |Y − P·X|² + 0.05·n·|P|², and is then reduced to the rank
 * whose fitted values lose least (reduced-rank regression: Izenman, "Reduced-rank regression for
 * the multivariate linear model", 1975). Dense algebra by OpenBLAS and LAPACK, one thread; equal
 * input gives equal output on one machine. */
#ifndef LAC_CALIBRATE_RIDGE_H
#define LAC_CALIBRATE_RIDGE_H

#include <stdint.h>

#include "base/status.h"

typedef struct lac_ridge lac_ridge;

/* h := h + up·down·rmsnorm(h) */
typedef struct {
    uint32_t hidden, rank;
    float *down; /* [rank][hidden] */
    float *up;   /* [hidden][rank] */
    double kept; /* share of the fitted values' squares that the rank keeps */
} lac_fit_patch;

lac_ridge *lac_ridge_create(uint32_t hidden, float eps);
void lac_ridge_destroy(lac_ridge **ridge);
/* Adds rows: states before the unit and the states that the stream should have after it, both
 * [rows][hidden]. */
void lac_ridge_add(lac_ridge *ridge, const float *before, const float *wanted, uint32_t rows);
/* Solves. `rank` > 0 is taken as it is (a multiple of LAC_PATCH_RANK_STEP, at most hidden). With 0
 * it is chosen, at most rank_max: a direction is worth keeping while its share of the fitted
 * values' squares is more than `direction_cost`, the share of the unit's cost that it brings back.
 * Matrices hold values that F16 can express. LAC_EINVAL without rows or with values that are not
 * finite. */
lac_status lac_ridge_solve(const lac_ridge *ridge, uint32_t rank, uint32_t rank_max,
                           double direction_cost, lac_fit_patch *out, lac_error *err);
void lac_fit_patch_free(lac_fit_patch *patch);

/* states := states + P·rmsnorm(states), row by row. */
void lac_fit_patch_apply(const lac_fit_patch *patch, float eps, float *states, uint32_t rows);

/* Nearest F16 (ties to even) and back; beyond its range is infinite. */
uint16_t lac_f16_of(float value);
float lac_f16_value(uint16_t half);

#endif
