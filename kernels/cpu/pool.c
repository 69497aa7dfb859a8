/* The thread pool: owns the worker threads, the claim counters and the waiting.
 *
 * All words carry the number of the phase (or step) they speak of, so nothing is ever reset: a
 * thread that comes late with an old number finds a newer one and takes nothing. Waiting spins for
 * some tens of microseconds (a futex round trip costs about as much), then yields, then sleeps. */
#include "pool.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"

enum {
    RING = 8, /* phases whose counters live at once; only one is ever open */
    THREADS_MAX = 256,
    SPINS = 600,          /* pause loops before yielding: about 20-50 µs */
    YIELDS = 40,          /* yields before sleeping */
    IDLE_SPIN_NS = 150000 /* between steps; an idle engine sleeps well within a millisecond */
};

typedef struct {
    _Alignas(LAC__CACHE_LINE) _Atomic uint64_t word; /* phase << 32 | count */
} slot;

/* What a thread does in the step whose number stands above these two bits. */
enum { STATE_OUT = 0, STATE_WAIT = 1, STATE_WORK = 2 };

struct lac__pool {
    uint32_t threads;
    bool pin;
    bool pinned_caller;
    pthread_t *handles;
    cpu_set_t allowed;
    lac__pool_fn fn;
    void *context;
    uint32_t phase_base; /* written between steps */
    _Alignas(LAC__CACHE_LINE) _Atomic uint64_t step;
    _Alignas(LAC__CACHE_LINE) _Atomic uint32_t step_word; /* futex: low bits of step */
    _Atomic uint32_t step_sleepers;
    _Alignas(LAC__CACHE_LINE) _Atomic uint32_t phase_word; /* futex: bumped when sleepers exist */
    _Atomic uint32_t phase_sleepers;
    _Atomic bool stop;
    slot *claims; /* [RING][threads] */
    slot done[RING];
    slot *states; /* [threads] */
};

typedef struct {
    lac__pool *pool;
    uint32_t thread;
} start_argument;

static void futex_wait(_Atomic uint32_t *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake_all(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* ---- how many threads ---- */

static uint32_t quota_cores(void)
{
    char line[128];
    long long quota = -1, period = 0;
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (f) {
        if (fgets(line, sizeof line, f) && sscanf(line, "%lld %lld", &quota, &period) != 2)
            quota = -1;
        fclose(f);
    } else {
        FILE *q = fopen("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "re");
        FILE *p = fopen("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "re");
        if (!q || !p || fscanf(q, "%lld", &quota) != 1 || fscanf(p, "%lld", &period) != 1)
            quota = -1;
        if (q)
            fclose(q);
        if (p)
            fclose(p);
    }
    if (quota <= 0 || period <= 0)
        return UINT32_MAX;
    long long cores = (quota + period / 2) / period;
    return cores < 1 ? 1 : (uint32_t)cores;
}

uint32_t lac__pool_cores(void)
{
    cpu_set_t set;
    uint32_t n = 1;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        n = (uint32_t)CPU_COUNT(&set);
    uint32_t quota = quota_cores();
    n = n < quota ? n : quota;
    return n < 1 ? 1 : n > THREADS_MAX ? THREADS_MAX : n;
}

static void pin_to(const lac__pool *pool, uint32_t thread)
{
    int want = (int)(thread % (uint32_t)CPU_COUNT(&pool->allowed));
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &pool->allowed) || want-- > 0)
            continue;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        (void)sched_setaffinity(0, sizeof one, &one); /* a wish: a refusal costs speed only */
        return;
    }
}

/* ---- phases ---- */

static inline uint64_t tagged(uint32_t phase, uint32_t count)
{
    return (uint64_t)phase << 32 | count;
}

/* Adds 1 to the claim word of `phase` within first…end−1; −1 when nothing is left. */
static int64_t claim_from(slot *s, uint32_t phase, uint32_t first, uint32_t end)
{
    if (first >= end)
        return -1;
    uint64_t v = atomic_load_explicit(&s->word, memory_order_relaxed);
    for (;;) {
        int32_t age = (int32_t)((uint32_t)(v >> 32) - phase);
        uint32_t next = age == 0 ? (uint32_t)v : first;
        if (age > 0 || next >= end)
            return -1;
        if (atomic_compare_exchange_weak_explicit(&s->word, &v, tagged(phase, next + 1),
                                                  memory_order_acq_rel, memory_order_relaxed))
            return next;
    }
}

lac__walk lac__walk_begin(lac__pool *pool, uint32_t thread)
{
    return (lac__walk){.pool = pool,
                       .thread = thread,
                       .phase = pool->phase_base,
                       .step = atomic_load_explicit(&pool->step, memory_order_relaxed)};
}

int64_t lac__walk_claim(const lac__walk *walk, uint32_t jobs, bool shared)
{
    lac__pool *pool = walk->pool;
    slot *claims = pool->claims + (size_t)(walk->phase % RING) * pool->threads;
    if (shared)
        return claim_from(claims, walk->phase, 0, jobs);
    uint64_t n = pool->threads;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t owner = (uint32_t)((walk->thread + i) % n);
        int64_t job =
            claim_from(claims + owner, walk->phase, (uint32_t)(owner * (uint64_t)jobs / n),
                       (uint32_t)((owner + 1) * (uint64_t)jobs / n));
        if (job >= 0)
            return job;
    }
    return -1;
}

static bool phase_over(lac__pool *pool, uint32_t phase, uint32_t jobs)
{
    uint64_t v = atomic_load(&pool->done[phase % RING].word);
    int32_t age = (int32_t)((uint32_t)(v >> 32) - phase);
    return age > 0 || (age == 0 && (uint32_t)v >= jobs);
}

static void phase_add(lac__pool *pool, uint32_t phase, uint32_t jobs, uint32_t count)
{
    slot *s = &pool->done[phase % RING];
    uint64_t v = atomic_load_explicit(&s->word, memory_order_relaxed);
    uint32_t total;
    do {
        total = (uint32_t)(v >> 32) == phase ? (uint32_t)v + count : count;
    } while (!atomic_compare_exchange_weak(&s->word, &v, tagged(phase, total)));
    LAC_ASSERT(total <= jobs);
    if (total == jobs && atomic_load(&pool->phase_sleepers) > 0) {
        atomic_fetch_add(&pool->phase_word, 1);
        futex_wake_all(&pool->phase_word);
    }
}

static void phase_wait(lac__pool *pool, uint32_t phase, uint32_t jobs)
{
    for (uint32_t i = 0; i < SPINS; i++) {
        if (phase_over(pool, phase, jobs))
            return;
        relax();
    }
    for (uint32_t i = 0; i < YIELDS; i++) {
        if (phase_over(pool, phase, jobs))
            return;
        sched_yield();
    }
    atomic_fetch_add(&pool->phase_sleepers, 1);
    for (;;) {
        uint32_t word = atomic_load(&pool->phase_word);
        if (phase_over(pool, phase, jobs))
            break;
        futex_wait(&pool->phase_word, word);
    }
    atomic_fetch_sub(&pool->phase_sleepers, 1);
}

bool lac__walk_next(lac__walk *walk, uint32_t jobs, uint32_t done)
{
    lac__pool *pool = walk->pool;
    if (done > 0)
        phase_add(pool, walk->phase, jobs, done);
    slot *state = &pool->states[walk->thread];
    uint64_t waiting = walk->step << 2 | STATE_WAIT;
    if (walk->thread > 0) /* from here until the exchange below the run may end without us */
        atomic_store(&state->word, waiting);
    phase_wait(pool, walk->phase, jobs);
    walk->phase++;
    return walk->thread == 0 ||
           atomic_compare_exchange_strong(&state->word, &waiting, walk->step << 2 | STATE_WORK);
}

/* ---- steps ---- */

/* Waits for a step newer than `seen`; 0 = stop. */
static uint64_t idle_wait(lac__pool *pool, uint64_t seen)
{
    uint64_t until = lac_now_ns() + IDLE_SPIN_NS;
    for (uint32_t i = 1;; i++) {
        uint32_t word = atomic_load(&pool->step_word);
        if (atomic_load(&pool->stop))
            return 0;
        uint64_t step = atomic_load(&pool->step);
        if (step != seen)
            return step;
        if (i % 64 != 0 || lac_now_ns() < until) {
            relax();
            continue;
        }
        atomic_fetch_add(&pool->step_sleepers, 1);
        if (atomic_load(&pool->step) == seen && !atomic_load(&pool->stop))
            futex_wait(&pool->step_word, word);
        atomic_fetch_sub(&pool->step_sleepers, 1);
    }
}

static void *worker_main(void *argument)
{
    start_argument start = *(start_argument *)argument;
    free(argument);
    lac__pool *pool = start.pool;
    slot *state = &pool->states[start.thread];
    if (pool->pin)
        pin_to(pool, start.thread);
    uint64_t seen = 0;
    for (;;) {
        uint64_t step = idle_wait(pool, seen);
        if (step == 0)
            return NULL;
        seen = step;
        uint64_t v = atomic_load(&state->word);
        if (v >> 2 >= step ||
            !atomic_compare_exchange_strong(&state->word, &v, step << 2 | STATE_WORK))
            continue; /* the step was over before this thread woke */
        pool->fn(pool->context, start.thread);
        uint64_t work = step << 2 | STATE_WORK;
        (void)atomic_compare_exchange_strong(&state->word, &work, step << 2 | STATE_OUT);
    }
}

/* No thread but the caller is inside the step any more, nor will be. */
static void step_close(lac__pool *pool, uint64_t step)
{
    for (uint32_t t = 1; t < pool->threads; t++) {
        slot *state = &pool->states[t];
        uint64_t out = step << 2 | STATE_OUT;
        for (uint32_t spins = 0;; spins++) {
            uint64_t v = atomic_load(&state->word);
            if (v == out)
                break;
            if (v != (step << 2 | STATE_WORK)) {
                if (atomic_compare_exchange_strong(&state->word, &v, out))
                    break;
                continue;
            }
            if (spins < SPINS)
                relax();
            else
                sched_yield();
        }
    }
}

void lac__pool_run(lac__pool *pool, lac__pool_fn fn, void *context)
{
    if (pool->pin && !pool->pinned_caller) {
        pin_to(pool, 0);
        pool->pinned_caller = true;
    }
    pool->fn = fn;
    pool->context = context;
    uint64_t step = atomic_load_explicit(&pool->step, memory_order_relaxed) + 1;
    if (pool->threads > 1) {
        atomic_store(&pool->step, step);
        atomic_store(&pool->step_word, (uint32_t)step);
        if (atomic_load(&pool->step_sleepers) > 0)
            futex_wake_all(&pool->step_word);
    } else {
        atomic_store_explicit(&pool->step, step, memory_order_relaxed);
    }
    fn(context, 0);
    step_close(pool, step);
    /* Phases of the next step are numbered after every one this step can have used. */
    uint32_t newest = pool->phase_base;
    for (uint32_t i = 0; i < RING; i++) {
        uint32_t phase = (uint32_t)(atomic_load(&pool->done[i].word) >> 32);
        if ((int32_t)(phase - newest) >= 0)
            newest = phase + 1;
    }
    pool->phase_base = newest;
}

/* ---- life ---- */

uint32_t lac__pool_threads(const lac__pool *pool)
{
    return pool->threads;
}

static void stop_threads(lac__pool *pool, uint32_t started)
{
    atomic_store(&pool->stop, true);
    atomic_fetch_add(&pool->step_word, 1);
    futex_wake_all(&pool->step_word);
    for (uint32_t t = 1; t < started; t++)
        pthread_join(pool->handles[t], NULL);
}

static slot *slots_alloc(size_t count)
{
    slot *s = aligned_alloc(LAC__CACHE_LINE, count * sizeof *s);
    if (s)
        memset(s, 0, count * sizeof *s);
    return s;
}

static void pool_free(lac__pool *pool)
{
    free(pool->claims);
    free(pool->states);
    free(pool->handles);
    free(pool);
}

lac_status lac__pool_create(uint32_t threads, bool pin, lac__pool **out, lac_error *err)
{
    if (threads == 0)
        threads = lac__pool_cores();
    if (threads > THREADS_MAX)
        return lac_fail(err, LAC_EINVAL, "threads is %u, allowed 1..%d", threads, THREADS_MAX);
    lac__pool *pool = aligned_alloc(LAC__CACHE_LINE, sizeof *pool);
    if (!pool)
        return lac_fail(err, LAC_ENOMEM, "thread pool: out of memory");
    memset(pool, 0, sizeof *pool);
    pool->threads = threads;
    pool->phase_base = 1; /* words start at phase 0: older than any */
    pool->claims = slots_alloc((size_t)RING * threads);
    pool->states = slots_alloc(threads);
    pool->handles = calloc(threads, sizeof *pool->handles);
    pool->pin = pin && sched_getaffinity(0, sizeof pool->allowed, &pool->allowed) == 0;
    if (!pool->claims || !pool->states || !pool->handles) {
        pool_free(pool);
        return lac_fail(err, LAC_ENOMEM, "thread pool: out of memory");
    }
    for (uint32_t t = 1; t < threads; t++) {
        start_argument *argument = lac_alloc(1, sizeof *argument);
        *argument = (start_argument){.pool = pool, .thread = t};
        int rc = pthread_create(&pool->handles[t], NULL, worker_main, argument);
        if (rc != 0) {
            free(argument);
            stop_threads(pool, t);
            pool_free(pool);
            return lac_fail(err, LAC_EIO, "cannot start thread %u of %u: %s", t, threads,
                            strerror(rc));
        }
    }
    *out = pool;
    return LAC_OK;
}

void lac__pool_destroy(lac__pool **pool)
{
    if (!*pool)
        return;
    stop_threads(*pool, (*pool)->threads);
    pool_free(*pool);
    *pool = NULL;
}
