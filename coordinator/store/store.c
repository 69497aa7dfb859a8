/* The store as the loop sees it, and its thread: calls in, groups of them through one commit, calls
 * back. Owns the lock that keeps other processes out, and what happens when the disk refuses. Must
 * not know tables. Each field of lac_store says which thread it belongs to. */
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "ops.h"

enum {
    SAMPLES_MAX = 128,
    PROBE_BYTES = 1 << 20,
    NFS_MAGIC = 0x6969,
    SMB_MAGIC = 0x517b,
};
static const unsigned cifs_magic = 0xff534d42u, smb2_magic = 0xfe534d42u;
static const uint64_t bytes_default = UINT64_C(4) << 30;
static const int64_t retention_default_ms = INT64_C(7) * 86400 * 1000;

/* What the thread counts for the loop to show. */
typedef struct {
    double commit_s[SAMPLES_MAX];
    uint32_t commits, calls, failures, ended[LAC_ITEM_STATES];
    int64_t jobs, waiting, running; /* live jobs and their items */
} stats;

struct lac_store {
    /* Set at the start. */
    lac_store_options options;
    char path[LAC_ENDPOINT_MAX + 16];
    int lock_fd;
    uv_thread_t thread;
    /* The loop's. */
    uv_async_t async;
    bool writable, closing;
    uint32_t live;
    lac_metric *commit, *calls, *failures, *jobs, *waiting, *running, *writable_metric;
    lac_metric *ended[LAC_ITEM_STATES];
    /* Both, under the lock. */
    uv_mutex_t lock;
    uv_cond_t wake;
    lac_store_call *in_first, *in_last, *out_first, *out_last;
    uint32_t waiting_calls;
    uint64_t waiting_bytes;
    bool stop, changed, refuses;
    stats stats;
    /* The thread's. */
    lac__db db; /* handle NULL: it could not be opened again */
    uint64_t tick_ms, probe_ms;
};

static int64_t wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static lac__ops ops_now(const lac_store *store)
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

static uint64_t bytes_of(const lac_store_call *call)
{
    uint64_t bytes = call->end.reply.length + call->submit.about.length + call->file.content.length;
    for (uint32_t i = 0; call->kind == LAC_STORE_SUBMIT && i < call->submit.items_count; i++)
        bytes += call->submit.items[i].body.length + call->submit.items[i].custom_id.length;
    return bytes;
}

static void results_clear(lac_store_call *call)
{
    lac_arena_destroy(&call->memory);
    call->error = (lac_error){0};
    call->created = call->more = false;
    call->next = call->count = 0;
    call->jobs = NULL;
    call->claims = NULL;
    call->results = NULL;
    call->files = NULL;
}

void lac_store_call_free(lac_store_call *call)
{
    results_clear(call);
}

/* ---- the thread: when the disk refuses ---- */

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

/* ---- the thread: groups ---- */

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
    lac__ops ops = ops_now(store);
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
    if (store->stats.commits < SAMPLES_MAX)
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
        results_clear(call);
        if (!store->db.handle || !may_write(store, call)) {
            lac_fail(&call->error, LAC_EIO, "the disk of the job store is full or refuses writes");
        } else if (!commit_calls(store, call, call->link)) {
            results_clear(call);
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
    lac__ops ops = ops_now(store);
    for (lac_store_call *call = group; call; call = call->link) {
        if (kinds[call->kind].writes)
            continue;
        if (store->db.handle)
            kinds[call->kind].run(&store->db, &ops, call);
        if (!store->db.handle || store->db.failed) {
            results_clear(call);
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
    lac__ops ops = ops_now(store);
    bool changed = false;
    if (!store->refuses && lac__op_tick_due(db, &ops)) {
        changed = lac__begin(db) && lac__op_tick(db, &ops);
        if (db->failed || !lac__commit(db))
            trouble(store);
    }
    stats s = {0};
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

static void run(void *arg)
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

/* ---- the loop ---- */

static void show(lac_store *store, const stats *s)
{
    for (uint32_t i = 0; i < s->commits; i++)
        lac_metric_observe(store->commit, s->commit_s[i]);
    lac_metric_add(store->calls, s->calls);
    lac_metric_add(store->failures, s->failures);
    for (int i = LAC_ITEM_RETURNED; i < LAC_ITEM_STATES; i++)
        if (store->ended[i])
            lac_metric_add(store->ended[i], s->ended[i]);
    lac_metric_set(store->jobs, (double)s->jobs);
    lac_metric_set(store->waiting, (double)s->waiting);
    lac_metric_set(store->running, (double)s->running);
    lac_metric_set(store->writable_metric, store->writable);
}

static void deliver(lac_store *store)
{
    uv_mutex_lock(&store->lock);
    lac_store_call *call = store->out_first;
    bool changed = store->changed;
    stats s = store->stats;
    store->out_first = store->out_last = NULL;
    store->changed = false;
    store->writable = !store->refuses;
    store->live = (uint32_t)s.jobs;
    store->stats = (stats){.jobs = s.jobs, .waiting = s.waiting, .running = s.running};
    for (const lac_store_call *c = call; c; c = c->link) {
        store->waiting_calls--;
        store->waiting_bytes -= bytes_of(c);
    }
    uv_mutex_unlock(&store->lock);
    show(store, &s);
    while (call) {
        lac_store_call *next = call->link;
        call->link = NULL;
        call->done(call);
        call = next;
    }
    if (changed && !store->closing && store->options.changed)
        store->options.changed(store->options.changed_arg);
}

static void on_async(uv_async_t *async)
{
    deliver(async->data);
}

lac_status lac_store_do(lac_store *store, lac_store_call *call, lac_error *err)
{
    LAC_ASSERT((size_t)call->kind < sizeof kinds / sizeof *kinds && call->done && !call->memory);
    LAC_ASSERT(call->kind != LAC_STORE_END || call->end.state >= LAC_ITEM_RETURNED);
    if (!store->writable && kinds[call->kind].grows && call->kind != LAC_STORE_CLAIM)
        return lac_fail(err, LAC_EIO, "the disk of the job store is full or refuses writes");
    uint64_t bytes = bytes_of(call);
    call->link = NULL;
    results_clear(call);
    uv_mutex_lock(&store->lock);
    bool room =
        !store->stop && store->waiting_calls < LAC_STORE_CALLS_MAX &&
        (!store->waiting_calls || bytes + store->waiting_bytes <= LAC_STORE_BYTES_WAITING_MAX);
    if (room) {
        if (store->in_last)
            store->in_last->link = call;
        else
            store->in_first = call;
        store->in_last = call;
        store->waiting_calls++;
        store->waiting_bytes += bytes;
        uv_cond_signal(&store->wake);
    }
    uv_mutex_unlock(&store->lock);
    return room ? LAC_OK
                : lac_fail(err, LAC_BUSY, "the job store has too much to do, allowed %d calls",
                           LAC_STORE_CALLS_MAX);
}

bool lac_store_writable(const lac_store *store)
{
    return store->writable;
}

uint32_t lac_store_live(const lac_store *store)
{
    return store->live;
}

/* ---- life ---- */

static void make_metrics(lac_store *store, lac_metrics *m)
{
    store->commit = lac_metrics_get(m, LAC_M_STORE_COMMIT, "");
    store->calls = lac_metrics_get(m, LAC_M_STORE_WRITES, "");
    store->failures = lac_metrics_get(m, LAC_M_STORE_FAILURES, "");
    store->jobs = lac_metrics_get(m, LAC_M_JOBS_LIVE, "");
    store->waiting = lac_metrics_get(m, LAC_M_JOB_ITEMS_WAITING, "");
    store->running = lac_metrics_get(m, LAC_M_JOB_ITEMS_RUNNING, "");
    store->writable_metric = lac_metrics_get(m, LAC_M_STORE_WRITABLE, "");
    for (int i = LAC_ITEM_RETURNED; i < LAC_ITEM_STATES; i++) {
        lac_buf labels = {.cap = 64};
        if (i == LAC_ITEM_RUNNING)
            continue;
        lac_metric_label(&labels, "state", lac_item_state_name((lac_item_state)i));
        store->ended[i] = lac_metrics_get(m, LAC_M_JOB_ITEM_ENDS, labels.data);
        lac_buf_free(&labels);
    }
    lac_metric_set(store->writable_metric, 1);
}

/* Locks and shared memory of SQLite do not hold across machines. */
static lac_status check_place(const char *dir, lac_error *err)
{
    struct statfs info;
    if (statfs(dir, &info))
        return lac_fail(err, LAC_EIO, "%s: %s", dir, strerror(errno));
    unsigned type = (unsigned)info.f_type;
    if (type == NFS_MAGIC || type == SMB_MAGIC || type == cifs_magic || type == smb2_magic)
        return lac_fail(err, LAC_EUNSUPPORTED,
                        "%s is on a network file system, where jobs cannot be kept safely: name a "
                        "local --state-dir, or use --jobs off",
                        dir);
    return LAC_OK;
}

static lac_status take_lock(lac_store *store, lac_error *err)
{
    char path[sizeof store->path];
    snprintf(path, sizeof path, "%s/jobs.lock", store->options.dir);
    store->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (store->lock_fd < 0)
        return lac_fail(err, LAC_EIO, "%s: %s", path, strerror(errno));
    if (!flock(store->lock_fd, LOCK_EX | LOCK_NB))
        return LAC_OK;
    int code = errno;
    close(store->lock_fd);
    store->lock_fd = -1;
    return code == EWOULDBLOCK
               ? lac_fail(err, LAC_BUSY, "%s is held: another coordinator keeps the jobs of %s",
                          path, store->options.dir)
               : lac_fail(err, LAC_EIO, "%s: %s", path, strerror(code));
}

/* With our lock held nobody else has a lease, so what is leased was left by the dead. */
static lac_status recover(lac_store *store, lac_error *err)
{
    lac__ops ops = ops_now(store);
    lac__db *db = &store->db;
    if (!lac__op_tick_due(db, &ops) && !db->failed)
        return LAC_OK;
    if (!db->failed && lac__begin(db))
        lac__op_tick(db, &ops);
    if (!db->failed && lac__commit(db))
        return LAC_OK;
    if (lac__db_disk(db->failed)) {
        /* Full: they end at the first tick that can be written. */
        lac__rollback(db);
        store->refuses = true;
        return LAC_OK;
    }
    lac_status status = lac__db_error(db, err);
    lac__rollback(db);
    return status;
}

static void release(lac_store *store)
{
    lac__db_close(&store->db);
    if (store->lock_fd >= 0)
        close(store->lock_fd);
    uv_cond_destroy(&store->wake);
    uv_mutex_destroy(&store->lock);
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

lac_status lac_store_open(uv_loop_t *loop, const lac_store_options *options, lac_metrics *metrics,
                          lac_store **out, lac_error *err)
{
    lac_store *store = lac_alloc(1, sizeof *store);
    store->options = *options;
    store->lock_fd = -1;
    store->options.bytes_max = options->bytes_max ? options->bytes_max : bytes_default;
    store->options.retention_ms =
        options->retention_ms ? options->retention_ms : retention_default_ms;
    uv_mutex_init(&store->lock);
    uv_cond_init(&store->wake);
    lac_status status = LAC_OK;
    if ((size_t)snprintf(store->path, sizeof store->path, "%s/jobs.db", options->dir) >=
        sizeof store->path)
        status = lac_fail(err, LAC_ETOOBIG, "state-dir has more than %d bytes", LAC_ENDPOINT_MAX);
    if (status == LAC_OK)
        status = check_place(options->dir, err);
    if (status == LAC_OK)
        status = take_lock(store, err);
    if (status == LAC_OK)
        status = lac__db_open(&store->db, store->path, store->options.bytes_max, err);
    if (status == LAC_OK)
        status = recover(store, err);
    if (status != LAC_OK)
        goto release_store;
    make_metrics(store, metrics);
    store->writable = !store->refuses;
    store->changed = true; /* what an earlier start left is work */
    uv_async_init(loop, &store->async, on_async);
    store->async.data = store;
    if (uv_thread_create(&store->thread, run, store)) {
        status = lac_fail(err, LAC_EIO, "the job store's thread cannot be started");
        goto close_async;
    }
    uv_async_send(&store->async);
    *out = store;
    return LAC_OK;

close_async:
    release(store);
    uv_close((uv_handle_t *)&store->async, on_closed);
    return status;
release_store:
    release(store);
    free(store);
    return status;
}

void lac_store_close(lac_store **pointer)
{
    lac_store *store = *pointer;
    if (!store)
        return;
    *pointer = NULL;
    uv_mutex_lock(&store->lock);
    store->stop = store->closing = true;
    uv_cond_signal(&store->wake);
    uv_mutex_unlock(&store->lock);
    uv_thread_join(&store->thread);
    deliver(store);
    release(store);
    uv_close((uv_handle_t *)&store->async, on_closed);
}
