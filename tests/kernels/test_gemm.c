/* Products: every weight type on every instruction set against the scalar version bit for bit, the
 * scalar version against float64, over odd shapes, with guard zones around what is written. */
#include "suites.h"

#include <math.h>
#include <stdlib.h>

enum { GUARD = 32 };
static const float guard_value = -12345.5f;

typedef struct {
    lac_weight w;
    uint8_t *source;
    float *dense; /* [rows][cols] */
    float *x;     /* [n][cols], as given */
    lac__tile tile;
} problem;

static void problem_make(problem *p, lac_type type, uint32_t rows, uint32_t cols, uint32_t n)
{
    uint64_t state = rows * 7919u + cols * 31u + n + (uint32_t)type;
    size_t bytes = row_bytes(type, cols);
    p->w = (lac_weight){.type = type,
                        .rows = rows,
                        .cols = cols,
                        .groups = (rows + 7) / 8,
                        .group_bytes = lac__group_bytes(type, cols)};
    /* Exactly the size asked for, so that a sanitizer sees a read past the end. */
    p->w.data = malloc(p->w.groups * p->w.group_bytes);
    p->source = malloc(rows * bytes);
    p->dense = malloc((size_t)rows * cols * 4);
    p->x = malloc((size_t)n * cols * 4);
    for (uint32_t r = 0; r < rows; r++) {
        random_row(type, cols, p->source + r * bytes, &state);
        lac__dequantise(type, p->source + r * bytes, cols, p->dense + (size_t)r * cols);
    }
    for (uint32_t g = 0; g < p->w.groups; g++) {
        const uint8_t *eight[8];
        for (uint32_t r = 0; r < 8; r++)
            eight[r] = g * 8 + r < rows ? p->source + (g * 8 + r) * bytes : NULL;
        lac__pack_group(type, type, cols, eight, p->w.data + g * p->w.group_bytes);
    }
    p->tile = (lac__tile){.n = n};
    p->tile.x = malloc((size_t)n * (cols / 32 + 1) * sizeof(lac__xblock));
    p->tile.f = malloc((size_t)n * cols * 4);
    for (uint32_t c = 0; c < n; c++) {
        for (uint32_t k = 0; k < cols; k++) {
            p->x[c * cols + k] = rnd_float(&state) * (k % 37 == 0 ? 8.0f : 1.0f);
            p->tile.f[k * n + c] = p->x[c * cols + k];
        }
        lac__kernels_scalar.quantise(p->x + c * cols, cols / 32 * 32, p->tile.x + c, n);
    }
}

static void problem_free(problem *p)
{
    free(p->w.data);
    free(p->source);
    free(p->dense);
    free(p->x);
    free(p->tile.x);
    free(p->tile.f);
}

/* Runs a product into a guarded buffer; returns the rows × n results. */
static float *product(const lac__kernels *k, const problem *p, size_t *ld)
{
    size_t width = (size_t)p->w.groups * 8, total;
    *ld = width + 8;
    total = *ld * p->tile.n;
    float *out = malloc((total + 2 * GUARD) * 4);
    for (size_t i = 0; i < total + 2 * GUARD; i++)
        out[i] = guard_value;
    k->gemm[p->w.type](&p->w, 0, p->w.groups, &p->tile, out + GUARD, *ld);
    for (size_t i = 0; i < total + 2 * GUARD; i++) {
        bool inside = i >= GUARD && i < total + GUARD && (i - GUARD) % *ld < width;
        if (!inside)
            ck_assert_msg(out[i] == guard_value, "%s type %d: wrote outside at %zu", k->name,
                          (int)p->w.type, i);
    }
    return out;
}

static void compare_with_truth(const problem *p, const float *out, size_t ld)
{
    for (uint32_t c = 0; c < p->tile.n; c++) {
        for (uint32_t r = 0; r < p->w.rows; r++) {
            double sum = 0.0, size = 0.0;
            for (uint32_t k = 0; k < p->w.cols; k++) {
                const lac__xblock *b = &p->tile.x[(k / 32) * p->tile.n + c];
                double x = lac__type_quantised(p->w.type) ? (double)b->d * b->q[k % 32]
                                                          : (double)p->x[c * p->w.cols + k];
                double v = (double)p->dense[(size_t)r * p->w.cols + k] * x;
                sum += v;
                size += fabs(v);
            }
            double got = out[GUARD + c * ld + r];
            ck_assert_msg(fabs(got - sum) <= 4e-6 * size + 1e-30,
                          "type %d %ux%u column %u row %u: %g for %g", (int)p->w.type, p->w.rows,
                          p->w.cols, c, r, got, sum);
        }
    }
}

static void check_shape(lac_type type, uint32_t rows, uint32_t cols, uint32_t n)
{
    problem p;
    size_t ld;
    problem_make(&p, type, rows, cols, n);
    float *truth = product(&lac__kernels_scalar, &p, &ld);
    compare_with_truth(&p, truth, ld);
    for (const lac__kernels *const *k = kernels_fast(); *k; k++) {
        float *out = product(*k, &p, &ld);
        for (uint32_t c = 0; c < n; c++)
            ck_assert_msg(
                memcmp(out + GUARD + c * ld, truth + GUARD + c * ld, p.w.groups * 32) == 0,
                "%s type %d %ux%u of %u columns: column %u differs from the scalar version",
                (*k)->name, (int)type, rows, cols, n, c);
        free(out);
    }
    free(truth);
    problem_free(&p);
}

START_TEST(every_type_and_shape_has_the_same_bits)
{
    static const uint32_t rows[] = {2, 7, 9, 40}, cols[] = {32, 64, 576, 640, 896, 1536};
    static const uint32_t batch[] = {1, 2, 3, 4, 5, 8, 15, 16};
    lac_type type = types_all[_i];
    uint32_t turn = 0;
    for (size_t r = 0; r < 4; r++)
        for (size_t c = 0; c < 6; c++) {
            if (lac__group_bytes(type, cols[c]) == 0)
                continue;
            for (size_t b = 0; b < 8; b++)
                if (rows[r] <= 9 ? cols[c] <= 64 || turn++ % 5 == 0 : b % 7 == 0)
                    check_shape(type, rows[r], cols[c], batch[b]);
        }
    if (lac__group_bytes(type, 256) > 0)
        for (size_t b = 0; b < 8; b++) {
            check_shape(type, 17, 256, batch[b]);
            check_shape(type, 8, 512, batch[b]);
        }
    if (!lac__type_quantised(type)) /* inputs need not be a multiple of the chains */
        for (uint32_t k = 1; k < 9; k++)
            check_shape(type, 9, k, 4 + k % 3);
    check_shape(type, 576, lac__group_bytes(type, 576) ? 576 : 512, 2);
}
END_TEST

START_TEST(a_column_does_not_depend_on_its_neighbours)
{
    lac_type type = types_all[_i];
    uint32_t cols = lac__group_bytes(type, 576) ? 576 : 512;
    problem p;
    size_t ld, ld1;
    problem_make(&p, type, 24, cols, 16);
    float *all = product(&lac__kernels_scalar, &p, &ld);
    for (uint32_t c = 0; c < 16; c++) {
        lac__xblock *x = malloc(cols / 32 * sizeof *x);
        problem one = p;
        lac__kernels_scalar.quantise(p.x + c * cols, cols, x, 1);
        one.tile = (lac__tile){.n = 1, .x = x, .f = p.x + c * cols};
        for (const lac__kernels *const *k = kernels_fast(); *k; k++) {
            float *alone = product(*k, &one, &ld1);
            ck_assert_mem_eq(alone + GUARD, all + GUARD + c * ld, 24 * 4);
            free(alone);
        }
        free(x);
    }
    free(all);
    problem_free(&p);
}
END_TEST

/* The largest sums each type can make: codes and activations at their ends, and −128 in Q8_0. */
START_TEST(extreme_codes_do_not_overflow)
{
    lac_type type = types_all[_i];
    if (!lac__type_quantised(type))
        return;
    for (uint32_t fill = 0; fill < 3; fill++) {
        problem p;
        size_t ld, bytes = row_bytes(type, 512);
        problem_make(&p, type, 8, 512, 5);
        uint64_t state = 5;
        for (uint32_t r = 0; r < 8; r++) {
            uint8_t *row = p.source + r * bytes;
            memset(row, fill == 0 ? 0xff : fill == 1 ? 0x80 : 0x7f, bytes);
            uint8_t scales[512 * 4];
            random_row(type, 512, scales, &state);
            const lac_type_info *info = lac_type_get(type);
            for (uint32_t b = 0; b < 512 / info->block; b++) { /* sane f16 scales */
                size_t at = b * info->block_bytes + (type == LAC_TYPE_Q6_K ? 208 : 0);
                memcpy(row + at, scales + at,
                       type == LAC_TYPE_Q6_K || type == LAC_TYPE_Q8_0 || type == LAC_TYPE_Q4_0 ||
                               type == LAC_TYPE_Q5_0
                           ? 2
                           : 4);
            }
            lac__dequantise(type, row, 512, p.dense + r * 512);
        }
        const uint8_t *eight[8];
        for (uint32_t r = 0; r < 8; r++)
            eight[r] = p.source + r * bytes;
        lac__pack_group(type, type, 512, eight, p.w.data);
        for (uint32_t c = 0; c < 5; c++) {
            for (uint32_t k = 0; k < 512; k++)
                p.x[c * 512 + k] = c == 0 ? 1.0f : c == 1 ? -1.0f : (k + c) % 2 ? 1.0f : -1.0f;
            lac__kernels_scalar.quantise(p.x + c * 512, 512, p.tile.x + c, 5);
        }
        float *truth = product(&lac__kernels_scalar, &p, &ld);
        compare_with_truth(&p, truth, ld);
        for (const lac__kernels *const *k = kernels_fast(); *k; k++) {
            float *out = product(*k, &p, &ld);
            ck_assert_mem_eq(out, truth, (ld * 5 + 2 * GUARD) * 4);
            free(out);
        }
        free(truth);
        problem_free(&p);
    }
}
END_TEST

START_TEST(packed_rows_come_back_as_the_file_had_them)
{
    lac_type type = types_all[_i];
    problem p;
    float row[768];
    problem_make(&p, type, 11, 768, 1);
    for (uint32_t r = 0; r < 11; r++) {
        lac__unpack_row(&p.w, r, row);
        ck_assert_mem_eq(row, p.dense + r * 768, sizeof row);
    }
    problem_free(&p);
}
END_TEST

/* The block formats by hand: one block a type with values worked out on paper. */
START_TEST(formats_mean_what_the_file_says)
{
    float out[256];
    uint8_t q4_1[20] = {0}, q8_0[34] = {0}, q6_k[210] = {0}, q4_k[144] = {0}, q5_0[22] = {0};
    uint16_t one = 0x3c00, half = 0x3800;
    memcpy(q4_1, &half, 2), memcpy(q4_1 + 2, &one, 2);
    q4_1[4] = 0x93; /* element 0 is 3, element 16 is 9 */
    lac__dequantise(LAC_TYPE_Q4_1, q4_1, 32, out);
    ck_assert(out[0] == 2.5f && out[16] == 5.5f && out[1] == 1.0f);
    memcpy(q8_0, &half, 2);
    q8_0[2 + 31] = 0x80;
    lac__dequantise(LAC_TYPE_Q8_0, q8_0, 32, out);
    ck_assert(out[31] == -64.0f && out[0] == 0.0f);
    memcpy(q5_0, &one, 2);
    q5_0[2] = 1, q5_0[4] = 2; /* fifth bits of elements 0 and 17 */
    q5_0[6] = 0x0f;
    lac__dequantise(LAC_TYPE_Q5_0, q5_0, 32, out);
    ck_assert(out[0] == 15.0f && out[17] == 0.0f && out[1] == -16.0f);
    memcpy(q4_k, &one, 2), memcpy(q4_k + 2, &half, 2);
    q4_k[4 + 1] = 2, q4_k[4 + 5] = 3;                       /* sub-block 1: scale 2, minimum 3 */
    q4_k[4 + 8] = 0x15, q4_k[4 + 4] = 0xc0, q4_k[4] = 0x40; /* 4: scale 5+16, minimum 1+48 */
    q4_k[16] = 0x70;                                        /* element 32 is 7 */
    q4_k[16 + 64] = 0x02;                                   /* element 128 is 2 */
    lac__dequantise(LAC_TYPE_Q4_K, q4_k, 256, out);
    ck_assert(out[32] == 14.0f - 1.5f && out[33] == -1.5f);
    ck_assert(out[128] == 21.0f * 2.0f - 0.5f * 49.0f);
    memcpy(q6_k + 208, &half, 2);
    q6_k[192 + 3] = 0xfe;  /* scale of elements 48-63 is −2 */
    q6_k[32 + 20] = 0x05;  /* low bits of element 52 */
    q6_k[128 + 20] = 0x0c; /* its upper bits: 3 */
    lac__dequantise(LAC_TYPE_Q6_K, q6_k, 256, out);
    ck_assert(out[52] == 0.5f * -2.0f * (float)(5 + 48 - 32) && out[53] == 32.0f);
}
END_TEST

/* Columns first … first+cols−1 of a problem: what one rank of several holds. */
static lac_weight part_pack(const problem *p, uint32_t first, uint32_t cols)
{
    lac_weight w = p->w;
    w.cols = cols;
    w.group_bytes = lac__group_bytes(w.type, cols);
    w.data = malloc(w.groups * w.group_bytes);
    for (uint32_t g = 0; g < w.groups; g++) {
        const uint8_t *eight[8];
        for (uint32_t r = 0; r < 8; r++)
            eight[r] = g * 8 + r < w.rows ? p->source + (g * 8 + r) * row_bytes(w.type, p->w.cols) +
                                                row_bytes(w.type, first)
                                          : NULL;
        lac__pack_group(w.type, w.type, cols, eight, w.data + g * w.group_bytes);
    }
    return w;
}

static void check_two_turns(const lac__kernels *k, lac_type type, uint32_t rows, uint32_t n)
{
    enum { COLS = 1536, CUT = 512 };
    problem p;
    size_t ld;
    problem_make(&p, type, rows, COLS, n);
    float *whole = product(k, &p, &ld);
    float *turns = malloc((ld * n + GUARD) * sizeof *turns);
    lac_weight first = part_pack(&p, 0, CUT), second = part_pack(&p, CUT, COLS - CUT);
    lac__tile rest = {.n = n, .x = p.tile.x + (size_t)CUT / 32 * n, .goes_on = true};
    k->gemm[type](&first, 0, first.groups, &p.tile, turns, ld);
    k->gemm[type](&second, 0, second.groups, &rest, turns, ld);
    for (uint32_t c = 0; c < n; c++)
        ck_assert_msg(memcmp(turns + c * ld, whole + GUARD + c * ld, p.w.groups * 32) == 0,
                      "%s type %d, %u rows, column %u of %u", k->name, (int)type, rows, c, n);
    free(first.data);
    free(second.data);
    free(turns);
    free(whole);
    problem_free(&p);
}

/* A product that goes on from where another rank's stopped has the bits of all at once. */
START_TEST(columns_in_two_turns_are_the_same)
{
    static const uint32_t batch[] = {1, 2, 3, 4, 7, 16};
    lac_type type = types_all[_i];
    for (size_t b = 0; b < 6 && lac__type_quantised(type); b++) {
        check_two_turns(&lac__kernels_scalar, type, 24, batch[b]);
        for (const lac__kernels *const *k = kernels_fast(); *k; k++)
            check_two_turns(*k, type, 24, batch[b]);
    }
}
END_TEST

Suite *suite_gemm(void)
{
    Suite *s = suite_create("gemm");
    TCase *t = tcase_create("products");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, every_type_and_shape_has_the_same_bits, 0, TYPES_ALL);
    tcase_add_loop_test(t, a_column_does_not_depend_on_its_neighbours, 0, TYPES_ALL);
    tcase_add_loop_test(t, extreme_codes_do_not_overflow, 0, TYPES_ALL);
    tcase_add_loop_test(t, packed_rows_come_back_as_the_file_had_them, 0, TYPES_ALL);
    tcase_add_loop_test(t, columns_in_two_turns_are_the_same, 0, TYPES_ALL);
    tcase_add_test(t, formats_mean_what_the_file_says);
    suite_add_tcase(s, t);
    return s;
}
