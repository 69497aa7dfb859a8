/* Files: uploads are kept as they came; the results of a job are shown as two files that are
 * written when they are read. Loop thread. Must not know how anything is stored. */
#include "files.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "batch_lines.h"
#include "connection.h"
#include "later.h"
#include "multipart.h"

static const char json[] = "application/json", prefix[] = "/v1/files/";

/* ---- names ---- */

static const char *const names[] = {[LAC__FILE_UPLOAD] = "file-",
                                    [LAC__FILE_OUTPUT] = "file-out-",
                                    [LAC__FILE_ERRORS] = "file-err-"};

bool lac__id_parse(const char *text, uint64_t *id)
{
    uint8_t bytes[8];
    if (strlen(text) != 16 || !lac_unhex(text, bytes, 8))
        return false;
    *id = 0;
    for (int i = 0; i < 8; i++)
        *id = *id << 8 | bytes[i];
    return *id != 0 && *id <= INT64_MAX;
}

lac__file_kind lac__file_id(const char *text, uint64_t *id)
{
    for (lac__file_kind kind = LAC__FILE_ERRORS; kind >= LAC__FILE_UPLOAD; kind--) {
        size_t own = strlen(names[kind]);
        if (strncmp(text, names[kind], own) == 0 && lac__id_parse(text + own, id))
            return kind;
    }
    return LAC__FILE_NONE;
}

void lac__file_name(lac__file_kind kind, uint64_t id, char out[LAC__FILE_ID_MAX + 1])
{
    snprintf(out, LAC__FILE_ID_MAX + 1, "%s%016" PRIx64, names[kind], id);
}

/* ---- objects ---- */

typedef struct {
    lac__file_kind kind;
    uint64_t id, bytes;
    int64_t created_ms;
    const char *name, *purpose;
} file_facts;

static void file_object(const file_facts *f, lac_buf *out)
{
    char id[LAC__FILE_ID_MAX + 1];
    lac__file_name(f->kind, f->id, id);
    lac_buf_printf(out,
                   "{\"id\":\"%s\",\"object\":\"file\",\"bytes\":%llu,\"created_at\":%lld,"
                   "\"expires_at\":null,\"filename\":",
                   id, (unsigned long long)f->bytes, (long long)(f->created_ms / 1000));
    lac_buf_json(out, f->name, strlen(f->name));
    lac_buf_printf(out, ",\"purpose\":\"%s\",\"status\":\"processed\",\"status_details\":null}",
                   f->purpose);
}

static void upload_object(const lac_store_file *file, lac_buf *out)
{
    file_facts facts = {.kind = LAC__FILE_UPLOAD,
                        .id = file->id,
                        .bytes = file->bytes,
                        .created_ms = file->created_ms,
                        .name = file->name,
                        .purpose = file->purpose};
    file_object(&facts, out);
}

/* ---- upload ---- */

static void uploaded(lac__later *later)
{
    upload_object(later->call.files, &later->text);
    lac__later_reply(later, json);
}

static bool plain(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyz_-", text[i]) || !text[i])
            return false;
    return length > 0;
}

static bool read_form(lac__later *later, lac__problem *problem)
{
    lac__part parts[LAC__PARTS_MAX];
    size_t count;
    lac_store_file *file = &later->call.file;
    if (!lac__multipart_parse(later->conn->request.content_type, later->body.data,
                              later->body.length, parts, &count, problem))
        return false;
    const lac__part *purpose = lac__multipart_find(parts, count, "purpose");
    const lac__part *data = lac__multipart_find(parts, count, "file");
    if (!purpose || purpose->length > LAC_FILE_PURPOSE_MAX ||
        !plain(purpose->data, purpose->length))
        return lac__problem_set(problem, 400, "invalid_value", "purpose",
                                "purpose is missing or no word of at most %d letters; batches read "
                                "files of purpose \"batch\"",
                                LAC_FILE_PURPOSE_MAX);
    if (!data)
        return lac__problem_set(problem, 400, "missing_parameter", "file", "file is missing");
    memcpy(file->purpose, purpose->data, purpose->length);
    snprintf(file->name, sizeof file->name, "%s", data->file[0] ? data->file : "file");
    file->name[lac_utf8_whole(file->name, strlen(file->name))] = '\0';
    file->content = (lac_span){data->data, (uint32_t)data->length};
    return true;
}

void lac__files_upload(lac__conn *conn)
{
    lac__later *later = lac__later_start(conn);
    lac__problem problem;
    if (!later)
        return;
    later->call.kind = LAC_STORE_FILE_PUT;
    if (read_form(later, &problem))
        lac__later_ask(later, uploaded);
    else
        lac__later_problem(later, &problem);
}

/* ---- list ---- */

static void listed(lac__later *later)
{
    char id[LAC__FILE_ID_MAX + 1];
    const lac_store_call *call = &later->call;
    lac_buf *out = &later->text;
    lac_buf_text(out, "{\"object\":\"list\",\"data\":[");
    for (uint32_t i = 0; i < call->count; i++) {
        if (i)
            lac_buf_text(out, ",");
        upload_object(&call->files[i], out);
    }
    lac_buf_text(out, "]");
    for (int i = 0; i < 2 && call->count; i++) {
        lac__file_name(LAC__FILE_UPLOAD, call->files[i ? call->count - 1 : 0].id, id);
        lac_buf_printf(out, ",\"%s\":\"%s\"", i ? "last_id" : "first_id", id);
    }
    lac_buf_printf(out, ",\"has_more\":%s}", call->more ? "true" : "false");
    lac__later_reply(later, json);
}

static void unknown_file(lac__later *later, const char *id)
{
    lac__problem problem;
    lac__problem_set(&problem, 404, "not_found", "id", "no file has the id \"%.64s\"", id);
    lac__later_problem(later, &problem);
}

void lac__files_list(lac__conn *conn)
{
    char value[64];
    int64_t limit = LAC_JOBS_PAGE_MAX;
    lac__later *later = lac__later_start(conn);
    if (!later)
        return;
    lac_store_call *call = &later->call;
    call->kind = LAC_STORE_FILE_LIST;
    if (lac__query_value(conn, "limit", value, sizeof value) &&
        !lac_parse_i64(value, 1, 10000, &limit)) {
        lac__problem problem;
        lac__problem_set(&problem, 400, "invalid_value", "limit",
                         "limit is \"%.32s\", allowed 1..10000", value);
        lac__later_problem(later, &problem);
        return;
    }
    call->limit = (uint32_t)limit;
    lac__query_value(conn, "purpose", call->file.purpose, sizeof call->file.purpose);
    if (lac__query_value(conn, "after", value, sizeof value) &&
        lac__file_id(value, &call->id) != LAC__FILE_UPLOAD)
        unknown_file(later, value);
    else
        lac__later_ask(later, listed);
}

/* ---- one file ---- */

/* What a GET of one file is about. */
typedef struct {
    lac__file_kind kind;
    bool content;
} wish;

static void results_read(lac__later *later);

static void next_page(lac__later *later)
{
    uint32_t first = later->call.next;
    lac_store_call_free(&later->call);
    later->call.first = first;
    lac__later_ask(later, results_read);
}

static const char *results_name(lac__file_kind kind)
{
    return kind == LAC__FILE_OUTPUT ? "batch_output.jsonl" : "batch_errors.jsonl";
}

/* A page of results, written as lines; the file object needs their bytes alone. */
static void results_read(lac__later *later)
{
    wish w = *(wish *)later->data;
    lac_store_call *call = &later->call;
    const lac_job_view *job = &call->jobs->view;
    if (!lac_job_ended(job->state) || (job->hidden & call->which)) {
        char id[LAC__FILE_ID_MAX + 1];
        lac__file_name(w.kind, job->id, id);
        unknown_file(later, id);
        return;
    }
    for (uint32_t i = 0; i < call->count; i++)
        lac__line_write(job, &call->results[i], &later->text);
    if (call->more && !later->text.overflow) {
        next_page(later);
        return;
    }
    if (!w.content && !later->text.overflow) {
        file_facts facts = {.kind = w.kind,
                            .id = job->id,
                            .bytes = later->text.length,
                            .created_ms = job->ended_ms,
                            .name = results_name(w.kind),
                            .purpose = "batch_output"};
        lac_buf_clear(&later->text);
        file_object(&facts, &later->text);
    }
    lac__later_reply(later, w.content ? "application/jsonl" : json);
}

static void upload_read(lac__later *later)
{
    wish w = *(wish *)later->data;
    const lac_store_file *file = later->call.files;
    if (w.content && file->content.length)
        lac_buf_add(&later->text, file->content.data, file->content.length);
    else if (!w.content)
        upload_object(file, &later->text);
    lac__later_reply(later, w.content ? "application/octet-stream" : json);
}

void lac__files_show(lac__conn *conn)
{
    static wish wishes[] = {{LAC__FILE_UPLOAD, false}, {LAC__FILE_UPLOAD, true},
                            {LAC__FILE_OUTPUT, false}, {LAC__FILE_OUTPUT, true},
                            {LAC__FILE_ERRORS, false}, {LAC__FILE_ERRORS, true}};
    static const char tail[] = "/content";
    char id[64];
    lac__later *later = lac__later_start(conn);
    if (!later)
        return;
    lac__path_below(conn, prefix, id, sizeof id);
    size_t length = strlen(id), end = sizeof tail - 1;
    bool content = length > end && strcmp(id + length - end, tail) == 0;
    if (content)
        id[length - end] = '\0';
    lac_store_call *call = &later->call;
    lac__file_kind kind = lac__file_id(id, &call->id);
    if (kind == LAC__FILE_NONE) {
        unknown_file(later, id);
        return;
    }
    later->data = &wishes[2 * (kind - LAC__FILE_UPLOAD) + content];
    call->content = content;
    call->which = kind == LAC__FILE_OUTPUT ? LAC_STORE_DONE : LAC_STORE_WRONG;
    call->kind = kind == LAC__FILE_UPLOAD ? LAC_STORE_FILE_GET : LAC_STORE_RESULTS;
    lac__later_ask(later, kind == LAC__FILE_UPLOAD ? upload_read : results_read);
}

static void deleted(lac__later *later)
{
    const char *id = later->data;
    lac_buf_printf(&later->text, "{\"id\":\"%s\",\"object\":\"file\",\"deleted\":true}", id);
    lac__later_reply(later, json);
}

void lac__files_delete(lac__conn *conn)
{
    char id[64];
    lac__later *later = lac__later_start(conn);
    if (!later)
        return;
    lac__path_below(conn, prefix, id, sizeof id);
    lac_store_call *call = &later->call;
    lac__file_kind kind = lac__file_id(id, &call->id);
    if (kind == LAC__FILE_NONE) {
        unknown_file(later, id);
        return;
    }
    later->data = lac_strndup(id, strlen(id));
    later->free_data = free;
    call->kind = kind == LAC__FILE_UPLOAD ? LAC_STORE_FILE_DELETE : LAC_STORE_HIDE;
    call->which = kind == LAC__FILE_OUTPUT ? LAC_STORE_DONE : LAC_STORE_WRONG;
    lac__later_ask(later, deleted);
}
