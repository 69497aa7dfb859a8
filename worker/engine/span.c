/* Parts of the forward pass of one window, for calibration: some units, or the head alone. The
 * engine's thread, nothing else running. Must not know what the states are for. */
#include "engine/span.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "parts.h"

static lac_status idle_check(const lac_engine *engine, lac_error *err)
{
    LAC_ASSERT(!engine->in_step);
    if (engine->group)
        return lac_fail(err, LAC_EUNSUPPORTED, "parts run in a group of one rank only");
    if (engine->classes_count > 1)
        return lac_fail(err, LAC_EUNSUPPORTED, "parts run without classes, the engine has %u",
                        engine->classes_count);
    if (engine->live_count > 0)
        return lac_fail(err, LAC_BUSY, "%u sequences run; parts need the engine to itself",
                        engine->live_count);
    return LAC_OK;
}

static lac_status window_check(const lac_engine *engine, uint32_t first, uint32_t end,
                               const uint32_t *tokens, uint32_t rows, const float *in,
                               lac_error *err)
{
    uint32_t units = 2 * engine->model->layers_count;
    uint32_t limit = lac__class_tokens_max(engine, 0, 0);
    limit = limit < engine->rows_max ? limit : engine->rows_max;
    if (first > end || end > units)
        return lac_fail(err, LAC_EINVAL, "units %u … %u, the model has %u", first, end, units);
    if (rows == 0 || rows > limit)
        return lac_fail(err, LAC_EINVAL, "window is %u tokens, allowed 1..%u", rows, limit);
    if (!in && first > 0)
        return lac_fail(err, LAC_EINVAL, "units from %u on need the states before them", first);
    for (uint32_t i = 0; !in && i < rows; i++)
        if (tokens[i] >= engine->model->vocab)
            return lac_fail(err, LAC_EINVAL, "token %u is %u, the vocabulary has %u", i, tokens[i],
                            engine->model->vocab);
    return LAC_OK;
}

/* The operations of units first … end−1, with the embedding before them or not. */
static const lac_op *ops_of(const lac_engine *engine, uint32_t first, uint32_t end, bool embed,
                            size_t *count)
{
    const lac_op *ops = engine->program.ops;
    size_t from = 1, last = engine->program.count - 1; /* the embedding is first, the head last */
    LAC_ASSERT(ops[0].kind == LAC_OP_EMBED && ops[last].kind == LAC_OP_HEAD);
    while (from < last && ops[from].unit < first)
        from++;
    size_t to = from;
    while (to < last && ops[to].unit < end)
        to++;
    LAC_ASSERT(!embed || from == 1);
    from = embed ? 0 : from;
    *count = to - from;
    return ops + from;
}

lac_status lac_engine_units_run(lac_engine *engine, uint32_t first, uint32_t end,
                                const uint32_t *tokens, uint32_t rows, const float *in, float *out,
                                lac_error *err)
{
    lac_status status = idle_check(engine, err);
    if (status == LAC_OK)
        status = window_check(engine, first, end, tokens, rows, in, err);
    if (status != LAC_OK)
        return status;
    size_t count;
    const lac_op *ops = ops_of(engine, first, end, !in, &count);
    if (count == 0) {
        if (out != in)
            memcpy(out, in, (size_t)rows * engine->model->hidden * sizeof *out);
        return LAC_OK;
    }
    int kv = lac_kv_open(engine->pool, engine->classes[0].kept);
    LAC_ASSERT(kv != LAC_KV_SEQUENCE_NONE);
    if (!lac_kv_reserve(engine->pool, kv,
                        rows)) { /* all at once is more than one after the other */
        lac_kv_close(engine->pool, kv);
        return lac_fail(err, LAC_ETOOBIG,
                        "window is %u tokens, more than the KV pool holds at once", rows);
    }
    lac_segment segment = {.rows = rows,
                           .tables = lac_kv_tables(engine->pool, kv),
                           .table_stride = lac_kv_table_stride(engine->pool)};
    lac_batch batch = {.rows = rows,
                       .tokens = tokens,
                       .segments_count = 1,
                       .segments = &segment,
                       .residual_in = in,
                       .residual_out = out};
    status = engine->table->run(engine->backend, ops, count, &batch, err);
    lac_kv_close(engine->pool, kv);
    return status;
}

lac_status lac_engine_head_run(lac_engine *engine, const float *states, size_t count,
                               lac_engine_row row, void *arg, lac_error *err)
{
    lac_status status = idle_check(engine, err);
    if (status != LAC_OK)
        return status;
    size_t vocab = engine->model->vocab, hidden = engine->model->hidden;
    float *logits = lac_alloc(vocab * engine->score_rows, sizeof *logits);
    lac_logit_row *rows = lac_alloc(engine->score_rows, sizeof *rows);
    const lac_op *head = &engine->program.ops[engine->program.count - 1];
    for (size_t done = 0, now; done < count && status == LAC_OK; done += now) {
        now = count - done < engine->score_rows ? count - done : engine->score_rows;
        for (uint32_t i = 0; i < now; i++)
            rows[i] = (lac_logit_row){.row = i, .logits = logits + i * vocab};
        lac_segment segment = {.rows = (uint32_t)now};
        lac_batch batch = {.rows = (uint32_t)now,
                           .segments_count = 1,
                           .segments = &segment,
                           .logit_rows_count = (uint32_t)now,
                           .logit_rows = rows,
                           .residual_in = states + done * hidden};
        status = engine->table->run(engine->backend, head, 1, &batch, err);
        for (size_t i = 0; i < now && status == LAC_OK; i++)
            row(arg, done + i, rows[i].logits);
    }
    free(rows);
    free(logits);
    return status;
}
