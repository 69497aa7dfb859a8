/* Prompts as chains of block hashes, and which group is a chain's home. Two prompts share their
 * first n hashes exactly when they share their first n blocks, so a group that lately had the same
 * chain likely still has its keys and values. Pure. */
#include "state.h"

#include <string.h>

typedef struct {
    lac__prefix *out;
    uint64_t chain;
    uint8_t block[LAC_PREFIX_BLOCK_BYTES];
    size_t filled;
} builder;

static void add(builder *b, const void *data, size_t size)
{
    const uint8_t *at = data;
    while (size && b->out->count < LAC_PREFIX_BLOCKS_MAX) {
        size_t n = sizeof b->block - b->filled;
        if (n > size)
            n = size;
        memcpy(b->block + b->filled, at, n);
        b->filled += n;
        at += n;
        size -= n;
        if (b->filled < sizeof b->block)
            return;
        b->chain = lac__hash_bytes(b->chain, b->block, sizeof b->block);
        b->out->blocks[b->out->count++] = b->chain;
        b->filled = 0;
    }
}

void lac__prefix_take(uint64_t seed, const lac_prompt *prompt, lac__prefix *out)
{
    builder b = {.out = out, .chain = lac__hash_mix(seed, (uint64_t)prompt->kind)};
    out->count = 0;
    add(&b, prompt->tools.data, prompt->tools.length); /* templates put them first */
    for (uint32_t i = 0; i < prompt->messages_count; i++) {
        const lac_chat_message *m = &prompt->messages[i];
        add(&b, m->role, strlen(m->role) + 1);
        add(&b, m->content.data, m->content.length);
        add(&b, m->calls.data, m->calls.length);
    }
    add(&b, prompt->text.data, prompt->text.length);
    add(&b, prompt->ids, prompt->ids_count * sizeof *prompt->ids);
}

void lac__prefix_salt(const lac__prefix *chain, uint64_t salt, lac__prefix *out)
{
    out->count = chain->count;
    for (uint32_t i = 0; i < chain->count; i++)
        out->blocks[i] = lac__hash_mix(chain->blocks[i], salt);
}

/* ---- what a group had lately: a lossy table, a hash has one place ---- */

void lac__prefix_remember(lac__prefix_table *table, const lac__prefix *prefix, uint64_t now_ms)
{
    for (uint32_t i = 0; i < prefix->count; i++) {
        size_t at = prefix->blocks[i] % LAC_PREFIX_TABLE;
        table->blocks[at] = prefix->blocks[i];
        table->seen_ms[at] = now_ms;
    }
}

static bool knows(const lac__prefix_table *table, uint64_t block, uint64_t now_ms)
{
    size_t at = block % LAC_PREFIX_TABLE;
    return table->blocks[at] == block && now_ms - table->seen_ms[at] <= LAC_PREFIX_MS;
}

/* A chain is remembered as a whole, so its known part is found by halving. */
uint32_t lac__prefix_hit(const lac__prefix_table *table, const lac__prefix *prefix, uint64_t now_ms)
{
    uint32_t low = 0, high = prefix->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (knows(table, prefix->blocks[middle], now_ms))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Rendezvous (highest random weight) hashing, Thaler and Ravishankar 1998: the group with the
 * highest weight is the home, and a group that goes takes only its own keys along. The key is the
 * first block: what shares a system prompt shares a home. */
uint64_t lac__prefix_weight(const lac__prefix *prefix, uint64_t group)
{
    return prefix->count ? lac__hash_mix(prefix->blocks[0], group) : 0;
}
