/* Large memory of the CPU backend: anonymous pages, huge ones where the size is worth it, and the
 * chunks that packed weights lie in side by side. A matrix alone is often smaller than a huge page,
 * and a step walks through all of them: in 4 KiB pages every 4 KiB costs an address lookup and
 * stops the processor's own prefetching. One thread, the backend's owner. */
#include <stdlib.h>
#include <sys/mman.h>

#include "backend.h"
#include "base/assert.h"
#include "base/mem.h"

enum { PAGE = 4096, HUGE = 2 << 20, CHUNK = 32 << 20 };

static size_t round_up(size_t bytes, size_t to)
{
    return (bytes + to - 1) / to * to;
}

void *lac__big_alloc(size_t bytes)
{
    /* Cut out of a larger mapping, so that the first page is a huge one already. */
    size_t size = round_up(bytes, PAGE), extra = size >= HUGE ? HUGE : 0;
    uint8_t *p =
        mmap(NULL, size + extra, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    if (extra > 0) {
        size_t before = round_up((uintptr_t)p, HUGE) - (uintptr_t)p;
        if (before > 0)
            munmap(p, before);
        if (before < extra)
            munmap(p + before + size, extra - before);
        p += before;
        (void)madvise(p, size, MADV_HUGEPAGE); /* a wish */
    }
    return p;
}

void lac__big_free(void *p, size_t bytes)
{
    if (p)
        munmap(p, round_up(bytes, PAGE));
}

struct lac__chunk {
    lac__chunk *next;
    uint8_t *base;
    size_t size, used;
    uint32_t holders; /* weights that lie in it */
};

void *lac__arena_alloc(lac__arena *arena, size_t bytes, lac__chunk **chunk)
{
    size_t need = round_up(bytes, LAC__CACHE_LINE);
    lac__chunk *c = arena->first;
    if (!c || c->size - c->used < need) { /* the rest of the chunk before stays untouched */
        size_t size = need > CHUNK ? round_up(need, PAGE) : CHUNK;
        uint8_t *base = lac__big_alloc(size);
        if (!base)
            return NULL;
        c = lac_alloc(1, sizeof *c);
        *c = (lac__chunk){.next = arena->first, .base = base, .size = size};
        arena->first = c;
    }
    void *p = c->base + c->used;
    c->used += need;
    c->holders++;
    *chunk = c;
    return p;
}

void lac__arena_free(lac__arena *arena, lac__chunk *chunk, void *p, size_t bytes)
{
    LAC_ASSERT(chunk->holders > 0);
    if (--chunk->holders > 0) { /* its whole pages go back at once */
        uintptr_t start = round_up((uintptr_t)p, PAGE), end = ((uintptr_t)p + bytes) / PAGE * PAGE;
        if (end > start)
            (void)madvise((void *)start, end - start, MADV_DONTNEED);
        return;
    }
    lac__chunk **link = &arena->first;
    while (*link != chunk)
        link = &(*link)->next;
    *link = chunk->next;
    lac__big_free(chunk->base, chunk->size);
    free(chunk);
}
