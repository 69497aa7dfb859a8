/* What is allowed in each message of the client plane. Works on plain structs. Pure, any thread. */
#include "codec.h"

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

static lac_status check_stream(const char *field, uint64_t stream, lac_error *err)
{
    const lac__range range = {field, stream, 1, UINT64_MAX};
    return lac__check_ranges(&range, 1, err);
}

static lac_status check_credit(const char *field, uint32_t messages, lac_error *err)
{
    const lac__range range = {field, messages, 1, LAC_CREDIT_MAX};
    return lac__check_ranges(&range, 1, err);
}

lac_status lac__check_submit(const lac_msg *msg, lac_error *err)
{
    const lac_submit *s = &msg->body.submit;
    LAC__TRY(check_stream("submit.stream", s->stream, err));
    LAC__TRY(lac__check_name("model", s->model, sizeof s->model, true, err));
    LAC__TRY(check_credit("submit.credit", s->credit, err));
    if (s->priority < -LAC_PRIORITY_MAX || s->priority > LAC_PRIORITY_MAX)
        return lac_fail(err, LAC_EINVAL, "submit.priority is %d, allowed %d..%d", s->priority,
                        -LAC_PRIORITY_MAX, LAC_PRIORITY_MAX);
    LAC__TRY(lac__check_label("submit.hint", s->hint, sizeof s->hint, err));
    LAC__TRY(lac__check_name("submit.trace", s->trace, sizeof s->trace, true, err));
    LAC__TRY(lac__check_name("submit.force", s->force, sizeof s->force, true, err));
    LAC__TRY(lac__check_tier("submit.tier_max", s->tier_max, err));
    const lac__range sparse = {"submit.sparse", (uint64_t)s->sparse, LAC_SPARSE_DEFAULT,
                               LAC_SPARSE_OFF};
    LAC__TRY(lac__check_ranges(&sparse, 1, err));
    const lac__range service = {"submit.service", (uint64_t)s->service, LAC_SERVICE_AUTO,
                                LAC_SERVICE_PRIORITY};
    LAC__TRY(lac__check_ranges(&service, 1, err));
    LAC__TRY(lac__check_prompt(&s->prompt, err));
    return lac__check_sampling(&s->sampling, err);
}

lac_status lac__check_client_cancel(const lac_msg *msg, lac_error *err)
{
    return check_stream("client_cancel.stream", msg->body.client_cancel.stream, err);
}

lac_status lac__check_credit(const lac_msg *msg, lac_error *err)
{
    LAC__TRY(check_stream("credit.stream", msg->body.credit.stream, err));
    return check_credit("credit.messages", msg->body.credit.messages, err);
}

lac_status lac__check_accepted(const lac_msg *msg, lac_error *err)
{
    const lac_accepted *a = &msg->body.accepted;
    LAC__TRY(check_stream("accepted.stream", a->stream, err));
    LAC__TRY(lac__check_quota(&a->quota, err));
    return lac__check_name("accepted.model", a->model, sizeof a->model, true, err);
}

lac_status lac__check_tokens(const lac_msg *msg, lac_error *err)
{
    LAC__TRY(check_stream("tokens.stream", msg->body.tokens.stream, err));
    LAC__TRY(lac__check_account(msg->body.tokens.account, err));
    return lac__check_chunk(&msg->body.tokens.chunk, err);
}

lac_status lac__check_done(const lac_msg *msg, lac_error *err)
{
    const lac_done *d = &msg->body.done;
    LAC__TRY(check_stream("done.stream", d->stream, err));
    if (d->finish == LAC_FINISH_NONE)
        return lac_fail(err, LAC_EINVAL, "done.finish is missing");
    LAC__TRY(lac__check_account(d->account, err));
    return lac__check_finish("done.finish", d->finish, err);
}

lac_status lac__check_refused(const lac_msg *msg, lac_error *err)
{
    const lac_refused *r = &msg->body.refused;
    LAC__TRY(lac__check_status("refused.status", r->status, err));
    LAC__TRY(lac__check_quota(&r->quota, err));
    if (r->status == LAC_OK)
        return lac_fail(err, LAC_EINVAL, "refused.status is ok, allowed: a failure");
    return LAC_OK;
}

static lac_status check_group(const lac_group_status *g, lac_error *err)
{
    LAC__TRY(lac__check_name("id", g->id, sizeof g->id, false, err));
    LAC__TRY(lac__check_name("state", g->state, sizeof g->state, false, err));
    LAC__TRY(lac__check_name("model", g->model, sizeof g->model, true, err));
    LAC__TRY(lac__check_label("isa", g->isa, sizeof g->isa, err));
    const lac__range ranges[] = {
        {"layers", g->layers, 0, LAC_LAYERS_MAX},
        {"slots", g->slots, 0, LAC_SLOTS_MAX},
        {"ranks", g->ranks_count, 0, LAC_RANKS_MAX},
        {"classes", g->classes_count, 0, LAC_CLASSES_MAX},
        {"pp", g->pp, 0, LAC_RANKS_MAX},
        {"tp", g->tp, 0, LAC_RANKS_MAX},
    };
    LAC__TRY(lac__check_ranges(ranges, COUNT(ranges), err));
    for (uint32_t i = 0; i < g->classes_count; i++) {
        const lac_class_status *c = &g->classes[i];
        const lac__range active = {"classes.active_layers", c->active_layers, 0, LAC_LAYERS_MAX};
        LAC__TRY(lac__check_name("classes.name", c->name, sizeof c->name, false, err));
        LAC__TRY(lac__check_ranges(&active, 1, err));
        LAC__TRY(lac__check_real("classes.skip_rate", c->skip_rate, 0, 1, err));
        LAC__TRY(lac__check_real("classes.cost_skip_rate", c->cost_skip_rate, 0, 1, err));
    }
    for (uint32_t i = 0; i < g->ranks_count; i++) {
        const lac__range rank[] = {
            {"rank", g->ranks[i].rank, 0, LAC_RANKS_MAX - 1},
            {"active_layers", g->ranks[i].active_layers, 0, LAC_LAYERS_MAX},
            {"layer_end", g->ranks[i].layer_end, 0, LAC_LAYERS_MAX},
            {"layer_first", g->ranks[i].layer_first, 0, g->ranks[i].layer_end},
            {"erased_units", g->ranks[i].erased_units, 0, LAC_UNITS_MAX},
        };
        LAC__TRY(lac__check_ranges(rank, COUNT(rank), err));
        LAC__TRY(lac__check_label("host", g->ranks[i].host, sizeof g->ranks[i].host, err));
    }
    return LAC_OK;
}

lac_status lac__check_status_reply(const lac_msg *msg, lac_error *err)
{
    const lac_status_reply *s = &msg->body.status_reply;
    LAC__TRY(lac__check_label("status_reply.version", s->version, sizeof s->version, err));
    LAC__TRY(lac__check_label("status_reply.http", s->http, sizeof s->http, err));
    const lac__range count = {"status_reply.groups", s->groups_count, 0, LAC_GROUPS_MAX};
    LAC__TRY(lac__check_ranges(&count, 1, err));
    for (uint32_t i = 0; i < s->groups_count; i++)
        LAC__TRY_IN(check_group(&s->groups[i], err), err, "status_reply.groups[%u]", i);
    return lac__check_watched(s, err);
}

lac_status lac__check_path_query(const lac_msg *msg, lac_error *err)
{
    const lac_path_query *q = &msg->body.path_query;
    LAC__TRY(check_stream("path_query.stream", q->stream, err));
    LAC__TRY(lac__check_name("path_query.model", q->model, sizeof q->model, true, err));
    if (!q->request)
        return lac__check_prompt(&q->prompt, err);
    if (q->prompt.kind != LAC_PROMPT_NONE)
        return lac_fail(err, LAC_EINVAL, "path_query has a request and a prompt, allowed: one");
    return LAC_OK;
}

lac_status lac__check_plan_query(const lac_msg *msg, lac_error *err)
{
    return check_stream("plan_query.stream", msg->body.plan_query.stream, err);
}

lac_status lac__check_path_force(const lac_msg *msg, lac_error *err)
{
    const lac_path_force *f = &msg->body.path_force;
    LAC__TRY(check_stream("path_force.stream", f->stream, err));
    LAC__TRY(
        lac__check_name("path_force.class_name", f->class_name, sizeof f->class_name, true, err));
    return lac__check_name("path_force.model", f->model, sizeof f->model, true, err);
}

static lac_status check_plan_class(const lac_known_class *p, lac_error *err)
{
    LAC__TRY(lac__check_name("model", p->model, sizeof p->model, false, err));
    LAC__TRY(lac__check_class(&p->facts, LAC_LAYERS_MAX, err));
    const lac__range groups = {"groups", p->groups, 0, LAC_GROUPS_MAX};
    LAC__TRY(lac__check_ranges(&groups, 1, err));
    for (unsigned type = 0; type < LAC_INPUT_TYPES; type++) {
        const lac_guard_status *g = &p->guards[type];
        LAC__TRY(lac__check_name("guards.state", g->state, sizeof g->state, true, err));
        LAC__TRY(lac__check_real("guards.evidence", g->evidence, 0, 1e300, err));
    }
    return LAC_OK;
}

lac_status lac__check_plan_reply(const lac_msg *msg, lac_error *err)
{
    const lac_plan_reply *p = &msg->body.plan_reply;
    LAC__TRY(check_stream("plan_reply.stream", p->stream, err));
    LAC__TRY(lac__check_tier("plan_reply.tier_max", p->tier_max, err));
    LAC__TRY(lac__check_name("plan_reply.forced", p->forced, sizeof p->forced, true, err));
    const lac__range count = {"plan_reply.classes", p->classes_count, 0, LAC_PLAN_CLASSES_MAX};
    LAC__TRY(lac__check_ranges(&count, 1, err));
    for (uint32_t i = 0; i < p->classes_count; i++)
        LAC__TRY_IN(check_plan_class(&p->classes[i], err), err, "plan_reply.classes[%u]", i);
    return LAC_OK;
}

lac_status lac__check_path_reply(const lac_msg *msg, lac_error *err)
{
    const lac_path_reply *p = &msg->body.path_reply;
    LAC__TRY(check_stream("path_reply.stream", p->stream, err));
    LAC__TRY(lac__check_mask("path_reply.mask", p->mask, LAC_LAYERS_MAX, err));
    LAC__TRY(lac__check_name("path_reply.group", p->group, sizeof p->group, true, err));
    LAC__TRY(lac__check_name("path_reply.type", p->type, sizeof p->type, false, err));
    LAC__TRY(lac__check_name("path_reply.task", p->task, sizeof p->task, false, err));
    LAC__TRY(
        lac__check_name("path_reply.class_name", p->class_name, sizeof p->class_name, false, err));
    LAC__TRY(
        lac__check_label("path_reply.class_reason", p->class_reason, sizeof p->class_reason, err));
    LAC__TRY(
        lac__check_label("path_reply.type_reason", p->type_reason, sizeof p->type_reason, err));
    const lac__range count = {"path_reply.features", p->features_count, 0, LAC_PATH_FEATURES_MAX};
    LAC__TRY(lac__check_ranges(&count, 1, err));
    for (uint32_t i = 0; i < p->features_count; i++) {
        const lac_path_feature *f = &p->features[i];
        const lac__range value = {"path_reply.features.value", f->value, 0, 1000};
        LAC__TRY(lac__check_name("path_reply.features.name", f->name, sizeof f->name, false, err));
        LAC__TRY(lac__check_ranges(&value, 1, err));
    }
    return LAC_OK;
}
