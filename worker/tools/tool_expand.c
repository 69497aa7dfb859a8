/* lacuna-engine expand: a model with more blocks that contribute exactly nothing, the test bed for
 * "erased parts cost nothing". Main thread. Knows no engine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mask.h"
#include "model/gguf_write.h"
#include "model/model.h"
#include "tools.h"

typedef struct {
    char model[4096], out[4096];
    int64_t blocks;
} expand_options;

#define OPTION(field, text, kind, named, start, least, most, line)                                 \
    {                                                                                              \
        .name = text, .type = kind, .offset = offsetof(expand_options, field),                     \
        .size = sizeof(((expand_options *)0)->field), .value = named, .preset = start,             \
        .low = least, .high = most, .help = line                                                   \
    }
static const lac_option options[] = {
    OPTION(model, "model", LAC_OPT_STRING, "FILE", NULL, 0, 0, "GGUF file to start from"),
    OPTION(blocks, "blocks", LAC_OPT_INT, "N", "0", 0, LAC_LAYERS_MAX, "blocks to add"),
    OPTION(out, "out", LAC_OPT_STRING, "FILE", NULL, 0, 0, "GGUF file to write"),
};

static const lac_tool_spec spec = {
    .name = "expand",
    .synopsis = "--model FILE --blocks N --out FILE",
    .help =
        "Writes the model with N more blocks at its end. They are copies of the first ones whose\n"
        "output and down projections (and those biases) are zero, so that the answers stay the\n"
        "same bit for bit.",
    .options = options,
    .options_count = sizeof options / sizeof options[0],
};

/* "blk.L.rest" → L, and where the rest begins; false for other names. */
static bool block_of(const char *name, uint32_t *layer, const char **rest)
{
    if (strncmp(name, "blk.", 4) != 0)
        return false;
    char *end;
    unsigned long value = strtoul(name + 4, &end, 10);
    if (end == name + 4 || *end != '.')
        return false;
    *layer = (uint32_t)value;
    *rest = end + 1;
    return true;
}

static bool is_output(const char *rest)
{
    return strcmp(rest, "attn_output.weight") == 0 || strcmp(rest, "attn_output.bias") == 0 ||
           strcmp(rest, "ffn_down.weight") == 0 || strcmp(rest, "ffn_down_exps.weight") == 0 ||
           strcmp(rest, "ffn_down.bias") == 0;
}

static void add_tensors(lac_gguf_writer *writer, const lac_model *model, uint32_t blocks)
{
    for (size_t i = 0; i < lac_gguf_tensor_count(model->gguf); i++) {
        const lac_gguf_tensor *t = lac_gguf_tensor_at(model->gguf, i);
        lac_gguf_writer_tensor(writer, t->name, t, false);
    }
    for (uint32_t b = 0; b < blocks; b++)
        for (size_t i = 0; i < lac_gguf_tensor_count(model->gguf); i++) {
            const lac_gguf_tensor *t = lac_gguf_tensor_at(model->gguf, i);
            char name[LAC_GGUF_NAME_MAX + 1];
            uint32_t layer;
            const char *rest;
            if (!block_of(t->name, &layer, &rest) || layer != b % model->layers_count)
                continue;
            int length = snprintf(name, sizeof name, "blk.%u.%s", model->layers_count + b, rest);
            LAC_ASSERT(length > 0 && (size_t)length < sizeof name);
            lac_gguf_writer_tensor(writer, name, t, is_output(rest));
        }
}

/* Per-layer arrays grow with the blocks; the count and the promise are written. */
static lac_status set_keys(lac_gguf_writer *writer, const lac_model *model, uint32_t blocks,
                           lac_error *err)
{
    char prefix[LAC_NAME_MAX + 2], key[LAC_NAME_MAX + 32];
    lac_status status = LAC_OK;
    uint32_t layers = model->layers_count;
    snprintf(prefix, sizeof prefix, "%s.", model->architecture);
    for (size_t i = 0; i < lac_gguf_key_count(model->gguf) && status == LAC_OK; i++) {
        lac_gguf_kind kind;
        size_t count;
        const char *name = lac_gguf_key_at(model->gguf, i, &kind);
        if (strncmp(name, prefix, strlen(prefix)) == 0 && kind == LAC_GGUF_ARRAY &&
            lac_gguf_array(model->gguf, name, &kind, &count, err) && count == layers &&
            kind != LAC_GGUF_STRING)
            status = lac_gguf_writer_extend(writer, name, layers + blocks, 0, err);
    }
    snprintf(key, sizeof key, "%s.block_count", model->architecture);
    lac_gguf_writer_u32(writer, key, layers + blocks);
    lac_mask zeroed;
    if (status == LAC_OK)
        status = lac_model_claimed_zero(model, &zeroed, err);
    if (status != LAC_OK)
        return status;
    for (uint32_t l = layers; l < layers + blocks; l++) {
        const lac_layer *like = &model->layers[(l - layers) % layers];
        if (like->heads > 0)
            lac_mask_set(&zeroed, 2 * l);
        if (like->ffn > 0)
            lac_mask_set(&zeroed, 2 * l + 1);
    }
    lac_buf text = {0};
    lac_mask_text(&zeroed, &text);
    lac_gguf_writer_string(writer, LAC_MODEL_ZERO_KEY, text.data ? text.data : "");
    lac_buf_free(&text);
    return LAC_OK;
}

int lac_tool_expand(int argc, char **argv)
{
    expand_options opt;
    int code = lac_tool_options(&spec, argc, argv, &opt);
    if (code >= 0)
        return code;
    if (!opt.model[0] || !opt.out[0] || opt.blocks == 0)
        return lac_tool_misuse(&spec, "--model FILE, --blocks N (at least 1) and --out FILE are "
                                      "needed");
    lac_error err = {0};
    lac_model *model = NULL;
    lac_gguf_writer *writer = NULL;
    uint32_t blocks = (uint32_t)opt.blocks;
    lac_status status = lac_model_open(opt.model, &model, &err);
    if (status == LAC_OK && model->layers_count + blocks > LAC_LAYERS_MAX)
        status = lac_fail(&err, LAC_EINVAL, "--blocks is %u, the model has %u and may have %d",
                          blocks, model->layers_count, LAC_LAYERS_MAX);
    if (status == LAC_OK) {
        writer = lac_gguf_writer_create(model->gguf);
        add_tensors(writer, model, blocks);
        status = set_keys(writer, model, blocks, &err);
    }
    if (status == LAC_OK)
        status = lac_gguf_writer_write(writer, opt.out, &err);
    lac_gguf_writer_destroy(&writer);
    lac_model_close(&model);
    return status == LAC_OK ? LAC_TOOL_OK : lac_tool_fail(&spec, &err);
}
