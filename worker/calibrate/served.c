/* A certificate holds for what is served: a worker's engine, classes and patches and all, must give
 * the divergence that was measured part by part. One thread. */
#include "served.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"

typedef struct {
    lac__divergence divergence;
    float *log_p;
    uint32_t *best;
} taker;

static void full_take(void *arg, size_t index, const float *logits)
{
    taker *t = arg;
    uint32_t vocab = t->divergence.vocab;
    t->best[index] = lac_log_softmax(logits, vocab, t->log_p + index * vocab);
}

static void class_take(void *arg, size_t index, const float *logits)
{
    lac__divergence *d = &((taker *)arg)->divergence;
    uint32_t best;
    d->kl_sum += lac_kl_divergence(d->log_p + index * d->vocab, logits, d->vocab, &best);
}

/* Patches as a plan holds them; freed with patches_free(). */
static void patches_make(const lac_calibrate_point *point, lac_patch *out)
{
    for (uint32_t i = 0; i < point->patches_count; i++) {
        const lac_fit_patch *p = &point->patches[i];
        size_t count = (size_t)p->rank * p->hidden;
        uint16_t *down = lac_alloc(count, sizeof *down), *up = lac_alloc(count, sizeof *up);
        bool full = p->rank == p->hidden;
        for (size_t k = 0; k < count; k++) {
            down[k] = lac_f16_of(p->down[k]);
            up[k] = lac_f16_of(p->up[k]);
        }
        out[i] = (lac_patch){
            .unit = point->patch_units[i], .rank = p->rank, .down = full ? NULL : down, .up = up};
        if (full)
            free(down);
    }
}

static void patches_free(lac_patch *patches, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        free((void *)(uintptr_t)patches[i].down);
        free((void *)(uintptr_t)patches[i].up);
    }
}

static lac_status requests_score(lac__run *run, lac_engine *engine, const lac__window *requests,
                                 uint32_t count, double *kl_sum, lac_error *err)
{
    size_t rows = run->options->window;
    taker t = {.divergence = {.vocab = run->vocab}};
    t.log_p = lac_alloc(rows * run->vocab, sizeof *t.log_p);
    t.best = lac_alloc(rows, sizeof *t.best);
    t.divergence.log_p = t.log_p;
    lac_status status = LAC_OK;
    for (uint32_t i = 0; i < count && status == LAC_OK; i++) {
        const lac__window *w = &requests[i];
        status = lac_engine_score_as(engine, 0, w->tokens, w->count, full_take, &t, err);
        if (status == LAC_OK)
            status = lac_engine_score_as(engine, 1, w->tokens, w->count, class_take, &t, err);
    }
    *kl_sum = t.divergence.kl_sum;
    free(t.best);
    free(t.log_p);
    return status;
}

lac_status lac__served_check(lac__run *run, const lac_calibrate_point *point,
                             const lac__window *requests, uint32_t count, double kl_sum,
                             lac_error *err)
{
    const lac_calibrate_options *o = run->options;
    lac_patch patches[LAC_CALIBRATE_UNITS_MAX];
    patches_make(point, patches);
    lac_engine_class class = {.name = "certified",
                              .mask = point->mask,
                              .scope = LAC_SCOPE_REQUEST,
                              .patches = patches,
                              .patches_count = point->patches_count};
    lac_engine_options options = {.model_path = o->model_path,
                                  .threads = o->threads,
                                  .isa = o->isa,
                                  .slots = 1,
                                  .context_max = o->window < 16 ? 16 : o->window,
                                  .classes = &class,
                                  .classes_count = 1};
    lac_engine *engine = NULL;
    double served = 0;
    lac_status status = lac_engine_create(&options, &engine, err);
    if (status == LAC_OK)
        status = requests_score(run, engine, requests, count, &served, err);
    lac_engine_destroy(&engine);
    patches_free(patches, point->patches_count);
    if (status == LAC_OK && fabs(served - kl_sum) > LAC__SERVED_SHARE * kl_sum + 1e-4)
        status = lac_fail(err, LAC_EINTERNAL,
                          "the engine's class has a KL of %g over %u requests, measured was %g",
                          served, count, kl_sum);
    return status;
}
