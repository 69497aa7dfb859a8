/* Attention and the pages it reads, apart from a step: every KV type, every instruction set against
 * the scalar one bit for bit, the scalar one against float64 over the values as they are kept, in
 * memory full of NaN. */
#include "suites.h"

#include <math.h>
#include <stdlib.h>

#include "backend.h"

enum { TOKENS = 300, PAGES = TOKENS / LAC_KV_BLOCK + 1, DIM_MAX = 256, QUERIES_MAX = 16 * 4 };

typedef struct {
    uint32_t dim, group, rows, window;
    float softcap;
} shape;

static const shape shapes[] = {{8, 1, 1, 0, 0},    {64, 3, 1, 0, 0},  {64, 3, 2, 70, 0},
                               {64, 3, 16, 0, 0},  {40, 2, 3, 33, 5}, {24, 4, 1, 0, 0},
                               {256, 4, 1, 40, 0}, {96, 1, 6, 0, 30}, {80, 2, 16, 100, 0}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* Keys and values of one head as they were given. */
static float keys[TOKENS][DIM_MAX], values[TOKENS][DIM_MAX], queries[QUERIES_MAX * DIM_MAX];

static uint8_t *pages_make(const lac__kernels *kernels, lac_kv_type type, uint32_t dim,
                           size_t *page_bytes)
{
    lac_backend be = {.kernels = kernels, .options = {.kv_type = type}};
    *page_bytes = lac__kv_head_bytes(type, dim);
    uint8_t *pages = malloc(PAGES * *page_bytes);
    memset(pages, 0xff, PAGES * *page_bytes); /* NaN as values and as scales */
    for (uint32_t t = 0; t < TOKENS; t++) {
        uint8_t *page = pages + t / LAC_KV_BLOCK * *page_bytes;
        lac__kv_write(&be, page, t % LAC_KV_BLOCK, dim, false, keys[t]);
        lac__kv_write(&be, page, t % LAC_KV_BLOCK, dim, true, values[t]);
    }
    return pages;
}

static void inputs_fill(uint64_t seed)
{
    for (uint32_t t = 0; t < TOKENS; t++)
        for (uint32_t d = 0; d < DIM_MAX; d++) {
            keys[t][d] = rnd_float(&seed) * (d % 29 == 0 ? 4.0f : 0.7f);
            values[t][d] = rnd_float(&seed) * (t % 7 == 0 ? 3.0f : 1.0f);
        }
    for (uint32_t i = 0; i < QUERIES_MAX * DIM_MAX; i++)
        queries[i] = rnd_float(&seed);
}

static lac__attention_item item_of(const shape *s, lac_kv_type type, const uint8_t *pages,
                                   size_t page_bytes, const uint32_t *table, float *out,
                                   float *scratch)
{
    size_t width = (size_t)s->group * s->dim;
    uint32_t pos = TOKENS - s->rows;
    return (lac__attention_item){.q = queries,
                                 .q_stride = width,
                                 .out = out,
                                 .out_stride = width,
                                 .rows = s->rows,
                                 .group = s->group,
                                 .head_dim = s->dim,
                                 .pos = pos,
                                 .split_first = s->window ? (pos + 1 - s->window) / LAC__SPLIT : 0,
                                 .split_last = (TOKENS - 1) / LAC__SPLIT + 1,
                                 .scale = 0.3f,
                                 .softcap = s->softcap,
                                 .window = s->window,
                                 .kv_type = type,
                                 .region = pages,
                                 .page_bytes = page_bytes,
                                 .pages = table,
                                 .scratch = scratch};
}

/* One query in float64 over values that the pages hold. */
static void truth_of(const shape *s, uint32_t query, float (*k)[DIM_MAX], float (*v)[DIM_MAX],
                     double *out)
{
    uint32_t p = TOKENS - s->rows + query / s->group;
    uint32_t first = s->window > 0 && p + 1 > s->window ? p + 1 - s->window : 0;
    double score[TOKENS], top = -INFINITY, sum = 0;
    const float *q = queries + (size_t)query * s->dim;
    for (uint32_t t = first; t <= p; t++) {
        score[t] = 0;
        for (uint32_t d = 0; d < s->dim; d++)
            score[t] += (double)q[d] * k[t][d];
        score[t] *= 0.3f;
        if (s->softcap > 0)
            score[t] = s->softcap * tanh(score[t] / s->softcap);
        top = score[t] > top ? score[t] : top;
    }
    for (uint32_t d = 0; d < s->dim; d++)
        out[d] = 0;
    for (uint32_t t = first; t <= p; t++) {
        double w = exp(score[t] - top);
        sum += w;
        for (uint32_t d = 0; d < s->dim; d++)
            out[d] += w * v[t][d];
    }
    for (uint32_t d = 0; d < s->dim; d++)
        out[d] /= sum;
}

/* What a type keeps of the inputs. */
static void kept_of(lac_kv_type type, uint32_t dim, float (*from)[DIM_MAX], float (*to)[DIM_MAX])
{
    for (uint32_t t = 0; t < TOKENS; t++) {
        int8_t codes[DIM_MAX];
        uint16_t scales[DIM_MAX / 32];
        lac__kernels_scalar.to_q8(from[t], dim, codes, scales, 1);
        for (uint32_t d = 0; d < dim; d++)
            to[t][d] = type == LAC_KV_F32   ? from[t][d]
                       : type == LAC_KV_F16 ? lac__f16_to_f32(lac__f32_to_f16(from[t][d]))
                                            : lac__f16_to_f32(scales[d / 32]) * (float)codes[d];
    }
}

START_TEST(attention_agrees)
{
    static float k[TOKENS][DIM_MAX], v[TOKENS][DIM_MAX], want[QUERIES_MAX * DIM_MAX],
        got[QUERIES_MAX * DIM_MAX];
    const shape *s = &shapes[_i % SHAPES];
    lac_kv_type type = (lac_kv_type)(_i / SHAPES);
    size_t page_bytes, count = (size_t)s->rows * s->group * s->dim;
    uint32_t table[PAGES];
    for (uint32_t b = 0; b < PAGES; b++)
        table[b] = b;
    inputs_fill((uint64_t)_i + 1);
    float *scratch = malloc(lac__attention_scratch(s->rows, s->group, s->dim) * sizeof *scratch);
    uint8_t *pages = pages_make(&lac__kernels_scalar, type, s->dim, &page_bytes);
    lac__attention_item item = item_of(s, type, pages, page_bytes, table, want, scratch);
    lac__kernels_scalar.attention(&item);
    kept_of(type, s->dim, keys, k);
    kept_of(type, s->dim, values, v);
    for (uint32_t i = 0; i < s->rows * s->group; i++) {
        double truth[DIM_MAX];
        truth_of(s, i, k, v, truth);
        for (uint32_t d = 0; d < s->dim; d++)
            ck_assert_msg(fabs(truth[d] - want[(size_t)i * s->dim + d]) < 2e-5,
                          "query %u, dim %u: %g for %g", i, d, want[(size_t)i * s->dim + d],
                          truth[d]);
    }
    for (const lac__kernels *const *f = kernels_fast(); *f; f++) {
        size_t bytes;
        uint8_t *own = pages_make(*f, type, s->dim, &bytes);
        ck_assert_msg(memcmp(own, pages, PAGES * bytes) == 0, "%s writes other pages", (*f)->name);
        memset(got, 0, sizeof got);
        item = item_of(s, type, own, bytes, table, got, scratch);
        (*f)->attention(&item);
        ck_assert_msg(memcmp(want, got, count * sizeof *want) == 0, "%s: other bits", (*f)->name);
        free(own);
    }
    free(pages);
    free(scratch);
}
END_TEST

/* A key with one large value next to small ones, tiny ones, zeros, halves of blocks, and what is no
 * number. */
START_TEST(q8_keeps_what_it_can)
{
    for (uint32_t round = 0; round < 300; round++) {
        float x[DIM_MAX];
        int8_t a[DIM_MAX + 1], b[DIM_MAX + 1];
        uint16_t as[DIM_MAX / 32 * 3], bs[DIM_MAX / 32 * 3];
        uint32_t n = 8 + round % 31 * 8;
        uint64_t seed = round;
        float size = powf(10.0f, (float)(round % 14) - 9.0f);
        for (uint32_t i = 0; i < n; i++)
            x[i] = rnd_float(&seed) * size * (i % 37 == 5 ? 30.0f : 1.0f);
        if (round % 9 == 0)
            memset(x, 0, n * sizeof *x);
        if (round % 10 == 3)
            x[n - 1] = round % 20 == 3 ? INFINITY : NAN;
        memset(a, 7, sizeof a);
        memset(b, 7, sizeof b);
        memset(as, 7, sizeof as);
        memset(bs, 7, sizeof bs);
        lac__kernels_scalar.to_q8(x, n, a, as, 3);
        ck_assert_int_eq(a[n], 7);
        for (uint32_t i = 0; i < n; i++) {
            float d = lac__f16_to_f32(as[i / 32 * 3]), kept = d * (float)a[i];
            bool odd = round % 10 == 3 && i / 32 == (n - 1) / 32;
            ck_assert_int_ge(a[i], -127);
            if (odd)
                ck_assert_msg(!isfinite(d), "what is not finite must not get lost");
            else /* half precision has no scale below 6e-8: there it is as coarse as that */
                ck_assert(fabsf(x[i] - kept) <= 0.51f * d + 127 * 0x1p-25f);
        }
        for (const lac__kernels *const *f = kernels_fast(); *f; f++) {
            (*f)->to_q8(x, n, b, bs, 3);
            ck_assert_mem_eq(a, b, sizeof a);
            ck_assert_mem_eq(as, bs, sizeof as);
        }
    }
}
END_TEST

START_TEST(kv_types_have_names)
{
    lac_kv_type type;
    for (int i = LAC_KV_F16; i <= LAC_KV_Q8; i++) {
        ck_assert(lac_kv_type_parse(lac_kv_type_name((lac_kv_type)i), &type));
        ck_assert_int_eq(type, i);
    }
    ck_assert(!lac_kv_type_parse("q4", &type));
    ck_assert_uint_eq(lac__kv_head_bytes(LAC_KV_F16, 64), 2 * 2 * 64 * 32);
    ck_assert_uint_eq(lac__kv_head_bytes(LAC_KV_Q8, 64), 2 * 64 * 32 + 2 * 2 * 2 * 32);
    ck_assert_uint_eq(lac__kv_head_bytes(LAC_KV_Q8, 40), 2 * 40 * 32 + 2 * 2 * 2 * 32);
}
END_TEST

Suite *suite_attention(void)
{
    Suite *s = suite_create("attention");
    TCase *t = tcase_create("attention");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, attention_agrees, 0, 3 * SHAPES);
    tcase_add_test(t, q8_keeps_what_it_can);
    tcase_add_test(t, kv_types_have_names);
    suite_add_tcase(s, t);
    return s;
}
