/* Ranks that do badly: late, deaf, dead, stopped, of another version or step. Nobody waits past a
 * deadline, the others learn why, nothing is left behind. */
#include "ranks.h"

static lac_fabric_span everybody(const lac_fabric *fabric)
{
    return (lac_fabric_span){0, lac_fabric_ranks(fabric)};
}

/* Sums until something fails; exit status 10 + the status it met. Says why in *arg's pipe. */
static int until_failure(lac_fabric *fabric, void *arg)
{
    uint64_t deadline_ms = *(uint64_t *)arg;
    lac_error err = {0};
    for (uint32_t step = 1; step < 100000; step++) {
        float x[64] = {1};
        lac_status status = lac_fabric_all_reduce(fabric, everybody(fabric),
                                                  at_step(step, deadline_ms), x, 64, &err);
        if (status != LAC_OK) {
            lac_fabric_abort(fabric, err.text);
            return 10 + (int)status;
        }
        usleep(500);
    }
    return 0;
}

START_TEST(a_killed_rank_is_seen_within_two_seconds)
{
    uint64_t deadline_ms = 20000;
    rank_set set = ranks_start(3, until_failure, &deadline_ms, -1, (lac_fabric_fault){0});
    usleep(200000);
    uint64_t start = lac_now_ms();
    kill(set.pids[1], SIGKILL);
    ck_assert_int_eq(rank_end(&set, 1), 1000 + SIGKILL);
    ck_assert_int_eq(rank_end(&set, 0), 10 + LAC_EPEER);
    ck_assert_int_eq(rank_end(&set, 2), 10 + LAC_EPEER);
    ck_assert_uint_lt(lac_now_ms() - start, 2000);
    ck_assert_int_eq(shared_segments(), 0);
}
END_TEST

/* A stopped rank looks alive to the network: the deadline of the call finds it. */
START_TEST(a_stopped_rank_runs_into_the_deadline)
{
    uint64_t deadline_ms = 500;
    rank_set set = ranks_start(3, until_failure, &deadline_ms, -1, (lac_fabric_fault){0});
    usleep(200000);
    uint64_t start = lac_now_ms();
    kill(set.pids[2], SIGSTOP);
    int first = rank_end(&set, 0), second = rank_end(&set, 1);
    ck_assert_uint_lt(lac_now_ms() - start, 3000);
    /* Whoever met the deadline first told the other. */
    ck_assert(first == 10 + LAC_EDEADLINE || first == 10 + LAC_EPEER);
    ck_assert(second == 10 + LAC_EDEADLINE || second == 10 + LAC_EPEER);
    ck_assert(first == 10 + LAC_EDEADLINE || second == 10 + LAC_EDEADLINE);
    kill(set.pids[2], SIGCONT); /* comes back, finds the group over and ends by itself */
    ck_assert_int_gt(rank_end(&set, 2), 9);
}
END_TEST

static void fault_ends(lac_fabric_fault fault, uint64_t deadline_ms, int faulty_end, int other_end)
{
    rank_set set = ranks_start(2, until_failure, &deadline_ms, 1, fault);
    ck_assert_int_eq(rank_end(&set, 0), other_end);
    if (fault.kind == LAC_FAULT_HANG)
        kill(set.pids[1], SIGKILL);
    ck_assert_int_eq(rank_end(&set, 1), faulty_end);
}

START_TEST(a_hung_call_runs_into_the_deadline)
{
    fault_ends((lac_fabric_fault){.kind = LAC_FAULT_HANG, .call = 5}, 300, 1000 + SIGKILL,
               10 + LAC_EDEADLINE);
}
END_TEST

START_TEST(death_in_a_call_is_seen)
{
    fault_ends((lac_fabric_fault){.kind = LAC_FAULT_DEATH, .call = 5}, 20000, 1000 + SIGKILL,
               10 + LAC_EPEER);
}
END_TEST

/* Rank 1 leaves one sum out: rank 0 waits for it in vain or sees the sum of another step. */
START_TEST(a_dropped_call_puts_ranks_out_of_step)
{
    fault_ends((lac_fabric_fault){.kind = LAC_FAULT_DROP, .call = 5}, 2000, 10 + LAC_EEPOCH,
               10 + LAC_EEPOCH);
}
END_TEST

static int a_few(lac_fabric *fabric, void *arg)
{
    (void)arg;
    lac_error err = {0};
    for (uint32_t step = 1; step < 10; step++) {
        float x = 1;
        if (lac_fabric_all_reduce(fabric, everybody(fabric), at_step(step, 2000), &x, 1, &err) !=
            LAC_OK)
            return 1;
    }
    return 0;
}

START_TEST(a_slow_rank_is_waited_for)
{
    lac_fabric_fault fault = {.kind = LAC_FAULT_DELAY, .call = 3, .ms = 300};
    rank_set set = ranks_start(2, a_few, NULL, 1, fault);
    ck_assert_int_eq(rank_end(&set, 0), 0);
    ck_assert_int_eq(rank_end(&set, 1), 0);
}
END_TEST

START_TEST(another_version_does_not_join)
{
    lac_fabric_fault fault = {.kind = LAC_FAULT_VERSION};
    rank_set set = ranks_start(2, a_few, NULL, 1, fault);
    ck_assert_int_eq(rank_end(&set, 0), 91);
    ck_assert_int_ne(rank_end(&set, 1), 0);
}
END_TEST

/* Rank 1 speaks of step 4 where rank 0 is at step 5, then of the right one. */
static int stale(lac_fabric *fabric, void *arg)
{
    (void)arg;
    lac_error err = {0};
    uint32_t value = 77, got = 0;
    if (lac_fabric_rank(fabric) == 1) {
        for (uint32_t step = 4; step <= 5; step++, value++)
            RANK_CHECK(lac_fabric_send(fabric, 0, LAC_FABRIC_ROWS, at_step(step, 1000), &value,
                                       sizeof value, &err) == LAC_OK &&
                       lac_fabric_settle(fabric, at_step(step, 1000), &err) == LAC_OK);
    } else {
        RANK_CHECK(lac_fabric_receive(fabric, 1, LAC_FABRIC_ROWS, at_step(5, 1000), &got,
                                      sizeof got, NULL, &err) == LAC_EEPOCH);
        RANK_CHECK(got == 0);
        RANK_CHECK(strstr(err.text, "of step 4, this rank is at step 5"));
        RANK_CHECK(lac_fabric_receive(fabric, 1, LAC_FABRIC_ROWS, at_step(5, 1000), &got,
                                      sizeof got, NULL, &err) == LAC_OK);
        RANK_CHECK(got == 78);
        RANK_CHECK(lac_fabric_receive(fabric, 1, LAC_FABRIC_ROWS, at_step(6, 50), &got, sizeof got,
                                      NULL, &err) == LAC_EDEADLINE);
        RANK_CHECK(lac_fabric_health(fabric, &err) == LAC_OK);
    }
    return lac_fabric_barrier(fabric, everybody(fabric), at_step(7, 1000), &err) == LAC_OK ? 0 : 1;
}

START_TEST(stale_messages_are_refused)
{
    ranks_run(2, stale, NULL);
}
END_TEST

static int wrong_size(lac_fabric *fabric, void *arg)
{
    (void)arg;
    lac_error err = {0};
    uint8_t bytes[16] = {0};
    lac_fabric_call call = at_step(1, 1000);
    if (lac_fabric_rank(fabric) == 1) {
        RANK_CHECK(lac_fabric_send(fabric, 0, LAC_FABRIC_RESULT, call, bytes, 12, &err) == LAC_OK);
        RANK_CHECK(lac_fabric_settle(fabric, call, &err) == LAC_OK);
    } else {
        RANK_CHECK(lac_fabric_receive(fabric, 1, LAC_FABRIC_RESULT, call, bytes, 16, NULL, &err) ==
                   LAC_EPROTO);
        RANK_CHECK(strstr(err.text, "12 bytes") && strstr(err.text, "16 expected"));
    }
    return lac_fabric_barrier(fabric, everybody(fabric), at_step(2, 1000), &err) == LAC_OK ? 0 : 1;
}

START_TEST(a_wrong_size_is_refused)
{
    ranks_run(2, wrong_size, NULL);
}
END_TEST

/* Rank 2 gives up; the others wait for a message that will not come, with a long deadline. */
static int given_up(lac_fabric *fabric, void *arg)
{
    (void)arg;
    lac_error err = {0};
    uint8_t byte;
    if (lac_fabric_rank(fabric) == 2) {
        usleep(50000);
        lac_fabric_abort(fabric, "no more");
        return 0;
    }
    uint64_t start = lac_now_ms();
    RANK_CHECK(lac_fabric_receive(fabric, 1 - lac_fabric_rank(fabric), LAC_FABRIC_ROWS,
                                  at_step(1, 20000), &byte, 1, NULL, &err) == LAC_EPEER);
    RANK_CHECK(strcmp(err.text, "rank 2 ended the group: no more") == 0);
    RANK_CHECK(lac_now_ms() - start < 1500);
    RANK_CHECK(lac_fabric_health(fabric, &err) == LAC_EPEER);
    return 0;
}

START_TEST(abort_reaches_who_waits)
{
    ranks_run(3, given_up, NULL);
    ck_assert_int_eq(shared_segments(), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fabric faults");
    TCase *all = tcase_create("faults");
    tcase_set_timeout(all, 60);
    tcase_add_test(all, a_killed_rank_is_seen_within_two_seconds);
    tcase_add_test(all, a_stopped_rank_runs_into_the_deadline);
    tcase_add_test(all, a_hung_call_runs_into_the_deadline);
    tcase_add_test(all, death_in_a_call_is_seen);
    tcase_add_test(all, a_dropped_call_puts_ranks_out_of_step);
    tcase_add_test(all, a_slow_rank_is_waited_for);
    tcase_add_test(all, another_version_does_not_join);
    tcase_add_test(all, stale_messages_are_refused);
    tcase_add_test(all, a_wrong_size_is_refused);
    tcase_add_test(all, abort_reaches_who_waits);
    suite_add_tcase(suite, all);
    return suite_run(suite);
}
