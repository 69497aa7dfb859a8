/* Replies that wait for the store or for the pool. Owns the memory of one such request from its
 * complete body to its reply, also when its client leaves meanwhile. Loop thread; `run` is the
 * pool's. */
#include "later.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "connection.h"

lac__later *lac__later_start(struct lac__conn *conn)
{
    lac_frontend *frontend = conn->frontend;
    if (!frontend->options.store) {
        lac__problem problem;
        lac__problem_set(&problem, 404, "unknown_url", NULL,
                         "files and batches are not kept here: this server runs with --jobs off, "
                         "or another one has its state directory");
        lac__conn_problem(conn, &problem);
        return NULL;
    }
    lac__later *later = lac_alloc(1, sizeof *later);
    later->frontend = frontend;
    later->conn = conn;
    later->work.data = later;
    later->body = conn->request.body;
    conn->request.body = (lac_buf){.cap = later->body.cap};
    later->text.cap = LAC_HTTP_REPLY_MAX;
    memcpy(later->call.tenant, conn->tenant, sizeof later->call.tenant);
    conn->later = later;
    frontend->jobs++;
    return later;
}

static void later_free(lac__later *later)
{
    lac_frontend *frontend = later->frontend;
    lac_store_call_free(&later->call);
    lac_buf_free(&later->body);
    lac_buf_free(&later->text);
    if (later->free_data)
        later->free_data(later->data);
    free(later);
    frontend->jobs--;
    lac__frontend_maybe_free(frontend);
}

static struct lac__conn *leave(lac__later *later)
{
    struct lac__conn *conn = later->conn;
    if (conn)
        conn->later = NULL;
    later->conn = NULL;
    return conn;
}

void lac__later_gone(lac__later *later)
{
    leave(later);
}

void lac__later_reply(lac__later *later, const char *type)
{
    struct lac__conn *conn = leave(later);
    if (later->text.overflow) {
        lac__problem problem;
        lac__problem_set(&problem, 500, "reply_too_large", NULL,
                         "the reply is over %d bytes, the most allowed", LAC_HTTP_REPLY_MAX);
        if (conn)
            lac__conn_problem(conn, &problem);
    } else if (conn) {
        lac__conn_reply(conn, 200, type, "", &later->text);
    }
    later_free(later);
}

void lac__later_problem(lac__later *later, const lac__problem *problem)
{
    struct lac__conn *conn = leave(later);
    if (conn)
        lac__conn_problem(conn, problem);
    later_free(later);
}

/* What the store's refusals are to a client. */
static void refuse(lac__later *later, const lac_error *err)
{
    static const struct {
        lac_status status;
        int http;
        const char *code;
    } table[] = {
        {LAC_EINVAL, 400, "invalid_value"},
        {LAC_ETOOBIG, 400, "too_large"},
        {LAC_ENOTFOUND, 404, "not_found"},
        {LAC_EEXIST, 409, "idempotency_key_in_use"},
        {LAC_BUSY, 429, "busy"},
        {LAC_EIO, 507, "insufficient_storage"},
        {LAC_ECANCELLED, 503, "shutting_down"},
    };
    lac__problem problem;
    int http = 500;
    const char *code = "internal_error";
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].status == err->status) {
            http = table[i].http;
            code = table[i].code;
        }
    lac__problem_set(&problem, http, code, NULL, "%s", err->text);
    if (http == 429 || http == 507)
        problem.retry_after_ms = http == 429 ? 1000 : 10000;
    lac__later_problem(later, &problem);
}

static void on_answer(lac_store_call *call)
{
    lac__later *later = call->arg;
    if (!later->conn) {
        later_free(later);
    } else if (call->error.status != LAC_OK) {
        lac_error err = call->error;
        refuse(later, &err);
    } else {
        later->next(later);
    }
}

void lac__later_ask(lac__later *later, void (*next)(lac__later *later))
{
    lac_error err = {0};
    later->next = next;
    later->call.done = on_answer;
    later->call.arg = later;
    if (lac_store_do(later->frontend->options.store, &later->call, &err) != LAC_OK)
        refuse(later, &err);
}

static void work_run(uv_work_t *work)
{
    lac__later *later = work->data;
    later->run(later);
}

static void work_done(uv_work_t *work, int status)
{
    lac__later *later = work->data;
    (void)status; /* nobody cancels it */
    if (later->conn)
        later->next(later);
    else
        later_free(later);
}

void lac__later_work(lac__later *later, void (*run)(lac__later *later),
                     void (*next)(lac__later *later))
{
    later->run = run;
    later->next = next;
    int error = uv_queue_work(later->frontend->loop, &later->work, work_run, work_done);
    LAC_ASSERT(error == 0); /* it can only be refused without a function */
}

/* ---- URLs ---- */

void lac__path_below(const struct lac__conn *conn, const char *prefix, char *out, size_t size)
{
    const char *url = conn->request.url, *at = strstr(url, prefix);
    size_t length = at ? strcspn(at + strlen(prefix), "?#") : 0;
    out[0] = '\0';
    if (!at || length >= size)
        return;
    memcpy(out, at + strlen(prefix), length);
    out[length] = '\0';
}

bool lac__query_value(const struct lac__conn *conn, const char *name, char *out, size_t size)
{
    const char *at = strchr(conn->request.url, '?');
    size_t own = strlen(name);
    while (at && *at && *at != '#') {
        at++;
        size_t length = strcspn(at, "&#");
        if (length > own && !strncmp(at, name, own) && at[own] == '=' && length - own <= size) {
            memcpy(out, at + own + 1, length - own - 1);
            out[length - own - 1] = '\0';
            return true;
        }
        at += length;
    }
    return false;
}
