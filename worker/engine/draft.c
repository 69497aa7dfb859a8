/* Draft tokens in the step: which sequences guess how many, and which guesses the sampler confirms.
 * The engine's thread. Must not know how a draft is found or what makes it pay (worker/spec).
 *
 * Row i of a run with drafts computes what a plain step would compute for that position, because a
 * row's bits depend on its own sequence alone; its token is drawn by the same sampler, with the
 * same counts, at the same position. A draft token that is not the one drawn ends the run: its keys
 * and values lie beyond `computed` and are written again by the next step. */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "parts.h"

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

void lac__drafts_make(lac_engine *e)
{
    uint32_t decodes = 0, rows = 0, sampled = 0;
    for (uint32_t i = 0; i < e->live_count; i++)
        decodes += e->live[i]->state == LAC_SEQUENCE_DECODE;
    for (uint32_t i = 0; i < e->live_count; i++) {
        lac__sequence *s = e->live[i];
        if (s->state != LAC_SEQUENCE_DECODE)
            continue;
        /* One token is drawn in any case, and the last one that fits needs no row. */
        uint32_t room =
            least(least(LAC_SPEC_DRAFT_MAX, s->limit - s->known - 1), e->draft_rows - rows);
        bool best = lac__sequence_best_decides(s) || lac__sequence_top(e, s) > 0;
        if (!best)
            room = least(room, e->score_rows - sampled);
        uint32_t found = lac_spec_draft(s->tokens, s->known, room, s->draft);
        s->draft_count = e->speculate == LAC_SPECULATE_ON
                             ? found
                             : lac_spec_rows(&e->spec_cost, &s->trust, decodes, rows, found);
        rows += s->draft_count;
        sampled += best ? 0 : s->draft_count;
        e->step.sequences[i].draft = s->draft_count;
    }
}

void lac__drafts_place(lac_engine *e, const lac__sequence *s, uint32_t row, uint32_t drafts,
                       lac_batch *batch)
{
    uint32_t top = lac__sequence_top(e, s);
    bool best = lac__sequence_best_decides(s) || top > 0;
    size_t vocab = e->model->vocab;
    if (drafts > 0 && !best && !e->step.draft_logits)
        e->step.draft_logits = lac_alloc(vocab * e->score_rows, sizeof(float));
    for (uint32_t i = 0; i < drafts; i++) {
        float *logits = best ? NULL : e->step.draft_logits + vocab * e->step.draft_logits_used++;
        e->step.logit_rows[batch->logit_rows_count] = (lac_logit_row){
            .row = row + i, .logits = logits, .top_count = top, .top = lac__top_place(e, batch)};
        batch->logit_rows_count++;
    }
    LAC_ASSERT(e->step.draft_logits_used <= e->score_rows);
}

void lac__drafts_verify(lac_engine *e, lac__sequence *s, lac_logit_row *rows, uint32_t drafts,
                        lac_engine_sink sink, void *arg)
{
    uint32_t right = 0;
    bool wrong = false;
    lac__deliver_token(e, s, &rows[0], sink, arg);
    while (right < drafts && s->state != LAC_SEQUENCE_GONE) {
        wrong = s->tokens[s->known - 1] != s->draft[right];
        /* A best token that may not be chosen, or logits that are no numbers, are for a step's
         * first row, which has its ways with both. */
        if (wrong || lac__sequence_bans_best(e, s, &rows[right + 1]) ||
            !isfinite(rows[right + 1].best_logit))
            break;
        s->computed++;
        right++;
        lac__deliver_token(e, s, &rows[right], sink, arg);
    }
    if (drafts == 0)
        return;
    lac_spec_verified(&e->spec_cost, &s->trust, wrong ? drafts : right, right);
    lac_kv_trim(e->pool, s->kv, s->known);
    e->draft_tokens += drafts;
    e->draft_accepted += right;
}

bool lac_speculate_parse(const char *name, lac_speculate *out)
{
    static const char *const names[] = {"auto", "off", "on"};
    for (uint32_t i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (lac_speculate)i;
            return true;
        }
    return false;
}
