/* The bodies this API answers with: chat and completion objects, stream chunks, log-probabilities.
 * Pure: values in, JSON text out. */
#ifndef LAC__FRONTEND_REPLY_H
#define LAC__FRONTEND_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "api.h"
#include "base/mem.h"
#include "base/msg.h"

enum { LAC__ANSWER_ID_MAX = 48, LAC__LOGPROB_LISTS = 4 };

/* One answer's identity and what of it has not been written yet. */
typedef struct {
    bool chat, include_usage, want_logprobs;
    char id[LAC__ANSWER_ID_MAX + 1];
    char model[LAC_MODEL_NAME_MAX + 1];
    int64_t created_s;
    lac_buf text;
    /* Comma-separated JSON values: chat uses list 0 (its entries are objects); completions use
     * tokens, token_logprobs, top_logprobs, text_offset. */
    lac_buf logprobs[LAC__LOGPROB_LISTS];
    uint64_t offset; /* characters before the next token, for text_offset */
} lac__answer;

/* Adds a chunk's text and log-probabilities; false when the bound of one of them is reached. */
bool lac__answer_add(lac__answer *answer, const lac_chunk *chunk);
bool lac__answer_pending(const lac__answer *answer);
void lac__answer_clear(lac__answer *answer); /* forgets what was written */
void lac__answer_free(lac__answer *answer);

/* The whole object of a reply that is not streamed. */
void lac__answer_whole(const lac__answer *answer, lac_finish finish, const lac_usage *usage,
                       lac_buf *out);
/* One chunk of a stream: the first carries the role, the last the reason, those between the text.
 */
void lac__answer_first(const lac__answer *answer, lac_buf *out);
void lac__answer_chunk(const lac__answer *answer, lac_buf *out);
void lac__answer_last(const lac__answer *answer, lac_finish finish, lac_buf *out);
void lac__answer_usage(const lac__answer *answer, const lac_usage *usage, lac_buf *out);

#endif
