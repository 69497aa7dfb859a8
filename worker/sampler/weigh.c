/* Exponentials, logarithm and cleaning of logits: pure functions, any thread. Knows nothing of
 * sequences or sampling parameters. */
#include "weigh.h"

#include <float.h>
#include <math.h>

/* Four lanes: the width that x86-64 and arm64 both have as a baseline. Operations on these types
 * are the elementwise IEEE operations, so the compiler's choice of instructions cannot change a
 * bit. */
typedef float lanes_f __attribute__((vector_size(16)));
typedef int32_t lanes_i __attribute__((vector_size(16)));
typedef float half_f __attribute__((vector_size(8)));
typedef double half_d __attribute__((vector_size(16)));
enum { LANES = 4 };

static inline lanes_f spread(float x)
{
    return (lanes_f){x, x, x, x};
}

/* Picks a where the mask is set (all ones), else b. */
static inline lanes_f pick(lanes_i mask, lanes_f a, lanes_f b)
{
    return (lanes_f)((mask & (lanes_i)a) | (~mask & (lanes_i)b));
}

/* e^x for x ≤ 0: x = k·ln 2 + r with |r| ≤ ln 2 / 2, ln 2 in two parts (Cody and Waite), Taylor's
 * polynomial of degree 7 in r, then k added to the exponent. */
static inline lanes_f exp_lanes(lanes_f x)
{
    const float lowest = -87.0f; /* the result is a normal float down to here */
    lanes_i live = x >= spread(lowest);
    x = pick(live, x, spread(0.0f));
    /* Adding 1.5·2²³ leaves the nearest integer in the low mantissa bits. */
    const lanes_f magic = spread(12582912.0f);
    lanes_f shifted = x * spread(1.44269504088896341f) + magic;
    lanes_f k = shifted - magic;
    lanes_f r = x - k * spread(0.693359375f);
    r = r - k * spread(-2.12194440054690583e-4f);
    /* Estrin's grouping: a shorter chain of dependent operations than Horner's. */
    lanes_f r2 = r * r;
    lanes_f p01 = spread(1.0f) + r;
    lanes_f p23 = spread(0.5f) + r * spread(1.0f / 6.0f);
    lanes_f p45 = spread(1.0f / 24.0f) + r * spread(1.0f / 120.0f);
    lanes_f p67 = spread(1.0f / 720.0f) + r * spread(1.0f / 5040.0f);
    lanes_f p = p01 + r2 * (p23 + r2 * (p45 + r2 * p67));
    lanes_i exponent = ((lanes_i)shifted - (lanes_i)magic) << 23;
    return (lanes_f)((lanes_i)p + exponent) * pick(live, spread(1.0f), spread(0.0f));
}

double lac__weigh(const float *logits, size_t count, float max, float inverse_temperature,
                  float out[LAC__BLOCK])
{
    half_d low = {0, 0}, high = {0, 0};
    size_t whole = count - count % LANES;
    for (size_t i = 0; i < whole; i += LANES) {
        lanes_f x;
        memcpy(&x, logits + i, sizeof x);
        x = exp_lanes((x - spread(max)) * spread(inverse_temperature));
        memcpy(out + i, &x, sizeof x);
        low += __builtin_convertvector(((half_f){x[0], x[1]}), half_d);
        high += __builtin_convertvector(((half_f){x[2], x[3]}), half_d);
    }
    if (whole < count) {
        lanes_f x = spread(-INFINITY);
        memcpy(&x, logits + whole, (count - whole) * sizeof *logits);
        x = exp_lanes((x - spread(max)) * spread(inverse_temperature));
        memcpy(out + whole, &x, (count - whole) * sizeof *out);
        low += __builtin_convertvector(((half_f){x[0], x[1]}), half_d);
        high += __builtin_convertvector(((half_f){x[2], x[3]}), half_d);
    }
    return ((low[0] + low[1]) + high[0]) + high[1];
}

/* log x = e·ln 2 + 2·atanh((m − 1)/(m + 1)) with m in [√½, √2), the series cut at s²³. */
double lac__log(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
    bits = (bits & 0x000fffffffffffffu) | 0x3ff0000000000000u;
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m > 1.41421356237309515) {
        m *= 0.5;
        exponent++;
    }
    double s = (m - 1.0) / (m + 1.0), square = s * s, sum = 0.0;
    for (int n = 23; n >= 1; n -= 2)
        sum = sum * square + 1.0 / n;
    return exponent * 0.69314718055994531 + 2.0 * s * sum;
}

static inline lanes_f clean_lanes(lanes_f x)
{
    x = pick(x > spread(-INFINITY), x, spread(-INFINITY)); /* a comparison with NaN is false */
    x = pick(x < spread(FLT_MAX), x, spread(FLT_MAX));
    return x + spread(0.0f);
}

float lac__clean(float *logits, size_t count)
{
    lanes_f max = spread(-INFINITY);
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        lanes_f x;
        memcpy(&x, logits + i, sizeof x);
        x = clean_lanes(x);
        memcpy(logits + i, &x, sizeof x);
        max = pick(x > max, x, max);
    }
    if (i < count) {
        lanes_f x = spread(-INFINITY);
        memcpy(&x, logits + i, (count - i) * sizeof *logits);
        x = clean_lanes(x);
        memcpy(logits + i, &x, (count - i) * sizeof *logits);
        max = pick(x > max, x, max);
    }
    float best = max[0];
    for (int lane = 1; lane < LANES; lane++)
        best = max[lane] > best ? max[lane] : best;
    return best;
}
