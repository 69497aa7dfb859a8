/* The zero rule case by case, row lists against a plain loop, the account against sums written out.
 */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "erasure/account.h"
#include "erasure/rows.h"
#include "erasure/state.h"
#include "erasure/watch.h"

/* ---- the zero rule ---- */

static const lac_zero_fact absent = {false, false}, zero = {true, true}, other = {true, false};

static lac_unit_facts plain(void)
{
    return (lac_unit_facts){.present = true, .pre_norm = other, .output = other};
}

START_TEST(output_and_its_bias)
{
    lac_unit_facts f = plain();
    ck_assert_int_eq(lac_unit_judge(&f), LAC_UNIT_ACTIVE);
    f.output = zero;
    ck_assert_int_eq(lac_unit_judge(&f), LAC_UNIT_ZEROED);
    f.output_bias = other;
    ck_assert_int_eq(lac_unit_judge(&f), LAC_UNIT_ACTIVE);
    f.output_bias = zero;
    ck_assert_int_eq(lac_unit_judge(&f), LAC_UNIT_ZEROED);
    f.inner_bias[2] = other; /* what the output projection swallows does not count */
    ck_assert_int_eq(lac_unit_judge(&f), LAC_UNIT_ZEROED);
}
END_TEST

START_TEST(pre_norm_and_every_bias)
{
    lac_unit_facts f = plain();
    f.pre_norm = zero;
    ck_assert_int_eq(lac_unit_judge(&f), LAC_UNIT_ZEROED);
    for (int i = 0; i < 3; i++) {
        f.inner_bias[i] = other;
        ck_assert_int_eq(lac_unit_judge(&f), LAC_UNIT_ACTIVE);
        f.inner_bias[i] = zero;
        ck_assert_int_eq(lac_unit_judge(&f), LAC_UNIT_ZEROED);
    }
    f.output_bias = other;
    ck_assert_int_eq(lac_unit_judge(&f), LAC_UNIT_ACTIVE);
}
END_TEST

START_TEST(post_norm_beats_all)
{
    lac_unit_facts f = plain();
    f.output_bias = f.inner_bias[0] = other;
    f.post_norm = other;
    ck_assert_int_eq(lac_unit_judge(&f), LAC_UNIT_ACTIVE);
    f.post_norm = zero;
    ck_assert_int_eq(lac_unit_judge(&f), LAC_UNIT_ZEROED);
}
END_TEST

/* A tensor that is not there is not a zero one. */
START_TEST(absent_is_not_zero)
{
    lac_unit_facts f = plain();
    f.output = absent;
    f.pre_norm = absent;
    ck_assert_int_eq(lac_unit_judge(&f), LAC_UNIT_ACTIVE);
    f.present = false;
    ck_assert_int_eq(lac_unit_judge(&f), LAC_UNIT_ERASED);
    ck_assert_str_eq(lac_unit_state_name(LAC_UNIT_ZEROED), "zeroed");
}
END_TEST

/* ---- row lists ---- */

enum { UNITS = 12, ROWS = 64 };

START_TEST(lists_are_the_rows_that_keep_the_unit)
{
    lac_rng rng;
    lac_rng_seed(&rng, 7);
    for (int round = 0; round < 300; round++) {
        lac_mask masks[LAC_CLASSES_MAX] = {0};
        uint32_t classes = 1 + (uint32_t)lac_rng_below(&rng, LAC_CLASSES_MAX);
        uint32_t class_rows[LAC_CLASSES_MAX] = {0}, class_of[ROWS], rows = 0;
        for (uint32_t c = 0; c < classes; c++) {
            for (uint32_t u = 0; c > 0 && u < UNITS; u++)
                if (lac_rng_below(&rng, 3) == 0)
                    lac_mask_set(&masks[c], u);
            for (uint32_t n = (uint32_t)lac_rng_below(&rng, 5); n > 0 && rows < ROWS; n--) {
                class_of[rows++] = c;
                class_rows[c]++;
            }
        }
        lac_unit_rows *lists = lac_unit_rows_create(UNITS, masks, classes, ROWS);
        for (int twice = 0; twice < 2; twice++) {
            lac_unit_rows_fill(lists, class_rows);
            for (uint32_t u = 0; u < UNITS; u++) {
                uint32_t count, expected = 0;
                const uint32_t *list = lac_unit_rows_of(lists, u, &count);
                for (uint32_t row = 0; row < rows; row++)
                    if (!lac_mask_has(&masks[class_of[row]], u)) {
                        ck_assert_uint_lt(expected, count);
                        ck_assert_uint_eq(list[expected++], row);
                    }
                ck_assert_uint_eq(expected, count);
            }
        }
        lac_unit_rows_destroy(&lists);
        ck_assert_ptr_null(lists);
    }
}
END_TEST

/* ---- account ---- */

static const lac_layer_shape layers[] = {
    {.heads = 4, .kv_heads = 2, .ffn = 96, .attention_cost = 10, .ffn_cost = 30},
    {.heads = 4,
     .kv_heads = 1,
     .ffn = 64,
     .experts = 6,
     .experts_used = 2,
     .window = 5,
     .attention_cost = 8,
     .ffn_cost = 20},
    {.heads = 0, .ffn = 32, .ffn_cost = 12}, /* no attention */
};
static const lac_model_shape shape = {
    .layers_count = 3, .hidden = 48, .head_dim = 16, .vocab = 100, .layers = layers};

/* One row at a time, one position at a time, one multiply-add at a time. */
static double flops_of_row(const lac_mask *mask, uint32_t pos, bool logits)
{
    double madds = logits ? 48.0 * 100 : 0;
    for (uint32_t l = 0; l < 3; l++) {
        if (!lac_mask_has(mask, 2 * l))
            for (uint32_t h = 0; h < layers[l].heads; h++) {
                madds += 48 * 16 * 2; /* its query, its part of the output */
                if (h < layers[l].kv_heads)
                    madds += 48 * 16 * 2;
                for (uint32_t p = 0; p <= pos; p++)
                    if (layers[l].window == 0 || pos - p < layers[l].window)
                        madds += 16 + 16;
            }
        if (lac_mask_has(mask, 2 * l + 1))
            continue;
        for (uint32_t e = 0; e < layers[l].experts; e++)
            madds += 48 + (e < layers[l].experts_used ? 3.0 * 48 * layers[l].ffn : 0);
        madds += layers[l].experts ? 0 : 3.0 * 48 * layers[l].ffn;
    }
    return 2 * madds;
}

START_TEST(account_equals_its_parts)
{
    static const char *const texts[] = {"", "A0", "F1,A1", "A0,F0,A1", "A0,F0,A1,F1,F2"};
    static const uint32_t active[] = {3, 3, 2, 2, 0};
    for (size_t m = 0; m < 5; m++) {
        lac_mask mask = {0};
        ck_assert_int_eq(lac_mask_parse(texts[m], 3, &mask, NULL), LAC_OK);
        lac_class_price price;
        ck_assert(lac_class_price_make(&shape, &mask, &price));
        ck_assert_uint_eq(price.active_layers, active[m]);
        static const uint32_t runs[] = {1, 3, 1, 7, 2};
        lac_account account = {0};
        ck_assert(lac_account_skip_rate(&account) == 0);
        double expected = 0;
        uint32_t pos = 0;
        for (size_t r = 0; r < 5; r++) {
            lac_account_add(&account, &price, pos, runs[r], r % 2);
            for (uint32_t i = 0; i < runs[r]; i++)
                expected += flops_of_row(&mask, pos + i, r % 2 && i + 1 == runs[r]);
            pos += runs[r];
        }
        ck_assert_double_eq_tol(account.flops, expected, 1e-9 * (expected + 1));
        ck_assert_uint_eq(account.tokens, 14);
        /* The unit without a shape counts as erased. */
        uint32_t erased = lac_mask_count(&mask) + !lac_mask_has(&mask, 4);
        ck_assert_double_eq_tol(lac_account_skip_rate(&account), erased / 6.0, 1e-12);
    }
}
END_TEST

START_TEST(cost_weighs_units)
{
    lac_mask mask = {0};
    lac_class_price price;
    ck_assert_int_eq(lac_mask_parse("A0,F1", 3, &mask, NULL), LAC_OK);
    ck_assert(lac_class_price_make(&shape, &mask, &price));
    lac_account account = {0};
    lac_account_add(&account, &price, 0, 9, 1);
    ck_assert_double_eq_tol(lac_account_cost_skip_rate(&account), 30.0 / 80.0, 1e-12);
}
END_TEST

START_TEST(a_patch_is_counted)
{
    lac_mask mask = {{1}}; /* A0 */
    lac_class_price price, plain;
    ck_assert(lac_class_price_make(&shape, &mask, &plain));
    price = plain;
    lac_class_price_patch(&price, 48, 8, 3);
    ck_assert_double_eq_tol(price.row_flops - plain.row_flops, 2.0 * (8 * 48 + 48 * 8), 1e-9);
    ck_assert_double_eq_tol(plain.cost_erased - price.cost_erased, 3, 1e-9);
    price = plain;
    lac_class_price_patch(&price, 48, 48, 5);
    ck_assert_double_eq_tol(price.row_flops - plain.row_flops, 2.0 * 48 * 48, 1e-9);
    ck_assert_uint_eq(price.units_erased, plain.units_erased);
}
END_TEST

START_TEST(too_many_windows_are_refused)
{
    lac_layer_shape many[LAC_ACCOUNT_WINDOWS_MAX + 1];
    for (uint32_t l = 0; l <= LAC_ACCOUNT_WINDOWS_MAX; l++)
        many[l] = (lac_layer_shape){.heads = 1, .kv_heads = 1, .ffn = 8, .window = l + 1};
    lac_model_shape wide = shape;
    wide.layers = many;
    wide.layers_count = LAC_ACCOUNT_WINDOWS_MAX;
    lac_mask mask = {0};
    lac_class_price price;
    ck_assert(lac_class_price_make(&wide, &mask, &price));
    wide.layers_count++;
    ck_assert(!lac_class_price_make(&wide, &mask, &price));
}
END_TEST

/* ---- watch ---- */

START_TEST(entropy_is_that_of_the_distribution)
{
    float even[64] = {0}, one[64] = {0}, banned[4] = {1, -INFINITY, 1, -INFINITY},
          mixed[3] = {0, 1, 2};
    one[5] = 200;
    ck_assert_double_eq_tol(lac_watch_entropy(even, 64), log(64), 1e-6);
    ck_assert_double_eq_tol(lac_watch_entropy(one, 64), 0, 1e-6);
    ck_assert_double_eq_tol(lac_watch_entropy(banned, 4), log(2), 1e-6);
    double z = 1 + exp(1) + exp(2), h = 0;
    for (int i = 0; i < 3; i++)
        h -= exp(i) / z * log(exp(i) / z);
    ck_assert_double_eq_tol(lac_watch_entropy(mixed, 3), h, 1e-6);
    mixed[1] = NAN;
    ck_assert(isnan(lac_watch_entropy(mixed, 3)));
}
END_TEST

START_TEST(a_spike_is_two_high_looks_in_a_row)
{
    lac_watch w = {0};
    for (int i = 0; i < LAC_WATCH_LOOKS - 1; i++)
        ck_assert(!lac_watch_add(&w, 1));
    ck_assert(!lac_watch_add(&w, 9) &&
              !lac_watch_add(&w, 9)); /* nothing is usual yet, then 9 is part of it */
    w = (lac_watch){0};
    for (int i = 0; i < 100; i++)
        ck_assert(!lac_watch_add(&w, i % 2 ? 0.5 : 2.5)); /* mean 1.5 */
    ck_assert(!lac_watch_add(&w, 4.6));
    ck_assert(!lac_watch_add(&w, 4.4)); /* not above 1.5 + 3: the row is broken */
    ck_assert(!lac_watch_add(&w, 5));
    ck_assert(lac_watch_add(&w, 5));
    ck_assert(!lac_watch_add(&w, NAN)); /* logits that are no numbers are another's to see */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("erasure");
    TCase *tc = tcase_create("erasure");
    tcase_add_test(tc, output_and_its_bias);
    tcase_add_test(tc, pre_norm_and_every_bias);
    tcase_add_test(tc, post_norm_beats_all);
    tcase_add_test(tc, absent_is_not_zero);
    tcase_add_test(tc, lists_are_the_rows_that_keep_the_unit);
    tcase_add_test(tc, account_equals_its_parts);
    tcase_add_test(tc, cost_weighs_units);
    tcase_add_test(tc, a_patch_is_counted);
    tcase_add_test(tc, too_many_windows_are_refused);
    tcase_add_test(tc, entropy_is_that_of_the_distribution);
    tcase_add_test(tc, a_spike_is_two_high_looks_in_a_row);
    suite_add_tcase(suite, tc);
    SRunner *all = srunner_create(suite);
    srunner_run_all(all, CK_NORMAL);
    int failed = srunner_ntests_failed(all);
    srunner_free(all);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
