/* POST /v1/feedback: what a client says of an answer. Loop thread. */
#ifndef LAC__FRONTEND_FEEDBACK_H
#define LAC__FRONTEND_FEEDBACK_H

#include "connection.h"

/* The body, as {"request":"4711","rating":"good"}; the number also as a number. False with
 * `problem`. Pure. */
bool lac__feedback_parse(const char *body, size_t length, uint64_t *request, bool *good,
                         lac__problem *problem);
/* The route's handler. */
void lac__feedback(lac__conn *conn);

#endif
