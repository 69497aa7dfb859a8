/* Fields of a JSON object. Pure. */
#include "base/json_field.h"

#include <inttypes.h>
#include <string.h>

void lac_json_text(lac_buf *out, const char *name, const char *value)
{
    lac_buf_printf(out, "\"%s\":", name);
    lac_buf_json(out, value, strlen(value));
    lac_buf_text(out, ",");
}

void lac_json_number(lac_buf *out, const char *name, uint64_t value)
{
    lac_buf_printf(out, "\"%s\":%" PRIu64 ",", name, value);
}

void lac_json_real(lac_buf *out, const char *name, double value)
{
    lac_buf_printf(out, "\"%s\":%.9g,", name, value);
}

void lac_json_flag(lac_buf *out, const char *name, bool value)
{
    lac_buf_printf(out, "\"%s\":%s,", name, value ? "true" : "false");
}

void lac_json_end(lac_buf *out, char bracket)
{
    if (out->length && out->data[out->length - 1] == ',')
        out->data[out->length - 1] = bracket;
    else
        lac_buf_add(out, &bracket, 1);
}
