/* Shadow scoring: what a class produced is run once more under the class and once in full, side by
 * side in small steps, and the divergence of the two summed up. The engine's thread, while no
 * sequence is live: the pages it takes are then nobody's. Must not know why a request was picked.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "parts.h"

enum { SIDES = 2, ROWS_MAX = 64, SCORED_MAX = 16 }; /* rows of a step; of them with logits */

typedef struct lac__shadow {
    uint32_t class_of[SIDES]; /* full, the class */
    uint32_t class_from;      /* rows before it run in full on both sides */
    bool narrowed;
    int kv[SIDES];
    uint32_t *tokens;
    uint32_t first, count, done; /* rows from `first` on are scored, rows < done are run */
    float *logits[SIDES];        /* [SCORED_MAX × vocab] */
    double kl, sure, sure_full;  /* sums; sure: of the best token's probability */
    uint32_t agree, scored;
} lac__shadow;

static void shadow_free(lac_engine *engine)
{
    lac__shadow *s = engine->shadow;
    for (int side = 0; side < SIDES; side++) {
        if (s->kv[side] != LAC_KV_SEQUENCE_NONE)
            lac_kv_close(engine->pool, s->kv[side]);
        free(s->logits[side]);
    }
    free(s->tokens);
    free(s);
    engine->shadow = NULL;
}

void lac_engine_shadow_stop(lac_engine *engine)
{
    if (engine->shadow)
        shadow_free(engine);
}

static lac_status start_check(const lac_engine *engine, uint32_t class_index,
                              const uint32_t *tokens, size_t prompt_count, size_t count,
                              lac_error *err)
{
    lac_status status = lac__class_check(engine, class_index, err);
    if (status == LAC_OK)
        status = lac__class_check(engine, 0, err);
    if (status != LAC_OK)
        return status;
    if (engine->live_count > 0 || engine->shadow)
        return lac_fail(err, LAC_BUSY, "%s; scoring needs the engine to itself",
                        engine->shadow ? "another is scored" : "sequences run");
    uint32_t most = lac__class_tokens_max(engine, 0, 0);
    if (prompt_count < 1 || count <= prompt_count || count > most)
        return lac_fail(err, LAC_EINVAL, "%zu tokens after a prompt of %zu, allowed: up to %u",
                        count, prompt_count, most);
    for (size_t i = 0; i < count; i++)
        if (tokens[i] >= engine->model->vocab)
            return lac_fail(err, LAC_EINVAL, "token %zu is %u, the vocabulary has %u", i, tokens[i],
                            engine->model->vocab);
    return LAC_OK;
}

lac_status lac_engine_shadow_start(lac_engine *engine, uint32_t class_index, const uint32_t *tokens,
                                   size_t prompt_count, size_t count, lac_error *err)
{
    LAC_ASSERT(!engine->in_step);
    lac_status status = start_check(engine, class_index, tokens, prompt_count, count, err);
    if (status != LAC_OK)
        return status;
    /* The last token is only ever predicted, so it is not run. */
    lac__shadow *s = lac_alloc(1, sizeof *s);
    *s =
        (lac__shadow){.class_of = {0, class_index},
                      .class_from = lac__class_from(engine, class_index, 0, (uint32_t)prompt_count),
                      .first = (uint32_t)prompt_count - 1,
                      .count = (uint32_t)count - 1};
    s->tokens = lac_alloc(count, sizeof *s->tokens);
    memcpy(s->tokens, tokens, count * sizeof *s->tokens);
    bool open = true;
    for (int side = 0; side < SIDES; side++) {
        uint32_t first_class = s->class_from > 0 ? 0 : s->class_of[side];
        s->logits[side] = lac_alloc((size_t)SCORED_MAX * engine->model->vocab, sizeof(float));
        s->kv[side] = lac_kv_open(engine->pool, engine->classes[first_class].kept);
        open &= s->kv[side] != LAC_KV_SEQUENCE_NONE;
    }
    engine->shadow = s;
    if (open)
        return LAC_OK;
    shadow_free(engine);
    return lac_fail(err, LAC_BUSY, "the KV pool has no two sequences free");
}

/* The class the next rows of a side run as; gives back what it leaves out when it begins. */
static uint32_t side_class(lac_engine *engine, int side)
{
    lac__shadow *s = engine->shadow;
    if (s->done < s->class_from)
        return 0;
    if (side == 1 && s->class_from > 0 && !s->narrowed) {
        lac_kv_narrow(engine->pool, s->kv[side], engine->classes[s->class_of[side]].kept);
        s->narrowed = true;
    }
    return s->class_of[side];
}

/* Runs rows done … done+rows−1 of one side; the last `scored` of them give logits. */
static lac_status run_side(lac_engine *engine, int side, uint32_t rows, uint32_t scored)
{
    lac__shadow *s = engine->shadow;
    uint32_t now = side_class(engine, side);
    if (!lac_kv_reserve(engine->pool, s->kv[side], s->done + rows))
        return LAC_BUSY;
    lac_logit_row logit_rows[SCORED_MAX];
    for (uint32_t i = 0; i < scored; i++)
        logit_rows[i] = (lac_logit_row){
            .row = rows - scored + i, .logits = s->logits[side] + (size_t)i * engine->model->vocab};
    lac_segment segment = {.rows = rows,
                           .pos = s->done,
                           .tables = lac_kv_tables(engine->pool, s->kv[side]),
                           .table_stride = lac_kv_table_stride(engine->pool)};
    lac_batch batch = {.rows = rows,
                       .tokens = s->tokens + s->done,
                       .segments_count = 1,
                       .segments = &segment,
                       .logit_rows_count = scored,
                       .logit_rows = logit_rows};
    uint32_t class_rows[LAC_CLASSES_MAX] = {0};
    class_rows[now] = rows;
    lac__classes_batch(engine, class_rows, &batch);
    lac_error err;
    lac_status status = lac__group_run(engine, &batch, &err);
    lac_kv_pass(engine->pool, s->kv[side], s->done + rows);
    return status;
}

/* log Σ exp, and the place of the largest. */
static double log_sum(const float *logits, uint32_t vocab, uint32_t *best)
{
    *best = 0;
    for (uint32_t v = 1; v < vocab; v++)
        if (logits[v] > logits[*best])
            *best = v;
    double top = logits[*best], sum = 0;
    for (uint32_t v = 0; v < vocab; v++)
        sum += exp((double)logits[v] - top);
    return top + log(sum);
}

/* KL(full ‖ class) of one position, added up. */
static void score_row(lac__shadow *s, const float *full, const float *masked, uint32_t vocab)
{
    uint32_t best_full, best_masked;
    double z_full = log_sum(full, vocab, &best_full);
    double z_masked = log_sum(masked, vocab, &best_masked);
    double kl = 0;
    for (uint32_t v = 0; v < vocab; v++) {
        double log_p = (double)full[v] - z_full;
        kl += exp(log_p) * (log_p - ((double)masked[v] - z_masked));
    }
    s->kl += kl > 0 ? kl : 0; /* rounding may leave it a little below */
    s->agree += best_full == best_masked;
    s->sure_full += exp((double)full[best_full] - z_full);
    s->sure += exp((double)masked[best_masked] - z_masked);
    s->scored++;
}

bool lac_engine_shadow_step(lac_engine *engine, lac_engine_shadow *out, lac_status *status)
{
    lac__shadow *s = engine->shadow;
    LAC_ASSERT(s && engine->live_count == 0);
    uint32_t vocab = engine->model->vocab, left = s->count - s->done;
    uint32_t most = s->done < s->first ? ROWS_MAX : SCORED_MAX;
    most = most < engine->score_rows ? most : engine->score_rows;
    uint32_t rows = left < most ? left : most;
    if (s->done < s->first && s->done + rows > s->first)
        rows = s->first - s->done;
    if (s->done < s->class_from && s->done + rows > s->class_from)
        rows = s->class_from - s->done;
    uint32_t scored = s->done >= s->first ? rows : 0;
    *status = LAC_OK;
    for (int side = 0; side < SIDES && *status == LAC_OK; side++)
        *status = run_side(engine, side, rows, scored);
    if (*status == LAC_OK)
        for (uint32_t i = 0; i < scored; i++)
            score_row(s, s->logits[0] + (size_t)i * vocab, s->logits[1] + (size_t)i * vocab, vocab);
    s->done += rows;
    if (*status == LAC_OK && s->done < s->count)
        return false;
    if (*status == LAC_OK && !isfinite(s->kl))
        *status = LAC_ECORRUPT;
    if (*status == LAC_OK)
        *out = (lac_engine_shadow){.tokens = s->scored,
                                   .kl_mean = s->kl / s->scored,
                                   .top1_agree = (double)s->agree / s->scored,
                                   .top1_p = s->sure / s->scored,
                                   .top1_p_full = s->sure_full / s->scored};
    shadow_free(engine);
    return true;
}
