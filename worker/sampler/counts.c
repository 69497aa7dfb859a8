/* The table of counted tokens: open addressing, linear probing. One sequence's thread. */
#include "counts.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/limits.h"
#include "base/mem.h"

static uint32_t slot_of(const lac__counts *counts, uint32_t token)
{
    uint32_t mask = 2 * counts->size - 1;
    uint32_t at = (token * 2654435769u >> 7) & mask; /* Fibonacci hashing (Knuth, TAOCP 3, 6.4) */
    while (counts->slots[at] != 0 && counts->list[counts->slots[at] - 1].token != token)
        at = (at + 1) & mask;
    return at;
}

void lac__counts_reserve(lac__counts *counts, size_t tokens)
{
    if (tokens <= counts->size)
        return;
    LAC_ASSERT(tokens <= LAC_VOCAB_MAX);
    uint32_t size = counts->size ? counts->size : 64;
    while (size < tokens)
        size *= 2;
    counts->list = lac_realloc(counts->list, size, sizeof *counts->list);
    counts->size = size;
    free(counts->slots);
    counts->slots = lac_alloc(2 * (size_t)size, sizeof *counts->slots);
    for (uint32_t i = 0; i < counts->used; i++)
        counts->slots[slot_of(counts, counts->list[i].token)] = i + 1;
}

lac__count *lac__counts_get(lac__counts *counts, uint32_t token)
{
    if (counts->used == counts->size)
        lac__counts_reserve(counts, (size_t)counts->used + 1);
    uint32_t slot = slot_of(counts, token);
    if (counts->slots[slot] == 0) {
        counts->list[counts->used] = (lac__count){.token = token};
        counts->slots[slot] = ++counts->used;
    }
    return &counts->list[counts->slots[slot] - 1];
}

const lac__count *lac__counts_find(const lac__counts *counts, uint32_t token)
{
    if (counts->size == 0)
        return NULL;
    uint32_t slot = counts->slots[slot_of(counts, token)];
    return slot == 0 ? NULL : &counts->list[slot - 1];
}

void lac__counts_free(lac__counts *counts)
{
    free(counts->list);
    free(counts->slots);
    *counts = (lac__counts){0};
}
