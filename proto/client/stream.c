/* A stream: the request as the user gave it, the pieces of its answer, and its end. Called from the
 * user's threads, and with the lock held from the internal one. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "client.h"

/* ---- submit ---- */

static lac_span copy_text(lac_arena *memory, const char *text, size_t *left)
{
    size_t length = strnlen(text, *left);
    *left -= length;
    if (!length)
        return (lac_span){0};
    char *copy = lac_arena_alloc(memory, length);
    memcpy(copy, text, length);
    return (lac_span){copy, (uint32_t)length};
}

static int fill_messages(const lac_client_request *request, lac_arena *memory, lac_prompt *out)
{
    size_t count = request->messages_count, left = LAC_PROMPT_BYTES_MAX;
    if (count > LAC_MESSAGES_MAX)
        return client_fail(LAC_CLIENT_INVALID, "messages_count is %zu, allowed: 1 to %d", count,
                           LAC_MESSAGES_MAX);
    lac_chat_message *messages = lac_arena_alloc(memory, count * sizeof *messages);
    for (size_t i = 0; i < count; i++) {
        const lac_client_message *from = &request->messages[i];
        if (!from->role || !from->content)
            return client_fail(LAC_CLIENT_INVALID, "messages[%zu].%s is NULL", i,
                               from->role ? "content" : "role");
        if (snprintf(messages[i].role, sizeof messages[i].role, "%s", from->role) >
            LAC_ROLE_BYTES_MAX)
            return client_fail(LAC_CLIENT_INVALID, "messages[%zu].role has more than %d bytes", i,
                               LAC_ROLE_BYTES_MAX);
        messages[i].content = copy_text(memory, from->content, &left);
        if (from->content[messages[i].content.length])
            return client_fail(LAC_CLIENT_INVALID, "messages have more than %d bytes",
                               LAC_PROMPT_BYTES_MAX);
    }
    out->kind = LAC_PROMPT_CHAT;
    out->messages = messages;
    out->messages_count = (uint32_t)count;
    return LAC_CLIENT_OK;
}

static int fill_prompt(const lac_client_request *request, lac_arena *memory, lac_prompt *out)
{
    bool chat = request->messages && request->messages_count;
    if (chat == (request->prompt != NULL))
        return client_fail(LAC_CLIENT_INVALID, "%s given, allowed: either prompt or messages",
                           chat ? "prompt and messages are" : "neither prompt nor messages is");
    if (chat)
        return fill_messages(request, memory, out);
    size_t left = LAC_PROMPT_BYTES_MAX;
    out->kind = LAC_PROMPT_TEXT;
    out->text = copy_text(memory, request->prompt, &left);
    if (request->prompt[out->text.length])
        return client_fail(LAC_CLIENT_INVALID, "prompt has more than %d bytes",
                           LAC_PROMPT_BYTES_MAX);
    return LAC_CLIENT_OK;
}

static int fill_sampling(const lac_client_request *request, lac_sampling *out)
{
    *out = lac_sampling_default();
    out->temperature = (float)request->temperature;
    out->top_p = (float)request->top_p;
    out->min_p = (float)request->min_p;
    out->top_k = request->top_k;
    out->has_seed = request->has_seed != 0;
    out->seed = request->seed;
    out->max_tokens = request->max_tokens;
    if (request->stops_count > LAC_STOPS_MAX)
        return client_fail(LAC_CLIENT_INVALID, "stops_count is %zu, allowed: at most %d",
                           request->stops_count, LAC_STOPS_MAX);
    for (size_t i = 0; i < request->stops_count; i++) {
        const char *stop = request->stops[i];
        size_t length = stop ? strnlen(stop, LAC_STOP_BYTES_MAX + 1) : 0;
        if (length < 1 || length > LAC_STOP_BYTES_MAX)
            return client_fail(LAC_CLIENT_INVALID, "stops[%zu] is empty or has more than %d bytes",
                               i, LAC_STOP_BYTES_MAX);
        out->stops[i].length = (uint32_t)length;
        memcpy(out->stops[i].bytes, stop, length);
    }
    out->stops_count = (uint32_t)request->stops_count;
    lac_error err;
    if (lac_sampling_check(out, 0, &err))
        return client_fail(LAC_CLIENT_INVALID, "%s", err.text);
    return LAC_CLIENT_OK;
}

/* Fields that a program made with an older header does not have. */
static int fill_class(const lac_client_request *request, lac_submit *out)
{
    if (request->size < offsetof(lac_client_request, class_name) + sizeof request->class_name)
        return LAC_CLIENT_OK;
    /* A hint of the wrong length is the server's to judge and to count. */
    if (request->hint &&
        snprintf(out->hint, sizeof out->hint, "%s", request->hint) > LAC_HINT_TEXT_MAX)
        return client_fail(LAC_CLIENT_INVALID, "hint has more than %d bytes", LAC_HINT_TEXT_MAX);
    if (request->class_name &&
        snprintf(out->force, sizeof out->force, "%s", request->class_name) > LAC_NAME_MAX)
        return client_fail(LAC_CLIENT_INVALID, "class_name has more than %d bytes", LAC_NAME_MAX);
    out->sparse = request->sparse > 0   ? LAC_SPARSE_ON
                  : request->sparse < 0 ? LAC_SPARSE_OFF
                                        : LAC_SPARSE_DEFAULT;
    return LAC_CLIENT_OK;
}

static int fill_submit(const lac_client_request *request, lac_stream *stream)
{
    lac_submit *out = stream->submit;
    out->credit = CLIENT_CREDIT;
    out->deadline_ms = request->deadline_ms;
    if (request->model &&
        snprintf(out->model, sizeof out->model, "%s", request->model) > LAC_MODEL_NAME_MAX)
        return client_fail(LAC_CLIENT_INVALID, "model has more than %d bytes", LAC_MODEL_NAME_MAX);
    int rc = fill_class(request, out);
    if (request->size >= sizeof *request && request->patience_ms)
        stream->patience_until_ms = lac_now_ms() + request->patience_ms;
    if (!rc)
        rc = fill_prompt(request, stream->memory, &out->prompt);
    return rc ? rc : fill_sampling(request, &out->sampling);
}

void stream_forget_submit(lac_stream *stream)
{
    lac_arena_destroy(&stream->memory);
    stream->submit = NULL;
}

static lac_stream *stream_new(void)
{
    lac_stream *stream = lac_alloc(1, sizeof *stream);
    /* The copies come to the limits' size at most; the rest is for rounding and the structs. */
    stream->memory = lac_arena_create((size_t)2 * LAC_PROMPT_BYTES_MAX);
    stream->submit = lac_arena_alloc(stream->memory, sizeof *stream->submit);
    client_cond_init(&stream->changed);
    return stream;
}

static void stream_delete(lac_stream *stream)
{
    stream_forget_submit(stream);
    for (stream_piece *p = stream->head; p;) {
        stream_piece *next = p->next;
        free(p);
        p = next;
    }
    free(stream->shown);
    free(stream->masks[0]);
    free(stream->masks[1]);
    pthread_cond_destroy(&stream->changed);
    free(stream);
}

static int enlist(lac_client *client, lac_stream *stream)
{
    int rc = LAC_CLIENT_OK;
    pthread_mutex_lock(&client->lock);
    if (HASH_COUNT(client->streams) >= CLIENT_STREAMS_MAX) {
        rc = client_fail(LAC_CLIENT_BUSY, "%d streams are open, allowed: %d", CLIENT_STREAMS_MAX,
                         CLIENT_STREAMS_MAX);
    } else {
        stream->client = client;
        stream->id = stream->submit->stream = ++client->last_id;
        stream->since_ms = lac_now_ms();
        HASH_ADD(hh, client->streams, id, sizeof stream->id, stream);
        client->references++;
        loop_wake(client);
    }
    pthread_mutex_unlock(&client->lock);
    return rc;
}

int lac_client_submit(lac_client *client, const lac_client_request *request, lac_stream **out)
{
    if (!client || !request || !out)
        return client_fail(LAC_CLIENT_INVALID, "client, request or out is NULL");
    /* A request made with a newer header may ask for what this library does not know. */
    if (request->size < offsetof(lac_client_request, deadline_ms) + sizeof request->deadline_ms ||
        request->size > sizeof *request)
        return client_fail(LAC_CLIENT_INVALID,
                           "request.size is %zu, allowed: %zu; start from LAC_CLIENT_REQUEST_INIT",
                           request->size, sizeof *request);
    lac_stream *stream = stream_new();
    int rc = fill_submit(request, stream);
    if (!rc)
        rc = enlist(client, stream);
    if (rc)
        stream_delete(stream);
    else
        *out = stream;
    return rc;
}

/* ---- from the internal thread, with the lock held ---- */

void stream_end(lac_stream *stream, int result, const char *format, ...)
{
    if (stream->state == STREAM_ENDED)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(stream->error, sizeof stream->error, format, args);
    va_end(args);
    stream->result = result;
    stream->state = STREAM_ENDED;
    stream_forget_submit(stream);
    pthread_cond_broadcast(&stream->changed);
}

/* It changes at most twice: when a class is given up, and at the end. */
void stream_account(lac_stream *stream, const lac_run_account *account)
{
    if (!account || stream->state == STREAM_ENDED)
        return;
    const char *mask = account->mask ? account->mask : "";
    if (!stream->has_account || strcmp(stream->account.mask, mask) != 0) {
        free(stream->masks[1]);
        stream->masks[1] = stream->masks[0];
        stream->masks[0] = lac_strndup(mask, strlen(mask));
    }
    stream->account = *account;
    stream->account.mask = stream->masks[0];
    stream->has_account = true;
}

void stream_add(lac_stream *stream, const lac_chunk *chunk)
{
    if (stream->state == STREAM_ENDED || stream->released)
        return;
    if (stream->waiting + stream->owed >= CLIENT_CREDIT) {
        stream_end(stream, LAC_CLIENT_FAILED,
                   "the coordinator sent more than %d messages of credit", CLIENT_CREDIT);
        return;
    }
    if (chunk->tokens_count && chunk->first_pos != stream->next_pos) {
        stream_end(stream, LAC_CLIENT_FAILED, "tokens came from position %u, expected %u",
                   chunk->first_pos, stream->next_pos);
        return;
    }
    size_t tokens_bytes = chunk->tokens_count * sizeof(uint32_t);
    stream_piece *p = lac_try_alloc(1, sizeof *p + tokens_bytes + chunk->text.length);
    if (!p) {
        stream_end(stream, LAC_CLIENT_FAILED, "out of memory for %u tokens", chunk->tokens_count);
        return;
    }
    p->tokens = (uint32_t *)(p + 1);
    p->text = (char *)p->tokens + tokens_bytes;
    p->tokens_count = chunk->tokens_count;
    p->length = chunk->text.length;
    if (tokens_bytes)
        memcpy(p->tokens, chunk->tokens, tokens_bytes);
    if (p->length)
        memcpy(p->text, chunk->text.data, p->length);
    *(stream->head ? &stream->tail->next : &stream->head) = p;
    stream->tail = p;
    stream->waiting++;
    stream->next_pos += chunk->tokens_count;
    pthread_cond_broadcast(&stream->changed);
}

void stream_free(lac_stream *stream)
{
    lac_client *client = stream->client;
    HASH_DEL(client->streams, stream);
    client->references--;
    stream_delete(stream);
}

/* ---- reading ---- */

/* The oldest piece becomes the one shown. The coordinator may send another in its place once enough
 * are owed to be worth a message. */
static void take_piece(lac_stream *stream, lac_client_piece *out)
{
    stream_piece *p = stream->head;
    stream->head = p->next;
    free(stream->shown);
    stream->shown = p;
    stream->waiting--;
    if (++stream->owed >= CLIENT_CREDIT / 2 && stream->state == STREAM_SENT)
        loop_wake(stream->client);
    *out = (lac_client_piece){
        .text = p->text, .length = p->length, .tokens = p->tokens, .tokens_count = p->tokens_count};
}

static int take_end(lac_stream *stream, lac_client_piece *out)
{
    if (stream->result)
        return client_fail(stream->result, "%s", stream->error);
    *out = (lac_client_piece){.text = "", .done = 1, .finish = lac_finish_name(stream->finish)};
    return LAC_CLIENT_OK;
}

int lac_stream_next(lac_stream *stream, int timeout_ms, lac_client_piece *piece)
{
    if (!stream || !piece)
        return client_fail(LAC_CLIENT_INVALID, "%s is NULL", stream ? "piece" : "stream");
    struct timespec end;
    client_deadline(timeout_ms < 0 ? 0 : timeout_ms, &end);
    pthread_mutex_t *lock = &stream->client->lock;
    int rc = LAC_CLIENT_OK;
    pthread_mutex_lock(lock);
    while (!stream->head && stream->state != STREAM_ENDED) {
        if (!client_wait(&stream->changed, lock, timeout_ms < 0 ? NULL : &end)) {
            rc = LAC_CLIENT_TIMEOUT;
            break;
        }
    }
    if (stream->head)
        take_piece(stream, piece), rc = LAC_CLIENT_OK;
    else if (stream->state == STREAM_ENDED)
        rc = take_end(stream, piece);
    else
        client_fail(rc, "nothing came within %d ms", timeout_ms);
    pthread_mutex_unlock(lock);
    return rc;
}

void lac_stream_cancel(lac_stream *stream)
{
    if (!stream)
        return;
    pthread_mutex_lock(&stream->client->lock);
    stream->cancel = true;
    loop_wake(stream->client);
    pthread_mutex_unlock(&stream->client->lock);
}

void lac_stream_usage(const lac_stream *stream, uint32_t *prompt_tokens,
                      uint32_t *completion_tokens)
{
    lac_usage usage = {0};
    if (stream) {
        pthread_mutex_lock(&stream->client->lock);
        usage = stream->usage;
        pthread_mutex_unlock(&stream->client->lock);
    }
    if (prompt_tokens)
        *prompt_tokens = usage.prompt_tokens;
    if (completion_tokens)
        *completion_tokens = usage.completion_tokens;
}

uint32_t lac_stream_cached_tokens(const lac_stream *stream)
{
    if (!stream)
        return 0;
    pthread_mutex_lock(&stream->client->lock);
    uint32_t cached_tokens = stream->usage.cached_tokens;
    pthread_mutex_unlock(&stream->client->lock);
    return cached_tokens;
}

int lac_stream_account(lac_stream *stream, lac_client_account *account)
{
    if (!stream || !account)
        return client_fail(LAC_CLIENT_INVALID, "%s is NULL", stream ? "account" : "stream");
    pthread_mutex_lock(&stream->client->lock);
    bool known = stream->has_account;
    const lac_run_account *a = &stream->account;
    if (known)
        *account = (lac_client_account){.class_name = a->class_name,
                                        .mask = a->mask,
                                        .why = a->why,
                                        .layers = a->layers,
                                        .active_layers = a->active_layers,
                                        .skip_rate = (double)a->skip_rate,
                                        .cost_skip_rate = (double)a->cost_skip_rate,
                                        .flops = a->flops,
                                        .kv_bytes = a->kv_bytes,
                                        .forced = a->forced};
    pthread_mutex_unlock(&stream->client->lock);
    return known ? LAC_CLIENT_OK
                 : client_fail(LAC_CLIENT_TIMEOUT, "nothing is known of what this request runs");
}

uint32_t lac_stream_retry_after_ms(const lac_stream *stream)
{
    if (!stream)
        return 0;
    pthread_mutex_lock(&stream->client->lock);
    uint32_t retry_after_ms = stream->retry_after_ms;
    pthread_mutex_unlock(&stream->client->lock);
    return retry_after_ms;
}

/* A running one is cancelled first, so it stays with the internal thread until that has been said.
 */
void lac_stream_close(lac_stream **stream)
{
    if (!stream || !*stream)
        return;
    lac_stream *s = *stream;
    lac_client *client = s->client;
    *stream = NULL;
    pthread_mutex_lock(&client->lock);
    if (s->state != STREAM_ENDED && !client->stopping) {
        s->released = s->cancel = true;
        loop_wake(client);
        pthread_mutex_unlock(&client->lock);
        return;
    }
    client->references++; /* so that freeing the stream does not free the lock we hold */
    stream_free(s);
    client_unref(client);
}
