/* Batch files line by line. Judges only what makes a line an item: that it is an object with these
 * four fields, and that no custom_id comes twice. What its body asks for is judged when it runs, as
 * for any request. Pure. */
#include "batch_lines.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "json_scan.h"

#define uthash_fatal(text) lac__assert_fail("uthash: " text, __FILE__, __LINE__)
#include <uthash.h>

typedef struct {
    const char *text;
    UT_hash_handle hh;
} seen_id;

typedef struct {
    lac__lines *out;
    lac_job_endpoint endpoint;
    seen_id *seen, *ids; /* a table, and its memory: one an item */
    lac__problem *problem;
} reading;

static bool bad(reading *r, const char *code, const char *param, const char *why)
{
    return lac__problem_set(r->problem, 400, code, param, "%s", why);
}

static bool check_url(reading *r, const json_t *line)
{
    const char *method = json_string_value(json_object_get(line, "method"));
    const char *url = json_string_value(json_object_get(line, "url"));
    if (!method || strcmp(method, "POST") != 0)
        return bad(r, "invalid_method", "method", "method is not \"POST\", the only one allowed");
    lac_job_endpoint endpoint = url ? lac_job_endpoint_of(url) : (lac_job_endpoint)0;
    if (!endpoint)
        return bad(r, "invalid_url", "url",
                   "url is neither \"/v1/chat/completions\" nor \"/v1/completions\"");
    if (!r->endpoint)
        r->endpoint = endpoint;
    return endpoint == r->endpoint ||
           bad(r, "mismatched_url", "url", "url is not the endpoint of this batch");
}

static bool check_id(reading *r, const char *id, size_t length)
{
    seen_id *entry = &r->ids[r->out->count], *other = NULL;
    HASH_FIND(hh, r->seen, id, length, other);
    if (other)
        return bad(r, "duplicate_custom_id", "custom_id",
                   "custom_id is that of an earlier line, allowed once");
    entry->text = id;
    HASH_ADD_KEYPTR(hh, r->seen, id, length, entry);
    return true;
}

/* The item's texts are one block: its custom_id, then its body. */
static bool keep(reading *r, const json_t *line)
{
    const json_t *id = json_object_get(line, "custom_id"), *body = json_object_get(line, "body");
    size_t id_length = json_is_string(id) ? json_string_length(id) : 0;
    if (!id_length || id_length > LAC_JOB_CUSTOM_ID_MAX)
        return bad(r, "invalid_custom_id", "custom_id", "custom_id is no string of 1 to 256 bytes");
    if (!json_is_object(body))
        return bad(r, "invalid_body", "body", "body is no object");
    if (!check_url(r, line))
        return false;
    char *json = json_dumps(body, JSON_COMPACT);
    if (!json)
        return bad(r, "invalid_body", "body", "body cannot be written as JSON");
    size_t length = strlen(json);
    char *text = lac_try_alloc(id_length + length, 1);
    if (text) {
        memcpy(text, json_string_value(id), id_length);
        memcpy(text + id_length, json, length);
    }
    free(json);
    if (!text)
        return lac__problem_set(r->problem, 503, "out_of_memory", NULL, "no memory for the file");
    r->out->texts[r->out->count] = text;
    r->out->items[r->out->count] = (lac_store_input){.custom_id = {text, (uint32_t)id_length},
                                                     .body = {text + id_length, (uint32_t)length}};
    bool good = check_id(r, text, id_length);
    r->out->count++; /* also when it is refused: its text is freed with the rest */
    return good;
}

static bool read_line(reading *r, const char *text, size_t length)
{
    json_error_t error;
    if (r->out->count == LAC_JOB_ITEMS_MAX)
        return lac__problem_set(r->problem, 400, "too_many_tasks", NULL,
                                "the file has more than %d lines, the most allowed",
                                LAC_JOB_ITEMS_MAX);
    if (!lac__json_scan(text, length, r->problem))
        return false;
    json_t *line = json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!line)
        return lac__problem_set(r->problem, 400, "invalid_json_line", NULL,
                                "this line is not valid JSON: %s", error.text);
    bool good = json_is_object(line) ? keep(r, line)
                                     : bad(r, "invalid_json_line", NULL, "this line is no object");
    json_decref(line);
    return good;
}

static bool blank(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!strchr(" \t\r", text[i]) || !text[i])
            return false;
    return true;
}

static size_t count_lines(const char *text, size_t length)
{
    size_t lines = 1;
    for (size_t i = 0; i < length; i++)
        lines += text[i] == '\n';
    return lines < LAC_JOB_ITEMS_MAX ? lines : LAC_JOB_ITEMS_MAX;
}

bool lac__lines_read(const char *text, size_t length, lac_job_endpoint *endpoint, lac__lines *out,
                     uint32_t *line, lac__problem *problem)
{
    *out = (lac__lines){0};
    size_t lines = count_lines(text, length);
    reading r = {.out = out, .endpoint = *endpoint, .problem = problem};
    out->items = lac_alloc(lines, sizeof *out->items);
    out->texts = lac_alloc(lines, sizeof *out->texts);
    r.ids = lac_alloc(lines, sizeof *r.ids);
    bool good = true;
    *line = 0;
    for (size_t at = 0; good && at < length;) {
        const char *end = memchr(text + at, '\n', length - at);
        size_t here = end ? (size_t)(end - text) - at : length - at;
        (*line)++;
        if (!blank(text + at, here))
            good = read_line(&r, text + at, here);
        at += here + 1;
    }
    if (good && !out->count) {
        *line = 0;
        good = bad(&r, "empty_file", NULL, "the file has no lines");
    }
    HASH_CLEAR(hh, r.seen);
    free(r.ids);
    if (good)
        *endpoint = r.endpoint;
    else
        lac__lines_free(out);
    return good;
}

void lac__lines_free(lac__lines *lines)
{
    for (uint32_t i = 0; i < lines->count; i++)
        free(lines->texts[i]);
    free(lines->texts);
    free(lines->items);
    *lines = (lac__lines){0};
}

/* ---- out ---- */

static void line_error(const lac_job_view *job, const lac_store_result *result, lac_buf *out)
{
    const char *code = "batch_cancelled",
               *text = "This request was not run before its batch ended.";
    if (result->state == LAC_ITEM_FAILED) {
        code = "attempts_exhausted";
        text = "Every attempt at this request was lost, and no more are allowed.";
    } else if (result->state == LAC_ITEM_EXPIRED || job->state == LAC_JOB_EXPIRED) {
        code = "batch_expired";
        text = "This request could not be executed before the completion window expired.";
    }
    lac_buf_printf(out, "null,\"error\":{\"code\":\"%s\",\"message\":\"%s\"}}\n", code, text);
}

void lac__line_write(const lac_job_view *job, const lac_store_result *result, lac_buf *out)
{
    lac_buf_printf(out, "{\"id\":\"batch_req_%016" PRIx64 "%05x\",\"custom_id\":", job->id,
                   result->index);
    lac_buf_json(out, result->custom_id.length ? result->custom_id.data : "",
                 result->custom_id.length);
    lac_buf_text(out, ",\"response\":");
    if (!result->reply.length) {
        line_error(job, result, out);
        return;
    }
    lac_buf_printf(out, "{\"status_code\":%u,\"request_id\":\"req-%016" PRIx64 "%05x\",\"body\":",
                   result->http, job->id, result->index);
    lac_buf_add(out, result->reply.data, result->reply.length);
    lac_buf_text(out, "},\"error\":null}\n");
}
