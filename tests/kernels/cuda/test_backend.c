/* The whole backend over the fake driver: steps of a small model against the CPU's scalar backend,
 * in prefill, decode and both, as graphs and kernel by kernel; units left out and patched row by
 * row; what a decode step costs in kernels; every call of the driver failing once. */
#include <math.h>
#include <stdlib.h>

#include "../model.h"
#include "cuda_suites.h"
#include "fake_driver.h"
#include "kernels/cuda.h"

enum { SEQUENCES = 6, PAGES = CONTEXT / LAC_KV_BLOCK, UNITS = 2 * LAYERS };

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
static const traits *const kinds[] = {&plain, &rich, &half};

/* The same sequences on both backends. */
typedef struct {
    model m;
    engine cpu, cuda;
    uint32_t tables[SEQUENCES][LAYERS][PAGES], length[SEQUENCES], next_page;
    const lac_row_list *unit_rows, *patch_rows;
    double worst; /* largest difference, of the largest logit */
} pair;

static void pair_open(pair *p, const traits *t)
{
    memset(p, 0, sizeof *p);
    fake_driver_use();
    model_make(&p->m, t);
    model_patch(&p->m, 1, 5, 1);
    model_patch(&p->m, 2, HIDDEN, 1);
    engine_open(&p->cpu, &p->m, LAC_ISA_SCALAR, 1, LAC_KV_F16);
    engine_open_on(lac_cuda_backend(), &p->cuda, &p->m, LAC_ISA_AUTO, 1, LAC_KV_F16);
}

static void pair_close(pair *p)
{
    engine_close(&p->cpu);
    engine_close(&p->cuda);
    model_free(&p->m);
    ck_assert_uint_eq(fake.alive, 0);
}

static void must(engine *e, lac_batch *batch)
{
    lac_error err = {0};
    lac_status status = e->api->run(e->be, e->ops, e->ops_count, batch, &err);
    ck_assert_msg(status == LAC_OK, "%s: %s %s", e->api->name, err.text, fake.error);
}

/* Feeds rows[i] tokens to sequence i on both, and compares the logits of their last rows. */
static void feed(pair *p, const uint32_t *rows)
{
    static float a[SEQUENCES][VOCAB], b[SEQUENCES][VOCAB];
    lac_segment segments[SEQUENCES];
    lac_logit_row wanted[2][SEQUENCES];
    lac_top_logit top[SEQUENCES][4];
    uint32_t tokens[128], total = 0, used = 0;
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        if (rows[s] == 0)
            continue;
        for (uint32_t at = p->length[s]; at < p->length[s] + rows[s]; at++)
            for (uint32_t l = 0; l < LAYERS; l++)
                if (at % LAC_KV_BLOCK == 0)
                    p->tables[s][l][at / LAC_KV_BLOCK] = p->next_page++ * 13u % p->cpu.pages;
        segments[used] = (lac_segment){total, rows[s], p->length[s], &p->tables[s][0][0], PAGES};
        for (uint32_t i = 0; i < rows[s]; i++, p->length[s]++)
            tokens[total++] = (p->length[s] * 37 + s * 101) % VOCAB;
        wanted[0][used] = (lac_logit_row){.row = total - 1, .logits = a[used]};
        wanted[1][used] = (lac_logit_row){
            .row = total - 1, .logits = b[used], .top_count = used % 3 * 2, .top = top[used]};
        used++;
    }
    for (int which = 0; which < 2; which++) {
        lac_batch batch = {.rows = total,
                           .tokens = tokens,
                           .segments_count = used,
                           .segments = segments,
                           .logit_rows_count = used,
                           .logit_rows = wanted[which],
                           .unit_rows = p->unit_rows,
                           .patch_rows = p->patch_rows};
        must(which ? &p->cuda : &p->cpu, &batch);
    }
    for (uint32_t i = 0; i < used; i++) {
        double size = 0, off = 0;
        for (uint32_t k = 0; k < VOCAB; k++) {
            size = fabs((double)a[i][k]) > size ? fabs((double)a[i][k]) : size;
            off = fabs((double)a[i][k] - b[i][k]) > off ? fabs((double)a[i][k] - b[i][k]) : off;
            ck_assert(b[i][k] <= wanted[1][i].best_logit);
        }
        ck_assert(b[i][wanted[1][i].best_token] == wanted[1][i].best_logit);
        for (uint32_t k = 0; k < wanted[1][i].top_count; k++) {
            uint32_t above = 0;
            for (uint32_t j = 0; j < VOCAB; j++)
                above += b[i][j] > top[i][k].logit ||
                         (b[i][j] == top[i][k].logit && j < top[i][k].token);
            ck_assert_uint_eq(above, k);
            ck_assert(b[i][top[i][k].token] == top[i][k].logit);
        }
        p->worst = off / size > p->worst ? off / size : p->worst;
        ck_assert_msg(off <= 0.02 * size, "segment %u of %u rows: off by %g of %g", i, total, off,
                      size);
    }
}

START_TEST(steps_agree_with_the_cpu)
{
    static const uint32_t steps[][SEQUENCES] = {
        {1, 0, 0, 0, 0, 0},  {7, 33, 0, 0, 1, 0}, {1, 1, 0, 0, 1, 0},
        {1, 1, 1, 1, 1, 1},  {1, 20, 1, 5, 1, 0}, {1, 1, 1, 1, 1, 0},
        {60, 1, 0, 0, 0, 0}, {1, 1, 0, 0, 0, 0},  {1, 0, 0, 0, 0, 1},
    };
    pair p;
    pair_open(&p, kinds[_i]);
    for (size_t s = 0; s < sizeof steps / sizeof *steps; s++)
        feed(&p, steps[s]);
    ck_assert_uint_gt(fake.graphs, 0);
    ck_assert_uint_gt(fake.launches, 0);
    ck_assert_uint_gt(fake.waits, 0);
    pair_close(&p);
}
END_TEST

/* Every sequence leaves other units out, two of them with patches: decode and prefill, and a unit
 * that nobody runs. */
START_TEST(units_are_left_out_row_by_row)
{
    static const uint32_t skips[SEQUENCES] = {2, 1 | 2, 2, 4 | 2, 2 | 8, 15};
    static const uint32_t steps[][SEQUENCES] = {
        {1, 1, 1, 1, 1, 1}, {9, 1, 20, 1, 4, 2}, {1, 1, 1, 1, 1, 1}, {1, 0, 0, 0, 1, 0}};
    pair p;
    pair_open(&p, kinds[_i]);
    engine_patch(&p.cpu, &p.m, 1, 0), engine_patch(&p.cuda, &p.m, 1, 0);
    engine_patch(&p.cpu, &p.m, 2, 1), engine_patch(&p.cuda, &p.m, 2, 1);
    for (size_t s = 0; s < 4; s++) {
        uint32_t rows[UNITS + 2][128], at = 0;
        lac_row_list lists[UNITS + 2];
        for (uint32_t u = 0; u < UNITS + 2; u++)
            lists[u] = (lac_row_list){0, rows[u]};
        for (uint32_t q = 0; q < SEQUENCES; q++)
            for (uint32_t i = 0; i < steps[s][q]; i++, at++) {
                for (uint32_t u = 0; u < UNITS; u++)
                    if (!(skips[q] >> u & 1))
                        rows[u][lists[u].count++] = at;
                if (q == 1 || q == 4)
                    rows[UNITS][lists[UNITS].count++] = at;
                if (q == 3)
                    rows[UNITS + 1][lists[UNITS + 1].count++] = at;
            }
        ck_assert_uint_eq(lists[1].count, 0);
        p.unit_rows = lists;
        p.patch_rows = lists + UNITS;
        feed(&p, steps[s]);
    }
    pair_close(&p);
}
END_TEST

/* Five kernels a layer at batch 1, and none of a unit that is left out. */
START_TEST(kernels_of_a_decode_step)
{
    pair p;
    static const uint32_t first[SEQUENCES] = {1}, row[] = {0};
    pair_open(&p, &plain);
    feed(&p, first);
    uint32_t before = fake.nodes, launches = fake.launches;
    feed(&p, first);
    /* this model's groups of heads are 48 wide: no whole blocks, so quantising is a kernel more */
    ck_assert_uint_eq(fake.nodes - before, 1 + 6 * LAYERS + 2);
    ck_assert_uint_eq(fake.launches, launches);
    lac_row_list lists[UNITS] = {{1, row}, {1, row}, {1, row}, {0, NULL}};
    p.unit_rows = lists;
    before = fake.nodes;
    feed(&p, first);
    ck_assert_uint_eq(fake.nodes - before, 1 + 6 * LAYERS + 2 - 2);
    p.unit_rows = NULL;
    before = fake.nodes;
    feed(&p, first);
    ck_assert_uint_eq(fake.nodes - before, 1 + 6 * LAYERS + 2);
    pair_close(&p);
}
END_TEST

START_TEST(tokens_are_drawn_on_the_device)
{
    pair p;
    pair_open(&p, &plain);
    static float logits[VOCAB];
    uint32_t token = 3, table[LAYERS][PAGES] = {{0}};
    lac_segment segment = {0, 1, 0, &table[0][0], PAGES};
    uint32_t seen = 0, first = 0;
    for (uint32_t i = 0; i < 8; i++) {
        lac_sample sample = {
            .unit = i / 8.0 + 0.06, .temperature = 2.0f, .top_p = 1.0f, .top_k = 50};
        lac_logit_row wanted = {.row = 0, .logits = logits, .sample = &sample};
        lac_batch batch = {.rows = 1,
                           .tokens = &token,
                           .segments_count = 1,
                           .segments = &segment,
                           .logit_rows_count = 1,
                           .logit_rows = &wanted};
        must(&p.cuda, &batch);
        uint32_t above = 0;
        for (uint32_t k = 0; k < VOCAB; k++)
            above += logits[k] > logits[wanted.best_token];
        ck_assert_uint_lt(above, 50);
        first = i == 0 ? wanted.best_token : first;
        seen += wanted.best_token != first;
    }
    ck_assert_uint_gt(seen, 3);
    pair_close(&p);
}
END_TEST

/* Every call of the driver fails once, from create to the second step: an error with a text,
 * nothing left behind, and no step after it that is silently wrong. */
START_TEST(every_failure_is_an_error)
{
    uint32_t failures = 0;
    model m;
    model_make(&m, &plain);
    for (uint32_t at = 1;; at += at < 60 ? 1 : 7) {
        engine e = {.api = lac_cuda_backend(), .pages = 4};
        lac_error err = {0};
        lac_backend_options o = {.rows_max = 8,
                                 .logit_rows_max = 2,
                                 .hidden = HIDDEN,
                                 .q_width_max = HEADS * DIM,
                                 .kv_width_max = KV_HEADS * DIM,
                                 .ffn_max = FFN,
                                 .vocab = VOCAB,
                                 .context_max = 64};
        fake_driver_use();
        fake.fail_at = at;
        lac_status status = e.api->create(&o, &e.be, &err);
        lac_weight *w[3] = {NULL};
        if (status == LAC_OK)
            status = e.api->weight_reserve(e.be, LAC_TYPE_Q4_1, VOCAB, HIDDEN, &w[0], &err);
        for (uint32_t r = 0; status == LAC_OK && r < VOCAB; r += 64)
            e.api->weight_fill(e.be, w[0], LAC_TYPE_Q4_1, r, VOCAB - r < 64 ? VOCAB - r : 64,
                               m.w[0].bytes + r * row_bytes(LAC_TYPE_Q4_1, HIDDEN));
        if (status == LAC_OK)
            status = e.api->weight_pack(e.be, LAC_TYPE_F32, 1, HIDDEN, m.w[WEIGHTS - 1].bytes,
                                        &w[1], &err);
        lac_op ops[2] = {
            {.kind = LAC_OP_EMBED, .u.embed = {.table = w[0], .scale = 1.0f}},
            {.kind = LAC_OP_HEAD, .u.head = {.norm = w[1], .eps = 1e-5f, .weight = w[0]}}};
        uint32_t tokens[2] = {1, 2}, table[1] = {0};
        for (uint32_t step = 0; step < 2 && status == LAC_OK; step++) {
            lac_segment segment = {0, 1 + step, 0, table, 1};
            lac_logit_row wanted = {.row = step};
            lac_batch batch = {.rows = 1 + step,
                               .tokens = tokens,
                               .segments_count = 1,
                               .segments = &segment,
                               .logit_rows_count = 1,
                               .logit_rows = &wanted};
            status = e.api->run(e.be, ops, 2, &batch, &err);
        }
        bool done = status == LAC_OK;
        ck_assert_msg(done || strstr(err.text, "FAKE_FAILURE") || strstr(err.text, "no kernel"),
                      "call %u: %s", at, err.text);
        failures += !done;
        for (int i = 0; i < 3 && e.be; i++)
            e.api->weight_free(e.be, &w[i]);
        e.api->destroy(&e.be);
        ck_assert_msg(fake.alive == 0, "call %u left %u things", at, fake.alive);
        if (done && fake.calls < at)
            break;
    }
    ck_assert_uint_gt(failures, 50);
    model_free(&m);
}
END_TEST

START_TEST(what_is_missing_is_named)
{
    lac_error err = {0};
    lac_backend *be = NULL;
    lac_backend_options o = {
        .rows_max = 1, .hidden = 32, .vocab = 8, .context_max = 32, .device = 5};
    fake_driver_use();
    ck_assert_int_eq(lac_cuda_backend()->create(&o, &be, &err), LAC_EUNSUPPORTED);
    ck_assert_msg(strstr(err.text, "cuda:5") && strstr(err.text, "2 devices"), "%s", err.text);
    ck_assert_uint_eq(fake.alive, 0);
    uint32_t device = 9;
    ck_assert(lac_cuda_device_parse("cuda", &device) && device == 0);
    ck_assert(lac_cuda_device_parse("cuda:3", &device) && device == 3);
    ck_assert(!lac_cuda_device_parse("cuda:", &device) &&
              !lac_cuda_device_parse("cuda:x", &device));
    ck_assert(!lac_cuda_device_parse("cuda:-1", &device) && !lac_cuda_device_parse("cpu", &device));
    ck_assert(!lac_cuda_device_parse("cuda:99999999999", &device) &&
              !lac_cuda_device_parse("cuda:1x", &device));
    /* the real one: no driver here, or no kernels in this build, and either is said */
    lac__cu_replace(NULL);
    o.device = 0;
    lac_status status = lac_cuda_backend()->create(&o, &be, &err);
    if (status == LAC_OK)
        lac_cuda_backend()->destroy(&be);
    else
        ck_assert_msg(strstr(err.text, "cuda"), "%s", err.text);
}
END_TEST

Suite *suite_backend(void)
{
    Suite *s = suite_create("backend");
    TCase *t = tcase_create("backend");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, steps_agree_with_the_cpu, 0, 3);
    tcase_add_loop_test(t, units_are_left_out_row_by_row, 0, 3);
    tcase_add_test(t, kernels_of_a_decode_step);
    tcase_add_test(t, tokens_are_drawn_on_the_device);
    tcase_add_test(t, every_failure_is_an_error);
    tcase_add_test(t, what_is_missing_is_named);
    suite_add_tcase(s, t);
    return s;
}
