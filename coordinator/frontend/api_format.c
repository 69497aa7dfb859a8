/* response_format → the JSON Schema that the answer must match, as text. What a schema may say is
 * judged where the answer is made. Pure, any thread. */
#include <stdlib.h>
#include <string.h>

#include "api_parse.h"

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

static bool unknown(lac__parse *parse, const json_t *object, const char *where,
                    const char *const *known)
{
    const char *name;
    json_t *member;
    json_object_foreach((json_t *)object, name, member)
    {
        bool found = false;
        for (size_t i = 0; known[i] && !found; i++)
            found = strcmp(name, known[i]) == 0;
        if (!found)
            return !lac__problem_set(parse->problem, 400, "unknown_parameter", "response_format",
                                     "%s.%.40s is unknown", where, name);
    }
    return false;
}

static bool keep(lac__parse *parse, const json_t *schema)
{
    lac__api_request *out = parse->out;
    lac_sampling *s = &out->submit.sampling;
    out->grammar = json_dumps(schema, JSON_COMPACT | JSON_ENCODE_ANY);
    size_t length = out->grammar ? strlen(out->grammar) : 0;
    if (length == 0)
        return lac__problem_set(parse->problem, 503, "out_of_memory", "response_format",
                                "no memory for the schema");
    if (length > LAC_GRAMMAR_BYTES_MAX)
        return lac__problem_set(parse->problem, 400, "invalid_value", "response_format",
                                "schema has %zu bytes, allowed at most %d", length,
                                LAC_GRAMMAR_BYTES_MAX);
    s->grammar = out->grammar;
    s->grammar_length = (uint32_t)length;
    return true;
}

/* {"name":…, "schema":{…}, "strict":…, "description":…}; the answer matches, strict or not. */
static bool read_schema(lac__parse *parse, const json_t *value)
{
    static const char *const known[] = {"name", "schema", "strict", "description", NULL};
    if (!json_is_object(value))
        return lac__problem_set(parse->problem, 400, "invalid_value", "response_format",
                                "response_format.json_schema is missing or no object");
    if (unknown(parse, value, "response_format.json_schema", known))
        return false;
    const json_t *schema = json_object_get(value, "schema");
    if (!json_is_object(schema))
        return lac__problem_set(parse->problem, 400, "invalid_value", "response_format",
                                "response_format.json_schema.schema is missing or no object");
    return keep(parse, schema);
}

bool lac__read_format(lac__parse *parse, const lac__field *field, const json_t *value)
{
    static const char *const known[] = {"type", "schema", "json_schema", NULL};
    if (!json_is_object(value))
        return lac__bad_type(parse, field->name, value, "an object with a type");
    if (unknown(parse, value, field->name, known))
        return false;
    const char *type = text_of(value, "type");
    const json_t *schema = json_object_get(value, "schema");
    if (strcmp(type, "text") == 0)
        return true;
    if (strcmp(type, "json_schema") == 0)
        return read_schema(parse, json_object_get(value, "json_schema"));
    if (strcmp(type, "json_object") != 0)
        return lac__problem_set(parse->problem, 400, "invalid_value", field->name,
                                "response_format.type is \"%.40s\", allowed text, json_object, "
                                "json_schema",
                                type);
    if (json_is_object(schema))
        return keep(parse, schema);
    json_t *any = json_pack("{s:s}", "type", "object");
    bool good = any && keep(parse, any);
    json_decref(any);
    return good;
}
