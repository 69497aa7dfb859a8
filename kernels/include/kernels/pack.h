/* The packed layout R8 as both backends read it: eight rows of the file's blocks interleaved
 * (cpu/pack.c draws each type), rows of the file as floats, half precision. The CUDA backend packs
 * from R8 into its own layout, so the file's formats are decoded in one place. Pure, any thread. */
#ifndef LAC_KERNELS_PACK_H
#define LAC_KERNELS_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/tensor.h"

#define LAC__ALWAYS static inline __attribute__((always_inline))

/* Bytes of a unit (eight rows × 32 columns); of a super-block of eight units where a head is
 * shared. */
enum {
    LAC__UNIT_Q8_0 = 16 + 256,
    LAC__UNIT_Q4_0 = 16 + 128,
    LAC__UNIT_Q4_1 = 32 + 128,
    LAC__UNIT_Q5_0 = 16 + 128 + 32,
    LAC__UNIT_Q5_1 = 32 + 128 + 32,
    LAC__UNIT_Q4_K = 16 + 128,
    LAC__UNIT_Q5_K = 16 + 128 + 32,
    LAC__UNIT_Q6_K = 16 + 128 + 64,
    LAC__SUPER_Q4_K = 32 + 8 * LAC__UNIT_Q4_K,
    LAC__SUPER_Q5_K = 32 + 8 * LAC__UNIT_Q5_K,
    LAC__SUPER_Q6_K = 16 + 8 * LAC__UNIT_Q6_K
};

/* Byte offsets within a group of the parts of unit b; m and scale are 0 where a type has none. */
typedef struct {
    size_t d, m, scale, codes;
} lac__unit_place;

LAC__ALWAYS lac__unit_place lac__unit_at(lac_type type, uint32_t b)
{
    size_t u, super = b / 8, sub = b % 8;
    switch (type) {
    case LAC_TYPE_Q8_0: u = (size_t)b * LAC__UNIT_Q8_0; return (lac__unit_place){u, 0, 0, u + 16};
    case LAC_TYPE_Q4_0: u = (size_t)b * LAC__UNIT_Q4_0; return (lac__unit_place){u, 0, 0, u + 16};
    case LAC_TYPE_Q4_1:
        u = (size_t)b * LAC__UNIT_Q4_1;
        return (lac__unit_place){u, u + 16, 0, u + 32};
    case LAC_TYPE_Q5_0: u = (size_t)b * LAC__UNIT_Q5_0; return (lac__unit_place){u, 0, 0, u + 16};
    case LAC_TYPE_Q5_1:
        u = (size_t)b * LAC__UNIT_Q5_1;
        return (lac__unit_place){u, u + 16, 0, u + 32};
    case LAC_TYPE_Q4_K:
        u = super * LAC__SUPER_Q4_K;
        sub = u + 32 + sub * LAC__UNIT_Q4_K;
        return (lac__unit_place){u, u + 16, sub, sub + 16};
    case LAC_TYPE_Q5_K:
        u = super * LAC__SUPER_Q5_K;
        sub = u + 32 + sub * LAC__UNIT_Q5_K;
        return (lac__unit_place){u, u + 16, sub, sub + 16};
    default: /* Q6_K */
        u = super * LAC__SUPER_Q6_K;
        sub = u + 16 + sub * LAC__UNIT_Q6_K;
        return (lac__unit_place){u, 0, sub, sub + 16};
    }
}

bool lac__type_quantised(lac_type type);
/* Bytes of eight rows × cols, 0 when the type or the shape is not supported. */
size_t lac__group_bytes(lac_type type, uint32_t cols);
void lac__pack_group(lac_type type, lac_type packed, uint32_t cols, const uint8_t *const rows[8],
                     uint8_t *out);
/* Writes one row of the file's layout as floats. */
void lac__dequantise(lac_type type, const uint8_t *row, uint32_t cols, float *out);

/* ---- half precision, identical to the hardware's round-to-nearest-even ---- */
static inline float lac__bits_f32(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static inline uint32_t lac__f32_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return bits;
}

static inline float lac__f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = h & 0x7fffu;
    if (rest >= 0x7c00u)
        return lac__bits_f32(sign | 0x7f800000u | (rest & 0x3ffu) << 13 |
                             (rest > 0x7c00u ? 0x400000u : 0u));
    if (rest < 0x400u) { /* subnormal or zero: exact in float32 */
        float f = (float)rest * 0x1p-24f;
        return sign ? -f : f;
    }
    return lac__bits_f32(sign | ((rest << 13) + ((127u - 15u) << 23)));
}

static inline uint16_t lac__f32_to_f16(float f)
{
    uint32_t bits = lac__f32_bits(f), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    if (rest >= 0x7f800000u)
        return (uint16_t)(sign | 0x7c00u |
                          (rest > 0x7f800000u ? 0x200u | (rest >> 13 & 0x3ffu) : 0u));
    if (rest >= 0x477ff000u) /* rounds to 65536 or more */
        return (uint16_t)(sign | 0x7c00u);
    if (rest < 0x38800000u) { /* subnormal: adding 0.5 aligns the bits and rounds to even */
        float r = lac__bits_f32(rest) + 0.5f;
        return (uint16_t)(sign | (lac__f32_bits(r) - 0x3f000000u));
    }
    rest += 0xfffu + (rest >> 13 & 1u);
    return (uint16_t)(sign | ((rest - (112u << 23)) >> 13));
}

static inline float lac__bf16_to_f32(uint16_t h)
{
    return lac__bits_f32((uint32_t)h << 16);
}

#endif
