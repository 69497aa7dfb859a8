/* From a dispatched prompt to token ids: chat rendering and tokenising. A job is made on the link
 * thread (it copies what it needs of the message), run on any thread, and read on the link thread
 * again. Errors name field, value and limit, for whoever sent the request. */
#ifndef LAC_LINK_PROMPT_H
#define LAC_LINK_PROMPT_H

#include <stddef.h>
#include <stdint.h>

#include "base/msg.h"
#include "base/status.h"
#include "chat/chat.h"
#include "chat/divide.h"
#include "tokenizer/tokenizer.h"

/* What every job reads; outlives them all. */
typedef struct {
    const lac_tokenizer *tokenizer;
    const lac_chat_family *family; /* NULL: chat is refused */
    lac_chat_context chat;
    uint32_t vocab, context_max;
    /* Control tokens mark calls or thoughts here: they must give their text. */
    bool marks_are_control;
    uint32_t fim_prefix, fim_suffix, fim_middle; /* LAC_TOKEN_NONE: gaps cannot be filled */
} lac_prompt_tools;
/* Fills what is found in the vocabulary; the tokenizer is set. */
void lac_prompt_tools_look(lac_prompt_tools *tools);

typedef struct {
    const lac_prompt_tools *tools;
    uint64_t id;      /* the task's */
    size_t bytes;     /* of the copies, for the caller's budget */
    lac_dispatch ask; /* all it points to is the job's own */
    void *memory;
    /* Results of the run. */
    lac_error error; /* status LAC_OK: fine */
    uint32_t *ids;   /* malloc'd; whoever takes it sets NULL here */
    size_t ids_count;
    struct lac_grammar *grammar; /* of the answer, NULL = free; the same */
    lac_tools *functions;        /* that may be called; NULL = none */
    lac_divider *divider; /* of the answer's text; NULL: it stays as it is; the same as ids */
    bool raw_text;        /* control tokens of the answer give their text */
    bool answered;        /* `answer` is all there is to say: the engine is not asked */
    lac_span answer;      /* malloc'd; the same as ids */
    lac_span echo; /* malloc'd; the same; empty unless asked for and this is the first attempt */
} lac_prompt_job;

/* NULL when the copy finds no memory. */
lac_prompt_job *lac_prompt_job_create(const lac_prompt_tools *tools, uint64_t id,
                                      const lac_dispatch *dispatch);
void lac_prompt_job_destroy(lac_prompt_job **job);
void lac_prompt_job_run(lac_prompt_job *job);

#endif
