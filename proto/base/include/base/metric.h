/* Counters, gauges and histograms with a Prometheus text rendering (exposition format 0.0.4).
 * A registry belongs to one thread. Series are made at start or on first use, bounded per registry.
 */
#ifndef LAC_BASE_METRIC_H
#define LAC_BASE_METRIC_H

#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/metric_list.h"

typedef struct lac_metrics lac_metrics;
typedef struct lac_metric lac_metric; /* one series; lives as long as its registry */

typedef enum { LAC_METRIC_COUNTER, LAC_METRIC_GAUGE, LAC_METRIC_HISTOGRAM } lac_metric_kind;

lac_metrics *lac_metrics_create(size_t series_max);
void lac_metrics_destroy(lac_metrics **metrics);

/* The series of a metric on the list (base/metric_list.h), found or made; `labels` as below, with
 * exactly the keys that the list names. Past the metric's own bound: the overflow series. */
lac_metric *lac_metrics_get(lac_metrics *metrics, lac_metric_id id, const char *labels);

/* For metrics that are not on the list. Finds or makes the series `name{labels}`; `labels` is
 * `key="value",…` already escaped, or "". Past `series_max` the one overflow series is returned, so
 * callers never get NULL. `help` and `name` are literals. The same name must keep its kind. */
lac_metric *lac_metrics_series(lac_metrics *metrics, lac_metric_kind kind, const char *name,
                               const char *help, const char *labels);
/* A histogram with its own upper bounds (ascending, ≤ 32, literal array; +Inf is implied). */
lac_metric *lac_metrics_histogram(lac_metrics *metrics, const char *name, const char *help,
                                  const char *labels, const double *bounds, size_t bounds_count);

void lac_metric_add(lac_metric *metric, double amount); /* counter: amount ≥ 0 */
void lac_metric_set(lac_metric *metric, double value);  /* gauge */
void lac_metric_observe(lac_metric *metric, double value);
double lac_metric_value(const lac_metric *metric); /* histogram: count */

/* Appends `key="value"` with escapes; puts a comma first when the text is not empty. */
void lac_metric_label(lac_buf *labels, const char *key, const char *value);
/* Families that are made at each reading, of things that come and go: the head, then its samples
 * (counters and gauges). */
size_t lac_metric_series_max(lac_metric_id id);
void lac_metric_head(lac_buf *out, lac_metric_id id);
void lac_metric_sample(lac_buf *out, lac_metric_id id, const char *labels, double value);
/* Appends the whole registry as text, families in order of first use. */
void lac_metrics_render(const lac_metrics *metrics, lac_buf *out);

#endif
