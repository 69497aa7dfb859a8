/* The store as the loop sees it: calls in, calls back, life. Owns the lock that keeps other
 * processes out. Must not know tables, nor what the thread does with a call. Loop thread. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/log.h"
#include "thread.h"

enum {
    NFS_MAGIC = 0x6969,
    SMB_MAGIC = 0x517b,
};
static const unsigned cifs_magic = 0xff534d42u, smb2_magic = 0xfe534d42u;
static const uint64_t bytes_default = UINT64_C(4) << 30;
static const int64_t retention_default_ms = INT64_C(7) * 86400 * 1000;

static uint64_t bytes_of(const lac_store_call *call)
{
    uint64_t bytes = call->end.reply.length + call->submit.about.length + call->file.content.length;
    for (uint32_t i = 0; call->kind == LAC_STORE_SUBMIT && i < call->submit.items_count; i++)
        bytes += call->submit.items[i].body.length + call->submit.items[i].custom_id.length;
    return bytes;
}

void lac_store_call_free(lac_store_call *call)
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

/* ---- the loop ---- */

static void show(lac_store *store, const lac__store_stats *s)
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
    lac__store_stats s = store->stats;
    store->out_first = store->out_last = NULL;
    store->changed = false;
    store->writable = !store->refuses;
    store->live = (uint32_t)s.jobs;
    store->stats = (lac__store_stats){.jobs = s.jobs, .waiting = s.waiting, .running = s.running};
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
    LAC_ASSERT(call->kind <= LAC_STORE_FILE_LIST && call->done && !call->memory);
    LAC_ASSERT(call->kind != LAC_STORE_END || call->end.state >= LAC_ITEM_RETURNED);
    if (!store->writable && lac__store_grows(call->kind) && call->kind != LAC_STORE_CLAIM)
        return lac_fail(err, LAC_EIO, "the disk of the job store is full or refuses writes");
    uint64_t bytes = bytes_of(call);
    call->link = NULL;
    lac_store_call_free(call);
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
    lac__ops ops = lac__store_ops(store);
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
    if (uv_thread_create(&store->thread, lac__store_run, store)) {
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
