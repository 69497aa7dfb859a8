/* The table of architectures and the hyperparameters read from metadata, each with its range. Runs
 * on the opening thread. Knows no tensor data. Key names: the GGUF specification,
 * "<architecture>.…". */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "facts.h"

#define ROLE(field, suffix, shape, group, ffn)                                                     \
    {                                                                                              \
        suffix, offsetof(lac_layer, field), shape, group, ffn                                      \
    }

const lac__role lac__roles[] = {
    ROLE(attn_norm, "attn_norm.weight", LAC__SHAPE_HIDDEN, LAC__ROLE_BASE, false),
    ROLE(q, "attn_q.weight", LAC__SHAPE_Q, LAC__ROLE_BASE, false),
    ROLE(k, "attn_k.weight", LAC__SHAPE_KV, LAC__ROLE_BASE, false),
    ROLE(v, "attn_v.weight", LAC__SHAPE_KV, LAC__ROLE_BASE, false),
    ROLE(q_bias, "attn_q.bias", LAC__SHAPE_Q_BIAS, LAC__ROLE_QKV_BIAS, false),
    ROLE(k_bias, "attn_k.bias", LAC__SHAPE_KV_BIAS, LAC__ROLE_QKV_BIAS, false),
    ROLE(v_bias, "attn_v.bias", LAC__SHAPE_KV_BIAS, LAC__ROLE_QKV_BIAS, false),
    ROLE(q_norm, "attn_q_norm.weight", LAC__SHAPE_HEAD_DIM, LAC__ROLE_QK_NORM, false),
    ROLE(k_norm, "attn_k_norm.weight", LAC__SHAPE_HEAD_DIM, LAC__ROLE_QK_NORM, false),
    ROLE(o, "attn_output.weight", LAC__SHAPE_O, LAC__ROLE_BASE, false),
    ROLE(o_bias, "attn_output.bias", LAC__SHAPE_HIDDEN, LAC__ROLE_OUT_BIAS, false),
    ROLE(attn_post_norm, "post_attention_norm.weight", LAC__SHAPE_HIDDEN, LAC__ROLE_POST_NORM,
         false),
    ROLE(ffn_norm, "ffn_norm.weight", LAC__SHAPE_HIDDEN, LAC__ROLE_BASE, true),
    ROLE(gate, "ffn_gate.weight", LAC__SHAPE_UP, LAC__ROLE_BASE, true),
    ROLE(up, "ffn_up.weight", LAC__SHAPE_UP, LAC__ROLE_BASE, true),
    ROLE(down, "ffn_down.weight", LAC__SHAPE_DOWN, LAC__ROLE_BASE, true),
    ROLE(down_bias, "ffn_down.bias", LAC__SHAPE_HIDDEN, LAC__ROLE_OUT_BIAS, true),
    ROLE(ffn_post_norm, "post_ffw_norm.weight", LAC__SHAPE_HIDDEN, LAC__ROLE_POST_NORM, true),
};
const size_t lac__roles_count = sizeof lac__roles / sizeof lac__roles[0];

/* llama files hold q and k rows permuted so that RoPE turns neighbouring pairs; the others keep the
 * checkpoint's order, in which it turns the two halves of a head. */
static const lac__architecture architectures[] = {
    {.name = "llama",
     .needs = LAC__ROLE_BASE,
     .may = LAC__ROLE_QKV_BIAS | LAC__ROLE_OUT_BIAS,
     .rope_style = LAC_MODEL_ROPE_PAIRS,
     .activation = LAC_ACTIVATION_SILU,
     .rope_factors = true},
    {.name = "qwen2",
     .needs = LAC__ROLE_BASE | LAC__ROLE_QKV_BIAS,
     .rope_style = LAC_MODEL_ROPE_HALVES,
     .activation = LAC_ACTIVATION_SILU},
    {.name = "qwen3",
     .needs = LAC__ROLE_BASE | LAC__ROLE_QK_NORM,
     .may = LAC__ROLE_QKV_BIAS,
     .rope_style = LAC_MODEL_ROPE_HALVES,
     .activation = LAC_ACTIVATION_SILU},
    {.name = "deci",
     .needs = LAC__ROLE_BASE,
     .may = LAC__ROLE_QKV_BIAS | LAC__ROLE_OUT_BIAS,
     .rope_style = LAC_MODEL_ROPE_PAIRS,
     .activation = LAC_ACTIVATION_SILU,
     .rope_factors = true,
     .zero_units = true},
    /* Its norm weights lie in files with the 1 that the checkpoint leaves out already added. */
    {.name = "gemma3",
     .needs = LAC__ROLE_BASE | LAC__ROLE_QK_NORM | LAC__ROLE_POST_NORM,
     .rope_style = LAC_MODEL_ROPE_HALVES,
     .activation = LAC_ACTIVATION_GELU_TANH,
     .embed_root = true,
     .window_period = 6,
     .window_rope_base = 10000.0f,
     .wide_scale_layers = 62},
};

const lac__architecture *lac__architecture_find(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof architectures / sizeof architectures[0]; i++)
        if (strlen(architectures[i].name) == length &&
            memcmp(architectures[i].name, name, length) == 0)
            return &architectures[i];
    return NULL;
}

const char *lac__architecture_names(void)
{
    return "llama, qwen2, qwen3, deci, gemma3";
}

/* One pass over "<architecture>.<name>" keys; the first error sticks and later reads do nothing. */
typedef struct {
    const lac_gguf *gguf;
    const char *arch;
    lac_error error;
} keys;

static const char *key_name(const keys *in, const char *name, char out[128])
{
    snprintf(out, 128, "%s.%s", in->arch, name);
    return out;
}

/* False when absent or after an error. */
static bool maybe_u64(keys *in, const char *name, uint64_t low, uint64_t high, uint64_t *out)
{
    char key[128];
    return in->error.status == LAC_OK &&
           lac_gguf_u64(in->gguf, key_name(in, name, key), low, high, out, &in->error);
}

static uint64_t need_u64(keys *in, const char *name, uint64_t low, uint64_t high)
{
    uint64_t value = low;
    if (!maybe_u64(in, name, low, high, &value) && in->error.status == LAC_OK)
        lac_fail(&in->error, LAC_ECORRUPT, "key %s.%s: missing", in->arch, name);
    return value;
}

static bool maybe_f64(keys *in, const char *name, double low, double high, double *out)
{
    char key[128];
    double value;
    if (in->error.status != LAC_OK ||
        !lac_gguf_f64(in->gguf, key_name(in, name, key), &value, &in->error))
        return false;
    if (value < low || value > high) {
        lac_fail(&in->error, LAC_ECORRUPT, "key %s: %g, allowed %g to %g", key, value, low, high);
        return false;
    }
    *out = value;
    return true;
}

/* A count that is one number for all layers or an array with one number a layer. */
static void per_layer(keys *in, const char *name, uint64_t low, uint64_t high, uint32_t layers,
                      uint32_t *out, bool *present)
{
    char key[128];
    lac_gguf_kind kind;
    size_t count;
    lac_error ignored = {0};
    *present = false;
    if (in->error.status != LAC_OK)
        return;
    if (!lac_gguf_array(in->gguf, key_name(in, name, key), &kind, &count, &ignored)) {
        uint64_t value;
        *present = maybe_u64(in, name, low, high, &value);
        for (uint32_t l = 0; *present && l < layers; l++)
            out[l] = (uint32_t)value;
        return;
    }
    if (kind == LAC_GGUF_STRING || kind == LAC_GGUF_BOOL || kind == LAC_GGUF_F32 ||
        kind == LAC_GGUF_F64) {
        lac_fail(&in->error, LAC_ECORRUPT, "key %s: array elements must be integers", key);
        return;
    }
    if (count != layers) {
        lac_fail(&in->error, LAC_ECORRUPT, "key %s: %zu elements, %s.block_count is %u", key, count,
                 in->arch, layers);
        return;
    }
    for (uint32_t l = 0; l < layers; l++) {
        double value = lac_gguf_array_number(in->gguf, key, l);
        if (value < (double)low || value > (double)high) {
            lac_fail(&in->error, LAC_ECORRUPT, "key %s: element %u is %g, allowed %llu to %llu",
                     key, l, value, (unsigned long long)low, (unsigned long long)high);
            return;
        }
        out[l] = (uint32_t)value;
    }
    *present = true;
}

static void missing(keys *in, const char *name)
{
    if (in->error.status == LAC_OK)
        lac_fail(&in->error, LAC_ECORRUPT, "key %s.%s: missing", in->arch, name);
}

/* Heads of one layer as its attention needs them. */
static void check_heads(keys *in, uint32_t l, uint32_t heads, uint32_t kv)
{
    if (in->error.status != LAC_OK || heads == 0)
        return;
    if (kv == 0)
        lac_fail(&in->error, LAC_EUNSUPPORTED,
                 "key %s.attention.head_count_kv: 0 in layer %u of %u heads: linear attention is "
                 "not supported",
                 in->arch, l, heads);
    else if (heads % kv != 0)
        lac_fail(&in->error, LAC_ECORRUPT,
                 "key %s.attention.head_count_kv: %u, does not divide the %u heads of layer %u",
                 in->arch, kv, heads, l);
}

static void read_layers(keys *in, lac_model *model, uint64_t low)
{
    uint32_t n = model->layers_count;
    uint32_t *values = lac_alloc(3 * (size_t)n, sizeof *values);
    uint32_t *heads = values, *kv = values + n, *ffn = values + 2 * (size_t)n;
    bool present;
    per_layer(in, "attention.head_count", low, LAC_HEADS_MAX, n, heads, &present);
    if (!present)
        missing(in, "attention.head_count");
    per_layer(in, "attention.head_count_kv", low, LAC_HEADS_MAX, n, kv, &present);
    if (!present)
        memcpy(kv, heads, n * sizeof *kv);
    per_layer(in, "feed_forward_length", low, LAC_FFN_MAX, n, ffn, &present);
    if (!present)
        missing(in, "feed_forward_length");
    for (uint32_t l = 0; in->error.status == LAC_OK && l < n; l++) {
        check_heads(in, l, heads[l], kv[l]);
        model->layers[l].heads = heads[l];
        model->layers[l].kv_heads = heads[l] ? kv[l] : 0;
        model->layers[l].ffn = ffn[l];
    }
    free(values);
}

/* The heads of the first layer that has some. */
static uint32_t first_heads(keys *in, const lac_model *model)
{
    for (uint32_t l = 0; l < model->layers_count; l++)
        if (model->layers[l].heads > 0)
            return model->layers[l].heads;
    if (in->error.status == LAC_OK)
        lac_fail(&in->error, LAC_EUNSUPPORTED, "key %s.attention.head_count: 0 in every layer",
                 in->arch);
    return 1;
}

static void read_head_dim(keys *in, lac_model *model)
{
    uint64_t dim, value_dim, rope;
    uint32_t heads = first_heads(in, model);
    if (in->error.status != LAC_OK)
        return;
    if (!maybe_u64(in, "attention.key_length", 1, LAC_HEAD_DIM_MAX, &dim)) {
        dim = model->hidden / heads;
        if (in->error.status == LAC_OK && (dim * heads != model->hidden || dim > LAC_HEAD_DIM_MAX))
            lac_fail(
                &in->error, LAC_ECORRUPT,
                "key %s.attention.head_count: %u, must divide embedding_length %u into at most %d",
                in->arch, heads, model->hidden, LAC_HEAD_DIM_MAX);
    }
    if (maybe_u64(in, "attention.value_length", 1, LAC_HEAD_DIM_MAX, &value_dim) &&
        value_dim != dim)
        lac_fail(&in->error, LAC_EUNSUPPORTED,
                 "key %s.attention.value_length: %llu, key_length is %llu; "
                 "they must be equal",
                 in->arch, (unsigned long long)value_dim, (unsigned long long)dim);
    if (!maybe_u64(in, "rope.dimension_count", 2, LAC_HEAD_DIM_MAX, &rope))
        rope = dim;
    if (in->error.status == LAC_OK && (rope > dim || rope % 2 != 0))
        lac_fail(&in->error, LAC_ECORRUPT,
                 "key %s.rope.dimension_count: %llu, must be even and at most the head's %llu",
                 in->arch, (unsigned long long)rope, (unsigned long long)dim);
    if (in->error.status != LAC_OK)
        return;
    model->head_dim = (uint32_t)dim;
    model->rope_dims = (uint32_t)rope;
    model->attention_scale = 1.0f / sqrtf((float)dim);
}

/* Positions are multiplied by rope_scale: 1, or 1/factor when the scaling is linear. */
static void read_rope(keys *in, lac_model *model)
{
    double base = 10000.0, factor = 1.0;
    const char *type = "none";
    size_t length = 4;
    char key[128];
    uint64_t original;
    maybe_f64(in, "rope.freq_base", 1.0, 1e12, &base);
    if (in->error.status == LAC_OK)
        lac_gguf_string(in->gguf, key_name(in, "rope.scaling.type", key), &type, &length,
                        &in->error);
    bool legacy = maybe_f64(in, "rope.scale_linear", 1e-3, 1e6, &factor) && factor != 1.0;
    maybe_f64(in, "rope.scaling.factor", 1e-3, 1e6, &factor);
    if (maybe_u64(in, "rope.scaling.original_context_length", 1, LAC_CONTEXT_MAX, &original))
        model->rope_original_context = (uint32_t)original;
    if (in->error.status != LAC_OK)
        return;
    bool linear = (length == 6 && memcmp(type, "linear", 6) == 0) || legacy;
    if (!linear && !(length == 4 && memcmp(type, "none", 4) == 0)) {
        lac_fail(&in->error, LAC_EUNSUPPORTED,
                 "key %s.rope.scaling.type: \"%.*s\" is not supported (none, linear are)", in->arch,
                 length > 32 ? 32 : (int)length, type);
        return;
    }
    model->rope_scaling = linear ? LAC_ROPE_SCALING_LINEAR : LAC_ROPE_SCALING_NONE;
    model->rope_scaling_factor = linear ? (float)factor : 1.0f;
    for (uint32_t l = 0; l < model->layers_count; l++) {
        model->layers[l].rope_base = (float)base;
        model->layers[l].rope_scale = 1.0f / model->rope_scaling_factor;
    }
}

/* Which layers see only the last `window` positions, and how those turn. */
static void read_windows(keys *in, lac_model *model, const lac__architecture *arch)
{
    uint64_t window = 0, period = arch->window_period;
    double base = arch->window_rope_base;
    if (period == 0)
        return;
    if (!maybe_u64(in, "attention.sliding_window", 1, LAC_CONTEXT_MAX, &window))
        missing(in, "attention.sliding_window");
    maybe_u64(in, "attention.sliding_window_pattern", 1, LAC_LAYERS_MAX, &period);
    maybe_f64(in, "rope.freq_base_swa", 1.0, 1e12, &base);
    for (uint32_t l = 0; in->error.status == LAC_OK && l < model->layers_count; l++)
        if ((l + 1) % period != 0) {
            model->layers[l].window = (uint32_t)window;
            model->layers[l].rope_base = (float)base;
            model->layers[l].rope_scale = 1.0f;
        }
}

/* What attention scores and logits go through. */
static void read_scores(keys *in, lac_model *model, const lac__architecture *arch)
{
    double scale, cap;
    if (in->error.status == LAC_OK && arch->wide_scale_layers == model->layers_count)
        model->attention_scale = 1.0f / sqrtf((float)model->hidden / (float)model->layers[0].heads);
    if (maybe_f64(in, "attention.scale", 1e-6, 1e6, &scale))
        model->attention_scale = (float)scale;
    if (maybe_f64(in, "attn_logit_softcapping", 0, 1e6, &cap))
        model->attention_softcap = (float)cap;
    if (maybe_f64(in, "final_logit_softcapping", 0, 1e6, &cap))
        model->logit_softcap = (float)cap;
}

/* Facts that would change the result and that no row of the table expresses. */
static void refuse_unknown(keys *in, const lac__architecture *arch)
{
    static const char *const zero[] = {"expert_count", "attention.sliding_window"};
    size_t count = arch->window_period ? 1 : 2;
    uint64_t value;
    for (size_t i = 0; i < count; i++)
        if (maybe_u64(in, zero[i], 0, UINT64_MAX, &value) && value != 0)
            lac_fail(&in->error, LAC_EUNSUPPORTED, "key %s.%s: %llu, only 0 is supported", in->arch,
                     zero[i], (unsigned long long)value);
}

static void read_vocab(keys *in, lac_model *model)
{
    uint64_t vocab = model->embed->dims[1], said;
    lac_gguf_kind kind;
    size_t tokens;
    if (vocab > LAC_VOCAB_MAX) {
        lac_fail(&in->error, LAC_ECORRUPT, "tensor %s: %llu rows, limit %d", model->embed->name,
                 (unsigned long long)vocab, LAC_VOCAB_MAX);
        return;
    }
    if (maybe_u64(in, "vocab_size", 1, LAC_VOCAB_MAX, &said) && said != vocab)
        lac_fail(&in->error, LAC_ECORRUPT, "key %s.vocab_size: %llu, tensor %s has %llu rows",
                 in->arch, (unsigned long long)said, model->embed->name, (unsigned long long)vocab);
    if (in->error.status == LAC_OK &&
        lac_gguf_array(in->gguf, "tokenizer.ggml.tokens", &kind, &tokens, &in->error) &&
        tokens != vocab)
        lac_fail(&in->error, LAC_ECORRUPT,
                 "key tokenizer.ggml.tokens: %zu elements, tensor %s has %llu "
                 "rows",
                 tokens, model->embed->name, (unsigned long long)vocab);
    model->vocab = (uint32_t)vocab;
}

lac_status lac__facts_read(lac_model *model, const lac__architecture *arch, lac_error *err)
{
    keys in = {.gguf = model->gguf, .arch = arch->name};
    double eps = 0;
    model->rope_style = arch->rope_style;
    model->activation = arch->activation;
    model->layers_count = (uint32_t)need_u64(&in, "block_count", 1, LAC_LAYERS_MAX);
    model->hidden = (uint32_t)need_u64(&in, "embedding_length", 1, LAC_HIDDEN_MAX);
    model->context = (uint32_t)need_u64(&in, "context_length", 1, LAC_CONTEXT_MAX);
    if (!maybe_f64(&in, "attention.layer_norm_rms_epsilon", 1e-12, 0.1, &eps))
        missing(&in, "attention.layer_norm_rms_epsilon");
    model->norm_eps = (float)eps;
    model->embed_scale = arch->embed_root ? sqrtf((float)model->hidden) : 1.0f;
    if (in.error.status != LAC_OK)
        goto done;
    model->layers = lac_alloc(model->layers_count, sizeof *model->layers);
    read_layers(&in, model, arch->zero_units ? 0 : 1);
    read_head_dim(&in, model);
    read_rope(&in, model);
    read_windows(&in, model, arch);
    read_scores(&in, model, arch);
    refuse_unknown(&in, arch);
    read_vocab(&in, model);
done:
    if (in.error.status != LAC_OK && err)
        *err = in.error;
    return in.error.status;
}
