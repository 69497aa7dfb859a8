/* Attention over pages, decode and prefill, against the scalar reference: heads in groups of all
 * sizes, odd head widths, lengths on both sides of page and split borders, windows, caps, pages in
 * scattered order and full of NaN where nothing was written, both page types, row lists. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cuda_suites.h"
#include "world.h"

enum { SEGMENTS_MAX = 8 };

typedef struct {
    uint32_t heads, kv_heads, dim;
    uint32_t segments, pos[SEGMENTS_MAX], rows[SEGMENTS_MAX];
    uint32_t split_tokens, window;
    float softcap;
    bool wide, biases, norms, finish;
    uint32_t rope;  /* lac_rope_style */
    uint32_t every; /* the list names every so manieth segment */
} plan;

typedef struct {
    const plan *p;
    world w;
    lac__attention_args a;
    uint8_t *before, *pages; /* the reference's pages are `before` */
    uint32_t *tables, stride, pages_count, first_row[SEGMENTS_MAX];
    size_t page_bytes;
    float *raw, *want; /* raw as given; results [packed row][heads × dim] */
} scene;

static float *some(size_t n, uint64_t *state)
{
    float *x = world_floats(n);
    for (size_t i = 0; i < n; i++)
        x[i] = rnd_float(state);
    return x;
}

/* One finished key or value into the reference's pages. */
static void page_put(scene *s, uint32_t segment, uint32_t pos, uint32_t head, bool value,
                     const float *x)
{
    const plan *p = s->p;
    size_t size = p->wide ? 4 : 2, plane = (size_t)32 * p->dim, t = pos % 32;
    uint8_t *page = s->before + s->tables[(segment * 2 + 1) * s->stride + pos / 32] * s->page_bytes;
    for (uint32_t d = 0; d < p->dim; d++) {
        size_t at = (size_t)head * 2 * plane +
                    (value ? plane + t * p->dim + d : t / 8 * p->dim * 8 + (size_t)d * 8 + t % 8);
        uint16_t h = lac__f32_to_f16(x[d]);
        memcpy(page + at * size, p->wide ? (const void *)&x[d] : (const void *)&h, size);
    }
}

static void finish(const scene *s, float *x, const lac__head_of *of, uint32_t head, bool rotate,
                   uint32_t pos)
{
    const plan *p = s->p;
    if (of->bias)
        lac__kernels_scalar.add(x, of->bias + head * p->dim, p->dim);
    if (of->norm)
        lac__kernels_scalar.norm(x, of->norm, p->dim, 1e-5f, x);
    const float *angle = s->a.angles + (size_t)pos * p->dim;
    if (rotate && p->rope)
        lac__kernels_scalar.rope(x, (lac_rope_style)p->rope, p->dim, angle, angle + p->dim / 2);
}

static void make_pages(scene *s, uint64_t *state)
{
    const plan *p = s->p;
    s->stride = 0;
    for (uint32_t g = 0; g < p->segments; g++)
        s->stride = (p->pos[g] + p->rows[g] - 1) / 32 + 1 > s->stride
                        ? (p->pos[g] + p->rows[g] - 1) / 32 + 1
                        : s->stride;
    s->pages_count = s->stride * p->segments + 1;
    s->page_bytes = (size_t)p->kv_heads * p->dim * 32 * 2 * (p->wide ? 4 : 2);
    s->before = world_room(s->pages_count * s->page_bytes);
    s->pages = world_room(s->pages_count * s->page_bytes);
    s->tables = world_room((size_t)p->segments * 2 * s->stride * 4);
    uint32_t *order = world_room(s->pages_count * 4);
    for (uint32_t i = 0; i < s->pages_count; i++)
        order[i] = i;
    for (uint32_t i = s->pages_count; i > 1; i--) {
        uint32_t j = rnd(state) % i, keep = order[j];
        order[j] = order[i - 1], order[i - 1] = keep;
    }
    float *x = malloc(p->dim * 4);
    for (uint32_t g = 0, next = 0; g < p->segments; g++) {
        s->w.table_at[g] = g * 2 * s->stride;
        s->w.table_stride[g] = s->stride;
        for (uint32_t b = 0; b <= (p->pos[g] + p->rows[g] - 1) / 32; b++)
            s->tables[(g * 2 + 1) * s->stride + b] = order[next++];
        for (uint32_t t = 0; t < p->pos[g]; t++)
            for (uint32_t h = 0; h < 2 * p->kv_heads; h++) {
                for (uint32_t d = 0; d < p->dim; d++)
                    x[d] = rnd_float(state);
                page_put(s, g, t, h / 2, h % 2, x);
            }
    }
    free(x);
    memcpy(s->pages, s->before, s->pages_count * s->page_bytes);
}

static void make_step(scene *s)
{
    const plan *p = s->p;
    uint32_t rows = 0, tiles = 0, decodes = 0;
    for (uint32_t g = 0; g < p->segments; g++) {
        s->first_row[g] = rows;
        for (uint32_t i = 0; i < p->rows[g]; i++, rows++) {
            s->w.segment[rows] = g;
            s->w.position[rows] = p->pos[g] + i;
        }
        if (p->rows[g] == 1)
            s->w.decode_row[decodes++] = s->first_row[g];
        for (uint32_t i = 0; p->rows[g] > 1 && i < p->rows[g]; i += LAC__TILE_ROWS) {
            uint32_t n = p->rows[g] - i < LAC__TILE_ROWS ? p->rows[g] - i : LAC__TILE_ROWS;
            s->w.tiles[tiles++] = (lac__tile_item){s->first_row[g] + i, n};
        }
    }
    *s->w.head = (lac__step_head){decodes, tiles, p->split_tokens, 0};
    /* list 1: every so manieth segment, whole */
    uint32_t *list = s->w.lists + 1 + 2 * rows;
    memset(list, 0xff, (1 + 2 * rows) * 4);
    list[0] = 0;
    for (uint32_t r = 0; r < rows; r++)
        if (s->w.segment[r] % p->every == 0) {
            list[1 + rows + r] = list[0];
            list[1 + list[0]++] = r;
        }
}

static uint32_t all_rows(const plan *p)
{
    uint32_t rows = 0;
    for (uint32_t g = 0; g < p->segments; g++)
        rows += p->rows[g];
    return rows;
}

static void scene_make(scene *s, const plan *p, uint64_t seed)
{
    uint64_t state = seed * 77 + p->heads + p->dim * 3;
    uint32_t rows = all_rows(p), heads = p->heads + 2 * p->kv_heads, longest = 1;
    *s = (scene){.p = p};
    world_make(&s->w, rows, 2);
    make_step(s);
    make_pages(s, &state);
    for (uint32_t g = 0; g < p->segments; g++)
        longest = p->pos[g] + p->rows[g] > longest ? p->pos[g] + p->rows[g] : longest;
    float *angles = world_floats((size_t)longest * p->dim);
    for (uint32_t t = 0; t < longest; t++)
        for (uint32_t i = 0; i < p->dim / 2; i++) {
            double angle = t * pow(10000.0, -2.0 * i / p->dim);
            angles[t * p->dim + i] = (float)cos(angle);
            angles[t * p->dim + p->dim / 2 + i] = (float)sin(angle);
        }
    uint32_t listed = s->w.lists[1 + 2 * rows];
    s->w.step.tables = s->tables;
    s->raw = some((size_t)rows * heads * p->dim, &state);
    float *copy = world_floats((size_t)rows * heads * p->dim);
    memcpy(copy, s->raw, (size_t)rows * heads * p->dim * 4);
    uint32_t splits = (longest - 1) / p->split_tokens + 1, group = p->heads / p->kv_heads;
    s->a = (lac__attention_args){
        .step = s->w.step,
        .list = 1,
        .raw = copy,
        .q = {p->biases ? some(p->heads * p->dim, &state) : NULL,
              p->norms ? some(p->dim, &state) : NULL},
        .k = {p->biases ? some(p->kv_heads * p->dim, &state) : NULL,
              p->norms ? some(p->dim, &state) : NULL},
        .v = {p->biases ? some(p->kv_heads * p->dim, &state) : NULL, NULL},
        .eps = 1e-5f,
        .heads = p->heads,
        .kv_heads = p->kv_heads,
        .head_dim = p->dim,
        .rope_style = p->rope,
        .rope_dims = p->dim,
        .angles = angles,
        .region = s->pages,
        .page_bytes = s->page_bytes,
        .table = 1,
        .wide = p->wide,
        .finish = p->finish,
        .scale = 0.3f,
        .softcap = p->softcap,
        .window = p->window,
        .partial = world_floats((size_t)rows * splits * p->kv_heads * group * (p->dim + 2)),
        .counter = world_room((size_t)rows * p->kv_heads * 4)};
    memset(s->a.counter, 0, (size_t)rows * p->kv_heads * 4);
    world_panel(&s->a.to, listed, p->heads * p->dim, p->heads * p->dim % 32 == 0, true);
}

/* The reference over the listed rows; appends to its own pages first. */
static void expect(scene *s)
{
    const plan *p = s->p;
    uint32_t rows = all_rows(p), heads = p->heads + 2 * p->kv_heads, group = p->heads / p->kv_heads;
    uint32_t width = p->heads * p->dim;
    const uint32_t *list = s->w.lists + 1 + 2 * rows;
    float *q = calloc((size_t)rows * width, 4), *scratch;
    s->want = world_floats((size_t)rows * width);
    for (uint32_t i = 0; i < list[0]; i++) {
        uint32_t row = list[1 + i], pos = s->w.position[row];
        float *x = s->raw + (size_t)i * heads * p->dim;
        for (uint32_t h = 0; h < heads; h++, x += p->dim) {
            bool query = h < p->heads, value = h >= p->heads + p->kv_heads;
            uint32_t head = query ? h : value ? h - p->heads - p->kv_heads : h - p->heads;
            finish(s, x, query ? &s->a.q : value ? &s->a.v : &s->a.k, head, !value, pos);
            if (query)
                memcpy(q + ((size_t)i * p->heads + h) * p->dim, x, p->dim * 4);
            else
                page_put(s, s->w.segment[row], pos, head, value, x);
        }
    }
    scratch = malloc(lac__attention_scratch(16, group, p->dim) * 4);
    for (uint32_t i = 0; i < list[0]; i++)
        for (uint32_t h = 0; h < p->kv_heads; h++) {
            uint32_t row = list[1 + i], pos = s->w.position[row];
            lac__attention_item item = {.q = q + (size_t)i * width + h * group * p->dim,
                                        .q_stride = width,
                                        .out = s->want + (size_t)i * width + h * group * p->dim,
                                        .out_stride = width,
                                        .rows = 1,
                                        .group = group,
                                        .head_dim = p->dim,
                                        .pos = pos,
                                        .split_last = pos / LAC__SPLIT + 1,
                                        .scale = 0.3f,
                                        .softcap = p->softcap,
                                        .window = p->window,
                                        .kv_type = p->wide ? LAC_KV_F32 : LAC_KV_F16,
                                        .region = s->before,
                                        .page_bytes = s->page_bytes,
                                        .head_offset = (size_t)h * 64 * p->dim * (p->wide ? 4 : 2),
                                        .pages =
                                            s->tables + (s->w.segment[row] * 2 + 1) * s->stride,
                                        .scratch = scratch};
            lac__kernels_scalar.attention(&item);
        }
    free(scratch);
    free(q);
}

static void compare(scene *s, const char *name)
{
    const plan *p = s->p;
    uint32_t width = p->heads * p->dim, group = p->heads / p->kv_heads;
    uint32_t count = s->w.lists[1 + 2 * all_rows(p)];
    for (size_t i = 0; i < (size_t)count * width; i++)
        ck_assert_msg(fabs((double)s->a.to.f[i] - s->want[i]) <= (p->wide ? 1e-5 : 2e-4),
                      "%s, %u/%u heads of %u: row %zu value %zu: %g for %g", name, p->heads,
                      p->kv_heads, p->dim, i / width, i % width, (double)s->a.to.f[i],
                      (double)s->want[i]);
    bool quantised =
        width % 32 == 0 && (p->dim % 32 == 0 || (p->finish && group * p->dim % 32 == 0));
    for (size_t i = 0; quantised && i < (size_t)count * width; i++) {
        double d = s->a.to.s[i / 32 * 4], back = d * s->a.to.q[i];
        ck_assert_msg(fabs(back - s->a.to.f[i]) <= d * 0.5001 + 1e-9, "%s: %g as %g", name,
                      (double)s->a.to.f[i], back);
    }
    for (uint32_t i = 0; i < s->pages_count * (s->page_bytes / (p->wide ? 4 : 2)); i++) {
        float got = p->wide ? ((float *)(void *)s->pages)[i]
                            : lac__f16_to_f32(((uint16_t *)(void *)s->pages)[i]);
        float want = p->wide ? ((float *)(void *)s->before)[i]
                             : lac__f16_to_f32(((uint16_t *)(void *)s->before)[i]);
        if (isnan(want))
            ck_assert_msg(isnan(got), "%s: wrote a page at %u", name, i);
        else
            ck_assert_msg(fabs((double)got - want) <= 2e-3 * fabs((double)want) + 1e-6,
                          "%s: page value %u is %g, not %g", name, i, (double)got, (double)want);
    }
    for (uint32_t i = 0; i < all_rows(p) * p->kv_heads; i++)
        ck_assert_uint_eq(s->a.counter[i], 0);
}

static void run(const plan *p, uint64_t seed)
{
    scene s;
    char decode[32], prefill[32];
    uint32_t group = p->heads / p->kv_heads, longest = 0;
    uint32_t at_once = group % 4 == 0 ? 4 : group % 3 == 0 ? 3 : group >= 4 ? 4 : group;
    uint32_t wide = p->dim <= 64 ? 64 : p->dim <= 128 ? 128 : p->dim <= 256 ? 256 : 512;
    uint32_t queries = wide <= 128 ? 32 : wide == 256 ? 16 : 8;
    scene_make(&s, p, seed);
    expect(&s);
    for (uint32_t g = 0; g < p->segments; g++)
        longest = p->pos[g] + p->rows[g] > longest ? p->pos[g] + p->rows[g] : longest;
    snprintf(decode, sizeof decode, "lac_attend_%u", at_once);
    snprintf(prefill, sizeof prefill, "lac_prefill_%u", wide);
    if (!p->finish)
        world_launch("lac_heads", all_rows(p) + 1, 1, 1, LAC__ATTENTION_THREADS, 4 * p->dim * 4,
                     seed, &s.a);
    uint32_t shared =
        (group * p->dim + 2 * p->dim + 4 * at_once * (p->dim + 2) + group * (p->dim + 2)) * 4;
    world_launch(decode, s.w.head->decode_rows + 1, p->kv_heads,
                 (longest - 1) / p->split_tokens + 1, LAC__ATTENTION_THREADS, shared, seed, &s.a);
    shared = (queries * p->dim + 32 * p->dim + queries * 32 + p->dim * 33) * 4;
    world_launch(prefill, s.w.head->tiles + 1, p->kv_heads, (16 * group + queries - 1) / queries,
                 LAC__ATTENTION_THREADS, shared, seed, &s.a);
    compare(&s, p->finish ? decode : prefill);
    world_free();
}

START_TEST(decode_finishes_appends_and_attends)
{
    static const plan plans[] = {
        {9, 3, 64, 3, {0, 31, 300}, {1, 1, 1}, 256, 0, 0, false, false, false, true, 2, 1},
        {14, 2, 64, 2, {32, 95}, {1, 1}, 64, 0, 0, false, true, false, true, 2, 1},
        {4, 1, 256, 2, {40, 7}, {1, 1}, 32, 33, 0, false, false, true, true, 1, 1},
        {6, 2, 16, 3, {63, 64, 65}, {1, 1, 1}, 32, 20, 5, true, true, true, true, 1, 2},
        {8, 8, 80, 2, {33, 70}, {1, 1}, 32, 0, 0, true, false, false, true, 0, 1},
        {2, 1, 512, 1, {45}, {1}, 256, 0, 0, false, false, false, true, 2, 1},
        {5, 1, 96, 2, {10, 50}, {1, 1}, 64, 7, 30, false, false, true, true, 2, 1},
        {8, 2, 128, 4, {1, 127, 128, 5}, {1, 1, 1, 1}, 64, 0, 0, false, false, false, true, 2, 3},
    };
    for (uint64_t seed = 0; seed < 3; seed++)
        run(&plans[_i], seed);
}
END_TEST

START_TEST(prefill_and_decode_rows_together)
{
    static const plan plans[] = {
        {9, 3, 64, 3, {0, 31, 100}, {20, 1, 5}, 256, 0, 0, false, false, false, false, 2, 1},
        {14, 2, 64, 2, {32, 95}, {17, 2}, 64, 0, 0, false, true, false, false, 2, 1},
        {4, 1, 256, 2, {40, 7}, {3, 1}, 32, 33, 0, false, false, true, false, 1, 1},
        {6, 2, 16, 3, {63, 64, 0}, {1, 9, 40}, 32, 20, 5, true, true, true, false, 1, 2},
        {8, 8, 80, 2, {33, 0}, {1, 33}, 32, 0, 0, true, false, false, false, 0, 1},
        {2, 1, 512, 1, {45}, {6}, 256, 0, 0, false, false, false, false, 2, 1},
        {5, 1, 96, 2, {10, 50}, {12, 1}, 64, 7, 30, false, false, true, false, 2, 1},
        {8, 2, 128, 4, {1, 127, 20, 5}, {2, 1, 18, 1}, 64, 0, 0, false, false, false, false, 2, 3},
    };
    for (uint64_t seed = 0; seed < 2; seed++)
        run(&plans[_i], seed);
}
END_TEST

Suite *suite_attention(void)
{
    Suite *s = suite_create("attention");
    TCase *t = tcase_create("attention");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, decode_finishes_appends_and_attends, 0, 8);
    tcase_add_loop_test(t, prefill_and_decode_rows_together, 0, 8);
    suite_add_tcase(s, t);
    return s;
}
