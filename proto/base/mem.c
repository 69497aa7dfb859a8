/* Allocation wrappers, the growable buffer and the bump arena. Each object belongs to one thread.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/text.h"

enum { BUF_CAP_DEFAULT = 1 << 30, BUF_FIRST = 256, ARENA_ALIGN = 16, ARENA_BLOCK = 16384 };

static _Noreturn void out_of_memory(size_t count, size_t size)
{
    fprintf(stderr, "out of memory: %zu x %zu bytes\n", count, size);
    abort();
}

void *lac_try_alloc(size_t count, size_t size)
{
    return calloc(count ? count : 1, size ? size : 1);
}

void *lac_alloc(size_t count, size_t size)
{
    void *p = lac_try_alloc(count, size);
    if (!p)
        out_of_memory(count, size);
    return p;
}

void *lac_realloc(void *p, size_t count, size_t size)
{
    void *q = reallocarray(p, count ? count : 1, size ? size : 1);
    if (!q)
        out_of_memory(count, size);
    return q;
}

char *lac_strndup(const char *text, size_t length)
{
    char *copy = lac_alloc(length + 1, 1);
    if (length)
        memcpy(copy, text, length);
    return copy;
}

/* ---- buffer ---- */

/* Room for `more` bytes and a final NUL; false over the cap. */
static bool buf_room(lac_buf *buf, size_t more)
{
    size_t cap = buf->cap ? buf->cap : BUF_CAP_DEFAULT;
    if (buf->overflow || more > cap - buf->length) {
        buf->overflow = true;
        return false;
    }
    size_t need = buf->length + more + 1;
    if (need <= buf->size)
        return true;
    size_t size = buf->size ? buf->size : BUF_FIRST;
    while (size < need)
        size *= 2;
    buf->data = lac_realloc(buf->data, size, 1);
    buf->size = size;
    return true;
}

bool lac_buf_add(lac_buf *buf, const void *data, size_t length)
{
    if (!buf_room(buf, length))
        return false;
    if (length)
        memcpy(buf->data + buf->length, data, length);
    buf->length += length;
    buf->data[buf->length] = '\0';
    return true;
}

bool lac_buf_text(lac_buf *buf, const char *text)
{
    return lac_buf_add(buf, text, strlen(text));
}

bool lac_buf_printf(lac_buf *buf, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    bool ok = length >= 0 && buf_room(buf, (size_t)length);
    if (ok) {
        vsnprintf(buf->data + buf->length, (size_t)length + 1, format, again);
        buf->length += (size_t)length;
    }
    va_end(again);
    return ok;
}

/* The escape of one byte below 0x20, a quote or a backslash. */
static void json_escape(lac_buf *buf, unsigned char byte)
{
    static const char *const names = "btn\0fr"; /* 0x08 … 0x0d */
    if (byte == '"' || byte == '\\')
        lac_buf_printf(buf, "\\%c", byte);
    else if (byte >= 0x08 && byte <= 0x0d && names[byte - 8])
        lac_buf_printf(buf, "\\%c", names[byte - 8]);
    else
        lac_buf_printf(buf, "\\u%04x", byte);
}

bool lac_buf_json(lac_buf *buf, const char *text, size_t length)
{
    lac_buf_add(buf, "\"", 1);
    for (size_t i = 0, start = 0; i <= length;) {
        uint32_t code = 0;
        int bytes = i < length ? lac_utf8_next(text + i, length - i, &code) : 0;
        bool plain = bytes && code >= 0x20 && code != '"' && code != '\\';
        if (!plain) {
            lac_buf_add(buf, text + start, i - start);
            if (i == length)
                break;
            if (!bytes)
                lac_buf_text(buf, "\xef\xbf\xbd");
            else
                json_escape(buf, (unsigned char)code);
            start = i + 1;
        }
        i += bytes ? (size_t)bytes : 1;
    }
    lac_buf_add(buf, "\"", 1);
    return !buf->overflow;
}

void lac_buf_drop(lac_buf *buf, size_t length)
{
    LAC_ASSERT(length <= buf->length);
    if (!length)
        return;
    buf->length -= length;
    memmove(buf->data, buf->data + length, buf->length + 1);
}

void lac_buf_clear(lac_buf *buf)
{
    buf->length = 0;
    buf->overflow = false;
    if (buf->data)
        buf->data[0] = '\0';
}

void lac_buf_free(lac_buf *buf)
{
    free(buf->data);
    *buf = (lac_buf){.cap = buf->cap};
}

/* ---- arena: a chain of blocks, the newest first ---- */

typedef struct arena_block {
    struct arena_block *next;
    size_t size, used;
    _Alignas(ARENA_ALIGN) char data[];
} arena_block;

struct lac_arena {
    size_t budget, used;
    arena_block *blocks;
};

lac_arena *lac_arena_create(size_t budget)
{
    lac_arena *arena = lac_alloc(1, sizeof *arena);
    arena->budget = budget;
    return arena;
}

static arena_block *arena_grow(lac_arena *arena, size_t size)
{
    size_t bytes = size > ARENA_BLOCK ? size : ARENA_BLOCK;
    arena_block *block = lac_try_alloc(1, sizeof *block + bytes);
    if (!block)
        return NULL;
    block->size = bytes;
    block->next = arena->blocks;
    arena->blocks = block;
    return block;
}

void *lac_arena_alloc(lac_arena *arena, size_t size)
{
    if (size > arena->budget)
        return NULL;
    size = (size + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
    if (!size)
        size = ARENA_ALIGN;
    if (size > arena->budget - arena->used)
        return NULL;
    arena_block *block = arena->blocks;
    if (!block || size > block->size - block->used)
        block = arena_grow(arena, size);
    if (!block)
        return NULL;
    void *p = block->data + block->used;
    block->used += size;
    arena->used += size;
    return p;
}

size_t lac_arena_used(const lac_arena *arena)
{
    return arena->used;
}

void lac_arena_reset(lac_arena *arena)
{
    for (arena_block *block = arena->blocks; block;) {
        arena_block *next = block->next;
        free(block);
        block = next;
    }
    arena->blocks = NULL;
    arena->used = 0;
}

void lac_arena_destroy(lac_arena **arena)
{
    if (!*arena)
        return;
    lac_arena_reset(*arena);
    free(*arena);
    *arena = NULL;
}
