#include "fake_engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "engine/engine.h"
#include "plan/plan.h"

fake_state *fake;

typedef struct {
    uint64_t id;
    uint32_t prompt_first, prompt_count, pos, end, class_index;
} sequence;

struct lac_engine {
    lac_model model;
    sequence sequences[FAKE_SLOTS * 4];
    uint32_t count;
    uint64_t steps, output, reruns;
    uint32_t classes_count; /* full included */
    uint64_t requests[LAC_CLASSES_MAX];
    uint32_t shadow_left, shadow_tokens; /* steps; 0 = none is scored */
};

lac_status lac_engine_create(const lac_engine_options *options, lac_engine **out, lac_error *err)
{
    if (strcmp(options->model_path, "absent") == 0)
        return lac_fail(err, LAC_EIO, "model absent: no such file");
    while (atomic_load(&fake->hold_load))
        usleep(1000);
    if (atomic_load(&fake->load_fails))
        return lac_fail(err, LAC_ENOMEM, "no memory for the fake");
    lac_engine *engine = lac_alloc(1, sizeof(*engine));
    engine->model.layers_count = 3;
    engine->model.vocab = FAKE_VOCAB;
    snprintf(engine->model.name, sizeof(engine->model.name), "fake");
    snprintf(engine->model.architecture, sizeof(engine->model.architecture), "llama");
    engine->classes_count = options->classes_count + 1;
    *out = engine;
    return LAC_OK;
}

void lac_engine_destroy(lac_engine **engine)
{
    free(*engine);
    *engine = NULL;
}

const lac_model *lac_engine_model(const lac_engine *engine)
{
    return &engine->model;
}

const lac_tokenizer *lac_engine_tokenizer(const lac_engine *engine)
{
    (void)engine;
    return NULL;
}

void lac_engine_stats_read(const lac_engine *engine, lac_engine_stats *out)
{
    *out = (lac_engine_stats){.isa = "fake",
                              .threads = 1,
                              .slots = FAKE_SLOTS,
                              .context_max = FAKE_CONTEXT,
                              .kv_pages = 50,
                              .kv_pages_used = engine->count,
                              .weight_bytes = 1000,
                              .running = engine->count,
                              .steps = engine->steps,
                              .output_tokens = engine->output,
                              .class_reruns = engine->reruns,
                              .active_layers = 3};
}

lac_status lac_engine_follow(lac_engine *engine, lac_error *err)
{
    (void)engine;
    while (!atomic_load(&fake->let_go) && !atomic_load(&fake->group_over))
        usleep(1000);
    return atomic_load(&fake->let_go) ? LAC_OK : lac_fail(err, LAC_EPEER, "rank 0 is gone");
}

bool lac_engine_group_over(const lac_engine *engine, lac_error *why)
{
    (void)engine;
    if (!atomic_load(&fake->group_over))
        return false;
    lac_fail(why, LAC_EPEER, "rank 1 is gone");
    return true;
}

lac_unit_state lac_engine_unit(const lac_engine *engine, uint32_t unit, lac_unit_record *record)
{
    (void)engine, (void)record;
    return unit == 2 ? LAC_UNIT_ERASED : LAC_UNIT_ACTIVE;
}

lac_status lac_engine_submit(lac_engine *engine, const lac_engine_request *request, lac_error *err)
{
    if (request->prompt[0] == FAKE_PROMPT_BUSY || engine->count == FAKE_SLOTS * 4)
        return lac_fail(err, LAC_BUSY, "queue holds 64 sequences, allowed at most 64");
    engine->sequences[engine->count++] = (sequence){
        .id = request->id,
        .prompt_first = request->prompt[0],
        .prompt_count = (uint32_t)request->prompt_count,
        .pos = (uint32_t)request->accepted_count,
        .class_index = request->class_index,
        .end = request->sampling.max_tokens > 0 ? request->sampling.max_tokens : UINT32_MAX};
    atomic_fetch_add(&fake->submitted, 1);
    atomic_store(&fake->running, engine->count);
    return LAC_OK;
}

static void sequence_drop(lac_engine *engine, uint32_t i)
{
    engine->sequences[i] = engine->sequences[--engine->count];
    atomic_store(&fake->running, engine->count);
}

lac_status lac_engine_cancel(lac_engine *engine, uint64_t id)
{
    for (uint32_t i = 0; i < engine->count; i++)
        if (engine->sequences[i].id == id) {
            sequence_drop(engine, i);
            atomic_fetch_add(&fake->cancelled, 1);
            return LAC_OK;
        }
    return LAC_ENOTFOUND;
}

bool lac_engine_step(lac_engine *engine, lac_engine_sink sink, void *arg)
{
    if (engine->count == 0)
        return false;
    usleep(atomic_load(&fake->step_us));
    for (uint32_t i = engine->count; i-- > 0;) {
        sequence *s = &engine->sequences[i];
        uint32_t token = FAKE_TOKEN_BASE + s->pos % 100;
        char text[16];
        int length = snprintf(text, sizeof(text), "%u ", s->pos);
        lac_engine_event event = {
            .id = s->id,
            .chunk = {.first_pos = s->pos,
                      .tokens_count = 1,
                      .tokens = &token,
                      .text = {.data = text, .length = (uint32_t)length}},
            .usage = {.prompt_tokens = s->prompt_count, .completion_tokens = s->pos + 1}};
        s->pos++;
        if (s->prompt_first == FAKE_PROMPT_FAULT && s->pos == 3) {
            event.finish = LAC_FINISH_ERROR;
            event.error = LAC_EINTERNAL;
            event.reason = "the fake broke";
        } else if (s->pos >= s->end) {
            event.finish = LAC_FINISH_LENGTH;
        }
        lac_engine_account account;
        if (event.finish != LAC_FINISH_NONE) {
            bool rerun = s->prompt_first == FAKE_PROMPT_RERUN;
            engine->reruns += rerun;
            uint32_t class_index = rerun ? 0 : s->class_index;
            engine->requests[class_index]++;
            account = (lac_engine_account){.class_index = class_index,
                                           .class_name = class_index ? "one" : "full",
                                           .layers = 3,
                                           .active_layers = 3,
                                           .skip_rate = class_index ? 0.25 : 0,
                                           .flops = 1e6,
                                           .rerun = rerun};
            event.account = &account;
        }
        engine->output++;
        sink(arg, &event);
        if (event.finish != LAC_FINISH_NONE)
            sequence_drop(engine, i);
    }
    engine->steps++;
    atomic_fetch_add(&fake->steps, 1);
    return true;
}

/* ---- classes ---- */

bool lac_engine_class_read(const lac_engine *engine, uint32_t index, lac_engine_class_facts *out)
{
    if (index >= engine->classes_count)
        return false;
    *out = (lac_engine_class_facts){.name = index ? "one" : "full",
                                    .mask = index ? "A1" : "",
                                    .live = true,
                                    .active_layers = 3,
                                    .skip_rate = index ? 0.25 : 0,
                                    .cost = index ? 0.75 : 1,
                                    .requests = engine->requests[index]};
    return true;
}

lac_status lac_engine_shadow_start(lac_engine *engine, uint32_t class_index, const uint32_t *tokens,
                                   size_t prompt_count, size_t count, lac_error *err)
{
    (void)err, (void)tokens;
    if (engine->count > 0 || engine->shadow_left > 0 || class_index != 1)
        abort();
    atomic_fetch_add(&fake->shadow_starts, 1);
    engine->shadow_left = FAKE_SHADOW_STEPS;
    engine->shadow_tokens = (uint32_t)(count - prompt_count);
    return LAC_OK;
}

bool lac_engine_shadow_step(lac_engine *engine, lac_engine_shadow *out, lac_status *status)
{
    if (engine->count > 0 || engine->shadow_left == 0)
        abort();
    usleep(2000);
    *status = LAC_OK;
    *out = (lac_engine_shadow){.tokens = engine->shadow_tokens, .kl_mean = 0.5, .top1_agree = 0.75};
    return --engine->shadow_left == 0;
}

void lac_engine_shadow_stop(lac_engine *engine)
{
    engine->shadow_left = 0;
    atomic_fetch_add(&fake->shadow_stops, 1);
}

/* ---- the plan: one class ---- */

lac_status lac_plan_load(const char *path, const lac_model *model, lac_plan **out, lac_error *err)
{
    (void)path, (void)model, (void)err;
    lac_plan *plan = lac_alloc(1, sizeof(*plan));
    plan->classes_count = 1;
    lac_sha256("fake", 4, &plan->model_digest);
    lac_plan_class *one = &plan->classes[0];
    snprintf(one->name, sizeof(one->name), "one");
    one->digest.bytes[0] = 1;
    lac_mask_set(&one->mask, 2);
    one->serves[LAC_INPUT_CODE].tier = LAC_TIER_GOLD;
    one->serves[LAC_INPUT_CODE].certificate.kl_upper = 0.0078125;
    *out = plan;
    return LAC_OK;
}

void lac_plan_destroy(lac_plan **plan)
{
    free(*plan);
    *plan = NULL;
}

/* ---- the tokenizer: one token a byte ---- */

lac_status lac_tokenizer_encode(const lac_tokenizer *tokenizer, const char *text, size_t length,
                                lac_encode_options options, uint32_t **ids, size_t *count,
                                lac_error *err)
{
    (void)tokenizer;
    (void)options;
    (void)err;
    *ids = lac_alloc(length, sizeof(**ids));
    for (size_t i = 0; i < length; i++)
        (*ids)[i] = (unsigned char)text[i];
    *count = length;
    return LAC_OK;
}

void lac_tokenizer_piece(const lac_tokenizer *tokenizer, uint32_t id, bool special,
                         const char **bytes, size_t *length)
{
    (void)tokenizer;
    (void)id;
    (void)special;
    *bytes = "";
    *length = 0;
}

uint32_t lac_tokenizer_bos(const lac_tokenizer *tokenizer)
{
    (void)tokenizer;
    return LAC_TOKEN_NONE;
}

uint32_t lac_tokenizer_eos(const lac_tokenizer *tokenizer)
{
    (void)tokenizer;
    return LAC_TOKEN_NONE;
}

bool lac_tokenizer_add_bos(const lac_tokenizer *tokenizer)
{
    (void)tokenizer;
    return false;
}

uint32_t lac_tokenizer_find(const lac_tokenizer *tokenizer, const char *text, size_t length)
{
    (void)tokenizer;
    (void)text;
    (void)length;
    return LAC_TOKEN_NONE;
}

bool lac_tokenizer_is_control(const lac_tokenizer *tokenizer, uint32_t id)
{
    (void)tokenizer;
    (void)id;
    return false;
}

/* ---- the file: it has no chat template ---- */

bool lac_gguf_string(const lac_gguf *gguf, const char *key, const char **text, size_t *length,
                     lac_error *err)
{
    (void)gguf;
    (void)key;
    (void)text;
    (void)length;
    (void)err;
    return false;
}

void lac_model_digest(const lac_model *model, lac_digest *out)
{
    (void)model;
    lac_sha256("fake", 4, out);
}
