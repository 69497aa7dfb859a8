/* lacuna-engine bench: speed of prefill and decode beside the memory bandwidth that the same
 * threads reach. Main thread, which also runs the engine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine_options.h"
#include "mixture.h"
#include "ranks.h"

typedef struct {
    lac_tool_engine engine;
    int64_t prefill, decode, batch, depth;
    char mix[512];
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
    ROW(mix, "mix", LAC_OPT_STRING, "CLASSES", NULL, 0, 0,
        "load full and every class of --plan, sequences take these in turns: full,economy"),
    ROW(json, "json", LAC_OPT_BOOL, NULL, NULL, 0, 0,
        "print {\"prefill_tok_s\":…,\"decode_tok_s\":…,\"batch\":B,\"read_gb_s\":…, memory, "
        "FLOPs, KV bytes and a hash of each sequence's tokens}"),
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
    uint32_t started;    /* sequences that have a token */
    uint32_t hashed_max; /* first tokens of each that its hash covers */
    uint32_t hashed[LAC_BATCH_ROWS_MAX];
    uint64_t hash[LAC_BATCH_ROWS_MAX]; /* of each sequence's tokens, FNV-1a */
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
    for (uint32_t i = 0; i < event->chunk.tokens_count && p->hashed[event->id] < p->hashed_max;
         i++) {
        uint64_t *hash = &p->hash[event->id];
        *hash = p->hashed[event->id]++ ? *hash : UINT64_C(0xcbf29ce484222325);
        for (uint32_t shift = 0; shift < 32; shift += 8)
            *hash = (*hash ^ (event->chunk.tokens[i] >> shift & 255)) * UINT64_C(0x100000001b3);
    }
    if (event->finish == LAC_FINISH_ERROR)
        p->status = lac_fail(p->err, event->error, "%s", event->reason ? event->reason : "failed");
}

/* What one phase took, and what it ran. */
typedef struct {
    double seconds, flops;
    uint64_t tokens, kv_bytes; /* KV: of the pages in use at its end, if all are of one size */
} measured;

/* Runs `batch` prompts to their first token. */
static lac_status prefill(lac_engine *engine, const lac_tool_mixture *mix, uint32_t batch,
                          size_t tokens, measured *out, lac_error *err)
{
    phase p = {.err = err};
    lac_engine_stats before, after;
    lac_engine_stats_read(engine, &before);
    lac_status status = lac_tool_mixture_submit(engine, mix, batch, tokens, 1, err);
    uint64_t start = lac_now_ns();
    while (status == LAC_OK && lac_engine_step(engine, take, &p))
        status = p.status;
    out->seconds = (double)(lac_now_ns() - start) / 1e9;
    lac_engine_stats_read(engine, &after);
    out->flops = after.flops - before.flops;
    return status;
}

/* Brings all sequences to decoding, then measures `steps` steps in which each gains a token, or
 * more of them with speculation. `p` keeps the hashes. */
static lac_status decode(lac_engine *engine, const lac_tool_mixture *mix, uint32_t batch,
                         size_t prompt, uint32_t steps, phase *p, measured *out, lac_error *err)
{
    lac_engine_stats first, last;
    *p = (phase){.err = err, .hashed_max = steps};
    lac_status status = lac_tool_mixture_submit(engine, mix, batch, prompt, 0, err);
    while (status == LAC_OK && p->started < batch && lac_engine_step(engine, take, p))
        status = p->status;
    lac_engine_stats_read(engine, &first);
    uint64_t before = p->tokens, start = lac_now_ns();
    for (uint32_t i = 0; i < steps && status == LAC_OK; i++) {
        lac_engine_step(engine, take, p);
        status = p->status;
    }
    out->seconds = (double)(lac_now_ns() - start) / 1e9;
    out->tokens = p->tokens - before;
    lac_engine_stats_read(engine, &last);
    out->flops = last.flops - first.flops;
    out->kv_bytes = last.kv_pages > 0 ? last.kv_pages_used * (last.kv_bytes / last.kv_pages) : 0;
    if (status == LAC_OK && out->tokens < (uint64_t)steps * batch)
        status =
            lac_fail(err, LAC_ETOOBIG,
                     "%u sequences of %zu + %u tokens do not all fit the context or the KV pool",
                     batch, prompt, steps);
    for (uint32_t b = 0; b < batch; b++)
        lac_engine_cancel(engine, b); /* those that are still there */
    return status;
}

/* The most memory this process has had, in MB. */
static double peak_mb(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (double)usage.ru_maxrss * 1024 / 1e6 : 0;
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

/* Resident memory of this process; 0 where /proc does not say. */
static uint64_t resident_bytes(void)
{
    unsigned long long pages = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%llu %llu", &pages, &resident) != 2)
        resident = 0;
    if (f)
        fclose(f);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static lac_status print(const bench_options *opt, const lac_engine_stats *stats,
                        const measured *filled, const measured *decoded, const phase *p,
                        double load_s, lac_error *err)
{
    uint32_t batch = (uint32_t)opt->batch;
    double peak = peak_mb(); /* before the probe takes its own */
    double read = read_bandwidth(stats->threads);
    double prefill_speed = (double)(opt->prefill * batch) / filled->seconds;
    double decode_speed = (double)decoded->tokens / decoded->seconds;
    double used = (double)stats->weight_bytes * (double)opt->decode / decoded->seconds / 1e9;
    lac_buf out = {0};
    if (opt->json) {
        lac_buf_printf(&out,
                       "{\"prefill_tok_s\":%.2f,\"decode_tok_s\":%.2f,\"batch\":%u,"
                       "\"read_gb_s\":%.2f,\"weights_gb_s\":%.2f,\"threads\":%u,\"isa\":\"%s\"",
                       prefill_speed, decode_speed, batch, read, used, stats->threads, stats->isa);
        lac_buf_printf(
            &out,
            ",\"kv_type\":\"%s\",\"peak_mb\":%.1f,"
            "\"load_s\":%.4f,\"rss_bytes\":%llu,\"weight_bytes\":%llu,"
            "\"prefill_flops\":%.0f,\"decode_flops\":%.0f,\"kv_bytes\":%llu,\"hashes\":[",
            lac_kv_type_name(stats->kv_type), peak, load_s, (unsigned long long)resident_bytes(),
            (unsigned long long)stats->weight_bytes, filled->flops, decoded->flops,
            (unsigned long long)decoded->kv_bytes);
        for (uint32_t b = 0; b < batch; b++)
            lac_buf_printf(&out, "%s\"%016llx\"", b ? "," : "", (unsigned long long)p->hash[b]);
        lac_buf_text(&out, "]}\n");
    } else
        lac_buf_printf(&out,
                       "isa        %s, %u threads\nprefill    %.1f tok/s (%lld tokens × %u)\n"
                       "decode     %.1f tok/s (batch %u, after %lld tokens)\n"
                       "memory     %.1f GB/s can be read, %.1f GB/s of weights were; %.1f MB at "
                       "most\n",
                       stats->isa, stats->threads, prefill_speed, (long long)opt->prefill, batch,
                       decode_speed, batch, (long long)(opt->prefill + opt->depth), read, used,
                       peak);
    lac_status status = lac_tool_print(&out, err);
    lac_buf_free(&out);
    return status;
}

static lac_status bench(const bench_options *opt, lac_engine *engine, double load_s, lac_error *err)
{
    static phase p;
    measured warm, filled, decoded;
    lac_tool_mixture mix;
    uint32_t batch = (uint32_t)opt->batch, steps = (uint32_t)opt->decode;
    size_t tokens = (size_t)opt->prefill, prompt = tokens + (size_t)opt->depth;
    lac_status status =
        lac_tool_mixture_read(opt->mix, lac_tool_engine_class(&opt->engine), engine, &mix, err);
    if (status == LAC_OK)
        status = decode(engine, &mix, batch, tokens < 64 ? tokens : 64, 4, &p, &warm, err);
    if (status == LAC_OK)
        status = prefill(engine, &mix, batch, tokens, &filled, err);
    if (status == LAC_OK)
        status = decode(engine, &mix, batch, prompt, steps, &p, &decoded, err);
    if (status != LAC_OK)
        return status;
    lac_engine_stats stats;
    lac_engine_stats_read(engine, &stats);
    return print(opt, &stats, &filled, &decoded, &p, load_s, err);
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
    opt.engine.all_classes = opt.mix[0] != '\0';
    snprintf(opt.engine.prefix_cache, sizeof opt.engine.prefix_cache, "off"); /* prompts repeat */
    if (strcmp(opt.engine.speculate, "auto") == 0)
        snprintf(opt.engine.speculate, sizeof opt.engine.speculate, "off");
    uint64_t start = lac_now_ns();
    lac_status status = lac_tool_engine_open(&opt.engine, (uint32_t)opt.batch, &engine, &err);
    double load_s = (double)(lac_now_ns() - start) / 1e9;
    if (status == LAC_OK)
        status = lac_tool_ranks_follows() ? lac_engine_follow(engine, &err)
                                          : bench(&opt, engine, load_s, &err);
    lac_tool_engine_close(&engine);
    return status == LAC_OK ? LAC_TOOL_OK : lac_tool_fail(&spec, &err);
}
