/* Made-up load for the commands that measure: prompts of plain tokens, whose sequences take several
 * classes in turns. */
#ifndef LAC_TOOLS_MIXTURE_H
#define LAC_TOOLS_MIXTURE_H

#include "engine/engine.h"

typedef struct {
    uint32_t class_of[LAC_CLASSES_MAX], count; /* sequence b runs as class_of[b % count] */
} lac_tool_mixture;

/* Reads class names with commas between; "" is one class, `alone`. LAC_ENOTFOUND names the first
 * that the engine has not. */
lac_status lac_tool_mixture_read(const char *names, uint32_t alone, const lac_engine *engine,
                                 lac_tool_mixture *out, lac_error *err);

/* Submits sequences 0 … batch−1 of `tokens` tokens each, no two alike from the first token on and
 * equal in every run, greedy, never ending by themselves before max_tokens (0 = the context). */
lac_status lac_tool_mixture_submit(lac_engine *engine, const lac_tool_mixture *mix, uint32_t batch,
                                   size_t tokens, uint32_t max_tokens, lac_error *err);

#endif
