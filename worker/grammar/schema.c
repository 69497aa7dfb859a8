/* JSON Schema → nodes. Pure, any thread. The text is a stranger's: every list and depth is bounded,
 * and a keyword that is not known is refused, never passed over. JSON types stay in here. */
#include <jansson.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/text.h"
#include "parts.h"

enum { PATH_MAX_BYTES = 120 };

typedef struct {
    lac_grammar *g;
    lac_buf text;
    lac_error *err;
    unsigned depth;
    char
        path[PATH_MAX_BYTES + 1]; /* of the schema being read, for error texts; cut when too long */
    size_t path_length;
} builder;

static lac_status compile(builder *b, const json_t *schema, uint16_t *out);

#define FAIL(b, status, format, ...)                                                               \
    lac_fail((b)->err, status, "schema at #%s: " format, (b)->path, __VA_ARGS__)

/* ---- pieces ---- */

static size_t path_enter(builder *b, const char *name)
{
    size_t before = b->path_length, room = PATH_MAX_BYTES - before, length = strlen(name);
    if (length + 1 > room) {
        b->path_length = before;
        return before;
    }
    b->path[b->path_length++] = '/';
    for (size_t i = 0; i < length; i++) /* error texts are plain ASCII */
        b->path[b->path_length++] = name[i] > ' ' && name[i] < 0x7f ? name[i] : '?';
    b->path[b->path_length] = '\0';
    return before;
}

static void path_leave(builder *b, size_t before)
{
    b->path_length = before;
    b->path[before] = '\0';
}

static lac_status node_add(builder *b, lac__kind kind, uint16_t *out)
{
    lac_grammar *g = b->g;
    if (g->nodes_count == LAC__NODES_MAX)
        return FAIL(b, LAC_ETOOBIG, "over %d values, the most allowed", LAC__NODES_MAX);
    g->nodes[g->nodes_count] = (lac__node){.kind = kind, .max = LAC__NO_MAX};
    *out = (uint16_t)g->nodes_count++;
    return LAC_OK;
}

static lac_status children_add(builder *b, size_t count, uint16_t *first)
{
    lac_grammar *g = b->g;
    if (count > LAC__CHILDREN_MAX - g->children_count)
        return FAIL(b, LAC_ETOOBIG, "over %d properties and alternatives, the most allowed",
                    LAC__CHILDREN_MAX);
    *first = (uint16_t)g->children_count;
    g->children_count += (uint32_t)count;
    return LAC_OK;
}

static lac_status text_add(builder *b, const json_t *value, lac__text *out)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!text)
        return FAIL(b, LAC_ENOMEM, "no memory for %s", "a value's text");
    size_t length = strlen(text);
    lac_status status = LAC_OK;
    if (length > LAC__LITERAL_BYTES_MAX)
        status = FAIL(b, LAC_ETOOBIG, "a name or value has %zu bytes, allowed at most %d", length,
                      LAC__LITERAL_BYTES_MAX);
    else if (!lac_buf_add(&b->text, text, length))
        status = FAIL(b, LAC_ETOOBIG, "over %zu bytes of names and values", b->text.cap);
    else
        *out = (lac__text){(uint32_t)(b->text.length - length), (uint32_t)length};
    free(text);
    return status;
}

static lac_status literal_add(builder *b, lac__node *node, const json_t *value)
{
    lac_grammar *g = b->g;
    if (g->literals_count == LAC__LITERALS_MAX)
        return FAIL(b, LAC_ETOOBIG, "over %d enum values, the most allowed", LAC__LITERALS_MAX);
    lac_status status = text_add(b, value, &g->literals[g->literals_count]);
    if (status)
        return status;
    if (node->count++ == 0)
        node->first = (uint16_t)g->literals_count;
    g->literals_count++;
    return LAC_OK;
}

static lac_status bound(builder *b, const json_t *schema, const char *name, uint16_t *out)
{
    const json_t *value = json_object_get(schema, name);
    if (!value)
        return LAC_OK;
    json_int_t number = json_is_integer(value) ? json_integer_value(value) : -1;
    if (number < 0 || number > LAC__COUNT_MAX)
        return FAIL(b, LAC_EINVAL, "%s must be an integer, allowed 0..%d", name, LAC__COUNT_MAX);
    *out = (uint16_t)number;
    return LAC_OK;
}

static lac_status bounds(builder *b, const json_t *schema, const char *min, const char *max,
                         uint16_t index)
{
    lac__node *node = &b->g->nodes[index];
    lac_status status = bound(b, schema, min, &node->min);
    if (status == LAC_OK)
        status = bound(b, schema, max, &node->max);
    if (status == LAC_OK && node->max < node->min)
        status =
            FAIL(b, LAC_EINVAL, "%s is %u, over %s, which is %u", min, node->min, max, node->max);
    return status;
}

/* ---- objects ---- */

static lac_status mark_required(builder *b, const json_t *required, const lac__node *node,
                                const json_t *properties)
{
    size_t index;
    json_t *name;
    if (required && !json_is_array(required))
        return FAIL(b, LAC_EINVAL, "%s must be an array of names", "required");
    json_array_foreach(required, index, name)
    {
        if (!json_is_string(name))
            return FAIL(b, LAC_EINVAL, "required[%zu] is no string", index);
        uint32_t place = 0;
        const char *key;
        json_t *value;
        bool found = false;
        json_object_foreach((json_t *)properties, key, value)
        {
            found = strcmp(key, json_string_value(name)) == 0;
            if (found)
                break;
            place++;
        }
        if (!found)
            return FAIL(b, LAC_EINVAL, "required[%zu] names what properties does not have", index);
        b->g->children[node->first + place].required = true;
    }
    return LAC_OK;
}

static lac_status compile_properties(builder *b, const json_t *properties, uint16_t index)
{
    uint16_t first = 0, place = 0;
    size_t count = json_object_size(properties);
    if (count > LAC__PROPERTIES_MAX)
        return FAIL(b, LAC_ETOOBIG, "%zu properties, allowed at most %d", count,
                    LAC__PROPERTIES_MAX);
    lac_status status = children_add(b, count, &first);
    if (status)
        return status;
    b->g->nodes[index].first = first;
    b->g->nodes[index].count = (uint16_t)count;
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)properties, name, value)
    {
        json_t *key = json_string(name);
        size_t before = path_enter(b, name);
        lac__child child = {0};
        status = key ? text_add(b, key, &child.key) : LAC_ENOMEM;
        json_decref(key);
        if (status == LAC_OK)
            status = compile(b, value, &child.node);
        if (status)
            return status;
        b->g->children[first + place++] = child;
        path_leave(b, before);
    }
    return LAC_OK;
}

/* Where properties are named, only those are written: that also holds where others would be
 * allowed.
 */
static lac_status compile_object(builder *b, const json_t *schema, uint16_t *out)
{
    const json_t *properties = json_object_get(schema, "properties");
    const json_t *more = json_object_get(schema, "additionalProperties");
    if (properties && !json_is_object(properties))
        return FAIL(b, LAC_EINVAL, "%s must be an object", "properties");
    if (more && !json_is_boolean(more) && !json_is_object(more))
        return FAIL(b, LAC_EINVAL, "%s must be a boolean or a schema", "additionalProperties");
    bool named = json_object_size(properties) > 0 || json_is_false(more);
    lac_status status = node_add(b, named ? LAC__OBJECT : LAC__MAP, out);
    if (status)
        return status;
    if (named) {
        status = compile_properties(b, properties, *out);
    } else if (json_is_object(more)) {
        uint16_t value;
        size_t before = path_enter(b, "additionalProperties");
        status = compile(b, more, &value);
        b->g->nodes[*out].value = value;
        path_leave(b, before);
    } else {
        b->g->nodes[*out].value = LAC__N_ANY;
    }
    if (status)
        return status;
    return mark_required(b, json_object_get(schema, "required"), &b->g->nodes[*out], properties);
}

static lac_status compile_array(builder *b, const json_t *schema, uint16_t *out)
{
    uint16_t value = LAC__N_ANY;
    lac_status status = node_add(b, LAC__ARRAY, out);
    const json_t *items = json_object_get(schema, "items");
    if (status == LAC_OK && items) {
        size_t before = path_enter(b, "items");
        status = compile(b, items, &value);
        path_leave(b, before);
    }
    if (status)
        return status;
    b->g->nodes[*out].value = value;
    return bounds(b, schema, "minItems", "maxItems", *out);
}

/* ---- one type ---- */

static bool is_type(const json_t *value, const char *type)
{
    switch (json_typeof(value)) {
    case JSON_STRING: return strcmp(type, "string") == 0;
    case JSON_INTEGER: return strcmp(type, "integer") == 0 || strcmp(type, "number") == 0;
    case JSON_REAL: return strcmp(type, "number") == 0;
    case JSON_TRUE:
    case JSON_FALSE: return strcmp(type, "boolean") == 0;
    case JSON_NULL: return strcmp(type, "null") == 0;
    default: return false;
    }
}

static lac_status compile_constants(builder *b, const char *type, uint16_t *out)
{
    lac_status status = node_add(b, LAC__LITERALS, out);
    json_t *values[] = {json_true(), json_false(), json_null()};
    for (int i = 0; i < 3 && status == LAC_OK; i++)
        if (is_type(values[i], type))
            status = literal_add(b, &b->g->nodes[*out], values[i]);
    return status;
}

static lac_status compile_type(builder *b, const json_t *schema, const char *type, uint16_t *out)
{
    lac_status status;
    if (strcmp(type, "object") == 0)
        return compile_object(b, schema, out);
    if (strcmp(type, "array") == 0)
        return compile_array(b, schema, out);
    if (strcmp(type, "string") == 0) {
        status = node_add(b, LAC__STRING, out);
        return status ? status : bounds(b, schema, "minLength", "maxLength", *out);
    }
    if (strcmp(type, "number") == 0)
        return node_add(b, LAC__NUMBER, out);
    if (strcmp(type, "integer") == 0)
        return node_add(b, LAC__INTEGER, out);
    if (strcmp(type, "boolean") == 0 || strcmp(type, "null") == 0)
        return compile_constants(b, type, out);
    return FAIL(b, LAC_EINVAL,
                "type \"%.40s\" is unknown, allowed object, array, string, number, integer, "
                "boolean, null",
                lac_utf8_valid(type, strlen(type)) ? type : "?");
}

/* ---- alternatives ---- */

/* The values of enum or const that have the type, where one is given. */
static lac_status compile_values(builder *b, const json_t *values, const json_t *only,
                                 const json_t *type, uint16_t *out)
{
    size_t count = values ? json_array_size(values) : 1;
    if (values && (!json_is_array(values) || count < 1 || count > LAC__ENUM_MAX))
        return FAIL(b, LAC_EINVAL, "enum must be an array, allowed 1..%d values", LAC__ENUM_MAX);
    lac_status status = node_add(b, LAC__LITERALS, out);
    for (size_t i = 0; i < count && status == LAC_OK; i++) {
        const json_t *value = values ? json_array_get(values, i) : only;
        if (json_is_object(value) || json_is_array(value))
            return FAIL(b, LAC_EUNSUPPORTED,
                        "%s holds an object or array, allowed strings, numbers, booleans, null",
                        values ? "enum" : "const");
        if (!json_is_string(type) || is_type(value, json_string_value(type)))
            status = literal_add(b, &b->g->nodes[*out], value);
    }
    if (status == LAC_OK && b->g->nodes[*out].count == 0)
        status = FAIL(b, LAC_EINVAL, "no value of %s has the type", values ? "enum" : "const");
    return status;
}

/* anyOf, and a list of types: alternatives of one node. */
static lac_status compile_any_of(builder *b, const json_t *schema, const json_t *list, bool types,
                                 uint16_t *out)
{
    const char *name = types ? "type" : "anyOf";
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count < 1 || count > LAC__ANY_OF_MAX)
        return FAIL(b, LAC_EINVAL, "%s must be an array, allowed 1..%d entries", name,
                    LAC__ANY_OF_MAX);
    uint16_t first = 0;
    lac_status status = node_add(b, LAC__ANY_OF, out);
    if (status == LAC_OK)
        status = children_add(b, count, &first);
    for (size_t i = 0; i < count && status == LAC_OK; i++) {
        const json_t *entry = json_array_get(list, i);
        uint16_t node = 0;
        size_t before = path_enter(b, name);
        if (!types)
            status = compile(b, entry, &node);
        else if (json_is_string(entry))
            status = compile_type(b, schema, json_string_value(entry), &node);
        else
            status = FAIL(b, LAC_EINVAL, "type[%zu] is no string", i);
        if (status)
            return status;
        b->g->children[first + i] = (lac__child){.node = node};
        path_leave(b, before);
    }
    if (status == LAC_OK) {
        b->g->nodes[*out].first = first;
        b->g->nodes[*out].count = (uint16_t)count;
    }
    return status;
}

/* ---- a schema ---- */

static bool in_list(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(name, *list) == 0)
            return true;
    return false;
}

static lac_status keywords_check(builder *b, const json_t *schema)
{
    static const char *const shapes[] = {"type",      "properties", "required",
                                         "items",     "minItems",   "maxItems",
                                         "minLength", "maxLength",  "additionalProperties",
                                         "enum",      "const",      NULL};
    static const char *const remarks[] = {"title",   "description", "default",   "examples",
                                          "$schema", "$id",         "$comment",  "deprecated",
                                          "anyOf",   "readOnly",    "writeOnly", NULL};
    bool any_of = json_object_get(schema, "anyOf");
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)schema, name, value)
    {
        bool shape = in_list(name, shapes);
        if (shape && any_of)
            return FAIL(b, LAC_EUNSUPPORTED, "\"%s\" stands beside anyOf, put it into each entry",
                        name);
        if (shape || in_list(name, remarks))
            continue;
        return FAIL(b, LAC_EUNSUPPORTED, "keyword \"%.40s\" is not supported", name);
    }
    return LAC_OK;
}

static lac_status compile_here(builder *b, const json_t *schema, uint16_t *out)
{
    if (json_is_true(schema)) {
        *out = LAC__N_ANY;
        return LAC_OK;
    }
    if (!json_is_object(schema))
        return FAIL(b, LAC_EINVAL, "%s", "a schema must be an object, or true");
    lac_status status = keywords_check(b, schema);
    if (status)
        return status;
    const json_t *type = json_object_get(schema, "type");
    const json_t *values = json_object_get(schema, "enum"),
                 *only = json_object_get(schema, "const");
    const json_t *any_of = json_object_get(schema, "anyOf");
    if (any_of)
        return compile_any_of(b, schema, any_of, false, out);
    if (values || only)
        return compile_values(b, values, only, type, out);
    if (json_is_array(type))
        return compile_any_of(b, schema, type, true, out);
    if (json_is_string(type))
        return compile_type(b, schema, json_string_value(type), out);
    if (type)
        return FAIL(b, LAC_EINVAL, "%s", "type must be a string or an array of strings");
    if (json_object_get(schema, "properties") || json_object_get(schema, "required"))
        return compile_object(b, schema, out);
    if (json_object_get(schema, "items"))
        return compile_array(b, schema, out);
    *out = LAC__N_ANY;
    return LAC_OK;
}

static lac_status compile(builder *b, const json_t *schema, uint16_t *out)
{
    if (b->depth == LAC__SCHEMA_DEPTH_MAX)
        return FAIL(b, LAC_ETOOBIG, "over %d schemas inside each other", LAC__SCHEMA_DEPTH_MAX);
    b->depth++;
    lac_status status = compile_here(b, schema, out);
    b->depth--;
    return status;
}

/* Any JSON value: one of the kinds, whose first bytes differ. */
static void begin_grammar(builder *b)
{
    lac_grammar *g = b->g;
    static const lac__node fixed[LAC__N_OWN] = {
        [LAC__N_ANY] = {LAC__ANY_OF, 0, LAC__NO_MAX, 0, 0, LAC__N_OWN - 1},
        [LAC__N_ANY_MAP] = {LAC__MAP, 0, LAC__NO_MAX, LAC__N_ANY, 0, 0},
        [LAC__N_ANY_ARRAY] = {LAC__ARRAY, 0, LAC__NO_MAX, LAC__N_ANY, 0, 0},
        [LAC__N_STRING] = {LAC__STRING, 0, LAC__NO_MAX, 0, 0, 0},
        [LAC__N_NUMBER] = {LAC__NUMBER, 0, LAC__NO_MAX, 0, 0, 0},
        [LAC__N_CONSTANT] = {LAC__LITERALS, 0, LAC__NO_MAX, 0, 0, 0},
    };
    json_t *constants[] = {json_true(), json_false(), json_null()};
    memcpy(g->nodes, fixed, sizeof fixed);
    g->nodes_count = LAC__N_OWN;
    for (uint16_t i = 1; i < LAC__N_OWN; i++)
        g->children[g->children_count++].node = i;
    for (int i = 0; i < 3; i++) {
        lac_status status = literal_add(b, &g->nodes[LAC__N_CONSTANT], constants[i]);
        LAC_ASSERT(status == LAC_OK);
    }
}

lac_status lac_grammar_create(const char *schema, size_t length, lac_grammar **out, lac_error *err)
{
    json_error_t at;
    if (length == 0 || length > LAC_GRAMMAR_BYTES_MAX)
        return lac_fail(err, LAC_ETOOBIG, "schema has %zu bytes, allowed 1..%d", length,
                        LAC_GRAMMAR_BYTES_MAX);
    json_t *json = json_loadb(schema, length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &at);
    if (!json)
        return lac_fail(err, LAC_EINVAL, "schema is no valid JSON at byte %d", at.position);
    lac_grammar *g = lac_alloc(1, sizeof *g);
    atomic_init(&g->holders, 1);
    g->nodes = lac_alloc(LAC__NODES_MAX, sizeof *g->nodes);
    g->children = lac_alloc(LAC__CHILDREN_MAX, sizeof *g->children);
    g->literals = lac_alloc(LAC__LITERALS_MAX, sizeof *g->literals);
    lac_sha256(schema, length, &g->digest);
    builder b = {.g = g, .err = err, .text = {.cap = 4 * LAC_GRAMMAR_BYTES_MAX}};
    begin_grammar(&b);
    lac_status status = compile(&b, json, &g->root);
    json_decref(json);
    g->text = b.text.data;
    if (status == LAC_OK)
        *out = g;
    else
        lac_grammar_destroy(&g);
    return status;
}

void lac_grammar_destroy(lac_grammar **grammar)
{
    lac_grammar *g = *grammar;
    *grammar = NULL;
    if (!g || atomic_fetch_sub(&g->holders, 1) > 1)
        return;
    free(g->nodes);
    free(g->children);
    free(g->literals);
    free(g->text);
    free(g);
}
