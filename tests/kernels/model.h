/* A small random model for the step tests: weights in the file's layout and as floats, the
 * operation list of a backend, and the same forward pass in float64. */
#ifndef LAC_TESTS_KERNELS_MODEL_H
#define LAC_TESTS_KERNELS_MODEL_H

#include "suites.h"

enum {
    LAYERS = 2,
    HIDDEN = 64,
    HEADS = 6,
    KV_HEADS = 2,
    DIM = 16,
    FFN = 96,
    VOCAB = 203,
    CONTEXT = 1024
};

typedef struct {
    lac_type type;
    uint32_t window[LAYERS];
    float softcap;
    bool biases, head_norms, post_norms;
    lac_rope_style style;
    lac_activation act;
} traits;

/* One weight: float values, and the file's bytes. */
typedef struct {
    uint32_t rows, cols;
    lac_type type;
    uint8_t *bytes;
    float *values;
} matrix;

enum { PATCHES_MAX = 8 };
enum { PER_LAYER = 15, WEIGHTS = 1 + LAYERS * PER_LAYER + 1 };

typedef struct {
    traits t;
    matrix w[WEIGHTS]; /* embedding (and head), then each layer's, then the output norm */
    matrix down[2 * LAYERS],
        up[2 * LAYERS]; /* patches of units; empty = none, full rank: no down */
} model;

void model_make(model *m, const traits *t);
void model_free(model *m);
/* Gives a unit a patch that is used where the unit is skipped, another one for each seed. */
void model_patch(model *m, uint32_t unit, uint32_t rank, uint64_t seed);
/* Float64 logits of the last token; `skip` names erased units by bit. */
void model_truth(const model *m, const uint32_t *tokens, uint32_t n, uint32_t skip, double *logits);

/* A backend with the model in it. */
typedef struct {
    const lac_backend_ops *api;
    lac_backend *be;
    lac_weight *w[WEIGHTS];
    lac_op ops[1 + 5 * LAYERS + 1 + PATCHES_MAX];
    size_t ops_count;
    lac_weight *patches[2 * PATCHES_MAX];
    uint32_t patches_count;
    void *kv[LAYERS];
    size_t page_bytes;
    uint32_t pages;
} engine;

void engine_open(engine *e, const model *m, lac_isa isa, uint32_t threads, lac_kv_type kv);
/* The same on another backend, whose KV memory the caller can write. */
void engine_open_on(const lac_backend_ops *api, engine *e, const model *m, lac_isa isa,
                    uint32_t threads, lac_kv_type kv);
/* Adds the model's patch of a unit after the unit, for the rows of list `list`. */
void engine_patch(engine *e, const model *m, uint32_t unit, uint32_t list);
/* Fills every page with NaN, so that a token never written cannot go unseen. */
void engine_poison(engine *e);
void engine_close(engine *e);

#endif
