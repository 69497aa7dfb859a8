/* A plan's classes, on their way to the engine and into the Hello. Main thread, at start. Must not
 * know requests or sockets. */
#include "link/classes.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

lac_status lac_classes_load(const char *path, lac_classes **out, lac_error *err)
{
    lac_classes *classes = lac_alloc(1, sizeof *classes);
    if (path[0] != '\0') {
        lac_status status = lac_plan_load(path, NULL, &classes->plan, err);
        if (status != LAC_OK) {
            free(classes);
            return status;
        }
    }
    for (uint32_t i = 0; classes->plan && i < classes->plan->classes_count; i++) {
        const lac_plan_class *from = &classes->plan->classes[i];
        classes->engine[i] = (lac_engine_class){.name = from->name,
                                                .mask = from->mask,
                                                .scope = from->scope,
                                                .patches = from->patches,
                                                .patches_count = from->patches_count,
                                                .probe = from->probe};
        classes->count++;
    }
    *out = classes;
    return LAC_OK;
}

void lac_classes_destroy(lac_classes **classes)
{
    if (!*classes)
        return;
    lac_plan_destroy(&(*classes)->plan);
    free(*classes);
    *classes = NULL;
}

static void facts_fill(const lac_plan_class *from, const lac_engine_class_facts *runs,
                       lac_class_facts *out)
{
    *out = (lac_class_facts){.digest = from->digest,
                             .scope = from->scope,
                             .mask = runs->mask,
                             .active_layers = runs->active_layers,
                             .skip_rate = (float)runs->skip_rate,
                             .cost_skip_rate = (float)runs->cost_skip_rate,
                             .cost = (float)runs->cost};
    memcpy(out->name, from->name, sizeof out->name);
    for (int type = 0; type < LAC_INPUT_TYPES; type++) {
        const lac_plan_serve *serve = &from->serves[type];
        if (serve->tier == LAC_TIER_NONE)
            continue;
        out->serves[type] = (lac_class_serve){.tier = serve->tier,
                                              .kl_mean = (float)serve->certificate.kl_mean,
                                              .kl_upper = (float)serve->certificate.kl_upper};
        /* What was measured is better known than what the bytes say. */
        if (serve->certificate.cost_saved > 0 && serve->certificate.cost_saved < 1)
            out->cost = (float)(1 - serve->certificate.cost_saved);
    }
}

lac_status lac_classes_announce(lac_classes *classes, const lac_engine *engine, lac_error *err)
{
    if (!classes->plan)
        return LAC_OK;
    lac_digest digest;
    lac_model_digest(lac_engine_model(engine), &digest);
    if (memcmp(&digest, &classes->plan->model_digest, sizeof digest) != 0) {
        char plan[65], model[65];
        lac_hex(classes->plan->model_digest.bytes, 32, plan);
        lac_hex(digest.bytes, 32, model);
        return lac_fail(
            err, LAC_EREFUSED,
            "the plan is of model %s (digest %.16s...), this model's digest is %.16s...",
            classes->plan->model_name, plan, model);
    }
    for (uint32_t i = 0; i < classes->count; i++) {
        lac_engine_class_facts runs;
        bool found = lac_engine_class_read(engine, i + 1, &runs);
        if (!found)
            return lac_fail(err, LAC_EINTERNAL, "the engine has no class %u", i + 1);
        facts_fill(&classes->plan->classes[i], &runs, &classes->facts[i]);
    }
    return LAC_OK;
}

uint32_t lac_classes_find(const lac_classes *classes, const lac_digest *digest)
{
    for (uint32_t i = 0; i < classes->count; i++)
        if (memcmp(&classes->plan->classes[i].digest, digest, sizeof *digest) == 0)
            return i + 1;
    return 0;
}
