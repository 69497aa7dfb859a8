/* What measured numbers prove: means with one-sided bounds, quantiles, and what kind of text a
 * token is. Pure, any thread; equal input gives equal output. */
#ifndef LAC_CALIBRATE_STATISTICS_H
#define LAC_CALIBRATE_STATISTICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One independent piece of data: a document. Requests of one document resemble each other, so the
 * document, not the request, is what is drawn again. */
typedef struct {
    double sum;    /* of the measured values */
    double weight; /* how many values that were */
} lac_stat_cluster;

typedef struct {
    double mean; /* Σ sum / Σ weight */
    double low;  /* one-sided 95 % bound from below … */
    double high; /* … and from above; each holds by itself, not both together */
} lac_stat_bounds;

enum { LAC_STAT_DRAWS = 4000 };
#define LAC_STAT_METHOD "bootstrap-t, documents resampled, one-sided 95 %, 4000 draws"

/* Bounds of a ratio mean by the bootstrap-t (Efron and Tibshirani, "An introduction to the
 * bootstrap", 12.5) over clusters, with the linearised standard error of a ratio
 *     se² = n/(n−1) · Σ (sum − mean·weight)² / (Σ weight)².
 * Draws come from `seed` alone. Fewer than 2 clusters, or no weight: false, *out untouched. */
bool lac_stat_bounds_of(const lac_stat_cluster *clusters, size_t count, uint64_t seed,
                        lac_stat_bounds *out);

/* The smallest value that at least `share` of the values do not exceed (nearest rank). Sorts
 * `values`; count ≥ 1. */
double lac_stat_quantile(double *values, size_t count, double share);

/* ---- divergence of two distributions ---- */

/* Log-probabilities of logits: out[i] = logits[i] − log Σ exp. `out` may be `logits`. Returns the
 * index of the largest, the lowest among equals. */
uint32_t lac_log_softmax(const float *logits, size_t count, float *out);
/* KL(p ‖ q) in nats of log-probabilities p and logits q, never below 0; *best is q's most likely
 * index. */
double lac_kl_divergence(const float *p, const float *q_logits, size_t count, uint32_t *best);

/* ---- kinds of tokens ---- */

typedef enum {
    LAC_KIND_OTHER,
    LAC_KIND_NUMBER, /* digits, with what joins them: 12, 3.5, 0x1f, 10.0.0.7 */
    LAC_KIND_DATE,   /* 2024-05-01, 12:30:59, 01/May/2024 */
    LAC_KIND_NAME,   /* a word with a capital first letter and small ones after it */
    LAC_KINDS
} lac_token_kind;
const char *lac_token_kind_name(lac_token_kind kind);

/* The kind of each byte of a text, by the run of letters, digits and joining signs it lies in. */
void lac_token_kinds(const char *text, size_t length, uint8_t *kinds);

#endif
