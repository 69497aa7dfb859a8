/* A stand-in for what one rank of several has beside its engine: a fabric that meets whoever it is
 * told of, and a model of three layers cut after the first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "engine/place.h"
#include "fabric/fabric.h"
#include "fake_engine.h"

struct lac_fabric {
    lac_fabric_options options;
    char address[32];
};

lac_status lac_fabric_open(const lac_fabric_options *options, lac_fabric **out, lac_error *err)
{
    (void)err;
    lac_fabric *fabric = lac_alloc(1, sizeof *fabric);
    fabric->options = *options;
    snprintf(fabric->address, sizeof fabric->address, "rank %u of %u", options->rank,
             options->incarnation[0]);
    atomic_fetch_add(&fake->fabrics, 1);
    *out = fabric;
    return LAC_OK;
}

void lac_fabric_close(lac_fabric **fabric)
{
    if (!*fabric)
        return;
    free(*fabric);
    *fabric = NULL;
    atomic_fetch_sub(&fake->fabrics, 1);
}

const void *lac_fabric_address(const lac_fabric *fabric, size_t *bytes)
{
    *bytes = strlen(fabric->address);
    return fabric->address;
}

lac_status lac_fabric_connect(lac_fabric *fabric, const lac_fabric_blob *addresses,
                              uint64_t deadline_ns, lac_error *err)
{
    (void)deadline_ns, (void)err;
    LAC_ASSERT(addresses[fabric->options.rank].bytes == strlen(fabric->address));
    atomic_store(&fake->met, fabric->options.ranks);
    return LAC_OK;
}

lac_status lac_engine_place(const lac_model *model, const lac_engine_class *classes,
                            uint32_t classes_count, bool without_full, uint32_t stages,
                            uint32_t parts, lac_placement *out, lac_error *err)
{
    (void)classes, (void)classes_count, (void)without_full;
    if (stages > model->layers_count)
        return lac_fail(err, LAC_EINVAL, "pp is %u, the model has %u layers", stages,
                        model->layers_count);
    *out = (lac_placement){.stages = stages, .parts = parts, .layers_count = model->layers_count};
    for (uint32_t s = 1; s <= stages; s++)
        out->layer_first[s] = s == stages ? model->layers_count : s;
    out->of = lac_alloc((size_t)parts * model->layers_count, sizeof *out->of);
    return LAC_OK;
}

lac_status lac_model_open(const char *path, lac_model **out, lac_error *err)
{
    (void)path, (void)err;
    lac_model *model = lac_alloc(1, sizeof *model);
    model->layers_count = 3;
    model->vocab = FAKE_VOCAB;
    model->context = FAKE_CONTEXT;
    snprintf(model->name, sizeof model->name, "fake");
    snprintf(model->architecture, sizeof model->architecture, "llama");
    *out = model;
    return LAC_OK;
}

void lac_model_close(lac_model **model)
{
    free(*model);
    *model = NULL;
}
