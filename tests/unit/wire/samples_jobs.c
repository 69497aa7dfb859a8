/* Samples of the messages about batch jobs, and all their fields as text. */
#include "samples.h"

#define U(name) lac_buf_printf(out, #name "=%llu\n", (unsigned long long)(b->name))
#define S(name) lac_buf_printf(out, #name "=%s\n", b->name)
#define SPAN(text)                                                                                 \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }

_Static_assert(sizeof(lac_job_submit) == 112 && sizeof(lac_job_query) == 40 &&
                   sizeof(lac_job_cancel) == 16 && sizeof(lac_job_view) == 408 &&
                   sizeof(lac_job_result) == 128 && sizeof(lac_job_reply) == 48,
               "a message changed: set its new field here, show it below, then the size");

void sample_job_submit(lac_msg *m)
{
    static const lac_job_item items[] = {{SPAN("request-1 \xc3\xa9"), SPAN("{\"messages\":[]}")},
                                         {{NULL, 0}, SPAN("{}")}};
    m->body.job_submit = (lac_job_submit){.stream = 21,
                                          .key = "nightly-2024.1",
                                          .endpoint = LAC_JOB_COMPLETION,
                                          .priority = -2,
                                          .attempts_max = 7,
                                          .window_s = 86400,
                                          .first = 3,
                                          .more = true,
                                          .items_count = 2,
                                          .items = items};
}

void sample_job_query(lac_msg *m)
{
    m->body.job_query = (lac_job_query){
        .stream = 22, .job = INT64_MAX, .results = true, .first = 4, .limit = 5, .after = 6};
}

void sample_job_cancel(lac_msg *m)
{
    m->body.job_cancel = (lac_job_cancel){.stream = 23, .job = 0x1234};
}

void sample_job_reply(lac_msg *m)
{
    static const lac_job_view jobs[] = {{.id = INT64_MAX,
                                         .endpoint = LAC_JOB_CHAT,
                                         .state = LAC_JOB_EXPIRED,
                                         .priority = 2,
                                         .attempts_max = 3,
                                         .created_ms = 1700000000001,
                                         .started_ms = 1700000000002,
                                         .ended_ms = 1700000000003,
                                         .deadline_ms = 1700000000004,
                                         .total = 50,
                                         .running = 1,
                                         .done = 2,
                                         .failed = 3,
                                         .expired = 4,
                                         .prompt_tokens = 5,
                                         .completion_tokens = 6,
                                         .key = "a key"},
                                        {.id = 1,
                                         .endpoint = LAC_JOB_COMPLETION,
                                         .state = LAC_JOB_FAILED,
                                         .attempts_max = 1,
                                         .error = "line 3 is no JSON"}};
    static const lac_job_result results[] = {{.index = 7,
                                              .state = LAC_ITEM_DONE,
                                              .attempts = 2,
                                              .http = 200,
                                              .prompt_tokens = 8,
                                              .completion_tokens = 9,
                                              .class_name = "logs-std",
                                              .custom_id = SPAN("x"),
                                              .reply = SPAN("{\"id\":1}")},
                                             {.index = 8, .state = LAC_ITEM_FRESH}};
    m->body.job_reply = (lac_job_reply){.stream = 24,
                                        .jobs_count = 2,
                                        .jobs = jobs,
                                        .results_count = 2,
                                        .results = results,
                                        .more = true,
                                        .next = 9};
}

static void span(const char *name, lac_span text, lac_buf *out)
{
    lac_buf_printf(out, "%s[%u]=%.*s\n", name, text.length, (int)text.length,
                   text.length ? text.data : "");
}

static void submit(const lac_job_submit *b, lac_buf *out)
{
    U(stream), S(key), U(endpoint), U(priority), U(attempts_max), U(window_s), U(first), U(more);
    for (uint32_t i = 0; i < b->items_count; i++) {
        span("custom_id", b->items[i].custom_id, out);
        span("body", b->items[i].body, out);
    }
}

static void view(const lac_job_view *b, lac_buf *out)
{
    U(id), U(endpoint), U(state), U(priority), U(attempts_max), U(created_ms), U(started_ms);
    U(ended_ms), U(deadline_ms), U(total), U(running), U(done), U(failed), U(expired);
    U(prompt_tokens), U(completion_tokens), S(key), S(error);
}

static void result(const lac_job_result *b, lac_buf *out)
{
    U(index), U(state), U(attempts), U(http), U(prompt_tokens), U(completion_tokens);
    S(class_name);
    span("custom_id", b->custom_id, out);
    span("reply", b->reply, out);
}

static void query(const lac_job_query *b, lac_buf *out)
{
    U(stream), U(job), U(results), U(first), U(limit), U(after);
}

static void cancel(const lac_job_cancel *b, lac_buf *out)
{
    U(stream), U(job);
}

static void job_reply(const lac_job_reply *b, lac_buf *out)
{
    U(stream), U(more), U(next);
    for (uint32_t i = 0; i < b->jobs_count; i++)
        view(&b->jobs[i], out);
    for (uint32_t i = 0; i < b->results_count; i++)
        result(&b->results[i], out);
}

void dump_jobs(const lac_msg *msg, lac_buf *out)
{
    switch (msg->envelope.type) {
    case LAC_MSG_JOB_SUBMIT: submit(&msg->body.job_submit, out); break;
    case LAC_MSG_JOB_QUERY: query(&msg->body.job_query, out); break;
    case LAC_MSG_JOB_CANCEL: cancel(&msg->body.job_cancel, out); break;
    case LAC_MSG_JOB_REPLY: job_reply(&msg->body.job_reply, out); break;
    default: break;
    }
}
