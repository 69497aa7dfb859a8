/* Classes: names there and back, the digest over what is computed, the hint against RFC 4648. */
#include <string.h>

#include "base/class.h"
#include "suites.h"

START_TEST(names_there_and_back)
{
    for (int i = 0; i < LAC_SCOPES; i++) {
        lac_scope scope = LAC_SCOPES;
        ck_assert(lac_scope_parse(lac_scope_name((lac_scope)i), &scope) && (int)scope == i);
    }
    for (int i = 0; i < LAC_INPUT_TYPES; i++) {
        lac_input_type type = LAC_INPUT_TYPES;
        ck_assert(lac_input_type_parse(lac_input_type_name((lac_input_type)i), &type));
        ck_assert_int_eq(type, i);
    }
    for (int i = LAC_TIER_GOLD; i < LAC_TIERS; i++) {
        lac_tier tier = LAC_TIER_NONE;
        ck_assert(lac_tier_parse(lac_tier_name((lac_tier)i), &tier) && (int)tier == i);
        ck_assert(lac_tier_kl_max((lac_tier)i) > lac_tier_kl_max((lac_tier)(i - 1)));
    }
    lac_tier tier = LAC_TIER_GOLD;
    ck_assert(!lac_tier_parse("none", &tier) && !lac_tier_parse("", &tier));
    ck_assert_int_eq(tier, LAC_TIER_GOLD);
    ck_assert_ptr_null(lac_tier_name(LAC_TIERS));
    ck_assert_ptr_null(lac_scope_name((lac_scope)-1));
    ck_assert_ptr_null(lac_input_type_name(LAC_INPUT_TYPES));
}
END_TEST

/* Every input of the digest matters, and units beyond the layers do not. */
START_TEST(digest_inputs)
{
    lac_digest model = {{1}}, patches[2] = {{{2}}, {{3}}}, out[7];
    lac_mask mask = {{5}}, other = {{7}}, far = {{5, 1}};
    lac_class_digest(&model, 30, &mask, LAC_SCOPE_REQUEST, patches, 2, &out[0]);
    lac_class_digest(&model, 30, &other, LAC_SCOPE_REQUEST, patches, 2, &out[1]);
    lac_class_digest(&model, 30, &mask, LAC_SCOPE_DECODE, patches, 2, &out[2]);
    lac_class_digest(&model, 30, &mask, LAC_SCOPE_REQUEST, patches, 1, &out[3]);
    lac_class_digest(&model, 30, &mask, LAC_SCOPE_REQUEST, patches + 1, 1, &out[4]);
    model.bytes[31] = 1;
    lac_class_digest(&model, 30, &mask, LAC_SCOPE_REQUEST, patches, 2, &out[5]);
    lac_class_digest(&model, 30, &mask, LAC_SCOPE_REQUEST, NULL, 0, &out[6]);
    for (int i = 0; i < 7; i++)
        for (int k = 0; k < i; k++)
            ck_assert_mem_ne(&out[i], &out[k], sizeof out[i]);
    lac_class_digest(&model, 30, &far, LAC_SCOPE_REQUEST, NULL, 0, &out[0]);
    ck_assert_mem_eq(&out[0], &out[6], sizeof out[0]);
}
END_TEST

START_TEST(hint_is_base64url)
{
    /* python3: base64.urlsafe_b64encode(bytes((i * 37 + 251) % 256 for i in range(24))) */
    lac_digest digest = {{0}};
    char hint[LAC_HINT_LENGTH + 1];
    for (int i = 0; i < 32; i++)
        digest.bytes[i] = (uint8_t)(i * 37 + 251);
    lac_class_hint(&digest, hint);
    ck_assert_str_eq(hint, "-yBFao-02f4jSG2St9wBJktwlbrfBClO");
}
END_TEST

Suite *suite_class(void)
{
    Suite *suite = suite_create("class");
    TCase *tc = tcase_create("class");
    tcase_add_test(tc, names_there_and_back);
    tcase_add_test(tc, digest_inputs);
    tcase_add_test(tc, hint_is_base64url);
    suite_add_tcase(suite, tc);
    return suite;
}
