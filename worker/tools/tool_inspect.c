/* lacuna-engine inspect: what a model file holds, as a table or JSON. Main thread. Reads metadata
 * and the tensor table; of the weights only what the digest and the units' states need. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "chat/chat.h"
#include "inspect_units.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "tokenizer/tokenizer.h"
#include "tools.h"

typedef struct {
    char model[4096], against[4096];
    double min_sparsity;
    bool json, units, near_zero;
} inspect_options;

static const lac_option options[] = {
    {.name = "model",
     .type = LAC_OPT_STRING,
     .offset = offsetof(inspect_options, model),
     .size = sizeof(((inspect_options *)0)->model),
     .value = "FILE",
     .help = "GGUF file, or the first of a split set"},
    {.name = "json",
     .type = LAC_OPT_BOOL,
     .offset = offsetof(inspect_options, json),
     .help = "print one JSON object instead of a table"},
    {.name = "units",
     .type = LAC_OPT_BOOL,
     .offset = offsetof(inspect_options, units),
     .help = "list every unit, not only those that are not active"},
    {.name = "near-zero",
     .type = LAC_OPT_BOOL,
     .offset = offsetof(inspect_options, near_zero),
     .help = "also report units that are small but not zero; nothing acts on it"},
    {.name = "min-sparsity",
     .type = LAC_OPT_NUMBER,
     .offset = offsetof(inspect_options, min_sparsity),
     .preset = "0",
     .low = 0,
     .high = 1,
     .value = "X",
     .help = "fail when less than this share of the units is zeroed or erased"},
    {.name = "against",
     .type = LAC_OPT_STRING,
     .offset = offsetof(inspect_options, against),
     .size = sizeof(((inspect_options *)0)->against),
     .value = "OLD",
     .help = "show what changed since this file; fail when a unit that was not active is again"},
};

static const lac_tool_spec spec = {
    .name = "inspect",
    .synopsis = "--model FILE [--json] [--min-sparsity X] [--against OLD]",
    .help =
        "Checks a model file and prints its architecture, sizes, tensors by type, tokenizer, chat\n"
        "template family and digest, and which units are provably zero.",
    .options = options,
    .options_count = sizeof options / sizeof options[0],
};

/* Weight types in the order they first appear. */
typedef struct {
    const char *name;
    size_t count;
    uint64_t bytes;
} type_sum;
enum { TYPES_MAX = 16 };

typedef struct {
    const lac_model *model;
    const lac_tokenizer *tokenizer; /* NULL: this build cannot read it, see tokenizer_error */
    lac_error tokenizer_error;
    const char *family;
    bool has_template;
    lac_digest digest;
    type_sum types[TYPES_MAX];
    size_t types_count;
    lac_tool_units units, old; /* old: with --against */
    bool list_units, has_old;
} findings;

static void sum_types(findings *f)
{
    for (size_t i = 0; i < lac_gguf_tensor_count(f->model->gguf); i++) {
        const lac_gguf_tensor *t = lac_gguf_tensor_at(f->model->gguf, i);
        const char *name = lac_type_get(t->type)->name;
        size_t at = 0;
        while (at < f->types_count && strcmp(f->types[at].name, name) != 0)
            at++;
        if (at == TYPES_MAX)
            continue;
        if (at == f->types_count)
            f->types[f->types_count++].name = name;
        f->types[at].count++;
        f->types[at].bytes += t->bytes;
    }
}

static lac_status find_family(findings *f, lac_error *err)
{
    const char *text = "";
    size_t length = 0;
    lac_error inner = {0};
    f->has_template =
        lac_gguf_string(f->model->gguf, "tokenizer.chat_template", &text, &length, &inner);
    if (inner.status != LAC_OK)
        return lac_fail(err, inner.status, "%s", inner.text);
    const lac_chat_family *family = lac_chat_detect(text, length);
    f->family = family ? lac_chat_name(family) : NULL;
    return LAC_OK;
}

static const char *scaling_name(const lac_model *m)
{
    if (m->rope_factors)
        return "llama3";
    return m->rope_scaling == LAC_ROPE_SCALING_LINEAR ? "linear"
           : m->rope_scaling == LAC_ROPE_SCALING_YARN ? "yarn"
                                                      : "none";
}

/* Layers that see everything, and those that see only a window, turn differently: the first of
 * each, or NULL. */
static const lac_layer *first_layer(const lac_model *m, bool window, uint32_t *count)
{
    const lac_layer *first = NULL;
    *count = 0;
    for (uint32_t l = 0; l < m->layers_count; l++)
        if (m->layers[l].heads > 0 && (m->layers[l].window > 0) == window) {
            first = first ? first : &m->layers[l];
            ++*count;
        }
    return first;
}

static void rope_json(const lac_model *m, lac_buf *out)
{
    uint32_t wide_count, near_count;
    const lac_layer *wide = first_layer(m, false, &wide_count);
    const lac_layer *near = first_layer(m, true, &near_count);
    lac_buf_printf(out, ",\"rope\":{\"base\":%.9g,\"dims\":%u,\"style\":\"%s\",\"scaling\":\"%s\"",
                   (double)(wide ? wide : near)->rope_base, m->rope_dims,
                   m->rope_style == LAC_MODEL_ROPE_PAIRS ? "pairs" : "halves", scaling_name(m));
    lac_buf_printf(out, ",\"factor\":%.9g,\"original_context\":%u,\"magnitude\":%.9g}",
                   (double)m->rope_scaling_factor, m->rope_original_context,
                   (double)(wide ? wide : near)->rope_magnitude);
    if (near)
        lac_buf_printf(out, ",\"window\":{\"tokens\":%u,\"layers\":%u,\"rope_base\":%.9g}",
                       near->window, near_count, (double)near->rope_base);
    else
        lac_buf_text(out, ",\"window\":null");
}

static void rope_print(const lac_model *m, lac_buf *out)
{
    uint32_t wide_count, near_count;
    const lac_layer *wide = first_layer(m, false, &wide_count);
    const lac_layer *near = first_layer(m, true, &near_count);
    lac_buf_printf(out, "rope          base %g, %u dimensions, %s, scaling %s",
                   (double)(wide ? wide : near)->rope_base, m->rope_dims,
                   m->rope_style == LAC_MODEL_ROPE_PAIRS ? "pairs" : "halves", scaling_name(m));
    if (m->rope_scaling != LAC_ROPE_SCALING_NONE)
        lac_buf_printf(out, " by %g over %u", (double)m->rope_scaling_factor,
                       m->rope_original_context);
    lac_buf_text(out, "\n");
    if (near)
        lac_buf_printf(out, "windows       %u tokens in %u layers, rope base %g there\n",
                       near->window, near_count, (double)near->rope_base);
}

static void json_text(lac_buf *out, const char *key, const char *text)
{
    lac_buf_printf(out, "\"%s\":", key);
    if (text)
        lac_buf_json(out, text, strlen(text));
    else
        lac_buf_text(out, "null");
}

static void json_id(lac_buf *out, const char *key, uint32_t id)
{
    if (id == LAC_TOKEN_NONE)
        lac_buf_printf(out, ",\"%s\":null", key);
    else
        lac_buf_printf(out, ",\"%s\":%u", key, id);
}

static void json_tokenizer(const findings *f, lac_buf *out)
{
    const lac_tokenizer *t = f->tokenizer;
    lac_buf_text(out, ",\"tokenizer\":");
    if (!t) {
        lac_buf_text(out, "null,");
        json_text(out, "tokenizer_error", f->tokenizer_error.text);
        return;
    }
    lac_buf_text(out, "{");
    json_text(out, "name", lac_tokenizer_name(t));
    lac_buf_printf(out, ",\"size\":%u", lac_tokenizer_size(t));
    json_id(out, "bos", lac_tokenizer_bos(t));
    json_id(out, "eos", lac_tokenizer_eos(t));
    lac_buf_printf(out, ",\"add_bos\":%s}", lac_tokenizer_add_bos(t) ? "true" : "false");
}

static void print_json(const findings *f, lac_buf *out)
{
    const lac_model *m = f->model;
    char hex[2 * sizeof f->digest.bytes + 1];
    lac_hex(f->digest.bytes, sizeof f->digest.bytes, hex);
    lac_buf_text(out, "{");
    json_text(out, "name", m->name);
    lac_buf_text(out, ",");
    json_text(out, "architecture", m->architecture);
    lac_buf_printf(out,
                   ",\"layers\":%u,\"units\":%u,\"hidden\":%u,\"heads\":%u,\"kv_heads\":%u,"
                   "\"head_dim\":%u,\"ffn\":%u,\"vocab\":%u,\"context\":%u,\"tied\":%s",
                   m->layers_count, 2 * m->layers_count, m->hidden, m->layers[0].heads,
                   m->layers[0].kv_heads, m->head_dim, m->layers[0].ffn, m->vocab, m->context,
                   m->tied ? "true" : "false");
    lac_buf_printf(out, ",\"experts\":%u,\"experts_used\":%u", m->layers[0].experts,
                   m->layers[0].experts_used);
    rope_json(m, out);
    lac_buf_printf(out, ",\"parameters\":%llu,\"bytes\":%llu,\"tensor_bytes\":%llu,\"tensors\":{",
                   (unsigned long long)m->parameters,
                   (unsigned long long)lac_gguf_file_bytes(m->gguf),
                   (unsigned long long)m->tensor_bytes);
    for (size_t i = 0; i < f->types_count; i++)
        lac_buf_printf(out, "%s\"%s\":{\"count\":%zu,\"bytes\":%llu}", i ? "," : "",
                       f->types[i].name, f->types[i].count, (unsigned long long)f->types[i].bytes);
    lac_buf_text(out, "}");
    json_tokenizer(f, out);
    lac_buf_text(out, ",");
    json_text(out, "template_family", f->family);
    lac_buf_text(out, ",");
    json_text(out, "digest", hex);
    lac_buf_text(out, ",");
    json_text(out, "isa", lac_isa_name(lac_cpu_isa_best()));
    lac_buf_text(out, ",");
    lac_tool_units_json(&f->units, f->has_old ? &f->old : NULL, out);
    lac_buf_text(out, "}\n");
}

static void print_table(const findings *f, lac_buf *out)
{
    const lac_model *m = f->model;
    char hex[2 * sizeof f->digest.bytes + 1];
    lac_hex(f->digest.bytes, sizeof f->digest.bytes, hex);
    lac_buf_printf(out, "name          %s\n", m->name);
    lac_buf_printf(out, "architecture  %s\n", m->architecture);
    lac_buf_printf(out, "layers        %u (%u units)\n", m->layers_count, 2 * m->layers_count);
    lac_buf_printf(out, "hidden        %u\n", m->hidden);
    lac_buf_printf(out, "heads         %u of %u, %u for keys and values\n", m->layers[0].heads,
                   m->head_dim, m->layers[0].kv_heads);
    lac_buf_printf(out, "ffn           %u", m->layers[0].ffn);
    if (m->layers[0].experts)
        lac_buf_printf(out, ", %u experts of which a token runs %u", m->layers[0].experts,
                       m->layers[0].experts_used);
    lac_buf_text(out, "\n");
    lac_buf_printf(out, "vocabulary    %u (%s head)\n", m->vocab, m->tied ? "tied" : "own");
    lac_buf_printf(out, "context       %u\n", m->context);
    rope_print(m, out);
    lac_buf_printf(out, "parameters    %llu\n", (unsigned long long)m->parameters);
    lac_buf_printf(out, "bytes         %llu (%llu in tensors)\n",
                   (unsigned long long)lac_gguf_file_bytes(m->gguf),
                   (unsigned long long)m->tensor_bytes);
    for (size_t i = 0; i < f->types_count; i++)
        lac_buf_printf(out, "%s%-6s %6zu tensors %14llu bytes\n",
                       i ? "              " : "tensors       ", f->types[i].name, f->types[i].count,
                       (unsigned long long)f->types[i].bytes);
    if (f->tokenizer)
        lac_buf_printf(out, "tokenizer     %s, %u tokens\n", lac_tokenizer_name(f->tokenizer),
                       lac_tokenizer_size(f->tokenizer));
    else
        lac_buf_printf(out, "tokenizer     not usable: %s\n", f->tokenizer_error.text);
    lac_buf_printf(out, "template      %s\n",
                   f->family         ? f->family
                   : f->has_template ? "of no known family"
                                     : "none");
    lac_buf_printf(out, "digest        %s\n", hex);
    lac_buf_printf(out, "kernels       %s on this machine\n", lac_isa_name(lac_cpu_isa_best()));
    lac_tool_units_table(&f->units, f->has_old ? &f->old : NULL, f->list_units, out);
}

static lac_status units_read(const inspect_options *opt, findings *f, lac_error *err)
{
    f->list_units = opt->units;
    lac_status status = lac_tool_units_read(f->model, opt->near_zero, &f->units, err);
    if (status == LAC_OK)
        status = lac_tool_units_gate(&f->units, opt->min_sparsity, err);
    if (status != LAC_OK || !opt->against[0])
        return status;
    lac_model *old = NULL;
    status = lac_model_open(opt->against, &old, err);
    if (status == LAC_OK)
        status = lac_tool_units_read(old, false, &f->old, err);
    lac_model_close(&old);
    f->has_old = status == LAC_OK;
    return f->has_old ? lac_tool_units_against(&f->units, &f->old, opt->against, err) : status;
}

int lac_tool_inspect(int argc, char **argv)
{
    inspect_options opt;
    int code = lac_tool_options(&spec, argc, argv, &opt);
    if (code >= 0)
        return code;
    if (!opt.model[0])
        return lac_tool_misuse(&spec, "--model FILE is needed");
    lac_error err = {0};
    lac_model *model = NULL;
    lac_tokenizer *tokenizer = NULL;
    findings f = {0};
    lac_buf out = {0};
    lac_status status = lac_model_open(opt.model, &model, &err);
    if (status != LAC_OK)
        return lac_tool_fail(&spec, &err);
    f.model = model;
    if (lac_tokenizer_create(model->gguf, &tokenizer, &f.tokenizer_error) == LAC_OK)
        f.tokenizer = tokenizer;
    status = find_family(&f, &err);
    if (status == LAC_OK)
        status = units_read(&opt, &f, &err);
    if (status == LAC_OK) {
        sum_types(&f);
        lac_model_digest(model, &f.digest);
        if (opt.json)
            print_json(&f, &out);
        else
            print_table(&f, &out);
        status = lac_tool_print(&out, &err);
    }
    lac_buf_free(&out);
    lac_tool_units_free(&f.units);
    lac_tool_units_free(&f.old);
    lac_tokenizer_destroy(&tokenizer);
    lac_model_close(&model);
    return status == LAC_OK ? LAC_TOOL_OK : lac_tool_fail(&spec, &err);
}
