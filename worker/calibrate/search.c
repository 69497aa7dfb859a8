/* The search for masks. A unit's effect is measured from the states before it: what lies below a
 * change is never run again. One thread. Must not know certificates or files. */
#include "search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

enum {
    SELECT_EACH = 4, /* every fourth document compares masks, the others fit patches */
    INFLUENCE_WINDOWS = 6,
    ALONE_WINDOWS = 8,
    SCORE_STRIDE = 2, /* of the positions of a window, every second is compared */
};

/* A mask with this much of the budget is measured, but nothing is added to it. */
#define HOPELESS 1.3

static bool takes_select(uint32_t document)
{
    return document % SELECT_EACH == SELECT_EACH - 1;
}

static bool takes_fit(uint32_t document)
{
    return !takes_select(document);
}

lac_status lac__search_open(lac__run *run, lac__search *out, lac_error *err)
{
    const lac_calibrate_options *o = run->options;
    lac__search s = {.run = run};
    if (o->calibration->documents_count < SELECT_EACH)
        return lac_fail(err, LAC_EINVAL, "calibration has %u documents, at least %d are needed",
                        o->calibration->documents_count, SELECT_EACH);
    lac_status status =
        lac__windows_make(run, o->calibration, o->window, o->fit_tokens, takes_fit, &s.fit, err);
    if (status == LAC_OK)
        status = lac__windows_make(run, o->calibration, o->window, o->select_tokens, takes_select,
                                   &s.select, err);
    if (status != LAC_OK)
        lac__search_close(&s);
    else
        *out = s;
    return status;
}

static void list_free(float ***list, uint32_t count)
{
    for (uint32_t c = 0; *list && c < count; c++)
        free((*list)[c]);
    free(*list);
    *list = NULL;
}

void lac__search_close(lac__search *s)
{
    list_free(&s->fit_before, s->candidates_count);
    list_free(&s->fit_after, s->candidates_count);
    list_free(&s->select_before, s->candidates_count);
    free(s->select_final);
    lac__windows_free(&s->fit);
    lac__windows_free(&s->select);
    *s = (lac__search){0};
}

double lac__cost_saved(const lac__run *run, const lac__masked *masked)
{
    double saved = 0, direction = 4.0 * run->hidden / run->options->batch;
    for (uint32_t u = 0; u < run->units; u++)
        if (lac_mask_has(&masked->mask, u)) {
            saved += run->cost[u];
            saved -= masked->patches ? direction * masked->patches[u].rank : 0;
        }
    return saved / run->cost_all;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* ---- influence ---- */

/* |what a unit adds| / |stream before it|, mean over rows; the first row is an attention sink with
 * states of its own size and is left out. */
static double change_of(const float *before, const float *after, uint32_t rows, uint32_t hidden)
{
    double all = 0;
    for (uint32_t i = 1; i < rows; i++) {
        double added = 0, size = 0;
        for (uint32_t k = 0; k < hidden; k++) {
            double b = (double)before[(size_t)i * hidden + k];
            double d = (double)after[(size_t)i * hidden + k] - b;
            added += d * d;
            size += b * b;
        }
        all += size > 0 ? sqrt(added / size) : 0;
    }
    return all;
}

static lac_status influence_measure(lac__search *s, double *influence, lac_error *err)
{
    lac__run *run = s->run;
    uint32_t windows = least(INFLUENCE_WINDOWS, s->select.count);
    if (lac_memo_get(run->memo, "influence", influence, run->units))
        return LAC_OK;
    run->stage = "influence";
    size_t size = (size_t)run->options->window * run->hidden;
    float *before = lac_alloc(size, sizeof *before), *after = lac_alloc(size, sizeof *after);
    lac_status status = LAC_OK;
    double rows = 0;
    memset(influence, 0, run->units * sizeof *influence);
    for (uint32_t i = 0; i < windows && status == LAC_OK; i++) {
        const lac__window *w = &s->select.windows[i];
        status = lac__walk(run, w, NULL, 0, 0, after, err);
        rows += w->count - 1;
        for (uint32_t u = 0; u < run->units && status == LAC_OK; u++) {
            memcpy(before, after, (size_t)w->count * run->hidden * sizeof *before);
            status = lac__walk(run, w, NULL, u, u + 1, after, err);
            influence[u] += change_of(before, after, w->count, run->hidden);
        }
    }
    for (uint32_t u = 0; u < run->units; u++)
        influence[u] /= rows > 0 ? rows : 1;
    free(before);
    free(after);
    return status == LAC_OK ? lac_memo_put(run->memo, "influence", influence, run->units, err)
                            : status;
}

typedef struct {
    double key;
    uint32_t unit;
} ranked;

static int by_key(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    return x->key != y->key ? (x->key > y->key) - (x->key < y->key)
                            : (x->unit > y->unit) - (x->unit < y->unit);
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Keeps the `most` units with the smallest keys, ascending by number. */
static void candidates_keep(lac__search *s, ranked *list, uint32_t count, uint32_t most)
{
    qsort(list, count, sizeof *list, by_key);
    s->candidates_count = least(count, most);
    for (uint32_t i = 0; i < s->candidates_count; i++)
        s->candidates[i] = list[i].unit;
    qsort(s->candidates, s->candidates_count, sizeof *s->candidates, by_number);
}

/* ---- one window's measures ---- */

/* Buffers for the windows of a measure. */
typedef struct {
    float *stream, *branch, *final; /* [window][hidden] */
    float *packed;                  /* rows that are compared */
    float *log_p;                   /* [window][vocab] */
    uint32_t *best;
} scratch;

static void scratch_make(const lac__run *run, scratch *out)
{
    size_t rows = run->options->window, size = rows * run->hidden;
    out->stream = lac_alloc(size, sizeof(float));
    out->branch = lac_alloc(size, sizeof(float));
    out->final = lac_alloc(size, sizeof(float));
    out->packed = lac_alloc(size, sizeof(float));
    out->log_p = lac_alloc(rows * run->vocab, sizeof(float));
    out->best = lac_alloc(rows, sizeof(uint32_t));
}

static void scratch_free(scratch *s)
{
    free(s->stream);
    free(s->branch);
    free(s->final);
    free(s->packed);
    free(s->log_p);
    free(s->best);
}

/* Every SCORE_STRIDE-th row of states into `packed`. */
static uint32_t pack(const lac__run *run, const float *states, uint32_t rows, float *packed)
{
    uint32_t n = 0;
    for (uint32_t i = SCORE_STRIDE - 1; i < rows; i += SCORE_STRIDE)
        memcpy(packed + (size_t)n++ * run->hidden, states + (size_t)i * run->hidden,
               run->hidden * sizeof *packed);
    return n;
}

static lac_status compare(lac__run *run, const float *states, uint32_t rows, scratch *b,
                          lac__divergence *out, lac_error *err)
{
    uint32_t n = pack(run, states, rows, b->packed);
    out->log_p = b->log_p;
    out->best = b->best;
    return lac__diverge(run, b->packed, n, out, err);
}

static lac_status reference_of(lac__run *run, const float *states, uint32_t rows, scratch *b,
                               uint32_t *scored, lac_error *err)
{
    *scored = pack(run, states, rows, b->packed);
    return lac__log_probs(run, b->packed, *scored, b->log_p, b->best, err);
}

/* ---- each unit alone ---- */

static lac_status alone_window(lac__search *s, const lac__window *w, scratch *b, double *kl,
                               double *rows, lac_error *err)
{
    lac__run *run = s->run;
    size_t bytes = (size_t)w->count * run->hidden * sizeof(float);
    float *before = lac_alloc((size_t)s->candidates_count, bytes); /* one after another */
    lac_status status = lac__walk(run, w, NULL, 0, s->candidates[0], b->stream, err);
    uint32_t at = s->candidates[0], scored = 0;
    for (uint32_t c = 0; c < s->candidates_count && status == LAC_OK; c++) {
        if (c > 0)
            status = lac__walk(run, w, NULL, at, s->candidates[c], b->stream, err);
        at = s->candidates[c];
        memcpy((char *)before + c * bytes, b->stream, bytes);
    }
    if (status == LAC_OK)
        status = lac__walk(run, w, NULL, at, run->units, b->stream, err);
    if (status == LAC_OK)
        status = reference_of(run, b->stream, w->count, b, &scored, err);
    *rows += scored;
    for (uint32_t c = 0; c < s->candidates_count && status == LAC_OK; c++) {
        lac__divergence d = {0};
        float *branch = before + c * (bytes / sizeof *before);
        status = lac__walk(run, w, NULL, s->candidates[c] + 1, run->units, branch, err);
        if (status == LAC_OK)
            status = compare(run, branch, w->count, b, &d, err);
        kl[c] += d.kl_sum;
    }
    free(before);
    return status;
}

static lac_status alone_measure(lac__search *s, double *kl, lac_error *err)
{
    lac__run *run = s->run;
    uint32_t windows = least(ALONE_WINDOWS, s->select.count);
    if (lac_memo_get(run->memo, "alone", kl, s->candidates_count))
        return LAC_OK;
    run->stage = "each unit alone";
    scratch b;
    scratch_make(run, &b);
    double rows = 0;
    lac_status status = LAC_OK;
    memset(kl, 0, s->candidates_count * sizeof *kl);
    for (uint32_t i = 0; i < windows && status == LAC_OK; i++)
        status = alone_window(s, &s->select.windows[i], &b, kl, &rows, err);
    for (uint32_t c = 0; c < s->candidates_count; c++)
        kl[c] /= rows > 0 ? rows : 1;
    scratch_free(&b);
    return status == LAC_OK ? lac_memo_put(run->memo, "alone", kl, s->candidates_count, err)
                            : status;
}

/* Units that are in the program, fewer and fewer: by influence, then by their own KL. KL grows with
 * the square of a small change, hence the square. */
static lac_status candidates_find(lac__search *s, lac_error *err)
{
    lac__run *run = s->run;
    double *values = lac_alloc(run->units, sizeof *values);
    ranked *list = lac_alloc(run->units, sizeof *list);
    lac_status status = influence_measure(s, values, err);
    uint32_t count = 0;
    for (uint32_t u = 0; u < run->units && status == LAC_OK; u++)
        if (lac_engine_unit(run->engine, u, NULL) == LAC_UNIT_ACTIVE)
            list[count++] = (ranked){values[u] * values[u] / run->cost[u], u};
    if (status == LAC_OK && count == 0)
        status = lac_fail(err, LAC_EINVAL, "the model has no unit that is active");
    if (status == LAC_OK) {
        candidates_keep(s, list, count, run->options->preselect);
        status = alone_measure(s, values, err);
    }
    if (status == LAC_OK) {
        count = s->candidates_count;
        for (uint32_t c = 0; c < count; c++) {
            list[c] = (ranked){values[c] / run->cost[s->candidates[c]], s->candidates[c]};
            s->alone[s->candidates[c]] = values[c];
        }
        candidates_keep(s, list, count, run->options->candidates);
    }
    free(list);
    free(values);
    return status;
}

/* ---- measuring a mask and its neighbours ---- */

/* values: KL and agreement of the mask, then the KL of each mask with one unit more. */
typedef struct {
    const lac__masked *masked;
    const uint32_t *more;
    const lac_fit_patch *more_patches;
    uint32_t more_count;
    double *values; /* [2 + more_count] */
} trial;

/* The mask with one unit more, from the stream before that unit. */
static lac_status branch_run(lac__search *s, const lac__window *w, const trial *t, uint32_t m,
                             const float *before, scratch *b, lac_error *err)
{
    lac__run *run = s->run;
    memcpy(b->branch, before, (size_t)w->count * run->hidden * sizeof *b->branch);
    if (t->more_patches[m].rank > 0)
        lac_fit_patch_apply(&t->more_patches[m], run->eps, b->branch, w->count);
    lac_status status = lac__walk(run, w, t->masked, t->more[m] + 1, run->units, b->branch, err);
    lac__divergence d = {0};
    if (status == LAC_OK)
        status = compare(run, b->branch, w->count, b, &d, err);
    t->values[2 + m] += d.kl_sum;
    return status;
}

static lac_status trial_window(lac__search *s, const lac__window *w, const trial *t, scratch *b,
                               double *rows, lac_error *err)
{
    lac__run *run = s->run;
    size_t offset = w->at * run->hidden, bytes = (size_t)w->count * run->hidden * sizeof(float);
    uint32_t scored = 0, lowest = lac__lowest(&t->masked->mask, run->units), at = lowest;
    lac_status status = reference_of(run, s->select_final + offset, w->count, b, &scored, err);
    *rows += scored;
    if (lowest < run->units)
        memcpy(b->stream, s->select_before[lac__candidate_index(s, lowest)] + offset, bytes);
    for (uint32_t m = 0; m < t->more_count && status == LAC_OK; m++) {
        uint32_t unit = t->more[m];
        const float *before = s->select_before[lac__candidate_index(s, unit)] + offset;
        if (unit > lowest) {
            status = lac__walk(run, w, t->masked, at, unit, b->stream, err);
            at = unit;
            before = b->stream;
        }
        if (status == LAC_OK)
            status = branch_run(s, w, t, m, before, b, err);
    }
    if (status != LAC_OK || lowest == run->units)
        return status;
    lac__divergence d = {0};
    status = lac__walk(run, w, t->masked, at, run->units, b->stream, err);
    if (status == LAC_OK)
        status = compare(run, b->stream, w->count, b, &d, err);
    t->values[0] += d.kl_sum;
    t->values[1] += d.agree;
    return status;
}

/* Name of a step in the state file: short however many units there are. */
static void step_name(const lac_mask *mask, const uint32_t *more, uint32_t more_count, char out[40])
{
    lac_digest digest;
    lac_hasher *hasher = lac_hasher_create();
    lac_hasher_add(hasher, mask, sizeof *mask);
    lac_hasher_add(hasher, more, more_count * sizeof *more);
    lac_hasher_finish(&hasher, &digest);
    snprintf(out, 40, "trial %02x%02x%02x%02x%02x%02x%02x%02x", digest.bytes[0], digest.bytes[1],
             digest.bytes[2], digest.bytes[3], digest.bytes[4], digest.bytes[5], digest.bytes[6],
             digest.bytes[7]);
}

/* Fits and measures. values[2 + more_count + 1]: the last is the share of cost saved. */
static lac_status trial_run(lac__search *s, const lac_mask *mask, const uint32_t *more,
                            uint32_t more_count, double *values, lac_error *err)
{
    lac__run *run = s->run;
    char name[40];
    uint32_t count = 3 + more_count;
    step_name(mask, more, more_count, name);
    if (lac_memo_get(run->memo, name, values, count))
        return LAC_OK;
    lac__masked masked = {0};
    lac_fit_patch patches[LAC_CALIBRATE_UNITS_MAX] = {0};
    lac_status status = lac__search_states(s, err);
    if (status == LAC_OK)
        status = lac__search_fit(s, mask, more, more_count, &masked, patches, err);
    if (status != LAC_OK)
        return status;
    run->stage = "comparing masks";
    memset(values, 0, count * sizeof *values);
    trial t = {&masked, more, patches, more_count, values};
    scratch b;
    scratch_make(run, &b);
    double rows = 0;
    for (uint32_t i = 0; i < s->select.count && status == LAC_OK; i++)
        status = trial_window(s, &s->select.windows[i], &t, &b, &rows, err);
    for (uint32_t v = 0; v < 2 + more_count; v++)
        values[v] /= rows > 0 ? rows : 1;
    if (lac_mask_count(mask) == 0)
        values[1] = 1;
    values[2 + more_count] = lac__cost_saved(run, &masked);
    scratch_free(&b);
    lac__masked_free(&masked, run->units);
    for (uint32_t m = 0; m < more_count; m++)
        lac_fit_patch_free(&patches[m]);
    return status == LAC_OK ? lac_memo_put(run->memo, name, values, count, err) : status;
}

/* ---- growth ---- */

/* The candidates outside the mask that promise most cost for their KL, ascending. */
static uint32_t shortlist_make(const lac__search *s, const lac_mask *mask, uint32_t *out)
{
    ranked list[LAC_UNITS_MAX];
    uint32_t count = 0;
    for (uint32_t c = 0; c < s->candidates_count; c++)
        if (!lac_mask_has(mask, s->candidates[c]))
            list[count++] = (ranked){s->alone[s->candidates[c]] / s->run->cost[s->candidates[c]],
                                     s->candidates[c]};
    qsort(list, count, sizeof *list, by_key);
    count = least(count, least(s->run->options->shortlist, LAC_CALIBRATE_UNITS_MAX));
    for (uint32_t i = 0; i < count; i++)
        out[i] = list[i].unit;
    qsort(out, count, sizeof *out, by_number);
    return count;
}

static void point_add(lac_calibrate_result *result, const lac_mask *mask, const double *values,
                      double cost_saved)
{
    LAC_ASSERT(result->points_count < LAC_CALIBRATE_POINTS_MAX);
    lac_calibrate_point *p = &result->points[result->points_count++];
    *p = (lac_calibrate_point){
        .mask = *mask, .search_kl = values[0], .search_top1 = values[1], .cost_saved = cost_saved};
}

static lac_status grow(lac__search *s, lac_calibrate_result *result, lac_error *err)
{
    lac__run *run = s->run;
    double budget = lac_tier_kl_max(run->options->tier);
    double expected = 0; /* KL of the mask before its patches were fitted together */
    lac_mask mask = {0};
    for (uint32_t depth = 0;; depth++) {
        uint32_t more[LAC_CALIBRATE_UNITS_MAX];
        double values[3 + LAC_CALIBRATE_UNITS_MAX];
        bool further = depth < run->options->units_max && expected <= HOPELESS * budget;
        uint32_t count = further ? shortlist_make(s, &mask, more) : 0;
        lac_status status = trial_run(s, &mask, more, count, values, err);
        if (status != LAC_OK)
            return status;
        point_add(result, &mask, values, values[2 + count]);
        if (count == 0 || values[0] > budget)
            return LAC_OK; /* one point beyond the budget shows where it ends */
        uint32_t best = 0;
        double best_rate = 0;
        for (uint32_t m = 0; m < count; m++) {
            double more_kl = values[2 + m] - values[0];
            s->alone[more[m]] = more_kl > 1e-9 ? more_kl : 1e-9;
            double rate = run->cost[more[m]] / s->alone[more[m]];
            if (rate > best_rate) {
                best_rate = rate;
                best = m;
            }
        }
        lac_mask_set(&mask, more[best]);
        expected = values[2 + best];
    }
}

/* Tries to exchange one unit of the deepest mask within the budget for the best one outside: what
 * was a good first step need not be part of the best set. */
static lac_status exchange(lac__search *s, lac_calibrate_result *result, uint32_t turn,
                           lac_error *err)
{
    lac__run *run = s->run;
    double budget = lac_tier_kl_max(run->options->tier);
    uint32_t deepest = 0, outside[LAC_CALIBRATE_UNITS_MAX];
    for (uint32_t p = 1; p < result->points_count; p++)
        if (result->points[p].search_kl <= budget &&
            result->points[p].cost_saved >= result->points[deepest].cost_saved)
            deepest = p;
    const lac_calibrate_point old = result->points[deepest];
    uint32_t count = shortlist_make(s, &old.mask, outside);
    if (lac_mask_count(&old.mask) < 2 || count == 0)
        return LAC_OK;
    /* The unit with the largest KL of its own for its cost goes first, then the next. */
    ranked inside[LAC_CALIBRATE_UNITS_MAX];
    uint32_t n = 0;
    for (uint32_t u = 0; u < run->units; u++)
        if (lac_mask_has(&old.mask, u))
            inside[n++] = (ranked){-s->alone[u] / run->cost[u], u};
    qsort(inside, n, sizeof *inside, by_key);
    if (turn >= n || result->points_count == LAC_CALIBRATE_POINTS_MAX)
        return LAC_OK;
    lac_mask mask = {0};
    for (uint32_t i = 0; i < n; i++)
        if (i != turn)
            lac_mask_set(&mask, inside[i].unit);
    double values[3 + LAC_CALIBRATE_UNITS_MAX], both[3];
    lac_status status = trial_run(s, &mask, outside, count, values, err);
    if (status != LAC_OK)
        return status;
    uint32_t best = 0;
    for (uint32_t m = 1; m < count; m++)
        if (values[2 + m] < values[2 + best])
            best = m;
    if (values[2 + best] >= old.search_kl ||
        run->cost[outside[best]] < run->cost[inside[turn].unit])
        return LAC_OK;
    lac_mask_set(&mask, outside[best]);
    status = trial_run(s, &mask, NULL, 0, both, err);
    if (status == LAC_OK && both[0] < old.search_kl)
        point_add(result, &mask, both, both[2]);
    return status;
}

lac_status lac__search_run(lac__search *s, lac_calibrate_result *result, lac_error *err)
{
    lac_status status = candidates_find(s, err);
    if (status == LAC_OK)
        status = grow(s, result, err);
    for (uint32_t t = 0; t < s->run->options->swaps && status == LAC_OK; t++)
        status = exchange(s, result, t, err);
    return status;
}
