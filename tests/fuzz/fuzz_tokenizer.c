/* Any bytes as text, under vocabularies that have every byte: encoding must succeed, and decoding
 * must give the same bytes back. The first byte chooses vocabulary and options. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/tokenizer.h"

static const char *const names[] = {"gpt-2", "smollm", "llama-bpe", "qwen2"};
static lac_gguf *files[4];
static lac_tokenizer *tokenizers[4];

static const lac_tokenizer *get(unsigned which)
{
    if (!tokenizers[which]) {
        char path[512];
        lac_error err = {0};
        snprintf(path, sizeof path, LAC_SOURCE_DIR "/tests/golden/tokenizer/%s.gguf", names[which]);
        if (lac_gguf_open(path, &files[which], &err) != LAC_OK ||
            lac_tokenizer_create(files[which], &tokenizers[which], &err) != LAC_OK) {
            fprintf(stderr, "%s\n", err.text);
            abort();
        }
    }
    return tokenizers[which];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const lac_tokenizer *tokenizer = get(data[0] % 4);
    const char *text = (const char *)data + 1;
    lac_encode_options options = {.special = data[0] >> 2 & 1};
    uint32_t *ids;
    size_t count, at = 0;
    size--;
    if (lac_tokenizer_encode(tokenizer, text, size, options, &ids, &count, NULL) != LAC_OK)
        abort();
    for (size_t i = 0; i < count; i++) {
        const char *bytes;
        size_t length;
        lac_tokenizer_piece(tokenizer, ids[i], true, &bytes, &length);
        if (length == 0 || length > size - at || memcmp(text + at, bytes, length) != 0)
            abort();
        at += length;
    }
    if (at != size)
        abort();
    free(ids);
    return 0;
}
