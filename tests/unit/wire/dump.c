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
    for (uint32_t i = 0; i < b->messages_count; i++)
        bytes(b->messages[i].role, b->messages[i].content.data, b->messages[i].content.length, out);
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
}

static void heartbeat(const lac_heartbeat *b, lac_buf *out)
{
    U(report_seq), U(step_counter), U(busy), U(step_age_ms), U(queued), U(running);
    U(kv_pages_used), U(kv_pages), U(dispatch_seq_seen), U(prompt_tokens), U(output_tokens);
    U(itl_us), U(prefill_us), U(rss_bytes), U(active_layers), U(draining);
}

static void step_output(const lac_step_output *s, lac_buf *out)
{
    for (uint32_t i = 0; i < s->items_count; i++) {
        const lac_step_item *b = &s->items[i];
        U(request), U(attempt), U(finish), U(error), S(reason);
        chunk(&b->chunk, out);
        usage(&b->usage, out);
    }
}

static void dispatch(const lac_dispatch *b, lac_buf *out)
{
    U(request), U(attempt), U(dispatch_seq), U(deadline_ms), U(echo);
    prompt(&b->prompt, out);
    ids("accepted", b->accepted, b->accepted_count, out);
    sampling(&b->sampling, out);
}

static void submit(const lac_submit *b, lac_buf *out)
{
    U(stream), S(model), U(deadline_ms), U(credit), U(echo);
    if (b->priority) /* a later field: older recordings have none */
        U(priority);
    prompt(&b->prompt, out);
    sampling(&b->sampling, out);
}

static void group(const lac_group_status *b, lac_buf *out)
{
    S(id), S(state), S(model), S(isa), U(layers), U(slots), U(running), U(queued);
    U(kv_pages_used), U(kv_pages), U(itl_us), U(output_tokens), U(heartbeat_age_ms);
    for (uint32_t i = 0; i < b->ranks_count; i++)
        lac_buf_printf(out, "rank %u %llu %u %llu\n", b->ranks[i].rank,
                       (unsigned long long)b->ranks[i].pid, b->ranks[i].active_layers,
                       (unsigned long long)b->ranks[i].rss_bytes);
}

static void status_reply(const lac_status_reply *b, lac_buf *out)
{
    U(stream), S(version), S(http), U(epoch), U(uptime_ms), U(queued), U(running);
    U(requests_total), U(tokens_total), U(groups_count);
    for (uint32_t i = 0; i < b->groups_count; i++)
        group(&b->groups[i], out);
}

static void path_reply(const lac_path_reply *b, lac_buf *out)
{
    U(stream), S(type), S(task), U(tokens_max), S(class_name), S(class_reason), S(type_reason);
    bytes("fingerprint", b->fingerprint.bytes, sizeof b->fingerprint.bytes, out);
    for (uint32_t i = 0; i < b->features_count; i++)
        lac_buf_printf(out, "feature %s=%u\n", b->features[i].name, b->features[i].value);
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
    } else if (msg->envelope.type == LAC_MSG_DONE) {
        const lac_done *b = &msg->body.done;
        U(stream), U(finish);
        usage(&b->usage, out);
    } else if (msg->envelope.type == LAC_MSG_REFUSED) {
        const lac_refused *b = &msg->body.refused;
        U(stream), U(status), U(retry_after_ms), S(reason);
    } else {
        const lac_client_cancel *b = &msg->body.client_cancel; /* also STATUS_QUERY */
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
        break;
    case LAC_MSG_PATH_QUERY:
        lac_buf_printf(out, "stream=%llu\n", (unsigned long long)msg->body.path_query.stream);
        prompt(&msg->body.path_query.prompt, out);
        break;
    case LAC_MSG_PATH_REPLY: path_reply(&msg->body.path_reply, out); break;
    case LAC_MSG_STATUS_REPLY: status_reply(&msg->body.status_reply, out); break;
    default:
        if (msg->envelope.type < LAC_MSG_SUBMIT)
            small_worker(msg, out);
        else
            small_client(msg, out);
    }
}
