/* What time does to jobs: leases lapse, deadlines pass, ended jobs leave. Store thread, inside a
 * transaction. */
#include "core/jobs.h"
#include "ops.h"

enum { FORGET_ITEMS = 2000, LEASES_MAX = 4 * LAC_JOBS_IN_FLIGHT_MAX };

static const char lapsed[] = "SELECT ref, attempts, epoch, until_ms FROM item WHERE state = 2";

bool lac__op_tick_due(lac__db *db, const lac__ops *ops)
{
    int64_t due = lac__number(db, 0,
                              "SELECT EXISTS(SELECT 1 FROM job WHERE state < 4 AND state < 2 AND"
                              " deadline_ms > 0 AND deadline_ms <= ?) OR EXISTS(SELECT 1 FROM job"
                              " WHERE state >= 4 AND ended_ms <= ?)",
                              "ii", ops->now_ms, ops->now_ms - ops->retention_ms);
    sqlite3_stmt *s = lac__query(db, lapsed, "");
    while (lac__row(db, s))
        due |= lac_jobs_lease_over((uint64_t)sqlite3_column_int64(s, 2), ops->epoch,
                                   sqlite3_column_int64(s, 3), ops->now_ms);
    return (due || lac__op_files_due(db, ops)) && !db->failed;
}

/* Whose holder is gone or took too long. At a start that is every one there is. */
static bool end_leases(lac__db *db, const lac__ops *ops)
{
    static int64_t refs[LEASES_MAX], attempts[LEASES_MAX]; /* the one thread's */
    int count = 0;
    sqlite3_stmt *s = lac__query(db, lapsed, "");
    while (lac__row(db, s))
        if (count < LEASES_MAX &&
            lac_jobs_lease_over((uint64_t)sqlite3_column_int64(s, 2), ops->epoch,
                                sqlite3_column_int64(s, 3), ops->now_ms)) {
            refs[count] = sqlite3_column_int64(s, 0);
            attempts[count++] = sqlite3_column_int64(s, 1);
        }
    for (int i = 0; i < count; i++) {
        int64_t seq = refs[i] >> LAC__REF_SHIFT;
        int64_t max = lac__number(db, 0, "SELECT attempts_max FROM job WHERE seq = ?", "i", seq);
        bool fail = lac_jobs_after_lease((uint32_t)attempts[i], (uint32_t)max) == LAC_JOBS_FAIL;
        lac__run(db, "UPDATE item SET state = ?, until_ms = 0 WHERE ref = ?", "ii",
                 (int64_t)(fail ? LAC_ITEM_FAILED : LAC_ITEM_RETURNED), refs[i]);
        lac__run(db,
                 "UPDATE job SET running = running - 1, failed = failed + ?,"
                 " returned = returned + ? WHERE seq = ?",
                 "iii", (int64_t)fail, (int64_t)!fail, seq);
        lac__op_settle(db, ops, seq);
    }
    return count > 0;
}

static bool expire(lac__db *db, const lac__ops *ops)
{
    int changed = lac__run(db,
                           "UPDATE job SET state = 3 WHERE state < 4 AND state < 2 AND"
                           " deadline_ms > 0 AND deadline_ms <= ?",
                           "i", ops->now_ms);
    if (changed <= 0)
        return false;
    lac__run(db,
             "UPDATE job SET state = 6, ended_ms = ? WHERE state < 4 AND state = 3 AND"
             " running = 0",
             "i", ops->now_ms);
    return true;
}

/* A large job goes in pieces, so that nobody waits long behind it. */
static void forget(lac__db *db, const lac__ops *ops)
{
    int64_t seq =
        lac__number(db, 0,
                    "SELECT seq FROM job WHERE state >= 4 AND ended_ms <= ? ORDER BY ended_ms"
                    " LIMIT 1",
                    "i", ops->now_ms - ops->retention_ms);
    if (!seq)
        return;
    int64_t low = lac__ref_low(seq), high = lac__ref_high(seq);
    int64_t last =
        lac__number(db, -1, "SELECT max(ref) FROM item WHERE ref BETWEEN ? AND ?", "ii", low, high);
    int64_t from = last - FORGET_ITEMS + 1 > low ? last - FORGET_ITEMS + 1 : low;
    lac__run(db, "DELETE FROM output WHERE ref BETWEEN ? AND ?", "ii", from, high);
    lac__run(db, "DELETE FROM input WHERE ref BETWEEN ? AND ?", "ii", from, high);
    lac__run(db, "DELETE FROM item WHERE ref BETWEEN ? AND ?", "ii", from, high);
    if (from == low)
        lac__run(db, "DELETE FROM job WHERE seq = ?", "i", seq);
}

bool lac__op_tick(lac__db *db, const lac__ops *ops)
{
    bool changed = end_leases(db, ops);
    changed |= expire(db, ops);
    forget(db, ops);
    lac__op_files_forget(db, ops);
    return changed;
}
