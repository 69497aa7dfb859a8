/* The queue of pairs that wait to be merged. Scratch of one call; knows neither tokens nor text.
 *
 * For ordinary words it is a small binary heap. In a word of megabytes a heap would miss the cache
 * on every step, so there the ranks are cut into buckets: a pair of a later bucket is only appended
 * to it; when its turn comes the bucket is sorted once and read in order, and the heap holds only
 * what arrives meanwhile. */
#include "queue.h"

#include <stdlib.h>

#include "base/limits.h"
#include "base/mem.h"

/* Buckets get wider with the rank, 256 for each doubling: low ranks, which are merged most, have
 * one each and never need the heap. */
enum { BUCKET_BITS = 8, BUCKETS = 15 << BUCKET_BITS, BUCKETS_FROM = 8192, AHEAD = 24 };
_Static_assert(LAC_GGUF_ARRAY_MAX <= 1 << 22, "every rank has a bucket");

static void entries_free(lac__entries *e)
{
    free(e->data);
    *e = (lac__entries){0};
}

static void entries_add(lac__entries *e, uint64_t entry)
{
    if (e->count == e->size) {
        e->size = e->size ? 2 * e->size : 64;
        e->data = lac_realloc(e->data, e->size, sizeof *e->data);
    }
    e->data[e->count++] = entry;
}

static void heap_push(lac__entries *heap, uint64_t entry)
{
    entries_add(heap, entry);
    size_t at = heap->count - 1;
    while (at > 0 && heap->data[(at - 1) / 2] > entry) {
        heap->data[at] = heap->data[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap->data[at] = entry;
}

static uint64_t heap_pop(lac__entries *heap)
{
    uint64_t top = heap->data[0], last = heap->data[--heap->count];
    size_t at = 0, child;
    while ((child = 2 * at + 1) < heap->count) {
        if (child + 1 < heap->count && heap->data[child + 1] < heap->data[child])
            child++;
        if (heap->data[child] >= last)
            break;
        heap->data[at] = heap->data[child];
        at = child;
    }
    heap->data[at] = last;
    return top;
}

/* Ascending by radix, a byte a pass; bytes that all entries share cost one look. */
static void sort(lac__entries *e)
{
    bool sorted = true;
    for (size_t i = 1; i < e->count && sorted; i++)
        sorted = e->data[i - 1] <= e->data[i];
    if (sorted)
        return;
    uint64_t *from = e->data, *to = lac_alloc(e->size, sizeof *to);
    for (unsigned byte = 0; byte < 8; byte++) {
        size_t counts[257] = {0};
        for (size_t i = 0; i < e->count; i++)
            counts[1 + (from[i] >> 8 * byte & 0xff)]++;
        if (counts[1 + (from[0] >> 8 * byte & 0xff)] == e->count)
            continue;
        for (int v = 0; v < 256; v++)
            counts[v + 1] += counts[v];
        for (size_t i = 0; i < e->count; i++)
            to[counts[from[i] >> 8 * byte & 0xff]++] = from[i];
        uint64_t *swap = from;
        from = to;
        to = swap;
    }
    e->data = from;
    free(to);
}

static unsigned bucket_of(uint32_t rank)
{
    if (rank < 2u << BUCKET_BITS)
        return rank;
    unsigned octave = 31u - (unsigned)__builtin_clz(rank) - BUCKET_BITS;
    return (octave << BUCKET_BITS) + (rank >> octave);
}

void lac__queue_push(lac__queue *queue, uint32_t rank, uint32_t position)
{
    uint64_t entry = (uint64_t)rank << 32 | position;
    if (!queue->bucketed) {
        heap_push(&queue->heap, entry);
        return;
    }
    int64_t bucket = bucket_of(rank);
    if (bucket <= queue->current)
        heap_push(&queue->heap, entry);
    else
        entries_add(&queue->buckets[bucket], entry);
}

/* Makes the next filled bucket the current run; false when none is left. */
static bool next_bucket(lac__queue *queue)
{
    entries_free(&queue->run);
    queue->run_at = 0;
    while (++queue->current < BUCKETS) {
        lac__entries *bucket = &queue->buckets[queue->current];
        if (bucket->count == 0)
            continue;
        sort(bucket);
        queue->run = *bucket;
        *bucket = (lac__entries){0};
        return true;
    }
    return false;
}

bool lac__queue_pop(lac__queue *queue, const void *symbols, size_t symbol_bytes, const char *text,
                    uint64_t *entry)
{
    for (;;) {
        bool run = queue->run_at<queue->run.count, heap = queue->heap.count> 0;
        if (run && (!heap || queue->run.data[queue->run_at] < queue->heap.data[0])) {
            *entry = queue->run.data[queue->run_at++];
            /* The run tells early what is next; its cache lines are fetched meanwhile. */
            if (queue->run_at + AHEAD < queue->run.count) {
                uint32_t next = (uint32_t)queue->run.data[queue->run_at + AHEAD];
                __builtin_prefetch((const char *)symbols + next * symbol_bytes, 1);
                __builtin_prefetch(text + (text ? next : 0));
            }
            return true;
        }
        if (heap) {
            *entry = heap_pop(&queue->heap);
            return true;
        }
        if (!queue->bucketed || !next_bucket(queue))
            return false;
    }
}

void lac__queue_start(lac__queue *queue, size_t symbols)
{
    queue->heap.count = 0;
    queue->current = -1;
    queue->bucketed = symbols >= BUCKETS_FROM;
    if (queue->bucketed)
        queue->buckets = lac_alloc(BUCKETS, sizeof *queue->buckets);
}

void lac__queue_finish(lac__queue *queue)
{
    if (queue->bucketed)
        lac__queue_free(queue);
}

void lac__queue_free(lac__queue *queue)
{
    entries_free(&queue->heap);
    entries_free(&queue->run);
    for (int b = 0; queue->buckets && b < BUCKETS; b++)
        entries_free(&queue->buckets[b]);
    free(queue->buckets);
    *queue = (lac__queue){0};
}
