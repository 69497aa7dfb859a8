/* Pages of keys and values: their types by name, the bytes of a head's part, and how a row's key or
 * value gets into its page. What reads them is attention.inc.h. Any thread; rows of different
 * positions never write the same bytes. */
#include <string.h>

#include "backend.h"

static const char *const names[] = {[LAC_KV_F16] = "f16", [LAC_KV_F32] = "f32", [LAC_KV_Q8] = "q8"};

const char *lac_kv_type_name(lac_kv_type type)
{
    return (unsigned)type < sizeof names / sizeof *names ? names[type] : "unknown";
}

bool lac_kv_type_parse(const char *name, lac_kv_type *out)
{
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (lac_kv_type)i;
            return true;
        }
    return false;
}

size_t lac__kv_plane_bytes(lac_kv_type type, uint32_t dim)
{
    size_t values = (size_t)LAC_KV_BLOCK * dim;
    return type == LAC_KV_F32 ? 4 * values : type == LAC_KV_F16 ? 2 * values : values;
}

size_t lac__kv_head_bytes(lac_kv_type type, uint32_t dim)
{
    size_t scales =
        type == LAC_KV_Q8 ? 2 * lac__kv_scales(dim) * LAC_KV_BLOCK * sizeof(uint16_t) : 0;
    return 2 * lac__kv_plane_bytes(type, dim) + scales;
}

/* Values of a key lie eight tokens apart, those of a value side by side. */
static void put(uint8_t *at, const void *from, uint32_t dim, size_t size, uint32_t apart)
{
    const uint8_t *x = from;
    if (apart == 1) {
        memcpy(at, x, dim * size);
        return;
    }
    switch (size) { /* copies of a constant size are single moves */
    case 1:
        for (uint32_t d = 0; d < dim; d++)
            at[(size_t)d * apart] = x[d];
        break;
    case 2:
        for (uint32_t d = 0; d < dim; d++)
            memcpy(at + (size_t)d * apart * 2, x + (size_t)d * 2, 2);
        break;
    default:
        for (uint32_t d = 0; d < dim; d++)
            memcpy(at + (size_t)d * apart * 4, x + (size_t)d * 4, 4);
        break;
    }
}

void lac__kv_write(const lac_backend *be, uint8_t *head, uint32_t t, uint32_t dim, bool is_v,
                   const float *x)
{
    lac_kv_type type = be->options.kv_type;
    size_t plane = lac__kv_plane_bytes(type, dim), size = plane / LAC_KV_BLOCK / dim;
    uint8_t *at =
        head + (is_v ? plane + t * dim * size : ((size_t)(t / 8) * dim * 8 + t % 8) * size);
    uint32_t apart = is_v ? 1 : 8;
    if (type == LAC_KV_F32) {
        put(at, x, dim, 4, apart);
    } else if (type == LAC_KV_F16) {
        uint16_t half[LAC__HEAD_DIM_MAX];
        be->kernels->to_f16(x, dim, half);
        put(at, half, dim, 2, apart);
    } else {
        int8_t codes[LAC__HEAD_DIM_MAX];
        uint16_t *scales = (uint16_t *)(void *)(head + 2 * plane) +
                           (is_v ? lac__kv_scales(dim) * LAC_KV_BLOCK : 0) + t;
        be->kernels->to_q8(x, dim, codes, scales, LAC_KV_BLOCK);
        put(at, codes, dim, 1, apart);
    }
}
