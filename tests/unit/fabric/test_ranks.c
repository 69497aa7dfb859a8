/* Ranks that do well: every call, all sizes, every rank with the same bits, through memory. */
#include <math.h>

#include "ranks.h"

/* A value of rank r whose sums depend on the order of adding. */
static float value(uint32_t rank, size_t i)
{
    return ldexpf((float)((i * 2654435761u + rank * 40503u) % 1000u) - 500.0f,
                  (int)((i + 7 * rank) % 30) - 15);
}

static const size_t sizes[] = {1, 7, 576, 4096, 4097, 8192, 100003, 524288};

static int sums(lac_fabric *fabric, void *arg)
{
    (void)arg;
    uint32_t ranks = lac_fabric_ranks(fabric), rank = lac_fabric_rank(fabric);
    lac_error err = {0};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        size_t n = sizes[s];
        float *x = malloc(n * sizeof *x), *want = malloc(n * sizeof *want);
        RANK_CHECK(x && want);
        for (size_t i = 0; i < n; i++) {
            x[i] = value(rank, i);
            want[i] = value(0, i);
            for (uint32_t r = 1; r < ranks; r++)
                want[i] += value(r, i); /* in order of rank */
        }
        lac_status status = lac_fabric_all_reduce(fabric, (lac_fabric_span){0, ranks},
                                                  at_step((uint32_t)s, 5000), x, n, &err);
        RANK_CHECK(status == LAC_OK);
        RANK_CHECK(memcmp(x, want, n * sizeof *x) == 0);
        free(x);
        free(want);
    }
    return 0;
}

START_TEST(sums_have_the_same_bits_on_every_rank)
{
    ranks_run(2, sums, NULL);
    ranks_run(3, sums, NULL);
    ranks_run(5, sums, NULL);
}
END_TEST

/* Ranks 1 and 2 add up among themselves; 0 and 3 do something else meanwhile. */
static int spans(lac_fabric *fabric, void *arg)
{
    (void)arg;
    lac_error err = {0};
    uint32_t rank = lac_fabric_rank(fabric);
    lac_fabric_call call = at_step(1, 5000);
    float x[2] = {(float)rank, 1};
    if (rank == 1 || rank == 2) {
        RANK_CHECK(lac_fabric_all_reduce(fabric, (lac_fabric_span){1, 2}, call, x, 2, &err) ==
                   LAC_OK);
        RANK_CHECK(x[0] == 3 && x[1] == 2);
        uint32_t all[2];
        RANK_CHECK(lac_fabric_all_gather(fabric, (lac_fabric_span){1, 2}, call, &rank, sizeof rank,
                                         all, &err) == LAC_OK);
        RANK_CHECK(all[0] == 1 && all[1] == 2);
    } else {
        uint32_t other = 3 - rank;
        float mine[1000], theirs[1000];
        for (int i = 0; i < 1000; i++)
            mine[i] = (float)(rank * 1000 + (uint32_t)i);
        RANK_CHECK(lac_fabric_send(fabric, other, LAC_FABRIC_ROWS, call, mine, sizeof mine, &err) ==
                   LAC_OK);
        RANK_CHECK(lac_fabric_receive(fabric, other, LAC_FABRIC_ROWS, call, theirs, sizeof theirs,
                                      NULL, &err) == LAC_OK);
        RANK_CHECK(lac_fabric_settle(fabric, call, &err) == LAC_OK);
        RANK_CHECK(theirs[999] == (float)(other * 1000 + 999));
    }
    return lac_fabric_barrier(fabric, (lac_fabric_span){0, 4}, call, &err) == LAC_OK ? 0 : 1;
}

START_TEST(parts_of_a_group_work_apart)
{
    ranks_run(4, spans, NULL);
}
END_TEST

enum { LARGE = 3 << 20 };

/* The root sends orders ahead; rows of earlier steps are still on their way. */
static int orders(lac_fabric *fabric, void *arg)
{
    (void)arg;
    lac_error err = {0};
    uint8_t *data = malloc(LARGE);
    RANK_CHECK(data);
    for (uint32_t step = 1; step <= 5; step++) {
        size_t bytes = step == 5 ? LARGE : step * 100;
        if (lac_fabric_rank(fabric) == 0) {
            memset(data, (int)step, bytes);
            RANK_CHECK(lac_fabric_broadcast(fabric, 0, at_step(step, 5000), data, bytes, &bytes,
                                            &err) == LAC_OK);
            continue;
        }
        size_t got = 0;
        RANK_CHECK(lac_fabric_broadcast(fabric, 0, at_step(step, 5000), data, LARGE, &got, &err) ==
                   LAC_OK);
        RANK_CHECK(got == bytes && data[0] == step && data[got - 1] == step);
    }
    free(data);
    return 0;
}

START_TEST(orders_reach_everybody)
{
    ranks_run(3, orders, NULL);
}
END_TEST

static int lanes(lac_fabric *fabric, void *arg)
{
    lac_fabric_lane want = *(lac_fabric_lane *)arg;
    for (uint32_t r = 0; r < lac_fabric_ranks(fabric); r++)
        RANK_CHECK(lac_fabric_lane_of(fabric, r) ==
                   (r == lac_fabric_rank(fabric) ? LAC_FABRIC_SELF : want));
    return 0;
}

/* With the errors of shared memory switched off UCX falls back to TCP without a word: the lanes
 * that this reports must be those, or the check proves nothing. */
START_TEST(ranks_of_a_host_meet_in_memory)
{
    lac_fabric_lane want = LAC_FABRIC_MEMORY;
    ranks_run(2, lanes, &want);
    setenv("UCX_POSIX_ERROR_HANDLING", "n", 1);
    setenv("UCX_SYSV_ERROR_HANDLING", "n", 1);
    want = LAC_FABRIC_NETWORK;
    ranks_run(2, lanes, &want);
    unsetenv("UCX_POSIX_ERROR_HANDLING");
    unsetenv("UCX_SYSV_ERROR_HANDLING");
}
END_TEST

START_TEST(tcp_carries_the_same)
{
    setenv("UCX_TLS", "tcp,self", 1);
    lac_fabric_lane want = LAC_FABRIC_NETWORK;
    ranks_run(2, lanes, &want);
    ranks_run(3, sums, NULL);
    unsetenv("UCX_TLS");
}
END_TEST

/* Not a test of speed: how long a small sum takes here, for who reads the log. */
static int timing(lac_fabric *fabric, void *arg)
{
    (void)arg;
    float x[576];
    double best = 1e9;
    lac_error err = {0};
    for (uint32_t round = 0; round < 20; round++) {
        uint64_t start = lac_now_ns();
        for (int i = 0; i < 50; i++) {
            memset(x, 0, sizeof x);
            RANK_CHECK(lac_fabric_all_reduce(fabric, (lac_fabric_span){0, 2}, at_step(round, 5000),
                                             x, 576, &err) == LAC_OK);
        }
        double us = (double)(lac_now_ns() - start) / 50e3;
        best = us < best ? us : best;
    }
    if (lac_fabric_rank(fabric) == 0)
        printf("sum of 2304 bytes over 2 ranks: %.2f us (best of 20 times 50)\n", best);
    return 0;
}

START_TEST(a_small_sum_is_timed)
{
    ranks_run(2, timing, NULL);
    ck_assert_int_eq(shared_segments(), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fabric ranks");
    TCase *all = tcase_create("ranks");
    tcase_set_timeout(all, 60);
    tcase_add_test(all, sums_have_the_same_bits_on_every_rank);
    tcase_add_test(all, parts_of_a_group_work_apart);
    tcase_add_test(all, orders_reach_everybody);
    tcase_add_test(all, ranks_of_a_host_meet_in_memory);
    tcase_add_test(all, tcp_carries_the_same);
    tcase_add_test(all, a_small_sum_is_timed);
    suite_add_tcase(suite, all);
    return suite_run(suite);
}
