/* The rules of batch work, as core/jobs.h promises them. Pure. */
#include "core/jobs.h"

#include "base/limits.h"

enum { STARTING_SHARE = 4 };

int32_t lac_jobs_room(double share, const lac_jobs_load *load)
{
    uint64_t busy = (uint64_t)load->running + load->waiting;
    if (!load->slots)
        return share > 0 && !load->batch ? 1 : 0;
    uint64_t spare = load->slots > busy ? load->slots - busy : 0;
    uint64_t allowed = (uint64_t)(share * (double)spare);
    /* A small share of a small idle fleet is still one slot, or jobs would never end. */
    if (!allowed && share > 0 && !busy)
        allowed = 1;
    if (allowed > LAC_JOBS_IN_FLIGHT_MAX)
        allowed = LAC_JOBS_IN_FLIGHT_MAX;
    if (allowed >= load->batch) {
        uint64_t room = allowed - load->batch, start = load->slots / STARTING_SHARE;
        start = start ? start : 1;
        start = start > load->starting ? start - load->starting : 0;
        return (int32_t)(room < start ? room : start);
    }
    uint64_t over = load->batch - allowed;
    return -(int32_t)(over < load->waiting ? over : load->waiting);
}

static bool before(const lac_jobs_candidate *a, const lac_jobs_candidate *b)
{
    if (a->priority != b->priority)
        return a->priority > b->priority;
    if (a->deadline_ms != b->deadline_ms)
        return b->deadline_ms == 0 || (a->deadline_ms != 0 && a->deadline_ms < b->deadline_ms);
    return a->served < b->served;
}

size_t lac_jobs_next(const lac_jobs_candidate *candidates, size_t count)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (before(&candidates[i], &candidates[best]))
            best = i;
    return count ? best : 0;
}

/* Doubles with each attempt. */
static int64_t rest_ms(uint32_t attempts)
{
    int64_t ms = LAC_JOB_RETRY_MS;
    for (uint32_t i = 1; i < attempts && ms < LAC_JOB_RETRY_MAX_MS; i++)
        ms *= 2;
    return ms < LAC_JOB_RETRY_MAX_MS ? ms : LAC_JOB_RETRY_MAX_MS;
}

lac_jobs_verdict lac_jobs_after(lac_status error, uint32_t attempts, uint32_t attempts_max,
                                int64_t now_ms, int64_t deadline_ms, int64_t *not_before_ms)
{
    bool late = deadline_ms && now_ms >= deadline_ms;
    switch (error) {
    /* Full, or nobody serves it: no worker has seen it. */
    case LAC_AGAIN:
    case LAC_BUSY:
    case LAC_EREFUSED:
        if (late)
            return LAC_JOBS_EXPIRE;
        *not_before_ms = now_ms + LAC_JOB_RETRY_MS;
        return LAC_JOBS_REFUND;
    case LAC_ECANCELLED: return LAC_JOBS_CANCEL;
    /* The request itself is at fault: it would fail again. */
    case LAC_EINVAL:
    case LAC_ENOTFOUND:
    case LAC_EUNSUPPORTED:
    case LAC_ETOOBIG:
    case LAC_EEXIST: return LAC_JOBS_FAIL;
    /* The attempt is: it took too long, or what ran it is gone. */
    default:
        if (late)
            return LAC_JOBS_EXPIRE;
        if (attempts >= attempts_max)
            return LAC_JOBS_FAIL;
        *not_before_ms = now_ms + rest_ms(attempts);
        return LAC_JOBS_AGAIN;
    }
}

bool lac_jobs_lease_over(uint64_t epoch, uint64_t own_epoch, int64_t until_ms, int64_t now_ms)
{
    return epoch != own_epoch || now_ms >= until_ms;
}

lac_jobs_verdict lac_jobs_after_lease(uint32_t attempts, uint32_t attempts_max)
{
    return attempts >= attempts_max ? LAC_JOBS_FAIL : LAC_JOBS_AGAIN;
}

int64_t lac_jobs_lease_until(int64_t now_ms, int64_t deadline_ms)
{
    int64_t until = now_ms + LAC_JOB_LEASE_MS;
    return deadline_ms && deadline_ms < until ? deadline_ms : until;
}
