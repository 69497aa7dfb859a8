/* The answers of /v1/responses: output items and the events about them. Pure. */
#ifndef LAC__FRONTEND_ITEMS_H
#define LAC__FRONTEND_ITEMS_H

#include "reply.h"

/* An answer's items so far, with what of them was told. Kept to the end, because the last event
 * holds them all. `echo` is members of a JSON object that the response repeats; it changes owners.
 */
lac__items *lac__items_create(char *echo);
void lac__items_free(lac__items **items);
/* Takes divided text; false when the answer has more bytes or items than allowed. */
bool lac__items_add(lac__items *items, const char *text, size_t length);
/* Something was not told yet. */
bool lac__items_pending(const lac__items *items);

void lac__items_whole(const lac__answer *answer, const lac_usage *usage,
                      const lac_run_account *account, lac_buf *out);
void lac__items_first(const lac__answer *answer, uint32_t index, lac_buf *out);
void lac__items_chunk(const lac__answer *answer, uint32_t index, lac_buf *out);
void lac__items_end(const lac__answer *answer, const lac_usage *usage,
                    const lac_run_account *account, lac_buf *out);

#endif
