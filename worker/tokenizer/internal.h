/* The parts of a tokenizer, shared by the files of this folder: vocabulary, merges, pre-tokenizer,
 * special texts. All are built once and then read from any thread; scratch memory belongs to a
 * call. */
#ifndef LAC_TOKENIZER_INTERNAL_H
#define LAC_TOKENIZER_INTERNAL_H

#include <string.h>

#include "base/limits.h"
#include "tokenizer/tokenizer.h"

/* Token types as the GGUF key tokenizer.ggml.token_type numbers them. */
enum {
    LAC__TOKEN_NORMAL = 1,
    LAC__TOKEN_UNKNOWN = 2,
    LAC__TOKEN_CONTROL = 3,
    LAC__TOKEN_USER = 4,
    LAC__TOKEN_UNUSED = 5,
    LAC__TOKEN_BYTE = 6
};

/* ---- ids under construction */
typedef struct {
    uint32_t *data; /* malloc'd */
    size_t count, size;
} lac__ids;
void lac__ids_grow(lac__ids *ids);
static inline void lac__ids_add(lac__ids *ids, uint32_t id)
{
    if (ids->count == ids->size)
        lac__ids_grow(ids);
    ids->data[ids->count++] = id;
}

/* ---- vocabulary: id ⇄ bytes */
typedef struct {
    uint32_t size;
    char *bytes;    /* all tokens, one after another */
    size_t *starts; /* [size + 1] */
    uint8_t *types; /* [size] */
    bool *whole;    /* [size]: a word with exactly these bytes becomes this one token */
    /* Open-addressed hash of the tokens BPE may give: high half check bits, low half id + 1, 0 =
     * free. Most texts asked for are no token, and the check bits say so without a look at them. */
    uint64_t *slots;
    uint32_t slot_mask;
    size_t length_max;      /* of a token in the hash */
    uint32_t byte_ids[256]; /* or LAC_TOKEN_NONE: some vocabularies lack bytes that no text of
                               theirs had */
} lac__vocab;

/* How the file writes a token's bytes: as GPT-2's printable characters, or as they are with U+2581
 * for a space and byte tokens written "<0x0A>". */
typedef enum { LAC__SPELLING_BYTES, LAC__SPELLING_SENTENCEPIECE } lac__spelling;
lac_status lac__vocab_create(const lac_gguf *gguf, lac__spelling spelling, lac__vocab *out,
                             lac_error *err);
void lac__vocab_free(lac__vocab *vocab);
/* The lowest id of a normal token with these bytes, or LAC_TOKEN_NONE. */
uint32_t lac__vocab_find(const lac__vocab *vocab, const char *bytes, size_t length);
static inline size_t lac__vocab_length(const lac__vocab *vocab, uint32_t id)
{
    return vocab->starts[id + 1] - vocab->starts[id];
}
/* Byte-level text ("Ġthe") to bytes (" the"); `out` holds `length`. False when a character stands
 * for no byte. */
bool lac__unmap_bytes(const char *text, size_t length, char *out, size_t *out_length);

/* ---- merges: what two neighbouring tokens become, lowest rank first */
typedef struct {
    uint32_t left, right, id;
} lac__merge;
typedef struct {
    lac__merge *rules; /* [count], index = rank */
    uint32_t count;
    /* Open-addressed hash by (left, right): high half the pair's check bits, low half rank + 1, 0 =
     * free. Most pairs have no rule, and the check bits say so without a look at `rules`. */
    uint64_t *slots;
    uint32_t slot_mask;
} lac__merges;

lac_status lac__merges_create(const lac_gguf *gguf, const lac__vocab *vocab, lac__merges *out,
                              lac_error *err);
void lac__merges_free(lac__merges *merges);
static inline uint64_t lac__pair_hash(uint32_t left, uint32_t right)
{
    uint64_t h = ((uint64_t)left << 32 | right) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}
/* Rank of the rule for this pair, or UINT32_MAX. */
static inline uint32_t lac__merges_find(const lac__merges *merges, uint32_t left, uint32_t right)
{
    uint64_t h = lac__pair_hash(left, right);
    for (uint32_t at = (uint32_t)h & merges->slot_mask;; at = (at + 1) & merges->slot_mask) {
        uint64_t slot = merges->slots[at];
        if (slot == 0)
            return UINT32_MAX;
        if ((slot ^ h) >> 32 != 0)
            continue;
        const lac__merge *rule = &merges->rules[(uint32_t)slot - 1];
        if (rule->left == left && rule->right == right)
            return (uint32_t)slot - 1;
    }
}

/* ---- BPE of one word */
typedef struct lac__bpe lac__bpe; /* scratch of one call */
lac__bpe *lac__bpe_create(const lac__vocab *vocab, const lac__merges *merges);
void lac__bpe_destroy(lac__bpe **bpe);
/* Appends the word's ids. O(n log n) in its bytes. Bytes without a token are left out, as the
 * reference implementation does. */
void lac__bpe_word(lac__bpe *bpe, const char *word, size_t length, lac__ids *out);

/* ---- pre-tokenizer: text to words */
typedef struct {
    const char *name;    /* ours: "smollm" */
    const char *aliases; /* values of tokenizer.ggml.pre, each between spaces */
    const char *pattern;
    bool ignore_merges; /* a word that is a token is that token, whatever the merges say */
    bool add_bos;       /* when the file does not say */
} lac__pre_row;
typedef struct {
    const lac__pre_row *row;
    void *code; /* pcre2_code */
    bool jit;
} lac__pre;
lac_status lac__pre_create(const char *name, size_t length, lac__pre *out, lac_error *err);
void lac__pre_free(lac__pre *pre);

typedef struct lac__splitter lac__splitter; /* scratch of one call */
lac__splitter *lac__splitter_create(const lac__pre *pre);
void lac__splitter_destroy(lac__splitter **splitter);
void lac__splitter_start(lac__splitter *splitter, const char *text, size_t length);
/* The next word; LAC_AGAIN at the end. Words cover the text without gaps; bytes that are no UTF-8
 * are words of their own. */
lac_status lac__splitter_next(lac__splitter *splitter, const char **word, size_t *length,
                              lac_error *err);

/* ---- special texts: longest match in a trie */
typedef struct lac__special lac__special;
lac__special *lac__special_create(const lac__vocab *vocab);
void lac__special_destroy(lac__special **special);
/* First match at or after `from`: false when none. User-defined tokens are always looked for,
 * control tokens only with `control`. */
bool lac__special_find(const lac__special *special, const char *text, size_t length, size_t from,
                       bool control, size_t *start, size_t *match_length, uint32_t *id);

typedef struct lac__spm lac__spm; /* spm.h */

/* Byte-level BPE has merges and a pre-tokenizer, SentencePiece has `spm` instead. */
struct lac_tokenizer {
    lac__vocab vocab;
    lac__merges merges;
    lac__pre pre;
    lac__spm *spm;
    lac__special *special;
    char name[48];
    uint32_t bos, eos;
    bool add_bos;
    bool *ends; /* [size] */
};

#endif
