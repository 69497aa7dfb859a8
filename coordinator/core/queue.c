/* Admission and the one central queue: bounded in requests and in estimated prompt tokens, bound to
 * a group as late as possible (so that what waits can still be re-routed, cancelled or refused).
 * Whose turn it is says fair.c. Loop thread. */
#include "state.h"

#include <string.h>

enum {
    LAC__RETRY_MIN_MS = 500,
    LAC__RETRY_MAX_MS = 60000,
    LAC__RETRY_UNKNOWN_MS = 5000,
    LAC__BLOCKED_MS = 10
};

/* ---- the drain rate ---- */

/* What `count` ends take at the rate of the last 10 s; 0 when there was none. */
static uint64_t time_of(const lac_core *core, uint64_t count)
{
    uint64_t ended = lac__rate_sum(&core->ended, core->now_ms, LAC__RATE_SHORT);
    uint64_t span_ms = core->now_ms - core->start_ms;
    if (span_ms > LAC__RATE_SECONDS * 1000)
        span_ms = LAC__RATE_SECONDS * 1000;
    return ended ? count * span_ms / ended : 0;
}

uint32_t lac__queue_retry_ms(const lac_core *core)
{
    uint64_t ms = time_of(core, core->queue.count + 1);
    if (!ms)
        return LAC__RETRY_UNKNOWN_MS;
    if (ms < LAC__RETRY_MIN_MS)
        ms = LAC__RETRY_MIN_MS;
    return ms > LAC__RETRY_MAX_MS ? LAC__RETRY_MAX_MS : (uint32_t)ms;
}

/* ---- admission ---- */

lac_status lac__queue_admit(const lac_core *core, const lac__stream_key *key, uint64_t tokens)
{
    size_t count = core->queue.count - core->batch_queued;
    uint64_t waiting = core->queue_tokens - core->batch_tokens;
    bool full = count >= core->options.queue_max;
    /* One long prompt must be able to wait alone, or it could never be served. */
    if (count && waiting + tokens > core->options.queue_tokens_max)
        full = true;
    if (lac__is_batch(key))
        full = lac__batch_admit(core, tokens) != LAC_OK;
    return full ? LAC_BUSY : LAC_OK;
}

int64_t lac__queue_order_ms(const lac_core *core, int32_t priority)
{
    LAC_ASSERT(priority >= -LAC_PRIORITY_MAX && priority <= LAC_PRIORITY_MAX);
    return (int64_t)core->now_ms - (int64_t)priority * LAC_PRIORITY_MS;
}

uint64_t lac__queue_wait_ms(const lac_core *core, const lac__tenant *tenant, int32_t priority)
{
    return time_of(core, lac__fair_ahead(core, tenant, lac__queue_order_ms(core, priority)));
}

/* ---- dispatch ---- */

static lac_status dispatch(lac_core *core, lac__request *r, lac__group *group)
{
    if (!r->sampling.has_seed) {
        /* Drawn once and kept, so that another group continues with the same numbers. */
        r->sampling.has_seed = true;
        r->sampling.seed = lac_rng_next(&core->rng);
    }
    r->attempt++;
    uint64_t left = r->deadline_ms > core->now_ms ? r->deadline_ms - core->now_ms : 1;
    lac_msg msg = {.body.dispatch = {
                       .request = r->id,
                       .attempt = r->attempt,
                       .dispatch_seq = group->dispatch_seq + 1,
                       .deadline_ms = r->deadline_ms ? (uint32_t)left : 0,
                       .prompt = r->prompt,
                       .accepted_count = r->accepted_count,
                       .accepted = r->accepted_count ? r->accepted : NULL,
                       .sampling = r->sampling,
                       .echo = r->echo && !r->accepted_count && !r->bare_text,
                       .has_class = r->class != NULL,
                       .input_type = lac__path_input(&r->fingerprint),
                       .shadow = r->shadow,
                   }};
    memcpy(msg.body.dispatch.cache_salt, r->tenant->salt, sizeof r->tenant->salt);
    lac__copy_text(msg.body.dispatch.trace, sizeof msg.body.dispatch.trace, r->trace);
    if (r->class)
        msg.body.dispatch.class_digest = r->class->facts.digest;
    lac_status status = lac__group_send(core, group, LAC_MSG_DISPATCH, &msg);
    if (status != LAC_OK)
        return status;
    r->dispatch_seq = ++group->dispatch_seq;
    if (r->moves)
        lac__rate_add(&core->retried, core->now_ms);
    group->dispatched++;
    lac__breaker_dispatched(group, r);
    r->layers = group->layers;
    lac__copy_text(r->last_group, sizeof r->last_group, group->id);
    group->turn = ++core->turns;
    if (r->attempt == 1)
        lac_metric_observe(core->meters.queue_wait,
                           (double)(core->now_ms - r->arrived_ms) / 1000.0);
    lac__record_to_group(core, r, group);
    return LAC_OK;
}

static void explain(const lac_core *core, const lac__request *r)
{
    const lac__choice *c = &r->choice;
    lac__note(core, LAC_LOG_DEBUG,
              "request %llx attempt %u: group %s of %u: score %.4g, next best %.4g; queue %.1f ms, "
              "prefill %.1f ms (%u of %u blocks known%s), own %.1f ms, harm %.1f ms%s",
              (unsigned long long)r->id, r->attempt, r->group->id, c->candidates, c->score,
              c->second, c->cost.queue, c->cost.prefill, c->cost.hit, r->prefix.count,
              c->home ? ", home" : "", c->cost.own, c->cost.harm, c->explored ? ", exploring" : "");
}

/* A group that has its class comes first. What has begun as a class, or must be one, waits for such
 * a group as long as one is READY; what has not yet begun rather runs in full at once. */
static lac__group *find_group(lac_core *core, lac__request *r, lac__choice *choice)
{
    lac__group *group = NULL;
    if (r->class && !lac__class_served(core, r->class) && r->served->ready)
        lac__path_fall(core, r, LAC__FELL_NO_GROUP, "no ready group has it");
    if (r->class)
        group = lac__router_pick(core, r, true, choice);
    if (group || (r->class && (r->accepted_count || r->forced)))
        return group;
    group = lac__router_pick(core, r, false, choice);
    if (group && r->class)
        lac__path_fall(core, r, LAC__FELL_NO_ROOM, "no group that has it had room");
    return group;
}

/* False when there is still no such model, or it may not have it and is gone. */
static bool know_model(lac_core *core, lac__request *r)
{
    r->served = lac__models_named(core, r->model);
    if (!r->served)
        return false;
    if (lac__tenant_may_use(r->tenant, r->served->name)) {
        lac__delivery_flush(core, r); /* the name is known now: ACCEPTED */
        return true;
    }
    r->cause = LAC_CAUSE_DENIED;
    lac__record_refuse(core, r, LAC__OUTCOME_INVALID, LAC_EREFUSED, 0,
                       "model is \"%s\", which tenant \"%s\" may not use", r->served->name,
                       r->tenant->rules.name);
    return false;
}

bool lac__queue_ready(lac_core *core, lac__request *r)
{
    if (!r->served && !know_model(core, r))
        return false;
    if (r->orphan || r->served->blocked)
        return false;
    if (r->deadline_ms && core->now_ms >= r->deadline_ms) {
        lac__record_refuse(core, r, LAC__OUTCOME_DEADLINE, LAC_EDEADLINE, 0,
                           "deadline_ms is %llu, over before a worker was free",
                           (unsigned long long)(r->deadline_ms - r->arrived_ms));
        return false;
    }
    lac__hold hold = lac__recovery_hold(core, r);
    if (hold == LAC__HOLD_GIVE_UP)
        lac__record_refuse(core, r, LAC__OUTCOME_LOST, LAC_BUSY, lac__queue_retry_ms(core),
                           "the budget for retries was spent for %d ms", LAC_RETRY_WAIT_MS);
    return hold == LAC__HOLD_NONE;
}

bool lac__queue_place(lac_core *core, lac__request *r)
{
    if (!r->decided && r->served->ready)
        lac__path_decide(core, r);
    for (;;) {
        lac__choice choice;
        lac__group *group = find_group(core, r, &choice);
        if (!group) {
            /* A suspect waits for a group without one, what began as a class for a group that has
             * it; others need not wait for them. */
            r->served->blocked = !lac__recovery_suspect(r) && !r->class;
            return false;
        }
        lac_status status = dispatch(core, r, group);
        if (status == LAC_OK) {
            r->choice = choice;
            explain(core, r);
            return true;
        }
        if (status == LAC_BUSY || status == LAC_AGAIN) {
            group->blocked_until_ms = core->now_ms + LAC__BLOCKED_MS;
        } else if (!group->lost) {
            /* The message itself cannot be sent: no other group would take it either. */
            lac__record_refuse(core, r, LAC__OUTCOME_ERROR, status, 0,
                               "the request does not fit one message to a worker (%s)",
                               lac_status_name(status));
            return false;
        }
    }
}

void lac__queue_pump(lac_core *core)
{
    if (!core->pump)
        return;
    core->pump = false;
    for (size_t i = 0; i < core->models_count; i++)
        core->models[i].blocked = false;
    lac__fair_pass(core, false);
    lac__fair_pass(core, true);
}
