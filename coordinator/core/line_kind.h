/* One line, measured, and the question what it looks like. Between lines.c and line_kind.c. */
#ifndef LAC_CORE_LINE_KIND_H
#define LAC_CORE_LINE_KIND_H

#include "type.h"

enum {
    LAC__C_LETTER,
    LAC__C_DIGIT,
    LAC__C_SPACE,
    LAC__C_HIGH,
    LAC__C_COMMA,
    LAC__C_TAB,
    LAC__C_PIPE,
    LAC__C_SEMICOLON,
    LAC__C_QUOTE,
    LAC__C_COLON,
    LAC__C_EQUALS,
    LAC__C_BRACKET,
    LAC__C_PAREN,
    LAC__C_ANGLE,
    LAC__C_SENTENCE, /* . ! ? and the apostrophe */
    LAC__C_OTHER,
    LAC__CLASSES
};

typedef struct {
    const uint8_t *text; /* without white space at its ends */
    size_t length;       /* ≥ 1 */
    uint32_t indent;
    uint32_t count[LAC__CLASSES];
    bool regular; /* as many delimiters as the line before */
} lac__line;

/* Of a line that is not blank. Remembers keys in `lines`, to tell who speaks in a chat from what
 * names a value. */
lac__line_kind lac__line_kind_of(lac__lines *lines, const lac__line *line);

#endif
