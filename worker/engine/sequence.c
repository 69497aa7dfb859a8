/* Sequences: taking them in, replaying what an earlier attempt produced, letting them go. The
 * engine's thread. Must not know the scheduler's rules or how a step runs. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "parts.h"

/* ---- what a token does to a sequence ---- */

uint32_t lac__sequence_outputs(const lac__sequence *sequence)
{
    return sequence->known - sequence->prompt_count;
}

bool lac__sequence_bans_end(const lac__sequence *sequence)
{
    return sequence->sampling.ignore_eos ||
           lac__sequence_outputs(sequence) < sequence->sampling.min_tokens;
}

bool lac__sequence_best_decides(const lac__sequence *sequence)
{
    const lac_sampling *s = &sequence->sampling;
    if (sequence->grammar)
        return false;
    return lac_sampler_is_plain_greedy(sequence->sampler) ||
           (s->temperature == 0.0f && s->repetition_penalty == 1.0f &&
            s->presence_penalty == 0.0f && s->frequency_penalty == 0.0f && s->bias_count == 0 &&
            !s->logprobs);
}

uint32_t lac__sequence_top(const lac_engine *engine, const lac__sequence *sequence)
{
    /* Ranks that have parts of the vocabulary send all of it. */
    return sequence->grammar || engine->group ? 0 : lac_sampler_top(sequence->sampler);
}

bool lac__sequence_bans_best(const lac_engine *engine, const lac__sequence *sequence,
                             const lac_logit_row *row)
{
    return !row->logits && lac__sequence_bans_end(sequence) &&
           lac_tokenizer_is_end(engine->tokenizer, row->best_token);
}

/* Hands out what was held back in case a stop string would follow. */
static void release_rest(lac_engine *engine, lac__sequence *sequence)
{
    const char *text;
    size_t length;
    lac_release_end(sequence->release, &text, &length);
    lac_buf_add(&engine->text, text, length);
}

/* The grammar goes on with the token. It does not where logits were no numbers, or an earlier
 * attempt under another grammar produced it. */
static bool grammar_accept(const lac_engine *engine, lac__sequence *sequence, uint32_t token)
{
    const char *bytes;
    size_t length;
    lac_tokenizer_piece(engine->tokenizer, token, false, &bytes, &length);
    bool end = lac_tokenizer_is_end(engine->tokenizer, token);
    if (end ? lac_grammar_complete(sequence->grammar)
            : length > 0 && lac_grammar_feed(sequence->grammar, bytes, length))
        return true;
    lac_fail(&sequence->error, LAC_EINTERNAL, "token %u does not fit response_format", token);
    return false;
}

lac_finish lac__sequence_accept(lac_engine *engine, lac__sequence *sequence, uint32_t token)
{
    LAC_ASSERT(sequence->known < sequence->limit);
    sequence->tokens[sequence->known++] = token;
    lac_sampler_accept(sequence->sampler, token);
    lac_buf_clear(&engine->text);
    if (sequence->grammar && !grammar_accept(engine, sequence, token))
        return LAC_FINISH_ERROR;
    if (lac_tokenizer_is_end(engine->tokenizer, token) && !sequence->sampling.ignore_eos) {
        release_rest(engine, sequence);
        return LAC_FINISH_STOP;
    }
    const char *bytes, *text;
    size_t length, text_length;
    lac_tokenizer_piece(engine->tokenizer, token, sequence->raw_text, &bytes, &length);
    bool stopped = lac_release_add(sequence->release, bytes, length, &text, &text_length);
    lac_buf_add(&engine->text, text, text_length);
    if (stopped)
        return LAC_FINISH_STOP;
    if (sequence->known == sequence->limit) {
        release_rest(engine, sequence);
        return LAC_FINISH_LENGTH;
    }
    return LAC_FINISH_NONE;
}

/* ---- submit ---- */

static lac_status tokens_check(const lac_engine *engine, const char *field, const uint32_t *tokens,
                               size_t count, lac_error *err)
{
    for (size_t i = 0; i < count; i++)
        if (tokens[i] >= engine->model->vocab)
            return lac_fail(err, LAC_EINVAL, "%s token %zu is %u, the vocabulary has %u", field, i,
                            tokens[i], engine->model->vocab);
    return LAC_OK;
}

static lac_status request_check(const lac_engine *engine, const lac_engine_request *request,
                                lac_error *err)
{
    size_t prompt = request->prompt_count, all = prompt + request->accepted_count;
    lac_status status = lac__class_check(engine, request->class_index, err);
    if (status != LAC_OK)
        return status;
    if (request->class_from > prompt)
        return lac_fail(err, LAC_EINVAL, "class_from is %u, allowed 0..%zu (the prompt)",
                        request->class_from, prompt);
    if (prompt == 0)
        return lac_fail(err, LAC_EINVAL, "prompt has 0 tokens, at least 1 is needed");
    if (prompt > engine->context_max - 1)
        return lac_fail(err, LAC_ETOOBIG,
                        "prompt is %zu tokens, limit %u (context %u less 1 for the answer)", prompt,
                        engine->context_max - 1, engine->context_max);
    uint32_t from =
        lac__class_from(engine, request->class_index, request->class_from, (uint32_t)prompt);
    if (from > 0 && !engine->full_runs)
        return lac_fail(err, LAC_EREFUSED,
                        "class_from is %u, but this engine has not loaded what full needs", from);
    uint32_t pool_tokens = engine->classes[from > 0 ? 0 : request->class_index].pool_tokens;
    if (prompt > pool_tokens - 1)
        return lac_fail(err, LAC_ETOOBIG,
                        "prompt is %zu tokens, limit %u (the KV pool of %llu bytes holds %u)",
                        prompt, pool_tokens - 1, (unsigned long long)engine->kv_bytes, pool_tokens);
    if (request->accepted_count > engine->context_max || all > engine->context_max ||
        all > pool_tokens)
        return lac_fail(err, LAC_ETOOBIG, "prompt and accepted are %zu tokens, limit %u", all,
                        lac__class_tokens_max(engine, request->class_index, from));
    status = tokens_check(engine, "prompt", request->prompt, prompt, err);
    if (status == LAC_OK)
        status = tokens_check(engine, "accepted", request->accepted, request->accepted_count, err);
    if (status == LAC_OK)
        status = lac_sampling_check(&request->sampling, engine->model->vocab, err);
    return status;
}

/* Tokens the sequence may reach. */
static uint32_t limit_of(const lac_engine *engine, const lac_engine_request *request)
{
    uint32_t from = lac__class_from(engine, request->class_index, request->class_from,
                                    (uint32_t)request->prompt_count);
    uint64_t limit = lac__class_tokens_max(engine, request->class_index, from);
    uint64_t wanted = (uint64_t)request->prompt_count + request->sampling.max_tokens;
    if (request->sampling.max_tokens > 0 && wanted < limit)
        limit = wanted;
    return (uint32_t)limit;
}

/* Feeds the accepted tokens through penalties and text: what they release went out long ago. */
static void replay(lac_engine *engine, lac__sequence *sequence, const lac_engine_request *request)
{
    for (size_t i = 0; i < request->accepted_count; i++) {
        if (sequence->finish != LAC_FINISH_NONE || sequence->known == sequence->limit)
            break;
        sequence->finish = lac__sequence_accept(engine, sequence, request->accepted[i]);
    }
    lac_buf_clear(&engine->text);
}

static lac__sequence *sequence_create(lac_engine *engine, const lac_engine_request *request)
{
    lac__sequence *sequence = lac_alloc(1, sizeof(*sequence));
    sequence->id = request->id;
    sequence->class_index = request->class_index;
    sequence->state = LAC_SEQUENCE_WAITING;
    sequence->kv = LAC_KV_SEQUENCE_NONE;
    sequence->class_from = lac__class_from(engine, request->class_index, request->class_from,
                                           (uint32_t)request->prompt_count);
    lac__prefix_key(engine, sequence->class_from > 0 ? 0 : request->class_index,
                    request->cache_salt, &sequence->prefix_key);
    memcpy(sequence->cache_salt, request->cache_salt, sizeof(sequence->cache_salt));
    sequence->prompt_count = sequence->known = (uint32_t)request->prompt_count;
    sequence->limit = limit_of(engine, request);
    sequence->tokens = malloc(sizeof(uint32_t) * sequence->limit);
    if (!sequence->tokens) {
        free(sequence);
        return NULL;
    }
    memcpy(sequence->tokens, request->prompt, sizeof(uint32_t) * request->prompt_count);
    sequence->raw_text = request->raw_text;
    sequence->sampling = request->sampling;
    sequence->sampler = lac_sampler_create(&request->sampling, engine->model->vocab);
    sequence->release = lac_release_create(&request->sampling);
    sequence->sampling.bias = NULL;
    sequence->sampling.grammar = NULL;
    if (request->grammar)
        sequence->grammar = lac_grammar_state_create(request->grammar);
    lac_sampler_prompt(sequence->sampler, sequence->tokens, sequence->prompt_count);
    replay(engine, sequence, request);
    return sequence;
}

lac_status lac_engine_submit(lac_engine *engine, const lac_engine_request *request, lac_error *err)
{
    LAC_ASSERT(!engine->in_step);
    lac_status status = request_check(engine, request, err);
    if (status != LAC_OK)
        return status;
    for (uint32_t i = 0; i < engine->live_count; i++)
        if (engine->live[i]->id == request->id)
            return lac_fail(err, LAC_EEXIST, "sequence id %llu is running already",
                            (unsigned long long)request->id);
    if (engine->live_count == engine->live_max)
        return lac_fail(err, LAC_BUSY, "queue is full: %u run, %u wait, queue_max is %u",
                        engine->slots, engine->live_count - engine->slots, engine->queue_max);
    lac__sequence *sequence = sequence_create(engine, request);
    if (!sequence)
        return lac_fail(err, LAC_ENOMEM, "no memory for a sequence of %u tokens",
                        limit_of(engine, request));
    engine->live[engine->live_count++] = sequence;
    return LAC_OK;
}

/* ---- letting go ---- */

void lac__sequence_preempt(lac_engine *engine, lac__sequence *sequence)
{
    sequence->state = lac_sched_next(sequence->state, LAC_SEQUENCE_PREEMPT);
    lac_kv_close(engine->pool, sequence->kv);
    sequence->kv = LAC_KV_SEQUENCE_NONE;
    sequence->computed = 0;
    sequence->narrowed = false;
    sequence->again = true;
    engine->preemptions++;
    free(sequence->logits);
    sequence->logits = NULL;
}

bool lac__sequence_rerun(lac_engine *engine, lac__sequence *s)
{
    uint32_t most = lac__class_tokens_max(engine, 0, 0);
    if (s->class_index == 0 || !engine->classes[0].live || s->known >= most)
        return false;
    lac__sequence_preempt(engine, s);
    s->class_index = s->class_from = 0;
    s->narrowed = false;
    lac__prefix_key(engine, 0, s->cache_salt, &s->prefix_key);
    s->limit = s->limit < most ? s->limit : most;
    s->finish = LAC_FINISH_NONE;
    s->error = (lac_error){0};
    s->rerun = true;
    engine->class_reruns++;
    return true;
}

void lac__sequence_destroy(lac_engine *engine, lac__sequence **sequence)
{
    lac__sequence *s = *sequence;
    if (!s)
        return;
    if (s->kv != LAC_KV_SEQUENCE_NONE)
        lac_kv_close(engine->pool, s->kv);
    lac_sampler_destroy(&s->sampler);
    lac_release_destroy(&s->release);
    lac_grammar_state_destroy(&s->grammar);
    free(s->logits);
    free(s->look);
    free(s->tokens);
    free(s);
    *sequence = NULL;
}

lac_status lac_engine_cancel(lac_engine *engine, uint64_t id)
{
    LAC_ASSERT(!engine->in_step);
    for (uint32_t i = 0; i < engine->live_count; i++) {
        if (engine->live[i]->id != id)
            continue;
        lac__sequence_destroy(engine, &engine->live[i]);
        engine->live_count--;
        memmove(&engine->live[i], &engine->live[i + 1],
                sizeof(engine->live[0]) * (engine->live_count - i));
        return LAC_OK;
    }
    return LAC_ENOTFOUND;
}
