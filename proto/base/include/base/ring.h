/* A bounded single-producer single-consumer queue of pointers: how two threads hand over work.
 * One thread may push, one other thread may pop; neither ever blocks. */
#ifndef LAC_BASE_RING_H
#define LAC_BASE_RING_H

#include <stdbool.h>
#include <stddef.h>

typedef struct lac_ring lac_ring;

/* `capacity` is rounded up to a power of two. */
lac_ring *lac_ring_create(size_t capacity);
/* Frees the ring, not what is still in it. Accepts NULL, clears the pointer. */
void lac_ring_destroy(lac_ring **ring);
/* False when full: the item stays the caller's. `item` is not NULL. */
bool lac_ring_push(lac_ring *ring, void *item);
/* NULL when empty; the item is the caller's from here. */
void *lac_ring_pop(lac_ring *ring);
/* Items inside; exact only on the consumer's or producer's side as an upper or lower bound. */
size_t lac_ring_count(const lac_ring *ring);

#endif
