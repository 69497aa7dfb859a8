/* Names that clients ask for and the models that serve them. Plain text; the core keeps copies
 * (core.h, lac_core_set_models). */
#ifndef LAC_CORE_MODELS_H
#define LAC_CORE_MODELS_H

#include <stddef.h>

#include "base/limits.h"

typedef struct {
    char name[LAC_MODEL_NAME_MAX + 1], model[LAC_MODEL_NAME_MAX + 1];
} lac_alias;

/* Requests for that name, of that type and task, go to another model while some group serves it. */
typedef struct {
    char asked[LAC_MODEL_NAME_MAX + 1]; /* as the client writes it; "*" = any, none too */
    char type[LAC_NAME_MAX + 1];        /* "structured", …; "*" = any */
    char task[LAC_NAME_MAX + 1];        /* "summarize", …, "none"; "*" = any */
    char model[LAC_MODEL_NAME_MAX + 1];
} lac_route;

typedef struct {
    char preset[LAC_MODEL_NAME_MAX + 1]; /* who names none gets this; "" = the first that came */
    lac_alias aliases[LAC_ALIASES_MAX];
    size_t aliases_count;
    lac_route routes[LAC_ROUTES_MAX]; /* the first that fits counts */
    size_t routes_count;
} lac_model_names;

#endif
