/* Cutting a distribution's tail: top-k, top-p and min-p as a threshold on the logits. Shared inside
 * this folder. */
#ifndef LAC__SAMPLER_SELECT_H
#define LAC__SAMPLER_SELECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "weigh.h"

enum { LAC__BLOCKS_MAX = LAC_VOCAB_MAX / LAC__BLOCK };

/* A distribution over the vocabulary: cleaned logits, and the sum of the weights of each
 * block. Excluded tokens have the logit −∞. */
typedef struct {
    float *logits;
    size_t vocab, blocks;
    float max, inverse_temperature;
    double total;
    double sum[LAC__BLOCKS_MAX];
} lac__field;

/* Fills sums and total from the logits. */
void lac__field_weigh(lac__field *field);
/* Each excludes what its filter cuts and leaves sums stale: call lac__field_weigh afterwards. Order
 * is by logit, equal logits by id, so the tokens kept are the same everywhere. At least one is
 * kept. */
void lac__field_top_k(lac__field *field, size_t k);
/* Keeps the shortest leading run whose weight reaches p·total; needs fresh sums. */
void lac__field_top_p(lac__field *field, double p);
/* Keeps weights of at least p times the largest. */
void lac__field_min_p(lac__field *field, float p);
/* The token at `unit` in [0, 1) of the summed weights, in order of ids; needs fresh sums. */
uint32_t lac__field_draw(const lac__field *field, double unit);

#endif
