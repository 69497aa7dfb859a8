/* Opening a model: the architecture's row, its facts, and every tensor bound to its role with the
 * shape and type that the facts ask for. Runs on the opening thread; read-only afterwards. Knows
 * nothing of kernels. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "facts.h"

/* Which tensors of the file found a role: one that did not would silently change the result. */
typedef struct {
    lac_model *model;
    const lac__architecture *arch;
    bool *used; /* [tensor count] */
} binder;

static void mark(binder *b, const lac_gguf_tensor *tensor)
{
    b->used[tensor - lac_gguf_tensor_at(b->model->gguf, 0)] = true;
}

/* `rows` 0: a vector; `count` 0: one matrix, else so many in one tensor. */
static lac_status check_shapes(const lac_gguf_tensor *t, uint64_t columns, uint64_t rows,
                               uint64_t count, lac_error *err)
{
    uint32_t dims = rows ? 2 : 1;
    uint64_t want_rows = rows ? rows : 1;
    if (t->dims[0] != columns || t->dims[1] != want_rows || t->dims[2] != (count ? count : 1) ||
        t->dims[3] != 1) {
        char want[96];
        if (dims == 1)
            snprintf(want, sizeof want, "[%llu]", (unsigned long long)columns);
        else if (count == 0)
            snprintf(want, sizeof want, "[%llu, %llu]", (unsigned long long)columns,
                     (unsigned long long)rows);
        else
            snprintf(want, sizeof want, "[%llu, %llu, %llu]", (unsigned long long)columns,
                     (unsigned long long)rows, (unsigned long long)count);
        return lac_fail(err, LAC_ECORRUPT, "tensor %s: shape [%llu, %llu, %llu, %llu], must be %s",
                        t->name, (unsigned long long)t->dims[0], (unsigned long long)t->dims[1],
                        (unsigned long long)t->dims[2], (unsigned long long)t->dims[3], want);
    }
    if (dims == 1 && t->type != LAC_TYPE_F32)
        return lac_fail(err, LAC_EUNSUPPORTED, "tensor %s: type %s, a vector must be F32", t->name,
                        lac_type_get(t->type)->name);
    return LAC_OK;
}

static lac_status check_shape(const lac_gguf_tensor *t, uint64_t columns, uint64_t rows,
                              lac_error *err)
{
    return check_shapes(t, columns, rows, 0, err);
}

/* Columns, rows and matrices of a role in a layer, as check_shapes() takes them. */
static void role_shape(const lac_model *m, const lac_layer *layer, lac__shape shape,
                       uint64_t *columns, uint64_t *rows, uint64_t *count)
{
    uint64_t q = (uint64_t)layer->heads * m->head_dim, kv = (uint64_t)layer->kv_heads * m->head_dim;
    *rows = *count = 0;
    switch (shape) {
    case LAC__SHAPE_HIDDEN: *columns = m->hidden; break;
    case LAC__SHAPE_HEAD_DIM: *columns = m->head_dim; break;
    case LAC__SHAPE_Q: *columns = m->hidden, *rows = q; break;
    case LAC__SHAPE_KV: *columns = m->hidden, *rows = kv; break;
    case LAC__SHAPE_Q_BIAS: *columns = q; break;
    case LAC__SHAPE_KV_BIAS: *columns = kv; break;
    case LAC__SHAPE_O: *columns = layer->linear ? m->hidden : q, *rows = m->hidden; break;
    case LAC__SHAPE_UP: *columns = m->hidden, *rows = layer->ffn; break;
    case LAC__SHAPE_DOWN: *columns = layer->ffn, *rows = m->hidden; break;
    case LAC__SHAPE_ROUTER: *columns = m->hidden, *rows = layer->experts; break;
    case LAC__SHAPE_UPS: *columns = m->hidden, *rows = layer->ffn, *count = layer->experts; break;
    case LAC__SHAPE_DOWNS: *columns = layer->ffn, *rows = m->hidden, *count = layer->experts; break;
    }
}

static lac_status bind_role(binder *b, uint32_t l, const lac__role *role, lac_error *err)
{
    char name[96];
    lac_layer *layer = &b->model->layers[l];
    snprintf(name, sizeof name, "blk.%u.%s", l, role->suffix);
    const lac_gguf_tensor *t = lac_gguf_tensor_find(b->model->gguf, name);
    if (role->ffn ? layer->ffn == 0 : layer->heads == 0)
        return LAC_OK; /* a tensor of a unit that is not there stays unused too */
    bool needed = (b->arch->needs & role->group) != 0,
         allowed = needed || (b->arch->may & role->group);
    if (layer->linear && !role->ffn)
        needed = allowed = role->offset == offsetof(lac_layer, attn_norm) ||
                           role->offset == offsetof(lac_layer, o);
    if (!t || !allowed) {
        if (needed)
            return lac_fail(err, LAC_ECORRUPT, "tensor %s: missing (layer %u of %u)", name, l,
                            b->model->layers_count);
        return LAC_OK; /* one that is there but not allowed stays unused and is named later */
    }
    uint64_t columns = 0, rows = 0, count = 0;
    role_shape(b->model, layer, role->shape, &columns, &rows, &count);
    lac_status status = check_shapes(t, columns, rows, count, err);
    if (status != LAC_OK)
        return status;
    mark(b, t);
    memcpy((char *)layer + role->offset, &t, sizeof t);
    return LAC_OK;
}

static lac_status bind_layers(binder *b, lac_error *err)
{
    for (uint32_t l = 0; l < b->model->layers_count; l++)
        for (size_t r = 0; r < lac__roles_count; r++) {
            lac_status status = bind_role(b, l, &lac__roles[r], err);
            if (status != LAC_OK)
                return status;
        }
    return LAC_OK;
}

static lac_status find_ends(lac_model *m, lac_error *err)
{
    m->embed = lac_gguf_tensor_find(m->gguf, "token_embd.weight");
    if (!m->embed)
        return lac_fail(err, LAC_ECORRUPT, "tensor token_embd.weight: missing");
    m->out_norm = lac_gguf_tensor_find(m->gguf, "output_norm.weight");
    if (!m->out_norm)
        return lac_fail(err, LAC_ECORRUPT, "tensor output_norm.weight: missing");
    m->head = lac_gguf_tensor_find(m->gguf, "output.weight");
    m->tied = !m->head;
    if (m->tied)
        m->head = m->embed;
    return LAC_OK;
}

static lac_status bind_ends(binder *b, lac_error *err)
{
    lac_model *m = b->model;
    lac_status status = check_shape(m->embed, m->hidden, m->vocab, err);
    if (status == LAC_OK)
        status = check_shape(m->out_norm, m->hidden, 0, err);
    if (status == LAC_OK)
        status = check_shape(m->head, m->hidden, m->vocab, err);
    if (status != LAC_OK)
        return status;
    mark(b, m->embed);
    mark(b, m->out_norm);
    mark(b, m->head);
    return LAC_OK;
}

/* Llama 3's per-frequency divisors; they are used as divisors, so each must be positive. */
static lac_status bind_rope_factors(binder *b, lac_error *err)
{
    lac_model *m = b->model;
    const lac_gguf_tensor *t = lac_gguf_tensor_find(m->gguf, "rope_freqs.weight");
    if (!t || !b->arch->rope_factors)
        return lac__rope_finish(m, err);
    lac_status status = check_shape(t, m->rope_dims / 2, 0, err);
    if (status != LAC_OK)
        return status;
    for (uint64_t i = 0; i < t->elements; i++) {
        float factor;
        memcpy(&factor, (const char *)t->data + i * sizeof factor, sizeof factor);
        if (!isfinite(factor) || factor <= 0)
            return lac_fail(err, LAC_ECORRUPT, "tensor %s: element %llu is %g, must be positive",
                            t->name, (unsigned long long)i, (double)factor);
    }
    m->rope_factors = t;
    mark(b, t);
    return lac__rope_finish(m, err);
}

static lac_status check_unused(const binder *b, lac_error *err)
{
    for (size_t i = 0; i < lac_gguf_tensor_count(b->model->gguf); i++)
        if (!b->used[i])
            return lac_fail(err, LAC_EUNSUPPORTED,
                            "tensor %s: has no role in a %s model of %u layers, and leaving it out "
                            "would change the results",
                            lac_gguf_tensor_at(b->model->gguf, i)->name, b->arch->name,
                            b->model->layers_count);
    return LAC_OK;
}

/* Runs of other characters become one '-'; none at the ends. */
static void make_name(const char *text, size_t length, char out[LAC_MODEL_NAME_MAX + 1])
{
    size_t n = 0;
    for (size_t i = 0; i < length && n < LAC_MODEL_NAME_MAX; i++) {
        unsigned char c = (unsigned char)text[i];
        bool plain = c < 0x80 && (isalnum(c) || c == '.' || c == '_' || c == '-');
        if (plain)
            out[n++] = (char)c;
        else if (n > 0 && out[n - 1] != '-')
            out[n++] = '-';
    }
    while (n > 0 && out[n - 1] == '-')
        n--;
    out[n] = '\0';
}

static void name_model(lac_model *m, const char *file_name)
{
    const char *text;
    size_t length;
    if (lac_gguf_string(m->gguf, "general.name", &text, &length, NULL))
        make_name(text, length, m->name);
    if (m->name[0] == '\0') {
        const char *base = strrchr(file_name, '/');
        base = base ? base + 1 : file_name;
        length = strlen(base);
        if (length > 5 && strcmp(base + length - 5, ".gguf") == 0)
            length -= 5;
        make_name(base, length, m->name);
    }
    if (m->name[0] == '\0')
        make_name("model", 5, m->name);
}

static lac_status find_architecture(lac_model *m, const lac__architecture **out, lac_error *err)
{
    const char *text;
    size_t length;
    lac_error inner = {0};
    if (!lac_gguf_string(m->gguf, "general.architecture", &text, &length, &inner))
        return lac_fail(err, LAC_ECORRUPT, "%s",
                        inner.status != LAC_OK ? inner.text : "key general.architecture: missing");
    const lac__architecture *arch = lac__architecture_find(text, length);
    if (!arch)
        return lac_fail(
            err, LAC_EUNSUPPORTED, "key general.architecture: \"%.*s\" is not one of %s",
            length > LAC_NAME_MAX ? LAC_NAME_MAX : (int)length, text, lac__architecture_names());
    snprintf(m->architecture, sizeof m->architecture, "%s", arch->name);
    *out = arch;
    return LAC_OK;
}

static void free_model(lac_model *m)
{
    free(m->rope_divisors);
    free(m->layers);
    free(m);
}

lac_status lac_model_from_gguf(lac_gguf *gguf, const char *file_name, lac_model **out,
                               lac_error *err)
{
    lac_model *m = lac_alloc(1, sizeof *m);
    binder b = {.model = m};
    m->gguf = gguf;
    b.used = lac_alloc(lac_gguf_tensor_count(gguf) + 1, sizeof *b.used);
    lac_status status = find_architecture(m, &b.arch, err);
    if (status == LAC_OK)
        status = find_ends(m, err);
    if (status == LAC_OK)
        status = lac__facts_read(m, b.arch, err);
    if (status == LAC_OK)
        status = bind_ends(&b, err);
    if (status == LAC_OK)
        status = bind_rope_factors(&b, err);
    if (status == LAC_OK)
        status = bind_layers(&b, err);
    if (status == LAC_OK)
        status = check_unused(&b, err);
    free(b.used);
    if (status != LAC_OK) {
        free_model(m);
        return status;
    }
    for (size_t i = 0; i < lac_gguf_tensor_count(gguf); i++) {
        m->tensor_bytes += lac_gguf_tensor_at(gguf, i)->bytes;
        m->parameters += lac_gguf_tensor_at(gguf, i)->elements;
    }
    name_model(m, file_name);
    *out = m;
    return LAC_OK;
}

lac_status lac_model_open(const char *path, lac_model **out, lac_error *err)
{
    lac_gguf *gguf = NULL;
    lac_error here = {0};
    if (!err)
        err = &here;
    lac_status status = lac_gguf_open(path, &gguf, err);
    if (status != LAC_OK)
        return status;
    status = lac_model_from_gguf(gguf, path, out, err);
    if (status != LAC_OK) {
        lac_gguf_close(&gguf);
        return lac_fail_in(err, "%s", path);
    }
    return LAC_OK;
}

void lac_model_close(lac_model **model)
{
    if (!*model)
        return;
    lac_gguf *gguf = (lac_gguf *)(*model)->gguf;
    free_model(*model);
    lac_gguf_close(&gguf);
    *model = NULL;
}
