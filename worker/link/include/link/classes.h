/* The classes this rank serves: its plan as the engine and the coordinator want it. Made at start,
 * read-only afterwards, safe from any thread. */
#ifndef LAC_LINK_CLASSES_H
#define LAC_LINK_CLASSES_H

#include "base/class_facts.h"
#include "engine/engine.h"
#include "plan/plan.h"

typedef struct {
    lac_plan *plan;                               /* NULL without one */
    uint32_t count;                               /* of the plan's classes */
    lac_engine_class engine[LAC_CLASSES_MAX - 1]; /* engine class i + 1 */
    lac_class_facts facts[LAC_CLASSES_MAX - 1];   /* filled by lac_classes_announce */
} lac_classes;

/* Loads a plan ("" = none: full alone). */
lac_status lac_classes_load(const char *path, lac_classes **out, lac_error *err);
void lac_classes_destroy(lac_classes **classes);
/* With the model loaded: LAC_EREFUSED when the plan is of another one; else fills the facts. */
lac_status lac_classes_announce(lac_classes *classes, const lac_engine *engine, lac_error *err);
/* The engine's number of a class; 0 (full) when it is not here. */
uint32_t lac_classes_find(const lac_classes *classes, const lac_digest *digest);

#endif
