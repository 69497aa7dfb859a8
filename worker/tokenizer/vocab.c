/* The vocabulary and the merges, read from GGUF metadata and turned into hash tables over raw
 * bytes. Built on the creating thread, read from any. Knows nothing of text splitting.
 *
 * Byte-level BPE files spell bytes as printable characters: the printable ones of Latin-1 stand for
 * themselves, the other 68 for U+0100 … U+0143 in order (the GPT-2 convention). */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/text.h"
#include "internal.h"
#include "spm.h"

static const char KEY_TOKENS[] = "tokenizer.ggml.tokens";
static const char KEY_TYPES[] = "tokenizer.ggml.token_type";
static const char KEY_MERGES[] = "tokenizer.ggml.merges";

static bool stands_for_itself(uint32_t byte)
{
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) ||
           (byte >= 0xae && byte <= 0xff);
}

/* The byte that a character spells, or −1. */
static int byte_of(uint32_t codepoint)
{
    if (codepoint < 0x100)
        return stands_for_itself(codepoint) ? (int)codepoint : -1;
    uint32_t nth = codepoint - 0x100;
    if (nth <= 0x20)
        return (int)nth; /* 0x00 … 0x20 */
    if (nth <= 0x42)
        return (int)(nth - 0x21 + 0x7f); /* 0x7f … 0xa0 */
    return nth == 0x43 ? 0xad : -1;
}

bool lac__unmap_bytes(const char *text, size_t length, char *out, size_t *out_length)
{
    size_t n = 0;
    for (size_t i = 0; i < length;) {
        uint32_t code;
        int bytes = lac_utf8_next(text + i, length - i, &code);
        int byte = bytes ? byte_of(code) : -1;
        if (byte < 0)
            return false;
        out[n++] = (char)byte;
        i += (size_t)bytes;
    }
    *out_length = n;
    return true;
}

/* Up to 7 bytes as one number; those of 4 and more are read twice where the halves overlap. */
static uint64_t last_bytes(const char *bytes, size_t length)
{
    uint32_t low, high;
    if (length >= 4) {
        memcpy(&low, bytes, 4);
        memcpy(&high, bytes + length - 4, 4);
        return (uint64_t)high << 32 | low;
    }
    if (length == 0)
        return 0;
    return (uint64_t)(unsigned char)bytes[0] << 16 |
           (uint64_t)(unsigned char)bytes[length / 2] << 8 | (unsigned char)bytes[length - 1];
}

static uint64_t hash_bytes(const char *bytes, size_t length)
{
    uint64_t h = length * UINT64_C(0x9e3779b97f4a7c15), word;
    for (; length >= 8; bytes += 8, length -= 8) {
        memcpy(&word, bytes, 8);
        h = (h ^ word) * UINT64_C(0xff51afd7ed558ccd);
        h ^= h >> 32;
    }
    h = (h ^ last_bytes(bytes, length)) * UINT64_C(0xff51afd7ed558ccd);
    return h ^ h >> 32;
}

uint32_t lac__vocab_find(const lac__vocab *vocab, const char *bytes, size_t length)
{
    if (length == 0 || length > vocab->length_max)
        return LAC_TOKEN_NONE;
    uint64_t h = hash_bytes(bytes, length);
    for (uint32_t at = (uint32_t)h & vocab->slot_mask;; at = (at + 1) & vocab->slot_mask) {
        uint64_t slot = vocab->slots[at];
        if (slot == 0)
            return LAC_TOKEN_NONE;
        if ((slot ^ h) >> 32 != 0)
            continue;
        uint32_t id = (uint32_t)slot - 1;
        if (lac__vocab_length(vocab, id) == length &&
            memcmp(vocab->bytes + vocab->starts[id], bytes, length) == 0)
            return id;
    }
}

/* A power of two at least twice `count`, so that probing ends. */
static uint32_t table_size(size_t count)
{
    uint32_t size = 16;
    while (size < 2 * count)
        size *= 2;
    return size;
}

static void add_to_hash(lac__vocab *vocab, uint32_t id)
{
    const char *bytes = vocab->bytes + vocab->starts[id];
    size_t length = lac__vocab_length(vocab, id);
    if (length == 0)
        return;
    if (length > vocab->length_max)
        vocab->length_max = length;
    if (lac__vocab_find(vocab, bytes, length) != LAC_TOKEN_NONE)
        return;
    uint64_t h = hash_bytes(bytes, length);
    uint32_t at = (uint32_t)h & vocab->slot_mask;
    while (vocab->slots[at] != 0)
        at = (at + 1) & vocab->slot_mask;
    vocab->slots[at] = (h >> 32 << 32) | (id + 1);
}

static lac_status read_types(const lac_gguf *gguf, lac__vocab *vocab, lac_error *err)
{
    lac_gguf_kind kind;
    size_t count;
    lac_error inner = {0};
    memset(vocab->types, LAC__TOKEN_NORMAL, vocab->size);
    if (!lac_gguf_array(gguf, KEY_TYPES, &kind, &count, &inner)) {
        if (inner.status != LAC_OK)
            return lac_fail(err, inner.status, "%s", inner.text);
        return LAC_OK;
    }
    if (kind != LAC_GGUF_I32 && kind != LAC_GGUF_U32)
        return lac_fail(err, LAC_ECORRUPT, "key %s: elements must be i32", KEY_TYPES);
    if (count != vocab->size)
        return lac_fail(err, LAC_ECORRUPT, "key %s: %zu elements, %s has %u", KEY_TYPES, count,
                        KEY_TOKENS, vocab->size);
    for (uint32_t id = 0; id < vocab->size; id++) {
        double type = lac_gguf_array_number(gguf, KEY_TYPES, id);
        if (type < LAC__TOKEN_NORMAL || type > LAC__TOKEN_BYTE)
            return lac_fail(err, LAC_ECORRUPT, "key %s: element %u is %g, allowed %d to %d",
                            KEY_TYPES, id, type, LAC__TOKEN_NORMAL, LAC__TOKEN_BYTE);
        vocab->types[id] = (uint8_t)type;
    }
    return LAC_OK;
}

/* "<0x0A>" to its byte. */
static bool read_byte(const char *text, size_t length, char *out)
{
    static const char digits[] = "0123456789ABCDEF";
    if (length != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>')
        return false;
    const char *high = memchr(digits, text[3], 16), *low = memchr(digits, text[4], 16);
    if (!high || !low)
        return false;
    *out = (char)((high - digits) << 4 | (low - digits));
    return true;
}

/* One token's bytes into `out`, which holds `length`. */
static lac_status spell(lac__vocab *vocab, lac__spelling spelling, uint32_t id, const char *text,
                        size_t length, char *out, size_t *bytes, lac_error *err)
{
    uint8_t *type = &vocab->types[id];
    bool plain = *type == LAC__TOKEN_NORMAL || *type == LAC__TOKEN_UNUSED;
    *bytes = length;
    if (spelling == LAC__SPELLING_BYTES) {
        if (plain && lac__unmap_bytes(text, length, out, bytes))
            return LAC_OK;
        *bytes = length;
        /* A normal token that spells no bytes can never come out of BPE; it still has a text. */
        if (*type == LAC__TOKEN_NORMAL)
            *type = LAC__TOKEN_UNUSED;
    } else if (*type == LAC__TOKEN_BYTE) {
        *bytes = 1;
        if (!read_byte(text, length, out))
            return lac_fail(err, LAC_ECORRUPT,
                            "key %s: element %u is a byte token, but not \"<0x00>\" to \"<0xFF>\"",
                            KEY_TOKENS, id);
        return LAC_OK;
    } else if (plain || *type == LAC__TOKEN_USER) {
        lac__spm_unline(text, length, out, bytes);
        return LAC_OK;
    }
    if (length)
        memcpy(out, text, length);
    return LAC_OK;
}

/* Copies all texts as the bytes they stand for; control tokens are plain text. */
static lac_status read_tokens(const lac_gguf *gguf, lac__spelling spelling, lac__vocab *vocab,
                              lac_error *err)
{
    size_t total = 0;
    const char *text;
    size_t length;
    for (uint32_t id = 0; id < vocab->size; id++) {
        lac_gguf_array_string(gguf, KEY_TOKENS, id, &text, &length);
        if (length > 2 * LAC_TOKEN_TEXT_MAX)
            return lac_fail(err, LAC_ECORRUPT, "key %s: element %u has %zu bytes, limit %d",
                            KEY_TOKENS, id, length, 2 * LAC_TOKEN_TEXT_MAX);
        total += length;
    }
    vocab->bytes = lac_alloc(total + 1, 1);
    size_t at = 0;
    for (uint32_t id = 0; id < vocab->size; id++) {
        lac_gguf_array_string(gguf, KEY_TOKENS, id, &text, &length);
        size_t bytes;
        lac_status status =
            spell(vocab, spelling, id, text, length, vocab->bytes + at, &bytes, err);
        if (status != LAC_OK)
            return status;
        if (bytes > LAC_TOKEN_TEXT_MAX)
            return lac_fail(err, LAC_ECORRUPT, "key %s: element %u has %zu bytes, limit %d",
                            KEY_TOKENS, id, bytes, LAC_TOKEN_TEXT_MAX);
        at += bytes;
        vocab->starts[id + 1] = at;
    }
    return LAC_OK;
}

/* A string array under `key`, of 1 … max elements. */
static lac_status need_strings(const lac_gguf *gguf, const char *key, size_t max, size_t *count,
                               lac_error *err)
{
    lac_gguf_kind kind;
    lac_error inner = {0};
    if (!lac_gguf_array(gguf, key, &kind, count, &inner))
        return lac_fail(err, LAC_ECORRUPT, "%s%s%s", inner.status != LAC_OK ? inner.text : "key ",
                        inner.status != LAC_OK ? "" : key,
                        inner.status != LAC_OK ? "" : ": missing");
    if (kind != LAC_GGUF_STRING)
        return lac_fail(err, LAC_ECORRUPT, "key %s: elements must be strings", key);
    if (*count < 1 || *count > max)
        return lac_fail(err, LAC_ECORRUPT, "key %s: %zu elements, allowed 1 to %zu", key, *count,
                        max);
    return LAC_OK;
}

lac_status lac__vocab_create(const lac_gguf *gguf, lac__spelling spelling, lac__vocab *out,
                             lac_error *err)
{
    lac__vocab vocab = {0};
    size_t count;
    lac_status status = need_strings(gguf, KEY_TOKENS, LAC_VOCAB_MAX, &count, err);
    if (status != LAC_OK)
        return status;
    vocab.size = (uint32_t)count;
    vocab.starts = lac_alloc(count + 1, sizeof *vocab.starts);
    vocab.types = lac_alloc(count, sizeof *vocab.types);
    vocab.whole = lac_alloc(count, sizeof *vocab.whole);
    vocab.slot_mask = table_size(count) - 1;
    vocab.slots = lac_alloc((size_t)vocab.slot_mask + 1, sizeof *vocab.slots);
    for (int b = 0; b < 256; b++)
        vocab.byte_ids[b] = LAC_TOKEN_NONE;
    status = read_types(gguf, &vocab, err);
    if (status == LAC_OK)
        status = read_tokens(gguf, spelling, &vocab, err);
    if (status != LAC_OK) {
        lac__vocab_free(&vocab);
        return status;
    }
    /* A byte's token: of byte-level BPE a normal one, of SentencePiece one apart from its text. */
    uint8_t byte = spelling == LAC__SPELLING_BYTES ? LAC__TOKEN_NORMAL : LAC__TOKEN_BYTE;
    for (uint32_t id = 0; id < vocab.size; id++) {
        unsigned char first = (unsigned char)vocab.bytes[vocab.starts[id]];
        if (vocab.types[id] == byte && lac__vocab_length(&vocab, id) == 1 &&
            vocab.byte_ids[first] == LAC_TOKEN_NONE)
            vocab.byte_ids[first] = id;
        if (vocab.types[id] == LAC__TOKEN_NORMAL)
            add_to_hash(&vocab, id);
    }
    *out = vocab;
    return LAC_OK;
}

void lac__vocab_free(lac__vocab *vocab)
{
    free(vocab->bytes);
    free(vocab->starts);
    free(vocab->types);
    free(vocab->whole);
    free(vocab->slots);
    *vocab = (lac__vocab){0};
}

/* ---- merges ---- */

/* "left right" as ids; both and what they become must be tokens. */
static lac_status read_merge(const lac_gguf *gguf, const lac__vocab *vocab, uint32_t rank,
                             lac__merge *out, lac_error *err)
{
    const char *text;
    size_t length, left, right;
    char bytes[4 * LAC_TOKEN_TEXT_MAX];
    lac_gguf_array_string(gguf, KEY_MERGES, rank, &text, &length);
    const char *space = length > 1 ? memchr(text + 1, ' ', length - 1) : NULL;
    if (!space || length > sizeof bytes)
        return lac_fail(err, LAC_ECORRUPT,
                        "key %s: element %u is not \"LEFT RIGHT\" of at most %zu bytes", KEY_MERGES,
                        rank, sizeof bytes);
    size_t at = (size_t)(space - text);
    if (!lac__unmap_bytes(text, at, bytes, &left) ||
        !lac__unmap_bytes(space + 1, length - at - 1, bytes + left, &right))
        return lac_fail(err, LAC_ECORRUPT, "key %s: element %u: a character stands for no byte",
                        KEY_MERGES, rank);
    *out = (lac__merge){.left = lac__vocab_find(vocab, bytes, left),
                        .right = lac__vocab_find(vocab, bytes + left, right),
                        .id = lac__vocab_find(vocab, bytes, left + right)};
    if (out->left == LAC_TOKEN_NONE || out->right == LAC_TOKEN_NONE || out->id == LAC_TOKEN_NONE)
        return lac_fail(err, LAC_ECORRUPT, "key %s: element %u: %s is not in %s", KEY_MERGES, rank,
                        out->left == LAC_TOKEN_NONE    ? "its left part"
                        : out->right == LAC_TOKEN_NONE ? "its right part"
                                                       : "what it makes",
                        KEY_TOKENS);
    return LAC_OK;
}

static void add_merge(lac__merges *merges, uint32_t rank)
{
    const lac__merge *rule = &merges->rules[rank];
    if (lac__merges_find(merges, rule->left, rule->right) != UINT32_MAX)
        return; /* said before with a lower rank */
    uint64_t h = lac__pair_hash(rule->left, rule->right);
    uint32_t at = (uint32_t)h & merges->slot_mask;
    while (merges->slots[at] != 0)
        at = (at + 1) & merges->slot_mask;
    merges->slots[at] = (h >> 32 << 32) | (rank + 1);
}

lac_status lac__merges_create(const lac_gguf *gguf, const lac__vocab *vocab, lac__merges *out,
                              lac_error *err)
{
    size_t count;
    lac_status status = need_strings(gguf, KEY_MERGES, LAC_GGUF_ARRAY_MAX, &count, err);
    if (status != LAC_OK)
        return status;
    lac__merges merges = {.count = (uint32_t)count, .slot_mask = table_size(count) - 1};
    merges.rules = lac_alloc(count, sizeof *merges.rules);
    merges.slots = lac_alloc((size_t)merges.slot_mask + 1, sizeof *merges.slots);
    for (uint32_t rank = 0; rank < merges.count; rank++) {
        status = read_merge(gguf, vocab, rank, &merges.rules[rank], err);
        if (status != LAC_OK) {
            lac__merges_free(&merges);
            return status;
        }
        add_merge(&merges, rank);
    }
    *out = merges;
    return LAC_OK;
}

void lac__merges_free(lac__merges *merges)
{
    free(merges->rules);
    free(merges->slots);
    *merges = (lac__merges){0};
}
