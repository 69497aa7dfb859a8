/* SentencePiece BPE: characters merge into the token of the highest score, leftmost first, until no
 * two neighbours spell one. Built once, read from any thread; scratch belongs to one call. Knows
 * nothing of special texts.
 *
 * Any way of cutting a token in two is a merge, so there is no table of merges: what two neighbours
 * spell is looked up in the vocabulary. SentencePiece takes the whole text as one word; here it is
 * cut before each space that follows another character as long as no token has such a space inside,
 * because then nothing can merge across. Spaces stand for U+2581 in texts and tokens alike. */
#include "spm.h"

#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/text.h"
#include "queue.h"

static const char KEY_SCORES[] = "tokenizer.ggml.scores";
/* ---- what the file says ---- */

typedef struct {
    float score;
    uint32_t id;
} scored;

static int by_score(const void *a, const void *b)
{
    const scored *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static lac_status read_scores(const lac_gguf *gguf, uint32_t size, scored *out, lac_error *err)
{
    lac_gguf_kind kind;
    size_t count;
    lac_error inner = {0};
    if (!lac_gguf_array(gguf, KEY_SCORES, &kind, &count, &inner))
        return inner.status != LAC_OK ? lac_fail(err, inner.status, "%s", inner.text)
                                      : lac_fail(err, LAC_ECORRUPT, "key %s: missing", KEY_SCORES);
    if (kind != LAC_GGUF_F32)
        return lac_fail(err, LAC_ECORRUPT, "key %s: elements must be f32", KEY_SCORES);
    if (count != size)
        return lac_fail(err, LAC_ECORRUPT, "key %s: %zu elements, tokenizer.ggml.tokens has %u",
                        KEY_SCORES, count, size);
    for (uint32_t id = 0; id < size; id++) {
        out[id] = (scored){(float)lac_gguf_array_number(gguf, KEY_SCORES, id), id};
        if (!isfinite(out[id].score))
            return lac_fail(err, LAC_ECORRUPT, "key %s: element %u is not finite", KEY_SCORES, id);
    }
    return LAC_OK;
}

/* Equal scores get equal ranks: among them the leftmost pair is first. */
static void rank_scores(scored *scores, uint32_t size, uint32_t *ranks)
{
    bool sorted = true;
    for (uint32_t i = 1; i < size && sorted; i++)
        sorted = scores[i - 1].score >= scores[i].score;
    if (!sorted)
        qsort(scores, size, sizeof *scores, by_score);
    uint32_t rank = 0;
    for (uint32_t i = 0; i < size; i++) {
        rank += i > 0 && scores[i].score != scores[i - 1].score;
        ranks[scores[i].id] = rank;
    }
}

/* Whether no token that merging may give has a space behind another character. */
static bool cuts_at_spaces(const lac__vocab *vocab)
{
    for (uint32_t id = 0; id < vocab->size; id++) {
        const char *text = vocab->bytes + vocab->starts[id];
        size_t length = lac__vocab_length(vocab, id);
        for (size_t i = 1; vocab->types[id] == LAC__TOKEN_NORMAL && i < length; i++)
            if (text[i] == ' ' && text[i - 1] != ' ')
                return false;
    }
    return true;
}

lac_status lac__spm_create(const lac_gguf *gguf, const lac__vocab *vocab, lac__spm **out,
                           lac_error *err)
{
    uint64_t unknown;
    lac_error inner = {0};
    lac__spm spm = {.vocab = vocab, .unknown = LAC_TOKEN_NONE, .space_prefix = true};
    if (lac_gguf_u64(gguf, "tokenizer.ggml.unknown_token_id", 0, vocab->size - 1, &unknown, &inner))
        spm.unknown = (uint32_t)unknown;
    if (inner.status == LAC_OK)
        lac_gguf_bool(gguf, "tokenizer.ggml.add_space_prefix", &spm.space_prefix, &inner);
    if (inner.status != LAC_OK)
        return lac_fail(err, inner.status, "%s", inner.text);
    if (vocab->length_max > UINT16_MAX)
        return lac_fail(err, LAC_ECORRUPT,
                        "key tokenizer.ggml.tokens: a token of %zu bytes, limit %d",
                        vocab->length_max, UINT16_MAX);
    scored *scores = lac_alloc(vocab->size, sizeof *scores);
    lac_status status = read_scores(gguf, vocab->size, scores, err);
    if (status == LAC_OK) {
        spm.ranks = lac_alloc(vocab->size, sizeof *spm.ranks);
        rank_scores(scores, vocab->size, spm.ranks);
        spm.cuts = cuts_at_spaces(vocab);
        *out = lac_alloc(1, sizeof **out);
        **out = spm;
    }
    free(scores);
    return status;
}

void lac__spm_destroy(lac__spm **spm)
{
    if (!*spm)
        return;
    free((*spm)->ranks);
    free(*spm);
    *spm = NULL;
}

/* ---- one word ---- */

/* A symbol lies at the number of its first byte; the next one starts where it ends. Words of
 * megabytes miss the cache on most of them, so they are small: eight to a line. */
typedef struct {
    uint32_t pair;         /* what it and its right neighbour spell, or LAC_TOKEN_NONE */
    uint16_t length, prev; /* bytes of it, and of its left neighbour (0: it is the first) */
} symbol;
enum { HUGE_FROM = 4 << 20, HUGE_PAGE = 2 << 20 };

/* What short texts were found to be: pairs repeat, and this stays in the cache where the vocabulary
 * does not. The key is the text and its length, so a hit is no guess. */
typedef struct {
    uint64_t key; /* 0 = free: no text has length 0 */
    uint32_t id;
} memo;
enum { MEMO_BITS = 14, MEMO_LENGTH_MAX = 7, LONG_TEXT = 16384 };

/* A word that was met before and where its ids lie in the output. */
typedef struct {
    const char *word;
    size_t length, ids_at, ids_count;
} seen;
enum {
    SEEN = 1 << 15,
    SEEN_LENGTH_MAX = 64
}; /* pages of it that no text needs are never touched */

struct lac__spm_call {
    const lac__spm *spm;
    symbol *symbols;
    size_t symbols_size;
    lac__queue queue;
    lac_buf first; /* a first word behind the space put before it */
    seen seen[SEEN];
    memo *memo; /* [1 << MEMO_BITS], for a long text, or NULL */
};

lac__spm_call *lac__spm_call_create(const lac__spm *spm, size_t length)
{
    lac__spm_call *call = lac_alloc(1, sizeof *call);
    call->spm = spm;
    if (length >= LONG_TEXT)
        call->memo = lac_alloc((size_t)1 << MEMO_BITS, sizeof *call->memo);
    return call;
}

void lac__spm_call_destroy(lac__spm_call **call)
{
    if (!*call)
        return;
    lac__queue_free(&(*call)->queue);
    lac_buf_free(&(*call)->first);
    free((*call)->symbols);
    free((*call)->memo);
    free(*call);
    *call = NULL;
}

/* The token of these bytes; `room` of them, or more, can be read. */
static uint32_t find(const lac__spm_call *call, const char *text, size_t length, size_t room)
{
    if (!call->memo || length > MEMO_LENGTH_MAX)
        return lac__vocab_find(call->spm->vocab, text, length);
    uint64_t key = 0;
    if (room >= sizeof key) {
        memcpy(&key, text, sizeof key);
        key &= (UINT64_C(1) << 8 * length) - 1;
    } else {
        memcpy(&key, text, length);
    }
    key |= (uint64_t)length << 56;
    memo *m = &call->memo[key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - MEMO_BITS)];
    if (m->key != key)
        *m = (memo){key, lac__vocab_find(call->spm->vocab, text, length)};
    return m->id;
}

static void push_pair(lac__spm_call *call, const char *word, size_t length, uint32_t position)
{
    symbol *s = &call->symbols[position];
    size_t next = position + s->length;
    s->pair = LAC_TOKEN_NONE;
    if (next == length)
        return;
    s->pair = find(call, word + position, s->length + (size_t)call->symbols[next].length,
                   length - position);
    if (s->pair != LAC_TOKEN_NONE)
        lac__queue_push(&call->queue, call->spm->ranks[s->pair], position);
}

/* Room for a word, in large pages where it takes many: the symbols are met in no order. */
static void symbols_reserve(lac__spm_call *call, size_t length)
{
    if (length <= call->symbols_size)
        return;
    free(call->symbols);
    call->symbols_size = length < 256 ? 256 : length;
    size_t bytes = call->symbols_size * sizeof *call->symbols;
    if (bytes < HUGE_FROM) {
        call->symbols = lac_alloc(call->symbols_size, sizeof *call->symbols);
        return;
    }
    bytes = (bytes + HUGE_PAGE - 1) & ~(size_t)(HUGE_PAGE - 1);
    call->symbols = aligned_alloc(HUGE_PAGE, bytes);
    if (!call->symbols)
        call->symbols =
            lac_alloc(call->symbols_size, sizeof *call->symbols); /* or ends with a word */
    else
        (void)madvise(call->symbols, bytes, MADV_HUGEPAGE); /* a wish */
}

/* One symbol a character, or a byte where the text is no UTF-8; returns how many. */
static size_t fill_symbols(lac__spm_call *call, const char *word, size_t length)
{
    symbols_reserve(call, length);
    size_t n = 0;
    uint16_t prev = 0;
    for (size_t i = 0; i < length; i += prev, n++) {
        uint32_t code;
        int bytes = (unsigned char)word[i] < 0x80 ? 1 : lac_utf8_next(word + i, length - i, &code);
        uint16_t here = bytes ? (uint16_t)bytes : 1;
        call->symbols[i] = (symbol){.pair = LAC_TOKEN_NONE, .length = here, .prev = prev};
        prev = here;
    }
    return n;
}

static void merge_all(lac__spm_call *call, const char *word, size_t length)
{
    uint64_t entry;
    while (lac__queue_pop(&call->queue, call->symbols, sizeof *call->symbols, word, &entry)) {
        uint32_t position = (uint32_t)entry;
        symbol *left = &call->symbols[position];
        if (left->pair == LAC_TOKEN_NONE || call->spm->ranks[left->pair] != entry >> 32)
            continue; /* changed since it was queued */
        symbol *right = left + left->length;
        left->length = (uint16_t)(left->length + right->length); /* a token's: create() saw to it */
        right->pair = LAC_TOKEN_NONE;
        if (position + (size_t)left->length != length)
            left[left->length].prev = left->length;
        if (left->prev != 0)
            push_pair(call, word, length, position - left->prev);
        push_pair(call, word, length, position);
    }
}

/* A character that no token spells: its bytes' tokens, or the unknown token where one is missing.
 */
static void add_bytes(const lac__spm *spm, const char *bytes, size_t length, lac__ids *out)
{
    const uint32_t *ids = spm->vocab->byte_ids;
    for (size_t i = 0; i < length; i++)
        if (ids[(unsigned char)bytes[i]] == LAC_TOKEN_NONE) {
            if (spm->unknown != LAC_TOKEN_NONE)
                lac__ids_add(out, spm->unknown);
            return;
        }
    for (size_t i = 0; i < length; i++)
        lac__ids_add(out, ids[(unsigned char)bytes[i]]);
}

static void add_word(lac__spm_call *call, const char *word, size_t length, lac__ids *out)
{
    LAC_ASSERT(length > 0 && length <= LAC_PROMPT_BYTES_MAX + 1);
    lac__queue_start(&call->queue, fill_symbols(call, word, length));
    for (uint32_t at = 0; at < length; at += call->symbols[at].length)
        push_pair(call, word, length, at);
    merge_all(call, word, length);
    for (uint32_t at = 0, bytes; at < length; at += bytes) {
        bytes = call->symbols[at].length;
        uint32_t id = find(call, word + at, bytes, length - at);
        if (id != LAC_TOKEN_NONE)
            lac__ids_add(out, id);
        else
            add_bytes(call->spm, word + at, bytes, out);
    }
    lac__queue_finish(&call->queue);
}

/* ---- a text ---- */

static uint32_t word_hash(const char *word, size_t length)
{
    uint32_t h = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < length; i++)
        h = (h ^ (unsigned char)word[i]) * 16777619u;
    return (h ^ h >> 15) % SEEN;
}

/* As add_word, for a word whose bytes stay where they are as long as the call lives. */
static void add_word_again(lac__spm_call *call, const char *word, size_t length, lac__ids *out)
{
    if (length > SEEN_LENGTH_MAX) {
        add_word(call, word, length, out);
        return;
    }
    seen *s = &call->seen[word_hash(word, length)];
    if (s->length == length && memcmp(s->word, word, length) == 0) {
        for (size_t i = 0; i < s->ids_count; i++)
            lac__ids_add(out, out->data[s->ids_at + i]);
        return;
    }
    size_t at = out->count;
    add_word(call, word, length, out);
    *s = (seen){word, length, at, out->count - at};
}

/* Where the word that starts at `from` ends. */
static size_t word_end(const lac__spm *spm, const char *text, size_t length, size_t from)
{
    if (!spm->cuts)
        return length;
    for (size_t i = from + 1; i < length; i++)
        if (text[i] == ' ' && text[i - 1] != ' ')
            return i;
    return length;
}

void lac__spm_text(lac__spm_call *call, const char *text, size_t length, bool prefix, lac__ids *out)
{
    size_t at = 0;
    if (prefix && call->spm->space_prefix) {
        at = length > 0 ? word_end(call->spm, text, length, 0) : 0;
        call->first.length = 0;
        lac_buf_add(&call->first, " ", 1);
        lac_buf_add(&call->first, text, at);
        add_word(call, call->first.data, call->first.length, out);
    }
    while (at < length) {
        size_t end = word_end(call->spm, text, length, at);
        add_word_again(call, text + at, end - at, out);
        at = end;
    }
}

/* U+2581, which SentencePiece writes for a space and so cannot tell from one. */
static const char LINE[] = "\xe2\x96\x81";

bool lac__spm_unline(const char *text, size_t length, char *out, size_t *out_length)
{
    bool found = false;
    size_t n = 0;
    for (size_t i = 0; i < length;) {
        if (text[i] == LINE[0] && length - i >= 3 && memcmp(text + i, LINE, 3) == 0) {
            out[n++] = ' ';
            i += 3;
            found = true;
        } else {
            out[n++] = text[i++];
        }
    }
    *out_length = n;
    return found;
}
