/* The ring: order, bounds, and two threads with a small ring between them. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/ring.h"
#include "suites.h"

START_TEST(first_in_first_out_up_to_the_capacity)
{
    lac_ring *ring = lac_ring_create(3); /* rounded up to 4 */
    int items[5];
    for (int round = 0; round < 10; round++) {
        ck_assert_ptr_null(lac_ring_pop(ring));
        for (int i = 0; i < 4; i++) {
            ck_assert_uint_eq(lac_ring_count(ring), (size_t)i);
            ck_assert(lac_ring_push(ring, &items[i]));
        }
        ck_assert(!lac_ring_push(ring, &items[4]));
        ck_assert_ptr_eq(lac_ring_pop(ring), &items[0]);
        ck_assert(lac_ring_push(ring, &items[4]));
        for (int i = 1; i < 5; i++)
            ck_assert_ptr_eq(lac_ring_pop(ring), &items[i]);
        ck_assert_uint_eq(lac_ring_count(ring), 0);
    }
    lac_ring_destroy(&ring);
    ck_assert_ptr_null(ring);
    lac_ring_destroy(&ring);
}
END_TEST

START_TEST(a_capacity_of_one_works)
{
    lac_ring *ring = lac_ring_create(1);
    int item;
    for (int i = 0; i < 5; i++) {
        ck_assert(lac_ring_push(ring, &item));
        ck_assert(!lac_ring_push(ring, &item));
        ck_assert_ptr_eq(lac_ring_pop(ring), &item);
        ck_assert_ptr_null(lac_ring_pop(ring));
    }
    lac_ring_destroy(&ring);
}
END_TEST

START_TEST(null_is_no_item)
{
    lac_ring *ring = lac_ring_create(1);
    lac_ring_push(ring, NULL);
}
END_TEST

enum { HANDOVERS = 200000 };

typedef struct {
    uint64_t number, twice; /* written before the push, must be whole after the pop */
} parcel;

static void *produce(void *arg)
{
    lac_ring *ring = arg;
    for (uint64_t i = 0; i < HANDOVERS; i++) {
        parcel *p = malloc(sizeof(*p));
        p->number = i;
        p->twice = 2 * i;
        while (!lac_ring_push(ring, p))
            sched_yield();
    }
    return NULL;
}

START_TEST(two_threads_lose_and_reorder_nothing)
{
    lac_ring *ring = lac_ring_create(8);
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, produce, ring), 0);
    for (uint64_t i = 0; i < HANDOVERS; i++) {
        parcel *p;
        while ((p = lac_ring_pop(ring)) == NULL)
            sched_yield();
        if (p->number != i || p->twice != 2 * i)
            ck_abort_msg("at %lu came %lu", (unsigned long)i, (unsigned long)p->number);
        if (lac_ring_count(ring) > 8)
            ck_abort_msg("count over the capacity");
        free(p);
    }
    pthread_join(thread, NULL);
    ck_assert_ptr_null(lac_ring_pop(ring));
    lac_ring_destroy(&ring);
}
END_TEST

Suite *suite_ring(void)
{
    Suite *suite = suite_create("ring");
    TCase *tc = tcase_create("ring");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, first_in_first_out_up_to_the_capacity);
    tcase_add_test(tc, a_capacity_of_one_works);
    tcase_add_test_raise_signal(tc, null_is_no_item, SIGABRT);
    tcase_add_test(tc, two_threads_lose_and_reorder_nothing);
    suite_add_tcase(suite, tc);
    return suite;
}
