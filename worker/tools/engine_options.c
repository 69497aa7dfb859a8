/* From a command's options to an engine. Main thread. Knows no command. */
#include "engine_options.h"

#include "ranks.h"

#include <string.h>

/* Units are checked against the model's layers, which only its metadata says. */
static lac_status mask_of(const lac_tool_engine *options, lac_mask *out, lac_error *err)
{
    lac_model *model = NULL;
    lac_status status = lac_model_open(options->model, &model, err);
    if (status == LAC_OK && lac_mask_parse(options->mask, model->layers_count, out, err) != LAC_OK)
        status = lac_fail_in(err, "--mask");
    lac_model_close(&model);
    return status;
}

uint32_t lac_tool_engine_class(const lac_tool_engine *options)
{
    return options->mask[0] ? 1 : 0;
}

lac_status lac_tool_engine_open(const lac_tool_engine *options, uint32_t slots, lac_engine **out,
                                lac_error *err)
{
    lac_engine_options engine = {.model_path = options->model,
                                 .threads = (uint32_t)options->threads,
                                 .pin = options->pin,
                                 .context_max = (uint32_t)options->ctx,
                                 .slots = slots,
                                 .kv_bytes = (uint64_t)options->kv_mem,
                                 .keep_zeroed = options->keep_zeroed};
    bool off = strcmp(options->prefix_cache, "off") == 0;
    if (!off && strcmp(options->prefix_cache, "on") != 0)
        return lac_fail(err, LAC_EINVAL, "--prefix-cache is \"%.8s\", allowed on, off",
                        options->prefix_cache);
    engine.without_prefix_cache = off;
    if (!lac_speculate_parse(options->speculate, &engine.speculate))
        return lac_fail(err, LAC_EINVAL, "--speculate is \"%.8s\", allowed auto, on, off",
                        options->speculate);
    lac_engine_class masked = {.name = "mask"};
    if (options->mask[0]) {
        lac_status status = mask_of(options, &masked.mask, err);
        if (status != LAC_OK)
            return status;
        engine.classes = &masked;
        engine.classes_count = 1;
        engine.without_full = true;
    }
    if (!lac_isa_parse(options->isa, &engine.isa))
        return lac_fail(err, LAC_EINVAL,
                        "--isa is \"%.16s\", allowed auto, reference, scalar, avx2, avxvnni, "
                        "avx512",
                        options->isa);
    if (engine.isa != LAC_ISA_AUTO && !lac_cpu_isa_have(engine.isa))
        return lac_fail(err, LAC_EUNSUPPORTED, "--isa %s cannot run on this machine (%s can)",
                        options->isa, lac_isa_name(lac_cpu_isa_best()));
    lac_status joined = lac_tool_ranks_join(options, &engine, err);
    return joined == LAC_OK ? lac_engine_create(&engine, out, err) : joined;
}

void lac_tool_engine_close(lac_engine **engine)
{
    lac_engine_destroy(engine);
    lac_tool_ranks_leave();
}

lac_status lac_tool_encode(const lac_engine *engine, const char *text, size_t length, bool special,
                           bool bos, uint32_t **ids, size_t *count, lac_error *err)
{
    return lac_tokenizer_encode(lac_engine_tokenizer(engine), text, length,
                                (lac_encode_options){.special = special, .bos = bos}, ids, count,
                                err);
}
