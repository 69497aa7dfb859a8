/* States of the full model at the candidates, and patches fitted from them. One thread. Must not
 * know how masks are compared. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "search.h"

enum { STATES_BYTES_MAX = 2000000000 };

/* ---- states of the full model ---- */

static lac_status states_of(lac__search *s, const lac__windows *set, float **before, float **after,
                            float *final, lac_error *err)
{
    lac__run *run = s->run;
    float *h = lac_alloc((size_t)run->options->window * run->hidden, sizeof *h);
    lac_status status = LAC_OK;
    for (uint32_t i = 0; i < set->count && status == LAC_OK; i++) {
        const lac__window *w = &set->windows[i];
        size_t offset = w->at * run->hidden, size = (size_t)w->count * run->hidden * sizeof *h;
        uint32_t at = 0;
        for (uint32_t c = 0; c < s->candidates_count && status == LAC_OK; c++) {
            uint32_t unit = s->candidates[c];
            if (at < unit || unit == 0)
                status = lac__walk(run, w, NULL, at, unit, h, err);
            memcpy(before[c] + offset, h, size);
            if (status == LAC_OK && (after || final || c + 1 < s->candidates_count))
                status = lac__walk(run, w, NULL, unit, unit + 1, h, err);
            if (after)
                memcpy(after[c] + offset, h, size);
            at = unit + 1;
        }
        if (final && status == LAC_OK) {
            status = lac__walk(run, w, NULL, at, run->units, h, err);
            memcpy(final + offset, h, size);
        }
    }
    free(h);
    return status;
}

static float **list_make(uint32_t count, size_t floats)
{
    float **list = lac_alloc(count, sizeof *list);
    for (uint32_t c = 0; c < count; c++)
        list[c] = lac_alloc(floats, sizeof **list);
    return list;
}

lac_status lac__search_states(lac__search *s, lac_error *err)
{
    lac__run *run = s->run;
    if (s->select_final)
        return LAC_OK;
    run->stage = "states of the full model";
    size_t fit = s->fit.rows * run->hidden, select = s->select.rows * run->hidden;
    double bytes = 4.0 * ((double)fit * 2 + (double)select) * s->candidates_count;
    if (bytes > STATES_BYTES_MAX)
        return lac_fail(err, LAC_ETOOBIG,
                        "states of %zu tokens at %u candidates are %.0f MB, limit %d: fewer "
                        "tokens or candidates",
                        s->fit.rows, s->candidates_count, bytes / 1e6, STATES_BYTES_MAX / 1000000);
    s->fit_before = list_make(s->candidates_count, fit);
    s->fit_after = list_make(s->candidates_count, fit);
    s->select_before = list_make(s->candidates_count, select);
    s->select_final = lac_alloc(select, sizeof(float));
    lac_status status = LAC_OK;
    if (run->options->patches)
        status = states_of(s, &s->fit, s->fit_before, s->fit_after, NULL, err);
    if (status == LAC_OK)
        status = states_of(s, &s->select, s->select_before, NULL, s->select_final, err);
    return status;
}

uint32_t lac__candidate_index(const lac__search *s, uint32_t unit)
{
    uint32_t c = 0;
    while (c < s->candidates_count && s->candidates[c] != unit)
        c++;
    LAC_ASSERT(c < s->candidates_count);
    return c;
}

/* ---- patches ---- */

/* One stop of the fit: a unit of the mask, whose patch the stream then runs, or one outside. */
static lac_status fit_stop(lac__search *s, const float *stream, uint32_t unit, lac_fit_patch *out,
                           lac_error *err)
{
    lac__run *run = s->run;
    const lac_calibrate_options *o = run->options;
    const float *wanted = s->fit_after[lac__candidate_index(s, unit)];
    lac_ridge *ridge = lac_ridge_create(run->hidden, run->eps);
    lac_ridge_add(ridge, stream, wanted, (uint32_t)s->fit.rows);
    double direction = 4.0 * run->hidden / o->batch / run->cost[unit];
    lac_status status = lac_ridge_solve(ridge, o->rank, o->rank_max, direction, out, err);
    lac_ridge_destroy(&ridge);
    return status;
}

/* Moves the stream of all fit windows up to `to`, under the mask with the patches found so far. */
static lac_status fit_move(lac__search *s, const lac__masked *masked, uint32_t from, uint32_t to,
                           float *stream, lac_error *err)
{
    lac_status status = LAC_OK;
    for (uint32_t i = 0; i < s->fit.count && status == LAC_OK; i++) {
        const lac__window *w = &s->fit.windows[i];
        status = lac__walk(s->run, w, masked, from, to, stream + w->at * s->run->hidden, err);
    }
    return status;
}

lac_status lac__search_fit(lac__search *s, const lac_mask *mask, const uint32_t *more,
                           uint32_t more_count, lac__masked *out, lac_fit_patch *more_patches,
                           lac_error *err)
{
    lac__run *run = s->run;
    lac__masked masked = {.mask = *mask};
    masked.patches = lac_alloc(run->units, sizeof *masked.patches);
    if (more_count > 0)
        memset(more_patches, 0, more_count * sizeof *more_patches);
    if (!run->options->patches) {
        *out = masked;
        return LAC_OK;
    }
    lac_status status = lac__search_states(s, err);
    run->stage = "fitting patches";
    size_t floats = s->fit.rows * run->hidden;
    float *stream = lac_alloc(floats, sizeof *stream);
    uint32_t lowest = lac__lowest(mask, run->units), at = lowest, top = 0;
    for (uint32_t u = 0; u < run->units; u++)
        top = lac_mask_has(mask, u) ? u + 1 : top;
    for (uint32_t m = 0; m < more_count; m++)
        top = more[m] + 1 > top ? more[m] + 1 : top;
    if (status == LAC_OK && lowest < run->units)
        memcpy(stream, s->fit_before[lac__candidate_index(s, lowest)], floats * sizeof *stream);
    for (uint32_t u = 0, m = 0; u < top && status == LAC_OK; u++) {
        bool inside = lac_mask_has(mask, u), outside = m < more_count && more[m] == u;
        if (!inside && !outside)
            continue;
        /* Below the mask the stream is the full model's. */
        const float *here = u < lowest ? s->fit_before[lac__candidate_index(s, u)] : stream;
        if (u > lowest) {
            status = fit_move(s, &masked, at, u, stream, err);
            at = u;
        }
        if (status == LAC_OK)
            status = fit_stop(s, here, u, inside ? &masked.patches[u] : &more_patches[m], err);
        m += outside;
    }
    free(stream);
    if (status != LAC_OK) {
        lac__masked_free(&masked, run->units);
        for (uint32_t m = 0; m < more_count; m++)
            lac_fit_patch_free(&more_patches[m]);
        return status;
    }
    *out = masked;
    return LAC_OK;
}
