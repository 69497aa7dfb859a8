/* What goes wrong with a request, as OpenAI's API says it. Pure, any thread. */
#ifndef LAC__FRONTEND_ERRORS_H
#define LAC__FRONTEND_ERRORS_H

#include "base/limits.h"
#include "base/mem.h"
#include "base/msg.h"
#include "base/status.h"

typedef struct {
    int http;                     /* 400 … 599; 0 = nothing is wrong */
    const char *code;             /* a literal, or NULL */
    char param[LAC_NAME_MAX + 1]; /* the field at fault, "" = none */
    char message[LAC_ERROR_TEXT_MAX];
    uint32_t retry_after_ms; /* > 0 becomes a Retry-After header */
    const char *allow;       /* of a 405: the methods that are, a literal; else NULL */
} lac__problem;

/* Fills `problem` and returns false, so that a failing parser ends with it. Texts of the client's
 * own that are quoted in the message may be anything: broken UTF-8 is mended when it is written. */
bool lac__problem_set(lac__problem *problem, int http, const char *code, const char *param,
                      const char *format, ...) __attribute__((format(printf, 5, 6)));

/* The table lac_status → HTTP status and code, for what the core refused. */
void lac__problem_from_status(lac__problem *problem, lac_status status, uint32_t retry_after_ms,
                              const char *reason);

/* What the core's cause says more exactly than its status: code, and 403 instead of 503. */
void lac__problem_cause(lac__problem *problem, lac_cause cause);

/* Appends {"error":{"message":…,"type":…,"param":…,"code":…}}. */
void lac__problem_json(const lac__problem *problem, lac_buf *out);

/* The reason phrase of a status line. */
const char *lac__http_reason(int http);

#endif
