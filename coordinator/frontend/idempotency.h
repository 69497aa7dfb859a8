/* Requests that carry an Idempotency-Key: the second with a key and the same body gets the answer
 * of the first, waiting for it where it must; another body is an error. Loop thread.
 *
 * Kept are answers with status 200, LAC_IDEMPOTENT_MAX of them, each up to LAC_IDEMPOTENT_BYTES,
 * for LAC_IDEMPOTENT_MS. A request that fails, or whose client leaves, keeps nothing: the next one
 * with its key runs. Keys of different API keys are different. */
#ifndef LAC__FRONTEND_IDEMPOTENCY_H
#define LAC__FRONTEND_IDEMPOTENCY_H

#include "base/digest.h"
#include "base/mem.h"

struct lac__exchange;
struct lac_frontend;
typedef struct lac__kept lac__kept;

/* A request's place. */
typedef struct {
    bool given, owner; /* owner: its answer is what others wait for */
    lac_digest body;
    lac__kept *entry;           /* NULL: none yet, or no more */
    struct lac__exchange *next; /* of those that wait for the same */
} lac__keyed;

typedef struct {
    lac__kept *first, *last; /* the oldest first */
    uint32_t count;
    size_t bytes;
} lac__kepts;

/* Notes the key of the connection's request and what it asks. Before the body is parsed. */
void lac__idempotent_key(struct lac__exchange *x, const lac_buf *body);
/* The body is good: what happens next, a lac__exchange_event (PARSED…, TWIN, KNOWN, or BAD with the
 * problem set). */
int lac__idempotent_enter(struct lac__exchange *x);
/* A line of the answer: an event, or all of it. */
void lac__idempotent_event(struct lac__exchange *x, const char *text, size_t length);
/* The answer is whole. */
void lac__idempotent_end(struct lac__exchange *x);
/* The lines kept, each with a line break behind it. */
const lac_buf *lac__idempotent_answer(const struct lac__exchange *x);
/* A waiting request was woken: runs, repeats, or waits on. */
void lac__idempotent_turn(struct lac__exchange *x);
/* It ends, however. */
void lac__idempotent_leave(struct lac__exchange *x);
void lac__kepts_free(lac__kepts *kepts);

#endif
