/* What clients ask, native ones and the HTTP front end alike: submit, cancel, credit, status.
 * Answers either with a record in the queue or with REFUSED that says why. Loop thread. */
#include "state.h"

#include <stdio.h>

static lac__stream_key key_of(lac_plane plane, uint64_t peer, uint64_t stream)
{
    return (lac__stream_key){.plane = plane, .peer = peer, .stream = stream};
}

/* A refusal without a record. When the client's queue is full just now it gets one after all, so
 * that its stream does end. `stream` 0: the message as a whole, no stream of its ends. */
static void refuse(lac_core *core, const lac__stream_key *key, const lac__refusal *why)
{
    lac_msg msg = {.body.refused = {.stream = key->stream,
                                    .status = why->status,
                                    .retry_after_ms = why->retry_after_ms,
                                    .cause = why->cause,
                                    .quota = lac__tenant_quota(core, why->tenant)}};
    lac__copy_text(msg.body.refused.reason, sizeof msg.body.refused.reason, why->reason);
    lac_status sent = lac__send(core, (lac_plane)key->plane, key->peer, 0, LAC_MSG_REFUSED, &msg);
    bool later = (sent == LAC_BUSY || sent == LAC_AGAIN) && key->stream;
    bool room = HASH_COUNT(core->by_id) < LAC_REQUESTS_MAX;
    lac_submit empty = {.stream = key->stream};
    lac__request *r = later && room ? lac__record_create(core, key, &empty, NULL) : NULL;
    if (later && !r)
        lac__stream_given_up(core, key, "its refusal finds the queue full and no record is left");
    if (!r) {
        core->requests_total += key->stream != 0;
        lac_metric_add(core->meters.requests[why->outcome], 1);
        return;
    }
    r->cause = why->cause;
    lac__record_refuse(core, r, why->outcome, why->status, why->retry_after_ms, "%s", why->reason);
}

/* What is wrong with the message itself: no stream of its ends by it. */
static void refuse_message(lac_core *core, lac__stream_key key, lac_status status, const char *what)
{
    lac__refusal why = {.outcome = LAC__OUTCOME_INVALID, .status = status};
    key.stream = 0;
    lac__copy_text(why.reason, sizeof why.reason, what);
    refuse(core, &key, &why);
}

static void submit_message(lac_core *core, lac_plane plane, uint64_t peer, const lac_msg *msg)
{
    const lac_submit *submit = &msg->body.submit;
    lac__stream_key key = key_of(plane, peer, submit->stream);
    if (!submit->stream) {
        refuse_message(core, key, LAC_EINVAL, "stream is 0, allowed 1 and above");
        return;
    }
    if (lac__record_by_stream(core, &key)) {
        char what[64];
        snprintf(what, sizeof what, "stream is %llu, which has a request already",
                 (unsigned long long)submit->stream);
        refuse_message(core, key, LAC_EEXIST, what);
        return;
    }
    lac__rate_add(&core->offered, core->now_ms);
    lac__refusal why;
    lac__tenant *tenant = lac__tenant_find(core, msg->tenant);
    if (!lac__admitted(core, &key, tenant, submit, &why)) {
        refuse(core, &key, &why);
        return;
    }
    lac__request *r = lac__record_create(core, &key, submit, tenant);
    if (!r) {
        why = (lac__refusal){.outcome = LAC__OUTCOME_BUSY,
                             .status = LAC_BUSY,
                             .retry_after_ms = lac__queue_retry_ms(core),
                             .reason = "no memory for the request"};
        refuse(core, &key, &why);
        return;
    }
    lac__rate_add(&core->arrived, core->now_ms);
    lac__tenant_admitted(core, r);
    lac__path_admit(core, r, submit);
    lac__models_choose(core, r);
    lac__record_to_queue(core, r);
    lac__delivery_flush(core, r);
}

static void cancel_message(lac_core *core, const lac__stream_key *key)
{
    lac__request *r = lac__record_by_stream(core, key);
    if (!r)
        return; /* it ended while the cancel was on its way */
    if (r->end == LAC__END_NONE) {
        lac__feedback_left(core, r);
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
    case LAC_MSG_SUBMIT: submit_message(core, plane, peer, msg); break;
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
    case LAC_MSG_FEEDBACK: lac__feedback_message(core, plane, peer, msg); break;
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
