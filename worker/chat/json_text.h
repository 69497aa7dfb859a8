/* JSON as the templates' own language writes it. Shared inside this folder. */
#ifndef LAC__CHAT_JSON_TEXT_H
#define LAC__CHAT_JSON_TEXT_H

#include <jansson.h>

#include "base/mem.h"

/* As Python's json.dumps(value, ensure_ascii=False): ", " and ": " between values, members in their
 * order, the shortest digits that read back as the same number. With `indent` > 0 a line a member,
 * as its indent=N. */
void lac__json_text(const json_t *value, unsigned indent, lac_buf *out);

#endif
