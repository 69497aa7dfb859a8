/* Moves what both planes carry between protobuf structs and plain ones: short texts, status codes,
 * prompts, sampling, chunks of tokens. Owns no range check (validate.c has them), only what must
 * hold before a value fits its plain field. Pure, any thread. */
#include "base/text.h"
#include "codec.h"

/* ---- texts and bytes ---- */

ProtobufCBinaryData lac__put_reason(lac__codec *c, const char *text, size_t length)
{
    /* A reason may have been cut inside a character, or quote bytes that are none. */
    length = lac_utf8_whole(text, length);
    if (!length)
        return lac__bin(NULL, 0);
    char *clean = lac__put_alloc(c, length, 1);
    for (size_t at = 0; at < length;) {
        uint32_t codepoint;
        int bytes = lac_utf8_next(text + at, length - at, &codepoint);
        if (bytes > 1 || (bytes == 1 && codepoint >= ' ' && codepoint != 0x7f)) {
            memcpy(clean + at, text + at, (size_t)bytes);
        } else {
            bytes = 1;
            clean[at] = '?';
        }
        at += (size_t)bytes;
    }
    return lac__bin(clean, length);
}

lac_status lac__get_text(lac__codec *c, const char *field, ProtobufCBinaryData bin, char *text,
                         size_t size)
{
    if (bin.len >= size)
        return lac_fail(c->err, LAC_EINVAL, "%s has %zu bytes, allowed: at most %zu", field,
                        bin.len, size - 1);
    if (bin.len && memchr(bin.data, '\0', bin.len))
        return lac_fail(c->err, LAC_EINVAL, "%s has a NUL byte, allowed: text", field);
    if (bin.len && !lac_utf8_valid((const char *)bin.data, bin.len))
        return lac_fail(c->err, LAC_EINVAL, "%s is not valid UTF-8", field);
    if (bin.len)
        memcpy(text, bin.data, bin.len);
    text[bin.len] = '\0';
    return LAC_OK;
}

lac_status lac__get_bytes(lac__codec *c, const char *field, ProtobufCBinaryData bin, uint8_t *bytes,
                          size_t size)
{
    if (bin.len != 0 && bin.len != size)
        return lac_fail(c->err, LAC_EINVAL, "%s has %zu bytes, allowed: %zu", field, bin.len, size);
    if (bin.len)
        memcpy(bytes, bin.data, size);
    return LAC_OK;
}

/* ---- enumerations: numbers on the wire do not follow the order of the C ones ---- */

static const Pb__Status statuses[] = {
    [LAC_OK] = PB__STATUS__STATUS_OK,
    [LAC_AGAIN] = PB__STATUS__STATUS_AGAIN,
    [LAC_BUSY] = PB__STATUS__STATUS_BUSY,
    [LAC_EINVAL] = PB__STATUS__STATUS_INVALID,
    [LAC_ENOTFOUND] = PB__STATUS__STATUS_NOT_FOUND,
    [LAC_EUNSUPPORTED] = PB__STATUS__STATUS_UNSUPPORTED,
    [LAC_ETOOBIG] = PB__STATUS__STATUS_TOO_BIG,
    [LAC_EDEADLINE] = PB__STATUS__STATUS_DEADLINE,
    [LAC_ECANCELLED] = PB__STATUS__STATUS_CANCELLED,
    [LAC_EREFUSED] = PB__STATUS__STATUS_REFUSED,
    [LAC_EEXIST] = PB__STATUS__STATUS_EXISTS,
    [LAC_EPEER] = PB__STATUS__STATUS_PEER,
    [LAC_EPROTO] = PB__STATUS__STATUS_PROTOCOL,
    [LAC_EEPOCH] = PB__STATUS__STATUS_EPOCH,
    [LAC_ECORRUPT] = PB__STATUS__STATUS_CORRUPT,
    [LAC_EIO] = PB__STATUS__STATUS_IO,
    [LAC_ENOMEM] = PB__STATUS__STATUS_MEMORY,
    [LAC_EINTERNAL] = PB__STATUS__STATUS_INTERNAL,
};
enum { STATUS_COUNT = sizeof statuses / sizeof statuses[0] };
_Static_assert(STATUS_COUNT == LAC_EINTERNAL + 1, "a new status needs its number on the wire");

Pb__Status lac__put_status(lac_status status)
{
    return statuses[status];
}

lac_status lac__get_status(lac__codec *c, const char *field, int has, Pb__Status in,
                           lac_status *out)
{
    if (!has) {
        *out = LAC_OK;
        return LAC_OK;
    }
    for (int i = 0; i < STATUS_COUNT; i++) {
        if (statuses[i] == in) {
            *out = (lac_status)i;
            return LAC_OK;
        }
    }
    return lac_fail(c->err, LAC_EINVAL, "%s is %d, which is no known status", field, (int)in);
}

lac_status lac__get_finish(lac__codec *c, const char *field, int has, Pb__Finish in,
                           lac_finish *out)
{
    _Static_assert((int)LAC_FINISH_STOP == (int)PB__FINISH__FINISH_STOP &&
                       (int)LAC_FINISH_LENGTH == (int)PB__FINISH__FINISH_LENGTH &&
                       (int)LAC_FINISH_CANCEL == (int)PB__FINISH__FINISH_CANCEL &&
                       (int)LAC_FINISH_ERROR == (int)PB__FINISH__FINISH_ERROR,
                   "the numbers are the same on both sides");
    if (has && ((int)in < LAC_FINISH_STOP || (int)in > LAC_FINISH_ERROR))
        return lac_fail(c->err, LAC_EINVAL, "%s is %d, which is no known reason", field, (int)in);
    *out = has ? (lac_finish)in : LAC_FINISH_NONE;
    return LAC_OK;
}

/* ---- prompt ---- */

static Pb__ChatPrompt *put_chat(lac__codec *c, const lac_prompt *prompt)
{
    Pb__ChatPrompt *out = lac__put_alloc(c, 1, sizeof *out);
    pb__chat_prompt__init(out);
    size_t count = prompt->messages_count;
    Pb__ChatMessage *messages = lac__put_alloc(c, count, sizeof *messages);
    out->messages = lac__put_alloc(c, count, sizeof *out->messages);
    out->n_messages = count;
    for (size_t i = 0; i < count; i++) {
        const lac_chat_message *from = &prompt->messages[i];
        pb__chat_message__init(&messages[i]);
        LAC__PUT_TEXT(&messages[i], role, from->role);
        LAC__PUT_SPAN(&messages[i], content, from->content);
        LAC__PUT_SPAN(&messages[i], reasoning, from->reasoning);
        LAC__PUT_SPAN(&messages[i], calls, from->calls);
        LAC__PUT_SPAN(&messages[i], call_id, from->call_id);
        out->messages[i] = &messages[i];
    }
    LAC__PUT_SPAN(out, tools, prompt->tools);
    LAC__PUT(out, tool_required, prompt->tool_required);
    LAC__PUT_TEXT(out, tool_name, prompt->tool_name);
    LAC__PUT(out, one_call, prompt->one_call);
    out->has_thinking = prompt->thinking != LAC_THINKING_DEFAULT;
    out->thinking = (Pb__Thinking)prompt->thinking;
    return out;
}

Pb__Prompt *lac__put_prompt(lac__codec *c, const lac_prompt *prompt)
{
    Pb__Prompt *out = lac__put_alloc(c, 1, sizeof *out);
    pb__prompt__init(out);
    LAC__PUT_SPAN(out, suffix, prompt->suffix);
    LAC__PUT(out, parts, prompt->parts);
    LAC__PUT(out, without_bos, prompt->without_bos);
    out->has_want = prompt->want != LAC_WANT_TEXT;
    out->want = (Pb__Want)prompt->want;
    if (prompt->kind == LAC_PROMPT_TEXT) {
        out->kind_case = PB__PROMPT__KIND_TEXT;
        out->text = lac__bin(prompt->text.data, prompt->text.length);
    } else if (prompt->kind == LAC_PROMPT_IDS) {
        out->kind_case = PB__PROMPT__KIND_IDS;
        out->ids = lac__put_alloc(c, 1, sizeof *out->ids);
        pb__ids_prompt__init(out->ids);
        LAC__PUT_LIST(out->ids, ids, prompt->ids, prompt->ids_count);
    } else {
        LAC_ASSERT(prompt->kind == LAC_PROMPT_CHAT);
        out->kind_case = PB__PROMPT__KIND_CHAT;
        out->chat = put_chat(c, prompt);
    }
    return out;
}

static lac_status get_chat(lac__codec *c, const Pb__ChatPrompt *in, lac_prompt *out)
{
    if (in->n_messages > LAC_MESSAGES_MAX)
        return lac_fail(c->err, LAC_EINVAL, "prompt has %zu messages, allowed: 1 to %d",
                        in->n_messages, LAC_MESSAGES_MAX);
    lac_chat_message *messages;
    LAC__TRY(lac__get_alloc(c, in->n_messages, sizeof *messages, &messages));
    for (size_t i = 0; i < in->n_messages; i++) {
        const Pb__ChatMessage *message = in->messages[i];
        LAC__TRY(lac__get_text(c, "message role", message->role, messages[i].role,
                               sizeof messages[i].role));
        messages[i].content = lac__span(message->content);
        messages[i].reasoning = lac__span(message->reasoning);
        messages[i].calls = lac__span(message->calls);
        messages[i].call_id = lac__span(message->call_id);
    }
    out->messages = messages;
    out->messages_count = (uint32_t)in->n_messages;
    out->tools = lac__span(in->tools);
    out->tool_required = in->tool_required != 0;
    out->one_call = in->one_call != 0;
    _Static_assert((int)LAC_THINKING_ON == (int)PB__THINKING__THINKING_ON &&
                       (int)LAC_THINKING_OFF == (int)PB__THINKING__THINKING_OFF,
                   "the numbers are the same on both sides");
    if (in->has_thinking)
        out->thinking = (lac_thinking)in->thinking;
    return lac__get_text(c, "tool_name", in->tool_name, out->tool_name, sizeof out->tool_name);
}

lac_status lac__get_prompt(lac__codec *c, const Pb__Prompt *in, lac_prompt *out)
{
    if (!in)
        return LAC_OK; /* kind NONE, which the check refuses */
    _Static_assert((int)LAC_WANT_TOKENS == (int)PB__WANT__WANT_TOKENS &&
                       (int)LAC_WANT_TEXT_OF_IDS == (int)PB__WANT__WANT_TEXT_OF_IDS,
                   "the numbers are the same on both sides");
    if (in->has_want)
        out->want = (lac_want)in->want;
    out->suffix = lac__span(in->suffix);
    out->parts = in->parts != 0;
    out->without_bos = in->without_bos != 0;
    switch (in->kind_case) {
    case PB__PROMPT__KIND_CHAT: out->kind = LAC_PROMPT_CHAT; return get_chat(c, in->chat, out);
    case PB__PROMPT__KIND_TEXT:
        out->kind = LAC_PROMPT_TEXT;
        out->text = lac__span(in->text);
        return LAC_OK;
    case PB__PROMPT__KIND_IDS:
        out->kind = LAC_PROMPT_IDS;
        out->ids = in->ids->ids;
        out->ids_count = (uint32_t)in->ids->n_ids;
        return LAC_OK;
    default: return LAC_OK;
    }
}

/* ---- sampling ---- */

Pb__Sampling *lac__put_sampling(lac__codec *c, const lac_sampling *s)
{
    Pb__Sampling *out = lac__put_alloc(c, 1, sizeof *out);
    pb__sampling__init(out);
    LAC__PUT(out, temperature, s->temperature);
    LAC__PUT(out, top_p, s->top_p);
    LAC__PUT(out, min_p, s->min_p);
    LAC__PUT(out, top_k, (uint32_t)s->top_k);
    LAC__PUT(out, repetition_penalty, s->repetition_penalty);
    LAC__PUT(out, presence_penalty, s->presence_penalty);
    LAC__PUT(out, frequency_penalty, s->frequency_penalty);
    out->has_seed = s->has_seed;
    out->seed = s->seed;
    LAC__PUT(out, choice, s->choice);
    LAC__PUT(out, max_tokens, s->max_tokens);
    LAC__PUT(out, min_tokens, s->min_tokens);
    LAC__PUT(out, ignore_eos, s->ignore_eos);
    LAC__PUT(out, logprobs, s->logprobs);
    LAC__PUT(out, top_logprobs, s->top_logprobs);
    if (s->stops_count) {
        out->stops = lac__put_alloc(c, s->stops_count, sizeof *out->stops);
        out->n_stops = s->stops_count;
        for (uint32_t i = 0; i < s->stops_count; i++)
            out->stops[i] = lac__bin(s->stops[i].bytes, s->stops[i].length);
    }
    if (s->bias_count) {
        out->bias_tokens = lac__put_alloc(c, s->bias_count, sizeof *out->bias_tokens);
        out->bias_values = lac__put_alloc(c, s->bias_count, sizeof *out->bias_values);
        out->n_bias_tokens = out->n_bias_values = s->bias_count;
        for (uint32_t i = 0; i < s->bias_count; i++) {
            out->bias_tokens[i] = s->bias[i].token;
            out->bias_values[i] = s->bias[i].bias;
        }
    }
    if (s->grammar_length) {
        out->has_grammar = 1;
        out->grammar = lac__bin(s->grammar, s->grammar_length);
    }
    return out;
}

static lac_status get_stops(lac__codec *c, const Pb__Sampling *in, lac_sampling *out)
{
    if (in->n_stops > LAC_STOPS_MAX)
        return lac_fail(c->err, LAC_EINVAL, "stop has %zu strings, allowed: %d", in->n_stops,
                        LAC_STOPS_MAX);
    for (size_t i = 0; i < in->n_stops; i++) {
        if (in->stops[i].len < 1 || in->stops[i].len > LAC_STOP_BYTES_MAX)
            return lac_fail(c->err, LAC_EINVAL, "stop string %zu has %zu bytes, allowed: 1 to %d",
                            i, in->stops[i].len, LAC_STOP_BYTES_MAX);
        out->stops[i].length = (uint32_t)in->stops[i].len;
        memcpy(out->stops[i].bytes, in->stops[i].data, in->stops[i].len);
    }
    out->stops_count = (uint32_t)in->n_stops;
    return LAC_OK;
}

static lac_status get_bias(lac__codec *c, const Pb__Sampling *in, lac_sampling *out)
{
    if (in->n_bias_tokens != in->n_bias_values || in->n_bias_tokens > LAC_LOGIT_BIAS_MAX)
        return lac_fail(c->err, LAC_EINVAL,
                        "logit_bias has %zu tokens and %zu values, allowed: as many of each, at "
                        "most %d",
                        in->n_bias_tokens, in->n_bias_values, LAC_LOGIT_BIAS_MAX);
    lac_logit_bias *bias;
    LAC__TRY(lac__get_alloc(c, in->n_bias_tokens, sizeof *bias, &bias));
    for (size_t i = 0; i < in->n_bias_tokens; i++)
        bias[i] = (lac_logit_bias){.token = in->bias_tokens[i], .bias = in->bias_values[i]};
    out->bias = bias;
    out->bias_count = (uint32_t)in->n_bias_tokens;
    return LAC_OK;
}

lac_status lac__get_sampling(lac__codec *c, const Pb__Sampling *in, lac_sampling *out)
{
    if (!in)
        return lac_fail(c->err, LAC_EINVAL, "sampling is missing");
    if (in->top_k > INT32_MAX)
        return lac_fail(c->err, LAC_EINVAL, "top_k is %u, allowed: at most %d", in->top_k,
                        LAC_VOCAB_MAX);
    *out = (lac_sampling){
        .temperature = in->temperature,
        .top_p = in->top_p,
        .min_p = in->min_p,
        .top_k = (int32_t)in->top_k,
        .repetition_penalty = in->repetition_penalty,
        .presence_penalty = in->presence_penalty,
        .frequency_penalty = in->frequency_penalty,
        .has_seed = in->has_seed != 0,
        .seed = in->seed,
        .choice = in->choice,
        .max_tokens = in->max_tokens,
        .min_tokens = in->min_tokens,
        .ignore_eos = in->ignore_eos != 0,
        .logprobs = in->logprobs != 0,
        .top_logprobs = in->top_logprobs,
    };
    if (in->grammar.len > LAC_GRAMMAR_BYTES_MAX)
        return lac_fail(c->err, LAC_EINVAL, "response_format has %zu bytes, allowed: %d",
                        in->grammar.len, LAC_GRAMMAR_BYTES_MAX);
    lac_span grammar = lac__span(in->grammar);
    out->grammar = grammar.data;
    out->grammar_length = grammar.length;
    LAC__TRY(get_stops(c, in, out));
    return get_bias(c, in, out);
}

/* ---- chunk ---- */

typedef struct {
    uint32_t *others, *tokens, *lengths;
    float *values;
    char *text;
    size_t entries, bytes;
} columns;

static void column_add(columns *to, const lac_top_logprob *entry)
{
    to->tokens[to->entries] = entry->token;
    to->values[to->entries] = entry->logprob;
    to->lengths[to->entries] = entry->text.length;
    if (entry->text.length)
        memcpy(to->text + to->bytes, entry->text.data, entry->text.length);
    to->entries++;
    to->bytes += entry->text.length;
}

static Pb__Logprobs *put_logprobs(lac__codec *c, const lac_chunk *chunk)
{
    size_t entries = 0, bytes = 0;
    for (uint32_t i = 0; i < chunk->logprobs_count; i++) {
        const lac_logprob *l = &chunk->logprobs[i];
        entries += 1 + l->top_count;
        bytes += l->chosen.text.length;
        for (uint32_t k = 0; k < l->top_count; k++)
            bytes += l->top[k].text.length;
    }
    columns to = {.others = lac__put_alloc(c, chunk->logprobs_count, sizeof *to.others),
                  .tokens = lac__put_alloc(c, entries, sizeof *to.tokens),
                  .values = lac__put_alloc(c, entries, sizeof *to.values),
                  .lengths = lac__put_alloc(c, entries, sizeof *to.lengths),
                  .text = lac__put_alloc(c, bytes, 1)};
    for (uint32_t i = 0; i < chunk->logprobs_count; i++) {
        const lac_logprob *l = &chunk->logprobs[i];
        to.others[i] = l->top_count;
        column_add(&to, &l->chosen);
        for (uint32_t k = 0; k < l->top_count; k++)
            column_add(&to, &l->top[k]);
    }
    Pb__Logprobs *out = lac__put_alloc(c, 1, sizeof *out);
    pb__logprobs__init(out);
    LAC__PUT_LIST(out, others, to.others, chunk->logprobs_count);
    LAC__PUT_LIST(out, tokens, to.tokens, entries);
    LAC__PUT_LIST(out, values, to.values, entries);
    LAC__PUT_LIST(out, lengths, to.lengths, entries);
    out->has_text = bytes != 0;
    out->text = lac__bin(to.text, bytes);
    return out;
}

Pb__Chunk *lac__put_chunk(lac__codec *c, const lac_chunk *chunk)
{
    Pb__Chunk *out = lac__put_alloc(c, 1, sizeof *out);
    pb__chunk__init(out);
    LAC__PUT(out, first_pos, chunk->first_pos);
    LAC__PUT_LIST(out, tokens, chunk->tokens, chunk->tokens_count);
    LAC__PUT_SPAN(out, text, chunk->text);
    if (chunk->logprobs_count)
        out->logprobs = put_logprobs(c, chunk);
    return out;
}

/* The columns agree with each other and with the chunk; nothing is allocated before that is known.
 */
static lac_status check_columns(lac__codec *c, const Pb__Logprobs *in, size_t tokens)
{
    size_t entries = 0, bytes = 0;
    for (size_t i = 0; i < in->n_others; i++) {
        if (in->others[i] > LAC_TOP_LOGPROBS_MAX)
            return lac_fail(c->err, LAC_EINVAL, "top_logprobs is %u, allowed: at most %d",
                            in->others[i], LAC_TOP_LOGPROBS_MAX);
        entries += 1 + in->others[i];
    }
    if (in->n_others != tokens || in->n_tokens != entries || in->n_values != entries ||
        in->n_lengths != entries)
        return lac_fail(c->err, LAC_EINVAL,
                        "logprobs has %zu counts, %zu tokens, %zu values, %zu lengths, allowed: "
                        "%zu, then %zu of each",
                        in->n_others, in->n_tokens, in->n_values, in->n_lengths, tokens, entries);
    for (size_t i = 0; i < entries; i++)
        bytes += in->lengths[i];
    if (bytes != in->text.len)
        return lac_fail(c->err, LAC_EINVAL, "logprobs text has %zu bytes, its lengths add to %zu",
                        in->text.len, bytes);
    return LAC_OK;
}

static lac_top_logprob column_take(const Pb__Logprobs *in, size_t *entry, size_t *byte)
{
    size_t at = (*entry)++;
    uint32_t length = in->lengths[at];
    lac_top_logprob out = {.token = in->tokens[at], .logprob = in->values[at]};
    if (length)
        out.text = (lac_span){.data = (const char *)in->text.data + *byte, .length = length};
    *byte += length;
    return out;
}

static lac_status get_logprobs(lac__codec *c, const Pb__Logprobs *in, lac_chunk *out)
{
    LAC__TRY(check_columns(c, in, out->tokens_count));
    lac_logprob *list;
    lac_top_logprob *top;
    LAC__TRY(lac__get_alloc(c, in->n_others, sizeof *list, &list));
    LAC__TRY(lac__get_alloc(c, in->n_tokens - in->n_others, sizeof *top, &top));
    size_t entry = 0, byte = 0;
    for (size_t i = 0; i < in->n_others; i++) {
        uint32_t others = in->others[i];
        list[i].chosen = column_take(in, &entry, &byte);
        list[i].top = others ? top : NULL;
        list[i].top_count = others;
        for (uint32_t k = 0; k < others; k++)
            *top++ = column_take(in, &entry, &byte);
    }
    out->logprobs = list;
    out->logprobs_count = (uint32_t)in->n_others;
    return LAC_OK;
}

lac_status lac__get_chunk(lac__codec *c, const Pb__Chunk *in, lac_chunk *out)
{
    if (!in)
        return LAC_OK; /* an empty chunk */
    *out = (lac_chunk){.first_pos = in->first_pos,
                       .tokens_count = (uint32_t)in->n_tokens,
                       .tokens = in->tokens,
                       .text = lac__span(in->text)};
    return in->logprobs ? get_logprobs(c, in->logprobs, out) : LAC_OK;
}

Pb__Usage *lac__put_usage(lac__codec *c, const lac_usage *usage)
{
    Pb__Usage *out = lac__put_alloc(c, 1, sizeof *out);
    pb__usage__init(out);
    LAC__PUT(out, prompt_tokens, usage->prompt_tokens);
    LAC__PUT(out, completion_tokens, usage->completion_tokens);
    LAC__PUT(out, cached_tokens, usage->cached_tokens);
    return out;
}

void lac__get_usage(const Pb__Usage *in, lac_usage *out)
{
    if (in)
        *out = (lac_usage){.prompt_tokens = in->prompt_tokens,
                           .completion_tokens = in->completion_tokens,
                           .cached_tokens = in->cached_tokens};
}
