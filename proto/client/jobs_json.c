/* The answers about batch jobs as JSON text. Pure. */
#include <inttypes.h>
#include <string.h>

#include "client.h"

static void text(lac_buf *out, const char *name, const char *value, size_t length)
{
    lac_buf_printf(out, ",\"%s\":", name);
    lac_buf_json(out, length ? value : "", length);
}

static void number(lac_buf *out, const char *name, uint64_t value)
{
    lac_buf_printf(out, ",\"%s\":%" PRIu64, name, value);
}

static void job_json(lac_buf *out, const lac_job_view *v)
{
    const char *endpoint = lac_job_endpoint_path(v->endpoint),
               *state = lac_job_state_name(v->state);
    lac_buf_printf(out, "{\"id\":\"%016" PRIx64 "\"", v->id);
    text(out, "endpoint", endpoint, strlen(endpoint));
    text(out, "state", state, strlen(state));
    lac_buf_printf(out, ",\"ended\":%s,\"priority\":%d", lac_job_ended(v->state) ? "true" : "false",
                   v->priority);
    number(out, "attempts_max", v->attempts_max);
    number(out, "created_ms", (uint64_t)v->created_ms);
    number(out, "started_ms", (uint64_t)v->started_ms);
    number(out, "ended_ms", (uint64_t)v->ended_ms);
    number(out, "deadline_ms", (uint64_t)v->deadline_ms);
    number(out, "total", v->total);
    number(out, "running", v->running);
    number(out, "done", v->done);
    number(out, "failed", v->failed);
    number(out, "expired", v->expired);
    number(out, "prompt_tokens", v->prompt_tokens);
    number(out, "completion_tokens", v->completion_tokens);
    text(out, "key", v->key, strlen(v->key));
    text(out, "error", v->error, strlen(v->error));
    lac_buf_text(out, "}");
}

static void result_json(lac_buf *out, const lac_job_result *r)
{
    const char *state = lac_item_state_name(r->state);
    lac_buf_printf(out, "{\"index\":%u", r->index);
    text(out, "custom_id", r->custom_id.data, r->custom_id.length);
    text(out, "state", state, strlen(state));
    number(out, "attempts", r->attempts);
    number(out, "status_code", r->http);
    number(out, "prompt_tokens", r->prompt_tokens);
    number(out, "completion_tokens", r->completion_tokens);
    text(out, "class", r->class_name, strlen(r->class_name));
    lac_buf_text(out, ",\"body\":");
    if (r->reply.length)
        lac_buf_add(out, r->reply.data, r->reply.length); /* JSON by itself */
    else
        lac_buf_text(out, "null");
    lac_buf_text(out, "}");
}

char *jobs_json(const lac_job_reply *reply)
{
    lac_buf out = {0};
    lac_buf_text(&out, "{\"jobs\":[");
    for (uint32_t i = 0; i < reply->jobs_count; i++) {
        if (i)
            lac_buf_text(&out, ",");
        job_json(&out, &reply->jobs[i]);
    }
    lac_buf_text(&out, "],\"results\":[");
    for (uint32_t i = 0; i < reply->results_count; i++) {
        if (i)
            lac_buf_text(&out, ",");
        result_json(&out, &reply->results[i]);
    }
    lac_buf_printf(&out, "],\"more\":%s,\"next\":%u}", reply->more ? "true" : "false", reply->next);
    return out.data; /* malloc'd; becomes the caller's */
}
