/* The memory read probe that every speed figure is set beside: plain loads, several sums, a slice
 * of the buffer a thread. */
#include "cpu.h"
#include "pool.h"

#include "backend.h"
#include "base/clock.h"

typedef struct {
    lac__pool *pool;
    const uint64_t *data;
    size_t words;
    _Atomic uint64_t sink; /* so that no load can be left out */
} probe;

enum { PIECES = 64 }; /* jobs a thread */

typedef uint64_t lac__pair __attribute__((vector_size(16)));

static uint64_t read_all(const uint64_t *p, size_t words)
{
    lac__pair a[8] = {{0, 0}};
    const lac__pair *v = (const lac__pair *)(const void *)p;
    for (size_t i = 0; i + 8 <= words / 2; i += 8) {
        __builtin_prefetch((const char *)(v + i) + 1024);
        __builtin_prefetch((const char *)(v + i) + 1088);
        for (size_t k = 0; k < 8; k++)
            a[k] ^= v[i + k];
    }
    a[0] ^= a[1] ^ a[2] ^ a[3] ^ a[4] ^ a[5] ^ a[6] ^ a[7];
    return a[0][0] ^ a[0][1];
}

static void read_on_thread(void *context, uint32_t thread)
{
    probe *p = context;
    lac__walk walk = lac__walk_begin(p->pool, thread);
    uint32_t jobs = lac__pool_threads(p->pool) * PIECES, done = 0;
    size_t piece = p->words / jobs / 16 * 16;
    for (int64_t job; (job = lac__walk_claim(&walk, jobs, false)) >= 0; done++)
        atomic_fetch_xor(&p->sink, read_all(p->data + (size_t)job * piece, piece));
    (void)lac__walk_next(&walk, jobs, done);
}

double lac_cpu_read_bandwidth(uint32_t threads, size_t bytes, uint32_t rounds)
{
    probe p = {.words = bytes / 8};
    lac_error err;
    double best = 0.0;
    if (lac__pool_create(threads, true, &p.pool, &err) != LAC_OK)
        return 0.0;
    uint64_t *data = lac__big_alloc(bytes);
    if (!data) {
        lac__pool_destroy(&p.pool);
        return 0.0;
    }
    memset(data, 1, bytes); /* pages exist before the first pass */
    p.data = data;
    size_t jobs = (size_t)lac__pool_threads(p.pool) * PIECES;
    double read = (double)(p.words / jobs / 16 * 16 * jobs) * 8.0;
    for (uint32_t r = 0; r < rounds; r++) {
        uint64_t start = lac_now_ns();
        lac__pool_run(p.pool, read_on_thread, &p);
        double rate = read / (double)(lac_now_ns() - start);
        best = rate > best ? rate : best;
    }
    lac__big_free(data, bytes);
    lac__pool_destroy(&p.pool);
    return best;
}
