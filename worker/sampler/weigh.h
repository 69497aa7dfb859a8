/* The arithmetic under the sampler: weights, their logarithm, order of logits.
 * Shared inside this folder. Every result is the same on every machine: elementary operations only,
 * in a fixed order, no library exp or log (whose last bit differs between C libraries and CPUs). */
#ifndef LAC__SAMPLER_WEIGH_H
#define LAC__SAMPLER_WEIGH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Logits are weighed in blocks of this many, so that a draw recomputes one block only. */
enum { LAC__BLOCK = 256 };

/* out[i] = e^((logits[i] − max) · inverse_temperature) for i < count ≤ LAC__BLOCK, relative error
 * below 3e-7; 0 where that is below e^−87. logits[i] ≤ max, −∞ allowed, no NaN. Returns the sum, in
 * double, over four lanes (i mod 4) added at the end in order. */
double lac__weigh(const float *logits, size_t count, float max, float inverse_temperature,
                  float out[LAC__BLOCK]);

/* Natural logarithm of a positive normal double, relative error below 1e-15. */
double lac__log(double x);

/* Makes NaN −∞, +∞ the largest float and −0 +0, in place; returns the largest value. */
float lac__clean(float *logits, size_t count);

/* Order of floats as order of unsigned integers (no NaN, no −0). */
static inline uint32_t lac__key(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

static inline float lac__unkey(uint32_t key)
{
    uint32_t bits = key & 0x80000000u ? key & 0x7fffffffu : ~key;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#endif
