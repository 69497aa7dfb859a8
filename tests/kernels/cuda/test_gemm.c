/* Products on the tensor cores, every quantised type, against the scalar reference: column counts
 * around the tile, row counts that end inside a group and inside a block, parts, residuals. */
#include <math.h>
#include <stdio.h>

#include "cuda_suites.h"
#include "world.h"

static void check(lac_type type, uint32_t rows, uint32_t cols, uint32_t columns, bool residual,
                  uint64_t seed)
{
    char name[64];
    world w;
    world_matrix m[2];
    uint64_t state = rows + cols + columns + (uint64_t)type;
    uint32_t stride = rows + rows / 2 + 1, short_rows = rows / 2 + 1;
    world_make(&w, 2 * columns, 2);
    world_list(&w, 1, 0, 2);
    world_matrix_make(&m[0], type, rows, cols, &state);
    world_matrix_make(&m[1], type, short_rows, cols, &state);
    float *x = world_floats((size_t)columns * cols), *truth = world_floats(rows);
    float *out = world_floats((size_t)2 * columns * stride), *bias = world_floats(rows);
    for (size_t i = 0; i < (size_t)columns * cols; i++)
        x[i] = rnd_float(&state);
    for (size_t i = 0; i < (size_t)2 * columns * stride; i++)
        out[i] = residual ? 1.0f : NAN;
    for (uint32_t i = 0; i < rows; i++)
        bias[i] = (float)i / 8;
    lac__product_args a = {
        .step = w.step,
        .list = 1,
        .cols = cols,
        .group_bytes = m[0].group_bytes,
        .parts = 2,
        .part = {{m[0].data, rows, m[0].groups, 0}, {m[1].data, short_rows, m[1].groups, rows}},
        .epilogue = residual ? LAC__EPILOGUE_RESIDUAL : LAC__EPILOGUE_STORE,
        .out = out,
        .stride = stride,
        .bias = residual ? bias : NULL};
    world_panel(&a.x, columns, cols, true, false);
    world_panel_fill(&a.x, columns, cols, x);
    snprintf(name, sizeof name, "lac_gemm_%s", world_type_name(type));
    world_launch(name, (rows + 63) / 64, (columns + 63) / 64 + 1, 2, LAC__GEMM_THREADS, 0, seed,
                 &a);
    for (uint32_t i = 0; i < columns; i++)
        for (uint32_t p = 0; p < 2; p++) {
            world_product(&m[p], x + (size_t)i * cols, truth);
            for (uint32_t r = 0; r < m[p].rows; r++) {
                size_t at = (size_t)(residual ? world_row(&w, 1, i) : i) * stride + p * rows + r;
                double want = truth[r] + (residual ? 1.0f + bias[r] : 0.0f);
                ck_assert_msg(fabs(out[at] - want) <=
                                  2e-6 * (world_size(&m[p], r, x + (size_t)i * cols) + fabs(want)),
                              "%s %ux%u, column %u of %u, part %u row %u: %g for %g", name, rows,
                              cols, i, columns, p, r, (double)out[at], want);
                out[at] = residual ? 1.0f : NAN;
            }
        }
    for (size_t i = 0; i < (size_t)2 * columns * stride; i++)
        ck_assert_msg(residual ? out[i] == 1.0f : isnan(out[i]), "%s wrote elsewhere", name);
    world_free();
}

START_TEST(every_type_and_shape)
{
    lac_type type = types_all[_i];
    if (!lac__type_quantised(type))
        return;
    static const uint32_t cols[] = {32, 576, 640, 896, 256, 512};
    uint64_t seed = 0;
    for (size_t c = 0; c < 6; c++) {
        if (lac__group_bytes(type, cols[c]) == 0)
            continue;
        check(type, 64, cols[c], 9, false, seed++);
        check(type, 77, cols[c], 17, true, seed++);
    }
    check(type, 130, 256, 64, false, 5);
    check(type, 20, 256, 67, true, 6);
}
END_TEST

Suite *suite_gemm_cuda(void)
{
    Suite *s = suite_create("gemm");
    TCase *t = tcase_create("gemm");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, every_type_and_shape, 0, TYPES_ALL);
    suite_add_tcase(s, t);
    return s;
}
