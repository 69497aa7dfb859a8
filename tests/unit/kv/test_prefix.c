/* The prefix cache: what is shared and what never is, who is evicted, and that the books hold under
 * random use, checked against pages that remember what was written to them. */
#include "kv/prefix.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

enum { UNITS = 3, BLOCK = 4, CONTEXT = 48, SEQUENCES = 4, STRIDE = CONTEXT / BLOCK };

static const uint32_t size_of[UNITS] = {0, 1, 0};

static const bool windowed[UNITS] = {false, false, true};

/* `window` 0: none; else the last unit has it. */
static lac_kv_pool *make_windowed(uint32_t blocks, uint32_t prefix_blocks, uint32_t window)
{
    lac_kv_options options = {.block_tokens = BLOCK,
                              .context_max = CONTEXT,
                              .sequences_max = SEQUENCES,
                              .units_count = UNITS,
                              .size_of = size_of,
                              .sizes_count = 2,
                              .pages = {2 * blocks, blocks},
                              .prefix_blocks = prefix_blocks,
                              .prefix_seed = 5,
                              .windowed = window ? windowed : NULL,
                              .window = window};
    lac_kv_pool *pool = NULL;
    lac_error err;
    ck_assert_int_eq(lac_kv_create(&options, &pool, &err), LAC_OK);
    return pool;
}

static lac_kv_pool *make(uint32_t blocks, uint32_t prefix_blocks)
{
    return make_windowed(blocks, prefix_blocks, 0);
}

static lac_digest key_of(uint8_t what)
{
    return (lac_digest){.bytes = {what}};
}

static const lac_digest key = {.bytes = {1}};

/* CONTEXT tokens whose block b is made of first + b, but from `fork` on of other tokens. */
static const uint32_t *text_of(uint32_t *out, uint32_t first, uint32_t fork)
{
    for (uint32_t i = 0; i < CONTEXT; i++)
        out[i] = first + i / BLOCK + (i / BLOCK >= fork ? 1000 : 0);
    return out;
}

/* A sequence that computed `tokens` of the text and offered them. */
static int computed(lac_kv_pool *pool, const lac_digest *as, const uint32_t *text, uint32_t tokens)
{
    int s = lac_kv_open(pool, NULL);
    ck_assert_int_ne(s, LAC_KV_SEQUENCE_NONE);
    lac_prefix_take(pool, s, as, text, tokens);
    ck_assert(lac_kv_reserve(pool, s, tokens));
    lac_prefix_offer(pool, s, as, text, tokens);
    return s;
}

static uint32_t found(const lac_kv_pool *pool, const lac_digest *as, const uint32_t *text)
{
    return lac_prefix_find(pool, as, text, CONTEXT).blocks;
}

START_TEST(whole_blocks_of_the_same_text_are_shared)
{
    uint32_t a[CONTEXT], b[CONTEXT];
    lac_kv_pool *pool = make(20, 20);
    int first = computed(pool, &key, text_of(a, 10, 99), 3 * BLOCK + 2);
    ck_assert_uint_eq(lac_kv_used_count(pool), 4 * UNITS);
    lac_prefix_found what = lac_prefix_find(pool, &key, a, CONTEXT);
    ck_assert_uint_eq(what.blocks, 3); /* no part of a block */
    ck_assert_uint_eq(what.idle, 0);
    ck_assert_uint_eq(lac_prefix_find(pool, &key, a, 3 * BLOCK - 1).blocks, 2);
    int second = lac_kv_open(pool, NULL);
    ck_assert_uint_eq(lac_prefix_take(pool, second, &key, text_of(b, 10, 2), CONTEXT), 2 * BLOCK);
    ck_assert_uint_eq(lac_kv_blocks(pool, second), 2);
    ck_assert_uint_eq(lac_kv_used_count(pool), 4 * UNITS);
    for (uint32_t u = 0; u < UNITS; u++)
        for (uint32_t i = 0; i < 2; i++)
            ck_assert_uint_eq(lac_kv_tables(pool, first)[u * STRIDE + i],
                              lac_kv_tables(pool, second)[u * STRIDE + i]);
    lac_kv_close(pool, first); /* the other still has them */
    ck_assert_uint_eq(lac_kv_used_count(pool), 2 * UNITS);
    ck_assert_uint_eq(lac_kv_cached_count(pool), UNITS);
    ck_assert_uint_eq(found(pool, &key, a), 3);
    lac_kv_close(pool, second);
    ck_assert_uint_eq(lac_kv_used_count(pool), 0);
    ck_assert_uint_eq(lac_kv_cached_count(pool), 3 * UNITS);
    lac_prefix_clear(pool);
    ck_assert_uint_eq(lac_kv_cached_count(pool), 0);
    ck_assert_uint_eq(found(pool, &key, a), 0);
    lac_kv_destroy(&pool);
}
END_TEST

START_TEST(other_keys_share_nothing)
{
    uint32_t a[CONTEXT];
    lac_kv_pool *pool = make(20, 20);
    lac_kv_close(pool, computed(pool, &key, text_of(a, 10, 99), CONTEXT));
    ck_assert_uint_eq(found(pool, &key, a), STRIDE);
    for (uint8_t i = 2; i < 40; i++) {
        lac_digest other = key_of(i);
        ck_assert_uint_eq(found(pool, &other, a), 0);
        other = key;
        other.bytes[i % 32] ^= 0x40; /* one bit anywhere */
        ck_assert_uint_eq(found(pool, &other, a), 0);
    }
    lac_kv_destroy(&pool);
}
END_TEST

/* A block is known by all that came before it, and by every token of its own. */
START_TEST(the_same_block_elsewhere_is_another)
{
    uint32_t a[CONTEXT], b[CONTEXT];
    lac_kv_pool *pool = make(40, 40);
    lac_kv_close(pool, computed(pool, &key, text_of(a, 10, 99), CONTEXT));
    memcpy(b, a, sizeof(a));
    b[BLOCK - 1]++; /* the last token of the first block */
    ck_assert_uint_eq(found(pool, &key, b), 0);
    memcpy(b, a, sizeof(a));
    b[2 * BLOCK]++; /* the first of the third */
    ck_assert_uint_eq(found(pool, &key, b), 2);
    memcpy(b, a + BLOCK, sizeof(a) - BLOCK * sizeof(a[0]));
    ck_assert_uint_eq(found(pool, &key, b), 0); /* moved to another position */
    lac_kv_destroy(&pool);
}
END_TEST

START_TEST(equal_blocks_computed_twice_become_one)
{
    uint32_t a[CONTEXT];
    text_of(a, 10, 99);
    lac_kv_pool *pool = make(20, 20);
    int first = lac_kv_open(pool, NULL), second = lac_kv_open(pool, NULL);
    ck_assert(lac_kv_reserve(pool, first, 3 * BLOCK));
    ck_assert(lac_kv_reserve(pool, second, 3 * BLOCK + 1));
    ck_assert_uint_eq(lac_kv_used_count(pool), 7 * UNITS);
    lac_prefix_offer(pool, first, &key, a, 2 * BLOCK);
    lac_prefix_offer(pool, second, &key, a, 3 * BLOCK);
    ck_assert_uint_eq(lac_kv_used_count(pool), 5 * UNITS);
    /* A sequence in the middle of a block goes on with what another finished. */
    ck_assert_uint_eq(lac_prefix_take(pool, first, &key, a, 3 * BLOCK), 3 * BLOCK);
    ck_assert_uint_eq(lac_kv_used_count(pool), 4 * UNITS);
    lac_kv_close(pool, first);
    lac_kv_close(pool, second);
    ck_assert_uint_eq(lac_kv_used_count(pool), 0);
    lac_kv_destroy(&pool);
}
END_TEST

START_TEST(oldest_goes_first_and_used_ones_stay)
{
    uint32_t a[CONTEXT], b[CONTEXT], c[CONTEXT], d[CONTEXT];
    lac_kv_pool *pool = make(9, 20);
    lac_kv_close(pool, computed(pool, &key, text_of(a, 10, 99), 3 * BLOCK));
    lac_kv_close(pool, computed(pool, &key, text_of(b, 100, 99), 3 * BLOCK));
    int busy = computed(pool, &key, text_of(c, 200, 99), 2 * BLOCK);
    lac_kv_close(pool, computed(pool, &key, a, 3 * BLOCK)); /* used again: newer than b */
    ck_assert_uint_eq(lac_kv_free_count(pool, 1), 7);
    int s = lac_kv_open(pool, NULL);
    ck_assert(lac_kv_reserve(pool, s, 2 * BLOCK)); /* one free block, one from b's end */
    ck_assert_uint_eq(found(pool, &key, a), 3);
    ck_assert_uint_eq(found(pool, &key, b), 2);
    ck_assert(lac_kv_reserve(pool, s, 5 * BLOCK));
    ck_assert_uint_eq(found(pool, &key, b), 0);
    ck_assert_uint_eq(found(pool, &key, a), 2);
    ck_assert(!lac_kv_reserve(pool, s, 8 * BLOCK));
    ck_assert_uint_eq(found(pool, &key, a), 2); /* all or nothing: nothing was given up */
    ck_assert(lac_kv_reserve(pool, s, 7 * BLOCK));
    ck_assert_uint_eq(found(pool, &key, a), 0);
    ck_assert_uint_eq(found(pool, &key, c), 2);
    ck_assert_uint_eq(lac_kv_free_count(pool, 0), 0);
    lac_kv_close(pool, s);
    lac_kv_close(pool, busy);
    ck_assert_uint_eq(found(pool, &key, text_of(d, 200, 99)), 2);
    lac_kv_destroy(&pool);
}
END_TEST

START_TEST(full_table_gives_up_the_oldest_or_shares_no_more)
{
    uint32_t a[CONTEXT], b[CONTEXT];
    lac_kv_pool *pool = make(30, 4);
    lac_kv_close(pool, computed(pool, &key, text_of(a, 10, 99), 3 * BLOCK));
    int s = computed(pool, &key, text_of(b, 100, 99), 6 * BLOCK);
    ck_assert_uint_eq(found(pool, &key, a), 0);
    ck_assert_uint_eq(found(pool, &key, b), 4);
    ck_assert_uint_eq(lac_kv_used_count(pool), 6 * UNITS);
    lac_kv_close(pool, s);
    ck_assert_uint_eq(lac_kv_cached_count(pool), 4 * UNITS);
    lac_kv_destroy(&pool);
    pool = make(30, 0); /* without a cache */
    lac_kv_close(pool, computed(pool, &key, a, 3 * BLOCK));
    ck_assert_uint_eq(found(pool, &key, a), 0);
    ck_assert_uint_eq(lac_kv_cached_count(pool), 0);
    lac_prefix_clear(pool);
    lac_kv_destroy(&pool);
}
END_TEST

START_TEST(shares_say_what_giving_back_frees)
{
    uint32_t a[CONTEXT], b[CONTEXT];
    lac_kv_pool *pool = make(40, 40);
    int s[3] = {computed(pool, &key, text_of(a, 10, 99), 4 * BLOCK + 1),
                computed(pool, &key, a, 5 * BLOCK),
                computed(pool, &key, text_of(b, 10, 2), 3 * BLOCK)};
    lac_prefix_share shares[3];
    lac_prefix_shares(pool, s, 3, shares);
    ck_assert_uint_eq(shares[0].owned[1], 5);
    ck_assert_uint_eq(shares[0].alone[1], 1);
    ck_assert_uint_eq(shares[1].owned[1], 1);
    ck_assert_uint_eq(shares[1].alone[1], 1);
    ck_assert_uint_eq(shares[2].owned[1], 1);
    ck_assert_uint_eq(shares[2].alone[1], 1);
    uint32_t before = lac_kv_free_count(pool, 1);
    lac_kv_close(pool, s[2]);
    lac_kv_close(pool, s[1]);
    lac_prefix_shares(pool, s, 1, shares);
    ck_assert_uint_eq(shares[0].alone[1], 5);
    ck_assert_uint_eq(lac_kv_free_count(pool, 1), before + 2);
    lac_kv_destroy(&pool);
}
END_TEST

/* ---- random use ---- */

enum { PAGES0 = 46, PAGES1 = 23, KEYS = 3, NODES = 17, WINDOW = 10 };

/* What a page holds: everything that its bits depend on. */
typedef struct {
    uint8_t key;
    uint32_t unit, tokens_count, tokens[CONTEXT];
} content;

typedef struct {
    int kv;
    uint8_t key;
    uint32_t computed, tokens[CONTEXT];
} model_sequence;

static content memory[2][PAGES0];
static model_sequence live[SEQUENCES];
static uint32_t live_count;

/* Key 3 leaves unit 1 out. */
static bool keeps(uint8_t k, uint32_t unit)
{
    return k != 3 || unit != 1;
}

static content content_of(const model_sequence *s, uint32_t unit, uint32_t block)
{
    content c = {.key = s->key, .unit = unit, .tokens_count = (block + 1) * BLOCK};
    memcpy(c.tokens, s->tokens, c.tokens_count * sizeof(uint32_t));
    return c;
}

static uint32_t page_at(const lac_kv_pool *pool, const model_sequence *s, uint32_t unit, uint32_t b)
{
    return lac_kv_tables(pool, s->kv)[unit * lac_kv_table_stride(pool) + b];
}

/* Every computed whole block lies in pages that hold just that, but what a window has passed. */
static void check_contents(const lac_kv_pool *pool, const model_sequence *s)
{
    uint32_t window = lac_kv_window_blocks(pool) ? WINDOW : CONTEXT;
    uint32_t first = s->computed + 1 > window ? (s->computed + 1 - window) / BLOCK : 0;
    ck_assert_uint_le(lac_kv_passed(pool, s->kv), first);
    for (uint32_t b = 0; (b + 1) * BLOCK <= s->computed; b++)
        for (uint32_t u = 0; u < UNITS; u++) {
            uint32_t page = page_at(pool, s, u, b);
            bool passed = u == 2 && b < lac_kv_passed(pool, s->kv);
            ck_assert_int_eq(page != LAC_KV_PAGE_NONE, keeps(s->key, u) && !passed);
            if (page == LAC_KV_PAGE_NONE)
                continue;
            content want = content_of(s, u, b);
            ck_assert_mem_eq(&memory[size_of[u]][page], &want, sizeof(want));
        }
}

/* Writes what lies between computed and `to`, into pages that nobody else may hold. */
static void compute(const lac_kv_pool *pool, model_sequence *s, uint32_t to)
{
    for (uint32_t b = s->computed / BLOCK; b * BLOCK < to; b++)
        for (uint32_t u = 0; u < UNITS; u++) {
            uint32_t page = page_at(pool, s, u, b);
            if (page == LAC_KV_PAGE_NONE)
                continue;
            for (uint32_t i = 0; i < live_count; i++)
                for (uint32_t o = 0; &live[i] != s && o < lac_kv_blocks(pool, live[i].kv); o++)
                    for (uint32_t v = 0; v < UNITS; v++)
                        ck_assert(size_of[v] != size_of[u] ||
                                  page_at(pool, &live[i], v, o) != page);
            memory[size_of[u]][page] = content_of(s, u, b);
        }
    s->computed = to;
}

static void check_books(lac_kv_pool *pool)
{
    bool seen[2][PAGES0] = {{false}};
    uint32_t used[2] = {0, 0};
    int order[SEQUENCES];
    for (uint32_t i = 0; i < live_count; i++) {
        order[i] = live[i].kv;
        for (uint32_t u = 0; u < UNITS; u++)
            for (uint32_t b = 0; b < lac_kv_blocks(pool, live[i].kv); b++) {
                uint32_t page = page_at(pool, &live[i], u, b);
                if (page == LAC_KV_PAGE_NONE || seen[size_of[u]][page])
                    continue;
                seen[size_of[u]][page] = true;
                used[size_of[u]]++;
            }
    }
    ck_assert_uint_eq(used[0] + lac_kv_free_count(pool, 0), PAGES0);
    ck_assert_uint_eq(used[1] + lac_kv_free_count(pool, 1), PAGES1);
    ck_assert_uint_eq(used[0] + used[1], lac_kv_used_count(pool));
    ck_assert_uint_le(lac_kv_cached_count(pool) + lac_kv_used_count(pool), PAGES0 + PAGES1);
    /* `alone` and `owned` against what the tables say. */
    lac_prefix_share shares[SEQUENCES];
    lac_prefix_shares(pool, order, live_count, shares);
    for (uint32_t i = 0; i < live_count; i++) {
        uint32_t alone[2] = {0}, owned[2] = {0};
        for (uint32_t u = 0; u < UNITS; u++)
            for (uint32_t b = 0; b < lac_kv_blocks(pool, live[i].kv); b++) {
                uint32_t page = page_at(pool, &live[i], u, b);
                bool other = false, earlier = false;
                for (uint32_t j = 0; page != LAC_KV_PAGE_NONE && j < live_count; j++) {
                    bool same = j != i && b < lac_kv_blocks(pool, live[j].kv) &&
                                page_at(pool, &live[j], u, b) == page;
                    other |= same;
                    earlier |= same && j < i;
                }
                alone[size_of[u]] += page != LAC_KV_PAGE_NONE && !other;
                owned[size_of[u]] += page != LAC_KV_PAGE_NONE && !earlier;
            }
        for (uint32_t p = 0; p < 2; p++) {
            ck_assert_uint_eq(shares[i].alone[p], alone[p]);
            ck_assert_uint_eq(shares[i].owned[p], owned[p]);
        }
    }
}

static void open_one(lac_kv_pool *pool, lac_rng *rng)
{
    model_sequence *s = &live[live_count];
    *s = (model_sequence){.key = (uint8_t)(1 + lac_rng_below(rng, KEYS))};
    for (uint32_t i = 0; i < CONTEXT; i++) /* few different blocks: many chains meet again */
        s->tokens[i] = i % BLOCK ? s->tokens[i - 1] : (uint32_t)lac_rng_below(rng, 2);
    bool kept[UNITS];
    for (uint32_t u = 0; u < UNITS; u++)
        kept[u] = keeps(s->key, u);
    s->kv = lac_kv_open(pool, kept);
    ck_assert_int_ne(s->kv, LAC_KV_SEQUENCE_NONE);
    live_count++;
}

static void advance(lac_kv_pool *pool, lac_rng *rng, model_sequence *s)
{
    lac_digest as = key_of(s->key);
    if (lac_rng_below(rng, 3) > 0) {
        bool idle = lac_kv_blocks(pool, s->kv) == 0;
        uint32_t limit = (uint32_t)lac_rng_below(rng, CONTEXT + 1);
        lac_prefix_found what = lac_prefix_find(pool, &as, s->tokens, limit);
        uint32_t free_before = lac_kv_free_count(pool, 0);
        uint32_t shared = lac_prefix_take(pool, s->kv, &as, s->tokens, limit);
        if (idle) { /* it found and took what was said */
            uint32_t seen = lac_kv_window_blocks(pool) ? what.unseen : what.idle;
            ck_assert_uint_eq(shared, what.blocks * BLOCK);
            ck_assert_uint_eq(lac_kv_passed(pool, s->kv), what.passed);
            ck_assert_uint_eq(free_before - lac_kv_free_count(pool, 0), what.idle + seen);
        }
        s->computed = shared > s->computed ? shared : s->computed;
        check_contents(pool, s);
    }
    uint32_t before = s->computed;
    uint32_t to = s->computed + (uint32_t)lac_rng_below(rng, CONTEXT + 1 - s->computed);
    uint32_t blocks = (to + BLOCK - 1) / BLOCK, have = lac_kv_blocks(pool, s->kv);
    uint32_t more = blocks > have ? blocks - have : 0;
    bool fits = more * 2 <= lac_kv_free_count(pool, 0) &&
                more * keeps(s->key, 1) <= lac_kv_free_count(pool, 1);
    ck_assert_int_eq(lac_kv_reserve(pool, s->kv, to), fits);
    if (!fits)
        return;
    compute(pool, s, to);
    if (lac_rng_below(rng, 3) == 0) { /* the rows of a rejected draft */
        s->computed -= (uint32_t)lac_rng_below(rng, s->computed - before + 1);
        lac_kv_trim(pool, s->kv, s->computed);
        ck_assert_uint_eq(lac_kv_blocks(pool, s->kv), (s->computed + BLOCK - 1) / BLOCK);
    }
    if (lac_rng_below(rng, 4) > 0)
        lac_prefix_offer(pool, s->kv, &as, s->tokens, s->computed);
    if (lac_rng_below(rng, 4) > 0)
        lac_kv_pass(pool, s->kv, s->computed);
    check_contents(pool, s);
}

/* A sequence that narrows: what is its own goes at once, what is shared at its end; the books hold,
 * also when the shared blocks are evicted afterwards. */
START_TEST(narrowing_gives_back_what_is_not_shared)
{
    static const bool kept[UNITS] = {false, true, true}, all[UNITS] = {true, true, true};
    uint32_t text[CONTEXT];
    lac_kv_pool *pool = make(8, 20);
    int s = computed(pool, &key, text_of(text, 10, 99), 2 * BLOCK + 1);
    ck_assert_uint_eq(lac_kv_used_count(pool), 3 * UNITS);
    ck_assert_uint_eq(lac_kv_narrow(pool, s, kept), 2);
    ck_assert_uint_eq(lac_kv_used_count(pool), 3 * UNITS - 1);
    const uint32_t *row = lac_kv_tables(pool, s);
    ck_assert_uint_ne(row[1], LAC_KV_PAGE_NONE);
    ck_assert_uint_eq(row[2], LAC_KV_PAGE_NONE);
    ck_assert(lac_kv_reserve(pool, s, 5 * BLOCK));
    ck_assert_uint_eq(lac_kv_used_count(pool), 2 * UNITS + 3 * 2);
    ck_assert_uint_eq(row[4], LAC_KV_PAGE_NONE);
    lac_kv_narrow(pool, s, kept); /* no more to give */
    ck_assert_uint_eq(lac_kv_used_count(pool), 2 * UNITS + 3 * 2);
    lac_kv_close(pool, s);
    ck_assert_uint_eq(lac_kv_used_count(pool), 0);
    ck_assert_uint_eq(lac_kv_cached_count(pool), 2 * UNITS);
    s = lac_kv_open(pool, NULL);
    ck_assert_uint_eq(lac_prefix_take(pool, s, &key, text, CONTEXT), 2 * BLOCK); /* all of it */
    lac_kv_close(pool, s);
    s = lac_kv_open(pool, all);
    ck_assert(lac_kv_reserve(pool, s, 8 * BLOCK)); /* the whole pool */
    lac_kv_close(pool, s);
    ck_assert_uint_eq(lac_kv_used_count(pool) + lac_kv_cached_count(pool), 0);
    lac_kv_destroy(&pool);
}
END_TEST

/* Windowed pages of a long text that still runs go first; whoever comes later finds its end, and
 * its middle only where nobody needed the room. */
START_TEST(passed_pages_are_found_until_they_are_needed)
{
    uint32_t a[CONTEXT], b[CONTEXT];
    lac_kv_pool *pool = make_windowed(14, 40, BLOCK + 1); /* sees one block before its own */
    int s = computed(pool, &key, text_of(a, 10, 99), 8 * BLOCK);
    ck_assert_uint_eq(lac_kv_used_count(pool), 8 * UNITS);
    lac_kv_pass(pool, s, 8 * BLOCK);
    ck_assert_uint_eq(lac_kv_passed(pool, s), 7);
    ck_assert_uint_eq(lac_kv_used_count(pool), 8 * 2 + 1);
    ck_assert_uint_eq(lac_kv_cached_count(pool), 7);
    lac_prefix_found what = lac_prefix_find(pool, &key, text_of(b, 10, 5), CONTEXT);
    ck_assert_uint_eq(what.blocks, 5);
    ck_assert_uint_eq(what.passed, 4);
    ck_assert_uint_eq(what.idle, 0);
    ck_assert_uint_eq(what.unseen, 1); /* one windowed page would be in use again */
    static const bool kept[UNITS] = {true, false, true};
    int other = lac_kv_open(pool, kept);
    ck_assert(lac_kv_reserve(pool, other, 7 * BLOCK)); /* 14 of 28 pages, of which 12 are empty */
    ck_assert_uint_eq(lac_kv_cached_count(pool), 5);
    lac_kv_close(pool, other);
    ck_assert_uint_eq(found(pool, &key, a), 8);
    ck_assert_uint_le(found(pool, &key, b), 5);
    lac_kv_close(pool, s);
    ck_assert_uint_eq(lac_kv_used_count(pool), 0);
    ck_assert_uint_eq(found(pool, &key, a), 8);
    lac_kv_destroy(&pool);
}
END_TEST

START_TEST(a_text_is_found_where_its_window_is_whole)
{
    uint32_t a[CONTEXT];
    text_of(a, 10, 99);
    lac_kv_pool *pool = make_windowed(12, 40, BLOCK + 1);
    /* It passes before it offers: of seven blocks only the last shows its windowed pages. */
    int s = lac_kv_open(pool, NULL);
    ck_assert(lac_kv_reserve(pool, s, 7 * BLOCK));
    lac_kv_pass(pool, s, 7 * BLOCK);
    lac_prefix_offer(pool, s, &key, a, 7 * BLOCK);
    ck_assert_uint_eq(found(pool, &key, a), 7);
    ck_assert_uint_eq(lac_prefix_find(pool, &key, a, 7 * BLOCK - 1).blocks, 0);
    /* Another one computes the first four: what it still sees it gives to the nodes. */
    int t = lac_kv_open(pool, NULL);
    ck_assert(lac_kv_reserve(pool, t, 4 * BLOCK));
    lac_prefix_offer(pool, t, &key, a, 4 * BLOCK);
    ck_assert_uint_eq(lac_prefix_find(pool, &key, a, 7 * BLOCK - 1).blocks, 4);
    ck_assert_uint_eq(lac_kv_used_count(pool), 7 * 2 + 1 + 4);
    /* One in the middle of its prefill goes on with the end. */
    ck_assert_uint_eq(lac_prefix_take(pool, t, &key, a, CONTEXT), 7 * BLOCK);
    ck_assert_uint_eq(lac_kv_passed(pool, t), 6);
    ck_assert_uint_eq(lac_kv_used_count(pool), 7 * 2 + 1);
    lac_kv_close(pool, s);
    lac_kv_close(pool, t);
    ck_assert_uint_eq(lac_kv_used_count(pool), 0);
    ck_assert_uint_eq(lac_kv_cached_count(pool), 7 * 2 + 5);
    lac_prefix_clear(pool);
    ck_assert_uint_eq(lac_kv_free_count(pool, 0), 24);
    lac_kv_destroy(&pool);
}
END_TEST

START_TEST(what_was_left_out_never_comes_back)
{
    static const bool kept[UNITS] = {false, true, true}, all[UNITS] = {true, true, true};
    lac_kv_pool *pool = make(8, 0);
    int s = lac_kv_open(pool, kept);
    lac_kv_narrow(pool, s, all);
}
END_TEST

START_TEST(random_use_keeps_contents_and_books)
{
    lac_kv_pool *pool = make_windowed(PAGES1, NODES, _i ? WINDOW : 0);
    lac_rng rng;
    lac_rng_seed(&rng, 3);
    live_count = 0;
    uint64_t hits = 0;
    for (int move = 0; move < 8000; move++) {
        uint64_t what = lac_rng_below(&rng, 8);
        if (what < 2 && live_count < SEQUENCES) {
            open_one(pool, &rng);
        } else if (live_count > 0) {
            uint32_t i = (uint32_t)lac_rng_below(&rng, live_count);
            if (what == 2) {
                lac_kv_close(pool, live[i].kv);
                live[i] = live[--live_count];
            } else if (what == 3) {
                lac_kv_release(pool, live[i].kv);
                live[i].computed = 0;
            } else {
                uint32_t before = live[i].computed;
                advance(pool, &rng, &live[i]);
                hits += before == 0 && live[i].computed > 0;
            }
        }
        for (uint32_t i = 0; i < live_count; i++)
            check_contents(pool, &live[i]);
        check_books(pool);
    }
    ck_assert_uint_gt(hits, _i ? 300 : 400);
    while (live_count > 0)
        lac_kv_close(pool, live[--live_count].kv);
    ck_assert_uint_eq(lac_kv_used_count(pool), 0);
    ck_assert_uint_gt(lac_kv_cached_count(pool), 0);
    lac_prefix_clear(pool);
    ck_assert_uint_eq(lac_kv_cached_count(pool), 0);
    ck_assert_uint_eq(lac_kv_free_count(pool, 0), PAGES0);
    lac_kv_destroy(&pool);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("prefix");
    TCase *tc = tcase_create("prefix");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, whole_blocks_of_the_same_text_are_shared);
    tcase_add_test(tc, other_keys_share_nothing);
    tcase_add_test(tc, the_same_block_elsewhere_is_another);
    tcase_add_test(tc, equal_blocks_computed_twice_become_one);
    tcase_add_test(tc, oldest_goes_first_and_used_ones_stay);
    tcase_add_test(tc, full_table_gives_up_the_oldest_or_shares_no_more);
    tcase_add_test(tc, shares_say_what_giving_back_frees);
    tcase_add_test(tc, narrowing_gives_back_what_is_not_shared);
    tcase_add_test_raise_signal(tc, what_was_left_out_never_comes_back, SIGABRT);
    tcase_add_test(tc, passed_pages_are_found_until_they_are_needed);
    tcase_add_test(tc, a_text_is_found_where_its_window_is_whole);
    tcase_add_loop_test(tc, random_use_keeps_contents_and_books, 0, 2);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
