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
    ROLE(gate, "ffn_gate.weight", LAC__SHAPE_UP, LAC__ROLE_DENSE, true),
    ROLE(up, "ffn_up.weight", LAC__SHAPE_UP, LAC__ROLE_DENSE, true),
    ROLE(down, "ffn_down.weight", LAC__SHAPE_DOWN, LAC__ROLE_DENSE, true),
    ROLE(router, "ffn_gate_inp.weight", LAC__SHAPE_ROUTER, LAC__ROLE_EXPERTS, true),
    ROLE(gate_experts, "ffn_gate_exps.weight", LAC__SHAPE_UPS, LAC__ROLE_EXPERTS, true),
    ROLE(up_experts, "ffn_up_exps.weight", LAC__SHAPE_UPS, LAC__ROLE_EXPERTS, true),
    ROLE(down_experts, "ffn_down_exps.weight", LAC__SHAPE_DOWNS, LAC__ROLE_EXPERTS, true),
    ROLE(down_bias, "ffn_down.bias", LAC__SHAPE_HIDDEN, LAC__ROLE_OUT_BIAS, true),
    ROLE(ffn_post_norm, "post_ffw_norm.weight", LAC__SHAPE_HIDDEN, LAC__ROLE_POST_NORM, true),
};
const size_t lac__roles_count = sizeof lac__roles / sizeof lac__roles[0];

/* llama files hold q and k rows permuted so that RoPE turns neighbouring pairs; the others keep the
 * checkpoint's order, in which it turns the two halves of a head. */
static const lac__architecture architectures[] = {
    {.name = "llama",
     .needs = LAC__ROLE_BASE | LAC__ROLE_DENSE,
     .may = LAC__ROLE_QKV_BIAS | LAC__ROLE_OUT_BIAS,
     .rope_style = LAC_MODEL_ROPE_PAIRS,
     .activation = LAC_ACTIVATION_SILU,
     .rope_factors = true},
    {.name = "qwen2",
     .needs = LAC__ROLE_BASE | LAC__ROLE_DENSE | LAC__ROLE_QKV_BIAS,
     .rope_style = LAC_MODEL_ROPE_HALVES,
     .activation = LAC_ACTIVATION_SILU},
    {.name = "qwen3",
     .needs = LAC__ROLE_BASE | LAC__ROLE_DENSE | LAC__ROLE_QK_NORM,
     .may = LAC__ROLE_QKV_BIAS,
     .rope_style = LAC_MODEL_ROPE_HALVES,
     .activation = LAC_ACTIVATION_SILU},
    {.name = "qwen3moe",
     .needs = LAC__ROLE_BASE | LAC__ROLE_EXPERTS | LAC__ROLE_QK_NORM,
     .may = LAC__ROLE_QKV_BIAS,
     .rope_style = LAC_MODEL_ROPE_HALVES,
     .activation = LAC_ACTIVATION_SILU},
    {.name = "deci",
     .needs = LAC__ROLE_BASE | LAC__ROLE_DENSE,
     .may = LAC__ROLE_QKV_BIAS | LAC__ROLE_OUT_BIAS,
     .rope_style = LAC_MODEL_ROPE_PAIRS,
     .activation = LAC_ACTIVATION_SILU,
     .rope_factors = true,
     .zero_units = true},
    /* Its norm weights lie in files with the 1 that the checkpoint leaves out already added. */
    {.name = "gemma3",
     .needs = LAC__ROLE_BASE | LAC__ROLE_DENSE | LAC__ROLE_QK_NORM | LAC__ROLE_POST_NORM,
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
    return "llama, qwen2, qwen3, qwen3moe, deci, gemma3";
}

/* Heads of one layer as its attention needs them. */
static void check_heads(lac__keys *in, uint32_t l, uint32_t heads, uint32_t kv)
{
    if (in->error.status != LAC_OK || heads == 0 || kv == 0)
        return; /* no attention, or a linear one */
    if (heads % kv != 0)
        lac_fail(&in->error, LAC_ECORRUPT,
                 "key %s.attention.head_count_kv: %u, does not divide the %u heads of layer %u",
                 in->arch, kv, heads, l);
}

static void read_layers(lac__keys *in, lac_model *model, uint64_t low)
{
    uint32_t n = model->layers_count;
    uint32_t *values = lac_alloc(3 * (size_t)n, sizeof *values);
    uint32_t *heads = values, *kv = values + n, *ffn = values + 2 * (size_t)n;
    bool present;
    lac__key_per_layer(in, "attention.head_count", low, LAC_HEADS_MAX, n, heads, &present);
    if (!present)
        lac__key_missing(in, "attention.head_count");
    lac__key_per_layer(in, "attention.head_count_kv", low, LAC_HEADS_MAX, n, kv, &present);
    if (!present)
        memcpy(kv, heads, n * sizeof *kv);
    lac__key_per_layer(in, "feed_forward_length", low, LAC_FFN_MAX, n, ffn, &present);
    if (!present)
        lac__key_missing(in, "feed_forward_length");
    for (uint32_t l = 0; in->error.status == LAC_OK && l < n; l++) {
        check_heads(in, l, heads[l], kv[l]);
        model->layers[l].heads = heads[l];
        model->layers[l].kv_heads = heads[l] ? kv[l] : 0;
        model->layers[l].linear = heads[l] > 0 && kv[l] == 0;
        model->layers[l].ffn = ffn[l];
    }
    free(values);
}

/* The heads of the first layer that has some. */
static uint32_t first_heads(lac__keys *in, const lac_model *model)
{
    for (uint32_t l = 0; l < model->layers_count; l++)
        if (model->layers[l].heads > 0)
            return model->layers[l].heads;
    if (in->error.status == LAC_OK)
        lac_fail(&in->error, LAC_EUNSUPPORTED, "key %s.attention.head_count: 0 in every layer",
                 in->arch);
    return 1;
}

static void read_head_dim(lac__keys *in, lac_model *model)
{
    uint64_t dim, value_dim, rope;
    uint32_t heads = first_heads(in, model);
    if (in->error.status != LAC_OK)
        return;
    if (!lac__key_u64(in, "attention.key_length", 1, LAC_HEAD_DIM_MAX, &dim)) {
        dim = model->hidden / heads;
        if (in->error.status == LAC_OK && (dim * heads != model->hidden || dim > LAC_HEAD_DIM_MAX))
            lac_fail(
                &in->error, LAC_ECORRUPT,
                "key %s.attention.head_count: %u, must divide embedding_length %u into at most %d",
                in->arch, heads, model->hidden, LAC_HEAD_DIM_MAX);
    }
    if (lac__key_u64(in, "attention.value_length", 1, LAC_HEAD_DIM_MAX, &value_dim) &&
        value_dim != dim)
        lac_fail(&in->error, LAC_EUNSUPPORTED,
                 "key %s.attention.value_length: %llu, key_length is %llu; "
                 "they must be equal",
                 in->arch, (unsigned long long)value_dim, (unsigned long long)dim);
    if (!lac__key_u64(in, "rope.dimension_count", 2, LAC_HEAD_DIM_MAX, &rope))
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

/* Which layers see only the last `window` positions, and how those turn. */
static void read_windows(lac__keys *in, lac_model *model, const lac__architecture *arch)
{
    uint64_t window = 0, period = arch->window_period;
    double base = arch->window_rope_base;
    if (period == 0)
        return;
    if (!lac__key_u64(in, "attention.sliding_window", 1, LAC_CONTEXT_MAX, &window))
        lac__key_missing(in, "attention.sliding_window");
    lac__key_u64(in, "attention.sliding_window_pattern", 1, LAC_LAYERS_MAX, &period);
    lac__key_f64(in, "rope.freq_base_swa", 1.0, 1e12, &base);
    for (uint32_t l = 0; in->error.status == LAC_OK && l < model->layers_count; l++)
        if ((l + 1) % period != 0) {
            model->layers[l].window = (uint32_t)window;
            model->layers[l].rope_base = (float)base;
            model->layers[l].rope_scale = model->layers[l].rope_magnitude = 1.0f;
        }
}

/* What attention scores and logits go through. */
static void read_scores(lac__keys *in, lac_model *model, const lac__architecture *arch)
{
    double scale, cap;
    if (in->error.status == LAC_OK && arch->wide_scale_layers == model->layers_count)
        model->attention_scale = 1.0f / sqrtf((float)model->hidden / (float)model->layers[0].heads);
    if (lac__key_f64(in, "attention.scale", 1e-6, 1e6, &scale))
        model->attention_scale = (float)scale;
    if (lac__key_f64(in, "attn_logit_softcapping", 0, 1e6, &cap))
        model->attention_softcap = (float)cap;
    if (lac__key_f64(in, "final_logit_softcapping", 0, 1e6, &cap))
        model->logit_softcap = (float)cap;
}

/* How many experts, how wide, and what the router's numbers become. Softmax over all of them is the
 * only gating read (expert_gating_func 1). */
static void read_experts(lac__keys *in, lac_model *model, const lac__architecture *arch)
{
    uint64_t count, used, width, gating = 1;
    double scale = 1;
    bool normalise = true;
    if (!(arch->needs & LAC__ROLE_EXPERTS))
        return;
    count = lac__key_need_u64(in, "expert_count", 2, LAC_EXPERTS_MAX);
    used = lac__key_need_u64(in, "expert_used_count", 1, LAC_EXPERTS_MAX);
    if (in->error.status == LAC_OK && used > count)
        lac_fail(&in->error, LAC_ECORRUPT, "key %s.expert_used_count: %llu, there are %llu experts",
                 in->arch, (unsigned long long)used, (unsigned long long)count);
    width = lac__key_need_u64(in, "expert_feed_forward_length", 1, LAC_FFN_MAX);
    lac__key_bool(in, "expert_weights_norm", &normalise);
    lac__key_f64(in, "expert_weights_scale", 1e-3, 1e3, &scale);
    if (lac__key_u64(in, "expert_gating_func", 0, UINT64_MAX, &gating) && gating > 1)
        lac_fail(&in->error, LAC_EUNSUPPORTED,
                 "key %s.expert_gating_func: %llu, only 1 (softmax) is supported", in->arch,
                 (unsigned long long)gating);
    if (in->error.status != LAC_OK)
        return;
    model->experts_normalise = normalise;
    model->experts_scale = (float)scale;
    for (uint32_t l = 0; l < model->layers_count; l++) {
        model->layers[l].ffn = (uint32_t)width;
        model->layers[l].experts = (uint32_t)count;
        model->layers[l].experts_used = (uint32_t)used;
    }
}

/* Facts that would change the result and that no row of the table expresses. */
static void refuse_unknown(lac__keys *in, const lac__architecture *arch)
{
    const char *const zero[] = {"expert_shared_count", "expert_group_count",
                                "leading_dense_block_count",
                                arch->needs & LAC__ROLE_EXPERTS ? NULL : "expert_count",
                                arch->window_period ? NULL : "attention.sliding_window"};
    uint64_t value;
    for (size_t i = 0; i < sizeof zero / sizeof zero[0]; i++)
        if (zero[i] && lac__key_u64(in, zero[i], 0, UINT64_MAX, &value) && value != 0)
            lac_fail(&in->error, LAC_EUNSUPPORTED, "key %s.%s: %llu, only 0 is supported", in->arch,
                     zero[i], (unsigned long long)value);
}

static void read_vocab(lac__keys *in, lac_model *model)
{
    uint64_t vocab = model->embed->dims[1], said;
    lac_gguf_kind kind;
    size_t tokens;
    if (vocab > LAC_VOCAB_MAX) {
        lac_fail(&in->error, LAC_ECORRUPT, "tensor %s: %llu rows, limit %d", model->embed->name,
                 (unsigned long long)vocab, LAC_VOCAB_MAX);
        return;
    }
    if (lac__key_u64(in, "vocab_size", 1, LAC_VOCAB_MAX, &said) && said != vocab)
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
    lac__keys in = {.gguf = model->gguf, .arch = arch->name};
    double eps = 0;
    model->rope_style = arch->rope_style;
    model->activation = arch->activation;
    model->layers_count = (uint32_t)lac__key_need_u64(&in, "block_count", 1, LAC_LAYERS_MAX);
    model->hidden = (uint32_t)lac__key_need_u64(&in, "embedding_length", 1, LAC_HIDDEN_MAX);
    model->context = (uint32_t)lac__key_need_u64(&in, "context_length", 1, LAC_CONTEXT_MAX);
    if (!lac__key_f64(&in, "attention.layer_norm_rms_epsilon", 1e-12, 0.1, &eps))
        lac__key_missing(&in, "attention.layer_norm_rms_epsilon");
    model->norm_eps = (float)eps;
    model->embed_scale = arch->embed_root ? sqrtf((float)model->hidden) : 1.0f;
    if (in.error.status != LAC_OK)
        goto done;
    model->layers = lac_alloc(model->layers_count, sizeof *model->layers);
    read_layers(&in, model, arch->zero_units ? 0 : 1);
    read_experts(&in, model, arch);
    read_head_dim(&in, model);
    lac__rope_read(&in, model);
    read_windows(&in, model, arch);
    read_scores(&in, model, arch);
    refuse_unknown(&in, arch);
    read_vocab(&in, model);
done:
    if (in.error.status != LAC_OK && err)
        *err = in.error;
    return in.error.status;
}
