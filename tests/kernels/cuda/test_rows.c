/* Kernels over rows against the scalar reference: embedding of every type, norms in all forms, the
 * norm behind a branch, activation, quantising, copies of pages. */
#include <math.h>
#include <stdlib.h>

#include "cuda_suites.h"
#include "world.h"

static float *some(size_t n, uint64_t *state)
{
    float *x = world_floats(n);
    for (size_t i = 0; i < n; i++)
        x[i] = rnd_float(state) * (i % 41 == 0 ? 6.0f : 1.0f);
    return x;
}

START_TEST(embeds_every_type)
{
    enum { VOCAB = 43, ROWS = 5 };
    lac_type type = types_all[_i];
    static const uint32_t widths[] = {64, 576, 256, 768};
    for (size_t c = 0; c < 4; c++) {
        uint32_t cols = widths[c];
        if (lac__group_bytes(type, cols) == 0)
            continue;
        world w;
        world_matrix m;
        uint64_t state = cols;
        world_make(&w, ROWS, 1);
        world_matrix_make(&m, type, VOCAB, cols, &state);
        float *h = world_floats(ROWS * cols);
        for (uint32_t i = 0; i < ROWS; i++)
            w.tokens[i] = (i * 29 + 13) % VOCAB;
        lac__embed_args a = {w.step, m.data, (uint32_t)type, cols, m.group_bytes, 2.0f, h};
        world_launch("lac_embed", ROWS + 2, 1, 1, LAC__ROW_THREADS, 0, c, &a);
        for (uint32_t i = 0; i < ROWS; i++)
            for (uint32_t k = 0; k < cols; k++)
                ck_assert_msg(fabsf(h[i * cols + k] -
                                    2.0f * m.dense[(size_t)w.tokens[i] * cols + k]) <= 1e-6f,
                              "type %d token %u column %u: %g for %g", (int)type, w.tokens[i], k,
                              (double)h[i * cols + k],
                              2.0 * (double)m.dense[(size_t)w.tokens[i] * cols + k]);
        world_free();
    }
}
END_TEST

/* Values in a panel within a step of what they should be. */
static void compare(const lac__cuda_panel *to, uint32_t row, uint32_t cols, const float *want)
{
    for (uint32_t k = 0; k < cols; k++) {
        size_t at = (size_t)row * cols + k;
        if (to->f)
            ck_assert_msg(fabs((double)to->f[at] - want[k]) <= 2e-6 * (fabs((double)want[k]) + 1),
                          "row %u column %u: %g for %g", row, k, (double)to->f[at],
                          (double)want[k]);
        if (!to->q)
            continue;
        const float *s = to->s + at / 32 * 4;
        double sum[2] = {0, 0};
        for (uint32_t i = 0; i < 32; i++)
            sum[i / 16] += to->q[at / 32 * 32 + i];
        ck_assert(fabs((double)s[0] * to->q[at] - want[k]) <= s[0] * 0.501 + 1e-9);
        ck_assert(fabs(s[1] - s[0] * (sum[0] + sum[1])) <= 1e-4 * s[0]);
        ck_assert(fabs(s[2] - s[0] * sum[0]) <= 1e-4 * s[0]);
        ck_assert(fabs(s[3] - s[0] * sum[1]) <= 1e-4 * s[0]);
    }
}

START_TEST(norms)
{
    static const uint32_t widths[] = {32, 576, 640, 896, 2048};
    for (size_t c = 0; c < 5; c++)
        for (uint32_t form = 1; form < 4; form++) {
            world w;
            uint32_t cols = widths[c];
            uint64_t state = cols + form;
            world_make(&w, 7, 2);
            uint32_t count = world_list(&w, 1, 2, 2);
            float *h = some(7 * cols, &state), *weight = some(cols, &state);
            float *want = world_floats(cols), *ones = world_floats(cols);
            for (uint32_t k = 0; k < cols; k++)
                ones[k] = 1.0f;
            lac__rows_args a = {.step = w.step,
                                .list = 1,
                                .cols = cols,
                                .h = h,
                                .weight = form == 3 ? NULL : weight,
                                .eps = 1e-5f};
            world_panel(&a.to, count, cols, form & 1, form & 2);
            world_launch("lac_norm", 7, 1, 1, LAC__ROW_THREADS, 0, c, &a);
            ck_assert_uint_eq(*w.odd, 0);
            for (uint32_t i = 0; i < count; i++) {
                lac__kernels_scalar.norm(h + (size_t)world_row(&w, 1, i) * cols,
                                         a.weight ? weight : ones, cols, 1e-5f, want);
                compare(&a.to, i, cols, want);
            }
            h[3 * cols] = NAN; /* a row outside the list */
            world_launch("lac_norm", 7, 1, 1, LAC__ROW_THREADS, 0, c, &a);
            ck_assert_uint_eq(*w.odd, 0);
            h[4 * cols + 5] = NAN;
            world_launch("lac_norm", 7, 1, 1, LAC__ROW_THREADS, 0, c, &a);
            ck_assert_uint_eq(*w.odd, 1);
            world_free();
        }
}
END_TEST

START_TEST(norm_behind_a_branch)
{
    world w;
    uint32_t cols = 640;
    uint64_t state = 9;
    world_make(&w, 6, 2);
    uint32_t count = world_list(&w, 1, 1, 3);
    float *h = some(6 * cols, &state), *in = some(count * cols, &state);
    float *weight = some(cols, &state), *want = world_floats(cols);
    float *before = world_floats(6 * cols);
    memcpy(before, h, 6 * cols * 4);
    lac__rows_args a = {.step = w.step,
                        .list = 1,
                        .cols = cols,
                        .h = h,
                        .in = in,
                        .stride = cols,
                        .weight = weight,
                        .eps = 1e-5f};
    world_launch("lac_post_norm", 6, 1, 1, LAC__ROW_THREADS, 0, 3, &a);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t row = world_row(&w, 1, i);
        lac__kernels_scalar.norm(in + i * cols, weight, cols, 1e-5f, want);
        for (uint32_t k = 0; k < cols; k++) {
            before[row * cols + k] += want[k];
            ck_assert(fabsf(h[row * cols + k] - before[row * cols + k]) <= 1e-5f);
            h[row * cols + k] = before[row * cols + k];
        }
    }
    ck_assert_mem_eq(h, before, 6 * cols * 4);
    world_free();
}
END_TEST

START_TEST(activations_and_quantising)
{
    static const uint32_t widths[] = {32, 96, 1536, 43};
    for (size_t c = 0; c < 4; c++)
        for (uint32_t gelu = 0; gelu < 2; gelu++) {
            world w;
            uint32_t cols = widths[c], stride = 2 * cols + 1;
            uint64_t state = cols + gelu;
            world_make(&w, 3, 1);
            float *in = some(3 * stride, &state), *want = world_floats(cols);
            lac__rows_args a = {
                .step = w.step, .cols = cols, .in = in, .stride = stride, .gelu = gelu};
            world_panel(&a.to, 3, cols, cols % 32 == 0, true);
            world_launch("lac_act", 4, 1, 1, LAC__ROW_THREADS, 0, c, &a);
            for (uint32_t i = 0; i < 3; i++) {
                lac__kernels_scalar.act(gelu ? LAC_ACT_GELU_TANH : LAC_ACT_SILU, in + i * stride,
                                        in + i * stride + cols, cols, want);
                compare(&a.to, i, cols, want);
            }
            if (cols % 32 == 0) {
                world_panel(&a.to, 3, cols, true, false);
                world_launch("lac_quantise", 4, 1, 1, LAC__ROW_THREADS, 0, c, &a);
                for (uint32_t i = 0; i < 3; i++)
                    compare(&a.to, i, cols, in + i * stride);
            }
            world_free();
        }
}
END_TEST

/* Zeros and tiny values quantise to zero; what is not finite stays visible. */
START_TEST(quantising_odd_blocks)
{
    world w;
    world_make(&w, 1, 1);
    float *in = world_floats(128);
    for (uint32_t k = 0; k < 128; k++)
        in[k] = k < 32   ? 0.0f
                : k < 64 ? 1e-32f
                : k < 96 ? (k == 70 ? NAN : 1.0f)
                         : 127.0f - (float)k;
    lac__rows_args a = {.step = w.step, .cols = 128, .in = in, .stride = 128};
    world_panel(&a.to, 1, 128, true, false);
    world_launch("lac_quantise", 1, 1, 1, LAC__ROW_THREADS, 0, 1, &a);
    for (uint32_t k = 0; k < 96; k++)
        ck_assert_int_eq(a.to.q[k], 0);
    ck_assert(a.to.s[0] == 0.0f && a.to.s[4] == 0.0f && isnan(a.to.s[8]));
    ck_assert_int_eq(a.to.q[96], 127);
    ck_assert_int_eq(a.to.q[127], 0);
    world_free();
}
END_TEST

START_TEST(pages_are_copied_whole)
{
    enum { PAGES = 9, BYTES = 1536 };
    uint8_t *region = world_room(PAGES * BYTES), *want = world_room(PAGES * BYTES);
    for (uint32_t i = 0; i < PAGES * BYTES; i++)
        region[i] = (uint8_t)(i * 7 + i / BYTES);
    memcpy(want, region, PAGES * BYTES);
    static const uint32_t pairs[] = {0, 5, 2, 7, 3, 8};
    uint32_t *given = world_room(sizeof pairs);
    memcpy(given, pairs, sizeof pairs);
    for (uint32_t i = 0; i < 3; i++)
        memcpy(want + pairs[2 * i + 1] * BYTES, want + pairs[2 * i] * BYTES, BYTES);
    lac__copy_args a = {region, BYTES, given, 3};
    world_launch("lac_copy_pages", 2, 1, 1, LAC__ROW_THREADS, 0, 2, &a);
    ck_assert_mem_eq(region, want, PAGES * BYTES);
    world_free();
}
END_TEST

Suite *suite_rows_cuda(void)
{
    Suite *s = suite_create("rows");
    TCase *t = tcase_create("rows");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, embeds_every_type, 0, TYPES_ALL);
    tcase_add_test(t, norms);
    tcase_add_test(t, norm_behind_a_branch);
    tcase_add_test(t, activations_and_quantising);
    tcase_add_test(t, quantising_odd_blocks);
    tcase_add_test(t, pages_are_copied_whole);
    suite_add_tcase(s, t);
    return s;
}
