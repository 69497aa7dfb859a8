/* What people made of answers, counted by class and arm: whether they called them good or bad, and
 * whether they left before the end. The arms make it a comparison: `masked` ran as a class,
 * `control` could have and ran in full, `full` had no class certified for it. Loop thread. */
#include "state.h"

#include <stdio.h>
#include <string.h>

static const char *arm_of(bool masked, bool eligible)
{
    return masked ? "masked" : eligible ? "control" : "full";
}

static lac_metric *series(lac_core *core, lac_metric_id id, const char *class_name, const char *arm,
                          const char *verdict)
{
    lac_buf labels = {.cap = 512};
    lac_metric_label(&labels, "class", class_name);
    lac_metric_label(&labels, "arm", arm);
    if (verdict)
        lac_metric_label(&labels, "verdict", verdict);
    lac_metric *found = lac_metrics_get(core->metrics, id, labels.data);
    lac_buf_free(&labels);
    return found;
}

void lac__feedback_left(lac_core *core, const lac__request *r)
{
    if (!r->decided || !r->accepted_count)
        return;
    const char *arm = arm_of(r->class != NULL, r->eligible);
    const char *class_name = r->class ? r->class->facts.name : "full";
    lac_metric_add(series(core, LAC_M_ABANDONED, class_name, arm, NULL), 1);
}

static lac__kept_path *find(lac_core *core, uint64_t request, const char *tenant)
{
    for (uint32_t i = 0; i < LAC_PATHS_KEPT; i++)
        if (core->kept[i].request == request && !strcmp(core->kept[i].tenant, tenant))
            return &core->kept[i];
    return NULL;
}

lac_status lac_core_feedback(lac_core *core, const char *tenant, uint64_t request, bool good,
                             lac_error *err)
{
    if (!request)
        return lac_fail(err, LAC_EINVAL, "request is 0, allowed 1 and above");
    lac__kept_path *k = find(core, request, tenant ? tenant : "");
    if (!k)
        return lac_fail(err, LAC_ENOTFOUND,
                        "request %llu is not among the last %d that ended, or not yours",
                        (unsigned long long)request, LAC_PATHS_KEPT);
    if (k->judged)
        return lac_fail(err, LAC_EEXIST, "request %llu was judged already",
                        (unsigned long long)request);
    k->judged = true;
    lac_metric_add(series(core, LAC_M_FEEDBACK, k->class_name, arm_of(k->masked, k->eligible),
                          good ? "good" : "bad"),
                   1);
    return LAC_OK;
}

void lac__feedback_message(lac_core *core, lac_plane plane, uint64_t peer, const lac_msg *msg)
{
    const lac_feedback *f = &msg->body.feedback;
    lac_error err;
    lac_msg answer = {0};
    lac_status status = lac_core_feedback(core, msg->tenant, f->request, f->good, &err);
    if (status == LAC_OK) {
        answer.body.ordered.stream = f->stream;
        snprintf(answer.body.ordered.text, sizeof answer.body.ordered.text,
                 "request %llu is counted as %s", (unsigned long long)f->request,
                 f->good ? "good" : "bad");
    } else {
        answer.body.refused = (lac_refused){.stream = f->stream, .status = status};
        lac__copy_text(answer.body.refused.reason, sizeof answer.body.refused.reason, err.text);
    }
    /* One that does not get through is asked for again: nothing waits on it. */
    lac__send(core, plane, peer, 0, status == LAC_OK ? LAC_MSG_ORDERED : LAC_MSG_REFUSED, &answer);
}
