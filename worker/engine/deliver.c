/* From logits to an event: the choice, its text, its log-probabilities, why a sequence ends. The
 * engine's thread, inside a step. Must not know how the logits came about. */
#include "base/assert.h"
#include "base/text.h"
#include "parts.h"

_Static_assert((int)LAC_SAMPLER_TOP_MAX == (int)LAC_TOP_LOGITS_MAX,
               "a row holds what is asked for");

static lac_span piece_of(const lac_engine *engine, uint32_t token)
{
    const char *bytes;
    size_t length;
    lac_tokenizer_piece(engine->tokenizer, token, true, &bytes, &length);
    return (lac_span){.data = length > 0 ? bytes : NULL, .length = (uint32_t)length};
}

static lac_usage usage_of(const lac__sequence *sequence)
{
    return (lac_usage){.prompt_tokens = sequence->prompt_count,
                       .completion_tokens = lac__sequence_outputs(sequence),
                       .cached_tokens = sequence->cached};
}

static lac_engine_account account_of(const lac_engine *engine, const lac__sequence *sequence)
{
    const lac__class *class = &engine->classes[sequence->class_index];
    return (lac_engine_account){.class_index = sequence->class_index,
                                .class_name = class->name,
                                .layers = engine->model->layers_count,
                                .active_layers = class->price.active_layers,
                                .skip_rate = lac_account_skip_rate(&sequence->account),
                                .cost_skip_rate = lac_account_cost_skip_rate(&sequence->account),
                                .tokens = sequence->account.tokens,
                                .flops = sequence->account.flops,
                                .kv_bytes = sequence->kv_bytes,
                                .rerun = sequence->rerun,
                                .unsure = sequence->unsure,
                                .doubted = sequence->doubted};
}

/* Reports the event with the text in engine->text. One token can set free more text than a step may
 * carry (a vocabulary with very long tokens): then text-only events go ahead of the one with the
 * token, so that `finish` stays last. */
static void report(lac_engine *engine, lac__sequence *sequence, lac_engine_event *event,
                   lac_engine_sink sink, void *arg)
{
    const char *text = engine->text.data;
    size_t left = engine->text.length;
    while (left > LAC_TOKEN_TEXT_MAX) {
        size_t part = lac_utf8_whole(text, LAC_TOKEN_TEXT_MAX);
        lac_engine_event more = {.id = sequence->id, .usage = event->usage};
        more.chunk.first_pos = event->chunk.first_pos;
        more.chunk.text = (lac_span){.data = text, .length = (uint32_t)part};
        sink(arg, &more);
        text += part;
        left -= part;
    }
    lac_engine_account account;
    if (event->finish != LAC_FINISH_NONE) {
        engine->classes[sequence->class_index].requests++;
        account = account_of(engine, sequence);
        event->account = &account;
    }
    event->id = sequence->id;
    event->chunk.text = (lac_span){.data = left > 0 ? text : NULL, .length = (uint32_t)left};
    sink(arg, event);
    if (event->finish != LAC_FINISH_NONE)
        sequence->state = lac_sched_next(sequence->state, LAC_SEQUENCE_FINISH);
}

static lac_logprob logprob_of(lac_engine *engine, const lac_choice *choice)
{
    lac_logprob out = {.top_count = choice->top_count, .top = engine->top};
    out.chosen.token = choice->chosen.token;
    out.chosen.logprob = choice->chosen.logprob;
    out.chosen.text = piece_of(engine, choice->chosen.token);
    for (uint32_t i = 0; i < choice->top_count; i++) {
        engine->top[i].token = choice->top[i].token;
        engine->top[i].logprob = choice->top[i].logprob;
        engine->top[i].text = piece_of(engine, choice->top[i].token);
    }
    return out;
}

static void piece_for_words(void *arg, uint32_t id, const char **bytes, size_t *length)
{
    lac_tokenizer_piece(arg, id, false, bytes, length);
}

/* Tokens the grammar allows. The vocabulary is put in order for the first sequence that has one. */
static const uint64_t *allowed(lac_engine *engine, const lac__sequence *sequence)
{
    uint32_t count;
    if (!engine->words)
        engine->words = lac_words_create(engine->model->vocab, piece_for_words, engine->tokenizer,
                                         engine->end_tokens, engine->end_tokens_count);
    return lac_words_mask(engine->words, sequence->grammar, &count);
}

void lac__deliver_token(lac_engine *engine, lac__sequence *sequence, lac_logit_row *row,
                        lac_engine_sink sink, void *arg)
{
    lac_choice choice = {.token = row->best_token};
    if (row->top_count > 0) {
        lac_candidate top[LAC_SAMPLER_TOP_MAX];
        for (uint32_t i = 0; i < row->top_count; i++)
            top[i] = (lac_candidate){row->top[i].token, row->top[i].logit};
        choice.token = lac_sampler_choose_top(sequence->sampler, top, row->top_count,
                                              lac__sequence_outputs(sequence));
    } else if (row->logits) {
        bool banned = lac__sequence_bans_end(sequence);
        lac_sampler_choose_among(sequence->sampler, row->logits, lac__sequence_outputs(sequence),
                                 banned ? engine->end_tokens : NULL,
                                 banned ? engine->end_tokens_count : 0,
                                 sequence->grammar ? allowed(engine, sequence) : NULL, &choice);
    }
    lac_engine_event event = {0};
    event.chunk.first_pos = lac__sequence_outputs(sequence);
    event.chunk.tokens_count = 1;
    event.chunk.tokens = &choice.token;
    lac_logprob logprob;
    if (sequence->sampling.logprobs) {
        logprob = logprob_of(engine, &choice);
        event.chunk.logprobs_count = 1;
        event.chunk.logprobs = &logprob;
    }
    if (sequence->state == LAC_SEQUENCE_PREFILL)
        sequence->state = lac_sched_next(sequence->state, LAC_SEQUENCE_PREFILLED);
    event.finish = lac__sequence_accept(engine, sequence, choice.token);
    if (event.finish == LAC_FINISH_ERROR) {
        event.chunk = (lac_chunk){.first_pos = event.chunk.first_pos};
        event.error = sequence->error.status;
        event.reason = sequence->error.text;
    }
    event.usage = usage_of(sequence);
    engine->output_tokens++;
    report(engine, sequence, &event, sink, arg);
}

void lac__deliver_end(lac_engine *engine, lac__sequence *sequence, lac_engine_sink sink, void *arg)
{
    LAC_ASSERT(sequence->finish != LAC_FINISH_NONE);
    lac_engine_event event = {.finish = sequence->finish, .usage = usage_of(sequence)};
    event.chunk.first_pos = lac__sequence_outputs(sequence);
    if (sequence->finish == LAC_FINISH_ERROR) {
        event.error = sequence->error.status;
        event.reason = sequence->error.text;
    }
    lac_buf_clear(&engine->text);
    report(engine, sequence, &event, sink, arg);
}
