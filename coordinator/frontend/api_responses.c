/* The body of /v1/responses → the body of a chat, which the ordinary readers then read: the text
 * subset, nothing kept on the server. Pure, any thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api_parse.h"
#include "base/mem.h"

enum { PATH_MAX_BYTES = 64 };

typedef struct {
    lac__parse *parse;
    json_t *chat, *messages;
    json_t *echo; /* what the response repeats */
} translation;

static bool fail(translation *t, const char *code, const char *path, const char *what)
{
    return lac__problem_set(t->parse->problem, 400, code, path, "%s %s", path, what);
}

static const char *text_at(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

static bool is(const json_t *object, const char *name, const char *text)
{
    return strcmp(text_at(object, name), text) == 0;
}

/* ---- input ---- */

/* Parts are renamed; what is no text stays for the reader of messages to refuse. */
static json_t *content_of(const json_t *content)
{
    size_t i;
    json_t *part;
    if (!json_is_array(content))
        return json_incref((json_t *)content);
    json_t *parts = json_array();
    json_array_foreach(content, i, part)
    {
        bool text = is(part, "type", "input_text") || is(part, "type", "output_text");
        json_t *words = json_object_get(part, "text");
        json_array_append_new(parts, text && words
                                         ? json_pack("{s:s,s:O}", "type", "text", "text", words)
                                         : json_incref(part));
    }
    return parts;
}

static bool add_message(translation *t, const char *path, const json_t *item)
{
    if (!json_is_string(json_object_get(item, "role")) || !json_object_get(item, "content"))
        return fail(t, "invalid_value", path, "has no role or no content");
    json_array_append_new(t->messages,
                          json_pack("{s:O,s:o}", "role", json_object_get(item, "role"), "content",
                                    content_of(json_object_get(item, "content"))));
    return true;
}

/* Calls in a row, and those behind what the assistant said, are one message's. */
static bool add_call(translation *t, const char *path, const json_t *item)
{
    const json_t *id = json_object_get(item, "call_id"), *name = json_object_get(item, "name");
    const json_t *arguments = json_object_get(item, "arguments");
    if (!json_is_string(id) || !json_is_string(name) || !json_is_string(arguments))
        return fail(t, "invalid_value", path, "has no call_id, name or arguments, all strings");
    size_t count = json_array_size(t->messages);
    json_t *last = count ? json_array_get(t->messages, count - 1) : NULL;
    if (!last || !is(last, "role", "assistant")) {
        last = json_pack("{s:s}", "role", "assistant");
        json_array_append_new(t->messages, last);
    }
    json_t *calls = json_object_get(last, "tool_calls");
    if (!calls) {
        calls = json_array();
        json_object_set_new(last, "tool_calls", calls);
    }
    json_array_append_new(calls, json_pack("{s:O,s:s,s:{s:O,s:O}}", "id", id, "type", "function",
                                           "function", "name", name, "arguments", arguments));
    return true;
}

static bool add_result(translation *t, const char *path, const json_t *item)
{
    const json_t *id = json_object_get(item, "call_id"), *output = json_object_get(item, "output");
    if (!json_is_string(id) || !output)
        return fail(t, "invalid_value", path, "has no call_id or no output");
    json_array_append_new(t->messages, json_pack("{s:s,s:O,s:o}", "role", "tool", "tool_call_id",
                                                 id, "content", content_of(output)));
    return true;
}

static bool add_item(translation *t, size_t index, const json_t *item)
{
    char path[PATH_MAX_BYTES];
    snprintf(path, sizeof path, "input[%zu]", index);
    if (!json_is_object(item))
        return fail(t, "invalid_type", path, "is no object");
    if (!json_object_get(item, "type") || is(item, "type", "message"))
        return add_message(t, path, item);
    if (is(item, "type", "function_call"))
        return add_call(t, path, item);
    if (is(item, "type", "function_call_output"))
        return add_result(t, path, item);
    if (is(item, "type", "reasoning"))
        return true; /* thoughts of earlier turns are dropped, as templates do */
    return fail(t, "unsupported_parameter", path,
                "is of an unknown type, allowed message, function_call, function_call_output, "
                "reasoning");
}

static bool read_input(translation *t, json_t *value)
{
    size_t i;
    json_t *item;
    if (json_is_string(value)) {
        json_array_append_new(t->messages,
                              json_pack("{s:s,s:O}", "role", "user", "content", value));
        return true;
    }
    if (!json_is_array(value) || json_array_size(value) == 0)
        return fail(t, "invalid_type", "input", "is no string and no array of 1 or more items");
    json_array_foreach(value, i, item)
    {
        if (!add_item(t, i, item))
            return false;
    }
    return true;
}

/* It stands before the input, wherever it is in the body. */
static bool read_instructions(translation *t, json_t *value)
{
    if (!json_is_string(value))
        return fail(t, "invalid_type", "instructions", "is no string");
    json_array_insert_new(t->messages, 0,
                          json_pack("{s:s,s:O}", "role", "system", "content", value));
    return true;
}

/* ---- wishes ---- */

static bool read_tools(translation *t, json_t *value)
{
    size_t i;
    json_t *tool;
    if (!json_is_array(value))
        return fail(t, "invalid_type", "tools", "is no array");
    json_t *tools = json_array();
    json_array_foreach(value, i, tool)
    {
        json_t *function = json_is_object(tool) ? json_copy(tool) : json_object();
        json_object_del(function, "type");
        json_array_append_new(
            tools, json_pack("{s:s,s:o}", "type", text_at(tool, "type"), "function", function));
    }
    json_object_set_new(t->chat, "tools", tools);
    return true;
}

static bool read_tool_choice(translation *t, json_t *value)
{
    json_t *choice = json_is_object(value)
                         ? json_pack("{s:s,s:{s:s}}", "type", text_at(value, "type"), "function",
                                     "name", text_at(value, "name"))
                         : json_incref(value);
    json_object_set_new(t->chat, "tool_choice", choice);
    return true;
}

static bool read_text(translation *t, json_t *value)
{
    json_t *format = json_object_get(value, "format");
    const char *name;
    json_t *member;
    json_object_foreach(value, name, member)
    {
        if (strcmp(name, "format") != 0 && !json_is_null(member))
            return fail(t, "unsupported_parameter", "text", "has members other than format");
    }
    if (!format)
        return true;
    if (is(format, "type", "json_schema")) {
        json_t *schema = json_copy(format);
        json_object_del(schema, "type");
        format = json_pack("{s:s,s:o}", "type", "json_schema", "json_schema", schema);
        json_object_set_new(t->chat, "response_format", format);
        return true;
    }
    json_object_set(t->chat, "response_format", format);
    return true;
}

static bool read_max(translation *t, json_t *value)
{
    json_object_set(t->chat, "max_completion_tokens", value);
    return true;
}

static bool read_store(translation *t, json_t *value)
{
    if (json_is_false(value))
        return true;
    return fail(t, "unsupported_parameter", "store",
                "is not false: this server keeps no responses, send the whole conversation");
}

/* ---- the table ---- */

typedef enum { READ, PASS, IGNORE, REFUSE } rule;

static const struct {
    const char *name;
    rule rule;
    bool (*read)(translation *t, json_t *value);
    bool echo;
} fields[] = {
    {"input", READ, read_input, false},
    {"instructions", READ, read_instructions, true},
    {"max_output_tokens", READ, read_max, true},
    {"tools", READ, read_tools, true},
    {"tool_choice", READ, read_tool_choice, true},
    {"text", READ, read_text, true},
    {"store", READ, read_store, false},
    {"model", PASS, NULL, false},
    {"temperature", PASS, NULL, true},
    {"top_p", PASS, NULL, true},
    {"stream", PASS, NULL, false},
    {"seed", PASS, NULL, false},
    {"stop", PASS, NULL, false},
    {"parallel_tool_calls", PASS, NULL, true},
    {"chat_template_kwargs", PASS, NULL, false},
    {"metadata", IGNORE, NULL, true},
    {"user", IGNORE, NULL, false},
    {"service_tier", PASS, NULL, false},
    {"prompt_cache_key", IGNORE, NULL, false},
    {"prompt_cache_retention", IGNORE, NULL, false},
    {"safety_identifier", IGNORE, NULL, false},
    {"stream_options", IGNORE, NULL, false},
    {"include", REFUSE, NULL, false},
    {"previous_response_id", REFUSE, NULL, false},
    {"conversation", REFUSE, NULL, false},
    {"background", REFUSE, NULL, false},
    {"prompt", REFUSE, NULL, false},
    {"reasoning", REFUSE, NULL, false},
    {"truncation", REFUSE, NULL, false},
    {"max_tool_calls", REFUSE, NULL, false},
    {"top_logprobs", REFUSE, NULL, false},
};

/* False, an empty list, 0 and "disabled" ask for nothing. */
static bool asks_for_nothing(const json_t *value)
{
    return json_is_false(value) || (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0) ||
           (json_is_integer(value) && json_integer_value(value) == 0) ||
           (json_is_string(value) && strcmp(json_string_value(value), "disabled") == 0);
}

static bool translate(translation *t, const char *name, json_t *value)
{
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (strcmp(name, fields[i].name) != 0)
            continue;
        if (fields[i].echo)
            json_object_set(t->echo, name, value);
        switch (fields[i].rule) {
        case READ: return fields[i].read(t, value);
        case PASS: json_object_set(t->chat, name, value); return true;
        case IGNORE: return true;
        case REFUSE: break;
        }
        return asks_for_nothing(value) ||
               lac__problem_set(
                   t->parse->problem, 400, "unsupported_parameter", name,
                   "%s is given, this server does not support it%s", name,
                   strcmp(name, "previous_response_id") == 0 ? ": it keeps no responses" : "");
    }
    return lac__problem_set(t->parse->problem, 400, "unknown_parameter", name,
                            "unknown parameter \"%.100s\"", name);
}

/* Members that a response always has. */
static char *echo_text(const translation *t)
{
    json_t *all =
        json_pack("{s:n,s:n,s:f,s:f,s:b,s:s,s:[],s:{s:{s:s}},s:{}}", "instructions",
                  "max_output_tokens", "temperature", 1.0, "top_p", 1.0, "parallel_tool_calls", 1,
                  "tool_choice", "auto", "tools", "text", "format", "type", "text", "metadata");
    json_object_update(all, t->echo);
    char *text = json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(all);
    if (!text)
        return NULL;
    size_t length = strlen(text);
    memmove(text, text + 1, length - 2); /* without its braces */
    text[length - 2] = '\0';
    return text;
}

bool lac__response_to_chat(lac__parse *parse, json_t **body)
{
    translation t = {
        .parse = parse, .chat = json_object(), .messages = json_array(), .echo = json_object()};
    const char *name;
    json_t *value;
    bool good = true, has_input = false;
    json_object_foreach(*body, name, value)
    {
        if (json_is_null(value))
            continue;
        has_input = has_input || strcmp(name, "input") == 0;
        good = translate(&t, name, value);
        if (!good)
            break;
    }
    if (good && !has_input)
        good = fail(&t, "missing_parameter", "input", "is missing");
    if (good) {
        json_object_set(t.chat, "messages", t.messages);
        parse->out->echo = echo_text(&t);
        json_decref(*body);
        *body = json_incref(t.chat);
    }
    json_decref(t.echo);
    json_decref(t.messages);
    json_decref(t.chat);
    return good;
}
