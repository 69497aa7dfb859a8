/* Overflow-safe arithmetic, the capped buffer, JSON escapes and the arena's budget. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "suites.h"

START_TEST(products_and_sums_report_overflow)
{
    uint64_t out = 7;
    ck_assert(lac_mul_u64(UINT32_MAX, UINT32_MAX, &out));
    ck_assert_uint_eq(out, UINT64_C(0xFFFFFFFE00000001));
    ck_assert(!lac_mul_u64(UINT64_C(1) << 32, UINT64_C(1) << 32, &out));
    ck_assert(!lac_add_u64(UINT64_MAX, 1, &out));
    ck_assert_uint_eq(out, UINT64_C(0xFFFFFFFE00000001));
    ck_assert(lac_add_u64(UINT64_MAX - 1, 1, &out));
    ck_assert_uint_eq(out, UINT64_MAX);
}
END_TEST

START_TEST(allocation_is_zeroed_and_impossible_sizes_fail)
{
    char *p = lac_alloc(1000, 3);
    for (int i = 0; i < 3000; i++)
        ck_assert_int_eq(p[i], 0);
    free(p);
    p = lac_try_alloc(0, 8);
    ck_assert_ptr_nonnull(p);
    free(p);
    ck_assert_ptr_null(lac_try_alloc(SIZE_MAX / 2, 4));
    p = lac_strndup("abc\0def", 5);
    ck_assert_mem_eq(p, "abc\0d\0", 6);
    free(p);
    p = lac_strndup(NULL, 0);
    ck_assert_str_eq(p, "");
    free(p);
}
END_TEST

START_TEST(an_impossible_control_allocation_aborts)
{
    lac_realloc(NULL, SIZE_MAX / 2, 4);
}
END_TEST

START_TEST(buffer_stops_at_its_cap)
{
    lac_buf buf = {.cap = 10};
    ck_assert(lac_buf_text(&buf, "12345"));
    ck_assert(lac_buf_printf(&buf, "%d", 67890));
    ck_assert_uint_eq(buf.length, 10);
    ck_assert(!buf.overflow);
    ck_assert(!lac_buf_add(&buf, "x", 1));
    ck_assert(buf.overflow);
    ck_assert_str_eq(buf.data, "1234567890");
    lac_buf_clear(&buf);
    ck_assert(!buf.overflow && buf.length == 0);
    ck_assert(!lac_buf_printf(&buf, "%s", "more than ten bytes"));
    ck_assert_uint_eq(buf.length, 0);
    lac_buf_free(&buf);
    ck_assert_ptr_null(buf.data);
    ck_assert_uint_eq(buf.cap, 10);
    lac_buf_free(&buf);
}
END_TEST

START_TEST(buffer_keeps_nul_bytes_and_drops_from_the_front)
{
    lac_buf buf = {0};
    for (int i = 0; i < 1000; i++)
        ck_assert(lac_buf_add(&buf, "ab\0", 3));
    ck_assert_uint_eq(buf.length, 3000);
    lac_buf_drop(&buf, 0);
    lac_buf_drop(&buf, 1);
    ck_assert_mem_eq(buf.data, "b\0a", 3);
    lac_buf_drop(&buf, 2999);
    ck_assert_uint_eq(buf.length, 0);
    ck_assert_int_eq(buf.data[0], 0);
    lac_buf_free(&buf);
}
END_TEST

static void expect_json(const char *text, size_t length, const char *json)
{
    lac_buf buf = {0};
    ck_assert(lac_buf_json(&buf, text, length));
    ck_assert_str_eq(buf.data, json);
    lac_buf_free(&buf);
}

START_TEST(json_strings_are_escaped_and_mended)
{
    expect_json("", 0, "\"\"");
    expect_json("plain", 5, "\"plain\"");
    expect_json("q\"b\\/", 5, "\"q\\\"b\\\\/\"");
    expect_json("\b\t\n\f\r\x0b\x01\x1f", 8, "\"\\b\\t\\n\\f\\r\\u000b\\u0001\\u001f\"");
    expect_json("\0", 1, "\"\\u0000\"");
    expect_json("\xc3\xa9\xf0\x9f\x98\x80", 6, "\"\xc3\xa9\xf0\x9f\x98\x80\"");
    expect_json("a\xff"
                "b",
                3,
                "\"a\xef\xbf\xbd"
                "b\"");
    expect_json("a\xc3", 2, "\"a\xef\xbf\xbd\"");
    expect_json("\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
}
END_TEST

START_TEST(json_over_the_cap_says_so)
{
    lac_buf buf = {.cap = 6};
    ck_assert(!lac_buf_json(&buf, "\n\n\n\n", 4));
    ck_assert(buf.overflow);
    lac_buf_free(&buf);
}
END_TEST

START_TEST(arena_keeps_to_its_budget)
{
    lac_arena *arena = lac_arena_create(100000);
    size_t taken = 0;
    for (;;) {
        unsigned char *p = lac_arena_alloc(arena, 100);
        if (p == NULL)
            break;
        ck_assert_uint_eq((uintptr_t)p % 16, 0);
        for (int i = 0; i < 100; i++)
            ck_assert_int_eq(p[i], 0);
        memset(p, 0xee, 100);
        taken += 112;
    }
    ck_assert_uint_eq(lac_arena_used(arena), taken);
    ck_assert_uint_le(taken, 100000);
    ck_assert_uint_gt(taken, 100000 - 112);
    ck_assert_ptr_null(lac_arena_alloc(arena, SIZE_MAX));
    ck_assert_ptr_null(lac_arena_alloc(arena, SIZE_MAX - 8));
    lac_arena_reset(arena);
    ck_assert_uint_eq(lac_arena_used(arena), 0);
    unsigned char *whole = lac_arena_alloc(arena, 100000);
    ck_assert_ptr_nonnull(whole);
    ck_assert_int_eq(whole[0] | whole[99999], 0);
    ck_assert_ptr_null(lac_arena_alloc(arena, 1));
    lac_arena_destroy(&arena);
    ck_assert_ptr_null(arena);
    lac_arena_destroy(&arena);
}
END_TEST

Suite *suite_mem(void)
{
    Suite *suite = suite_create("mem");
    TCase *tc = tcase_create("mem");
    tcase_add_test(tc, products_and_sums_report_overflow);
    tcase_add_test(tc, allocation_is_zeroed_and_impossible_sizes_fail);
    tcase_add_test_raise_signal(tc, an_impossible_control_allocation_aborts, SIGABRT);
    tcase_add_test(tc, buffer_stops_at_its_cap);
    tcase_add_test(tc, buffer_keeps_nul_bytes_and_drops_from_the_front);
    tcase_add_test(tc, json_strings_are_escaped_and_mended);
    tcase_add_test(tc, json_over_the_cap_says_so);
    tcase_add_test(tc, arena_keeps_to_its_budget);
    suite_add_tcase(suite, tc);
    return suite;
}
