/* The state file: found again, cut short, of other inputs, not ours. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calibrate/memo.h"

static char path[64];
static lac_digest inputs, others;

static void setup(void)
{
    snprintf(path, sizeof path, "/tmp/lacuna-memo-%d", (int)getpid());
    (void)unlink(path);
    memset(&inputs, 1, sizeof inputs);
    memset(&others, 2, sizeof others);
}

static void teardown(void)
{
    (void)unlink(path);
}

static lac_memo *opened(const lac_digest *of, size_t want)
{
    lac_memo *memo = NULL;
    lac_error err = {0};
    size_t known = 99;
    ck_assert_msg(lac_memo_open(path, of, &memo, &known, &err) == LAC_OK, "%s", err.text);
    ck_assert_uint_eq(known, want);
    return memo;
}

static const double values[3] = {0.1, -3e300, 1.0 / 3};

START_TEST(what_was_put_is_found)
{
    lac_memo *memo = opened(&inputs, 0);
    double out[3] = {0};
    ck_assert(!lac_memo_get(memo, "one", out, 3));
    ck_assert_int_eq(lac_memo_put(memo, "one", values, 3, NULL), LAC_OK);
    ck_assert_int_eq(lac_memo_put(memo, "none", NULL, 0, NULL), LAC_OK);
    lac_memo_close(&memo);
    memo = opened(&inputs, 2);
    ck_assert(lac_memo_get(memo, "one", out, 3));
    ck_assert_mem_eq(out, values, sizeof values);
    ck_assert(lac_memo_get(memo, "none", out, 0));
    ck_assert(!lac_memo_get(memo, "one", out, 2));
    lac_memo_close(&memo);
    memo = opened(&others, 0); /* a run of something else begins anew */
    ck_assert(!lac_memo_get(memo, "one", out, 3));
    lac_memo_close(&memo);
    memo = opened(&inputs, 0);
    lac_memo_close(&memo);
}
END_TEST

START_TEST(whole_lines_of_a_cut_file_count)
{
    lac_memo *memo = opened(&inputs, 0);
    char name[8];
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "s%d", i);
        ck_assert_int_eq(lac_memo_put(memo, name, values, 3, NULL), LAC_OK);
    }
    lac_memo_close(&memo);
    FILE *file = fopen(path, "rb");
    char bytes[2048];
    size_t length = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    for (size_t cut = 0; cut <= length; cut++) {
        file = fopen(path, "wb");
        fwrite(bytes, 1, cut, file);
        fclose(file);
        size_t lines = 0, known;
        for (size_t i = 0; i < cut; i++)
            lines += bytes[i] == '\n';
        lac_error err = {0};
        lac_status status = lac_memo_open(path, &inputs, &memo, &known, &err);
        if (status == LAC_EREFUSED) {
            ck_assert_uint_eq(lines, 0); /* not even its first line is whole enough to know it */
            continue;
        }
        ck_assert_int_eq(status, LAC_OK);
        ck_assert_uint_eq(known, lines > 0 ? lines - 1 : 0);
        ck_assert_int_eq(lac_memo_put(memo, "more", values, 3, NULL), LAC_OK);
        lac_memo_close(&memo);
        memo = opened(&inputs, lines > 0 ? lines : 1);
        lac_memo_close(&memo);
    }
}
END_TEST

START_TEST(a_file_of_somebody_else_stays)
{
    static const char text[] = "Dear diary, today nothing was erased at all, and so it stays.\n";
    FILE *file = fopen(path, "wb");
    fputs(text, file);
    fclose(file);
    lac_memo *memo = NULL;
    lac_error err = {0};
    size_t known;
    ck_assert_int_eq(lac_memo_open(path, &inputs, &memo, &known, &err), LAC_EREFUSED);
    ck_assert_ptr_nonnull(strstr(err.text, path));
    char back[128] = "";
    file = fopen(path, "rb");
    ck_assert_uint_eq(fread(back, 1, sizeof back, file), sizeof text - 1);
    fclose(file);
    ck_assert_str_eq(back, text);
    snprintf(path, sizeof path, "/tmp/no-such-folder-%d/x", (int)getpid());
    ck_assert_int_eq(lac_memo_open(path, &inputs, &memo, &known, &err), LAC_EIO);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("memo");
    TCase *tcase = tcase_create("memo");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, what_was_put_is_found);
    tcase_add_test(tcase, whole_lines_of_a_cut_file_count);
    tcase_add_test(tcase, a_file_of_somebody_else_stays);
    suite_add_tcase(suite, tcase);
    SRunner *all = srunner_create(suite);
    srunner_run_all(all, CK_NORMAL);
    int failed = srunner_ntests_failed(all);
    srunner_free(all);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
