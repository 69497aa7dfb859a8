/* The search for masks: influence, each unit's own KL, greedy growth on the patched KL, exchanges.
 * Internal to worker/calibrate. */
#ifndef LAC_CALIBRATE_SEARCH_H
#define LAC_CALIBRATE_SEARCH_H

#include "walk.h"

/* What the search keeps at hand. States of the full model are kept for the candidates only. */
typedef struct {
    lac__run *run;
    lac__windows fit, select;
    uint32_t candidates[LAC_UNITS_MAX]; /* ascending */
    uint32_t candidates_count;
    double alone[LAC_UNITS_MAX]; /* KL of a candidate by itself, later its last increment */
    /* States of the full model: [candidate] × [rows][hidden], NULL before they are needed. */
    float **fit_before, **fit_after, **select_before;
    float *select_final;
} lac__search;

lac_status lac__search_open(lac__run *run, lac__search *out, lac_error *err);
void lac__search_close(lac__search *search);

/* Fills the result's points: the path of greedy growth, then a mask that an exchange made better.
 */
lac_status lac__search_run(lac__search *search, lac_calibrate_result *result, lac_error *err);

/* Runs the full model over all windows and keeps its states at the candidates; a no-op when they
 * are there. Called when a step needs them that the state file does not hold. LAC_ETOOBIG over 2
 * GB. */
lac_status lac__search_states(lac__search *search, lac_error *err);
/* Where a candidate stands in the lists. */
uint32_t lac__candidate_index(const lac__search *search, uint32_t unit);

/* Patches for a mask, fitted unit by unit from the bottom: each also makes up for what those before
 * it left over. For each of `more` (candidates outside the mask, ascending) also the patch that it
 * would get. Both are zero without patches. */
lac_status lac__search_fit(lac__search *search, const lac_mask *mask, const uint32_t *more,
                           uint32_t more_count, lac__masked *out, lac_fit_patch *more_patches,
                           lac_error *err);

/* Bytes a token that the mask leaves out less those its patches bring, of all units' bytes. */
double lac__cost_saved(const lac__run *run, const lac__masked *masked);

#endif
