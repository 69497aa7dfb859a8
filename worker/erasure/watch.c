/* The watch on a class's uncertainty. Pure. */
#include "erasure/watch.h"

#include <math.h>

bool lac_watch_add(lac_watch *watch, double entropy)
{
    if (!isfinite(entropy))
        return false;
    if (watch->looks >= LAC_WATCH_LOOKS && entropy > watch->mean + LAC_WATCH_RISE)
        return ++watch->high >= LAC_WATCH_HIGH;
    watch->high = 0;
    watch->looks++;
    watch->mean += (entropy - watch->mean) / watch->looks;
    return false;
}

/* H = ln Σ e^(x−m) − Σ (x−m)·e^(x−m) / Σ e^(x−m), m the largest: one pass after the maximum. */
double lac_watch_entropy(const float *logits, uint32_t count)
{
    float top = logits[0];
    for (uint32_t i = 1; i < count; i++)
        top = logits[i] > top ? logits[i] : top;
    double sum = 0, weighted = 0;
    for (uint32_t i = 0; i < count; i++) {
        float x = logits[i] - top;
        float e = expf(x);
        sum += (double)e;
        weighted += e > 0 ? (double)(x * e) : 0; /* a banned token's −inf times 0 */
    }
    return log(sum) - weighted / sum;
}
