/* The table of paths, and the handlers that answer without the core's help. Loop thread. Must not
 * know how bytes move. */
#include "routes.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "batches.h"
#include "connection.h"
#include "feedback.h"
#include "files.h"
#include "live.h"

static const char content_json[] = "application/json";

/* ---- health ---- */

static void probe(lac__conn *conn, bool good, const char *what)
{
    lac_buf body = {.cap = 1024};
    if (good) {
        lac_buf_text(&body, "{\"status\":\"ok\"}");
        lac__conn_reply(conn, 200, content_json, "Cache-Control: no-store\r\n", &body);
    } else {
        lac__problem problem;
        lac__problem_from_status(&problem, LAC_EREFUSED, 1000, what);
        lac__conn_problem(conn, &problem);
    }
    lac_buf_free(&body);
}

static void live(lac__conn *conn)
{
    const lac_frontend_hooks *hooks = &conn->frontend->hooks;
    probe(conn, hooks->alive(hooks->arg), "the coordinator makes no progress");
}

static void ready(lac__conn *conn)
{
    const lac_frontend_hooks *hooks = &conn->frontend->hooks;
    probe(conn, hooks->ready(hooks->arg), "no group of workers is ready");
}

static void metrics(lac__conn *conn)
{
    const lac_frontend_hooks *hooks = &conn->frontend->hooks;
    lac_buf body = {.cap = LAC_HTTP_REPLY_MAX};
    hooks->metrics(hooks->arg, &body);
    lac__conn_reply(conn, 200, "text/plain; version=0.0.4; charset=utf-8", "", &body);
    lac_buf_free(&body);
}

/* ---- models ---- */

static void models(lac__conn *conn)
{
    const lac_frontend_hooks *hooks = &conn->frontend->hooks;
    lac_buf body = {.cap = LAC_HTTP_REPLY_MAX};
    lac_buf_text(&body, "{\"object\":\"list\",\"data\":[");
    hooks->models(hooks->arg, &body);
    lac_buf_text(&body, "]}");
    lac__conn_reply(conn, 200, content_json, "", &body);
    lac_buf_free(&body);
}

/* The path without query and, from a proxy's absolute form, without scheme and authority. */
static size_t path_of(const lac__request *request, const char **path)
{
    const char *url = request->url;
    if (strncmp(url, "http://", 7) == 0) {
        url = strchr(url + 7, '/');
        if (!url)
            url = "/";
    }
    *path = url;
    return strcspn(url, "?#");
}

/* The list is the one text of models there is: one of them is picked out of it. */
static void model(lac__conn *conn)
{
    static const char prefix[] = "/v1/models/";
    const lac_frontend_hooks *hooks = &conn->frontend->hooks;
    const char *path;
    size_t length = path_of(&conn->request, &path) - (sizeof prefix - 1);
    const char *name = path + sizeof prefix - 1;
    lac_buf list = {.cap = LAC_HTTP_REPLY_MAX}, body = {.cap = LAC_HTTP_REPLY_MAX};
    lac_buf_text(&list, "[");
    hooks->models(hooks->arg, &list);
    lac_buf_text(&list, "]");
    json_t *all = json_loadb(list.data, list.length, 0, NULL), *entry;
    size_t index;
    json_array_foreach(all, index, entry)
    {
        const char *id = json_string_value(json_object_get(entry, "id"));
        if (!id || strlen(id) != length || memcmp(id, name, length) != 0)
            continue;
        char *text = json_dumps(entry, JSON_COMPACT);
        lac_buf_text(&body, text ? text : "{}");
        free(text);
        break;
    }
    json_decref(all);
    if (body.length > 0) {
        lac__conn_reply(conn, 200, content_json, "", &body);
    } else {
        lac__problem problem;
        lac__problem_set(&problem, 404, "model_not_found", "model",
                         "model \"%.*s\" is not served here",
                         (int)(length < LAC_MODEL_NAME_MAX ? length : LAC_MODEL_NAME_MAX), name);
        lac__conn_problem(conn, &problem);
    }
    lac_buf_free(&list);
    lac_buf_free(&body);
}

/* ---- completions ---- */

static void chat(lac__conn *conn)
{
    lac__exchange_start(conn, LAC__API_CHAT);
}

static void completion(lac__conn *conn)
{
    lac__exchange_start(conn, LAC__API_COMPLETION);
}

static void tokenize(lac__conn *conn)
{
    lac__exchange_start(conn, LAC__API_TOKENIZE);
}

static void detokenize(lac__conn *conn)
{
    lac__exchange_start(conn, LAC__API_DETOKENIZE);
}

static void responses(lac__conn *conn)
{
    lac__exchange_start(conn, LAC__API_RESPONSE);
}

static const lac__route routes[] = {
    {"/v1/responses", HTTP_POST, responses, "responses", false},
    {"/tokenize", HTTP_POST, tokenize, "tokenize", false},
    {"/detokenize", HTTP_POST, detokenize, "detokenize", false},
    {"/v1/files", HTTP_POST, lac__files_upload, "files", false},
    {"/v1/files", HTTP_GET, lac__files_list, "files", false},
    {"/v1/files/", HTTP_GET, lac__files_show, "file", false},
    {"/v1/files/", HTTP_DELETE, lac__files_delete, "file", false},
    {"/v1/batches", HTTP_POST, lac__batches_create, "batches", false},
    {"/v1/batches", HTTP_GET, lac__batches_list, "batches", false},
    {"/v1/batches/", HTTP_GET, lac__batches_show, "batch", false},
    {"/v1/batches/", HTTP_POST, lac__batches_cancel, "batch", false},
    {"/v1/chat/completions", HTTP_POST, chat, "chat", false},
    {"/v1/completions", HTTP_POST, completion, "completions", false},
    {"/v1/feedback", HTTP_POST, lac__feedback, "feedback", false},
    {"/v1/models", HTTP_GET, models, "models", false},
    {"/v1/models/", HTTP_GET, model, "model", false},
    {"/livez", HTTP_GET, live, "livez", true},
    {"/readyz", HTTP_GET, ready, "readyz", true},
    {"/health", HTTP_GET, ready, "health", true},
    {"/metrics", HTTP_GET, metrics, "metrics", true},
    {"/healthz", HTTP_GET, lac__live_health, "healthz", true},
    {"/", HTTP_GET, lac__live_show, "live", false},
    {"/live", HTTP_GET, lac__live_show, "live", false},
    {"/live.json", HTTP_GET, lac__live_state, "live", false},
};

/* The methods of a path, as a header says them. */
static const char *allowed(bool get, bool post, bool delete)
{
    static const char *const texts[] = {
        "",       "GET, HEAD",         "POST",         "GET, HEAD, POST",
        "DELETE", "GET, HEAD, DELETE", "POST, DELETE", "GET, HEAD, POST, DELETE"};
    return texts[get + 2 * post + 4 * delete];
}

const lac__route *lac__route_find(const lac__request *request, lac__problem *problem)
{
    const char *path, *found = NULL;
    size_t length = path_of(request, &path);
    uint8_t method = request->method == HTTP_HEAD ? HTTP_GET : request->method;
    bool get = false, post = false, delete = false;
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        size_t own = strlen(routes[i].path);
        bool below = own > 1 && routes[i].path[own - 1] == '/';
        if (length < own || (!below && length != own) || (below && length == own) ||
            memcmp(path, routes[i].path, own) != 0)
            continue;
        if (routes[i].method == method)
            return &routes[i];
        found = routes[i].path;
        get = get || routes[i].method == HTTP_GET;
        post = post || routes[i].method == HTTP_POST;
        delete = delete || routes[i].method == HTTP_DELETE;
    }
    if (found) {
        const char *allow = allowed(get, post, delete);
        lac__problem_set(problem, 405, "method_not_allowed", NULL,
                         "method %s is not allowed on %.100s, allowed %s",
                         llhttp_method_name(request->method), found, allow);
        problem->allow = allow;
        return NULL;
    }
    lac__problem_set(problem, 404, "unknown_url", NULL, "unknown URL: %s %.*s",
                     llhttp_method_name(request->method), (int)(length < 100 ? length : 100), path);
    return NULL;
}
