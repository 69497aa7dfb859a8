/* JSON values → the text that Jinja's tojson filter gives for them, which is Python's json.dumps.
 * Pure, any thread. Depth is bounded by whoever read the value (jansson: 2048). */
#include "json_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Python's repr: the fewest digits that give the same double, with an exponent from 1e16 on and
 * below 1e-4, and a fraction where it could be read as an integer. */
static void put_real(double value, lac_buf *out)
{
    char digits[40];
    int precision = 1;
    do
        snprintf(digits, sizeof digits, "%.*e", precision - 1, value);
    while (strtod(digits, NULL) != value && precision++ < 17);
    long exponent = strtol(strchr(digits, 'e') + 1, NULL, 10);
    if (exponent < -4 || exponent >= 16) {
        /* "1.5e+20": as %e gives it. */
        lac_buf_text(out, digits);
        return;
    }
    long decimals = precision - 1 - exponent;
    lac_buf_printf(out, "%.*f", decimals > 0 ? (int)decimals : 1, value);
}

static void new_line(unsigned indent, unsigned depth, lac_buf *out)
{
    lac_buf_text(out, "\n");
    for (unsigned i = 0; i < indent * depth; i++)
        lac_buf_text(out, " ");
}

static void put(const json_t *value, unsigned indent, unsigned depth, lac_buf *out);

static void separate(bool first, unsigned indent, unsigned depth, lac_buf *out)
{
    if (!first)
        lac_buf_text(out, indent ? "," : ", ");
    if (indent)
        new_line(indent, depth, out);
}

static void put_object(const json_t *value, unsigned indent, unsigned depth, lac_buf *out)
{
    const char *key;
    json_t *member;
    bool first = true;
    lac_buf_text(out, "{");
    json_object_foreach((json_t *)(uintptr_t)value, key, member)
    {
        separate(first, indent, depth + 1, out);
        first = false;
        lac_buf_json(out, key, strlen(key));
        lac_buf_text(out, ": ");
        put(member, indent, depth + 1, out);
    }
    if (indent && !first)
        new_line(indent, depth, out);
    lac_buf_text(out, "}");
}

static void put_array(const json_t *value, unsigned indent, unsigned depth, lac_buf *out)
{
    size_t count = json_array_size(value);
    lac_buf_text(out, "[");
    for (size_t i = 0; i < count; i++) {
        separate(i == 0, indent, depth + 1, out);
        put(json_array_get(value, i), indent, depth + 1, out);
    }
    if (indent && count > 0)
        new_line(indent, depth, out);
    lac_buf_text(out, "]");
}

static void put(const json_t *value, unsigned indent, unsigned depth, lac_buf *out)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT: put_object(value, indent, depth, out); break;
    case JSON_ARRAY: put_array(value, indent, depth, out); break;
    case JSON_STRING: lac_buf_json(out, json_string_value(value), json_string_length(value)); break;
    case JSON_INTEGER:
        lac_buf_printf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        break;
    case JSON_REAL: put_real(json_real_value(value), out); break;
    case JSON_TRUE: lac_buf_text(out, "true"); break;
    case JSON_FALSE: lac_buf_text(out, "false"); break;
    case JSON_NULL: lac_buf_text(out, "null"); break;
    }
}

void lac__json_text(const json_t *value, unsigned indent, lac_buf *out)
{
    put(value, indent, 0, out);
}
