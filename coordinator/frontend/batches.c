/* Batches: a file's lines become a job's items, and a job is shown as a batch. What a batch has
 * that a job does not know (input file, metadata, window, why the file was refused) is JSON beside
 * it. Loop thread; files are read line by line in the pool. */
#include "batches.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "batch_lines.h"
#include "connection.h"
#include "files.h"
#include "json_scan.h"
#include "later.h"

enum {
    METADATA_MAX = 16,
    METADATA_KEY_MAX = 64,
    METADATA_VALUE_MAX = 512,
    WINDOW_MAX_S = 30 * 86400
};

static const char type_json[] = "application/json";

/* A batch that is being made. */
typedef struct {
    json_t *about; /* {"input_file_id":…,"window":…,"metadata":…,"errors":[…]} */
    char *about_text;
    lac_job_endpoint endpoint;
    int64_t window_s;
    char key[LAC_JOB_KEY_MAX + 1];
    lac__lines lines;
    uint32_t line; /* at fault */
    lac__problem problem;
    bool good;
} draft;

static void draft_free(void *data)
{
    draft *d = data;
    if (!d)
        return;
    json_decref(d->about);
    free(d->about_text);
    lac__lines_free(&d->lines);
    free(d);
}

/* ---- the object ---- */

static void text_of(const json_t *about, const char *name, const char *otherwise, lac_buf *out)
{
    json_t *value = json_object_get(about, name);
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    lac_buf_text(out, text ? text : otherwise);
    free(text);
}

static const char *status_of(lac_job_state state)
{
    static const char *const names[LAC_JOB_STATES] = {
        [LAC_JOB_FILLING] = "validating",    [LAC_JOB_RUNNING] = "in_progress",
        [LAC_JOB_CANCELLING] = "cancelling", [LAC_JOB_EXPIRING] = "finalizing",
        [LAC_JOB_COMPLETED] = "completed",   [LAC_JOB_CANCELLED] = "cancelled",
        [LAC_JOB_EXPIRED] = "expired",       [LAC_JOB_FAILED] = "failed"};
    return names[state];
}

static void time_at(const char *name, bool known, int64_t ms, lac_buf *out)
{
    if (known && ms)
        lac_buf_printf(out, ",\"%s\":%lld", name, (long long)(ms / 1000));
    else
        lac_buf_printf(out, ",\"%s\":null", name);
}

static void results_id(const lac_job_view *v, lac__file_kind kind, lac_buf *out)
{
    char id[LAC__FILE_ID_MAX + 1];
    bool output = kind == LAC__FILE_OUTPUT;
    uint32_t count = output ? v->done : v->total - v->done;
    bool there = lac_job_ended(v->state) && count &&
                 !(v->hidden & (output ? LAC_STORE_DONE : LAC_STORE_WRONG));
    lac__file_name(kind, v->id, id);
    lac_buf_printf(out, there ? ",\"%s\":\"%s\"" : ",\"%s\":null",
                   output ? "output_file_id" : "error_file_id", id);
}

static void times(const lac_job_view *v, lac_buf *out)
{
    bool cancelled = v->state == LAC_JOB_CANCELLED;
    time_at("created_at", true, v->created_ms, out);
    time_at("in_progress_at", v->state != LAC_JOB_FAILED, v->created_ms, out);
    time_at("expires_at", true, v->deadline_ms, out);
    time_at("finalizing_at", v->state == LAC_JOB_COMPLETED, v->ended_ms, out);
    time_at("completed_at", v->state == LAC_JOB_COMPLETED, v->ended_ms, out);
    time_at("failed_at", v->state == LAC_JOB_FAILED, v->ended_ms, out);
    time_at("expired_at", v->state == LAC_JOB_EXPIRED, v->ended_ms, out);
    time_at("cancelling_at", cancelled, v->ended_ms, out);
    time_at("cancelled_at", cancelled, v->ended_ms, out);
}

static void batch_object(const lac_store_job *job, lac_buf *out)
{
    const lac_job_view *v = &job->view;
    json_t *about = json_loadb(job->about.data ? job->about.data : "", job->about.length, 0, NULL);
    lac_buf_printf(out,
                   "{\"id\":\"batch_%016" PRIx64 "\",\"object\":\"batch\",\"endpoint\":\"%s\","
                   "\"errors\":",
                   v->id, lac_job_endpoint_path(v->endpoint));
    if (json_object_get(about, "errors")) {
        lac_buf_text(out, "{\"object\":\"list\",\"data\":");
        text_of(about, "errors", "[]", out);
        lac_buf_text(out, "}");
    } else {
        lac_buf_text(out, "null");
    }
    lac_buf_text(out, ",\"input_file_id\":");
    text_of(about, "input_file_id", "\"\"", out);
    lac_buf_text(out, ",\"completion_window\":");
    text_of(about, "window", "\"24h\"", out);
    lac_buf_printf(out, ",\"status\":\"%s\"", status_of(v->state));
    results_id(v, LAC__FILE_OUTPUT, out);
    results_id(v, LAC__FILE_ERRORS, out);
    times(v, out);
    lac_buf_printf(out,
                   ",\"request_counts\":{\"total\":%u,\"completed\":%u,\"failed\":%u},\"usage\":{"
                   "\"input_tokens\":%llu,\"input_tokens_details\":{\"cached_tokens\":0},"
                   "\"output_tokens\":%llu,\"output_tokens_details\":{\"reasoning_tokens\":0},"
                   "\"total_tokens\":%llu},\"metadata\":",
                   v->total, v->done, v->failed + v->expired, (unsigned long long)v->prompt_tokens,
                   (unsigned long long)v->completion_tokens,
                   (unsigned long long)(v->prompt_tokens + v->completion_tokens));
    text_of(about, "metadata", "null", out);
    lac_buf_text(out, "}");
    json_decref(about);
}

static void reply_batch(lac__later *later)
{
    batch_object(later->call.jobs, &later->text);
    lac__later_reply(later, type_json);
}

/* ---- making one ---- */

/* "24h", as OpenAI has it, or another number of d, h, m or s. */
static bool read_window(const char *text, int64_t *seconds)
{
    char digits[8];
    size_t length = text ? strlen(text) : 0;
    int64_t number;
    if (length < 2 || length > sizeof digits)
        return false;
    memcpy(digits, text, length - 1);
    digits[length - 1] = '\0';
    char unit = text[length - 1];
    int64_t of = unit == 'd' ? 86400 : unit == 'h' ? 3600 : unit == 'm' ? 60 : unit == 's' ? 1 : 0;
    if (!of || !lac_parse_i64(digits, 1, WINDOW_MAX_S / of, &number))
        return false;
    *seconds = number * of;
    return true;
}

static bool read_metadata(const json_t *metadata, lac__problem *problem)
{
    const char *key;
    json_t *value;
    bool good = json_is_object(metadata) && json_object_size(metadata) <= METADATA_MAX;
    json_object_foreach((json_t *)(uintptr_t)metadata, key, value)
    {
        good = good && strlen(key) <= METADATA_KEY_MAX && json_is_string(value) &&
               json_string_length(value) <= METADATA_VALUE_MAX;
    }
    return good || lac__problem_set(problem, 400, "invalid_value", "metadata",
                                    "metadata is no object of at most 16 strings, keys of at most "
                                    "64 bytes and values of at most 512");
}

static bool read_fields(draft *d, const json_t *body, uint64_t *file, lac__problem *problem)
{
    const char *name;
    json_t *value;
    static const char *const known[] = {"input_file_id", "endpoint", "completion_window",
                                        "metadata", "output_expires_after"};
    json_object_foreach((json_t *)(uintptr_t)body, name, value)
    {
        bool is_known = false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            is_known = is_known || strcmp(known[i], name) == 0;
        if (!is_known)
            return lac__problem_set(problem, 400, "unknown_parameter", name,
                                    "unknown parameter \"%.100s\"", name);
    }
    const json_t *id = json_object_get(body, "input_file_id");
    const char *endpoint = json_string_value(json_object_get(body, "endpoint"));
    json_t *window = json_object_get(body, "completion_window");
    json_t *metadata = json_object_get(body, "metadata");
    if (!json_is_string(id) || lac__file_id(json_string_value(id), file) != LAC__FILE_UPLOAD)
        return lac__problem_set(problem, 400, "invalid_value", "input_file_id",
                                "input_file_id is no id of an uploaded file");
    d->endpoint = endpoint ? lac_job_endpoint_of(endpoint) : (lac_job_endpoint)0;
    if (!d->endpoint)
        return lac__problem_set(problem, 400, "invalid_value", "endpoint",
                                "endpoint is none of \"/v1/chat/completions\" and "
                                "\"/v1/completions\"");
    if (!read_window(json_string_value(window), &d->window_s))
        return lac__problem_set(problem, 400, "invalid_value", "completion_window",
                                "completion_window is no time like \"24h\", at most 30 days");
    if (metadata && !json_is_null(metadata) && !read_metadata(metadata, problem))
        return false;
    d->about = json_object();
    json_object_set(d->about, "input_file_id", (json_t *)(uintptr_t)id);
    json_object_set(d->about, "window", window);
    if (metadata && !json_is_null(metadata))
        json_object_set(d->about, "metadata", metadata);
    return true;
}

static bool read_request(lac__later *later, draft *d, lac__problem *problem)
{
    const lac_buf *body = &later->body;
    json_error_t error;
    if (!lac__json_scan(body->data, body->length, problem))
        return false;
    json_t *json =
        json_loadb(body->data ? body->data : "", body->length, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(json)) {
        json_decref(json);
        return lac__problem_set(problem, 400, "invalid_json", NULL, "body is no JSON object");
    }
    bool good = read_fields(d, json, &later->call.id, problem);
    json_decref(json);
    return good;
}

/* In the pool. */
static void read_lines(lac__later *later)
{
    draft *d = later->data;
    const lac_store_file *file = later->call.files;
    d->good = lac__lines_read(file->content.data ? file->content.data : "", file->content.length,
                              &d->endpoint, &d->lines, &d->line, &d->problem);
}

/* A file that is wrong makes a batch that has failed and says why, as OpenAI does it. */
static void note_errors(draft *d)
{
    json_t *error =
        json_pack("{s:s, s:s, s:s*, s:o}", "code", d->problem.code, "message", d->problem.message,
                  "param", d->problem.param[0] ? d->problem.param : NULL, "line",
                  d->line ? json_integer(d->line) : json_null());
    json_t *errors = json_array();
    json_array_append_new(errors, error ? error : json_object());
    json_object_set_new(d->about, "errors", errors);
}

static void lines_read(lac__later *later)
{
    draft *d = later->data;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (!d->good)
        note_errors(d);
    d->about_text = json_dumps(d->about, JSON_COMPACT);
    size_t length = d->about_text ? strlen(d->about_text) : 0;
    if (length > LAC_JOB_ABOUT_MAX) {
        lac__problem problem;
        lac__problem_set(&problem, 400, "invalid_value", "metadata",
                         "metadata is over %d bytes, the most allowed", LAC_JOB_ABOUT_MAX);
        lac__later_problem(later, &problem);
        return;
    }
    lac_store_call_free(&later->call);
    later->call.kind = LAC_STORE_SUBMIT;
    later->call.submit = (lac_store_submit){
        .endpoint = d->endpoint,
        .deadline_ms = ((int64_t)now.tv_sec + d->window_s) * 1000,
        .about = {d->about_text, (uint32_t)length},
        .error = d->good ? NULL : d->problem.message,
        .items = d->lines.items,
        .items_count = d->lines.count,
    };
    memcpy(later->call.submit.key, d->key, sizeof d->key);
    lac__later_ask(later, reply_batch);
}

static void file_read(lac__later *later)
{
    lac__later_work(later, read_lines, lines_read);
}

void lac__batches_create(lac__conn *conn)
{
    lac__later *later = lac__later_start(conn);
    lac__problem problem;
    if (!later)
        return;
    draft *d = lac_alloc(1, sizeof *d);
    later->data = d;
    later->free_data = draft_free;
    memcpy(d->key, conn->request.idempotency_key, sizeof d->key);
    if (!read_request(later, d, &problem)) {
        lac__later_problem(later, &problem);
        return;
    }
    later->call.kind = LAC_STORE_FILE_GET;
    later->call.content = true;
    lac__later_ask(later, file_read);
}

/* ---- showing ---- */

static bool batch_id(const char *text, uint64_t *id)
{
    static const char prefix[] = "batch_";
    const size_t own = sizeof prefix - 1;
    return strncmp(text, prefix, own) == 0 && lac__id_parse(text + own, id);
}

static void unknown_batch(lac__later *later, const char *id)
{
    lac__problem problem;
    lac__problem_set(&problem, 404, "not_found", "batch_id", "no batch has the id \"%.64s\"", id);
    lac__later_problem(later, &problem);
}

void lac__batches_show(lac__conn *conn)
{
    char id[64];
    lac__later *later = lac__later_start(conn);
    if (!later)
        return;
    lac__path_below(conn, "/v1/batches/", id, sizeof id);
    later->call.kind = LAC_STORE_SHOW;
    if (batch_id(id, &later->call.id))
        lac__later_ask(later, reply_batch);
    else
        unknown_batch(later, id);
}

/* One that has ended cannot be cancelled; one that is being cancelled can, again. */
static void cancelled(lac__later *later)
{
    lac_job_state state = later->call.jobs->view.state;
    if (state == LAC_JOB_CANCELLING || state == LAC_JOB_CANCELLED) {
        reply_batch(later);
        return;
    }
    lac__problem problem;
    lac__problem_set(&problem, 409, "batch_ended", "batch_id",
                     "the batch is %s and cannot be cancelled any more", status_of(state));
    lac__later_problem(later, &problem);
}

void lac__batches_cancel(lac__conn *conn)
{
    static const char tail[] = "/cancel";
    char id[64];
    lac__later *later = lac__later_start(conn);
    if (!later)
        return;
    lac__path_below(conn, "/v1/batches/", id, sizeof id);
    size_t length = strlen(id), end = sizeof tail - 1;
    bool good = length > end && strcmp(id + length - end, tail) == 0;
    if (good)
        id[length - end] = '\0';
    later->call.kind = LAC_STORE_CANCEL;
    if (good && batch_id(id, &later->call.id))
        lac__later_ask(later, cancelled);
    else
        unknown_batch(later, id);
}

static void listed(lac__later *later)
{
    const lac_store_call *call = &later->call;
    lac_buf *out = &later->text;
    lac_buf_text(out, "{\"object\":\"list\",\"data\":[");
    for (uint32_t i = 0; i < call->count; i++) {
        if (i)
            lac_buf_text(out, ",");
        batch_object(&call->jobs[i], out);
    }
    lac_buf_text(out, "]");
    if (call->count)
        lac_buf_printf(
            out, ",\"first_id\":\"batch_%016" PRIx64 "\",\"last_id\":\"batch_%016" PRIx64 "\"",
            call->jobs[0].view.id, call->jobs[call->count - 1].view.id);
    lac_buf_printf(out, ",\"has_more\":%s}", call->more ? "true" : "false");
    lac__later_reply(later, type_json);
}

void lac__batches_list(lac__conn *conn)
{
    char value[64];
    int64_t limit = 20;
    lac__later *later = lac__later_start(conn);
    if (!later)
        return;
    later->call.kind = LAC_STORE_LIST;
    if (lac__query_value(conn, "limit", value, sizeof value) &&
        !lac_parse_i64(value, 1, LAC_JOBS_PAGE_MAX, &limit)) {
        lac__problem problem;
        lac__problem_set(&problem, 400, "invalid_value", "limit",
                         "limit is \"%.32s\", allowed 1..%d", value, LAC_JOBS_PAGE_MAX);
        lac__later_problem(later, &problem);
        return;
    }
    later->call.limit = (uint32_t)limit;
    if (lac__query_value(conn, "after", value, sizeof value) && !batch_id(value, &later->call.id))
        unknown_batch(later, value);
    else
        lac__later_ask(later, listed);
}
