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

void lac__path_explain(lac_core *core, lac_plane plane, uint64_t peer, const lac_path_query *query)
{
    lac__fingerprint fingerprint;
    lac__features features;
    lac__fingerprint_of(&query->prompt, &fingerprint, &features);
    lac_path_feature shown[LAC__FEATURES] = {0};
    for (int f = 0; f < LAC__FEATURES; f++) {
        lac__copy_text(shown[f].name, sizeof shown[f].name, lac__feature_name((lac__feature)f));
        shown[f].value = features.value[f];
    }
    lac_msg msg = {.body.path_reply = {.stream = query->stream,
                                       .tokens_max = lac__bucket_tokens(fingerprint.bucket),
                                       .class_name = "full",
                                       .class_reason = "no plan is loaded",
                                       .features_count = LAC__FEATURES,
                                       .features = shown}};
    lac_path_reply *reply = &msg.body.path_reply;
    lac__copy_text(reply->type, sizeof reply->type, lac__type_name(fingerprint.type));
    lac__copy_text(reply->task, sizeof reply->task, lac__hint_name(fingerprint.hint));
    lac__fingerprint_key(&fingerprint, &reply->fingerprint);
    if (fingerprint.type != LAC__TYPE_UNKNOWN)
        lac__type_reason(&features, reply->type_reason, sizeof reply->type_reason);
    else
        lac__copy_text(reply->type_reason, sizeof reply->type_reason, "no text to judge by");
    /* One that does not get through is asked for again: nothing waits on it. */
    lac__send(core, plane, peer, 0, LAC_MSG_PATH_REPLY, &msg);
}

_Static_assert((int)LAC__FEATURES <= (int)LAC_PATH_FEATURES_MAX,
               "every feature fits into the answer");
