/* The small model of the step tests; see model.h. */
#include "model.h"

#include <math.h>
#include <stdlib.h>

static void matrix_make(matrix *m, lac_type type, uint32_t rows, uint32_t cols, uint64_t *state)
{
    *m = (matrix){.rows = rows, .cols = cols, .type = type};
    size_t bytes = row_bytes(type, cols);
    m->bytes = malloc(rows * bytes);
    m->values = malloc((size_t)rows * cols * 4);
    for (uint32_t r = 0; r < rows; r++) {
        random_row(type, cols, m->bytes + r * bytes, state);
        if (rows == 1) /* norms near one, biases of a usual size */
            for (uint32_t c = 0; c < cols; c++) {
                float f = 0.6f + 0.4f * rnd_float(state);
                memcpy(m->bytes + c * 4, &f, 4);
            }
        lac__dequantise(type, m->bytes + r * bytes, cols, m->values + (size_t)r * cols);
    }
}

/* Order within a layer: norm q k v qb kb vb qn kn o post norm2 gate up down. */
void model_make(model *m, const traits *t)
{
    static const uint32_t rows[PER_LAYER] = {
        1,   HEADS * DIM, KV_HEADS * DIM, KV_HEADS * DIM, 1, 1, 1, 1, 1, HIDDEN, 1, 1,
        FFN, FFN,         HIDDEN};
    static const uint32_t cols[PER_LAYER] = {
        HIDDEN,         HIDDEN,         HIDDEN, HIDDEN, HEADS * DIM,
        KV_HEADS * DIM, KV_HEADS * DIM, DIM,    DIM,    HEADS * DIM,
        HIDDEN,         HIDDEN,         HIDDEN, HIDDEN, FFN};
    uint64_t state = 1234;
    memset(m, 0, sizeof *m);
    m->t = *t;
    matrix_make(&m->w[0], t->type, VOCAB, HIDDEN, &state);
    for (uint32_t l = 0; l < LAYERS; l++)
        for (uint32_t i = 0; i < PER_LAYER; i++)
            matrix_make(&m->w[1 + l * PER_LAYER + i], rows[i] == 1 ? LAC_TYPE_F32 : t->type,
                        rows[i], cols[i], &state);
    matrix_make(&m->w[WEIGHTS - 1], LAC_TYPE_F32, 1, HIDDEN, &state);
}

static void patch_free(model *m, uint32_t unit)
{
    free(m->down[unit].bytes);
    free(m->down[unit].values);
    free(m->up[unit].bytes);
    free(m->up[unit].values);
    m->down[unit] = m->up[unit] = (matrix){0};
}

void model_patch(model *m, uint32_t unit, uint32_t rank, uint64_t seed)
{
    patch_free(m, unit);
    uint64_t state = 77 + 31 * seed + unit;
    if (rank < HIDDEN)
        matrix_make(&m->down[unit], LAC_TYPE_F16, rank, HIDDEN, &state);
    matrix_make(&m->up[unit], LAC_TYPE_F16, HIDDEN, rank, &state);
}

void model_free(model *m)
{
    for (uint32_t u = 0; u < 2 * LAYERS; u++)
        patch_free(m, u);
    for (uint32_t i = 0; i < WEIGHTS; i++) {
        free(m->w[i].bytes);
        free(m->w[i].values);
    }
}

/* ---- float64 ---- */

static void d_norm(const double *x, const float *w, uint32_t n, double *y)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    for (uint32_t i = 0; i < n; i++)
        y[i] = x[i] / sqrt(sum / n + 1e-5) * w[i];
}

static void d_product(const matrix *w, const double *x, const float *bias, double *y)
{
    for (uint32_t r = 0; r < w->rows; r++) {
        y[r] = bias ? bias[r] : 0.0;
        for (uint32_t c = 0; c < w->cols; c++)
            y[r] += (double)w->values[(size_t)r * w->cols + c] * x[c];
    }
}

static void d_head(const model *m, double *x, const float *norm, uint32_t pos)
{
    double t[DIM];
    if (norm) {
        d_norm(x, norm, DIM, t);
        memcpy(x, t, sizeof t);
    }
    for (uint32_t i = 0; i < DIM / 2 && m->t.style != LAC_ROPE_NONE; i++) {
        uint32_t a = m->t.style == LAC_ROPE_PAIRS ? 2 * i : i,
                 b = m->t.style == LAC_ROPE_PAIRS ? a + 1 : i + DIM / 2;
        double angle = pos * pow(10000.0, -2.0 * i / DIM), u = x[a], v = x[b];
        x[a] = u * cos(angle) - v * sin(angle);
        x[b] = u * sin(angle) + v * cos(angle);
    }
}

static void d_attention(const model *m, uint32_t layer, uint32_t pos, const double *q,
                        const double (*k)[KV_HEADS * DIM], const double (*v)[KV_HEADS * DIM],
                        double *out)
{
    uint32_t window = m->t.window[layer], first = window && pos + 1 > window ? pos + 1 - window : 0;
    static double s[CONTEXT];
    for (uint32_t h = 0; h < HEADS; h++) {
        uint32_t g = h / (HEADS / KV_HEADS) * DIM;
        double top = -1e300, sum = 0.0;
        for (uint32_t t = first; t <= pos; t++) {
            s[t] = 0.0;
            for (uint32_t d = 0; d < DIM; d++)
                s[t] += q[h * DIM + d] * k[t][g + d];
            s[t] *= 0.25;
            if (m->t.softcap > 0)
                s[t] = m->t.softcap * tanh(s[t] / m->t.softcap);
            top = s[t] > top ? s[t] : top;
        }
        for (uint32_t t = first; t <= pos; t++)
            sum += s[t] = exp(s[t] - top);
        for (uint32_t d = 0; d < DIM; d++) {
            out[h * DIM + d] = 0.0;
            for (uint32_t t = first; t <= pos; t++)
                out[h * DIM + d] += s[t] / sum * v[t][g + d];
        }
    }
}

static void d_branch_add(const model *m, const matrix *w, const double *x, const float *post,
                         double *h)
{
    double y[HIDDEN], z[HIDDEN];
    d_product(w, x, NULL, y);
    if (m->t.post_norms)
        d_norm(y, post, HIDDEN, z);
    for (uint32_t i = 0; i < HIDDEN; i++)
        h[i] += m->t.post_norms ? z[i] : y[i];
}

static void d_patch(const model *m, uint32_t unit, double *h)
{
    double x[HIDDEN], inner[HIDDEN], y[HIDDEN];
    float ones[HIDDEN];
    for (uint32_t i = 0; i < HIDDEN; i++)
        ones[i] = 1;
    if (!m->up[unit].values)
        return;
    d_norm(h, ones, HIDDEN, x);
    if (m->down[unit].values)
        d_product(&m->down[unit], x, NULL, inner);
    d_product(&m->up[unit], m->down[unit].values ? inner : x, NULL, y);
    for (uint32_t i = 0; i < HIDDEN; i++)
        h[i] += y[i];
}

void model_truth(const model *m, const uint32_t *tokens, uint32_t n, uint32_t skip, double *logits)
{
    static double k[LAYERS][CONTEXT][KV_HEADS * DIM], v[LAYERS][CONTEXT][KV_HEADS * DIM];
    double h[HIDDEN], x[HIDDEN], q[HEADS * DIM], a[HEADS * DIM], gate[FFN], up[FFN];
    for (uint32_t pos = 0; pos < n; pos++) {
        for (uint32_t i = 0; i < HIDDEN; i++)
            h[i] = m->w[0].values[tokens[pos] * HIDDEN + i];
        for (uint32_t l = 0; l < LAYERS; l++) {
            const matrix *w = &m->w[1 + l * PER_LAYER];
            bool b = m->t.biases;
            if (!(skip >> 2 * l & 1)) {
                d_norm(h, w[0].values, HIDDEN, x);
                d_product(&w[1], x, b ? w[4].values : NULL, q);
                d_product(&w[2], x, b ? w[5].values : NULL, k[l][pos]);
                d_product(&w[3], x, b ? w[6].values : NULL, v[l][pos]);
                for (uint32_t i = 0; i < HEADS; i++)
                    d_head(m, q + i * DIM, m->t.head_norms ? w[7].values : NULL, pos);
                for (uint32_t i = 0; i < KV_HEADS; i++)
                    d_head(m, k[l][pos] + i * DIM, m->t.head_norms ? w[8].values : NULL, pos);
                d_attention(m, l, pos, q, k[l], v[l], a);
                d_branch_add(m, &w[9], a, w[10].values, h);
            } else {
                d_patch(m, 2 * l, h);
            }
            if (!(skip >> (2 * l + 1) & 1)) {
                d_norm(h, w[11].values, HIDDEN, x);
                d_product(&w[12], x, NULL, gate);
                d_product(&w[13], x, NULL, up);
                for (uint32_t i = 0; i < FFN; i++)
                    gate[i] =
                        up[i] *
                        (m->t.act == LAC_ACT_SILU
                             ? gate[i] / (1 + exp(-gate[i]))
                             : 0.5 * gate[i] *
                                   (1 + tanh(0.7978845608028654 *
                                             (gate[i] + 0.044715 * gate[i] * gate[i] * gate[i]))));
                d_branch_add(m, &w[14], gate, w[10].values, h);
            } else {
                d_patch(m, 2 * l + 1, h);
            }
        }
    }
    d_norm(h, m->w[WEIGHTS - 1].values, HIDDEN, x);
    d_product(&m->w[0], x, NULL, logits);
}

/* ---- backend ---- */

static lac_op *layer_ops(engine *e, const model *m, lac_op *op, uint32_t l)
{
    lac_weight **w = &e->w[1 + l * PER_LAYER];
    const traits *t = &m->t;
    lac_kv_view kv = {.region = e->kv[l], .page_bytes = e->page_bytes, .table = l};
    lac_rope rope = {
        .style = t->style, .dims = DIM, .base = 10000.0f, .scale = 1.0f, .magnitude = 1.0f};
    *op++ = (lac_op){.kind = LAC_OP_QKV,
                     .unit = 2 * l,
                     .u.qkv = {.norm = w[0],
                               .eps = 1e-5f,
                               .q = w[1],
                               .k = w[2],
                               .v = w[3],
                               .q_bias = t->biases ? w[4] : NULL,
                               .k_bias = t->biases ? w[5] : NULL,
                               .v_bias = t->biases ? w[6] : NULL,
                               .q_norm = t->head_norms ? w[7] : NULL,
                               .k_norm = t->head_norms ? w[8] : NULL,
                               .heads = HEADS,
                               .kv_heads = KV_HEADS,
                               .head_dim = DIM,
                               .rope = rope,
                               .kv = kv}};
    *op++ = (lac_op){.kind = LAC_OP_ATTENTION,
                     .unit = 2 * l,
                     .u.attention = {.heads = HEADS,
                                     .kv_heads = KV_HEADS,
                                     .head_dim = DIM,
                                     .scale = 0.25f,
                                     .softcap = t->softcap,
                                     .window = t->window[l],
                                     .kv = kv}};
    *op++ = (lac_op){
        .kind = LAC_OP_PROJECT,
        .unit = 2 * l,
        .u.project = {.weight = w[9], .post_norm = t->post_norms ? w[10] : NULL, .eps = 1e-5f}};
    *op++ = (lac_op){
        .kind = LAC_OP_GATE_UP,
        .unit = 2 * l + 1,
        .u.gate_up = {.norm = w[11], .eps = 1e-5f, .gate = w[12], .up = w[13], .act = t->act}};
    *op++ = (lac_op){
        .kind = LAC_OP_PROJECT,
        .unit = 2 * l + 1,
        .u.project = {.weight = w[14], .post_norm = t->post_norms ? w[10] : NULL, .eps = 1e-5f}};
    return op;
}

void engine_open(engine *e, const model *m, lac_isa isa, uint32_t threads, lac_kv_type kv)
{
    engine_open_on(lac_cpu_backend(), e, m, isa, threads, kv);
}

void engine_open_on(const lac_backend_ops *api, engine *e, const model *m, lac_isa isa,
                    uint32_t threads, lac_kv_type kv)
{
    lac_error err = {0};
    lac_backend_options options = {.isa = isa,
                                   .threads = threads,
                                   .kv_type = kv,
                                   .rows_max = 128,
                                   .logit_rows_max = 64,
                                   .hidden = HIDDEN,
                                   .q_width_max = HEADS * DIM,
                                   .kv_width_max = KV_HEADS * DIM,
                                   .ffn_max = FFN,
                                   .vocab = VOCAB,
                                   .context_max = CONTEXT};
    *e = (engine){.api = api, .pages = 4 * CONTEXT / LAC_KV_BLOCK};
    ck_assert_msg(e->api->create(&options, &e->be, &err) == LAC_OK, "%s", err.text);
    for (uint32_t i = 0; i < WEIGHTS; i++)
        ck_assert_msg(e->api->weight_pack(e->be, m->w[i].type, m->w[i].rows, m->w[i].cols,
                                          m->w[i].bytes, &e->w[i], &err) == LAC_OK,
                      "%s", err.text);
    e->page_bytes = e->api->kv_page_bytes(e->be, KV_HEADS, DIM);
    lac_op *op = e->ops;
    *op++ = (lac_op){.kind = LAC_OP_EMBED, .u.embed = {.table = e->w[0], .scale = 1.0f}};
    for (uint32_t l = 0; l < LAYERS; l++) {
        ck_assert(e->api->kv_alloc(e->be, e->pages * e->page_bytes, &e->kv[l], &err) == LAC_OK);
        op = layer_ops(e, m, op, l);
    }
    *op++ = (lac_op){.kind = LAC_OP_HEAD,
                     .u.head = {.norm = e->w[WEIGHTS - 1], .eps = 1e-5f, .weight = e->w[0]}};
    e->ops_count = (size_t)(op - e->ops);
    engine_poison(e);
}

void engine_patch(engine *e, const model *m, uint32_t unit, uint32_t list)
{
    lac_weight *packed[2] = {NULL, NULL};
    const matrix *from[2] = {&m->down[unit], &m->up[unit]};
    for (int i = 0; i < 2; i++)
        if (from[i]->values) {
            ck_assert_int_eq(e->api->weight_pack(e->be, LAC_TYPE_F16, from[i]->rows, from[i]->cols,
                                                 from[i]->bytes, &packed[i], NULL),
                             LAC_OK);
            e->patches[e->patches_count++] = packed[i];
        }
    size_t at = 1; /* behind the embedding */
    for (size_t i = 1; i < e->ops_count; i++)
        if (e->ops[i].kind != LAC_OP_HEAD && e->ops[i].kind != LAC_OP_PATCH &&
            e->ops[i].unit <= unit)
            at = i + 1;
    memmove(&e->ops[at + 1], &e->ops[at], (e->ops_count++ - at) * sizeof e->ops[0]);
    e->ops[at] = (lac_op){.kind = LAC_OP_PATCH,
                          .unit = list,
                          .u.linear = {.down = packed[0], .up = packed[1], .eps = 1e-5f}};
}

void engine_poison(engine *e)
{
    for (uint32_t l = 0; l < LAYERS; l++)
        memset(e->kv[l], 0xff, e->pages * e->page_bytes); /* NaN in both KV types */
}

void engine_close(engine *e)
{
    for (uint32_t l = 0; l < LAYERS; l++)
        e->api->kv_free(e->be, &e->kv[l], e->pages * e->page_bytes);
    for (uint32_t i = 0; i < WEIGHTS; i++)
        e->api->weight_free(e->be, &e->w[i]);
    for (uint32_t i = 0; i < e->patches_count; i++)
        e->api->weight_free(e->be, &e->patches[i]);
    e->api->destroy(&e->be);
}
