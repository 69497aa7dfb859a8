/* How the ranks of a group come together, and a batch on all of them: the leader's order ahead of
 * the step, hidden rows from stage to stage, results back to the leader. The engine's thread. Must
 * not know sequences, sampling or a transport.
 *
 * One rank decides, all follow: everything that a step depends on is in the order, which all ranks
 * read alike. A stage that no row of the batch needs is left out by everybody for the same reason.
 */
#include "group.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "group_parts.h"
#include "parts.h"

/* ---- coming together ---- */

static lac_status placement_check(const lac_engine *e, const lac_engine_group *o, lac_error *err)
{
    const lac_placement *p = o->placement;
    uint32_t ranks = lac_fabric_ranks(o->fabric);
    if (!p || p->stages * p->parts != ranks)
        return lac_fail(err, LAC_EINVAL, "placement is for %u ranks, the group has %u",
                        p ? p->stages * p->parts : 0, ranks);
    if (p->layers_count != e->model->layers_count || p->vocab_first[p->parts] != e->model->vocab)
        return lac_fail(
            err, LAC_EINVAL, "placement is for %u layers and %u tokens, the model has %u and %u",
            p->layers_count, p->vocab_first[p->parts], e->model->layers_count, e->model->vocab);
    return LAC_OK;
}

/* Everything that must be the same for the same order to mean the same step. */
static void plan_digest(const lac_engine *e, const lac_placement *placement, lac_digest *out)
{
    lac_digest model, placed;
    lac_hasher *hasher = lac_hasher_create();
    static const char domain[] = "lacuna group 1 " LAC_VERSION;
    uint32_t sizes[] = {e->context_max, e->slots,   e->rows_max,     e->score_rows,
                        e->draft_rows,  e->kv_type, e->classes_count};
    lac_model_digest(e->model, &model);
    for (size_t i = 0; i < lac_gguf_tensor_count(e->model->gguf); i++) /* most are others' */
        lac_gguf_release(e->model->gguf, lac_gguf_tensor_at(e->model->gguf, i));
    lac_placement_digest(placement, &placed);
    lac_hasher_add(hasher, domain, sizeof domain);
    lac_hasher_add(hasher, &model, sizeof model);
    lac_hasher_add(hasher, &placed, sizeof placed);
    lac_hasher_add(hasher, sizes, sizeof sizes);
    for (uint32_t c = 0; c < e->classes_count; c++) {
        uint8_t live[2] = {e->classes[c].live, (uint8_t)e->classes[c].scope};
        lac_hasher_add(hasher, e->classes[c].name, strlen(e->classes[c].name) + 1);
        lac_hasher_add(hasher, live, sizeof live);
        lac_hasher_add(hasher, &e->classes[c].computed_as, sizeof e->classes[c].computed_as);
    }
    lac_hasher_finish(&hasher, out);
}

static lac_status digests_agree(lac_engine *e, lac_error *err)
{
    lac__group *g = e->group;
    lac_digest mine, all[LAC_RANKS_MAX];
    plan_digest(e, e->shard.placement, &mine);
    lac_fabric_call call = {.step = 0, .deadline_ns = lac_now_ns() + LAC__LOAD_MS * MS};
    lac_status status = lac_fabric_all_gather(g->fabric, (lac_fabric_span){0, g->ranks}, call,
                                              &mine, sizeof mine, all, err);
    if (status != LAC_OK)
        return lac_fail_in(err, "agreeing on the plan");
    for (uint32_t r = 1; r < g->ranks; r++) {
        if (memcmp(&all[r], &all[0], sizeof all[0]) == 0)
            continue;
        char leads[65], other[65];
        lac_hex(all[0].bytes, 32, leads);
        lac_hex(all[r].bytes, 32, other);
        return lac_fail(err, LAC_EPROTO,
                        "rank %u has plan digest %s, rank 0 has %s: model, classes, placement or "
                        "settings differ",
                        r, other, leads);
    }
    return LAC_OK;
}

/* Called by one thread of the backend in the middle of a step. */
static lac_status parts_sum(void *arg, float *x, size_t count)
{
    lac_engine *e = arg;
    lac__group *g = e->group;
    lac_fabric_span span = {e->shard.stage * e->shard.parts, e->shard.parts};
    return lac_fabric_all_reduce(g->fabric, span, lac__group_call(g), x, count, &g->sum_err);
}

/* One after the other in order of the parts, and the end of it to all. Rows from stage to stage
 * travel between other pairs of ranks, so their channel is free within a stage. */
static lac_status parts_before(void *arg, float *x, size_t count)
{
    lac_engine *e = arg;
    lac__group *g = e->group;
    return lac_fabric_receive(g->fabric, g->rank - 1, LAC_FABRIC_ROWS, lac__group_call(g), x,
                              count * sizeof *x, NULL, &g->sum_err);
}

static lac_status parts_whole(void *arg, float *x, size_t count)
{
    lac_engine *e = arg;
    lac__group *g = e->group;
    uint32_t first = e->shard.stage * e->shard.parts, last = first + e->shard.parts - 1;
    size_t bytes = count * sizeof *x;
    lac_status status = LAC_OK;
    if (g->rank < last)
        status = lac_fabric_send(g->fabric, g->rank + 1, LAC_FABRIC_ROWS, lac__group_call(g), x,
                                 bytes, &g->sum_err);
    for (uint32_t r = first; g->rank == last && r < last && status == LAC_OK; r++)
        status = lac_fabric_send(g->fabric, r, LAC_FABRIC_ROWS, lac__group_call(g), x, bytes,
                                 &g->sum_err);
    if (status == LAC_OK)
        status = lac_fabric_settle(g->fabric, lac__group_call(g), &g->sum_err);
    if (status == LAC_OK && g->rank < last)
        status = lac_fabric_receive(g->fabric, last, LAC_FABRIC_ROWS, lac__group_call(g), x, bytes,
                                    NULL, &g->sum_err);
    return status;
}

lac_status lac__group_open(lac_engine *e, const lac_engine_options *options, lac_error *err)
{
    const lac_engine_group *o = &options->group;
    e->shard = (lac__shard){.stages = 1, .parts = 1, .layer_end = e->model->layers_count};
    if (!o->fabric || lac_fabric_ranks(o->fabric) == 1)
        return LAC_OK;
    lac_status status = placement_check(e, o, err);
    if (status != LAC_OK)
        return status;
    lac__group *g = lac_alloc(1, sizeof *g);
    uint32_t rank = lac_fabric_rank(o->fabric), parts = o->placement->parts;
    uint32_t stage = rank / parts;
    *g = (lac__group){.fabric = o->fabric,
                      .rank = rank,
                      .ranks = lac_fabric_ranks(o->fabric),
                      .deadline_ms = o->deadline_ms ? o->deadline_ms : LAC_FABRIC_STEP_MS,
                      .reducer = {.arg = e,
                                  .sum = parts_sum,
                                  .before = rank % parts > 0 ? parts_before : NULL,
                                  .whole = parts_whole}};
    e->group = g;
    e->shard = (lac__shard){.stages = o->placement->stages,
                            .stage = stage,
                            .parts = parts,
                            .part = rank % parts,
                            .layer_first = o->placement->layer_first[stage],
                            .layer_end = o->placement->layer_first[stage + 1],
                            .placement = o->placement,
                            .sum = parts > 1 ? &g->reducer : NULL};
    return digests_agree(e, err);
}

lac_status lac__group_blocks(lac_engine *e, uint32_t *blocks, lac_error *err)
{
    lac__group *g = e->group;
    if (!g)
        return LAC_OK;
    size_t bytes = sizeof *blocks;
    lac_fabric_call call = {.step = 0, .deadline_ns = lac_now_ns() + LAC__LOAD_MS * MS};
    lac_status status =
        lac_fabric_broadcast(g->fabric, 0, call, blocks, sizeof *blocks, &bytes, err);
    if (status == LAC_OK && bytes != sizeof *blocks)
        return lac_fail(err, LAC_EPROTO, "the KV pool's size has %zu bytes", bytes);
    return status;
}

lac_status lac__group_ready(lac_engine *e, lac_error *err)
{
    lac__group *g = e->group;
    if (!g)
        return LAC_OK;
    lac_status status = lac__group_reserve(e, err);
    lac_fabric_call call = {.step = 0, .deadline_ns = lac_now_ns() + LAC__LOAD_MS * MS};
    if (status == LAC_OK)
        status = lac_fabric_barrier(g->fabric, (lac_fabric_span){0, g->ranks}, call, err);
    g->formed = status == LAC_OK;
    return status;
}

void lac__group_close(lac_engine *e, const lac_error *failed)
{
    lac__group *g = e->group;
    if (!g)
        return;
    lac_error err = {0};
    if (failed)
        lac_fabric_abort(g->fabric, failed->text);
    else if (g->formed && g->rank == 0)
        (void)lac__order_send(e, NULL, &err);
    lac__group_release(g);
    free(g);
    e->group = NULL;
}

/* ---- which stages a batch needs ---- */

static bool stage_runs(const lac_engine *e, const lac_batch *batch, uint32_t stage)
{
    const lac_placement *p = e->shard.placement;
    if (stage == 0 || (stage + 1 == p->stages && batch->logit_rows_count > 0))
        return true; /* embeds; has the head */
    for (uint32_t c = 0; c < e->classes_count; c++)
        for (uint32_t u = 2 * p->layer_first[stage];
             e->step.class_rows[c] > 0 && u < 2 * p->layer_first[stage + 1]; u++)
            if (!lac_mask_has(&e->classes[c].erased, u) || lac_mask_has(&e->classes[c].patched, u))
                return true;
    return false;
}

/* The next stage that runs, or `stages`. */
static uint32_t stage_after(const lac_engine *e, const lac_batch *batch, uint32_t stage)
{
    do
        stage++;
    while (stage < e->shard.stages && !stage_runs(e, batch, stage));
    return stage;
}

static uint32_t stage_before(const lac_engine *e, const lac_batch *batch, uint32_t stage)
{
    LAC_ASSERT(stage > 0);
    do
        stage--;
    while (!stage_runs(e, batch, stage));
    return stage;
}

/* ---- this rank's share of a step ----
 *
 * Many rows go through the stages in pieces, so that the next stage works on one while this one
 * works on the next. All ranks cut alike; a row's bits do not depend on the cut. */

enum { PIECE_ROWS = 16, PIECES_A_STAGE = 4 }; /* fewest rows; more pieces gain little */

static uint32_t pieces_of(const lac_engine *e, const lac_batch *batch)
{
    uint32_t most = PIECES_A_STAGE * e->shard.stages, count = batch->rows / PIECE_ROWS;
    return e->shard.stages == 1 || count < 2 ? 1 : count < most ? count : most;
}

/* Rows from … to−1 of a batch as one of their own. Its logit rows are the batch's, of which the row
 * numbers are the caller's to shift. */
static void piece_cut(lac_engine *e, const lac_batch *whole, const uint32_t whole_rows[],
                      uint32_t from, uint32_t to, lac_batch *out)
{
    lac__group *g = e->group;
    uint32_t class_rows[LAC_CLASSES_MAX] = {0}, first = 0;
    *out = (lac_batch){.rows = to - from,
                       .tokens = whole->tokens + from,
                       .segments = g->piece,
                       .logit_rows = whole->logit_rows};
    for (uint32_t c = 0; c < e->classes_count; first += whole_rows[c++]) {
        uint32_t begin = first > from ? first : from, end = first + whole_rows[c];
        end = end < to ? end : to;
        class_rows[c] = begin < end ? end - begin : 0;
    }
    for (uint32_t i = 0; i < whole->segments_count; i++) {
        lac_segment s = whole->segments[i];
        uint32_t begin = s.row > from ? s.row : from;
        uint32_t end = s.row + s.rows < to ? s.row + s.rows : to;
        if (begin >= end)
            continue;
        s.pos += begin - s.row;
        s.row = begin - from;
        s.rows = end - begin;
        g->piece[out->segments_count++] = s;
    }
    for (uint32_t i = 0; i < whole->logit_rows_count; i++) {
        if (whole->logit_rows[i].row < from)
            out->logit_rows++;
        else if (whole->logit_rows[i].row < to)
            out->logit_rows_count++;
    }
    lac__classes_batch(e, class_rows, out);
}

/* Returns what became of the messages; what became of the arithmetic is in *own, and the others do
 * not wait in vain for this rank when it failed. Row 0 of the batch is row `from` of the step. */
static lac_status piece_run(lac_engine *e, const lac_batch *batch, uint32_t from, lac_error *own,
                            lac_error *err)
{
    lac__group *g = e->group;
    const lac__shard *shard = &e->shard;
    size_t hidden = e->model->hidden, bytes = batch->rows * hidden * sizeof(float);
    float *in = g->rows_in + from * hidden, *out = g->rows_out + from * hidden;
    lac_status status = LAC_OK;
    if (!stage_runs(e, batch, shard->stage))
        return LAC_OK;
    if (shard->stage > 0) {
        uint32_t before = stage_before(e, batch, shard->stage) * shard->parts + shard->part;
        status = lac_fabric_receive(g->fabric, before, LAC_FABRIC_ROWS, lac__group_call(g), in,
                                    bytes, NULL, err);
        if (status != LAC_OK)
            return status;
    }
    uint32_t after = stage_after(e, batch, shard->stage);
    lac_batch mine = *batch;
    mine.residual_in = shard->stage > 0 ? in : NULL;
    mine.residual_out = after < shard->stages ? out : NULL;
    if (!lac__shard_last(shard))
        mine.logit_rows_count = 0;
    g->sum_err = (lac_error){0};
    lac_error failed = {0};
    failed.status = e->table->run(e->backend, e->program.ops, e->program.count, &mine, &failed);
    if (g->sum_err.status != LAC_OK) {
        *err = g->sum_err;
        return g->sum_err.status;
    }
    if (own->status == LAC_OK)
        *own = failed;
    for (uint32_t i = 0; i < mine.logit_rows_count; i++)
        mine.logit_rows[i].best_token += lac__shard_vocab_first(shard);
    if (after < shard->stages)
        status = lac_fabric_send(g->fabric, after * shard->parts + shard->part, LAC_FABRIC_ROWS,
                                 lac__group_call(g), out, bytes, err);
    return status;
}

static lac_status share_run(lac_engine *e, const lac_batch *batch, lac_error *own, lac_error *err)
{
    uint32_t pieces = pieces_of(e, batch), class_rows[LAC_CLASSES_MAX];
    if (pieces == 1)
        return piece_run(e, batch, 0, own, err);
    memcpy(class_rows, e->step.class_rows, sizeof class_rows);
    lac_status status = LAC_OK;
    for (uint32_t p = 0; p < pieces && status == LAC_OK; p++) {
        lac_batch piece;
        uint32_t from = batch->rows * p / pieces, to = batch->rows * (p + 1) / pieces;
        piece_cut(e, batch, class_rows, from, to, &piece);
        for (uint32_t i = 0; i < piece.logit_rows_count; i++)
            piece.logit_rows[i].row -= from;
        status = piece_run(e, &piece, from, own, err);
        for (uint32_t i = 0; i < piece.logit_rows_count; i++)
            piece.logit_rows[i].row += from;
    }
    return status;
}

/* ---- the leader ---- */

static lac_status lead(lac_engine *e, lac_batch *batch, lac_error *own, lac_error *err)
{
    lac__group *g = e->group;
    lac_status status = lac__order_send(e, batch, err);
    if (status == LAC_OK)
        status = share_run(e, batch, own, err);
    if (status == LAC_OK && e->shard.stages > 1)
        for (uint32_t i = 0; i < batch->logit_rows_count; i++) {
            batch->logit_rows[i].best_logit = -INFINITY;
            batch->logit_rows[i].best_token = UINT32_MAX;
        }
    for (uint32_t r = 1; r < g->ranks && status == LAC_OK; r++)
        status = lac__result_take(e, batch, r, own, err);
    return status == LAC_OK ? lac_fabric_settle(g->fabric, lac__group_call(g), err) : status;
}

lac_status lac__group_run(lac_engine *e, lac_batch *batch, lac_error *err)
{
    if (e->trace)
        return lac__trace_run(e, batch, err);
    if (!e->group)
        return e->table->run(e->backend, e->program.ops, e->program.count, batch, err);
    LAC_ASSERT(e->group->rank == 0);
    lac_error own = {0};
    const lac_error *over = &e->group->over;
    if (over->status != LAC_OK)
        return lac_fail(err, over->status, "%s", over->text);
    lac_status status = lead(e, batch, &own, err);
    if (status != LAC_OK) {
        lac_fabric_abort(e->group->fabric, err->text);
        e->group->over = *err;
    } else if (own.status != LAC_OK) {
        return lac_fail(err, own.status, "%s", own.text);
    }
    return status;
}

bool lac_engine_group_over(const lac_engine *e, lac_error *why)
{
    if (!e->group || e->group->over.status == LAC_OK)
        return false;
    *why = e->group->over;
    return true;
}

/* ---- a follower ---- */

static lac_status follow_step(lac_engine *e, lac_batch *batch, lac_error *err)
{
    lac_error own = {0};
    e->steps += stage_runs(e, batch, e->shard.stage);
    lac_status status = share_run(e, batch, &own, err);
    if (status == LAC_OK)
        status = lac__result_send(e, batch, &own, err);
    return status;
}

lac_status lac_engine_follow(lac_engine *e, lac_error *err)
{
    LAC_ASSERT(e->group && e->group->rank > 0);
    lac_batch batch;
    bool stop = false;
    lac_status status;
    while ((status = lac__order_receive(e, &batch, &stop, err)) == LAC_OK && !stop) {
        status = follow_step(e, &batch, err);
        if (status != LAC_OK)
            break;
    }
    if (status != LAC_OK)
        lac_fabric_abort(e->group->fabric, err->text);
    return status;
}
