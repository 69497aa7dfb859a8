/* The thread pool: every job exactly once, phases in order, no thread inside after the run, at more
 * threads than the machine has cores. */
#include "pool.h"
#include "suites.h"

#include "base/status.h"

enum { PHASES = 40, JOBS_MAX = 50 };

typedef struct {
    lac__pool *pool;
    _Atomic uint32_t hits[PHASES][JOBS_MAX];
    _Atomic uint32_t wrong;
    _Atomic bool alive;
} plan;

static uint32_t jobs_of(uint32_t phase)
{
    return 1 + phase * 7 % JOBS_MAX;
}

static void walk_all(void *context, uint32_t thread)
{
    plan *p = context;
    lac__walk walk = lac__walk_begin(p->pool, thread);
    for (uint32_t phase = 0; phase < PHASES; phase++) {
        uint32_t jobs = jobs_of(phase), done = 0;
        for (int64_t job; (job = lac__walk_claim(&walk, jobs, phase % 3 == 0)) >= 0; done++) {
            if (!atomic_load(&p->alive))
                atomic_fetch_add(&p->wrong, 1);
            for (uint32_t i = 0; phase > 0 && i < jobs_of(phase - 1); i++)
                if (atomic_load(&p->hits[phase - 1][i]) != 1)
                    atomic_fetch_add(&p->wrong, 1);
            atomic_fetch_add(&p->hits[phase][job], 1);
        }
        if (!lac__walk_next(&walk, jobs, done))
            return;
    }
}

START_TEST(every_job_runs_once_and_in_its_phase)
{
    plan p = {0};
    lac_error err;
    ck_assert_int_eq(lac__pool_create((uint32_t)_i, false, &p.pool, &err), LAC_OK);
    for (uint32_t round = 0; round < 60; round++) {
        for (uint32_t phase = 0; phase < PHASES; phase++)
            for (uint32_t job = 0; job < JOBS_MAX; job++)
                atomic_store(&p.hits[phase][job], 0);
        atomic_store(&p.alive, true);
        lac__pool_run(p.pool, walk_all, &p);
        atomic_store(&p.alive, false);
        for (uint32_t phase = 0; phase < PHASES; phase++)
            for (uint32_t job = 0; job < JOBS_MAX; job++)
                ck_assert_uint_eq(atomic_load(&p.hits[phase][job]), job < jobs_of(phase));
    }
    ck_assert_uint_eq(atomic_load(&p.wrong), 0);
    lac__pool_destroy(&p.pool);
    ck_assert_ptr_null(p.pool);
}
END_TEST

START_TEST(too_many_threads_are_refused)
{
    lac__pool *pool = NULL;
    lac_error err;
    ck_assert_int_eq(lac__pool_create(100000, false, &pool, &err), LAC_EINVAL);
    ck_assert_str_eq(err.text, "threads is 100000, allowed 1..256");
    ck_assert_ptr_null(pool);
}
END_TEST

START_TEST(read_bandwidth_is_a_rate)
{
    double rate = lac_cpu_read_bandwidth(2, 8 << 20, 2);
    ck_assert(rate > 0.05 && rate < 5000.0);
}
END_TEST

Suite *suite_pool(void)
{
    Suite *s = suite_create("pool");
    TCase *t = tcase_create("pool");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, every_job_runs_once_and_in_its_phase, 1, 6);
    tcase_add_test(t, too_many_threads_are_refused);
    tcase_add_test(t, read_bandwidth_is_a_rate);
    suite_add_tcase(s, t);
    return s;
}
