/* Byte-pair merging of one word: always the pair of lowest rank, leftmost first. Scratch belongs to
 * one call. Knows nothing of how text became words. A pair that a neighbour's merge has changed is
 * recognised when it is taken from the queue and dropped. */
#include <stdlib.h>

#include "base/assert.h"
#include "base/mem.h"
#include "internal.h"
#include "queue.h"

#define NOWHERE UINT32_MAX

typedef struct {
    uint32_t id; /* LAC_TOKEN_NONE once swallowed by its left neighbour */
    uint32_t prev, next;
} symbol;

struct lac__bpe {
    const lac__vocab *vocab;
    const lac__merges *merges;
    symbol *symbols;
    size_t symbols_size;
    lac__queue queue;
};

lac__bpe *lac__bpe_create(const lac__vocab *vocab, const lac__merges *merges)
{
    lac__bpe *bpe = lac_alloc(1, sizeof *bpe);
    bpe->vocab = vocab;
    bpe->merges = merges;
    return bpe;
}

void lac__bpe_destroy(lac__bpe **bpe)
{
    if (!*bpe)
        return;
    lac__queue_free(&(*bpe)->queue);
    free((*bpe)->symbols);
    free(*bpe);
    *bpe = NULL;
}

static void push_pair(lac__bpe *bpe, uint32_t position)
{
    const symbol *s = &bpe->symbols[position];
    if (s->next == NOWHERE)
        return;
    uint32_t rank = lac__merges_find(bpe->merges, s->id, bpe->symbols[s->next].id);
    if (rank != UINT32_MAX)
        lac__queue_push(&bpe->queue, rank, position);
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
    while (lac__queue_pop(&bpe->queue, bpe->symbols, sizeof *bpe->symbols, NULL, &entry)) {
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
    lac__queue_start(&bpe->queue, n);
    for (size_t i = 0; i + 1 < n; i++)
        push_pair(bpe, (uint32_t)i);
    merge_all(bpe);
    for (uint32_t at = 0; at != NOWHERE; at = bpe->symbols[at].next)
        lac__ids_add(out, bpe->symbols[at].id);
    lac__queue_finish(&bpe->queue);
}
