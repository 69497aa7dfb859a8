/* The record of each request: what was asked, what was accepted so far, and which of queued,
 * running and done it is in. Owns the records' memory and every move between the lists; decides
 * nothing about groups. Loop thread. */
#include "base/prompt.h"
#include "state.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LAC__ACCEPTED_FIRST = 256 };
static const double slot_weight = 1.0 / 16; /* of the newest in the mean time at a group */

/* ---- lists ---- */

static void list_remove(lac__list *list, lac__request *r)
{
    *(r->prev ? &r->prev->next : &list->head) = r->next;
    *(r->next ? &r->next->prev : &list->tail) = r->prev;
    r->prev = r->next = NULL;
    LAC_ASSERT(list->count > 0);
    list->count--;
}

/* Each step of priority counts as LAC_PRIORITY_MS of waiting, so what has waited long enough passes
 * even the most urgent newcomer and nothing starves. */
bool lac__record_before(const lac__request *a, const lac__request *b)
{
    return a->order_ms != b->order_ms ? a->order_ms < b->order_ms : a->id < b->id;
}

/* In that order, searched from the tail: new requests append at once, moved ones find their old
 * place near the head of a queue that is mostly younger. */
static void list_insert(lac__list *list, lac__request *r)
{
    lac__request *before = list->tail;
    if (list->head && lac__record_before(r, list->head))
        before = NULL;
    while (before && lac__record_before(r, before))
        before = before->prev;
    r->prev = before;
    r->next = before ? before->next : list->head;
    *(r->prev ? &r->prev->next : &list->head) = r;
    *(r->next ? &r->next->prev : &list->tail) = r;
    list->count++;
}

static void leave(lac_core *core, lac__request *r)
{
    switch (r->state) {
    case LAC__REQUEST_QUEUED:
        list_remove(&core->queue, r);
        lac__fair_remove(core, r);
        LAC_ASSERT(core->queue_tokens >= r->tokens_estimate);
        core->queue_tokens -= r->tokens_estimate;
        lac__batch_queued(core, r, -1);
        break;
    case LAC__REQUEST_RUNNING:
        lac__router_discharge(r);
        list_remove(&r->group->running, r);
        r->group = NULL;
        LAC_ASSERT(core->running_count > 0);
        core->running_count--;
        lac__batch_running(core, r, -1);
        core->pump = true;
        break;
    case LAC__REQUEST_DONE: list_remove(&core->done, r); break;
    case LAC__REQUEST_NEW:
    case LAC__REQUEST_STATES: break;
    }
}

void lac__record_to_queue(lac_core *core, lac__request *r)
{
    LAC_ASSERT(r->state == LAC__REQUEST_NEW || r->state == LAC__REQUEST_RUNNING);
    leave(core, r);
    r->state = LAC__REQUEST_QUEUED;
    r->nobody_ms = 0;
    list_insert(&core->queue, r);
    lac__fair_add(core, r);
    core->queue_tokens += r->tokens_estimate;
    lac__batch_queued(core, r, 1);
    core->pump = true;
}

void lac__record_to_group(lac_core *core, lac__request *r, lac__group *group)
{
    LAC_ASSERT(r->state == LAC__REQUEST_QUEUED);
    leave(core, r);
    r->state = LAC__REQUEST_RUNNING;
    r->group = group;
    r->group_ms = core->now_ms;
    list_insert(&group->running, r);
    lac__router_charge(core, r, group);
    core->running_count++;
    lac__batch_running(core, r, 1);
}

void lac__record_to_done(lac_core *core, lac__request *r)
{
    LAC_ASSERT(r->state != LAC__REQUEST_DONE);
    LAC_ASSERT(r->end != LAC__END_NONE);
    leave(core, r);
    r->state = LAC__REQUEST_DONE;
    list_insert(&core->done, r);
}

/* ---- making and freeing ---- */

void lac__record_charge(lac_core *core, lac__request *r, int64_t bytes)
{
    LAC_ASSERT(bytes >= 0 || r->bytes >= (uint64_t)-bytes);
    r->bytes += (uint64_t)bytes;
    core->bytes += (uint64_t)bytes;
}

bool lac__record_memory_left(const lac_core *core, uint64_t bytes)
{
    return core->bytes <= core->options.bytes_max && bytes <= core->options.bytes_max - core->bytes;
}

static uint64_t submit_bytes(const lac_submit *submit)
{
    return lac_prompt_size(&submit->prompt) +
           (uint64_t)submit->sampling.bias_count * sizeof *submit->sampling.bias +
           submit->sampling.grammar_length;
}

uint64_t lac__record_tokens(const lac_prompt *p)
{
    /* Four bytes a token is what English text gives; template tokens about eight a message. */
    uint64_t tokens = p->ids_count + (uint64_t)8 * p->messages_count;
    return tokens + lac_prompt_text_bytes(p) / 4 + 1;
}

static const void *take(char **cursor, const void *from, size_t size)
{
    if (!size)
        return NULL;
    void *to = *cursor;
    memcpy(to, from, size);
    *cursor += size;
    return to;
}

/* One block: the prompt, the biases, the schema's bytes. */
static void copy_input(lac__request *r, const lac_submit *submit)
{
    char *cursor = r->memory;
    lac_prompt_copy(&submit->prompt, &cursor, &r->prompt);
    r->sampling = submit->sampling;
    r->sampling.bias = take(&cursor, submit->sampling.bias,
                            r->sampling.bias_count * sizeof *submit->sampling.bias);
    r->sampling.grammar = take(&cursor, submit->sampling.grammar, submit->sampling.grammar_length);
}

lac__request *lac__record_create(lac_core *core, const lac__stream_key *key,
                                 const lac_submit *submit, lac__tenant *tenant)
{
    LAC_ASSERT(HASH_COUNT(core->by_id) < LAC_REQUESTS_MAX);
    uint64_t bytes = submit_bytes(submit);
    void *memory = lac_try_alloc(1, bytes ? bytes : 1);
    if (!memory)
        return NULL;
    lac__request *r = lac_alloc(1, sizeof *r);
    /* The epoch in the upper bits keeps numbers of an earlier start, which a worker may still run,
     * apart from ours. */
    r->id = (core->options.epoch & 0xffffff) << 40 | ++core->requests_made;
    r->key = *key;
    r->memory = memory;
    lac__copy_text(r->model, sizeof r->model, submit->model);
    copy_input(r, submit);
    r->echo = submit->echo;
    r->tokens_estimate = lac__record_tokens(&r->prompt);
    lac__copy_text(r->trace, sizeof r->trace, submit->trace);
    r->arrived_ms = core->now_ms;
    r->tenant = tenant;
    if (tenant)
        tenant->records++;
    r->service = submit->service;
    r->order_ms = lac__queue_order_ms(core, tenant ? lac__tenant_priority(tenant, submit) : 0);
    if (lac__is_batch(key))
        r->order_ms += LAC__BATCH_BEHIND_MS;
    r->deadline_ms = submit->deadline_ms ? core->now_ms + submit->deadline_ms : 0;
    r->credit = submit->credit;
    r->text.cap = LAC_PENDING_TEXT_MAX;
    if (submit->prompt.kind != LAC_PROMPT_NONE) {
        r->content = core->facts->content;
        r->chain.count = core->facts->blocks_count;
        memcpy(r->chain.blocks, core->facts->blocks, sizeof r->chain.blocks);
    }
    HASH_ADD(hh, core->by_id, id, sizeof r->id, r);
    HASH_ADD(hh_stream, core->by_stream, key, sizeof r->key, r);
    lac__record_charge(core, r, (int64_t)bytes);
    core->requests_total++;
    return r;
}

void lac__record_free(lac_core *core, lac__request *r)
{
    leave(core, r);
    HASH_DEL(core->by_id, r);
    HASH_DELETE(hh_stream, core->by_stream, r);
    lac__delivery_drop(core, r);
    lac__class_drop(&r->class);
    lac_buf_free(&r->text);
    lac__record_charge(core, r, -(int64_t)r->bytes);
    if (r->orphan)
        core->orphans--;
    if (r->tenant)
        r->tenant->records--;
    free(r->accepted);
    free(r->memory);
    free(r);
}

void lac__records_free(lac_core *core)
{
    while (core->by_id)
        lac__record_free(core, core->by_id);
    LAC_ASSERT(core->bytes == 0);
}

lac__request *lac__record_by_id(const lac_core *core, uint64_t id)
{
    lac__request *r = NULL;
    HASH_FIND(hh, core->by_id, &id, sizeof id, r);
    return r;
}

lac__request *lac__record_by_stream(const lac_core *core, const lac__stream_key *key)
{
    lac__request *r = NULL;
    HASH_FIND(hh_stream, core->by_stream, key, sizeof *key, r);
    return r;
}

bool lac__record_accept(lac_core *core, lac__request *r, const uint32_t *tokens, uint32_t count)
{
    LAC_ASSERT(count <= LAC_CONTEXT_MAX);
    uint32_t need = r->accepted_count + count;
    if (need > LAC_CONTEXT_MAX)
        return false;
    if (need > r->accepted_cap) {
        uint32_t cap = r->accepted_cap ? r->accepted_cap : LAC__ACCEPTED_FIRST;
        while (cap < need)
            cap *= 2;
        uint64_t more = (uint64_t)(cap - r->accepted_cap) * sizeof *tokens;
        if (!lac__record_memory_left(core, more))
            return false;
        r->accepted = lac_realloc(r->accepted, cap, sizeof *tokens);
        r->accepted_cap = cap;
        lac__record_charge(core, r, (int64_t)more);
    }
    if (count)
        memcpy(r->accepted + r->accepted_count, tokens, count * sizeof *tokens);
    r->accepted_count = need;
    core->tokens_total += count;
    lac_metric_add(core->meters.output_tokens, count);
    return true;
}

/* ---- ends ---- */

static void stop_group(lac_core *core, lac__request *r)
{
    if (r->state == LAC__REQUEST_RUNNING)
        lac__output_cancel(core, r->group, r->id, r->attempt);
}

static void count_outcome(lac_core *core, lac__request *r, lac__outcome outcome)
{
    lac__path_ended(core, r, outcome);
    lac__tenant_ended(core, r);
    lac_metric_add(core->meters.requests[outcome], 1);
    lac_metric_observe(core->meters.duration, (double)(core->now_ms - r->arrived_ms) / 1000.0);
    if (r->state == LAC__REQUEST_RUNNING) {
        lac__rate_add(&core->ended, core->now_ms);
        core->slot_ms_mean +=
            slot_weight * ((double)(core->now_ms - r->group_ms) - core->slot_ms_mean);
    }
}

void lac__record_finish(lac_core *core, lac__request *r, lac_finish finish)
{
    LAC_ASSERT(r->end == LAC__END_NONE);
    lac__outcome outcome = finish == LAC_FINISH_STOP     ? LAC__OUTCOME_STOP
                           : finish == LAC_FINISH_LENGTH ? LAC__OUTCOME_LENGTH
                                                         : LAC__OUTCOME_CANCEL;
    if (finish == LAC_FINISH_CANCEL) {
        stop_group(core, r);
        lac__delivery_drop(core, r);
        r->usage.completion_tokens = r->accepted_count;
    }
    count_outcome(core, r, outcome);
    r->end = LAC__END_DONE;
    r->finish = finish;
    lac_metric_add(core->meters.prompt_tokens, r->usage.prompt_tokens);
    lac_metric_add(core->meters.cached_tokens, r->usage.cached_tokens);
    lac__record_to_done(core, r);
    if (lac__delivery_flush(core, r))
        lac__record_free(core, r);
}

void lac__record_refuse(lac_core *core, lac__request *r, lac__outcome outcome, lac_status status,
                        uint32_t retry_after_ms, const char *format, ...)
{
    if (r->end == LAC__END_NONE) {
        stop_group(core, r);
        count_outcome(core, r, outcome);
    }
    lac__delivery_drop(core, r);
    r->end = LAC__END_REFUSED;
    r->status = status;
    r->retry_after_ms = retry_after_ms;
    va_list args;
    va_start(args, format);
    vsnprintf(r->reason, sizeof r->reason, format, args);
    va_end(args);
    /* A cut may have split a character, and the wire wants whole ones. */
    size_t whole = lac_utf8_whole(r->reason, strlen(r->reason));
    r->reason[whole] = 0;
    if (r->state != LAC__REQUEST_DONE)
        lac__record_to_done(core, r);
    if (lac__delivery_flush(core, r))
        lac__record_free(core, r);
}

void lac__stream_given_up(lac_core *core, const lac__stream_key *key, const char *why)
{
    lac_metric_add(core->meters.given_up, 1);
    lac__note(core, LAC_LOG_WARN, "stream %llu of client %llu is given up without an end: %s",
              (unsigned long long)key->stream, (unsigned long long)key->peer, why);
}

void lac__record_abandon(lac_core *core, lac__request *r)
{
    if (r->end == LAC__END_NONE) {
        lac__feedback_left(core, r);
        stop_group(core, r);
        count_outcome(core, r, LAC__OUTCOME_CANCEL);
    }
    lac__record_free(core, r);
}

/* ---- time ---- */

static void tick_queued(lac_core *core, lac__request *r)
{
    if (r->served && r->served->ready) {
        r->nobody_ms = 0;
        return;
    }
    if (!r->nobody_ms)
        r->nobody_ms = core->now_ms ? core->now_ms : 1;
    bool comes = lac__fleet_comes(core);
    if (core->now_ms - r->nobody_ms < (comes ? LAC_FLEET_WAIT_MS : LAC_NOBODY_MS))
        return;
    if (!r->served && core->models_count)
        lac__record_refuse(core, r, LAC__OUTCOME_INVALID, LAC_ENOTFOUND, 0,
                           "model is \"%s\", which no worker serves", r->model);
    else
        lac__record_refuse(core, r, LAC__OUTCOME_NOBODY, LAC_EREFUSED, 5000,
                           "no worker was ready for model \"%s\" within %d ms",
                           r->served ? r->served->name : r->model,
                           comes ? LAC_FLEET_WAIT_MS : LAC_NOBODY_MS);
}

/* A client that grants no credit may still take the word that its stream is given up, and one whose
 * queue is full just now will, or its connection breaks: one that is full answers no heartbeat of
 * the transport. So that word is kept for as long again, and the few bytes of a record with it. */
static void tick_starved(lac_core *core, lac__request *r)
{
    if (!r->given_up_ms) {
        uint64_t id = r->id;
        lac__record_refuse(core, r, LAC__OUTCOME_CANCEL, LAC_EDEADLINE, 0,
                           "the client took nothing for %d ms", LAC_SLOW_READER_MS);
        r = lac__record_by_id(core, id);
        if (r)
            r->given_up_ms = core->now_ms;
    } else if (lac__delivery_flush(core, r)) {
        lac__record_free(core, r);
    } else if (core->now_ms - r->given_up_ms >= LAC_SLOW_READER_MS) {
        lac__stream_given_up(core, &r->key, "its client's queue stays full");
        lac__record_free(core, r);
    }
}

static void tick_request(lac_core *core, lac__request *r)
{
    if (r->starved_ms && core->now_ms - r->starved_ms >= LAC_SLOW_READER_MS) {
        tick_starved(core, r);
        return;
    }
    if (r->state == LAC__REQUEST_DONE || r->starved_ms) {
        if (lac__delivery_flush(core, r)) {
            lac__record_free(core, r);
            return;
        }
    }
    if (r->state == LAC__REQUEST_DONE)
        return;
    if (r->deadline_ms && core->now_ms >= r->deadline_ms) {
        lac__record_refuse(core, r, LAC__OUTCOME_DEADLINE, LAC_EDEADLINE, 0,
                           "deadline_ms is %llu, over after %u tokens (%s)",
                           (unsigned long long)(r->deadline_ms - r->arrived_ms), r->accepted_count,
                           r->state == LAC__REQUEST_QUEUED ? "queued" : "running");
        return;
    }
    if (r->state == LAC__REQUEST_QUEUED)
        tick_queued(core, r);
}

void lac__records_tick(lac_core *core)
{
    /* Only the record in hand can go away here: what sending reveals is settled after the pass. */
    for (lac__request *r = core->by_id, *next; r; r = next) {
        next = r->hh.next;
        if (!r->orphan)
            tick_request(core, r);
    }
}

void lac__records_settle(lac_core *core)
{
    if (!core->orphans)
        return;
    for (lac__request *r = core->by_id, *next; r; r = next) {
        next = r->hh.next;
        if (r->orphan)
            lac__record_abandon(core, r);
    }
    LAC_ASSERT(core->orphans == 0);
}
