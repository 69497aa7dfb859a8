/* SentencePiece's BPE, for the files of this folder. */
#ifndef LAC_TOKENIZER_SPM_H
#define LAC_TOKENIZER_SPM_H

#include "internal.h"

struct lac__spm {
    const lac__vocab *vocab;
    uint32_t *ranks;   /* [vocab size] of the scores, highest score first */
    uint32_t unknown;  /* or LAC_TOKEN_NONE */
    bool space_prefix; /* a text starts with a space that is not written */
    bool cuts;         /* no token has a space behind another character */
};

lac_status lac__spm_create(const lac_gguf *gguf, const lac__vocab *vocab, lac__spm **out,
                           lac_error *err);
void lac__spm_destroy(lac__spm **spm);

typedef struct lac__spm_call lac__spm_call; /* scratch of one call */
/* For texts of about `length` bytes in all: what helps with long ones is made only for those. */
lac__spm_call *lac__spm_call_create(const lac__spm *spm, size_t length);
void lac__spm_call_destroy(lac__spm_call **call);
/* Appends the ids of a text without special tokens, O(n log n) in its bytes. `prefix`: the model's
 * own space goes before it, if it has one. The text must outlive the call, and `out` only grow. */
void lac__spm_text(lac__spm_call *call, const char *text, size_t length, bool prefix,
                   lac__ids *out);
/* Copies with U+2581 as a space; `out` holds `length`. False when there was none. */
bool lac__spm_unline(const char *text, size_t length, char *out, size_t *out_length);

#endif
