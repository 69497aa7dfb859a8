/* The flat list of operations that one step runs, built once from the model's facts. Internal to
 * worker/engine. */
#ifndef LAC_ENGINE_PROGRAM_H
#define LAC_ENGINE_PROGRAM_H

#include <stddef.h>
#include <stdint.h>

#include "base/class.h"
#include "base/limits.h"
#include "base/status.h"
#include "group.h"
#include "kernels/kernels.h"
#include "model/model.h"

/* Where the pages of each attention unit lie. Attention units are counted from 0 over those that
 * are in the program; that number is also the row of the block tables. */
typedef struct {
    uint32_t units_count;
    uint32_t *size_of; /* [units_count] index into the arrays below */
    uint32_t *unit_of; /* [units_count] unit of the model */
    uint32_t sizes_count;
    size_t page_bytes[LAC_KV_SIZES_MAX];  /* of this rank's KV heads */
    size_t whole_bytes[LAC_KV_SIZES_MAX]; /* of all KV heads */
    bool here[LAC_KV_SIZES_MAX];          /* this rank's stage has them */
    uint32_t pages[LAC_KV_SIZES_MAX];     /* set with the regions */
    uint32_t units_of[LAC_KV_SIZES_MAX];  /* units that share the size */
    void *regions[LAC_KV_SIZES_MAX];      /* set once the pool is allocated */
    size_t region_bytes[LAC_KV_SIZES_MAX];
} lac__kv_layout;

typedef struct {
    lac_op *ops;
    size_t count;
    lac_weight **weights; /* every packed weight once: what destroy frees */
    size_t weights_count;
    uint64_t weight_bytes;
    lac_expert_weights *experts; /* of all layers, one after the other; operations point into it */
    size_t experts_count;
} lac__program;

/* Sorts the attention units of the whole model that are not `dropped` by page size; those of
 * different stages or cuts are of different sizes, so that every rank deals in the same pages and
 * keeps its own only. LAC_EUNSUPPORTED when there are more sizes than LAC_KV_SIZES_MAX. Regions are
 * left NULL. */
lac_status lac__kv_layout_create(const lac_model *model, const lac_mask *dropped,
                                 const lac__shard *shard, const lac_backend_ops *table,
                                 const lac_backend *backend, lac__kv_layout *out, lac_error *err);
void lac__kv_layout_destroy(lac__kv_layout *layout);

/* What one class puts in place of units: `list` is the number of its rows' list. */
typedef struct {
    uint32_t list, count;
    const lac_patch *patches; /* [count] */
} lac__patch_list;

/* Packs every weight into the backend, tensor by tensor, giving the file's pages back as it goes,
 * and writes the operations: one group a unit, unit 2l the attention and 2l+1 the FFN of layer l.
 * Units in `dropped`, and what the shard does not hold, get neither; the layout has to be made with
 * the same ones. Patches come behind the unit they stand in for; equal ones of two classes are
 * packed once. With `tap` a TAP follows the layers that probes look at. The layout's regions must
 * be set. `progress` (or NULL) hears tensor bytes done and in all. */
lac_status lac__program_create(const lac_model *model, const lac_mask *dropped,
                               const lac__shard *shard, const lac__patch_list *lists,
                               uint32_t lists_count, bool tap, const lac_backend_ops *table,
                               lac_backend *backend, const lac__kv_layout *layout,
                               void (*progress)(void *arg, uint64_t done, uint64_t total),
                               void *progress_arg, lac__program *out, lac_error *err);
void lac__program_destroy(const lac_backend_ops *table, lac_backend *backend,
                          lac__program *program);

#endif
