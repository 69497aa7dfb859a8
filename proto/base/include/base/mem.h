/* Memory: overflow-safe sizes, a growable byte buffer with a cap, a bump arena with a budget. */
#ifndef LAC_BASE_MEM_H
#define LAC_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* a*b and a+b in 64 bits; false on overflow, *out then untouched. */
static inline bool lac_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t r;
    if (__builtin_mul_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

static inline bool lac_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t r;
    if (__builtin_add_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

/* Zeroed memory for count × size bytes, never NULL: running out of memory for a control structure
 * aborts with a log line. For sizes that outside data chose use lac_try_alloc. Freed with free().
 */
void *lac_alloc(size_t count, size_t size);
/* As realloc with the same rule; new bytes are not zeroed. */
void *lac_realloc(void *p, size_t count, size_t size);
/* Zeroed memory or NULL. */
void *lac_try_alloc(size_t count, size_t size);
/* Copy of `length` bytes plus a final NUL. */
char *lac_strndup(const char *text, size_t length);

/* A byte buffer that grows up to `cap` bytes; always NUL-ended past `length` once data is present.
 * Zero-initialise with the cap: `lac_buf b = {.cap = 4096};`. Appends past the cap fail and set
 * `overflow`, so a writer may append many times and check once. */
typedef struct {
    char *data;
    size_t length;
    size_t size; /* bytes allocated */
    size_t cap;  /* largest length allowed; 0 = 1 GiB */
    bool overflow;
} lac_buf;

bool lac_buf_add(lac_buf *buf, const void *data, size_t length);
bool lac_buf_text(lac_buf *buf, const char *text);
bool lac_buf_printf(lac_buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Appends `text` as a JSON string with its quotes; bytes that are no UTF-8 become U+FFFD. */
bool lac_buf_json(lac_buf *buf, const char *text, size_t length);
/* Removes the first `length` bytes. */
void lac_buf_drop(lac_buf *buf, size_t length);
void lac_buf_clear(lac_buf *buf); /* length 0, memory and cap kept */
void lac_buf_free(lac_buf *buf);  /* no-op on an empty one; cap kept */

/* Bump allocation with a hard budget; all of it is freed at once. Not thread-safe. */
typedef struct lac_arena lac_arena;
lac_arena *lac_arena_create(size_t budget);
/* Zeroed, 16-byte aligned; NULL once the budget is spent. */
void *lac_arena_alloc(lac_arena *arena, size_t size);
size_t lac_arena_used(const lac_arena *arena);
void lac_arena_reset(lac_arena *arena);
void lac_arena_destroy(lac_arena **arena);

#endif
