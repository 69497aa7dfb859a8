/* Options that every command with an engine in it shares: a part of the command's own struct, rows
 * for its table, and the way from them to an engine. */
#ifndef LAC_TOOLS_ENGINE_OPTIONS_H
#define LAC_TOOLS_ENGINE_OPTIONS_H

#include "engine/engine.h"
#include "plan/plan.h"
#include "tools.h"

typedef struct {
    char model[4096], isa[16], device[16];
    int64_t threads, ctx, kv_mem;
    int64_t pp, tp;
    bool pin, keep_zeroed;
    char mask[8192];
    char plan[4096], class_name[LAC_NAME_MAX + 1];
    char prefix_cache[8], speculate[8], kv_type[8];
    bool all_classes; /* no option: the command wants full and every class of --plan at once */
} lac_tool_engine;

/* One row of an options table; `record` is the command's struct. Strings need their size, the other
 * kinds ignore it. */
#define LAC_TOOL_ROW(record, field, text, kind, named, start, least, most, line)                   \
    {                                                                                              \
        .name = text, .type = kind, .offset = offsetof(record, field),                             \
        .size = sizeof(((record *)0)->field), .preset = start, .low = least, .high = most,         \
        .value = named, .help = line                                                               \
    }

/* Rows for a struct with a lac_tool_engine member named `engine`. */
#define LAC_TOOL_ENGINE_ROWS(type)                                                                 \
    LAC_TOOL_ROW(type, engine.model, "model", LAC_OPT_STRING, "FILE", NULL, 0, 0, "GGUF file"),    \
        LAC_TOOL_ROW(type, engine.threads, "threads", LAC_OPT_INT, "N", "0", 0, 1024,              \
                     "threads; 0 = cores this process may use"),                                   \
        LAC_TOOL_ROW(type, engine.pin, "pin", LAC_OPT_BOOL, NULL, NULL, 0, 0,                      \
                     "bind each thread to a core"),                                                \
        LAC_TOOL_ROW(type, engine.isa, "isa", LAC_OPT_STRING, "NAME", "auto", 0, 0,                \
                     "auto, reference (float32), scalar, avx2, avxvnni or avx512"),                \
        LAC_TOOL_ROW(type, engine.device, "device", LAC_OPT_STRING, "cpu|cuda:N", "cpu", 0, 0,     \
                     "where the arithmetic runs: this machine's cores, or its Nth GPU"),           \
        LAC_TOOL_ROW(type, engine.ctx, "ctx", LAC_OPT_INT, "TOKENS", "0", 0, LAC_CONTEXT_MAX,      \
                     "longest sequence; 0 = the model's own"),                                     \
        LAC_TOOL_ROW(type, engine.mask, "mask", LAC_OPT_STRING, "UNITS", NULL, 0, 0,               \
                     "leave these out: A7 is the attention, F7 the FFN of layer 7; A25,A7"),       \
        LAC_TOOL_ROW(type, engine.pp, "pp", LAC_OPT_INT, "S", "1", 1, LAC_RANKS_MAX,               \
                     "pipeline stages: so many processes share the layers"),                       \
        LAC_TOOL_ROW(type, engine.tp, "tp", LAC_OPT_INT, "T", "1", 1, LAC_RANKS_MAX,               \
                     "tensor parallel: so many processes share each layer"),                       \
        LAC_TOOL_ROW(type, engine.plan, "plan", LAC_OPT_STRING, "FILE", NULL, 0, 0,                \
                     "take a class from this plan, with its patches and scope"),                   \
        LAC_TOOL_ROW(type, engine.class_name, "class", LAC_OPT_STRING, "NAME", NULL, 0, 0,         \
                     "which class of the plan; full leaves nothing out"),                          \
        LAC_TOOL_ROW(type, engine.keep_zeroed, "keep-zeroed", LAC_OPT_BOOL, NULL, NULL, 0, 0,      \
                     "run parts that are provably zero too"),                                      \
        LAC_TOOL_ROW(type, engine.prefix_cache, "prefix-cache", LAC_OPT_STRING, "on|off", "on", 0, \
                     0, "keep keys and values of ended sequences for those that begin alike"),     \
        LAC_TOOL_ROW(type, engine.speculate, "speculate", LAC_OPT_STRING, "auto|on|off", "auto",   \
                     0, 0, "guess tokens from the text; auto: while it measures a gain"),          \
        LAC_TOOL_ROW(type, engine.kv_type, "kv-type", LAC_OPT_STRING, "f16|q8", "f16", 0, 0,       \
                     "how keys and values are kept; q8 takes half the memory, results differ a "   \
                     "little"),                                                                    \
        LAC_TOOL_ROW(type, engine.kv_mem, "kv-mem", LAC_OPT_SIZE, "BYTES", "0", 0, 0,              \
                     "KV pool; 0 = a quarter of memory, at most 16 full contexts")

/* Opens the engine the options describe with `slots` sequences at once. Requests take the class
 * lac_tool_engine_class(): the mask's or the plan's, or full without one. */
lac_status lac_tool_engine_open(const lac_tool_engine *options, uint32_t slots, lac_engine **out,
                                lac_error *err);
/* Also leaves the other ranks, if there are any. */
void lac_tool_engine_close(lac_engine **engine);
uint32_t lac_tool_engine_class(const lac_tool_engine *options);

/* The class that --mask, or --plan and --class, name, checked against the model; *plan (to be
 * destroyed by the caller) holds its patches. The name "full" gives an empty mask. LAC_EINVAL when
 * the options do not go together. */
typedef struct {
    const char *model, *mask, *plan, *class_name;
} lac_tool_class_options;
lac_status lac_tool_class_find(const lac_tool_class_options *options, lac_plan **plan,
                               lac_engine_class *out, lac_error *err);

/* Puts BOS first when `bos`, parses special texts when `special`. *ids is malloc'd, the caller's.
 */
lac_status lac_tool_encode(const lac_engine *engine, const char *text, size_t length, bool special,
                           bool bos, uint32_t **ids, size_t *count, lac_error *err);

#endif
