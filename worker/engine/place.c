/* The planner's facts out of a model. Pure; any thread. Must not know how ranks are started. */
#include "engine/place.h"

#include <stdlib.h>

#include "base/mem.h"

static uint32_t block_of(const lac_gguf_tensor *tensor)
{
    return tensor ? lac_type_get(tensor->type)->block : 1;
}

lac_status lac_engine_place(const lac_model *model, const lac_engine_class *classes,
                            uint32_t classes_count, bool without_full, uint32_t stages,
                            uint32_t parts, lac_placement *out, lac_error *err)
{
    lac_place_class shares[LAC_CLASSES_MAX] = {{.traffic = without_full ? 0 : 1}};
    if (classes_count >= LAC_CLASSES_MAX)
        return lac_fail(err, LAC_EINVAL, "classes_count is %u, allowed 0..%d", classes_count,
                        LAC_CLASSES_MAX - 1);
    for (uint32_t c = 0; c < classes_count; c++) {
        shares[c + 1].traffic = 1;
        if (classes[c].scope == LAC_SCOPE_REQUEST) /* else its prompts run everything */
            shares[c + 1].erased = classes[c].mask;
    }
    lac_place_layer *layers = lac_alloc(model->layers_count, sizeof *layers);
    for (uint32_t l = 0; l < model->layers_count; l++) {
        const lac_layer *layer = &model->layers[l];
        layers[l] = (lac_place_layer){.heads = layer->heads,
                                      .kv_heads = layer->kv_heads,
                                      .ffn = layer->ffn,
                                      .attention_bytes = lac_model_unit_bytes(model, 2 * l),
                                      .ffn_bytes = lac_model_unit_bytes(model, 2 * l + 1),
                                      .o_block = block_of(layer->o),
                                      .down_block = block_of(layer->down)};
    }
    lac_place_model facts = {.layers_count = model->layers_count,
                             .head_dim = model->head_dim,
                             .vocab = model->vocab,
                             .layers = layers,
                             .embed_bytes = model->embed->bytes,
                             .head_bytes = model->head->bytes,
                             .tied = model->tied};
    lac_status status =
        lac_placement_make(&facts, shares, classes_count + 1, stages, parts, 0, out, err);
    free(layers);
    return status;
}
