/* What is allowed in a message, on the way out and on the way in: the helpers and the parts both
 * planes carry. Works on plain structs; every error names field, value and limit. Pure, any thread.
 */
#include <math.h>

#include "base/text.h"
#include "codec.h"

enum { LOGPROB_LOW = -1000000000 };
/* Rounding may put the logarithm of a probability of 1 a little above 0. */
#define LOGPROB_HIGH 0.001f

lac_status lac__check_ranges(const lac__range *ranges, size_t count, lac_error *err)
{
    for (size_t i = 0; i < count; i++) {
        const lac__range *r = &ranges[i];
        if (r->value < r->low || r->value > r->high)
            return lac_fail(err, LAC_EINVAL, "%s is %llu, allowed: %llu to %llu", r->field,
                            (unsigned long long)r->value, (unsigned long long)r->low,
                            (unsigned long long)r->high);
    }
    return LAC_OK;
}

static lac_status check_charset(const char *field, const char *text, size_t size,
                                bool (*allowed)(char), const char *words, lac_error *err)
{
    size_t length = strnlen(text, size);
    if (length == size)
        return lac_fail(err, LAC_EINVAL, "%s is not ended within %zu bytes", field, size);
    for (size_t i = 0; i < length; i++)
        if (!allowed(text[i]))
            return lac_fail(err, LAC_EINVAL, "%s has byte 0x%02x at %zu, allowed: %s", field,
                            (unsigned char)text[i], i, words);
    return LAC_OK;
}

static bool in_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

static bool in_label(char c)
{
    return c >= ' ' && c <= '~';
}

static bool in_role(char c)
{
    return (c >= 'a' && c <= 'z') || c == '_';
}

lac_status lac__check_name(const char *field, const char *text, size_t size, bool may_be_empty,
                           lac_error *err)
{
    if (!text[0] && !may_be_empty)
        return lac_fail(err, LAC_EINVAL, "%s is empty, allowed: 1 to %zu of A-Z a-z 0-9 . _ -",
                        field, size - 1);
    return check_charset(field, text, size, in_name, "A-Z a-z 0-9 . _ -", err);
}

lac_status lac__check_label(const char *field, const char *text, size_t size, lac_error *err)
{
    return check_charset(field, text, size, in_label, "printable ASCII", err);
}

lac_status lac__check_ids(const char *field, const uint32_t *ids, uint32_t count, lac_error *err)
{
    if (count > LAC_CONTEXT_MAX)
        return lac_fail(err, LAC_EINVAL, "%s has %u tokens, allowed: at most %d", field, count,
                        LAC_CONTEXT_MAX);
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] >= LAC_VOCAB_MAX)
            return lac_fail(err, LAC_EINVAL, "%s[%u] is %u, allowed: below %d", field, i, ids[i],
                            LAC_VOCAB_MAX);
    return LAC_OK;
}

static lac_status check_utf8(const char *field, lac_span span, size_t max, lac_error *err)
{
    if (span.length > max)
        return lac_fail(err, LAC_EINVAL, "%s has %u bytes, allowed: at most %zu", field,
                        span.length, max);
    if (span.length && !lac_utf8_valid(span.data, span.length))
        return lac_fail(err, LAC_EINVAL, "%s is not valid UTF-8", field);
    return LAC_OK;
}

lac_status lac__check_finish(const char *field, lac_finish finish, lac_error *err)
{
    if ((int)finish < LAC_FINISH_NONE || finish > LAC_FINISH_ERROR)
        return lac_fail(err, LAC_EINVAL, "%s is %d, allowed: %d to %d", field, (int)finish,
                        LAC_FINISH_NONE, LAC_FINISH_ERROR);
    return LAC_OK;
}

lac_status lac__check_status(const char *field, lac_status value, lac_error *err)
{
    if ((int)value < LAC_OK || value > LAC_EINTERNAL)
        return lac_fail(err, LAC_EINVAL, "%s is %d, allowed: %d to %d", field, (int)value, LAC_OK,
                        LAC_EINTERNAL);
    return LAC_OK;
}

/* ---- prompt and sampling ---- */

static lac_status check_chat(const lac_prompt *prompt, lac_error *err)
{
    lac__range count = {"prompt.messages", prompt->messages_count, 1, LAC_MESSAGES_MAX};
    LAC__TRY(lac__check_ranges(&count, 1, err));
    size_t total = 0;
    for (uint32_t i = 0; i < prompt->messages_count; i++) {
        const lac_chat_message *message = &prompt->messages[i];
        if (!message->role[0])
            return lac_fail(err, LAC_EINVAL, "messages[%u].role is empty, allowed: a-z and _", i);
        lac_status status =
            check_charset("role", message->role, sizeof message->role, in_role, "a-z and _", err);
        if (!status)
            status = check_utf8("content", message->content, LAC_PROMPT_BYTES_MAX, err);
        if (!status)
            status = check_utf8("reasoning", message->reasoning, LAC_PROMPT_BYTES_MAX, err);
        if (!status)
            status = check_utf8("calls", message->calls, LAC_PROMPT_BYTES_MAX, err);
        if (!status)
            status = check_utf8("call_id", message->call_id, LAC_REASON_MAX, err);
        LAC__TRY_IN(status, err, "messages[%u]", i);
        total += (size_t)message->content.length + message->reasoning.length +
                 message->calls.length + message->call_id.length;
    }
    if (total > LAC_PROMPT_BYTES_MAX)
        return lac_fail(err, LAC_EINVAL, "messages have %zu bytes, allowed: at most %d", total,
                        LAC_PROMPT_BYTES_MAX);
    return LAC_OK;
}

/* What asks for more than the text that follows a text. */
static lac_status check_wishes(const lac_prompt *prompt, lac_error *err)
{
    const lac__range ranges[] = {
        {"prompt.want", prompt->want, LAC_WANT_TEXT, LAC_WANT_TEXT_OF_IDS},
        {"prompt.thinking", prompt->thinking, LAC_THINKING_DEFAULT, LAC_THINKING_OFF},
    };
    bool chat = prompt->kind == LAC_PROMPT_CHAT;
    LAC__TRY(lac__check_ranges(ranges, sizeof ranges / sizeof *ranges, err));
    LAC__TRY(check_utf8("suffix", prompt->suffix, LAC_PROMPT_BYTES_MAX, err));
    LAC__TRY(check_utf8("tools", prompt->tools, LAC_TOOLS_BYTES_MAX, err));
    LAC__TRY(lac__check_name("tool_name", prompt->tool_name, sizeof prompt->tool_name, true, err));
    if (prompt->suffix.length && prompt->kind != LAC_PROMPT_TEXT)
        return lac_fail(err, LAC_EINVAL, "suffix is given, allowed with a text prompt only");
    if (!chat && (prompt->tools.length || prompt->tool_required || prompt->tool_name[0]))
        return lac_fail(err, LAC_EINVAL, "tools are given, allowed with messages only");
    if (prompt->tool_required && !prompt->tools.length)
        return lac_fail(err, LAC_EINVAL, "a call is required, allowed with tools only");
    if (prompt->want == LAC_WANT_TEXT_OF_IDS && prompt->kind != LAC_PROMPT_IDS)
        return lac_fail(err, LAC_EINVAL, "the text of ids is wanted, allowed with token ids only");
    return LAC_OK;
}

lac_status lac__check_prompt(const lac_prompt *prompt, lac_error *err)
{
    LAC__TRY(check_wishes(prompt, err));
    switch (prompt->kind) {
    case LAC_PROMPT_CHAT: return check_chat(prompt, err);
    case LAC_PROMPT_TEXT: return check_utf8("prompt", prompt->text, LAC_PROMPT_BYTES_MAX, err);
    case LAC_PROMPT_IDS:
        if (!prompt->ids_count)
            return lac_fail(err, LAC_EINVAL, "prompt has 0 token ids, allowed: 1 to %d",
                            LAC_CONTEXT_MAX);
        return lac__check_ids("prompt", prompt->ids, prompt->ids_count, err);
    case LAC_PROMPT_NONE: break;
    }
    return lac_fail(err, LAC_EINVAL, "prompt is missing, allowed: messages, text or token ids");
}

lac_status lac__check_sampling(const lac_sampling *sampling, lac_error *err)
{
    LAC__TRY(lac_sampling_check(sampling, LAC_VOCAB_MAX, err));
    if (!lac_utf8_valid(sampling->grammar ? sampling->grammar : "", sampling->grammar_length))
        return lac_fail(err, LAC_EINVAL, "response_format is not valid UTF-8");
    for (uint32_t i = 0; i < sampling->stops_count; i++)
        if (!lac_utf8_valid(sampling->stops[i].bytes, sampling->stops[i].length))
            return lac_fail(err, LAC_EINVAL, "stop string %u is not valid UTF-8", i);
    return LAC_OK;
}

/* ---- chunk ---- */

static lac_status check_entry(const lac_top_logprob *entry, lac_error *err)
{
    if (entry->token >= LAC_VOCAB_MAX)
        return lac_fail(err, LAC_EINVAL, "token is %u, allowed: below %d", entry->token,
                        LAC_VOCAB_MAX);
    if (!isfinite(entry->logprob) || entry->logprob < (float)LOGPROB_LOW ||
        entry->logprob > LOGPROB_HIGH)
        return lac_fail(err, LAC_EINVAL, "logprob is %g, allowed: %d to 0", (double)entry->logprob,
                        LOGPROB_LOW);
    return LAC_OK;
}

static lac_status check_logprob(const lac_logprob *l, lac_error *err)
{
    LAC__TRY(check_entry(&l->chosen, err));
    if (l->top_count > LAC_TOP_LOGPROBS_MAX)
        return lac_fail(err, LAC_EINVAL, "top has %u entries, allowed: at most %d", l->top_count,
                        LAC_TOP_LOGPROBS_MAX);
    for (uint32_t k = 0; k < l->top_count; k++) {
        LAC__TRY(check_entry(&l->top[k], err));
        if (k && l->top[k].logprob > l->top[k - 1].logprob)
            return lac_fail(err, LAC_EINVAL, "top[%u] is %g, allowed: descending values", k,
                            (double)l->top[k].logprob);
    }
    return LAC_OK;
}

lac_status lac__check_chunk(const lac_chunk *chunk, lac_error *err)
{
    LAC__TRY(lac__check_ids("chunk.tokens", chunk->tokens, chunk->tokens_count, err));
    lac__range end = {"chunk.first_pos + tokens", (uint64_t)chunk->first_pos + chunk->tokens_count,
                      0, LAC_CONTEXT_MAX};
    LAC__TRY(lac__check_ranges(&end, 1, err));
    LAC__TRY(check_utf8("chunk.text", chunk->text, LAC_FRAME_MAX, err));
    if (chunk->logprobs_count && chunk->logprobs_count != chunk->tokens_count)
        return lac_fail(err, LAC_EINVAL, "chunk.logprobs has %u entries, allowed: 0 or %u",
                        chunk->logprobs_count, chunk->tokens_count);
    for (uint32_t i = 0; i < chunk->logprobs_count; i++)
        LAC__TRY_IN(check_logprob(&chunk->logprobs[i], err), err, "chunk.logprobs[%u]", i);
    return LAC_OK;
}
