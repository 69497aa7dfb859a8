/* Checks and decisions in a status reply: protobuf ⇄ plain structs, and their validation. Pure. */
#include "codec.h"

/* ---- checks ---- */

static void put_checks(lac__codec *c, const lac_status_reply *in, Pb__StatusReply *out)
{
    Pb__Check *list = lac__put_alloc(c, in->checks_count, sizeof *list);
    out->checks = lac__put_alloc(c, in->checks_count, sizeof *out->checks);
    out->n_checks = in->checks_count;
    for (uint32_t i = 0; i < in->checks_count; i++) {
        const lac_check *from = &in->checks[i];
        Pb__Check *to = out->checks[i] = &list[i];
        pb__check__init(to);
        LAC__PUT_TEXT(to, name, from->name);
        LAC__PUT(to, known, from->known);
        LAC__PUT(to, good, from->good);
        LAC__PUT(to, value, from->value);
        LAC__PUT(to, low, from->low);
        LAC__PUT(to, high, from->high);
        LAC__PUT_TEXT(to, cause, from->cause);
        LAC__PUT_TEXT(to, text, from->text);
    }
}

static lac_status get_checks(lac__codec *c, const Pb__StatusReply *in, lac_status_reply *out)
{
    if (in->n_checks > LAC_CHECKS_MAX)
        return lac_fail(c->err, LAC_EINVAL,
                        "status_reply.checks has %zu entries, allowed: at most %d", in->n_checks,
                        LAC_CHECKS_MAX);
    lac_check *list;
    LAC__TRY(lac__get_alloc(c, in->n_checks, sizeof *list, &list));
    for (size_t i = 0; i < in->n_checks; i++) {
        const Pb__Check *from = in->checks[i];
        lac_check *to = &list[i];
        LAC__TRY(lac__get_text(c, "check.name", from->name, to->name, sizeof to->name));
        LAC__TRY(lac__get_text(c, "check.cause", from->cause, to->cause, sizeof to->cause));
        LAC__TRY(lac__get_text(c, "check.text", from->text, to->text, sizeof to->text));
        to->known = from->known;
        to->good = from->good;
        to->value = from->value;
        to->low = from->low;
        to->high = from->high;
    }
    out->checks = list;
    out->checks_count = (uint32_t)in->n_checks;
    return LAC_OK;
}

/* ---- decisions ---- */

static void put_decided(lac__codec *c, const lac_status_reply *in, Pb__StatusReply *out)
{
    Pb__Decided *list = lac__put_alloc(c, in->decided_count, sizeof *list);
    out->decided = lac__put_alloc(c, in->decided_count, sizeof *out->decided);
    out->n_decided = in->decided_count;
    for (uint32_t i = 0; i < in->decided_count; i++) {
        const lac_decided *from = &in->decided[i];
        Pb__Decided *to = out->decided[i] = &list[i];
        pb__decided__init(to);
        LAC__PUT(to, request, from->request);
        LAC__PUT(to, age_ms, from->age_ms);
        LAC__PUT_TEXT(to, type, from->type);
        LAC__PUT_TEXT(to, task, from->task);
        LAC__PUT_TEXT(to, class_name, from->class_name);
        LAC__PUT_TEXT(to, group, from->group);
        LAC__PUT_TEXT(to, outcome, from->outcome);
        LAC__PUT(to, tokens, from->tokens);
        LAC__PUT(to, total_ms, from->total_ms);
        LAC__PUT_TEXT(to, why, from->why);
    }
}

static lac_status get_one(lac__codec *c, const Pb__Decided *from, lac_decided *to)
{
    LAC__TRY(lac__get_text(c, "decided.type", from->type, to->type, sizeof to->type));
    LAC__TRY(lac__get_text(c, "decided.task", from->task, to->task, sizeof to->task));
    LAC__TRY(lac__get_text(c, "decided.class_name", from->class_name, to->class_name,
                           sizeof to->class_name));
    LAC__TRY(lac__get_text(c, "decided.group", from->group, to->group, sizeof to->group));
    LAC__TRY(lac__get_text(c, "decided.outcome", from->outcome, to->outcome, sizeof to->outcome));
    to->request = from->request;
    to->age_ms = from->age_ms;
    to->tokens = from->tokens;
    to->total_ms = from->total_ms;
    return lac__get_text(c, "decided.why", from->why, to->why, sizeof to->why);
}

static lac_status get_decided(lac__codec *c, const Pb__StatusReply *in, lac_status_reply *out)
{
    if (in->n_decided > LAC_DECIDED_MAX)
        return lac_fail(c->err, LAC_EINVAL,
                        "status_reply.decided has %zu entries, allowed: at most %d", in->n_decided,
                        LAC_DECIDED_MAX);
    lac_decided *list;
    LAC__TRY(lac__get_alloc(c, in->n_decided, sizeof *list, &list));
    for (size_t i = 0; i < in->n_decided; i++)
        LAC__TRY(get_one(c, in->decided[i], &list[i]));
    out->decided = list;
    out->decided_count = (uint32_t)in->n_decided;
    return LAC_OK;
}

/* ---- both ---- */

void lac__put_watched(lac__codec *c, const lac_status_reply *in, Pb__StatusReply *out)
{
    LAC__PUT(out, queued_tokens, in->queued_tokens);
    LAC__PUT(out, streams, in->streams);
    if (in->checks_count)
        put_checks(c, in, out);
    if (in->decided_count)
        put_decided(c, in, out);
}

lac_status lac__get_watched(lac__codec *c, const Pb__StatusReply *in, lac_status_reply *out)
{
    out->queued_tokens = in->queued_tokens;
    out->streams = in->streams;
    LAC__TRY(get_checks(c, in, out));
    return get_decided(c, in, out);
}

static lac_status check_check(const lac_check *k, lac_error *err)
{
    LAC__TRY(lac__check_name("name", k->name, sizeof k->name, false, err));
    LAC__TRY(lac__check_name("cause", k->cause, sizeof k->cause, true, err));
    LAC__TRY(lac__check_label("text", k->text, sizeof k->text, err));
    LAC__TRY(lac__check_real("value", k->value, -1e15, 1e15, err));
    LAC__TRY(lac__check_real("low", k->low, -1e15, 1e15, err));
    return lac__check_real("high", k->high, -1e15, 1e15, err);
}

static lac_status check_decided(const lac_decided *d, lac_error *err)
{
    LAC__TRY(lac__check_name("type", d->type, sizeof d->type, true, err));
    LAC__TRY(lac__check_name("task", d->task, sizeof d->task, true, err));
    LAC__TRY(lac__check_name("class_name", d->class_name, sizeof d->class_name, true, err));
    LAC__TRY(lac__check_name("group", d->group, sizeof d->group, true, err));
    LAC__TRY(lac__check_name("outcome", d->outcome, sizeof d->outcome, true, err));
    return lac__check_label("why", d->why, sizeof d->why, err);
}

lac_status lac__check_watched(const lac_status_reply *s, lac_error *err)
{
    const lac__range ranges[] = {
        {"status_reply.checks", s->checks_count, 0, LAC_CHECKS_MAX},
        {"status_reply.decided", s->decided_count, 0, LAC_DECIDED_MAX},
    };
    LAC__TRY(lac__check_ranges(ranges, sizeof ranges / sizeof *ranges, err));
    for (uint32_t i = 0; i < s->checks_count; i++)
        LAC__TRY_IN(check_check(&s->checks[i], err), err, "status_reply.checks[%u]", i);
    for (uint32_t i = 0; i < s->decided_count; i++)
        LAC__TRY_IN(check_decided(&s->decided[i], err), err, "status_reply.decided[%u]", i);
    return LAC_OK;
}
