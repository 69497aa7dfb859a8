/* What the client plane says of tenants: the service asked for, why they are refused, what of their
 * quota is left, and what they thought of an answer. Pure, any thread. */
#include "codec.h"

Pb__Service lac__put_service(lac_service service)
{
    _Static_assert((int)LAC_SERVICE_STANDARD == (int)PB__SERVICE__SERVICE_STANDARD &&
                       (int)LAC_SERVICE_FLEX == (int)PB__SERVICE__SERVICE_FLEX &&
                       (int)LAC_SERVICE_PRIORITY == (int)PB__SERVICE__SERVICE_PRIORITY,
                   "the numbers are the same on both sides");
    return (Pb__Service)service;
}

lac_status lac__get_service(lac__codec *c, int has, Pb__Service in, lac_service *out)
{
    if (has && ((int)in < LAC_SERVICE_STANDARD || (int)in >= LAC_SERVICES))
        return lac_fail(c->err, LAC_EINVAL, "submit.service is %d, which is no known service",
                        (int)in);
    *out = has ? (lac_service)in : LAC_SERVICE_AUTO;
    return LAC_OK;
}

Pb__Cause lac__put_cause(lac_cause cause)
{
    _Static_assert((int)LAC_CAUSE_QUOTA == (int)PB__CAUSE__CAUSE_QUOTA &&
                       (int)LAC_CAUSE_DENIED == (int)PB__CAUSE__CAUSE_DENIED,
                   "the numbers are the same on both sides");
    return (Pb__Cause)cause;
}

void lac__get_cause(int has, Pb__Cause in, lac_cause *out)
{
    bool known = has && (int)in > LAC_CAUSE_NONE && (int)in < LAC_CAUSES;
    *out = known ? (lac_cause)in : LAC_CAUSE_NONE;
}

/* ---- quota ---- */

Pb__Quota *lac__put_quota(lac__codec *c, const lac_quota *in)
{
    if (!in->requests_limit && !in->tokens_limit)
        return NULL;
    Pb__Quota *out = lac__put_alloc(c, 1, sizeof *out);
    pb__quota__init(out);
    LAC__PUT(out, requests_limit, in->requests_limit);
    LAC__PUT(out, requests_left, in->requests_left);
    LAC__PUT(out, requests_reset_ms, in->requests_reset_ms);
    LAC__PUT(out, tokens_limit, in->tokens_limit);
    LAC__PUT(out, tokens_left, in->tokens_left);
    LAC__PUT(out, tokens_reset_ms, in->tokens_reset_ms);
    return out;
}

void lac__get_quota(const Pb__Quota *in, lac_quota *out)
{
    if (in)
        *out = (lac_quota){.requests_limit = in->requests_limit,
                           .requests_left = in->requests_left,
                           .requests_reset_ms = in->requests_reset_ms,
                           .tokens_limit = in->tokens_limit,
                           .tokens_left = in->tokens_left,
                           .tokens_reset_ms = in->tokens_reset_ms};
}

lac_status lac__check_quota(const lac_quota *q, lac_error *err)
{
    const lac__range ranges[] = {
        {"quota.requests_limit", q->requests_limit, 0, LAC_QUOTA_MAX},
        {"quota.requests_left", q->requests_left, 0, q->requests_limit},
        {"quota.tokens_limit", q->tokens_limit, 0, LAC_QUOTA_MAX},
        {"quota.tokens_left", q->tokens_left, 0, q->tokens_limit},
    };
    return lac__check_ranges(ranges, sizeof ranges / sizeof *ranges, err);
}

/* ---- feedback ---- */

void lac__put_feedback(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body)
{
    (void)c;
    const lac_feedback *in = &msg->body.feedback;
    Pb__Feedback *out = (Pb__Feedback *)body;
    LAC__PUT(out, stream, in->stream);
    LAC__PUT(out, request, in->request);
    LAC__PUT(out, good, in->good);
}

lac_status lac__get_feedback(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg)
{
    (void)c;
    const Pb__Feedback *in = (const Pb__Feedback *)body;
    msg->body.feedback =
        (lac_feedback){.stream = in->stream, .request = in->request, .good = in->good != 0};
    return LAC_OK;
}

lac_status lac__check_feedback(const lac_msg *msg, lac_error *err)
{
    const lac_feedback *f = &msg->body.feedback;
    const lac__range ranges[] = {{"feedback.stream", f->stream, 1, UINT64_MAX},
                                 {"feedback.request", f->request, 1, UINT64_MAX}};
    return lac__check_ranges(ranges, sizeof ranges / sizeof *ranges, err);
}
