/* How positions turn queries and keys: base, scaling of long contexts, divisors of the frequencies.
 * Runs on the opening thread. Knows no kernel: it ends in a base, a position multiplier, a table of
 * divisors and a magnitude, from which any RoPE follows.
 *
 *   linear  (Chen et al. 2023): position / factor
 *   Llama 3: a tensor of divisors, one a frequency
 *   YaRN    (Peng et al. 2023): a frequency f that turns more than beta_fast times in the original
 *           context stays, one below beta_slow becomes f / factor, between them a ramp over the
 *           frequency's index; queries and keys grow by 1 + 0.1·ln(factor), times a factor of the
 *           file's. Bounds and ramp as llama.cpp and the paper's code have them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "facts.h"

static bool is(const char *text, size_t length, const char *word)
{
    return length == strlen(word) && memcmp(text, word, length) == 0;
}

/* A factor without a type is a linear one: older files say no more. */
static void read_scaling(lac__keys *in, lac_model *model)
{
    double factor = 1.0;
    size_t length = 0;
    const char *type = lac__key_text(in, "rope.scaling.type", &length);
    bool scaled = lac__key_f64(in, "rope.scaling.factor", 1e-3, 1e6, &factor) ||
                  lac__key_f64(in, "rope.scale_linear", 1e-3, 1e6, &factor);
    if (in->error.status != LAC_OK)
        return;
    if (type ? is(type, length, "none") : !scaled || factor == 1.0)
        model->rope_scaling = LAC_ROPE_SCALING_NONE;
    else if (!type || is(type, length, "linear"))
        model->rope_scaling = LAC_ROPE_SCALING_LINEAR;
    else if (is(type, length, "yarn"))
        model->rope_scaling = LAC_ROPE_SCALING_YARN;
    else
        lac_fail(&in->error, LAC_EUNSUPPORTED,
                 "key %s.rope.scaling.type: \"%.*s\" is not supported (none, linear, yarn are)",
                 in->arch, length > 32 ? 32 : (int)length, type);
    if (model->rope_scaling == LAC_ROPE_SCALING_YARN && !scaled)
        lac__key_missing(in, "rope.scaling.factor");
    model->rope_scaling_factor =
        model->rope_scaling == LAC_ROPE_SCALING_NONE ? 1.0f : (float)factor;
}

static void read_yarn(lac__keys *in, lac_model *model)
{
    double attention = 1, more = 1, fast = 32, slow = 1, mix = 1;
    lac__key_f64(in, "rope.scaling.attn_factor", 1e-3, 1e3, &attention);
    lac__key_f64(in, "rope.scaling.yarn_attn_factor", 1e-3, 1e3, &more);
    lac__key_f64(in, "rope.scaling.yarn_beta_fast", 1e-3, 1e6, &fast);
    lac__key_f64(in, "rope.scaling.yarn_beta_slow", 1e-3, 1e6, &slow);
    lac__key_f64(in, "rope.scaling.yarn_ext_factor", 0, 1, &mix);
    if (in->error.status == LAC_OK && slow > fast)
        lac_fail(&in->error, LAC_ECORRUPT,
                 "key %s.rope.scaling.yarn_beta_slow: %g, must be at most yarn_beta_fast %g",
                 in->arch, slow, fast);
    if (model->rope_scaling != LAC_ROPE_SCALING_YARN)
        return;
    model->yarn = (lac_yarn){.beta_fast = (float)fast, .beta_slow = (float)slow, .mix = (float)mix};
    double grown = mix > 0 ? 1 + 0.1 * log(model->rope_scaling_factor) : 1;
    for (uint32_t l = 0; l < model->layers_count; l++)
        model->layers[l].rope_magnitude = (float)(attention * more * grown);
}

void lac__rope_read(lac__keys *in, lac_model *model)
{
    double base = 10000.0;
    uint64_t original = model->context;
    lac__key_f64(in, "rope.freq_base", 1.0, 1e12, &base);
    lac__key_u64(in, "rope.scaling.original_context_length", 1, LAC_CONTEXT_MAX, &original);
    read_scaling(in, model);
    if (in->error.status != LAC_OK)
        return;
    bool linear = model->rope_scaling == LAC_ROPE_SCALING_LINEAR;
    model->rope_original_context = (uint32_t)original;
    for (uint32_t l = 0; l < model->layers_count; l++) {
        model->layers[l].rope_base = (float)base;
        model->layers[l].rope_scale = linear ? 1.0f / model->rope_scaling_factor : 1.0f;
        model->layers[l].rope_magnitude = 1.0f;
    }
    read_yarn(in, model);
}

/* Index of the frequency that turns `turns` times in the original context: base^(−2i/dims) is
 * 2π·turns / context there. */
static double index_of(const lac_model *model, double base, double turns)
{
    double wave = 2 * acos(-1.0) * turns;
    return model->rope_dims * log(model->rope_original_context / wave) / (2 * log(base));
}

static void divide_yarn(const lac_model *model, float base, float *divisors)
{
    double low = floor(index_of(model, base, model->yarn.beta_fast));
    double high = ceil(index_of(model, base, model->yarn.beta_slow));
    low = fmax(low, 0);
    high = fmin(high, model->rope_dims - 1);
    for (uint32_t i = 0; i < model->rope_dims / 2; i++) {
        double ramp = (i - low) / fmax(0.001, high - low);
        double stays = (1 - fmin(1, fmax(0, ramp))) * model->yarn.mix;
        divisors[i] /= (float)(stays + (1 - stays) / model->rope_scaling_factor);
    }
}

lac_status lac__rope_finish(lac_model *model, lac_error *err)
{
    uint32_t half = model->rope_dims / 2;
    bool yarn = model->rope_scaling == LAC_ROPE_SCALING_YARN;
    float base = 0;
    for (uint32_t l = 0; l < model->layers_count; l++)
        if (model->layers[l].window == 0)
            base = model->layers[l].rope_base;
    if (yarn && base <= 1)
        return lac_fail(err, LAC_ECORRUPT, "key %s.rope.freq_base: %g, YaRN needs more than 1",
                        model->architecture, (double)base);
    if (!yarn && !model->rope_factors)
        return LAC_OK;
    model->rope_divisors = lac_alloc(half, sizeof *model->rope_divisors);
    for (uint32_t i = 0; i < half; i++)
        model->rope_divisors[i] = 1.0f;
    if (model->rope_factors)
        memcpy(model->rope_divisors, model->rope_factors->data, half * sizeof(float));
    if (yarn)
        divide_yarn(model, base, model->rope_divisors);
    /* Layers with a window keep turning as they were trained. */
    for (uint32_t l = 0; l < model->layers_count; l++)
        if (model->layers[l].window == 0)
            model->layers[l].rope_divisors = model->rope_divisors;
    return LAC_OK;
}
