/* The best token and the drawn one, against what a plain loop over the logits says: ties, caps,
 * slices, top-k, top-p and min-p with their edges, the order of ids, and the same token in every
 * order of threads. */
#include <math.h>
#include <stdlib.h>

#include "cuda_suites.h"
#include "world.h"

enum { ROWS = 3 };

typedef struct {
    world w;
    lac__pick_args a;
    lac__draw *draws; /* [ROWS] */
} scene;

static uint32_t slices(uint32_t vocab)
{
    return (vocab + LAC__PICK_SLICE - 1) / LAC__PICK_SLICE;
}

static void scene_make(scene *s, uint32_t vocab, float spread, uint64_t seed)
{
    uint64_t state = seed + vocab;
    world_make(&s->w, ROWS, 2);
    s->draws = world_room(ROWS * sizeof *s->draws);
    s->a = (lac__pick_args){.step = s->w.step,
                            .logits = world_floats((size_t)ROWS * vocab),
                            .vocab = vocab,
                            .slice_best = world_floats(ROWS * slices(vocab)),
                            .slice_id = world_room(ROWS * slices(vocab) * 4),
                            .counter = world_room(ROWS * 4),
                            .best = world_floats(ROWS),
                            .token = world_room(ROWS * 4),
                            .draws = s->draws,
                            .drawn = world_room(ROWS * 4)};
    memset(s->a.counter, 0, ROWS * 4);
    for (size_t i = 0; i < (size_t)ROWS * vocab; i++) /* coarse, so that there are ties */
        s->a.logits[i] = spread * roundf(rnd_float(&state) * 64.0f) / 64.0f;
}

static void best(scene *s, uint64_t seed)
{
    world_launch("lac_best", slices(s->a.vocab), ROWS + 1, 1, LAC__PICK_THREADS, 0, seed, &s->a);
}

START_TEST(the_best_is_the_lowest_of_equals)
{
    static const uint32_t sizes[] = {1, 31, 8191, 8193, 20000};
    for (size_t v = 0; v < 5; v++)
        for (uint64_t seed = 0; seed < 3; seed++) {
            scene s;
            scene_make(&s, sizes[v], 3.0f, seed);
            s.a.softcap = seed == 2 ? 2.0f : 0.0f;
            float *before = world_floats((size_t)ROWS * sizes[v]);
            memcpy(before, s.a.logits, (size_t)ROWS * sizes[v] * 4);
            best(&s, seed);
            for (uint32_t r = 0; r < ROWS; r++) {
                uint32_t want = 0;
                for (uint32_t k = 1; k < sizes[v]; k++)
                    if (before[r * sizes[v] + k] > before[r * sizes[v] + want])
                        want = k;
                ck_assert_uint_eq(s.a.token[r], want);
                float top = before[r * sizes[v] + want];
                top = s.a.softcap > 0 ? 2.0f * tanhf(top / 2.0f) : top;
                ck_assert(fabsf(s.a.best[r] - top) < 1e-6f);
                ck_assert_uint_eq(s.a.counter[r], 0);
            }
            ck_assert_uint_eq(*s.w.odd, 0);
            s.a.logits[sizes[v] - 1] = NAN;
            best(&s, seed);
            ck_assert_uint_eq(*s.w.odd, 1);
            world_free();
        }
}
END_TEST

/* ---- the plain loop ---- */

static const float *sorting;

static int by_logit(const void *pa, const void *pb)
{
    uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;
    if (sorting[a] != sorting[b])
        return sorting[a] > sorting[b] ? -1 : 1;
    return a < b ? -1 : 1;
}

/* The token by the definition; *margin is how near to a border the draw fell. */
static uint32_t expect(const float *x, uint32_t vocab, const lac__draw *d, double *margin)
{
    uint32_t *order = malloc(vocab * 4), count = vocab;
    for (uint32_t i = 0; i < vocab; i++)
        order[i] = i;
    sorting = x;
    qsort(order, vocab, 4, by_logit);
    if (d->top_k > 0 && d->top_k < count)
        count = d->top_k;
    double total = 0, reached = 0, top = x[order[0]];
    *margin = 1;
    for (uint32_t i = 0; i < count; i++)
        total += exp((x[order[i]] - top) * d->inverse_temperature);
    if (d->top_p < 1.0f) {
        uint32_t keep = 0;
        while (keep < count && (keep == 0 || reached < d->top_p * total)) {
            if (keep > 0 && d->top_p * total - reached < *margin)
                *margin = d->top_p * total - reached;
            reached += exp((x[order[keep++]] - top) * d->inverse_temperature);
        }
        if (reached - d->top_p * total < *margin)
            *margin = reached - d->top_p * total;
        count = keep;
    }
    char *kept = calloc(vocab, 1);
    total = 0;
    for (uint32_t i = 0; i < count; i++) {
        double weight = exp((x[order[i]] - top) * d->inverse_temperature);
        if (fabs(weight - d->min_p) < *margin)
            *margin = fabs(weight - d->min_p);
        if (weight >= d->min_p) {
            kept[order[i]] = 1;
            total += weight;
        }
    }
    uint32_t token = 0;
    reached = 0;
    for (uint32_t i = 0; i < vocab; i++) {
        if (!kept[i])
            continue;
        if (fabs(reached - d->unit * total) < *margin)
            *margin = fabs(reached - d->unit * total);
        token = i;
        reached += exp((x[i] - top) * d->inverse_temperature);
        if (reached > d->unit * total)
            break;
    }
    free(order);
    free(kept);
    return token;
}

START_TEST(draws_by_the_definition)
{
    static const lac__draw kinds[] = {
        {0.1, 1.0f, 1.0f, 0.0f, 0},   {0.5, 0.7f, 1.0f, 0.0f, 40}, {0.9, 1.2f, 0.9f, 0.0f, 0},
        {0.3, 1.0f, 0.5f, 0.0f, 7},   {0.99, 0.5f, 1.0f, 0.2f, 0}, {0.75, 2.0f, 0.95f, 0.05f, 50},
        {0.0, 1.0f, 0.01f, 0.0f, 0},  {0.4, 1.0f, 1.0f, 0.0f, 1},  {0.999999, 0.9f, 0.8f, 0.0f, 3},
        {0.62, 8.0f, 0.97f, 0.0f, 0}, {0.5, 0.0f, 1.0f, 0.0f, 0},  {0.2, 1.0f, 1.0f, 1.0f, 0},
    };
    static const uint32_t sizes[] = {5, 513, 6000};
    uint32_t judged = 0;
    for (size_t v = 0; v < 3; v++)
        for (size_t k = 0; k < 12; k++) {
            scene s;
            scene_make(&s, sizes[v], 6.0f, k);
            for (uint32_t r = 0; r < ROWS; r++) {
                s.draws[r] = kinds[k];
                s.draws[r].unit = fmod(kinds[k].unit + 0.37 * r, 1.0);
            }
            best(&s, k);
            world_launch("lac_draw", ROWS + 1, 1, 1, LAC__PICK_THREADS, 0, k, &s.a);
            for (uint32_t r = 0; r < ROWS; r++) {
                double margin;
                uint32_t want = s.a.token[r];
                if (kinds[k].inverse_temperature > 0)
                    want = expect(s.a.logits + r * sizes[v], sizes[v], &s.draws[r], &margin);
                else
                    margin = 1;
                if (margin < 1e-4) /* either side of a border is right */
                    continue;
                judged++;
                ck_assert_msg(s.a.drawn[r] == want, "vocab %u kind %zu row %u: %u for %u", sizes[v],
                              k, r, s.a.drawn[r], want);
            }
            world_free();
        }
    ck_assert_uint_gt(judged, 60);
}
END_TEST

START_TEST(order_of_threads_does_not_matter)
{
    uint32_t first[ROWS];
    for (uint64_t seed = 0; seed < 5; seed++) {
        scene s;
        scene_make(&s, 3000, 4.0f, 1);
        for (uint32_t r = 0; r < ROWS; r++)
            s.draws[r] = (lac__draw){0.1 + 0.4 * r, 0.8f, 0.93f, 0.0f, 900};
        best(&s, seed);
        world_launch("lac_draw", ROWS, 1, 1, LAC__PICK_THREADS, 0, seed, &s.a);
        for (uint32_t r = 0; r < ROWS; r++) {
            if (seed == 0)
                first[r] = s.a.drawn[r];
            ck_assert_uint_eq(s.a.drawn[r], first[r]);
        }
        world_free();
    }
}
END_TEST

Suite *suite_pick(void)
{
    Suite *s = suite_create("pick");
    TCase *t = tcase_create("pick");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, the_best_is_the_lowest_of_equals);
    tcase_add_test(t, draws_by_the_definition);
    tcase_add_test(t, order_of_threads_does_not_matter);
    suite_add_tcase(s, t);
    return s;
}
