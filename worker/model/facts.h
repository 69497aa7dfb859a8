/* Architectures as rows: what one adds to the common decoder (pre-norm attention with RoPE, gated
 * FFN). Shared by the files of this folder. */
#ifndef LAC_MODEL_FACTS_H
#define LAC_MODEL_FACTS_H

#include "keys.h"
#include "model/model.h"

/* What shape a layer tensor has, in terms of the layer's facts. Matrices are [columns, rows]. */
typedef enum {
    LAC__SHAPE_HIDDEN,   /* [hidden] */
    LAC__SHAPE_HEAD_DIM, /* [head_dim] */
    LAC__SHAPE_Q,        /* [hidden, heads·head_dim] */
    LAC__SHAPE_KV,       /* [hidden, kv_heads·head_dim] */
    LAC__SHAPE_Q_BIAS,   /* [heads·head_dim] */
    LAC__SHAPE_KV_BIAS,  /* [kv_heads·head_dim] */
    LAC__SHAPE_O,        /* [heads·head_dim, hidden] */
    LAC__SHAPE_UP,       /* [hidden, ffn] */
    LAC__SHAPE_DOWN,     /* [ffn, hidden] */
    LAC__SHAPE_ROUTER,   /* [hidden, experts] */
    LAC__SHAPE_UPS,      /* [hidden, ffn, experts] */
    LAC__SHAPE_DOWNS     /* [ffn, hidden, experts] */
} lac__shape;

/* Groups of layer tensors that an architecture needs, may have, or must not have. */
enum {
    LAC__ROLE_BASE = 1 << 0,      /* norms, q, k, v, o */
    LAC__ROLE_QKV_BIAS = 1 << 1,  /* biases of q, k, v */
    LAC__ROLE_OUT_BIAS = 1 << 2,  /* biases of o and down */
    LAC__ROLE_QK_NORM = 1 << 3,   /* per-head norms of q and k */
    LAC__ROLE_POST_NORM = 1 << 4, /* norms of what attention and FFN add to the stream */
    LAC__ROLE_DENSE = 1 << 5,     /* gate, up, down */
    LAC__ROLE_EXPERTS = 1 << 6    /* a router, and gate, up, down of every expert */
};

typedef struct {
    const char *suffix; /* "blk.N.<suffix>" */
    size_t offset;      /* of the pointer in lac_layer */
    lac__shape shape;
    unsigned group;
    bool ffn; /* belongs to the FFN unit */
} lac__role;
extern const lac__role lac__roles[];
extern const size_t lac__roles_count;

typedef struct {
    const char *name;
    unsigned needs; /* groups every layer must have */
    unsigned may;   /* groups a layer may have */
    lac_model_rope rope_style;
    lac_model_activation activation;
    bool rope_factors; /* rope_freqs.weight may be present */
    bool zero_units;   /* a layer may lack its attention (0 heads) or its FFN (length 0) */
    bool embed_root;   /* embeddings are multiplied by √hidden */
    /* Layers with a sliding window: all but every window_period-th (0: the family has none), with a
     * RoPE base of their own that no scaling touches. */
    uint32_t window_period;
    float window_rope_base;
    /* A model of so many layers divides attention scores by √(hidden/heads), not √head_dim. */
    uint32_t wide_scale_layers;
} lac__architecture;
/* NULL when unknown. */
const lac__architecture *lac__architecture_find(const char *name, size_t length);
/* "llama, qwen2, …" for error texts. */
const char *lac__architecture_names(void);

/* Reads hyperparameters into `model`, whose architecture, embed, head and gguf are set, and
 * allocates its layers with their facts; tensors stay NULL. */
lac_status lac__facts_read(lac_model *model, const lac__architecture *arch, lac_error *err);

/* Base, scaling and magnitude of every layer (rope.c); windows may take them back. */
void lac__rope_read(lac__keys *in, lac_model *model);
/* Makes the table of divisors, once facts and rope_factors are known, and gives it to the layers.
 */
lac_status lac__rope_finish(lac_model *model, lac_error *err);

#endif
