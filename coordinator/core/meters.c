/* The core's metrics (named in base/metric_list.h) and the gauges that are set at each tick. */
#include "state.h"

#include <stdio.h>

static const char *const outcome_names[LAC__OUTCOMES] = {
    [LAC__OUTCOME_STOP] = "stop",         [LAC__OUTCOME_LENGTH] = "length",
    [LAC__OUTCOME_CANCEL] = "cancel",     [LAC__OUTCOME_ERROR] = "error",
    [LAC__OUTCOME_BUSY] = "busy",         [LAC__OUTCOME_NOBODY] = "nobody",
    [LAC__OUTCOME_DEADLINE] = "deadline", [LAC__OUTCOME_INVALID] = "invalid",
    [LAC__OUTCOME_LOST] = "lost",
};

static const char *const shed_labels[LAC__SHEDS] = {
    [LAC__SHED_QUEUE] = "reason=\"queue\"",
    [LAC__SHED_DEADLINE] = "reason=\"deadline\"",
    [LAC__SHED_RECORDS] = "reason=\"records\"",
    [LAC__SHED_MEMORY] = "reason=\"memory\"",
};

static const char *const state_labels[LAC__GROUP_STATES] = {
    [LAC__GROUP_PROVISIONING] = "state=\"provisioning\"",
    [LAC__GROUP_FORMING] = "state=\"forming\"",
    [LAC__GROUP_READY] = "state=\"ready\"",
    [LAC__GROUP_SUSPECT] = "state=\"suspect\"",
    [LAC__GROUP_DRAINING] = "state=\"draining\"",
    [LAC__GROUP_FENCED] = "state=\"fenced\"",
    [LAC__GROUP_STOPPED] = "state=\"stopped\"",
};

static const char *const verdict_labels[LAC__GROUP_EVENTS] = {
    [LAC__GROUP_JOINED] = "event=\"joined\"",   [LAC__GROUP_FORMED] = "event=\"formed\"",
    [LAC__GROUP_LATE] = "event=\"late\"",       [LAC__GROUP_ALIVE] = "event=\"alive\"",
    [LAC__GROUP_LOST] = "event=\"lost\"",       [LAC__GROUP_EXPIRED] = "event=\"expired\"",
    [LAC__GROUP_HUNG] = "event=\"hung\"",       [LAC__GROUP_FAULT] = "event=\"fault\"",
    [LAC__GROUP_SICK] = "event=\"sick\"",       [LAC__GROUP_DRAIN] = "event=\"drain\"",
    [LAC__GROUP_DRAINED] = "event=\"drained\"",
};

static const char *const quota_labels[LAC__QUOTAS] = {
    [LAC__QUOTA_REQUESTS] = "quota=\"requests\"",
    [LAC__QUOTA_TOKENS] = "quota=\"tokens\"",
    [LAC__QUOTA_CONCURRENCY] = "quota=\"concurrency\"",
    [LAC__QUOTA_DENIED] = "quota=\"denied\"",
};

static lac_metric *metric(lac_core *core, lac_metric_id id, const char *labels)
{
    return lac_metrics_get(core->metrics, id, labels);
}

const char *lac__outcome_name(lac__outcome outcome)
{
    return outcome_names[outcome];
}

void lac__meters_create(lac_core *core)
{
    lac__meters *m = &core->meters;
    for (int i = 0; i < LAC__OUTCOMES; i++) {
        char label[64];
        snprintf(label, sizeof label, "outcome=\"%s\"", outcome_names[i]);
        m->requests[i] = metric(core, LAC_M_REQUESTS, label);
    }
    for (int i = LAC__GROUP_PROVISIONING; i < LAC__GROUP_STATES; i++)
        m->groups[i] = metric(core, LAC_M_GROUPS, state_labels[i]);
    for (int i = 0; i < LAC__GROUP_EVENTS; i++)
        m->verdicts[i] = metric(core, LAC_M_VERDICTS, verdict_labels[i]);
    m->routed = metric(core, LAC_M_ROUTED, "");
    m->brownouts = metric(core, LAC_M_BROWNOUTS, "");
    m->brownout = metric(core, LAC_M_BROWNOUT, "");
    m->browned = metric(core, LAC_M_BROWNED, "");
    for (int i = 0; i < LAC__QUOTAS; i++)
        m->quotas[i] = metric(core, LAC_M_QUOTAS, quota_labels[i]);
    m->queue_requests = metric(core, LAC_M_QUEUE_REQUESTS, "");
    m->queue_tokens = metric(core, LAC_M_QUEUE_TOKENS, "");
    m->running = metric(core, LAC_M_RUNNING, "");
    m->given_up = metric(core, LAC_M_GIVEN_UP, "");
    m->ttft = metric(core, LAC_M_TTFT, "");
    m->queue_wait = metric(core, LAC_M_QUEUE_WAIT, "");
    m->duration = metric(core, LAC_M_DURATION, "");
    m->itl = metric(core, LAC_M_ITL, "");
    for (int i = 0; i < LAC__SHEDS; i++)
        m->shed[i] = metric(core, LAC_M_SHEDS, shed_labels[i]);
    m->cached_tokens = metric(core, LAC_M_CACHED_TOKENS, "");
    m->prompt_tokens = metric(core, LAC_M_PROMPT_TOKENS, "");
    m->output_tokens = metric(core, LAC_M_OUTPUT_TOKENS, "");
    m->sheds = metric(core, LAC_M_PREDICTED_SHEDS, "");
    m->freezes = metric(core, LAC_M_FREEZES, "");
    m->frozen = metric(core, LAC_M_FROZEN, "");
    m->breaker_opens = metric(core, LAC_M_BREAKER_OPENS, "");
    m->breakers_open = metric(core, LAC_M_BREAKERS_OPEN, "");
    m->budget_waits = metric(core, LAC_M_BUDGET_WAITS, "");
    m->forgiven = metric(core, LAC_M_FORGIVEN, "");
    m->guarded = metric(core, LAC_M_GUARDED, "");
    m->quarantined = metric(core, LAC_M_QUARANTINED, "");
    m->quarantine_size = metric(core, LAC_M_QUARANTINE_SIZE, "");
    m->duplicates = metric(core, LAC_M_DUPLICATES, "");
    m->stale = metric(core, LAC_M_STALE, "");
    m->fenced = metric(core, LAC_M_FENCED, "");
    m->protocol_errors = metric(core, LAC_M_PROTOCOL_ERRORS, "");
    m->moves = metric(core, LAC_M_RETRIES, "");
    m->reregisters = metric(core, LAC_M_REREGISTERS, "");
}

void lac__meters_tick(lac_core *core)
{
    double groups[LAC__GROUP_STATES] = {0}, open = 0;
    for (const lac__group *g = core->groups_head; g; g = g->next) {
        groups[g->state]++;
        open += lac__group_living(g) && g->breaker.open;
    }
    lac_metric_set(core->meters.breakers_open, open);
    for (int i = LAC__GROUP_PROVISIONING; i < LAC__GROUP_STATES; i++)
        lac_metric_set(core->meters.groups[i], groups[i]);
    lac_metric_set(core->meters.queue_requests, (double)core->queue.count);
    lac_metric_set(core->meters.queue_tokens, (double)core->queue_tokens);
    lac_metric_set(core->meters.quarantine_size, (double)lac__poison_quarantine_size(core));
    lac_metric_set(core->meters.running, (double)core->running_count);
}
