/* From a command's options to an engine. Main thread. Knows no command. */
#include "engine_options.h"

#include "ranks.h"

#include <string.h>

static lac_engine_class engine_class(const lac_plan_class *class)
{
    return (lac_engine_class){.name = class->name,
                              .mask = class->mask,
                              .scope = class->scope,
                              .patches = class->patches,
                              .patches_count = class->patches_count,
                              .probe = class->probe};
}

static lac_status class_of_plan(const lac_tool_class_options *o, const lac_model *model,
                                lac_plan **plan, lac_engine_class *out, lac_error *err)
{
    lac_status status = lac_plan_load(o->plan, model, plan, err);
    if (status != LAC_OK || strcmp(o->class_name, "full") == 0)
        return status;
    const lac_plan_class *class = lac_plan_find(*plan, o->class_name);
    if (!class) {
        lac_buf names = {.cap = 200};
        for (uint32_t c = 0; c < (*plan)->classes_count; c++)
            lac_buf_printf(&names, ", %s", (*plan)->classes[c].name);
        status = lac_fail(err, LAC_ENOTFOUND, "--class is \"%s\", the plan has full%s",
                          o->class_name, names.data ? names.data : "");
        lac_buf_free(&names);
        lac_plan_destroy(plan);
        return status;
    }
    *out = engine_class(class);
    return LAC_OK;
}

/* Every class of the plan, in its order. */
static lac_status classes_of_plan(const lac_tool_engine *o, lac_plan **plan,
                                  lac_engine_class classes[LAC_CLASSES_MAX - 1], uint32_t *count,
                                  lac_error *err)
{
    lac_model *model = NULL;
    if (!o->plan[0] || o->mask[0] || o->class_name[0])
        return lac_fail(err, LAC_EINVAL, "--plan is needed, and no --mask or --class");
    lac_status status = lac_model_open(o->model, &model, err);
    if (status == LAC_OK)
        status = lac_plan_load(o->plan, model, plan, err);
    lac_model_close(&model);
    for (uint32_t c = 0; status == LAC_OK && c < (*plan)->classes_count; c++)
        classes[(*count)++] = engine_class(&(*plan)->classes[c]);
    return status;
}

lac_status lac_tool_class_find(const lac_tool_class_options *o, lac_plan **plan,
                               lac_engine_class *out, lac_error *err)
{
    lac_model *model = NULL;
    *plan = NULL;
    *out = (lac_engine_class){.name = "mask"};
    if (!o->plan[0] != !o->class_name[0] || (o->plan[0] && o->mask[0]))
        return lac_fail(err, LAC_EINVAL, "--plan and --class go together, and without --mask");
    /* Units are checked against the model's layers, which only its metadata says. */
    lac_status status = lac_model_open(o->model, &model, err);
    if (status == LAC_OK && o->plan[0])
        status = class_of_plan(o, model, plan, out, err);
    else if (status == LAC_OK &&
             lac_mask_parse(o->mask, model->layers_count, &out->mask, err) != LAC_OK)
        status = lac_fail_in(err, "--mask");
    lac_model_close(&model);
    return status;
}

uint32_t lac_tool_engine_class(const lac_tool_engine *options)
{
    return options->mask[0] || (options->plan[0] && strcmp(options->class_name, "full") != 0);
}

lac_status lac_tool_engine_open(const lac_tool_engine *options, uint32_t slots, lac_engine **out,
                                lac_error *err)
{
    lac_engine_options engine = {.model_path = options->model,
                                 .threads = (uint32_t)options->threads,
                                 .pin = options->pin,
                                 .device = options->device,
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
    if (!lac_kv_type_parse(options->kv_type, &engine.kv_type) || engine.kv_type == LAC_KV_F32)
        return lac_fail(err, LAC_EINVAL, "--kv-type is \"%.8s\", allowed f16, q8",
                        options->kv_type);
    if (!lac_isa_parse(options->isa, &engine.isa))
        return lac_fail(err, LAC_EINVAL,
                        "--isa is \"%.16s\", allowed auto, reference, scalar, avx2, avxvnni, "
                        "avx512",
                        options->isa);
    if (engine.isa != LAC_ISA_AUTO && !lac_cpu_isa_have(engine.isa))
        return lac_fail(err, LAC_EUNSUPPORTED, "--isa %s cannot run on this machine (%s can)",
                        options->isa, lac_isa_name(lac_cpu_isa_best()));
    lac_tool_class_options wanted = {.model = options->model,
                                     .mask = options->mask,
                                     .plan = options->plan,
                                     .class_name = options->class_name};
    lac_engine_class classes[LAC_CLASSES_MAX - 1];
    lac_plan *plan = NULL;
    lac_status status = LAC_OK;
    engine.classes = classes;
    if (options->all_classes)
        status = classes_of_plan(options, &plan, classes, &engine.classes_count, err);
    else if (options->mask[0] || options->plan[0] || options->class_name[0])
        status = lac_tool_class_find(&wanted, &plan, classes, err);
    if (status != LAC_OK) {
        lac_plan_destroy(&plan);
        return status;
    }
    if (!options->all_classes && lac_tool_engine_class(options)) {
        engine.classes_count = 1;
        engine.without_full = true;
    }
    status = lac_tool_ranks_join(options, &engine, err);
    if (status == LAC_OK)
        status = lac_engine_create(&engine, out, err);
    lac_plan_destroy(&plan);
    return status;
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
