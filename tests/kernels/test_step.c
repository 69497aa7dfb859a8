/* Whole steps over a small model: against float64, between instruction sets, thread counts, batches
 * and chunkings bit for bit, over page and split boundaries, windows, poisoned memory and row
 * lists. */
#include <math.h>
#include <stdlib.h>

#include "model.h"

static const traits plain = {.type = LAC_TYPE_Q4_1, .style = LAC_ROPE_HALVES};
static const traits rich = {.type = LAC_TYPE_Q8_0,
                            .window = {40, 0},
                            .softcap = 5.0f,
                            .biases = true,
                            .head_norms = true,
                            .post_norms = true,
                            .style = LAC_ROPE_PAIRS,
                            .act = LAC_ACT_GELU_TANH};
static const traits half = {.type = LAC_TYPE_F16, .window = {0, 7}, .style = LAC_ROPE_HALVES};

static uint32_t token_at(uint32_t sequence, uint32_t i)
{
    return (i * 37u + sequence * 101u + i * i % 11u) % VOCAB;
}

enum { SEQUENCES_MAX = 48, PAGES_MAX = CONTEXT / LAC_KV_BLOCK };

/* Sequences in step with each other; pages are dealt in a scattered order. */
typedef struct {
    engine *e;
    uint32_t tables[SEQUENCES_MAX][LAYERS][PAGES_MAX];
    uint32_t length[SEQUENCES_MAX];
    uint32_t next_page;
    const lac_row_list *patch_rows; /* of the next steps */
} run;

static uint32_t page_take(run *r)
{
    uint32_t page = r->next_page++ * 13u % r->e->pages; /* 13 and the page count have no divisor */
    ck_assert_uint_lt(r->next_page, r->e->pages);
    return page;
}

/* The best ones are there in order: none is left out, equal logits by token. */
static void top_check(const lac_logit_row *row)
{
    uint32_t better = 0;
    for (uint32_t i = 0; i < row->top_count; i++) {
        lac_top_logit x = row->top[i];
        ck_assert_uint_lt(x.token, VOCAB);
        ck_assert(x.logit == row->logits[x.token]);
        better = 0;
        for (uint32_t k = 0; k < VOCAB; k++)
            better += row->logits[k] > x.logit || (row->logits[k] == x.logit && k < x.token);
        ck_assert_uint_eq(better, i);
    }
}

/* Feeds `rows[i]` more tokens to sequence i and gets the logits of each one's last row. `lists`:
 * rows a unit runs, or NULL. */
static void feed(run *r, const uint32_t *rows, uint32_t sequences, const lac_row_list *lists,
                 float (*logits)[VOCAB])
{
    lac_segment segments[SEQUENCES_MAX];
    lac_logit_row wanted[SEQUENCES_MAX];
    static lac_top_logit top[SEQUENCES_MAX][LAC_TOP_LOGITS_MAX];
    uint32_t tokens[128], total = 0, used = 0;
    for (uint32_t s = 0; s < sequences; s++) {
        if (rows[s] == 0)
            continue;
        for (uint32_t b = 0; b <= (r->length[s] + rows[s] - 1) / LAC_KV_BLOCK; b++)
            if (b >= (r->length[s] + LAC_KV_BLOCK - 1) / LAC_KV_BLOCK)
                for (uint32_t l = 0; l < LAYERS; l++)
                    r->tables[s][l][b] = page_take(r);
        segments[used] = (lac_segment){.row = total,
                                       .rows = rows[s],
                                       .pos = r->length[s],
                                       .tables = &r->tables[s][0][0],
                                       .table_stride = PAGES_MAX};
        for (uint32_t i = 0; i < rows[s]; i++)
            tokens[total++] = token_at(s, r->length[s]++);
        wanted[used] = (lac_logit_row){.row = total - 1,
                                       .logits = logits[s],
                                       .top_count = total % 3 ? total % 40 : LAC_TOP_LOGITS_MAX,
                                       .top = top[used]};
        used++;
    }
    lac_batch batch = {.rows = total,
                       .tokens = tokens,
                       .segments_count = used,
                       .segments = segments,
                       .logit_rows_count = used,
                       .logit_rows = wanted,
                       .unit_rows = lists,
                       .patch_rows = r->patch_rows};
    lac_error err = {0};
    ck_assert_msg(r->e->api->run(r->e->be, r->e->ops, r->e->ops_count, &batch, &err) == LAC_OK,
                  "%s", err.text);
    for (uint32_t i = 0; i < used; i++) {
        float best = wanted[i].logits[0];
        uint32_t id = 0;
        for (uint32_t k = 1; k < VOCAB; k++)
            if (wanted[i].logits[k] > best)
                best = wanted[i].logits[k], id = k;
        ck_assert_uint_eq(wanted[i].best_token, id);
        ck_assert(wanted[i].best_logit == best);
        top_check(&wanted[i]);
    }
}

static void feed_one(run *r, uint32_t tokens, uint32_t chunk, float *logits)
{
    for (uint32_t done = 0; done < tokens;) {
        uint32_t n = tokens - done < chunk ? tokens - done : chunk;
        feed(r, &n, 1, NULL, (float(*)[VOCAB])logits);
        done += n;
    }
}

static const traits *const kinds[] = {&plain, &rich, &half};

START_TEST(reference_agrees_with_float64)
{
    static const uint32_t lengths[] = {1, 7, 32, 33, 90, 300};
    model m;
    engine e;
    model_make(&m, kinds[_i]);
    engine_open(&e, &m, LAC_ISA_REFERENCE, 2, LAC_KV_F32);
    for (size_t i = 0; i < 6; i++) {
        float logits[VOCAB];
        double truth[VOCAB], size = 0.0, worst = 0.0;
        uint32_t tokens[CONTEXT];
        run *r = calloc(1, sizeof *r);
        r->e = &e;
        engine_poison(&e);
        feed_one(r, lengths[i], 64, logits);
        for (uint32_t k = 0; k < lengths[i]; k++)
            tokens[k] = token_at(0, k);
        model_truth(&m, tokens, lengths[i], 0, truth);
        for (uint32_t k = 0; k < VOCAB; k++) {
            size = fabs(truth[k]) > size ? fabs(truth[k]) : size;
            worst = fabs(truth[k] - logits[k]) > worst ? fabs(truth[k] - logits[k]) : worst;
        }
        ck_assert_msg(worst <= 1e-5 * size, "length %u: off by %g of %g", lengths[i], worst, size);
        free(r);
    }
    engine_close(&e);
    model_free(&m);
}
END_TEST

/* The quantised path stays near the truth: not a figure of quality, but nothing can be missing. */
START_TEST(quantised_is_near_float64)
{
    model m;
    engine e;
    float logits[VOCAB];
    double truth[VOCAB], dot = 0, a = 0, b = 0;
    uint32_t tokens[64];
    run *r = calloc(1, sizeof *r);
    model_make(&m, kinds[_i]);
    engine_open(&e, &m, LAC_ISA_SCALAR, 1, LAC_KV_F16);
    r->e = &e;
    feed_one(r, 64, 64, logits);
    for (uint32_t k = 0; k < 64; k++)
        tokens[k] = token_at(0, k);
    model_truth(&m, tokens, 64, 0, truth);
    for (uint32_t k = 0; k < VOCAB; k++)
        dot += truth[k] * logits[k], a += truth[k] * truth[k], b += (double)logits[k] * logits[k];
    ck_assert_msg(dot / sqrt(a * b) > 0.999, "cosine %g", dot / sqrt(a * b));
    free(r);
    engine_close(&e);
    model_free(&m);
}
END_TEST

/* Every way to run the same tokens gives the bits of the scalar version on one thread in one piece.
 */
START_TEST(isa_threads_and_chunks_do_not_matter)
{
    static const uint32_t lengths[] = {1, 31, 32, 33, 65, 256, 257, 530},
                          chunks[] = {1, 5, 16, 17, 64, 128};
    static const lac_isa isas[] = {LAC_ISA_SCALAR, LAC_ISA_AVX2, LAC_ISA_AVXVNNI, LAC_ISA_AVX512};
    model m;
    model_make(&m, kinds[_i / 8]);
    uint32_t n = lengths[_i % 8];
    float truth[VOCAB], logits[VOCAB];
    bool have_truth = false;
    for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
        for (uint32_t threads = 1; threads <= 3; threads++) {
            engine e;
            if (!lac_cpu_isa_have(isas[i]))
                continue;
            engine_open(&e, &m, isas[i], threads, LAC_KV_F16);
            for (size_t c = 0; c < 6; c++) {
                if (isas[i] == LAC_ISA_SCALAR && n > 100 && c + 1 < 6 && threads > 1)
                    continue; /* slow, and covered by the shorter ones */
                run *r = calloc(1, sizeof *r);
                r->e = &e;
                engine_poison(&e);
                feed_one(r, n, chunks[5 - c], logits);
                if (!have_truth)
                    memcpy(truth, logits, sizeof truth);
                have_truth = true;
                ck_assert_msg(memcmp(truth, logits, sizeof truth) == 0,
                              "%s, %u threads, chunks of %u: other bits", lac_isa_name(isas[i]),
                              threads, chunks[5 - c]);
                free(r);
            }
            engine_close(&e);
        }
    }
    model_free(&m);
}
END_TEST

/* The same with keys and values in bytes, which also stay near those in halves. */
START_TEST(bytes_of_keys_and_values)
{
    static const uint32_t lengths[] = {33, 257, 530}, chunks[] = {1, 5, 17, 128};
    model m;
    engine e;
    uint32_t n = lengths[_i / 3];
    float halves[VOCAB], truth[VOCAB], logits[VOCAB];
    bool have_truth = false;
    double dot = 0, a = 0, b = 0;
    model_make(&m, kinds[_i % 3]);
    for (uint32_t isa = LAC_ISA_SCALAR; isa <= LAC_ISA_AVX512; isa++) {
        if (!lac_cpu_isa_have((lac_isa)isa))
            continue;
        for (uint32_t c = 0; c < (isa == LAC_ISA_SCALAR ? 1 : 4); c++) {
            engine_open(&e, &m, (lac_isa)isa, 1 + c % 3, LAC_KV_Q8);
            run *r = calloc(1, sizeof *r);
            r->e = &e;
            feed_one(r, n, chunks[3 - c], logits);
            if (!have_truth)
                memcpy(truth, logits, sizeof truth);
            have_truth = true;
            ck_assert_msg(memcmp(truth, logits, sizeof truth) == 0, "%s, chunks of %u: other bits",
                          lac_isa_name((lac_isa)isa), chunks[3 - c]);
            free(r);
            engine_close(&e);
        }
    }
    engine_open(&e, &m, lac_cpu_isa_best(), 2, LAC_KV_F16);
    run *r = calloc(1, sizeof *r);
    r->e = &e;
    feed_one(r, n, 128, halves);
    for (uint32_t k = 0; k < VOCAB; k++)
        dot += (double)halves[k] * truth[k], a += (double)halves[k] * halves[k],
            b += (double)truth[k] * truth[k];
    ck_assert_msg(dot / sqrt(a * b) > 0.9995, "cosine %g", dot / sqrt(a * b));
    ck_assert(memcmp(halves, truth, sizeof truth) != 0);
    free(r);
    engine_close(&e);
    model_free(&m);
}
END_TEST

/* Sequences of different lengths, some in prefill, some in decode, together and alone. */
START_TEST(neighbours_do_not_matter)
{
    enum { N = 40 };
    model m;
    engine e;
    static float alone[N][VOCAB], together[N][VOCAB];
    model_make(&m, kinds[_i]);
    engine_open(&e, &m, lac_cpu_isa_best(), 2, LAC_KV_F16);
    for (uint32_t s = 0; s < N; s++) {
        uint32_t rows[N] = {0};
        run *r = calloc(1, sizeof *r);
        r->e = &e;
        rows[s] = s % 7 + 1;
        feed(r, rows, N, NULL, alone);
        rows[s] = s % 3 == 0 ? 3 : 1;
        feed(r, rows, N, NULL, alone);
        free(r);
    }
    run *r = calloc(1, sizeof *r);
    r->e = &e;
    uint32_t rows[N];
    for (uint32_t part = 0; part < 2; part++) { /* at most 128 rows a step */
        memset(rows, 0, sizeof rows);
        for (uint32_t s = part * 20; s < part * 20 + 20; s++)
            rows[s] = s % 7 + 1;
        feed(r, rows, N, NULL, together);
    }
    for (uint32_t s = 0; s < N; s++)
        rows[s] = s % 3 == 0 ? 3 : 1;
    feed(r, rows, N, NULL, together);
    for (uint32_t s = 0; s < N; s++)
        ck_assert_msg(memcmp(alone[s], together[s], sizeof alone[s]) == 0, "sequence %u differs",
                      s);
    free(r);
    engine_close(&e);
    model_free(&m);
}
END_TEST

/* Each sequence of a batch erases other units: as if its model had never had them. */
START_TEST(row_lists_leave_units_out)
{
    enum { N = 6, UNITS = 2 * LAYERS };
    static const uint32_t skips[N] = {0, 1, 2, 12, 4, 9};
    model m;
    engine e;
    static float mixed[N][VOCAB], single[VOCAB];
    model_make(&m, kinds[_i]);
    engine_open(&e, &m, lac_cpu_isa_best(), 2, LAC_KV_F16);
    run *r = calloc(1, sizeof *r);
    r->e = &e;
    uint32_t steps[2][N] = {{9, 20, 1, 33, 4, 8}, {1, 1, 2, 1, 1, 5}};
    for (uint32_t step = 0; step < 2; step++) {
        uint32_t lists[UNITS][128];
        lac_row_list list[UNITS];
        for (uint32_t u = 0; u < UNITS; u++) {
            uint32_t row = 0, count = 0;
            for (uint32_t s = 0; s < N; s++)
                for (uint32_t i = 0; i < steps[step][s]; i++, row++)
                    if (!(skips[s] >> u & 1))
                        lists[u][count++] = row;
            list[u] = (lac_row_list){count, lists[u]};
        }
        feed(r, steps[step], N, list, mixed);
    }
    free(r);
    for (uint32_t s = 0; s < N; s++) {
        /* The same alone, the erased operations taken out of the program itself. */
        engine f;
        uint32_t rows[N] = {0};
        engine_open(&f, &m, lac_cpu_isa_best(), 1, LAC_KV_F16);
        size_t kept = 0;
        for (size_t i = 0; i < f.ops_count; i++) {
            bool unit = f.ops[i].kind != LAC_OP_EMBED && f.ops[i].kind != LAC_OP_HEAD;
            if (!unit || !(skips[s] >> f.ops[i].unit & 1))
                f.ops[kept++] = f.ops[i];
        }
        f.ops_count = kept;
        run *q = calloc(1, sizeof *q);
        q->e = &f;
        float out[N][VOCAB];
        for (uint32_t step = 0; step < 2; step++) {
            rows[s] = steps[step][s];
            feed(q, rows, N, NULL, out);
        }
        memcpy(single, out[s], sizeof single);
        ck_assert_msg(memcmp(single, mixed[s], sizeof single) == 0,
                      "skip %u: row differs from its own model", skips[s]);
        free(q);
        engine_close(&f);
    }
    engine_close(&e);
    model_free(&m);
}
END_TEST

START_TEST(a_unit_with_no_row_is_not_touched)
{
    model m;
    engine e;
    float logits[1][VOCAB], again[1][VOCAB];
    model_make(&m, &plain);
    engine_open(&e, &m, lac_cpu_isa_best(), 2, LAC_KV_F16);
    run *r = calloc(1, sizeof *r);
    r->e = &e;
    uint32_t rows = 12, all[12];
    for (uint32_t i = 0; i < 12; i++)
        all[i] = i;
    lac_row_list lists[2 * LAYERS] = {{0, NULL}, {12, all}, {12, all}, {0, NULL}};
    feed(r, &rows, 1, lists, logits);
    /* Nothing of its KV was written: the poison is whole. */
    for (size_t i = 0; i < e.pages * e.page_bytes; i++)
        ck_assert_uint_eq(((uint8_t *)e.kv[0])[i], 0xff);
    /* Erased weights may be anything; those of a unit that runs must show. */
    memset(e.w[1 + PER_LAYER + 12]->data, 0x33, 256); /* gate of unit 3 */
    r->length[0] = r->next_page = 0;
    feed(r, &rows, 1, lists, again);
    ck_assert_mem_eq(logits, again, sizeof logits);
    memset(e.w[1 + 12]->data, 0x33, 256); /* gate of unit 1 */
    r->length[0] = r->next_page = 0;
    feed(r, &rows, 1, lists, again);
    ck_assert(memcmp(logits, again, sizeof logits) != 0);
    free(r);
    engine_close(&e);
    model_free(&m);
}
END_TEST

enum { PATCH_ROWS = 90 };
static uint32_t every_row[PATCH_ROWS];
static lac_row_list all_rows(uint32_t count)
{
    ck_assert_uint_le(count, PATCH_ROWS);
    for (uint32_t i = 0; i < count; i++)
        every_row[i] = i;
    return (lac_row_list){count, every_row};
}

/* A unit left out, its patch in its place. */
static const struct {
    uint32_t unit, rank;
} patches[] = {{0, 8}, {1, 40}, {2, HIDDEN}, {3, 2}};

START_TEST(patches_agree_with_float64)
{
    uint32_t unit = patches[_i].unit, n = 33;
    model m;
    engine e;
    float logits[VOCAB];
    double truth[VOCAB], plain_truth[VOCAB], size = 0, worst = 0, moved = 0;
    uint32_t tokens[64];
    model_make(&m, &half);
    engine_open(&e, &m, LAC_ISA_REFERENCE, 2, LAC_KV_F32);
    for (uint32_t k = 0; k < n; k++)
        tokens[k] = token_at(0, k);
    model_truth(&m, tokens, n, 1u << unit, plain_truth);
    model_patch(&m, unit, patches[_i].rank, 0);
    model_truth(&m, tokens, n, 1u << unit, truth);
    engine_patch(&e, &m, unit, 0);
    run *r = calloc(1, sizeof *r);
    r->e = &e;
    lac_row_list list = all_rows(n), units[2 * LAYERS] = {list, list, list, list};
    units[unit].count = 0;
    r->patch_rows = &list;
    feed(r, &n, 1, units, &logits);
    for (uint32_t k = 0; k < VOCAB; k++) {
        size = fmax(size, fabs(truth[k]));
        moved = fmax(moved, fabs(truth[k] - plain_truth[k]));
        worst = fmax(worst, fabs(truth[k] - logits[k]));
    }
    ck_assert_msg(worst <= 1e-5 * size && moved > 1e-2 * size, "off by %g, moved by %g of %g",
                  worst, moved, size);
    free(r);
    engine_close(&e);
    model_free(&m);
}
END_TEST

/* Three classes: none, one that patches units 0 and 3, one that patches 0 (otherwise) and 2. Alone
 * and together, on every instruction set and thread count: the same bits. */
static void patch_classes(model *m, engine *e)
{
    model_patch(m, 0, 8, 1);
    model_patch(m, 3, HIDDEN, 1);
    engine_patch(e, m, 0, 0);
    engine_patch(e, m, 3, 0);
    model_patch(m, 0, 24, 2);
    model_patch(m, 2, 16, 2);
    engine_patch(e, m, 0, 1);
    engine_patch(e, m, 2, 1);
}

static void feed_classes(run *r, const uint32_t rows[3], float (*logits)[VOCAB])
{
    static const uint32_t keeps[2 * LAYERS] = {1, 7, 3, 5}; /* bit c: class c runs the unit */
    uint32_t lists[2 * LAYERS][128];
    lac_row_list units[2 * LAYERS], patch[2];
    uint32_t all = rows[0] + rows[1] + rows[2];
    (void)all_rows(all);
    for (uint32_t u = 0; u < 2 * LAYERS; u++) {
        uint32_t row = 0, count = 0;
        for (uint32_t s = 0; s < 3; s++)
            for (uint32_t i = 0; i < rows[s]; i++, row++)
                if (keeps[u] >> s & 1)
                    lists[u][count++] = row;
        units[u] = (lac_row_list){count, lists[u]};
    }
    patch[0] = (lac_row_list){rows[1], every_row + rows[0]};
    patch[1] = (lac_row_list){rows[2], every_row + rows[0] + rows[1]};
    r->patch_rows = patch;
    feed(r, rows, 3, units, logits);
}

START_TEST(patches_have_the_same_bits_alone_and_together)
{
    static const uint32_t steps[3][3] = {{5, 20, 33}, {1, 1, 1}, {3, 2, 9}};
    static float mixed[3][VOCAB], other[3][VOCAB];
    model m;
    for (uint32_t isa = LAC_ISA_REFERENCE; isa <= LAC_ISA_AVX512; isa++) {
        if (!lac_cpu_isa_have((lac_isa)isa))
            continue;
        engine e;
        run *r = calloc(1, sizeof *r);
        model_make(&m, kinds[_i]);
        engine_open(&e, &m, (lac_isa)isa, isa == LAC_ISA_SCALAR ? 1 : 3, LAC_KV_F16);
        patch_classes(&m, &e);
        r->e = &e;
        for (uint32_t k = 0; k < 3; k++)
            feed_classes(r, steps[k], other);
        if (isa == LAC_ISA_SCALAR)
            memcpy(mixed, other, sizeof mixed);
        else if (isa > LAC_ISA_SCALAR)
            ck_assert_msg(memcmp(mixed, other, sizeof mixed) == 0, "isa %u differs", isa);
        for (uint32_t s = 0; s < 3; s++) {
            static float alone[3][VOCAB];
            run *q = calloc(1, sizeof *q);
            q->e = &e;
            for (uint32_t k = 0; k < 3; k++) {
                uint32_t rows[3] = {0};
                rows[s] = steps[k][s];
                feed_classes(q, rows, alone);
            }
            ck_assert_msg(memcmp(alone[s], other[s], sizeof alone[s]) == 0,
                          "isa %u, class %u: alone is not together", isa, s);
            free(q);
        }
        free(r);
        engine_close(&e);
        model_free(&m);
    }
}
END_TEST

/* A linear unit with a norm weight: its own row list, every type, and the bits of a patch where the
 * weight is ones. */
START_TEST(a_linear_unit_is_a_patch_with_a_norm)
{
    static float patched[1][VOCAB], linear[1][VOCAB], alone[1][VOCAB];
    model m;
    uint32_t n = 20;
    for (int pass = 0; pass < 3; pass++) {
        engine e;
        model_make(&m, &half);
        engine_open(&e, &m, lac_cpu_isa_best(), 2, LAC_KV_F16);
        model_patch(&m, 0, HIDDEN, 3);
        engine_patch(&e, &m, 0, 0);
        run *r = calloc(1, sizeof *r);
        r->e = &e;
        lac_row_list list = all_rows(n), units[2 * LAYERS] = {{0, NULL}, list, list, list};
        size_t at = 0;
        while (e.ops[at].kind != LAC_OP_PATCH)
            at++;
        lac_weight *ones = NULL;
        float one[HIDDEN];
        for (uint32_t i = 0; i < HIDDEN; i++)
            one[i] = 1;
        ck_assert_int_eq(e.api->weight_pack(e.be, LAC_TYPE_F32, 1, HIDDEN, one, &ones, NULL),
                         LAC_OK);
        e.patches[e.patches_count++] = ones;
        if (pass == 0) {
            r->patch_rows = &list;
            feed(r, &n, 1, units, patched);
        } else { /* in place of the attention of layer 0, whose operations go */
            e.ops[at].kind = LAC_OP_LINEAR;
            e.ops[at].unit = 0;
            e.ops[at].u.linear.norm = ones;
            memmove(&e.ops[1], &e.ops[at], (e.ops_count - at) * sizeof e.ops[0]);
            e.ops_count -= at - 1;
            units[0] = list;
            for (uint32_t i = 0; pass == 2 && i < n; i++) {
                uint32_t row = 1;
                feed(r, &row, 1, NULL, alone);
            }
            if (pass == 1)
                feed(r, &n, 1, units, linear);
        }
        free(r);
        engine_close(&e);
        model_free(&m);
    }
    ck_assert_mem_eq(patched, linear, sizeof patched);
    ck_assert_mem_eq(patched, alone, sizeof patched);
}
END_TEST

/* A quantised one: near the same in float32. */
START_TEST(a_linear_unit_may_be_quantised)
{
    static float logits[2][1][VOCAB];
    model m;
    uint32_t n = 5;
    model_make(&m, &plain);
    matrix square = m.w[1 + 9]; /* [hidden][heads × dim], of which a part is square */
    for (int pass = 0; pass < 2; pass++) {
        engine e;
        lac_weight *up = NULL;
        uint8_t bytes[HIDDEN * 64 * 2];
        size_t row = row_bytes(square.type, square.cols), part = row_bytes(square.type, HIDDEN);
        for (uint32_t i = 0; i < HIDDEN; i++)
            memcpy(bytes + i * part, square.bytes + i * row, part);
        engine_open(&e, &m, pass ? LAC_ISA_REFERENCE : lac_cpu_isa_best(), 2, LAC_KV_F32);
        ck_assert_int_eq(e.api->weight_pack(e.be, square.type, HIDDEN, HIDDEN, bytes, &up, NULL),
                         LAC_OK);
        e.patches[e.patches_count++] = up;
        e.ops[1] = (lac_op){
            .kind = LAC_OP_LINEAR, .unit = 0, .u.linear = {.norm = e.w[1], .eps = 1e-5f, .up = up}};
        memmove(&e.ops[2], &e.ops[4], (e.ops_count - 4) * sizeof e.ops[0]);
        e.ops_count -= 2;
        run *r = calloc(1, sizeof *r);
        r->e = &e;
        feed(r, &n, 1, NULL, logits[pass]);
        free(r);
        engine_close(&e);
    }
    double dot = 0, a = 0, b = 0;
    for (uint32_t k = 0; k < VOCAB; k++) {
        dot += (double)logits[0][0][k] * logits[1][0][k];
        a += (double)logits[0][0][k] * logits[0][0][k];
        b += (double)logits[1][0][k] * logits[1][0][k];
    }
    ck_assert_msg(dot > 0.99 * sqrt(a * b), "cosine %g", dot / sqrt(a * b));
    model_free(&m);
}
END_TEST

/* A program with patches and a batch without lists for them is the program without. */
START_TEST(patches_without_rows_cost_nothing)
{
    static float with[1][VOCAB], without[1][VOCAB];
    model m;
    engine e;
    uint32_t n = 12;
    for (int pass = 0; pass < 2; pass++) {
        model_make(&m, &plain);
        engine_open(&e, &m, lac_cpu_isa_best(), 2, LAC_KV_F16);
        if (pass == 0)
            patch_classes(&m, &e);
        run *r = calloc(1, sizeof *r);
        r->e = &e;
        feed(r, &n, 1, NULL, pass == 0 ? with : without);
        free(r);
        engine_close(&e);
        model_free(&m);
    }
    ck_assert_mem_eq(with, without, sizeof with);
}
END_TEST

/* The best logits of a row are those of its normed state as it is, not of one rounded to bytes; the
 * others are rounded ones. */
START_TEST(the_best_logits_are_refined)
{
    model m;
    engine e;
    static float logits[VOCAB], state[9 * HIDDEN];
    uint32_t tokens[9], table[LAYERS][PAGES_MAX] = {{0}}, refined = 0, rounded = 0;
    lac_error err = {0};
    model_make(&m, &plain);
    engine_open(&e, &m, lac_cpu_isa_best(), 2, LAC_KV_F16);
    for (uint32_t i = 0; i < 9; i++)
        tokens[i] = token_at(3, i);
    lac_segment segment = {.rows = 9, .tables = &table[0][0], .table_stride = PAGES_MAX};
    lac_logit_row row = {.row = 8, .logits = logits};
    lac_batch batch = {.rows = 9,
                       .tokens = tokens,
                       .segments_count = 1,
                       .segments = &segment,
                       .logit_rows_count = 1,
                       .logit_rows = &row,
                       .residual_out = state};
    ck_assert_int_eq(e.api->run(e.be, e.ops, e.ops_count, &batch, &err), LAC_OK);
    const float *h = state + 8 * HIDDEN;
    double square = 0;
    for (uint32_t d = 0; d < HIDDEN; d++)
        square += (double)h[d] * h[d];
    for (uint32_t k = 0; k < VOCAB; k++) {
        double truth = 0, size = 0;
        uint32_t better = 0;
        for (uint32_t d = 0; d < HIDDEN; d++) {
            double x = h[d] / sqrt(square / HIDDEN + 1e-5) * m.w[WEIGHTS - 1].values[d] *
                       m.w[0].values[(size_t)k * HIDDEN + d];
            truth += x;
            size += fabs(x);
        }
        for (uint32_t o = 0; o < VOCAB; o++)
            better += logits[o] > logits[k];
        double off = fabs(truth - logits[k]) / size;
        if (better < 8) /* of sixteen: the rest may have changed places */
            ck_assert_msg(off < 1e-6, "token %u, place %u: off by %g", k, better, off);
        refined += off < 1e-6;
        rounded += off > 1e-5;
    }
    ck_assert_uint_ge(refined, 16);
    ck_assert_uint_gt(rounded, VOCAB / 2);
    engine_close(&e);
    model_free(&m);
}
END_TEST

START_TEST(what_is_not_finite_is_reported)
{
    model m;
    engine e;
    model_make(&m, &half);
    uint16_t inf = 0x7c00;
    memcpy(m.w[1 + 14].bytes + 10, &inf, 2); /* a weight of the first FFN's down projection */
    engine_open(&e, &m, lac_cpu_isa_best(), 2, LAC_KV_F16);
    uint32_t tokens[1] = {3}, table[LAYERS * PAGES_MAX] = {0};
    lac_segment g = {.rows = 1, .tables = table, .table_stride = PAGES_MAX};
    lac_logit_row want = {.row = 0};
    lac_batch batch = {.rows = 1,
                       .tokens = tokens,
                       .segments_count = 1,
                       .segments = &g,
                       .logit_rows_count = 1,
                       .logit_rows = &want};
    lac_error err = {0};
    ck_assert_int_eq(e.api->run(e.be, e.ops, e.ops_count, &batch, &err), LAC_EINTERNAL);
    engine_close(&e);
    model_free(&m);
}
END_TEST

START_TEST(bad_shapes_are_refused)
{
    model m;
    engine e;
    lac_error err = {0};
    lac_weight *w = NULL;
    model_make(&m, &plain);
    engine_open(&e, &m, LAC_ISA_SCALAR, 1, LAC_KV_F16);
    ck_assert_int_eq(e.api->weight_pack(e.be, LAC_TYPE_Q4_K, 8, 576, m.w[1].bytes, &w, &err),
                     LAC_EINVAL);
    ck_assert_int_eq(e.api->weight_pack(e.be, LAC_TYPE_Q4_1, 8, 40, m.w[1].bytes, &w, &err),
                     LAC_EINVAL);
    ck_assert_int_eq(e.api->weight_pack(e.be, LAC_TYPE_Q4_1, 0, 64, m.w[1].bytes, &w, &err),
                     LAC_EINVAL);
    ck_assert_int_eq(e.api->weight_pack(e.be, (lac_type)99, 8, 64, m.w[1].bytes, &w, &err),
                     LAC_EUNSUPPORTED);
    ck_assert_ptr_null(w);
    uint32_t token = 1, table[LAYERS * PAGES_MAX] = {0};
    lac_segment g = {.rows = 1, .tables = table, .table_stride = PAGES_MAX};
    lac_logit_row want = {.row = 1};
    lac_batch batch = {.rows = 1,
                       .tokens = &token,
                       .segments_count = 1,
                       .segments = &g,
                       .logit_rows_count = 1,
                       .logit_rows = &want};
    ck_assert_int_eq(e.api->run(e.be, e.ops, e.ops_count, &batch, &err), LAC_EINVAL);
    ck_assert_str_eq(err.text, "logit row 0 is 1, allowed 0..0");
    lac_op wrong[2] = {e.ops[0], e.ops[1]};
    wrong[1].u.qkv.head_dim = 12;
    batch.logit_rows_count = 0;
    ck_assert_int_eq(e.api->run(e.be, wrong, 2, &batch, &err), LAC_EINVAL);
    /* A patch that does not fit the stream, and one whose matrices do not meet. */
    wrong[1] = (lac_op){.kind = LAC_OP_PATCH, .u.linear = {.up = e.w[9]}};
    ck_assert_int_eq(e.api->run(e.be, wrong, 2, &batch, &err), LAC_EINVAL);
    model_patch(&m, 0, 8, 0);
    engine_patch(&e, &m, 0, 0);
    wrong[1].u.linear.up = e.patches[1];
    ck_assert_int_eq(e.api->run(e.be, wrong, 2, &batch, &err), LAC_EINVAL);
    ck_assert_str_eq(err.text, "op 1: a linear map is not 64 x 64 x 64, or of quantised factors");
    engine_close(&e);
    model_free(&m);
}
END_TEST

Suite *suite_step(void)
{
    Suite *s = suite_create("step");
    TCase *t = tcase_create("step");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, reference_agrees_with_float64, 0, 3);
    tcase_add_loop_test(t, quantised_is_near_float64, 0, 3);
    tcase_add_loop_test(t, isa_threads_and_chunks_do_not_matter, 0, 24);
    tcase_add_loop_test(t, bytes_of_keys_and_values, 0, 9);
    tcase_add_loop_test(t, neighbours_do_not_matter, 0, 3);
    tcase_add_loop_test(t, row_lists_leave_units_out, 0, 3);
    tcase_add_test(t, a_unit_with_no_row_is_not_touched);
    tcase_add_loop_test(t, patches_agree_with_float64, 0, 4);
    tcase_add_loop_test(t, patches_have_the_same_bits_alone_and_together, 0, 3);
    tcase_add_test(t, patches_without_rows_cost_nothing);
    tcase_add_test(t, a_linear_unit_is_a_patch_with_a_norm);
    tcase_add_test(t, a_linear_unit_may_be_quantised);
    tcase_add_test(t, the_best_logits_are_refined);
    tcase_add_test(t, what_is_not_finite_is_reported);
    tcase_add_test(t, bad_shapes_are_refused);
    suite_add_tcase(s, t);
    return s;
}
