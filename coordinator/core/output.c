/* What workers produce. Each position of a stream is taken once: from the present attempt, on the
 * group that has it, at the position that comes next. Everything else is dropped and counted. Loop
 * thread. */
#include "state.h"

enum { LAC__WORKER_BUSY_MS = 50 };

void lac__output_cancel(lac_core *core, lac__group *group, uint64_t request, uint32_t attempt)
{
    lac_msg msg = {.body.cancel = {.request = request, .attempt = attempt}};
    /* One that does not get through is repeated when output for it comes in. */
    lac__group_send(core, group, LAC_MSG_CANCEL, &msg);
}

static void protocol_error(lac_core *core, lac__rank *rank, lac__request *r, const char *what)
{
    rank->protocol_errors++;
    lac_metric_add(core->meters.protocol_errors, 1);
    lac__breaker_failed(core, rank->group);
    lac__note(core, LAC_LOG_WARN, "group %s: request %llx attempt %u: %s", rank->group->id,
              (unsigned long long)r->id, r->attempt, what);
    lac__recovery_move(core, r, LAC__BLAME_NONE, what);
    if (rank->protocol_errors >= LAC_PROTOCOL_ERRORS_MAX)
        lac__group_step(core, rank->group, LAC__GROUP_FAULT, "too many protocol errors");
}

typedef enum { FRESH, DUPLICATE, NONSENSE } freshness;

static freshness judge(const lac__request *r, const lac_step_item *item, const char **what)
{
    const lac_chunk *c = &item->chunk;
    uint64_t next = r->accepted_count, end = (uint64_t)c->first_pos + c->tokens_count;
    if (c->first_pos > next) {
        *what = "a position is missing";
        return NONSENSE;
    }
    if (c->first_pos < next) {
        *what = "a repeated chunk reaches beyond what was taken";
        bool reaches = end > next || (item->finish != LAC_FINISH_NONE && end < next);
        return reaches ? NONSENSE : DUPLICATE;
    }
    if (r->sampling.max_tokens && end > r->sampling.max_tokens) {
        *what = "more tokens than max_tokens";
        return NONSENSE;
    }
    bool bare = !c->tokens_count && c->text.length && item->finish == LAC_FINISH_NONE;
    if (bare && r->bare_text && r->bare_pos == next)
        return DUPLICATE;
    return FRESH;
}

/* False when the record is gone. */
static bool take_chunk(lac_core *core, lac__request *r, const lac_chunk *chunk)
{
    if (chunk->tokens_count && !r->accepted_count)
        lac_metric_observe(core->meters.ttft, (double)(core->now_ms - r->arrived_ms) / 1000.0);
    if (chunk->text.length && !chunk->tokens_count) {
        r->bare_text = true;
        r->bare_pos = r->accepted_count;
    }
    bool suspect = lac__recovery_suspect(r);
    lac__sight_tokens(core, r, chunk->tokens_count);
    if (!lac__record_accept(core, r, chunk->tokens, chunk->tokens_count)) {
        lac__record_refuse(core, r, LAC__OUTCOME_ERROR, LAC_ENOMEM, lac__queue_retry_ms(core),
                           "the coordinator's memory for answers (%llu bytes) is spent",
                           (unsigned long long)core->options.bytes_max);
        return false;
    }
    if (chunk->tokens_count)
        lac__router_discharge(r);
    if (suspect && !lac__recovery_suspect(r))
        core->pump = true; /* the next suspect may go there */
    if (!lac__delivery_chunk(core, r, chunk)) {
        lac__record_refuse(core, r, LAC__OUTCOME_CANCEL, LAC_ETOOBIG, 0,
                           "more than %d bytes of answer wait for the client",
                           LAC_PENDING_TEXT_MAX);
        return false;
    }
    return true;
}

static void take_error(lac_core *core, lac__rank *rank, lac__request *r, const lac_step_item *item)
{
    if (lac__breaker_counts(item->error))
        lac__breaker_failed(core, rank->group);
    switch (item->error) {
    case LAC_BUSY:
    case LAC_AGAIN:
        /* Its pool is full just now although its window was not. */
        rank->group->blocked_until_ms = core->now_ms + LAC__WORKER_BUSY_MS;
        lac__recovery_move(core, r, LAC__BLAME_NONE, "the worker was full");
        break;
    case LAC_ECANCELLED:
        lac__recovery_move(core, r, LAC__BLAME_NONE, "the worker gave it up");
        break;
    case LAC_EDEADLINE:
        lac__record_refuse(core, r, LAC__OUTCOME_DEADLINE, LAC_EDEADLINE, 0, "%s", item->reason);
        break;
    default:
        lac__record_refuse(core, r, LAC__OUTCOME_ERROR,
                           item->error == LAC_OK ? LAC_EINTERNAL : item->error, 0, "%s",
                           item->reason);
        break;
    }
}

static void take_finish(lac_core *core, lac__request *r, const lac_step_item *item)
{
    if (item->finish == LAC_FINISH_CANCEL) {
        /* We did not ask for it, or the record would be gone. */
        lac__recovery_move(core, r, LAC__BLAME_NONE, "the worker gave it up");
        return;
    }
    r->usage = item->usage;
    if (r->attempt > 1 && r->usage.completion_tokens < r->accepted_count)
        r->usage.completion_tokens = r->accepted_count;
    lac__breaker_succeeded(core, r->group);
    lac__router_learn(core, r->accepted_count);
    lac__poison_finished(core, r->content);
    lac__record_finish(core, r, item->finish);
}

static void take_item(lac_core *core, lac__rank *rank, const lac_step_item *item)
{
    lac__request *r = lac__record_by_id(core, item->request);
    if (!r || r->state != LAC__REQUEST_RUNNING || r->group != rank->group ||
        r->attempt != item->attempt) {
        lac_metric_add(core->meters.stale, 1);
        if (item->finish == LAC_FINISH_NONE)
            lac__output_cancel(core, rank->group, item->request, item->attempt);
        return;
    }
    if (item->account)
        lac__path_reported(core, r, item->account);
    if (item->finish == LAC_FINISH_ERROR) {
        take_error(core, rank, r, item);
        return;
    }
    const char *what = NULL;
    switch (judge(r, item, &what)) {
    case NONSENSE: protocol_error(core, rank, r, what); return;
    case DUPLICATE: lac_metric_add(core->meters.duplicates, 1); break;
    case FRESH:
        if (!take_chunk(core, r, &item->chunk))
            return;
        break;
    }
    if (item->finish != LAC_FINISH_NONE)
        take_finish(core, r, item);
}

void lac__output_step(lac_core *core, lac__rank *rank, const lac_step_output *output)
{
    lac__group *group = rank->group;
    for (uint32_t i = 0; i < output->items_count && lac__group_living(group); i++)
        take_item(core, rank, &output->items[i]);
}
