/* UTF-8 at its edges, and number parsing. */
#include <string.h>

#include "base/text.h"
#include "suites.h"

START_TEST(every_character_survives_put_and_next)
{
    for (uint32_t code = 0; code <= 0x10ffff; code++) {
        char bytes[4];
        uint32_t back = 0xffffffff;
        int length = lac_utf8_put(code, bytes);
        bool surrogate = code >= 0xd800 && code <= 0xdfff;
        int want = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
        if (length != want || !lac_utf8_valid(bytes, (size_t)length) ||
            lac_utf8_next(bytes, (size_t)length, &back) != length ||
            back != (surrogate ? 0xfffd : code))
            ck_abort_msg("U+%04X", code);
        /* A beginning of it is no character, and is what waits for more. */
        for (int cut = 1; cut < length; cut++)
            if (lac_utf8_next(bytes, (size_t)cut, &back) != 0 ||
                lac_utf8_whole(bytes, (size_t)cut) != 0 || lac_utf8_valid(bytes, (size_t)cut))
                ck_abort_msg("U+%04X cut at %d", code, cut);
    }
    char bytes[4];
    ck_assert_int_eq(lac_utf8_put(0x110000, bytes), 3);
    ck_assert_mem_eq(bytes, "\xef\xbf\xbd", 3);
}
END_TEST

START_TEST(malformed_bytes_are_refused)
{
    static const char *const bad[] = {"\x80",
                                      "\xbf",
                                      "\xc0\x80",
                                      "\xc1\xbf",
                                      "\xe0\x80\x80",
                                      "\xe0\x9f\xbf",
                                      "\xed\xa0\x80",
                                      "\xed\xbf\xbf",
                                      "\xf0\x80\x80\x80",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xff",
                                      "\xfe",
                                      "\xc3",
                                      "\xe2\x82",
                                      "\xf0\x9f\x98",
                                      "\xc3(",
                                      "\xe2(\xa1",
                                      "\xe2\x82(",
                                      "a\xf0\x9f\x98z"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        ck_assert_msg(!lac_utf8_valid(bad[i], strlen(bad[i])), "case %zu", i);
    ck_assert(lac_utf8_valid("", 0));
    ck_assert(lac_utf8_valid(NULL, 0));
    ck_assert(lac_utf8_valid("a\0b", 3));
    uint32_t code;
    ck_assert_int_eq(lac_utf8_next("", 0, &code), 0);
}
END_TEST

START_TEST(whole_holds_back_only_what_may_be_completed)
{
    static const struct {
        const char *text;
        size_t length, whole;
    } cases[] = {
        {"", 0, 0},
        {"abc", 3, 3},
        {"ab\xc3", 3, 2},
        {"ab\xc3\xa9", 4, 4},
        {"a\xe2\x82", 3, 1},
        {"a\xf0\x9f\x98", 4, 1},
        {"a\xf0\x9f\x98\x80", 5, 5},
        {"\xf0\x9f\x98", 3, 0},
        {"a\x80\x80\x80", 4, 4}, /* nothing to complete: whole, though malformed */
        {"a\xc0", 2, 2},
        {"a\xff", 2, 2},
        {"a\xe0\x80", 3, 3}, /* overlong already */
        {"a\xed\xa0", 3, 3}, /* surrogate already */
        {"\xe2\x82\xac\xe2", 4, 3},
        {"\xc3\xc3", 2, 1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        ck_assert_msg(lac_utf8_whole(cases[i].text, cases[i].length) == cases[i].whole, "case %zu",
                      i);
}
END_TEST

START_TEST(integers_are_read_whole_or_not_at_all)
{
    int64_t out = 77;
    ck_assert(lac_parse_i64("-9223372036854775808", INT64_MIN, INT64_MAX, &out));
    ck_assert_int_eq(out, INT64_MIN);
    ck_assert(lac_parse_i64("9223372036854775807", INT64_MIN, INT64_MAX, &out));
    ck_assert_int_eq(out, INT64_MAX);
    ck_assert(lac_parse_i64("010", 0, 10, &out));
    ck_assert_int_eq(out, 10);
    static const char *const bad[] = {"",
                                      " 1",
                                      "1 ",
                                      "1x",
                                      "x",
                                      "0x10",
                                      "1.0",
                                      "11",
                                      "-1",
                                      "--1",
                                      "1e1",
                                      "\t1",
                                      "9223372036854775808",
                                      "99999999999999999999999"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        ck_assert_msg(!lac_parse_i64(bad[i], 0, 10, &out), "%s", bad[i]);
    ck_assert(!lac_parse_i64(NULL, 0, 10, &out));
    ck_assert_int_eq(out, 10);
}
END_TEST

START_TEST(numbers_are_finite_and_in_range)
{
    double out = 7;
    ck_assert(lac_parse_f64("0.25", 0, 1, &out));
    ck_assert_double_eq(out, 0.25);
    ck_assert(lac_parse_f64("1e-3", 0, 1, &out));
    ck_assert_double_eq(out, 0.001);
    static const char *const bad[] = {"",     "nan",  "inf",  "1e999", "1.1",
                                      "-0.1", "0.5x", " 0.5", "x"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        ck_assert_msg(!lac_parse_f64(bad[i], 0, 1, &out), "%s", bad[i]);
    ck_assert_double_eq(out, 0.001);
}
END_TEST

START_TEST(hex_is_lower_case_and_ended)
{
    char out[9];
    memset(out, 'z', sizeof(out));
    lac_hex((const uint8_t *)"\x00\x1f\xa0\xff", 4, out);
    ck_assert_str_eq(out, "001fa0ff");
    lac_hex(NULL, 0, out);
    ck_assert_str_eq(out, "");
    uint8_t back[4];
    ck_assert(lac_unhex("001fa0ff", back, 4));
    ck_assert_mem_eq(back, "\x00\x1f\xa0\xff", 4);
    ck_assert(lac_unhex("", back, 0));
    ck_assert(!lac_unhex("001fa0f", back, 4) && !lac_unhex("001fa0ff0", back, 4));
    ck_assert(!lac_unhex("001FA0FF", back, 4) && !lac_unhex("001fa0fg", back, 4));
}
END_TEST

Suite *suite_text(void)
{
    Suite *suite = suite_create("text");
    TCase *tc = tcase_create("text");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, every_character_survives_put_and_next);
    tcase_add_test(tc, malformed_bytes_are_refused);
    tcase_add_test(tc, whole_holds_back_only_what_may_be_completed);
    tcase_add_test(tc, integers_are_read_whole_or_not_at_all);
    tcase_add_test(tc, numbers_are_finite_and_in_range);
    tcase_add_test(tc, hex_is_lower_case_and_ended);
    suite_add_tcase(suite, tc);
    return suite;
}
