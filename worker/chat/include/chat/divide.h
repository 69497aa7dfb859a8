/* An answer's text → thoughts, content and calls, as it comes: cut into pieces anywhere, nothing
 * leaves before it is known what it is. Pure; one sequence's divider belongs to one thread. */
#ifndef LAC_CHAT_DIVIDE_H
#define LAC_CHAT_DIVIDE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/mem.h"
#include "chat/chat.h"

typedef struct lac_divider lac_divider;

typedef struct {
    lac_calls_form form;    /* NONE: calls are not looked for */
    const lac_tools *tools; /* whose functions may be called; read by create only */
    bool called;            /* the prompt ended with the beginning of a call */
    bool one_call;
    lac_thinks thinks; /* OPENED: the answer begins inside a thought */
} lac_divide_options;

lac_divider *lac_divider_create(const lac_divide_options *options);
void lac_divider_destroy(lac_divider **divider);

/* Takes text and appends what is decided of it as parts (base/parts.h). What looks like a call and
 * is none, by its form or because no such function was given, is content in full. */
void lac_divider_add(lac_divider *divider, const char *text, size_t length, lac_buf *out);
/* The end of the answer: what was held back goes out. A call that is cut inside its arguments stays
 * a call. */
void lac_divider_end(lac_divider *divider, lac_buf *out);
/* With one_call: that call is over, what follows is dropped. */
bool lac_divider_done(const lac_divider *divider);

#endif
