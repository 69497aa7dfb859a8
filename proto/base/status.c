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
    char old[LAC_ERROR_TEXT_MAX];
    memcpy(old, err->text, sizeof old);
    va_list args;
    va_start(args, format);
    int prefix = vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    size_t room = prefix >= 0 && (size_t)prefix < sizeof old ? sizeof old - (size_t)prefix : 0;
    if (room > 2) { /* ": ", then as much of the old text as fits */
        char *tail = err->text + prefix;
        size_t length = strnlen(old, sizeof old - 1);
        if (length > room - 3)
            length = room - 3;
        memcpy(tail, ": ", 2);
        memcpy(tail + 2, old, length);
        tail[2 + length] = '\0';
    }
    return err->status;
}

void lac__assert_fail(const char *condition, const char *file, int line)
{
    fprintf(stderr, "assertion failed: %s at %s:%d\n", condition, file, line);
    fflush(stderr);
    abort();
}
