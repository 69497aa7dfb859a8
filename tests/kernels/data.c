/* Repeatable numbers and weights for the kernel tests of all backends. */
#include "suites.h"

#include "base/tensor.h"

const lac_type types_all[] = {LAC_TYPE_F32,  LAC_TYPE_F16,  LAC_TYPE_BF16, LAC_TYPE_Q8_0,
                              LAC_TYPE_Q4_0, LAC_TYPE_Q4_1, LAC_TYPE_Q5_0, LAC_TYPE_Q5_1,
                              LAC_TYPE_Q4_K, LAC_TYPE_Q5_K, LAC_TYPE_Q6_K};

uint32_t rnd(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

float rnd_float(uint64_t *state)
{
    return (float)(int32_t)(rnd(state) & 0xffffffu) / 8388608.0f - 1.0f;
}

size_t row_bytes(lac_type type, uint32_t cols)
{
    const lac_type_info *info = lac_type_get(type);
    return (size_t)cols / info->block * info->block_bytes;
}

static void put_half(uint8_t *p, float f)
{
    uint16_t h = lac__f32_to_f16(f);
    memcpy(p, &h, 2);
}

/* Offset of the f16 scale and minimum within a block; 255 = none. */
static void scale_places(lac_type type, uint8_t *d, uint8_t *m)
{
    *d = type == LAC_TYPE_Q6_K ? 208 : 0;
    *m = type == LAC_TYPE_Q4_1 || type == LAC_TYPE_Q5_1 || type == LAC_TYPE_Q4_K ||
                 type == LAC_TYPE_Q5_K
             ? 2
             : 255;
}

void random_row(lac_type type, uint32_t cols, uint8_t *out, uint64_t *state)
{
    const lac_type_info *info = lac_type_get(type);
    if (!lac__type_quantised(type)) {
        for (uint32_t c = 0; c < cols; c++) {
            float f = rnd_float(state) / 8.0f;
            uint32_t bits = lac__f32_bits(f);
            if (type == LAC_TYPE_F32)
                memcpy(out + c * 4, &f, 4);
            else if (type == LAC_TYPE_F16)
                put_half(out + c * 2, f);
            else
                memcpy(out + c * 2, (uint8_t *)&bits + 2, 2);
        }
        return;
    }
    uint8_t d, m;
    float span = type == LAC_TYPE_Q8_0                            ? 128.0f
                 : info->block == 256                             ? 32.0f * 32.0f
                 : type == LAC_TYPE_Q4_0 || type == LAC_TYPE_Q4_1 ? 8.0f
                                                                  : 16.0f;
    scale_places(type, &d, &m);
    for (uint32_t b = 0; b < cols / info->block; b++, out += info->block_bytes) {
        for (uint32_t i = 0; i < info->block_bytes; i++)
            out[i] = (uint8_t)rnd(state);
        put_half(out + d, rnd_float(state) / 8.0f / span);
        if (m != 255)
            put_half(out + m, rnd_float(state) / 8.0f / (info->block == 256 ? 32.0f : 1.0f));
    }
}
