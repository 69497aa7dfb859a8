/* The planner: cuts that are legal, even, whole; stages balanced by what runs; refusals that name
 * the nearest possible split. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "topology/placement.h"

enum { LAYERS = 30 };

/* The shape of the default model: 9 query and 3 KV heads of 64, FFN 1536, 4-bit blocks of 32. */
static lac_place_layer layers[LAYERS];
static lac_place_model model = {.layers_count = LAYERS,
                                .head_dim = 64,
                                .vocab = 49152,
                                .layers = layers,
                                .embed_bytes = 30081024,
                                .head_bytes = 30081024,
                                .tied = true};

static void default_model(void)
{
    for (uint32_t l = 0; l < LAYERS; l++)
        layers[l] = (lac_place_layer){.heads = 9,
                                      .kv_heads = 3,
                                      .ffn = 1536,
                                      .attention_bytes = 552960,
                                      .ffn_bytes = 1658880,
                                      .o_block = 32,
                                      .down_block = 32};
}

static lac_placement made(const lac_place_class *classes, uint32_t count, uint32_t pp, uint32_t tp)
{
    lac_placement p;
    lac_error err = {0};
    lac_status status = lac_placement_make(&model, classes, count, pp, tp, 0, &p, &err);
    ck_assert_msg(status == LAC_OK, "%s", err.text);
    return p;
}

/* Every head, FFN row and vocabulary row is somebody's exactly once, cut on blocks. */
static void check_whole(const lac_placement *p)
{
    for (uint32_t l = 0; l < model.layers_count; l++) {
        uint32_t head = 0, ffn = 0;
        const lac_place_layer *layer = &model.layers[l];
        for (uint32_t t = 0; t < p->parts; t++) {
            const lac_place_part *of = lac_placement_part(p, t, l);
            ck_assert_uint_eq(of->head_first, head);
            ck_assert_uint_eq(of->ffn_first, ffn);
            ck_assert_uint_eq(of->head_first * model.head_dim % layer->o_block, 0);
            ck_assert_uint_eq(of->ffn_first % layer->down_block, 0);
            ck_assert_uint_gt(of->heads, 0);
            ck_assert_uint_gt(of->ffn, 0);
            ck_assert_uint_eq(of->heads % of->kv_heads, 0);
            /* Each of its query heads finds its KV head here, at its place. */
            uint32_t group = layer->heads / layer->kv_heads;
            for (uint32_t h = 0; h < of->heads; h++)
                ck_assert_uint_eq(of->kv_first + h / (of->heads / of->kv_heads),
                                  (of->head_first + h) / group);
            head += of->heads;
            ffn += of->ffn;
        }
        ck_assert_uint_eq(head, layer->heads);
        ck_assert_uint_eq(ffn, layer->ffn);
    }
    ck_assert_uint_eq(p->vocab_first[0], 0);
    ck_assert_uint_eq(p->vocab_first[p->parts], model.vocab);
    for (uint32_t t = 0; t < p->parts; t++)
        ck_assert_uint_gt(p->vocab_first[t + 1], p->vocab_first[t]);
    ck_assert_uint_eq(p->layer_first[0], 0);
    ck_assert_uint_eq(p->layer_first[p->stages], model.layers_count);
    for (uint32_t s = 0; s < p->stages; s++)
        ck_assert_uint_gt(p->layer_first[s + 1], p->layer_first[s]);
}

START_TEST(uneven_heads_are_shared_out)
{
    default_model();
    lac_placement p = made(NULL, 0, 1, 2);
    check_whole(&p);
    ck_assert_uint_eq(lac_placement_part(&p, 0, 7)->kv_heads, 2);
    ck_assert_uint_eq(lac_placement_part(&p, 0, 7)->heads, 6);
    ck_assert_uint_eq(lac_placement_part(&p, 1, 7)->kv_first, 2);
    ck_assert_uint_eq(lac_placement_part(&p, 1, 7)->heads, 3);
    ck_assert_uint_eq(lac_placement_part(&p, 1, 7)->ffn, 768);
    lac_placement_free(&p);
    p = made(NULL, 0, 2, 3);
    check_whole(&p);
    lac_placement_free(&p);
}
END_TEST

START_TEST(few_kv_heads_are_kept_by_several_ranks)
{
    default_model();
    lac_placement p = made(NULL, 0, 1, 5);
    check_whole(&p); /* 3 KV heads by 2, 2 and 1 ranks */
    lac_placement_free(&p);
    for (uint32_t l = 0; l < LAYERS; l++)
        layers[l].heads = 4, layers[l].kv_heads = 1;
    p = made(NULL, 0, 1, 2);
    check_whole(&p);
    ck_assert_uint_eq(lac_placement_part(&p, 1, 0)->kv_first, 0);
    ck_assert_uint_eq(lac_placement_part(&p, 1, 0)->heads, 2);
    lac_placement_free(&p);
}
END_TEST

START_TEST(blocks_of_256_are_not_cut)
{
    default_model();
    for (uint32_t l = 0; l < LAYERS; l++)
        layers[l] = (lac_place_layer){.heads = 32,
                                      .kv_heads = 8,
                                      .ffn = 5632,
                                      .attention_bytes = 1,
                                      .ffn_bytes = 1,
                                      .o_block = 256,
                                      .down_block = 256};
    lac_placement p = made(NULL, 0, 1, 4);
    check_whole(&p); /* 22 blocks of FFN: 6, 6, 5, 5 */
    ck_assert_uint_eq(lac_placement_part(&p, 3, 0)->ffn, 5 * 256);
    lac_placement_free(&p);
}
END_TEST

START_TEST(impossible_splits_name_the_nearest)
{
    default_model();
    lac_placement p = {0};
    lac_error err = {0};
    ck_assert_int_eq(lac_placement_make(&model, NULL, 0, 1, 10, 0, &p, &err), LAC_EINVAL);
    ck_assert_msg(strstr(err.text, "nearest possible tp is 9") != NULL, "%s", err.text);
    for (uint32_t l = 0; l < LAYERS; l++)
        layers[l].down_block = 256; /* 6 blocks */
    ck_assert_int_eq(lac_placement_make(&model, NULL, 0, 1, 8, 0, &p, &err), LAC_EINVAL);
    ck_assert_msg(strstr(err.text, "nearest possible tp is 6") != NULL, "%s", err.text);
    ck_assert_int_eq(lac_placement_make(&model, NULL, 0, 31, 1, 0, &p, &err), LAC_EINVAL);
    ck_assert_msg(strstr(err.text, "nearest possible pp is 30") != NULL, "%s", err.text);
    ck_assert_int_eq(lac_placement_make(&model, NULL, 0, 16, 5, 0, &p, &err), LAC_EINVAL);
    ck_assert_int_eq(lac_placement_make(&model, NULL, 0, 0, 1, 0, &p, &err), LAC_EINVAL);
    ck_assert_int_eq(lac_placement_make(&model, NULL, 0, 2, 1, 50 << 20, &p, &err), LAC_ETOOBIG);
    ck_assert_ptr_null(p.of);
}
END_TEST

static double largest(const lac_placement *p)
{
    double most = 0;
    for (uint32_t r = 0; r < p->stages * p->parts; r++)
        most = p->cost[r] > most ? p->cost[r] : most;
    return most;
}

/* No other pair of cuts is better. */
START_TEST(stages_are_as_even_as_can_be)
{
    default_model();
    for (uint32_t l = 0; l < LAYERS; l++)
        layers[l].ffn_bytes += (l * 7919 % 13) * 100000;
    lac_placement p = made(NULL, 0, 3, 1);
    check_whole(&p);
    double best = 1e18;
    for (uint32_t a = 1; a < LAYERS - 1; a++)
        for (uint32_t b = a + 1; b < LAYERS; b++) {
            double cost[3] = {0, 0, (double)model.head_bytes}, most = 0;
            for (uint32_t l = 0; l < LAYERS; l++)
                cost[l < a   ? 0
                     : l < b ? 1
                             : 2] += (double)(layers[l].attention_bytes + layers[l].ffn_bytes);
            for (int s = 0; s < 3; s++)
                most = cost[s] > most ? cost[s] : most;
            best = most < best ? most : best;
        }
    ck_assert_double_eq_tol(largest(&p), best, 1);
    lac_placement_free(&p);
}
END_TEST

/* Layers that nobody runs weigh nothing, those that half of the traffic runs weigh half. */
START_TEST(erased_units_weigh_nothing)
{
    default_model();
    lac_place_class classes[2] = {{.traffic = 3}, {.traffic = 1}};
    for (uint32_t u = 0; u < 40; u++) {
        lac_mask_set(&classes[0].erased, u);
        lac_mask_set(&classes[1].erased, u);
    }
    lac_placement p = made(classes, 2, 2, 1), whole = made(NULL, 0, 2, 1);
    /* Ten layers of 2.2 MB and a head of 30 MB are left: the head's stage holds one layer. */
    ck_assert_uint_eq(p.layer_first[1], 29);
    ck_assert_uint_lt(p.layer_first[1], 30);
    ck_assert_uint_lt(whole.layer_first[1], 25);
    ck_assert_uint_eq(p.bytes[0], 30081024 + 9 * (552960 + 1658880));
    lac_placement_free(&p);
    classes[0].erased = (lac_mask){0}; /* three quarters run everything again */
    p = made(classes, 2, 1, 1);
    ck_assert_double_eq_tol(p.cost[0], 30081024 + (10 + 20 * 0.75) * (552960 + 1658880), 1);
    ck_assert_uint_eq(p.bytes[0], 30081024 + UINT64_C(30) * (552960 + 1658880));
    lac_placement_free(&p);
    lac_placement_free(&whole);
}
END_TEST

START_TEST(digests_tell_placements_apart)
{
    default_model();
    lac_digest a, b, c;
    lac_placement p = made(NULL, 0, 2, 1);
    lac_placement_digest(&p, &a);
    lac_placement_digest(&p, &b);
    ck_assert_mem_eq(&a, &b, sizeof a);
    lac_placement_free(&p);
    p = made(NULL, 0, 1, 2);
    lac_placement_digest(&p, &c);
    ck_assert_mem_ne(&a, &c, sizeof a);
    lac_placement_free(&p);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("placement");
    TCase *all = tcase_create("planner");
    tcase_add_test(all, uneven_heads_are_shared_out);
    tcase_add_test(all, few_kv_heads_are_kept_by_several_ranks);
    tcase_add_test(all, blocks_of_256_are_not_cut);
    tcase_add_test(all, impossible_splits_name_the_nearest);
    tcase_add_test(all, stages_are_as_even_as_can_be);
    tcase_add_test(all, erased_units_weigh_nothing);
    tcase_add_test(all, digests_tell_placements_apart);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
