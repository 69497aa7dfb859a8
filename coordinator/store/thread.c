/* The store's thread: groups of calls through one commit, and what happens when the disk refuses.
 * Must not know tables. Store thread, but for lac__store_ops. */
#include "thread.h"

#include <time.h>

#include "base/clock.h"
#include "base/log.h"

enum { PROBE_BYTES = 1 << 20 };

static int64_t wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

lac__ops lac__store_ops(const lac_store *store)
{
    return (lac__ops){.epoch = store->options.epoch,
                      .now_ms = wall_ms(),
                      .retention_ms = store->options.retention_ms};
}

/* ---- kinds of calls ---- */

static const struct {
    bool writes, grows; /* grows: takes new work in, or gives it out */
    void (*run)(lac__db *db, const lac__ops *ops, lac_store_call *call);
} kinds[] = {
    [LAC_STORE_SUBMIT] = {true, true, lac__op_submit},
    [LAC_STORE_CANCEL] = {true, false, lac__op_cancel},
    [LAC_STORE_CLAIM] = {true, true, lac__op_claim},
    [LAC_STORE_END] = {true, false, lac__op_end},
    [LAC_STORE_HIDE] = {true, false, lac__op_hide},
    [LAC_STORE_FILE_PUT] = {true, true, lac__op_file_put},
    [LAC_STORE_FILE_DELETE] = {true, false, lac__op_file_delete},
    [LAC_STORE_FILE_GET] = {false, false, lac__op_file_get},
    [LAC_STORE_FILE_LIST] = {false, false, lac__op_file_list},
    [LAC_STORE_SHOW] = {false, false, lac__op_show},
    [LAC_STORE_LIST] = {false, false, lac__op_list},
    [LAC_STORE_STOPPING] = {false, false, lac__op_stopping},
    [LAC_STORE_RESULTS] = {false, false, lac__op_results},
};

bool lac__store_grows(lac_store_kind kind)
{
    return kinds[kind].grows;
}

/* ---- when the disk refuses ---- */

static void count_failure(lac_store *store)
{
    uv_mutex_lock(&store->lock);
    store->stats.failures++;
    uv_mutex_unlock(&store->lock);
}

static void set_refuses(lac_store *store, bool refuses)
{
    uv_mutex_lock(&store->lock);
    store->refuses = refuses;
    store->changed |= !refuses;
    uv_mutex_unlock(&store->lock);
    uv_async_send(&store->async);
}

static bool reopen(lac_store *store)
{
    lac_error err = {0};
    lac__db_close(&store->db);
    return lac__db_open(&store->db, store->path, store->options.bytes_max, &err) == LAC_OK;
}

/* A write failed and is undone. After an error of the device nothing that the connection believes
 * is sure any more: what is really on disk is read anew. */
static void trouble(lac_store *store)
{
    int failed = store->db.failed;
    if (!store->refuses) {
        lac_error_log("%s: %s (%d): jobs are read-only until the disk takes writes again",
                      store->path, store->db.why, failed);
        store->probe_ms = lac_now_ms() + LAC_STORE_PROBE_MS;
        set_refuses(store, true);
    }
    count_failure(store);
    lac__rollback(&store->db);
    if ((failed & 0xff) != SQLITE_FULL)
        reopen(store);
}

/* Is there room again? Asked with a real write of a size that a job may need. */
static void probe(lac_store *store)
{
    uint64_t now = lac_now_ms();
    if (!store->refuses || now < store->probe_ms)
        return;
    store->probe_ms = now + LAC_STORE_PROBE_MS;
    lac__db *db = &store->db;
    if (!db->handle && !reopen(store))
        return;
    bool good = lac__begin(db);
    lac__run(db, "INSERT INTO probe VALUES(zeroblob(?))", "i", (int64_t)PROBE_BYTES);
    good = good && !db->failed && lac__commit(db) && lac__begin(db);
    lac__run(db, "DELETE FROM probe", "");
    good = good && !db->failed && lac__commit(db);
    if (good) {
        lac_info("%s: the disk takes writes again", store->path);
        set_refuses(store, false);
        return;
    }
    int failed = db->failed;
    lac__rollback(db);
    if ((failed & 0xff) != SQLITE_FULL)
        reopen(store);
}

/* ---- groups ---- */

/* One call's writes are undone without those of the others when it fails for its own reasons. */
static void run_write(lac_store *store, const lac__ops *ops, lac_store_call *call)
{
    lac__db *db = &store->db;
    lac__run(db, "SAVEPOINT one", "");
    kinds[call->kind].run(db, ops, call);
    if (call->error.status)
        lac__run(db, "ROLLBACK TO one", "");
    lac__run(db, "RELEASE one", "");
}

static bool may_write(lac_store *store, const lac_store_call *call)
{
    return kinds[call->kind].writes && !(store->refuses && kinds[call->kind].grows);
}

/* Those of [first, end) in one transaction; false when the disk refused, and nothing is done. */
static bool commit_calls(lac_store *store, lac_store_call *first, const lac_store_call *end)
{
    lac__ops ops = lac__store_ops(store);
    lac__db *db = &store->db;
    uint64_t begun = lac_now_ns();
    uint32_t calls = 0;
    if (!lac__begin(db))
        return false;
    for (lac_store_call *call = first; call != end; call = call->link)
        if (may_write(store, call)) {
            run_write(store, &ops, call);
            calls++;
        }
    if (db->failed || !lac__commit(db))
        return false;
    uv_mutex_lock(&store->lock);
    if (store->stats.commits < LAC__STORE_SAMPLES_MAX)
        store->stats.commit_s[store->stats.commits++] = (double)(lac_now_ns() - begun) / 1e9;
    store->stats.calls += calls;
    for (lac_store_call *call = first; call != end; call = call->link) {
        if (call->kind == LAC_STORE_END && !call->error.status)
            store->stats.ended[call->end.state]++;
        store->changed |= call->kind == LAC_STORE_SUBMIT || call->kind == LAC_STORE_CANCEL;
    }
    uv_mutex_unlock(&store->lock);
    return true;
}

/* Each by itself, so that one that is too large for what is left does not stop the others. */
static void commit_each(lac_store *store, lac_store_call *group)
{
    for (lac_store_call *call = group; call; call = call->link) {
        if (!kinds[call->kind].writes)
            continue;
        lac_store_call_free(call);
        if (!store->db.handle || !may_write(store, call)) {
            lac_fail(&call->error, LAC_EIO, "the disk of the job store is full or refuses writes");
        } else if (!commit_calls(store, call, call->link)) {
            lac_store_call_free(call);
            lac__db_error(&store->db, &call->error);
            trouble(store);
        }
    }
}

static void work(lac_store *store, lac_store_call *group)
{
    bool writes = false;
    for (lac_store_call *call = group; call; call = call->link) {
        if (!kinds[call->kind].writes)
            continue;
        if (!store->db.handle || !may_write(store, call))
            lac_fail(&call->error, LAC_EIO, "the disk of the job store is full or refuses writes");
        else
            writes = true;
    }
    if (writes && !commit_calls(store, group, NULL)) {
        trouble(store);
        commit_each(store, group);
    }
    /* After the commit: what is read is on disk. */
    lac__ops ops = lac__store_ops(store);
    for (lac_store_call *call = group; call; call = call->link) {
        if (kinds[call->kind].writes)
            continue;
        if (store->db.handle)
            kinds[call->kind].run(&store->db, &ops, call);
        if (!store->db.handle || store->db.failed) {
            lac_store_call_free(call);
            lac_fail(&call->error, LAC_EIO, "the job store cannot be read: %s", store->db.why);
            lac__rollback(&store->db);
        }
    }
}

static void tick(lac_store *store)
{
    uint64_t now = lac_now_ms();
    lac__db *db = &store->db;
    probe(store);
    if (now < store->tick_ms || !db->handle)
        return;
    store->tick_ms = now + LAC_STORE_TICK_MS;
    lac__ops ops = lac__store_ops(store);
    bool changed = false;
    if (!store->refuses && lac__op_tick_due(db, &ops)) {
        changed = lac__begin(db) && lac__op_tick(db, &ops);
        if (db->failed || !lac__commit(db))
            trouble(store);
    }
    lac__store_stats s = {0};
    sqlite3_stmt *live = lac__query(db,
                                    "SELECT count(*), sum(total - next + returned), sum(running)"
                                    " FROM job WHERE state < 4",
                                    "");
    if (lac__row(db, live)) {
        s.jobs = sqlite3_column_int64(live, 0);
        s.waiting = sqlite3_column_int64(live, 1);
        s.running = sqlite3_column_int64(live, 2);
        lac__done(live);
    }
    if (db->failed)
        lac__rollback(db);
    uv_mutex_lock(&store->lock);
    changed |= store->stats.jobs != s.jobs || store->stats.waiting != s.waiting ||
               store->stats.running != s.running;
    store->stats.jobs = s.jobs;
    store->stats.waiting = s.waiting;
    store->stats.running = s.running;
    store->changed |= changed;
    uv_mutex_unlock(&store->lock);
    if (changed)
        uv_async_send(&store->async);
}

/* The next group, oldest first; NULL when nothing came for a while. With the lock held. */
static lac_store_call *take(lac_store *store)
{
    if (!store->in_first && !store->stop)
        uv_cond_timedwait(&store->wake, &store->lock,
                          (uint64_t)LAC_STORE_TICK_MS / 2 * UINT64_C(1000000));
    lac_store_call *first = store->in_first, *last = first;
    if (!first)
        return NULL;
    uint32_t count = 1;
    for (; last->link && count < LAC_STORE_GROUP_MAX; count++)
        last = last->link;
    store->in_first = last->link;
    if (!store->in_first)
        store->in_last = NULL;
    last->link = NULL;
    return first;
}

static void hand_back(lac_store *store, lac_store_call *group)
{
    lac_store_call *last = group;
    while (last->link)
        last = last->link;
    if (store->out_last)
        store->out_last->link = group;
    else
        store->out_first = group;
    store->out_last = last;
}

void lac__store_run(void *arg)
{
    lac_store *store = arg;
    uv_mutex_lock(&store->lock);
    for (;;) {
        lac_store_call *group = take(store);
        if (!group && store->stop)
            break;
        uv_mutex_unlock(&store->lock);
        if (group)
            work(store, group);
        tick(store);
        uv_mutex_lock(&store->lock);
        if (group) {
            hand_back(store, group);
            uv_async_send(&store->async);
        }
    }
    uv_mutex_unlock(&store->lock);
}
