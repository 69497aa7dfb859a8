/* Packing for the device: R8 holds what D8 does, word by word, so the file's formats are decoded by
 * cpu/pack.c and only the order changes here. */
#include "pack.h"

#include <string.h>

#include "args.h"
#include "kernels/pack.h"

/* Bytes of a chunk and row in each plane of a quantised type. */
typedef struct {
    uint32_t codes, high, scales, super;
} planes;

static planes planes_of(lac_type type)
{
    switch (type) {
    case LAC_TYPE_Q8_0: return (planes){32, 0, 2, 0};
    case LAC_TYPE_Q4_0: return (planes){16, 0, 2, 0};
    case LAC_TYPE_Q4_1: return (planes){16, 0, 4, 0};
    case LAC_TYPE_Q5_0: return (planes){16, 4, 2, 0};
    case LAC_TYPE_Q5_1: return (planes){16, 4, 4, 0};
    case LAC_TYPE_Q4_K: return (planes){16, 0, 2, 4};
    case LAC_TYPE_Q5_K: return (planes){16, 4, 2, 4};
    default: return (planes){16, 8, 2, 2}; /* Q6_K */
    }
}

static uint32_t float_columns(lac_type type)
{
    return type == LAC_TYPE_F32 ? 4 : 8;
}

size_t lac__cuda_group_bytes(lac_type type, uint32_t cols)
{
    if (lac__group_bytes(type, cols) == 0)
        return 0;
    if (!lac__type_quantised(type))
        return (size_t)(cols + float_columns(type) - 1) / float_columns(type) * LAC__GROUP * 16;
    planes p = planes_of(type);
    size_t chunks = cols / 32;
    return chunks * LAC__GROUP * (p.codes + p.high + p.scales) + chunks / 8 * LAC__GROUP * p.super;
}

static void pack_floats(lac_type type, uint32_t cols, const uint8_t *const rows[8], uint8_t *out)
{
    uint32_t wide = float_columns(type), size = 16 / wide;
    memset(out, 0, lac__cuda_group_bytes(type, cols));
    for (uint32_t r = 0; r < LAC__GROUP; r++)
        for (uint32_t c = 0; rows[r] && c < cols; c += wide) {
            uint32_t n = cols - c < wide ? cols - c : wide;
            memcpy(out + ((size_t)(c / wide) * LAC__GROUP + r) * 16, rows[r] + (size_t)c * size,
                   (size_t)n * size);
        }
}

/* One row's share of a unit of R8 (eight rows × 32 columns) to its places in the planes. */
static void pack_chunk(lac_type type, planes p, uint32_t chunks, uint32_t b, uint32_t r,
                       const uint8_t *group, uint8_t *out)
{
    lac__unit_place from = lac__unit_at(type, b);
    const uint8_t *codes = group + from.codes + 4 * r;
    size_t at = (size_t)b * LAC__GROUP + r, plane = (size_t)chunks * LAC__GROUP;
    for (uint32_t i = 0; i < p.codes / 4; i++)
        memcpy(out + (i / 4) * plane * 16 + at * 16 + i % 4 * 4, codes + 32 * i, 4);
    out += plane * p.codes;
    for (uint32_t i = 0; i < p.high / 4; i++)
        memcpy(out + at * p.high + 4 * i, codes + 128 + 32 * i, 4);
    out += plane * p.high;
    if (from.scale) {
        out[at * 2] = group[from.scale + r];
        out[at * 2 + 1] = group[from.scale + 8 + r];
    } else {
        memcpy(out + at * p.scales, group + from.d + 2 * r, 2);
        if (from.m)
            memcpy(out + at * p.scales + 2, group + from.m + 2 * r, 2);
    }
    out += plane * p.scales;
    if (p.super && b % 8 == 0) {
        size_t place = ((size_t)(b / 8) * LAC__GROUP + r) * p.super;
        memcpy(out + place, group + from.d + 2 * r, 2);
        if (p.super == 4)
            memcpy(out + place + 2, group + from.m + 2 * r, 2);
    }
}

void lac__cuda_pack_group(lac_type type, uint32_t cols, const uint8_t *const rows[8], uint8_t *room,
                          uint8_t *out)
{
    if (!lac__type_quantised(type)) {
        pack_floats(type, cols, rows, out);
        return;
    }
    planes p = planes_of(type);
    lac__pack_group(type, type, cols, rows, room);
    for (uint32_t b = 0; b < cols / 32; b++)
        for (uint32_t r = 0; r < LAC__GROUP; r++)
            pack_chunk(type, p, cols / 32, b, r, room, out);
}
