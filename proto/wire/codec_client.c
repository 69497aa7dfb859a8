/* The bodies of the client plane: one put and get a message, and the table of them. Moves fields
 * only; ranges are in validate_client.c. Pure, any thread. */
#include "codec.h"
#include "jobs.pb-c.h"

static void put_submit(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body)
{
    const lac_submit *in = &msg->body.submit;
    Pb__Submit *out = (Pb__Submit *)body;
    LAC__PUT(out, stream, in->stream);
    LAC__PUT_TEXT(out, model, in->model);
    out->prompt = lac__put_prompt(c, &in->prompt);
    out->sampling = lac__put_sampling(c, &in->sampling);
    LAC__PUT(out, deadline_ms, in->deadline_ms);
    LAC__PUT(out, credit, in->credit);
    LAC__PUT(out, echo, in->echo);
    LAC__PUT(out, priority, in->priority);
    LAC__PUT_TEXT(out, hint, in->hint);
    out->has_sparse = in->sparse != LAC_SPARSE_DEFAULT;
    out->sparse = in->sparse == LAC_SPARSE_ON;
    out->has_tier_max = in->has_tier;
    out->tier_max = in->has_tier ? lac__put_tier(in->tier_max) : PB__TIER__TIER_UNKNOWN;
    LAC__PUT_TEXT(out, force, in->force);
    out->has_service = in->service != LAC_SERVICE_AUTO;
    out->service = lac__put_service(in->service);
    LAC__PUT_TEXT(out, trace, in->trace);
}

static lac_status get_submit(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg)
{
    const Pb__Submit *in = (const Pb__Submit *)body;
    lac_submit *out = &msg->body.submit;
    out->stream = in->stream;
    out->deadline_ms = in->deadline_ms;
    out->credit = in->credit;
    out->echo = in->echo != 0;
    out->priority = in->priority;
    if (in->has_sparse)
        out->sparse = in->sparse ? LAC_SPARSE_ON : LAC_SPARSE_OFF;
    out->has_tier = in->has_tier_max != 0;
    LAC__TRY(lac__get_service(c, in->has_service, in->service, &out->service));
    LAC__TRY(lac__get_tier(c, "submit.tier_max", in->has_tier_max, in->tier_max, &out->tier_max));
    LAC__TRY(lac__get_text(c, "submit.hint", in->hint, out->hint, sizeof out->hint));
    LAC__TRY(lac__get_text(c, "submit.trace", in->trace, out->trace, sizeof out->trace));
    LAC__TRY(lac__get_text(c, "submit.force", in->force, out->force, sizeof out->force));
    LAC__TRY(lac__get_text(c, "submit.model", in->model, out->model, sizeof out->model));
    LAC__TRY(lac__get_prompt(c, in->prompt, &out->prompt));
    return lac__get_sampling(c, in->sampling, &out->sampling);
}

static void put_client_cancel(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body)
{
    (void)c;
    Pb__ClientCancel *out = (Pb__ClientCancel *)body;
    LAC__PUT(out, stream, msg->body.client_cancel.stream);
}

static lac_status get_client_cancel(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg)
{
    (void)c;
    msg->body.client_cancel.stream = ((const Pb__ClientCancel *)body)->stream;
    return LAC_OK;
}

static void put_credit(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body)
{
    (void)c;
    Pb__Credit *out = (Pb__Credit *)body;
    LAC__PUT(out, stream, msg->body.credit.stream);
    LAC__PUT(out, messages, msg->body.credit.messages);
}

static lac_status get_credit(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg)
{
    (void)c;
    const Pb__Credit *in = (const Pb__Credit *)body;
    msg->body.credit = (lac_credit){.stream = in->stream, .messages = in->messages};
    return LAC_OK;
}

static void put_status_query(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body)
{
    (void)c;
    Pb__StatusQuery *out = (Pb__StatusQuery *)body;
    LAC__PUT(out, stream, msg->body.status_query.stream);
}

static lac_status get_status_query(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg)
{
    (void)c;
    msg->body.status_query.stream = ((const Pb__StatusQuery *)body)->stream;
    return LAC_OK;
}

static void put_accepted(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body)
{
    const lac_accepted *in = &msg->body.accepted;
    Pb__Accepted *out = (Pb__Accepted *)body;
    LAC__PUT(out, stream, in->stream);
    LAC__PUT(out, request, in->request);
    LAC__PUT_TEXT(out, model, in->model);
    out->quota = lac__put_quota(c, &in->quota);
}

static lac_status get_accepted(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg)
{
    const Pb__Accepted *in = (const Pb__Accepted *)body;
    lac_accepted *out = &msg->body.accepted;
    out->stream = in->stream;
    out->request = in->request;
    lac__get_quota(in->quota, &out->quota);
    return lac__get_text(c, "accepted.model", in->model, out->model, sizeof out->model);
}

static void put_tokens(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body)
{
    Pb__Tokens *out = (Pb__Tokens *)body;
    LAC__PUT(out, stream, msg->body.tokens.stream);
    out->chunk = lac__put_chunk(c, &msg->body.tokens.chunk);
    out->account = lac__put_account(c, msg->body.tokens.account);
}

static lac_status get_tokens(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg)
{
    const Pb__Tokens *in = (const Pb__Tokens *)body;
    msg->body.tokens.stream = in->stream;
    LAC__TRY(lac__get_account(c, in->account, &msg->body.tokens.account));
    return lac__get_chunk(c, in->chunk, &msg->body.tokens.chunk);
}

static void put_done(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body)
{
    const lac_done *in = &msg->body.done;
    Pb__Done *out = (Pb__Done *)body;
    LAC__PUT(out, stream, in->stream);
    out->has_finish = 1;
    out->finish = (Pb__Finish)in->finish;
    out->usage = lac__put_usage(c, &in->usage);
    out->account = lac__put_account(c, in->account);
}

static lac_status get_done(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg)
{
    const Pb__Done *in = (const Pb__Done *)body;
    lac_done *out = &msg->body.done;
    out->stream = in->stream;
    lac__get_usage(in->usage, &out->usage);
    LAC__TRY(lac__get_account(c, in->account, &out->account));
    return lac__get_finish(c, "done.finish", in->has_finish, in->finish, &out->finish);
}

static void put_refused(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body)
{
    const lac_refused *in = &msg->body.refused;
    Pb__Refused *out = (Pb__Refused *)body;
    LAC__PUT(out, stream, in->stream);
    out->has_status = 1;
    out->status = lac__put_status(in->status);
    LAC__PUT(out, retry_after_ms, in->retry_after_ms);
    LAC__PUT_REASON(c, out, reason, in->reason);
    out->has_cause = in->cause != LAC_CAUSE_NONE;
    out->cause = lac__put_cause(in->cause);
    out->quota = lac__put_quota(c, &in->quota);
}

static lac_status get_refused(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg)
{
    const Pb__Refused *in = (const Pb__Refused *)body;
    lac_refused *out = &msg->body.refused;
    out->stream = in->stream;
    out->retry_after_ms = in->retry_after_ms;
    lac__get_cause(in->has_cause, in->cause, &out->cause);
    lac__get_quota(in->quota, &out->quota);
    LAC__TRY(lac__get_status(c, "refused.status", in->has_status, in->status, &out->status));
    return lac__get_text(c, "refused.reason", in->reason, out->reason, sizeof out->reason);
}

/* ---- status ---- */

static void put_ranks(lac__codec *c, const lac_group_status *in, Pb__GroupStatus *out)
{
    if (!in->ranks_count)
        return;
    Pb__RankStatus *ranks = lac__put_alloc(c, in->ranks_count, sizeof *ranks);
    out->ranks = lac__put_alloc(c, in->ranks_count, sizeof *out->ranks);
    out->n_ranks = in->ranks_count;
    for (uint32_t i = 0; i < in->ranks_count; i++) {
        pb__rank_status__init(&ranks[i]);
        LAC__PUT(&ranks[i], rank, in->ranks[i].rank);
        LAC__PUT(&ranks[i], pid, in->ranks[i].pid);
        LAC__PUT(&ranks[i], active_layers, in->ranks[i].active_layers);
        LAC__PUT(&ranks[i], rss_bytes, in->ranks[i].rss_bytes);
        LAC__PUT(&ranks[i], layer_first, in->ranks[i].layer_first);
        LAC__PUT(&ranks[i], layer_end, in->ranks[i].layer_end);
        LAC__PUT(&ranks[i], erased_units, in->ranks[i].erased_units);
        LAC__PUT(&ranks[i], weight_bytes, in->ranks[i].weight_bytes);
        LAC__PUT_TEXT(&ranks[i], host, in->ranks[i].host);
        out->ranks[i] = &ranks[i];
    }
}

static void put_class_status(lac__codec *c, const lac_group_status *in, Pb__GroupStatus *out)
{
    if (!in->classes_count)
        return;
    Pb__ClassStatus *classes = lac__put_alloc(c, in->classes_count, sizeof *classes);
    out->classes = lac__put_alloc(c, in->classes_count, sizeof *out->classes);
    out->n_classes = in->classes_count;
    for (uint32_t i = 0; i < in->classes_count; i++) {
        const lac_class_status *from = &in->classes[i];
        pb__class_status__init(&classes[i]);
        LAC__PUT_TEXT(&classes[i], name, from->name);
        LAC__PUT(&classes[i], running, from->running);
        LAC__PUT(&classes[i], active_layers, from->active_layers);
        LAC__PUT(&classes[i], tokens, from->tokens);
        LAC__PUT(&classes[i], skip_rate, from->skip_rate);
        LAC__PUT(&classes[i], cost_skip_rate, from->cost_skip_rate);
        out->classes[i] = &classes[i];
    }
}

static void put_group(lac__codec *c, const lac_group_status *in, Pb__GroupStatus *out)
{
    pb__group_status__init(out);
    LAC__PUT_TEXT(out, id, in->id);
    LAC__PUT_TEXT(out, state, in->state);
    LAC__PUT_TEXT(out, model, in->model);
    LAC__PUT_TEXT(out, isa, in->isa);
    LAC__PUT(out, layers, in->layers);
    LAC__PUT(out, slots, in->slots);
    LAC__PUT(out, running, in->running);
    LAC__PUT(out, queued, in->queued);
    LAC__PUT(out, kv_pages_used, in->kv_pages_used);
    LAC__PUT(out, kv_pages, in->kv_pages);
    LAC__PUT(out, itl_us, in->itl_us);
    LAC__PUT(out, output_tokens, in->output_tokens);
    LAC__PUT(out, heartbeat_age_ms, in->heartbeat_age_ms);
    LAC__PUT(out, pp, in->pp);
    LAC__PUT(out, tp, in->tp);
    put_ranks(c, in, out);
    put_class_status(c, in, out);
}

static void put_status_reply(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body)
{
    const lac_status_reply *in = &msg->body.status_reply;
    Pb__StatusReply *out = (Pb__StatusReply *)body;
    LAC__PUT(out, stream, in->stream);
    LAC__PUT_TEXT(out, version, in->version);
    LAC__PUT_TEXT(out, http, in->http);
    LAC__PUT(out, epoch, in->epoch);
    LAC__PUT(out, uptime_ms, in->uptime_ms);
    LAC__PUT(out, queued, in->queued);
    LAC__PUT(out, running, in->running);
    LAC__PUT(out, requests_total, in->requests_total);
    LAC__PUT(out, tokens_total, in->tokens_total);
    lac__put_watched(c, in, out);
    if (!in->groups_count)
        return;
    Pb__GroupStatus *groups = lac__put_alloc(c, in->groups_count, sizeof *groups);
    out->groups = lac__put_alloc(c, in->groups_count, sizeof *out->groups);
    out->n_groups = in->groups_count;
    for (uint32_t i = 0; i < in->groups_count; i++) {
        put_group(c, &in->groups[i], &groups[i]);
        out->groups[i] = &groups[i];
    }
}

static lac_status get_class_status(lac__codec *c, const Pb__GroupStatus *in, lac_group_status *out)
{
    if (in->n_classes > LAC_CLASSES_MAX)
        return lac_fail(c->err, LAC_EINVAL, "group.classes has %zu entries, allowed: at most %d",
                        in->n_classes, LAC_CLASSES_MAX);
    lac_class_status *classes;
    LAC__TRY(lac__get_alloc(c, in->n_classes, sizeof *classes, &classes));
    for (size_t i = 0; i < in->n_classes; i++) {
        const Pb__ClassStatus *from = in->classes[i];
        LAC__TRY(lac__get_text(c, "group.classes.name", from->name, classes[i].name,
                               sizeof classes[i].name));
        classes[i].running = from->running;
        classes[i].active_layers = from->active_layers;
        classes[i].tokens = from->tokens;
        classes[i].skip_rate = from->skip_rate;
        classes[i].cost_skip_rate = from->cost_skip_rate;
    }
    out->classes = classes;
    out->classes_count = (uint32_t)in->n_classes;
    return LAC_OK;
}

static lac_status get_ranks(lac__codec *c, const Pb__GroupStatus *in, lac_group_status *out)
{
    if (in->n_ranks > LAC_RANKS_MAX)
        return lac_fail(c->err, LAC_EINVAL, "group.ranks has %zu entries, allowed: at most %d",
                        in->n_ranks, LAC_RANKS_MAX);
    lac_rank_status *ranks;
    LAC__TRY(lac__get_alloc(c, in->n_ranks, sizeof *ranks, &ranks));
    for (size_t i = 0; i < in->n_ranks; i++) {
        const Pb__RankStatus *from = in->ranks[i];
        ranks[i] = (lac_rank_status){.rank = from->rank,
                                     .pid = from->pid,
                                     .active_layers = from->active_layers,
                                     .rss_bytes = from->rss_bytes,
                                     .layer_first = from->layer_first,
                                     .layer_end = from->layer_end,
                                     .erased_units = from->erased_units,
                                     .weight_bytes = from->weight_bytes};
        LAC__TRY(
            lac__get_text(c, "group.ranks.host", from->host, ranks[i].host, sizeof ranks[i].host));
    }
    out->ranks = ranks;
    out->ranks_count = (uint32_t)in->n_ranks;
    return LAC_OK;
}

static lac_status get_group(lac__codec *c, const Pb__GroupStatus *in, lac_group_status *out)
{
    LAC__TRY(lac__get_text(c, "group.id", in->id, out->id, sizeof out->id));
    LAC__TRY(lac__get_text(c, "group.state", in->state, out->state, sizeof out->state));
    LAC__TRY(lac__get_text(c, "group.model", in->model, out->model, sizeof out->model));
    LAC__TRY(lac__get_text(c, "group.isa", in->isa, out->isa, sizeof out->isa));
    out->layers = in->layers;
    out->slots = in->slots;
    out->running = in->running;
    out->queued = in->queued;
    out->kv_pages_used = in->kv_pages_used;
    out->kv_pages = in->kv_pages;
    out->itl_us = in->itl_us;
    out->output_tokens = in->output_tokens;
    out->heartbeat_age_ms = in->heartbeat_age_ms;
    out->pp = in->pp;
    out->tp = in->tp;
    LAC__TRY(get_ranks(c, in, out));
    return get_class_status(c, in, out);
}

static lac_status get_status_reply(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg)
{
    const Pb__StatusReply *in = (const Pb__StatusReply *)body;
    lac_status_reply *out = &msg->body.status_reply;
    LAC__TRY(
        lac__get_text(c, "status_reply.version", in->version, out->version, sizeof out->version));
    LAC__TRY(lac__get_text(c, "status_reply.http", in->http, out->http, sizeof out->http));
    out->stream = in->stream;
    out->epoch = in->epoch;
    out->uptime_ms = in->uptime_ms;
    out->queued = in->queued;
    out->running = in->running;
    out->requests_total = in->requests_total;
    out->tokens_total = in->tokens_total;
    if (in->n_groups > LAC_GROUPS_MAX)
        return lac_fail(c->err, LAC_EINVAL, "status_reply has %zu groups, allowed: at most %d",
                        in->n_groups, LAC_GROUPS_MAX);
    lac_group_status *groups;
    LAC__TRY(lac__get_alloc(c, in->n_groups, sizeof *groups, &groups));
    for (size_t i = 0; i < in->n_groups; i++)
        LAC__TRY(get_group(c, in->groups[i], &groups[i]));
    out->groups = groups;
    out->groups_count = (uint32_t)in->n_groups;
    return lac__get_watched(c, in, out);
}

/* Allowances: a chat message of 6 bytes parses to about 200, a rank of 10 to 140. */
const lac__codec_row lac__codec_client_rows[] = {
    {LAC_MSG_SUBMIT, true, 256 << 10, &pb__submit__descriptor, put_submit, get_submit,
     lac__check_submit},
    {LAC_MSG_CLIENT_CANCEL, true, 0, &pb__client_cancel__descriptor, put_client_cancel,
     get_client_cancel, lac__check_client_cancel},
    {LAC_MSG_CREDIT, true, 0, &pb__credit__descriptor, put_credit, get_credit, lac__check_credit},
    {LAC_MSG_STATUS_QUERY, true, 0, &pb__status_query__descriptor, put_status_query,
     get_status_query, lac__check_nothing},
    {LAC_MSG_ACCEPTED, true, 0, &pb__accepted__descriptor, put_accepted, get_accepted,
     lac__check_accepted},
    {LAC_MSG_TOKENS, true, 0, &pb__tokens__descriptor, put_tokens, get_tokens, lac__check_tokens},
    {LAC_MSG_DONE, true, 0, &pb__done__descriptor, put_done, get_done, lac__check_done},
    {LAC_MSG_REFUSED, true, 0, &pb__refused__descriptor, put_refused, get_refused,
     lac__check_refused},
    {LAC_MSG_STATUS_REPLY, true, 4 << 20, &pb__status_reply__descriptor, put_status_reply,
     get_status_reply, lac__check_status_reply},
    {LAC_MSG_PATH_QUERY, true, 256 << 10, &pb__path_query__descriptor, lac__put_path_query,
     lac__get_path_query, lac__check_path_query},
    {LAC_MSG_PATH_REPLY, true, 32 << 10, &pb__path_reply__descriptor, lac__put_path_reply,
     lac__get_path_reply, lac__check_path_reply},
    {LAC_MSG_PLAN_QUERY, true, 0, &pb__plan_query__descriptor, lac__put_plan_query,
     lac__get_plan_query, lac__check_plan_query},
    {LAC_MSG_PATH_FORCE, true, 0, &pb__path_force__descriptor, lac__put_path_force,
     lac__get_path_force, lac__check_path_force},
    {LAC_MSG_PLAN_REPLY, true, 1 << 20, &pb__plan_reply__descriptor, lac__put_plan_reply,
     lac__get_plan_reply, lac__check_plan_reply},
    {LAC_MSG_SCALE, true, 0, &pb__scale__descriptor, lac__put_scale, lac__get_scale,
     lac__check_scale},
    {LAC_MSG_DRAIN_GROUP, true, 0, &pb__drain_group__descriptor, lac__put_drain_group,
     lac__get_drain_group, lac__check_drain_group},
    {LAC_MSG_ORDERED, true, 0, &pb__ordered__descriptor, lac__put_ordered, lac__get_ordered,
     lac__check_ordered},
    {LAC_MSG_JOB_SUBMIT, true, 8 << 20, &pb__job_submit__descriptor, lac__put_job_submit,
     lac__get_job_submit, lac__check_job_submit},
    {LAC_MSG_JOB_QUERY, true, 0, &pb__job_query__descriptor, lac__put_job_query,
     lac__get_job_query, lac__check_job_query},
    {LAC_MSG_JOB_CANCEL, true, 0, &pb__job_cancel__descriptor, lac__put_job_cancel,
     lac__get_job_cancel, lac__check_job_cancel},
    {LAC_MSG_JOB_REPLY, true, 1 << 20, &pb__job_reply__descriptor, lac__put_job_reply,
     lac__get_job_reply, lac__check_job_reply},
    {LAC_MSG_FEEDBACK, true, 0, &pb__feedback__descriptor, lac__put_feedback, lac__get_feedback,
     lac__check_feedback},
    {.type = LAC_MSG_NONE},
};
