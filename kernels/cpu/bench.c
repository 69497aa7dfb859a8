/* Each hot kernel alone on one thread, for lacuna-kernel-bench. Times are the thread's own CPU
 * time, best of several short rounds, so that a busy machine disturbs less. */
#include "kernels/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/tensor.h"
#include "cpu.h"

enum { ROUNDS = 7 };

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *must_alloc(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
    if (!p) {
        fprintf(stderr, "lacuna-kernel-bench: no memory for %zu bytes\n", bytes);
        exit(1);
    }
    memset(p, 0, bytes);
    return p;
}

/* Small sane codes and scales; their values do not change the speed. */
static lac_weight weight_make(lac_type type, uint32_t rows, uint32_t cols)
{
    lac_weight w = {.type = type,
                    .rows = rows,
                    .cols = cols,
                    .groups = rows / 8,
                    .group_bytes = lac__group_bytes(type, cols)};
    w.bytes = w.groups * w.group_bytes;
    w.data = must_alloc(w.bytes);
    for (size_t i = 0; i < w.bytes; i++)
        w.data[i] = (uint8_t)(i * 2654435761u >> 13 & 0x1b);
    return w;
}

static void bench_gemm(const lac__kernels *k, lac_type type, uint32_t rows, uint32_t cols,
                       uint32_t n)
{
    lac_weight w = weight_make(type, rows, cols);
    lac__tile x = {.n = n};
    x.x = must_alloc((size_t)n * cols / 32 * sizeof *x.x);
    x.f = must_alloc((size_t)n * cols * 4);
    for (size_t i = 0; i < (size_t)n * cols / 32; i++)
        x.x[i].d = 0.01f;
    float *out = must_alloc((size_t)n * 32 * 4);
    double best = 1e30;
    for (uint32_t r = 0; r < ROUNDS; r++) {
        double start = cpu_seconds();
        for (uint32_t g = 0; g + 4 <= w.groups; g += 4)
            k->gemm[type](&w, g, 4, &x, out, 32);
        double took = cpu_seconds() - start;
        best = took < best ? took : best;
    }
    printf("%-9s %-5s %5ux%-5u n=%-3u %8.1f us %7.2f GB/s %8.2f GMAC/s\n", k->name,
           lac_type_get(type)->name, rows, cols, n, best * 1e6, (double)w.bytes / best * 1e-9,
           (double)rows * cols * n / best * 1e-9);
    free(w.data);
    free(x.x);
    free(x.f);
    free(out);
}

static void bench_attention(const lac__kernels *k, uint32_t rows, uint32_t context)
{
    enum { DIM = 64, GROUP = 3 };
    uint32_t blocks = (context + 31) / 32;
    size_t page = (size_t)LAC_KV_BLOCK * DIM * 2 * 2;
    uint8_t *region = must_alloc(blocks * page);
    uint32_t *pages = must_alloc(blocks * 4);
    for (uint32_t b = 0; b < blocks; b++)
        pages[b] = b;
    float *q = must_alloc((size_t)rows * GROUP * DIM * 4),
          *out = must_alloc((size_t)rows * GROUP * DIM * 4);
    lac__attention_item it = {.q = q,
                              .q_stride = GROUP * DIM,
                              .out = out,
                              .out_stride = GROUP * DIM,
                              .rows = rows,
                              .group = GROUP,
                              .head_dim = DIM,
                              .pos = context - rows,
                              .split_last = (context - 1) / LAC__SPLIT + 1,
                              .scale = 0.125f,
                              .region = region,
                              .page_bytes = page,
                              .pages = pages};
    it.scratch = must_alloc(lac__attention_scratch(rows, GROUP, DIM) * 4);
    double best = 1e30;
    for (uint32_t r = 0; r < ROUNDS * 4; r++) {
        double start = cpu_seconds();
        k->attention(&it);
        double took = cpu_seconds() - start;
        best = took < best ? took : best;
    }
    printf("%-9s attention %2u rows x %u heads, context %-5u %8.1f us %7.2f GB/s %8.2f GMAC/s\n",
           k->name, rows, GROUP, context, best * 1e6, (double)(blocks * page) / best * 1e-9,
           2.0 * rows * GROUP * DIM * context / best * 1e-9);
    free(region);
    free(pages);
    free(q);
    free(out);
    free(it.scratch);
}

static void bench_rows(const lac__kernels *k)
{
    enum { N = 576, TIMES = 1000 };
    static float x[N], w[N], y[N];
    static lac__xblock blocks[N / 32];
    for (uint32_t i = 0; i < N; i++)
        x[i] = (float)(i % 13) - 6.0f, w[i] = 1.0f;
    double norm = 1e30, quantise = 1e30, act = 1e30;
    for (uint32_t r = 0; r < ROUNDS; r++) {
        double t0 = cpu_seconds();
        for (uint32_t i = 0; i < TIMES; i++)
            (void)k->norm(x, w, N, 1e-5f, y);
        double t1 = cpu_seconds();
        for (uint32_t i = 0; i < TIMES; i++)
            k->quantise(x, N, blocks, 1);
        double t2 = cpu_seconds();
        for (uint32_t i = 0; i < TIMES; i++)
            k->act(LAC_ACT_SILU, x, w, N, y);
        double t3 = cpu_seconds();
        norm = t1 - t0 < norm ? t1 - t0 : norm;
        quantise = t2 - t1 < quantise ? t2 - t1 : quantise;
        act = t3 - t2 < act ? t3 - t2 : act;
    }
    printf("%-9s %u values: norm %.2f us, quantise %.2f us, silu %.2f us\n", k->name, (unsigned)N,
           norm * 1e6 / TIMES, quantise * 1e6 / TIMES, act * 1e6 / TIMES);
}

static const lac__kernels *table_of(lac_isa isa)
{
#if defined(__x86_64__)
    if (isa == LAC_ISA_AVX512)
        return &lac__kernels_avx512;
    if (isa == LAC_ISA_AVXVNNI)
        return lac__cpu_vex_vnni() ? &lac__kernels_avxvnni : &lac__kernels_vnni256;
    if (isa == LAC_ISA_AVX2)
        return &lac__kernels_avx2;
#endif
    return &lac__kernels_scalar;
}

void lac_cpu_bench(lac_isa isa)
{
    static const lac_type types[] = {LAC_TYPE_Q4_1, LAC_TYPE_Q4_0, LAC_TYPE_Q8_0,
                                     LAC_TYPE_Q5_0, LAC_TYPE_Q5_1, LAC_TYPE_Q4_K,
                                     LAC_TYPE_Q5_K, LAC_TYPE_Q6_K, LAC_TYPE_F16};
    const lac__kernels *k = table_of(isa);
    printf("read bandwidth: 1 thread %.2f GB/s, all threads %.2f GB/s\n",
           lac_cpu_read_bandwidth(1, 256u << 20, 3), lac_cpu_read_bandwidth(0, 256u << 20, 3));
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        uint32_t cols =
            types[i] == LAC_TYPE_Q4_K || types[i] == LAC_TYPE_Q5_K || types[i] == LAC_TYPE_Q6_K
                ? 512
                : 576;
        bench_gemm(k, types[i], 49152, cols, 1); /* larger than the caches: memory's speed */
        bench_gemm(k, types[i], 512, cols, 1);   /* within the second-level cache */
        bench_gemm(k, types[i], 1536, cols, 2);
        bench_gemm(k, types[i], 1536, cols, 4);
        bench_gemm(k, types[i], 49152, cols, 8);
        bench_gemm(k, types[i], 1536, cols, 8);
        bench_gemm(k, types[i], 1536, cols, 16);
    }
    bench_gemm(k, LAC_TYPE_Q4_1, 576, 1536, 16);
    bench_attention(k, 1, 512);
    bench_attention(k, 1, 4096);
    bench_attention(k, 16, 512);
    bench_rows(k);
}
