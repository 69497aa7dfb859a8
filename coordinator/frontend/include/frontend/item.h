/* One request of OpenAI's API without a connection: its JSON body in, what the core says of it, its
 * whole JSON reply out. For the runner of batch jobs. Pure: no socket, no loop; one thread at a
 * time. */
#ifndef LAC_FRONTEND_ITEM_H
#define LAC_FRONTEND_ITEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/job.h"
#include "base/mem.h"
#include "base/msg.h"
#include "base/status.h"

typedef struct lac_item lac_item;

/* Reads a body. One that is refused is an item too: it has its end at once. `id` names the reply
 * ("chatcmpl-…"), so it should be unique. */
lac_item *lac_item_create(lac_job_endpoint endpoint, const char *body, size_t length, uint64_t id);
void lac_item_free(lac_item **item);

/* Requests that it is at the core, one a choice; 0 = it was refused here. */
uint32_t lac_item_choices(const lac_item *item);
/* One of them, its stream and credit left to the caller. */
const lac_submit *lac_item_submit(const lac_item *item, uint32_t choice);
/* All of them are at the core, which has its own copy: gives the input's memory back. */
void lac_item_sent(lac_item *item);
/* Takes ACCEPTED, TOKENS, DONE or REFUSED of one choice; others are ignored. */
void lac_item_take(lac_item *item, uint32_t choice, const lac_msg *msg);
/* It has its end: what may still run of it can be cancelled. */
bool lac_item_ended(const lac_item *item);
/* LAC_OK: it was answered, or has no end yet. */
lac_status lac_item_error(const lac_item *item);

typedef struct {
    uint32_t http; /* as it would have been */
    uint32_t prompt_tokens, completion_tokens;
    char class_name[LAC_NAME_MAX + 1]; /* it ran as; "" = nobody said */
} lac_item_end;
/* Of an ended one: appends the reply, an answer or an error object. */
void lac_item_reply(const lac_item *item, lac_item_end *end, lac_buf *out);

#endif
