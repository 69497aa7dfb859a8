/* The table of weight types (block sizes: GGUF specification, "ggml types"). Pure. */
#include <stddef.h>

#include "base/tensor.h"

static const lac_type_info types[] = {
    [LAC_TYPE_F32] = {"F32", 1, 4},       [LAC_TYPE_F16] = {"F16", 1, 2},
    [LAC_TYPE_Q4_0] = {"Q4_0", 32, 18},   [LAC_TYPE_Q4_1] = {"Q4_1", 32, 20},
    [LAC_TYPE_Q5_0] = {"Q5_0", 32, 22},   [LAC_TYPE_Q5_1] = {"Q5_1", 32, 24},
    [LAC_TYPE_Q8_0] = {"Q8_0", 32, 34},   [LAC_TYPE_Q4_K] = {"Q4_K", 256, 144},
    [LAC_TYPE_Q5_K] = {"Q5_K", 256, 176}, [LAC_TYPE_Q6_K] = {"Q6_K", 256, 210},
    [LAC_TYPE_BF16] = {"BF16", 1, 2},
};

const lac_type_info *lac_type_get(uint32_t type)
{
    if (type >= sizeof types / sizeof types[0] || !types[type].name)
        return NULL;
    return &types[type];
}
