/* The bounded queue between two threads: one producer, one consumer, no lock.
 *
 * Owns nothing but its slots. The producer writes `tail`, the consumer writes `head`; each reads
 * the other's with acquire order, so what was written into an item before the push is seen after
 * the pop. Both counters run freely and wrap; only their difference and their low bits are used. */
#include "base/ring.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/mem.h"

enum { RING_CAPACITY_MAX = 1 << 20, CACHE_LINE = 64 };

struct lac_ring {
    size_t mask;
    void **slots; /* [mask + 1] */
    /* The two ends live on lines of their own, so that neither thread's writes stall the other. */
    _Alignas(CACHE_LINE) _Atomic size_t head;
    _Alignas(CACHE_LINE) _Atomic size_t tail;
};

lac_ring *lac_ring_create(size_t capacity)
{
    LAC_ASSERT(capacity >= 1 && capacity <= RING_CAPACITY_MAX);
    size_t size = 1;
    while (size < capacity)
        size *= 2;
    lac_ring *ring = aligned_alloc(CACHE_LINE, sizeof(*ring));
    LAC_ASSERT(ring != NULL);
    ring->mask = size - 1;
    ring->slots = lac_alloc(size, sizeof(*ring->slots));
    atomic_init(&ring->head, 0);
    atomic_init(&ring->tail, 0);
    return ring;
}

void lac_ring_destroy(lac_ring **ring)
{
    if (*ring == NULL)
        return;
    free((*ring)->slots);
    free(*ring);
    *ring = NULL;
}

bool lac_ring_push(lac_ring *ring, void *item)
{
    LAC_ASSERT(item != NULL); /* NULL is how pop says "empty" */
    size_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    size_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
    if (tail - head > ring->mask)
        return false;
    ring->slots[tail & ring->mask] = item;
    atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);
    return true;
}

void *lac_ring_pop(lac_ring *ring)
{
    size_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    size_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
    if (head == tail)
        return NULL;
    void *item = ring->slots[head & ring->mask];
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
    return item;
}

size_t lac_ring_count(const lac_ring *ring)
{
    /* Head first: the tail can only have moved on since, so the difference never goes below zero.
     */
    size_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
    size_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
    size_t count = tail - head;
    return count > ring->mask + 1 ? ring->mask + 1 : count;
}
