/* A breaker for each group: after LAC_BREAKER_FAILURES failed requests in a row it gets none for
 * LAC_BREAKER_OPEN_MS, then exactly one at a time, and all again after LAC_BREAKER_SUCCESSES good
 * ends. What the client asked wrongly is no failure. Loop thread. */
#include "state.h"

bool lac__breaker_admits(const lac_core *core, const lac__group *group)
{
    const lac__breaker *b = &group->breaker;
    if (!b->open)
        return true;
    if (core->now_ms < b->until_ms)
        return false;
    /* Half open: one, and while it runs no other. */
    const lac__request *probe = b->probe ? lac__record_by_id(core, b->probe) : NULL;
    return !probe || probe->state != LAC__REQUEST_RUNNING || probe->group != group;
}

void lac__breaker_dispatched(lac__group *group, const lac__request *request)
{
    if (group->breaker.open)
        group->breaker.probe = request->id;
}

void lac__breaker_failed(lac_core *core, lac__group *group)
{
    lac__breaker *b = &group->breaker;
    b->successes = 0;
    if (b->open && core->now_ms < b->until_ms)
        return; /* it was running when the breaker opened */
    if (!b->open && ++b->failures < LAC_BREAKER_FAILURES)
        return;
    b->open = true;
    b->probe = 0;
    b->until_ms = core->now_ms + LAC_BREAKER_OPEN_MS;
    lac_metric_add(core->meters.breaker_opens, 1);
    lac__note(core, LAC_LOG_WARN, "group %s: breaker open after %u failures, next try in %d s",
              group->id, b->failures, LAC_BREAKER_OPEN_MS / 1000);
}

void lac__breaker_succeeded(lac_core *core, lac__group *group)
{
    lac__breaker *b = &group->breaker;
    b->failures = 0;
    if (!b->open || core->now_ms < b->until_ms)
        return;
    core->pump = true;
    if (++b->successes < LAC_BREAKER_SUCCESSES)
        return;
    *b = (lac__breaker){0};
    lac__note(core, LAC_LOG_INFO, "group %s: breaker closed", group->id);
}

bool lac__breaker_counts(lac_status error)
{
    switch (error) {
    case LAC_EPEER:
    case LAC_EPROTO:
    case LAC_ECORRUPT:
    case LAC_EIO:
    case LAC_ENOMEM:
    case LAC_EINTERNAL:
    case LAC_OK: return true; /* an error without a status is one too */
    default: return false;
    }
}
