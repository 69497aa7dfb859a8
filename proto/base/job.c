/* Names of what batch jobs and their items can be. Pure. */
#include "base/job.h"

#include <string.h>

#include "base/assert.h"

static const char *const job_states[LAC_JOB_STATES] = {
    [LAC_JOB_FILLING] = "filling",       [LAC_JOB_RUNNING] = "running",
    [LAC_JOB_CANCELLING] = "cancelling", [LAC_JOB_EXPIRING] = "expiring",
    [LAC_JOB_COMPLETED] = "completed",   [LAC_JOB_CANCELLED] = "cancelled",
    [LAC_JOB_EXPIRED] = "expired",       [LAC_JOB_FAILED] = "failed"};

static const char *const item_states[LAC_ITEM_STATES] = {
    [LAC_ITEM_FRESH] = "fresh",        [LAC_ITEM_RETURNED] = "returned",
    [LAC_ITEM_RUNNING] = "running",    [LAC_ITEM_DONE] = "done",
    [LAC_ITEM_FAILED] = "failed",      [LAC_ITEM_EXPIRED] = "expired",
    [LAC_ITEM_CANCELLED] = "cancelled"};

const char *lac_job_state_name(lac_job_state state)
{
    LAC_ASSERT((unsigned)state < LAC_JOB_STATES);
    return job_states[state];
}

const char *lac_item_state_name(lac_item_state state)
{
    LAC_ASSERT((unsigned)state < LAC_ITEM_STATES);
    return item_states[state];
}

const char *lac_job_endpoint_path(lac_job_endpoint end)
{
    return end == LAC_JOB_CHAT         ? "/v1/chat/completions"
           : end == LAC_JOB_COMPLETION ? "/v1/completions"
                                       : "";
}

lac_job_endpoint lac_job_endpoint_of(const char *path)
{
    for (lac_job_endpoint end = LAC_JOB_CHAT; end <= LAC_JOB_COMPLETION; end++)
        if (strcmp(path, lac_job_endpoint_path(end)) == 0)
            return end;
    return (lac_job_endpoint)0;
}

bool lac_job_ended(lac_job_state state)
{
    return state >= LAC_JOB_COMPLETED;
}
