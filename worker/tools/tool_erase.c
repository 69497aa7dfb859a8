/* lacuna-engine erase: a class as a file of its own, in the form of GGUF's `deci` architecture
 * (head and FFN counts of each layer), which other engines read. Main thread. Knows no engine.
 *
 * What the form can say: a layer without attention (0 heads); one whose attention is a single
 * matrix (heads, but 0 KV heads: h + o·norm(h)), which is what a patch of full rank is; a layer
 * without FFN (length 0). What its readers make of it: llama.cpp leaves a layer without FFN at
 * once, so that the result of its attention is lost, and takes the width of a head from layer 0. So
 * an erased FFN beside attention, or in the last layer, is written as a narrow one of zeros, and
 * erased attention in layer 0 as a matrix of zeros: both add nothing, and we drop them when the
 * file is loaded. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "engine_options.h"
#include "model/gguf_write.h"

typedef struct {
    char model[4096], mask[8192], plan[4096], class_name[LAC_NAME_MAX + 1], out[4096];
} erase_options;

#define ROW(...) LAC_TOOL_ROW(erase_options, __VA_ARGS__)
static const lac_option options[] = {
    ROW(model, "model", LAC_OPT_STRING, "FILE", NULL, 0, 0, "GGUF file to start from"),
    ROW(mask, "mask", LAC_OPT_STRING, "UNITS", NULL, 0, 0,
        "leave these out: A7 is the attention, F7 the FFN of layer 7; A25,A7"),
    ROW(plan, "plan", LAC_OPT_STRING, "FILE", NULL, 0, 0,
        "take a class from this plan; its patches must be of full rank and of attention"),
    ROW(class_name, "class", LAC_OPT_STRING, "NAME", NULL, 0, 0, "which class of the plan"),
    ROW(out, "out", LAC_OPT_STRING, "FILE", NULL, 0, 0, "GGUF file to write"),
};

static const lac_tool_spec spec = {
    .name = "erase",
    .synopsis = "--model FILE --mask UNITS | --plan FILE --class NAME  --out FILE",
    .help =
        "Writes a model without the units, smaller by their weights, as GGUF architecture deci.\n"
        "The answers are those of the model with the mask. Of llama and deci models.",
    .options = options,
    .options_count = sizeof options / sizeof options[0],
};

enum { ZERO_FFN = 32 }; /* width of an FFN of zeros */

/* What becomes of the two units of a layer. */
typedef enum { KEPT, GONE, ZEROS, PATCH } fate;

typedef struct {
    const lac_model *model;
    const lac_engine_class *class;
    fate *fates;           /* [2 × layers] */
    lac_gguf_tensor *made; /* [4 × layers] tensors that the model does not have */
    size_t made_count;
    float *ones; /* [hidden] */
} eraser;

static const lac_patch *patch_of(const lac_engine_class *class, uint32_t unit)
{
    for (uint32_t p = 0; p < class->patches_count; p++)
        if (class->patches[p].unit == unit)
            return &class->patches[p];
    return NULL;
}

/* ---- what can be written ---- */

static lac_status class_check(const lac_model *m, const lac_engine_class *class, lac_error *err)
{
    if (strcmp(m->architecture, "llama") != 0 && strcmp(m->architecture, "deci") != 0)
        return lac_fail(err, LAC_EUNSUPPORTED,
                        "a %s model cannot be written as deci, only llama "
                        "and deci can",
                        m->architecture);
    if (lac_mask_count(&class->mask) == 0)
        return lac_fail(err, LAC_EINVAL, "the mask is empty: nothing to erase");
    if (class->scope == LAC_SCOPE_DECODE)
        return lac_fail(err, LAC_EUNSUPPORTED, "class %s has scope decode: a file has no prompts",
                        class->name);
    for (uint32_t p = 0; p < class->patches_count; p++) {
        const lac_patch *patch = &class->patches[p];
        if (patch->unit % 2 == 1 || patch->rank != m->hidden)
            return lac_fail(err, LAC_EUNSUPPORTED,
                            "patch of %c%u has rank %u: the form has a place only for full rank "
                            "(%u) in place of attention",
                            patch->unit % 2 ? 'F' : 'A', patch->unit / 2, patch->rank, m->hidden);
    }
    return LAC_OK;
}

static void fates_find(eraser *e)
{
    const lac_model *m = e->model;
    for (uint32_t l = 0; l < m->layers_count; l++) {
        fate *a = &e->fates[2 * l], *f = a + 1;
        *a = patch_of(e->class, 2 * l)                                         ? PATCH
             : m->layers[l].heads > 0 && !lac_mask_has(&e->class->mask, 2 * l) ? KEPT
             : l == 0                                                          ? ZEROS
                                                                               : GONE;
        *f = m->layers[l].ffn > 0 && !lac_mask_has(&e->class->mask, 2 * l + 1) ? KEPT
             : *a != GONE || l + 1 == m->layers_count                          ? ZEROS
                                                                               : GONE;
    }
}

/* ---- tensors ---- */

static void tensor_make(eraser *e, lac_gguf_writer *writer, uint32_t l, const char *suffix,
                        lac_type type, uint64_t columns, uint64_t rows, const void *data)
{
    char name[64];
    lac_gguf_tensor *t = &e->made[e->made_count++];
    uint64_t elements = columns * (rows ? rows : 1);
    *t = (lac_gguf_tensor){.type = type,
                           .dims_count = rows ? 2 : 1,
                           .dims = {columns, rows ? rows : 1, 1, 1},
                           .elements = elements,
                           .bytes = elements * (type == LAC_TYPE_F32 ? 4 : 2),
                           .data = data};
    snprintf(name, sizeof name, "blk.%u.%s", l, suffix);
    lac_gguf_writer_tensor(writer, name, t, data == NULL);
}

/* A unit that other tensors stand in for. The norm of an FFN of zeros is the model's own where it
 * has one. */
static void unit_make(eraser *e, lac_gguf_writer *writer, uint32_t unit)
{
    uint32_t l = unit / 2, d = e->model->hidden;
    if (unit % 2 == 0) {
        const lac_patch *patch = patch_of(e->class, unit);
        tensor_make(e, writer, l, "attn_norm.weight", LAC_TYPE_F32, d, 0, e->ones);
        tensor_make(e, writer, l, "attn_output.weight", LAC_TYPE_F16, d, d,
                    patch ? patch->up : NULL);
        return;
    }
    tensor_make(e, writer, l, "ffn_norm.weight", LAC_TYPE_F32, d, 0, e->ones);
    tensor_make(e, writer, l, "ffn_gate.weight", LAC_TYPE_F16, d, ZERO_FFN, NULL);
    tensor_make(e, writer, l, "ffn_up.weight", LAC_TYPE_F16, d, ZERO_FFN, NULL);
    tensor_make(e, writer, l, "ffn_down.weight", LAC_TYPE_F16, ZERO_FFN, d, NULL);
}

/* The unit that a tensor belongs to, or UINT32_MAX. */
static uint32_t unit_of(const char *name)
{
    char *end;
    if (strncmp(name, "blk.", 4) != 0)
        return UINT32_MAX;
    unsigned long layer = strtoul(name + 4, &end, 10);
    return 2 * (uint32_t)layer + (strncmp(end, ".ffn_", 5) == 0);
}

static void tensors_add(eraser *e, lac_gguf_writer *writer)
{
    const lac_gguf *gguf = e->model->gguf;
    for (size_t i = 0; i < lac_gguf_tensor_count(gguf); i++) {
        const lac_gguf_tensor *t = lac_gguf_tensor_at(gguf, i);
        uint32_t unit = unit_of(t->name);
        LAC_ASSERT(unit == UINT32_MAX || unit < 2 * e->model->layers_count);
        if (unit == UINT32_MAX || e->fates[unit] == KEPT)
            lac_gguf_writer_tensor(writer, t->name, t, false);
    }
    for (uint32_t u = 0; u < 2 * e->model->layers_count; u++)
        if (e->fates[u] == ZEROS || e->fates[u] == PATCH)
            unit_make(e, writer, u);
}

/* ---- keys ---- */

static lac_status keys_set(const eraser *e, lac_gguf_writer *writer, lac_error *err)
{
    const lac_model *m = e->model;
    uint32_t n = m->layers_count, some_heads = 0;
    char prefix[LAC_NAME_MAX + 2];
    lac_mask zeroed;
    lac_status status = lac_model_claimed_zero(m, &zeroed, err);
    if (status != LAC_OK)
        return status;
    uint32_t *heads = lac_alloc(3 * (size_t)n, sizeof *heads), *kv = heads + n, *ffn = kv + n;
    for (uint32_t l = n; l-- > 0;)
        some_heads = m->layers[l].heads ? m->layers[l].heads : some_heads;
    for (uint32_t l = 0; l < n; l++) {
        fate a = e->fates[2 * l], f = e->fates[2 * l + 1];
        heads[l] = a == KEPT ? m->layers[l].heads : a == GONE ? 0 : some_heads;
        kv[l] = a == KEPT ? m->layers[l].kv_heads : 0;
        ffn[l] = f == KEPT ? m->layers[l].ffn : f == ZEROS ? ZERO_FFN : 0;
    }
    for (uint32_t u = 0; u < 2 * n; u++) {
        uint64_t bit = UINT64_C(1) << u % 64;
        if (e->fates[u] != KEPT)
            zeroed.bits[u / 64] &= ~bit;
        if (e->fates[u] == ZEROS)
            zeroed.bits[u / 64] |= bit;
    }
    snprintf(prefix, sizeof prefix, "%s.", m->architecture);
    lac_gguf_writer_rename(writer, prefix, "deci.");
    lac_gguf_writer_string(writer, "general.architecture", "deci");
    lac_gguf_writer_u32s(writer, "deci.attention.head_count", heads, n);
    lac_gguf_writer_u32s(writer, "deci.attention.head_count_kv", kv, n);
    lac_gguf_writer_u32s(writer, "deci.feed_forward_length", ffn, n);
    lac_gguf_writer_u32(writer, "deci.attention.key_length", m->head_dim);
    lac_gguf_writer_u32(writer, "deci.attention.value_length", m->head_dim);
    lac_gguf_writer_u32(writer, "deci.rope.dimension_count", m->rope_dims);
    lac_buf text = {0};
    lac_mask_text(&zeroed, &text);
    lac_gguf_writer_string(writer, LAC_MODEL_ZERO_KEY, text.data ? text.data : "");
    lac_buf_free(&text);
    free(heads);
    return LAC_OK;
}

static lac_status erase(const lac_model *m, const lac_engine_class *class, const char *path,
                        lac_error *err)
{
    lac_status status = class_check(m, class, err);
    if (status != LAC_OK)
        return status;
    eraser e = {.model = m, .class = class};
    e.fates = lac_alloc(2 * (size_t)m->layers_count, sizeof *e.fates);
    e.made = lac_alloc(6 * (size_t)m->layers_count, sizeof *e.made);
    e.ones = lac_alloc(m->hidden, sizeof *e.ones);
    for (uint32_t i = 0; i < m->hidden; i++)
        e.ones[i] = 1;
    fates_find(&e);
    lac_gguf_writer *writer = lac_gguf_writer_create(m->gguf);
    tensors_add(&e, writer);
    status = keys_set(&e, writer, err);
    if (status == LAC_OK)
        status = lac_gguf_writer_write(writer, path, err);
    lac_gguf_writer_destroy(&writer);
    free(e.fates);
    free(e.made);
    free(e.ones);
    return status;
}

int lac_tool_erase(int argc, char **argv)
{
    erase_options opt;
    int code = lac_tool_options(&spec, argc, argv, &opt);
    if (code >= 0)
        return code;
    if (!opt.model[0] || !opt.out[0] || (!opt.mask[0] && !opt.plan[0]))
        return lac_tool_misuse(&spec, "--model FILE, --out FILE and --mask UNITS or --plan FILE "
                                      "--class NAME are needed");
    lac_error err = {0};
    lac_model *model = NULL;
    lac_plan *plan = NULL;
    lac_engine_class class;
    lac_tool_class_options wanted = {
        .model = opt.model, .mask = opt.mask, .plan = opt.plan, .class_name = opt.class_name};
    lac_status status = lac_tool_class_find(&wanted, &plan, &class, &err);
    if (status == LAC_OK)
        status = lac_model_open(opt.model, &model, &err);
    if (status == LAC_OK)
        status = erase(model, &class, opt.out, &err);
    lac_model_close(&model);
    lac_plan_destroy(&plan);
    return status == LAC_OK ? LAC_TOOL_OK : lac_tool_fail(&spec, &err);
}
