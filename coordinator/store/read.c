/* Jobs and results as they are asked for. Writes nothing. Store thread. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "ops.h"

enum { MEMORY_MAX = 1 << 30 };

void *lac__op_alloc(lac_store_call *call, size_t count, size_t size)
{
    if (!call->memory)
        call->memory = lac_arena_create(MEMORY_MAX);
    void *p = lac_arena_alloc(call->memory, (count ? count : 1) * size);
    LAC_ASSERT(p); /* every call bounds what it reads far below that */
    return p;
}

lac_span lac__op_keep(lac_store_call *call, const void *data, int length)
{
    if (length <= 0)
        return (lac_span){0};
    char *copy = lac__op_alloc(call, (size_t)length, 1);
    memcpy(copy, data, (size_t)length);
    return (lac_span){copy, (uint32_t)length};
}

int64_t lac__op_find(lac__db *db, lac_store_call *call)
{
    int64_t seq = lac__number(db, 0, "SELECT seq FROM job WHERE id = ? AND tenant = ?", "it",
                              (int64_t)call->id, call->tenant);
    if (!seq && !db->failed)
        lac_fail(&call->error, LAC_ENOTFOUND, "no job has that id");
    return seq;
}

#define VIEW                                                                                       \
    "SELECT id, endpoint, state, priority, attempts_max, created_ms, started_ms, ended_ms,"        \
    " deadline_ms, total, running, done, failed, expired, prompt_tokens, completion_tokens, key,"  \
    " error, about, hidden FROM job "

void lac__op_text(sqlite3_stmt *s, int column, char *out, size_t size)
{
    const char *value = (const char *)sqlite3_column_text(s, column);
    size_t length = value ? strnlen(value, size - 1) : 0;
    if (length)
        memcpy(out, value, length);
    out[length] = '\0';
}

static void read_view(lac_store_call *call, sqlite3_stmt *s, lac_store_job *out)
{
    lac_job_view *v = &out->view;
    v->id = (uint64_t)sqlite3_column_int64(s, 0);
    v->endpoint = (lac_job_endpoint)sqlite3_column_int(s, 1);
    v->state = (lac_job_state)sqlite3_column_int(s, 2);
    v->priority = sqlite3_column_int(s, 3);
    v->attempts_max = (uint32_t)sqlite3_column_int64(s, 4);
    v->created_ms = sqlite3_column_int64(s, 5);
    v->started_ms = sqlite3_column_int64(s, 6);
    v->ended_ms = sqlite3_column_int64(s, 7);
    v->deadline_ms = sqlite3_column_int64(s, 8);
    v->total = (uint32_t)sqlite3_column_int64(s, 9);
    v->running = (uint32_t)sqlite3_column_int64(s, 10);
    v->done = (uint32_t)sqlite3_column_int64(s, 11);
    v->failed = (uint32_t)sqlite3_column_int64(s, 12);
    v->expired = (uint32_t)sqlite3_column_int64(s, 13);
    v->prompt_tokens = (uint64_t)sqlite3_column_int64(s, 14);
    v->completion_tokens = (uint64_t)sqlite3_column_int64(s, 15);
    lac__op_text(s, 16, v->key, sizeof v->key);
    lac__op_text(s, 17, v->error, sizeof v->error);
    v->hidden = (uint8_t)sqlite3_column_int(s, 19);
    out->about = lac__op_keep(call, sqlite3_column_blob(s, 18), sqlite3_column_bytes(s, 18));
}

void lac__op_view(lac__db *db, lac_store_call *call, int64_t seq)
{
    call->jobs = lac__op_alloc(call, 1, sizeof *call->jobs);
    sqlite3_stmt *s = lac__query(db, VIEW "WHERE seq = ?", "i", seq);
    if (!lac__row(db, s))
        return;
    read_view(call, s, call->jobs);
    lac__done(s);
}

void lac__op_show(lac__db *db, const lac__ops *ops, lac_store_call *call)
{
    (void)ops;
    int64_t seq = lac__op_find(db, call);
    if (seq)
        lac__op_view(db, call, seq);
}

void lac__op_list(lac__db *db, const lac__ops *ops, lac_store_call *call)
{
    (void)ops;
    int64_t after = INT64_MAX;
    if (call->limit < 1 || call->limit > LAC_JOBS_PAGE_MAX)
        call->limit = LAC_JOBS_PAGE_MAX;
    if (call->id && !(after = lac__op_find(db, call)))
        return;
    call->jobs = lac__op_alloc(call, call->limit, sizeof *call->jobs);
    sqlite3_stmt *s = lac__query(db, VIEW "WHERE tenant = ? AND seq < ? ORDER BY seq DESC LIMIT ?",
                                 "tii", call->tenant, after, (int64_t)call->limit + 1);
    while (lac__row(db, s)) {
        if (call->count == call->limit) {
            call->more = true;
            lac__done(s);
            break;
        }
        read_view(call, s, &call->jobs[call->count++]);
    }
}

void lac__op_stopping(lac__db *db, const lac__ops *ops, lac_store_call *call)
{
    (void)ops;
    call->jobs = lac__op_alloc(call, LAC_JOBS_IN_FLIGHT_MAX, sizeof *call->jobs);
    sqlite3_stmt *s =
        lac__query(db, VIEW "WHERE state < 4 AND state IN (2, 3) AND running > 0 LIMIT ?", "i",
                   (int64_t)LAC_JOBS_IN_FLIGHT_MAX);
    while (lac__row(db, s))
        read_view(call, s, &call->jobs[call->count++]);
}

/* ---- results ---- */

static bool wanted(const lac_store_call *call, lac_item_state state)
{
    bool over = lac_job_ended(call->jobs->view.state);
    bool wrong = state == LAC_ITEM_FAILED || state == LAC_ITEM_EXPIRED ||
                 state == LAC_ITEM_CANCELLED ||
                 (over && (state == LAC_ITEM_FRESH || state == LAC_ITEM_RETURNED));
    return (state == LAC_ITEM_DONE && call->which & LAC_STORE_DONE) ||
           (wrong && call->which & LAC_STORE_WRONG);
}

static size_t read_result(lac_store_call *call, sqlite3_stmt *s, int64_t low, lac_store_result *out)
{
    *out = (lac_store_result){.index = (uint32_t)(sqlite3_column_int64(s, 0) - low),
                              .state = (lac_item_state)sqlite3_column_int(s, 1),
                              .attempts = (uint32_t)sqlite3_column_int64(s, 2),
                              .http = (uint32_t)sqlite3_column_int64(s, 3),
                              .prompt_tokens = (uint32_t)sqlite3_column_int64(s, 4),
                              .completion_tokens = (uint32_t)sqlite3_column_int64(s, 5)};
    lac__op_text(s, 6, out->class_name, sizeof out->class_name);
    out->custom_id = lac__op_keep(call, sqlite3_column_text(s, 7), sqlite3_column_bytes(s, 7));
    out->reply = lac__op_keep(call, sqlite3_column_blob(s, 8), sqlite3_column_bytes(s, 8));
    return out->custom_id.length + out->reply.length;
}

void lac__op_results(lac__db *db, const lac__ops *ops, lac_store_call *call)
{
    size_t bytes = 0;
    (void)ops;
    int64_t seq = lac__op_find(db, call), low = lac__ref_low(seq);
    if (!seq)
        return;
    lac__op_view(db, call, seq);
    if (call->limit < 1 || call->limit > LAC_JOB_RESULTS_PAGE_MAX)
        call->limit = LAC_JOB_RESULTS_PAGE_MAX;
    call->results = lac__op_alloc(call, call->limit, sizeof *call->results);
    sqlite3_stmt *s = lac__query(db,
                                 "SELECT i.ref, i.state, i.attempts, i.http, i.prompt_tokens,"
                                 " i.completion_tokens, i.class, n.custom_id, o.reply FROM item i"
                                 " JOIN input n ON n.ref = i.ref"
                                 " LEFT JOIN output o ON o.ref = i.ref"
                                 " WHERE i.ref BETWEEN ? AND ? ORDER BY i.ref",
                                 "ii", low + call->first, lac__ref_high(seq));
    while (lac__row(db, s)) {
        if (!wanted(call, (lac_item_state)sqlite3_column_int(s, 1)))
            continue;
        if (call->count == call->limit || bytes >= LAC_STORE_PAGE_BYTES) {
            call->more = true;
            call->next = (uint32_t)(sqlite3_column_int64(s, 0) - low);
            lac__done(s);
            break;
        }
        bytes += read_result(call, s, low, &call->results[call->count++]);
    }
}
