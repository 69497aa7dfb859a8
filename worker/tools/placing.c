/* From a command's options to a placement. Main thread. Must not know how ranks are started. */
#include "engine/place.h"
#include "ranks.h"

lac_status lac_tool_placement(const lac_model *model, const lac_tool_engine *options,
                              lac_placement *out, lac_error *err)
{
    lac_engine_class masked = {.name = "mask"};
    bool mask = options->mask[0];
    if (mask && lac_mask_parse(options->mask, model->layers_count, &masked.mask, err) != LAC_OK)
        return lac_fail_in(err, "--mask");
    return lac_engine_place(model, &masked, mask, mask, (uint32_t)options->pp,
                            (uint32_t)options->tp, out, err);
}
