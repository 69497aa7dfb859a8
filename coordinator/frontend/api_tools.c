/* Functions that may be called: the request's list and its wishes about it, and the calls that an
 * assistant's message holds. What they are made into is the worker's matter: here they are checked
 * and passed on as JSON. Pure, any thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api_parse.h"
#include "base/mem.h"

enum { PATH_MAX_BYTES = 96 };

static bool name_is_good(const json_t *name)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    size_t length = json_string_length(name);
    return json_is_string(name) && length >= 1 && length <= LAC_NAME_MAX &&
           strspn(json_string_value(name), letters) == length;
}

static bool bad_name(lac__parse *parse, const char *path)
{
    return lac__problem_set(parse->problem, 400, "invalid_value", path,
                            "%s is missing or malformed, allowed 1..%d of A-Z a-z 0-9 _ -", path,
                            LAC_NAME_MAX);
}

/* ---- tools ---- */

static const char *tool_name(const json_t *tools, size_t index)
{
    const json_t *function = json_object_get(json_array_get(tools, index), "function");
    return json_string_value(json_object_get(function, "name"));
}

static bool check_tool(lac__parse *parse, const json_t *tools, size_t index)
{
    char path[PATH_MAX_BYTES];
    const json_t *tool = json_array_get(tools, index), *type = json_object_get(tool, "type");
    const json_t *function = json_object_get(tool, "function");
    const json_t *parameters = json_object_get(function, "parameters");
    snprintf(path, sizeof path, "tools[%zu].type", index);
    if (!json_is_string(type) || strcmp(json_string_value(type), "function") != 0)
        return lac__problem_set(parse->problem, 400, "unsupported_parameter", path,
                                "%s is \"%.40s\", allowed only \"function\"", path,
                                json_is_string(type) ? json_string_value(type) : "");
    snprintf(path, sizeof path, "tools[%zu].function", index);
    if (!json_is_object(function))
        return lac__problem_set(parse->problem, 400, "invalid_type", path,
                                "%s is missing or no object", path);
    snprintf(path, sizeof path, "tools[%zu].function.name", index);
    if (!name_is_good(json_object_get(function, "name")))
        return bad_name(parse, path);
    for (size_t i = 0; i < index; i++)
        if (strcmp(tool_name(tools, i), tool_name(tools, index)) == 0)
            return lac__problem_set(parse->problem, 400, "invalid_value", path,
                                    "%s is \"%s\", which tools[%zu] has already", path,
                                    tool_name(tools, i), i);
    snprintf(path, sizeof path, "tools[%zu].function.parameters", index);
    if (parameters && !json_is_null(parameters) && !json_is_object(parameters))
        return lac__bad_type(parse, path, parameters, "a JSON Schema, which is an object");
    return true;
}

bool lac__read_tools(lac__parse *parse, const lac__field *field, const json_t *value)
{
    lac__api_request *out = parse->out;
    if (!json_is_array(value))
        return lac__bad_type(parse, field->name, value, "an array of functions");
    size_t count = json_array_size(value);
    if (count > LAC_TOOLS_MAX)
        return lac__problem_set(parse->problem, 400, "invalid_value", field->name,
                                "tools has %zu entries, allowed 0..%d", count, LAC_TOOLS_MAX);
    for (size_t i = 0; i < count; i++)
        if (!check_tool(parse, value, i))
            return false;
    if (count == 0)
        return true;
    out->tools = json_dumps(value, JSON_COMPACT);
    size_t length = out->tools ? strlen(out->tools) : 0;
    if (length == 0)
        return lac__problem_set(parse->problem, 503, "out_of_memory", field->name,
                                "no memory for the tools");
    if (length > LAC_TOOLS_BYTES_MAX)
        return lac__problem_set(parse->problem, 400, "invalid_value", field->name,
                                "tools have %zu bytes, allowed at most %d", length,
                                LAC_TOOLS_BYTES_MAX);
    out->submit.prompt.tools = (lac_span){.data = out->tools, .length = (uint32_t)length};
    return true;
}

/* ---- what is wished about them ---- */

static bool read_named(lac__parse *parse, const json_t *value)
{
    lac_prompt *prompt = &parse->out->submit.prompt;
    const json_t *type = json_object_get(value, "type");
    const json_t *name = json_object_get(json_object_get(value, "function"), "name");
    if (!json_is_string(type) || strcmp(json_string_value(type), "function") != 0)
        return lac__problem_set(parse->problem, 400, "unsupported_parameter", "tool_choice",
                                "tool_choice.type is \"%.40s\", allowed only \"function\"",
                                json_is_string(type) ? json_string_value(type) : "");
    if (!name_is_good(name))
        return bad_name(parse, "tool_choice.function.name");
    prompt->tool_required = true;
    snprintf(prompt->tool_name, sizeof prompt->tool_name, "%s", json_string_value(name));
    return true;
}

bool lac__read_tool_choice(lac__parse *parse, const lac__field *field, const json_t *value)
{
    if (json_is_object(value))
        return read_named(parse, value);
    if (!json_is_string(value))
        return lac__bad_type(parse, field->name, value, "a string or an object");
    const char *text = json_string_value(value);
    parse->no_calls = strcmp(text, "none") == 0;
    parse->out->submit.prompt.tool_required = strcmp(text, "required") == 0;
    if (parse->no_calls || parse->out->submit.prompt.tool_required || strcmp(text, "auto") == 0)
        return true;
    return lac__problem_set(parse->problem, 400, "invalid_value", field->name,
                            "tool_choice is \"%.40s\", allowed none, auto, required or a function",
                            text);
}

bool lac__read_parallel(lac__parse *parse, const lac__field *field, const json_t *value)
{
    if (!json_is_boolean(value))
        return lac__bad_type(parse, field->name, value, "true or false");
    parse->out->submit.prompt.one_call = json_is_false(value);
    return true;
}

/* Templates are a table here, so their arguments are too: one that nobody reads is refused. */
bool lac__read_template_kwargs(lac__parse *parse, const lac__field *field, const json_t *value)
{
    const char *name;
    json_t *member;
    if (!json_is_object(value))
        return lac__bad_type(parse, field->name, value, "an object");
    json_object_foreach((json_t *)value, name, member)
    {
        if (strcmp(name, "enable_thinking") != 0 && strcmp(name, "thinking") != 0)
            return lac__problem_set(parse->problem, 400, "unknown_parameter", field->name,
                                    "chat_template_kwargs.%.40s is unknown, allowed "
                                    "enable_thinking",
                                    name);
        if (!json_is_boolean(member))
            return lac__bad_type(parse, "chat_template_kwargs.enable_thinking", member,
                                 "true or false");
        parse->out->submit.prompt.thinking =
            json_is_true(member) ? LAC_THINKING_ON : LAC_THINKING_OFF;
    }
    return true;
}

static bool named_is_there(const lac__api_request *out)
{
    json_t *tools = json_loads(out->tools, 0, NULL);
    bool found = false;
    for (size_t i = 0; i < json_array_size(tools) && !found; i++)
        found = strcmp(tool_name(tools, i), out->submit.prompt.tool_name) == 0;
    json_decref(tools);
    return found;
}

bool lac__check_tools(lac__parse *parse)
{
    lac__api_request *out = parse->out;
    lac_prompt *prompt = &out->submit.prompt;
    if (prompt->tool_required && !out->tools)
        return lac__problem_set(parse->problem, 400, "invalid_value", "tool_choice",
                                "tool_choice requires a call, allowed only with tools");
    if (prompt->tool_name[0] && !named_is_there(out))
        return lac__problem_set(parse->problem, 400, "invalid_value", "tool_choice",
                                "tool_choice names \"%s\", which tools does not have",
                                prompt->tool_name);
    if (out->tools && parse->no_calls) {
        prompt->tools = (lac_span){0}; /* what is not offered is not called */
    } else if (out->tools && out->submit.sampling.grammar_length > 0) {
        return lac__problem_set(parse->problem, 400, "invalid_value", "response_format",
                                "response_format and tools are both given, allowed together only "
                                "with tool_choice none");
    }
    return true;
}

/* ---- calls of a message ---- */

/* OpenAI's arguments are the text of an object; templates want the object. */
static json_t *load_arguments(const json_t *arguments)
{
    if (json_is_object(arguments))
        return json_incref((json_t *)arguments);
    if (!json_is_string(arguments))
        return NULL;
    if (json_string_length(arguments) == 0)
        return json_object();
    json_t *loaded = json_loadb(json_string_value(arguments), json_string_length(arguments),
                                JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    if (json_is_object(loaded))
        return loaded;
    json_decref(loaded);
    return NULL;
}

static bool read_call(lac__parse *parse, const char *path, const json_t *call, json_t *list)
{
    char name[PATH_MAX_BYTES];
    const json_t *function = json_object_get(call, "function"), *id = json_object_get(call, "id");
    snprintf(name, sizeof name, "%s.function.name", path);
    if (!name_is_good(json_object_get(function, "name")))
        return bad_name(parse, name);
    snprintf(name, sizeof name, "%s.id", path);
    if (!json_is_string(id) || json_string_length(id) < 1 || json_string_length(id) > LAC_NAME_MAX)
        return lac__problem_set(parse->problem, 400, "invalid_value", name,
                                "%s is missing or no string of 1..%d bytes", name, LAC_NAME_MAX);
    snprintf(name, sizeof name, "%s.function.arguments", path);
    json_t *arguments = load_arguments(json_object_get(function, "arguments"));
    if (!arguments)
        return lac__problem_set(parse->problem, 400, "invalid_value", name,
                                "%s is missing or not the JSON text of an object", name);
    json_t *kept = json_pack("{s:O,s:O,s:o}", "id", id, "name", json_object_get(function, "name"),
                             "arguments", arguments);
    return json_array_append_new(list, kept) == 0;
}

bool lac__read_calls(lac__parse *parse, const char *path, const json_t *value, lac_span *out)
{
    size_t count = json_array_size(value);
    if (!json_is_array(value) || count < 1 || count > LAC_CALLS_MAX)
        return lac__problem_set(parse->problem, 400, "invalid_value", path,
                                "%s is no array of 1..%d calls", path, LAC_CALLS_MAX);
    json_t *list = json_array();
    bool good = true;
    for (size_t i = 0; i < count && good; i++) {
        char name[PATH_MAX_BYTES - 24];
        snprintf(name, sizeof name, "%.40s[%zu]", path, i);
        good = read_call(parse, name, json_array_get(value, i), list);
    }
    char *text = good ? json_dumps(list, JSON_COMPACT) : NULL;
    json_decref(list);
    if (!good)
        return false;
    if (!text)
        return lac__problem_set(parse->problem, 503, "out_of_memory", path,
                                "no memory for the calls");
    *out = (lac_span){.data = text, .length = (uint32_t)strlen(text)};
    return true;
}
