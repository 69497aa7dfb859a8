/* Metrics: series in a hash table, families in order of first use, and their text rendering
 * (Prometheus exposition format 0.0.4). A registry belongs to one thread. The number of series is
 * fixed at creation, so hostile label values cannot grow memory: what does not fit is counted in
 * one overflow series. */
#include "base/metric.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

enum { BOUNDS_MAX = 32, LABELS_MAX = 1024, SERIES_MAX_MAX = 1 << 20 };

/* Seconds: from a fast token to a slow answer. */
static const double default_bounds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                        0.25,  0.5,    1,     2.5,  5,     10,   30};
static const double long_bounds[] = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
                                     2.5,   5,    10,    30,   60,  120,  300, 600};
static const double short_bounds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                      0.1,   0.25,   0.5,   1,    2.5,   10};

/* ---- the list ---- */

typedef enum { COUNTER, GAUGE, LONG, SHORT } listed_kind;

static const struct {
    listed_kind kind;
    const char *name, *help;
    size_t series_max;
} listed[LAC_M_COUNT] = {
#define LAC_METRIC_ROW(id, kind, name, labels, max, panel, help) {kind, name, help, max},
    LAC_METRIC_LIST(LAC_METRIC_ROW)
#undef LAC_METRIC_ROW
};

static lac_metric_kind kind_of(lac_metric_id id)
{
    return listed[id].kind == COUNTER ? LAC_METRIC_COUNTER
           : listed[id].kind == GAUGE ? LAC_METRIC_GAUGE
                                      : LAC_METRIC_HISTOGRAM;
}

typedef struct family family;

struct lac_metric {
    family *family;
    char *labels;
    double value;      /* counter, gauge; histogram: sum of what was observed */
    uint64_t count;    /* histogram */
    uint64_t *buckets; /* histogram: [bounds_count], not cumulative */
    lac_metric *next;  /* of the same family, in order of first use */
};

struct family {
    const char *name, *help;
    lac_metric_kind kind;
    const double *bounds;
    size_t bounds_count;
    size_t series_max, series_count; /* its own bound; 0 = the registry's alone */
    lac_metric *first, *last;
    family *next;
};

struct lac_metrics {
    size_t series_max, series_count;
    size_t table_mask;
    lac_metric **table; /* open addressing, at most half full */
    family *first, *last;
    family overflow_family;
    lac_metric overflow;
};

lac_metrics *lac_metrics_create(size_t series_max)
{
    LAC_ASSERT(series_max >= 1 && series_max <= SERIES_MAX_MAX);
    lac_metrics *metrics = lac_alloc(1, sizeof(*metrics));
    size_t size = 2;
    while (size < 2 * series_max)
        size *= 2;
    metrics->series_max = series_max;
    metrics->table_mask = size - 1;
    metrics->table = lac_alloc(size, sizeof(*metrics->table));
    metrics->overflow_family.name = listed[LAC_M_OVERFLOW].name;
    metrics->overflow_family.help = listed[LAC_M_OVERFLOW].help;
    metrics->overflow_family.kind = LAC_METRIC_COUNTER;
    metrics->overflow.family = &metrics->overflow_family;
    return metrics;
}

void lac_metrics_destroy(lac_metrics **metrics)
{
    if (*metrics == NULL)
        return;
    for (family *f = (*metrics)->first, *next; f != NULL; f = next) {
        next = f->next;
        for (lac_metric *m = f->first, *after; m != NULL; m = after) {
            after = m->next;
            free(m->buckets);
            free(m->labels);
            free(m);
        }
        free(f);
    }
    free((*metrics)->table);
    free(*metrics);
    *metrics = NULL;
}

/* FNV-1a, 64 bits. */
static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001B3);
    return hash;
}

/* The slot that holds name{labels}, or the empty one where it belongs. */
static lac_metric **slot_of(lac_metrics *metrics, const char *name, const char *labels)
{
    uint64_t hash = hash_text(UINT64_C(0xCBF29CE484222325), name);
    hash = hash_text((hash ^ 0xFF) * UINT64_C(0x100000001B3), labels);
    for (size_t at = (size_t)hash;; at++) {
        lac_metric **slot = &metrics->table[at & metrics->table_mask];
        if (*slot == NULL ||
            (strcmp((*slot)->family->name, name) == 0 && strcmp((*slot)->labels, labels) == 0))
            return slot;
    }
}

static family *family_get(lac_metrics *metrics, lac_metric_kind kind, const char *name,
                          const char *help, const double *bounds, size_t bounds_count)
{
    for (family *f = metrics->first; f != NULL; f = f->next)
        if (strcmp(f->name, name) == 0)
            return f;
    family *f = lac_alloc(1, sizeof(*f));
    f->name = name;
    f->help = help;
    f->kind = kind;
    f->bounds = bounds;
    f->bounds_count = bounds_count;
    if (metrics->last != NULL)
        metrics->last->next = f;
    else
        metrics->first = f;
    metrics->last = f;
    return f;
}

static lac_metric *series_get(lac_metrics *metrics, lac_metric_kind kind, const char *name,
                              const char *help, const char *labels, const double *bounds,
                              size_t bounds_count, size_t series_max)
{
    if (strlen(labels) > LABELS_MAX)
        return &metrics->overflow;
    lac_metric **slot = slot_of(metrics, name, labels);
    if (*slot != NULL) {
        LAC_ASSERT((*slot)->family->kind == kind);
        return *slot;
    }
    if (metrics->series_count == metrics->series_max)
        return &metrics->overflow;
    family *f = family_get(metrics, kind, name, help, bounds, bounds_count);
    LAC_ASSERT(f->kind == kind);
    if (f->first == NULL)
        f->series_max = series_max;
    if (f->series_max > 0 && f->series_count == f->series_max)
        return &metrics->overflow;
    f->series_count++;
    lac_metric *metric = lac_alloc(1, sizeof(*metric));
    metric->family = f;
    metric->labels = lac_strndup(labels, strlen(labels));
    if (kind == LAC_METRIC_HISTOGRAM)
        metric->buckets = lac_alloc(f->bounds_count, sizeof(*metric->buckets));
    if (f->last != NULL)
        f->last->next = metric;
    else
        f->first = metric;
    f->last = metric;
    *slot = metric;
    metrics->series_count++;
    return metric;
}

lac_metric *lac_metrics_series(lac_metrics *metrics, lac_metric_kind kind, const char *name,
                               const char *help, const char *labels)
{
    return series_get(metrics, kind, name, help, labels, default_bounds,
                      sizeof(default_bounds) / sizeof(default_bounds[0]), 0);
}

lac_metric *lac_metrics_get(lac_metrics *metrics, lac_metric_id id, const char *labels)
{
    bool is_long = listed[id].kind == LONG;
    size_t count = is_long ? sizeof(long_bounds) / sizeof(long_bounds[0])
                           : sizeof(short_bounds) / sizeof(short_bounds[0]);
    return series_get(metrics, kind_of(id), listed[id].name, listed[id].help, labels,
                      is_long ? long_bounds : short_bounds, count, listed[id].series_max);
}

lac_metric *lac_metrics_histogram(lac_metrics *metrics, const char *name, const char *help,
                                  const char *labels, const double *bounds, size_t bounds_count)
{
    LAC_ASSERT(bounds_count >= 1 && bounds_count <= BOUNDS_MAX);
    for (size_t i = 1; i < bounds_count; i++)
        LAC_ASSERT(bounds[i - 1] < bounds[i]);
    return series_get(metrics, LAC_METRIC_HISTOGRAM, name, help, labels, bounds, bounds_count, 0);
}

/* The overflow series takes any kind of update and counts it; its labels are NULL. */
static bool counted_as_overflow(lac_metric *metric)
{
    if (metric->labels != NULL)
        return false;
    metric->value += 1;
    return true;
}

void lac_metric_add(lac_metric *metric, double amount)
{
    if (counted_as_overflow(metric))
        return;
    LAC_ASSERT(metric->family->kind != LAC_METRIC_HISTOGRAM);
    LAC_ASSERT(metric->family->kind == LAC_METRIC_GAUGE || amount >= 0);
    metric->value += amount;
}

void lac_metric_set(lac_metric *metric, double value)
{
    if (counted_as_overflow(metric))
        return;
    LAC_ASSERT(metric->family->kind == LAC_METRIC_GAUGE);
    metric->value = value;
}

void lac_metric_observe(lac_metric *metric, double value)
{
    if (counted_as_overflow(metric))
        return;
    const family *f = metric->family;
    LAC_ASSERT(f->kind == LAC_METRIC_HISTOGRAM);
    metric->value += value;
    metric->count++;
    for (size_t i = 0; i < f->bounds_count; i++)
        if (value <= f->bounds[i]) {
            metric->buckets[i]++;
            return; /* above the last bound only the count knows it: +Inf */
        }
}

double lac_metric_value(const lac_metric *metric)
{
    return metric->family->kind == LAC_METRIC_HISTOGRAM ? (double)metric->count : metric->value;
}

void lac_metric_label(lac_buf *labels, const char *key, const char *value)
{
    lac_buf_printf(labels, "%s%s=\"", labels->length > 0 ? "," : "", key);
    for (const char *p = value; *p != '\0'; p++) {
        if (*p == '\\')
            lac_buf_text(labels, "\\\\");
        else if (*p == '"')
            lac_buf_text(labels, "\\\"");
        else if (*p == '\n')
            lac_buf_text(labels, "\\n");
        else
            lac_buf_add(labels, p, 1);
    }
    lac_buf_text(labels, "\"");
}

/* The shortest decimal text that reads back as the same number. */
static void render_number(lac_buf *out, double value)
{
    char text[40];
    if (isnan(value) || isinf(value)) {
        lac_buf_text(out, isnan(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf");
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    lac_buf_text(out, text);
}

/* One sample line; `suffix` goes after the name, `bound` (or NULL) becomes the le label. */
static void render_line(lac_buf *out, const char *name, const char *suffix, const char *labels,
                        const double *bound, double value)
{
    lac_buf_printf(out, "%s%s", name, suffix);
    if (labels[0] != '\0' || bound != NULL) {
        lac_buf_printf(out, "{%s", labels);
        if (bound != NULL) {
            lac_buf_text(out, labels[0] != '\0' ? ",le=\"" : "le=\"");
            render_number(out, *bound);
            lac_buf_text(out, "\"");
        }
        lac_buf_text(out, "}");
    }
    lac_buf_text(out, " ");
    render_number(out, value);
    lac_buf_text(out, "\n");
}

static void render_sample(lac_buf *out, const lac_metric *metric, const char *suffix,
                          const double *bound, double value)
{
    const char *labels = metric->labels != NULL ? metric->labels : "";
    render_line(out, metric->family->name, suffix, labels, bound, value);
}

static void render_histogram(lac_buf *out, const lac_metric *metric)
{
    const family *f = metric->family;
    const double infinity = INFINITY;
    uint64_t below = 0;
    for (size_t i = 0; i < f->bounds_count; i++) {
        below += metric->buckets[i];
        render_sample(out, metric, "_bucket", &f->bounds[i], (double)below);
    }
    render_sample(out, metric, "_bucket", &infinity, (double)metric->count);
    render_sample(out, metric, "_sum", NULL, metric->value);
    render_sample(out, metric, "_count", NULL, (double)metric->count);
}

static void render_head(lac_buf *out, lac_metric_kind kind, const char *name, const char *help)
{
    static const char *const kinds[] = {"counter", "gauge", "histogram"};
    lac_buf_printf(out, "# HELP %s ", name);
    for (const char *p = help; *p != '\0'; p++) {
        if (*p == '\\')
            lac_buf_text(out, "\\\\");
        else if (*p == '\n')
            lac_buf_text(out, "\\n");
        else
            lac_buf_add(out, p, 1);
    }
    lac_buf_printf(out, "\n# TYPE %s %s\n", name, kinds[kind]);
}

size_t lac_metric_series_max(lac_metric_id id)
{
    return listed[id].series_max;
}

void lac_metric_head(lac_buf *out, lac_metric_id id)
{
    render_head(out, kind_of(id), listed[id].name, listed[id].help);
}

void lac_metric_sample(lac_buf *out, lac_metric_id id, const char *labels, double value)
{
    LAC_ASSERT(kind_of(id) != LAC_METRIC_HISTOGRAM);
    render_line(out, listed[id].name, "", labels, NULL, value);
}

void lac_metrics_render(const lac_metrics *metrics, lac_buf *out)
{
    for (const family *f = metrics->first; f != NULL; f = f->next) {
        render_head(out, f->kind, f->name, f->help);
        for (const lac_metric *m = f->first; m != NULL; m = m->next) {
            if (f->kind == LAC_METRIC_HISTOGRAM)
                render_histogram(out, m);
            else
                render_sample(out, m, "", NULL, m->value);
        }
    }
    if (metrics->overflow.value > 0) {
        lac_metric_head(out, LAC_M_OVERFLOW);
        render_sample(out, &metrics->overflow, "", NULL, metrics->overflow.value);
    }
}
