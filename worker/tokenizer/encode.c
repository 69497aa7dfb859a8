/* Text to ids: special texts, then words, then BPE. Any thread; all scratch belongs to the call. */
#include <stdlib.h>

#include "base/mem.h"
#include "internal.h"
#include "spm.h"

void lac__ids_grow(lac__ids *ids)
{
    ids->size = ids->size ? 2 * ids->size : 256;
    ids->data = lac_realloc(ids->data, ids->size, sizeof *ids->data);
}

typedef struct {
    const lac_tokenizer *tokenizer;
    lac__splitter *splitter;
    lac__bpe *bpe;
    lac__spm_call *spm; /* instead of both */
    lac__ids ids;
} encoder;

/* Text between special tokens; `first` where a text begins anew. */
static lac_status encode_plain(encoder *e, const char *text, size_t length, bool first,
                               lac_error *err)
{
    if (e->spm) {
        lac__spm_text(e->spm, text, length, first, &e->ids);
        return LAC_OK;
    }
    const lac__vocab *vocab = &e->tokenizer->vocab;
    const char *word;
    size_t bytes;
    lac_status status;
    lac__splitter_start(e->splitter, text, length);
    while ((status = lac__splitter_next(e->splitter, &word, &bytes, err)) == LAC_OK) {
        uint32_t id = lac__vocab_find(vocab, word, bytes);
        if (id != LAC_TOKEN_NONE && vocab->whole[id])
            lac__ids_add(&e->ids, id);
        else
            lac__bpe_word(e->bpe, word, bytes, &e->ids);
    }
    return status == LAC_AGAIN ? LAC_OK : status;
}

static lac_status encode_all(encoder *e, const char *text, size_t length, bool special,
                             lac_error *err)
{
    size_t at = 0, start, match;
    uint32_t id;
    bool first = true;
    while (
        lac__special_find(e->tokenizer->special, text, length, at, special, &start, &match, &id)) {
        bool control = lac_tokenizer_is_control(e->tokenizer, id);
        lac_status status =
            encode_plain(e, text + at, start - at, first && (start > at || !control), err);
        if (status != LAC_OK)
            return status;
        lac__ids_add(&e->ids, id);
        at = start + match;
        first = control;
    }
    return encode_plain(e, text + at, length - at, first && length > at, err);
}

/* SentencePiece cannot tell U+2581 from a space, not even inside a user-defined token. */
static lac_status encode_text(encoder *e, const char *text, size_t length, bool special,
                              lac_error *err)
{
    if (!e->spm || !memmem(text, length, "\xe2\x96\x81", 3))
        return encode_all(e, text, length, special, err);
    char *spaced = lac_alloc(length, 1);
    lac__spm_unline(text, length, spaced, &length);
    lac_status status = encode_all(e, spaced, length, special, err);
    free(spaced);
    return status;
}

static lac_status encoder_open(encoder *e, size_t length, lac_error *err)
{
    if (e->tokenizer->spm) {
        e->spm = lac__spm_call_create(e->tokenizer->spm, length);
        return LAC_OK;
    }
    e->splitter = lac__splitter_create(&e->tokenizer->pre);
    if (!e->splitter)
        return lac_fail(err, LAC_ENOMEM, "text: no memory to split it");
    e->bpe = lac__bpe_create(&e->tokenizer->vocab, &e->tokenizer->merges);
    return LAC_OK;
}

lac_status lac_tokenizer_encode(const lac_tokenizer *tokenizer, const char *text, size_t length,
                                lac_encode_options options, uint32_t **ids, size_t *count,
                                lac_error *err)
{
    lac_status status;
    if (length > LAC_PROMPT_BYTES_MAX)
        return lac_fail(err, LAC_ETOOBIG, "text: %zu bytes, limit %d", length,
                        LAC_PROMPT_BYTES_MAX);
    if (options.bos && tokenizer->bos == LAC_TOKEN_NONE)
        return lac_fail(err, LAC_EINVAL, "bos: this model has no beginning-of-text token");
    encoder e = {.tokenizer = tokenizer};
    status = encoder_open(&e, length, err);
    if (status == LAC_OK) {
        lac__ids_grow(&e.ids);
        if (options.bos)
            lac__ids_add(&e.ids, tokenizer->bos);
        status = encode_text(&e, text, length, options.special, err);
    }
    lac__bpe_destroy(&e.bpe);
    lac__splitter_destroy(&e.splitter);
    lac__spm_call_destroy(&e.spm);
    if (status != LAC_OK) {
        free(e.ids.data);
        return status;
    }
    *ids = e.ids.data;
    *count = e.ids.count;
    return LAC_OK;
}
