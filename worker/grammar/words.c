/* Which tokens of a vocabulary may follow: masks made by walking the vocabulary in order of its
 * bytes, so that what words share is fed once, and kept by place. One thread.
 *
 * Inside a string nearly every word fits, and fits without a walk: words of whole characters with
 * nothing special in them are known beforehand, and only the others are walked. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/text.h"
#include "parts.h"

enum { CACHE_MAX = 64 };

typedef struct {
    const char *bytes;
    uint32_t id;
    uint8_t length, shared; /* bytes; of them as in the word before it in its list */
    uint8_t characters;     /* of a plain word; 0 = not plain */
} word;

typedef struct {
    word *words;
    uint32_t count;
} word_list;

typedef struct {
    bool used;
    uint64_t hash, stamp;
    lac_digest grammar;
    lac__place place;
    uint64_t *mask;
    uint32_t count;
} entry;

struct lac_words {
    uint32_t vocab, mask_words;
    word_list all, special; /* in order of bytes; `special` are those that are not plain */
    uint64_t *plain;        /* a bit each */
    uint32_t *ends;
    size_t ends_count;
    lac__place *walk; /* [LAC__WORD_BYTES_MAX + 1] the place after each byte of a word */
    entry *cache;     /* [CACHE_MAX] */
    uint64_t *masks;  /* their memory */
    uint64_t clock;
    lac_words_stats stats;
};

/* ---- the vocabulary ---- */

static uint8_t plain_characters(const char *bytes, size_t length)
{
    uint8_t characters = 0;
    if (!lac_utf8_valid(bytes, length))
        return 0;
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (c < 0x20 || c == '"' || c == '\\')
            return 0;
        characters = (uint8_t)(characters + ((c & 0xc0) != 0x80));
    }
    return characters;
}

static int by_bytes(const void *a, const void *b)
{
    const word *x = a, *y = b;
    size_t least = x->length < y->length ? x->length : y->length;
    int order = memcmp(x->bytes, y->bytes, least);
    if (order)
        return order;
    if (x->length != y->length)
        return x->length < y->length ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static void find_shared(word_list *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        word *w = &list->words[i];
        w->shared = 0;
        for (; i > 0 && w->shared < w->length && w->shared < w[-1].length &&
               w->bytes[w->shared] == w[-1].bytes[w->shared];)
            w->shared++;
    }
}

static void set(uint64_t *mask, uint32_t id)
{
    mask[id / 64] |= (uint64_t)1 << id % 64;
}

lac_words *lac_words_create(uint32_t vocab, lac_words_piece piece, void *arg, const uint32_t *ends,
                            size_t ends_count)
{
    LAC_ASSERT(vocab > 0 && vocab <= LAC_VOCAB_MAX);
    lac_words *w = lac_alloc(1, sizeof *w);
    w->vocab = vocab;
    w->mask_words = (vocab + 63) / 64;
    w->all.words = lac_alloc(vocab, sizeof *w->all.words);
    w->special.words = lac_alloc(vocab, sizeof *w->special.words);
    w->plain = lac_alloc(w->mask_words, sizeof *w->plain);
    for (uint32_t id = 0; id < vocab; id++) {
        const char *bytes;
        size_t length;
        piece(arg, id, &bytes, &length);
        if (length > 0 && length <= LAC__WORD_BYTES_MAX)
            w->all.words[w->all.count++] = (word){.bytes = bytes,
                                                  .id = id,
                                                  .length = (uint8_t)length,
                                                  .characters = plain_characters(bytes, length)};
    }
    qsort(w->all.words, w->all.count, sizeof *w->all.words, by_bytes);
    for (uint32_t i = 0; i < w->all.count; i++) {
        if (w->all.words[i].characters)
            set(w->plain, w->all.words[i].id);
        else
            w->special.words[w->special.count++] = w->all.words[i];
    }
    w->special.words = lac_realloc(w->special.words, w->special.count + 1, sizeof(word));
    find_shared(&w->all);
    find_shared(&w->special);
    w->ends = lac_alloc(ends_count + 1, sizeof *w->ends);
    for (size_t i = 0; i < ends_count; i++) {
        LAC_ASSERT(ends[i] < vocab);
        w->ends[i] = ends[i];
    }
    w->ends_count = ends_count;
    w->walk = lac_alloc(LAC__WORD_BYTES_MAX + 1, sizeof *w->walk);
    w->cache = lac_alloc(CACHE_MAX, sizeof *w->cache);
    w->masks = lac_alloc((size_t)CACHE_MAX * w->mask_words, sizeof *w->masks);
    for (uint32_t i = 0; i < CACHE_MAX; i++)
        w->cache[i].mask = w->masks + (size_t)i * w->mask_words;
    w->stats.bytes = sizeof *w + ((size_t)w->all.count + w->special.count) * sizeof(word) +
                     (LAC__WORD_BYTES_MAX + 1) * sizeof(lac__place) + CACHE_MAX * sizeof(entry) +
                     (size_t)(CACHE_MAX + 1) * w->mask_words * 8;
    return w;
}

void lac_words_destroy(lac_words **words)
{
    lac_words *w = *words;
    if (!w)
        return;
    free(w->all.words);
    free(w->special.words);
    free(w->plain);
    free(w->ends);
    free(w->walk);
    free(w->cache);
    free(w->masks);
    free(w);
    *words = NULL;
}

/* ---- making a mask ---- */

/* Allows the words of a list that can be fed whole. `good` bytes of the present word were fed, and
 * walk[good] is the place after them; a word that shares the byte which could not be fed need not
 * be tried. */
static void walk_list(lac_words *w, const lac_grammar *g, const word_list *list, uint64_t *mask)
{
    uint32_t good = 0;
    bool dead = false;
    for (uint32_t i = 0; i < list->count; i++) {
        const word *x = &list->words[i];
        if (dead && x->shared > good)
            continue;
        dead = false;
        if (x->shared < good)
            good = x->shared;
        while (!dead && good < x->length) {
            w->stats.fed++;
            if (lac__place_feed(g, &w->walk[good], (uint8_t)x->bytes[good], &w->walk[good + 1]))
                good++;
            else
                dead = true;
        }
        if (!dead)
            set(mask, x->id);
    }
}

static void plain_words(const lac_words *w, uint32_t room, uint64_t *mask)
{
    if (room >= LAC__WORD_BYTES_MAX) {
        memcpy(mask, w->plain, w->mask_words * sizeof *mask);
        return;
    }
    for (uint32_t i = 0; i < w->all.count; i++) {
        const word *x = &w->all.words[i];
        if (x->characters && x->characters <= room)
            set(mask, x->id);
    }
}

static uint32_t make(lac_words *w, const lac_grammar_state *state, uint64_t *mask)
{
    const lac_grammar *g = state->grammar;
    uint32_t room, count = 0;
    memset(mask, 0, w->mask_words * sizeof *mask);
    lac__place_copy(&state->place, &w->walk[0]);
    if (lac__place_in_string(g, &state->place, &room)) {
        plain_words(w, room, mask);
        walk_list(w, g, &w->special, mask);
    } else {
        walk_list(w, g, &w->all, mask);
    }
    for (size_t i = 0; i < w->ends_count && lac__place_complete(g, &state->place); i++)
        set(mask, w->ends[i]);
    for (uint32_t i = 0; i < w->mask_words; i++)
        count += (uint32_t)__builtin_popcountll(mask[i]);
    return count;
}

/* ---- the cache ---- */

static uint64_t hash_add(uint64_t hash, const void *data, size_t size)
{
    const uint8_t *at = data;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ at[i]) * 1099511628211u; /* FNV-1a; collisions are compared away */
    return hash;
}

static uint64_t hash_of(const lac_grammar_state *state)
{
    const lac__place *p = &state->place;
    uint64_t hash = hash_add(14695981039346656037u, state->grammar->digest.bytes, 8);
    for (uint32_t i = 0; i < p->count; i++) {
        hash = hash_add(hash, &p->threads[i].depth, sizeof p->threads[i].depth);
        hash = hash_add(hash, p->threads[i].stack,
                        p->threads[i].depth * sizeof p->threads[i].stack[0]);
    }
    return hash;
}

static bool same_place(const lac__place *a, const lac__place *b)
{
    if (a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (a->threads[i].depth != b->threads[i].depth ||
            memcmp(a->threads[i].stack, b->threads[i].stack,
                   a->threads[i].depth * sizeof a->threads[i].stack[0]) != 0)
            return false;
    return true;
}

const uint64_t *lac_words_mask(lac_words *w, const lac_grammar_state *state, uint32_t *count)
{
    uint64_t hash = hash_of(state);
    entry *oldest = &w->cache[0], *found = NULL;
    for (uint32_t i = 0; i < CACHE_MAX && !found; i++) {
        entry *e = &w->cache[i];
        if (e->used && e->hash == hash && same_place(&e->place, &state->place) &&
            memcmp(&e->grammar, &state->grammar->digest, sizeof e->grammar) == 0)
            found = e;
        else if (e->stamp < oldest->stamp)
            oldest = e;
    }
    w->stats.hits += found != NULL;
    if (!found) {
        w->stats.misses++;
        found = oldest;
        found->used = true;
        found->hash = hash;
        found->grammar = state->grammar->digest;
        lac__place_copy(&state->place, &found->place);
        found->count = make(w, state, found->mask);
    }
    found->stamp = ++w->clock;
    *count = found->count;
    return found->mask;
}

void lac_words_stats_read(const lac_words *words, lac_words_stats *out)
{
    *out = words->stats;
}
