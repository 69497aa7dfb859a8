/* From a model to its placement over the ranks of a group: fills the planner's facts from the file.
 * Any thread. */
#ifndef LAC_ENGINE_PLACE_H
#define LAC_ENGINE_PLACE_H

#include "engine/engine.h"
#include "topology/placement.h"

/* `classes` are those that the engines will be given, each with the same share of the traffic, and
 * full unless `without_full`. Errors as of lac_placement_make(). */
lac_status lac_engine_place(const lac_model *model, const lac_engine_class *classes,
                            uint32_t classes_count, bool without_full, uint32_t stages,
                            uint32_t parts, lac_placement *out, lac_error *err);

#endif
