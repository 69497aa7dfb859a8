/* The internal thread: a libuv loop with one socket. Sends what the streams want sent, tries again
 * what did not go out, watches for silence. The only file that sends. */
#include <signal.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "client.h"

static lac_status send_msg(lac_client *client, lac_msg_type type, lac_msg *msg, lac_error *err)
{
    msg->envelope = (lac_envelope){.type = (uint16_t)type, .seq = client->seq + 1};
    lac_status status = lac_socket_send(client->socket, 1, msg, err);
    if (status == LAC_OK)
        client->seq++;
    return status;
}

/* ---- streams; with the lock held. Sending under it is fine: it never waits. ---- */

static void send_submit(lac_client *client, lac_stream *stream, uint64_t now)
{
    lac_msg msg = {.body.submit = *stream->submit};
    lac_error err;
    lac_status status = send_msg(client, LAC_MSG_SUBMIT, &msg, &err);
    if (status == LAC_OK) {
        stream->state = STREAM_SENT;
        if (!stream->patience_until_ms)
            stream_forget_submit(stream);
    } else if (status != LAC_BUSY && status != LAC_EPEER) {
        stream_end(stream, LAC_CLIENT_INVALID, "%s", err.text);
    } else if (now - stream->since_ms >= CLIENT_CONNECT_MS) {
        if (client->connected)
            stream_end(stream, LAC_CLIENT_BUSY, "the coordinator at %s takes nothing",
                       client->endpoint);
        else
            stream_end(stream, LAC_CLIENT_LOST, "no coordinator at %s", client->endpoint);
    }
}

static void send_cancel(lac_client *client, lac_stream *stream, uint64_t now)
{
    lac_msg msg = {.body.client_cancel.stream = stream->id};
    if (!stream->cancel_sent && send_msg(client, LAC_MSG_CLIENT_CANCEL, &msg, NULL) == LAC_OK) {
        stream->cancel_sent = true;
        stream->since_ms = now;
    }
    bool silent = stream->cancel_sent && now - stream->since_ms >= CLIENT_CANCEL_MS;
    bool nobody_waits = stream->released && (stream->cancel_sent || !client->connected);
    if (silent || nobody_waits) {
        stream->finish = LAC_FINISH_CANCEL;
        stream_end(stream, LAC_CLIENT_OK, "no error");
    }
}

static void send_credit(lac_client *client, lac_stream *stream)
{
    lac_msg msg = {.body.credit = {.stream = stream->id, .messages = stream->owed}};
    if (send_msg(client, LAC_MSG_CREDIT, &msg, NULL) == LAC_OK)
        stream->owed = 0;
}

/* Brings one stream to where its user wants it, as far as the socket allows. */
static void serve_stream(lac_client *client, lac_stream *stream, uint64_t now)
{
    if (stream->state == STREAM_NEW && stream->cancel) {
        stream->finish = LAC_FINISH_CANCEL;
        stream_end(stream, LAC_CLIENT_OK, "no error");
    } else if (stream->state == STREAM_NEW && now >= stream->not_before_ms) {
        send_submit(client, stream, now);
    } else if (stream->state == STREAM_SENT) {
        if (stream->owed >= CLIENT_CREDIT / 2)
            send_credit(client, stream);
        if (stream->cancel)
            send_cancel(client, stream, now);
    }
    if (stream->released && stream->state == STREAM_ENDED)
        stream_free(stream);
}

static void set_stream(client_question *q)
{
    switch (q->type) {
    case LAC_MSG_STATUS_QUERY: q->msg.body.status_query.stream = q->id; break;
    case LAC_MSG_PATH_QUERY: q->msg.body.path_query.stream = q->id; break;
    case LAC_MSG_PLAN_QUERY: q->msg.body.plan_query.stream = q->id; break;
    case LAC_MSG_PATH_FORCE: q->msg.body.path_force.stream = q->id; break;
    case LAC_MSG_SCALE: q->msg.body.scale.stream = q->id; break;
    case LAC_MSG_FEEDBACK: q->msg.body.feedback.stream = q->id; break;
    case LAC_MSG_DRAIN_GROUP: q->msg.body.drain_group.stream = q->id; break;
    case LAC_MSG_JOB_SUBMIT: q->msg.body.job_submit.stream = q->id; break;
    case LAC_MSG_JOB_QUERY: q->msg.body.job_query.stream = q->id; break;
    case LAC_MSG_JOB_CANCEL: q->msg.body.job_cancel.stream = q->id; break;
    default: LAC_ASSERT(!"a question of a known type");
    }
}

static void serve_questions(lac_client *client)
{
    for (client_question *q = client->questions; q; q = q->next) {
        set_stream(q);
        if (!q->sent && send_msg(client, q->type, &q->msg, NULL) == LAC_OK)
            q->sent = true;
    }
}

/* True while something waits for its turn or its answer, so that the tick must go on. */
static bool serve(lac_client *client)
{
    uint64_t now = lac_now_ms();
    bool open = false;
    lac_stream *stream, *next;
    pthread_mutex_lock(&client->lock);
    HASH_ITER(hh, client->streams, stream, next)
    {
        open |= stream->state != STREAM_ENDED;
        serve_stream(client, stream, now);
    }
    serve_questions(client);
    open |= client->questions != NULL;
    pthread_mutex_unlock(&client->lock);
    return open;
}

/* ---- the coordinator's silence ---- */

static bool any_sent(lac_client *client)
{
    bool sent = false;
    lac_stream *stream, *next;
    pthread_mutex_lock(&client->lock);
    HASH_ITER(hh, client->streams, stream, next)
    {
        sent |= stream->state == STREAM_SENT;
    }
    pthread_mutex_unlock(&client->lock);
    return sent;
}

/* ZeroMQ's heartbeats are answered by its own thread and so say nothing of a coordinator that
 * hangs. A running request may be silent for long, a question about status not. */
static void watch_silence(lac_client *client)
{
    uint64_t now = lac_now_ms();
    if (!any_sent(client)) {
        client->heard_ms = now;
    } else if (now - client->heard_ms >= CLIENT_SILENT_MS) {
        inbound_lost(client, "the coordinator does not answer");
        client->heard_ms = now;
    } else if (now - client->heard_ms >= CLIENT_PROBE_MS &&
               now - client->probed_ms >= CLIENT_PROBE_MS) {
        lac_msg msg = {.body.status_query.stream = 0};
        send_msg(client, LAC_MSG_STATUS_QUERY, &msg, NULL);
        client->probed_ms = now;
    }
}

/* ---- callbacks ---- */

static void on_tick(uv_timer_t *timer);

static void run_turn(lac_client *client)
{
    if (client->leaving)
        return;
    bool open = serve(client);
    if (open && !uv_is_active((uv_handle_t *)&client->tick)) {
        client->heard_ms = lac_now_ms();
        uv_timer_start(&client->tick, on_tick, CLIENT_TICK_MS, CLIENT_TICK_MS);
    } else if (!open) {
        uv_timer_stop(&client->tick);
    }
}

static void on_tick(uv_timer_t *timer)
{
    lac_client *client = timer->data;
    watch_silence(client);
    run_turn(client);
}

static void on_message(void *arg, uint64_t peer, const lac_msg *msg)
{
    lac_client *client = arg;
    (void)peer;
    client->heard_ms = lac_now_ms();
    inbound_message(client, msg);
}

/* What it held is unknown, so no answer that runs can be trusted to be whole. */
static void on_bad(void *arg, uint64_t peer, const lac_envelope *envelope, const lac_error *err)
{
    (void)peer;
    if (err->status == LAC_EUNSUPPORTED)
        return; /* a message of a newer minor version */
    (void)envelope;
    inbound_lost(arg, err->text);
}

static void set_connected(lac_client *client, bool connected)
{
    pthread_mutex_lock(&client->lock);
    client->connected = connected;
    pthread_mutex_unlock(&client->lock);
}

static void on_connected(void *arg)
{
    set_connected(arg, true);
    run_turn(arg);
}

static void on_lost(void *arg, uint64_t peer)
{
    (void)peer;
    set_connected(arg, false);
    inbound_lost(arg, "the connection to the coordinator broke");
}

/* ---- the thread ---- */

static void on_farewell(uv_timer_t *timer)
{
    lac_client *client = timer->data;
    lac_socket_close(&client->socket);
    uv_close((uv_handle_t *)&client->tick, NULL);
    uv_close((uv_handle_t *)&client->wake, NULL);
}

/* Says which requests nobody waits for any more, and leaves after a moment for that to go out. */
static void farewell(lac_client *client)
{
    unsigned said = 0;
    client->leaving = true;
    lac_stream *stream, *next;
    pthread_mutex_lock(&client->lock);
    HASH_ITER(hh, client->streams, stream, next)
    {
        lac_msg msg = {.body.client_cancel.stream = stream->id};
        if (stream->state == STREAM_SENT && !stream->cancel_sent)
            said += send_msg(client, LAC_MSG_CLIENT_CANCEL, &msg, NULL) == LAC_OK;
        said += stream->cancel_sent;
    }
    pthread_mutex_unlock(&client->lock);
    uv_timer_start(&client->tick, on_farewell, said ? CLIENT_FAREWELL_MS : 0, 0);
}

static void on_wake(uv_async_t *wake)
{
    lac_client *client = wake->data;
    pthread_mutex_lock(&client->lock);
    bool stopping = client->stopping;
    pthread_mutex_unlock(&client->lock);
    if (stopping)
        farewell(client);
    else
        run_turn(client);
}

static void *run(void *arg)
{
    lac_client *client = arg;
    uv_run(&client->loop, UV_RUN_DEFAULT);
    return NULL;
}

/* Signals are for the program's own threads. */
static int start_thread(lac_client *client)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&client->thread, NULL, run, client);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

lac_status loop_start(lac_client *client, lac_error *err)
{
    lac_status status = lac_wire_create(&client->wire, err);
    if (!status && client->keyed)
        status = lac_wire_trust(client->wire, &client->key, client->server_key, err);
    if (status) {
        lac_wire_destroy(&client->wire);
        return status;
    }
    int rc = uv_loop_init(&client->loop);
    if (rc) {
        status = lac_fail(err, LAC_EIO, "event loop: %s", uv_strerror(rc));
        goto destroy_wire;
    }
    uv_async_init(&client->loop, &client->wake, on_wake);
    uv_timer_init(&client->loop, &client->tick);
    client->wake.data = client->tick.data = client;
    lac_socket_events events = {.arg = client,
                                .message = on_message,
                                .bad = on_bad,
                                .lost = on_lost,
                                .connected = on_connected};
    status = lac_socket_open(client->wire, &client->loop, LAC_SOCKET_CONNECT, client->endpoint,
                             false, &events, &client->socket, err);
    if (status)
        goto close_loop;
    rc = start_thread(client);
    if (!rc)
        return LAC_OK;
    status = lac_fail(err, LAC_EIO, "thread: %s", strerror(rc));

close_loop:
    lac_socket_close(&client->socket);
    uv_close((uv_handle_t *)&client->wake, NULL);
    uv_close((uv_handle_t *)&client->tick, NULL);
    uv_run(&client->loop, UV_RUN_DEFAULT);
    LAC_ASSERT(uv_loop_close(&client->loop) == 0);
destroy_wire:
    lac_wire_destroy(&client->wire);
    return status;
}

void loop_wake(lac_client *client)
{
    if (!client->stopping) /* with the lock held, as everybody who wakes */
        uv_async_send(&client->wake);
}

void loop_stop(lac_client *client)
{
    pthread_mutex_lock(&client->lock);
    loop_wake(client);
    client->stopping = true;
    pthread_mutex_unlock(&client->lock);
    pthread_join(client->thread, NULL);
    LAC_ASSERT(uv_loop_close(&client->loop) == 0);
    lac_wire_destroy(&client->wire);
}
