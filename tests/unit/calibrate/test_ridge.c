/* Patches: against a direct solution of the same equations, with a planted low rank, and the
 * numbers that files can hold. */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "calibrate/ridge.h"

enum { D = 24, ROWS = 400 };
#define EPS 1e-5f

static float before[ROWS][D], wanted[ROWS][D];
static double x[ROWS][D], y[ROWS][D];

static double normal(lac_rng *rng)
{
    return sqrt(-2 * log(1 - lac_rng_unit(rng))) * cos(6.283185307179586 * lac_rng_unit(rng));
}

/* Y = up·down·x + noise, with `rank` planted directions. */
static void plant(uint32_t rank, double noise)
{
    lac_rng rng;
    double down[D][D], up[D][D];
    lac_rng_seed(&rng, 17 + rank);
    for (uint32_t i = 0; i < rank; i++)
        for (uint32_t k = 0; k < D; k++) {
            down[i][k] = normal(&rng) / 4;
            up[k][i] = normal(&rng) / 4;
        }
    for (uint32_t r = 0; r < ROWS; r++) {
        double sum = 0;
        for (uint32_t k = 0; k < D; k++) {
            before[r][k] = (float)(normal(&rng) * (1 + r % 7));
            sum += (double)before[r][k] * (double)before[r][k];
        }
        for (uint32_t k = 0; k < D; k++)
            x[r][k] = (double)before[r][k] / sqrt(sum / D + (double)EPS);
        for (uint32_t k = 0; k < D; k++) {
            y[r][k] = noise * normal(&rng);
            for (uint32_t i = 0; i < rank; i++)
                for (uint32_t j = 0; j < D; j++)
                    y[r][k] += up[k][i] * down[i][j] * x[r][j];
            wanted[r][k] = before[r][k] + (float)y[r][k];
            y[r][k] = (double)wanted[r][k] - (double)before[r][k];
        }
    }
}

/* (XᵀX + 0.05·n·I) w = XᵀY by Gaussian elimination. */
static void direct(double w[D][D])
{
    double a[D][2 * D];
    for (int i = 0; i < D; i++)
        for (int j = 0; j < D; j++) {
            a[i][j] = i == j ? 0.05 * ROWS : 0;
            a[i][D + j] = 0;
            for (int r = 0; r < ROWS; r++) {
                a[i][j] += x[r][i] * x[r][j];
                a[i][D + j] += x[r][i] * y[r][j];
            }
        }
    for (int p = 0; p < D; p++)
        for (int i = 0; i < D; i++) {
            double f = i == p ? 0 : a[i][p] / a[p][p];
            for (int j = p; j < 2 * D && i != p; j++)
                a[i][j] -= f * a[p][j];
        }
    for (int i = 0; i < D; i++)
        for (int j = 0; j < D; j++)
            w[i][j] = a[i][D + j] / a[i][i];
}

static lac_fit_patch solve(uint32_t rank, uint32_t rank_max, double direction_cost)
{
    lac_ridge *ridge = lac_ridge_create(D, EPS);
    lac_fit_patch patch = {0};
    lac_error err = {0};
    lac_ridge_add(ridge, before[0], wanted[0], 150);
    lac_ridge_add(ridge, before[150], wanted[150], ROWS - 150);
    ck_assert_msg(lac_ridge_solve(ridge, rank, rank_max, direction_cost, &patch, &err) == LAC_OK,
                  "%s", err.text);
    lac_ridge_destroy(&ridge);
    return patch;
}

static double element(const lac_fit_patch *p, uint32_t out, uint32_t in)
{
    double sum = 0;
    for (uint32_t i = 0; i < p->rank; i++)
        sum += (double)p->up[out * p->rank + i] * (double)p->down[i * D + in];
    return sum;
}

START_TEST(full_rank_is_the_direct_solution)
{
    double w[D][D];
    plant(D, 0.3);
    direct(w);
    lac_fit_patch patch = solve(D, D, 0);
    ck_assert_uint_eq(patch.rank, D);
    ck_assert_double_eq_tol(patch.kept, 1, 1e-9);
    for (uint32_t o = 0; o < D; o++)
        for (uint32_t i = 0; i < D; i++)
            ck_assert_double_eq_tol(element(&patch, o, i), w[i][o], 3e-3); /* F16 */
    lac_fit_patch_free(&patch);
}
END_TEST

START_TEST(low_rank_keeps_what_was_planted)
{
    plant(8, 0.0);
    lac_fit_patch all = solve(D, D, 0), eight = solve(8, D, 0);
    ck_assert_uint_eq(eight.rank, 8);
    ck_assert(eight.kept > 0.9999);
    for (uint32_t o = 0; o < D; o++)
        for (uint32_t i = 0; i < D; i++)
            ck_assert_double_eq_tol(element(&eight, o, i), element(&all, o, i), 4e-3);
    lac_fit_patch_free(&all);
    lac_fit_patch_free(&eight);
}
END_TEST

/* The kept directions lose as little as their eigenvalues say, whichever other directions there
 * are: the best of that rank. */
START_TEST(low_rank_loses_what_it_says)
{
    plant(D, 0.1);
    lac_fit_patch all = solve(D, D, 0), eight = solve(8, D, 0);
    double whole = 0, lost = 0;
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t o = 0; o < D; o++) {
            double a = 0, b = 0;
            for (uint32_t i = 0; i < D; i++) {
                a += element(&all, o, i) * x[r][i];
                b += element(&eight, o, i) * x[r][i];
            }
            whole += a * a;
            lost += (a - b) * (a - b);
        }
    ck_assert(eight.kept > 0.3 && eight.kept < 0.99);
    ck_assert_double_eq_tol(1 - lost / whole, eight.kept, 2e-3);
    lac_fit_patch_free(&all);
    lac_fit_patch_free(&eight);
}
END_TEST

START_TEST(rank_follows_cost)
{
    plant(8, 0.01);
    lac_fit_patch cheap = solve(0, D, 1e-4), dear = solve(0, D, 10), capped = solve(0, 8, 0);
    ck_assert_uint_eq(cheap.rank, 8);
    ck_assert_uint_eq(dear.rank, 8); /* never less than one step */
    ck_assert_uint_eq(capped.rank, 8);
    lac_fit_patch_free(&cheap);
    lac_fit_patch_free(&dear);
    lac_fit_patch_free(&capped);
    plant(16, 0.01);
    lac_fit_patch wide = solve(0, D, 1e-4);
    ck_assert_uint_eq(wide.rank, 16);
    lac_fit_patch_free(&wide);
}
END_TEST

START_TEST(applying_is_the_formula)
{
    plant(8, 0.1);
    lac_fit_patch patch = solve(8, D, 0);
    float states[ROWS][D];
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t k = 0; k < D; k++)
            states[r][k] = before[r][k];
    lac_fit_patch_apply(&patch, EPS, states[0], ROWS);
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t o = 0; o < D; o++) {
            double want = (double)before[r][o];
            for (uint32_t i = 0; i < D; i++)
                want += element(&patch, o, i) * x[r][i];
            ck_assert_double_eq_tol((double)states[r][o], want, 2e-5);
        }
    lac_fit_patch_free(&patch);
}
END_TEST

START_TEST(bad_states_are_refused)
{
    lac_ridge *ridge = lac_ridge_create(D, EPS);
    lac_fit_patch patch = {.rank = 99};
    lac_error err = {0};
    ck_assert_int_eq(lac_ridge_solve(ridge, 8, D, 0, &patch, &err), LAC_EINVAL);
    plant(8, 0.1);
    before[3][3] = NAN;
    lac_ridge_add(ridge, before[0], wanted[0], ROWS);
    ck_assert_int_eq(lac_ridge_solve(ridge, 8, D, 0, &patch, &err), LAC_EINVAL);
    ck_assert_uint_eq(patch.rank, 99);
    lac_ridge_destroy(&ridge);
}
END_TEST

START_TEST(halves)
{
    for (uint32_t h = 0; h < 65536; h++) {
        float f = lac_f16_value((uint16_t)h);
        if ((h & 0x7c00) == 0x7c00 && (h & 0x3ff))
            ck_assert(isnan(f) && (lac_f16_of(f) & 0x7c00) == 0x7c00);
        else
            ck_assert_uint_eq(lac_f16_of(f), h);
    }
    ck_assert_uint_eq(lac_f16_of(1.0f), 0x3c00);
    ck_assert_uint_eq(lac_f16_of(65504.0f), 0x7bff);
    ck_assert_uint_eq(lac_f16_of(65519.9f), 0x7bff);
    ck_assert_uint_eq(lac_f16_of(65520.0f), 0x7c00);
    ck_assert_uint_eq(lac_f16_of(1.0f + 1.0f / 2048), 0x3c00); /* a tie goes to even */
    ck_assert_uint_eq(lac_f16_of(1.0f + 3.0f / 2048), 0x3c02);
    ck_assert_uint_eq(lac_f16_of(ldexpf(1, -25)), 0);
    ck_assert_uint_eq(lac_f16_of(ldexpf(3, -25)), 2);
    ck_assert_uint_eq(lac_f16_of(-ldexpf(1, -24)), 0x8001);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ridge");
    TCase *tcase = tcase_create("ridge");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, full_rank_is_the_direct_solution);
    tcase_add_test(tcase, low_rank_keeps_what_was_planted);
    tcase_add_test(tcase, low_rank_loses_what_it_says);
    tcase_add_test(tcase, rank_follows_cost);
    tcase_add_test(tcase, applying_is_the_formula);
    tcase_add_test(tcase, bad_states_are_refused);
    tcase_add_test(tcase, halves);
    suite_add_tcase(suite, tcase);
    SRunner *all = srunner_create(suite);
    srunner_run_all(all, CK_NORMAL);
    int failed = srunner_ntests_failed(all);
    srunner_free(all);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
