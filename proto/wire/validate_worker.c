/* What is allowed in each message of the worker plane. Works on plain structs. Pure, any thread. */
#include "codec.h"

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

enum { TIME_MS_MAX = 600000, THREADS_MAX = 4096 };

lac_status lac__check_nothing(const lac_msg *msg, lac_error *err)
{
    (void)msg;
    (void)err; /* nothing in this message can be out of range */
    return LAC_OK;
}

static lac_status check_classes(const lac_hello *h, lac_error *err)
{
    const lac__range count = {"hello.classes", h->classes_count, 0, LAC_CLASSES_MAX - 1};
    LAC__TRY(lac__check_ranges(&count, 1, err));
    for (uint32_t i = 0; i < h->classes_count; i++) {
        const lac_class_facts *f = &h->classes[i];
        LAC__TRY_IN(lac__check_class(f, h->layers, err), err, "hello.classes[%u]", i);
        for (uint32_t k = 0; k < i; k++)
            if (!memcmp(&f->digest, &h->classes[k].digest, sizeof f->digest) ||
                !strcmp(f->name, h->classes[k].name))
                return lac_fail(err, LAC_EINVAL,
                                "hello.classes[%u] has the name or the digest of [%u] (\"%s\")", i,
                                k, f->name);
    }
    return LAC_OK;
}

lac_status lac__check_hello(const lac_msg *msg, lac_error *err)
{
    const lac_hello *h = &msg->body.hello;
    LAC__TRY(lac__check_name("hello.group", h->group, sizeof h->group, false, err));
    LAC__TRY(lac__check_name("hello.model", h->model, sizeof h->model, false, err));
    LAC__TRY(lac__check_label("hello.architecture", h->architecture, sizeof h->architecture, err));
    LAC__TRY(lac__check_label("hello.chat_family", h->chat_family, sizeof h->chat_family, err));
    LAC__TRY(lac__check_label("hello.isa", h->isa, sizeof h->isa, err));
    const lac__range ranges[] = {
        {"hello.pp", h->pp, 1, LAC_RANKS_MAX},
        {"hello.tp", h->tp, 1, LAC_RANKS_MAX},
        {"hello.pp * tp", (uint64_t)h->pp * h->tp, 1, LAC_RANKS_MAX},
        {"hello.rank", h->rank, 0, (uint64_t)h->pp * h->tp - 1},
        {"hello.layers", h->layers, 1, LAC_LAYERS_MAX},
        {"hello.vocab", h->vocab, 1, LAC_VOCAB_MAX},
        {"hello.context_max", h->context_max, 1, LAC_CONTEXT_MAX},
        {"hello.slots", h->slots, 1, LAC_SLOTS_MAX},
        {"hello.threads", h->threads, 0, THREADS_MAX},
        {"hello.running", h->running_count, 0, LAC_RUNNING_MAX},
    };
    LAC__TRY(lac__check_ranges(ranges, COUNT(ranges), err));
    for (uint32_t i = 0; i < h->running_count; i++) {
        const lac__range entry[] = {
            {"hello.running.request", h->running[i].request, 1, UINT64_MAX},
            {"hello.running.next_pos", h->running[i].next_pos, 0, LAC_CONTEXT_MAX},
        };
        LAC__TRY(lac__check_ranges(entry, COUNT(entry), err));
    }
    LAC__TRY(lac__check_hello_rank(h, err));
    return check_classes(h, err);
}

lac_status lac__check_hello_ack(const lac_msg *msg, lac_error *err)
{
    const lac_hello_ack *a = &msg->body.hello_ack;
    const lac__range ranges[] = {
        {"hello_ack.session", a->session, 1, UINT64_MAX},
        {"hello_ack.epoch", a->epoch, 1, UINT64_MAX},
        {"hello_ack.heartbeat_ms", a->heartbeat_ms, 1, TIME_MS_MAX},
        {"hello_ack.lease_ms", a->lease_ms, a->heartbeat_ms, TIME_MS_MAX},
    };
    return lac__check_ranges(ranges, COUNT(ranges), err);
}

lac_status lac__check_hello_reject(const lac_msg *msg, lac_error *err)
{
    const lac_hello_reject *r = &msg->body.hello_reject;
    const lac__range major = {"hello_reject.major_max", r->major_max, r->major_min, UINT16_MAX};
    return lac__check_ranges(&major, 1, err);
}

lac_status lac__check_heartbeat(const lac_msg *msg, lac_error *err)
{
    const lac_heartbeat *h = &msg->body.heartbeat;
    const lac__range ranges[] = {
        {"heartbeat.queued", h->queued, 0, LAC_REQUESTS_MAX},
        {"heartbeat.running", h->running, 0, LAC_SLOTS_MAX},
        {"heartbeat.kv_pages_used", h->kv_pages_used, 0, h->kv_pages},
        {"heartbeat.active_layers", h->active_layers, 0, LAC_LAYERS_MAX},
        {"heartbeat.classes", h->classes_count, 0, LAC_CLASSES_MAX},
    };
    LAC__TRY(lac__check_ranges(ranges, COUNT(ranges), err));
    for (uint32_t i = 0; i < h->classes_count; i++) {
        const lac_class_beat *c = &h->classes[i];
        const lac__range entry[] = {
            {"heartbeat.classes.index", c->index, 0, LAC_CLASSES_MAX - 1},
            {"heartbeat.classes.active_layers", c->active_layers, 0, LAC_LAYERS_MAX},
        };
        LAC__TRY(lac__check_ranges(entry, COUNT(entry), err));
        LAC__TRY(lac__check_real("heartbeat.classes.skip_rate", c->skip_rate, 0, 1, err));
        LAC__TRY(lac__check_real("heartbeat.classes.cost_skip_rate", c->cost_skip_rate, 0, 1, err));
    }
    return LAC_OK;
}

lac_status lac__check_shadow(const lac_msg *msg, lac_error *err)
{
    const lac_shadow *s = &msg->body.shadow;
    const lac__range tokens = {"shadow.tokens", s->tokens, 1, LAC_CONTEXT_MAX};
    LAC__TRY(lac__check_ranges(&tokens, 1, err));
    LAC__TRY(lac__check_input_type("shadow.input_type", s->input_type, err));
    LAC__TRY(lac__check_real("shadow.kl_mean", s->kl_mean, 0, 1e6, err));
    LAC__TRY(lac__check_real("shadow.top1_p", s->top1_p, 0, 1, err));
    LAC__TRY(lac__check_real("shadow.top1_p_full", s->top1_p_full, 0, 1, err));
    return lac__check_real("shadow.top1_agree", s->top1_agree, 0, 1, err);
}

static lac_status check_item(const lac_step_item *item, lac_error *err)
{
    const lac__range request = {"request", item->request, 1, UINT64_MAX};
    LAC__TRY(lac__check_ranges(&request, 1, err));
    LAC__TRY(lac__check_chunk(&item->chunk, err));
    LAC__TRY(lac__check_finish("finish", item->finish, err));
    LAC__TRY(lac__check_status("error", item->error, err));
    LAC__TRY(lac__check_account(item->account, err));
    if ((item->finish == LAC_FINISH_ERROR) != (item->error != LAC_OK))
        return lac_fail(err, LAC_EINVAL,
                        "finish is %s with error %s, allowed: an error with finish error alone",
                        lac_finish_name(item->finish), lac_status_name(item->error));
    return LAC_OK;
}

lac_status lac__check_step_output(const lac_msg *msg, lac_error *err)
{
    const lac_step_output *s = &msg->body.step_output;
    const lac__range count = {"step_output.items", s->items_count, 1, LAC_STEP_ITEMS_MAX};
    LAC__TRY(lac__check_ranges(&count, 1, err));
    for (uint32_t i = 0; i < s->items_count; i++)
        LAC__TRY_IN(check_item(&s->items[i], err), err, "step_output.items[%u]", i);
    return LAC_OK;
}

lac_status lac__check_fault(const lac_msg *msg, lac_error *err)
{
    return lac__check_status("fault.status", msg->body.fault.status, err);
}

lac_status lac__check_dispatch(const lac_msg *msg, lac_error *err)
{
    const lac_dispatch *d = &msg->body.dispatch;
    const lac__range request = {"dispatch.request", d->request, 1, UINT64_MAX};
    LAC__TRY(lac__check_ranges(&request, 1, err));
    LAC__TRY(lac__check_prompt(&d->prompt, err));
    LAC__TRY(lac__check_name("dispatch.trace", d->trace, sizeof d->trace, true, err));
    LAC__TRY(lac__check_input_type("dispatch.input_type", d->input_type, err));
    LAC__TRY(lac__check_ids("dispatch.accepted", d->accepted, d->accepted_count, err));
    if (!d->sampling.has_seed)
        return lac_fail(err, LAC_EINVAL, "dispatch.sampling.seed is missing");
    return lac__check_sampling(&d->sampling, err);
}

lac_status lac__check_cancel(const lac_msg *msg, lac_error *err)
{
    const lac__range request = {"cancel.request", msg->body.cancel.request, 1, UINT64_MAX};
    return lac__check_ranges(&request, 1, err);
}
