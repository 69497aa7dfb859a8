/* Certificates. Every request of the hold-out runs once in full; each mask starts from the full
 * model's state before its lowest unit. One thread. Must not know how masks were found. */
#include "certify.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "served.h"

enum {
    MEASURED_MAX = 12, /* masks on the hold-out at once */
    PER_POINT =
        2 + 2 * LAC_KINDS, /* numbers a request and mask: KL, agreement; KL and rows by kind */
};

/* After the first request of every document only those masks go on that may be a tier's deepest:
 * of those with a mean of at most this share of it the deepest. */
#define LIKELY 0.92

typedef struct {
    lac__run *run;
    lac_calibrate_result *result;
    lac__windows requests;
    uint32_t point[MEASURED_MAX]; /* index of the result's point */
    lac__masked masked[MEASURED_MAX];
    bool dropped[MEASURED_MAX];
    uint32_t count;
    double *values; /* [requests][1 + MEASURED_MAX × PER_POINT]: rows first */
    size_t stride;
    uint32_t documents; /* that have a request: the first of each comes first */
} trial;

/* ---- which masks ---- */

/* The deepest of the path first. What the search saw far outside the deepest tier is left out. */
static void points_choose(const lac_calibrate_result *result, lac_tier deepest, trial *t)
{
    for (uint32_t p = result->points_count; p > 1 && t->count < MEASURED_MAX; p--)
        if (result->points[p - 1].search_kl <= 1.2 * lac_tier_kl_max(deepest))
            t->point[t->count++] = p - 1;
}

/* ---- one request ---- */

/* The kind of the token that follows each row, by the text it stands for. */
static void kinds_of(const lac__run *run, const lac__window *w, uint8_t *kinds)
{
    const lac_tokenizer *tokenizer = lac_engine_tokenizer(run->engine);
    lac_buf text = {0};
    size_t *from = lac_alloc(w->count + 1, sizeof *from);
    for (uint32_t i = 0; i < w->count; i++) {
        const char *bytes;
        size_t length;
        lac_tokenizer_piece(tokenizer, w->tokens[i], true, &bytes, &length);
        from[i] = text.length;
        lac_buf_add(&text, bytes, length);
    }
    from[w->count] = text.length;
    uint8_t *of = lac_alloc(text.length + 1, 1);
    lac_token_kinds(text.data ? text.data : "", text.length, of);
    for (uint32_t i = 0; i < w->count; i++) {
        kinds[i] = LAC_KIND_OTHER;
        for (size_t k = i + 1 < w->count ? from[i + 1] : text.length;
             i + 1 < w->count && k < from[i + 2]; k++)
            if (of[k] != LAC_KIND_OTHER) {
                kinds[i] = of[k];
                break;
            }
    }
    free(of);
    free(from);
    lac_buf_free(&text);
}

typedef struct {
    float *full;  /* [window][hidden] the full model's stream */
    float *start; /* [MEASURED_MAX][window][hidden] where each mask begins */
    float *log_p;
    uint32_t *best;
    double *kl;     /* [window] */
    uint8_t *kinds; /* [window] */
} scratch;

static void scratch_make(const lac__run *run, scratch *out)
{
    size_t rows = run->options->window;
    out->full = lac_alloc(rows * run->hidden, sizeof(float));
    out->start = lac_alloc(MEASURED_MAX * rows * run->hidden, sizeof(float));
    out->log_p = lac_alloc(rows * run->vocab, sizeof(float));
    out->best = lac_alloc(rows, sizeof(uint32_t));
    out->kl = lac_alloc(rows, sizeof(double));
    out->kinds = lac_alloc(rows, 1);
}

static void scratch_free(scratch *s)
{
    free(s->full);
    free(s->start);
    free(s->log_p);
    free(s->best);
    free(s->kl);
    free(s->kinds);
}

/* The full model, leaving a copy of the stream where each mask begins. */
static lac_status full_run(trial *t, const lac__window *w, scratch *b, lac_error *err)
{
    lac__run *run = t->run;
    size_t floats = (size_t)run->options->window * run->hidden;
    lac_status status = LAC_OK;
    uint32_t at = 0;
    bool begun = false;
    for (uint32_t u = 0; u <= run->units && status == LAC_OK; u++) {
        bool stop = u == run->units;
        for (uint32_t m = 0; m < t->count; m++)
            stop |= !t->dropped[m] && lac__lowest(&t->masked[m].mask, run->units) == u;
        if (!stop)
            continue;
        if (!begun || u > at)
            status = lac__walk(run, w, NULL, at, u, b->full, err);
        begun = true;
        at = u;
        for (uint32_t m = 0; m < t->count && u < run->units; m++)
            if (lac__lowest(&t->masked[m].mask, run->units) == u)
                memcpy(b->start + m * floats, b->full,
                       (size_t)w->count * run->hidden * sizeof *b->full);
    }
    if (status == LAC_OK)
        status = lac__log_probs(run, b->full, w->count, b->log_p, b->best, err);
    return status;
}

static lac_status request_run(trial *t, const lac__window *w, scratch *b, double *values,
                              lac_error *err)
{
    lac__run *run = t->run;
    size_t floats = (size_t)run->options->window * run->hidden;
    memset(values, 0, t->stride * sizeof *values);
    values[0] = w->count;
    kinds_of(run, w, b->kinds);
    lac_status status = full_run(t, w, b, err);
    for (uint32_t m = 0; m < t->count && status == LAC_OK; m++) {
        if (t->dropped[m])
            continue;
        double *v = values + 1 + m * PER_POINT;
        float *h = b->start + m * floats;
        lac__divergence d = {.log_p = b->log_p, .best = b->best, .kl = b->kl};
        uint32_t lowest = lac__lowest(&t->masked[m].mask, run->units);
        status = lac__walk(run, w, &t->masked[m], lowest, run->units, h, err);
        if (status == LAC_OK)
            status = lac__diverge(run, h, w->count, &d, err);
        v[0] = d.kl_sum;
        v[1] = d.agree;
        for (uint32_t i = 0; i + 1 < w->count && status == LAC_OK; i++) {
            v[2 + b->kinds[i]] += b->kl[i];
            v[2 + LAC_KINDS + b->kinds[i]]++;
        }
    }
    return status;
}

/* ---- all requests ---- */

static double mean_of(const trial *t, uint32_t m, uint32_t requests)
{
    double sum = 0, rows = 0;
    for (uint32_t r = 0; r < requests; r++) {
        sum += t->values[r * t->stride + 1 + m * PER_POINT];
        rows += t->values[r * t->stride];
    }
    return sum / rows;
}

static void unlikely_drop(trial *t, uint32_t requests)
{
    bool keep[MEASURED_MAX] = {false};
    for (lac_tier tier = LAC_TIER_GOLD; tier <= t->run->options->tier; tier++) {
        uint32_t best = t->count;
        for (uint32_t m = 0; m < t->count; m++) {
            double saved = lac__cost_saved(t->run, &t->masked[m]);
            if (mean_of(t, m, requests) <= LIKELY * lac_tier_kl_max(tier) &&
                (best == t->count || saved > lac__cost_saved(t->run, &t->masked[best])))
                best = m;
        }
        if (best < t->count)
            keep[best] = true;
    }
    /* Where none is likely the one closest to it tells how far it is. */
    uint32_t least = 0;
    for (uint32_t m = 1; m < t->count; m++)
        if (mean_of(t, m, requests) < mean_of(t, least, requests))
            least = m;
    bool any = false;
    for (uint32_t m = 0; m < t->count; m++)
        any |= keep[m];
    keep[least] |= !any;
    for (uint32_t m = 0; m < t->count; m++)
        t->dropped[m] = !keep[m];
}

static lac_status requests_run(trial *t, lac_error *err)
{
    lac_status status = LAC_OK;
    scratch b;
    scratch_make(t->run, &b);
    for (uint32_t r = 0; r < t->requests.count && status == LAC_OK; r++) {
        char name[32];
        double *values = t->values + r * t->stride;
        snprintf(name, sizeof name, "request %u", r);
        t->run->stage = "hold-out";
        if (!lac_memo_get(t->run->memo, name, values, t->stride)) {
            status = request_run(t, &t->requests.windows[r], &b, values, err);
            if (status == LAC_OK)
                status = lac_memo_put(t->run->memo, name, values, t->stride, err);
        }
        if (r + 1 == t->documents)
            unlikely_drop(t, r + 1);
    }
    scratch_free(&b);
    return status;
}

/* ---- what it proves ---- */

static uint64_t seed_of(const lac_digest *digest)
{
    uint64_t seed;
    memcpy(&seed, digest->bytes, sizeof seed);
    return seed;
}

static bool bounds_of(const trial *t, uint32_t m, uint32_t which, lac_stat_bounds *out)
{
    const lac_prompt_set *set = t->run->options->holdout;
    lac_stat_cluster *clusters = lac_alloc(set->documents_count, sizeof *clusters);
    for (uint32_t r = 0; r < t->requests.count; r++) {
        lac_stat_cluster *c = &clusters[t->requests.windows[r].document];
        c->sum += t->values[r * t->stride + 1 + m * PER_POINT + which];
        c->weight += t->values[r * t->stride];
    }
    uint32_t count = 0; /* documents without a request are none */
    for (uint32_t d = 0; d < set->documents_count; d++)
        if (clusters[d].weight > 0)
            clusters[count++] = clusters[d];
    bool found = lac_stat_bounds_of(clusters, count, seed_of(&set->digest), out);
    free(clusters);
    return found;
}

static void point_fill(trial *t, uint32_t m)
{
    lac_calibrate_point *p = &t->result->points[t->point[m]];
    double *means = lac_alloc(t->requests.count + 1, sizeof *means), kl[LAC_KINDS] = {0};
    for (uint32_t r = 0; r < t->requests.count; r++) {
        const double *v = t->values + r * t->stride;
        means[r] = v[1 + m * PER_POINT] / v[0];
        for (uint32_t k = 0; k < LAC_KINDS; k++) {
            kl[k] += v[1 + m * PER_POINT + 2 + k];
            p->kind_tokens[k] += (uint64_t)v[1 + m * PER_POINT + 2 + LAC_KINDS + k];
        }
    }
    p->measured = !t->dropped[m] && bounds_of(t, m, 0, &p->kl) && bounds_of(t, m, 1, &p->top1);
    if (p->measured)
        p->p95 = lac_stat_quantile(means, t->requests.count, 0.95);
    for (uint32_t k = 0; k < LAC_KINDS; k++)
        p->kind_kl[k] = p->kind_tokens[k] > 0 ? kl[k] / (double)p->kind_tokens[k] : 0;
    p->cost_saved = lac__cost_saved(t->run, &t->masked[m]);
    for (uint32_t u = 0; u < t->run->units; u++)
        if (t->masked[m].patches[u].rank > 0) {
            p->patch_units[p->patches_count] = u;
            p->patches[p->patches_count++] = t->masked[m].patches[u];
            t->masked[m].patches[u] = (lac_fit_patch){0};
        }
    free(means);
}

static void tiers_find(lac_calibrate_result *result, lac_tier deepest)
{
    for (lac_tier tier = LAC_TIER_GOLD; tier <= deepest && result->enough; tier++) {
        uint32_t best = 0;
        for (uint32_t p = 1; p < result->points_count; p++) {
            const lac_calibrate_point *x = &result->points[p];
            if (x->measured && x->kl.high <= lac_tier_kl_max(tier) &&
                x->cost_saved > result->points[best].cost_saved)
                best = p;
        }
        result->certified[tier] = best;
        if (best > 0 && result->points[best].tier == LAC_TIER_NONE)
            result->points[best].tier = tier;
    }
}

/* The certified masks, on requests that are measured already. */
static lac_status served_check(const trial *t, lac_error *err)
{
    uint32_t count =
        t->requests.count < LAC__SERVED_REQUESTS ? t->requests.count : LAC__SERVED_REQUESTS;
    lac_status status = LAC_OK;
    t->run->stage = "as it is served";
    for (uint32_t m = 0; m < t->count && status == LAC_OK; m++) {
        const lac_calibrate_point *p = &t->result->points[t->point[m]];
        double kl = 0;
        for (uint32_t r = 0; r < count; r++)
            kl += t->values[r * t->stride + 1 + m * PER_POINT];
        if (p->tier != LAC_TIER_NONE)
            status = lac__served_check(t->run, p, t->requests.windows, count, kl, err);
    }
    return status;
}

/* ---- probes ---- */

/* Of those that pass a probe, so many may diverge more than their tier's mean may. */
#define PROBE_BAD_SHARE 0.10

static lac_status features_of(trial *t, lac_probe_sample *samples, lac_error *err)
{
    lac__run *run = t->run;
    float *states = lac_alloc((size_t)run->options->window * run->hidden, sizeof *states);
    lac_status status = LAC_OK;
    t->run->stage = "probe";
    for (uint32_t r = 0; r < t->requests.count && status == LAC_OK; r++) {
        const lac__window *w = &t->requests.windows[r];
        status = lac__walk(run, w, NULL, 0, 2 * LAC_PROBE_LAYERS, states, err);
        if (status == LAC_OK)
            lac_probe_features(states, w->count, run->hidden, samples[r].features);
        samples[r].document = w->document;
    }
    free(states);
    return status;
}

/* The certificate is of all requests, so a probe that sends some of them back to full can only
 * help; it is trained on one half of the documents and judged on the other. */
static lac_status probes_train(trial *t, lac_error *err)
{
    bool any = false;
    for (uint32_t m = 0; m < t->count; m++)
        any |= t->result->points[t->point[m]].tier != LAC_TIER_NONE &&
               lac__lowest(&t->masked[m].mask, t->run->units) >= 2 * LAC_PROBE_LAYERS;
    if (!any)
        return LAC_OK;
    lac_probe_sample *samples = lac_alloc(t->requests.count + 1, sizeof *samples);
    lac_status status = features_of(t, samples, err);
    for (uint32_t m = 0; m < t->count && status == LAC_OK; m++) {
        lac_calibrate_point *p = &t->result->points[t->point[m]];
        if (p->tier == LAC_TIER_NONE ||
            lac__lowest(&t->masked[m].mask, t->run->units) < 2 * LAC_PROBE_LAYERS)
            continue;
        for (uint32_t r = 0; r < t->requests.count; r++) {
            const double *v = t->values + r * t->stride;
            samples[r].bad = v[1 + m * PER_POINT] / v[0] > lac_tier_kl_max(p->tier);
        }
        lac_probe_train(samples, t->requests.count, PROBE_BAD_SHARE, &p->probe, &p->probe_report);
    }
    free(samples);
    return status;
}

static uint32_t documents_count(const trial *t)
{
    uint32_t last = UINT32_MAX, count = 0;
    bool *seen = lac_alloc(t->run->options->holdout->documents_count, sizeof *seen);
    for (uint32_t r = 0; r < t->requests.count; r++) {
        last = t->requests.windows[r].document;
        count += !seen[last];
        seen[last] = true;
    }
    free(seen);
    return count;
}

/* The first request of every document, then the second of each that has one, and so on. */
static void requests_order(lac__windows *list, uint32_t documents)
{
    lac__window *sorted = lac_alloc(list->count + 1, sizeof *sorted);
    uint32_t *seen = lac_alloc(documents + 1, sizeof *seen), count = 0;
    for (uint32_t turn = 0; count < list->count; turn++) {
        memset(seen, 0, documents * sizeof *seen);
        for (uint32_t i = 0; i < list->count; i++)
            if (seen[list->windows[i].document]++ == turn)
                sorted[count++] = list->windows[i];
    }
    memcpy(list->windows, sorted, list->count * sizeof *sorted);
    free(seen);
    free(sorted);
}

static lac_status masks_fit(lac__search *s, trial *t, lac_error *err)
{
    lac_status status = LAC_OK;
    for (uint32_t m = 0; m < t->count && status == LAC_OK; m++)
        status = lac__search_fit(s, &t->result->points[t->point[m]].mask, NULL, 0, &t->masked[m],
                                 NULL, err);
    return status;
}

lac_status lac__certify(lac__search *s, lac_calibrate_result *result, lac_error *err)
{
    lac__run *run = s->run;
    const lac_calibrate_options *o = run->options;
    trial t = {.run = run, .result = result, .stride = 1 + MEASURED_MAX * PER_POINT};
    points_choose(result, o->tier, &t);
    lac_status status =
        lac__requests_make(run, o->holdout, o->window, o->requests_max, &t.requests, err);
    if (status == LAC_OK && t.requests.count == 0)
        status = lac_fail(err, LAC_EINVAL, "hold-out has no prompt of 8 tokens or more");
    if (status == LAC_OK) {
        requests_order(&t.requests, o->holdout->documents_count);
        t.documents = documents_count(&t);
        status = masks_fit(s, &t, err);
    }
    if (status == LAC_OK) {
        run->work_all = run->work_done;
        for (uint32_t m = 0; m < t.count; m++)
            run->work_all +=
                (double)t.requests.rows *
                (run->units - lac__lowest(&t.masked[m].mask, run->units) + run->head_units);
        run->work_all += t.count > 0 ? (double)t.requests.rows * (run->units + run->head_units) : 0;
        t.values = lac_alloc(t.requests.count * t.stride, sizeof *t.values);
        if (t.count > 0)
            status = requests_run(&t, err);
    }
    if (status == LAC_OK) {
        result->requests = t.requests.count;
        result->documents = t.documents;
        result->tokens = t.requests.rows;
        result->enough = result->requests >= LAC_CALIBRATE_REQUESTS_MIN &&
                         result->documents >= LAC_CALIBRATE_DOCUMENTS_MIN;
        for (uint32_t m = 0; m < t.count; m++)
            point_fill(&t, m);
        tiers_find(result, o->tier);
        status = served_check(&t, err);
        if (status == LAC_OK)
            status = probes_train(&t, err);
    }
    for (uint32_t m = 0; m < t.count; m++)
        lac__masked_free(&t.masked[m], run->units);
    free(t.values);
    lac__windows_free(&t.requests);
    return status;
}
