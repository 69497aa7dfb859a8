/* Asks a class's probe about a request once its first rows are through the first layers. The
 * engine's thread, inside a step. Must not know what the probe looks at (worker/probe does). */
#include "base/log.h"
#include "parts.h"

/* Rows that were found in the prefix cache have no states: whoever computed them was asked then. */
bool lac__probe_waits(const lac_engine *engine, const lac__sequence *s, uint32_t rows)
{
    return s->class_index > 0 && engine->step.tap && engine->classes[s->class_index].has_probe &&
           !s->probed && s->computed == 0 && rows >= LAC_PROBE_ROWS_MIN &&
           engine->classes[0].live && s->state != LAC_SEQUENCE_DECODE;
}

bool lac__probe_refuses(lac_engine *engine, lac__sequence *s, uint32_t row, uint32_t rows)
{
    const lac__class *class = &engine->classes[s->class_index];
    double features[LAC_PROBE_FEATURES];
    s->probed = true;
    lac_probe_features(engine->step.tap + (size_t)row * engine->model->hidden, rows,
                       engine->model->hidden, features);
    if (!lac_probe_says_no(&class->probe, features) || !lac__sequence_rerun(engine, s))
        return false;
    lac_debug("the probe of class %s sends sequence %llu back to full, confidence %.2f",
              class->name, (unsigned long long)s->id,
              lac_probe_confidence(&class->probe, features));
    s->doubted = true;
    engine->class_doubted++;
    return true;
}
