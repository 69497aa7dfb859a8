/* What native clients ask of batch jobs. Each message becomes one call of the store, each call one
 * answer; nothing is decided here. Loop thread. */
#include "jobs_plane.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A call on its way; freed when it has been answered. */
typedef struct {
    lac_store_call call;
    lac_link **link;
    uint64_t peer, stream;
    lac_job_item *items; /* of SUBMIT, with their texts in one block */
} asked;

static void answer(const asked *a, uint16_t type, lac_msg *msg)
{
    if (!*a->link)
        return; /* the coordinator is stopping */
    msg->envelope.type = type;
    lac_action action = {.plane = LAC_PLANE_CLIENT, .peer = a->peer, .msg = msg};
    lac_link_send(*a->link, &action); /* a client whose queue is full asks again */
}

static void refuse(const asked *a, const lac_error *err)
{
    lac_msg msg = {.body.refused = {.stream = a->stream, .status = err->status}};
    snprintf(msg.body.refused.reason, sizeof msg.body.refused.reason, "%.*s", LAC_REASON_MAX,
             err->text);
    answer(a, LAC_MSG_REFUSED, &msg);
}

static void free_asked(asked *a)
{
    lac_store_call_free(&a->call);
    free(a->items);
    free(a);
}

static void on_done(lac_store_call *call)
{
    asked *a = call->arg;
    bool list = call->kind == LAC_STORE_LIST;
    lac_job_view views[LAC_JOBS_PAGE_MAX];
    if (call->error.status) {
        refuse(a, &call->error);
        free_asked(a);
        return;
    }
    uint32_t jobs = list ? call->count : 1;
    for (uint32_t i = 0; i < jobs; i++)
        views[i] = call->jobs[i].view;
    lac_msg msg = {.body.job_reply = {.stream = a->stream,
                                      .jobs_count = jobs,
                                      .jobs = views,
                                      .more = call->more,
                                      .next = call->next}};
    if (call->kind == LAC_STORE_RESULTS) {
        msg.body.job_reply.results_count = call->count;
        msg.body.job_reply.results = call->results;
    }
    answer(a, LAC_MSG_JOB_REPLY, &msg);
    free_asked(a);
}

static lac_span copy(char **at, lac_span text)
{
    if (!text.length)
        return (lac_span){0};
    memcpy(*at, text.data, text.length);
    *at += text.length;
    return (lac_span){*at - text.length, text.length};
}

/* The message dies with the event that brought it, so its items are copied. */
static bool fill_submit(asked *a, const lac_job_submit *in)
{
    size_t bytes = (size_t)in->items_count * sizeof *a->items;
    struct timespec now;
    for (uint32_t i = 0; i < in->items_count; i++)
        bytes += in->items[i].custom_id.length + in->items[i].body.length;
    a->items = lac_try_alloc(bytes ? bytes : 1, 1);
    if (!a->items)
        return false;
    char *at = (char *)(a->items + in->items_count);
    for (uint32_t i = 0; i < in->items_count; i++)
        a->items[i] = (lac_job_item){.custom_id = copy(&at, in->items[i].custom_id),
                                     .body = copy(&at, in->items[i].body)};
    clock_gettime(CLOCK_REALTIME, &now);
    a->call.kind = LAC_STORE_SUBMIT;
    a->call.submit = (lac_store_submit){
        .endpoint = in->endpoint,
        .priority = in->priority,
        .attempts_max = in->attempts_max,
        .deadline_ms = in->window_s ? ((int64_t)now.tv_sec + in->window_s) * 1000 : 0,
        .first = in->first,
        .items_count = in->items_count,
        .items = a->items,
        .more = in->more};
    memcpy(a->call.submit.key, in->key, sizeof in->key);
    return true;
}

static void fill_query(asked *a, const lac_job_query *in)
{
    a->call.kind = !in->job ? LAC_STORE_LIST : in->results ? LAC_STORE_RESULTS : LAC_STORE_SHOW;
    a->call.id = in->job ? in->job : in->after;
    a->call.first = in->first;
    a->call.limit = in->limit;
    a->call.which = LAC_STORE_ENDED;
}

bool lac__jobs_plane_take(lac_store *store, lac_link **link, const lac_event *event)
{
    const lac_msg *msg = event->msg;
    if (event->kind != LAC_EVENT_MESSAGE || event->plane != LAC_PLANE_CLIENT ||
        msg->envelope.type < LAC_MSG_JOB_SUBMIT || msg->envelope.type > LAC_MSG_JOB_CANCEL)
        return false;
    asked *a = lac_alloc(1, sizeof *a);
    lac_error err = {0};
    lac_status status = LAC_OK;
    a->link = link;
    a->peer = event->peer;
    if (msg->tenant)
        snprintf(a->call.tenant, sizeof a->call.tenant, "%s", msg->tenant);
    a->call.done = on_done;
    a->call.arg = a;
    if (msg->envelope.type == LAC_MSG_JOB_SUBMIT) {
        a->stream = msg->body.job_submit.stream;
        if (!fill_submit(a, &msg->body.job_submit))
            status = lac_fail(&err, LAC_BUSY, "no memory for the job's items");
    } else if (msg->envelope.type == LAC_MSG_JOB_QUERY) {
        a->stream = msg->body.job_query.stream;
        fill_query(a, &msg->body.job_query);
    } else {
        a->stream = msg->body.job_cancel.stream;
        a->call.kind = LAC_STORE_CANCEL;
        a->call.id = msg->body.job_cancel.job;
    }
    if (!store)
        status = lac_fail(&err, LAC_EUNSUPPORTED,
                          "jobs are not kept here: this coordinator runs with --jobs off, or "
                          "another one has its state directory");
    if (status == LAC_OK)
        status = lac_store_do(store, &a->call, &err);
    if (status != LAC_OK) {
        refuse(a, &err);
        free_asked(a);
    }
    return true;
}
