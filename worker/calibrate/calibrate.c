/* The whole of a calibration: engine, state file, search, certificates. The main thread. Must not
 * know terminals or plan files. */
#include "calibrate/calibrate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "certify.h"

static lac_status whole_check(const char *field, double value, double low, double high,
                              lac_error *err)
{
    if (value >= low && value <= high)
        return LAC_OK;
    return lac_fail(err, LAC_EINVAL, "%s is %g, allowed %g..%g", field, value, low, high);
}

static lac_status options_check(const lac_calibrate_options *o, lac_error *err)
{
    LAC_ASSERT(o->model_path && o->calibration && o->holdout && o->state_path);
    if (o->tier <= LAC_TIER_NONE || o->tier >= LAC_TIERS)
        return lac_fail(err, LAC_EINVAL, "tier is none, a tier to look for is needed");
    const struct {
        const char *field;
        double value, low, high;
    } ranges[] = {
        {"window", o->window, 8, LAC_BATCH_ROWS_MAX},
        {"fit_tokens", o->fit_tokens, 8, 1 << 22},
        {"select_tokens", o->select_tokens, 8, 1 << 22},
        {"preselect", o->preselect, 1, LAC_UNITS_MAX},
        {"candidates", o->candidates, 1, LAC_UNITS_MAX},
        {"shortlist", o->shortlist, 1, LAC_CALIBRATE_UNITS_MAX},
        {"units_max", o->units_max, 1, LAC_CALIBRATE_UNITS_MAX},
        {"swaps", o->swaps, 0, LAC_CALIBRATE_UNITS_MAX},
        {"rank_max", o->rank_max, LAC_PATCH_RANK_STEP, 4096},
        {"batch", o->batch, 1, 4096},
        {"context", o->context, 1, LAC_CONTEXT_MAX},
    };
    lac_status status = LAC_OK;
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0] && status == LAC_OK; i++)
        status = whole_check(ranges[i].field, ranges[i].value, ranges[i].low, ranges[i].high, err);
    if (status == LAC_OK && (o->rank % LAC_PATCH_RANK_STEP != 0 || o->rank > 4096))
        status = lac_fail(err, LAC_EINVAL, "rank is %u, allowed multiples of %d up to 4096",
                          o->rank, LAC_PATCH_RANK_STEP);
    return status;
}

/* Everything that the results depend on; the state file is bound to it. */
static void inputs_digest(const lac__run *run, lac_digest *out)
{
    const lac_calibrate_options *o = run->options;
    lac_digest model;
    lac_model_digest(run->model, &model);
    lac_buf text = {0};
    lac_buf_printf(&text, "1 %d %u %u %u %u %u %u %u %u %u %d %u %u %.17g %.17g %d", (int)o->tier,
                   o->window, o->fit_tokens, o->select_tokens, o->requests_max, o->preselect,
                   o->candidates, o->shortlist, o->units_max, o->swaps, (int)o->patches, o->rank,
                   o->rank_max, o->batch, o->context, (int)(o->isa == LAC_ISA_REFERENCE));
    lac_hasher *hasher = lac_hasher_create();
    lac_hasher_add(hasher, &model, sizeof model);
    lac_hasher_add(hasher, &o->calibration->digest, sizeof o->calibration->digest);
    lac_hasher_add(hasher, &o->holdout->digest, sizeof o->holdout->digest);
    lac_hasher_add(hasher, text.data, text.length);
    lac_hasher_finish(&hasher, out);
    lac_buf_free(&text);
}

/* Bytes a token costs in each unit, decoding `batch` sequences at `context` positions: its weights,
 * shared by the batch, and the keys and values it reads. */
static void costs_make(lac__run *run)
{
    const lac_calibrate_options *o = run->options;
    for (uint32_t u = 0; u < run->units; u++) {
        const lac_layer *layer = &run->model->layers[u / 2];
        double seen = o->context;
        if (layer->window > 0 && layer->window < seen)
            seen = layer->window;
        run->cost[u] = (double)lac_model_unit_bytes(run->model, u) / o->batch;
        if (u % 2 == 0)
            run->cost[u] += seen * layer->kv_heads * run->model->head_dim * 2 * 2; /* K, V: F16 */
        run->cost_all += run->cost[u];
    }
}

lac_status lac__run_open(const lac_calibrate_options *options, lac__run *out, lac_error *err)
{
    uint32_t window = options->window;
    lac_engine_options engine = {.model_path = options->model_path,
                                 .threads = options->threads,
                                 .isa = options->isa,
                                 .slots = 1,
                                 .context_max = window < 16 ? 16 : window};
    lac__run run = {.options = options, .stage = "loading"};
    lac_status status = lac_engine_create(&engine, &run.engine, err);
    if (status != LAC_OK)
        return status;
    run.model = lac_engine_model(run.engine);
    run.units = 2 * run.model->layers_count;
    run.hidden = run.model->hidden;
    run.vocab = run.model->vocab;
    run.eps = run.model->norm_eps;
    run.cost = lac_alloc(run.units, sizeof *run.cost);
    costs_make(&run);
    /* Progress reckons in bytes of weights: what a row's products take. */
    double unit_bytes = 0;
    for (uint32_t u = 0; u < run.units; u++)
        unit_bytes += (double)lac_model_unit_bytes(run.model, u) / run.units;
    run.head_units = unit_bytes > 0 ? (double)run.model->head->bytes / unit_bytes : 0;
    lac_digest inputs;
    size_t known;
    inputs_digest(&run, &inputs);
    status = lac_memo_open(options->state_path, &inputs, &run.memo, &known, err);
    if (status != LAC_OK) {
        lac_engine_destroy(&run.engine);
        free(run.cost);
        return status;
    }
    *out = run;
    return LAC_OK;
}

void lac__run_close(lac__run *run)
{
    lac_memo_close(&run->memo);
    lac_engine_destroy(&run->engine);
    free(run->cost);
}

/* A guess for the progress line: how deep the search will go is not known before it. */
static void work_guess(lac__run *run, const lac__search *s)
{
    const lac_calibrate_options *o = run->options;
    double full = run->units + run->head_units, rounds = o->units_max < 7 ? o->units_max : 7;
    double fit = o->patches ? (double)s->fit.rows * run->units * (1 + 0.5 * rounds) : 0;
    double select = (double)s->select.rows * full * (1.5 + rounds * (1 + 0.5 * o->shortlist));
    double holdout =
        (double)(o->requests_max ? o->requests_max : o->holdout->count) * o->window * full * 3.5;
    run->work_all = fit + select + holdout;
}

lac_status lac_calibrate(const lac_calibrate_options *options, lac_calibrate_result **out,
                         lac_error *err)
{
    lac__run run;
    lac__search search = {0};
    lac_status status = options_check(options, err);
    if (status == LAC_OK)
        status = lac__run_open(options, &run, err);
    if (status != LAC_OK)
        return status;
    lac_calibrate_result *result = lac_alloc(1, sizeof *result);
    status = lac__search_open(&run, &search, err);
    if (status == LAC_OK) {
        work_guess(&run, &search);
        result->fit_rows = search.fit.rows;
        result->select_rows = search.select.rows;
        status = lac__search_run(&search, result, err);
    }
    if (status == LAC_OK)
        status = lac__certify(&search, result, err);
    lac__search_close(&search);
    lac__run_close(&run);
    if (status != LAC_OK)
        lac_calibrate_result_free(&result);
    else
        *out = result;
    return status;
}

void lac_calibrate_result_free(lac_calibrate_result **result)
{
    if (!*result)
        return;
    for (uint32_t p = 0; p < (*result)->points_count; p++)
        for (uint32_t i = 0; i < (*result)->points[p].patches_count; i++)
            lac_fit_patch_free(&(*result)->points[p].patches[i]);
    free(*result);
    *result = NULL;
}
