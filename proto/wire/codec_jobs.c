/* The bodies of messages about batch jobs, and what is allowed in them. Pure, any thread. */
#include "base/text.h"
#include "codec.h"
#include "jobs.pb-c.h"

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

static lac_status check_stream(const char *field, uint64_t stream, lac_error *err)
{
    const lac__range range = {field, stream, 1, UINT64_MAX};
    return lac__check_ranges(&range, 1, err);
}

static lac_status check_utf8(const char *field, lac_span text, uint32_t max, lac_error *err)
{
    if (text.length > max)
        return lac_fail(err, LAC_EINVAL, "%s has %u bytes, allowed 0..%u", field, text.length, max);
    if (text.length && !lac_utf8_valid(text.data, text.length))
        return lac_fail(err, LAC_EINVAL, "%s is not UTF-8", field);
    return LAC_OK;
}

/* ---- submit ---- */

void lac__put_job_submit(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body)
{
    const lac_job_submit *in = &msg->body.job_submit;
    Pb__JobSubmit *out = (Pb__JobSubmit *)body;
    LAC__PUT(out, stream, in->stream);
    LAC__PUT_TEXT(out, key, in->key);
    LAC__PUT(out, endpoint, in->endpoint);
    LAC__PUT(out, priority, in->priority);
    LAC__PUT(out, attempts_max, in->attempts_max);
    LAC__PUT(out, window_s, in->window_s);
    LAC__PUT(out, first, in->first);
    LAC__PUT(out, more, in->more);
    Pb__JobItem *items = lac__put_alloc(c, in->items_count, sizeof *items);
    out->items = lac__put_alloc(c, in->items_count, sizeof *out->items);
    out->n_items = in->items_count;
    for (uint32_t i = 0; i < in->items_count; i++) {
        pb__job_item__init(&items[i]);
        LAC__PUT_SPAN(&items[i], custom_id, in->items[i].custom_id);
        LAC__PUT_SPAN(&items[i], body, in->items[i].body);
        out->items[i] = &items[i];
    }
}

lac_status lac__get_job_submit(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg)
{
    const Pb__JobSubmit *in = (const Pb__JobSubmit *)body;
    lac_job_submit *out = &msg->body.job_submit;
    *out = (lac_job_submit){.stream = in->stream,
                            .endpoint = (lac_job_endpoint)in->endpoint,
                            .priority = in->priority,
                            .attempts_max = in->attempts_max,
                            .window_s = in->window_s,
                            .first = in->first,
                            .more = in->more,
                            .items_count = (uint32_t)in->n_items};
    LAC__TRY(lac__get_text(c, "job_submit.key", in->key, out->key, sizeof out->key));
    if (in->n_items > LAC_JOB_ITEMS_MAX)
        return lac_fail(c->err, LAC_EINVAL, "job_submit has %zu items, allowed: at most %d",
                        in->n_items, LAC_JOB_ITEMS_MAX);
    lac_job_item *items;
    LAC__TRY(lac__get_alloc(c, in->n_items, sizeof *items, &items));
    for (size_t i = 0; i < in->n_items; i++)
        items[i] = (lac_job_item){.custom_id = lac__span(in->items[i]->custom_id),
                                  .body = lac__span(in->items[i]->body)};
    out->items = items;
    return LAC_OK;
}

lac_status lac__check_job_submit(const lac_msg *msg, lac_error *err)
{
    const lac_job_submit *s = &msg->body.job_submit;
    LAC__TRY(check_stream("job_submit.stream", s->stream, err));
    LAC__TRY(lac__check_name("job_submit.key", s->key, sizeof s->key, false, err));
    if (s->priority < -LAC_PRIORITY_MAX || s->priority > LAC_PRIORITY_MAX)
        return lac_fail(err, LAC_EINVAL, "job_submit.priority is %d, allowed %d..%d", s->priority,
                        -LAC_PRIORITY_MAX, LAC_PRIORITY_MAX);
    const lac__range ranges[] = {
        {"job_submit.endpoint", s->endpoint, LAC_JOB_CHAT, LAC_JOB_COMPLETION},
        {"job_submit.attempts_max", s->attempts_max, 0, LAC_JOB_ATTEMPTS_MAX},
        {"job_submit.window_s", s->window_s, 0, LAC_JOB_WINDOW_MAX_S},
        {"job_submit.first", s->first, 0, LAC_JOB_ITEMS_MAX},
        {"job_submit.items", s->items_count, s->first ? 0 : 1, LAC_JOB_ITEMS_MAX},
    };
    LAC__TRY(lac__check_ranges(ranges, COUNT(ranges), err));
    for (uint32_t i = 0; i < s->items_count; i++) {
        LAC__TRY_IN(check_utf8("custom_id", s->items[i].custom_id, LAC_JOB_CUSTOM_ID_MAX, err), err,
                    "job_submit.items[%u]", i);
        LAC__TRY_IN(check_utf8("body", s->items[i].body, LAC_HTTP_BODY_MAX, err), err,
                    "job_submit.items[%u]", i);
    }
    return LAC_OK;
}

/* ---- query, cancel ---- */

void lac__put_job_query(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body)
{
    (void)c;
    const lac_job_query *in = &msg->body.job_query;
    Pb__JobQuery *out = (Pb__JobQuery *)body;
    LAC__PUT(out, stream, in->stream);
    LAC__PUT(out, job, in->job);
    LAC__PUT(out, results, in->results);
    LAC__PUT(out, first, in->first);
    LAC__PUT(out, limit, in->limit);
    LAC__PUT(out, after, in->after);
}

lac_status lac__get_job_query(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg)
{
    (void)c;
    const Pb__JobQuery *in = (const Pb__JobQuery *)body;
    msg->body.job_query = (lac_job_query){.stream = in->stream,
                                          .job = in->job,
                                          .results = in->results,
                                          .first = in->first,
                                          .limit = in->limit,
                                          .after = in->after};
    return LAC_OK;
}

lac_status lac__check_job_query(const lac_msg *msg, lac_error *err)
{
    const lac_job_query *q = &msg->body.job_query;
    const lac__range ranges[] = {
        {"job_query.stream", q->stream, 1, UINT64_MAX},
        {"job_query.job", q->job, q->results ? 1 : 0, INT64_MAX},
        {"job_query.after", q->after, 0, INT64_MAX},
        {"job_query.first", q->first, 0, LAC_JOB_ITEMS_MAX},
    };
    return lac__check_ranges(ranges, COUNT(ranges), err);
}

void lac__put_job_cancel(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body)
{
    (void)c;
    Pb__JobCancel *out = (Pb__JobCancel *)body;
    LAC__PUT(out, stream, msg->body.job_cancel.stream);
    LAC__PUT(out, job, msg->body.job_cancel.job);
}

lac_status lac__get_job_cancel(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg)
{
    (void)c;
    const Pb__JobCancel *in = (const Pb__JobCancel *)body;
    msg->body.job_cancel = (lac_job_cancel){.stream = in->stream, .job = in->job};
    return LAC_OK;
}

lac_status lac__check_job_cancel(const lac_msg *msg, lac_error *err)
{
    const lac__range ranges[] = {
        {"job_cancel.stream", msg->body.job_cancel.stream, 1, UINT64_MAX},
        {"job_cancel.job", msg->body.job_cancel.job, 1, INT64_MAX},
    };
    return lac__check_ranges(ranges, COUNT(ranges), err);
}

/* ---- reply ---- */

static void put_view(lac__codec *c, const lac_job_view *in, Pb__JobView *out)
{
    pb__job_view__init(out);
    LAC__PUT(out, id, in->id);
    LAC__PUT(out, endpoint, in->endpoint);
    LAC__PUT(out, state, in->state);
    LAC__PUT(out, priority, in->priority);
    LAC__PUT(out, attempts_max, in->attempts_max);
    LAC__PUT(out, created_ms, (uint64_t)in->created_ms);
    LAC__PUT(out, started_ms, (uint64_t)in->started_ms);
    LAC__PUT(out, ended_ms, (uint64_t)in->ended_ms);
    LAC__PUT(out, deadline_ms, (uint64_t)in->deadline_ms);
    LAC__PUT(out, total, in->total);
    LAC__PUT(out, running, in->running);
    LAC__PUT(out, done, in->done);
    LAC__PUT(out, failed, in->failed);
    LAC__PUT(out, expired, in->expired);
    LAC__PUT(out, prompt_tokens, in->prompt_tokens);
    LAC__PUT(out, completion_tokens, in->completion_tokens);
    LAC__PUT_TEXT(out, key, in->key);
    LAC__PUT_REASON(c, out, error, in->error);
}

static lac_status get_view(lac__codec *c, const Pb__JobView *in, lac_job_view *out)
{
    *out = (lac_job_view){.id = in->id,
                          .endpoint = (lac_job_endpoint)in->endpoint,
                          .state = (lac_job_state)in->state,
                          .priority = in->priority,
                          .attempts_max = in->attempts_max,
                          .created_ms = (int64_t)in->created_ms,
                          .started_ms = (int64_t)in->started_ms,
                          .ended_ms = (int64_t)in->ended_ms,
                          .deadline_ms = (int64_t)in->deadline_ms,
                          .total = in->total,
                          .running = in->running,
                          .done = in->done,
                          .failed = in->failed,
                          .expired = in->expired,
                          .prompt_tokens = in->prompt_tokens,
                          .completion_tokens = in->completion_tokens};
    LAC__TRY(lac__get_text(c, "job_reply.jobs.key", in->key, out->key, sizeof out->key));
    return lac__get_text(c, "job_reply.jobs.error", in->error, out->error, sizeof out->error);
}

static void put_result(const lac_job_result *in, Pb__JobResult *out)
{
    pb__job_result__init(out);
    LAC__PUT(out, index, in->index);
    LAC__PUT(out, state, in->state);
    LAC__PUT(out, attempts, in->attempts);
    LAC__PUT(out, http, in->http);
    LAC__PUT(out, prompt_tokens, in->prompt_tokens);
    LAC__PUT(out, completion_tokens, in->completion_tokens);
    LAC__PUT_TEXT(out, class_name, in->class_name);
    LAC__PUT_SPAN(out, custom_id, in->custom_id);
    LAC__PUT_SPAN(out, reply, in->reply);
}

static lac_status get_result(lac__codec *c, const Pb__JobResult *in, lac_job_result *out)
{
    *out = (lac_job_result){.index = in->index,
                            .state = (lac_item_state)in->state,
                            .attempts = in->attempts,
                            .http = in->http,
                            .prompt_tokens = in->prompt_tokens,
                            .completion_tokens = in->completion_tokens,
                            .custom_id = lac__span(in->custom_id),
                            .reply = lac__span(in->reply)};
    return lac__get_text(c, "job_reply.results.class_name", in->class_name, out->class_name,
                         sizeof out->class_name);
}

void lac__put_job_reply(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body)
{
    const lac_job_reply *in = &msg->body.job_reply;
    Pb__JobReply *out = (Pb__JobReply *)body;
    LAC__PUT(out, stream, in->stream);
    LAC__PUT(out, more, in->more);
    LAC__PUT(out, next, in->next);
    Pb__JobView *jobs = lac__put_alloc(c, in->jobs_count, sizeof *jobs);
    out->jobs = lac__put_alloc(c, in->jobs_count, sizeof *out->jobs);
    out->n_jobs = in->jobs_count;
    for (uint32_t i = 0; i < in->jobs_count; i++) {
        put_view(c, &in->jobs[i], &jobs[i]);
        out->jobs[i] = &jobs[i];
    }
    Pb__JobResult *results = lac__put_alloc(c, in->results_count, sizeof *results);
    out->results = lac__put_alloc(c, in->results_count, sizeof *out->results);
    out->n_results = in->results_count;
    for (uint32_t i = 0; i < in->results_count; i++) {
        put_result(&in->results[i], &results[i]);
        out->results[i] = &results[i];
    }
}

lac_status lac__get_job_reply(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg)
{
    const Pb__JobReply *in = (const Pb__JobReply *)body;
    lac_job_reply *out = &msg->body.job_reply;
    *out = (lac_job_reply){.stream = in->stream, .more = in->more, .next = in->next};
    if (in->n_jobs > LAC_JOBS_PAGE_MAX || in->n_results > LAC_JOB_RESULTS_PAGE_MAX)
        return lac_fail(c->err, LAC_EINVAL,
                        "job_reply has %zu jobs and %zu results, allowed: at most %d and %d",
                        in->n_jobs, in->n_results, LAC_JOBS_PAGE_MAX, LAC_JOB_RESULTS_PAGE_MAX);
    lac_job_view *jobs;
    lac_job_result *results;
    LAC__TRY(lac__get_alloc(c, in->n_jobs, sizeof *jobs, &jobs));
    LAC__TRY(lac__get_alloc(c, in->n_results, sizeof *results, &results));
    for (size_t i = 0; i < in->n_jobs; i++)
        LAC__TRY(get_view(c, in->jobs[i], &jobs[i]));
    for (size_t i = 0; i < in->n_results; i++)
        LAC__TRY(get_result(c, in->results[i], &results[i]));
    out->jobs = jobs;
    out->jobs_count = (uint32_t)in->n_jobs;
    out->results = results;
    out->results_count = (uint32_t)in->n_results;
    return LAC_OK;
}

static lac_status check_view(const lac_job_view *v, lac_error *err)
{
    const lac__range ranges[] = {
        {"id", v->id, 1, INT64_MAX},
        {"endpoint", v->endpoint, LAC_JOB_CHAT, LAC_JOB_COMPLETION},
        {"state", v->state, 0, LAC_JOB_STATES - 1},
        {"attempts_max", v->attempts_max, 1, LAC_JOB_ATTEMPTS_MAX},
        {"created_ms", (uint64_t)v->created_ms, 0, INT64_MAX},
        {"started_ms", (uint64_t)v->started_ms, 0, INT64_MAX},
        {"ended_ms", (uint64_t)v->ended_ms, 0, INT64_MAX},
        {"deadline_ms", (uint64_t)v->deadline_ms, 0, INT64_MAX},
        {"total", v->total, 0, LAC_JOB_ITEMS_MAX},
        {"running", v->running, 0, v->total},
        {"done", v->done, 0, v->total},
        {"failed", v->failed, 0, v->total},
        {"expired", v->expired, 0, v->total},
    };
    return lac__check_ranges(ranges, COUNT(ranges), err);
}

lac_status lac__check_job_reply(const lac_msg *msg, lac_error *err)
{
    const lac_job_reply *r = &msg->body.job_reply;
    const lac__range ranges[] = {
        {"job_reply.stream", r->stream, 1, UINT64_MAX},
        {"job_reply.jobs", r->jobs_count, 0, LAC_JOBS_PAGE_MAX},
        {"job_reply.results", r->results_count, 0, LAC_JOB_RESULTS_PAGE_MAX},
        {"job_reply.next", r->next, 0, LAC_JOB_ITEMS_MAX},
    };
    LAC__TRY(lac__check_ranges(ranges, COUNT(ranges), err));
    for (uint32_t i = 0; i < r->jobs_count; i++)
        LAC__TRY_IN(check_view(&r->jobs[i], err), err, "job_reply.jobs[%u]", i);
    for (uint32_t i = 0; i < r->results_count; i++) {
        const lac_job_result *result = &r->results[i];
        const lac__range more[] = {
            {"index", result->index, 0, LAC_JOB_ITEMS_MAX - 1},
            {"state", result->state, 0, LAC_ITEM_STATES - 1},
            {"http", result->http, 0, 599},
        };
        LAC__TRY_IN(lac__check_ranges(more, COUNT(more), err), err, "job_reply.results[%u]", i);
        LAC__TRY_IN(
            lac__check_name("class_name", result->class_name, sizeof result->class_name, true, err),
            err, "job_reply.results[%u]", i);
        LAC__TRY_IN(check_utf8("custom_id", result->custom_id, LAC_JOB_CUSTOM_ID_MAX, err), err,
                    "job_reply.results[%u]", i);
        LAC__TRY_IN(check_utf8("reply", result->reply, LAC_JOB_REPLY_MAX, err), err,
                    "job_reply.results[%u]", i);
    }
    return LAC_OK;
}
