/* Load for measuring. Main thread. Knows no command. */
#include "mixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

lac_status lac_tool_mixture_read(const char *names, uint32_t alone, const lac_engine *engine,
                                 lac_tool_mixture *out, lac_error *err)
{
    lac_tool_mixture mix = {.class_of = {alone}, .count = *names ? 0 : 1};
    for (const char *at = names; *at; at += *at == ',') {
        char name[LAC_NAME_MAX + 1];
        size_t length = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", length < sizeof name ? (int)length : 0, at);
        if (mix.count == LAC_CLASSES_MAX)
            return lac_fail(err, LAC_EINVAL, "--mix has more than %d classes", LAC_CLASSES_MAX);
        if (!lac_engine_class_find(engine, name, &mix.class_of[mix.count++]))
            return lac_fail(err, LAC_ENOTFOUND, "--mix names \"%.*s\", which the plan has not",
                            length < 64 ? (int)length : 64, at);
        at += length;
    }
    *out = mix;
    return LAC_OK;
}

lac_status lac_tool_mixture_submit(lac_engine *engine, const lac_tool_mixture *mix, uint32_t batch,
                                   size_t tokens, uint32_t max_tokens, lac_error *err)
{
    uint32_t vocab = lac_engine_model(engine)->vocab;
    uint32_t *ids = lac_alloc(tokens, sizeof(*ids));
    lac_status status = LAC_OK;
    lac_engine_request request = {
        .prompt = ids, .prompt_count = tokens, .sampling = lac_sampling_default()};
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
        request.class_index = mix->class_of[b % mix->count];
        status = lac_engine_submit(engine, &request, err);
    }
    free(ids);
    return status;
}
