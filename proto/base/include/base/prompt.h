/* Copies and sizes of prompts: what whoever keeps a request needs of it. Pure, any thread. */
#ifndef LAC_BASE_PROMPT_H
#define LAC_BASE_PROMPT_H

#include "base/msg.h"

/* Bytes of its texts, tools included: what an estimate of its tokens starts from. */
uint64_t lac_prompt_text_bytes(const lac_prompt *prompt);
/* Memory that a copy of all it points to takes; a multiple of 16. */
uint64_t lac_prompt_size(const lac_prompt *prompt);
/* Makes `to` a copy of `from` whose texts and lists lie at *cursor, which is aligned to 8 and moves
 * on by lac_prompt_size(). */
void lac_prompt_copy(const lac_prompt *from, char **cursor, lac_prompt *to);

#endif
