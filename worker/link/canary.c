/* Goes through classes, types and texts in turn. The engine thread. */
#include "link/canary.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"

struct lac_canaries {
    const lac_plan *plan;
    uint64_t due_ms;            /* the next round */
    bool running, scoring;      /* a round; a text of it is in the engine */
    uint32_t class, type, text; /* where the round is */
    uint32_t tokens;            /* of the class and type so far; sums over them: */
    double kl, top1_agree, top1_p, top1_p_full;
};

/* True at a class and type that has texts, or at the end of the round. */
static bool is_place(const lac_canaries *c)
{
    return c->class == c->plan->classes_count ||
           (c->type < LAC_INPUT_TYPES && c->plan->canaries[c->type].count > 0 &&
            c->plan->classes[c->class].serves[c->type].tier != LAC_TIER_NONE);
}

static void place_next(lac_canaries *c)
{
    do {
        if (++c->type >= LAC_INPUT_TYPES) {
            c->type = 0;
            c->class ++;
        }
    } while (!is_place(c));
    c->text = c->tokens = 0;
    c->kl = c->top1_agree = c->top1_p = c->top1_p_full = 0;
}

static void round_begin(lac_canaries *c)
{
    c->running = true;
    c->class = 0;
    c->type = UINT32_MAX; /* the next one is 0 */
    place_next(c);
}

lac_canaries *lac_canaries_create(const lac_plan *plan)
{
    lac_canaries *c = lac_alloc(1, sizeof *c);
    uint32_t texts = 0;
    for (int t = 0; plan && t < LAC_INPUT_TYPES; t++)
        texts += plan->canaries[t].count;
    c->plan = plan;
    c->due_ms = texts > 0 ? 0 : UINT64_MAX;
    return c;
}

void lac_canaries_destroy(lac_canaries **canaries)
{
    free(*canaries);
    *canaries = NULL;
}

bool lac_canaries_scoring(const lac_canaries *c)
{
    return c->scoring;
}

uint64_t lac_canaries_due_ms(const lac_canaries *c)
{
    return c->running ? 0 : c->due_ms;
}

void lac_canaries_interrupt(lac_canaries *c, lac_engine *engine)
{
    if (c->scoring)
        lac_engine_shadow_stop(engine);
    c->scoring = false;
}

/* Everything after the first token is scored. */
static bool text_begin(lac_canaries *c, lac_engine *engine)
{
    const char *text = c->plan->canaries[c->type].texts[c->text];
    uint32_t *ids = NULL;
    size_t count = 0;
    lac_error err;
    lac_status status = lac_tokenizer_encode(lac_engine_tokenizer(engine), text, strlen(text),
                                             (lac_encode_options){0}, &ids, &count, &err);
    if (status == LAC_OK)
        status = lac_engine_shadow_start(engine, c->class + 1, ids, 1, count, &err);
    free(ids);
    c->scoring = status == LAC_OK;
    if (!c->scoring)
        lac_debug("canary %u of class %s is not scored: %s", c->text,
                  c->plan->classes[c->class].name, err.text);
    return c->scoring;
}

static void text_done(lac_canaries *c, const lac_engine_shadow *result)
{
    c->tokens += result->tokens;
    c->kl += result->kl_mean * result->tokens;
    c->top1_agree += result->top1_agree * result->tokens;
    c->top1_p += result->top1_p * result->tokens;
    c->top1_p_full += result->top1_p_full * result->tokens;
}

static void tell(const lac_canaries *c, lac_shadow *out)
{
    *out = (lac_shadow){.class_digest = c->plan->classes[c->class].digest,
                        .input_type = (lac_input_type)c->type,
                        .tokens = c->tokens,
                        .kl_mean = c->kl / c->tokens,
                        .top1_agree = (float)(c->top1_agree / c->tokens),
                        .top1_p = (float)(c->top1_p / c->tokens),
                        .top1_p_full = (float)(c->top1_p_full / c->tokens),
                        .canary = true};
}

bool lac_canaries_work(lac_canaries *c, lac_engine *engine, uint64_t now_ms, lac_shadow *out,
                       bool *scored)
{
    *scored = false;
    if (!c->running && now_ms < c->due_ms)
        return false;
    if (!c->running)
        round_begin(c);
    if (c->class == c->plan->classes_count) {
        c->running = false;
        c->due_ms = now_ms + LAC_CANARY_MS;
        return false;
    }
    lac_engine_shadow result;
    lac_status status;
    if (c->scoring || text_begin(c, engine)) {
        if (!lac_engine_shadow_step(engine, &result, &status))
            return true;
        c->scoring = false;
        if (status == LAC_OK)
            text_done(c, &result);
    }
    if (++c->text < c->plan->canaries[c->type].count)
        return true;
    *scored = c->tokens > 0;
    if (*scored)
        tell(c, out);
    place_next(c);
    return true;
}
