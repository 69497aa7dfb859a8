/* Routed experts over a program of embedding, two expert FFNs and a head: against float64, and
 * between instruction sets, thread counts, batches and row lists bit for bit. */
#include <math.h>
#include <stdlib.h>

#include "suites.h"

enum { HIDDEN = 96, FFN = 160, VOCAB = 67, EXPERTS = 37, LAYERS = 2, ROWS = 150 };

typedef struct {
    lac_type type, router;
    uint32_t used;
    bool normalise;
    float scale;
    lac_activation act;
} traits;

static const traits kinds[] = {
    {LAC_TYPE_F32, LAC_TYPE_F32, 3, true, 1.0f, LAC_ACT_SILU},
    {LAC_TYPE_Q4_1, LAC_TYPE_F32, 4, true, 1.0f, LAC_ACT_SILU},
    {LAC_TYPE_Q8_0, LAC_TYPE_Q8_0, 1, false, 2.5f, LAC_ACT_GELU_TANH},
    {LAC_TYPE_F16, LAC_TYPE_F32, EXPERTS, false, 1.0f, LAC_ACT_SILU},
};
enum { KINDS = 4 };

typedef struct {
    uint32_t rows, cols;
    lac_type type;
    uint8_t *bytes;
    float *values;
} matrix;

/* A layer: norm, router, then gate, up, down of each expert. */
enum { PER_LAYER = 2 + 3 * EXPERTS, WEIGHTS = 2 + LAYERS * PER_LAYER };

typedef struct {
    traits t;
    matrix w[WEIGHTS]; /* embedding and head, last norm, layers */
} model;

static void matrix_make(matrix *m, lac_type type, uint32_t rows, uint32_t cols, float gain,
                        uint64_t *state)
{
    *m = (matrix){.rows = rows, .cols = cols, .type = type};
    size_t bytes = row_bytes(type, cols);
    m->bytes = malloc(rows * bytes);
    m->values = malloc((size_t)rows * cols * 4);
    for (uint32_t r = 0; r < rows; r++) {
        random_row(type, cols, m->bytes + r * bytes, state);
        for (uint32_t c = 0; type == LAC_TYPE_F32 && c < cols; c++) {
            float f = rows == 1 ? 0.6f + 0.4f * rnd_float(state) : gain * rnd_float(state);
            memcpy(m->bytes + r * bytes + c * 4, &f, 4);
        }
        lac__dequantise(type, m->bytes + r * bytes, cols, m->values + (size_t)r * cols);
    }
}

static void model_make(model *m, const traits *t)
{
    uint64_t state = 77;
    m->t = *t;
    matrix_make(&m->w[0], LAC_TYPE_F32, VOCAB, HIDDEN, 1.0f, &state);
    matrix_make(&m->w[1], LAC_TYPE_F32, 1, HIDDEN, 1.0f, &state);
    for (uint32_t l = 0; l < LAYERS; l++) {
        matrix *w = &m->w[2 + l * PER_LAYER];
        matrix_make(&w[0], LAC_TYPE_F32, 1, HIDDEN, 1.0f, &state);
        matrix_make(&w[1], t->router, EXPERTS, HIDDEN, 0.5f, &state);
        for (uint32_t e = 0; e < EXPERTS; e++) {
            matrix_make(&w[2 + 3 * e], t->type, FFN, HIDDEN, 0.2f, &state);
            matrix_make(&w[3 + 3 * e], t->type, FFN, HIDDEN, 0.2f, &state);
            matrix_make(&w[4 + 3 * e], t->type, HIDDEN, FFN, 0.2f, &state);
        }
    }
}

static void model_free(model *m)
{
    for (uint32_t i = 0; i < WEIGHTS; i++) {
        free(m->w[i].bytes);
        free(m->w[i].values);
    }
}

/* ---- float64 ---- */

static void d_norm(const double *x, const float *w, double *y)
{
    double sum = 0;
    for (uint32_t i = 0; i < HIDDEN; i++)
        sum += x[i] * x[i];
    for (uint32_t i = 0; i < HIDDEN; i++)
        y[i] = x[i] / sqrt(sum / HIDDEN + 1e-5) * w[i];
}

static void d_product(const matrix *w, const double *x, double *y)
{
    for (uint32_t r = 0; r < w->rows; r++) {
        y[r] = 0;
        for (uint32_t c = 0; c < w->cols; c++)
            y[r] += (double)w->values[(size_t)r * w->cols + c] * x[c];
    }
}

static double d_act(lac_activation act, double g)
{
    return act == LAC_ACT_SILU
               ? g / (1 + exp(-g))
               : 0.5 * g * (1 + tanh(0.7978845608028654 * (g + 0.044715 * g * g * g)));
}

static void d_experts(const model *m, const matrix *w, double *h)
{
    double n[HIDDEN], p[EXPERTS], gate[FFN], up[FFN], y[HIDDEN], sum[HIDDEN] = {0}, all = 0,
                                                                 part = 0;
    bool picked[EXPERTS] = {false};
    d_norm(h, w[0].values, n);
    d_product(&w[1], n, p);
    for (uint32_t e = 0; e < EXPERTS; e++)
        all += p[e] = exp(p[e]);
    for (uint32_t k = 0; k < m->t.used; k++) {
        uint32_t best = EXPERTS;
        for (uint32_t e = 0; e < EXPERTS; e++)
            if (!picked[e] && (best == EXPERTS || p[e] > p[best]))
                best = e;
        picked[best] = true;
        part += p[best];
    }
    for (uint32_t e = 0; e < EXPERTS; e++) {
        if (!picked[e])
            continue;
        d_product(&w[2 + 3 * e], n, gate);
        d_product(&w[3 + 3 * e], n, up);
        for (uint32_t i = 0; i < FFN; i++)
            gate[i] = d_act(m->t.act, gate[i]) * up[i];
        d_product(&w[4 + 3 * e], gate, y);
        for (uint32_t i = 0; i < HIDDEN; i++)
            sum[i] += y[i] * m->t.scale * p[e] / (m->t.normalise ? part : all);
    }
    for (uint32_t i = 0; i < HIDDEN; i++)
        h[i] += sum[i];
}

static void truth(const model *m, uint32_t token, double *logits)
{
    double h[HIDDEN], n[HIDDEN];
    for (uint32_t i = 0; i < HIDDEN; i++)
        h[i] = m->w[0].values[(size_t)token * HIDDEN + i];
    for (uint32_t l = 0; l < LAYERS; l++)
        d_experts(m, &m->w[2 + l * PER_LAYER], h);
    d_norm(h, m->w[1].values, n);
    d_product(&m->w[0], n, logits);
}

/* ---- backend ---- */

typedef struct {
    const lac_backend_ops *api;
    lac_backend *be;
    lac_weight *w[WEIGHTS];
    lac_expert_weights expert[LAYERS][EXPERTS];
    lac_op ops[LAYERS + 2];
} engine;

static void engine_open(engine *e, const model *m, lac_isa isa, uint32_t threads)
{
    lac_error err = {0};
    lac_backend_options options = {.isa = isa,
                                   .threads = threads,
                                   .rows_max = ROWS,
                                   .logit_rows_max = ROWS,
                                   .hidden = HIDDEN,
                                   .ffn_max = FFN,
                                   .vocab = VOCAB,
                                   .context_max = 1024};
    *e = (engine){.api = lac_cpu_backend()};
    ck_assert_msg(e->api->create(&options, &e->be, &err) == LAC_OK, "%s", err.text);
    for (uint32_t i = 0; i < WEIGHTS; i++)
        ck_assert_msg(e->api->weight_pack(e->be, m->w[i].type, m->w[i].rows, m->w[i].cols,
                                          m->w[i].bytes, &e->w[i], &err) == LAC_OK,
                      "%s", err.text);
    e->ops[0] = (lac_op){.kind = LAC_OP_EMBED, .u.embed = {.table = e->w[0], .scale = 1.0f}};
    for (uint32_t l = 0; l < LAYERS; l++) {
        lac_weight **w = &e->w[2 + l * PER_LAYER];
        for (uint32_t x = 0; x < EXPERTS; x++)
            e->expert[l][x] = (lac_expert_weights){w[2 + 3 * x], w[3 + 3 * x], w[4 + 3 * x]};
        e->ops[1 + l] = (lac_op){.kind = LAC_OP_EXPERTS,
                                 .unit = l,
                                 .u.experts = {.norm = w[0],
                                               .eps = 1e-5f,
                                               .router = w[1],
                                               .expert = e->expert[l],
                                               .count = EXPERTS,
                                               .used = m->t.used,
                                               .normalise = m->t.normalise,
                                               .scale = m->t.scale,
                                               .act = m->t.act}};
    }
    e->ops[1 + LAYERS] =
        (lac_op){.kind = LAC_OP_HEAD, .u.head = {.norm = e->w[1], .eps = 1e-5f, .weight = e->w[0]}};
}

static void engine_close(engine *e)
{
    for (uint32_t i = 0; i < WEIGHTS; i++)
        e->api->weight_free(e->be, &e->w[i]);
    e->api->destroy(&e->be);
}

static uint32_t token_at(uint32_t row)
{
    return (row * 29 + row / 7) % VOCAB;
}

/* Rows first … first+rows−1 of the text; every row's logits. */
static lac_status step(engine *e, uint32_t first, uint32_t rows, const lac_row_list *lists,
                       float (*logits)[VOCAB])
{
    uint32_t tokens[ROWS], pages[ROWS] = {0};
    lac_logit_row want[ROWS];
    lac_segment segment = {.rows = rows, .pos = first, .tables = pages, .table_stride = ROWS};
    for (uint32_t i = 0; i < rows; i++) {
        tokens[i] = token_at(first + i);
        want[i] = (lac_logit_row){.row = i, .logits = logits[first + i]};
    }
    lac_batch batch = {.rows = rows,
                       .tokens = tokens,
                       .segments_count = 1,
                       .segments = &segment,
                       .logit_rows_count = rows,
                       .logit_rows = want,
                       .unit_rows = lists};
    lac_error err = {0};
    return e->api->run(e->be, e->ops, LAYERS + 2, &batch, &err);
}

/* The worst difference to float64, as a share of the largest logit. */
static double worst_of(const model *m, float (*logits)[VOCAB], uint32_t rows)
{
    double worst = 0, size = 0;
    for (uint32_t i = 0; i < rows; i++) {
        double want[VOCAB];
        truth(m, token_at(i), want);
        for (uint32_t v = 0; v < VOCAB; v++) {
            worst = fmax(worst, fabs(want[v] - logits[i][v]));
            size = fmax(size, fabs(want[v]));
        }
    }
    return worst / size;
}

START_TEST(agrees_with_float64)
{
    static float logits[ROWS][VOCAB];
    static model m;
    engine e;
    model_make(&m, &kinds[_i]);
    engine_open(&e, &m, LAC_ISA_REFERENCE, 2);
    ck_assert_int_eq(step(&e, 0, 40, NULL, logits), LAC_OK);
    double worst = worst_of(&m, logits, 40);
    ck_assert_msg(worst < 2e-5, "reference: off by %g", worst);
    engine_close(&e);
    engine_open(&e, &m, LAC_ISA_SCALAR, 1);
    ck_assert_int_eq(step(&e, 0, 40, NULL, logits), LAC_OK);
    worst = worst_of(&m, logits, 40);
    /* Where weights are codes so are activations, and a row may then pick another of two equals. */
    ck_assert_msg(worst < (lac__type_quantised(m.t.type) ? 0.1 : 1e-4), "scalar: off by %g", worst);
    engine_close(&e);
    model_free(&m);
}
END_TEST

START_TEST(isa_threads_and_batches_do_not_matter)
{
    static const lac_isa isas[] = {LAC_ISA_SCALAR, LAC_ISA_AVX2, LAC_ISA_AVX512};
    static const uint32_t chunks[] = {ROWS, 1, 7, 16, 33};
    static float want[ROWS][VOCAB], got[ROWS][VOCAB];
    static model m;
    bool first = true;
    model_make(&m, &kinds[_i]);
    for (size_t i = 0; i < 3; i++)
        for (uint32_t threads = 1; threads <= 3 && lac_cpu_isa_have(isas[i]); threads++) {
            engine e;
            engine_open(&e, &m, isas[i], threads);
            for (size_t c = 0; c < (i == 0 && threads > 1 ? 1 : i == 0 ? 3 : 5); c++) {
                for (uint32_t at = 0; at < ROWS; at += chunks[c])
                    ck_assert_int_eq(
                        step(&e, at, chunks[c] < ROWS - at ? chunks[c] : ROWS - at, NULL, got),
                        LAC_OK);
                if (first)
                    memcpy(want, got, sizeof want);
                first = false;
                ck_assert_msg(memcmp(want, got, sizeof want) == 0,
                              "%s, %u threads, chunks of %u: other bits", lac_isa_name(isas[i]),
                              threads, chunks[c]);
            }
            engine_close(&e);
        }
    model_free(&m);
}
END_TEST

/* Rows of unit 0: odd ones; of unit 1: those below 9. Each row as if its model lacked the others.
 */
START_TEST(row_lists_leave_rows_out)
{
    static float mixed[ROWS][VOCAB], alone[ROWS][VOCAB];
    static model m;
    enum { N = 30 };
    uint32_t odd[N], low[N], odd_count = 0, low_count = 0;
    engine e;
    for (uint32_t i = 0; i < N; i++) {
        if (i % 2)
            odd[odd_count++] = i;
        if (i < 9)
            low[low_count++] = i;
    }
    lac_row_list lists[] = {{odd_count, odd}, {low_count, low}}, none = {0, NULL};
    model_make(&m, &kinds[1]);
    engine_open(&e, &m, lac_cpu_isa_best(), 2);
    ck_assert_int_eq(step(&e, 0, N, lists, mixed), LAC_OK);
    for (uint32_t keep = 0; keep < 4; keep++) {
        uint32_t all[N];
        for (uint32_t i = 0; i < N; i++)
            all[i] = i;
        lac_row_list some[] = {keep & 1 ? (lac_row_list){N, all} : none,
                               keep & 2 ? (lac_row_list){N, all} : none};
        ck_assert_int_eq(step(&e, 0, N, some, alone), LAC_OK);
        for (uint32_t i = 0; i < N; i++)
            if ((i % 2) + 2u * (i < 9) == keep)
                ck_assert_mem_eq(mixed[i], alone[i], sizeof mixed[i]);
    }
    engine_close(&e);
    model_free(&m);
}
END_TEST

/* Weights of an expert that no row picks are not read: they may be anything. */
START_TEST(experts_without_rows_are_not_touched)
{
    static float want[ROWS][VOCAB], got[ROWS][VOCAB];
    static model m;
    engine e;
    uint32_t changed = 0;
    model_make(&m, &kinds[0]);
    engine_open(&e, &m, lac_cpu_isa_best(), 2);
    ck_assert_int_eq(step(&e, 0, 1, NULL, want), LAC_OK);
    for (uint32_t x = 0; x < EXPERTS; x++) {
        lac_weight *gate = e.w[2 + 2 + 3 * x];
        uint8_t *kept = malloc(gate->bytes);
        memcpy(kept, gate->data, gate->bytes);
        memset(gate->data, 0xff, gate->bytes); /* NaN */
        lac_status status = step(&e, 0, 1, NULL, got);
        memcpy(gate->data, kept, gate->bytes);
        free(kept);
        changed += status != LAC_OK;
        if (status == LAC_OK)
            ck_assert_mem_eq(want[0], got[0], sizeof want[0]);
    }
    ck_assert_uint_eq(changed, m.t.used);
    engine_close(&e);
    model_free(&m);
}
END_TEST

START_TEST(what_is_not_finite_is_reported)
{
    static float logits[ROWS][VOCAB];
    static model m;
    engine e;
    float odd[] = {INFINITY, NAN};
    for (int i = 0; i < 2; i++) {
        model_make(&m, &kinds[0]);
        memcpy(m.w[2 + 1].bytes + 40, &odd[i], 4); /* of the router */
        engine_open(&e, &m, lac_cpu_isa_best(), 2);
        ck_assert_int_eq(step(&e, 0, 20, NULL, logits), LAC_EINTERNAL);
        engine_close(&e);
        model_free(&m);
    }
}
END_TEST

START_TEST(bad_shapes_are_refused)
{
    static float logits[ROWS][VOCAB];
    static model m;
    engine e;
    model_make(&m, &kinds[1]);
    engine_open(&e, &m, LAC_ISA_SCALAR, 1);
    lac_op good = e.ops[1];
    lac_expert_weights kept = e.expert[0][3];
    for (int i = 0; i < 7; i++) {
        e.ops[1] = good;
        e.expert[0][3] = kept;
        switch (i) {
        case 0: e.ops[1].u.experts.used = EXPERTS + 1; break;
        case 1: e.ops[1].u.experts.used = 0; break;
        case 2: e.ops[1].u.experts.count = EXPERTS - 1; break;
        case 3: e.ops[1].u.experts.router = e.w[1]; break;
        case 4: e.ops[1].u.experts.norm = NULL; break;
        case 5: e.expert[0][3].down = e.expert[0][3].up; break;
        case 6: e.expert[0][3].gate = NULL; break;
        }
        ck_assert_msg(step(&e, 0, 2, NULL, logits) == LAC_EINVAL, "case %d", i);
    }
    e.expert[0][3] = kept;
    e.ops[1] = good;
    ck_assert_int_eq(step(&e, 0, 2, NULL, logits), LAC_OK);
    engine_close(&e);
    model_free(&m);
}
END_TEST

START_TEST(softmax_agrees)
{
    static const uint32_t widths[] = {1, 2, 15, 16, 17, 128, 333};
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
        uint32_t n = widths[w];
        uint64_t state = n;
        float x[400], want[400], got[400];
        double top = -1e9, sum = 0;
        for (uint32_t i = 0; i < 400; i++)
            x[i] = i < n ? 30 * rnd_float(&state) : 77.0f;
        for (uint32_t i = 0; i < n; i++)
            top = fmax(top, x[i]);
        for (uint32_t i = 0; i < n; i++)
            sum += exp(x[i] - top);
        memcpy(want, x, sizeof x);
        lac__kernels_scalar.softmax(want, n);
        for (uint32_t i = 0; i < n; i++) {
            double p = exp(x[i] - top) / sum;
            ck_assert_msg(fabs(want[i] - p) <= 1e-5 * p, "%u of %u", i, n);
        }
        ck_assert(want[n] == 77.0f);
        for (const lac__kernels *const *k = kernels_fast(); *k; k++) {
            memcpy(got, x, sizeof x);
            (*k)->softmax(got, n);
            ck_assert_mem_eq(want, got, sizeof want);
        }
    }
}
END_TEST

Suite *suite_experts(void)
{
    Suite *s = suite_create("experts");
    TCase *t = tcase_create("experts");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, agrees_with_float64, 0, KINDS);
    tcase_add_loop_test(t, isa_threads_and_batches_do_not_matter, 0, KINDS);
    tcase_add_test(t, row_lists_leave_rows_out);
    tcase_add_test(t, experts_without_rows_are_not_touched);
    tcase_add_test(t, what_is_not_finite_is_reported);
    tcase_add_test(t, bad_shapes_are_refused);
    tcase_add_test(t, softmax_agrees);
    suite_add_tcase(s, t);
    return s;
}
