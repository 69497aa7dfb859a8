/* From operations to kernels with their grids and arguments: the one place that knows which kernels
 * a unit is. Arguments point to fixed memory and do not depend on the batch, so the same text
 * serves steps that are launched one by one and graphs that are made once a bucket.
 *
 * A layer at batch 1 is five kernels: [norm, q k v] [heads, page, attention, quantise] [o,
 * residual] [norm, gate up, activation, quantise] [down, residual]. */
#include "backend.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "kernels/pack.h"

static uint32_t ceil_div(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static const float *floats(const lac_weight *w)
{
    return w ? (const float *)(uintptr_t)w->data : NULL;
}

/* ---- one kernel ---- */

static lac__function *function_of(lac_backend *be, const char *name, lac_error *err)
{
    for (uint32_t i = 0; i < be->functions_count; i++)
        if (strcmp(be->functions[i].name, name) == 0)
            return &be->functions[i];
    LAC_ASSERT(be->functions_count < LAC__FUNCTIONS_MAX);
    for (uint32_t m = 0; m < be->modules_count; m++) {
        void *function = NULL;
        if (be->cu->function_get(&function, be->modules[m], name) != 0)
            continue;
        be->functions[be->functions_count] =
            (lac__function){.name = name, .function = function, .shared = LAC__SHARED_PLAIN};
        return &be->functions[be->functions_count++];
    }
    be->failed = lac_fail(err, LAC_EINTERNAL, "cuda: there is no kernel %s", name);
    return NULL;
}

typedef struct {
    const char *kernel;
    uint32_t grid[3], threads, shared, list;
    void *args;
} launch;

static void emit(lac_backend *be, const launch *l)
{
    if (be->failed != LAC_OK || l->grid[0] == 0 || l->grid[1] == 0 || l->grid[2] == 0)
        return;
    if (!be->building && be->count_of[l->list] == 0)
        return;
    lac__function *f = function_of(be, l->kernel, be->err);
    if (!f)
        return;
    if (l->shared > f->shared) {
        be->failed = lac__cu_check(
            be->cu, be->cu->function_set(f->function, LAC__CU_FUNCTION_SHARED, (int)l->shared),
            l->kernel, be->err);
        if (be->failed != LAC_OK)
            return;
        f->shared = l->shared;
    }
    void *params[] = {l->args};
    if (!be->building) {
        int result = be->cu->launch(f->function, l->grid[0], l->grid[1], l->grid[2], l->threads, 1,
                                    1, l->shared, be->stream, params, NULL);
        be->failed = lac__cu_check(be->cu, result, l->kernel, be->err);
        return;
    }
    lac__cu_node node = {.function = f->function,
                         .grid = {l->grid[0], l->grid[1], l->grid[2]},
                         .block = {l->threads, 1, 1},
                         .shared = l->shared,
                         .params = params};
    void *made = NULL;
    int result =
        be->cu->graph_add(&made, be->building->graph, be->last_node ? &be->last_node : NULL,
                          be->last_node ? 1 : 0, &node);
    be->failed = lac__cu_check(be->cu, result, l->kernel, be->err);
    if (be->failed != LAC_OK)
        return;
    be->last_node = made;
    be->building->nodes[be->building->nodes_count++] = (lac__graph_node){made, l->list, true};
}

/* ---- names by type ---- */

static const char *const type_names[31] = {
    [LAC_TYPE_F32] = "f32",   [LAC_TYPE_F16] = "f16",   [LAC_TYPE_BF16] = "bf16",
    [LAC_TYPE_Q4_0] = "q4_0", [LAC_TYPE_Q4_1] = "q4_1", [LAC_TYPE_Q5_0] = "q5_0",
    [LAC_TYPE_Q5_1] = "q5_1", [LAC_TYPE_Q8_0] = "q8_0", [LAC_TYPE_Q4_K] = "q4_k",
    [LAC_TYPE_Q5_K] = "q5_k", [LAC_TYPE_Q6_K] = "q6_k"};

/* Names live as long as the program: made once. */
static const char *product_name(lac_type type, uint32_t columns)
{
    static char names[31][5][20];
    uint32_t at = columns == 1 ? 0 : columns == 2 ? 1 : columns == 4 ? 2 : columns == 8 ? 3 : 4;
    char *name = names[type][at];
    if (!name[0] && at < 4)
        snprintf(name, sizeof names[0][0], "lac_gemv_%s_%u", type_names[type], columns);
    else if (!name[0])
        snprintf(name, sizeof names[0][0], "lac_gemm_%s", type_names[type]);
    return name;
}

/* ---- rows of a list to a panel ---- */

typedef struct {
    const lac_weight *norm;
    float eps;
    uint32_t list, rows; /* `rows`: at most so many */
} source;

static lac__cuda_panel forms(lac__cuda_panel panel, bool quant, bool plain)
{
    if (!quant)
        panel.q = NULL, panel.s = NULL;
    if (!plain)
        panel.f = NULL;
    return panel;
}

static void emit_rows(lac_backend *be, const char *kernel, uint32_t rows, lac__rows_args *args)
{
    args->step = be->step.on_device;
    emit(be, &(launch){kernel, {rows, 1, 1}, LAC__ROW_THREADS, 0, args->list, args});
}

static void emit_norm(lac_backend *be, const source *from, const lac_weight *const *weights,
                      uint32_t count)
{
    bool quant = false, plain = false;
    for (uint32_t i = 0; i < count; i++)
        *(lac__type_quantised(weights[i]->type) ? &quant : &plain) = true;
    lac__rows_args args = {.list = from->list,
                           .cols = be->options.hidden,
                           .h = (float *)(uintptr_t)be->h,
                           .weight = floats(from->norm),
                           .eps = from->eps,
                           .to = forms(be->normed, quant, plain)};
    emit_rows(be, "lac_norm", from->rows, &args);
}

/* ---- products ---- */

/* Columns that one dp4a product takes for a batch of so many rows. */
static uint32_t columns_for(uint32_t rows)
{
    return rows <= 1 ? 1 : rows <= 2 ? 2 : rows <= 4 ? 4 : 8;
}

/* Warps that share a group: enough that each has some four loads under way and not many more. */
static uint32_t warps_for(lac_type type, uint32_t cols)
{
    uint32_t wide = lac__type_quantised(type) ? 32 : type == LAC_TYPE_F32 ? 4 : 8;
    uint32_t turns = ceil_div(ceil_div(cols, wide), 4);
    return turns >= 32 ? 8 : turns >= 16 ? 4 : turns >= 8 ? 2 : 1;
}

static uint32_t prologue_bytes(lac_type type, uint32_t cols, uint32_t columns)
{
    return lac__type_quantised(type) ? columns * cols / 2 * 3 : columns * cols * 4;
}

/* Whether each block norms for itself: few rows, and room for them. */
static bool norms_itself(const lac_backend *be, uint32_t rows)
{
    return rows <= LAC__PROLOGUE_ROWS &&
           prologue_bytes(LAC_TYPE_F32, be->options.hidden, columns_for(rows)) <=
               min_u32(LAC__PROLOGUE_BYTES, be->shared_max);
}

/* The kernel for matrices of one type: dp4a up to eight rows and for floats, else tensor cores. */
static void emit_product(lac_backend *be, lac_type type, uint32_t rows, lac__product_args *args)
{
    uint32_t groups = 0, widest = 0;
    for (uint32_t p = 0; p < args->parts; p++) {
        groups += args->part[p].groups;
        widest = args->part[p].rows > widest ? args->part[p].rows : widest;
    }
    args->step = be->step.on_device;
    if (rows > LAC__GEMV_COLUMNS_MAX && lac__type_quantised(type)) {
        emit(be, &(launch){product_name(type, 16),
                           {ceil_div(widest, LAC__GEMM_ROWS), ceil_div(rows, LAC__GEMM_COLUMNS),
                            args->parts},
                           LAC__GEMM_THREADS,
                           0,
                           args->list,
                           args});
        return;
    }
    uint32_t columns = columns_for(rows), shared = 0, units;
    args->warps_a_group = args->epilogue == LAC__EPILOGUE_ACT ? 1 : warps_for(type, args->cols);
    if (args->prologue)
        shared = prologue_bytes(type, args->cols, columns);
    units = args->epilogue == LAC__EPILOGUE_ACT
                ? ceil_div(args->part[0].rows, 32)
                : ceil_div(groups, LAC__GEMV_WARPS / args->warps_a_group);
    emit(be, &(launch){product_name(type, columns),
                       {min_u32(units, be->processors * 3), ceil_div(rows, columns), 1},
                       LAC__GEMV_THREADS,
                       shared,
                       args->list,
                       args});
}

static lac__part part_of(const lac_weight *w, uint32_t out)
{
    return (lac__part){(const uint8_t *)(uintptr_t)w->data, w->rows, w->groups, out};
}

/* Matrices that read the same rows, side by side into args->out; a launch for each type among them.
 * With a source the rows are normed first, or by the products themselves. */
static void emit_products(lac_backend *be, const lac_weight *const *weights, uint32_t count,
                          uint32_t rows, const source *from, lac__product_args args)
{
    bool itself = from && norms_itself(be, rows);
    uint32_t out = 0, at[3], done = 0;
    LAC_ASSERT(count <= 3);
    if (from && !itself)
        emit_norm(be, from, weights, count);
    for (uint32_t i = 0; i < count; i++) {
        at[i] = out;
        out += weights[i]->rows;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (done >> i & 1)
            continue;
        args.parts = 0;
        for (uint32_t j = i; j < count; j++)
            if (weights[j]->type == weights[i]->type) {
                args.part[args.parts++] = part_of(weights[j], at[j]);
                done |= 1u << j;
            }
        args.cols = weights[i]->cols;
        args.group_bytes = (uint32_t)weights[i]->group_bytes;
        if (from) {
            args.list = from->list;
            args.prologue = itself;
            args.h = (const float *)(uintptr_t)be->h;
            args.norm = floats(from->norm);
            args.eps = from->eps;
            args.x = be->normed;
        }
        emit_product(be, weights[i]->type, rows, &args);
    }
}

/* ---- units ---- */

static void emit_qkv(lac_backend *be, const lac_op *op, const source *from)
{
    const lac_weight *w[] = {op->u.qkv.q, op->u.qkv.k, op->u.qkv.v};
    lac__product_args args = {.epilogue = LAC__EPILOGUE_STORE,
                              .out = (float *)(uintptr_t)be->raw,
                              .stride =
                                  (op->u.qkv.heads + 2 * op->u.qkv.kv_heads) * op->u.qkv.head_dim};
    emit_products(be, w, 3, from->rows, from, args);
}

static const lac__cuda_rope *rope_of(const lac_backend *be, const lac_rope *rope)
{
    for (uint32_t i = 0; i < be->ropes_count; i++)
        if (lac__rope_same(&be->ropes[i].rope, rope))
            return &be->ropes[i];
    return NULL;
}

static lac__attention_args attention_args(const lac_backend *be, const lac_op *qkv,
                                          const lac_op *op, uint32_t list)
{
    const lac_rope *rope = &qkv->u.qkv.rope;
    bool rotates = rope->style != LAC_ROPE_NONE;
    return (lac__attention_args){
        .step = be->step.on_device,
        .list = list,
        .raw = (float *)(uintptr_t)be->raw,
        .q = {floats(qkv->u.qkv.q_bias), floats(qkv->u.qkv.q_norm)},
        .k = {floats(qkv->u.qkv.k_bias), floats(qkv->u.qkv.k_norm)},
        .v = {floats(qkv->u.qkv.v_bias), NULL},
        .eps = qkv->u.qkv.eps,
        .heads = op->u.attention.heads,
        .kv_heads = op->u.attention.kv_heads,
        .head_dim = op->u.attention.head_dim,
        .rope_style = rotates ? (uint32_t)rope->style : 0,
        .rope_dims = rope->dims,
        .angles = rotates ? (const float *)(uintptr_t)rope_of(be, rope)->angles : NULL,
        .region = op->u.attention.kv.region,
        .page_bytes = op->u.attention.kv.page_bytes,
        .table = op->u.attention.kv.table,
        .wide = be->options.kv_type == LAC_KV_F32,
        .scale = op->u.attention.scale,
        .softcap = op->u.attention.softcap,
        .window = op->u.attention.window,
        .partial = (float *)(uintptr_t)be->partial,
        .counter = (uint32_t *)(uintptr_t)be->counters};
}

static void emit_decode(lac_backend *be, lac__attention_args *args, const lac__shape *shape)
{
    static const char *const names[] = {"lac_attend_1", "lac_attend_2", "lac_attend_3",
                                        "lac_attend_4"};
    uint32_t group = args->heads / args->kv_heads, dim = args->head_dim;
    uint32_t at_once = group % 4 == 0 ? 4 : group % 3 == 0 ? 3 : min_u32(group, 4);
    uint32_t values =
        (2 * group + 2) * dim + 2 * group + LAC__ATTENTION_WARPS * at_once * (dim + 2);
    emit(be, &(launch){names[at_once - 1],
                       {shape->decode_rows, args->kv_heads, shape->splits},
                       LAC__ATTENTION_THREADS,
                       values * 4,
                       args->list,
                       args});
}

static void emit_prefill(lac_backend *be, lac__attention_args *args, const lac__shape *shape)
{
    uint32_t group = args->heads / args->kv_heads, dim = args->head_dim;
    uint32_t queries = dim <= 128 ? 32 : dim <= 256 ? 16 : 8;
    const char *name = dim <= 64    ? "lac_prefill_64"
                       : dim <= 128 ? "lac_prefill_128"
                       : dim <= 256 ? "lac_prefill_256"
                                    : "lac_prefill_512";
    emit(be, &(launch){name,
                       {shape->tiles, args->kv_heads, ceil_div(LAC__TILE_ROWS * group, queries)},
                       LAC__ATTENTION_THREADS,
                       (queries * dim + LAC__PAGE * dim + queries * 32 + dim * (LAC__PAGE + 1)) * 4,
                       args->list,
                       args});
}

static void emit_attention(lac_backend *be, const lac_op *qkv, const lac_op *op,
                           const lac_op *project, const source *from, const lac__shape *shape)
{
    uint32_t dim = op->u.attention.head_dim, width = op->u.attention.heads * dim;
    bool quant = lac__type_quantised(project->u.project.weight->type);
    uint32_t whole = shape->tiles > 0 ? dim : width / op->u.attention.kv_heads;
    bool apart = quant && whole % 32 != 0; /* quantising is a kernel of its own */
    lac__attention_args args = attention_args(be, qkv, op, from->list);
    args.to = forms(be->inner, quant && !apart, !quant || apart);
    args.to.f = be->inner.f;
    args.finish = shape->tiles == 0;
    if (!args.finish)
        emit(be, &(launch){"lac_heads",
                           {from->rows, 1, 1},
                           LAC__ATTENTION_THREADS,
                           LAC__ATTENTION_WARPS * dim * 4,
                           from->list,
                           &args});
    emit_decode(be, &args, shape);
    emit_prefill(be, &args, shape);
    if (!apart)
        return;
    lac__rows_args rows = {.list = from->list,
                           .cols = width,
                           .in = be->inner.f,
                           .stride = width,
                           .to = forms(be->inner, true, false)};
    emit_rows(be, "lac_quantise", from->rows, &rows);
}

static void emit_gate_up(lac_backend *be, const lac_op *op, const lac_op *project,
                         const source *from)
{
    const lac_weight *w[] = {op->u.gate_up.gate, op->u.gate_up.up};
    bool quant = lac__type_quantised(project->u.project.weight->type);
    uint32_t ffn = w[0]->rows, gelu = op->u.gate_up.act == LAC_ACT_GELU_TANH;
    lac__cuda_panel to = forms(be->inner, quant, !quant);
    bool together = w[0]->type == w[1]->type &&
                    (from->rows <= LAC__GEMV_COLUMNS_MAX || !lac__type_quantised(w[0]->type));
    lac__product_args args = {.epilogue = together ? LAC__EPILOGUE_ACT : LAC__EPILOGUE_STORE,
                              .out = (float *)(uintptr_t)be->raw,
                              .stride = 2 * ffn,
                              .gelu = gelu,
                              .inner = to};
    emit_products(be, w, 2, from->rows, from, args);
    if (together)
        return;
    lac__rows_args rows = {.list = from->list,
                           .cols = ffn,
                           .in = (const float *)(uintptr_t)be->raw,
                           .stride = 2 * ffn,
                           .gelu = gelu,
                           .to = to};
    emit_rows(be, "lac_act", from->rows, &rows);
}

static void emit_project(lac_backend *be, const lac_op *op, const source *from)
{
    const lac_weight *w[] = {op->u.project.weight};
    bool post = op->u.project.post_norm != NULL;
    uint32_t hidden = be->options.hidden;
    lac__product_args args = {.list = from->list,
                              .x = be->inner,
                              .epilogue = post ? LAC__EPILOGUE_STORE : LAC__EPILOGUE_RESIDUAL,
                              .out = (float *)(uintptr_t)(post ? be->branch : be->h),
                              .stride = hidden,
                              .bias = floats(op->u.project.bias)};
    emit_products(be, w, 1, from->rows, NULL, args);
    if (!post)
        return;
    lac__rows_args rows = {.list = from->list,
                           .cols = hidden,
                           .h = (float *)(uintptr_t)be->h,
                           .in = (const float *)(uintptr_t)be->branch,
                           .stride = hidden,
                           .weight = floats(op->u.project.post_norm),
                           .eps = op->u.project.eps};
    emit_rows(be, "lac_post_norm", from->rows, &rows);
}

static void emit_linear(lac_backend *be, const lac_op *op, const source *from)
{
    const lac_weight *down = op->u.linear.down, *up = op->u.linear.up;
    lac__product_args add = {.list = from->list,
                             .epilogue = LAC__EPILOGUE_RESIDUAL,
                             .out = (float *)(uintptr_t)be->h,
                             .stride = be->options.hidden};
    if (!down) { /* writes what its norms read, so these come first */
        emit_norm(be, from, &up, 1);
        add.x = be->normed;
        emit_products(be, &up, 1, from->rows, NULL, add);
        return;
    }
    lac__product_args args = {
        .epilogue = LAC__EPILOGUE_STORE, .out = be->inner.f, .stride = down->rows};
    emit_products(be, &down, 1, from->rows, from, args);
    add.x = forms(be->inner, false, true);
    emit_products(be, &up, 1, from->rows, NULL, add);
}

static void emit_head(lac_backend *be, const lac_op *op, const lac__shape *shape)
{
    const lac_weight *w[] = {op->u.head.weight};
    source from = {op->u.head.norm, op->u.head.eps, LAC__LIST_LOGITS, shape->logit_rows};
    uint32_t vocab = be->options.vocab;
    if (shape->logit_rows == 0)
        return;
    lac__product_args args = {
        .epilogue = LAC__EPILOGUE_STORE, .out = (float *)(uintptr_t)be->logits, .stride = vocab};
    emit_products(be, w, 1, from.rows, &from, args);
    const lac__step_memory *m = &be->step;
    size_t base = (size_t)m->device;
    lac__pick_args pick = {.step = m->on_device,
                           .logits = (float *)(uintptr_t)be->logits,
                           .vocab = vocab,
                           .softcap = op->u.head.softcap,
                           .slice_best = (float *)(uintptr_t)be->slice_best,
                           .slice_id = (uint32_t *)(uintptr_t)be->slice_id,
                           .counter = (uint32_t *)(uintptr_t)be->counters,
                           .best = (float *)(base + (size_t)((uint8_t *)m->best - m->host)),
                           .token = (uint32_t *)(base + (size_t)((uint8_t *)m->token - m->host)),
                           .draws =
                               (const lac__draw *)(base + (size_t)((uint8_t *)m->draws - m->host)),
                           .drawn = (uint32_t *)(base + (size_t)((uint8_t *)m->drawn - m->host))};
    emit(be, &(launch){"lac_best",
                       {ceil_div(vocab, LAC__PICK_SLICE), shape->logit_rows, 1},
                       LAC__PICK_THREADS,
                       0,
                       LAC__LIST_LOGITS,
                       &pick});
    if (shape->draws)
        emit(be, &(launch){"lac_draw",
                           {shape->logit_rows, 1, 1},
                           LAC__PICK_THREADS,
                           0,
                           LAC__LIST_LOGITS,
                           &pick});
}

static void emit_embed(lac_backend *be, const lac_op *op, uint32_t rows)
{
    const lac_weight *table = op->u.embed.table;
    lac__embed_args args = {.step = be->step.on_device,
                            .table = (const uint8_t *)(uintptr_t)table->data,
                            .type = (uint32_t)table->type,
                            .cols = table->cols,
                            .group_bytes = (uint32_t)table->group_bytes,
                            .scale = op->u.embed.scale,
                            .h = (float *)(uintptr_t)be->h};
    emit(be, &(launch){"lac_embed", {rows, 1, 1}, LAC__ROW_THREADS, 0, LAC__LIST_ALL, &args});
}

void lac__cuda_launch_all(lac_backend *be, const lac__shape *shape)
{
    const lac_op *qkv = NULL;
    for (size_t i = 0; i < be->ops_count && be->failed == LAC_OK; i++) {
        const lac_op *op = &be->ops[i], *next = i + 1 < be->ops_count ? op + 1 : NULL;
        source from = {.list = LAC__LIST_UNITS + op->unit, .rows = shape->rows};
        switch (op->kind) {
        case LAC_OP_EMBED: emit_embed(be, op, shape->rows); break;
        case LAC_OP_QKV:
            qkv = op;
            from.norm = op->u.qkv.norm, from.eps = op->u.qkv.eps;
            emit_qkv(be, op, &from);
            break;
        case LAC_OP_ATTENTION: emit_attention(be, qkv, op, next, &from, shape); break;
        case LAC_OP_PROJECT: emit_project(be, op, &from); break;
        case LAC_OP_GATE_UP:
            from.norm = op->u.gate_up.norm, from.eps = op->u.gate_up.eps;
            emit_gate_up(be, op, next, &from);
            break;
        case LAC_OP_HEAD: emit_head(be, op, shape); break;
        case LAC_OP_PATCH: from.list += be->units; /* fall through */
        case LAC_OP_LINEAR:
            from.norm = op->u.linear.norm, from.eps = op->u.linear.eps;
            emit_linear(be, op, &from);
            break;
        default: be->failed = LAC_EUNSUPPORTED; break;
        }
    }
}
