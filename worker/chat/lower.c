/* Conversations with functions and thoughts → turns that a family's patterns can say. Pure, any
 * thread. What a call, its result and the list of functions look like is here; where they stand in
 * the prompt is the pattern's (families.c).
 *
 * Families whose templates know no functions get the form that most tuned models have seen
 * (Hermes): the functions in the system text, a call as <tool_call> JSON </tool_call> in the
 * assistant's, results as <tool_response> in the user's. Qwen's templates print exactly that. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/limits.h"
#include "family.h"
#include "json_text.h"
#include "tools.h"

typedef struct {
    const lac_chat_family *family;
    const lac_chat_context *context;
    const lac_chat_ask *ask;
    lac_calls_form form;
    lac__lowered *out;
    lac_error *err;
} lowering;

#define NOT_THERE SIZE_MAX

/* ---- turns ---- */

static lac_chat_message *push(lowering *l, const char *role, size_t origin)
{
    lac__lowered *out = l->out;
    LAC_ASSERT(strlen(role) <= LAC_ROLE_BYTES_MAX);
    LAC_ASSERT(out->count < l->ask->count + 2);
    lac_chat_message *m = &out->messages[out->count];
    *m = (lac_chat_message){0};
    memcpy(m->role, role, strlen(role) + 1);
    out->origins[out->count] = origin;
    out->starts[out->count++] = NOT_THERE;
    return m;
}

/* A turn whose content is written next into the text. */
static lac_buf *open_turn(lowering *l, const char *role, size_t origin)
{
    push(l, role, origin);
    l->out->starts[l->out->count - 1] = l->out->text.length;
    return &l->out->text;
}

static void close_turn(lowering *l)
{
    lac__lowered *out = l->out;
    out->messages[out->count - 1].content.length =
        (uint32_t)(out->text.length - out->starts[out->count - 1]);
}

static void put_span(lac_buf *out, lac_span span)
{
    if (span.length)
        lac_buf_add(out, span.data, span.length);
}

static bool has_role(const lac_chat_message *message, const char *role)
{
    return strcmp(message->role, role) == 0;
}

static size_t find_user(const lac_chat_ask *ask, bool last)
{
    size_t found = ask->count;
    for (size_t i = 0; i < ask->count; i++)
        if (has_role(&ask->messages[i], "user") && (last || found == ask->count))
            found = i;
    return found;
}

/* ---- what functions look like ---- */

static void put_hermes_tools(const lac_tools *tools, lac_buf *out)
{
    lac_buf_text(out, "# Tools\n\nYou may call one or more functions to assist with the user "
                      "query.\n\nYou are provided with function signatures within <tools></tools> "
                      "XML tags:\n<tools>");
    for (size_t i = 0; i < lac_tools_count(tools); i++) {
        lac_buf_text(out, "\n");
        lac__json_text(json_array_get(tools->list, i), 0, out);
    }
    lac_buf_text(out, "\n</tools>\n\nFor each function call, return a json object with function "
                      "name and arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n"
                      "{\"name\": <function-name>, \"arguments\": <args-json-object>}\n"
                      "</tool_call>");
}

static void put_llama_tools(const lac_tools *tools, lac_buf *out)
{
    lac_buf_text(out, "Given the following functions, please respond with a JSON for a function "
                      "call with its proper arguments that best answers the given prompt.\n\n"
                      "Respond in the format {\"name\": function name, \"parameters\": dictionary "
                      "of argument name and its value}.Do not use variables.\n\n");
    for (size_t i = 0; i < lac_tools_count(tools); i++) {
        lac__json_text(json_array_get(tools->list, i), 4, out);
        lac_buf_text(out, "\n\n");
    }
}

/* Its template prints strings as they are, between quotes. */
static void put_mistral_tools(const lac_tools *tools, lac_buf *out)
{
    lac_buf_text(out, "[");
    for (size_t i = 0; i < lac_tools_count(tools); i++) {
        const char *key;
        json_t *value;
        bool first = true;
        lac_buf_text(out, i ? ", {\"type\": \"function\", \"function\": {"
                            : "{\"type\": \"function\", \"function\": {");
        json_object_foreach((json_t *)(uintptr_t)lac__tools_function(tools, i), key, value)
        {
            if (strcmp(key, "return") == 0)
                continue;
            lac_buf_printf(out, "%s\"%s\": ", first ? "" : ", ", key);
            first = false;
            if (json_is_string(value)) {
                lac_buf_text(out, "\"");
                lac_buf_add(out, json_string_value(value), json_string_length(value));
                lac_buf_text(out, "\"");
            } else {
                lac__json_text(value, 0, out);
            }
        }
        lac_buf_text(out, "}}");
    }
    lac_buf_text(out, "]");
}

/* Mistral's ids have nine characters; what has not is given nine of its own. */
static void put_mistral_id(const char *id, size_t length, lac_buf *out)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    if (length == 9) {
        lac_buf_add(out, id, length);
        return;
    }
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (uint8_t)id[i]) * 1099511628211u;
    for (int i = 0; i < 9; i++, hash /= sizeof letters - 1)
        lac_buf_add(out, &letters[hash % (sizeof letters - 1)], 1);
}

/* ---- calls and results ---- */

static lac_status load_calls(lowering *l, size_t index, json_t **out)
{
    lac_span text = l->ask->messages[index].calls;
    json_t *list = json_loadb(text.data, text.length, JSON_ALLOW_NUL, NULL), *call;
    size_t count = json_array_size(list), i;
    bool good = count >= 1 && count <= LAC_CALLS_MAX;
    json_array_foreach(list, i, call)
    {
        good = good && json_is_string(json_object_get(call, "name")) &&
               json_is_object(json_object_get(call, "arguments"));
    }
    if (good && l->form == LAC_CALLS_LLAMA && count > 1)
        return json_decref(list),
               lac_fail(l->err, LAC_EINVAL,
                        "messages[%zu].tool_calls has %zu calls: this model's chat template (%s) "
                        "takes one at a time",
                        index, count, l->family->name);
    if (good) {
        *out = list;
        return LAC_OK;
    }
    json_decref(list);
    return lac_fail(l->err, LAC_EINVAL,
                    "messages[%zu].tool_calls is no array of 1..%d calls with a name and arguments",
                    index, LAC_CALLS_MAX);
}

static void put_call(lowering *l, const json_t *call, lac_buf *out)
{
    const char *name = json_string_value(json_object_get(call, "name"));
    const char *member = l->form == LAC_CALLS_LLAMA ? "parameters" : "arguments";
    lac_buf_printf(out, "{\"name\": \"%s\", \"%s\": ", name, member);
    lac__json_text(json_object_get(call, "arguments"), 0, out);
    if (l->form == LAC_CALLS_MISTRAL) {
        const json_t *id = json_object_get(call, "id");
        lac_buf_text(out, ", \"id\": \"");
        put_mistral_id(json_is_string(id) ? json_string_value(id) : "", json_string_length(id),
                       out);
        lac_buf_text(out, "\"");
    }
    lac_buf_text(out, "}");
}

static void put_calls(lowering *l, const json_t *calls, bool after_text, lac_buf *out)
{
    size_t i;
    json_t *call;
    json_array_foreach((json_t *)(uintptr_t)calls, i, call)
    {
        if (l->form == LAC_CALLS_HERMES) {
            lac_buf_text(out, i || after_text ? "\n<tool_call>\n" : "<tool_call>\n");
            put_call(l, call, out);
            lac_buf_text(out, "\n</tool_call>");
        } else {
            if (i)
                lac_buf_text(out, ", ");
            put_call(l, call, out);
        }
    }
}

/* Results in a row are one turn of the user's where the family has none for them. Returns how many
 * messages were taken. */
static size_t lower_results(lowering *l, size_t index)
{
    const lac_chat_message *m = &l->ask->messages[index];
    lac_buf *out;
    size_t taken = 0;
    if (l->form == LAC_CALLS_LLAMA) {
        out = open_turn(l, "tool", index);
        lac_buf_json(out, m->content.length ? m->content.data : "", m->content.length);
        close_turn(l);
        return 1;
    }
    if (l->form == LAC_CALLS_MISTRAL) {
        out = open_turn(l, "tool", index);
        lac_buf_text(out, "{\"content\": ");
        put_span(out, m->content);
        lac_buf_text(out, ", \"call_id\": \"");
        put_mistral_id(m->call_id.length ? m->call_id.data : "", m->call_id.length, out);
        lac_buf_text(out, "\"}");
        close_turn(l);
        return 1;
    }
    out = open_turn(l, "user", index);
    for (; index + taken < l->ask->count && has_role(&m[taken], "tool"); taken++) {
        lac_buf_text(out, taken ? "\n<tool_response>\n" : "<tool_response>\n");
        put_span(out, m[taken].content);
        lac_buf_text(out, "\n</tool_response>");
    }
    close_turn(l);
    return taken;
}

/* ---- thoughts: as Qwen3's template keeps and drops them ---- */

typedef struct {
    const char *data;
    size_t length;
} view;

static view view_of(lac_span span)
{
    return (view){span.length ? span.data : "", span.length};
}

static view strip_lines(view v, bool front, bool back)
{
    while (front && v.length && *v.data == '\n')
        v.data++, v.length--;
    while (back && v.length && v.data[v.length - 1] == '\n')
        v.length--;
    return v;
}

static bool begins(view v, const char *mark)
{
    return v.length >= strlen(mark) && memcmp(v.data, mark, strlen(mark)) == 0;
}

static bool ends(view v, const char *mark)
{
    size_t length = strlen(mark);
    return v.length >= length && memcmp(v.data + v.length - length, mark, length) == 0;
}

/* Behind the last of the marks, all of it when there is none. */
static view after_last(view v, const char *mark)
{
    const char *found;
    while ((found = memmem(v.data, v.length, mark, strlen(mark))) != NULL) {
        v.length -= (size_t)(found + strlen(mark) - v.data);
        v.data = found + strlen(mark);
    }
    return v;
}

static void split_thoughts(const lac_chat_message *m, view *thoughts, view *content)
{
    *content = view_of(m->content);
    *thoughts = view_of(m->reasoning);
    const char *end = memmem(content->data, content->length, "</think>", 8);
    if (m->reasoning.length || !end)
        return;
    view before = {content->data, (size_t)(end - content->data)};
    *thoughts = strip_lines(after_last(strip_lines(before, false, true), "<think>"), true, false);
    *content = strip_lines(after_last(*content, "</think>"), true, false);
}

/* The last thing a user asked; results of functions are no question. */
static size_t last_question(const lac_chat_ask *ask)
{
    for (size_t i = ask->count; i-- > 0;) {
        view content = view_of(ask->messages[i].content);
        if (has_role(&ask->messages[i], "user") &&
            !(begins(content, "<tool_response>") && ends(content, "</tool_response>")))
            return i;
    }
    return ask->count - 1;
}

static void put_thoughtful(lowering *l, size_t index, view thoughts, view content, lac_buf *out)
{
    bool last = index + 1 == l->ask->count;
    if (index > last_question(l->ask) && (last || thoughts.length)) {
        thoughts = strip_lines(thoughts, true, true);
        content = strip_lines(content, true, false);
        lac_buf_text(out, "<think>\n");
        lac_buf_add(out, thoughts.data, thoughts.length);
        lac_buf_text(out, "\n</think>\n\n");
    }
    lac_buf_add(out, content.data, content.length);
}

/* ---- messages ---- */

static lac_status lower_assistant(lowering *l, size_t index)
{
    const lac_chat_message *m = &l->ask->messages[index];
    json_t *calls = NULL;
    if (!m->calls.length && !l->family->keep_thoughts) {
        push(l, m->role, index)->content = m->content;
        return LAC_OK;
    }
    lac_status status = m->calls.length ? load_calls(l, index, &calls) : LAC_OK;
    if (status != LAC_OK)
        return status;
    bool own_turn = calls && l->form != LAC_CALLS_HERMES;
    lac_buf *out = open_turn(l, own_turn ? "call" : "assistant", index);
    view thoughts, content = view_of(m->content);
    if (l->family->keep_thoughts) {
        split_thoughts(m, &thoughts, &content);
        put_thoughtful(l, index, thoughts, content, out);
    } else if (!own_turn) {
        put_span(out, m->content);
    }
    if (own_turn && l->form == LAC_CALLS_MISTRAL)
        lac_buf_text(out, "[");
    if (calls)
        put_calls(l, calls, content.length > 0, out);
    if (own_turn && l->form == LAC_CALLS_MISTRAL)
        lac_buf_text(out, "]");
    close_turn(l);
    json_decref(calls);
    return LAC_OK;
}

/* The system text with the functions behind it; `index` is where it was given, or 0 for nowhere. */
static void lower_system(lowering *l, bool given)
{
    lac_buf *out = open_turn(l, "system", 0);
    size_t before = out->length;
    if (given)
        put_span(out, l->ask->messages[0].content);
    else
        lac__chat_default_system(l->context, out);
    if (given || out->length > before)
        lac_buf_text(out, "\n\n");
    put_hermes_tools(l->ask->tools, out);
    close_turn(l);
}

/* White space as Jinja's trim takes it is left to the pattern; only this end is not at its edge. */
static void lower_user(lowering *l, size_t index)
{
    const lac_chat_message *m = &l->ask->messages[index];
    const lac_tools *tools = l->ask->tools;
    bool first = index == find_user(l->ask, false), last = index == find_user(l->ask, true);
    if (tools && l->form == LAC_CALLS_MISTRAL && last) {
        put_mistral_tools(tools, open_turn(l, "tools", index));
        close_turn(l);
    }
    bool hermes = l->form == LAC_CALLS_HERMES && l->family->mode == LAC__SYSTEM_REFUSED;
    if (!tools || !first || !(hermes || l->form == LAC_CALLS_LLAMA)) {
        push(l, m->role, index)->content = m->content;
        return;
    }
    lac_buf *out = open_turn(l, "user", index);
    if (hermes) {
        put_hermes_tools(tools, out);
        lac_buf_text(out, "\n\n");
    } else {
        put_llama_tools(tools, out);
    }
    view content = view_of(m->content);
    while (!hermes && content.length && strchr(" \t\r\n\v\f", *content.data))
        content.data++, content.length--;
    lac_buf_add(out, content.data, content.length);
    close_turn(l);
}

static lac_status lower_message(lowering *l, size_t *index)
{
    const lac_chat_message *m = &l->ask->messages[*index];
    size_t at = (*index)++;
    bool system_tools =
        l->ask->tools && l->form == LAC_CALLS_HERMES && l->family->mode != LAC__SYSTEM_REFUSED;
    if (at == 0 && system_tools) {
        bool given = has_role(m, "system");
        lower_system(l, given);
        if (given)
            return LAC_OK;
    }
    if (has_role(m, "assistant"))
        return lower_assistant(l, at);
    if (has_role(m, "tool"))
        *index = at + lower_results(l, at);
    else if (has_role(m, "user"))
        lower_user(l, at);
    else
        push(l, m->role, at)->content = m->content;
    return LAC_OK;
}

lac_status lac__chat_lower(const lac_chat_family *family, const lac_chat_context *context,
                           const lac_chat_ask *ask, lac__lowered *out, lac_error *err)
{
    size_t most = ask->count + 2; /* a system turn and one for the functions */
    lowering l = {.family = family,
                  .context = context,
                  .ask = ask,
                  .form = lac_chat_calls_form(family),
                  .out = out,
                  .err = err};
    out->messages = lac_alloc(most, sizeof *out->messages);
    out->origins = lac_alloc(most, sizeof *out->origins);
    out->starts = lac_alloc(most, sizeof *out->starts);
    out->text.cap = (size_t)4 * LAC_PROMPT_BYTES_MAX;
    if (ask->tools && l.form != LAC_CALLS_HERMES && find_user(ask, false) == ask->count)
        return lac_fail(err, LAC_EINVAL,
                        "tools are given without a message of the user: this model's chat template "
                        "(%s) puts them there",
                        family->name);
    for (size_t i = 0; i < ask->count;) {
        lac_status status = lower_message(&l, &i);
        if (status != LAC_OK)
            return status;
    }
    if (out->text.overflow)
        return lac_fail(err, LAC_ETOOBIG, "messages and tools need over %zu bytes", out->text.cap);
    for (size_t i = 0; i < out->count; i++)
        if (out->starts[i] != NOT_THERE && out->messages[i].content.length)
            out->messages[i].content.data = out->text.data + out->starts[i];
    return LAC_OK;
}

void lac__lowered_free(lac__lowered *lowered)
{
    free(lowered->messages);
    free(lowered->origins);
    free(lowered->starts);
    lac_buf_free(&lowered->text);
}
