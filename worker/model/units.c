/* Reads what decides a unit's state: which of its tensors are all zero, and the record that stays
 * of one whose weights are not loaded. Any thread, over an open model. Reads bytes only; the rule
 * that judges them is elsewhere. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/digest.h"
#include "facts.h"

enum { END_BYTES = 4096 };

static float half_value(const uint8_t *bytes)
{
    unsigned bits = bytes[0] | (unsigned)bytes[1] << 8, exponent = bits >> 10 & 31,
             mantissa = bits & 1023;
    if (exponent == 31)
        return INFINITY; /* or not a number: no bound either */
    return exponent ? ldexpf((float)(mantissa | 1024), (int)exponent - 25)
                    : ldexpf((float)mantissa, -24);
}

static float bfloat_value(const uint8_t *bytes)
{
    uint32_t bits = ((uint32_t)bytes[0] << 16 | (uint32_t)bytes[1] << 24) & 0x7fffffffu;
    float value;
    memcpy(&value, &bits, sizeof value);
    return isfinite(value) ? value : INFINITY;
}

static float single_value(const uint8_t *bytes)
{
    float value;
    memcpy(&value, bytes, sizeof value);
    return isfinite(value) ? fabsf(value) : INFINITY;
}

/* Quantised blocks: where their one or two half-precision scales lie and by how much the integers
 * they stand for can multiply them (formats: GGUF specification, "ggml types"). */
typedef struct {
    lac_type type;
    uint32_t at[2];
    float times[2]; /* 0 = no second scale */
} block_scales;

static const block_scales scales[] = {
    {LAC_TYPE_Q4_0, {0, 0}, {8, 0}},        {LAC_TYPE_Q4_1, {0, 2}, {15, 1}},
    {LAC_TYPE_Q5_0, {0, 0}, {16, 0}},       {LAC_TYPE_Q5_1, {0, 2}, {31, 1}},
    {LAC_TYPE_Q8_0, {0, 0}, {128, 0}},      {LAC_TYPE_Q4_K, {0, 2}, {63 * 15, 63}},
    {LAC_TYPE_Q5_K, {0, 2}, {63 * 31, 63}}, {LAC_TYPE_Q6_K, {208, 0}, {128 * 32, 0}},
};

static float block_bound(lac_type type, const block_scales *s, const uint8_t *block)
{
    if (type == LAC_TYPE_F32)
        return single_value(block);
    if (type == LAC_TYPE_F16)
        return half_value(block);
    if (type == LAC_TYPE_BF16)
        return bfloat_value(block);
    float bound = half_value(block + s->at[0]) * s->times[0];
    return s->times[1] > 0 ? bound + half_value(block + s->at[1]) * s->times[1] : bound;
}

double lac_gguf_tensor_bound(const lac_gguf_tensor *tensor, double enough)
{
    const lac_type_info *info = lac_type_get(tensor->type);
    const uint8_t *at = tensor->data;
    const block_scales *s = NULL;
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++)
        if (scales[i].type == tensor->type)
            s = &scales[i];
    LAC_ASSERT(s || info->block == 1);
    float most = 0;
    for (uint64_t i = 0; i < tensor->elements / info->block; i++, at += info->block_bytes) {
        float bound = block_bound(tensor->type, s, at);
        most = bound > most ? bound : most;
        if ((double)most > enough)
            break;
    }
    return (double)most;
}

static lac_zero_fact fact_of(const lac_gguf_tensor *tensor)
{
    return (lac_zero_fact){.there = tensor != NULL,
                           .zero = tensor && lac_gguf_tensor_bound(tensor, 0) == 0};
}

/* Tensors of one unit in the order of the roles; NULL past the last. */
static const lac_gguf_tensor *unit_tensor(const lac_model *model, uint32_t unit, size_t *role)
{
    const lac_layer *layer = &model->layers[unit / 2];
    while (*role < lac__roles_count) {
        const lac__role *r = &lac__roles[(*role)++];
        const lac_gguf_tensor *tensor;
        memcpy(&tensor, (const char *)layer + r->offset, sizeof tensor);
        if (tensor && r->ffn == (unit % 2 == 1))
            return tensor;
    }
    return NULL;
}

uint64_t lac_model_unit_bytes(const lac_model *model, uint32_t unit)
{
    uint64_t bytes = 0;
    size_t role = 0;
    for (const lac_gguf_tensor *t; (t = unit_tensor(model, unit, &role));)
        bytes += t->bytes;
    return bytes;
}

void lac_model_unit_release(const lac_model *model, uint32_t unit)
{
    size_t role = 0;
    for (const lac_gguf_tensor *t; (t = unit_tensor(model, unit, &role));)
        lac_gguf_release(model->gguf, t);
}

void lac_model_unit_facts(const lac_model *model, uint32_t unit, lac_unit_facts *out)
{
    LAC_ASSERT(unit < 2 * model->layers_count);
    const lac_layer *layer = &model->layers[unit / 2];
    *out = (lac_unit_facts){0};
    if (unit % 2 == 1) {
        out->present = layer->ffn > 0;
        out->pre_norm = fact_of(layer->ffn_norm);
        out->post_norm = fact_of(layer->ffn_post_norm);
        /* Of experts: all of them, since any may be picked. */
        out->output = fact_of(layer->experts ? layer->down_experts : layer->down);
        out->output_bias = fact_of(layer->down_bias);
        return;
    }
    out->present = layer->heads > 0;
    out->pre_norm = fact_of(layer->attn_norm);
    out->post_norm = fact_of(layer->attn_post_norm);
    out->output = fact_of(layer->o);
    out->output_bias = fact_of(layer->o_bias);
    out->inner_bias[0] = fact_of(layer->q_bias);
    out->inner_bias[1] = fact_of(layer->k_bias);
    out->inner_bias[2] = fact_of(layer->v_bias);
}

double lac_model_unit_bound(const lac_model *model, uint32_t unit)
{
    const lac_layer *layer = &model->layers[unit / 2];
    const lac_gguf_tensor *down = layer->experts ? layer->down_experts : layer->down;
    const lac_gguf_tensor *output = unit % 2 ? down : layer->o;
    return output ? lac_gguf_tensor_bound(output, INFINITY) : 0;
}

lac_unit_record lac_model_unit_record(const lac_model *model, uint32_t unit)
{
    lac_unit_record record = {.offset = 0};
    uint64_t bytes = 0;
    size_t role = 0;
    lac_hasher *hasher = lac_hasher_create();
    for (const lac_gguf_tensor *t; (t = unit_tensor(model, unit, &role));) {
        if (bytes == 0)
            record.offset = t->offset;
        bytes += t->bytes;
        uint64_t end = t->bytes < END_BYTES ? t->bytes : END_BYTES;
        uint32_t type = t->type;
        lac_hasher_add(hasher, t->name, strlen(t->name) + 1);
        lac_hasher_add(hasher, &type, sizeof type);
        lac_hasher_add(hasher, t->dims, sizeof t->dims);
        lac_hasher_add(hasher, t->data, end);
        lac_hasher_add(hasher, (const uint8_t *)t->data + t->bytes - end, end);
    }
    lac_digest digest;
    lac_hasher_finish(&hasher, &digest);
    memcpy(&record.hash, digest.bytes, sizeof record.hash);
    record.words = bytes / 8 < UINT32_MAX ? (uint32_t)((bytes + 7) / 8) : UINT32_MAX;
    return record;
}

lac_status lac_model_claimed_zero(const lac_model *model, lac_mask *out, lac_error *err)
{
    const char *text;
    size_t length;
    lac_error inner = {0};
    lac_mask mask = {0};
    if (lac_gguf_string(model->gguf, LAC_MODEL_ZERO_KEY, &text, &length, &inner)) {
        char *copy = lac_strndup(text, length);
        lac_mask_parse(copy, model->layers_count, &mask, &inner);
        free(copy);
    }
    if (inner.status != LAC_OK)
        return lac_fail(err, LAC_ECORRUPT, "key " LAC_MODEL_ZERO_KEY ": %s", inner.text);
    *out = mask;
    return LAC_OK;
}
