/* Offline scoring: one sequence, every position's logits. The engine's thread, nothing else
 * running. */
#include <stdlib.h>

#include "base/assert.h"
#include "parts.h"

static lac_status score_check(const lac_engine *engine, uint32_t class_index, uint32_t class_from,
                              const uint32_t *tokens, size_t count, lac_error *err)
{
    lac_status status = lac__class_check(engine, class_index, err);
    if (status != LAC_OK)
        return status;
    if (engine->live_count > 0)
        return lac_fail(err, LAC_BUSY, "%u sequences run; scoring needs the engine to itself",
                        engine->live_count);
    if (count == 0)
        return lac_fail(err, LAC_EINVAL, "0 tokens to score, at least 1 is needed");
    if (class_from > count)
        return lac_fail(err, LAC_EINVAL, "class_from is %u, allowed 0..%zu", class_from, count);
    if (class_from > 0 && !engine->full_runs)
        return lac_fail(err, LAC_EREFUSED,
                        "class_from is %u, but this engine has not loaded what full needs",
                        class_from);
    uint32_t limit = lac__class_tokens_max(engine, class_index, class_from);
    if (count > limit)
        return lac_fail(err, LAC_ETOOBIG, "%zu tokens to score, limit %u (%s)", count, limit,
                        limit == engine->context_max ? "context" : "KV pool");
    for (size_t i = 0; i < count; i++)
        if (tokens[i] >= engine->model->vocab)
            return lac_fail(err, LAC_EINVAL, "token %zu is %u, the vocabulary has %u", i, tokens[i],
                            engine->model->vocab);
    return LAC_OK;
}

uint32_t lac__rows_reserve(lac_engine *engine, int kv, uint32_t done, uint32_t rows)
{
    while (!lac_kv_reserve(engine->pool, kv, done + rows)) {
        LAC_ASSERT(rows > 1); /* it fits as a whole, going on a block at a time */
        rows = rows > LAC_KV_BLOCK ? rows - LAC_KV_BLOCK : 1;
    }
    return rows;
}

lac_status lac_engine_score(lac_engine *engine, const uint32_t *tokens, size_t count,
                            lac_engine_row row, void *arg, lac_error *err)
{
    return lac_engine_score_as(engine, 0, tokens, count, row, arg, err);
}

lac_status lac_engine_score_as(lac_engine *engine, uint32_t class_index, const uint32_t *tokens,
                               size_t count, lac_engine_row row, void *arg, lac_error *err)
{
    bool later = class_index < engine->classes_count &&
                 engine->classes[class_index].scope == LAC_SCOPE_DECODE && count > 0;
    return lac_engine_score_from(engine, class_index, later, tokens, count, row, arg, err);
}

lac_status lac_engine_score_from(lac_engine *engine, uint32_t class_index, uint32_t class_from,
                                 const uint32_t *tokens, size_t count, lac_engine_row row,
                                 void *arg, lac_error *err)
{
    LAC_ASSERT(!engine->in_step);
    lac_status status = score_check(engine, class_index, class_from, tokens, count, err);
    if (status != LAC_OK)
        return status;
    size_t vocab = engine->model->vocab;
    float *logits = lac_alloc(vocab * engine->score_rows, sizeof(float));
    lac_logit_row *logit_rows = lac_alloc(engine->score_rows, sizeof(*logit_rows));
    uint32_t now = class_from > 0 ? 0 : class_index;
    int kv = lac_kv_open(engine->pool, engine->classes[now].kept);
    LAC_ASSERT(kv != LAC_KV_SEQUENCE_NONE);
    lac_segment segment = {.tables = lac_kv_tables(engine->pool, kv),
                           .table_stride = lac_kv_table_stride(engine->pool)};
    for (size_t done = 0; done < count && status == LAC_OK; done += segment.rows) {
        if (done == class_from && now != class_index) {
            now = class_index;
            lac_kv_narrow(engine->pool, kv, engine->classes[now].kept);
        }
        size_t left = (done < class_from ? class_from : count) - done;
        segment.rows = left < engine->score_rows ? (uint32_t)left : engine->score_rows;
        segment.pos = (uint32_t)done;
        segment.rows = lac__rows_reserve(engine, kv, (uint32_t)done, segment.rows);
        for (uint32_t i = 0; i < segment.rows; i++)
            logit_rows[i] = (lac_logit_row){.row = i, .logits = logits + i * vocab};
        lac_batch batch = {.rows = segment.rows,
                           .tokens = tokens + done,
                           .segments_count = 1,
                           .segments = &segment,
                           .logit_rows_count = segment.rows,
                           .logit_rows = logit_rows};
        uint32_t class_rows[LAC_CLASSES_MAX] = {0};
        class_rows[now] = segment.rows;
        lac__classes_batch(engine, class_rows, &batch);
        status = lac__group_run(engine, &batch, err);
        for (uint32_t i = 0; i < segment.rows && status == LAC_OK; i++)
            row(arg, done + i, logit_rows[i].logits);
        lac_kv_pass(engine->pool, kv, (uint32_t)done + segment.rows);
    }
    lac_kv_close(engine->pool, kv);
    free(logit_rows);
    free(logits);
    return status;
}
