/* Sixteen virtual lanes in plain C: the truth of the lane vocabulary. Every operation is IEEE exact
 * or written here, so the vector versions cannot differ. LAC__LANES_PLAIN (the yardstick)
 * multiplies and adds in two roundings, which compilers vectorise for any machine. */
#ifndef LAC_KERNELS_LANES_SCALAR_H
#define LAC_KERNELS_LANES_SCALAR_H

#include <math.h>

#include "cpu.h"

typedef struct {
    float v[16];
} vf;
typedef struct {
    int32_t v[16];
} vi;

#define LAC__EACH for (int i = 0; i < 16; i++)

LAC__ALWAYS float scalar_fma(float a, float b, float c)
{
#if defined(LAC__LANES_PLAIN)
    return a * b + c;
#else
    return fmaf(a, b, c);
#endif
}

LAC__ALWAYS vf vf_load(const float *p)
{
    vf r;
    memcpy(&r, p, sizeof r);
    return r;
}
LAC__ALWAYS void vf_store(float *p, vf a)
{
    memcpy(p, &a, sizeof a);
}
/* The first n lanes; the others are zero, and their memory is not read. */
LAC__ALWAYS vf vf_load_part(const float *p, uint32_t n)
{
    vf r = {{0}};
    memcpy(&r, p, n * sizeof *p);
    return r;
}
LAC__ALWAYS void vf_store_part(float *p, vf a, uint32_t n)
{
    memcpy(p, &a, n * sizeof *p);
}
LAC__ALWAYS vf vf_set(float x)
{
    vf r;
    LAC__EACH r.v[i] = x;
    return r;
}
LAC__ALWAYS vf vf_add(vf a, vf b)
{
    LAC__EACH a.v[i] += b.v[i];
    return a;
}
LAC__ALWAYS vf vf_sub(vf a, vf b)
{
    LAC__EACH a.v[i] -= b.v[i];
    return a;
}
LAC__ALWAYS vf vf_mul(vf a, vf b)
{
    LAC__EACH a.v[i] *= b.v[i];
    return a;
}
LAC__ALWAYS vf vf_div(vf a, vf b)
{
    LAC__EACH a.v[i] /= b.v[i];
    return a;
}
LAC__ALWAYS vf vf_fma(vf a, vf b, vf c)
{
    LAC__EACH c.v[i] = scalar_fma(a.v[i], b.v[i], c.v[i]);
    return c;
}
/* As the hardware does it: b where the two do not compare. */
LAC__ALWAYS vf vf_max(vf a, vf b)
{
    LAC__EACH b.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i];
    return b;
}
LAC__ALWAYS vf vf_min(vf a, vf b)
{
    LAC__EACH b.v[i] = a.v[i] < b.v[i] ? a.v[i] : b.v[i];
    return b;
}
/* x < limit ? a : b */
LAC__ALWAYS vf vf_select_below(vf x, vf limit, vf a, vf b)
{
    LAC__EACH b.v[i] = x.v[i] < limit.v[i] ? a.v[i] : b.v[i];
    return b;
}
/* Lanes lo … hi−1 of a, `fill` elsewhere: a blend, so that garbage lanes cannot leak. */
LAC__ALWAYS vf vf_keep(vf a, int32_t lo, int32_t hi, vf fill)
{
    LAC__EACH a.v[i] = i >= lo && i < hi ? a.v[i] : fill.v[i];
    return a;
}
LAC__ALWAYS vi vf_bits(vf a)
{
    vi r;
    memcpy(&r, &a, sizeof r);
    return r;
}
LAC__ALWAYS vf vi_floats(vi a)
{
    vf r;
    memcpy(&r, &a, sizeof r);
    return r;
}
LAC__ALWAYS vi vi_set(int32_t x)
{
    vi r;
    LAC__EACH r.v[i] = x;
    return r;
}
LAC__ALWAYS vi vi_add(vi a, vi b)
{
    LAC__EACH a.v[i] = (int32_t)((uint32_t)a.v[i] + (uint32_t)b.v[i]);
    return a;
}
LAC__ALWAYS vi vi_sub(vi a, vi b)
{
    LAC__EACH a.v[i] = (int32_t)((uint32_t)a.v[i] - (uint32_t)b.v[i]);
    return a;
}
LAC__ALWAYS vi vi_and(vi a, vi b)
{
    LAC__EACH a.v[i] &= b.v[i];
    return a;
}
LAC__ALWAYS vi vi_max(vi a, vi b)
{
    LAC__EACH a.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i];
    return a;
}
LAC__ALWAYS vi vi_shift_left(vi a, int n)
{
    LAC__EACH a.v[i] = (int32_t)((uint32_t)a.v[i] << n);
    return a;
}
/* The fixed tree: lane i with i+8, then i+4, i+2, i+1. */
LAC__ALWAYS float vf_sum(vf a)
{
    for (int w = 8; w > 0; w /= 2)
        for (int i = 0; i < w; i++)
            a.v[i] += a.v[i + w];
    return a.v[0];
}
LAC__ALWAYS float vf_largest(vf a)
{
    for (int w = 8; w > 0; w /= 2)
        for (int i = 0; i < w; i++)
            a.v[i] = a.v[i] > a.v[i + w] ? a.v[i] : a.v[i + w];
    return a.v[0];
}
LAC__ALWAYS int32_t vi_sum(vi a)
{
    int32_t s = 0;
    LAC__EACH s += a.v[i];
    return s;
}
LAC__ALWAYS int32_t vi_largest(vi a)
{
    int32_t m = a.v[0];
    LAC__EACH m = a.v[i] > m ? a.v[i] : m;
    return m;
}
/* Low bytes of the lanes. */
LAC__ALWAYS void vi_store_bytes(int8_t *p, vi a)
{
    LAC__EACH p[i] = (int8_t)(uint8_t)(uint32_t)a.v[i];
}
LAC__ALWAYS vf vf_load_f16(const uint16_t *p)
{
    vf r;
    LAC__EACH r.v[i] = lac__f16_to_f32(p[i]);
    return r;
}
LAC__ALWAYS void vf_store_f16(uint16_t *p, vf a)
{
    LAC__EACH p[i] = lac__f32_to_f16(a.v[i]);
}
/* Eight values from each of two places. */
LAC__ALWAYS vf vf_load_two(const float *p, const float *q)
{
    vf r;
    memcpy(r.v, p, 32);
    memcpy(r.v + 8, q, 32);
    return r;
}
LAC__ALWAYS vf vf_load_two_f16(const uint16_t *p, const uint16_t *q)
{
    vf r;
    for (int i = 0; i < 8; i++) {
        r.v[i] = lac__f16_to_f32(p[i]);
        r.v[i + 8] = lac__f16_to_f32(q[i]);
    }
    return r;
}
LAC__ALWAYS vf vf_load_i8(const int8_t *p)
{
    vf r;
    LAC__EACH r.v[i] = (float)p[i];
    return r;
}
LAC__ALWAYS vf vf_load_two_i8(const int8_t *p, const int8_t *q)
{
    vf r;
    for (int i = 0; i < 8; i++) {
        r.v[i] = (float)p[i];
        r.v[i + 8] = (float)q[i];
    }
    return r;
}
#endif
