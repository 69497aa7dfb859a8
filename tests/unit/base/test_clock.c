/* The clocks: order, and that monotonic time passes at the pace of a sleep. */
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "suites.h"

START_TEST(monotonic_time_moves_with_real_time)
{
    uint64_t before_ns = lac_now_ns(), before_ms = lac_now_ms();
    struct timespec pause = {.tv_nsec = 20000000};
    nanosleep(&pause, NULL);
    uint64_t passed = lac_now_ns() - before_ns;
    ck_assert_uint_ge(passed, 20000000u);
    ck_assert_uint_lt(passed, UINT64_C(20000000000));
    ck_assert_uint_ge(lac_now_ms() - before_ms, 19u);
}
END_TEST

START_TEST(wall_time_is_of_this_century)
{
    int64_t now = lac_wall_s();
    ck_assert_int_gt(now, 1600000000);
    ck_assert_int_le(llabs((long long)now - (long long)time(NULL)), 1);
}
END_TEST

Suite *suite_clock(void)
{
    Suite *suite = suite_create("clock");
    TCase *tc = tcase_create("clock");
    tcase_add_test(tc, monotonic_time_moves_with_real_time);
    tcase_add_test(tc, wall_time_is_of_this_century);
    suite_add_tcase(suite, tc);
    return suite;
}
