/* Row kernels: every instruction set against the scalar one bit for bit, the scalar one against
 * float64, over lengths that are no multiple of anything. */
#include "suites.h"

#include <math.h>
#include <stdlib.h>

enum { WIDTH_MAX = 1600 };

static void fill(float *x, uint32_t n, uint64_t seed)
{
    for (uint32_t i = 0; i < n; i++)
        x[i] = rnd_float(&seed) * (i % 17 == 0 ? 20.0f : 2.0f);
}

static const uint32_t widths[] = {1, 8, 15, 16, 17, 31, 64, 96, 576, 577, 1536};
enum { WIDTHS = 11 };

START_TEST(norm_agrees)
{
    uint32_t n = widths[_i];
    float x[WIDTH_MAX], w[WIDTH_MAX], y[WIDTH_MAX + 16], z[WIDTH_MAX + 16];
    fill(x, n, n), fill(w, n, n + 1);
    double sum = 0.0;
    for (uint32_t i = 0; i < n; i++)
        sum += (double)x[i] * x[i];
    for (uint32_t i = 0; i < WIDTH_MAX + 16; i++)
        y[i] = z[i] = 77.0f;
    float total = lac__kernels_scalar.norm(x, w, n, 1e-5f, y);
    ck_assert(fabs(total - sum) <= 1e-6 * sum);
    for (uint32_t i = 0; i < n; i++) {
        double want = x[i] / sqrt(sum / n + 1e-5) * w[i];
        ck_assert(fabs(y[i] - want) <= 2e-6 * fabs(want));
    }
    ck_assert(y[n] == 77.0f);
    for (const lac__kernels *const *k = kernels_fast(); *k; k++) {
        ck_assert((*k)->norm(x, w, n, 1e-5f, z) == total);
        ck_assert_mem_eq(y, z, sizeof y);
    }
    float mine[WIDTH_MAX];
    memcpy(mine, x, n * 4); /* in place, as head norms use it */
    (void)lac__kernels_scalar.norm(mine, w, n, 1e-5f, mine);
    ck_assert_mem_eq(mine, y, n * 4);
}
END_TEST

START_TEST(quantise_agrees)
{
    float x[96];
    lac__xblock a[3], b[3];
    for (uint32_t round = 0; round < 400; round++) {
        fill(x, 96, round);
        for (uint32_t i = 0; i < 32; i++)
            x[i] *= powf(10.0f, (float)(round % 60) - 40.0f);
        if (round % 7 == 0)
            memset(x + 32, 0, 128);
        if (round % 11 == 0)
            x[70] = round % 22 ? INFINITY : NAN;
        memset(a, 0, sizeof a);
        lac__kernels_scalar.quantise(x, 96, a, 1);
        for (uint32_t i = 0; i < 64; i++) {
            const lac__xblock *q = &a[i / 32];
            ck_assert_int_ge(q->q[i % 32], -127);
            ck_assert(fabsf(x[i] - q->d * (float)q->q[i % 32]) <= 0.5001f * q->d + 1e-30f);
        }
        int32_t sum = 0;
        for (uint32_t i = 0; i < 32; i++)
            sum += a[0].q[i];
        ck_assert_int_eq(a[0].sum, sum);
        if (round % 11 == 0)
            ck_assert_msg(!isfinite(a[2].d), "what is not finite must not get lost");
        for (const lac__kernels *const *k = kernels_fast(); *k; k++) {
            memset(b, 0, sizeof b);
            (*k)->quantise(x, 96, b, 1);
            if (round % 11 == 0) /* NaN payloads may differ */
                ck_assert_mem_eq(a, b, 2 * sizeof *a);
            else
                ck_assert_mem_eq(a, b, sizeof a);
        }
    }
}
END_TEST

START_TEST(activations_agree)
{
    uint32_t n = widths[_i];
    float g[WIDTH_MAX], u[WIDTH_MAX], y[WIDTH_MAX], z[WIDTH_MAX];
    fill(g, n, n + 3), fill(u, n, n + 4);
    if (n > 20)
        g[3] = -200.0f, g[4] = 200.0f, g[5] = -0.0f, g[6] = 1e-20f;
    for (int act = LAC_ACT_SILU; act <= LAC_ACT_GELU_TANH; act++) {
        lac__kernels_scalar.act((lac_activation)act, g, u, n, y);
        for (uint32_t i = 0; i < n; i++) {
            double x = g[i];
            double want =
                act == LAC_ACT_SILU
                    ? x / (1.0 + exp(-x))
                    : 0.5 * x * (1.0 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
            ck_assert_msg(fabs(y[i] - want * u[i]) <=
                              3e-7 * (fabs(x) + 1e-9) * (fabs(u[i]) + 1e-9) + 1e-30,
                          "act %d of %g: %g for %g", act, x, y[i], want * u[i]);
        }
        for (const lac__kernels *const *k = kernels_fast(); *k; k++) {
            (*k)->act((lac_activation)act, g, u, n, z);
            ck_assert_mem_eq(y, z, n * 4);
        }
    }
}
END_TEST

START_TEST(rope_softcap_add_agree)
{
    float x[128], y[128], z[128], c[64], s[64];
    for (uint32_t dims = 2; dims <= 128; dims += dims < 40 ? 2 : 22) {
        for (uint32_t i = 0; i < dims / 2; i++)
            c[i] = cosf((float)i), s[i] = sinf((float)i);
        for (int style = LAC_ROPE_PAIRS; style <= LAC_ROPE_HALVES; style++) {
            fill(x, 128, dims);
            memcpy(y, x, sizeof x);
            lac__kernels_scalar.rope(y, (lac_rope_style)style, dims, c, s);
            for (uint32_t i = 0; i < dims / 2; i++) {
                uint32_t a = style == LAC_ROPE_PAIRS ? 2 * i : i,
                         b = style == LAC_ROPE_PAIRS ? a + 1 : i + dims / 2;
                ck_assert(fabs(y[a] - ((double)x[a] * c[i] - (double)x[b] * s[i])) < 1e-5);
                ck_assert(fabs(y[b] - ((double)x[a] * s[i] + (double)x[b] * c[i])) < 1e-5);
            }
            ck_assert_mem_eq(y + dims, x + dims, (128 - dims) * 4);
            for (const lac__kernels *const *k = kernels_fast(); *k; k++) {
                memcpy(z, x, sizeof x);
                (*k)->rope(z, (lac_rope_style)style, dims, c, s);
                ck_assert_mem_eq(y, z, sizeof y);
            }
        }
        memcpy(y, x, sizeof x);
        lac__kernels_scalar.softcap(y, dims, 30.0f);
        for (uint32_t i = 0; i < dims; i++)
            ck_assert(fabs(y[i] - 30.0 * tanh(x[i] / 30.0)) < 1e-5);
        for (const lac__kernels *const *k = kernels_fast(); *k; k++) {
            memcpy(z, x, sizeof x);
            (*k)->softcap(z, dims, 30.0f);
            ck_assert_mem_eq(y, z, sizeof y);
            (*k)->add(z, x, dims);
            for (uint32_t i = 0; i < dims; i++)
                ck_assert(z[i] == y[i] + x[i]);
        }
    }
}
END_TEST

START_TEST(half_precision_is_the_hardwares)
{
    uint16_t back[16], other[16];
    for (uint32_t h = 0; h < 65536; h++) {
        float f = lac__f16_to_f32((uint16_t)h);
        if (f == f)
            ck_assert_uint_eq(lac__f32_to_f16(f), h);
    }
    float x[16];
    uint64_t state = 9;
    for (uint32_t round = 0; round < 200000; round++) {
        for (uint32_t i = 0; i < 16; i++) {
            x[i] = lac__bits_f32(rnd(&state) * 2u);
            if (round % 2) /* near the range of half precision, and its ties */
                x[i] = lac__bits_f32((rnd(&state) % 0x10800000u + 0x37000000u) &
                                     ~(rnd(&state) % 4 ? 0xfffu : 0u));
            if (x[i] != x[i])
                x[i] = 0.0f;
        }
        lac__kernels_scalar.to_f16(x, 16, back);
        for (const lac__kernels *const *k = kernels_fast(); *k; k++) {
#if LAC_TEST_SIMDE
            if (*k == &lac__kernels_simde)
                continue; /* SIMDe's conversion is not ours to prove */
#endif
            (*k)->to_f16(x, 16, other);
            ck_assert_mem_eq(back, other, sizeof back);
        }
    }
}
END_TEST

START_TEST(best_is_the_first_largest)
{
    for (uint32_t n = 1; n < 70; n++) {
        float x[70], value;
        uint32_t index;
        fill(x, n, n);
        uint32_t at = n / 2;
        x[at] = 99.0f;
        if (n > at + 2)
            x[at + 2] = 99.0f;
        ck_assert(lac__kernels_scalar.best(x, n, &value, &index) && index == at && value == 99.0f);
        for (const lac__kernels *const *k = kernels_fast(); *k; k++)
            ck_assert((*k)->best(x, n, &value, &index) && index == at && value == 99.0f);
        x[n - 1] = n % 2 ? NAN : -INFINITY;
        ck_assert(!lac__kernels_scalar.best(x, n, &value, &index));
        for (const lac__kernels *const *k = kernels_fast(); *k; k++)
            ck_assert(!(*k)->best(x, n, &value, &index));
    }
}
END_TEST

Suite *suite_rows(void)
{
    Suite *s = suite_create("rows");
    TCase *t = tcase_create("rows");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, norm_agrees, 0, WIDTHS);
    tcase_add_test(t, quantise_agrees);
    tcase_add_loop_test(t, activations_agree, 0, WIDTHS);
    tcase_add_test(t, rope_softcap_add_agree);
    tcase_add_test(t, half_precision_is_the_hardwares);
    tcase_add_test(t, best_is_the_first_largest);
    suite_add_tcase(s, t);
    return s;
}
