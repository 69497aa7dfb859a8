/* Status names, error texts with their limits, and assertions that stay on. */
#include <signal.h>
#include <string.h>

#include "base/assert.h"
#include "base/status.h"
#include "suites.h"

START_TEST(every_status_has_a_name_of_its_own)
{
    for (int i = LAC_OK; i <= LAC_EINTERNAL; i++) {
        ck_assert_str_ne(lac_status_name((lac_status)i), "unknown status");
        for (int j = LAC_OK; j < i; j++)
            ck_assert_str_ne(lac_status_name((lac_status)i), lac_status_name((lac_status)j));
    }
    ck_assert_ptr_nonnull(lac_status_name((lac_status)-1));
    ck_assert_ptr_nonnull(lac_status_name((lac_status)(LAC_EINTERNAL + 1)));
}
END_TEST

START_TEST(fail_writes_the_text_and_cuts_it)
{
    lac_error err;
    ck_assert_int_eq(lac_fail(&err, LAC_ETOOBIG, "body is %d", 9), LAC_ETOOBIG);
    ck_assert_int_eq(err.status, LAC_ETOOBIG);
    ck_assert_str_eq(err.text, "body is 9");
    char big[1000];
    memset(big, 'y', sizeof(big));
    big[999] = '\0';
    lac_fail(&err, LAC_EIO, "%s", big);
    ck_assert_uint_eq(strlen(err.text), LAC_ERROR_TEXT_MAX - 1);
    ck_assert_int_eq(lac_fail(NULL, LAC_BUSY, "x"), LAC_BUSY);
}
END_TEST

START_TEST(fail_in_puts_the_place_first)
{
    lac_error err;
    lac_fail(&err, LAC_ECORRUPT, "count is 5");
    ck_assert_int_eq(lac_fail_in(&err, "file %s", "a.gguf"), LAC_ECORRUPT);
    ck_assert_str_eq(err.text, "file a.gguf: count is 5");
    ck_assert_int_eq(lac_fail_in(NULL, "x"), LAC_EINTERNAL);

    char big[LAC_ERROR_TEXT_MAX + 50];
    memset(big, 'p', sizeof(big));
    for (size_t length = LAC_ERROR_TEXT_MAX - 6; length < sizeof(big); length++) {
        lac_fail(&err, LAC_EIO, "cause");
        lac_fail_in(&err, "%.*s", (int)length, big);
        ck_assert_uint_lt(strnlen(err.text, sizeof(err.text)), sizeof(err.text));
        ck_assert_mem_eq(err.text, big, LAC_ERROR_TEXT_MAX - 10);
    }
}
END_TEST

START_TEST(assertions_abort)
{
    volatile int two = 2;
    LAC_ASSERT(two == 2);
    LAC_ASSERT(two == 3);
}
END_TEST

Suite *suite_status(void)
{
    Suite *suite = suite_create("status");
    TCase *tc = tcase_create("status");
    tcase_add_test(tc, every_status_has_a_name_of_its_own);
    tcase_add_test(tc, fail_writes_the_text_and_cuts_it);
    tcase_add_test(tc, fail_in_puts_the_place_first);
    tcase_add_test_raise_signal(tc, assertions_abort, SIGABRT);
    suite_add_tcase(suite, tc);
    return suite;
}
