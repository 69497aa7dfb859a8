/* The copy probe that every speed figure on a device is set beside. */
#include <time.h>

#include "backend.h"

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static lac_status copies_run(lac_backend *be, void *function, lac__copy_args *args, uint32_t rounds,
                             double *best, lac_error *err)
{
    void *params[] = {args};
    *best = 0;
    for (uint32_t i = 0; i <= rounds; i++) {
        double begin = seconds();
        int result = be->cu->launch(function, be->processors * 8, 1, 1, LAC__ROW_THREADS, 1, 1, 0,
                                    be->stream, params, NULL);
        lac_status status = lac__cu_check(be->cu, result, "copy probe", err);
        if (status == LAC_OK)
            status = lac__cuda_wait(be, err);
        if (status != LAC_OK)
            return status;
        double took = seconds() - begin; /* the first one warms up */
        if (i > 0 && (*best == 0 || took < *best))
            *best = took;
    }
    return LAC_OK;
}

lac_status lac_cuda_copy_bandwidth(lac_backend *be, size_t bytes, uint32_t rounds, double *gb_s,
                                   lac_error *err)
{
    enum { PAGE = 1 << 16, PAGES_MAX = 1 << 16 };
    static uint32_t pairs[2 * PAGES_MAX];
    size_t pages = bytes / PAGE;
    if (pages < 1 || pages > PAGES_MAX)
        return lac_fail(err, LAC_EINVAL, "copy probe: %zu bytes, allowed %d..%zu", bytes, PAGE,
                        (size_t)PAGE * PAGES_MAX);
    void *function = NULL;
    for (uint32_t m = 0; m < be->modules_count && !function; m++)
        if (be->cu->function_get(&function, be->modules[m], "lac_copy_pages") != 0)
            function = NULL;
    if (!function)
        return lac_fail(err, LAC_EINTERNAL, "cuda: there is no kernel lac_copy_pages");
    for (uint32_t i = 0; i < pages; i++) {
        pairs[2 * i] = i;
        pairs[2 * i + 1] = (uint32_t)pages + i;
    }
    lac__cu_address region = 0, list = 0;
    double best = 0;
    lac_status status =
        lac__cu_check(be->cu, be->cu->mem_alloc(&region, 2 * pages * PAGE), "copy probe", err);
    if (status == LAC_OK)
        status = lac__cu_check(be->cu, be->cu->mem_alloc(&list, pages * 8), "copy probe", err);
    if (status == LAC_OK)
        status = lac__cu_check(be->cu, be->cu->to_device(list, pairs, pages * 8, be->stream),
                               "copy probe", err);
    if (status == LAC_OK)
        status = lac__cu_check(be->cu, be->cu->fill(region, 1, 2 * pages * PAGE, be->stream),
                               "copy probe", err);
    lac__copy_args args = {(uint8_t *)(uintptr_t)region, PAGE, (const uint32_t *)(uintptr_t)list,
                           (uint32_t)pages};
    if (status == LAC_OK)
        status = copies_run(be, function, &args, rounds, &best, err);
    if (list)
        (void)be->cu->mem_free(list);
    if (region)
        (void)be->cu->mem_free(region);
    if (status == LAC_OK)
        *gb_s = 2.0 * (double)pages * PAGE / best / 1e9;
    return status;
}
