/* Status names, error texts and the assertion handler. Any thread; no state. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/status.h"

const char *lac_status_name(lac_status status)
{
    switch (status) {
    case LAC_OK: return "ok";
    case LAC_AGAIN: return "nothing yet";
    case LAC_BUSY: return "busy";
    case LAC_EINVAL: return "invalid";
    case LAC_ENOTFOUND: return "not found";
    case LAC_EUNSUPPORTED: return "unsupported";
    case LAC_ETOOBIG: return "too big";
    case LAC_EDEADLINE: return "deadline exceeded";
    case LAC_ECANCELLED: return "cancelled";
    case LAC_EREFUSED: return "refused";
    case LAC_EEXIST: return "exists";
    case LAC_EPEER: return "peer lost";
    case LAC_EPROTO: return "protocol error";
    case LAC_EEPOCH: return "fenced";
    case LAC_ECORRUPT: return "corrupt";
    case LAC_EIO: return "input/output error";
    case LAC_ENOMEM: return "out of memory";
    case LAC_EINTERNAL: return "internal error";
    }
    return "unknown status";
}

lac_status lac_fail(lac_error *err, lac_status status, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
        err->status = status;
    }
    return status;
}

lac_status lac_fail_in(lac_error *err, const char *format, ...)
{
    if (!err)
        return LAC_EINTERNAL;
    char text[LAC_ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    int prefix = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (prefix >= 0 && (size_t)prefix < sizeof text)
        snprintf(text + prefix, sizeof text - (size_t)prefix, ": %s", err->text);
    memcpy(err->text, text, sizeof text);
    return err->status;
}

void lac__assert_fail(const char *condition, const char *file, int line)
{
    fprintf(stderr, "assertion failed: %s at %s:%d\n", condition, file, line);
    fflush(stderr);
    abort();
}
