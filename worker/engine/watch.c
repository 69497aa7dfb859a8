/* Looks now and then at how uncertain a class is of its next token, and leaves it when that rises.
 * The engine's thread, inside a step. Only the leader looks; must not know what is usual
 * (worker/erasure does). */
#include "base/log.h"
#include "parts.h"

/* Once in LAC_WATCH_EVERY tokens of the answer (a draft may have jumped over the very one), while a
 * class runs that full can take over from. */
static bool is_due(const lac_engine *engine, const lac__sequence *s)
{
    uint32_t outputs = lac__sequence_outputs(s);
    return s->class_index > 0 && engine->classes[0].live && outputs / LAC_WATCH_EVERY > s->looked &&
           lac__class_now(s) == s->class_index;
}

float *lac__watch_place(const lac_engine *engine, lac__sequence *s)
{
    if (!is_due(engine, s))
        return NULL;
    if (!s->look)
        s->look = lac_alloc(engine->model->vocab, sizeof *s->look);
    return s->look;
}

bool lac__watch_spikes(lac_engine *engine, lac__sequence *s, const lac_logit_row *row)
{
    if (!row->logits || !is_due(engine, s))
        return false;
    s->looked = lac__sequence_outputs(s) / LAC_WATCH_EVERY;
    double entropy = lac_watch_entropy(row->logits, engine->model->vocab);
    if (!lac_watch_add(&s->watch, entropy))
        return false;
    const char *name = engine->classes[s->class_index].name;
    if (!lac__sequence_rerun(engine, s))
        return false;
    lac_info("sequence %llu leaves class %s: entropy %.2f nats, %.2f is usual for it",
             (unsigned long long)s->id, name, entropy, s->watch.mean);
    s->unsure = true;
    engine->class_unsure++;
    return true;
}
