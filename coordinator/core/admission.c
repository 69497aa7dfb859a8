/* Whether a request is let in: the checks in order, each with its reason and, where waiting helps,
 * its time. Changes nothing but counters. Loop thread. */
#include "state.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/prompt.h"

enum { LAC__STOPPING_MS = 5000, LAC__SHED_MIN_MS = 500, LAC__SHED_MAX_MS = 60000 };

static bool no(lac__refusal *out, lac__outcome outcome, lac_status status, uint32_t retry_after_ms,
               const char *format, ...) __attribute__((format(printf, 5, 6)));
/* Fills `out`; returns false, so that a check can end with it. */
static bool no(lac__refusal *out, lac__outcome outcome, lac_status status, uint32_t retry_after_ms,
               const char *format, ...)
{
    out->outcome = outcome;
    out->status = status;
    out->retry_after_ms = retry_after_ms;
    va_list args;
    va_start(args, format);
    vsnprintf(out->reason, sizeof out->reason, format, args);
    va_end(args);
    return false;
}

static uint64_t submit_tokens(const lac_submit *submit)
{
    return submit->prompt.ids_count + lac_prompt_text_bytes(&submit->prompt) / 4;
}

static bool unknown(const lac_core *core, const char *name, lac__refusal *out)
{
    lac_buf list = {.cap = LAC_REASON_MAX};
    lac__models_list(core, &list);
    no(out, LAC__OUTCOME_INVALID, LAC_ENOTFOUND, 0,
       "model is \"%s\", which no worker serves; there are: %s", name,
       list.length ? list.data : "none just now");
    lac_buf_free(&list);
    return false;
}

/* What is asked for exists and may be tried. */
static bool sensible(lac_core *core, const lac_submit *submit, lac__refusal *out)
{
    if (core->draining)
        return no(out, LAC__OUTCOME_NOBODY, LAC_EREFUSED, LAC__STOPPING_MS,
                  "the coordinator is stopping");
    if (*submit->model && core->models_count && !lac__models_named(core, submit->model))
        return unknown(core, submit->model, out);
    char why[LAC_WHY_MAX + 1];
    lac_status status;
    if (lac__path_refuses(core, submit, why, &status))
        return no(out, LAC__OUTCOME_INVALID, status, 0, "%s", why);
    uint32_t quarantine_ms = lac__poison_quarantined_ms(core, core->facts->content);
    if (!quarantine_ms)
        return true;
    lac_metric_add(core->meters.quarantined, 1);
    return no(out, LAC__OUTCOME_LOST, LAC_EPEER, quarantine_ms,
              "worker groups died while they ran this content; it is not tried for %u s",
              quarantine_ms / 1000);
}

/* There is room for it, and it would be served in time. */
static bool room(lac_core *core, const lac__stream_key *key, const lac__tenant *tenant,
                 const lac_submit *submit, uint64_t tokens, lac__refusal *out)
{
    uint32_t retry_ms = lac__queue_retry_ms(core);
    if (lac__queue_admit(core, key, tokens) != LAC_OK) {
        lac_metric_add(core->meters.shed[LAC__SHED_QUEUE], 1);
        return no(out, LAC__OUTCOME_BUSY, LAC_BUSY, retry_ms,
                  "the queue is full: %zu requests (limit %u), %llu estimated tokens (limit %llu)",
                  core->queue.count, core->options.queue_max,
                  (unsigned long long)core->queue_tokens,
                  (unsigned long long)core->options.queue_tokens_max);
    }
    int32_t priority = lac__tenant_priority(tenant, submit);
    uint64_t wait_ms = submit->deadline_ms ? lac__queue_wait_ms(core, tenant, priority) : 0;
    if (wait_ms > submit->deadline_ms) {
        lac_metric_add(core->meters.sheds, 1);
        lac_metric_add(core->meters.shed[LAC__SHED_DEADLINE], 1);
        uint64_t over_ms = wait_ms - submit->deadline_ms;
        if (over_ms < LAC__SHED_MIN_MS)
            over_ms = LAC__SHED_MIN_MS;
        if (over_ms > LAC__SHED_MAX_MS)
            over_ms = LAC__SHED_MAX_MS;
        return no(out, LAC__OUTCOME_BUSY, LAC_BUSY, (uint32_t)over_ms,
                  "the wait is about %llu ms, deadline_ms is %u", (unsigned long long)wait_ms,
                  submit->deadline_ms);
    }
    if (HASH_COUNT(core->by_id) >= LAC_REQUESTS_MAX - LAC__REFUSALS_KEPT) {
        lac_metric_add(core->meters.shed[LAC__SHED_RECORDS], 1);
        return no(out, LAC__OUTCOME_BUSY, LAC_BUSY, retry_ms,
                  "%d requests are tracked already, which is the limit",
                  LAC_REQUESTS_MAX - LAC__REFUSALS_KEPT);
    }
    if (!lac__record_memory_left(core, tokens * 4)) {
        lac_metric_add(core->meters.shed[LAC__SHED_MEMORY], 1);
        return no(out, LAC__OUTCOME_BUSY, LAC_BUSY, retry_ms,
                  "the memory for requests (%llu bytes) is spent",
                  (unsigned long long)core->options.bytes_max);
    }
    return true;
}

bool lac__admitted(lac_core *core, const lac__stream_key *key, lac__tenant *tenant,
                   const lac_submit *submit, lac__refusal *out)
{
    *out = (lac__refusal){.tenant = tenant};
    if (!tenant)
        return no(out, LAC__OUTCOME_BUSY, LAC_BUSY, LAC__STOPPING_MS,
                  "%d tenants are busy already, which is the limit", LAC_TENANTS_MAX);
    return sensible(core, submit, out) && !lac__tenant_refuses(core, tenant, submit, out) &&
           room(core, key, tenant, submit, submit_tokens(submit), out);
}
