/* What is checked about JSON text before a parser builds anything from it. Pure, any thread. */
#ifndef LAC__FRONTEND_JSON_SCAN_H
#define LAC__FRONTEND_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>

#include "errors.h"

/* Counts nesting and values outside strings; false with `problem` beyond the limits. It does not
 * judge the grammar: the parser does that afterwards. */
bool lac__json_scan(const char *text, size_t length, lac__problem *problem);

#endif
