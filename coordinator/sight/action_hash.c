/* One number for what a step did: over everything in its actions that others act by. Texts for
 * people, prompts and tokens are left out, as a recording has none. Pure. */
#include <string.h>

#include "sight/recorder.h"

static uint64_t mix(uint64_t hash, const void *data, size_t size)
{
    const uint8_t *at = data;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001B3);
    return hash;
}
#define MIX(value) hash = mix(hash, &(value), sizeof(value))

static uint64_t mix_text(uint64_t hash, const char *text)
{
    return mix(hash, text, strlen(text) + 1);
}

static uint64_t of_dispatch(uint64_t hash, const lac_dispatch *d)
{
    MIX(d->request);
    MIX(d->attempt);
    MIX(d->dispatch_seq);
    MIX(d->deadline_ms);
    MIX(d->accepted_count);
    MIX(d->sampling.seed);
    MIX(d->echo);
    MIX(d->has_class);
    MIX(d->class_digest);
    MIX(d->input_type);
    MIX(d->shadow);
    return hash;
}

static uint64_t of_account(uint64_t hash, const lac_run_account *account)
{
    return account ? mix_text(hash, account->class_name) : hash;
}

static uint64_t of_client(uint64_t hash, const lac_msg *msg)
{
    switch (msg->envelope.type) {
    case LAC_MSG_ACCEPTED:
        MIX(msg->body.accepted.stream);
        MIX(msg->body.accepted.request);
        return hash;
    case LAC_MSG_TOKENS:
        MIX(msg->body.tokens.stream);
        MIX(msg->body.tokens.chunk.first_pos);
        MIX(msg->body.tokens.chunk.tokens_count);
        MIX(msg->body.tokens.chunk.text.length);
        return of_account(hash, msg->body.tokens.account);
    case LAC_MSG_DONE:
        MIX(msg->body.done.stream);
        MIX(msg->body.done.finish);
        MIX(msg->body.done.usage);
        return of_account(hash, msg->body.done.account);
    case LAC_MSG_REFUSED:
        MIX(msg->body.refused.stream);
        MIX(msg->body.refused.status);
        MIX(msg->body.refused.retry_after_ms);
        return hash;
    default: return hash;
    }
}

uint64_t lac_action_hash(uint64_t hash, const lac_action *action)
{
    const lac_msg *msg = action->msg;
    hash = hash ? hash : UINT64_C(0xCBF29CE484222325);
    MIX(action->plane);
    MIX(action->peer);
    MIX(msg->envelope.type);
    MIX(msg->envelope.epoch);
    MIX(msg->envelope.session);
    switch (msg->envelope.type) {
    case LAC_MSG_HELLO_ACK:
        MIX(msg->body.hello_ack.session);
        MIX(msg->body.hello_ack.incarnation);
        return hash;
    case LAC_MSG_DISPATCH: return of_dispatch(hash, &msg->body.dispatch);
    case LAC_MSG_CANCEL:
        MIX(msg->body.cancel.request);
        MIX(msg->body.cancel.attempt);
        return hash;
    case LAC_MSG_DRAIN: MIX(msg->body.drain.deadline_ms); return hash;
    default: return of_client(hash, msg);
    }
}
