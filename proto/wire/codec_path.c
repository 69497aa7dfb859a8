/* The bodies of what clients ask about classes: how a prompt is judged, which classes are known,
 * one that is forced. Moves fields only; ranges are in validate_client.c. Pure, any thread. */
#include "codec.h"

/* ---- path ---- */

void lac__put_path_query(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body)
{
    Pb__PathQuery *out = (Pb__PathQuery *)body;
    const lac_path_query *in = &msg->body.path_query;
    LAC__PUT(out, stream, in->stream);
    LAC__PUT(out, request, in->request);
    LAC__PUT_TEXT(out, model, in->model);
    if (in->prompt.kind != LAC_PROMPT_NONE)
        out->prompt = lac__put_prompt(c, &in->prompt);
}

lac_status lac__get_path_query(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg)
{
    const Pb__PathQuery *in = (const Pb__PathQuery *)body;
    lac_path_query *out = &msg->body.path_query;
    out->stream = in->stream;
    out->request = in->request;
    LAC__TRY(lac__get_text(c, "path_query.model", in->model, out->model, sizeof out->model));
    return lac__get_prompt(c, in->prompt, &out->prompt);
}

void lac__put_path_reply(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body)
{
    const lac_path_reply *in = &msg->body.path_reply;
    Pb__PathReply *out = (Pb__PathReply *)body;
    LAC__PUT(out, stream, in->stream);
    LAC__PUT_TEXT(out, type, in->type);
    LAC__PUT_TEXT(out, task, in->task);
    LAC__PUT(out, tokens_max, in->tokens_max);
    out->has_fingerprint = 1;
    out->fingerprint = lac__bin(in->fingerprint.bytes, sizeof in->fingerprint.bytes);
    LAC__PUT_TEXT(out, class_name, in->class_name);
    LAC__PUT_TEXT(out, class_reason, in->class_reason);
    LAC__PUT_TEXT(out, type_reason, in->type_reason);
    LAC__PUT(out, request, in->request);
    LAC__PUT_TEXT(out, group, in->group);
    out->mask = lac__bin(in->mask, in->mask ? strnlen(in->mask, LAC_MASK_TEXT_MAX) : 0);
    out->has_mask = out->mask.len != 0;
    if (!in->features_count)
        return;
    Pb__PathFeature *features = lac__put_alloc(c, in->features_count, sizeof *features);
    out->features = lac__put_alloc(c, in->features_count, sizeof *out->features);
    out->n_features = in->features_count;
    for (uint32_t i = 0; i < in->features_count; i++) {
        pb__path_feature__init(&features[i]);
        LAC__PUT_TEXT(&features[i], name, in->features[i].name);
        LAC__PUT(&features[i], value, in->features[i].value);
        out->features[i] = &features[i];
    }
}

lac_status lac__get_path_reply(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg)
{
    const Pb__PathReply *in = (const Pb__PathReply *)body;
    lac_path_reply *out = &msg->body.path_reply;
    out->stream = in->stream;
    out->tokens_max = in->tokens_max;
    out->request = in->request;
    LAC__TRY(lac__get_text(c, "path_reply.group", in->group, out->group, sizeof out->group));
    LAC__TRY(lac__get_mask(c, "path_reply.mask", in->mask, &out->mask));
    LAC__TRY(lac__get_text(c, "path_reply.type", in->type, out->type, sizeof out->type));
    LAC__TRY(lac__get_text(c, "path_reply.task", in->task, out->task, sizeof out->task));
    LAC__TRY(lac__get_bytes(c, "path_reply.fingerprint", in->fingerprint, out->fingerprint.bytes,
                            sizeof out->fingerprint.bytes));
    LAC__TRY(lac__get_text(c, "path_reply.class_name", in->class_name, out->class_name,
                           sizeof out->class_name));
    LAC__TRY(lac__get_text(c, "path_reply.class_reason", in->class_reason, out->class_reason,
                           sizeof out->class_reason));
    LAC__TRY(lac__get_text(c, "path_reply.type_reason", in->type_reason, out->type_reason,
                           sizeof out->type_reason));
    if (in->n_features > LAC_PATH_FEATURES_MAX)
        return lac_fail(c->err, LAC_EINVAL, "path_reply has %zu features, allowed: at most %d",
                        in->n_features, LAC_PATH_FEATURES_MAX);
    lac_path_feature *features;
    LAC__TRY(lac__get_alloc(c, in->n_features, sizeof *features, &features));
    for (size_t i = 0; i < in->n_features; i++) {
        LAC__TRY(lac__get_text(c, "path_reply.features.name", in->features[i]->name,
                               features[i].name, sizeof features[i].name));
        features[i].value = in->features[i]->value;
    }
    out->features = features;
    out->features_count = (uint32_t)in->n_features;
    return LAC_OK;
}

/* ---- plan ---- */

void lac__put_plan_query(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body)
{
    (void)c;
    Pb__PlanQuery *out = (Pb__PlanQuery *)body;
    LAC__PUT(out, stream, msg->body.plan_query.stream);
}

lac_status lac__get_plan_query(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg)
{
    (void)c;
    msg->body.plan_query.stream = ((const Pb__PlanQuery *)body)->stream;
    return LAC_OK;
}

void lac__put_path_force(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body)
{
    (void)c;
    const lac_path_force *in = &msg->body.path_force;
    Pb__PathForce *out = (Pb__PathForce *)body;
    LAC__PUT(out, stream, in->stream);
    LAC__PUT_TEXT(out, class_name, in->class_name);
    LAC__PUT_TEXT(out, model, in->model);
}

lac_status lac__get_path_force(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg)
{
    const Pb__PathForce *in = (const Pb__PathForce *)body;
    lac_path_force *out = &msg->body.path_force;
    out->stream = in->stream;
    LAC__TRY(lac__get_text(c, "path_force.class_name", in->class_name, out->class_name,
                           sizeof out->class_name));
    return lac__get_text(c, "path_force.model", in->model, out->model, sizeof out->model);
}

static void put_guards(lac__codec *c, const lac_known_class *in, Pb__PlanClass *out)
{
    size_t count = 0;
    Pb__GuardStatus *guards = lac__put_alloc(c, LAC_INPUT_TYPES, sizeof *guards);
    out->guards = lac__put_alloc(c, LAC_INPUT_TYPES, sizeof *out->guards);
    for (int type = 0; type < LAC_INPUT_TYPES; type++) {
        const lac_guard_status *from = &in->guards[type];
        if (!from->state[0])
            continue;
        Pb__GuardStatus *to = &guards[count];
        pb__guard_status__init(to);
        to->has_type = lac__put_input_type((lac_input_type)type, &to->type);
        LAC__PUT_TEXT(to, state, from->state);
        LAC__PUT(to, evidence, from->evidence);
        LAC__PUT(to, shadows, from->shadows);
        LAC__PUT(to, trips, from->trips);
        out->guards[count++] = to;
    }
    out->n_guards = count;
}

void lac__put_plan_reply(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body)
{
    const lac_plan_reply *in = &msg->body.plan_reply;
    Pb__PlanReply *out = (Pb__PlanReply *)body;
    LAC__PUT(out, stream, in->stream);
    out->has_tier_max = 1;
    out->tier_max = lac__put_tier(in->tier_max);
    LAC__PUT_TEXT(out, forced, in->forced);
    if (!in->classes_count)
        return;
    Pb__PlanClass *classes = lac__put_alloc(c, in->classes_count, sizeof *classes);
    Pb__Class *facts = lac__put_alloc(c, in->classes_count, sizeof *facts);
    out->classes = lac__put_alloc(c, in->classes_count, sizeof *out->classes);
    out->n_classes = in->classes_count;
    for (uint32_t i = 0; i < in->classes_count; i++) {
        const lac_known_class *from = &in->classes[i];
        Pb__PlanClass *to = &classes[i];
        pb__plan_class__init(to);
        LAC__PUT_TEXT(to, model, from->model);
        lac__put_class(c, &from->facts, &facts[i]);
        to->facts = &facts[i];
        LAC__PUT(to, groups, from->groups);
        LAC__PUT(to, requests, from->requests);
        LAC__PUT(to, tokens, from->tokens);
        LAC__PUT(to, forced, from->forced);
        put_guards(c, from, to);
        out->classes[i] = to;
    }
}

static lac_status get_guards(lac__codec *c, const Pb__PlanClass *in, lac_known_class *out)
{
    for (size_t i = 0; i < in->n_guards; i++) {
        const Pb__GuardStatus *from = in->guards[i];
        lac_input_type type = LAC_INPUT_TYPES;
        LAC__TRY(
            lac__get_input_type(c, "plan_reply.guards.type", from->has_type, from->type, &type));
        if (type == LAC_INPUT_TYPES || out->guards[type].state[0])
            return lac_fail(c->err, LAC_EINVAL, "plan_reply.guards has a type twice, or none");
        lac_guard_status *to = &out->guards[type];
        LAC__TRY(
            lac__get_text(c, "plan_reply.guards.state", from->state, to->state, sizeof to->state));
        if (!to->state[0])
            return lac_fail(c->err, LAC_EINVAL, "plan_reply.guards.state is missing");
        to->evidence = from->evidence;
        to->shadows = from->shadows;
        to->trips = from->trips;
    }
    return LAC_OK;
}

static lac_status get_plan_class(lac__codec *c, const Pb__PlanClass *in, lac_known_class *out)
{
    LAC__TRY(lac__get_text(c, "plan_reply.model", in->model, out->model, sizeof out->model));
    LAC__TRY(lac__get_class(c, in->facts, &out->facts));
    out->groups = in->groups;
    out->requests = in->requests;
    out->tokens = in->tokens;
    out->forced = in->forced != 0;
    return get_guards(c, in, out);
}

lac_status lac__get_plan_reply(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg)
{
    const Pb__PlanReply *in = (const Pb__PlanReply *)body;
    lac_plan_reply *out = &msg->body.plan_reply;
    out->stream = in->stream;
    LAC__TRY(
        lac__get_tier(c, "plan_reply.tier_max", in->has_tier_max, in->tier_max, &out->tier_max));
    LAC__TRY(lac__get_text(c, "plan_reply.forced", in->forced, out->forced, sizeof out->forced));
    if (in->n_classes > LAC_PLAN_CLASSES_MAX)
        return lac_fail(c->err, LAC_EINVAL, "plan_reply has %zu classes, allowed: at most %d",
                        in->n_classes, LAC_PLAN_CLASSES_MAX);
    lac_known_class *classes;
    LAC__TRY(lac__get_alloc(c, in->n_classes, sizeof *classes, &classes));
    for (size_t i = 0; i < in->n_classes; i++)
        LAC__TRY(get_plan_class(c, in->classes[i], &classes[i]));
    out->classes = classes;
    out->classes_count = (uint32_t)in->n_classes;
    return LAC_OK;
}
