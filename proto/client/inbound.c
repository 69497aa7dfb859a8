/* What the coordinator says, put into the streams it is for. Internal thread. A message for a
 * stream that is gone is dropped: it was on its way when the user left. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "client.h"

static lac_stream *find(lac_client *client, uint64_t id)
{
    lac_stream *stream;
    HASH_FIND(hh, client->streams, &id, sizeof id, stream);
    return stream;
}

/* How a refusal looks to the program: what it did wrong, what to try later, what failed. */
static int code_of(const lac_refused *refused)
{
    switch (refused->status) {
    case LAC_BUSY: return LAC_CLIENT_BUSY;
    case LAC_EINVAL:
    case LAC_ETOOBIG:
    case LAC_ENOTFOUND:
    case LAC_EUNSUPPORTED:
    case LAC_EEXIST:
    case LAC_EPROTO: return LAC_CLIENT_INVALID;
    case LAC_EREFUSED: return refused->retry_after_ms ? LAC_CLIENT_BUSY : LAC_CLIENT_FAILED;
    default: return LAC_CLIENT_FAILED;
    }
}

/* It is asked again when its time has come: the loop looks at it then. */
static bool tries_again(lac_stream *stream, const lac_refused *refused)
{
    uint64_t then = lac_now_ms() + refused->retry_after_ms;
    if (refused->status != LAC_BUSY || !refused->retry_after_ms || !stream->submit ||
        stream->accepted || stream->cancel || then > stream->patience_until_ms)
        return false;
    stream->state = STREAM_NEW;
    stream->since_ms = stream->not_before_ms = then;
    return true;
}

static void refuse(lac_stream *stream, const lac_refused *refused)
{
    if (tries_again(stream, refused))
        return;
    stream->retry_after_ms = refused->retry_after_ms;
    stream_end(stream, code_of(refused), "%s",
               refused->reason[0] ? refused->reason : lac_status_name(refused->status));
}

/* Stream 0: the coordinator could not even read whose request it was. */
static void take_refused(lac_client *client, const lac_refused *refused)
{
    lac_stream *stream, *next;
    if (refused->stream) {
        stream = find(client, refused->stream);
        if (stream)
            refuse(stream, refused);
        return;
    }
    HASH_ITER(hh, client->streams, stream, next)
    {
        if (stream->state == STREAM_SENT && !stream->accepted)
            refuse(stream, refused);
    }
}

static void take_done(lac_stream *stream, const lac_done *done)
{
    if (stream->state == STREAM_ENDED)
        return;
    stream->usage = done->usage;
    stream_account(stream, done->account);
    stream->finish = done->finish;
    stream_end(stream, LAC_CLIENT_OK, "no error");
}

/* The question asked under that number, if that is an answer to it. */
static client_question *asked(lac_client *client, uint64_t id, uint16_t type)
{
    for (client_question *q = client->questions; q; q = q->next)
        if (q->id == id && !q->done && (q->reply == type || type == LAC_MSG_REFUSED))
            return q;
    return NULL;
}

static void answer(lac_client *client, uint64_t id, const lac_msg *msg)
{
    client_question *q = asked(client, id, msg->envelope.type);
    if (!q)
        return;
    switch (msg->envelope.type) {
    case LAC_MSG_STATUS_REPLY: q->json = status_json(&msg->body.status_reply); break;
    case LAC_MSG_PATH_REPLY: q->json = path_json(&msg->body.path_reply); break;
    case LAC_MSG_PLAN_REPLY: q->json = plan_json(&msg->body.plan_reply); break;
    case LAC_MSG_ORDERED: q->json = ordered_json(&msg->body.ordered); break;
    case LAC_MSG_JOB_REPLY: q->json = jobs_json(&msg->body.job_reply); break;
    case LAC_MSG_REFUSED:
        q->result = code_of(&msg->body.refused);
        snprintf(q->error, sizeof q->error, "%s",
                 msg->body.refused.reason[0] ? msg->body.refused.reason
                                             : lac_status_name(msg->body.refused.status));
        break;
    }
    q->done = true;
    pthread_cond_signal(&q->changed);
}

void inbound_message(lac_client *client, const lac_msg *msg)
{
    lac_stream *stream;
    pthread_mutex_lock(&client->lock);
    switch (msg->envelope.type) {
    case LAC_MSG_ACCEPTED:
        stream = find(client, msg->body.accepted.stream);
        if (stream) {
            stream->accepted = true;
            stream_forget_submit(stream);
        }
        break;
    case LAC_MSG_TOKENS:
        stream = find(client, msg->body.tokens.stream);
        if (stream) {
            stream_account(stream, msg->body.tokens.account);
            stream_add(stream, &msg->body.tokens.chunk);
        }
        break;
    case LAC_MSG_DONE:
        stream = find(client, msg->body.done.stream);
        if (stream)
            take_done(stream, &msg->body.done);
        break;
    case LAC_MSG_REFUSED:
        take_refused(client, &msg->body.refused);
        answer(client, msg->body.refused.stream, msg);
        break;
    case LAC_MSG_STATUS_REPLY: answer(client, msg->body.status_reply.stream, msg); break;
    case LAC_MSG_PLAN_REPLY: answer(client, msg->body.plan_reply.stream, msg); break;
    case LAC_MSG_PATH_REPLY: answer(client, msg->body.path_reply.stream, msg); break;
    case LAC_MSG_JOB_REPLY: answer(client, msg->body.job_reply.stream, msg); break;
    case LAC_MSG_ORDERED: answer(client, msg->body.ordered.stream, msg); break;
    default: break; /* of a newer minor version, or of another plane */
    }
    pthread_mutex_unlock(&client->lock);
}

void inbound_lost(lac_client *client, const char *why)
{
    lac_stream *stream, *next;
    pthread_mutex_lock(&client->lock);
    HASH_ITER(hh, client->streams, stream, next)
    {
        if (stream->state == STREAM_SENT)
            stream_end(stream, LAC_CLIENT_LOST, "%s: %s", client->endpoint, why);
    }
    for (client_question *q = client->questions; q; q = q->next)
        q->sent = false; /* asked again on the next connection: every order may be given twice */
    pthread_mutex_unlock(&client->lock);
}
