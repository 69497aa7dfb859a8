/* Files that clients upload, and results they want to see no more. Store thread, inside a
 * transaction where they write. */
#include <string.h>

#include "base/rng.h"
#include "ops.h"

static void read_file(sqlite3_stmt *s, lac_store_file *out)
{
    *out = (lac_store_file){.id = (uint64_t)sqlite3_column_int64(s, 0),
                            .created_ms = sqlite3_column_int64(s, 1),
                            .bytes = (uint64_t)sqlite3_column_int64(s, 2)};
    lac__op_text(s, 3, out->purpose, sizeof out->purpose);
    lac__op_text(s, 4, out->name, sizeof out->name);
}

/* The number by which this store knows the file; 0 with call->error: there is none. */
static int64_t find_file(lac__db *db, lac_store_call *call)
{
    int64_t seq = lac__number(db, 0, "SELECT seq FROM file WHERE id = ? AND tenant = ?", "it",
                              (int64_t)call->id, call->tenant);
    if (!seq && !db->failed)
        lac_fail(&call->error, LAC_ENOTFOUND, "no file has that id");
    return seq;
}

static void view_file(lac__db *db, lac_store_call *call, int64_t seq)
{
    call->files = lac__op_alloc(call, 1, sizeof *call->files);
    sqlite3_stmt *s = lac__query(
        db, "SELECT id, created_ms, bytes, purpose, name FROM file WHERE seq = ?", "i", seq);
    if (!lac__row(db, s))
        return;
    read_file(s, call->files);
    lac__done(s);
}

void lac__op_file_put(lac__db *db, const lac__ops *ops, lac_store_call *call)
{
    const lac_store_file *in = &call->file;
    int64_t files = lac__number(db, 0, "SELECT count(*) FROM file", "");
    if (files >= LAC_FILES_MAX) {
        lac_fail(&call->error, LAC_BUSY, "%lld files are kept, which is the most: delete some",
                 (long long)files);
        return;
    }
    uint64_t id;
    lac_random_bytes(&id, sizeof id);
    id = id >> 1 ? id >> 1 : 1;
    lac__run(db,
             "INSERT INTO file(id, tenant, purpose, name, created_ms, bytes)"
             " VALUES(?, ?, ?, ?, ?, ?)",
             "itttii", (int64_t)id, call->tenant, in->purpose, in->name, ops->now_ms,
             (int64_t)in->content.length);
    int64_t seq = db->failed ? 0 : sqlite3_last_insert_rowid(db->handle);
    lac__run(db, "INSERT INTO content(seq, bytes) VALUES(?, ?)", "ib", seq, &in->content);
    view_file(db, call, seq);
}

void lac__op_file_get(lac__db *db, const lac__ops *ops, lac_store_call *call)
{
    (void)ops;
    int64_t seq = find_file(db, call);
    if (!seq)
        return;
    view_file(db, call, seq);
    if (!call->content)
        return;
    sqlite3_stmt *s = lac__query(db, "SELECT bytes FROM content WHERE seq = ?", "i", seq);
    if (!lac__row(db, s))
        return;
    call->files->content =
        lac__op_keep(call, sqlite3_column_blob(s, 0), sqlite3_column_bytes(s, 0));
    lac__done(s);
}

void lac__op_file_list(lac__db *db, const lac__ops *ops, lac_store_call *call)
{
    int64_t after = INT64_MAX;
    (void)ops;
    if (call->limit < 1 || call->limit > LAC_JOBS_PAGE_MAX)
        call->limit = LAC_JOBS_PAGE_MAX;
    if (call->id && !(after = find_file(db, call)))
        return;
    call->files = lac__op_alloc(call, call->limit, sizeof *call->files);
    sqlite3_stmt *s = lac__query(db,
                                 "SELECT id, created_ms, bytes, purpose, name FROM file"
                                 " WHERE tenant = ? AND seq < ? AND (? = '' OR purpose = ?)"
                                 " ORDER BY seq DESC LIMIT ?",
                                 "titti", call->tenant, after, call->file.purpose,
                                 call->file.purpose, (int64_t)call->limit + 1);
    while (lac__row(db, s)) {
        if (call->count == call->limit) {
            call->more = true;
            lac__done(s);
            break;
        }
        read_file(s, &call->files[call->count++]);
    }
}

static void remove_file(lac__db *db, int64_t seq)
{
    lac__run(db, "DELETE FROM content WHERE seq = ?", "i", seq);
    lac__run(db, "DELETE FROM file WHERE seq = ?", "i", seq);
}

void lac__op_file_delete(lac__db *db, const lac__ops *ops, lac_store_call *call)
{
    (void)ops;
    int64_t seq = find_file(db, call);
    if (seq)
        remove_file(db, seq);
}

static const char oldest[] =
    "SELECT seq FROM file WHERE created_ms <= ? ORDER BY created_ms LIMIT 1";

bool lac__op_files_due(lac__db *db, const lac__ops *ops)
{
    return lac__number(db, 0, oldest, "i", ops->now_ms - ops->retention_ms) != 0;
}

void lac__op_files_forget(lac__db *db, const lac__ops *ops)
{
    int64_t seq = lac__number(db, 0, oldest, "i", ops->now_ms - ops->retention_ms);
    if (seq)
        remove_file(db, seq);
}

/* The items themselves stay until their job leaves. */
void lac__op_hide(lac__db *db, const lac__ops *ops, lac_store_call *call)
{
    (void)ops;
    int64_t seq = lac__op_find(db, call);
    if (!seq)
        return;
    lac__run(db, "UPDATE job SET hidden = hidden | ? WHERE seq = ?", "ii", (int64_t)call->which,
             seq);
    lac__op_view(db, call, seq);
}
