/* Masks: text to bits and back, set arithmetic, and every way a text can be wrong. */
#include <string.h>

#include "base/mask.h"
#include "base/rng.h"
#include "suites.h"

static void expect_text(const lac_mask *mask, const char *text)
{
    lac_buf buf = {.cap = 65536};
    lac_mask_text(mask, &buf);
    ck_assert_str_eq(buf.data != NULL ? buf.data : "", text);
    lac_buf_free(&buf);
}

START_TEST(any_order_and_case_becomes_canonical)
{
    lac_mask mask;
    lac_error err;
    ck_assert_int_eq(lac_mask_parse("f25,A25,a7,F0", 30, &mask, &err), LAC_OK);
    ck_assert_uint_eq(lac_mask_count(&mask), 4);
    ck_assert(lac_mask_has(&mask, 50) && lac_mask_has(&mask, 51) && lac_mask_has(&mask, 14) &&
              lac_mask_has(&mask, 1));
    expect_text(&mask, "F0,A7,A25,F25");
    ck_assert_int_eq(lac_mask_parse("", 30, &mask, &err), LAC_OK);
    ck_assert_uint_eq(lac_mask_count(&mask), 0);
    expect_text(&mask, "");
}
END_TEST

START_TEST(wrong_texts_name_the_unit)
{
    static const struct {
        const char *text, *named;
    } cases[] = {{"B1", "B1"},     {"A", "A"},      {"A1,", "empty"},
                 {",A1", "empty"}, {"A30", "A30"},  {"A1,A1", "A1"},
                 {"A-1", "A-1"},   {"A1 ", "A1 "},  {"1A", "1A"},
                 {"A1;F2", "A1;"}, {"A1,a1", "A1"}, {"F99999999999999999999", "F999"},
                 {"A0x1", "A0x1"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        lac_mask mask;
        lac_error err = {.status = LAC_OK};
        memset(&mask, 0x5a, sizeof(mask));
        lac_mask before = mask;
        ck_assert_int_eq(lac_mask_parse(cases[i].text, 30, &mask, &err), LAC_EINVAL);
        ck_assert_msg(strstr(err.text, cases[i].named) != NULL, "%s: %s", cases[i].text, err.text);
        ck_assert(lac_mask_equal(&mask, &before));
    }
}
END_TEST

START_TEST(random_masks_survive_the_round_trip)
{
    lac_rng rng;
    lac_rng_seed(&rng, 1);
    for (int round = 0; round < 300; round++) {
        unsigned layers = 1 + (unsigned)lac_rng_below(&rng, LAC_LAYERS_MAX);
        lac_mask mask = {{0}}, again;
        unsigned want = 0;
        for (unsigned unit = 0; unit < 2 * layers; unit++)
            if (lac_rng_below(&rng, 4) == 0) {
                lac_mask_set(&mask, unit);
                want++;
            }
        ck_assert_uint_eq(lac_mask_count(&mask), want);
        lac_buf buf = {.cap = 65536};
        lac_mask_text(&mask, &buf);
        ck_assert(!buf.overflow);
        ck_assert_int_eq(lac_mask_parse(buf.data != NULL ? buf.data : "", layers, &again, NULL),
                         LAC_OK);
        ck_assert(lac_mask_equal(&mask, &again));
        lac_buf_free(&buf);
    }
}
END_TEST

START_TEST(within_is_the_subset_order)
{
    lac_mask small, large, other;
    ck_assert_int_eq(lac_mask_parse("A1,F1023", 1024, &small, NULL), LAC_OK);
    ck_assert_int_eq(lac_mask_parse("A1,F1023,F2", 1024, &large, NULL), LAC_OK);
    ck_assert_int_eq(lac_mask_parse("A2", 1024, &other, NULL), LAC_OK);
    ck_assert(lac_mask_within(&small, &large) && lac_mask_within(&small, &small));
    ck_assert(!lac_mask_within(&large, &small) && !lac_mask_within(&other, &large));
    ck_assert(!lac_mask_equal(&small, &large));
}
END_TEST

Suite *suite_mask(void)
{
    Suite *suite = suite_create("mask");
    TCase *tc = tcase_create("mask");
    tcase_add_test(tc, any_order_and_case_becomes_canonical);
    tcase_add_test(tc, wrong_texts_name_the_unit);
    tcase_add_test(tc, random_masks_survive_the_round_trip);
    tcase_add_test(tc, within_is_the_subset_order);
    suite_add_tcase(suite, tc);
    return suite;
}
