/* OpenAI's request bodies: JSON text → lac_submit. Pure, any thread (large bodies are parsed in
 * libuv's pool). JSON types stay inside api_*.c. */
#ifndef LAC__FRONTEND_API_H
#define LAC__FRONTEND_API_H

#include <stdbool.h>
#include <stddef.h>

#include "base/msg.h"
#include "errors.h"

typedef enum {
    LAC__API_CHAT = 1,
    LAC__API_COMPLETION = 2,
    LAC__API_TOKENIZE = 4,
    LAC__API_DETOKENIZE = 8,
    LAC__API_RESPONSE = 16
} lac__api_kind;

/* A parsed body. `submit` points into the memory below it. */
typedef struct {
    lac__api_kind kind;
    bool stream, include_usage;
    uint32_t choices;  /* 1 … LAC_CHOICES_MAX: as many submits, choice 0, 1, … */
    lac_submit submit; /* its stream and credit are the caller's to set */

    char *text; /* all strings, back to back */
    size_t text_length, text_size;
    lac_chat_message *messages; /* their calls are memory of their own */
    char *tools;
    char *echo; /* of a response: members of a JSON object that it repeats */
    uint32_t *ids;
    lac_logit_bias *bias;
    char *grammar;
} lac__api_request;

/* Fills `out` and returns true; or returns false with `problem` naming field, value and limit, and
 * `out` empty. Whatever is filled goes back through lac__api_free. */
bool lac__api_parse(lac__api_kind kind, const char *body, size_t length, lac__api_request *out,
                    lac__problem *problem);
void lac__api_free(lac__api_request *request);

#endif
