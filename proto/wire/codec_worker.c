/* The bodies of the worker plane: one put and get a message, and the table of them. Moves fields
 * only; ranges are in validate_worker.c. Pure, any thread. */
#include "codec.h"

/* 16 zero bytes stand for "none yet" and are left out. */
static ProtobufCBinaryData put_incarnation(const uint8_t incarnation[16])
{
    static const uint8_t none[16];
    return lac__bin(incarnation, memcmp(incarnation, none, 16) ? 16 : 0);
}

/* ---- membership ---- */

static void put_classes(lac__codec *c, const lac_hello *in, Pb__Hello *out)
{
    if (!in->classes_count)
        return;
    Pb__Class *classes = lac__put_alloc(c, in->classes_count, sizeof *classes);
    out->classes = lac__put_alloc(c, in->classes_count, sizeof *out->classes);
    out->n_classes = in->classes_count;
    for (uint32_t i = 0; i < in->classes_count; i++) {
        lac__put_class(c, &in->classes[i], &classes[i]);
        out->classes[i] = &classes[i];
    }
}

static void put_hello(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body)
{
    const lac_hello *in = &msg->body.hello;
    Pb__Hello *out = (Pb__Hello *)body;
    LAC__PUT_TEXT(out, group, in->group);
    out->incarnation = put_incarnation(in->incarnation);
    out->has_incarnation = out->incarnation.len != 0;
    LAC__PUT(out, rank, in->rank);
    LAC__PUT(out, pp, in->pp);
    LAC__PUT(out, tp, in->tp);
    LAC__PUT(out, features, in->features);
    LAC__PUT(out, pid, in->pid);
    LAC__PUT_TEXT(out, model, in->model);
    out->has_model_digest = 1;
    out->model_digest = lac__bin(in->model_digest.bytes, sizeof in->model_digest.bytes);
    LAC__PUT_TEXT(out, architecture, in->architecture);
    LAC__PUT_TEXT(out, chat_family, in->chat_family);
    LAC__PUT_TEXT(out, isa, in->isa);
    LAC__PUT(out, layers, in->layers);
    LAC__PUT(out, vocab, in->vocab);
    LAC__PUT(out, context_max, in->context_max);
    LAC__PUT(out, slots, in->slots);
    LAC__PUT(out, kv_pages, in->kv_pages);
    LAC__PUT(out, model_bytes, in->model_bytes);
    LAC__PUT(out, threads, in->threads);
    lac__put_hello_rank(in, out);
    put_classes(c, in, out);
    if (!in->running_count)
        return;
    Pb__Running *running = lac__put_alloc(c, in->running_count, sizeof *running);
    out->running = lac__put_alloc(c, in->running_count, sizeof *out->running);
    out->n_running = in->running_count;
    for (uint32_t i = 0; i < in->running_count; i++) {
        pb__running__init(&running[i]);
        LAC__PUT(&running[i], request, in->running[i].request);
        LAC__PUT(&running[i], attempt, in->running[i].attempt);
        LAC__PUT(&running[i], next_pos, in->running[i].next_pos);
        out->running[i] = &running[i];
    }
}

static lac_status get_running(lac__codec *c, const Pb__Hello *in, lac_hello *out)
{
    if (in->n_running > LAC_RUNNING_MAX)
        return lac_fail(c->err, LAC_EINVAL, "hello.running has %zu entries, allowed: at most %d",
                        in->n_running, LAC_RUNNING_MAX);
    lac_running *running;
    LAC__TRY(lac__get_alloc(c, in->n_running, sizeof *running, &running));
    for (size_t i = 0; i < in->n_running; i++)
        running[i] = (lac_running){.request = in->running[i]->request,
                                   .attempt = in->running[i]->attempt,
                                   .next_pos = in->running[i]->next_pos};
    out->running = running;
    out->running_count = (uint32_t)in->n_running;
    return LAC_OK;
}

static lac_status get_classes(lac__codec *c, const Pb__Hello *in, lac_hello *out)
{
    if (in->n_classes >= LAC_CLASSES_MAX)
        return lac_fail(c->err, LAC_EINVAL, "hello.classes has %zu entries, allowed: at most %d",
                        in->n_classes, LAC_CLASSES_MAX - 1);
    lac_class_facts *classes;
    LAC__TRY(lac__get_alloc(c, in->n_classes, sizeof *classes, &classes));
    for (size_t i = 0; i < in->n_classes; i++)
        LAC__TRY_IN(lac__get_class(c, in->classes[i], &classes[i]), c->err, "hello.classes[%zu]",
                    i);
    out->classes = classes;
    out->classes_count = (uint32_t)in->n_classes;
    return LAC_OK;
}

static lac_status get_hello(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg)
{
    const Pb__Hello *in = (const Pb__Hello *)body;
    lac_hello *out = &msg->body.hello;
    LAC__TRY(lac__get_text(c, "hello.group", in->group, out->group, sizeof out->group));
    LAC__TRY(lac__get_bytes(c, "hello.incarnation", in->incarnation, out->incarnation,
                            sizeof out->incarnation));
    LAC__TRY(lac__get_text(c, "hello.model", in->model, out->model, sizeof out->model));
    LAC__TRY(lac__get_bytes(c, "hello.model_digest", in->model_digest, out->model_digest.bytes,
                            sizeof out->model_digest.bytes));
    LAC__TRY(lac__get_text(c, "hello.architecture", in->architecture, out->architecture,
                           sizeof out->architecture));
    LAC__TRY(lac__get_text(c, "hello.chat_family", in->chat_family, out->chat_family,
                           sizeof out->chat_family));
    LAC__TRY(lac__get_text(c, "hello.isa", in->isa, out->isa, sizeof out->isa));
    out->rank = in->rank;
    out->pp = in->pp;
    out->tp = in->tp;
    out->features = in->features;
    out->pid = in->pid;
    out->layers = in->layers;
    out->vocab = in->vocab;
    out->context_max = in->context_max;
    out->slots = in->slots;
    out->kv_pages = in->kv_pages;
    out->model_bytes = in->model_bytes;
    out->threads = in->threads;
    LAC__TRY(lac__get_hello_rank(c, in, out));
    LAC__TRY(get_classes(c, in, out));
    return get_running(c, in, out);
}

static void put_hello_ack(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body)
{
    (void)c;
    const lac_hello_ack *in = &msg->body.hello_ack;
    Pb__HelloAck *out = (Pb__HelloAck *)body;
    LAC__PUT(out, session, in->session);
    LAC__PUT(out, epoch, in->epoch);
    out->incarnation = put_incarnation(in->incarnation);
    out->has_incarnation = out->incarnation.len != 0;
    LAC__PUT(out, heartbeat_ms, in->heartbeat_ms);
    LAC__PUT(out, lease_ms, in->lease_ms);
}

static lac_status get_hello_ack(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg)
{
    const Pb__HelloAck *in = (const Pb__HelloAck *)body;
    lac_hello_ack *out = &msg->body.hello_ack;
    out->session = in->session;
    out->epoch = in->epoch;
    out->heartbeat_ms = in->heartbeat_ms;
    out->lease_ms = in->lease_ms;
    return lac__get_bytes(c, "hello_ack.incarnation", in->incarnation, out->incarnation,
                          sizeof out->incarnation);
}

static void put_hello_reject(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body)
{
    const lac_hello_reject *in = &msg->body.hello_reject;
    Pb__HelloReject *out = (Pb__HelloReject *)body;
    LAC__PUT(out, major_min, in->major_min);
    LAC__PUT(out, major_max, in->major_max);
    LAC__PUT_REASON(c, out, reason, in->reason);
}

static lac_status get_hello_reject(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg)
{
    const Pb__HelloReject *in = (const Pb__HelloReject *)body;
    lac_hello_reject *out = &msg->body.hello_reject;
    if (in->major_min > UINT16_MAX || in->major_max > UINT16_MAX)
        return lac_fail(c->err, LAC_EINVAL, "hello_reject majors are %u and %u, allowed: %d",
                        in->major_min, in->major_max, UINT16_MAX);
    out->major_min = (uint16_t)in->major_min;
    out->major_max = (uint16_t)in->major_max;
    return lac__get_text(c, "hello_reject.reason", in->reason, out->reason, sizeof out->reason);
}

static void put_die(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body)
{
    Pb__Die *out = (Pb__Die *)body;
    LAC__PUT_REASON(c, out, reason, msg->body.die.reason);
}

static lac_status get_die(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg)
{
    const Pb__Die *in = (const Pb__Die *)body;
    return lac__get_text(c, "die.reason", in->reason, msg->body.die.reason,
                         sizeof msg->body.die.reason);
}

static void put_class_beats(lac__codec *c, const lac_heartbeat *in, Pb__Heartbeat *out)
{
    if (!in->classes_count)
        return;
    Pb__ClassBeat *classes = lac__put_alloc(c, in->classes_count, sizeof *classes);
    out->classes = lac__put_alloc(c, in->classes_count, sizeof *out->classes);
    out->n_classes = in->classes_count;
    for (uint32_t i = 0; i < in->classes_count; i++) {
        const lac_class_beat *from = &in->classes[i];
        pb__class_beat__init(&classes[i]);
        LAC__PUT(&classes[i], index, from->index);
        LAC__PUT(&classes[i], active_layers, from->active_layers);
        LAC__PUT(&classes[i], requests, from->requests);
        LAC__PUT(&classes[i], tokens, from->tokens);
        LAC__PUT(&classes[i], skip_rate, from->skip_rate);
        LAC__PUT(&classes[i], cost_skip_rate, from->cost_skip_rate);
        out->classes[i] = &classes[i];
    }
}

static void put_heartbeat(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body)
{
    const lac_heartbeat *in = &msg->body.heartbeat;
    Pb__Heartbeat *out = (Pb__Heartbeat *)body;
    LAC__PUT(out, report_seq, in->report_seq);
    LAC__PUT(out, step_counter, in->step_counter);
    LAC__PUT(out, busy, in->busy);
    LAC__PUT(out, step_age_ms, in->step_age_ms);
    LAC__PUT(out, queued, in->queued);
    LAC__PUT(out, running, in->running);
    LAC__PUT(out, kv_pages_used, in->kv_pages_used);
    LAC__PUT(out, kv_pages, in->kv_pages);
    LAC__PUT(out, dispatch_seq_seen, in->dispatch_seq_seen);
    LAC__PUT(out, prompt_tokens, in->prompt_tokens);
    LAC__PUT(out, output_tokens, in->output_tokens);
    LAC__PUT(out, itl_us, in->itl_us);
    LAC__PUT(out, prefill_us, in->prefill_us);
    LAC__PUT(out, rss_bytes, in->rss_bytes);
    LAC__PUT(out, active_layers, in->active_layers);
    LAC__PUT(out, draining, in->draining);
    LAC__PUT(out, class_reruns, in->class_reruns);
    LAC__PUT(out, class_unknown, in->class_unknown);
    LAC__PUT(out, shadows, in->shadows);
    LAC__PUT(out, erased_bytes, in->erased_bytes);
    LAC__PUT(out, released_bytes, in->released_bytes);
    put_class_beats(c, in, out);
}

static lac_status get_heartbeat(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg)
{
    const Pb__Heartbeat *in = (const Pb__Heartbeat *)body;
    if (in->n_classes > LAC_CLASSES_MAX)
        return lac_fail(c->err, LAC_EINVAL, "heartbeat.classes has %zu entries, allowed: %d",
                        in->n_classes, LAC_CLASSES_MAX);
    msg->body.heartbeat = (lac_heartbeat){
        .report_seq = in->report_seq,
        .step_counter = in->step_counter,
        .busy = in->busy != 0,
        .step_age_ms = in->step_age_ms,
        .queued = in->queued,
        .running = in->running,
        .kv_pages_used = in->kv_pages_used,
        .kv_pages = in->kv_pages,
        .dispatch_seq_seen = in->dispatch_seq_seen,
        .prompt_tokens = in->prompt_tokens,
        .output_tokens = in->output_tokens,
        .itl_us = in->itl_us,
        .prefill_us = in->prefill_us,
        .rss_bytes = in->rss_bytes,
        .active_layers = in->active_layers,
        .draining = in->draining != 0,
        .classes_count = (uint32_t)in->n_classes,
        .class_reruns = in->class_reruns,
        .class_unknown = in->class_unknown,
        .shadows = in->shadows,
        .erased_bytes = in->erased_bytes,
        .released_bytes = in->released_bytes,
    };
    for (size_t i = 0; i < in->n_classes; i++)
        msg->body.heartbeat.classes[i] =
            (lac_class_beat){.index = in->classes[i]->index,
                             .active_layers = in->classes[i]->active_layers,
                             .requests = in->classes[i]->requests,
                             .tokens = in->classes[i]->tokens,
                             .skip_rate = in->classes[i]->skip_rate,
                             .cost_skip_rate = in->classes[i]->cost_skip_rate};
    return LAC_OK;
}

static void put_drain(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body)
{
    (void)c;
    Pb__Drain *out = (Pb__Drain *)body;
    LAC__PUT(out, deadline_ms, msg->body.drain.deadline_ms);
}

static lac_status get_drain(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg)
{
    (void)c;
    msg->body.drain.deadline_ms = ((const Pb__Drain *)body)->deadline_ms;
    return LAC_OK;
}

static void put_drained(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body)
{
    (void)c;
    (void)msg;
    (void)body; /* the message has no fields */
}

static lac_status get_drained(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg)
{
    (void)c;
    (void)msg;
    (void)body;
    return LAC_OK;
}

/* ---- requests ---- */

static void put_dispatch(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body)
{
    const lac_dispatch *in = &msg->body.dispatch;
    Pb__Dispatch *out = (Pb__Dispatch *)body;
    LAC__PUT(out, request, in->request);
    LAC__PUT(out, attempt, in->attempt);
    LAC__PUT(out, dispatch_seq, in->dispatch_seq);
    LAC__PUT(out, deadline_ms, in->deadline_ms);
    out->prompt = lac__put_prompt(c, &in->prompt);
    LAC__PUT_LIST(out, accepted, in->accepted, in->accepted_count);
    out->sampling = lac__put_sampling(c, &in->sampling);
    LAC__PUT(out, echo, in->echo);
    out->has_class_digest = in->has_class;
    if (in->has_class) {
        out->class_digest = lac__bin(in->class_digest.bytes, sizeof in->class_digest.bytes);
        out->has_input_type = lac__put_input_type(in->input_type, &out->input_type);
    }
    LAC__PUT(out, shadow, in->shadow);
    static const uint8_t none[sizeof in->cache_salt];
    out->has_cache_salt = memcmp(in->cache_salt, none, sizeof none) != 0;
    if (out->has_cache_salt)
        out->cache_salt = lac__bin(in->cache_salt, sizeof in->cache_salt);
    LAC__PUT_TEXT(out, trace, in->trace);
}

static lac_status get_dispatch(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg)
{
    const Pb__Dispatch *in = (const Pb__Dispatch *)body;
    lac_dispatch *out = &msg->body.dispatch;
    out->request = in->request;
    out->attempt = in->attempt;
    out->dispatch_seq = in->dispatch_seq;
    out->deadline_ms = in->deadline_ms;
    out->accepted = in->accepted;
    out->accepted_count = (uint32_t)in->n_accepted;
    out->echo = in->echo != 0;
    out->has_class = in->has_class_digest && in->class_digest.len != 0;
    out->shadow = in->shadow != 0;
    LAC__TRY(lac__get_bytes(c, "dispatch.cache_salt", in->cache_salt, out->cache_salt,
                            sizeof out->cache_salt));
    LAC__TRY(lac__get_text(c, "dispatch.trace", in->trace, out->trace, sizeof out->trace));
    LAC__TRY(lac__get_bytes(c, "dispatch.class_digest", in->class_digest, out->class_digest.bytes,
                            sizeof out->class_digest.bytes));
    LAC__TRY(lac__get_input_type(c, "dispatch.input_type", in->has_input_type, in->input_type,
                                 &out->input_type));
    LAC__TRY(lac__get_prompt(c, in->prompt, &out->prompt));
    return lac__get_sampling(c, in->sampling, &out->sampling);
}

static void put_cancel(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body)
{
    (void)c;
    Pb__Cancel *out = (Pb__Cancel *)body;
    LAC__PUT(out, request, msg->body.cancel.request);
    LAC__PUT(out, attempt, msg->body.cancel.attempt);
}

static lac_status get_cancel(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg)
{
    (void)c;
    const Pb__Cancel *in = (const Pb__Cancel *)body;
    msg->body.cancel = (lac_cancel){.request = in->request, .attempt = in->attempt};
    return LAC_OK;
}

static bool usage_given(const lac_usage *usage)
{
    return usage->prompt_tokens || usage->completion_tokens || usage->cached_tokens;
}

static void put_step_output(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body)
{
    const lac_step_output *in = &msg->body.step_output;
    Pb__StepOutput *out = (Pb__StepOutput *)body;
    Pb__StepItem *items = lac__put_alloc(c, in->items_count, sizeof *items);
    out->items = lac__put_alloc(c, in->items_count, sizeof *out->items);
    out->n_items = in->items_count;
    for (uint32_t i = 0; i < in->items_count; i++) {
        const lac_step_item *from = &in->items[i];
        Pb__StepItem *to = &items[i];
        pb__step_item__init(to);
        LAC__PUT(to, request, from->request);
        LAC__PUT(to, attempt, from->attempt);
        to->chunk = lac__put_chunk(c, &from->chunk);
        to->has_finish = from->finish != LAC_FINISH_NONE;
        to->finish = (Pb__Finish)from->finish;
        if (usage_given(&from->usage))
            to->usage = lac__put_usage(c, &from->usage);
        to->has_error = from->error != LAC_OK;
        to->error = lac__put_status(from->error);
        LAC__PUT_REASON(c, to, reason, from->reason);
        to->account = lac__put_account(c, from->account);
        out->items[i] = to;
    }
}

static lac_status get_step_item(lac__codec *c, const Pb__StepItem *in, lac_step_item *out)
{
    out->request = in->request;
    out->attempt = in->attempt;
    LAC__TRY(lac__get_chunk(c, in->chunk, &out->chunk));
    LAC__TRY(lac__get_finish(c, "step_output.finish", in->has_finish, in->finish, &out->finish));
    lac__get_usage(in->usage, &out->usage);
    LAC__TRY(lac__get_status(c, "step_output.error", in->has_error, in->error, &out->error));
    LAC__TRY(lac__get_account(c, in->account, &out->account));
    return lac__get_text(c, "step_output.reason", in->reason, out->reason, sizeof out->reason);
}

static lac_status get_step_output(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg)
{
    const Pb__StepOutput *in = (const Pb__StepOutput *)body;
    if (in->n_items > LAC_STEP_ITEMS_MAX)
        return lac_fail(c->err, LAC_EINVAL, "step_output has %zu items, allowed: at most %d",
                        in->n_items, LAC_STEP_ITEMS_MAX);
    lac_step_item *items;
    LAC__TRY(lac__get_alloc(c, in->n_items, sizeof *items, &items));
    for (size_t i = 0; i < in->n_items; i++)
        LAC__TRY(get_step_item(c, in->items[i], &items[i]));
    msg->body.step_output.items = items;
    msg->body.step_output.items_count = (uint32_t)in->n_items;
    return LAC_OK;
}

static void put_shadow(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body)
{
    (void)c;
    const lac_shadow *in = &msg->body.shadow;
    Pb__Shadow *out = (Pb__Shadow *)body;
    out->has_class_digest = 1;
    out->class_digest = lac__bin(in->class_digest.bytes, sizeof in->class_digest.bytes);
    out->has_input_type = lac__put_input_type(in->input_type, &out->input_type);
    LAC__PUT(out, tokens, in->tokens);
    LAC__PUT(out, kl_mean, in->kl_mean);
    LAC__PUT(out, top1_agree, in->top1_agree);
    LAC__PUT(out, top1_p, in->top1_p);
    LAC__PUT(out, top1_p_full, in->top1_p_full);
    LAC__PUT(out, canary, in->canary);
}

static lac_status get_shadow(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg)
{
    const Pb__Shadow *in = (const Pb__Shadow *)body;
    lac_shadow *out = &msg->body.shadow;
    out->tokens = in->tokens;
    out->kl_mean = in->kl_mean;
    out->top1_agree = in->top1_agree;
    out->top1_p = in->top1_p;
    out->top1_p_full = in->top1_p_full;
    out->canary = in->canary != 0;
    LAC__TRY(lac__get_bytes(c, "shadow.class_digest", in->class_digest, out->class_digest.bytes,
                            sizeof out->class_digest.bytes));
    return lac__get_input_type(c, "shadow.input_type", in->has_input_type, in->input_type,
                               &out->input_type);
}

static void put_fault(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body)
{
    const lac_fault *in = &msg->body.fault;
    Pb__Fault *out = (Pb__Fault *)body;
    out->has_status = in->status != LAC_OK;
    out->status = lac__put_status(in->status);
    LAC__PUT_REASON(c, out, reason, in->reason);
}

static lac_status get_fault(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg)
{
    const Pb__Fault *in = (const Pb__Fault *)body;
    lac_fault *out = &msg->body.fault;
    LAC__TRY(lac__get_status(c, "fault.status", in->has_status, in->status, &out->status));
    return lac__get_text(c, "fault.reason", in->reason, out->reason, sizeof out->reason);
}

/* Allowances: a running entry of 4 bytes parses to 112, a step item of 12 to about 560, one with an
 * account of 30 to about 1,000. */
const lac__codec_row lac__codec_worker_rows[] = {
    {LAC_MSG_HELLO, false, 1 << 20, &pb__hello__descriptor, put_hello, get_hello, lac__check_hello},
    {LAC_MSG_HEARTBEAT, false, 16 << 10, &pb__heartbeat__descriptor, put_heartbeat, get_heartbeat,
     lac__check_heartbeat},
    {LAC_MSG_STEP_OUTPUT, false, 2 << 20, &pb__step_output__descriptor, put_step_output,
     get_step_output, lac__check_step_output},
    {LAC_MSG_DRAINED, false, 0, &pb__drained__descriptor, put_drained, get_drained,
     lac__check_nothing},
    {LAC_MSG_FAULT, false, 0, &pb__fault__descriptor, put_fault, get_fault, lac__check_fault},
    {LAC_MSG_SHADOW, false, 0, &pb__shadow__descriptor, put_shadow, get_shadow, lac__check_shadow},
    {LAC_MSG_HELLO_ACK, false, 0, &pb__hello_ack__descriptor, put_hello_ack, get_hello_ack,
     lac__check_hello_ack},
    {LAC_MSG_HELLO_REJECT, false, 0, &pb__hello_reject__descriptor, put_hello_reject,
     get_hello_reject, lac__check_hello_reject},
    {LAC_MSG_REREGISTER, false, 0, &pb__die__descriptor, put_die, get_die, lac__check_nothing},
    {LAC_MSG_DIE, false, 0, &pb__die__descriptor, put_die, get_die, lac__check_nothing},
    {LAC_MSG_DISPATCH, false, 256 << 10, &pb__dispatch__descriptor, put_dispatch, get_dispatch,
     lac__check_dispatch},
    {LAC_MSG_CANCEL, false, 0, &pb__cancel__descriptor, put_cancel, get_cancel, lac__check_cancel},
    {LAC_MSG_DRAIN, false, 0, &pb__drain__descriptor, put_drain, get_drain, lac__check_nothing},
    {LAC_MSG_FORM, false, 64 << 10, &pb__form__descriptor, lac__put_form, lac__get_form,
     lac__check_form},
    {.type = LAC_MSG_NONE},
};
