/* The functions a request offers: read, checked, and made into the schema of a call. Pure, any
 * thread. Must not know how families print them (lower.c) or find them in an answer (divide.c). */
#include "tools.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/limits.h"
#include "json_text.h"

/* ---- reading ---- */

static bool name_is_good(const char *name, size_t length)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    return name && length >= 1 && length <= LAC_NAME_MAX && strspn(name, letters) == length;
}

static lac_status check_tool(const lac_tools *tools, size_t index, lac_error *err)
{
    const json_t *tool = json_array_get(tools->list, index);
    const json_t *function = json_object_get(tool, "function");
    const json_t *name = json_object_get(function, "name");
    const json_t *parameters = json_object_get(function, "parameters");
    if (!json_is_object(function))
        return lac_fail(err, LAC_EINVAL, "tools[%zu].function is missing or no object", index);
    if (!json_is_string(name) || !name_is_good(json_string_value(name), json_string_length(name)))
        return lac_fail(err, LAC_EINVAL,
                        "tools[%zu].function.name is missing or malformed, allowed 1..%d of A-Z "
                        "a-z 0-9 _ -",
                        index, LAC_NAME_MAX);
    if (parameters && !json_is_object(parameters) && !json_is_null(parameters))
        return lac_fail(err, LAC_EINVAL, "tools[%zu].function.parameters is no object", index);
    for (size_t i = 0; i < index; i++)
        if (strcmp(lac_tools_name(tools, i), json_string_value(name)) == 0)
            return lac_fail(err, LAC_EINVAL, "tools[%zu].function.name is that of tools[%zu]",
                            index, i);
    return LAC_OK;
}

lac_status lac_tools_create(const char *json, size_t length, lac_tools **out, lac_error *err)
{
    if (length > LAC_TOOLS_BYTES_MAX)
        return lac_fail(err, LAC_ETOOBIG, "tools have %zu bytes, allowed at most %d", length,
                        LAC_TOOLS_BYTES_MAX);
    json_error_t at;
    json_t *list = json_loadb(json, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &at);
    lac_tools *tools = lac_alloc(1, sizeof *tools);
    tools->list = list;
    size_t count = json_array_size(list);
    lac_status status = LAC_OK;
    if (!json_is_array(list) || count < 1 || count > LAC_TOOLS_MAX)
        status =
            lac_fail(err, LAC_EINVAL, "tools is no JSON array of 1..%d functions", LAC_TOOLS_MAX);
    for (size_t i = 0; i < count && status == LAC_OK; i++)
        status = check_tool(tools, i, err);
    if (status == LAC_OK)
        *out = tools;
    else
        lac_tools_destroy(&tools);
    return status;
}

void lac_tools_destroy(lac_tools **tools)
{
    if (!*tools)
        return;
    json_decref((*tools)->list);
    free(*tools);
    *tools = NULL;
}

size_t lac_tools_count(const lac_tools *tools)
{
    return json_array_size(tools->list);
}

const json_t *lac__tools_function(const lac_tools *tools, size_t index)
{
    return json_object_get(json_array_get(tools->list, index), "function");
}

const char *lac_tools_name(const lac_tools *tools, size_t index)
{
    return json_string_value(json_object_get(lac__tools_function(tools, index), "name"));
}

/* ---- the schema of a call ---- */

/* A function whose parameters name nothing takes an empty object, not any. */
static void put_parameters(const json_t *parameters, lac_buf *out)
{
    const json_t *properties = json_object_get(parameters, "properties");
    bool any_of = json_object_get(parameters, "anyOf");
    if (json_object_size(properties) == 0 && !any_of &&
        !json_object_get(parameters, "additionalProperties"))
        lac_buf_text(out, "{\"type\":\"object\",\"additionalProperties\":false}");
    else
        lac__json_text(parameters, 0, out);
}

static void put_call(const lac_tools *tools, size_t index, lac_calls_form form, lac_buf *out)
{
    const char *member = form == LAC_CALLS_LLAMA ? "parameters" : "arguments";
    lac_buf_printf(out, "{\"type\":\"object\",\"properties\":{\"name\":{\"const\":\"%s\"},\"%s\":",
                   lac_tools_name(tools, index), member);
    put_parameters(json_object_get(lac__tools_function(tools, index), "parameters"), out);
    lac_buf_printf(out, "},\"required\":[\"name\",\"%s\"],\"additionalProperties\":false}", member);
}

lac_status lac_tools_schema(const lac_tools *tools, lac_calls_form form, const char *name,
                            lac_buf *out, lac_error *err)
{
    size_t count = lac_tools_count(tools), found = 0;
    LAC_ASSERT(form != LAC_CALLS_NONE);
    while (name && found < count && strcmp(lac_tools_name(tools, found), name) != 0)
        found++;
    if (found == count)
        return lac_fail(err, LAC_EINVAL, "tool_choice names \"%s\", which tools does not have",
                        name);
    if (!name && count > LAC_TOOLS_REQUIRED_MAX)
        return lac_fail(err, LAC_ETOOBIG,
                        "tool_choice is \"required\" with %zu tools, allowed at most %d; name one",
                        count, LAC_TOOLS_REQUIRED_MAX);
    if (form == LAC_CALLS_MISTRAL)
        lac_buf_text(out, "{\"type\":\"array\",\"minItems\":1,\"maxItems\":1,\"items\":");
    if (name) {
        put_call(tools, found, form, out);
    } else {
        lac_buf_text(out, "{\"anyOf\":[");
        for (size_t i = 0; i < count; i++) {
            if (i)
                lac_buf_text(out, ",");
            put_call(tools, i, form, out);
        }
        lac_buf_text(out, "]}");
    }
    if (form == LAC_CALLS_MISTRAL)
        lac_buf_text(out, "}");
    if (out->overflow || out->length > LAC_GRAMMAR_BYTES_MAX)
        return lac_fail(err, LAC_ETOOBIG,
                        "the parameters of the tools that may be called have over %d bytes, the "
                        "most allowed",
                        LAC_GRAMMAR_BYTES_MAX);
    return LAC_OK;
}
