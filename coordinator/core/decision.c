/* The bounded cache of decisions: a hash table over a fixed array, emptied by the clock rule. The
 * key is compared in full, so a decision taken under another plan, model or fingerprint is never an
 * answer. One thread. Knows nothing of what a decision means. */
#include "type.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

typedef struct {
    lac__decision_key key;
    lac__decision decision;
    uint32_t next; /* of the chain: index + 1 */
    bool asked;
} entry;

struct lac__decisions {
    entry *entries;
    uint32_t *heads; /* index + 1 of the first of a chain; 0 = empty */
    uint32_t bound, count, hand, heads_mask;
};

/* The bytes are digests already: a few of them are as good as a hash. */
static uint32_t *head_of(lac__decisions *cache, const lac__decision_key *key)
{
    uint32_t f, p, m;
    memcpy(&f, key->fingerprint.bytes, sizeof f);
    memcpy(&p, key->plan.bytes, sizeof p);
    memcpy(&m, key->model.bytes, sizeof m);
    return &cache->heads[(f ^ p * 0x9e3779b1u ^ m * 0x85ebca6bu) & cache->heads_mask];
}

lac__decisions *lac__decisions_create(uint32_t entries)
{
    LAC_ASSERT(entries >= 1 && entries <= 1u << 20);
    lac__decisions *cache = lac_alloc(1, sizeof *cache);
    uint32_t heads = 1;
    while (heads < entries)
        heads *= 2;
    cache->bound = entries;
    cache->heads_mask = heads - 1;
    cache->entries = lac_alloc(entries, sizeof *cache->entries);
    cache->heads = lac_alloc(heads, sizeof *cache->heads);
    return cache;
}

void lac__decisions_destroy(lac__decisions **cache)
{
    if (!*cache)
        return;
    free((*cache)->entries);
    free((*cache)->heads);
    free(*cache);
    *cache = NULL;
}

static entry *find(lac__decisions *cache, const lac__decision_key *key)
{
    for (uint32_t at = *head_of(cache, key); at; at = cache->entries[at - 1].next)
        if (!memcmp(&cache->entries[at - 1].key, key, sizeof *key))
            return &cache->entries[at - 1];
    return NULL;
}

bool lac__decisions_find(lac__decisions *cache, const lac__decision_key *key, lac__decision *out)
{
    entry *e = find(cache, key);
    if (!e)
        return false;
    e->asked = true;
    *out = e->decision;
    return true;
}

static void unlink_entry(lac__decisions *cache, entry *e)
{
    uint32_t *at = head_of(cache, &e->key);
    while (&cache->entries[*at - 1] != e)
        at = &cache->entries[*at - 1].next;
    *at = e->next;
}

/* A free slot, or the first from the hand on that was not asked for since the hand passed it. */
static entry *free_slot(lac__decisions *cache)
{
    if (cache->count < cache->bound)
        return &cache->entries[cache->count++];
    for (;;) {
        entry *e = &cache->entries[cache->hand];
        cache->hand = (cache->hand + 1) % cache->bound;
        if (!e->asked) {
            unlink_entry(cache, e);
            return e;
        }
        e->asked = false;
    }
}

void lac__decisions_put(lac__decisions *cache, const lac__decision_key *key,
                        const lac__decision *decision)
{
    entry *e = find(cache, key);
    if (e) {
        e->decision = *decision;
        return;
    }
    e = free_slot(cache);
    uint32_t *head = head_of(cache, key);
    *e = (entry){.key = *key, .decision = *decision, .next = *head};
    *head = (uint32_t)(e - cache->entries) + 1;
}

void lac__decisions_clear(lac__decisions *cache)
{
    memset(cache->heads, 0, (cache->heads_mask + 1) * sizeof *cache->heads);
    cache->count = cache->hand = 0;
}

uint32_t lac__decisions_count(const lac__decisions *cache)
{
    return cache->count;
}
