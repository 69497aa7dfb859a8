/* The best few logits of a row: kept as the head's slices are made, each thread its own, merged,
 * and computed once more.
 *
 * Rounding the head's input to bytes is a third of all that the step's rounding costs, and what it
 * changes that anybody sees is which of the best tokens is the very best. So the first
 * LAC__REFINED logits of a row are computed again with the normed row as it is: these are the
 * logits of the row, in whatever form they are asked for. Which those are depends on a total order
 * (the larger logit, then the lower token), their sums are plain C in a fixed order, so neither
 * threads nor instruction sets show in the result. */
#include <math.h>

#include "backend.h"
#include "base/assert.h"

static bool comes_before(lac_top_logit a, lac_top_logit b)
{
    return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

static void add(lac__top *top, uint32_t wanted, lac_top_logit x)
{
    if (top->count == wanted && !comes_before(x, top->list[wanted - 1]))
        return;
    uint32_t at = top->count < wanted ? top->count++ : wanted - 1;
    for (; at > 0 && comes_before(x, top->list[at - 1]); at--)
        top->list[at] = top->list[at - 1];
    top->list[at] = x;
}

/* As many as may be among the wanted ones after the first have changed. */
static uint32_t kept(const lac_logit_row *row)
{
    return LAC__REFINED + (row->top_count > 0 ? row->top_count : 1);
}

void lac__top_take(lac__top *top, const lac_logit_row *row, uint32_t first, const float *x,
                   uint32_t n, float largest)
{
    uint32_t wanted = kept(row);
    LAC_ASSERT(wanted <= LAC__TOP_MAX);
    if (top->count == wanted && largest < top->list[wanted - 1].logit)
        return; /* nearly every slice */
    for (uint32_t i = 0; i < n; i++)
        add(top, wanted, (lac_top_logit){first + i, x[i]});
}

/* Sixteen sums, folded like every other one. */
static float dot(const float *a, const float *b, uint32_t n)
{
    float sums[16] = {0};
    uint32_t k = 0;
    for (; k + 16 <= n; k += 16)
        for (uint32_t i = 0; i < 16; i++)
            sums[i] += a[k + i] * b[k + i];
    for (uint32_t i = 0; k + i < n; i++)
        sums[i] += a[k + i] * b[k + i];
    for (uint32_t width = 8; width > 0; width /= 2)
        for (uint32_t i = 0; i < width; i++)
            sums[i] += sums[i + width];
    return sums[0];
}

static void refine(lac_backend *be, const lac_op *op, lac__local *l, uint32_t row, lac__top *top)
{
    uint32_t hidden = be->options.hidden,
             count = top->count < LAC__REFINED ? top->count : LAC__REFINED;
    const float *norm = (const float *)(const void *)op->u.head.norm->data;
    (void)be->kernels->norm(be->h + (size_t)row * hidden, norm, hidden, op->u.head.eps, l->row);
    for (uint32_t i = 0; i < count; i++) {
        lac__unpack_row(op->u.head.weight, top->list[i].token, l->weights);
        float x = dot(l->row, l->weights, hidden);
        if (op->u.head.softcap > 0.0f)
            be->kernels->softcap(&x, 1, op->u.head.softcap);
        l->odd |= !isfinite(x);
        top->list[i].logit = x;
    }
}

void lac__top_finish(lac_backend *be, const lac__phase *ph, lac__local *l, uint32_t i)
{
    lac_logit_row *row = &be->batch->logit_rows[i];
    lac__top all = {.count = 0}, sorted = {.count = 0};
    for (uint32_t t = 0; t < be->threads; t++)
        for (uint32_t k = 0; k < be->locals[t].top[i].count; k++)
            add(&all, kept(row), be->locals[t].top[i].list[k]);
    if (ph->quant)
        refine(be, ph->op, l, row->row, &all);
    for (uint32_t k = 0; k < all.count; k++) {
        add(&sorted, kept(row), all.list[k]);
        if (row->logits)
            row->logits[all.list[k].token] = all.list[k].logit;
    }
    LAC_ASSERT(sorted.count > 0 && sorted.count >= row->top_count);
    row->best_token = sorted.list[0].token;
    row->best_logit = sorted.list[0].logit;
    for (uint32_t k = 0; k < row->top_count; k++)
        row->top[k] = sorted.list[k];
}
