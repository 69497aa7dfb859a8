/* The core's metrics: names, help texts and the gauges that are set at each tick. */
#include "state.h"

static const double seconds_bounds[] = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
                                        2.5,   5,    10,    30,   60,  120,  300, 600};
enum { LAC__BOUNDS = sizeof seconds_bounds / sizeof *seconds_bounds };

static const char *const outcome_labels[LAC__OUTCOMES] = {
    [LAC__OUTCOME_STOP] = "outcome=\"stop\"",
    [LAC__OUTCOME_LENGTH] = "outcome=\"length\"",
    [LAC__OUTCOME_CANCEL] = "outcome=\"cancel\"",
    [LAC__OUTCOME_ERROR] = "outcome=\"error\"",
    [LAC__OUTCOME_BUSY] = "outcome=\"busy\"",
    [LAC__OUTCOME_NOBODY] = "outcome=\"nobody\"",
    [LAC__OUTCOME_DEADLINE] = "outcome=\"deadline\"",
    [LAC__OUTCOME_INVALID] = "outcome=\"invalid\"",
    [LAC__OUTCOME_LOST] = "outcome=\"lost\"",
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

static lac_metric *counter(lac_core *core, const char *name, const char *help, const char *labels)
{
    return lac_metrics_series(core->metrics, LAC_METRIC_COUNTER, name, help, labels);
}

static lac_metric *gauge(lac_core *core, const char *name, const char *help, const char *labels)
{
    return lac_metrics_series(core->metrics, LAC_METRIC_GAUGE, name, help, labels);
}

static lac_metric *seconds(lac_core *core, const char *name, const char *help)
{
    return lac_metrics_histogram(core->metrics, name, help, "", seconds_bounds, LAC__BOUNDS);
}

void lac__meters_create(lac_core *core)
{
    lac__meters *m = &core->meters;
    for (int i = 0; i < LAC__OUTCOMES; i++)
        m->requests[i] = counter(core, "lacuna_requests_total", "Requests by how they ended.",
                                 outcome_labels[i]);
    for (int i = LAC__GROUP_PROVISIONING; i < LAC__GROUP_STATES; i++)
        m->groups[i] = gauge(core, "lacuna_groups", "Worker groups by state.", state_labels[i]);
    for (int i = 0; i < LAC__GROUP_EVENTS; i++)
        m->verdicts[i] =
            counter(core, "lacuna_group_verdicts_total",
                    "State changes of groups by the event that caused them.", verdict_labels[i]);
    m->routed = counter(core, "lacuna_routed_requests_total",
                        "Requests that a row of the table sent to another model.", "");
    m->brownouts = counter(core, "lacuna_brownouts_total", "Times a model became saturated.", "");
    m->brownout = gauge(core, "lacuna_brownout", "Models that are saturated.", "");
    m->browned = counter(core, "lacuna_brownout_requests_total",
                         "Requests that ran as a deeper class than usual because of it.", "");
    for (int i = 0; i < LAC__QUOTAS; i++)
        m->quotas[i] =
            counter(core, "lacuna_quota_refusals_total",
                    "Requests that their tenant's quota or rules did not allow.", quota_labels[i]);
    m->queue_requests = gauge(core, "lacuna_queue_requests", "Requests waiting centrally.", "");
    m->queue_tokens =
        gauge(core, "lacuna_queue_tokens", "Estimated prompt tokens waiting centrally.", "");
    m->running = gauge(core, "lacuna_running_requests", "Requests at a worker group.", "");
    m->given_up = counter(core, "lacuna_streams_given_up_total",
                          "Streams whose clients took not even the word that they end.", "");
    m->ttft = seconds(core, "lacuna_ttft_seconds", "From submit to the first token.");
    m->queue_wait =
        seconds(core, "lacuna_queue_wait_seconds", "From submit to the first dispatch.");
    m->duration = seconds(core, "lacuna_request_seconds", "From submit to the end.");
    m->cached_tokens = counter(core, "lacuna_cached_prompt_tokens_total",
                               "Prompt tokens of them that a group's prefix cache had.", "");
    m->prompt_tokens =
        counter(core, "lacuna_prompt_tokens_total", "Prompt tokens of finished requests.", "");
    m->output_tokens = counter(core, "lacuna_output_tokens_total", "Tokens accepted.", "");
    m->sheds = counter(core, "lacuna_predicted_sheds_total",
                       "Requests refused because they would wait beyond their deadline.", "");
    m->freezes = counter(core, "lacuna_verdict_freezes_total",
                         "Times so many groups vanished at once that none was declared dead.", "");
    m->frozen = gauge(core, "lacuna_verdicts_frozen", "1 while no group is declared dead.", "");
    m->breaker_opens =
        counter(core, "lacuna_breaker_opens_total", "Times a group's breaker opened.", "");
    m->breakers_open = gauge(core, "lacuna_breakers_open", "Groups whose breaker is open.", "");
    m->budget_waits = counter(core, "lacuna_retry_budget_waits_total",
                              "Moved requests that had to wait for the retry budget.", "");
    m->forgiven = counter(core, "lacuna_crash_doubts_forgiven_total",
                          "Requests whose group came back after its connection was lost.", "");
    m->guarded = counter(core, "lacuna_guarded_requests_total",
                         "Requests not moved because their content was near too many deaths.", "");
    m->quarantined = counter(core, "lacuna_quarantine_refusals_total",
                             "Requests refused because their content is in quarantine.", "");
    m->quarantine_size = gauge(core, "lacuna_quarantined_contents", "Contents in quarantine.", "");
    m->duplicates =
        counter(core, "lacuna_duplicates_dropped_total", "Chunks that were taken before.", "");
    m->stale = counter(core, "lacuna_stale_dropped_total",
                       "Output of an old attempt or session, dropped.", "");
    m->fenced =
        counter(core, "lacuna_fenced_frames_total", "Frames of groups declared dead, dropped.", "");
    m->protocol_errors = counter(core, "lacuna_protocol_errors_total",
                                 "Messages that contradict what was agreed.", "");
    m->moves = counter(core, "lacuna_retries_total",
                       "Running requests taken off a group to go on elsewhere.", "");
    m->reregisters =
        counter(core, "lacuna_reregisters_total", "Frames answered by asking for a Hello.", "");
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
