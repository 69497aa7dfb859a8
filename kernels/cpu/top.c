/* The best few logits of a row as the head makes them: each thread keeps its own list over the
 * slices it computed, and the lists are merged at the end. The order is total (the larger logit,
 * then the lower token), so neither the threads nor the order of slices can be seen in the result.
 */
#include "backend.h"

#include "base/assert.h"

static bool comes_before(lac_top_logit a, lac_top_logit b)
{
    return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

static void add(lac_top_logit *list, uint32_t *count, uint32_t wanted, lac_top_logit x)
{
    if (*count == wanted && !comes_before(x, list[wanted - 1]))
        return;
    uint32_t at = *count < wanted ? (*count)++ : wanted - 1;
    for (; at > 0 && comes_before(x, list[at - 1]); at--)
        list[at] = list[at - 1];
    list[at] = x;
}

void lac__top_take(lac__top *top, uint32_t wanted, uint32_t first, const float *x, uint32_t n,
                   float largest)
{
    LAC_ASSERT(wanted > 0 && wanted <= LAC_TOP_LOGITS_MAX);
    if (top->count == wanted && largest < top->list[wanted - 1].logit)
        return; /* nearly every slice */
    for (uint32_t i = 0; i < n; i++)
        add(top->list, &top->count, wanted, (lac_top_logit){first + i, x[i]});
}

void lac__top_merge(const lac__top *from, uint32_t wanted, lac_top_logit *out, uint32_t *count)
{
    for (uint32_t i = 0; i < from->count; i++)
        add(out, count, wanted, from->list[i]);
}
