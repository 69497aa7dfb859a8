/* The parts of a prompt job that are not about its tokens (answer.c). Shared inside this folder. */
#ifndef LAC__LINK_PROMPT_PARTS_H
#define LAC__LINK_PROMPT_PARTS_H

#include "link/prompt.h"

/* What the answer may be and how its text is divided: grammar and divider, brought to where an
 * earlier attempt ended. */
lac_status lac__job_constrain(lac_prompt_job *job);
/* Ids as text, or the text of ids: the whole answer. */
lac_status lac__job_answer(lac_prompt_job *job);

#endif
