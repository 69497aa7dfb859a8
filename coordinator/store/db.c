/* One SQLite connection: opening, versions, statements, transactions. Owns every call that SQLite
 * has beyond reading columns; knows tables only as the text of the migrations. */
#include "db.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"

/* migrations[v] brings version v to v + 1. */
static const char *const migrations[LAC__SCHEMA_VERSION] = {
    /* An item's ref is its job's seq × 2^20 + its place, so that a job's items lie side by side and
     * are written in order. What changes often is apart from what is large. */
    "CREATE TABLE job("
    " seq INTEGER PRIMARY KEY AUTOINCREMENT, id INTEGER NOT NULL UNIQUE, tenant TEXT NOT NULL,"
    " key TEXT NOT NULL, endpoint INTEGER NOT NULL, state INTEGER NOT NULL,"
    " priority INTEGER NOT NULL, attempts_max INTEGER NOT NULL, deadline_ms INTEGER NOT NULL,"
    " about BLOB NOT NULL, error TEXT NOT NULL, created_ms INTEGER NOT NULL,"
    " started_ms INTEGER NOT NULL DEFAULT 0, ended_ms INTEGER NOT NULL DEFAULT 0,"
    " served INTEGER NOT NULL DEFAULT 0, total INTEGER NOT NULL DEFAULT 0,"
    " next INTEGER NOT NULL DEFAULT 0, running INTEGER NOT NULL DEFAULT 0,"
    " returned INTEGER NOT NULL DEFAULT 0, done INTEGER NOT NULL DEFAULT 0,"
    " failed INTEGER NOT NULL DEFAULT 0, expired INTEGER NOT NULL DEFAULT 0,"
    " prompt_tokens INTEGER NOT NULL DEFAULT 0, completion_tokens INTEGER NOT NULL DEFAULT 0);"
    "CREATE UNIQUE INDEX job_key ON job(tenant, key) WHERE key <> '';"
    "CREATE INDEX job_live ON job(seq) WHERE state < 4;"
    "CREATE INDEX job_ended ON job(ended_ms) WHERE state >= 4;"
    "CREATE TABLE item("
    " ref INTEGER PRIMARY KEY, state INTEGER NOT NULL DEFAULT 0,"
    " attempts INTEGER NOT NULL DEFAULT 0, epoch INTEGER NOT NULL DEFAULT 0,"
    " until_ms INTEGER NOT NULL DEFAULT 0, http INTEGER NOT NULL DEFAULT 0,"
    " prompt_tokens INTEGER NOT NULL DEFAULT 0, completion_tokens INTEGER NOT NULL DEFAULT 0,"
    " class TEXT NOT NULL DEFAULT '');"
    "CREATE INDEX item_returned ON item(ref) WHERE state = 1;"
    "CREATE INDEX item_running ON item(ref) WHERE state = 2;"
    "CREATE TABLE input(ref INTEGER PRIMARY KEY, custom_id TEXT NOT NULL, body BLOB NOT NULL);"
    "CREATE TABLE output(ref INTEGER PRIMARY KEY, reply BLOB NOT NULL);"
    "CREATE TABLE probe(room BLOB);",
    "CREATE TABLE file("
    " seq INTEGER PRIMARY KEY AUTOINCREMENT, id INTEGER NOT NULL UNIQUE, tenant TEXT NOT NULL,"
    " purpose TEXT NOT NULL, name TEXT NOT NULL, created_ms INTEGER NOT NULL,"
    " bytes INTEGER NOT NULL);"
    "CREATE INDEX file_created ON file(created_ms);"
    "CREATE TABLE content(seq INTEGER PRIMARY KEY, bytes BLOB NOT NULL);"
    "ALTER TABLE job ADD COLUMN hidden INTEGER NOT NULL DEFAULT 0;",
};

static void note(lac__db *db, int code)
{
    if (db->failed || code == SQLITE_OK || code == SQLITE_ROW || code == SQLITE_DONE)
        return;
    db->failed = sqlite3_extended_errcode(db->handle);
    if (!db->failed)
        db->failed = code;
    snprintf(db->why, sizeof db->why, "%s", sqlite3_errmsg(db->handle));
}

bool lac__db_disk(int code)
{
    int base = code & 0xff;
    return base == SQLITE_FULL || base == SQLITE_IOERR || base == SQLITE_CANTOPEN ||
           base == SQLITE_READONLY;
}

lac_status lac__db_error(const lac__db *db, lac_error *err)
{
    int base = db->failed & 0xff;
    lac_status status = base == SQLITE_CORRUPT || base == SQLITE_NOTADB ? LAC_ECORRUPT
                        : base == SQLITE_NOMEM                          ? LAC_ENOMEM
                        : base == SQLITE_BUSY                           ? LAC_BUSY
                        : lac__db_disk(db->failed)                      ? LAC_EIO
                                                                        : LAC_EINTERNAL;
    return lac_fail(err, status, "the job store cannot be written or read: %s (%d)", db->why,
                    db->failed);
}

/* ---- statements ---- */

static sqlite3_stmt *prepare(lac__db *db, const char *text)
{
    for (int i = 0; i < db->cached; i++)
        if (db->cache[i].text == text)
            return db->cache[i].statement;
    LAC_ASSERT(db->cached < LAC__STATEMENTS_MAX);
    sqlite3_stmt *statement = NULL;
    int code =
        sqlite3_prepare_v3(db->handle, text, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL);
    if (code != SQLITE_OK) {
        note(db, code);
        return NULL;
    }
    db->cache[db->cached].text = text;
    db->cache[db->cached++].statement = statement;
    return statement;
}

static sqlite3_stmt *bind(lac__db *db, const char *text, const char *kinds, va_list args)
{
    sqlite3_stmt *statement = db->failed ? NULL : prepare(db, text);
    if (!statement)
        return NULL;
    LAC_ASSERT((size_t)sqlite3_bind_parameter_count(statement) == strlen(kinds));
    for (int i = 0; kinds[i]; i++) {
        int code;
        if (kinds[i] == 'i') {
            code = sqlite3_bind_int64(statement, i + 1, va_arg(args, int64_t));
        } else if (kinds[i] == 't') {
            const char *value = va_arg(args, const char *);
            code = sqlite3_bind_text(statement, i + 1, value ? value : "", -1, SQLITE_STATIC);
        } else {
            const lac_span *value = va_arg(args, const lac_span *);
            LAC_ASSERT(kinds[i] == 'b');
            code = sqlite3_bind_blob(statement, i + 1, value->length ? value->data : "",
                                     (int)value->length, SQLITE_STATIC);
        }
        note(db, code);
    }
    return db->failed ? NULL : statement;
}

sqlite3_stmt *lac__query(lac__db *db, const char *text, const char *kinds, ...)
{
    va_list args;
    va_start(args, kinds);
    sqlite3_stmt *statement = bind(db, text, kinds, args);
    va_end(args);
    return statement;
}

bool lac__row(lac__db *db, sqlite3_stmt *statement)
{
    if (!statement)
        return false;
    if (!db->failed) {
        int code = sqlite3_step(statement);
        if (code == SQLITE_ROW)
            return true;
        note(db, code);
    }
    lac__done(statement);
    return false;
}

void lac__done(sqlite3_stmt *statement)
{
    if (!statement)
        return;
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
}

int lac__run(lac__db *db, const char *text, const char *kinds, ...)
{
    va_list args;
    va_start(args, kinds);
    sqlite3_stmt *statement = bind(db, text, kinds, args);
    va_end(args);
    while (lac__row(db, statement))
        ;
    return db->failed ? -1 : sqlite3_changes(db->handle);
}

int64_t lac__number(lac__db *db, int64_t otherwise, const char *text, const char *kinds, ...)
{
    va_list args;
    va_start(args, kinds);
    sqlite3_stmt *statement = bind(db, text, kinds, args);
    va_end(args);
    if (!lac__row(db, statement))
        return otherwise;
    int64_t value = sqlite3_column_int64(statement, 0);
    lac__done(statement);
    return value;
}

/* ---- transactions ---- */

bool lac__begin(lac__db *db)
{
    return lac__run(db, "BEGIN IMMEDIATE", "") >= 0;
}

bool lac__commit(lac__db *db)
{
    if (lac__run(db, "COMMIT", "") >= 0)
        return true;
    int failed = db->failed;
    char why[sizeof db->why];
    memcpy(why, db->why, sizeof why);
    lac__rollback(db);
    db->failed = failed;
    memcpy(db->why, why, sizeof why);
    return false;
}

void lac__rollback(lac__db *db)
{
    db->failed = 0;
    /* SQLite undoes by itself after some errors. */
    if (db->handle && !sqlite3_get_autocommit(db->handle))
        lac__run(db, "ROLLBACK", "");
    db->failed = 0;
}

/* ---- opening ---- */

static lac_status refuse(lac__db *db, const char *path, lac_error *err)
{
    lac_status status = lac__db_error(db, err);
    return lac_fail(err, status, "%s: %s", path, db->why);
}

static void exec(lac__db *db, const char *text)
{
    if (!db->failed)
        note(db, sqlite3_exec(db->handle, text, NULL, NULL, NULL));
}

static lac_status migrate(lac__db *db, const char *path, int64_t version, lac_error *err)
{
    char text[64];
    exec(db, "BEGIN IMMEDIATE");
    for (int64_t v = version; v < LAC__SCHEMA_VERSION; v++)
        exec(db, migrations[v]);
    snprintf(text, sizeof text, "PRAGMA application_id = %d", LAC__APPLICATION);
    exec(db, text);
    snprintf(text, sizeof text, "PRAGMA user_version = %d", LAC__SCHEMA_VERSION);
    exec(db, text);
    exec(db, "COMMIT");
    if (!db->failed)
        return LAC_OK;
    lac_status status = refuse(db, path, err);
    lac__rollback(db);
    return status;
}

static lac_status check_version(lac__db *db, const char *path, lac_error *err)
{
    int64_t application = lac__number(db, 0, "PRAGMA application_id", "");
    int64_t version = lac__number(db, 0, "PRAGMA user_version", "");
    int64_t tables = lac__number(db, 0, "SELECT count(*) FROM sqlite_schema", "");
    if (db->failed)
        return refuse(db, path, err);
    if (application != LAC__APPLICATION && (application || version || tables))
        return lac_fail(err, LAC_ECORRUPT, "%s is a database of something else", path);
    if (version > LAC__SCHEMA_VERSION)
        return lac_fail(err, LAC_EUNSUPPORTED,
                        "%s is of schema version %lld, this program reads up to %d: start a newer "
                        "lacuna-coordinator, or name another --state-dir",
                        path, (long long)version, LAC__SCHEMA_VERSION);
    return version < LAC__SCHEMA_VERSION ? migrate(db, path, version, err) : LAC_OK;
}

static lac_status check_whole(lac__db *db, const char *path, lac_error *err)
{
    static const char check[] = "PRAGMA quick_check(1)";
    sqlite3_stmt *statement = lac__query(db, check, "");
    lac_status status = LAC_OK;
    if (lac__row(db, statement)) {
        const char *text = (const char *)sqlite3_column_text(statement, 0);
        if (!text || strcmp(text, "ok") != 0)
            status = lac_fail(err, LAC_ECORRUPT, "%s is damaged: %.150s", path, text ? text : "");
        lac__done(statement);
    }
    return db->failed ? refuse(db, path, err) : status;
}

static lac_status set_up(lac__db *db, const char *path, uint64_t bytes_max, lac_error *err)
{
    char text[64];
    sqlite3_extended_result_codes(db->handle, 1);
    sqlite3_busy_timeout(db->handle, 5000);
    lac_status status = check_version(db, path, err);
    if (status == LAC_OK)
        status = check_whole(db, path, err);
    if (status != LAC_OK)
        return status;
    /* FULL: a commit is on disk when it returns, also after a power cut. */
    exec(db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;"
             "PRAGMA wal_autocheckpoint = 1000; PRAGMA journal_size_limit = 16777216;"
             "PRAGMA secure_delete = ON; PRAGMA temp_store = MEMORY");
    int64_t page = lac__number(db, 4096, "PRAGMA page_size", "");
    snprintf(text, sizeof text, "PRAGMA max_page_count = %lld",
             (long long)(bytes_max / (uint64_t)page));
    exec(db, text);
    return db->failed ? refuse(db, path, err) : LAC_OK;
}

lac_status lac__db_open(lac__db *db, const char *path, uint64_t bytes_max, lac_error *err)
{
    *db = (lac__db){0};
    /* Made by us first: SQLite would let the group read it. */
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return lac_fail(err, LAC_EIO, "%s: %s", path, strerror(errno));
    close(fd);
    int code =
        sqlite3_open_v2(path, &db->handle,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
    lac_status status;
    if (code != SQLITE_OK && db->handle) {
        note(db, code);
        status = refuse(db, path, err);
    } else if (!db->handle) {
        status = lac_fail(err, LAC_ENOMEM, "%s: no memory for a database", path);
    } else {
        status = set_up(db, path, bytes_max, err);
    }
    if (status != LAC_OK)
        lac__db_close(db);
    return status;
}

void lac__db_close(lac__db *db)
{
    for (int i = 0; i < db->cached; i++)
        sqlite3_finalize(db->cache[i].statement);
    sqlite3_close(db->handle);
    *db = (lac__db){0};
}
