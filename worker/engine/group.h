/* A group of ranks as the engine's files see it: what this rank holds, the agreement before the
 * first step, and the one call that runs a batch on all of them. Internal to worker/engine. */
#ifndef LAC_ENGINE_GROUP_H
#define LAC_ENGINE_GROUP_H

#include "engine/engine.h"
#include "fabric/fabric.h"
#include "topology/placement.h"

/* What this rank holds. A group of one has one stage of one part and no placement. */
typedef struct {
    uint32_t stages, stage, parts, part;
    uint32_t layer_first, layer_end;
    const lac_placement *placement; /* NULL: all of every layer */
    const lac_reducer *sum;         /* adds up over the parts of the stage; NULL for one part */
} lac__shard;

static inline bool lac__shard_first(const lac__shard *shard)
{
    return shard->stage == 0;
}
static inline bool lac__shard_last(const lac__shard *shard)
{
    return shard->stage + 1 == shard->stages;
}
/* The stage that a layer belongs to. */
static inline uint32_t lac__shard_stage_of(const lac__shard *shard, uint32_t layer)
{
    uint32_t stage = 0;
    while (shard->placement && layer >= shard->placement->layer_first[stage + 1])
        stage++;
    return stage;
}
/* Ranges of a layer that a part of its stage holds. */
static inline lac_place_part lac__shard_part(const lac__shard *shard, const lac_model *model,
                                             uint32_t part, uint32_t layer)
{
    if (shard->placement)
        return *lac_placement_part(shard->placement, part, layer);
    const lac_layer *l = &model->layers[layer];
    return (lac_place_part){.heads = l->heads, .kv_heads = l->kv_heads, .ffn = l->ffn};
}
/* Vocabulary rows of this rank's embedding and head. */
static inline uint32_t lac__shard_vocab_first(const lac__shard *shard)
{
    return shard->placement ? shard->placement->vocab_first[shard->part] : 0;
}
static inline uint32_t lac__shard_vocab(const lac__shard *shard, const lac_model *model)
{
    return shard->placement ? shard->placement->vocab_first[shard->part + 1] -
                                  shard->placement->vocab_first[shard->part]
                            : model->vocab;
}

typedef struct lac__group lac__group;

/* Sets engine->shard, and engine->group when there is more than one rank; then all ranks show each
 * other what they are about to load. LAC_EINVAL for a placement of another model, LAC_EPROTO with
 * both digests when two ranks differ. Needs classes and sizes. */
lac_status lac__group_open(lac_engine *engine, const lac_engine_options *options, lac_error *err);
/* The leader's number of KV blocks becomes everybody's. */
lac_status lac__group_blocks(lac_engine *engine, uint32_t *blocks, lac_error *err);
/* Reserves what steps need and waits until every rank has loaded. Needs the pool and the backend.
 */
lac_status lac__group_ready(lac_engine *engine, lac_error *err);
/* Lets the followers go. `failed`: tells them that this rank cannot go on, and why. */
void lac__group_close(lac_engine *engine, const lac_error *failed);

/* Runs a batch whose row lists are set: here alone, or on all ranks from here. A batch that fails
 * on any rank fails; LAC_EPEER and its like mean that the group is over. */
lac_status lac__group_run(lac_engine *engine, lac_batch *batch, lac_error *err);

#endif
