/* /v1/batches: OpenAI's batch API over the store's jobs. Loop thread. */
#ifndef LAC__FRONTEND_BATCHES_H
#define LAC__FRONTEND_BATCHES_H

#include "parts.h"

void lac__batches_create(lac__conn *conn);
void lac__batches_list(lac__conn *conn);
void lac__batches_show(lac__conn *conn);
void lac__batches_cancel(lac__conn *conn);

#endif
