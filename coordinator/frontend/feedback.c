/* Feedback over HTTP: a small JSON body, one question to the process around, one line back. Knows
 * nothing of requests but their numbers. Loop thread. */
#include "feedback.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "base/text.h"
#include "json_scan.h"

enum { BODY_MAX = 4096 };

static bool read_request(const json_t *value, uint64_t *out, lac__problem *problem)
{
    int64_t number = 0;
    if (json_is_integer(value))
        number = json_integer_value(value);
    else if (!json_is_string(value) ||
             !lac_parse_i64(json_string_value(value), 1, INT64_MAX, &number))
        number = 0;
    *out = (uint64_t)number;
    return number >= 1 ||
           lac__problem_set(problem, 400, "invalid_value", "request",
                            "request is no number of a request, allowed what the header "
                            "X-Lacuna-Request said");
}

static bool read_rating(const json_t *value, bool *out, lac__problem *problem)
{
    const char *text = json_is_string(value) ? json_string_value(value) : "";
    *out = !strcmp(text, "good");
    return *out || !strcmp(text, "bad") ||
           lac__problem_set(problem, 400, "invalid_value", "rating",
                            "rating is not one of those allowed: good, bad");
}

static bool read_body(json_t *body, uint64_t *request, bool *good, lac__problem *problem)
{
    const char *name;
    json_t *value;
    if (!json_is_object(body))
        return lac__problem_set(problem, 400, "invalid_json", NULL, "body is no JSON object");
    json_object_foreach(body, name, value)
    {
        if (strcmp(name, "request") != 0 && strcmp(name, "rating") != 0)
            return lac__problem_set(problem, 400, "unknown_parameter", name,
                                    "unknown parameter \"%.100s\"", name);
    }
    return read_request(json_object_get(body, "request"), request, problem) &&
           read_rating(json_object_get(body, "rating"), good, problem);
}

bool lac__feedback_parse(const char *body, size_t length, uint64_t *request, bool *good,
                         lac__problem *problem)
{
    if (length > BODY_MAX)
        return lac__problem_set(problem, 413, "body_too_large", NULL,
                                "body is %zu bytes, allowed %d", length, (int)BODY_MAX);
    if (!length || !lac__json_scan(body, length, problem))
        return length ? false
                      : lac__problem_set(problem, 400, "invalid_json", NULL,
                                         "body is empty, allowed a JSON object");
    json_t *json = json_loadb(body, length, JSON_REJECT_DUPLICATES, NULL);
    bool good_body = read_body(json, request, good, problem);
    json_decref(json);
    return good_body;
}

static int http_of(lac_status status)
{
    return status == LAC_ENOTFOUND ? 404 : status == LAC_EEXIST ? 409 : 400;
}

void lac__feedback(lac__conn *conn)
{
    const lac_frontend_hooks *hooks = &conn->frontend->hooks;
    const lac_buf *body = &conn->request.body;
    lac__problem problem;
    uint64_t request;
    bool good;
    lac_error err;
    if (!lac__feedback_parse(body->data, body->length, &request, &good, &problem)) {
        lac__conn_problem(conn, &problem);
        return;
    }
    lac_status status = hooks->feedback(hooks->arg, conn->tenant, request, good, &err);
    if (status != LAC_OK) {
        lac__problem_set(&problem, http_of(status), "feedback_not_taken", "request", "%s",
                         err.text);
        lac__conn_problem(conn, &problem);
        return;
    }
    lac_buf reply = {.cap = 256};
    lac_buf_printf(&reply,
                   "{\"object\":\"feedback\",\"request\":\"%" PRIu64 "\",\"rating\":\"%s\"}",
                   request, good ? "good" : "bad");
    lac__conn_reply(conn, 200, "application/json", "", &reply);
    lac_buf_free(&reply);
}
