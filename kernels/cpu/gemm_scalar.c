/* Products in plain C: the truth. Per output row and column, blocks ascending:
 *   acc = fma(dw·dx, (float) Σ code·q, acc);  then the constant term: acc = fma(m, dx·Σq, acc)
 * with m the block's minimum, −8d (Q4_0), −16d (Q5_0), −min (Q4_K, Q5_K), none for Q8_0. Q6_K does
 * so per 16 columns, with m = −32d. Float types: four chains (column mod 4), each an fma ascending,
 * then (c0+c1)+(c2+c3). Integer sums are exact, so any order of them gives the same. */
#include "gemm.h"

#include <math.h>

static float f16_at(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, 2);
    return lac__f16_to_f32(v);
}

/* Code of row r, column c of a unit. */
LAC__ALWAYS int32_t code_at(const lac_type type, const uint8_t *q, uint32_t r, uint32_t c)
{
    uint32_t k = c % 16, i = k / 4, at = 4 * r + k % 4;
    const uint8_t *high = q + 128;
    if (type == LAC_TYPE_Q8_0)
        return (int8_t)q[32 * (c / 4) + at];
    int32_t code = c < 16 ? q[32 * i + at] & 15 : q[32 * i + at] >> 4;
    if (type == LAC_TYPE_Q5_0 || type == LAC_TYPE_Q5_1 || type == LAC_TYPE_Q5_K)
        code |= (high[at] >> (c < 16 ? i : 4 + i) & 1) << 4;
    if (type == LAC_TYPE_Q6_K)
        code |= (high[(c < 16 ? 0 : 32) + at] >> 2 * i & 3) << 4;
    return code;
}

LAC__ALWAYS float block_add(const lac_type type, const uint8_t *group, lac__unit_place at,
                            uint32_t r, const int8_t *code, const lac__xblock *x, float acc)
{
    int32_t lo = 0, hi = 0;
    for (uint32_t c = 0; c < 16; c++) {
        lo += code[c] * x->q[c];
        hi += code[c + 16] * x->q[c + 16];
    }
    float d = f16_at(group + at.d + 2 * r), m = 0.0f;
    if (type == LAC_TYPE_Q6_K) {
        float d_lo = d * (float)(int8_t)group[at.scale + r];
        float d_hi = d * (float)(int8_t)group[at.scale + 8 + r];
        acc = fmaf(d_lo * x->d, (float)lo, acc);
        acc = fmaf(-32.0f * d_lo, x->s_lo, acc);
        acc = fmaf(d_hi * x->d, (float)hi, acc);
        return fmaf(-32.0f * d_hi, x->s_hi, acc);
    }
    if (type == LAC_TYPE_Q4_K || type == LAC_TYPE_Q5_K) {
        m = -(f16_at(group + at.m + 2 * r) * (float)group[at.scale + 8 + r]);
        d = d * (float)group[at.scale + r];
    } else if (type == LAC_TYPE_Q4_1 || type == LAC_TYPE_Q5_1) {
        m = f16_at(group + at.m + 2 * r);
    } else if (type == LAC_TYPE_Q4_0 || type == LAC_TYPE_Q5_0) {
        m = (type == LAC_TYPE_Q4_0 ? -8.0f : -16.0f) * d;
    }
    acc = fmaf(d * x->d, (float)(lo + hi), acc);
    return type == LAC_TYPE_Q8_0 ? acc : fmaf(m, x->s, acc);
}

LAC__ALWAYS void integer_gemm(const lac_type type, const lac_weight *w, uint32_t group,
                              uint32_t groups, const lac__tile *x, float *out, size_t ld)
{
    for (uint32_t g = 0; g < groups; g++) {
        const uint8_t *data = w->data + (size_t)(group + g) * w->group_bytes;
        for (uint32_t c = 0; c < x->n && !x->goes_on; c++)
            memset(out + c * ld + g * 8, 0, 8 * sizeof *out);
        for (uint32_t b = 0; b < w->cols / 32; b++) {
            lac__unit_place at = lac__unit_at(type, b);
            for (uint32_t r = 0; r < 8; r++) {
                int8_t code[32];
                for (uint32_t k = 0; k < 32; k++)
                    code[k] = (int8_t)code_at(type, data + at.codes, r, k);
                for (uint32_t c = 0; c < x->n; c++) {
                    float *acc = out + c * ld + g * 8 + r;
                    *acc = block_add(type, data, at, r, code, &x->x[b * x->n + c], *acc);
                }
            }
        }
    }
}

LAC__ALWAYS float weight_at(const lac_type type, const uint8_t *group, size_t at)
{
    float f;
    uint16_t h;
    if (type == LAC_TYPE_F32) {
        memcpy(&f, group + at * 4, 4);
        return f;
    }
    memcpy(&h, group + at * 2, 2);
    return type == LAC_TYPE_F16 ? lac__f16_to_f32(h) : lac__bf16_to_f32(h);
}

LAC__ALWAYS void float_gemm(const lac_type type, const lac_weight *w, uint32_t group,
                            uint32_t groups, const lac__tile *x, float *out, size_t ld)
{
    for (uint32_t g = 0; g < groups; g++) {
        const uint8_t *data = w->data + (size_t)(group + g) * w->group_bytes;
        for (uint32_t c = 0; c < x->n; c++) {
            float acc[4][8] = {{0}};
            for (uint32_t k = 0; k < w->cols; k++)
                for (uint32_t r = 0; r < 8; r++)
                    acc[k % 4][r] = fmaf(weight_at(type, data, (size_t)k * 8 + r),
                                         x->f[(size_t)k * x->n + c], acc[k % 4][r]);
            for (uint32_t r = 0; r < 8; r++)
                out[c * ld + g * 8 + r] = (acc[0][r] + acc[1][r]) + (acc[2][r] + acc[3][r]);
        }
    }
}

LAC__GEMM_DEFINE(scalar)
