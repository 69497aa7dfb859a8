/* The client handle: making it, asking for status, closing it. Runs on the user's threads; the
 * internal thread is in loop.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/rng.h"
#include "base/text.h"
#include "client.h"

static const char default_endpoint[] = "tcp://127.0.0.1:7070";

static lac_status load_keys(lac_client *client, const char *key, const char *server_key,
                            lac_error *err)
{
    if (!key && !server_key)
        return LAC_OK;
    if (!key || !server_key)
        return lac_fail(err, LAC_EINVAL, "%s is NULL: keys need both", key ? "server_key" : "key");
    client->keyed = true;
    lac_status status = lac_key_load(key, &client->key, err);
    return status ? status : lac_key_load_public(server_key, client->server_key, err);
}

int lac_client_key_make(const char *path)
{
    lac_error err = {0};
    if (!path || !*path)
        return client_fail(LAC_CLIENT_INVALID, "path is empty");
    return lac_key_make(path, &err) ? client_fail(LAC_CLIENT_FAILED, "%s", err.text)
                                    : LAC_CLIENT_OK;
}

void lac_client_api_key_make(char key[LAC_CLIENT_API_KEY + 1], char hash[LAC_CLIENT_API_HASH + 1])
{
    uint8_t random[32];
    lac_digest digest;
    lac_random_bytes(random, sizeof random);
    memcpy(key, "lac-", 4);
    lac_hex(random, sizeof random, key + 4);
    lac_sha256(key, LAC_CLIENT_API_KEY, &digest);
    lac_hex(digest.bytes, sizeof digest.bytes, hash);
    explicit_bzero(random, sizeof random);
}

int lac_client_connect(const char *endpoint, lac_client **out)
{
    return lac_client_connect_keyed(endpoint, NULL, NULL, out);
}

int lac_client_connect_keyed(const char *endpoint, const char *key, const char *server_key,
                             lac_client **out)
{
    if (!out)
        return client_fail(LAC_CLIENT_INVALID, "out is NULL");
    if (!endpoint)
        endpoint = default_endpoint;
    size_t length = strnlen(endpoint, LAC_ENDPOINT_MAX + 1);
    if (length > LAC_ENDPOINT_MAX)
        return client_fail(LAC_CLIENT_INVALID, "endpoint has more than %d bytes", LAC_ENDPOINT_MAX);
    lac_client *client = lac_alloc(1, sizeof *client);
    memcpy(client->endpoint, endpoint, length);
    pthread_mutex_init(&client->lock, NULL);
    client->references = 1;

    lac_error err = {0};
    lac_status status = load_keys(client, key, server_key, &err);
    if (!status)
        status = loop_start(client, &err);
    explicit_bzero(&client->key, sizeof client->key);
    if (status) {
        pthread_mutex_destroy(&client->lock);
        free(client);
        return client_fail(status == LAC_EINVAL ? LAC_CLIENT_INVALID : LAC_CLIENT_FAILED, "%s",
                           err.text);
    }
    *out = client;
    return LAC_CLIENT_OK;
}

void client_unref(lac_client *client)
{
    bool last = --client->references == 0;
    pthread_mutex_unlock(&client->lock);
    if (!last)
        return;
    pthread_mutex_destroy(&client->lock);
    free(client);
}

/* Streams the user still holds keep the handle's memory, and say that the client was closed. */
void lac_client_close(lac_client **client)
{
    if (!client || !*client)
        return;
    lac_client *c = *client;
    *client = NULL;
    loop_stop(c);
    pthread_mutex_lock(&c->lock);
    lac_stream *stream, *next;
    HASH_ITER(hh, c->streams, stream, next)
    {
        stream_end(stream, LAC_CLIENT_LOST, "the client was closed");
        if (stream->released)
            stream_free(stream);
    }
    client_unref(c);
}

/* ---- status ---- */

static void question_unlink(lac_client *client, const client_question *waiter)
{
    for (client_question **at = &client->questions; *at; at = &(*at)->next) {
        if (*at == waiter) {
            *at = waiter->next;
            return;
        }
    }
}

bool client_wait(pthread_cond_t *changed, pthread_mutex_t *lock, const struct timespec *end)
{
    if (!end)
        return pthread_cond_wait(changed, lock) == 0;
    return pthread_cond_timedwait(changed, lock, end) != ETIMEDOUT;
}

void client_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

void client_deadline(int timeout_ms, struct timespec *out)
{
    clock_gettime(CLOCK_MONOTONIC, out);
    out->tv_sec += timeout_ms / 1000;
    out->tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (out->tv_nsec >= 1000000000) {
        out->tv_sec++;
        out->tv_nsec -= 1000000000;
    }
}

int client_ask(lac_client *client, client_question *q, int timeout_ms, char **json)
{
    struct timespec end;
    client_deadline(timeout_ms < 0 ? 0 : timeout_ms, &end);
    client_cond_init(&q->changed);

    pthread_mutex_lock(&client->lock);
    q->id = ++client->last_id;
    q->next = client->questions;
    client->questions = q;
    loop_wake(client);
    while (!q->done)
        if (!client_wait(&q->changed, &client->lock, timeout_ms < 0 ? NULL : &end))
            break;
    question_unlink(client, q);
    bool connected = client->connected;
    pthread_mutex_unlock(&client->lock);

    pthread_cond_destroy(&q->changed);
    if (q->done && q->result)
        return client_fail(q->result, "%s", q->error);
    if (q->done) {
        *json = q->json;
        return LAC_CLIENT_OK;
    }
    if (!connected)
        return client_fail(LAC_CLIENT_LOST, "no coordinator at %s", client->endpoint);
    return client_fail(LAC_CLIENT_TIMEOUT, "no answer from %s within %d ms", client->endpoint,
                       timeout_ms);
}

int lac_client_status(lac_client *client, int timeout_ms, char **json)
{
    if (!client || !json)
        return client_fail(LAC_CLIENT_INVALID, "%s is NULL", client ? "json" : "client");
    client_question q = {.type = LAC_MSG_STATUS_QUERY, .reply = LAC_MSG_STATUS_REPLY};
    return client_ask(client, &q, timeout_ms, json);
}

int lac_client_path(lac_client *client, const char *text, size_t length, int timeout_ms,
                    char **json)
{
    if (!client || !text || !json)
        return client_fail(LAC_CLIENT_INVALID, "client, text or json is NULL");
    if (!length || length > LAC_PROMPT_BYTES_MAX / 2)
        return client_fail(LAC_CLIENT_INVALID, "text has %zu bytes, allowed 1..%d", length,
                           LAC_PROMPT_BYTES_MAX / 2);
    if (!lac_utf8_valid(text, length))
        return client_fail(LAC_CLIENT_INVALID, "text is not UTF-8");
    client_question q = {.type = LAC_MSG_PATH_QUERY, .reply = LAC_MSG_PATH_REPLY};
    q.msg.body.path_query.prompt =
        (lac_prompt){.kind = LAC_PROMPT_TEXT, .text = {text, (uint32_t)length}};
    return client_ask(client, &q, timeout_ms, json);
}

int lac_client_path_of(lac_client *client, uint64_t request, int timeout_ms, char **json)
{
    if (!client || !json || !request)
        return client_fail(LAC_CLIENT_INVALID, "client or json is NULL, or request is 0");
    client_question q = {.type = LAC_MSG_PATH_QUERY, .reply = LAC_MSG_PATH_REPLY};
    q.msg.body.path_query.request = request;
    return client_ask(client, &q, timeout_ms, json);
}

int lac_client_plan(lac_client *client, int timeout_ms, char **json)
{
    if (!client || !json)
        return client_fail(LAC_CLIENT_INVALID, "%s is NULL", client ? "json" : "client");
    client_question q = {.type = LAC_MSG_PLAN_QUERY, .reply = LAC_MSG_PLAN_REPLY};
    return client_ask(client, &q, timeout_ms, json);
}

int lac_client_force(lac_client *client, const char *class_name, int timeout_ms, char **json)
{
    if (!client || !json)
        return client_fail(LAC_CLIENT_INVALID, "%s is NULL", client ? "json" : "client");
    client_question q = {.type = LAC_MSG_PATH_FORCE, .reply = LAC_MSG_PLAN_REPLY};
    lac_path_force *force = &q.msg.body.path_force;
    if (class_name &&
        snprintf(force->class_name, sizeof force->class_name, "%s", class_name) > LAC_NAME_MAX)
        return client_fail(LAC_CLIENT_INVALID, "class_name has more than %d bytes", LAC_NAME_MAX);
    return client_ask(client, &q, timeout_ms, json);
}

int lac_client_scale(lac_client *client, uint32_t groups_min, uint32_t groups_max, int timeout_ms,
                     char **json)
{
    if (!client || !json)
        return client_fail(LAC_CLIENT_INVALID, "%s is NULL", client ? "json" : "client");
    if (groups_min > groups_max || groups_max > LAC_GROUPS_MAX)
        return client_fail(LAC_CLIENT_INVALID, "groups is %u..%u, allowed 0..%d", groups_min,
                           groups_max, LAC_GROUPS_MAX);
    client_question q = {.type = LAC_MSG_SCALE, .reply = LAC_MSG_ORDERED};
    q.msg.body.scale.groups_min = groups_min;
    q.msg.body.scale.groups_max = groups_max;
    return client_ask(client, &q, timeout_ms, json);
}

int lac_client_drain(lac_client *client, const char *group, uint32_t deadline_ms, int timeout_ms,
                     char **json)
{
    if (!client || !group || !json)
        return client_fail(LAC_CLIENT_INVALID, "client, group or json is NULL");
    if (!*group || strlen(group) > LAC_NAME_MAX)
        return client_fail(LAC_CLIENT_INVALID, "group has %zu bytes, allowed 1..%d", strlen(group),
                           LAC_NAME_MAX);
    client_question q = {.type = LAC_MSG_DRAIN_GROUP, .reply = LAC_MSG_ORDERED};
    snprintf(q.msg.body.drain_group.group, sizeof q.msg.body.drain_group.group, "%s", group);
    q.msg.body.drain_group.deadline_ms = deadline_ms;
    return client_ask(client, &q, timeout_ms, json);
}

int lac_client_feedback(lac_client *client, uint64_t request, int good, int timeout_ms, char **json)
{
    if (!client || !json || !request)
        return client_fail(LAC_CLIENT_INVALID, "client or json is NULL, or request is 0");
    client_question q = {.type = LAC_MSG_FEEDBACK, .reply = LAC_MSG_ORDERED};
    q.msg.body.feedback.request = request;
    q.msg.body.feedback.good = good != 0;
    return client_ask(client, &q, timeout_ms, json);
}
