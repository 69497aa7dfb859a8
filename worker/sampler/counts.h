/* Which tokens a sequence holds, for the penalties. Shared inside this folder. */
#ifndef LAC__SAMPLER_COUNTS_H
#define LAC__SAMPLER_COUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint32_t token;
    uint32_t output; /* times in the output; 0 = in the prompt only */
    float raw;       /* scratch of one choice: the token's logit before anything touched it */
} lac__count;

/* A hash table over a dense list: the list is walked once a token, the table finds its entries.
 * Zero is an empty one. Memory follows the distinct tokens, not the vocabulary; it doubles when
 * full. */
typedef struct {
    lac__count *list;
    uint32_t used, size; /* of the list */
    uint32_t *slots;     /* index + 1 into the list, 0 = free; 2·size of them, a power of two */
} lac__counts;

/* Makes room for `tokens` distinct ones. */
void lac__counts_reserve(lac__counts *counts, size_t tokens);
/* The token's entry, added when it is new. Valid until the next call. */
lac__count *lac__counts_get(lac__counts *counts, uint32_t token);
/* NULL when the token was never counted. */
const lac__count *lac__counts_find(const lac__counts *counts, uint32_t token);
void lac__counts_free(lac__counts *counts);

#endif
