/* The requests picked for shadow scoring, from their first token to their score. The engine thread.
 * Must not know why they were picked or what becomes of the score. */
#include "link/shadow.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/mem.h"

typedef struct {
    uint64_t id;
    uint32_t class_index, tries;
    lac_digest digest;
    lac_input_type type;
    uint32_t *tokens; /* prompt and output */
    size_t prompt_count, count, size;
} entry;

struct lac_shadows {
    entry running[LAC_SHADOWS_RUNNING], waiting[LAC_SHADOWS_WAITING];
    uint32_t running_count, waiting_count;
    bool scoring; /* waiting[0] is in the engine */
};

lac_shadows *lac_shadows_create(void)
{
    return lac_alloc(1, sizeof(lac_shadows));
}

void lac_shadows_destroy(lac_shadows **shadows)
{
    lac_shadows *s = *shadows;
    if (s == NULL)
        return;
    for (uint32_t i = 0; i < s->running_count; i++)
        free(s->running[i].tokens);
    for (uint32_t i = 0; i < s->waiting_count; i++)
        free(s->waiting[i].tokens);
    free(s);
    *shadows = NULL;
}

static bool add(entry *e, const uint32_t *tokens, size_t count)
{
    if (count > LAC_CONTEXT_MAX - e->count)
        return false;
    if (e->count + count > e->size) {
        e->size = 2 * (e->count + count);
        e->tokens = lac_realloc(e->tokens, e->size, sizeof *e->tokens);
    }
    if (count > 0)
        memcpy(e->tokens + e->count, tokens, count * sizeof *tokens);
    e->count += count;
    return true;
}

void lac_shadows_begin(lac_shadows *s, uint64_t id, uint32_t class_index, const lac_digest *digest,
                       lac_input_type type, const uint32_t *prompt, size_t prompt_count,
                       const uint32_t *accepted, size_t accepted_count)
{
    if (s->running_count == LAC_SHADOWS_RUNNING)
        return;
    entry *e = &s->running[s->running_count++];
    *e = (entry){.id = id,
                 .class_index = class_index,
                 .digest = *digest,
                 .type = type,
                 .prompt_count = prompt_count};
    if (!add(e, prompt, prompt_count) || !add(e, accepted, accepted_count))
        lac_shadows_forget(s, id);
}

static entry *find(lac_shadows *s, uint64_t id)
{
    for (uint32_t i = 0; i < s->running_count; i++)
        if (s->running[i].id == id)
            return &s->running[i];
    return NULL;
}

static void leave(lac_shadows *s, entry *e)
{
    *e = s->running[--s->running_count];
}

void lac_shadows_forget(lac_shadows *s, uint64_t id)
{
    entry *e = find(s, id);
    if (e == NULL)
        return;
    free(e->tokens);
    leave(s, e);
}

static void drop_waiting(lac_shadows *s, uint32_t at)
{
    LAC_ASSERT(at < s->waiting_count && !(s->scoring && at == 0));
    free(s->waiting[at].tokens);
    s->waiting_count--;
    memmove(&s->waiting[at], &s->waiting[at + 1], (s->waiting_count - at) * sizeof *s->waiting);
}

void lac_shadows_event(lac_shadows *s, const lac_engine_event *event)
{
    entry *e = find(s, event->id);
    if (e == NULL)
        return;
    bool whole = add(e, event->chunk.tokens, event->chunk.tokens_count);
    if (event->finish == LAC_FINISH_NONE && whole)
        return;
    bool good = event->finish == LAC_FINISH_STOP || event->finish == LAC_FINISH_LENGTH;
    /* What ended as another class says nothing of this one. */
    bool same = event->account != NULL && event->account->class_index == e->class_index;
    if (!whole || !good || !same || e->count <= e->prompt_count) {
        lac_shadows_forget(s, event->id);
        return;
    }
    if (s->waiting_count == LAC_SHADOWS_WAITING)
        drop_waiting(s, s->scoring ? 1 : 0);
    s->waiting[s->waiting_count++] = *e;
    leave(s, e);
}

void lac_shadows_interrupt(lac_shadows *s, lac_engine *engine)
{
    if (!s->scoring)
        return;
    lac_engine_shadow_stop(engine);
    s->scoring = false;
    if (++s->waiting[0].tries >= LAC_SHADOW_TRIES)
        drop_waiting(s, 0);
}

static bool start(lac_shadows *s, lac_engine *engine)
{
    const entry *e = &s->waiting[0];
    lac_error err;
    lac_status status =
        lac_engine_shadow_start(engine, e->class_index, e->tokens, e->prompt_count, e->count, &err);
    s->scoring = status == LAC_OK;
    if (!s->scoring) {
        lac_debug("a sampled request is not scored: %s", err.text);
        drop_waiting(s, 0);
    }
    return s->scoring;
}

bool lac_shadows_work(lac_shadows *s, lac_engine *engine, lac_shadow *out, bool *scored)
{
    *scored = false;
    if (s->waiting_count == 0 || (!s->scoring && !start(s, engine)))
        return s->waiting_count > 0;
    lac_engine_shadow result;
    lac_status status;
    if (!lac_engine_shadow_step(engine, &result, &status))
        return true;
    s->scoring = false;
    if (status == LAC_OK) {
        *out = (lac_shadow){.class_digest = s->waiting[0].digest,
                            .input_type = s->waiting[0].type,
                            .tokens = result.tokens,
                            .kl_mean = result.kl_mean,
                            .top1_agree = (float)result.top1_agree,
                            .top1_p = (float)result.top1_p,
                            .top1_p_full = (float)result.top1_p_full};
        *scored = true;
    }
    drop_waiting(s, 0);
    return true;
}
