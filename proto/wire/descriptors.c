/* A table by descriptor, as the kernel keeps one. Knows no socket. One thread. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "descriptors.h"

enum { FD_MAX = 1 << 20 }; /* more than a process may have open */

typedef struct {
    uint64_t peer; /* 0: nobody has spoken on it */
    bool closed;   /* and nobody has opened it since */
} slot;

struct lac__descriptors {
    slot *slots;
    size_t slots_size;
    uint64_t *gone; /* not yet taken, from gone_first on */
    size_t gone_size, gone_first, gone_end;
};

lac__descriptors *lac__descriptors_create(void)
{
    return lac_alloc(1, sizeof(lac__descriptors));
}

void lac__descriptors_destroy(lac__descriptors **descriptors)
{
    if (!*descriptors)
        return;
    free((*descriptors)->slots);
    free((*descriptors)->gone);
    free(*descriptors);
    *descriptors = NULL;
}

static slot *slot_of(lac__descriptors *d, int fd)
{
    if (fd < 0 || fd >= FD_MAX)
        return NULL;
    if ((size_t)fd >= d->slots_size) {
        size_t size = d->slots_size ? d->slots_size : 64;
        while (size <= (size_t)fd)
            size *= 2;
        d->slots = lac_realloc(d->slots, size, sizeof *d->slots);
        memset(d->slots + d->slots_size, 0, (size - d->slots_size) * sizeof *d->slots);
        d->slots_size = size;
    }
    return &d->slots[fd];
}

/* Grows with connections that ended since the last turn of the loop, which takes them all. */
static void add_gone(lac__descriptors *d, uint64_t peer)
{
    if (d->gone_end == d->gone_size) {
        d->gone_size = d->gone_size ? 2 * d->gone_size : 16;
        d->gone = lac_realloc(d->gone, d->gone_size, sizeof *d->gone);
    }
    d->gone[d->gone_end++] = peer;
}

void lac__descriptors_opened(lac__descriptors *d, int fd)
{
    slot *s = slot_of(d, fd);
    if (!s)
        return;
    if (s->peer)
        add_gone(d, s->peer);
    *s = (slot){0};
}

void lac__descriptors_closed(lac__descriptors *d, int fd)
{
    slot *s = slot_of(d, fd);
    if (!s)
        return;
    if (s->peer)
        add_gone(d, s->peer);
    *s = (slot){.closed = true};
}

void lac__descriptors_carries(lac__descriptors *d, int fd, uint64_t peer)
{
    slot *s = slot_of(d, fd);
    if (!s)
        return;
    if (s->closed) { /* it said something and went before we read it */
        add_gone(d, peer);
        return;
    }
    if (s->peer && s->peer != peer)
        add_gone(d, s->peer);
    s->peer = peer;
}

bool lac__descriptors_take_gone(lac__descriptors *d, uint64_t *peer)
{
    if (!lac__descriptors_has_gone(d)) {
        d->gone_first = d->gone_end = 0;
        return false;
    }
    *peer = d->gone[d->gone_first++];
    return true;
}

bool lac__descriptors_has_gone(const lac__descriptors *d)
{
    return d->gone_first < d->gone_end;
}
