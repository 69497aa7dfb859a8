/* A tokenizer as a whole: built from a file's metadata, its named tokens, and ids back to bytes.
 * Built on one thread, then read from any. Encoding is encode.c's. */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "internal.h"
#include "spm.h"

/* Texts that end a turn or a document in the model families we know, besides the ids a file names.
 */
static const char *const end_texts[] = {
    "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>",          "<|end_of_text|>",
    "<|end|>",    "<end_of_turn>", "</s>",       "<|end_of_sentence|>", "<｜end▁of▁sentence｜>",
};

static lac_status read_id(const lac_gguf *gguf, const char *key, uint32_t size, uint32_t *out,
                          lac_error *err)
{
    uint64_t value;
    lac_error inner = {0};
    *out = LAC_TOKEN_NONE;
    if (lac_gguf_u64(gguf, key, 0, size - 1, &value, &inner))
        *out = (uint32_t)value;
    return inner.status == LAC_OK ? LAC_OK : lac_fail(err, inner.status, "%s", inner.text);
}

static lac_status read_ends(lac_tokenizer *t, const lac_gguf *gguf, lac_error *err)
{
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    uint32_t id;
    t->ends = lac_alloc(t->vocab.size, sizeof *t->ends);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        lac_status status = read_id(gguf, keys[i], t->vocab.size, &id, err);
        if (status != LAC_OK)
            return status;
        if (id != LAC_TOKEN_NONE)
            t->ends[id] = true;
    }
    for (size_t i = 0; i < sizeof end_texts / sizeof end_texts[0]; i++) {
        id = lac_tokenizer_find(t, end_texts[i], strlen(end_texts[i]));
        if (id != LAC_TOKEN_NONE && lac_tokenizer_is_control(t, id))
            t->ends[id] = true;
    }
    return LAC_OK;
}

static lac_status read_names(lac_tokenizer *t, const lac_gguf *gguf, lac_error *err)
{
    lac_error inner = {0};
    lac_status status = read_id(gguf, "tokenizer.ggml.bos_token_id", t->vocab.size, &t->bos, err);
    if (status == LAC_OK)
        status = read_id(gguf, "tokenizer.ggml.eos_token_id", t->vocab.size, &t->eos, err);
    if (status != LAC_OK)
        return status;
    t->add_bos = (t->spm || t->pre.row->add_bos) && t->bos != LAC_TOKEN_NONE;
    lac_gguf_bool(gguf, "tokenizer.ggml.add_bos_token", &t->add_bos, &inner);
    if (inner.status != LAC_OK)
        return lac_fail(err, inner.status, "%s", inner.text);
    if (t->add_bos && t->bos == LAC_TOKEN_NONE)
        return lac_fail(err, LAC_ECORRUPT,
                        "key tokenizer.ggml.add_bos_token: true, but there is no bos_token_id");
    return LAC_OK;
}

static lac_status read_spelling(const lac_gguf *gguf, lac__spelling *out, lac_error *err)
{
    const char *text;
    size_t length;
    lac_error inner = {0};
    if (!lac_gguf_string(gguf, "tokenizer.ggml.model", &text, &length, &inner))
        return lac_fail(err, LAC_ECORRUPT, "%s",
                        inner.status != LAC_OK ? inner.text : "key tokenizer.ggml.model: missing");
    if (length == 4 && memcmp(text, "gpt2", 4) == 0)
        *out = LAC__SPELLING_BYTES;
    else if (length == 5 && memcmp(text, "llama", 5) == 0)
        *out = LAC__SPELLING_SENTENCEPIECE;
    else
        return lac_fail(err, LAC_EUNSUPPORTED,
                        "key tokenizer.ggml.model: \"%.*s\" is not one of gpt2 (byte-level BPE), "
                        "llama (SentencePiece BPE)",
                        length > 32 ? 32 : (int)length, text);
    return LAC_OK;
}

static lac_status create_pre(lac_tokenizer *t, const lac_gguf *gguf, lac_error *err)
{
    const char *text = "default";
    size_t length = strlen(text);
    lac_error inner = {0};
    lac_gguf_string(gguf, "tokenizer.ggml.pre", &text, &length, &inner);
    if (inner.status != LAC_OK)
        return lac_fail(err, inner.status, "%s", inner.text);
    return lac__pre_create(text, length, &t->pre, err);
}

/* A word that is a token mostly is that token; which ones, the merges decide once, here. */
static void mark_whole(lac_tokenizer *t)
{
    lac__bpe *bpe = lac__bpe_create(&t->vocab, &t->merges);
    lac__ids ids = {0};
    for (uint32_t id = 0; id < t->vocab.size; id++) {
        if (t->vocab.types[id] != LAC__TOKEN_NORMAL)
            continue;
        ids.count = 0;
        if (!t->pre.row->ignore_merges)
            lac__bpe_word(bpe, t->vocab.bytes + t->vocab.starts[id],
                          lac__vocab_length(&t->vocab, id), &ids);
        t->vocab.whole[id] = t->pre.row->ignore_merges || (ids.count == 1 && ids.data[0] == id);
    }
    free(ids.data);
    lac__bpe_destroy(&bpe);
}

static lac_status create_bpe(lac_tokenizer *t, const lac_gguf *gguf, lac_error *err)
{
    lac_status status = create_pre(t, gguf, err);
    if (status == LAC_OK)
        status = lac__vocab_create(gguf, LAC__SPELLING_BYTES, &t->vocab, err);
    if (status == LAC_OK)
        status = lac__merges_create(gguf, &t->vocab, &t->merges, err);
    if (status != LAC_OK)
        return status;
    mark_whole(t);
    snprintf(t->name, sizeof t->name, "bpe/%s", t->pre.row->name);
    return LAC_OK;
}

static lac_status create_spm(lac_tokenizer *t, const lac_gguf *gguf, lac_error *err)
{
    lac_status status = lac__vocab_create(gguf, LAC__SPELLING_SENTENCEPIECE, &t->vocab, err);
    if (status == LAC_OK)
        status = lac__spm_create(gguf, &t->vocab, &t->spm, err);
    snprintf(t->name, sizeof t->name, "sentencepiece/bpe");
    return status;
}

lac_status lac_tokenizer_create(const lac_gguf *gguf, lac_tokenizer **out, lac_error *err)
{
    lac_tokenizer *t = lac_alloc(1, sizeof *t);
    lac__spelling spelling;
    lac_status status = read_spelling(gguf, &spelling, err);
    if (status == LAC_OK)
        status =
            spelling == LAC__SPELLING_BYTES ? create_bpe(t, gguf, err) : create_spm(t, gguf, err);
    if (status == LAC_OK)
        status = read_names(t, gguf, err);
    if (status == LAC_OK)
        status = read_ends(t, gguf, err);
    if (status != LAC_OK) {
        lac_tokenizer_destroy(&t);
        return status;
    }
    t->special = lac__special_create(&t->vocab);
    *out = t;
    return LAC_OK;
}

void lac_tokenizer_destroy(lac_tokenizer **tokenizer)
{
    lac_tokenizer *t = *tokenizer;
    if (!t)
        return;
    lac__special_destroy(&t->special);
    lac__merges_free(&t->merges);
    lac__vocab_free(&t->vocab);
    lac__pre_free(&t->pre);
    lac__spm_destroy(&t->spm);
    free(t->ends);
    free(t);
    *tokenizer = NULL;
}

void lac_tokenizer_piece(const lac_tokenizer *tokenizer, uint32_t id, bool special,
                         const char **bytes, size_t *length)
{
    const lac__vocab *vocab = &tokenizer->vocab;
    *bytes = "";
    *length = 0;
    if (id >= vocab->size || (!special && lac_tokenizer_is_control(tokenizer, id)))
        return;
    *bytes = vocab->bytes + vocab->starts[id];
    *length = lac__vocab_length(vocab, id);
}

uint32_t lac_tokenizer_size(const lac_tokenizer *tokenizer)
{
    return tokenizer->vocab.size;
}

const char *lac_tokenizer_name(const lac_tokenizer *tokenizer)
{
    return tokenizer->name;
}

uint32_t lac_tokenizer_bos(const lac_tokenizer *tokenizer)
{
    return tokenizer->bos;
}

uint32_t lac_tokenizer_eos(const lac_tokenizer *tokenizer)
{
    return tokenizer->eos;
}

bool lac_tokenizer_add_bos(const lac_tokenizer *tokenizer)
{
    return tokenizer->add_bos;
}

bool lac_tokenizer_is_end(const lac_tokenizer *tokenizer, uint32_t id)
{
    return id < tokenizer->vocab.size && tokenizer->ends[id];
}

bool lac_tokenizer_is_control(const lac_tokenizer *tokenizer, uint32_t id)
{
    return id < tokenizer->vocab.size && (tokenizer->vocab.types[id] == LAC__TOKEN_CONTROL ||
                                          tokenizer->vocab.types[id] == LAC__TOKEN_UNKNOWN);
}

uint32_t lac_tokenizer_find(const lac_tokenizer *tokenizer, const char *text, size_t length)
{
    const lac__vocab *vocab = &tokenizer->vocab;
    for (uint32_t id = 0; id < vocab->size; id++)
        if (vocab->types[id] != LAC__TOKEN_NORMAL && lac__vocab_length(vocab, id) == length &&
            memcmp(vocab->bytes + vocab->starts[id], text, length) == 0)
            return id;
    return lac__vocab_find(vocab, text, length);
}
