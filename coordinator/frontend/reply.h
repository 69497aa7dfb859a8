/* The bodies this API answers with: chat and completion objects, stream chunks, log-probabilities.
 * Pure: values in, JSON text out. */
#ifndef LAC__FRONTEND_REPLY_H
#define LAC__FRONTEND_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "api.h"
#include "base/mem.h"
#include "base/msg.h"
#include "base/parts.h"

enum { LAC__ANSWER_ID_MAX = 48, LAC__LOGPROB_LISTS = 4 };

typedef struct lac__items lac__items;

/* One choice: what of it has not been written yet. */
typedef struct {
    lac_buf text;
    /* Chat: the text comes in parts. */
    lac_parts_reader parts;
    lac_buf reasoning;
    lac_buf calls; /* JSON objects with commas between: of a stream the deltas, else whole calls of
                      which the last is open (its arguments go on) */
    uint32_t calls_count;
    /* Comma-separated JSON values: chat uses list 0 (its entries are objects); completions use
     * tokens, token_logprobs, top_logprobs, text_offset. */
    lac_buf logprobs[LAC__LOGPROB_LISTS];
    uint64_t offset;   /* characters before the next token, for text_offset */
    lac_finish finish; /* LAC_FINISH_NONE while it runs */
    bool told;         /* a stream's client knows of the finish */
} lac__answer_choice;

/* An answer's identity and its choices. */
typedef struct {
    bool chat, stream, include_usage, want_logprobs;
    char id[LAC__ANSWER_ID_MAX + 1];
    char model[LAC_MODEL_NAME_MAX + 1];
    int64_t created_s;
    uint32_t choices_count; /* 1 … LAC_CHOICES_MAX */
    lac__answer_choice choices[LAC_CHOICES_MAX];
    lac__items *items; /* of a response (items.h), else NULL; owned */
} lac__answer;

/* Bounds the bytes that may wait, over all choices. */
void lac__answer_bound(lac__answer *answer, size_t bytes);
/* Adds a chunk's text and log-probabilities; false when the bound of one of them is reached. */
bool lac__answer_add(lac__answer *answer, uint32_t index, const lac_chunk *chunk);
/* Something of a choice, or of any, waits to be written. */
bool lac__choice_pending(const lac__answer_choice *choice);
bool lac__answer_pending(const lac__answer *answer);
void lac__choice_clear(lac__answer_choice *choice); /* forgets what was written */
void lac__answer_free(lac__answer *answer);

/* Nine letters for a call, a function of the answer's id. */
void lac__put_call_id(const lac__answer *answer, uint32_t choice, uint32_t call, lac_buf *out);
/* ,"lacuna":{…} */
void lac__answer_account(const lac_run_account *account, lac_buf *out);

/* The whole object of a reply that is not streamed. The account (NULL = none is known) goes into
 * usage as "lacuna". */
void lac__answer_whole(const lac__answer *answer, const lac_usage *usage,
                       const lac_run_account *account, lac_buf *out);
/* One chunk of a stream of one choice: the first carries the role, the last the reason, those
 * between the text. */
void lac__answer_first(const lac__answer *answer, uint32_t index, lac_buf *out);
void lac__answer_chunk(const lac__answer *answer, uint32_t index, lac_buf *out);
void lac__answer_last(const lac__answer *answer, uint32_t index, lac_buf *out);
void lac__answer_usage(const lac__answer *answer, const lac_usage *usage,
                       const lac_run_account *account, lac_buf *out);

#endif
