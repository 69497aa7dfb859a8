/* See harness.h. */
#include "harness.h"

static void note(void *arg, lac_log_level level, const char *format, const char *text)
{
    (void)format;
    bench *b = arg;
    (void)level;
    size_t used = strlen(b->notes);
    snprintf(b->notes + used, sizeof b->notes - used, "%s\n", text);
}

static void copy_span(char *to, size_t size, lac_span from)
{
    size_t length = from.length < size - 1 ? from.length : size - 1;
    if (length)
        memcpy(to, from.data, length);
    to[length] = 0;
}

static void copy_reason(sent *s, const char *reason)
{
    snprintf(s->reason, sizeof s->reason, "%s", reason);
}

static void record_worker(bench *b, sent *s, const lac_msg *msg)
{
    const lac_dispatch *d = &msg->body.dispatch;
    switch (msg->envelope.type) {
    case LAC_MSG_HELLO_ACK:
        memcpy(s->incarnation, msg->body.hello_ack.incarnation, 16);
        ck_assert_uint_eq(msg->body.hello_ack.session, msg->envelope.session);
        break;
    case LAC_MSG_HELLO_REJECT: copy_reason(s, msg->body.hello_reject.reason); break;
    case LAC_MSG_DIE:
    case LAC_MSG_REREGISTER: copy_reason(s, msg->body.die.reason); break;
    case LAC_MSG_DISPATCH:
        s->request = d->request;
        s->attempt = d->attempt;
        s->seq = d->dispatch_seq;
        s->deadline_ms = d->deadline_ms;
        s->accepted_count = d->accepted_count;
        for (uint32_t i = 0; i < d->accepted_count && i < 64; i++)
            s->accepted[i] = d->accepted[i];
        ck_assert(d->sampling.has_seed);
        s->seed = d->sampling.seed;
        s->echo = d->echo;
        s->has_class = d->has_class;
        s->class_digest = d->class_digest;
        s->input_type = d->input_type;
        s->shadow = d->shadow;
        memcpy(s->cache_salt, d->cache_salt, sizeof s->cache_salt);
        copy_span(s->text, sizeof s->text,
                  d->prompt.kind == LAC_PROMPT_CHAT ? d->prompt.messages[0].content
                                                    : d->prompt.text);
        break;
    case LAC_MSG_FORM:
        memcpy(s->incarnation, msg->body.form.incarnation, 16);
        copy_span(b->config, sizeof b->config, msg->body.form.config);
        s->config_digest = msg->body.form.config_digest;
        s->addresses_count = msg->body.form.addresses_count;
        for (uint32_t i = 0; i < s->addresses_count && i < 2; i++)
            copy_span(s->addresses[i], sizeof s->addresses[i], msg->body.form.addresses[i]);
        break;
    case LAC_MSG_CANCEL:
        s->request = msg->body.cancel.request;
        s->attempt = msg->body.cancel.attempt;
        break;
    default: break;
    }
}

static void copy_account(sent *s, const lac_run_account *account)
{
    if (!account)
        return;
    snprintf(s->class_name, sizeof s->class_name, "%s", account->class_name);
    snprintf(s->why, sizeof s->why, "%s", account->why);
    snprintf(s->mask, sizeof s->mask, "%s", account->mask ? account->mask : "");
    s->skip_rate = account->skip_rate;
}

static void record_client(sent *s, const lac_msg *msg)
{
    const lac_chunk *c = &msg->body.tokens.chunk;
    switch (msg->envelope.type) {
    case LAC_MSG_ACCEPTED:
        s->stream = msg->body.accepted.stream;
        s->request = msg->body.accepted.request;
        snprintf(s->model, sizeof s->model, "%s", msg->body.accepted.model);
        s->quota = msg->body.accepted.quota;
        break;
    case LAC_MSG_TOKENS:
        s->stream = msg->body.tokens.stream;
        s->first_pos = c->first_pos;
        s->tokens_count = c->tokens_count;
        for (uint32_t i = 0; i < c->tokens_count && i < 64; i++)
            s->tokens[i] = c->tokens[i];
        copy_span(s->text, sizeof s->text, c->text);
        s->logprobs_count = c->logprobs_count;
        copy_account(s, msg->body.tokens.account);
        if (c->logprobs_count && c->logprobs[0].top_count)
            copy_span(s->logprob_text, sizeof s->logprob_text, c->logprobs[0].top[0].text);
        break;
    case LAC_MSG_DONE:
        s->stream = msg->body.done.stream;
        s->finish = msg->body.done.finish;
        s->usage = msg->body.done.usage;
        copy_account(s, msg->body.done.account);
        break;
    case LAC_MSG_REFUSED:
        s->stream = msg->body.refused.stream;
        s->status = msg->body.refused.status;
        s->retry_after_ms = msg->body.refused.retry_after_ms;
        copy_reason(s, msg->body.refused.reason);
        s->cause = msg->body.refused.cause;
        s->quota = msg->body.refused.quota;
        break;
    default: break;
    }
}

static lac_status sink(void *arg, const lac_action *action)
{
    bench *b = arg;
    if (b->gone_peer == action->peer && b->gone_plane == action->plane)
        return LAC_EPEER;
    if (b->busy_peer == action->peer && b->busy_plane == action->plane)
        return LAC_BUSY;
    ck_assert_uint_lt(b->log_count, sizeof b->log / sizeof *b->log);
    sent *s = &b->log[b->log_count++];
    *s = (sent){.plane = action->plane,
                .peer = action->peer,
                .session = action->msg->envelope.session,
                .epoch = action->msg->envelope.epoch,
                .type = action->msg->envelope.type};
    if (action->plane == LAC_PLANE_WORKER)
        record_worker(b, s, action->msg);
    else
        record_client(s, action->msg);
    return LAC_OK;
}

void bench_open_with(bench *b, lac_core_options options)
{
    memset(b, 0, sizeof *b);
    b->now = 1000;
    b->metrics = lac_metrics_create(256);
    options.epoch = EPOCH;
    options.seed = 42;
    options.note = note;
    options.note_arg = b;
    b->core = lac_core_create(&options, b->metrics, sink, b);
    ck_assert_ptr_nonnull(b->core);
    tick(b, 0);
}

void bench_open(bench *b)
{
    bench_open_with(b, (lac_core_options){0});
}

void bench_close(bench *b)
{
    lac_core_audit(b->core);
    lac_core_destroy(&b->core);
    lac_metrics_destroy(&b->metrics);
}

const sent *next_sent(bench *b, uint16_t type)
{
    while (b->read < b->log_count) {
        const sent *s = &b->log[b->read++];
        if (s->type == type)
            return s;
    }
    return NULL;
}

const sent *expect(bench *b, uint16_t type)
{
    size_t from = b->read;
    const sent *s = next_sent(b, type);
    if (!s) {
        for (size_t i = from; i < b->log_count; i++)
            fprintf(stderr, "unread: %s %s\n", lac_msg_name(b->log[i].type), b->log[i].reason);
        ck_abort_msg("no %s was sent; notes:\n%s", lac_msg_name(type), b->notes);
    }
    return s;
}

const sent *expect_moved(bench *b)
{
    wait_ms(b, 200);
    return expect(b, LAC_MSG_DISPATCH);
}

void expect_none(bench *b, uint16_t type)
{
    for (size_t i = b->read; i < b->log_count; i++)
        if (b->log[i].type == type)
            ck_abort_msg("a %s was sent: %s", lac_msg_name(type), b->log[i].reason);
}

void forget(bench *b)
{
    b->read = b->log_count;
}

double metric(bench *b, const char *name, const char *labels)
{
    lac_buf text = {0};
    char key[128];
    snprintf(key, sizeof key, *labels ? "\n%s{%s} " : "\n%s%s ", name, labels);
    lac_metrics_render(b->metrics, &text);
    const char *at = strstr(text.data, key);
    ck_assert_msg(at != NULL, "no metric %s", key);
    double value = strtod(at + strlen(key), NULL);
    lac_buf_free(&text);
    return value;
}

void event(bench *b, lac_plane plane, uint64_t peer, lac_msg *msg)
{
    lac_event e = {.kind = LAC_EVENT_MESSAGE, .plane = plane, .peer = peer, .msg = msg};
    lac_core_step(b->core, b->now, &e);
    lac_core_audit(b->core);
}

void tick(bench *b, uint64_t after_ms)
{
    b->now += after_ms;
    lac_event e = {.kind = LAC_EVENT_TICK, .wall_s = 1700000000};
    lac_core_step(b->core, b->now, &e);
    lac_core_audit(b->core);
}

void wait_ms(bench *b, uint64_t ms)
{
    for (uint64_t at = 0; at < ms; at += 100)
        tick(b, 100);
}

void lost(bench *b, lac_plane plane, uint64_t peer)
{
    lac_event e = {.kind = LAC_EVENT_LOST, .plane = plane, .peer = peer};
    lac_core_step(b->core, b->now, &e);
    lac_core_audit(b->core);
}

lac_hello hello_of(const char *group, const char *model, uint32_t slots)
{
    lac_hello h = {.pp = 1,
                   .tp = 1,
                   .pid = 4711,
                   .layers = 4,
                   .vocab = 100,
                   .context_max = 512,
                   .slots = slots};
    snprintf(h.group, sizeof h.group, "%s", group);
    snprintf(h.model, sizeof h.model, "%s", model);
    snprintf(h.architecture, sizeof h.architecture, "llama");
    return h;
}

void say_hello(bench *b, uint64_t peer, const lac_hello *hello)
{
    lac_msg msg = {.envelope.type = LAC_MSG_HELLO, .body.hello = *hello};
    event(b, LAC_PLANE_WORKER, peer, &msg);
}

uint64_t join(bench *b, uint64_t peer, const char *group, uint32_t slots)
{
    lac_hello h = hello_of(group, "tiny", slots);
    forget(b);
    say_hello(b, peer, &h);
    const sent *ack = expect(b, LAC_MSG_HELLO_ACK);
    ck_assert_uint_eq(ack->peer, peer);
    ck_assert_uint_eq(ack->epoch, EPOCH);
    ck_assert_uint_ne(ack->session, 0);
    return ack->session;
}

void beat(bench *b, uint64_t peer, uint64_t session, lac_heartbeat heartbeat)
{
    lac_msg msg = {.envelope = {.type = LAC_MSG_HEARTBEAT, .epoch = EPOCH, .session = session},
                   .body.heartbeat = heartbeat};
    event(b, LAC_PLANE_WORKER, peer, &msg);
}

void keep_alive(bench *b, uint64_t ms, int workers, const uint64_t *peers, const uint64_t *sessions)
{
    for (uint64_t at = 0; at < ms; at += 500) {
        wait_ms(b, 500);
        for (int i = 0; i < workers; i++)
            beat(b, peers[i], sessions[i], (lac_heartbeat){0});
    }
}

void output_item(bench *b, uint64_t peer, uint64_t session, const lac_step_item *item)
{
    lac_msg msg = {.envelope = {.type = LAC_MSG_STEP_OUTPUT, .epoch = EPOCH, .session = session},
                   .body.step_output = {.items_count = 1, .items = item}};
    event(b, LAC_PLANE_WORKER, peer, &msg);
}

void output(bench *b, uint64_t peer, uint64_t session, const sent *dispatch, uint32_t first_pos,
            uint32_t count, lac_finish finish)
{
    uint32_t tokens[64];
    char text[65];
    for (uint32_t i = 0; i < count; i++) {
        tokens[i] = first_pos + i + 100;
        text[i] = (char)('a' + (first_pos + i) % 26);
    }
    lac_step_item item = {.request = dispatch->request,
                          .attempt = dispatch->attempt,
                          .chunk = {.first_pos = first_pos,
                                    .tokens_count = count,
                                    .tokens = count ? tokens : NULL,
                                    .text = {count ? text : NULL, count}},
                          .finish = finish};
    if (finish != LAC_FINISH_NONE)
        item.usage = (lac_usage){.prompt_tokens = 5, .completion_tokens = first_pos + count};
    output_item(b, peer, session, &item);
}

lac_submit submit_of(uint64_t stream, const char *text)
{
    return (lac_submit){.stream = stream,
                        .prompt = {.kind = LAC_PROMPT_TEXT, .text = {text, (uint32_t)strlen(text)}},
                        .sampling = lac_sampling_default(),
                        .credit = 100};
}

void submit_as(bench *b, uint64_t peer, const char *tenant, const lac_submit *body)
{
    lac_msg msg = {.envelope.type = LAC_MSG_SUBMIT, .body.submit = *body, .tenant = tenant};
    event(b, LAC_PLANE_CLIENT, peer, &msg);
}

void submit(bench *b, uint64_t peer, const lac_submit *body)
{
    submit_as(b, peer, NULL, body);
}

const sent *submit_and_dispatch(bench *b, uint64_t peer, uint64_t stream)
{
    lac_submit s = submit_of(stream, "hello");
    forget(b);
    submit(b, peer, &s);
    return expect(b, LAC_MSG_DISPATCH);
}

void cancel(bench *b, uint64_t peer, uint64_t stream)
{
    lac_msg msg = {.envelope.type = LAC_MSG_CLIENT_CANCEL, .body.client_cancel.stream = stream};
    event(b, LAC_PLANE_CLIENT, peer, &msg);
}

void grant(bench *b, uint64_t peer, uint64_t stream, uint32_t messages)
{
    lac_msg msg = {.envelope.type = LAC_MSG_CREDIT,
                   .body.credit = {.stream = stream, .messages = messages}};
    event(b, LAC_PLANE_CLIENT, peer, &msg);
}
