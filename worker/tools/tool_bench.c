/* lacuna-engine bench: speed of prefill and decode beside the memory bandwidth that the same
 * threads reach. Main thread, which also runs the engine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "engine_options.h"
#include "ranks.h"

typedef struct {
    lac_tool_engine engine;
    int64_t prefill, decode, batch, depth;
    bool json;
} bench_options;

#define ROW(...) LAC_TOOL_ROW(bench_options, __VA_ARGS__)
static const lac_option options[] = {
    LAC_TOOL_ENGINE_ROWS(bench_options),
    ROW(prefill, "prefill", LAC_OPT_INT, "N", "512", 1, LAC_CONTEXT_MAX,
        "prompt tokens of each sequence"),
    ROW(decode, "decode", LAC_OPT_INT, "N", "128", 1, LAC_CONTEXT_MAX,
        "decode steps that are measured"),
    ROW(batch, "batch", LAC_OPT_INT, "B", "1", 1, LAC_BATCH_ROWS_MAX, "sequences at once"),
    ROW(depth, "depth", LAC_OPT_INT, "N", "0", 0, LAC_CONTEXT_MAX,
        "tokens that are in the context ahead of the measured decode"),
    ROW(json, "json", LAC_OPT_BOOL, NULL, NULL, 0, 0,
        "print {\"prefill_tok_s\":…,\"decode_tok_s\":…,\"batch\":B,\"read_gb_s\":…}"),
};

static const lac_tool_spec spec = {
    .name = "bench",
    .synopsis = "--model FILE [--threads T] [--prefill N] [--decode N] [--batch B] [--json]",
    .help =
        "After a warm-up, measures prefill (tokens of all prompts by time) and decode (tokens of\n"
        "all sequences by time, each of them decoding), and the memory read bandwidth. No prefix\n"
        "cache, and no speculation unless --speculate on: random prompts soon run in circles.",
    .options = options,
    .options_count = sizeof options / sizeof options[0],
};

/* What the sequences of one phase have done. */
typedef struct {
    uint32_t started; /* sequences that have a token */
    uint32_t finished;
    uint64_t tokens;
    lac_status status;
    lac_error *err;
} phase;

static void take(void *arg, const lac_engine_event *event)
{
    phase *p = arg;
    p->tokens += event->chunk.tokens_count;
    if (event->chunk.tokens_count > 0 && event->chunk.first_pos == 0)
        p->started++;
    if (event->finish != LAC_FINISH_NONE)
        p->finished++;
    if (event->finish == LAC_FINISH_ERROR)
        p->status = lac_fail(p->err, event->error, "%s", event->reason ? event->reason : "failed");
}

/* Submits `batch` prompts of plain tokens, no two alike from the first token on. */
static lac_status submit(lac_engine *engine, uint32_t class_index, uint32_t batch, size_t tokens,
                         uint32_t max_tokens, lac_error *err)
{
    uint32_t vocab = lac_engine_model(engine)->vocab;
    uint32_t *ids = lac_alloc(tokens, sizeof(*ids));
    lac_status status = LAC_OK;
    lac_engine_request request = {.prompt = ids,
                                  .prompt_count = tokens,
                                  .sampling = lac_sampling_default(),
                                  .class_index = class_index};
    request.sampling.temperature = 0;
    request.sampling.has_seed = true;
    request.sampling.ignore_eos = true;
    request.sampling.max_tokens = max_tokens;
    for (uint32_t b = 0; b < batch && status == LAC_OK; b++) {
        lac_rng rng;
        lac_rng_seed(&rng, b + 1);
        for (size_t i = 0; i < tokens; i++)
            do
                ids[i] = (uint32_t)lac_rng_below(&rng, vocab);
            while (lac_tokenizer_is_control(lac_engine_tokenizer(engine), ids[i]));
        request.id = b;
        status = lac_engine_submit(engine, &request, err);
    }
    free(ids);
    return status;
}

/* Runs `batch` prompts to their first token; seconds it took. */
static lac_status prefill(lac_engine *engine, uint32_t class_index, uint32_t batch, size_t tokens,
                          double *seconds, lac_error *err)
{
    phase p = {.err = err};
    lac_status status = submit(engine, class_index, batch, tokens, 1, err);
    uint64_t start = lac_now_ns();
    while (status == LAC_OK && lac_engine_step(engine, take, &p))
        status = p.status;
    *seconds = (double)(lac_now_ns() - start) / 1e9;
    return status;
}

/* Brings all sequences to decoding, then measures `steps` steps in which each gains a token, or
 * more of them with speculation. */
static lac_status decode(lac_engine *engine, uint32_t class_index, uint32_t batch, size_t prompt,
                         uint32_t steps, double *seconds, uint64_t *tokens, lac_error *err)
{
    phase p = {.err = err};
    lac_status status = submit(engine, class_index, batch, prompt, 0, err);
    while (status == LAC_OK && p.started < batch && lac_engine_step(engine, take, &p))
        status = p.status;
    uint64_t before = p.tokens, start = lac_now_ns();
    for (uint32_t i = 0; i < steps && status == LAC_OK; i++) {
        lac_engine_step(engine, take, &p);
        status = p.status;
    }
    *seconds = (double)(lac_now_ns() - start) / 1e9;
    *tokens = p.tokens - before;
    if (status == LAC_OK && *tokens < (uint64_t)steps * batch)
        status =
            lac_fail(err, LAC_ETOOBIG,
                     "%u sequences of %zu + %u tokens do not all fit the context or the KV pool",
                     batch, prompt, steps);
    for (uint32_t b = 0; b < batch; b++)
        lac_engine_cancel(engine, b); /* those that are still there */
    return status;
}

/* Enough that no cache holds it. */
static double read_bandwidth(uint32_t threads)
{
    long l3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
    size_t bytes = (size_t)512 << 20;
    if (l3 > 0 && (size_t)l3 * 4 > bytes)
        bytes = (size_t)l3 * 4;
    return lac_cpu_read_bandwidth(threads, bytes, 5);
}

static lac_status bench(const bench_options *opt, lac_engine *engine, lac_error *err)
{
    double warm, prefill_s = 0, decode_s = 0;
    uint64_t decoded = 0;
    uint32_t batch = (uint32_t)opt->batch, steps = (uint32_t)opt->decode;
    size_t tokens = (size_t)opt->prefill, prompt = tokens + (size_t)opt->depth;
    size_t first = tokens < 64 ? tokens : 64;
    lac_status status =
        decode(engine, lac_tool_engine_class(&opt->engine), batch, first, 4, &warm, &decoded, err);
    if (status == LAC_OK)
        status =
            prefill(engine, lac_tool_engine_class(&opt->engine), batch, tokens, &prefill_s, err);
    if (status == LAC_OK)
        status = decode(engine, lac_tool_engine_class(&opt->engine), batch, prompt, steps,
                        &decode_s, &decoded, err);
    if (status != LAC_OK)
        return status;
    lac_engine_stats stats;
    lac_engine_stats_read(engine, &stats);
    double read = read_bandwidth(stats.threads);
    double prefill_speed = (double)(tokens * batch) / prefill_s;
    double decode_speed = (double)decoded / decode_s;
    double used = (double)stats.weight_bytes * steps / decode_s / 1e9;
    lac_buf out = {0};
    if (opt->json)
        lac_buf_printf(&out,
                       "{\"prefill_tok_s\":%.2f,\"decode_tok_s\":%.2f,\"batch\":%u,"
                       "\"read_gb_s\":%.2f,\"weights_gb_s\":%.2f,\"threads\":%u,\"isa\":\"%s\"}\n",
                       prefill_speed, decode_speed, batch, read, used, stats.threads, stats.isa);
    else
        lac_buf_printf(&out,
                       "isa        %s, %u threads\nprefill    %.1f tok/s (%zu tokens × %u)\n"
                       "decode     %.1f tok/s (batch %u, after %zu tokens)\n"
                       "memory     %.1f GB/s can be read, %.1f GB/s of weights were\n",
                       stats.isa, stats.threads, prefill_speed, tokens, batch, decode_speed, batch,
                       prompt, read, used);
    status = lac_tool_print(&out, err);
    lac_buf_free(&out);
    return status;
}

int lac_tool_bench(int argc, char **argv)
{
    bench_options opt;
    int code = lac_tool_options(&spec, argc, argv, &opt);
    if (code >= 0)
        return code;
    if (!opt.engine.model[0])
        return lac_tool_misuse(&spec, "--model FILE is needed");
    code = lac_tool_ranks(&spec, &opt.engine, argv);
    if (code >= 0)
        return code;
    lac_error err = {0};
    lac_engine *engine = NULL;
    snprintf(opt.engine.prefix_cache, sizeof opt.engine.prefix_cache, "off"); /* prompts repeat */
    if (strcmp(opt.engine.speculate, "auto") == 0)
        snprintf(opt.engine.speculate, sizeof opt.engine.speculate, "off");
    lac_status status = lac_tool_engine_open(&opt.engine, (uint32_t)opt.batch, &engine, &err);
    if (status == LAC_OK)
        status =
            lac_tool_ranks_follows() ? lac_engine_follow(engine, &err) : bench(&opt, engine, &err);
    lac_tool_engine_close(&engine);
    return status == LAC_OK ? LAC_TOOL_OK : lac_tool_fail(&spec, &err);
}
