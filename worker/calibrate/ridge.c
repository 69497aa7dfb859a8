/* Ridge regression of a unit's contribution, by normal equations, and its reduction in rank. One
 * thread. Must not know models, masks or files. */
#include "calibrate/ridge.h"

#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/limits.h"
#include "base/mem.h"

/* Rows normed and multiplied at once. */
enum { BLOCK = 256 };

#define RIDGE_SHARE 0.05 /* of the number of rows */

struct lac_ridge {
    uint32_t hidden;
    float eps;
    uint64_t rows;
    double *xx, *xy; /* [hidden][hidden]: XᵀX, XᵀY */
    float *x, *y;    /* [BLOCK][hidden] */
    float *part;     /* [hidden][hidden]: of one block */
};

/* ---- F16 (IEEE 754 binary16) ---- */

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

uint16_t lac_f16_of(float value)
{
    uint32_t x = bits_of(value), sign = x >> 16 & 0x8000;
    x &= 0x7fffffff;
    if (x > 0x7f800000)
        return (uint16_t)(sign | 0x7e00); /* not a number */
    if (x >= 0x477ff000)
        return (uint16_t)(sign | 0x7c00); /* rounds to more than 65504 */
    if (x < 0x38800000) /* below 2^-14: a step is 2^-24, as it is between 0.5 and 1 in float */
        return (uint16_t)(sign | (bits_of(fabsf(value) + 0.5f) - bits_of(0.5f)));
    x += 0xfff + (x >> 13 & 1);
    return (uint16_t)(sign | (x - (112u << 23)) >> 13);
}

float lac_f16_value(uint16_t half)
{
    uint32_t exponent = half >> 10 & 31, mantissa = half & 1023;
    float size = exponent == 31  ? (mantissa ? NAN : INFINITY)
                 : exponent == 0 ? ldexpf((float)mantissa, -24)
                                 : ldexpf((float)(mantissa | 1024), (int)exponent - 25);
    return half & 0x8000 ? -size : size;
}

/* ---- sums ---- */

lac_ridge *lac_ridge_create(uint32_t hidden, float eps)
{
    openblas_set_num_threads(1); /* the order of sums, and so the bits, depend on it */
    size_t square = (size_t)hidden * hidden;
    lac_ridge *ridge = lac_alloc(1, sizeof *ridge);
    *ridge = (lac_ridge){.hidden = hidden, .eps = eps};
    ridge->xx = lac_alloc(square, sizeof *ridge->xx);
    ridge->xy = lac_alloc(square, sizeof *ridge->xy);
    ridge->part = lac_alloc(square, sizeof *ridge->part);
    ridge->x = lac_alloc((size_t)BLOCK * hidden, sizeof *ridge->x);
    ridge->y = lac_alloc((size_t)BLOCK * hidden, sizeof *ridge->y);
    return ridge;
}

void lac_ridge_destroy(lac_ridge **ridge)
{
    if (!*ridge)
        return;
    free((*ridge)->xx);
    free((*ridge)->xy);
    free((*ridge)->part);
    free((*ridge)->x);
    free((*ridge)->y);
    free(*ridge);
    *ridge = NULL;
}

static void rmsnorm(const float *h, uint32_t hidden, float eps, float *out)
{
    double sum = 0;
    for (uint32_t k = 0; k < hidden; k++)
        sum += (double)h[k] * (double)h[k];
    float scale = (float)(1 / sqrt(sum / hidden + (double)eps));
    for (uint32_t k = 0; k < hidden; k++)
        out[k] = h[k] * scale;
}

/* sums += aᵀb over n rows. */
static void products_add(lac_ridge *r, const float *a, const float *b, uint32_t n, double *sums)
{
    int d = (int)r->hidden;
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, d, d, (int)n, 1, a, d, b, d, 0, r->part,
                d);
    for (size_t i = 0; i < (size_t)d * (size_t)d; i++)
        sums[i] += (double)r->part[i];
}

void lac_ridge_add(lac_ridge *ridge, const float *before, const float *wanted, uint32_t rows)
{
    uint32_t d = ridge->hidden;
    for (uint32_t at = 0; at < rows; at += BLOCK) {
        uint32_t n = rows - at < BLOCK ? rows - at : BLOCK;
        for (uint32_t i = 0; i < n; i++) {
            const float *h = before + (size_t)(at + i) * d, *w = wanted + (size_t)(at + i) * d;
            rmsnorm(h, d, ridge->eps, ridge->x + (size_t)i * d);
            for (uint32_t k = 0; k < d; k++)
                ridge->y[(size_t)i * d + k] = w[k] - h[k];
        }
        products_add(ridge, ridge->x, ridge->x, n, ridge->xx);
        products_add(ridge, ridge->x, ridge->y, n, ridge->xy);
        ridge->rows += n;
    }
}

/* w [hidden in][hidden out] solves (XᵀX + λI) w = XᵀY. */
static lac_status weights_solve(const lac_ridge *r, double *w, lac_error *err)
{
    int d = (int)r->hidden;
    size_t square = (size_t)d * (size_t)d;
    double *a = lac_alloc(square, sizeof *a);
    memcpy(a, r->xx, square * sizeof *a);
    memcpy(w, r->xy, square * sizeof *w);
    for (int i = 0; i < d; i++)
        a[(size_t)i * (size_t)d + (size_t)i] += RIDGE_SHARE * (double)r->rows;
    lapack_int info = LAPACKE_dposv(LAPACK_ROW_MAJOR, 'U', d, d, a, d, w, d);
    free(a);
    bool finite = info == 0;
    for (size_t i = 0; i < square && finite; i++)
        finite = isfinite(w[i]);
    return finite ? LAC_OK
                  : lac_fail(err, LAC_EINVAL, "patch: the states of %llu rows are not finite",
                             (unsigned long long)r->rows);
}

/* Eigenvalues (ascending) and vectors (columns of `vectors`) of the fitted values' squares
 * wᵀ(XᵀX)w. */
static lac_status directions_find(const lac_ridge *r, const double *w, double *values,
                                  double *vectors, lac_error *err)
{
    int d = (int)r->hidden;
    double *t = lac_alloc((size_t)d * (size_t)d, sizeof *t);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, d, d, d, 1, r->xx, d, w, d, 0, t, d);
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, d, d, d, 1, w, d, t, d, 0, vectors, d);
    free(t);
    lapack_int info = LAPACKE_dsyevd(LAPACK_ROW_MAJOR, 'V', 'U', d, vectors, d, values);
    return info == 0 ? LAC_OK
                     : lac_fail(err, LAC_EINTERNAL, "patch: no eigenvectors (%d)", (int)info);
}

static uint32_t rank_choose(const double *values, uint32_t hidden, uint32_t rank_max,
                            double direction_cost)
{
    double all = 0;
    for (uint32_t i = 0; i < hidden; i++)
        all += values[i] > 0 ? values[i] : 0;
    uint32_t rank = 0;
    while (rank < rank_max && rank < hidden && values[hidden - 1 - rank] > direction_cost * all)
        rank++;
    rank = (rank + LAC_PATCH_RANK_STEP - 1) / LAC_PATCH_RANK_STEP * LAC_PATCH_RANK_STEP;
    if (rank < LAC_PATCH_RANK_STEP)
        rank = LAC_PATCH_RANK_STEP;
    return rank > rank_max ? rank_max : rank;
}

/* up = the top directions, down = upᵀ wᵀ. */
static void matrices_make(const lac_ridge *r, const double *w, const double *vectors,
                          lac_fit_patch *out)
{
    uint32_t d = r->hidden, rank = out->rank;
    for (uint32_t k = 0; k < d; k++)
        for (uint32_t i = 0; i < rank; i++)
            out->up[(size_t)k * rank + i] =
                lac_f16_value(lac_f16_of((float)vectors[(size_t)k * d + (d - 1 - i)]));
    for (uint32_t i = 0; i < rank; i++)
        for (uint32_t k = 0; k < d; k++) {
            double sum = 0;
            for (uint32_t o = 0; o < d; o++)
                sum += w[(size_t)k * d + o] * vectors[(size_t)o * d + (d - 1 - i)];
            out->down[(size_t)i * d + k] = lac_f16_value(lac_f16_of((float)sum));
        }
}

lac_status lac_ridge_solve(const lac_ridge *ridge, uint32_t rank, uint32_t rank_max,
                           double direction_cost, lac_fit_patch *out, lac_error *err)
{
    uint32_t d = ridge->hidden;
    size_t square = (size_t)d * d;
    LAC_ASSERT(rank <= d);
    if (ridge->rows == 0)
        return lac_fail(err, LAC_EINVAL, "patch: no rows to fit");
    double *w = lac_alloc(square, sizeof *w), *vectors = lac_alloc(square, sizeof *vectors);
    double *values = lac_alloc(d, sizeof *values), all = 0, kept = 0;
    lac_status status = weights_solve(ridge, w, err);
    if (status == LAC_OK)
        status = directions_find(ridge, w, values, vectors, err);
    if (status == LAC_OK) {
        rank_max = rank_max < d ? rank_max : d;
        lac_fit_patch patch = {.hidden = d};
        patch.rank = rank ? rank : rank_choose(values, d, rank_max, direction_cost);
        patch.down = lac_alloc((size_t)patch.rank * d, sizeof *patch.down);
        patch.up = lac_alloc((size_t)patch.rank * d, sizeof *patch.up);
        matrices_make(ridge, w, vectors, &patch);
        for (uint32_t i = 0; i < d; i++) {
            double v = values[d - 1 - i] > 0 ? values[d - 1 - i] : 0;
            all += v;
            kept += i < patch.rank ? v : 0;
        }
        patch.kept = all > 0 ? kept / all : 1;
        *out = patch;
    }
    free(values);
    free(vectors);
    free(w);
    return status;
}

void lac_fit_patch_free(lac_fit_patch *patch)
{
    free(patch->down);
    free(patch->up);
    *patch = (lac_fit_patch){0};
}

void lac_fit_patch_apply(const lac_fit_patch *patch, float eps, float *states, uint32_t rows)
{
    int d = (int)patch->hidden, r = (int)patch->rank;
    uint32_t block = rows < BLOCK ? rows : BLOCK;
    float *x = lac_alloc((size_t)block * patch->hidden, sizeof *x);
    float *t = lac_alloc((size_t)block * patch->rank, sizeof *t);
    for (uint32_t at = 0; at < rows; at += block) {
        uint32_t n = rows - at < block ? rows - at : block;
        float *h = states + (size_t)at * patch->hidden;
        for (uint32_t i = 0; i < n; i++)
            rmsnorm(h + (size_t)i * patch->hidden, patch->hidden, eps,
                    x + (size_t)i * patch->hidden);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)n, r, d, 1, x, d, patch->down, d,
                    0, t, r);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)n, d, r, 1, t, r, patch->up, r, 1,
                    h, d);
    }
    free(t);
    free(x);
}
