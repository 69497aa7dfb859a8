/* One step: the scheduler's order becomes a batch, the backend runs it, every sequence that came to
 * the end of its known tokens gets its next one. The engine's thread. Must not know arithmetic, the
 * scheduler's rules or what a token means. */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "parts.h"

/* ---- order ---- */

static void order_make(lac_engine *engine)
{
    lac__step_arrays *step = &engine->step;
    for (uint32_t i = 0; i < engine->live_count; i++) {
        const lac__sequence *s = engine->live[i];
        lac_sched_sequence *in = &step->sequences[i];
        /* A run never crosses the position where the class begins. */
        uint32_t tokens = s->computed < s->class_from ? s->class_from : s->known;
        *in = (lac_sched_sequence){.state = s->state, .tokens = tokens, .computed = s->computed};
        bool owns_all = s->class_from > 0 && !s->narrowed;
        const lac__class *owns = &engine->classes[owns_all ? 0 : s->class_index];
        memcpy(in->cost, owns->block_cost, sizeof(in->cost));
        memcpy(in->windowed, owns->block_windowed, sizeof(in->windowed));
    }
    bool short_of_pages = lac__prefix_prepare(engine);
    if (engine->speculate != LAC_SPECULATE_OFF && !short_of_pages)
        lac__drafts_make(engine);
    lac_sched_budget budget = {.slots = engine->slots,
                               .rows_max = engine->rows_max,
                               .block_tokens = LAC_KV_BLOCK,
                               .window_blocks = lac_kv_window_blocks(engine->pool),
                               .decode_us = engine->cost.decode_us,
                               .row_us = engine->cost.row_us,
                               .itl_target_us = engine->itl_target_us};
    for (uint32_t i = 0; i < engine->layout.sizes_count; i++)
        budget.pages_free[i] = lac_kv_free_count(engine->pool, i);
    lac_sched_decide(step->sequences, engine->live_count, &budget, &step->order);
    for (uint32_t i = 0; i < step->order.preempted_count; i++) {
        lac__sequence_preempt(engine, engine->live[step->order.preempted[i]]);
        lac_debug("preempted sequence %llu",
                  (unsigned long long)engine->live[step->order.preempted[i]]->id);
    }
}

/* Puts the runs in order of class, and within a class leaves them as they are. Fills class_rows. */
static void order_by_class(lac_engine *engine, uint32_t class_rows[LAC_CLASSES_MAX])
{
    lac_sched_order *order = &engine->step.order;
    uint32_t present = 0;
    memset(class_rows, 0, LAC_CLASSES_MAX * sizeof(uint32_t));
    for (uint32_t r = 0; r < order->runs_count; r++) {
        uint32_t c = lac__class_now(engine->live[order->runs[r].sequence]);
        class_rows[c] += order->runs[r].rows;
        present |= 1u << c;
    }
    if (present != engine->present) {
        engine->present = present;
        engine->active_layers = lac__classes_active_layers(engine, present);
    }
    if ((present & (present - 1)) == 0)
        return; /* one class */
    uint32_t count = 0;
    for (uint32_t c = 0; c < engine->classes_count; c++)
        for (uint32_t r = 0; (present >> c & 1) && r < order->runs_count; r++)
            if (lac__class_now(engine->live[order->runs[r].sequence]) == c)
                engine->step.sorted[count++] = order->runs[r];
    memcpy(order->runs, engine->step.sorted, count * sizeof(*order->runs));
}

/* ---- batch ---- */

static void logits_place(const lac_engine *engine, lac__sequence *s)
{
    if (!s->logits)
        s->logits = lac_alloc(engine->model->vocab, sizeof(float));
}

lac_top_logit *lac__top_place(const lac_engine *engine, const lac_batch *batch)
{
    return engine->step.top + (size_t)batch->logit_rows_count * LAC_TOP_LOGITS_MAX;
}

/* Pages for the run's rows, and a place for the logits where its choice needs all of them. The
 * scheduler counted pages and slots, so neither can be short here. */
static void run_place(lac_engine *engine, lac__sequence *s, uint32_t rows, uint32_t drafts)
{
    bool placed = lac_kv_reserve(engine->pool, s->kv, s->computed + rows);
    LAC_ASSERT(placed);
    uint32_t pages[LAC_KV_SIZES_MAX];
    uint64_t held = 0;
    lac_kv_held(engine->pool, s->kv, pages);
    for (uint32_t i = 0; i < engine->layout.sizes_count; i++)
        held += pages[i] * (uint64_t)engine->layout.whole_bytes[i];
    s->kv_bytes = held > s->kv_bytes ? held : s->kv_bytes;
    if (s->computed + rows - drafts == s->known && !lac__sequence_best_decides(s) &&
        lac__sequence_top(engine, s) == 0)
        logits_place(engine, s);
}

static void batch_make(lac_engine *engine, lac_batch *batch)
{
    lac__step_arrays *step = &engine->step;
    uint32_t class_rows[LAC_CLASSES_MAX];
    order_by_class(engine, class_rows);
    *batch = (lac_batch){
        .tokens = step->tokens, .segments = step->segments, .logit_rows = step->logit_rows};
    step->draft_logits_used = 0;
    lac__prefix_admit(engine);
    for (uint32_t r = 0; r < step->order.runs_count; r++) {
        lac_sched_run run = step->order.runs[r];
        lac__sequence *s = engine->live[run.sequence];
        uint32_t drafts = s->state == LAC_SEQUENCE_DECODE ? run.rows - 1 : 0;
        step->drafts[r] = drafts;
        run_place(engine, s, run.rows, drafts);
        step->segments[batch->segments_count++] =
            (lac_segment){.row = batch->rows,
                          .rows = run.rows,
                          .pos = s->computed,
                          .tables = lac_kv_tables(engine->pool, s->kv),
                          .table_stride = lac_kv_table_stride(engine->pool)};
        for (uint32_t i = 0; i < run.rows - drafts; i++)
            step->tokens[batch->rows + i] = s->tokens[s->computed + i];
        for (uint32_t i = 0; i < drafts; i++)
            step->tokens[batch->rows + run.rows - drafts + i] = s->draft[i];
        batch->rows += run.rows;
        if (lac__probe_waits(engine, s, run.rows))
            batch->tap = step->tap;
        step->logit_of[r] = -1;
        if (s->computed + run.rows - drafts < s->known)
            continue;
        step->logit_of[r] = (int)batch->logit_rows_count;
        /* A sequence that once wanted to end will want it again: it keeps its logits. */
        bool best_only = lac__sequence_best_decides(s) && !s->logits;
        uint32_t top = lac__sequence_top(engine, s);
        step->logit_rows[batch->logit_rows_count] = (lac_logit_row){
            .row = batch->rows - drafts - 1,
            .logits = best_only || top > 0 ? lac__watch_place(engine, s) : s->logits,
            .top_count = top,
            .top = lac__top_place(engine, batch)};
        batch->logit_rows_count++;
        lac__drafts_place(engine, s, batch->rows - drafts, drafts, batch);
    }
    LAC_ASSERT(batch->rows <= engine->rows_max);
    lac__classes_batch(engine, class_rows, batch);
}

/* ---- running it ---- */

/* Runs one segment of a batch by itself and without its drafts. Its keys and values are written
 * again with the same bits. */
static lac_status run_alone(lac_engine *engine, const lac_batch *batch, uint32_t r, lac_error *err)
{
    lac_segment segment = batch->segments[r];
    segment.rows -= engine->step.drafts[r];
    engine->step.order.runs[r].rows -= engine->step.drafts[r];
    engine->step.drafts[r] = 0;
    lac_batch alone = {.rows = segment.rows,
                       .tokens = batch->tokens + segment.row,
                       .segments_count = 1,
                       .segments = &segment};
    lac_logit_row logit_row;
    int index = engine->step.logit_of[r];
    if (index >= 0) {
        logit_row = batch->logit_rows[index];
        logit_row.row -= segment.row;
        alone.logit_rows_count = 1;
        alone.logit_rows = &logit_row;
    }
    segment.row = 0;
    uint32_t class_rows[LAC_CLASSES_MAX] = {0};
    class_rows[lac__class_now(engine->live[engine->step.order.runs[r].sequence])] = segment.rows;
    lac__classes_batch(engine, class_rows, &alone);
    lac_status status = lac__group_run(engine, &alone, err);
    if (status == LAC_OK && index >= 0) {
        batch->logit_rows[index].best_token = logit_row.best_token;
        batch->logit_rows[index].best_logit = logit_row.best_logit;
    }
    return status;
}

/* What a class computes has to be numbers; full is the model as it is. */
static bool is_sound(const lac_engine *engine, const lac__sequence *s, const lac_batch *batch,
                     uint32_t r)
{
    int index = engine->step.logit_of[r];
    return s->class_index == 0 || index < 0 || isfinite(batch->logit_rows[index].best_logit);
}

/* Fills step.status. The backend cannot say which row of a failed step was at fault, so each
 * sequence is then tried alone: only those that fail alone are lost. */
static void batch_run(lac_engine *engine, lac_batch *batch)
{
    lac__step_arrays *step = &engine->step;
    lac_error err = {0};
    lac_status status = lac__group_run(engine, batch, &err);
    for (uint32_t r = 0; r < step->order.runs_count; r++) {
        lac_error own = err;
        step->status[r] = status;
        lac__sequence *s = engine->live[step->order.runs[r].sequence];
        if (status != LAC_OK && (step->order.runs_count > 1 || step->drafts[r] > 0))
            step->status[r] = run_alone(engine, batch, r, &own);
        if (step->status[r] == LAC_OK && !is_sound(engine, s, batch, r))
            step->status[r] =
                lac_fail(&own, LAC_ECORRUPT, "class %s gives logits that are no numbers",
                         engine->classes[s->class_index].name);
        int index = step->logit_of[r];
        if (step->status[r] == LAC_OK && index >= 0 &&
            lac__sequence_bans_best(engine, s, &batch->logit_rows[index])) {
            logits_place(engine, s);
            batch->logit_rows[index].logits = s->logits;
            step->status[r] = run_alone(engine, batch, r, &own);
        }
        if (step->status[r] == LAC_OK)
            continue;
        s->finish = LAC_FINISH_ERROR;
        s->error = own;
        s->error.status = step->status[r];
        lac_warn("sequence %llu failed: %s", (unsigned long long)s->id, own.text);
    }
}

static void measure(lac_engine *engine, double us)
{
    const lac_sched_order *order = &engine->step.order;
    uint32_t prefill = order->rows - order->decodes - order->drafts;
    if (order->drafts == 0)
        lac_sched_cost_add(&engine->cost, order->decodes, prefill, us);
    if (prefill == 0)
        lac_spec_measure(&engine->spec_cost, order->decodes, order->drafts, us);
    if (order->decodes > 0)
        engine->itl_us = engine->itl_us == 0 ? us : engine->itl_us + 0.125 * (us - engine->itl_us);
    engine->prompt_tokens += prefill;
    engine->steps++;
}

static void results_take(lac_engine *engine, const lac_batch *batch, lac_engine_sink sink,
                         void *arg)
{
    lac__step_arrays *step = &engine->step;
    for (uint32_t r = 0; r < step->order.runs_count; r++) {
        lac__sequence *s = engine->live[step->order.runs[r].sequence];
        if (step->status[r] != LAC_OK) {
            if (!lac__sequence_rerun(engine, s))
                lac__deliver_end(engine, s, sink, arg);
            continue;
        }
        uint32_t rows = step->order.runs[r].rows, drafts = step->drafts[r];
        uint32_t logit_rows = step->logit_of[r] >= 0 ? 1 + drafts : 0;
        const lac_class_price *price = &engine->classes[lac__class_now(s)].price;
        lac_account_add(&s->account, price, s->computed, rows, logit_rows);
        lac_account_add(&engine->account, price, s->computed, rows, logit_rows);
        engine->classes[lac__class_now(s)].tokens += rows;
        bool probe = lac__probe_waits(engine, s, rows);
        s->computed += rows - drafts;
        if (probe && lac__probe_refuses(engine, s, step->segments[r].row, rows))
            continue;
        if (logit_rows > 0 && lac__watch_spikes(engine, s, &batch->logit_rows[step->logit_of[r]]))
            continue;
        if (logit_rows > 0)
            lac__drafts_verify(engine, s, &batch->logit_rows[step->logit_of[r]], drafts, sink, arg);
        lac__prefix_offer(engine, s);
        lac__class_narrow(engine, s);
        lac_kv_pass(engine->pool, s->kv, s->computed);
    }
}

/* Frees sequences that ended, keeps the others in order of arrival. */
static void sweep(lac_engine *engine)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < engine->live_count; i++) {
        if (engine->live[i]->state == LAC_SEQUENCE_GONE)
            lac__sequence_destroy(engine, &engine->live[i]);
        else
            engine->live[kept++] = engine->live[i];
    }
    engine->live_count = kept;
}

bool lac_engine_step(lac_engine *engine, lac_engine_sink sink, void *arg)
{
    LAC_ASSERT(!engine->in_step);
    if (engine->live_count == 0)
        return false;
    LAC_ASSERT(!engine->shadow);
    engine->in_step = true;
    for (uint32_t i = 0; i < engine->live_count; i++)
        if (engine->live[i]->finish != LAC_FINISH_NONE)
            lac__deliver_end(engine, engine->live[i], sink, arg);
    sweep(engine);
    if (engine->live_count > 0) {
        lac_batch batch;
        uint64_t start = lac_now_ns();
        order_make(engine);
        batch_make(engine, &batch);
        batch_run(engine, &batch);
        measure(engine, (double)(lac_now_ns() - start) / 1000.0);
        results_take(engine, &batch, sink, arg);
        sweep(engine);
    }
    engine->in_step = false;
    return true;
}
