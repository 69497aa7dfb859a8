/* The start count on disk: it only grows, and what cannot be counted is said. */
#include "epoch.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/status.h"

static char dir[64];

static void setup(void)
{
    strcpy(dir, "/tmp/lacuna-epoch-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void teardown(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    ck_assert_int_eq(system(command), 0);
}

static void write_epoch(const char *text)
{
    char path[96];
    snprintf(path, sizeof path, "%s/epoch", dir);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

START_TEST(counts_up)
{
    lac_error err = {0};
    uint64_t epoch = 0;
    char deep[96];
    snprintf(deep, sizeof deep, "%s/a/b", dir);
    for (uint64_t i = 1; i <= 3; i++) {
        ck_assert_int_eq(lac__epoch_next(deep, &epoch, &err), LAC_OK);
        ck_assert_uint_eq(epoch, i);
    }
    struct stat info;
    ck_assert_int_eq(stat(deep, &info), 0);
    ck_assert_uint_eq(info.st_mode & 0777, 0700);
}
END_TEST

START_TEST(goes_on_from_what_is_there)
{
    lac_error err = {0};
    uint64_t epoch = 0;
    write_epoch("41");
    ck_assert_int_eq(lac__epoch_next(dir, &epoch, &err), LAC_OK);
    ck_assert_uint_eq(epoch, 42);
}
END_TEST

START_TEST(damage_is_said_and_kept)
{
    static const char *const bad[] = {"", "abc", "-3", "0", "12 13", "99999999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        lac_error err = {0};
        uint64_t epoch = 7;
        write_epoch(bad[i]);
        ck_assert_int_eq(lac__epoch_next(dir, &epoch, &err), LAC_ECORRUPT);
        ck_assert_uint_eq(epoch, 7);
        ck_assert_ptr_nonnull(strstr(err.text, "/epoch"));
    }
}
END_TEST

START_TEST(no_directory_is_said)
{
    lac_error err = {0};
    uint64_t epoch = 0;
    ck_assert_int_eq(lac__epoch_next("/proc/none", &epoch, &err), LAC_EIO);
    ck_assert_ptr_nonnull(strstr(err.text, "/proc/none"));
    char file[96];
    write_epoch("1");
    snprintf(file, sizeof file, "%s/epoch", dir);
    ck_assert_int_eq(lac__epoch_next(file, &epoch, &err), LAC_EIO);
}
END_TEST

/* Starts at the same time get different numbers. */
START_TEST(numbers_are_not_shared)
{
    enum { PROCESSES = 4, EACH = 20 };
    for (int i = 0; i < PROCESSES; i++) {
        if (fork())
            continue;
        lac_error err = {0};
        uint64_t epoch = 0;
        for (int k = 0; k < EACH; k++)
            if (lac__epoch_next(dir, &epoch, &err) != LAC_OK)
                _exit(1);
        _exit(0);
    }
    int code = 0;
    while (wait(&code) > 0)
        ck_assert_int_eq(code, 0);
    lac_error err = {0};
    uint64_t epoch = 0;
    ck_assert_int_eq(lac__epoch_next(dir, &epoch, &err), LAC_OK);
    ck_assert_uint_eq(epoch, PROCESSES * EACH + 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("coordinator_epoch");
    TCase *c = tcase_create("epoch");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 60);
    tcase_add_test(c, counts_up);
    tcase_add_test(c, goes_on_from_what_is_there);
    tcase_add_test(c, damage_is_said_and_kept);
    tcase_add_test(c, no_directory_is_said);
    tcase_add_test(c, numbers_are_not_shared);
    suite_add_tcase(suite, c);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
