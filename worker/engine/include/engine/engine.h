/* The engine: a model in memory, its KV pool, and the sequences that run on it. Takes token ids, gives
 * tokens and finished text; batches everything that runs. Knows no sockets, no chat templates, no
 * files but the model. One thread owns it and calls everything below, except where said. */
#ifndef LAC_ENGINE_H
#define LAC_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/msg.h"
#include "base/sampling.h"
#include "base/status.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "tokenizer/tokenizer.h"

typedef struct lac_engine lac_engine;

typedef struct {
    const char *model_path;
    uint32_t threads;       /* 0 = cores this process may use */
    bool pin;
    lac_isa isa;
    uint32_t context_max;   /* 0 = the model's own */
    uint32_t slots;         /* sequences at once, 1 … LAC_SLOTS_MAX; 0 = 16 */
    uint32_t queue_max;     /* sequences waiting for a slot or pages; 0 = 64 */
    uint64_t kv_bytes;      /* 0 = min(25 % of RAM / ranks_here, 16 full contexts) */
    uint32_t ranks_here;    /* engines that share this machine; 0 = 1 */
    uint32_t itl_target_ms; /* shapes the prefill chunk while others decode; 0 = 50 */
    /* Called during load with bytes done and all; may be NULL. */
    void (*progress)(void *arg, uint64_t done, uint64_t total);
    void *progress_arg;
} lac_engine_options;

lac_status lac_engine_create(const lac_engine_options *options, lac_engine **out, lac_error *err);
void lac_engine_destroy(lac_engine **engine);

/* Read-only parts; both are safe from any thread while the engine lives. */
const lac_model *lac_engine_model(const lac_engine *engine);
const lac_tokenizer *lac_engine_tokenizer(const lac_engine *engine);

typedef struct {
    const char *isa;
    uint32_t threads, slots, context_max;
    uint64_t kv_bytes, kv_pages, kv_pages_used;
    uint64_t weight_bytes;
    uint32_t running, queued;
    uint64_t steps, prompt_tokens, output_tokens;
    double itl_us, prefill_us_per_token; /* smoothed; 0 before the first */
    uint32_t active_layers;              /* of the last step */
} lac_engine_stats;
void lac_engine_stats_read(const lac_engine *engine, lac_engine_stats *out);

typedef struct {
    uint64_t id; /* the caller's; unique among live sequences */
    const uint32_t *prompt; /* copied; ≥ 1 token, ≤ context_max − 1 */
    size_t prompt_count;
    const uint32_t *accepted; /* output of an earlier attempt to continue; copied */
    size_t accepted_count;
    lac_sampling sampling;   /* copied, has_seed true */
    bool raw_text;           /* special tokens in the output give their text */
} lac_engine_request;

/* Queues a sequence. LAC_EINVAL (field, value, limit), LAC_ETOOBIG (prompt over the context or the
 * pool), LAC_EEXIST, LAC_BUSY when queue_max wait. */
lac_status lac_engine_submit(lac_engine *engine, const lac_engine_request *request, lac_error *err);
/* Drops a sequence before the next step; its pages are free at once and no event follows.
 * LAC_ENOTFOUND when it is not (any more) there. */
lac_status lac_engine_cancel(lac_engine *engine, uint64_t id);

/* What one sequence gained in a step; pointers live until the callback returns. */
typedef struct {
    uint64_t id;
    lac_chunk chunk;   /* first_pos counts accepted tokens too */
    lac_finish finish; /* after anything but NONE the sequence is gone */
    lac_usage usage;
    lac_status error;
    const char *reason; /* with LAC_FINISH_ERROR */
} lac_engine_event;
typedef void (*lac_engine_sink)(void *arg, const lac_engine_event *event);

/* Runs one step over everything that can run and reports through `sink`. Returns false when there was
 * nothing to do. */
bool lac_engine_step(lac_engine *engine, lac_engine_sink sink, void *arg);

/* For offline scoring: runs `count` tokens as one sequence (chunked, nothing else may run) and calls
 * `row` for each position i with the logits [vocab] that follow token i. */
typedef void (*lac_engine_row)(void *arg, size_t index, const float *logits);
lac_status lac_engine_score(lac_engine *engine, const uint32_t *tokens, size_t count,
                            lac_engine_row row, void *arg, lac_error *err);

#endif
