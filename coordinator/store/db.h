/* The database connection and its statements, shared by the files of this folder. The store's
 * thread owns it (the opening thread before that one runs). */
#ifndef LAC__STORE_DB_H
#define LAC__STORE_DB_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/msg.h"
#include "base/status.h"

enum { LAC__STATEMENTS_MAX = 64, LAC__SCHEMA_VERSION = 2, LAC__APPLICATION = 0x4c41434a };

typedef struct {
    sqlite3 *handle;
    int failed; /* the first result code that was no success; 0 = none. While it is set nothing is
                   executed, so that a row of statements needs one look at the end */
    char why[200];
    struct {
        const char *text; /* a literal: found again by its address */
        sqlite3_stmt *statement;
    } cache[LAC__STATEMENTS_MAX];
    int cached;
} lac__db;

/* Opens (makes) the file, sets what every connection needs, checks application and version, and
 * migrates an older version in one transaction. */
lac_status lac__db_open(lac__db *db, const char *path, uint64_t bytes_max, lac_error *err);
void lac__db_close(lac__db *db);

/* Binds by `kinds`, a letter an argument: i = int64_t, t = const char * (NULL = ""), b = const
 * lac_span *. The statement is the connection's: step it with lac__row until that says false. NULL
 * after a failure. `text` must be a literal. */
sqlite3_stmt *lac__query(lac__db *db, const char *text, const char *kinds, ...);
/* The next row, or false at the end or on failure (then the statement is reset). */
bool lac__row(lac__db *db, sqlite3_stmt *statement);
/* Ends a query before its last row. NULL is a no-op. */
void lac__done(sqlite3_stmt *statement);
/* Executes to the end; returns the rows changed, −1 on failure. */
int lac__run(lac__db *db, const char *text, const char *kinds, ...);
/* The first column of the first row, or `otherwise`. */
int64_t lac__number(lac__db *db, int64_t otherwise, const char *text, const char *kinds, ...);

/* A transaction. commit() is false when it did not get to disk; all of it is then undone. */
bool lac__begin(lac__db *db);
bool lac__commit(lac__db *db);
void lac__rollback(lac__db *db); /* clears `failed` */
/* The disk is full or refuses: what fails now may work later. */
bool lac__db_disk(int code);
/* The status for `failed`, with its text. */
lac_status lac__db_error(const lac__db *db, lac_error *err);

#endif
