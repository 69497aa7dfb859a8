/* The numbers that choices have at the core, and what the core says under them. It is only noted
 * here: the exchange takes it in its next turn. Loop thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "exchange.h"
#include "parts.h"

/* ---- numbers ---- */

void lac__exchanges_start(lac__exchanges *all)
{
    all->free_count = LAC__SLOTS;
    for (uint32_t i = 0; i < LAC__SLOTS; i++)
        all->free[i] = (uint16_t)(LAC__SLOTS - 1 - i);
}

/* One exchange a connection, and a slot for each choice it may have. */
_Static_assert(LAC__SLOTS >= LAC_HTTP_CONNECTIONS_MAX * LAC_CHOICES_MAX, "a slot for every choice");

void lac__seat_open(lac__seat *seat)
{
    lac__exchanges *all = &seat->exchange->frontend->exchanges;
    LAC_ASSERT(all->free_count > 0);
    uint16_t slot = all->free[--all->free_count];
    all->slots[slot] = seat;
    seat->stream = ++all->started << LAC__SLOT_BITS | slot;
}

void lac__seat_close(lac__seat *seat)
{
    lac__exchanges *all = &seat->exchange->frontend->exchanges;
    uint16_t slot = seat->stream & (LAC__SLOTS - 1);
    LAC_ASSERT(all->slots[slot] == seat);
    all->slots[slot] = NULL;
    all->free[all->free_count++] = slot;
    seat->stream = 0;
}

static lac__seat *stream_find(lac_frontend *frontend, uint64_t stream)
{
    lac__seat *seat = frontend->exchanges.slots[stream & (LAC__SLOTS - 1)];
    return seat && seat->stream == stream ? seat : NULL;
}

uint32_t lac__seat_index(const lac__seat *seat)
{
    return (uint32_t)(seat - seat->exchange->seats);
}

/* ---- what the core says ---- */

/* Its mask is the message's, so it is copied. */
static void note_account(lac__exchange *x, const lac_run_account *account)
{
    if (!account)
        return;
    const char *mask = account->mask ? account->mask : "";
    free(x->mask);
    x->mask = lac_strndup(mask, strlen(mask));
    x->account = *account;
    x->account.mask = x->mask;
    x->has_account = true;
}

/* Of several choices the work adds up; the rest is that of the one that ended last. */
static void note_end(lac__exchange *x, const lac_run_account *account)
{
    lac_run_account before = x->account;
    note_account(x, account);
    if (!account || !x->finished)
        return;
    x->account.flops += before.flops;
    x->account.kv_bytes += before.kv_bytes;
}

static void note_tokens(lac__seat *seat, const lac_tokens *tokens)
{
    lac__exchange *x = seat->exchange;
    uint32_t index = lac__seat_index(seat);
    if (!x->finished)
        note_account(x, tokens->account);
    seat->taken++;
    if (lac__answer_add(&x->answer, index, &tokens->chunk) || x->refused)
        return;
    x->refused = true; /* ending it cancels the streams that are still open for the core */
    lac__problem_set(&x->problem, 500, "answer_too_large", NULL,
                     "answer is over %zu bytes, the most allowed",
                     x->answer.choices[index].text.cap);
}

/* One choice fails and all end: the first reason is the one that is told. */
static void note_refused(lac__seat *seat, lac_status status, uint32_t retry_after_ms,
                         const char *reason)
{
    lac__exchange *x = seat->exchange;
    char text[LAC_REASON_MAX + 32];
    if (x->refused)
        return;
    x->refused = true;
    if (x->answer.choices_count > 1)
        snprintf(text, sizeof text, "choice %u of %u: %s", lac__seat_index(seat),
                 x->answer.choices_count, reason);
    else
        snprintf(text, sizeof text, "%s", reason);
    lac__problem_from_status(&x->problem, status, retry_after_ms, text);
}

static void note_done(lac__seat *seat, const lac_done *done)
{
    lac__exchange *x = seat->exchange;
    if (done->finish == LAC_FINISH_CANCEL) {
        note_refused(seat, LAC_ECANCELLED, 0, "the server stopped this request");
        return;
    }
    if (done->finish != LAC_FINISH_STOP && done->finish != LAC_FINISH_LENGTH) {
        note_refused(seat, LAC_EINTERNAL, 0, "the request failed on the server");
        return;
    }
    note_end(x, done->account);
    x->answer.choices[lac__seat_index(seat)].finish = done->finish;
    /* Of the prompt, what the first choice found cached: the others may have found its work. */
    bool first = x->finished++ == 0;
    if (first || done->usage.cached_tokens < x->usage.cached_tokens)
        x->usage.cached_tokens = done->usage.cached_tokens;
    x->usage.prompt_tokens = done->usage.prompt_tokens;
    x->usage.completion_tokens += done->usage.completion_tokens;
    x->done = x->finished == x->answer.choices_count;
}

void lac__exchanges_deliver(lac_frontend *frontend, const lac_msg *msg)
{
    lac__seat *seat = NULL;
    switch (msg->envelope.type) {
    case LAC_MSG_ACCEPTED:
        seat = stream_find(frontend, msg->body.accepted.stream);
        if (seat) {
            lac__exchange *x = seat->exchange;
            x->request = x->request ? x->request : msg->body.accepted.request;
            memcpy(x->answer.model, msg->body.accepted.model, sizeof x->answer.model);
            x->quota = msg->body.accepted.quota;
        }
        return;
    case LAC_MSG_TOKENS:
        seat = stream_find(frontend, msg->body.tokens.stream);
        if (seat)
            note_tokens(seat, &msg->body.tokens);
        break;
    case LAC_MSG_DONE:
        seat = stream_find(frontend, msg->body.done.stream);
        if (seat) {
            lac__seat_close(seat);
            note_done(seat, &msg->body.done);
        }
        break;
    case LAC_MSG_REFUSED:
        seat = stream_find(frontend, msg->body.refused.stream);
        if (seat) {
            bool first = !seat->exchange->refused;
            lac__seat_close(seat);
            note_refused(seat, msg->body.refused.status, msg->body.refused.retry_after_ms,
                         msg->body.refused.reason);
            if (first) {
                lac__problem_cause(&seat->exchange->problem, msg->body.refused.cause);
                seat->exchange->quota = msg->body.refused.quota;
            }
        }
        break;
    default: return;
    }
    if (seat)
        lac__exchange_wake(seat->exchange);
}
