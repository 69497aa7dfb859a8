/* The lines of OpenAI's batch files, in and out. Pure, any thread: a file is read in libuv's pool.
 */
#ifndef LAC__FRONTEND_BATCH_LINES_H
#define LAC__FRONTEND_BATCH_LINES_H

#include "base/job.h"
#include "errors.h"
#include "store/store.h"

/* A file as items; all memory is the struct's. */
typedef struct {
    lac_store_input *items;
    uint32_t count;
    char **texts; /* the bodies, malloc'd */
} lac__lines;

/* Each line is {"custom_id":…,"method":"POST","url":…,"body":{…}}; blank lines are passed over.
 * With `endpoint` given every url must be that one, else the first line's is taken. False with
 * `problem` and the `line` (from 1, 0 = the file as a whole) that is at fault. */
bool lac__lines_read(const char *text, size_t length, lac_job_endpoint *endpoint, lac__lines *out,
                     uint32_t *line, lac__problem *problem);
void lac__lines_free(lac__lines *lines);

/* Appends the line of an item that has its end; the job says why one never ran. */
void lac__line_write(const lac_job_view *job, const lac_store_result *result, lac_buf *out);

#endif
