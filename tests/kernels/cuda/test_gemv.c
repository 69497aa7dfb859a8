/* Products with up to eight columns, every type, against the scalar reference: rows of odd lengths,
 * row counts that end inside a group, row lists with gaps, matrices side by side, norms in front,
 * residuals and activations behind, every order of threads. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cuda_suites.h"
#include "world.h"

typedef struct {
    uint32_t rows, cols, columns, room; /* `room`: columns the kernel is made for */
    uint32_t warps, blocks;
    bool prologue, residual;
} shape;

static uint32_t shared_bytes(lac_type type, const shape *s)
{
    if (!s->prologue)
        return 0;
    return lac__type_quantised(type) ? s->room * s->cols / 2 * 3 : s->room * s->cols * 4;
}

static void name_of(char *name, size_t size, lac_type type, uint32_t room)
{
    snprintf(name, size, "lac_gemv_%s_%u", world_type_name(type), room);
}

static float *random_floats(size_t n, uint64_t *state)
{
    float *x = world_floats(n);
    for (size_t i = 0; i < n; i++)
        x[i] = rnd_float(state) * (i % 37 == 0 ? 4.0f : 1.0f);
    return x;
}

/* What a code that rounds the other way may change: norms are summed in another order. */
static double flip(const world_matrix *m, const float *x)
{
    double w = 0, top = 0;
    for (size_t i = 0; i < (size_t)m->rows * m->cols; i++)
        w = fabs((double)m->dense[i]) > w ? fabs((double)m->dense[i]) : w;
    for (uint32_t k = 0; k < m->cols; k++)
        top = fabs((double)x[k]) > top ? fabs((double)x[k]) : top;
    return lac__type_quantised(m->type) ? 2 * w * top / 127 : 0;
}

static void inputs(const world *w, const shape *s, const float *h, const float *norm, float *x)
{
    for (uint32_t i = 0; i < s->columns; i++) {
        const float *row = h + (size_t)world_row(w, 1, i) * s->cols;
        if (s->prologue)
            lac__kernels_scalar.norm(row, norm, s->cols, 1e-5f, x + (size_t)i * s->cols);
        else
            memcpy(x + (size_t)i * s->cols, row, s->cols * 4);
    }
}

/* Two matrices side by side, stored or added to the rows that the list names. */
static void check(lac_type type, const shape *s, uint64_t seed)
{
    char name[64];
    world w;
    world_matrix m[2];
    uint64_t state = s->rows * 31 + s->cols + s->columns * 7 + (uint64_t)type;
    uint32_t batch = s->columns * 2, stride = 2 * s->rows + 3;
    world_make(&w, batch, 2);
    ck_assert_uint_eq(world_list(&w, 1, 1, 2), s->columns);
    world_matrix_make(&m[0], type, s->rows, s->cols, &state);
    world_matrix_make(&m[1], type, s->rows, s->cols, &state);
    float *h = random_floats((size_t)batch * s->cols, &state);
    float *norm = random_floats(s->cols, &state), *bias = random_floats(s->rows, &state);
    float *x = world_floats((size_t)s->columns * s->cols), *truth = world_floats(s->rows);
    float *out = random_floats((size_t)batch * stride, &state);
    float *before = world_floats((size_t)batch * stride);
    memcpy(before, out, (size_t)batch * stride * 4);
    inputs(&w, s, h, norm, x);
    lac__product_args a = {.step = w.step,
                           .list = 1,
                           .cols = s->cols,
                           .group_bytes = m[0].group_bytes,
                           .parts = 2,
                           .part = {{m[0].data, s->rows, m[0].groups, 1},
                                    {m[1].data, s->rows, m[1].groups, s->rows + 2}},
                           .warps_a_group = s->warps,
                           .h = h,
                           .norm = norm,
                           .eps = 1e-5f,
                           .prologue = s->prologue,
                           .epilogue = s->residual ? LAC__EPILOGUE_RESIDUAL : LAC__EPILOGUE_STORE,
                           .out = out,
                           .stride = stride,
                           .bias = s->residual ? bias : NULL};
    world_panel(&a.x, s->columns, s->cols, lac__type_quantised(type), !lac__type_quantised(type));
    world_panel_fill(&a.x, s->columns, s->cols, x);
    if (s->prologue)
        a.x = (lac__cuda_panel){0};
    name_of(name, sizeof name, type, s->room);
    world_launch(name, s->blocks, (s->columns + s->room - 1) / s->room + 1, 1, LAC__GEMV_THREADS,
                 shared_bytes(type, s), seed, &a);
    ck_assert_uint_eq(*w.odd, 0);
    for (uint32_t i = 0; i < s->columns; i++) {
        uint32_t to = s->residual ? world_row(&w, 1, i) : i;
        for (uint32_t p = 0; p < 2; p++) {
            const float *column = x + (size_t)i * s->cols;
            double loose = s->prologue ? flip(&m[p], column) : 0;
            world_product(&m[p], column, truth);
            for (uint32_t r = 0; r < s->rows; r++) {
                size_t at = (size_t)to * stride + 1 + p * (s->rows + 1) + r;
                double want = truth[r] + (s->residual ? before[at] + bias[r] : 0.0f);
                double limit = 3e-6 * (world_size(&m[p], r, column) + 8) + loose;
                ck_assert_msg(fabs(out[at] - want) <= limit,
                              "%s %ux%u, column %u of %u, row %u: %g for %g", name, s->rows,
                              s->cols, i, s->columns, r, (double)out[at], want);
                before[at] = out[at];
            }
        }
    }
    ck_assert_msg(memcmp(before, out, (size_t)batch * stride * 4) == 0, "%s wrote elsewhere", name);
    world_free();
}

START_TEST(every_type_and_shape)
{
    static const uint32_t cols[] = {32, 64, 256, 576, 640, 896, 1536};
    static const shape shapes[] = {
        {8, 0, 1, 1, 1, 1, false, false},  {21, 0, 1, 1, 8, 3, true, true},
        {40, 0, 2, 2, 2, 2, false, true},  {9, 0, 3, 4, 4, 1, true, false},
        {17, 0, 5, 8, 1, 2, false, false}, {24, 0, 8, 8, 8, 5, true, true},
        {13, 0, 11, 8, 2, 1, false, true}, {16, 0, 4, 4, 1, 1, true, true},
    };
    lac_type type = types_all[_i];
    uint64_t seed = 0;
    for (size_t c = 0; c < 7; c++)
        for (size_t i = 0; i < 8; i++) {
            shape s = shapes[i];
            s.cols = cols[c];
            if (lac__group_bytes(type, s.cols) == 0 || (c + i) % 3 != 0)
                continue;
            check(type, &s, seed++);
        }
}
END_TEST

/* Lengths that only float types have: a last chunk that is not full. */
START_TEST(float_rows_of_any_length)
{
    static const lac_type types[] = {LAC_TYPE_F32, LAC_TYPE_F16, LAC_TYPE_BF16};
    static const uint32_t cols[] = {2, 7, 13, 30, 100};
    for (size_t t = 0; t < 3; t++)
        for (size_t c = 0; c < 5; c++)
            for (uint32_t residual = 0; residual < 2; residual++) {
                shape s = {11, cols[c], 3, 4, 2, 1, c % 2 == 0, residual};
                check(types[t], &s, c);
            }
}
END_TEST

/* Gate and up with the activation, into the next product's input. */
static void check_act(lac_type type, uint32_t ffn, uint32_t cols, uint32_t columns, uint32_t room,
                      bool quant, bool gelu, uint64_t seed)
{
    char name[64];
    world w;
    world_matrix gate, up;
    uint64_t state = ffn + cols * 3 + columns + (uint64_t)type;
    world_make(&w, columns, 1);
    world_matrix_make(&gate, type, ffn, cols, &state);
    world_matrix_make(&up, type, ffn, cols, &state);
    float *x = random_floats((size_t)columns * cols, &state), *g = world_floats(ffn);
    float *u = world_floats(ffn), *y = world_floats(ffn);
    lac__product_args a = {.step = w.step,
                           .cols = cols,
                           .group_bytes = gate.group_bytes,
                           .parts = 2,
                           .part = {{gate.data, ffn, gate.groups, 0}, {up.data, ffn, up.groups, 0}},
                           .warps_a_group = 1,
                           .epilogue = LAC__EPILOGUE_ACT,
                           .gelu = gelu};
    world_panel(&a.x, columns, cols, lac__type_quantised(type), !lac__type_quantised(type));
    world_panel_fill(&a.x, columns, cols, x);
    world_panel(&a.inner, columns, ffn, quant, true);
    name_of(name, sizeof name, type, room);
    world_launch(name, 2, (columns + room - 1) / room, 1, LAC__GEMV_THREADS, 0, seed, &a);
    for (uint32_t i = 0; i < columns; i++) {
        world_product(&gate, x + (size_t)i * cols, g);
        world_product(&up, x + (size_t)i * cols, u);
        lac__kernels_scalar.act(gelu ? LAC_ACT_GELU_TANH : LAC_ACT_SILU, g, u, ffn, y);
        for (uint32_t r = 0; r < ffn; r++) {
            double got = a.inner.f[(size_t)i * ffn + r];
            double limit = 1e-5 * (fabs((double)y[r]) + fabs((double)u[r]) + 1);
            ck_assert_msg(fabs(got - y[r]) <= limit, "%s ffn %u column %u row %u: %g for %g", name,
                          ffn, i, r, got, (double)y[r]);
            if (!quant)
                continue;
            float d = a.inner.s[((size_t)i * (ffn / 32) + r / 32) * 4];
            double back = (double)d * a.inner.q[(size_t)i * ffn + r];
            ck_assert_msg(fabs(back - got) <= d * 0.5001 + 1e-9, "%s: %g quantised as %g", name,
                          got, back);
        }
    }
    world_free();
}

START_TEST(gate_and_up)
{
    lac_type type = types_all[_i];
    check_act(type, 64, 256, 1, 1, true, false, 2);
    check_act(type, 96, 256, 5, 8, true, true, 3);
    check_act(type, 96, 512, 3, 2, true, false, 0);
    check_act(type, 43, 256, 2, 2, false, false, 4);
}
END_TEST

/* Infinity in the stream is reported, and every other row is as without it. */
START_TEST(not_finite_is_seen)
{
    world w;
    world_matrix m;
    uint64_t state = 5;
    world_make(&w, 2, 1);
    world_matrix_make(&m, LAC_TYPE_Q8_0, 8, 64, &state);
    float *h = random_floats(128, &state), *out = world_floats(16);
    lac__product_args a = {.step = w.step,
                           .cols = 64,
                           .group_bytes = m.group_bytes,
                           .parts = 1,
                           .part = {{m.data, 8, 1, 0}},
                           .warps_a_group = 1,
                           .h = h,
                           .eps = 1e-5f,
                           .prologue = 1,
                           .out = out,
                           .stride = 8};
    world_launch("lac_gemv_q8_0_2", 1, 1, 1, LAC__GEMV_THREADS, 2 * 96, 7, &a);
    ck_assert_uint_eq(*w.odd, 0);
    float good = out[3];
    h[64 + 11] = INFINITY;
    world_launch("lac_gemv_q8_0_2", 1, 1, 1, LAC__GEMV_THREADS, 2 * 96, 7, &a);
    ck_assert_uint_eq(*w.odd, 1);
    ck_assert(out[3] == good);
    world_free();
}
END_TEST

Suite *suite_gemv(void)
{
    Suite *s = suite_create("gemv");
    TCase *t = tcase_create("gemv");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, every_type_and_shape, 0, TYPES_ALL);
    tcase_add_test(t, float_rows_of_any_length);
    tcase_add_loop_test(t, gate_and_up, 0, TYPES_ALL);
    tcase_add_test(t, not_finite_is_seen);
    suite_add_tcase(s, t);
    return s;
}
