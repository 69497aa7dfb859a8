/* The layer confidence probe: from the states of a prompt's first rows after a few layers, how
 * likely it is that a class suits this request. It can only say no: then the request runs in full.
 * Pure, any thread. Must not know requests, engines or plans. */
#ifndef LAC_PROBE_H
#define LAC_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LAC_PROBE_LAYERS = 3,     /* the states are those after so many layers */
    LAC_PROBE_ROWS_MIN = 8,   /* fewer say nothing */
    LAC_PROBE_ROWS_MAX = 128, /* of a prompt that are looked at */
    LAC_PROBE_PROJECTIONS = 16,
    LAC_PROBE_FEATURES = 8 + LAC_PROBE_PROJECTIONS,
    LAC_PROBE_PARAMETERS = 3 * LAC_PROBE_FEATURES + 2,
};
_Static_assert((int)LAC_PROBE_PARAMETERS <= 256,
               "a plan carries at most 256 parameters of a probe");

#define LAC_PROBE_CONFIDENCE 0.4 /* below it a request runs in full, whatever a plan says */

typedef struct lac_probe {
    double mean[LAC_PROBE_FEATURES], scale[LAC_PROBE_FEATURES]; /* of the training set; scale > 0 */
    double weight[LAC_PROBE_FEATURES], bias; /* of a logistic regression on "bad" */
    double threshold; /* confidence below it is a no; ≥ LAC_PROBE_CONFIDENCE */
} lac_probe;

/* Features of states [rows][hidden], rows ≥ LAC_PROBE_ROWS_MIN: rows, norms and their spread,
 * cosines of neighbours, sharpness, coherence, and fixed random projections of the mean direction.
 */
void lac_probe_features(const float *states, uint32_t rows, uint32_t hidden,
                        double out[LAC_PROBE_FEATURES]);
/* 1 − probability of "bad"; 0 when a feature is not finite. */
double lac_probe_confidence(const lac_probe *probe, const double features[LAC_PROBE_FEATURES]);
bool lac_probe_says_no(const lac_probe *probe, const double features[LAC_PROBE_FEATURES]);
/* Every number finite, scales above zero, threshold in [LAC_PROBE_CONFIDENCE, 1]. */
bool lac_probe_valid(const lac_probe *probe);

/* ---- training ---- */

typedef struct {
    double features[LAC_PROBE_FEATURES];
    uint32_t document; /* a document's requests are all on one side */
    bool bad;          /* the class diverged on it more than it may */
} lac_probe_sample;

typedef struct {
    bool worth;                  /* it is: see below */
    uint32_t trained, tested;    /* samples, of different documents */
    uint32_t bad;                /* of those tested */
    double auc;                  /* on those tested; knowing the type alone gives 0.5 */
    uint32_t passed, passed_bad; /* of those tested at the threshold */
    bool certified;              /* the share of bad ones among the passed is bounded: see below */
} lac_probe_report;

/* Logistic regression with a ridge on the documents with even numbers, judged on the others. Worth
 * having when its AUC beats that of the type alone (which knows nothing within a type) by 0.03 and
 * it lets most good ones pass. The threshold is the loosest, from LAC_PROBE_CONFIDENCE up, at which
 * Learn-then-Test (fixed-sequence testing with exact binomial p-values; Angelopoulos et al. 2021)
 * is sure at 95 % that at most `share` of what passes is bad; LAC_PROBE_CONFIDENCE without a
 * certificate when there is none. */
void lac_probe_train(const lac_probe_sample *samples, size_t count, double share, lac_probe *out,
                     lac_probe_report *report);

/* P[Bin(n, p) ≤ k]. */
double lac_probe_binomial(uint32_t n, double p, uint32_t k);

#endif
