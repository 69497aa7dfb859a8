/* Every metric of a coordinator, once. /metrics, the alert rules, the dashboards and the tests are
 * all made from these lines: a new metric is a line here and lac_metrics_get(metrics, LAC_M_ID, …)
 * where it is counted; then `python3 ops/metrics.py` writes the dashboards anew.
 *
 * X(ID, KIND, NAME, LABELS, SERIES_MAX, PANEL, HELP)
 *   KIND       COUNTER (its name ends in _total), GAUGE, or a histogram by its bounds in seconds:
 *              LONG (5 ms … 10 min), SHORT (1 ms … 10 s)
 *   LABELS     the keys each of its series has, in that order, with commas; "" = none
 *   SERIES_MAX how many series it may have; what is beyond is counted by lacuna_metrics_overflow_total
 *   PANEL      the part of the dashboard it is drawn in: SERVING, QUEUE, PATHS, CLASSES, GROUPS,
 *              GUARDS, FAULTS, JOBS, FLEET, HTTP, PROCESS
 * Labels are never a client's own text, and never a request. Lines keep to one line each: scripts
 * read them. */
#ifndef LAC_BASE_METRIC_LIST_H
#define LAC_BASE_METRIC_LIST_H

/* clang-format off */
#define LAC_METRIC_LIST(X) \
X(REQUESTS, COUNTER, "lacuna_requests_total", "outcome", 16, SERVING, "Requests by how they ended.") \
X(TTFT, LONG, "lacuna_ttft_seconds", "", 1, SERVING, "From submit to the first token.") \
X(ITL, SHORT, "lacuna_itl_seconds", "", 1, SERVING, "Between two tokens of a request, as they come in.") \
X(DURATION, LONG, "lacuna_request_seconds", "", 1, SERVING, "From submit to the end.") \
X(OUTPUT_TOKENS, COUNTER, "lacuna_output_tokens_total", "", 1, SERVING, "Tokens accepted.") \
X(PROMPT_TOKENS, COUNTER, "lacuna_prompt_tokens_total", "", 1, SERVING, "Prompt tokens of finished requests.") \
X(CACHED_TOKENS, COUNTER, "lacuna_cached_prompt_tokens_total", "", 1, SERVING, "Prompt tokens of them that a group's prefix cache had.") \
X(RUNNING, GAUGE, "lacuna_running_requests", "", 1, SERVING, "Requests at a worker group.") \
X(BY_TYPE, COUNTER, "lacuna_requests_by_type_total", "type", 8, SERVING, "Requests admitted, by the type of their input.") \
X(BY_TASK, COUNTER, "lacuna_requests_by_task_total", "task", 8, SERVING, "Requests admitted, by the task their words name.") \
\
X(QUEUE_REQUESTS, GAUGE, "lacuna_queue_requests", "", 1, QUEUE, "Requests waiting centrally.") \
X(QUEUE_TOKENS, GAUGE, "lacuna_queue_tokens", "", 1, QUEUE, "Estimated prompt tokens waiting centrally.") \
X(QUEUE_WAIT, LONG, "lacuna_queue_wait_seconds", "", 1, QUEUE, "From submit to the first dispatch.") \
X(SHEDS, COUNTER, "lacuna_sheds_total", "reason", 16, QUEUE, "Requests refused to keep the rest served, by reason.") \
X(PREDICTED_SHEDS, COUNTER, "lacuna_predicted_sheds_total", "", 1, QUEUE, "Requests refused because they would wait beyond their deadline.") \
X(QUOTAS, COUNTER, "lacuna_quota_refusals_total", "quota", 8, QUEUE, "Requests that their tenant's quota or rules did not allow.") \
X(ROUTED, COUNTER, "lacuna_routed_requests_total", "", 1, QUEUE, "Requests that a row of the table sent to another model.") \
X(BROWNOUTS, COUNTER, "lacuna_brownouts_total", "", 1, QUEUE, "Times a model became saturated.") \
X(BROWNOUT, GAUGE, "lacuna_brownout", "", 1, QUEUE, "Models that are saturated.") \
X(BROWNED, COUNTER, "lacuna_brownout_requests_total", "", 1, QUEUE, "Requests that ran as a deeper class than usual because of it.") \
X(GIVEN_UP, COUNTER, "lacuna_streams_given_up_total", "", 1, QUEUE, "Streams whose clients took not even the word that they end.") \
\
X(ECR, GAUGE, "lacuna_path_ecr", "", 1, PATHS, "Executed over expected: erased unit-tokens over those the chosen classes promised, last 5 min; NaN = nothing to judge by.") \
X(PES, GAUGE, "lacuna_path_pes", "", 1, PATHS, "Path efficiency: time saved over time predicted, last 5 min; NaN = nothing to judge by.") \
X(PSR, GAUGE, "lacuna_path_psr", "", 1, PATHS, "Path success: requests served under their chosen class without fallback or error, last 5 min; NaN = nothing to judge by.") \
X(PATH_SKIP_RATE, GAUGE, "lacuna_path_skip_rate", "", 1, PATHS, "Requests that ran as a class, of those eligible.") \
X(PATH_SKIP_NOW, GAUGE, "lacuna_path_skip_rate_now", "", 1, PATHS, "The same over the last 5 min, of all requests; NaN = nothing to judge by.") \
X(PATH_LAYERS_NOW, GAUGE, "lacuna_path_skipped_layers", "", 1, PATHS, "Mean layers a request left out, last 5 min; NaN = nothing to judge by.") \
X(PATH_CHANGED, GAUGE, "lacuna_path_type_changed", "type", 8, PATHS, "1 = requests of that type moved the path skip rate or the mean skipped layers out of its band.") \
X(CHECK, GAUGE, "lacuna_check", "check", 32, PATHS, "1 = in order, 0 = not, NaN = nothing to judge by.") \
X(CHECK_CAUSE, GAUGE, "lacuna_check_cause", "check,cause", 96, PATHS, "1 = what a check that is not in order blames.") \
X(ELIGIBLE, COUNTER, "lacuna_path_eligible_total", "", 1, PATHS, "Requests for whose type some class is certified.") \
X(MASKED, COUNTER, "lacuna_path_masked_total", "", 1, PATHS, "Of them those that ran as a class to their end.") \
X(CHOSEN, COUNTER, "lacuna_path_chosen_total", "", 1, PATHS, "Requests that a class was chosen for.") \
X(SERVED, COUNTER, "lacuna_path_served_total", "", 1, PATHS, "Of them those that ended well under that class.") \
X(FELL, COUNTER, "lacuna_class_fallbacks_total", "reason", 8, PATHS, "Requests that went on in full, by reason.") \
X(HINTS_GIVEN, COUNTER, "lacuna_hints_total", "reason", 8, PATHS, "Hints of clients, by what became of them.") \
X(PATH_DURATION, LONG, "lacuna_path_request_seconds", "model,class", 64, PATHS, "From submit to a good end, by the class that ran.") \
X(PATH_ITL, SHORT, "lacuna_path_itl_seconds", "model,class", 64, PATHS, "Mean time between the tokens of a request, by the class that ran.") \
\
X(CLASS_REQUESTS, COUNTER, "lacuna_class_requests_total", "model,class", 256, CLASSES, "Requests that ended, by the class they ran as.") \
X(CLASS_TOKENS, COUNTER, "lacuna_class_tokens_total", "model,class", 256, CLASSES, "Output tokens, by the class they were made as.") \
X(ABANDONED, COUNTER, "lacuna_abandoned_total", "class,arm", 128, CLASSES, "Requests whose client left after the first token and before the end.") \
X(FEEDBACK, COUNTER, "lacuna_feedback_total", "class,arm,verdict", 256, CLASSES, "What clients said of answers.") \
X(CLASS_ACTIVE_LAYERS, GAUGE, "lacuna_class_active_layers", "model,class", 256, CLASSES, "Layers of which a class runs at least one unit.") \
X(CLASS_SKIP_RATE, GAUGE, "lacuna_class_skip_rate", "model,class", 256, CLASSES, "Units a class leaves out, of all.") \
X(CLASS_COST_SKIP_RATE, GAUGE, "lacuna_class_cost_skip_rate", "model,class", 256, CLASSES, "The same, weighed by cost.") \
X(CLASS_KV_SAVED, COUNTER, "lacuna_class_kv_saved_bytes_total", "model,class", 256, CLASSES, "Keys and values that requests did not keep because their class leaves attention out.") \
\
X(GROUPS, GAUGE, "lacuna_groups", "state", 8, GROUPS, "Worker groups by state.") \
X(GROUP_RUNNING, GAUGE, "lacuna_group_running_requests", "group", 256, GROUPS, "Requests at a group.") \
X(GROUP_QUEUED, GAUGE, "lacuna_group_queued_requests", "group", 256, GROUPS, "Requests a group has not begun.") \
X(GROUP_SLOTS, GAUGE, "lacuna_group_slots", "group", 256, GROUPS, "Sequences a group runs at once.") \
X(GROUP_KV_USED, GAUGE, "lacuna_group_kv_used_ratio", "group", 256, GROUPS, "Key-value pages in use, of all.") \
X(GROUP_ITL, GAUGE, "lacuna_group_itl_seconds", "group", 256, GROUPS, "Smoothed time between tokens, as the group reports it.") \
X(GROUP_HEARTBEAT_AGE, GAUGE, "lacuna_group_heartbeat_age_seconds", "group", 256, GROUPS, "Since a group was last heard of.") \
X(GROUP_ACTIVE_LAYERS, GAUGE, "lacuna_group_active_layers", "group", 256, GROUPS, "Layers a group's last step ran.") \
X(GROUP_TOKENS, COUNTER, "lacuna_group_tokens_total", "group", 256, GROUPS, "Output tokens of a group since it started.") \
X(GROUP_CLASS_RUNNING, GAUGE, "lacuna_group_class_running_requests", "group,class", 1024, GROUPS, "Requests at a group, by class.") \
X(GROUP_CLASS_REQUESTS, COUNTER, "lacuna_group_class_requests_total", "group,class", 1024, GROUPS, "Requests a group ended, by class.") \
X(GROUP_CLASS_TOKENS, COUNTER, "lacuna_group_class_tokens_total", "group,class", 1024, GROUPS, "Rows a group ran, by class.") \
X(GROUP_CLASS_SKIP_RATE, GAUGE, "lacuna_group_class_skip_rate", "group,class", 1024, GROUPS, "Units left out, of all, by group and class.") \
X(GROUP_CLASS_COST_SKIP_RATE, GAUGE, "lacuna_group_class_cost_skip_rate", "group,class", 1024, GROUPS, "The same, weighed by cost.") \
\
X(GUARDS, GAUGE, "lacuna_guards", "state", 8, GUARDS, "Guards of a class and a type, by state.") \
X(GUARD_CHANGES, COUNTER, "lacuna_guard_changes_total", "state", 8, GUARDS, "Times a guard changed its state, by the new one.") \
X(GUARD_EVIDENCE, GAUGE, "lacuna_guard_evidence", "model,class,type", 256, GUARDS, "The e-process of a class and a type; it trips at 10000.") \
X(GUARD_TRIPS, COUNTER, "lacuna_guard_trips_total", "model,class,type", 256, GUARDS, "Times the guard of a class and a type tripped.") \
X(GUARD_SCORES, COUNTER, "lacuna_guard_scores_total", "model,class,type", 256, GUARDS, "Requests of a class and a type scored again in full.") \
X(SHADOWS, COUNTER, "lacuna_shadow_scores_total", "", 1, GUARDS, "Requests scored again in full.") \
X(RERUNS, COUNTER, "lacuna_group_reruns_total", "group", 256, GUARDS, "Requests a class failed on and a group ran again in full.") \
\
X(VERDICTS, COUNTER, "lacuna_group_verdicts_total", "event", 16, FAULTS, "State changes of groups by the event that caused them.") \
X(FREEZES, COUNTER, "lacuna_verdict_freezes_total", "", 1, FAULTS, "Times so many groups vanished at once that none was declared dead.") \
X(FROZEN, GAUGE, "lacuna_verdicts_frozen", "", 1, FAULTS, "1 while no group is declared dead.") \
X(BREAKER_OPENS, COUNTER, "lacuna_breaker_opens_total", "", 1, FAULTS, "Times a group's breaker opened.") \
X(BREAKERS_OPEN, GAUGE, "lacuna_breakers_open", "", 1, FAULTS, "Groups whose breaker is open.") \
X(RETRIES, COUNTER, "lacuna_retries_total", "", 1, FAULTS, "Running requests taken off a group to go on elsewhere.") \
X(BUDGET_WAITS, COUNTER, "lacuna_retry_budget_waits_total", "", 1, FAULTS, "Moved requests that had to wait for the retry budget.") \
X(FORGIVEN, COUNTER, "lacuna_crash_doubts_forgiven_total", "", 1, FAULTS, "Requests whose group came back after its connection was lost.") \
X(GUARDED, COUNTER, "lacuna_guarded_requests_total", "", 1, FAULTS, "Requests not moved because their content was near too many deaths.") \
X(QUARANTINED, COUNTER, "lacuna_quarantine_refusals_total", "", 1, FAULTS, "Requests refused because their content is in quarantine.") \
X(QUARANTINE_SIZE, GAUGE, "lacuna_quarantined_contents", "", 1, FAULTS, "Contents in quarantine.") \
X(DUPLICATES, COUNTER, "lacuna_duplicates_dropped_total", "", 1, FAULTS, "Chunks that were taken before.") \
X(STALE, COUNTER, "lacuna_stale_dropped_total", "", 1, FAULTS, "Output of an old attempt or session, dropped.") \
X(FENCED, COUNTER, "lacuna_fenced_frames_total", "", 1, FAULTS, "Frames of groups declared dead, dropped.") \
X(PROTOCOL_ERRORS, COUNTER, "lacuna_protocol_errors_total", "", 1, FAULTS, "Messages that contradict what was agreed.") \
X(REREGISTERS, COUNTER, "lacuna_reregisters_total", "", 1, FAULTS, "Frames answered by asking for a Hello.") \
X(BAD_FRAMES, COUNTER, "lacuna_bad_frames_total", "plane", 4, FAULTS, "Frames that did not decode.") \
X(IGNORED_FRAMES, COUNTER, "lacuna_ignored_frames_total", "plane", 4, FAULTS, "Frames of connections that sent too many bad ones.") \
X(SEND_BUSY, COUNTER, "lacuna_send_busy_total", "plane", 4, FAULTS, "Sends that found the peer's queue full.") \
X(DENIED_MESSAGES, COUNTER, "lacuna_denied_messages_total", "plane", 4, FAULTS, "Messages that their sender's key does not allow.") \
X(REFUSED_KEYS, GAUGE, "lacuna_refused_keys", "", 1, FAULTS, "Handshakes of keys that are not let in.") \
\
X(BATCH_IN_FLIGHT, GAUGE, "lacuna_batch_in_flight", "", 1, JOBS, "Batch items at the core.") \
X(BATCH_ATTEMPTS, COUNTER, "lacuna_batch_attempts_total", "", 1, JOBS, "Attempts at batch items.") \
X(BATCH_TAKEN_BACK, COUNTER, "lacuna_batch_taken_back_total", "", 1, JOBS, "Batch items stopped because interactive requests waited.") \
X(JOBS_LIVE, GAUGE, "lacuna_jobs_live", "", 1, JOBS, "Batch jobs that have not ended.") \
X(JOB_ITEMS_WAITING, GAUGE, "lacuna_job_items_waiting", "", 1, JOBS, "Items of live batch jobs that wait.") \
X(JOB_ITEMS_RUNNING, GAUGE, "lacuna_job_items_running", "", 1, JOBS, "Items of live batch jobs that are leased.") \
X(JOB_ITEM_ENDS, COUNTER, "lacuna_job_item_ends_total", "state", 8, JOBS, "Ends of attempts at batch items, by what became of the item.") \
X(STORE_COMMIT, SHORT, "lacuna_store_commit_seconds", "", 1, JOBS, "Transactions of the job store, until they are on disk.") \
X(STORE_WRITES, COUNTER, "lacuna_store_writes_total", "", 1, JOBS, "Calls that those transactions held.") \
X(STORE_FAILURES, COUNTER, "lacuna_store_failures_total", "", 1, JOBS, "Transactions that the disk refused.") \
X(STORE_WRITABLE, GAUGE, "lacuna_store_writable", "", 1, JOBS, "1 while the disk takes new batch jobs.") \
\
X(FLEET_WANTED, GAUGE, "lacuna_fleet_groups_wanted", "", 1, FLEET, "Groups the launcher is asked for.") \
X(FLEET_NEEDED, GAUGE, "lacuna_fleet_groups_needed", "", 1, FLEET, "Groups by the scaler's formula, before windows.") \
X(FLEET_STARTS, COUNTER, "lacuna_fleet_starts_total", "", 1, FLEET, "Groups ordered from the launcher.") \
X(FLEET_BAD_STARTS, COUNTER, "lacuna_fleet_bad_starts_total", "", 1, FLEET, "Groups that did not come up or did not last.") \
X(SCALER_DECISIONS, COUNTER, "lacuna_scaler_decisions_total", "reason", 16, FLEET, "Decisions of the autoscaler by reason.") \
\
X(HTTP_CONNECTIONS, GAUGE, "lacuna_http_connections", "", 1, HTTP, "HTTP connections open.") \
X(HTTP_CONNECTIONS_TOTAL, COUNTER, "lacuna_http_connections_total", "", 1, HTTP, "HTTP connections accepted.") \
X(HTTP_REQUESTS, COUNTER, "lacuna_http_requests_total", "route,code", 256, HTTP, "HTTP requests answered, by route and status.") \
X(HTTP_DISCONNECTS, COUNTER, "lacuna_http_disconnects_total", "why", 16, HTTP, "HTTP requests that ended early, by cause.") \
X(HTTP_RECEIVED, COUNTER, "lacuna_http_received_bytes_total", "", 1, HTTP, "Bytes read from HTTP clients.") \
X(HTTP_SENT, COUNTER, "lacuna_http_sent_bytes_total", "", 1, HTTP, "Bytes written to HTTP clients.") \
X(HTTP_DENIED, COUNTER, "lacuna_http_denied_total", "", 1, HTTP, "Requests without a known API key.") \
\
X(TLS_HANDSHAKES, COUNTER, "lacuna_tls_handshakes_total", "result", 4, HTTP, "TLS handshakes, by end.") \
X(TLS_EXPIRES, GAUGE, "lacuna_tls_certificate_expires_seconds", "", 1, HTTP, "When the certificate ends, in seconds since 1970.") \
X(LOOP_LAG, SHORT, "lacuna_loop_lag_seconds", "", 1, PROCESS, "How late the loop's timer came.") \
X(RSS, GAUGE, "process_resident_memory_bytes", "", 1, PROCESS, "Resident memory.") \
X(UPTIME, GAUGE, "lacuna_uptime_seconds", "", 1, PROCESS, "Since the start.") \
X(BUILD_INFO, GAUGE, "lacuna_build_info", "version", 1, PROCESS, "The running version.") \
X(EPOCH, GAUGE, "lacuna_epoch", "", 1, PROCESS, "The start count.") \
X(RECORDED, COUNTER, "lacuna_recorded_events_total", "", 1, PROCESS, "Events of the core the flight recorder took.") \
X(LOG_SUPPRESSED, COUNTER, "lacuna_log_suppressed_total", "", 1, PROCESS, "Log lines left out by the rate limit.") \
X(OVERFLOW, COUNTER, "lacuna_metrics_overflow_total", "", 1, PROCESS, "Updates of series that found no room in the registry.")
/* clang-format on */

typedef enum {
#define LAC_METRIC_ID(id, kind, name, labels, max, panel, help) LAC_M_##id,
    LAC_METRIC_LIST(LAC_METRIC_ID)
#undef LAC_METRIC_ID
        LAC_M_COUNT
} lac_metric_id;

#endif
