/* Recognises chat families and renders conversations by their rows. Pure, any thread. Knows nothing
 * of tokenizers or requests. */
#include "chat/chat.h"

#include <string.h>

#include "base/assert.h"
#include "base/text.h"
#include "family.h"

/* ---- recognition ---- */

static bool contains(const char *text, size_t length, const char *mark)
{
    return memmem(text, length, mark, strlen(mark)) != NULL;
}

static bool recognised(const lac_chat_family *family, const char *text, size_t length)
{
    for (size_t i = 0; i < sizeof family->all / sizeof *family->all && family->all[i]; i++) {
        if (!contains(text, length, family->all[i]))
            return false;
    }
    for (size_t i = 0; i < sizeof family->none / sizeof *family->none && family->none[i]; i++) {
        if (contains(text, length, family->none[i]))
            return false;
    }
    return true;
}

const lac_chat_family *lac_chat_detect(const char *template_text, size_t length)
{
    if (!template_text || length == 0)
        return NULL;
    for (size_t i = 0; i < lac__chat_families_count; i++) {
        if (recognised(&lac__chat_families[i], template_text, length))
            return &lac__chat_families[i];
    }
    return NULL;
}

const lac_chat_family *lac_chat_find(const char *name)
{
    /* Short names for the version that most models of the family have today. */
    static const char *const short_names[][2] = {{"mistral", "mistral-v3"},
                                                 {"deepseek", "deepseek-v3"},
                                                 {"phi", "phi3"},
                                                 {"gemma2", "gemma"}};
    for (size_t i = 0; i < sizeof short_names / sizeof *short_names; i++) {
        if (strcmp(name, short_names[i][0]) == 0)
            name = short_names[i][1];
    }
    for (size_t i = 0; i < lac__chat_families_count; i++) {
        if (strcmp(name, lac__chat_families[i].name) == 0)
            return &lac__chat_families[i];
    }
    return NULL;
}

const char *lac_chat_name(const lac_chat_family *family)
{
    return family->name;
}

const char *lac_chat_names(void)
{
    return "chatml, qwen3, llama3, llama3.1, llama2, mistral-v0.1, mistral-v0.2, mistral-v1, "
           "mistral-v3, "
           "mistral-v3-tekken, mistral-v7, mistral-v7-tekken, gemma, gemma3, deepseek-v2, "
           "deepseek-v3, deepseek-r1, deepseek-r1-distill, phi3, phi3.5, phi4, phi4-mini";
}

/* ---- the template's own system text ---- */

/* The character after a backslash as Jinja reads it, or 0 for escapes that no system text needs. */
static char unescaped(char c)
{
    switch (c) {
    case 'n': return '\n';
    case 't': return '\t';
    case 'r': return '\r';
    case '\\':
    case '\'':
    case '"': return c;
    default: return 0;
    }
}

/* Takes the literal text from `text` to `end_mark` (to the closing quote when that is ""), inside a
 * string that `quote` ends. False when the string ends earlier: the text is then put together from
 * parts, as a message's content is. */
static bool take_literal(const char *text, size_t length, char quote, const char *end_mark,
                         lac_chat_context *out)
{
    size_t mark_length = strlen(end_mark);
    bool escaped = false;
    for (size_t i = 0; i < length; i++) {
        bool at_end = mark_length > 0 ? length - i >= mark_length &&
                                            memcmp(text + i, end_mark, mark_length) == 0
                                      : text[i] == quote;
        if (at_end) {
            out->default_system = text;
            out->default_system_length = i;
            out->default_system_escaped = escaped;
            return true;
        }
        if (text[i] == quote)
            return false;
        if (text[i] == '\\') {
            if (i + 1 == length || unescaped(text[i + 1]) == 0)
                return false;
            escaped = true;
            i++;
        }
    }
    return false;
}

/* A ChatML template's: '<|im_start|>system\n…<|im_end|>\n' in one string, the line feed written as
 * such or as an escape. */
static void find_default_system(const char *text, size_t length, lac_chat_context *out)
{
    static const char mark[] = "<|im_start|>system";
    const char *end = text + length, *at = text;
    while ((at = memmem(at, (size_t)(end - at), mark, sizeof mark - 1)) != NULL) {
        char quote = at > text ? at[-1] : 0;
        at += sizeof mark - 1;
        if (quote != '\'' && quote != '"')
            continue;
        if (end - at >= 1 && at[0] == '\n')
            at += 1;
        else if (end - at >= 2 && at[0] == '\\' && at[1] == 'n')
            at += 2;
        else
            continue;
        if (take_literal(at, (size_t)(end - at), quote, "<|im_end|>", out))
            return;
    }
}

void lac_chat_context_read(const lac_chat_family *family, const char *template_text, size_t length,
                           const char *bos, const char *eos, lac_chat_context *out)
{
    *out = (lac_chat_context){.bos = bos ? bos : "", .eos = eos ? eos : ""};
    if (template_text && length > 0 && strcmp(family->name, "chatml") == 0)
        find_default_system(template_text, length, out);
}

/* ---- rendering ---- */

/* A text still to be printed; `escaped` as in lac_chat_context. */
typedef struct {
    const char *data;
    size_t length;
    bool escaped;
} piece;

/* White space as Python's str.strip() takes it, which Jinja's trim is. */
static bool is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

/* The length without trailing white space. */
static size_t trimmed_end(const char *text, size_t length)
{
    while (length > 0) {
        size_t at = length - 1;
        while (at > 0 && length - at < 4 && ((unsigned char)text[at] & 0xc0) == 0x80)
            at--;
        uint32_t c;
        int bytes = lac_utf8_next(text + at, length - at, &c);
        if (bytes <= 0 || at + (size_t)bytes != length || !is_space(c))
            break;
        length = at;
    }
    return length;
}

static piece trimmed(piece p)
{
    uint32_t c;
    int bytes;
    while ((bytes = lac_utf8_next(p.data, p.length, &c)) > 0 && is_space(c)) {
        p.data += bytes;
        p.length -= (size_t)bytes;
    }
    p.length = trimmed_end(p.data, p.length);
    return p;
}

static piece without_thoughts(piece p)
{
    static const char mark[] = "</think>";
    const char *found;
    while ((found = memmem(p.data, p.length, mark, sizeof mark - 1)) != NULL) {
        p.length -= (size_t)(found + sizeof mark - 1 - p.data);
        p.data = found + sizeof mark - 1;
    }
    return p;
}

static void put_piece(lac_buf *out, piece p)
{
    if (!p.escaped) {
        lac_buf_add(out, p.data, p.length);
        return;
    }
    for (size_t i = 0; i < p.length; i++) {
        char c = p.data[i];
        if (c == '\\' && i + 1 < p.length)
            c = unescaped(p.data[++i]);
        lac_buf_add(out, &c, 1);
    }
}

/* Prints a pattern; `text` and `system` are what its marks stand for. */
static void put(lac_buf *out, const char *pattern, const lac_chat_context *context, piece text,
                piece system)
{
    for (const char *at = pattern; *at;) {
        size_t plain = strcspn(at, TEXT SYSTEM BOS EOS);
        lac_buf_add(out, at, plain);
        at += plain;
        if (!*at)
            break;
        if (*at == TEXT[0])
            put_piece(out, text);
        else if (*at == SYSTEM[0])
            put_piece(out, system);
        else
            lac_buf_text(out, *at == BOS[0] ? context->bos : context->eos);
        at++;
    }
}

static const piece nothing = {"", 0, false};

void lac__chat_default_system(const lac_chat_context *context, lac_buf *out)
{
    put_piece(out, (piece){context->default_system, context->default_system_length,
                           context->default_system_escaped});
}

static piece content_of(const lac_chat_message *message)
{
    if (message->content.length == 0)
        return nothing;
    return (piece){message->content.data, message->content.length, false};
}

static bool has_role(const lac_chat_message *message, const char *role)
{
    return strcmp(message->role, role) == 0;
}

/* True when the mode puts this system message elsewhere than into a turn. */
static bool system_is_absorbed(const lac_chat_family *family, size_t index)
{
    switch (family->mode) {
    case LAC__SYSTEM_LEADING:
    case LAC__SYSTEM_IN_FIRST:
    case LAC__SYSTEM_IN_LAST: return index == 0;
    case LAC__SYSTEM_JOINED:
    case LAC__SYSTEM_LAST_LEADS: return true;
    case LAC__SYSTEM_TURN:
    case LAC__SYSTEM_REFUSED: return false;
    }
    return false;
}

/* The pattern of a turn that only functions bring, or NULL. */
static const char *function_turn(const lac_chat_family *family, const lac_chat_message *message)
{
    return has_role(message, "call")    ? family->call
           : has_role(message, "tool")  ? family->result
           : has_role(message, "tools") ? family->tools
                                        : NULL;
}

/* Refuses what the family cannot express. */
static lac_status check(const lac_chat_family *family, const lac_chat_message *messages,
                        const size_t *origins, size_t count, lac_error *err)
{
    if (count == 0)
        return lac_fail(err, LAC_EINVAL, "messages is empty, at least 1 is needed");
    size_t turns = 0;
    for (size_t at = 0; at < count; at++) {
        const lac_chat_message *message = &messages[at];
        size_t i = origins[at];
        if (function_turn(family, message))
            continue;
        if (has_role(message, "system")) {
            if (system_is_absorbed(family, at))
                continue;
            if (family->mode == LAC__SYSTEM_REFUSED)
                return lac_fail(err, LAC_EINVAL,
                                "messages[%zu].role is \"system\": this model's chat template (%s) "
                                "takes no system message",
                                i, family->name);
            if (!family->system)
                return lac_fail(err, LAC_EINVAL,
                                "messages[%zu].role is \"system\": this model's chat template (%s) "
                                "takes one only as the first message",
                                i, family->name);
            continue;
        }
        bool user = has_role(message, "user");
        if (!user && !has_role(message, "assistant"))
            return lac_fail(err, LAC_EINVAL,
                            "messages[%zu].role is \"%s\", known to this model's chat template "
                            "(%s) are system, user, assistant, tool",
                            i, message->role, family->name);
        if (family->alternate && user != (turns % 2 == 0))
            return lac_fail(err, LAC_EINVAL,
                            "messages[%zu].role is \"%s\": this model's chat template (%s) needs "
                            "user and assistant in turns, user first",
                            i, message->role, family->name);
        turns++;
    }
    return LAC_OK;
}

/* What leads the conversation: `begin` with the system text that belongs there. */
static void put_begin(lac_buf *out, const lac_chat_family *family, const lac_chat_context *context,
                      const lac_chat_ask *ask)
{
    const lac_chat_message *messages = ask->messages;
    size_t count = ask->count;
    const char *begin = ask->tools && family->begin_tools ? family->begin_tools : family->begin;
    if (begin) {
        piece system = nothing;
        if (family->mode == LAC__SYSTEM_LEADING && has_role(&messages[0], "system"))
            system = family->trim ? trimmed(content_of(&messages[0])) : content_of(&messages[0]);
        for (size_t i = 0; i < count && family->mode == LAC__SYSTEM_LAST_LEADS; i++) {
            if (has_role(&messages[i], "system"))
                system = content_of(&messages[i]);
        }
        put(out, begin, context, nothing, system);
        bool first = true;
        for (size_t i = 0; i < count && family->mode == LAC__SYSTEM_JOINED; i++) {
            if (!has_role(&messages[i], "system"))
                continue;
            if (!first)
                lac_buf_text(out, "\n\n");
            first = false;
            put_piece(out, content_of(&messages[i]));
        }
    }
    if (context->default_system_length > 0 && !has_role(&messages[0], "system")) {
        LAC_ASSERT(family->system);
        put(out, family->system, context,
            (piece){context->default_system, context->default_system_length,
                    context->default_system_escaped},
            nothing);
    }
}

static void put_user(lac_buf *out, const lac_chat_family *family, const lac_chat_context *context,
                     piece text, const piece *system)
{
    if (family->trim)
        text = trimmed(text);
    if (!system) {
        put(out, family->user, context, family->trim_user_turn ? trimmed(text) : text, nothing);
        return;
    }
    /* The system text's pattern stands where TEXT is in the user's. */
    size_t before = strcspn(family->user, TEXT);
    char head[64];
    LAC_ASSERT(before < sizeof head);
    memcpy(head, family->user, before);
    head[before] = 0;
    put(out, head, context, nothing, nothing);
    size_t start = out->length;
    put(out, family->user_system, context, text, *system);
    if (family->trim_user_turn && !out->overflow) /* no such pattern begins with white space */
        out->length = start + trimmed_end(out->data + start, out->length - start);
    put(out, family->user + before + 1, context, nothing, nothing);
}

static void put_message(lac_buf *out, const lac_chat_family *family,
                        const lac_chat_context *context, const lac_chat_message *messages,
                        size_t count, size_t index)
{
    piece text = content_of(&messages[index]);
    const char *own = function_turn(family, &messages[index]);
    if (own) {
        put(out, own, context, text, nothing);
    } else if (has_role(&messages[index], "system")) {
        if (system_is_absorbed(family, index) || (family->skip_empty_system && text.length == 0))
            return;
        put(out, family->system, context, family->trim ? trimmed(text) : text, nothing);
    } else if (has_role(&messages[index], "assistant")) {
        if (family->drop_thoughts)
            text = without_thoughts(text);
        if (family->trim || family->trim_assistant)
            text = trimmed(text);
        put(out, family->assistant, context, text, nothing);
    } else {
        bool leads = has_role(&messages[0], "system");
        bool holds = (family->mode == LAC__SYSTEM_IN_FIRST && index == 1) ||
                     (family->mode == LAC__SYSTEM_IN_LAST && index == count - 1);
        piece system = content_of(&messages[0]);
        put_user(out, family, context, text, leads && holds ? &system : NULL);
    }
}

/* The end of the prompt: what the answer begins with, where that is not the model's to choose. */
static void put_end(lac_buf *out, const lac_chat_family *family, const lac_chat_context *context,
                    const lac_chat_ask *ask)
{
    static const char no_thoughts[] = "<think>\n\n</think>\n\n";
    const char *end = ask->add_generation_prompt ? family->generation : family->no_generation;
    if (end)
        put(out, end, context, nothing, nothing);
    if (!ask->add_generation_prompt)
        return;
    if (family->thinks == LAC_THINKS_MARKED && (ask->thinking == LAC_THINKING_OFF || ask->call))
        lac_buf_text(out, no_thoughts);
    if (family->thinks == LAC_THINKS_OPENED && ask->call)
        lac_buf_text(out, "\n</think>\n\n");
    if (!ask->call)
        return;
    size_t before = family->call ? strcspn(family->call, TEXT) : 0;
    if (lac_chat_calls_form(family) == LAC_CALLS_HERMES)
        lac_buf_text(out, "<tool_call>\n");
    else if (family->calls == LAC_CALLS_MISTRAL)
        lac_buf_add(out, family->call, before);
}

lac_calls_form lac_chat_calls_form(const lac_chat_family *family)
{
    return family->calls ? family->calls : LAC_CALLS_HERMES;
}

lac_thinks lac_chat_thinks(const lac_chat_family *family)
{
    return family->thinks;
}

static lac_status check_thinking(const lac_chat_family *family, const lac_chat_ask *ask,
                                 lac_error *err)
{
    if (ask->thinking == LAC_THINKING_ON && family->thinks == LAC_THINKS_NOT)
        return lac_fail(err, LAC_EUNSUPPORTED,
                        "enable_thinking is true: this model's chat template (%s) has no thinking",
                        family->name);
    if (ask->thinking == LAC_THINKING_OFF && family->thinks == LAC_THINKS_OPENED)
        return lac_fail(err, LAC_EUNSUPPORTED,
                        "enable_thinking is false: this model's chat template (%s) always thinks",
                        family->name);
    return LAC_OK;
}

lac_status lac_chat_render_ask(const lac_chat_family *family, const lac_chat_context *context,
                               const lac_chat_ask *ask, lac_buf *out, lac_error *err)
{
    lac__lowered lowered = {0};
    lac_status status = check_thinking(family, ask, err);
    if (status == LAC_OK)
        status = lac__chat_lower(family, context, ask, &lowered, err);
    if (status == LAC_OK)
        status = check(family, lowered.messages, lowered.origins, lowered.count, err);
    if (status == LAC_OK) {
        size_t length = out->length;
        lac_chat_ask plain = *ask;
        plain.messages = lowered.messages;
        plain.count = lowered.count;
        put_begin(out, family, context, &plain);
        for (size_t i = 0; i < plain.count; i++)
            put_message(out, family, context, plain.messages, plain.count, i);
        put_end(out, family, context, &plain);
        if (out->overflow) {
            out->length = length;
            status = lac_fail(err, LAC_ETOOBIG, "messages need a prompt of more than %zu bytes",
                              out->cap);
        }
    }
    lac__lowered_free(&lowered);
    return status;
}

lac_status lac_chat_render(const lac_chat_family *family, const lac_chat_context *context,
                           const lac_chat_message *messages, size_t count,
                           bool add_generation_prompt, lac_buf *out, lac_error *err)
{
    lac_chat_ask ask = {
        .messages = messages, .count = count, .add_generation_prompt = add_generation_prompt};
    return lac_chat_render_ask(family, context, &ask, out, err);
}
