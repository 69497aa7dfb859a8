/* What clients ask, native ones and the HTTP front end alike: submit, cancel, credit, status.
 * Answers either with a record in the queue or with REFUSED that says why. Loop thread. */
#include "base/prompt.h"
#include "state.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Of the records, those kept for refusals that find their client's queue full. */
enum { LAC__REFUSALS_KEPT = LAC_REQUESTS_MAX / 16 };

static lac__stream_key key_of(lac_plane plane, uint64_t peer, uint64_t stream)
{
    return (lac__stream_key){.plane = plane, .peer = peer, .stream = stream};
}

typedef struct {
    lac__outcome outcome;
    lac_status status;
    uint32_t retry_after_ms;
} refusal;

/* A refusal without a record. When the client's queue is full just now it gets one after all, so
 * that its stream does end. `stream` 0: the message as a whole, no stream of its ends. */
static void refuse(lac_core *core, const lac__stream_key *key, refusal why, const char *format, ...)
{
    lac_msg msg = {.body.refused = {.stream = key->stream,
                                    .status = why.status,
                                    .retry_after_ms = why.retry_after_ms}};
    va_list args;
    va_start(args, format);
    vsnprintf(msg.body.refused.reason, sizeof msg.body.refused.reason, format, args);
    va_end(args);
    lac_status sent = lac__send(core, (lac_plane)key->plane, key->peer, 0, LAC_MSG_REFUSED, &msg);
    bool later = (sent == LAC_BUSY || sent == LAC_AGAIN) && key->stream;
    bool room = HASH_COUNT(core->by_id) < LAC_REQUESTS_MAX;
    lac_submit empty = {.stream = key->stream};
    lac__request *r = later && room ? lac__record_create(core, key, &empty) : NULL;
    if (later && !r)
        lac__stream_given_up(core, key, "its refusal finds the queue full and no record is left");
    if (!r) {
        core->requests_total += key->stream != 0;
        lac_metric_add(core->meters.requests[why.outcome], 1);
        return;
    }
    lac__record_refuse(core, r, why.outcome, why.status, why.retry_after_ms, "%s",
                       msg.body.refused.reason);
}

static uint64_t submit_tokens(const lac_submit *submit)
{
    return submit->prompt.ids_count + lac_prompt_text_bytes(&submit->prompt) / 4;
}

static bool admitted(lac_core *core, const lac__stream_key *key, const lac_submit *submit)
{
    if (core->draining) {
        refuse(core, key, (refusal){LAC__OUTCOME_NOBODY, LAC_EREFUSED, 5000},
               "the coordinator is stopping");
        return false;
    }
    if (*submit->model && core->models_count && !lac__registry_model(core, submit->model)) {
        refuse(core, key, (refusal){LAC__OUTCOME_INVALID, LAC_ENOTFOUND, 0},
               "model is \"%s\", which no worker serves", submit->model);
        return false;
    }
    char why[LAC_WHY_MAX + 1];
    lac_status no;
    if (lac__path_refuses(core, submit, why, &no)) {
        refuse(core, key, (refusal){LAC__OUTCOME_INVALID, no, 0}, "%s", why);
        return false;
    }
    uint32_t quarantine_ms = lac__poison_quarantined_ms(core, lac__poison_content(core, submit));
    if (quarantine_ms) {
        lac_metric_add(core->meters.quarantined, 1);
        refuse(core, key, (refusal){LAC__OUTCOME_LOST, LAC_EPEER, quarantine_ms},
               "worker groups died while they ran this content; it is not tried for %u s",
               quarantine_ms / 1000);
        return false;
    }
    refusal busy = {LAC__OUTCOME_BUSY, LAC_BUSY, 0};
    uint64_t tokens = submit_tokens(submit);
    if (lac__queue_admit(core, key, tokens, &busy.retry_after_ms) != LAC_OK) {
        refuse(core, key, busy,
               "the queue is full: %zu requests (limit %u), %llu estimated tokens (limit %llu)",
               core->queue.count, core->options.queue_max, (unsigned long long)core->queue_tokens,
               (unsigned long long)core->options.queue_tokens_max);
        return false;
    }
    busy.retry_after_ms = lac__queue_retry_ms(core);
    uint64_t wait_ms = submit->deadline_ms ? lac__queue_wait_ms(core, submit->priority) : 0;
    if (wait_ms > submit->deadline_ms) {
        lac_metric_add(core->meters.sheds, 1);
        uint64_t over_ms = wait_ms - submit->deadline_ms;
        busy.retry_after_ms = over_ms > 60000 ? 60000 : over_ms < 500 ? 500 : (uint32_t)over_ms;
        refuse(core, key, busy, "the wait is about %llu ms, deadline_ms is %u",
               (unsigned long long)wait_ms, submit->deadline_ms);
        return false;
    }
    if (HASH_COUNT(core->by_id) >= LAC_REQUESTS_MAX - LAC__REFUSALS_KEPT) {
        refuse(core, key, busy, "%d requests are tracked already, which is the limit",
               LAC_REQUESTS_MAX - LAC__REFUSALS_KEPT);
        return false;
    }
    if (!lac__record_memory_left(core, tokens * 4)) {
        refuse(core, key, busy, "the memory for requests (%llu bytes) is spent",
               (unsigned long long)core->options.bytes_max);
        return false;
    }
    return true;
}

static void submit_message(lac_core *core, lac_plane plane, uint64_t peer, const lac_submit *submit)
{
    lac__stream_key key = key_of(plane, peer, submit->stream);
    lac__stream_key none = key_of(plane, peer, 0);
    if (!submit->stream) {
        refuse(core, &none, (refusal){LAC__OUTCOME_INVALID, LAC_EINVAL, 0},
               "stream is 0, allowed 1 and above");
        return;
    }
    if (lac__record_by_stream(core, &key)) {
        /* Not on that stream: it would seem to end the request that has it. */
        refuse(core, &none, (refusal){LAC__OUTCOME_INVALID, LAC_EEXIST, 0},
               "stream is %llu, which has a request already", (unsigned long long)submit->stream);
        return;
    }
    lac__rate_add(&core->offered, core->now_ms);
    if (!admitted(core, &key, submit))
        return;
    lac__request *r = lac__record_create(core, &key, submit);
    if (!r) {
        refuse(core, &key, (refusal){LAC__OUTCOME_BUSY, LAC_BUSY, lac__queue_retry_ms(core)},
               "no memory for the request");
        return;
    }
    lac__rate_add(&core->arrived, core->now_ms);
    lac__path_admit(core, r, submit);
    r->served = lac__registry_model(core, r->model);
    lac__record_to_queue(core, r);
    lac__delivery_flush(core, r);
}

static void cancel_message(lac_core *core, const lac__stream_key *key)
{
    lac__request *r = lac__record_by_stream(core, key);
    if (!r)
        return; /* it ended while the cancel was on its way */
    if (r->end == LAC__END_NONE) {
        lac__record_finish(core, r, LAC_FINISH_CANCEL);
        return;
    }
    lac__delivery_drop(core, r);
    if (lac__delivery_flush(core, r))
        lac__record_free(core, r);
}

static void credit_message(lac_core *core, const lac__stream_key *key, uint32_t messages)
{
    lac__request *r = lac__record_by_stream(core, key);
    if (!r)
        return;
    r->credit = messages > UINT32_MAX - r->credit ? UINT32_MAX : r->credit + messages;
    if (lac__delivery_flush(core, r))
        lac__record_free(core, r);
}

void lac__client_message(lac_core *core, lac_plane plane, uint64_t peer, const lac_msg *msg)
{
    lac__stream_key key;
    switch (msg->envelope.type) {
    case LAC_MSG_SUBMIT: submit_message(core, plane, peer, &msg->body.submit); break;
    case LAC_MSG_CLIENT_CANCEL:
        key = key_of(plane, peer, msg->body.client_cancel.stream);
        cancel_message(core, &key);
        break;
    case LAC_MSG_CREDIT:
        key = key_of(plane, peer, msg->body.credit.stream);
        credit_message(core, &key, msg->body.credit.messages);
        break;
    case LAC_MSG_STATUS_QUERY:
        lac__status_reply(core, plane, peer, msg->body.status_query.stream);
        break;
    case LAC_MSG_PATH_QUERY: lac__path_explain(core, plane, peer, &msg->body.path_query); break;
    case LAC_MSG_PLAN_QUERY: lac__plan_reply(core, plane, peer, msg->body.plan_query.stream); break;
    case LAC_MSG_PATH_FORCE: lac__plan_force(core, plane, peer, &msg->body.path_force); break;
    case LAC_MSG_SCALE: lac__fleet_scale(core, plane, peer, &msg->body.scale); break;
    case LAC_MSG_DRAIN_GROUP: lac__fleet_drain(core, plane, peer, &msg->body.drain_group); break;
    default: lac_metric_add(core->meters.protocol_errors, 1); break;
    }
}

void lac__client_lost(lac_core *core, lac_plane plane, uint64_t peer)
{
    for (lac__request *r = core->by_id, *next; r; r = next) {
        next = r->hh.next;
        if (r->key.plane == plane && r->key.peer == peer && !r->orphan)
            lac__record_abandon(core, r);
    }
}
