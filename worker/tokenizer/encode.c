/* Text to ids: special texts, then words, then BPE. Any thread; all scratch belongs to the call. */
#include <stdlib.h>

#include "base/mem.h"
#include "internal.h"

void lac__ids_grow(lac__ids *ids)
{
    ids->size = ids->size ? 2 * ids->size : 256;
    ids->data = lac_realloc(ids->data, ids->size, sizeof *ids->data);
}

typedef struct {
    const lac_tokenizer *tokenizer;
    lac__splitter *splitter;
    lac__bpe *bpe;
    lac__ids ids;
} encoder;

/* Text between special tokens. */
static lac_status encode_plain(encoder *e, const char *text, size_t length, lac_error *err)
{
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
    while (
        lac__special_find(e->tokenizer->special, text, length, at, special, &start, &match, &id)) {
        lac_status status = encode_plain(e, text + at, start - at, err);
        if (status != LAC_OK)
            return status;
        lac__ids_add(&e->ids, id);
        at = start + match;
    }
    return encode_plain(e, text + at, length - at, err);
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
    encoder e = {.tokenizer = tokenizer, .splitter = lac__splitter_create(&tokenizer->pre)};
    if (!e.splitter)
        return lac_fail(err, LAC_ENOMEM, "text: no memory to split it");
    e.bpe = lac__bpe_create(&tokenizer->vocab, &tokenizer->merges);
    lac__ids_grow(&e.ids);
    if (options.bos)
        lac__ids_add(&e.ids, tokenizer->bos);
    status = encode_all(&e, text, length, options.special, err);
    lac__bpe_destroy(&e.bpe);
    lac__splitter_destroy(&e.splitter);
    if (status != LAC_OK) {
        free(e.ids.data);
        return status;
    }
    *ids = e.ids.data;
    *count = e.ids.count;
    return LAC_OK;
}
