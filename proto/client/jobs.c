/* Batch jobs: submitting in pieces, asking, waiting. Runs on the user's threads; the questions
 * themselves travel as any other (client.c, loop.c). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/rng.h"
#include "base/text.h"
#include "client.h"

enum { PIECE_BYTES = 2 << 20, PIECE_ITEMS = 5000, POLL_MS = 200 };

static int ask_job(lac_client *client, client_question *q, int timeout_ms, char **json)
{
    q->reply = LAC_MSG_JOB_REPLY;
    return client_ask(client, q, timeout_ms, json);
}

/* ---- submitting ---- */

static int fill(const lac_client_job *job, lac_job_submit *out)
{
    uint8_t random[16];
    if (job->size != sizeof *job)
        return client_fail(LAC_CLIENT_INVALID, "size is %zu, allowed: %zu", job->size, sizeof *job);
    out->endpoint = job->endpoint ? lac_job_endpoint_of(job->endpoint) : LAC_JOB_CHAT;
    if (!out->endpoint)
        return client_fail(LAC_CLIENT_INVALID,
                           "endpoint is \"%.64s\", allowed: /v1/chat/completions, /v1/completions",
                           job->endpoint);
    if (!job->items || !job->items_count || job->items_count > LAC_JOB_ITEMS_MAX)
        return client_fail(LAC_CLIENT_INVALID, "items_count is %zu, allowed 1..%d",
                           job->items ? job->items_count : 0, LAC_JOB_ITEMS_MAX);
    if (job->key && snprintf(out->key, sizeof out->key, "%s", job->key) > LAC_JOB_KEY_MAX)
        return client_fail(LAC_CLIENT_INVALID, "key has more than %d bytes", LAC_JOB_KEY_MAX);
    if (!job->key) { /* so that a piece whose answer was lost can be sent again */
        lac_random_bytes(random, sizeof random);
        lac_hex(random, sizeof random, out->key);
    }
    out->priority = job->priority;
    out->attempts_max = job->attempts_max;
    out->window_s = job->window_s;
    return LAC_CLIENT_OK;
}

/* As many of the items from `from` on as one message should hold; at least one. */
static int fill_items(const lac_client_job *job, size_t from, lac_job_item *items, uint32_t *count)
{
    size_t bytes = 0;
    *count = 0;
    while (from + *count < job->items_count && *count < PIECE_ITEMS && bytes < PIECE_BYTES) {
        const lac_client_item *item = &job->items[from + *count];
        size_t id = item->custom_id ? strlen(item->custom_id) : 0;
        if (id > LAC_JOB_CUSTOM_ID_MAX || !item->body || item->length > LAC_HTTP_BODY_MAX)
            return client_fail(LAC_CLIENT_INVALID,
                               "items[%zu] has a custom_id of %zu bytes and a body of %zu, allowed "
                               "at most %d and %d",
                               from + *count, id, item->body ? item->length : 0,
                               LAC_JOB_CUSTOM_ID_MAX, LAC_HTTP_BODY_MAX);
        if (*count && bytes + item->length > PIECE_BYTES)
            break;
        items[(*count)++] = (lac_job_item){.custom_id = {item->custom_id, (uint32_t)id},
                                           .body = {item->body, (uint32_t)item->length}};
        bytes += item->length + id;
    }
    return LAC_CLIENT_OK;
}

int lac_client_job_submit(lac_client *client, const lac_client_job *job, int timeout_ms,
                          char **json)
{
    if (!client || !job || !json)
        return client_fail(LAC_CLIENT_INVALID, "client, job or json is NULL");
    client_question q = {.type = LAC_MSG_JOB_SUBMIT};
    lac_job_submit *submit = &q.msg.body.job_submit;
    int rc = fill(job, submit);
    if (rc)
        return rc;
    lac_job_item *items = lac_alloc(PIECE_ITEMS, sizeof *items);
    char *answer = NULL;
    submit->items = items;
    for (size_t at = 0; !rc && at < job->items_count; at += submit->items_count) {
        rc = fill_items(job, at, items, &submit->items_count);
        if (rc)
            break;
        submit->first = (uint32_t)at;
        submit->more = at + submit->items_count < job->items_count;
        free(answer);
        answer = NULL;
        q.sent = q.done = false;
        rc = ask_job(client, &q, timeout_ms, &answer);
    }
    free(items);
    if (rc)
        free(answer);
    else
        *json = answer;
    return rc;
}

/* ---- asking ---- */

int lac_client_jobs(lac_client *client, uint64_t after, unsigned limit, int timeout_ms, char **json)
{
    if (!client || !json)
        return client_fail(LAC_CLIENT_INVALID, "%s is NULL", client ? "json" : "client");
    client_question q = {.type = LAC_MSG_JOB_QUERY};
    q.msg.body.job_query = (lac_job_query){.after = after, .limit = limit};
    return ask_job(client, &q, timeout_ms, json);
}

int lac_client_job_show(lac_client *client, uint64_t job, int timeout_ms, char **json)
{
    if (!client || !json || !job)
        return client_fail(LAC_CLIENT_INVALID, "client or json is NULL, or job is 0");
    client_question q = {.type = LAC_MSG_JOB_QUERY};
    q.msg.body.job_query.job = job;
    return ask_job(client, &q, timeout_ms, json);
}

int lac_client_job_results(lac_client *client, uint64_t job, unsigned first, int timeout_ms,
                           char **json)
{
    if (!client || !json || !job)
        return client_fail(LAC_CLIENT_INVALID, "client or json is NULL, or job is 0");
    client_question q = {.type = LAC_MSG_JOB_QUERY};
    q.msg.body.job_query = (lac_job_query){.job = job, .results = true, .first = first};
    return ask_job(client, &q, timeout_ms, json);
}

int lac_client_job_cancel(lac_client *client, uint64_t job, int timeout_ms, char **json)
{
    if (!client || !json || !job)
        return client_fail(LAC_CLIENT_INVALID, "client or json is NULL, or job is 0");
    client_question q = {.type = LAC_MSG_JOB_CANCEL};
    q.msg.body.job_cancel.job = job;
    return ask_job(client, &q, timeout_ms, json);
}

int lac_client_job_wait(lac_client *client, uint64_t job, int timeout_ms, char **json)
{
    uint64_t end = lac_now_ms() + (uint64_t)(timeout_ms < 0 ? 0 : timeout_ms);
    for (;;) {
        char *answer = NULL;
        int rc = lac_client_job_show(client, job, timeout_ms, &answer);
        if (rc)
            return rc;
        bool ended = strstr(answer, "\"ended\":true") != NULL;
        if (ended || (timeout_ms >= 0 && lac_now_ms() >= end)) {
            *json = answer;
            return ended ? LAC_CLIENT_OK
                         : client_fail(LAC_CLIENT_TIMEOUT, "the job has not ended within %d ms",
                                       timeout_ms);
        }
        free(answer);
        struct timespec pause = {0, POLL_MS * 1000000L};
        nanosleep(&pause, NULL);
    }
}
