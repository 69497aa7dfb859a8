/* Jobs as they come in and are called off: idempotency keys, items in order, the limits of one
 * store. Store thread, inside a transaction. */
#include <string.h>

#include "base/rng.h"
#include "ops.h"

/* A job that is there already, as far as a further submission of it must know. */
typedef struct {
    int64_t seq, endpoint, state, total;
} known;

static bool find_key(lac__db *db, const lac_store_call *call, known *out)
{
    if (!call->submit.key[0])
        return false;
    sqlite3_stmt *s = lac__query(db,
                                 "SELECT seq, endpoint, state, total FROM job"
                                 " WHERE tenant = ? AND key = ? AND key <> ''",
                                 "tt", call->tenant, call->submit.key);
    if (!lac__row(db, s))
        return false;
    *out = (known){sqlite3_column_int64(s, 0), sqlite3_column_int64(s, 1),
                   sqlite3_column_int64(s, 2), sqlite3_column_int64(s, 3)};
    lac__done(s);
    return true;
}

static bool insert_job(lac__db *db, const lac__ops *ops, lac_store_call *call, known *out)
{
    const lac_store_submit *in = &call->submit;
    if (in->first) {
        lac_fail(&call->error, LAC_ENOTFOUND,
                 "first is %u, but no job with that key is known: begin with 0", in->first);
        return false;
    }
    int64_t jobs = lac__number(db, 0, "SELECT count(*) FROM job", "");
    if (jobs >= LAC_JOBS_KEPT_MAX) {
        lac_fail(&call->error, LAC_BUSY,
                 "%lld jobs are kept, which is the most: wait until old "
                 "ones have passed their retention",
                 (long long)jobs);
        return false;
    }
    uint64_t id;
    lac_random_bytes(&id, sizeof id);
    id = id >> 1 ? id >> 1 : 1;
    *out = (known){.endpoint = in->endpoint, .state = in->error ? LAC_JOB_FAILED : LAC_JOB_FILLING};
    lac__run(db,
             "INSERT INTO job(id, tenant, key, endpoint, state, priority, attempts_max,"
             " deadline_ms, about, error, created_ms, ended_ms)"
             " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
             "ittiiiiibtii", (int64_t)id, call->tenant, in->key, (int64_t)in->endpoint, out->state,
             (int64_t)in->priority,
             (int64_t)(in->attempts_max ? in->attempts_max : LAC_JOB_ATTEMPTS), in->deadline_ms,
             &in->about, in->error, ops->now_ms, in->error ? ops->now_ms : (int64_t)0);
    out->seq = db->failed ? 0 : sqlite3_last_insert_rowid(db->handle);
    call->created = !db->failed;
    return call->created;
}

/* What was sent twice must have been equal the first time. */
static bool same_item(lac__db *db, int64_t ref, const lac_store_input *item)
{
    sqlite3_stmt *s = lac__query(db, "SELECT custom_id, body FROM input WHERE ref = ?", "i", ref);
    if (!lac__row(db, s))
        return false;
    const char *id = (const char *)sqlite3_column_text(s, 0);
    int id_length = sqlite3_column_bytes(s, 0);
    const void *body = sqlite3_column_blob(s, 1);
    int length = sqlite3_column_bytes(s, 1);
    bool same = (uint32_t)id_length == item->custom_id.length &&
                (uint32_t)length == item->body.length &&
                (!id_length || memcmp(id, item->custom_id.data, (size_t)id_length) == 0) &&
                (!length || memcmp(body, item->body.data, (size_t)length) == 0);
    lac__done(s);
    return same;
}

static bool put_item(lac__db *db, lac_store_call *call, known *job, uint32_t i)
{
    const lac_store_submit *in = &call->submit;
    const lac_store_input *item = &in->items[i];
    int64_t at = (int64_t)in->first + i, ref = lac__ref_low(job->seq) + at;
    if (at < job->total) {
        if (same_item(db, ref, item))
            return true;
        lac_fail(&call->error, LAC_EEXIST,
                 "item %lld differs from the one that was submitted before under that key",
                 (long long)at);
        return false;
    }
    if (at > job->total || at >= LAC_JOB_ITEMS_MAX) {
        lac_fail(&call->error, LAC_ETOOBIG,
                 "item %lld cannot follow %lld items, allowed at most %d", (long long)at,
                 (long long)job->total, LAC_JOB_ITEMS_MAX);
        return false;
    }
    if (job->state != LAC_JOB_FILLING) {
        lac_fail(&call->error, LAC_EEXIST, "the job with that key is complete with %lld items",
                 (long long)job->total);
        return false;
    }
    lac__run(db, "INSERT INTO item(ref) VALUES(?)", "i", ref);
    lac__run(db, "INSERT INTO input(ref, custom_id, body) VALUES(?, CAST(? AS TEXT), ?)", "ibb",
             ref, &item->custom_id, &item->body);
    job->total++;
    return !db->failed;
}

/* The last items are there: the job may run. */
static void complete(lac_store_call *call, known *job)
{
    const lac_store_submit *in = &call->submit;
    if (job->state != LAC_JOB_FILLING) {
        if ((int64_t)in->first + in->items_count != job->total && job->state != LAC_JOB_FAILED)
            lac_fail(&call->error, LAC_EEXIST, "the job with that key has %lld items, not %lld",
                     (long long)job->total, (long long)in->first + in->items_count);
        return;
    }
    if (!job->total) {
        lac_fail(&call->error, LAC_EINVAL, "the job has no items, allowed 1..%d",
                 LAC_JOB_ITEMS_MAX);
        return;
    }
    job->state = LAC_JOB_RUNNING;
}

void lac__op_submit(lac__db *db, const lac__ops *ops, lac_store_call *call)
{
    const lac_store_submit *in = &call->submit;
    known job = {0};
    bool there = find_key(db, call, &job);
    if (!there && (db->failed || !insert_job(db, ops, call, &job)))
        return;
    if (job.endpoint != (int64_t)in->endpoint) {
        lac_fail(&call->error, LAC_EEXIST, "the job with that key is of another endpoint (%s)",
                 lac_job_endpoint_path((lac_job_endpoint)job.endpoint));
        return;
    }
    for (uint32_t i = 0; i < in->items_count; i++)
        if (!put_item(db, call, &job, i))
            return;
    if (!in->more && job.state != LAC_JOB_FAILED)
        complete(call, &job);
    if (call->error.status)
        return;
    lac__run(db, "UPDATE job SET total = ?, state = ? WHERE seq = ?", "iii", job.total, job.state,
             job.seq);
    lac__op_view(db, call, job.seq);
}

void lac__op_cancel(lac__db *db, const lac__ops *ops, lac_store_call *call)
{
    int64_t seq = lac__op_find(db, call);
    if (!seq)
        return;
    lac__run(db, "UPDATE job SET state = 2 WHERE seq = ? AND state < 2", "i", seq);
    lac__op_settle(db, ops, seq);
    lac__op_view(db, call, seq);
}
