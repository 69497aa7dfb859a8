/* Batch items at the core: counted apart, so that they take nothing of the room that others have in
 * queue and memory. Loop thread. */
#include "core/jobs.h"

#include "state.h"

void lac__batch_queued(lac_core *core, const lac__request *r, int change)
{
    if (!lac__is_batch(&r->key))
        return;
    core->batch_queued += (uint32_t)change;
    core->batch_tokens += (uint64_t)change * r->tokens_estimate;
}

void lac__batch_running(lac_core *core, const lac__request *r, int change)
{
    if (lac__is_batch(&r->key))
        core->batch_running += (uint32_t)change;
}

lac_status lac__batch_admit(const lac_core *core, uint64_t tokens)
{
    bool room = core->batch_queued < LAC_BATCH_QUEUED_MAX &&
                lac__record_memory_left(core, tokens * 4 + core->options.bytes_max / 2);
    return room ? LAC_OK : LAC_BUSY;
}

void lac_core_jobs_load(const lac_core *core, lac_jobs_load *out)
{
    *out = (lac_jobs_load){
        .running = (uint32_t)core->running_count - core->batch_running,
        .waiting = (uint32_t)core->queue.count - core->batch_queued,
        .batch = core->batch_running + core->batch_queued,
    };
    for (const lac__group *g = core->groups_head; g; g = g->next)
        if (g->state == LAC__GROUP_READY)
            out->slots += g->slots;
}
