/* The error table: from the system's status codes and the parser's findings to HTTP statuses and
 * OpenAI's error object. Pure, any thread; knows neither sockets nor requests. */
#include "errors.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

static const struct {
    int http;
    const char *reason, *type;
} statuses[] = {
    {100, "Continue", ""},
    {200, "OK", ""},
    {400, "Bad Request", "invalid_request_error"},
    {401, "Unauthorized", "invalid_request_error"},
    {403, "Forbidden", "invalid_request_error"},
    {404, "Not Found", "invalid_request_error"},
    {405, "Method Not Allowed", "invalid_request_error"},
    {408, "Request Timeout", "invalid_request_error"},
    {409, "Conflict", "invalid_request_error"},
    {413, "Content Too Large", "invalid_request_error"},
    {414, "URI Too Long", "invalid_request_error"},
    {415, "Unsupported Media Type", "invalid_request_error"},
    {417, "Expectation Failed", "invalid_request_error"},
    {422, "Unprocessable Content", "invalid_request_error"},
    {429, "Too Many Requests", "rate_limit_error"},
    {431, "Request Header Fields Too Large", "invalid_request_error"},
    {500, "Internal Server Error", "server_error"},
    {501, "Not Implemented", "invalid_request_error"},
    {503, "Service Unavailable", "server_error"},
    {504, "Gateway Timeout", "timeout_error"},
    {507, "Insufficient Storage", "server_error"},
    {505, "HTTP Version Not Supported", "invalid_request_error"},
};

/* What a refusal of the core means to an OpenAI client. Those clients repeat 429 and 5xx by
 * themselves, so whatever cannot succeed when repeated unchanged is a 400 or 404. */
static const struct {
    lac_status status;
    int http;
    const char *code;
    uint32_t retry_after_ms; /* when the core names none */
} refusals[] = {
    {LAC_AGAIN, 429, "busy", 1000},
    {LAC_BUSY, 429, "busy", 1000},
    {LAC_EINVAL, 400, "invalid_value", 0},
    {LAC_ENOTFOUND, 404, "model_not_found", 0},
    {LAC_EUNSUPPORTED, 400, "unsupported_parameter", 0},
    {LAC_ETOOBIG, 400, "context_length_exceeded", 0},
    {LAC_EDEADLINE, 504, "deadline_exceeded", 0},
    {LAC_ECANCELLED, 503, "cancelled", 1000},
    {LAC_EREFUSED, 503, "unavailable", 1000},
    {LAC_EPEER, 503, "worker_lost", 1000},
    {LAC_EPROTO, 503, "worker_lost", 1000},
    {LAC_EEPOCH, 503, "worker_lost", 1000},
};

const char *lac__http_reason(int http)
{
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        if (statuses[i].http == http)
            return statuses[i].reason;
    return "Error";
}

static const char *type_of(int http)
{
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        if (statuses[i].http == http)
            return statuses[i].type;
    return "server_error";
}

bool lac__problem_set(lac__problem *problem, int http, const char *code, const char *param,
                      const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(problem->message, sizeof problem->message, format, args);
    va_end(args);
    problem->http = http;
    problem->code = code;
    problem->retry_after_ms = 0;
    problem->allow = NULL;
    snprintf(problem->param, sizeof problem->param, "%s", param ? param : "");
    return false;
}

void lac__problem_from_status(lac__problem *problem, lac_status status, uint32_t retry_after_ms,
                              const char *reason)
{
    int http = 500;
    const char *code = "internal_error";
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        if (refusals[i].status != status)
            continue;
        http = refusals[i].http;
        code = refusals[i].code;
        if (retry_after_ms == 0)
            retry_after_ms = refusals[i].retry_after_ms;
    }
    const char *param = status == LAC_ENOTFOUND ? "model" : "";
    lac__problem_set(problem, http, code, param, "%s",
                     reason && *reason ? reason : lac_status_name(status));
    if (http == 429 || http == 503)
        problem->retry_after_ms = retry_after_ms;
}

void lac__problem_cause(lac__problem *problem, lac_cause cause)
{
    if (cause == LAC_CAUSE_QUOTA) {
        problem->code = "rate_limit_exceeded";
    } else if (cause == LAC_CAUSE_DENIED) {
        problem->http = 403;
        problem->code = "permission_denied";
        problem->retry_after_ms = 0;
    }
}

static void text_or_null(lac_buf *out, const char *text)
{
    if (text && *text)
        lac_buf_json(out, text, strlen(text));
    else
        lac_buf_text(out, "null");
}

void lac__problem_json(const lac__problem *problem, lac_buf *out)
{
    /* A message cut at its limit may end inside a character. */
    size_t whole = lac_utf8_whole(problem->message, strlen(problem->message));
    lac_buf_text(out, "{\"error\":{\"message\":");
    lac_buf_json(out, problem->message, whole);
    lac_buf_printf(out, ",\"type\":\"%s\",\"param\":", type_of(problem->http));
    text_or_null(out, problem->param);
    lac_buf_text(out, ",\"code\":");
    text_or_null(out, problem->code);
    lac_buf_text(out, "}}");
}
