/* traceparent by https://www.w3.org/TR/trace-context/#traceparent-header. Pure. */
#include "trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TRACE_AT = 3, PARENT_AT = 36, FLAGS_AT = 53, LENGTH = 55 };
_Static_assert((int)LENGTH == (int)LAC_TRACE_MAX, "the bound is the header's length");

/* Lower-case hex, and not all zero where that means none. */
static bool hex(const char *text, size_t length, bool not_zero)
{
    return strspn(text, "0123456789abcdef") >= length && (!not_zero || strspn(text, "0") < length);
}

bool lac__trace_read(const char *value, char out[LAC_TRACE_MAX + 1])
{
    size_t length = strlen(value);
    bool later = length > LENGTH && value[LENGTH] == '-' && memcmp(value, "00", 2) != 0;
    if ((length != LENGTH && !later) || !hex(value, 2, false) || memcmp(value, "ff", 2) == 0 ||
        value[2] != '-' || !hex(value + TRACE_AT, 32, true) || value[PARENT_AT - 1] != '-' ||
        !hex(value + PARENT_AT, 16, true) || value[FLAGS_AT - 1] != '-' ||
        !hex(value + FLAGS_AT, 2, false))
        return false;
    memcpy(out, value, LENGTH);
    memcpy(out, "00", 2);
    out[LENGTH] = '\0';
    return true;
}

void lac__trace_child(const char *trace, uint64_t parent, char out[LAC_TRACE_MAX + 1])
{
    snprintf(out, LAC_TRACE_MAX + 1, "%.*s%016" PRIx64 "%s", PARENT_AT, trace, parent ? parent : 1,
             trace + FLAGS_AT - 1);
}
