/* From model facts to operations: the only place that knows both. Runs at load, on the engine's
 * thread. Must not know sequences, sampling or the scheduler. */
#include "program.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "probe/probe.h"

enum {
    WEIGHTS_A_LAYER = 18,  /* most tensors one layer can have, without experts */
    OPS_A_LAYER = 5,       /* QKV, attention, project; gate-up, project */
    PIECE_BYTES = 8 << 20, /* of a tensor, packed at a time */
};

/* ---- KV layout ---- */

/* True when unit 2l, or 2l+1, exists and some class runs it. */
static bool attention_runs(const lac_model *model, const lac_mask *dropped, uint32_t l)
{
    return model->layers[l].heads > 0 && !model->layers[l].linear && !lac_mask_has(dropped, 2 * l);
}

static bool linear_runs(const lac_model *model, const lac_mask *dropped, uint32_t l)
{
    return model->layers[l].linear && !lac_mask_has(dropped, 2 * l);
}

static bool ffn_runs(const lac_model *model, const lac_mask *dropped, uint32_t l)
{
    return model->layers[l].ffn > 0 && !lac_mask_has(dropped, 2 * l + 1);
}

/* Whether two layers' pages are of one size on every rank: the same stage, the same KV heads. */
static bool pages_alike(const lac_model *model, const lac__shard *shard, uint32_t a, uint32_t b)
{
    if (lac__shard_stage_of(shard, a) != lac__shard_stage_of(shard, b) ||
        model->layers[a].kv_heads != model->layers[b].kv_heads)
        return false;
    for (uint32_t part = 0; part < shard->parts; part++)
        if (lac__shard_part(shard, model, part, a).kv_heads !=
            lac__shard_part(shard, model, part, b).kv_heads)
            return false;
    return true;
}

static void page_size_set(const lac_model *model, const lac__shard *shard, uint32_t l,
                          const lac_backend_ops *table, const lac_backend *backend, uint32_t size,
                          lac__kv_layout *layout)
{
    uint32_t kv_heads = lac__shard_part(shard, model, shard->part, l).kv_heads;
    layout->page_bytes[size] = table->kv_page_bytes(backend, kv_heads, model->head_dim);
    layout->whole_bytes[size] =
        table->kv_page_bytes(backend, model->layers[l].kv_heads, model->head_dim);
    layout->here[size] = lac__shard_stage_of(shard, l) == shard->stage;
}

lac_status lac__kv_layout_create(const lac_model *model, const lac_mask *dropped,
                                 const lac__shard *shard, const lac_backend_ops *table,
                                 const lac_backend *backend, lac__kv_layout *out, lac_error *err)
{
    uint32_t layer_of[LAC_KV_SIZES_MAX]; /* one that has the size */
    lac__kv_layout layout = {0};
    layout.size_of = lac_alloc(model->layers_count, sizeof(uint32_t));
    layout.unit_of = lac_alloc(model->layers_count, sizeof(uint32_t));
    for (uint32_t l = 0; l < model->layers_count; l++) {
        if (!attention_runs(model, dropped, l))
            continue;
        uint32_t size = 0;
        while (size < layout.sizes_count && !pages_alike(model, shard, layer_of[size], l))
            size++;
        if (size == LAC_KV_SIZES_MAX) {
            lac__kv_layout_destroy(&layout);
            return lac_fail(err, LAC_EUNSUPPORTED,
                            "layer %u has a KV page size of its own: more "
                            "than %d sizes in one model and its stages",
                            l, LAC_KV_SIZES_MAX);
        }
        if (size == layout.sizes_count) {
            layer_of[layout.sizes_count++] = l;
            page_size_set(model, shard, l, table, backend, size, &layout);
        }
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
    const lac__shard *shard;
    bool tap;
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

/* Part of a matrix: `rows` from row_first on, of each `cols` columns from col_first on. */
typedef struct {
    uint32_t row_first, rows, col_first, cols;
} slice;

static slice whole_of(const lac_gguf_tensor *tensor)
{
    LAC_ASSERT(tensor->dims[0] <= UINT32_MAX && tensor->dims[1] <= UINT32_MAX);
    return (slice){.rows = (uint32_t)tensor->dims[1], .cols = (uint32_t)tensor->dims[0]};
}

/* Bytes of a row of a tensor, or of so many of its columns. */
static size_t row_bytes(const lac_gguf_tensor *tensor, uint64_t cols)
{
    const lac_type_info *type = lac_type_get(tensor->type);
    return (size_t)(cols / type->block) * type->block_bytes;
}

/* The bytes of a slice as one run: in the file where they are that, else a copy in *own. */
static const uint8_t *slice_bytes(const lac_gguf_tensor *tensor, slice s, uint8_t **own)
{
    size_t row = row_bytes(tensor, tensor->dims[0]), part = row_bytes(tensor, s.cols);
    const uint8_t *from =
        (const uint8_t *)tensor->data + s.row_first * row + row_bytes(tensor, s.col_first);
    LAC_ASSERT(s.col_first % lac_type_get(tensor->type)->block == 0);
    *own = NULL;
    if (part == row)
        return from;
    *own = malloc((size_t)s.rows * part);
    for (uint32_t r = 0; *own && r < s.rows; r++)
        memcpy(*own + r * part, from + r * row, part);
    return *own;
}

/* Packs a slice piece by piece. The file's pages go back behind each piece, so that a large matrix
 * is never in memory twice; where they are read once more, by another slice, they come back. */
static lac_status slice_fill(builder *b, const lac_gguf_tensor *tensor, slice s, lac_weight *weight)
{
    uint32_t most = (uint32_t)(PIECE_BYTES / row_bytes(tensor, tensor->dims[0])) / 128 * 128 + 128;
    for (uint32_t done = 0, rows; done < s.rows; done += rows) {
        slice piece = s;
        uint8_t *own;
        rows = s.rows - done < most ? s.rows - done : most;
        piece.row_first += done;
        piece.rows = rows;
        const uint8_t *source = slice_bytes(tensor, piece, &own);
        if (!source)
            return lac_fail(b->err, LAC_ENOMEM, "no memory for a part of it");
        b->table->weight_fill(b->backend, weight, tensor->type, done, rows, source);
        free(own);
        if (rows < s.rows)
            lac_gguf_release_first(b->model->gguf, tensor,
                                   (piece.row_first + rows) * row_bytes(tensor, tensor->dims[0]));
    }
    return LAC_OK;
}

/* Packs a part of a tensor of which more is to come. */
static const lac_weight *packed_part(builder *b, const lac_gguf_tensor *tensor, slice s)
{
    if (b->status != LAC_OK)
        return NULL;
    lac_weight *weight = NULL;
    b->status = b->table->weight_reserve(b->backend, tensor->type, s.rows, s.cols, &weight, b->err);
    if (weight) {
        b->program->weights[b->program->weights_count++] = weight;
        b->program->weight_bytes += b->table->weight_bytes(weight);
        b->status = slice_fill(b, tensor, s, weight);
    }
    if (b->status == LAC_OK)
        return weight;
    lac_fail_in(b->err, "tensor %s", tensor->name);
    return NULL;
}

/* All that is wanted of the tensor is packed. */
static void tensor_done(builder *b, const lac_gguf_tensor *tensor)
{
    if (b->status != LAC_OK)
        return;
    lac_gguf_release(b->model->gguf, tensor);
    b->done += tensor->bytes;
    if (b->progress)
        b->progress(b->progress_arg, b->done, b->total);
}

/* Packs a slice of a tensor, or gives NULL for a tensor the model does not have. */
static const lac_weight *packed_slice(builder *b, const lac_gguf_tensor *tensor, slice s)
{
    if (!tensor)
        return NULL;
    const lac_weight *weight = packed_part(b, tensor, s);
    tensor_done(b, tensor);
    return weight;
}

static const lac_weight *packed(builder *b, const lac_gguf_tensor *tensor)
{
    return tensor ? packed_slice(b, tensor, whole_of(tensor)) : NULL;
}

static const lac_weight *packed_rows(builder *b, const lac_gguf_tensor *tensor, uint32_t first,
                                     uint32_t count)
{
    if (!tensor)
        return NULL;
    slice s = whole_of(tensor);
    s.row_first = first;
    s.rows = count;
    return packed_slice(b, tensor, s);
}

/* Of a matrix its columns, of a vector its elements. */
static const lac_weight *packed_columns(builder *b, const lac_gguf_tensor *tensor, uint32_t first,
                                        uint32_t count)
{
    if (!tensor)
        return NULL;
    slice s = whole_of(tensor);
    s.col_first = first;
    s.cols = count;
    return packed_slice(b, tensor, s);
}

/* A bias of a sum is added by one of the ranks: the last, where the others have added before. */
static const lac_weight *packed_once(builder *b, const lac_gguf_tensor *tensor)
{
    return b->shard->part + 1 == b->shard->parts ? packed(b, tensor) : NULL;
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
    lac_place_part part = lac__shard_part(b->shard, model, b->shard->part, l);
    uint32_t dim = model->head_dim, q = part.head_first * dim, kv_at = part.kv_first * dim;
    uint32_t q_width = part.heads * dim, kv_width = part.kv_heads * dim;
    uint32_t size = b->layout->size_of[table_row];
    lac_kv_view kv = {.region = b->layout->regions[size],
                      .page_bytes = b->layout->page_bytes[size],
                      .table = table_row};

    lac_op *op = op_add(b, LAC_OP_QKV, 2 * l);
    op->u.qkv.norm = packed(b, layer->attn_norm);
    op->u.qkv.eps = model->norm_eps;
    op->u.qkv.q = packed_rows(b, layer->q, q, q_width);
    op->u.qkv.k = packed_rows(b, layer->k, kv_at, kv_width);
    op->u.qkv.v = packed_rows(b, layer->v, kv_at, kv_width);
    op->u.qkv.q_bias = packed_columns(b, layer->q_bias, q, q_width);
    op->u.qkv.k_bias = packed_columns(b, layer->k_bias, kv_at, kv_width);
    op->u.qkv.v_bias = packed_columns(b, layer->v_bias, kv_at, kv_width);
    op->u.qkv.q_norm = packed(b, layer->q_norm);
    op->u.qkv.k_norm = packed(b, layer->k_norm);
    op->u.qkv.heads = part.heads;
    op->u.qkv.kv_heads = part.kv_heads;
    op->u.qkv.head_dim = model->head_dim;
    op->u.qkv.rope = rope_of(model, l);
    op->u.qkv.kv = kv;

    op = op_add(b, LAC_OP_ATTENTION, 2 * l);
    op->u.attention.heads = part.heads;
    op->u.attention.kv_heads = part.kv_heads;
    op->u.attention.head_dim = model->head_dim;
    op->u.attention.scale = model->attention_scale;
    op->u.attention.softcap = model->attention_softcap;
    op->u.attention.window = layer->window;
    op->u.attention.kv = kv;

    op = op_add(b, LAC_OP_PROJECT, 2 * l);
    op->u.project.weight = packed_columns(b, layer->o, q, q_width);
    op->u.project.bias = packed_once(b, layer->o_bias);
    op->u.project.post_norm = packed(b, layer->attn_post_norm);
    op->u.project.eps = model->norm_eps;
    op->u.project.sum = b->shard->sum;
}

static lac_activation activation_of(const lac_model *model)
{
    return model->activation == LAC_ACTIVATION_SILU ? LAC_ACT_SILU : LAC_ACT_GELU_TANH;
}

/* One of the matrices that lie one after the other in a tensor of experts. */
static const lac_weight *packed_expert(builder *b, const lac_gguf_tensor *tensor, uint32_t expert)
{
    slice s = whole_of(tensor);
    LAC_ASSERT(expert < tensor->dims[2]);
    s.row_first = expert * s.rows;
    return packed_part(b, tensor, s);
}

static void experts_add(builder *b, uint32_t l)
{
    const lac_model *model = b->model;
    const lac_layer *layer = &model->layers[l];
    lac_expert_weights *experts = b->program->experts + b->program->experts_count;
    b->program->experts_count += layer->experts;
    lac_op *op = op_add(b, LAC_OP_EXPERTS, 2 * l + 1);
    op->u.experts.norm = packed(b, layer->ffn_norm);
    op->u.experts.eps = model->norm_eps;
    op->u.experts.router = packed(b, layer->router);
    for (uint32_t e = 0; e < layer->experts; e++)
        experts[e].gate = packed_expert(b, layer->gate_experts, e);
    tensor_done(b, layer->gate_experts);
    for (uint32_t e = 0; e < layer->experts; e++)
        experts[e].up = packed_expert(b, layer->up_experts, e);
    tensor_done(b, layer->up_experts);
    for (uint32_t e = 0; e < layer->experts; e++)
        experts[e].down = packed_expert(b, layer->down_experts, e);
    tensor_done(b, layer->down_experts);
    op->u.experts.expert = experts;
    op->u.experts.count = layer->experts;
    op->u.experts.used = layer->experts_used;
    op->u.experts.normalise = model->experts_normalise;
    op->u.experts.scale = model->experts_scale;
    op->u.experts.act = activation_of(model);
}

static void linear_add(builder *b, uint32_t l)
{
    lac_op *op = op_add(b, LAC_OP_LINEAR, 2 * l);
    op->u.linear.norm = packed(b, b->model->layers[l].attn_norm);
    op->u.linear.eps = b->model->norm_eps;
    op->u.linear.up = packed(b, b->model->layers[l].o);
}

static void ffn_add(builder *b, uint32_t l)
{
    const lac_model *model = b->model;
    const lac_layer *layer = &model->layers[l];
    lac_place_part part = lac__shard_part(b->shard, model, b->shard->part, l);
    lac_op *op = op_add(b, LAC_OP_GATE_UP, 2 * l + 1);
    op->u.gate_up.norm = packed(b, layer->ffn_norm);
    op->u.gate_up.eps = model->norm_eps;
    op->u.gate_up.gate = packed_rows(b, layer->gate, part.ffn_first, part.ffn);
    op->u.gate_up.up = packed_rows(b, layer->up, part.ffn_first, part.ffn);
    op->u.gate_up.act = activation_of(model);

    op = op_add(b, LAC_OP_PROJECT, 2 * l + 1);
    op->u.project.weight = packed_columns(b, layer->down, part.ffn_first, part.ffn);
    op->u.project.bias = packed_once(b, layer->down_bias);
    op->u.project.post_norm = packed(b, layer->ffn_post_norm);
    op->u.project.eps = model->norm_eps;
    op->u.project.sum = b->shard->sum;
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
                op->u.linear = b->program->ops[first + same].u.linear;
                continue;
            }
            op->u.linear.eps = b->model->norm_eps;
            op->u.linear.stands_for = unit;
            op->u.linear.down = patch_packed(b, rank, hidden, patch->down);
            op->u.linear.up = patch_packed(b, hidden, rank, patch->up);
        }
}

static void program_build(builder *b)
{
    const lac_model *model = b->model;
    const lac__shard *shard = b->shard;
    uint32_t vocab_first = lac__shard_vocab_first(shard), vocab = lac__shard_vocab(shard, model);
    const lac_weight *table = NULL;
    if (lac__shard_first(shard)) {
        lac_op *embed = op_add(b, LAC_OP_EMBED, 0);
        table = packed_rows(b, model->embed, vocab_first, vocab);
        embed->u.embed.table = table;
        embed->u.embed.scale = model->embed_scale;
        embed->u.embed.first = vocab_first;
        embed->u.embed.sum = shard->sum;
    }
    /* Rows of the block tables count over all stages. */
    for (uint32_t l = 0, table_row = 0; l < shard->layer_end && b->status == LAC_OK; l++) {
        bool here = l >= shard->layer_first;
        bool attends = attention_runs(model, b->dropped, l);
        if (attends && here)
            attention_add(b, l, table_row);
        table_row += attends;
        if (!here)
            continue;
        if (linear_runs(model, b->dropped, l))
            linear_add(b, l);
        patches_add(b, 2 * l);
        if (ffn_runs(model, b->dropped, l))
            (model->layers[l].experts ? experts_add : ffn_add)(b, l);
        patches_add(b, 2 * l + 1);
        if (b->tap && l + 1 == LAC_PROBE_LAYERS)
            op_add(b, LAC_OP_TAP, 2 * l + 1);
    }
    if (!lac__shard_last(shard))
        return;
    lac_op *head = op_add(b, LAC_OP_HEAD, 0);
    head->u.head.norm = packed(b, model->out_norm);
    head->u.head.eps = model->norm_eps;
    /* A tied head is the embedding table itself: one copy serves both where a rank has both. */
    head->u.head.weight = model->head == model->embed && table
                              ? table
                              : packed_rows(b, model->head, vocab_first, vocab);
    head->u.head.softcap = model->logit_softcap;
}

lac_status lac__program_create(const lac_model *model, const lac_mask *dropped,
                               const lac__shard *shard, const lac__patch_list *lists,
                               uint32_t lists_count, bool tap, const lac_backend_ops *table,
                               lac_backend *backend, const lac__kv_layout *layout,
                               void (*progress)(void *arg, uint64_t done, uint64_t total),
                               void *progress_arg, lac__program *out, lac_error *err)
{
    lac__program program = {0};
    size_t patches = 0, experts = 0;
    for (uint32_t i = 0; i < lists_count; i++)
        patches += lists[i].count;
    for (uint32_t l = 0; l < model->layers_count; l++)
        experts += model->layers[l].experts;
    if (experts > 0 && shard->parts > 1)
        return lac_fail(err, LAC_EUNSUPPORTED,
                        "a model of experts over %u tensor-parallel ranks is not supported",
                        shard->parts);
    program.ops =
        lac_alloc((size_t)model->layers_count * OPS_A_LAYER + 3 + patches, sizeof(lac_op));
    program.experts = lac_alloc(experts + 1, sizeof *program.experts);
    size_t weights = (size_t)model->layers_count * WEIGHTS_A_LAYER + 3 * experts + 3 + 2 * patches;
    program.weights = lac_alloc(weights, sizeof(lac_weight *));
    builder b = {.model = model,
                 .dropped = dropped,
                 .shard = shard,
                 .tap = tap,
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
        if (lac_mask_has(dropped, u) || u / 2 < shard->layer_first || u / 2 >= shard->layer_end)
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
    free(program->experts);
    free(program->ops);
    *program = (lac__program){0};
}
