/* What a model is: facts and tensors by role, read from a GGUF file. Architectures are rows of a
 * table, not branches elsewhere. Knows nothing of kernels, threads or requests. Read-only once open. */
#ifndef LAC_MODEL_H
#define LAC_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/limits.h"
#include "base/mask.h"
#include "base/status.h"
#include "base/unit.h"
#include "model/gguf.h"

typedef enum { LAC_ACTIVATION_SILU, LAC_ACTIVATION_GELU_TANH } lac_model_activation;
typedef enum { LAC_MODEL_ROPE_PAIRS, LAC_MODEL_ROPE_HALVES } lac_model_rope;
typedef enum { LAC_ROPE_SCALING_NONE, LAC_ROPE_SCALING_LINEAR, LAC_ROPE_SCALING_YARN } lac_rope_scaling;

/* YaRN: frequencies that turn more than beta_fast times in the original context stay (by `mix`). */
typedef struct {
    float beta_fast, beta_slow, mix;
} lac_yarn;

/* One layer's shape and tensors. A tensor the architecture does not have is NULL; one that it needs
 * and the file lacks is an error at open. */
typedef struct {
    uint32_t heads, kv_heads; /* 0 heads: no attention unit */
    bool linear; /* heads but no KV heads: the unit is o·norm(h), with attn_norm and o alone */
    uint32_t ffn;             /* 0: no FFN unit; the width of one expert where there are some */
    uint32_t experts, experts_used; /* 0: one FFN for all rows; else a row runs `experts_used` */
    uint32_t window;          /* sliding window, 0 = none */
    float rope_base, rope_scale; /* positions are multiplied by rope_scale: 1, or 1/factor (linear) */
    float rope_magnitude;        /* of what is turned: 1, or YaRN's growth */
    const float *rope_divisors;  /* [rope_dims/2] of the frequencies, or NULL; the model's */
    const lac_gguf_tensor *attn_norm, *q, *k, *v, *q_bias, *k_bias, *v_bias, *q_norm, *k_norm;
    const lac_gguf_tensor *o, *o_bias, *attn_post_norm;
    const lac_gguf_tensor *ffn_norm, *gate, *up, *down, *down_bias, *ffn_post_norm;
    /* Of experts: [hidden, experts]; then all experts of a kind in one tensor, the last dimension. */
    const lac_gguf_tensor *router, *gate_experts, *up_experts, *down_experts;
} lac_layer;

typedef struct {
    char architecture[LAC_NAME_MAX + 1];
    char name[LAC_MODEL_NAME_MAX + 1]; /* from general.name or the file name, made [A-Za-z0-9._-] */
    uint32_t layers_count;
    uint32_t hidden, vocab, context; /* context: the length it was trained for */
    uint32_t head_dim, rope_dims;
    float norm_eps;
    float embed_scale;            /* 1, or √hidden */
    float attention_scale;        /* 1/√head_dim unless the file says otherwise */
    float attention_softcap, logit_softcap; /* 0 = none */
    lac_model_activation activation;
    bool experts_normalise; /* the probabilities of the experts a row runs are made to sum to 1 */
    float experts_scale;    /* multiplies them */
    lac_model_rope rope_style;
    lac_rope_scaling rope_scaling;
    float rope_scaling_factor;
    uint32_t rope_original_context; /* what the file says, else context */
    lac_yarn yarn;
    float *rope_divisors; /* Llama 3's and YaRN's, multiplied; or NULL */
    const lac_gguf_tensor *rope_factors; /* [rope_dims/2] F32 (Llama 3), or NULL */
    const lac_gguf_tensor *embed, *out_norm;
    const lac_gguf_tensor *head; /* == embed when tied */
    bool tied;
    uint64_t tensor_bytes; /* of all tensors */
    uint64_t parameters;
    lac_layer *layers; /* [layers_count] */
    const lac_gguf *gguf;
} lac_model;

/* Opens and checks everything: every needed tensor present with the shape the facts ask for, types
 * known. LAC_EUNSUPPORTED names an unknown architecture and lists the known ones. */
lac_status lac_model_open(const char *path, lac_model **out, lac_error *err);
/* Takes over `gguf` on success. For tests. */
lac_status lac_model_from_gguf(lac_gguf *gguf, const char *file_name, lac_model **out, lac_error *err);
void lac_model_close(lac_model **model);

/* SHA-256 over canonical metadata, the tensor table, and the first and last 4 KiB of every tensor:
 * the same for split files, cheap enough for every start. */
void lac_model_digest(const lac_model *model, lac_digest *out);

/* ---- units: what their bytes say (unit 2l is the attention, 2l+1 the FFN of layer l) ---- */

/* Which tensors of a unit are all zero. Reads up to the first element that is not, of each. */
void lac_model_unit_facts(const lac_model *model, uint32_t unit, lac_unit_facts *out);
/* The largest size an element of its output projection can have; for reports. Reads all of it. */
double lac_model_unit_bound(const lac_model *model, uint32_t unit);
lac_unit_record lac_model_unit_record(const lac_model *model, uint32_t unit);
uint64_t lac_model_unit_bytes(const lac_model *model, uint32_t unit); /* of its tensors */
void lac_model_unit_release(const lac_model *model, uint32_t unit);   /* gives the pages back */

/* A file may say which of its units contribute exactly zero (a mask text): a promise to be checked
 * against the bytes. No key: an empty mask. LAC_ECORRUPT when the text is no mask. */
#define LAC_MODEL_ZERO_KEY "lacuna.zeroed_units"
lac_status lac_model_claimed_zero(const lac_model *model, lac_mask *out, lac_error *err);

#endif
