/* Text ⇄ token ids, from the vocabulary inside a model file. Byte-level BPE with the pre-tokenizers
 * of GPT-2, SmolLM2, Llama 3 and Qwen2. Built once, then read-only: encode and decode are safe from
 * several threads. */
#ifndef LAC_TOKENIZER_H
#define LAC_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "model/gguf.h"

typedef struct lac_tokenizer lac_tokenizer;

/* LAC_EUNSUPPORTED names an unknown tokenizer model or pre-tokenizer and lists the known ones. */
lac_status lac_tokenizer_create(const lac_gguf *gguf, lac_tokenizer **out, lac_error *err);
void lac_tokenizer_destroy(lac_tokenizer **tokenizer);

typedef struct {
    bool special; /* texts of control tokens ("<|im_end|>") become their ids */
    bool bos;     /* put the model's BOS first (an error if it has none) */
} lac_encode_options;

/* Appends nothing to old content: *ids is malloc'd, the caller frees it. Bytes that are no UTF-8
 * are encoded through byte tokens. Near linear in the length: 8 MiB in ≤ 2 s byte-level, ≤ 4 s
 * SentencePiece. */
lac_status lac_tokenizer_encode(const lac_tokenizer *tokenizer, const char *text, size_t length,
                                lac_encode_options options, uint32_t **ids, size_t *count,
                                lac_error *err);

/* The bytes of one token, perhaps half a character; control tokens give their text when `special`,
 * else nothing. The pointer lives as long as the tokenizer. `id` out of range gives nothing. */
void lac_tokenizer_piece(const lac_tokenizer *tokenizer, uint32_t id, bool special,
                         const char **bytes, size_t *length);

uint32_t lac_tokenizer_size(const lac_tokenizer *tokenizer);
const char *lac_tokenizer_name(const lac_tokenizer *tokenizer); /* "bpe/smollm" */
/* LAC_TOKEN_NONE when the model has none. */
#define LAC_TOKEN_NONE UINT32_MAX
uint32_t lac_tokenizer_bos(const lac_tokenizer *tokenizer);
uint32_t lac_tokenizer_eos(const lac_tokenizer *tokenizer);
bool lac_tokenizer_add_bos(
    const lac_tokenizer *tokenizer); /* the file says raw text starts with BOS */
/* A token that ends a turn or a text (EOS, EOT, <|im_end|>, …). */
bool lac_tokenizer_is_end(const lac_tokenizer *tokenizer, uint32_t id);
bool lac_tokenizer_is_control(const lac_tokenizer *tokenizer, uint32_t id);
/* Id of the token whose text is exactly this (specials included), or LAC_TOKEN_NONE. */
uint32_t lac_tokenizer_find(const lac_tokenizer *tokenizer, const char *text, size_t length);

#endif
