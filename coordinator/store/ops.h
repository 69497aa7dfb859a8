/* The store's operations on a connection, one a kind of call. All run on the store's thread, inside
 * the transaction of their group when they write. An operation that fails for a reason of its own
 * fills call->error and has its writes undone by the caller; one that the disk fails leaves that in
 * db->failed. */
#ifndef LAC__STORE_OPS_H
#define LAC__STORE_OPS_H

#include "db.h"
#include "store/store.h"

enum { LAC__REF_SHIFT = 20, LAC__CANDIDATES_MAX = 1024 };
_Static_assert(LAC_JOB_ITEMS_MAX <= 1 << LAC__REF_SHIFT, "an item's place must fit in its ref");

/* What operations need to know besides the call. */
typedef struct {
    uint64_t epoch;
    int64_t now_ms, retention_ms;
} lac__ops;

static inline int64_t lac__ref_low(int64_t seq)
{
    return seq << LAC__REF_SHIFT;
}

static inline int64_t lac__ref_high(int64_t seq)
{
    return lac__ref_low(seq + 1) - 1;
}

/* submit.c */
void lac__op_submit(lac__db *db, const lac__ops *ops, lac_store_call *call);
void lac__op_cancel(lac__db *db, const lac__ops *ops, lac_store_call *call);

/* work.c */
void lac__op_claim(lac__db *db, const lac__ops *ops, lac_store_call *call);
void lac__op_end(lac__db *db, const lac__ops *ops, lac_store_call *call);
/* Gives a job the end that its items allow. */
void lac__op_settle(lac__db *db, const lac__ops *ops, int64_t seq);

/* tick.c: what time does by itself. True when jobs changed that others should look at. Writes, so
 * it needs a transaction when lac__op_tick_due says that there is something. */
bool lac__op_tick_due(lac__db *db, const lac__ops *ops);
bool lac__op_tick(lac__db *db, const lac__ops *ops);

/* read.c */
void lac__op_show(lac__db *db, const lac__ops *ops, lac_store_call *call);
void lac__op_list(lac__db *db, const lac__ops *ops, lac_store_call *call);
void lac__op_stopping(lac__db *db, const lac__ops *ops, lac_store_call *call);
void lac__op_results(lac__db *db, const lac__ops *ops, lac_store_call *call);
/* files.c */
void lac__op_file_put(lac__db *db, const lac__ops *ops, lac_store_call *call);
void lac__op_file_get(lac__db *db, const lac__ops *ops, lac_store_call *call);
void lac__op_file_list(lac__db *db, const lac__ops *ops, lac_store_call *call);
void lac__op_file_delete(lac__db *db, const lac__ops *ops, lac_store_call *call);
void lac__op_hide(lac__db *db, const lac__ops *ops, lac_store_call *call);
/* Uploads whose retention is over: is there one; one goes. */
bool lac__op_files_due(lac__db *db, const lac__ops *ops);
void lac__op_files_forget(lac__db *db, const lac__ops *ops);

/* read.c, for all */
/* A text column, cut to what fits. */
void lac__op_text(sqlite3_stmt *s, int column, char *out, size_t size);
/* The number by which this store knows a job of that tenant; 0 with call->error: there is none. */
int64_t lac__op_find(lac__db *db, lac_store_call *call);
/* Puts that job into call->jobs. */
void lac__op_view(lac__db *db, lac_store_call *call, int64_t seq);
/* Copies into the call's memory. */
lac_span lac__op_keep(lac_store_call *call, const void *data, int length);
void *lac__op_alloc(lac_store_call *call, size_t count, size_t size);

#endif
