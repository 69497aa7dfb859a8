/* What a request asks about: chat messages with their content parts, and prompts. Pure, any thread.
 */
#include "api_parse.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

enum { PATH_MAX_BYTES = 48 };

static bool refuse(lac__parse *parse, const char *path, const char *code, const char *what)
{
    return lac__problem_set(parse->problem, 400, code, path, "%s %s", path, what);
}

/* Parts are joined by a line break, as other servers of templates do. */
static bool read_parts(lac__parse *parse, const char *path, const json_t *parts, lac_span *content)
{
    size_t start = parse->out->text_length, index;
    json_t *part;
    json_array_foreach(parts, index, part)
    {
        char name[PATH_MAX_BYTES + 24]; /* the path and its own index */
        snprintf(name, sizeof name, "%s[%zu]", path, index);
        if (!json_is_object(part))
            return lac__bad_type(parse, name, part, "an object");
        const json_t *type = json_object_get(part, "type"), *text = json_object_get(part, "text");
        if (!json_is_string(type) || strcmp(json_string_value(type), "text") != 0)
            return lac__problem_set(parse->problem, 400, "unsupported_parameter", name,
                                    "%s.type is \"%.40s\", allowed only \"text\"", name,
                                    json_is_string(type) ? json_string_value(type) : "");
        if (!json_is_string(text))
            return refuse(parse, name, "invalid_type", "has no string \"text\"");
        if (index > 0)
            lac__keep_text(parse, "\n", 1);
        lac__keep_text(parse, json_string_value(text), json_string_length(text));
    }
    size_t length = parse->out->text_length - start;
    *content =
        (lac_span){.data = length ? parse->out->text + start : NULL, .length = (uint32_t)length};
    return true;
}

static bool read_content(lac__parse *parse, const char *path, const json_t *value,
                         lac_span *content)
{
    if (json_is_array(value))
        return read_parts(parse, path, value, content);
    if (!value)
        return refuse(parse, path, "missing_parameter", "is missing");
    if (!json_is_string(value))
        return lac__bad_type(parse, path, value, "a string or an array of text parts");
    *content = lac__keep_text(parse, json_string_value(value), json_string_length(value));
    return true;
}

/* "developer" is what newer clients call the system's voice; templates know only "system". */
static bool read_role(lac__parse *parse, const char *path, const json_t *value, char *role)
{
    static const char *const pairs[][2] = {{"system", "system"},
                                           {"developer", "system"},
                                           {"user", "user"},
                                           {"assistant", "assistant"},
                                           {"tool", "tool"}};
    if (!value)
        return refuse(parse, path, "missing_parameter", "is missing");
    if (!json_is_string(value))
        return lac__bad_type(parse, path, value, "a string");
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (strcmp(json_string_value(value), pairs[i][0]) != 0)
            continue;
        snprintf(role, LAC_ROLE_BYTES_MAX + 1, "%s", pairs[i][1]);
        return true;
    }
    return lac__problem_set(parse->problem, 400, "invalid_value", path,
                            "%s is \"%.40s\", allowed system, developer, user, assistant, tool",
                            path, json_string_value(value));
}

/* Which members a message may have; a member without a value is as good as none. */
static bool check_members(lac__parse *parse, const char *path, const json_t *value,
                          const char *role)
{
    static const struct {
        const char *name, *role; /* NULL: of every one */
    } known[] = {{"role", NULL},
                 {"content", NULL},
                 {"name", NULL},
                 {"tool_calls", "assistant"},
                 {"reasoning_content", "assistant"},
                 {"tool_call_id", "tool"}};
    const char *name;
    json_t *member;
    json_object_foreach((json_t *)value, name, member)
    {
        bool found = json_is_null(member) || (json_is_array(member) && !json_array_size(member) &&
                                              strcmp(name, "tool_calls") == 0);
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            found = found || (strcmp(name, known[i].name) == 0 &&
                              (!known[i].role || strcmp(role, known[i].role) == 0));
        if (!found)
            return lac__problem_set(parse->problem, 400, "unsupported_parameter", path,
                                    "%s.%.40s is given, allowed role, content, name%s", path, name,
                                    strcmp(role, "assistant") == 0
                                        ? ", tool_calls, reasoning_content"
                                    : strcmp(role, "tool") == 0 ? ", tool_call_id"
                                                                : "");
    }
    return true;
}

/* A text member that may be absent. */
static bool read_member(lac__parse *parse, size_t index, const json_t *value, const char *name,
                        lac_span *out)
{
    char path[PATH_MAX_BYTES];
    const json_t *member = json_object_get(value, name);
    snprintf(path, sizeof path, "messages[%zu].%s", index, name);
    if (!member || json_is_null(member))
        return true;
    if (!json_is_string(member))
        return lac__bad_type(parse, path, member, "a string");
    *out = lac__keep_text(parse, json_string_value(member), json_string_length(member));
    return true;
}

static bool read_message(lac__parse *parse, size_t index, const json_t *value,
                         lac_chat_message *message)
{
    char path[PATH_MAX_BYTES];
    snprintf(path, sizeof path, "messages[%zu].role", index);
    if (json_is_object(value) &&
        !read_role(parse, path, json_object_get(value, "role"), message->role))
        return false;
    snprintf(path, sizeof path, "messages[%zu]", index);
    if (!json_is_object(value))
        return lac__bad_type(parse, path, value, "an object");
    if (!check_members(parse, path, value, message->role))
        return false;
    const json_t *calls = json_object_get(value, "tool_calls");
    snprintf(path, sizeof path, "messages[%zu].tool_calls", index);
    if (json_array_size(calls) > 0 || (calls && !json_is_null(calls) && !json_is_array(calls)))
        if (!lac__read_calls(parse, path, calls, &message->calls))
            return false;
    if (!read_member(parse, index, value, "reasoning_content", &message->reasoning) ||
        !read_member(parse, index, value, "tool_call_id", &message->call_id))
        return false;
    if (strcmp(message->role, "tool") == 0 &&
        (!message->call_id.length || message->call_id.length > LAC_NAME_MAX)) {
        snprintf(path, sizeof path, "messages[%zu].tool_call_id", index);
        return refuse(parse, path, "missing_parameter",
                      "is missing or too long, allowed 1..64 bytes");
    }
    const json_t *content = json_object_get(value, "content");
    if (message->calls.length && (!content || json_is_null(content)))
        return true; /* the calls are all that was said */
    snprintf(path, sizeof path, "messages[%zu].content", index);
    return read_content(parse, path, content, &message->content);
}

bool lac__read_messages(lac__parse *parse, const lac__field *field, const json_t *value)
{
    if (!json_is_array(value))
        return lac__bad_type(parse, field->name, value, "an array of messages");
    size_t count = json_array_size(value), index;
    if (count < 1 || count > LAC_MESSAGES_MAX)
        return lac__problem_set(parse->problem, 400, "invalid_value", field->name,
                                "messages has %zu entries, allowed 1..%d", count, LAC_MESSAGES_MAX);
    lac__api_request *out = parse->out;
    out->messages = lac_alloc(count, sizeof *out->messages);
    out->submit.prompt.messages_count = (uint32_t)count; /* what is to be freed */
    json_t *message;
    json_array_foreach(value, index, message)
    {
        if (!read_message(parse, index, message, &out->messages[index]))
            return false;
    }
    lac_prompt *prompt = &out->submit.prompt;
    prompt->kind = LAC_PROMPT_CHAT;
    prompt->messages = out->messages;
    prompt->parts = true;
    parse->has_input = true;
    return true;
}

bool lac__read_ids(lac__parse *parse, const lac__field *field, const json_t *value)
{
    size_t count = json_array_size(value), index;
    if (!json_is_array(value))
        return lac__bad_type(parse, field->name, value, "an array of token ids");
    if (count < 1 || count > LAC_CONTEXT_MAX)
        return lac__problem_set(parse->problem, 400, "invalid_value", field->name,
                                "%s has %zu ids, allowed 1..%d", field->name, count,
                                LAC_CONTEXT_MAX);
    lac__api_request *out = parse->out;
    out->ids = lac_try_alloc(count, sizeof *out->ids);
    if (!out->ids)
        return lac__problem_set(parse->problem, 503, "out_of_memory", field->name,
                                "no memory for a prompt of %zu ids", count);
    json_t *id;
    json_array_foreach(value, index, id)
    {
        json_int_t number = json_is_integer(id) ? json_integer_value(id) : -1;
        if (number < 0 || number >= LAC_VOCAB_MAX)
            return lac__problem_set(parse->problem, 400, "invalid_value", field->name,
                                    "%s[%zu] is %s %lld, allowed token ids 0..%d", field->name,
                                    index, lac__json_kind(id), (long long)json_integer_value(id),
                                    LAC_VOCAB_MAX - 1);
        out->ids[index] = (uint32_t)number;
    }
    out->submit.prompt.kind = LAC_PROMPT_IDS;
    out->submit.prompt.ids = out->ids;
    out->submit.prompt.ids_count = (uint32_t)count;
    parse->has_input = true;
    return true;
}

/* A string, an array of one string, or an array of token ids. */
bool lac__read_prompt(lac__parse *parse, const lac__field *field, const json_t *value)
{
    static const char allowed[] = "a string, an array of one string, or an array of token ids";
    if (json_is_array(value)) {
        if (json_array_size(value) == 0)
            return refuse(parse, field->name, "invalid_value",
                          "is an empty array, allowed 1 or more");
        if (json_is_integer(json_array_get(value, 0)))
            return lac__read_ids(parse, field, value);
        if (json_array_size(value) > 1)
            return lac__problem_set(parse->problem, 400, "unsupported_parameter", field->name,
                                    "prompt has %zu entries, allowed one string or token ids",
                                    json_array_size(value));
        value = json_array_get(value, 0);
    }
    if (!json_is_string(value))
        return lac__bad_type(parse, field->name, value, allowed);
    if (json_string_length(value) == 0)
        return refuse(parse, field->name, "invalid_value", "is empty, allowed 1 byte or more");
    lac_prompt *prompt = &parse->out->submit.prompt;
    prompt->kind = LAC_PROMPT_TEXT;
    prompt->text = lac__keep_text(parse, json_string_value(value), json_string_length(value));
    parse->has_input = true;
    return true;
}

bool lac__read_suffix(lac__parse *parse, const lac__field *field, const json_t *value)
{
    if (!json_is_string(value))
        return lac__bad_type(parse, field->name, value, "a string");
    parse->out->submit.prompt.suffix =
        lac__keep_text(parse, json_string_value(value), json_string_length(value));
    return true;
}
