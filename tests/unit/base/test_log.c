/* Log lines: what is written, what is held back, whole lines, JSON. Standard error is a pipe here.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "suites.h"

static char captured[65536];

/* Runs `write_lines` with standard error going to `captured`. */
static void capture(void (*write_lines)(void))
{
    FILE *file = tmpfile();
    int old = dup(STDERR_FILENO);
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(dup2(fileno(file), STDERR_FILENO), 0);
    write_lines();
    dup2(old, STDERR_FILENO);
    close(old);
    rewind(file);
    size_t got = fread(captured, 1, sizeof(captured) - 1, file);
    captured[got] = '\0';
    fclose(file);
}

static void one_of_each(void)
{
    lac_error_log("disk %s", "gone");
    lac_warn("slots %d", 3);
    lac_info("hello");
    lac_debug("detail");
}

START_TEST(level_decides_what_is_written)
{
    lac_log_setup(LAC_LOG_WARN, "tester", false);
    capture(one_of_each);
    ck_assert_ptr_nonnull(strstr(captured, "disk gone\n"));
    ck_assert_ptr_nonnull(strstr(captured, "slots 3\n"));
    ck_assert_ptr_nonnull(strstr(captured, "tester"));
    ck_assert_ptr_null(strstr(captured, "hello"));
    ck_assert(lac_log_on(LAC_LOG_ERROR) && !lac_log_on(LAC_LOG_INFO));
}
END_TEST

static void hostile(void)
{
    static char big[5000];
    memset(big, 'x', sizeof(big) - 1);
    lac_info("a \"quoted\"\nline");
    lac_info("%s", big);
}

START_TEST(json_lines_are_one_line_an_event)
{
    lac_log_setup(LAC_LOG_INFO, "tester", true);
    capture(hostile);
    int lines = 0;
    for (const char *p = captured; (p = strchr(p, '\n')) != NULL; p++)
        lines++;
    ck_assert_int_eq(lines, 2);
    ck_assert_ptr_nonnull(strstr(captured, "a \\\"quoted\\\"\\nline"));
    ck_assert_ptr_nonnull(strstr(captured, "\"level\":\"info\""));
    ck_assert_uint_lt(strlen(captured), 4000u);
}
END_TEST

START_TEST(events_are_the_words_of_a_format)
{
    static const struct {
        const char *format, *event;
    } cases[] = {{"group %s: moving %zu requests: %s", "group-moving-requests"},
                 {"signal %d: second", "signal-second"},
                 {"%.1f ms (%-5llu of 10%%) LEFT", "ms-of-10-left"},
                 {"%s", "message"},
                 {"", "message"},
                 {"100 %", "100"}};
    char event[LAC_LOG_EVENT_MAX + 1];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lac_log_event(cases[i].format, event);
        ck_assert_str_eq(event, cases[i].event);
    }
    char many[400];
    memset(many, 'x', sizeof many - 1);
    many[sizeof many - 1] = 0;
    lac_log_event(many, event);
    ck_assert_uint_eq(strlen(event), LAC_LOG_EVENT_MAX);
}
END_TEST

static void flood(void)
{
    for (int i = 0; i < 10; i++)
        lac_info("request %d came", i);
    lac_info("another %s", "event");
}

/* Checks run in processes of their own, so the limit ends with this one. */
START_TEST(one_event_does_not_drown_the_others)
{
    lac_log_setup(LAC_LOG_INFO, "tester", true);
    lac_log_limit(3);
    capture(flood);
    ck_assert_ptr_nonnull(
        strstr(captured, "\"event\":\"request-came\",\"text\":\"request 2 came\""));
    ck_assert_ptr_null(strstr(captured, "request 3 came"));
    ck_assert_ptr_nonnull(strstr(captured, "another event"));
    ck_assert_uint_eq(lac_log_suppressed(), 7);
}
END_TEST

START_TEST(levels_are_read_by_name)
{
    lac_log_level level = LAC_LOG_INFO;
    ck_assert(lac_log_level_parse("trace", &level));
    ck_assert_int_eq(level, LAC_LOG_TRACE);
    ck_assert(lac_log_level_parse("error", &level));
    ck_assert_int_eq(level, LAC_LOG_ERROR);
    ck_assert(!lac_log_level_parse("loud", &level));
    ck_assert(!lac_log_level_parse("", &level));
    ck_assert_int_eq(level, LAC_LOG_ERROR);
}
END_TEST

Suite *suite_log(void)
{
    Suite *suite = suite_create("log");
    TCase *tc = tcase_create("log");
    tcase_add_test(tc, level_decides_what_is_written);
    tcase_add_test(tc, json_lines_are_one_line_an_event);
    tcase_add_test(tc, events_are_the_words_of_a_format);
    tcase_add_test(tc, one_event_does_not_drown_the_others);
    tcase_add_test(tc, levels_are_read_by_name);
    suite_add_tcase(suite, tc);
    return suite;
}
