/* The last error text of each thread. */
#include <stdarg.h>
#include <stdio.h>

#include "client.h"

static _Thread_local char text[LAC_ERROR_TEXT_MAX] = "no error";

int client_fail(int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return code;
}

const char *lac_client_error(void)
{
    return text;
}

const char *lac_client_version(void)
{
    return LAC_VERSION;
}
