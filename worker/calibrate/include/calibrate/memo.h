/* What a long calibration has already found out, in a file beside its result, so that a run that
 * was stopped goes on where it was: one line a finished step, {"step": NAME, "values": [numbers]}.
 * The first line binds the file to model, data and options; a file of something else is set aside.
 * One thread. */
#ifndef LAC_CALIBRATE_MEMO_H
#define LAC_CALIBRATE_MEMO_H

#include <stdbool.h>
#include <stddef.h>

#include "base/digest.h"
#include "base/status.h"

typedef struct lac_memo lac_memo;

/* Opens or starts the file. Of a file that a kill cut short the whole lines count. *known is the
 * number of steps it holds already. A file of other inputs is replaced. LAC_EIO names the file;
 * LAC_EREFUSED when it is no such file at all: nothing of somebody else is overwritten. */
lac_status lac_memo_open(const char *path, const lac_digest *inputs, lac_memo **out, size_t *known,
                         lac_error *err);
void lac_memo_close(lac_memo **memo);
/* Copies the `count` values of a step; false when the step is not there or has another count. */
bool lac_memo_get(const lac_memo *memo, const char *step, double *values, size_t count);
/* Writes a step to the file before it returns. */
lac_status lac_memo_put(lac_memo *memo, const char *step, const double *values, size_t count,
                        lac_error *err);

#endif
