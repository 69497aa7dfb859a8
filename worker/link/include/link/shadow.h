/* Requests that are to be scored again in full once the engine has nothing better to do: their
 * tokens are kept while they run, and wait here when they end. The engine thread alone. */
#ifndef LAC_LINK_SHADOW_H
#define LAC_LINK_SHADOW_H

#include <stdbool.h>
#include <stddef.h>

#include "base/msg.h"
#include "engine/engine.h"

typedef struct lac_shadows lac_shadows;

enum {
    LAC_SHADOWS_WAITING = 8, /* ended, not scored yet; one more replaces the oldest */
    LAC_SHADOWS_RUNNING = 64,
    LAC_SHADOW_TRIES = 4 /* interrupted so often it is dropped */
};

lac_shadows *lac_shadows_create(void);
void lac_shadows_destroy(lac_shadows **shadows);

/* A sampled request begins; when too many run already it is not kept. Copies what it needs. */
void lac_shadows_begin(lac_shadows *shadows, uint64_t id, uint32_t class_index,
                       const lac_digest *digest, lac_input_type type, const uint32_t *prompt,
                       size_t prompt_count, const uint32_t *accepted, size_t accepted_count);
/* What the engine said of any request: tokens are kept, a good end queues it, another forgets it.
 */
void lac_shadows_event(lac_shadows *shadows, const lac_engine_event *event);
void lac_shadows_forget(lac_shadows *shadows, uint64_t id);

/* Requests have come: what is being scored gives its pages back and starts again later. */
void lac_shadows_interrupt(lac_shadows *shadows, lac_engine *engine);
/* One small piece of work while nothing else runs. False when there is none. *out is filled and
 * *scored set when a request was finished with it. */
bool lac_shadows_work(lac_shadows *shadows, lac_engine *engine, lac_shadow *out, bool *scored);

#endif
