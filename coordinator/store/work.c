/* Items on their way: claimed with a lease, their attempt counted before anybody may run it, and
 * ended by the one who holds the lease. Which job is next and what a lapsed lease means is said by
 * core/jobs.h. Store thread, inside a transaction. */
#include <string.h>

#include "base/assert.h"
#include "core/jobs.h"
#include "ops.h"

enum {
    TURN = 8,                   /* items one job gets before an equal one has its turn */
    CLAIM_BYTES_MAX = 64 << 20, /* of one claim */
};

/* ---- claiming ---- */

typedef struct {
    int64_t seq, id, endpoint, attempts_max, next, total;
    char tenant[LAC_NAME_MAX + 1];
} job_row;

typedef struct {
    lac_jobs_candidate order[LAC__CANDIDATES_MAX];
    job_row rows[LAC__CANDIDATES_MAX];
    size_t count;
} candidates;

static void find_candidates(lac__db *db, candidates *out)
{
    sqlite3_stmt *s =
        lac__query(db,
                   "SELECT seq, id, endpoint, attempts_max, next, total, priority, deadline_ms,"
                   " served, tenant FROM job WHERE state < 4 AND state = 1 AND (next < total OR"
                   " returned > 0) ORDER BY priority DESC, served LIMIT 1024",
                   "");
    out->count = 0;
    while (lac__row(db, s)) {
        job_row *row = &out->rows[out->count];
        *row = (job_row){.seq = sqlite3_column_int64(s, 0),
                         .id = sqlite3_column_int64(s, 1),
                         .endpoint = sqlite3_column_int64(s, 2),
                         .attempts_max = sqlite3_column_int64(s, 3),
                         .next = sqlite3_column_int64(s, 4),
                         .total = sqlite3_column_int64(s, 5)};
        lac__op_text(s, 9, row->tenant, sizeof row->tenant);
        out->order[out->count++] =
            (lac_jobs_candidate){.priority = sqlite3_column_int(s, 6),
                                 .deadline_ms = sqlite3_column_int64(s, 7),
                                 .served = (uint64_t)sqlite3_column_int64(s, 8)};
    }
}

/* The refs a job gives for this turn: first those that wait again, then fresh ones. */
static uint32_t pick_refs(lac__db *db, const lac__ops *ops, job_row *job, uint32_t max,
                          int64_t refs[TURN], uint32_t *returned)
{
    uint32_t count = 0;
    sqlite3_stmt *s = lac__query(db,
                                 "SELECT ref FROM item WHERE state = 1 AND ref BETWEEN ? AND ?"
                                 " AND until_ms <= ? ORDER BY ref LIMIT ?",
                                 "iiii", lac__ref_low(job->seq), lac__ref_high(job->seq),
                                 ops->now_ms, (int64_t)max);
    while (lac__row(db, s))
        refs[count++] = sqlite3_column_int64(s, 0);
    *returned = count;
    while (count < max && job->next < job->total)
        refs[count++] = lac__ref_low(job->seq) + job->next++;
    return count;
}

static uint64_t claim_item(lac__db *db, const lac__ops *ops, lac_store_call *call,
                           const job_row *job, int64_t deadline_ms, int64_t ref)
{
    lac_store_claim *out = &call->claims[call->count];
    int64_t until = lac_jobs_lease_until(ops->now_ms, deadline_ms);
    int64_t attempt =
        lac__number(db, 0,
                    "UPDATE item SET state = 2, attempts = attempts + 1, epoch = ?, until_ms = ?"
                    " WHERE ref = ? AND state < 2 RETURNING attempts",
                    "iii", (int64_t)ops->epoch, until, ref);
    sqlite3_stmt *s = lac__query(db, "SELECT body FROM input WHERE ref = ?", "i", ref);
    if (db->failed)
        return 0;
    LAC_ASSERT(attempt >= 1 && attempt <= job->attempts_max);
    *out = (lac_store_claim){.ref = (uint64_t)ref,
                             .job = (uint64_t)job->id,
                             .endpoint = (lac_job_endpoint)job->endpoint,
                             .attempt = (uint32_t)attempt,
                             .attempts_max = (uint32_t)job->attempts_max,
                             .lease_until_ms = until,
                             .deadline_ms = deadline_ms};
    memcpy(out->tenant, job->tenant, sizeof out->tenant);
    if (lac__row(db, s)) {
        out->body = lac__op_keep(call, sqlite3_column_blob(s, 0), sqlite3_column_bytes(s, 0));
        lac__done(s);
    }
    call->count++;
    return out->body.length;
}

/* One job's turn; false when it had nothing to give after all. */
static bool take_turn(lac__db *db, const lac__ops *ops, lac_store_call *call, candidates *all,
                      size_t at, uint64_t *bytes)
{
    job_row *job = &all->rows[at];
    int64_t refs[TURN];
    uint32_t left = call->limit - call->count, returned, taken = 0;
    uint32_t count = pick_refs(db, ops, job, left < TURN ? left : TURN, refs, &returned);
    while (taken < count && !db->failed)
        *bytes += claim_item(db, ops, call, job, all->order[at].deadline_ms, refs[taken++]);
    if (!count || db->failed)
        return false;
    lac__run(db,
             "UPDATE job SET next = next + ?, returned = returned - ?, running = running + ?,"
             " started_ms = CASE WHEN started_ms = 0 THEN ? ELSE started_ms END,"
             " served = (SELECT max(served) + 1 FROM job WHERE state < 4) WHERE seq = ?",
             "iiiii", (int64_t)(count - returned), (int64_t)returned, (int64_t)count, ops->now_ms,
             job->seq);
    for (size_t i = 0; i < all->count; i++)
        if (all->order[i].served >= all->order[at].served && i != at)
            all->order[at].served = all->order[i].served + 1;
    return true;
}

void lac__op_claim(lac__db *db, const lac__ops *ops, lac_store_call *call)
{
    static candidates all; /* the one thread's */
    uint64_t bytes = 0;
    if (call->limit > LAC_JOBS_IN_FLIGHT_MAX)
        call->limit = LAC_JOBS_IN_FLIGHT_MAX;
    call->claims = lac__op_alloc(call, call->limit, sizeof *call->claims);
    find_candidates(db, &all);
    while (call->count < call->limit && bytes < CLAIM_BYTES_MAX && all.count && !db->failed) {
        size_t at = lac_jobs_next(all.order, all.count);
        if (take_turn(db, ops, call, &all, at, &bytes))
            continue;
        all.count--; /* what it has rests, or it has no more */
        all.order[at] = all.order[all.count];
        all.rows[at] = all.rows[all.count];
    }
}

/* ---- ending ---- */

_Static_assert(LAC_JOB_RUNNING + 3 == LAC_JOB_COMPLETED &&
                   LAC_JOB_EXPIRING + 3 == LAC_JOB_EXPIRED &&
                   LAC_JOB_CANCELLING + 3 == LAC_JOB_CANCELLED,
               "settling adds 3");

void lac__op_settle(lac__db *db, const lac__ops *ops, int64_t seq)
{
    lac__run(db,
             "UPDATE job SET state = state + 3, ended_ms = ? WHERE seq = ? AND"
             " ((state IN (2, 3) AND running = 0) OR"
             "  (state = 1 AND done + failed + expired = total))",
             "ii", ops->now_ms, seq);
}

static void give_back(lac__db *db, const lac_store_end *end, int64_t seq)
{
    lac__run(db, "UPDATE item SET state = 1, attempts = attempts - ?, until_ms = ? WHERE ref = ?",
             "iii", (int64_t)end->refund, end->not_before_ms, (int64_t)end->ref);
    lac__run(db, "UPDATE job SET running = running - 1, returned = returned + 1 WHERE seq = ?", "i",
             seq);
}

static void finish(lac__db *db, const lac_store_end *end, lac_item_state state, int64_t seq)
{
    lac__run(db,
             "UPDATE item SET state = ?, http = ?, prompt_tokens = ?, completion_tokens = ?,"
             " class = ? WHERE ref = ?",
             "iiiiti", (int64_t)state, (int64_t)end->http, (int64_t)end->prompt_tokens,
             (int64_t)end->completion_tokens, end->class_name, (int64_t)end->ref);
    if (end->reply.length)
        lac__run(db, "INSERT INTO output(ref, reply) VALUES(?, ?)", "ib", (int64_t)end->ref,
                 &end->reply);
    lac__run(db,
             "UPDATE job SET running = running - 1, done = done + ?, failed = failed + ?,"
             " expired = expired + ?, prompt_tokens = prompt_tokens + ?,"
             " completion_tokens = completion_tokens + ? WHERE seq = ?",
             "iiiiii", (int64_t)(state == LAC_ITEM_DONE), (int64_t)(state == LAC_ITEM_FAILED),
             (int64_t)(state == LAC_ITEM_EXPIRED), (int64_t)end->prompt_tokens,
             (int64_t)end->completion_tokens, seq);
}

void lac__op_end(lac__db *db, const lac__ops *ops, lac_store_call *call)
{
    const lac_store_end *end = &call->end;
    int64_t seq = (int64_t)end->ref >> LAC__REF_SHIFT;
    int64_t held = lac__number(
        db, 0, "SELECT 1 FROM item WHERE ref = ? AND state = 2 AND attempts = ? AND epoch = ?",
        "iii", (int64_t)end->ref, (int64_t)end->attempt, (int64_t)ops->epoch);
    if (db->failed)
        return;
    if (!held) {
        lac_fail(&call->error, LAC_EEPOCH, "attempt %u at that item is not leased any more",
                 end->attempt);
        return;
    }
    int64_t state = 0, attempts_max = 0;
    sqlite3_stmt *s = lac__query(db, "SELECT state, attempts_max FROM job WHERE seq = ?", "i", seq);
    if (lac__row(db, s)) {
        state = sqlite3_column_int64(s, 0);
        attempts_max = sqlite3_column_int64(s, 1);
        lac__done(s);
    }
    lac_item_state to = end->state;
    if (to == LAC_ITEM_RETURNED && !end->refund && end->attempt >= attempts_max)
        to = LAC_ITEM_FAILED;
    if (to == LAC_ITEM_CANCELLED && state == LAC_JOB_RUNNING)
        to = LAC_ITEM_FAILED; /* nobody called its job off, so it needs an end that counts */
    if (to == LAC_ITEM_RETURNED)
        give_back(db, end, seq);
    else
        finish(db, end, to, seq);
    lac__op_settle(db, ops, seq);
}
