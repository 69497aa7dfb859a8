/* The table of weight types against the block sizes of the GGUF format, computed from their parts.
 */
#include "base/tensor.h"
#include "suites.h"

START_TEST(known_types_have_their_block)
{
    static const struct {
        lac_type type;
        const char *name;
        uint32_t block, bytes;
    } cases[] = {
        {LAC_TYPE_F32, "F32", 1, 4},
        {LAC_TYPE_F16, "F16", 1, 2},
        {LAC_TYPE_BF16, "BF16", 1, 2},
        {LAC_TYPE_Q4_0, "Q4_0", 32, 2 + 32 / 2},
        {LAC_TYPE_Q4_1, "Q4_1", 32, 2 + 2 + 32 / 2},
        {LAC_TYPE_Q5_0, "Q5_0", 32, 2 + 4 + 32 / 2},
        {LAC_TYPE_Q5_1, "Q5_1", 32, 2 + 2 + 4 + 32 / 2},
        {LAC_TYPE_Q8_0, "Q8_0", 32, 2 + 32},
        {LAC_TYPE_Q4_K, "Q4_K", 256, 2 + 2 + 12 + 256 / 2},
        {LAC_TYPE_Q5_K, "Q5_K", 256, 2 + 2 + 12 + 256 / 8 + 256 / 2},
        {LAC_TYPE_Q6_K, "Q6_K", 256, 256 / 2 + 256 / 4 + 16 + 2},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const lac_type_info *info = lac_type_get(cases[i].type);
        ck_assert_ptr_nonnull(info);
        ck_assert_str_eq(info->name, cases[i].name);
        ck_assert_uint_eq(info->block, cases[i].block);
        ck_assert_uint_eq(info->block_bytes, cases[i].bytes);
    }
}
END_TEST

START_TEST(unknown_types_are_null)
{
    static const uint32_t unknown[] = {4, 5, 9, 10, 11, 15, 29, 31, 1000, UINT32_MAX};
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
        ck_assert_ptr_null(lac_type_get(unknown[i]));
}
END_TEST

Suite *suite_tensor(void)
{
    Suite *suite = suite_create("tensor");
    TCase *tc = tcase_create("tensor");
    tcase_add_test(tc, known_types_have_their_block);
    tcase_add_test(tc, unknown_types_are_null);
    suite_add_tcase(suite, tc);
    return suite;
}
