/* The plan's canary texts: every class is scored on those of the types it serves, at start and
 * every LAC_CANARY_MS, while the engine has nothing else to do. The engine thread alone. Must not
 * know what becomes of the scores. */
#ifndef LAC_LINK_CANARY_H
#define LAC_LINK_CANARY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/msg.h"
#include "engine/engine.h"
#include "plan/plan.h"

enum { LAC_CANARY_MS = 600000 };

typedef struct lac_canaries lac_canaries;

/* `plan` (NULL: nothing is ever due) outlives it; class i of it is the engine's class i + 1. */
lac_canaries *lac_canaries_create(const lac_plan *plan);
void lac_canaries_destroy(lac_canaries **canaries);

/* A text is in the engine: no other may be scored until it is done or interrupted. */
bool lac_canaries_scoring(const lac_canaries *canaries);
/* Requests have come: the text that is being scored begins anew later. */
void lac_canaries_interrupt(lac_canaries *canaries, lac_engine *engine);
/* One small piece of work while nothing else runs. False when none is due. *scored is set and *out
 * filled when a class has been through all texts of a type. A text that cannot be scored is left
 * out. */
bool lac_canaries_work(lac_canaries *canaries, lac_engine *engine, uint64_t now_ms, lac_shadow *out,
                       bool *scored);
/* When the next round is due; UINT64_MAX: never. */
uint64_t lac_canaries_due_ms(const lac_canaries *canaries);

#endif
