/* Fields of a JSON object, written one after the other. Each ends with a comma, and lac_json_end
 * turns the last one into the bracket. Names are plain ASCII. Pure, any thread. */
#ifndef LAC_BASE_JSON_FIELD_H
#define LAC_BASE_JSON_FIELD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"

void lac_json_text(lac_buf *out, const char *name, const char *value);
void lac_json_number(lac_buf *out, const char *name, uint64_t value);
void lac_json_real(lac_buf *out, const char *name, double value); /* nine digits; finite */
void lac_json_flag(lac_buf *out, const char *name, bool value);
/* Ends an object or list, an empty one too. */
void lac_json_end(lac_buf *out, char bracket);

#endif
