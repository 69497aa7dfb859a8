/* Every field of every message as text. Written apart from the codec, so that a field the codec
 * forgets in both directions is still missed. */
#include "base/digest.h"
#include "samples.h"

#define U(name) lac_buf_printf(out, #name "=%llu\n", (unsigned long long)(b->name))
#define F(name) lac_buf_printf(out, #name "=%.9g\n", (double)(b->name))
#define S(name) lac_buf_printf(out, #name "=%s\n", b->name)

/* Long data by its digest, so that messages at their limits stay quick to compare. */
enum { SHOWN_MAX = 256 };

static void bytes(const char *name, const void *data, size_t length, lac_buf *out)
{
    lac_digest digest;
    lac_buf_printf(out, "%s[%zu]=", name, length);
    if (length > SHOWN_MAX) {
        lac_sha256(data, length, &digest);
        data = digest.bytes;
        length = sizeof digest.bytes;
    }
    for (size_t i = 0; i < length; i++)
        lac_buf_printf(out, "%02x", ((const uint8_t *)data)[i]);
    lac_buf_text(out, "\n");
}

static void ids(const char *name, const uint32_t *list, uint32_t count, lac_buf *out)
{
    bytes(name, list, count * sizeof *list, out);
}

static void prompt(const lac_prompt *b, lac_buf *out)
{
    U(kind);
    U(want), U(parts), U(without_bos), U(tool_required), U(one_call), U(thinking);
    for (uint32_t i = 0; i < b->messages_count; i++) {
        const lac_chat_message *m = &b->messages[i];
        bytes(m->role, m->content.data, m->content.length, out);
        bytes("reasoning", m->reasoning.data, m->reasoning.length, out);
        bytes("calls", m->calls.data, m->calls.length, out);
        bytes("call_id", m->call_id.data, m->call_id.length, out);
    }
    bytes("suffix", b->suffix.data, b->suffix.length, out);
    bytes("tools", b->tools.data, b->tools.length, out);
    lac_buf_printf(out, "tool_name=%s\n", b->tool_name);
    bytes("text", b->text.data, b->text.length, out);
    ids("ids", b->ids, b->ids_count, out);
}

static void sampling(const lac_sampling *b, lac_buf *out)
{
    F(temperature), F(top_p), F(min_p), U(top_k), F(repetition_penalty), F(presence_penalty);
    F(frequency_penalty), U(has_seed), U(seed), U(choice), U(max_tokens), U(min_tokens);
    U(ignore_eos), U(logprobs), U(top_logprobs), U(stops_count), U(bias_count);
    for (uint32_t i = 0; i < b->stops_count; i++)
        bytes("stop", b->stops[i].bytes, b->stops[i].length, out);
    bytes("grammar", b->grammar, b->grammar_length, out);
    for (uint32_t i = 0; i < b->bias_count; i++)
        lac_buf_printf(out, "bias %u %.9g\n", b->bias[i].token, (double)b->bias[i].bias);
}

static void top_logprob(const lac_top_logprob *b, lac_buf *out)
{
    U(token), F(logprob);
    bytes("text", b->text.data, b->text.length, out);
}

static void chunk(const lac_chunk *b, lac_buf *out)
{
    U(first_pos), U(logprobs_count);
    ids("tokens", b->tokens, b->tokens_count, out);
    bytes("text", b->text.data, b->text.length, out);
    for (uint32_t i = 0; i < b->logprobs_count; i++) {
        top_logprob(&b->logprobs[i].chosen, out);
        lac_buf_printf(out, "others=%u\n", b->logprobs[i].top_count);
        for (uint32_t k = 0; k < b->logprobs[i].top_count; k++)
            top_logprob(&b->logprobs[i].top[k], out);
    }
}

static void usage(const lac_usage *b, lac_buf *out)
{
    U(prompt_tokens), U(completion_tokens), U(cached_tokens);
}

/* Fields of version 1.2 are shown only when they are set: older recordings have none. */

static void class_facts(const lac_class_facts *b, lac_buf *out)
{
    S(name), U(scope), U(active_layers), F(skip_rate), F(cost_skip_rate), F(cost);
    bytes("class", b->digest.bytes, 32, out);
    lac_buf_printf(out, "mask=%s\n", b->mask ? b->mask : "");
    for (int t = 0; t < LAC_INPUT_TYPES; t++)
        lac_buf_printf(out, "certificate %d %.9g %.9g\n", b->serves[t].tier,
                       (double)b->serves[t].kl_mean, (double)b->serves[t].kl_upper);
}

static void account(const lac_run_account *b, lac_buf *out)
{
    if (!b)
        return;
    U(forced), S(class_name), U(layers), U(active_layers), F(skip_rate), F(cost_skip_rate);
    F(flops), U(kv_bytes), S(why);
    lac_buf_printf(out, "mask=%s\n", b->mask ? b->mask : "");
}

static void hello(const lac_hello *b, lac_buf *out)
{
    S(group), U(rank), U(pp), U(tp), U(features), U(pid), S(model), S(architecture);
    S(chat_family), S(isa), U(layers), U(vocab), U(context_max), U(slots), U(kv_pages);
    U(model_bytes), U(threads), U(running_count);
    bytes("incarnation", b->incarnation, 16, out);
    bytes("digest", b->model_digest.bytes, 32, out);
    for (uint32_t i = 0; i < b->running_count; i++)
        lac_buf_printf(out, "running %llu %u %u\n", (unsigned long long)b->running[i].request,
                       b->running[i].attempt, b->running[i].next_pos);
    for (uint32_t i = 0; i < b->classes_count; i++)
        class_facts(&b->classes[i], out);
    if (!b->host[0]) /* of one rank of several, from 1.3 on */
        return;
    S(host), U(formed), U(layer_first), U(layer_end), U(erased_units);
    bytes("address", b->address.data, b->address.length, out);
    bytes("plan", b->plan_digest.bytes, 32, out);
    bytes("config", b->config_digest.bytes, 32, out);
}

static void form(const lac_form *b, lac_buf *out)
{
    bytes("incarnation", b->incarnation, 16, out);
    bytes("config", b->config.data, b->config.length, out);
    bytes("digest", b->config_digest.bytes, 32, out);
    for (uint32_t i = 0; i < b->addresses_count; i++)
        bytes("address", b->addresses[i].data, b->addresses[i].length, out);
}

static void rank(const lac_rank_status *b, lac_buf *out)
{
    lac_buf_printf(out, "rank %u %llu %u %llu\n", b->rank, (unsigned long long)b->pid,
                   b->active_layers, (unsigned long long)b->rss_bytes);
    if (b->host[0]) /* from 1.3 on */
        U(layer_first), U(layer_end), U(erased_units), U(weight_bytes), S(host);
}

static void heartbeat(const lac_heartbeat *b, lac_buf *out)
{
    U(report_seq), U(step_counter), U(busy), U(step_age_ms), U(queued), U(running);
    U(kv_pages_used), U(kv_pages), U(dispatch_seq_seen), U(prompt_tokens), U(output_tokens);
    U(itl_us), U(prefill_us), U(rss_bytes), U(active_layers), U(draining);
    if (b->classes_count)
        U(class_reruns), U(class_unknown), U(shadows), U(erased_bytes), U(released_bytes);
    for (uint32_t i = 0; i < b->classes_count; i++)
        lac_buf_printf(out, "class %u %u %llu %llu %.9g %.9g\n", b->classes[i].index,
                       b->classes[i].active_layers, (unsigned long long)b->classes[i].requests,
                       (unsigned long long)b->classes[i].tokens, (double)b->classes[i].skip_rate,
                       (double)b->classes[i].cost_skip_rate);
}

static void shadow(const lac_shadow *b, lac_buf *out)
{
    U(input_type), U(tokens), F(kl_mean), F(top1_agree), F(top1_p), F(top1_p_full), U(canary);
    bytes("class", b->class_digest.bytes, 32, out);
}

static void step_output(const lac_step_output *s, lac_buf *out)
{
    for (uint32_t i = 0; i < s->items_count; i++) {
        const lac_step_item *b = &s->items[i];
        U(request), U(attempt), U(finish), U(error), S(reason);
        chunk(&b->chunk, out);
        usage(&b->usage, out);
        account(b->account, out);
    }
}

static void dispatch(const lac_dispatch *b, lac_buf *out)
{
    U(request), U(attempt), U(dispatch_seq), U(deadline_ms), U(echo);
    prompt(&b->prompt, out);
    ids("accepted", b->accepted, b->accepted_count, out);
    sampling(&b->sampling, out);
    S(trace);
    if (b->has_class) {
        U(input_type), U(shadow);
        bytes("class", b->class_digest.bytes, 32, out);
    }
    if (b->cache_salt[0])
        bytes("cache_salt", b->cache_salt, sizeof b->cache_salt, out);
}

static void quota(const lac_quota *b, lac_buf *out)
{
    if (b->requests_limit || b->tokens_limit)
        U(requests_limit), U(requests_left), U(requests_reset_ms), U(tokens_limit), U(tokens_left),
            U(tokens_reset_ms);
}

static void submit(const lac_submit *b, lac_buf *out)
{
    U(stream), S(model), U(deadline_ms), U(credit), U(echo);
    if (b->priority) /* a later field: older recordings have none */
        U(priority);
    S(trace);
    if (b->hint[0] || b->sparse || b->has_tier || b->force[0])
        S(hint), U(sparse), U(has_tier), U(tier_max), S(force);
    if (b->service)
        U(service);
    prompt(&b->prompt, out);
    sampling(&b->sampling, out);
}

static void group(const lac_group_status *b, lac_buf *out)
{
    S(id), S(state), S(model), S(isa), U(layers), U(slots), U(running), U(queued);
    U(kv_pages_used), U(kv_pages), U(itl_us), U(output_tokens), U(heartbeat_age_ms);
    if (b->pp) /* from 1.3 on */
        U(pp), U(tp);
    for (uint32_t i = 0; i < b->ranks_count; i++)
        rank(&b->ranks[i], out);
    for (uint32_t i = 0; i < b->classes_count; i++)
        lac_buf_printf(out, "class %s %u %u %llu %.9g %.9g\n", b->classes[i].name,
                       b->classes[i].running, b->classes[i].active_layers,
                       (unsigned long long)b->classes[i].tokens, (double)b->classes[i].skip_rate,
                       (double)b->classes[i].cost_skip_rate);
}

static void status_reply(const lac_status_reply *b, lac_buf *out)
{
    U(stream), S(version), S(http), U(epoch), U(uptime_ms), U(queued), U(running);
    U(requests_total), U(tokens_total), U(groups_count);
    for (uint32_t i = 0; i < b->groups_count; i++)
        group(&b->groups[i], out);
    if (b->queued_tokens || b->streams)
        U(queued_tokens), U(streams);
    for (uint32_t i = 0; i < b->checks_count; i++) {
        const lac_check *k = &b->checks[i];
        lac_buf_printf(out, "check %s %d %d %.17g %.17g %.17g %s \"%s\"\n", k->name, k->known,
                       k->good, k->value, k->low, k->high, k->cause, k->text);
    }
    for (uint32_t i = 0; i < b->decided_count; i++) {
        const lac_decided *d = &b->decided[i];
        lac_buf_printf(out, "decided %llu %llu %s %s %s %s %s %u %u \"%s\"\n",
                       (unsigned long long)d->request, (unsigned long long)d->age_ms, d->type,
                       d->task, d->class_name, d->group, d->outcome, d->tokens, d->total_ms,
                       d->why);
    }
}

static void path_reply(const lac_path_reply *b, lac_buf *out)
{
    U(stream), S(type), S(task), U(tokens_max), S(class_name), S(class_reason), S(type_reason);
    bytes("fingerprint", b->fingerprint.bytes, sizeof b->fingerprint.bytes, out);
    for (uint32_t i = 0; i < b->features_count; i++)
        lac_buf_printf(out, "feature %s=%u\n", b->features[i].name, b->features[i].value);
    if (b->request) {
        U(request), S(group);
        lac_buf_printf(out, "mask=%s\n", b->mask ? b->mask : "");
    }
}

static void path_query(const lac_path_query *b, lac_buf *out)
{
    U(stream);
    if (b->request)
        U(request), S(model);
    prompt(&b->prompt, out);
}

static void path_force(const lac_path_force *b, lac_buf *out)
{
    U(stream), S(class_name), S(model);
}

static void scale(const lac_scale *b, lac_buf *out)
{
    U(stream), U(groups_min), U(groups_max);
}

static void drain_group(const lac_drain_group *b, lac_buf *out)
{
    U(stream), S(group), U(deadline_ms);
}

static void ordered(const lac_ordered *b, lac_buf *out)
{
    U(stream), S(text);
}

static void plan_reply(const lac_plan_reply *p, lac_buf *out)
{
    lac_buf_printf(out, "plan %llu %d %s\n", (unsigned long long)p->stream, p->tier_max, p->forced);
    for (uint32_t i = 0; i < p->classes_count; i++) {
        const lac_known_class *b = &p->classes[i];
        S(model), U(groups), U(requests), U(tokens), U(forced);
        class_facts(&b->facts, out);
        for (int t = 0; t < LAC_INPUT_TYPES; t++)
            lac_buf_printf(out, "guard %s %.17g %llu %llu\n", b->guards[t].state,
                           b->guards[t].evidence, (unsigned long long)b->guards[t].shadows,
                           (unsigned long long)b->guards[t].trips);
    }
}

static void small_worker(const lac_msg *msg, lac_buf *out)
{
    if (msg->envelope.type == LAC_MSG_HELLO_ACK) {
        const lac_hello_ack *b = &msg->body.hello_ack;
        U(session), U(epoch), U(heartbeat_ms), U(lease_ms);
        bytes("incarnation", b->incarnation, 16, out);
    } else if (msg->envelope.type == LAC_MSG_HELLO_REJECT) {
        const lac_hello_reject *b = &msg->body.hello_reject;
        U(major_min), U(major_max), S(reason);
    } else if (msg->envelope.type == LAC_MSG_FAULT) {
        const lac_fault *b = &msg->body.fault;
        U(status), S(reason);
    } else if (msg->envelope.type == LAC_MSG_CANCEL) {
        const lac_cancel *b = &msg->body.cancel;
        U(request), U(attempt);
    } else if (msg->envelope.type == LAC_MSG_DRAIN) {
        const lac_drain *b = &msg->body.drain;
        U(deadline_ms);
    } else {
        const lac_die *b = &msg->body.die; /* also REREGISTER; empty for DRAINED */
        S(reason);
    }
}

static void small_client(const lac_msg *msg, lac_buf *out)
{
    if (msg->envelope.type == LAC_MSG_CREDIT) {
        const lac_credit *b = &msg->body.credit;
        U(stream), U(messages);
    } else if (msg->envelope.type == LAC_MSG_ACCEPTED) {
        const lac_accepted *b = &msg->body.accepted;
        U(stream), U(request), S(model);
        quota(&b->quota, out);
    } else if (msg->envelope.type == LAC_MSG_DONE) {
        const lac_done *b = &msg->body.done;
        U(stream), U(finish);
        usage(&b->usage, out);
        account(b->account, out);
    } else if (msg->envelope.type == LAC_MSG_REFUSED) {
        const lac_refused *b = &msg->body.refused;
        U(stream), U(status), U(retry_after_ms), S(reason);
        if (b->cause)
            U(cause);
        quota(&b->quota, out);
    } else if (msg->envelope.type == LAC_MSG_FEEDBACK) {
        const lac_feedback *b = &msg->body.feedback;
        U(stream), U(request), U(good);
    } else {
        const lac_client_cancel *b = &msg->body.client_cancel; /* also STATUS_QUERY, PLAN_QUERY */
        U(stream);
    }
}

void msg_dump(const lac_msg *msg, lac_buf *out)
{
    const lac_envelope *b = &msg->envelope;
    U(type), U(epoch), U(session), U(seq);
    switch (msg->envelope.type) {
    case LAC_MSG_HELLO: hello(&msg->body.hello, out); break;
    case LAC_MSG_HEARTBEAT: heartbeat(&msg->body.heartbeat, out); break;
    case LAC_MSG_STEP_OUTPUT: step_output(&msg->body.step_output, out); break;
    case LAC_MSG_DISPATCH: dispatch(&msg->body.dispatch, out); break;
    case LAC_MSG_SUBMIT: submit(&msg->body.submit, out); break;
    case LAC_MSG_TOKENS:
        lac_buf_printf(out, "stream=%llu\n", (unsigned long long)msg->body.tokens.stream);
        chunk(&msg->body.tokens.chunk, out);
        account(msg->body.tokens.account, out);
        break;
    case LAC_MSG_SHADOW: shadow(&msg->body.shadow, out); break;
    case LAC_MSG_FORM: form(&msg->body.form, out); break;
    case LAC_MSG_PATH_QUERY: path_query(&msg->body.path_query, out); break;
    case LAC_MSG_SCALE: scale(&msg->body.scale, out); break;
    case LAC_MSG_DRAIN_GROUP: drain_group(&msg->body.drain_group, out); break;
    case LAC_MSG_ORDERED: ordered(&msg->body.ordered, out); break;
    case LAC_MSG_PATH_FORCE: path_force(&msg->body.path_force, out); break;
    case LAC_MSG_PLAN_REPLY: plan_reply(&msg->body.plan_reply, out); break;
    case LAC_MSG_PATH_REPLY: path_reply(&msg->body.path_reply, out); break;
    case LAC_MSG_STATUS_REPLY: status_reply(&msg->body.status_reply, out); break;
    case LAC_MSG_JOB_SUBMIT:
    case LAC_MSG_JOB_QUERY:
    case LAC_MSG_JOB_CANCEL:
    case LAC_MSG_JOB_REPLY: dump_jobs(msg, out); break;
    default:
        if (msg->envelope.type < LAC_MSG_SUBMIT)
            small_worker(msg, out);
        else
            small_client(msg, out);
    }
}
