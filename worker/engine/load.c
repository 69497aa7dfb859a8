/* From a model file to an engine that can step, and back. Sizes everything once: nothing grows
 * later. The thread that calls create owns the engine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/text.h"
#include "engine/trace.h"
#include "kernels/cuda.h"
#include "parts.h"

/* ---- sizes ---- */

/* Bytes of memory this process may use: the machine's, or the control group's when that is less. */
static uint64_t memory_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t bytes = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : UINT64_C(1) << 30;
    FILE *file = fopen("/sys/fs/cgroup/memory.max", "r");
    if (!file)
        return bytes;
    char line[32] = "";
    if (fgets(line, sizeof(line), file)) {
        int64_t limit;
        line[strcspn(line, "\n")] = '\0';
        if (lac_parse_i64(line, 1, INT64_MAX, &limit) && (uint64_t)limit < bytes)
            bytes = (uint64_t)limit;
    }
    fclose(file);
    return bytes;
}

static lac_status options_check(const lac_engine_options *o, lac_error *err)
{
    if (!o->model_path || !*o->model_path)
        return lac_fail(err, LAC_EINVAL, "model is empty, a GGUF file is needed");
    if (o->slots > LAC_SLOTS_MAX)
        return lac_fail(err, LAC_EINVAL, "slots is %u, allowed 1..%d", o->slots, LAC_SLOTS_MAX);
    if (o->queue_max > LAC_REQUESTS_MAX)
        return lac_fail(err, LAC_EINVAL, "queue_max is %u, allowed 1..%d", o->queue_max,
                        LAC_REQUESTS_MAX);
    return LAC_OK;
}

static lac_status sizes_set(lac_engine *e, const lac_engine_options *o, lac_error *err)
{
    uint32_t most = e->model->context < LAC_CONTEXT_MAX ? e->model->context : LAC_CONTEXT_MAX;
    e->context_max = o->context_max ? o->context_max : most;
    if (e->context_max < 2 || e->context_max > most)
        return lac_fail(err, LAC_EINVAL, "context_max is %u, allowed 2..%u (the model's own)",
                        e->context_max, most);
    e->slots = o->slots ? o->slots : LAC__SLOTS_DEFAULT;
    if (e->slots > LAC_BATCH_ROWS_MAX)
        e->slots = LAC_BATCH_ROWS_MAX; /* every decode has its row in each step */
    e->queue_max = o->queue_max ? o->queue_max : LAC__QUEUE_DEFAULT;
    e->live_max = e->slots + e->queue_max;
    e->kv_type = o->isa == LAC_ISA_REFERENCE && o->kv_type == LAC_KV_F16 ? LAC_KV_F32 : o->kv_type;
    e->rows_max = LAC_BATCH_ROWS_MAX;
    uint64_t score_rows = (16u << 20) / (sizeof(float) * (uint64_t)e->model->vocab);
    e->score_rows = score_rows < 1                 ? 1
                    : score_rows > LAC__SCORE_ROWS ? LAC__SCORE_ROWS
                                                   : (uint32_t)score_rows;
    e->draft_rows = LAC_BATCH_ROWS_MAX - e->slots < LAC__DRAFT_ROWS ? LAC_BATCH_ROWS_MAX - e->slots
                                                                    : LAC__DRAFT_ROWS;
    e->speculate = o->speculate;
    e->itl_target_us = 1000.0 * (o->itl_target_ms ? o->itl_target_ms : LAC__ITL_DEFAULT_MS);
    return LAC_OK;
}

/* ---- parts, in the order they need each other ---- */

static lac_status backend_open(lac_engine *e, const lac_engine_options *o, lac_error *err)
{
    const lac_model *model = e->model;
    lac_backend_options options = {.isa = o->isa,
                                   .threads = o->threads,
                                   .pin = o->pin,
                                   .kv_type = e->kv_type,
                                   .rows_max = e->rows_max,
                                   .logit_rows_max = e->slots + e->draft_rows > e->score_rows
                                                         ? e->slots + e->draft_rows
                                                         : e->score_rows,
                                   .hidden = model->hidden,
                                   .vocab = lac__shard_vocab(&e->shard, model),
                                   .context_max = e->context_max};
    for (uint32_t l = e->shard.layer_first; l < e->shard.layer_end; l++) {
        lac_place_part part = lac__shard_part(&e->shard, model, e->shard.part, l);
        uint32_t q = part.heads * model->head_dim, kv = part.kv_heads * model->head_dim;
        options.q_width_max = q > options.q_width_max ? q : options.q_width_max;
        options.kv_width_max = kv > options.kv_width_max ? kv : options.kv_width_max;
        options.ffn_max = part.ffn > options.ffn_max ? part.ffn : options.ffn_max;
    }
    e->table = lac_cpu_backend();
    if (o->device && strcmp(o->device, "cpu") != 0) {
        if (!lac_cuda_device_parse(o->device, &options.device))
            return lac_fail(err, LAC_EINVAL, "device is \"%.32s\", allowed: cpu, cuda, cuda:N",
                            o->device);
        e->table = lac_cuda_backend();
    }
    return e->table->create(&options, &e->backend, err);
}

/* Blocks that a unit holds of a full context: of a window what it shows while the largest chunk
 * runs.
 */
static uint64_t context_blocks(const lac_engine *e, uint32_t window)
{
    uint64_t all = (e->context_max + LAC_KV_BLOCK - 1) / LAC_KV_BLOCK;
    uint64_t seen = ((uint64_t)window + e->rows_max) / LAC_KV_BLOCK + 2;
    return window > 0 && seen < all ? seen : all;
}

/* Default: a quarter of the memory shared by the ranks here, at most LAC__KV_CONTEXTS full
 * contexts. */
static uint32_t pool_blocks(lac_engine *e, const lac_engine_options *o, uint64_t block_bytes)
{
    uint64_t bytes = o->kv_bytes;
    if (bytes == 0) {
        const lac__kv_layout *l = &e->layout;
        uint64_t most = 0;
        for (uint32_t a = 0; a < l->units_count; a++)
            most += LAC__KV_CONTEXTS * l->whole_bytes[l->size_of[a]] *
                    context_blocks(e, e->model->layers[l->unit_of[a] / 2].window);
        bytes = memory_bytes() / 4 / (o->ranks_here ? o->ranks_here : 1);
        bytes = bytes < most ? bytes : most;
    }
    uint64_t blocks = bytes / block_bytes;
    return blocks > UINT32_MAX / LAC_LAYERS_MAX ? UINT32_MAX / LAC_LAYERS_MAX : (uint32_t)blocks;
}

static void windows_find(const lac_engine *e, bool *windowed, lac_kv_options *options)
{
    for (uint32_t a = 0; a < e->layout.units_count; a++) {
        uint32_t window = e->model->layers[e->layout.unit_of[a] / 2].window;
        windowed[a] = window > 0;
        options->window = window > options->window ? window : options->window;
    }
    options->windowed = options->window > 0 ? windowed : NULL;
}

/* Twice the blocks that fit, since a class that keeps half of the units fits twice as many.
 * Windowed units leave blocks without pages of theirs. */
static uint32_t prefix_blocks(const lac_engine *e, const lac_kv_options *options)
{
    uint64_t blocks = LAC_PREFIX_CACHE_MAX;
    for (uint32_t s = 0; s < options->sizes_count; s++) {
        uint32_t whole = 0; /* units without a window */
        for (uint32_t a = 0; a < options->units_count; a++)
            whole += options->size_of[a] == s && !(options->windowed && options->windowed[a]);
        uint64_t fit = options->pages[s] / (whole ? whole : e->layout.units_of[s]);
        blocks = 2 * fit < blocks ? 2 * fit : blocks;
    }
    return (uint32_t)blocks;
}

static lac_status pool_open(lac_engine *e, const lac_engine_options *o, lac_error *err)
{
    lac__kv_layout *layout = &e->layout;
    lac_status status =
        lac__kv_layout_create(e->model, &e->dropped, &e->shard, e->table, e->backend, layout, err);
    if (status != LAC_OK)
        return status;
    lac_kv_options options = {.block_tokens = LAC_KV_BLOCK,
                              .context_max = e->context_max,
                              .sequences_max =
                                  e->slots < 2 ? 2 : e->slots, /* shadow scoring opens two */
                              .units_count = layout->units_count,
                              .size_of = layout->size_of,
                              .sizes_count = layout->sizes_count};
    bool windowed[LAC_LAYERS_MAX];
    uint64_t block_bytes = 0;
    for (uint32_t s = 0; s < layout->sizes_count; s++)
        block_bytes += (uint64_t)layout->units_of[s] * layout->whole_bytes[s];
    uint32_t blocks = block_bytes > 0 ? pool_blocks(e, o, block_bytes) : 0;
    status = lac__group_blocks(e, &blocks, err);
    if (status != LAC_OK)
        return status;
    if (block_bytes > 0 && blocks == 0)
        return lac_fail(err, LAC_EINVAL, "the KV pool has %llu bytes, %d tokens alone take %llu",
                        (unsigned long long)o->kv_bytes, LAC_KV_BLOCK,
                        (unsigned long long)block_bytes);
    for (uint32_t s = 0; s < layout->sizes_count; s++)
        options.pages[s] = blocks * layout->units_of[s];
    windows_find(e, windowed, &options);
    if (!o->without_prefix_cache) {
        options.prefix_blocks = prefix_blocks(e, &options);
        lac_random_bytes(&options.prefix_seed, sizeof options.prefix_seed);
    }
    status = lac_kv_create(&options, &e->pool, err);
    for (uint32_t s = 0; s < layout->sizes_count && status == LAC_OK; s++) {
        layout->pages[s] = options.pages[s];
        if (!layout->here[s])
            continue;
        layout->region_bytes[s] = options.pages[s] * layout->page_bytes[s];
        status = e->table->kv_alloc(e->backend, layout->region_bytes[s], &layout->regions[s], err);
        e->kv_bytes += layout->region_bytes[s];
    }
    return status;
}

static lac_status program_open(lac_engine *e, const lac_engine_options *o, lac_error *err)
{
    lac__patch_list lists[LAC_CLASSES_MAX];
    for (uint32_t c = 0; c < e->classes_count; c++)
        lists[c] = (lac__patch_list){c, e->classes[c].patches_count, e->classes[c].patches};
    bool tap = false;
    for (uint32_t c = 0; c < e->classes_count; c++) {
        /* One device's states are needed in this process's memory. */
        e->classes[c].has_probe &= !e->group && strcmp(e->table->name, "cpu") == 0;
        tap |= e->classes[c].has_probe;
    }
    lac_status status = lac__program_create(e->model, &e->dropped, &e->shard, lists,
                                            e->classes_count, tap, e->table, e->backend, &e->layout,
                                            o->progress, o->progress_arg, &e->program, err);
    for (uint32_t c = 0; c < e->classes_count; c++)
        e->classes[c].patches = NULL; /* the caller's; what is needed of them is packed */
    return status;
}

static void end_tokens_find(lac_engine *e)
{
    uint32_t size = lac_tokenizer_size(e->tokenizer);
    for (int pass = 0; pass < 2; pass++) {
        size_t count = 0;
        for (uint32_t id = 0; id < size && id < e->model->vocab; id++) {
            if (!lac_tokenizer_is_end(e->tokenizer, id))
                continue;
            if (pass == 1)
                e->end_tokens[count] = id;
            count++;
        }
        if (pass == 0)
            e->end_tokens = lac_alloc(count + 1, sizeof(uint32_t));
        e->end_tokens_count = count;
    }
}

static void step_arrays_create(lac_engine *e)
{
    lac__step_arrays *step = &e->step;
    e->live = lac_alloc(e->live_max, sizeof(lac__sequence *));
    step->sequences = lac_alloc(e->live_max, sizeof(*step->sequences));
    step->order.runs = lac_alloc(e->live_max, sizeof(*step->order.runs));
    step->order.preempted = lac_alloc(e->live_max, sizeof(*step->order.preempted));
    step->tokens = lac_alloc(e->rows_max, sizeof(*step->tokens));
    step->segments = lac_alloc(e->slots, sizeof(*step->segments));
    step->logit_rows = lac_alloc(e->slots + e->draft_rows, sizeof(*step->logit_rows));
    step->top =
        lac_alloc((size_t)(e->slots + e->draft_rows) * LAC_TOP_LOGITS_MAX, sizeof(*step->top));
    step->logit_of = lac_alloc(e->slots, sizeof(*step->logit_of));
    step->drafts = lac_alloc(e->slots, sizeof(*step->drafts));
    step->status = lac_alloc(e->slots, sizeof(*step->status));
    step->kv = lac_alloc(e->slots, sizeof(*step->kv));
    step->shares = lac_alloc(e->slots, sizeof(*step->shares));
    for (uint32_t c = 0; c < e->classes_count; c++)
        if (e->classes[c].has_probe && !step->tap)
            step->tap = lac_alloc((size_t)e->rows_max * e->model->hidden, sizeof(*step->tap));
    step->sorted = lac_alloc(e->live_max, sizeof(*step->sorted));
}

lac_status lac_engine_create(const lac_engine_options *options, lac_engine **out, lac_error *err)
{
    lac_status status = options_check(options, err);
    if (status != LAC_OK)
        return status;
    lac_engine *e = lac_alloc(1, sizeof(*e));
    status = lac_model_open(options->model_path, &e->model, err);
    if (status == LAC_OK)
        status = sizes_set(e, options, err);
    if (status == LAC_OK)
        status = lac__classes_find(e, options, err);
    if (status == LAC_OK)
        status = lac__group_open(e, options, err);
    if (status == LAC_OK && (!e->group || lac_fabric_rank(options->group.fabric) == 0))
        status = lac_tokenizer_create(e->model->gguf, &e->tokenizer, err);
    if (status == LAC_OK)
        status = backend_open(e, options, err);
    if (status == LAC_OK)
        status = pool_open(e, options, err);
    if (status == LAC_OK)
        status = lac__classes_size(e, err);
    if (status == LAC_OK)
        status = program_open(e, options, err);
    if (status == LAC_OK)
        status = lac__group_ready(e, err);
    if (status != LAC_OK) {
        if (e->model)
            lac__group_close(e, err ? err : &(const lac_error){.text = "it did not load"});
        lac_engine_destroy(&e);
        return status;
    }
    if (e->tokenizer)
        end_tokens_find(e);
    step_arrays_create(e);
    lac_info("model %s: %u layers, %.1f MB weights, isa %s, threads %u, context %u, KV pool %.1f "
             "MB (%s)",
             e->model->name, e->model->layers_count, (double)e->program.weight_bytes / 1e6,
             e->table->isa(e->backend), e->table->threads(e->backend), e->context_max,
             (double)e->kv_bytes / 1e6, lac_kv_type_name(e->kv_type));
    *out = e;
    return LAC_OK;
}

void lac_engine_destroy(lac_engine **engine)
{
    if (!engine || !*engine)
        return;
    lac_engine *e = *engine;
    LAC_ASSERT(!e->in_step);
    lac_engine_shadow_stop(e);
    lac_engine_trace(e, NULL, NULL, NULL);
    for (uint32_t i = 0; i < e->live_count; i++)
        lac__sequence_destroy(e, &e->live[i]);
    lac__group_close(e, NULL);
    if (e->backend) {
        lac__program_destroy(e->table, e->backend, &e->program);
        for (uint32_t s = 0; s < e->layout.sizes_count; s++)
            if (e->layout.regions[s])
                e->table->kv_free(e->backend, &e->layout.regions[s], e->layout.region_bytes[s]);
    }
    if (e->model)
        lac__classes_free(e);
    lac_kv_destroy(&e->pool);
    lac__kv_layout_destroy(&e->layout);
    if (e->backend)
        e->table->destroy(&e->backend);
    lac_tokenizer_destroy(&e->tokenizer);
    lac_model_close(&e->model);
    free(e->live);
    free(e->step.sequences);
    free(e->step.order.runs);
    free(e->step.order.preempted);
    free(e->step.tokens);
    free(e->step.tap);
    free(e->step.segments);
    free(e->step.logit_rows);
    free(e->step.top);
    free(e->step.logit_of);
    free(e->step.drafts);
    free(e->step.draft_logits);
    free(e->step.status);
    free(e->step.kv);
    free(e->step.shares);
    free(e->step.sorted);
    free(e->end_tokens);
    lac_words_destroy(&e->words);
    lac_buf_free(&e->text);
    free(e);
    *engine = NULL;
}

/* ---- what others may read ---- */

const lac_model *lac_engine_model(const lac_engine *engine)
{
    return engine->model;
}

const lac_tokenizer *lac_engine_tokenizer(const lac_engine *engine)
{
    return engine->tokenizer;
}

void lac_engine_stats_read(const lac_engine *engine, lac_engine_stats *out)
{
    uint32_t running = 0, units = 2 * engine->model->layers_count;
    for (uint32_t i = 0; i < engine->live_count; i++)
        running += engine->live[i]->kv != LAC_KV_SEQUENCE_NONE;
    *out = (lac_engine_stats){.isa = engine->table->isa(engine->backend),
                              .threads = engine->table->threads(engine->backend),
                              .slots = engine->slots,
                              .context_max = engine->context_max,
                              .kv_type = engine->kv_type,
                              .kv_bytes = engine->kv_bytes,
                              .kv_pages = lac_kv_pages_count(engine->pool),
                              .kv_pages_used = lac_kv_used_count(engine->pool),
                              .kv_pages_cached = lac_kv_cached_count(engine->pool),
                              .weight_bytes = engine->program.weight_bytes,
                              .running = running,
                              .queued = engine->live_count - running,
                              .steps = engine->steps,
                              .prompt_tokens = engine->prompt_tokens,
                              .output_tokens = engine->output_tokens,
                              .cached_tokens = engine->cached_tokens,
                              .preemptions = engine->preemptions,
                              .draft_tokens = engine->draft_tokens,
                              .draft_accepted = engine->draft_accepted,
                              .itl_us = engine->itl_us,
                              .prefill_us_per_token = engine->cost.row_us,
                              .active_layers = engine->active_layers,
                              .classes_count = engine->classes_count,
                              .units_count = units,
                              .units_loaded = units - lac_mask_count(&engine->dropped),
                              .units_zeroed = lac_mask_count(&engine->zeroed),
                              .unit_tokens = engine->account.unit_tokens,
                              .unit_tokens_skipped = engine->account.unit_tokens_erased,
                              .flops = engine->account.flops,
                              .class_reruns = engine->class_reruns,
                              .class_unsure = engine->class_unsure,
                              .class_doubted = engine->class_doubted};
    for (uint32_t u = 0; u < units; u++)
        if (lac_mask_has(&engine->dropped, u))
            out->dropped_bytes += lac_model_unit_bytes(engine->model, u);
}
