/* The bodies of orders about the fleet and of their answer, and what is allowed in them. Pure, any
 * thread. */
#include "codec.h"

void lac__put_scale(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body)
{
    (void)c;
    const lac_scale *in = &msg->body.scale;
    Pb__Scale *out = (Pb__Scale *)body;
    LAC__PUT(out, stream, in->stream);
    LAC__PUT(out, groups_min, in->groups_min);
    LAC__PUT(out, groups_max, in->groups_max);
}

lac_status lac__get_scale(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg)
{
    (void)c;
    const Pb__Scale *in = (const Pb__Scale *)body;
    msg->body.scale = (lac_scale){
        .stream = in->stream, .groups_min = in->groups_min, .groups_max = in->groups_max};
    return LAC_OK;
}

lac_status lac__check_scale(const lac_msg *msg, lac_error *err)
{
    const lac_scale *s = &msg->body.scale;
    const lac__range ranges[] = {
        {"scale.stream", s->stream, 1, UINT64_MAX},
        {"scale.groups_max", s->groups_max, 0, LAC_GROUPS_MAX},
        {"scale.groups_min", s->groups_min, 0, s->groups_max},
    };
    return lac__check_ranges(ranges, sizeof ranges / sizeof *ranges, err);
}

void lac__put_drain_group(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body)
{
    (void)c;
    const lac_drain_group *in = &msg->body.drain_group;
    Pb__DrainGroup *out = (Pb__DrainGroup *)body;
    LAC__PUT(out, stream, in->stream);
    LAC__PUT_TEXT(out, group, in->group);
    LAC__PUT(out, deadline_ms, in->deadline_ms);
}

lac_status lac__get_drain_group(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg)
{
    const Pb__DrainGroup *in = (const Pb__DrainGroup *)body;
    lac_drain_group *out = &msg->body.drain_group;
    out->stream = in->stream;
    out->deadline_ms = in->deadline_ms;
    return lac__get_text(c, "drain_group.group", in->group, out->group, sizeof out->group);
}

lac_status lac__check_drain_group(const lac_msg *msg, lac_error *err)
{
    const lac_drain_group *d = &msg->body.drain_group;
    const lac__range stream = {"drain_group.stream", d->stream, 1, UINT64_MAX};
    LAC__TRY(lac__check_ranges(&stream, 1, err));
    return lac__check_name("drain_group.group", d->group, sizeof d->group, false, err);
}

void lac__put_ordered(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body)
{
    (void)c;
    Pb__Ordered *out = (Pb__Ordered *)body;
    LAC__PUT(out, stream, msg->body.ordered.stream);
    LAC__PUT_TEXT(out, text, msg->body.ordered.text);
}

lac_status lac__get_ordered(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg)
{
    const Pb__Ordered *in = (const Pb__Ordered *)body;
    lac_ordered *out = &msg->body.ordered;
    out->stream = in->stream;
    return lac__get_text(c, "ordered.text", in->text, out->text, sizeof out->text);
}

lac_status lac__check_ordered(const lac_msg *msg, lac_error *err)
{
    const lac__range stream = {"ordered.stream", msg->body.ordered.stream, 1, UINT64_MAX};
    return lac__check_ranges(&stream, 1, err);
}
