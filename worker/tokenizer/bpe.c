/* Byte-pair merging of one word: always the pair of lowest rank, leftmost first. Scratch belongs to
 * one call. Knows nothing of how text became words.
 *
 * Pairs wait in a queue ordered by (rank, position). For ordinary words that is a small binary
 * heap. In a word of megabytes a heap would miss the cache on every step, so there the ranks are
 * cut into buckets: a pair of a later bucket is only appended to it; when its turn comes the bucket
 * is sorted once and read in order, and the heap holds only what arrives meanwhile. A pair that a
 * neighbour's merge has changed is recognised when it is taken and dropped. */
#include <stdlib.h>

#include "base/assert.h"
#include "base/mem.h"
#include "internal.h"

/* Buckets get wider with the rank, 64 for each doubling: low ranks, which are merged most, have one
 * each and never need the heap. */
enum { BUCKET_BITS = 6, BUCKETS = 17 << BUCKET_BITS, BUCKETS_FROM = 8192, AHEAD = 24 };
_Static_assert(LAC_GGUF_ARRAY_MAX <= 1 << 22, "every rank has a bucket");
#define NOWHERE UINT32_MAX

typedef struct {
    uint32_t id; /* LAC_TOKEN_NONE once swallowed by its left neighbour */
    uint32_t prev, next;
} symbol;

/* Entries are rank << 32 | position of the left symbol. */
typedef struct {
    uint64_t *data;
    size_t count, size;
} entries;

struct lac__bpe {
    const lac__vocab *vocab;
    const lac__merges *merges;
    symbol *symbols;
    size_t symbols_size;
    entries heap;
    bool bucketed;
    int64_t current; /* bucket being read; later ones only grow */
    entries run;     /* the current bucket, sorted */
    size_t run_at;
    entries *buckets; /* [BUCKETS], made for the first word that needs them */
};

lac__bpe *lac__bpe_create(const lac__vocab *vocab, const lac__merges *merges)
{
    lac__bpe *bpe = lac_alloc(1, sizeof *bpe);
    bpe->vocab = vocab;
    bpe->merges = merges;
    return bpe;
}

static void entries_free(entries *e)
{
    free(e->data);
    *e = (entries){0};
}

static void queue_free(lac__bpe *bpe)
{
    entries_free(&bpe->heap);
    entries_free(&bpe->run);
    for (int b = 0; bpe->buckets && b < BUCKETS; b++)
        entries_free(&bpe->buckets[b]);
    free(bpe->buckets);
    bpe->buckets = NULL;
}

void lac__bpe_destroy(lac__bpe **bpe)
{
    if (!*bpe)
        return;
    queue_free(*bpe);
    free((*bpe)->symbols);
    free(*bpe);
    *bpe = NULL;
}

static void entries_add(entries *e, uint64_t entry)
{
    if (e->count == e->size) {
        e->size = e->size ? 2 * e->size : 64;
        e->data = lac_realloc(e->data, e->size, sizeof *e->data);
    }
    e->data[e->count++] = entry;
}

static void heap_push(entries *heap, uint64_t entry)
{
    entries_add(heap, entry);
    size_t at = heap->count - 1;
    while (at > 0 && heap->data[(at - 1) / 2] > entry) {
        heap->data[at] = heap->data[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap->data[at] = entry;
}

static uint64_t heap_pop(entries *heap)
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
static void sort(entries *e)
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

static void queue_push(lac__bpe *bpe, uint32_t rank, uint32_t position)
{
    uint64_t entry = (uint64_t)rank << 32 | position;
    if (!bpe->bucketed) {
        heap_push(&bpe->heap, entry);
        return;
    }
    int64_t bucket = bucket_of(rank);
    if (bucket <= bpe->current)
        heap_push(&bpe->heap, entry);
    else
        entries_add(&bpe->buckets[bucket], entry);
}

/* Makes the next filled bucket the current run; false when none is left. */
static bool next_bucket(lac__bpe *bpe)
{
    entries_free(&bpe->run);
    bpe->run_at = 0;
    while (++bpe->current < BUCKETS) {
        entries *bucket = &bpe->buckets[bpe->current];
        if (bucket->count == 0)
            continue;
        sort(bucket);
        bpe->run = *bucket;
        *bucket = (entries){0};
        return true;
    }
    return false;
}

static bool queue_pop(lac__bpe *bpe, uint64_t *entry)
{
    for (;;) {
        bool run = bpe->run_at<bpe->run.count, heap = bpe->heap.count> 0;
        if (run && (!heap || bpe->run.data[bpe->run_at] < bpe->heap.data[0])) {
            *entry = bpe->run.data[bpe->run_at++];
            /* The run tells early which symbols are next; their cache lines are fetched meanwhile.
             */
            if (bpe->run_at + AHEAD < bpe->run.count)
                __builtin_prefetch(&bpe->symbols[(uint32_t)bpe->run.data[bpe->run_at + AHEAD]], 1);
            return true;
        }
        if (heap) {
            *entry = heap_pop(&bpe->heap);
            return true;
        }
        if (!bpe->bucketed || !next_bucket(bpe))
            return false;
    }
}

static void push_pair(lac__bpe *bpe, uint32_t position)
{
    const symbol *s = &bpe->symbols[position];
    if (s->next == NOWHERE)
        return;
    uint32_t rank = lac__merges_find(bpe->merges, s->id, bpe->symbols[s->next].id);
    if (rank != UINT32_MAX)
        queue_push(bpe, rank, position);
}

/* One symbol a byte; returns how many. */
static size_t fill_symbols(lac__bpe *bpe, const char *word, size_t length)
{
    if (length > bpe->symbols_size) {
        size_t size = length < 256 ? 256 : length;
        bpe->symbols = lac_realloc(bpe->symbols, size, sizeof *bpe->symbols);
        bpe->symbols_size = size;
    }
    size_t n = 0;
    for (size_t i = 0; i < length; i++) {
        uint32_t id = bpe->vocab->byte_ids[(unsigned char)word[i]];
        if (id == LAC_TOKEN_NONE)
            continue;
        bpe->symbols[n] = (symbol){.id = id, .prev = (uint32_t)n - 1, .next = (uint32_t)n + 1};
        n++;
    }
    if (n > 0)
        bpe->symbols[n - 1].next = NOWHERE; /* prev of the first is 0 − 1 = NOWHERE already */
    return n;
}

static void merge_all(lac__bpe *bpe)
{
    uint64_t entry;
    while (queue_pop(bpe, &entry)) {
        uint32_t position = (uint32_t)entry;
        const lac__merge *rule = &bpe->merges->rules[entry >> 32];
        symbol *left = &bpe->symbols[position];
        if (left->id != rule->left || left->next == NOWHERE ||
            bpe->symbols[left->next].id != rule->right)
            continue; /* changed since it was queued */
        symbol *right = &bpe->symbols[left->next];
        left->id = rule->id;
        left->next = right->next;
        right->id = LAC_TOKEN_NONE;
        if (left->next != NOWHERE)
            bpe->symbols[left->next].prev = position;
        if (left->prev != NOWHERE)
            push_pair(bpe, left->prev);
        push_pair(bpe, position);
    }
}

void lac__bpe_word(lac__bpe *bpe, const char *word, size_t length, lac__ids *out)
{
    LAC_ASSERT(length <= LAC_PROMPT_BYTES_MAX);
    size_t n = fill_symbols(bpe, word, length);
    if (n == 0)
        return;
    bpe->bucketed = n >= BUCKETS_FROM;
    bpe->current = -1;
    if (bpe->bucketed)
        bpe->buckets = lac_alloc(BUCKETS, sizeof *bpe->buckets);
    for (size_t i = 0; i + 1 < n; i++)
        push_pair(bpe, (uint32_t)i);
    merge_all(bpe);
    for (uint32_t at = 0; at != NOWHERE; at = bpe->symbols[at].next)
        lac__ids_add(out, bpe->symbols[at].id);
    if (bpe->bucketed)
        queue_free(bpe); /* megabytes that ordinary words do not need */
}
