/* What clients get: ACCEPTED, TOKENS within their credit, one end. Owns the part of an answer that
 * is accepted from a worker but not yet with the client; must not know groups. Loop thread.
 *
 * The usual chunk goes straight through without a copy. Only when there is no credit (or the peer's
 * queue is full) does text and logprobs stay here; the tokens are in the record anyway. */
#include "state.h"

#include <string.h>

enum {
    LAC__TEXT_MESSAGE_MAX = 65536, /* text bytes in one merged message */
    LAC__LOGPROBS_MESSAGE_MAX = 64 /* tokens in one merged message with logprobs */
};

static lac_status to_client(lac_core *core, lac__request *r, uint16_t type, lac_msg *msg)
{
    if (r->orphan)
        return LAC_EPEER;
    lac_status status = lac__send(core, (lac_plane)r->key.plane, r->key.peer, 0, type, msg);
    if (status == LAC_OK || status == LAC_BUSY || status == LAC_AGAIN)
        return status;
    r->orphan = true;
    core->orphans++;
    core->unsettled = true;
    return LAC_EPEER;
}

/* The first tokens of a class say which it is. */
static const lac_run_account *news(const lac__request *r, lac_run_account *account)
{
    if (r->path_told || !r->decided)
        return NULL;
    lac__path_account(r, account);
    return account;
}

static uint32_t waiting_tokens(const lac__request *r)
{
    return r->accepted_count - r->sent_count;
}

/* ---- keeping ---- */

static void drop_logprob(lac_core *core, lac__request *r)
{
    lac__held_logprob *held = r->held_head;
    r->held_head = held->next;
    if (!r->held_head)
        r->held_tail = NULL;
    r->held_count--;
    size_t size = sizeof *held + held->value.top_count * sizeof *held->value.top;
    size += held->value.chosen.text.length;
    for (uint32_t i = 0; i < held->value.top_count; i++)
        size += held->value.top[i].text.length;
    lac__record_charge(core, r, -(int64_t)size);
    free(held);
}

static void hold_logprob(lac_core *core, lac__request *r, const lac_logprob *from)
{
    size_t size = sizeof(lac__held_logprob) + from->top_count * sizeof *from->top;
    size_t bytes = size + from->chosen.text.length;
    for (uint32_t i = 0; i < from->top_count; i++)
        bytes += from->top[i].text.length;
    lac__held_logprob *held = lac_alloc(1, bytes);
    lac_top_logprob *top = (lac_top_logprob *)(void *)(held + 1);
    char *text = (char *)held + size;
    held->value = *from;
    if (from->top_count)
        memcpy(top, from->top, from->top_count * sizeof *top);
    held->value.top = from->top_count ? top : NULL;
    for (uint32_t i = 0; i <= from->top_count; i++) {
        lac_span *span = i ? &top[i - 1].text : &held->value.chosen.text;
        if (span->length)
            memcpy(text, span->data, span->length);
        span->data = span->length ? text : NULL;
        text += span->length;
    }
    *(r->held_tail ? &r->held_tail->next : &r->held_head) = held;
    r->held_tail = held;
    r->held_count++;
    lac__record_charge(core, r, (int64_t)bytes);
}

static void drop_text(lac_core *core, lac__request *r, size_t length)
{
    lac_buf_drop(&r->text, length);
    lac__record_charge(core, r, -(int64_t)length);
}

void lac__delivery_drop(lac_core *core, lac__request *r)
{
    while (r->held_head)
        drop_logprob(core, r);
    drop_text(core, r, r->text.length);
    r->sent_count = r->accepted_count;
}

static bool hold(lac_core *core, lac__request *r, const lac_chunk *chunk)
{
    if (!lac__record_memory_left(core, chunk->text.length))
        return false;
    if (chunk->text.length) {
        if (!lac_buf_add(&r->text, chunk->text.data, chunk->text.length))
            return false;
        lac__record_charge(core, r, chunk->text.length);
    }
    for (uint32_t i = 0; i < chunk->logprobs_count; i++)
        hold_logprob(core, r, &chunk->logprobs[i]);
    if (!r->starved_ms)
        r->starved_ms = core->now_ms ? core->now_ms : 1;
    return true;
}

bool lac__delivery_chunk(lac_core *core, lac__request *r, const lac_chunk *chunk)
{
    LAC_ASSERT(waiting_tokens(r) >= chunk->tokens_count);
    if (!chunk->tokens_count && !chunk->text.length)
        return true;
    bool straight = r->acknowledged && r->credit && !r->text.length && !r->held_count &&
                    waiting_tokens(r) == chunk->tokens_count;
    if (straight) {
        lac_run_account account;
        lac_msg msg = {.body.tokens = {
                           .stream = r->key.stream, .chunk = *chunk, .account = news(r, &account)}};
        lac_status status = to_client(core, r, LAC_MSG_TOKENS, &msg);
        if (status == LAC_OK) {
            r->sent_count += chunk->tokens_count;
            r->path_told = true;
            r->credit--;
        }
        if (status == LAC_OK || status == LAC_EPEER)
            return true;
    }
    return hold(core, r, chunk);
}

/* ---- giving ---- */

/* One message out of what waits: as many tokens and as much text as one message takes. */
static lac_status send_merged(lac_core *core, lac__request *r)
{
    lac_logprob logprobs[LAC__LOGPROBS_MESSAGE_MAX];
    uint32_t waiting = waiting_tokens(r), count = waiting;
    /* Logprobs that do not match the tokens one to one would be put beside the wrong ones. */
    bool with_logprobs = waiting && r->held_count == waiting;
    uint32_t most = with_logprobs ? LAC__LOGPROBS_MESSAGE_MAX : LAC_TOKENS_MESSAGE_MAX;
    if (count > most)
        count = most;
    size_t length = r->text.length;
    if (length > LAC__TEXT_MESSAGE_MAX)
        length = lac_utf8_whole(r->text.data, LAC__TEXT_MESSAGE_MAX);
    uint32_t n = 0;
    for (lac__held_logprob *h = r->held_head; with_logprobs && n < count; h = h->next)
        logprobs[n++] = h->value;
    lac_run_account account;
    lac_msg msg = {
        .body.tokens = {.stream = r->key.stream,
                        .account = news(r, &account),
                        .chunk = {.first_pos = r->sent_count,
                                  .tokens_count = count,
                                  .tokens = count ? r->accepted + r->sent_count : NULL,
                                  .text = {length ? r->text.data : NULL, (uint32_t)length},
                                  .logprobs_count = n,
                                  .logprobs = n ? logprobs : NULL}}};
    lac_status status = to_client(core, r, LAC_MSG_TOKENS, &msg);
    if (status != LAC_OK)
        return status;
    r->credit--;
    r->path_told = true;
    r->sent_count += count;
    drop_text(core, r, length);
    while (r->held_count && (n || !waiting_tokens(r))) {
        drop_logprob(core, r);
        n -= n > 0;
    }
    r->starved_ms = 0;
    return LAC_OK;
}

static lac_status send_end(lac_core *core, lac__request *r)
{
    lac_msg msg = {0};
    if (r->end == LAC__END_DONE) {
        lac_run_account account;
        lac__path_account(r, &account);
        msg.body.done = (lac_done){.stream = r->key.stream,
                                   .finish = r->finish,
                                   .usage = r->usage,
                                   .account = r->decided ? &account : NULL};
        return to_client(core, r, LAC_MSG_DONE, &msg);
    }
    msg.body.refused = (lac_refused){.stream = r->key.stream,
                                     .status = r->status,
                                     .retry_after_ms = r->retry_after_ms,
                                     .cause = r->cause,
                                     .quota = lac__tenant_quota(core, r->tenant)};
    lac__copy_text(msg.body.refused.reason, sizeof msg.body.refused.reason, r->reason);
    return to_client(core, r, LAC_MSG_REFUSED, &msg);
}

static lac_status send_accepted(lac_core *core, lac__request *r)
{
    lac_msg msg = {.body.accepted = {.stream = r->key.stream,
                                     .request = r->id,
                                     .quota = lac__tenant_quota(core, r->tenant)}};
    lac__copy_text(msg.body.accepted.model, sizeof msg.body.accepted.model, r->served->name);
    lac_status status = to_client(core, r, LAC_MSG_ACCEPTED, &msg);
    r->acknowledged = status == LAC_OK;
    return status;
}

bool lac__delivery_flush(lac_core *core, lac__request *r)
{
    lac_status status = LAC_OK;
    if (!r->acknowledged && r->served && r->end != LAC__END_REFUSED)
        status = send_accepted(core, r);
    while (status == LAC_OK && r->credit && (waiting_tokens(r) || r->text.length))
        status = send_merged(core, r);
    bool waits = waiting_tokens(r) || r->text.length;
    if (status == LAC_OK && !waits && r->end != LAC__END_NONE) {
        status = send_end(core, r);
        if (status == LAC_OK)
            return true;
    }
    /* From here on something waits, or nothing is left to say for now. */
    if (!waits && r->end == LAC__END_NONE && status == LAC_OK)
        r->starved_ms = 0;
    else if (!r->starved_ms)
        r->starved_ms = core->now_ms ? core->now_ms : 1;
    return false;
}
