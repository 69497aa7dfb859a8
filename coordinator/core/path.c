/* What the coordinator does with a request's fingerprint: takes it at admission, keeps it in the
 * record, counts requests by type and hint. Loop thread. The rules behind it are in type.h; which
 * class follows is decided nowhere yet, because no plan is loaded. */
#include "state.h"

#include <stdio.h>

void lac__path_meters(lac_core *core)
{
    char label[48];
    for (int t = 0; t < LAC__TYPES; t++) {
        snprintf(label, sizeof label, "type=\"%s\"", lac__type_name((lac__type)t));
        core->by_type[t] =
            lac_metrics_series(core->metrics, LAC_METRIC_COUNTER, "lacuna_requests_by_type_total",
                               "Requests admitted, by the type of their input.", label);
    }
    for (int h = 0; h < LAC__HINTS; h++) {
        snprintf(label, sizeof label, "task=\"%s\"", lac__hint_name((lac__hint)h));
        core->by_hint[h] =
            lac_metrics_series(core->metrics, LAC_METRIC_COUNTER, "lacuna_requests_by_task_total",
                               "Requests admitted, by the task their words name.", label);
    }
}

void lac__path_admit(lac_core *core, lac__request *r)
{
    lac__fingerprint_of(&r->prompt, &r->fingerprint, NULL);
    lac__fingerprint_key(&r->fingerprint, &r->fingerprint_key);
    lac_metric_add(core->by_type[r->fingerprint.type], 1);
    lac_metric_add(core->by_hint[r->fingerprint.hint], 1);
}
