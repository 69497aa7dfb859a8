/* Windows and states: what the search and the certification both stand on. One thread. Must not
 * know which masks are worth a look. */
#include "walk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"

enum { WINDOW_MIN = 8 }; /* tokens; less says nothing */

/* ---- windows ---- */

static lac_status encode(const lac__run *run, const lac_prompt_item *prompt, uint32_t **ids,
                         size_t *count, lac_error *err)
{
    const lac_tokenizer *t = lac_engine_tokenizer(run->engine);
    lac_status status = lac_tokenizer_encode(
        t, prompt->text, prompt->length,
        (lac_encode_options){.special = prompt->chat, .bos = lac_tokenizer_add_bos(t)}, ids, count,
        err);
    return status == LAC_OK ? LAC_OK : lac_fail_in(err, "prompt %s", prompt->id);
}

static void window_add(lac__windows *list, const uint32_t *tokens, uint32_t count,
                       uint32_t document, uint32_t prompt)
{
    if (list->count % 256 == 0)
        list->windows = lac_realloc(list->windows, list->count + 256, sizeof *list->windows);
    lac__window *w = &list->windows[list->count++];
    *w = (lac__window){.count = count, .document = document, .prompt = prompt, .at = list->rows};
    w->tokens = lac_alloc(count, sizeof *w->tokens);
    memcpy(w->tokens, tokens, count * sizeof *tokens);
    list->rows += count;
}

void lac__windows_free(lac__windows *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        free(list->windows[i].tokens);
    free(list->windows);
    *list = (lac__windows){0};
}

lac_status lac__requests_make(const lac__run *run, const lac_prompt_set *set, uint32_t length,
                              uint32_t prompts_max, lac__windows *out, lac_error *err)
{
    lac__windows list = {0};
    lac_status status = LAC_OK;
    for (uint32_t p = 0; p < set->count && status == LAC_OK; p++) {
        if (prompts_max > 0 && list.count == prompts_max)
            break;
        uint32_t *ids = NULL;
        size_t count;
        status = encode(run, &set->prompts[p], &ids, &count, err);
        if (status == LAC_OK && count >= WINDOW_MIN)
            window_add(&list, ids, count < length ? (uint32_t)count : length,
                       set->prompts[p].document, p);
        free(ids);
    }
    if (status != LAC_OK)
        lac__windows_free(&list);
    else
        *out = list;
    return status;
}

/* All windows of the documents taken, in order. */
static lac_status cut(const lac__run *run, const lac_prompt_set *set, uint32_t length,
                      bool (*take)(uint32_t document), lac__windows *out, lac_error *err)
{
    lac_status status = LAC_OK;
    for (uint32_t p = 0; p < set->count && status == LAC_OK; p++) {
        if (!take(set->prompts[p].document))
            continue;
        uint32_t *ids = NULL;
        size_t count;
        status = encode(run, &set->prompts[p], &ids, &count, err);
        for (size_t at = 0; status == LAC_OK && at < count; at += length) {
            size_t n = count - at < length ? count - at : length;
            if (n >= WINDOW_MIN && (2 * n >= length || at == 0))
                window_add(out, ids + at, (uint32_t)n, set->prompts[p].document, p);
        }
        free(ids);
    }
    return status;
}

lac_status lac__windows_make(const lac__run *run, const lac_prompt_set *set, uint32_t length,
                             size_t tokens_max, bool (*take)(uint32_t document), lac__windows *out,
                             lac_error *err)
{
    lac__windows all = {0}, list = {0};
    lac_status status = cut(run, set, length, take, &all, err);
    if (status != LAC_OK) {
        lac__windows_free(&all);
        return status;
    }
    /* The first window of every document, then the second of each that has one, and so on. */
    uint32_t *seen = lac_alloc(set->documents_count + 1, sizeof *seen);
    bool more = true;
    for (uint32_t turn = 0; more; turn++) {
        more = false;
        memset(seen, 0, set->documents_count * sizeof *seen);
        for (uint32_t i = 0; i < all.count; i++) {
            const lac__window *w = &all.windows[i];
            if (seen[w->document]++ != turn)
                continue;
            more = true;
            if (tokens_max == 0 || list.rows + w->count <= tokens_max)
                window_add(&list, w->tokens, w->count, w->document, w->prompt);
        }
    }
    free(seen);
    lac__windows_free(&all);
    if (list.count == 0)
        return lac_fail(err, LAC_EINVAL, "calibration has no window of %d tokens or more",
                        WINDOW_MIN);
    *out = list;
    return LAC_OK;
}

/* ---- states ---- */

void lac__masked_free(lac__masked *masked, uint32_t units)
{
    for (uint32_t u = 0; masked->patches && u < units; u++)
        lac_fit_patch_free(&masked->patches[u]);
    free(masked->patches);
    *masked = (lac__masked){0};
}

uint32_t lac__lowest(const lac_mask *mask, uint32_t units)
{
    uint32_t u = 0;
    while (u < units && !lac_mask_has(mask, u))
        u++;
    return u;
}

lac_status lac__tick(lac__run *run, double work, lac_error *err)
{
    run->work_done += work;
    uint64_t now = lac_now_ns();
    if (!run->options->progress || now - run->last_ns < UINT64_C(100000000))
        return LAC_OK;
    run->last_ns = now;
    double share = run->work_all > 0 ? run->work_done / run->work_all : 0;
    return run->options->progress(run->options->progress_arg, run->stage, share < 1 ? share : 1)
               ? LAC_OK
               : lac_fail(err, LAC_ECANCELLED, "stopped; the same command goes on from here");
}

lac_status lac__walk(lac__run *run, const lac__window *window, const lac__masked *masked,
                     uint32_t from, uint32_t to, float *states, lac_error *err)
{
    lac_status status = LAC_OK;
    bool embed = from == 0;
    uint32_t at = from;
    if (embed && (to == 0 || (masked && lac_mask_has(&masked->mask, 0)))) {
        status = lac_engine_units_run(run->engine, 0, 0, window->tokens, window->count, NULL,
                                      states, err);
        embed = false;
    }
    while (at < to && status == LAC_OK) {
        if (masked && lac_mask_has(&masked->mask, at)) {
            if (masked->patches && masked->patches[at].rank > 0)
                lac_fit_patch_apply(&masked->patches[at], run->eps, states, window->count);
            at++;
            continue;
        }
        uint32_t end = at + 1;
        while (end < to && !(masked && lac_mask_has(&masked->mask, end)))
            end++;
        status = lac_engine_units_run(run->engine, at, end, window->tokens, window->count,
                                      embed ? NULL : states, states, err);
        if (status == LAC_OK)
            status = lac__tick(run, (double)(end - at) * window->count, err);
        embed = false;
        at = end;
    }
    return status;
}

/* ---- divergence ---- */

typedef struct {
    lac__run *run;
    float *log_p;
    uint32_t *best;
} reference;

static void reference_take(void *arg, size_t index, const float *logits)
{
    reference *r = arg;
    r->best[index] = lac_log_softmax(logits, r->run->vocab, r->log_p + index * r->run->vocab);
}

lac_status lac__log_probs(lac__run *run, const float *states, uint32_t rows, float *log_p,
                          uint32_t *best, lac_error *err)
{
    reference r = {run, log_p, best};
    lac_status status = lac_engine_head_run(run->engine, states, rows, reference_take, &r, err);
    return status == LAC_OK ? lac__tick(run, run->head_units * rows, err) : status;
}

static void divergence_take(void *arg, size_t index, const float *logits)
{
    lac__divergence *d = arg;
    uint32_t best;
    double kl = lac_kl_divergence(d->log_p + index * d->vocab, logits, d->vocab, &best);
    d->kl_sum += kl;
    d->agree += best == d->best[index];
    if (d->kl)
        d->kl[index] = kl;
}

lac_status lac__diverge(lac__run *run, const float *states, uint32_t rows, lac__divergence *out,
                        lac_error *err)
{
    out->vocab = run->vocab;
    lac_status status = lac_engine_head_run(run->engine, states, rows, divergence_take, out, err);
    return status == LAC_OK ? lac__tick(run, run->head_units * rows, err) : status;
}
