/* From model facts to operations: the only place that knows both. Runs at load, on the engine's
 * thread. Must not know sequences, sampling or the scheduler. */
#include "program.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

enum {
    WEIGHTS_A_LAYER = 18, /* most tensors one layer can have */
    OPS_A_LAYER = 5,      /* QKV, attention, project; gate-up, project */
};

/* ---- KV layout ---- */

/* True when unit 2l, or 2l+1, exists and some class runs it. */
static bool attention_runs(const lac_model *model, const lac_mask *dropped, uint32_t l)
{
    return model->layers[l].heads > 0 && !lac_mask_has(dropped, 2 * l);
}

static bool ffn_runs(const lac_model *model, const lac_mask *dropped, uint32_t l)
{
    return model->layers[l].ffn > 0 && !lac_mask_has(dropped, 2 * l + 1);
}

lac_status lac__kv_layout_create(const lac_model *model, const lac_mask *dropped,
                                 const lac_backend_ops *table, const lac_backend *backend,
                                 lac__kv_layout *out, lac_error *err)
{
    lac__kv_layout layout = {0};
    layout.size_of = lac_alloc(model->layers_count, sizeof(uint32_t));
    layout.unit_of = lac_alloc(model->layers_count, sizeof(uint32_t));
    for (uint32_t l = 0; l < model->layers_count; l++) {
        const lac_layer *layer = &model->layers[l];
        if (!attention_runs(model, dropped, l))
            continue;
        size_t bytes = table->kv_page_bytes(backend, layer->kv_heads, model->head_dim);
        uint32_t size = 0;
        while (size < layout.sizes_count && layout.page_bytes[size] != bytes)
            size++;
        if (size == LAC_KV_SIZES_MAX) {
            lac__kv_layout_destroy(&layout);
            return lac_fail(err, LAC_EUNSUPPORTED,
                            "layer %u has a KV page size of its own: more "
                            "than %d sizes in one model",
                            l, LAC_KV_SIZES_MAX);
        }
        if (size == layout.sizes_count)
            layout.page_bytes[layout.sizes_count++] = bytes;
        layout.units_of[size]++;
        layout.unit_of[layout.units_count] = 2 * l;
        layout.size_of[layout.units_count++] = size;
    }
    *out = layout;
    return LAC_OK;
}

void lac__kv_layout_destroy(lac__kv_layout *layout)
{
    free(layout->size_of);
    free(layout->unit_of);
    *layout = (lac__kv_layout){0};
}

static lac_rope rope_of(const lac_model *model, uint32_t l)
{
    const lac_layer *layer = &model->layers[l];
    lac_rope rope = {.style = model->rope_style == LAC_MODEL_ROPE_PAIRS ? LAC_ROPE_PAIRS
                                                                        : LAC_ROPE_HALVES,
                     .dims = model->rope_dims,
                     .base = layer->rope_base,
                     .scale = layer->rope_scale,
                     .factors = layer->rope_divisors,
                     .magnitude = layer->rope_magnitude};
    if (model->rope_dims == 0)
        rope.style = LAC_ROPE_NONE;
    return rope;
}

/* ---- weights and operations ---- */

/* What building needs at hand. The first failure sticks: later packs do nothing. */
typedef struct {
    const lac_model *model;
    const lac_mask *dropped;
    const lac_backend_ops *table;
    lac_backend *backend;
    const lac__kv_layout *layout;
    const lac__patch_list *lists;
    uint32_t lists_count;
    lac__program *program;
    void (*progress)(void *arg, uint64_t done, uint64_t total);
    void *progress_arg;
    uint64_t done, total; /* tensor bytes */
    lac_status status;
    lac_error *err;
} builder;

/* Packs a tensor, or gives NULL for one the model does not have. */
static const lac_weight *packed(builder *b, const lac_gguf_tensor *tensor)
{
    if (!tensor || b->status != LAC_OK)
        return NULL;
    LAC_ASSERT(tensor->dims[0] <= UINT32_MAX && tensor->dims[1] <= UINT32_MAX);
    lac_weight *weight = NULL;
    b->status = b->table->weight_pack(b->backend, tensor->type, (uint32_t)tensor->dims[1],
                                      (uint32_t)tensor->dims[0], tensor->data, &weight, b->err);
    if (b->status != LAC_OK) {
        lac_fail_in(b->err, "tensor %s", tensor->name);
        return NULL;
    }
    lac_gguf_release(b->model->gguf, tensor);
    b->program->weights[b->program->weights_count++] = weight;
    b->program->weight_bytes += b->table->weight_bytes(weight);
    b->done += tensor->bytes;
    if (b->progress)
        b->progress(b->progress_arg, b->done, b->total);
    return weight;
}

static lac_op *op_add(builder *b, lac_op_kind kind, uint32_t unit)
{
    lac_op *op = &b->program->ops[b->program->count++];
    op->kind = kind;
    op->unit = unit;
    return op;
}

static void attention_add(builder *b, uint32_t l, uint32_t table_row)
{
    const lac_model *model = b->model;
    const lac_layer *layer = &model->layers[l];
    uint32_t size = b->layout->size_of[table_row];
    lac_kv_view kv = {.region = b->layout->regions[size],
                      .page_bytes = b->layout->page_bytes[size],
                      .table = table_row};

    lac_op *op = op_add(b, LAC_OP_QKV, 2 * l);
    op->u.qkv.norm = packed(b, layer->attn_norm);
    op->u.qkv.eps = model->norm_eps;
    op->u.qkv.q = packed(b, layer->q);
    op->u.qkv.k = packed(b, layer->k);
    op->u.qkv.v = packed(b, layer->v);
    op->u.qkv.q_bias = packed(b, layer->q_bias);
    op->u.qkv.k_bias = packed(b, layer->k_bias);
    op->u.qkv.v_bias = packed(b, layer->v_bias);
    op->u.qkv.q_norm = packed(b, layer->q_norm);
    op->u.qkv.k_norm = packed(b, layer->k_norm);
    op->u.qkv.heads = layer->heads;
    op->u.qkv.kv_heads = layer->kv_heads;
    op->u.qkv.head_dim = model->head_dim;
    op->u.qkv.rope = rope_of(model, l);
    op->u.qkv.kv = kv;

    op = op_add(b, LAC_OP_ATTENTION, 2 * l);
    op->u.attention.heads = layer->heads;
    op->u.attention.kv_heads = layer->kv_heads;
    op->u.attention.head_dim = model->head_dim;
    op->u.attention.scale = model->attention_scale;
    op->u.attention.softcap = model->attention_softcap;
    op->u.attention.window = layer->window;
    op->u.attention.kv = kv;

    op = op_add(b, LAC_OP_PROJECT, 2 * l);
    op->u.project.weight = packed(b, layer->o);
    op->u.project.bias = packed(b, layer->o_bias);
    op->u.project.post_norm = packed(b, layer->attn_post_norm);
    op->u.project.eps = model->norm_eps;
}

static void ffn_add(builder *b, uint32_t l)
{
    const lac_model *model = b->model;
    const lac_layer *layer = &model->layers[l];
    lac_op *op = op_add(b, LAC_OP_GATE_UP, 2 * l + 1);
    op->u.gate_up.norm = packed(b, layer->ffn_norm);
    op->u.gate_up.eps = model->norm_eps;
    op->u.gate_up.gate = packed(b, layer->gate);
    op->u.gate_up.up = packed(b, layer->up);
    op->u.gate_up.act = model->activation == LAC_ACTIVATION_SILU ? LAC_ACT_SILU : LAC_ACT_GELU_TANH;

    op = op_add(b, LAC_OP_PROJECT, 2 * l + 1);
    op->u.project.weight = packed(b, layer->down);
    op->u.project.bias = packed(b, layer->down_bias);
    op->u.project.post_norm = packed(b, layer->ffn_post_norm);
    op->u.project.eps = model->norm_eps;
}

static const lac_weight *patch_packed(builder *b, uint32_t rows, uint32_t cols,
                                      const uint16_t *data)
{
    lac_weight *weight = NULL;
    if (!data || b->status != LAC_OK)
        return NULL;
    b->status = b->table->weight_pack(b->backend, LAC_TYPE_F16, rows, cols, data, &weight, b->err);
    if (b->status != LAC_OK)
        return NULL;
    b->program->weights[b->program->weights_count++] = weight;
    b->program->weight_bytes += b->table->weight_bytes(weight);
    return weight;
}

static bool patch_same(const lac_patch *a, const lac_patch *b, size_t bytes)
{
    return a->rank == b->rank && memcmp(a->up, b->up, bytes) == 0 &&
           (!a->down || memcmp(a->down, b->down, bytes) == 0);
}

/* The patches of a unit, one a class. */
static void patches_add(builder *b, uint32_t unit)
{
    const lac_patch *made[LAC_CLASSES_MAX];
    size_t first = b->program->count;
    uint32_t hidden = b->model->hidden, made_count = 0;
    for (uint32_t i = 0; i < b->lists_count; i++)
        for (uint32_t p = 0; p < b->lists[i].count; p++) {
            const lac_patch *patch = &b->lists[i].patches[p];
            if (patch->unit != unit)
                continue;
            uint32_t same = 0, rank = patch->rank;
            while (same < made_count &&
                   !patch_same(made[same], patch, (size_t)rank * hidden * sizeof *patch->up))
                same++;
            made[made_count++] = patch;
            lac_op *op = op_add(b, LAC_OP_PATCH, b->lists[i].list);
            if (same + 1 < made_count) {
                op->u.patch = b->program->ops[first + same].u.patch;
                continue;
            }
            op->u.patch.eps = b->model->norm_eps;
            op->u.patch.down = patch_packed(b, rank, hidden, patch->down);
            op->u.patch.up = patch_packed(b, hidden, rank, patch->up);
        }
}

static void program_build(builder *b)
{
    const lac_model *model = b->model;
    lac_op *embed = op_add(b, LAC_OP_EMBED, 0);
    embed->u.embed.table = packed(b, model->embed);
    embed->u.embed.scale = model->embed_scale;
    uint32_t table_row = 0;
    for (uint32_t l = 0; l < model->layers_count && b->status == LAC_OK; l++) {
        if (attention_runs(model, b->dropped, l))
            attention_add(b, l, table_row++);
        patches_add(b, 2 * l);
        if (ffn_runs(model, b->dropped, l))
            ffn_add(b, l);
        patches_add(b, 2 * l + 1);
    }
    lac_op *head = op_add(b, LAC_OP_HEAD, 0);
    head->u.head.norm = packed(b, model->out_norm);
    head->u.head.eps = model->norm_eps;
    /* A tied head is the embedding table itself: one copy serves both. */
    head->u.head.weight =
        model->head == model->embed ? embed->u.embed.table : packed(b, model->head);
    head->u.head.softcap = model->logit_softcap;
}

lac_status lac__program_create(const lac_model *model, const lac_mask *dropped,
                               const lac__patch_list *lists, uint32_t lists_count,
                               const lac_backend_ops *table, lac_backend *backend,
                               const lac__kv_layout *layout,
                               void (*progress)(void *arg, uint64_t done, uint64_t total),
                               void *progress_arg, lac__program *out, lac_error *err)
{
    lac__program program = {0};
    size_t patches = 0;
    for (uint32_t i = 0; i < lists_count; i++)
        patches += lists[i].count;
    program.ops =
        lac_alloc((size_t)model->layers_count * OPS_A_LAYER + 2 + patches, sizeof(lac_op));
    program.weights = lac_alloc((size_t)model->layers_count * WEIGHTS_A_LAYER + 3 + 2 * patches,
                                sizeof(lac_weight *));
    builder b = {.model = model,
                 .dropped = dropped,
                 .total = model->tensor_bytes,
                 .table = table,
                 .backend = backend,
                 .layout = layout,
                 .lists = lists,
                 .lists_count = lists_count,
                 .program = &program,
                 .progress = progress,
                 .progress_arg = progress_arg,
                 .err = err};
    for (uint32_t u = 0; u < 2 * model->layers_count; u++)
        if (lac_mask_has(dropped, u))
            b.total -= lac_model_unit_bytes(model, u);
    program_build(&b);
    if (b.status != LAC_OK) {
        lac__program_destroy(table, backend, &program);
        return b.status;
    }
    *out = program;
    return LAC_OK;
}

void lac__program_destroy(const lac_backend_ops *table, lac_backend *backend, lac__program *program)
{
    for (size_t i = 0; i < program->weights_count; i++)
        table->weight_free(backend, &program->weights[i]);
    free(program->weights);
    free(program->ops);
    *program = (lac__program){0};
}
