/* OpenAI's response objects as text, by our own writer: no tree is built per token. Loop thread. */
#include "reply.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "items.h"

enum { TOKENS, TOKEN_LOGPROBS, TOP_LOGPROBS, TEXT_OFFSET };

static void comma(lac_buf *out)
{
    if (out->length > 0)
        lac_buf_add(out, ",", 1);
}

/* Empty text may be a null pointer, which must not reach pointer arithmetic. */
static void string(lac_buf *out, const char *text, size_t length)
{
    lac_buf_json(out, length ? text : "", length);
}

static void number(lac_buf *out, float logprob)
{
    lac_buf_printf(out, "%.7g", isfinite(logprob) ? (double)logprob : -9999.0);
}

/* ---- chat ---- */

/* A token may be half a character: its text is then mended, its bytes are exact. */
static void chat_token(lac_buf *out, const lac_top_logprob *token)
{
    lac_buf_text(out, "{\"token\":");
    string(out, token->text.data, token->text.length);
    lac_buf_text(out, ",\"logprob\":");
    number(out, token->logprob);
    lac_buf_text(out, ",\"bytes\":[");
    for (uint32_t i = 0; i < token->text.length; i++)
        lac_buf_printf(out, "%s%u", i ? "," : "", (unsigned char)token->text.data[i]);
    lac_buf_text(out, "]");
}

static void chat_logprob(lac_buf *out, const lac_logprob *entry)
{
    comma(out);
    chat_token(out, &entry->chosen);
    lac_buf_text(out, ",\"top_logprobs\":[");
    for (uint32_t i = 0; i < entry->top_count; i++) {
        if (i)
            lac_buf_add(out, ",", 1);
        chat_token(out, &entry->top[i]);
        lac_buf_add(out, "}", 1);
    }
    lac_buf_text(out, "]}");
}

/* ---- completions ---- */

/* Here a token's text is a key, so that bytes which are no text must stay distinct: they are
 * spelled out as "bytes:\xNN…", which is what the API's own servers do. */
static void plain_token(lac_buf *out, lac_span text)
{
    if (text.length == 0 || lac_utf8_valid(text.data, text.length)) {
        string(out, text.data, text.length);
        return;
    }
    lac_buf_text(out, "\"bytes:");
    for (uint32_t i = 0; i < text.length; i++)
        lac_buf_printf(out, "\\\\x%02x", (unsigned char)text.data[i]);
    lac_buf_text(out, "\"");
}

static bool same_text(lac_span a, lac_span b)
{
    return a.length == b.length && (a.length == 0 || memcmp(a.data, b.data, a.length) == 0);
}

static void plain_top(lac_buf *out, const lac_logprob *entry)
{
    bool first = true;
    lac_buf_text(out, "{");
    for (uint32_t i = 0; i < entry->top_count; i++) {
        bool seen = false; /* two tokens of equal text: the likelier one keeps the key */
        for (uint32_t j = 0; j < i && !seen; j++)
            seen = same_text(entry->top[i].text, entry->top[j].text);
        if (seen)
            continue;
        if (!first)
            lac_buf_add(out, ",", 1);
        first = false;
        plain_token(out, entry->top[i].text);
        lac_buf_text(out, ":");
        number(out, entry->top[i].logprob);
    }
    lac_buf_text(out, "}");
}

static void plain_logprob(lac__answer_choice *choice, const lac_logprob *entry)
{
    for (int i = 0; i < LAC__LOGPROB_LISTS; i++)
        comma(&choice->logprobs[i]);
    plain_token(&choice->logprobs[TOKENS], entry->chosen.text);
    number(&choice->logprobs[TOKEN_LOGPROBS], entry->chosen.logprob);
    if (entry->top_count > 0)
        plain_top(&choice->logprobs[TOP_LOGPROBS], entry);
    else
        lac_buf_text(&choice->logprobs[TOP_LOGPROBS], "null");
    lac_buf_printf(&choice->logprobs[TEXT_OFFSET], "%llu", (unsigned long long)choice->offset);
    for (uint32_t i = 0; i < entry->chosen.text.length; i++)
        choice->offset += ((unsigned char)entry->chosen.text.data[i] & 0xc0) != 0x80;
}

/* ---- a chat answer's parts ---- */

/* Nine letters, as short as any family's own ids; a function of the answer, so nobody need keep it.
 */
void lac__put_call_id(const lac__answer *answer, uint32_t choice, uint32_t call, lac_buf *out)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    uint64_t hash = 14695981039346656037u ^ ((uint64_t)choice << 32 | call); /* FNV-1a */
    for (const char *c = answer->id; *c; c++)
        hash = (hash ^ (uint8_t)*c) * 1099511628211u;
    hash ^= hash >> 29;
    for (int i = 0; i < 9; i++, hash /= sizeof letters - 1)
        lac_buf_add(out, &letters[hash % (sizeof letters - 1)], 1);
}

/* The inside of a JSON string. */
static void escaped(lac_buf *out, const char *text, size_t length)
{
    size_t before = out->length;
    lac_buf_json(out, text, length);
    if (out->overflow)
        return;
    out->length -= 2;
    memmove(out->data + before, out->data + before + 1, out->length - before);
    out->data[out->length] = '\0';
}

typedef struct {
    const lac__answer *answer;
    lac__answer_choice *choice;
    uint32_t index;
} part_sink;

static void call_begin(const part_sink *to, const char *name, size_t length)
{
    lac_buf *out = &to->choice->calls;
    uint32_t call = to->choice->calls_count++;
    bool stream = to->answer->stream;
    if (!stream && call > 0)
        lac_buf_text(out, "\"}}"); /* the one before */
    comma(out);
    if (stream)
        lac_buf_printf(out, "{\"index\":%u,\"id\":\"", call);
    else
        lac_buf_text(out, "{\"id\":\"");
    lac__put_call_id(to->answer, to->index, call, out);
    lac_buf_text(out, "\",\"type\":\"function\",\"function\":{\"name\":");
    string(out, name, length);
    lac_buf_text(out, stream ? ",\"arguments\":\"\"}}" : ",\"arguments\":\"");
}

static void call_arguments(const part_sink *to, const char *text, size_t length)
{
    lac_buf *out = &to->choice->calls;
    if (to->choice->calls_count == 0)
        return; /* of no call: nothing writes that */
    if (!to->answer->stream) {
        escaped(out, text, length);
        return;
    }
    comma(out);
    lac_buf_printf(out, "{\"index\":%u,\"function\":{\"arguments\":", to->choice->calls_count - 1);
    string(out, text, length);
    lac_buf_text(out, "}}");
}

static void on_part(void *arg, lac_part kind, const char *text, size_t length)
{
    const part_sink *to = arg;
    switch (kind) {
    case LAC_PART_CONTENT: lac_buf_add(&to->choice->text, text, length); break;
    case LAC_PART_REASONING: lac_buf_add(&to->choice->reasoning, text, length); break;
    case LAC_PART_CALL: call_begin(to, text, length); break;
    case LAC_PART_ARGUMENTS: call_arguments(to, text, length); break;
    }
}

/* ---- what waits to be written ---- */

void lac__answer_bound(lac__answer *answer, size_t bytes)
{
    for (uint32_t i = 0; i < answer->choices_count; i++) {
        lac__answer_choice *choice = &answer->choices[i];
        choice->text.cap = bytes / answer->choices_count;
        choice->reasoning.cap = choice->calls.cap = choice->text.cap;
        for (int list = 0; list < LAC__LOGPROB_LISTS; list++)
            choice->logprobs[list].cap = choice->text.cap;
    }
}

bool lac__answer_add(lac__answer *answer, uint32_t index, const lac_chunk *chunk)
{
    lac__answer_choice *choice = &answer->choices[index];
    if (answer->items)
        return !chunk->text.length ||
               lac__items_add(answer->items, chunk->text.data, chunk->text.length);
    if (chunk->text.length > 0 && answer->chat)
        lac_parts_read(&choice->parts, chunk->text.data, chunk->text.length, on_part,
                       &(part_sink){answer, choice, index});
    else if (chunk->text.length > 0)
        lac_buf_add(&choice->text, chunk->text.data, chunk->text.length);
    bool overflow = choice->text.overflow || choice->reasoning.overflow || choice->calls.overflow;
    for (uint32_t i = 0; answer->want_logprobs && i < chunk->logprobs_count; i++) {
        if (answer->chat)
            chat_logprob(&choice->logprobs[0], &chunk->logprobs[i]);
        else
            plain_logprob(choice, &chunk->logprobs[i]);
    }
    for (int i = 0; i < LAC__LOGPROB_LISTS; i++)
        overflow = overflow || choice->logprobs[i].overflow;
    return !overflow;
}

bool lac__choice_pending(const lac__answer_choice *choice)
{
    return choice->text.length > 0 || choice->reasoning.length > 0 || choice->calls.length > 0 ||
           choice->logprobs[0].length > 0;
}

bool lac__answer_pending(const lac__answer *answer)
{
    for (uint32_t i = 0; i < answer->choices_count; i++) {
        const lac__answer_choice *choice = &answer->choices[i];
        if (lac__choice_pending(choice) || (answer->items && lac__items_pending(answer->items)) ||
            (choice->finish != LAC_FINISH_NONE && !choice->told))
            return true;
    }
    return false;
}

void lac__choice_clear(lac__answer_choice *choice)
{
    lac_buf_clear(&choice->text);
    lac_buf_clear(&choice->reasoning);
    lac_buf_clear(&choice->calls);
    for (int i = 0; i < LAC__LOGPROB_LISTS; i++)
        lac_buf_clear(&choice->logprobs[i]);
}

void lac__answer_free(lac__answer *answer)
{
    lac__items_free(&answer->items);
    for (uint32_t i = 0; i < answer->choices_count; i++) {
        lac_buf_free(&answer->choices[i].text);
        lac_buf_free(&answer->choices[i].reasoning);
        lac_buf_free(&answer->choices[i].calls);
        for (int list = 0; list < LAC__LOGPROB_LISTS; list++)
            lac_buf_free(&answer->choices[i].logprobs[list]);
    }
}

/* ---- objects ---- */

static void head(const lac__answer *answer, bool chunk, lac_buf *out)
{
    const char *object = !answer->chat ? "text_completion"
                         : chunk       ? "chat.completion.chunk"
                                       : "chat.completion";
    lac_buf_printf(out, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", answer->id,
                   object, (long long)answer->created_s);
    lac_buf_json(out, answer->model, strlen(answer->model));
    lac_buf_text(out, ",\"choices\":[");
}

static void list(lac_buf *out, const char *name, const lac_buf *values)
{
    lac_buf_printf(out, "\"%s\":[", name);
    if (values->length > 0)
        lac_buf_add(out, values->data, values->length);
    lac_buf_text(out, "]");
}

static void logprobs(const lac__answer *answer, const lac__answer_choice *choice, lac_buf *out)
{
    lac_buf_text(out, ",\"logprobs\":");
    if (!answer->want_logprobs || choice->logprobs[0].length == 0) {
        lac_buf_text(out, "null");
        return;
    }
    lac_buf_text(out, "{");
    if (answer->chat) {
        list(out, "content", &choice->logprobs[0]);
        lac_buf_text(out, ",\"refusal\":null");
    } else {
        static const char *const names[] = {"tokens", "token_logprobs", "top_logprobs",
                                            "text_offset"};
        for (int i = 0; i < LAC__LOGPROB_LISTS; i++) {
            if (i)
                lac_buf_text(out, ",");
            list(out, names[i], &choice->logprobs[i]);
        }
    }
    lac_buf_text(out, "}");
}

/* The end of a choice. */
static void finish_reason(const lac__answer_choice *choice, lac_buf *out)
{
    lac_finish finish = choice ? choice->finish : LAC_FINISH_NONE;
    if (finish == LAC_FINISH_NONE)
        lac_buf_text(out, ",\"finish_reason\":null}");
    else if (finish == LAC_FINISH_STOP && choice->calls_count > 0)
        lac_buf_text(out, ",\"finish_reason\":\"tool_calls\"}");
    else
        lac_buf_printf(out, ",\"finish_reason\":\"%s\"}", lac_finish_name(finish));
}

void lac__answer_account(const lac_run_account *a, lac_buf *out)
{
    const char *mask = a->mask ? a->mask : "";
    lac_buf_printf(out,
                   ",\"lacuna\":{\"class\":\"%s\",\"mask\":\"%s\",\"layers\":%u,"
                   "\"active_layers\":%u,\"skip_rate\":%.9g,\"cost_skip_rate\":%.9g,"
                   "\"flops\":%.17g,\"kv_bytes\":%llu,\"forced\":%s,\"why\":",
                   a->class_name, mask, a->layers, a->active_layers, (double)a->skip_rate,
                   (double)a->cost_skip_rate, a->flops, (unsigned long long)a->kv_bytes,
                   a->forced ? "true" : "false");
    lac_buf_json(out, a->why, strlen(a->why));
    lac_buf_text(out, "}");
}

static void usage_object(const lac_usage *usage, const lac_run_account *account, lac_buf *out)
{
    lac_buf_printf(out,
                   ",\"usage\":{\"prompt_tokens\":%u,\"completion_tokens\":%u,"
                   "\"total_tokens\":%llu,\"prompt_tokens_details\":{\"cached_tokens\":%u}",
                   usage->prompt_tokens, usage->completion_tokens,
                   (unsigned long long)usage->prompt_tokens + usage->completion_tokens,
                   usage->cached_tokens);
    if (account)
        lac__answer_account(account, out);
    lac_buf_text(out, "}");
}

static void whole_choice(const lac__answer *answer, uint32_t index, lac_buf *out)
{
    const lac__answer_choice *choice = &answer->choices[index];
    lac_buf_printf(out, "{\"index\":%u,%s", index,
                   answer->chat ? "\"message\":{\"role\":\"assistant\",\"content\":" : "\"text\":");
    if (choice->calls_count > 0 && choice->text.length == 0)
        lac_buf_text(out, "null");
    else
        string(out, choice->text.data, choice->text.length);
    if (answer->chat)
        lac_buf_text(out, ",\"refusal\":null");
    if (choice->reasoning.length > 0) {
        lac_buf_text(out, ",\"reasoning_content\":");
        string(out, choice->reasoning.data, choice->reasoning.length);
    }
    if (choice->calls_count > 0) {
        lac_buf_text(out, ",\"tool_calls\":[");
        lac_buf_add(out, choice->calls.data, choice->calls.length);
        lac_buf_text(out, "\"}}]");
    }
    if (answer->chat)
        lac_buf_text(out, "}");
    logprobs(answer, choice, out);
    finish_reason(choice, out);
}

void lac__answer_whole(const lac__answer *answer, const lac_usage *usage,
                       const lac_run_account *account, lac_buf *out)
{
    head(answer, false, out);
    for (uint32_t i = 0; i < answer->choices_count; i++) {
        if (i)
            lac_buf_text(out, ",");
        whole_choice(answer, i, out);
    }
    lac_buf_text(out, "]");
    usage_object(usage, account, out);
    lac_buf_text(out, "}");
}

/* While usage was asked for, every chunk but the last says that it has none. */
static void end_chunk(const lac__answer *answer, const lac__answer_choice *finished, lac_buf *out)
{
    finish_reason(finished, out);
    lac_buf_text(out, answer->include_usage ? "],\"usage\":null}" : "]}");
}

void lac__answer_first(const lac__answer *answer, uint32_t index, lac_buf *out)
{
    head(answer, true, out);
    lac_buf_printf(out,
                   "{\"index\":%u,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
                   "\"logprobs\":null",
                   index);
    end_chunk(answer, NULL, out);
}

/* Members of a delta: those that have something to say. */
static void delta(const lac__answer_choice *choice, lac_buf *out)
{
    bool thoughts = choice->reasoning.length > 0, calls = choice->calls.length > 0;
    bool text = choice->text.length > 0 || (!thoughts && !calls);
    lac_buf_text(out, "\"delta\":{");
    if (thoughts) {
        lac_buf_text(out, "\"reasoning_content\":");
        string(out, choice->reasoning.data, choice->reasoning.length);
    }
    if (text) {
        lac_buf_text(out, thoughts ? ",\"content\":" : "\"content\":");
        string(out, choice->text.data, choice->text.length);
    }
    if (calls) {
        lac_buf_text(out, text || thoughts ? ",\"tool_calls\":[" : "\"tool_calls\":[");
        lac_buf_add(out, choice->calls.data, choice->calls.length);
        lac_buf_text(out, "]");
    }
    lac_buf_text(out, "}");
}

void lac__answer_chunk(const lac__answer *answer, uint32_t index, lac_buf *out)
{
    const lac__answer_choice *choice = &answer->choices[index];
    head(answer, true, out);
    lac_buf_printf(out, "{\"index\":%u,", index);
    if (answer->chat) {
        delta(choice, out);
    } else {
        lac_buf_text(out, "\"text\":");
        string(out, choice->text.data, choice->text.length);
    }
    logprobs(answer, choice, out);
    end_chunk(answer, NULL, out);
}

void lac__answer_last(const lac__answer *answer, uint32_t index, lac_buf *out)
{
    head(answer, true, out);
    lac_buf_printf(out, "{\"index\":%u,%s,\"logprobs\":null", index,
                   answer->chat ? "\"delta\":{}" : "\"text\":\"\"");
    end_chunk(answer, &answer->choices[index], out);
}

void lac__answer_usage(const lac__answer *answer, const lac_usage *usage,
                       const lac_run_account *account, lac_buf *out)
{
    head(answer, true, out);
    lac_buf_text(out, "]");
    usage_object(usage, account, out);
    lac_buf_text(out, "}");
}
