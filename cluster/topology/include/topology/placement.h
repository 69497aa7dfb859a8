/* The placement of a model over the ranks of a group: which layers a stage holds (pipeline
 * parallel), which heads, FFN and vocabulary rows a rank of a stage holds (tensor parallel). Pure:
 * the same facts give the same placement on every rank. Starts nothing, opens nothing. */
#ifndef LAC_PLACEMENT_H
#define LAC_PLACEMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/limits.h"
#include "base/mask.h"
#include "base/status.h"

/* What is to be placed, filled by who knows the model. Bytes are of the weights as they are kept in
 * memory or on disk; only their proportions matter, but for the memory that is shown and checked.
 */
typedef struct {
    uint32_t heads, kv_heads, ffn; /* 0: no such unit */
    uint64_t attention_bytes, ffn_bytes;
    uint32_t o_block, down_block; /* weights a block of the output projections: where columns cut */
} lac_place_layer;

typedef struct {
    uint32_t layers_count, head_dim, vocab;
    const lac_place_layer *layers;
    uint64_t embed_bytes, head_bytes;
    bool tied; /* the head is the embedding table: a rank that needs both holds one */
} lac_place_model;

/* A class of requests and its share of the traffic; shares need not add up to 1. */
typedef struct {
    lac_mask erased;
    double traffic; /* ≥ 0 */
} lac_place_class;

/* One rank's part of one layer: ranges of query heads, KV heads and FFN rows. KV heads of several
 * ranks overlap where there are fewer of them than ranks. */
typedef struct {
    uint32_t head_first, heads, kv_first, kv_heads, ffn_first, ffn;
} lac_place_part;

typedef struct lac_placement {
    uint32_t stages, parts; /* PP and TP; rank = stage × parts + part */
    uint32_t layers_count;
    uint32_t layer_first[LAC_RANKS_MAX + 1]; /* stage s: layer_first[s] … layer_first[s+1]−1 */
    uint32_t vocab_first[LAC_RANKS_MAX + 1]; /* the same for the vocabulary rows of a part */
    lac_place_part *of;                      /* [parts][layers_count] */
    uint64_t bytes[LAC_RANKS_MAX];           /* weights of a rank */
    double cost[LAC_RANKS_MAX]; /* bytes of weights a rank reads for a token, mean of the traffic */
} lac_placement;

/* Cuts a model for `stages` × `parts` ranks so that the largest active cost of a stage is as small
 * as can be, and of those the one with the least memory on the fullest rank. Units that every class
 * with traffic erases count nothing. No classes: everything runs. `memory_bytes` (0: any) is what
 * each rank may hold. LAC_EINVAL names a split that is not possible and the nearest that is;
 * LAC_ETOOBIG a model that does not fit. */
lac_status lac_placement_make(const lac_place_model *model, const lac_place_class *classes,
                              uint32_t classes_count, uint32_t stages, uint32_t parts,
                              uint64_t memory_bytes, lac_placement *out, lac_error *err);
void lac_placement_free(lac_placement *placement);

static inline const lac_place_part *lac_placement_part(const lac_placement *placement,
                                                       uint32_t part, uint32_t layer)
{
    return &placement->of[(size_t)part * placement->layers_count + layer];
}

/* SHA-256 over everything that ranks must agree on. */
void lac_placement_digest(const lac_placement *placement, lac_digest *out);

#endif
