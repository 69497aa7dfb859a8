/* Pairs that wait to be merged, lowest (rank, position) first. One call's scratch; knows neither
 * tokens nor text. */
#ifndef LAC_TOKENIZER_QUEUE_H
#define LAC_TOKENIZER_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Entries are rank << 32 | position. */
typedef struct {
    uint64_t *data;
    size_t count, size;
} lac__entries;

typedef struct {
    lac__entries heap;
    bool bucketed;
    int64_t current;  /* bucket being read; later ones only grow */
    lac__entries run; /* the current bucket, sorted */
    size_t run_at;
    lac__entries *buckets; /* made for the first word that needs them */
} lac__queue;

/* Empties the queue for a word of `symbols` symbols. A zeroed queue is a valid one. */
void lac__queue_start(lac__queue *queue, size_t symbols);
/* Gives back what a long word needed; the rest stays for the next word. */
void lac__queue_finish(lac__queue *queue);
void lac__queue_free(lac__queue *queue);
void lac__queue_push(lac__queue *queue, uint32_t rank, uint32_t position);
/* False when empty. `symbols`, of `symbol_bytes` each, and `text` (or NULL) are what positions count:
 * the next ones are fetched into the cache. */
bool lac__queue_pop(lac__queue *queue, const void *symbols, size_t symbol_bytes, const char *text,
                    uint64_t *entry);

#endif
