/* Collectives over send and receive. Sums are added in order of rank at every size, so that all
 * ranks hold the same bits and a sum does not depend on how it was cut. Must not know a transport.
 */
#include <stdlib.h>
#include <string.h>

#include "ops.h"

enum { WHOLE_MAX = 4096 }; /* floats that everybody sends to everybody in one go */

lac_status lac__collect_broadcast(lac_fabric *f, uint32_t root, lac_fabric_call call, void *data,
                                  size_t room, size_t *bytes, lac_error *err)
{
    if (f->rank != root)
        return f->ops->receive(f, root, LAC_FABRIC_ORDERS, call, data, room, bytes, err);
    lac_status status = LAC_OK;
    for (uint32_t r = 0; r < f->ranks && status == LAC_OK; r++)
        if (r != root)
            status = f->ops->send(f, r, LAC_FABRIC_ORDERS, call, data, *bytes, err);
    return status == LAC_OK ? f->ops->settle(f, call, err) : status;
}

lac_status lac__collect_all_gather(lac_fabric *f, lac_fabric_span span, lac_fabric_call call,
                                   const void *mine, size_t bytes, void *all, lac_error *err)
{
    lac_status status = LAC_OK;
    uint32_t end = span.first + span.count;
    uint8_t *out = all;
    memcpy(out + (f->rank - span.first) * bytes, mine, bytes);
    for (uint32_t r = span.first; r < end && status == LAC_OK; r++)
        if (r != f->rank)
            status = f->ops->send(f, r, LAC_FABRIC_SUMS, call, mine, bytes, err);
    for (uint32_t r = span.first; r < end && status == LAC_OK; r++)
        if (r != f->rank)
            status = f->ops->receive(f, r, LAC_FABRIC_SUMS, call, out + (r - span.first) * bytes,
                                     bytes, NULL, err);
    return status == LAC_OK ? f->ops->settle(f, call, err) : status;
}

lac_status lac__collect_barrier(lac_fabric *f, lac_fabric_span span, lac_fabric_call call,
                                lac_error *err)
{
    uint8_t mine = 1, all[LAC_RANKS_MAX];
    return lac__collect_all_gather(f, span, call, &mine, 1, all, err);
}

/* ---- sums ---- */

static lac_status scratch_reserve(lac_fabric *f, size_t count, lac_error *err)
{
    if (count <= f->scratch_count)
        return LAC_OK;
    float *more = realloc(f->scratch, count * sizeof *more);
    if (!more)
        return lac_fail(err, LAC_ENOMEM, "no memory to add up %zu values", count);
    f->scratch = more;
    f->scratch_count = count;
    return LAC_OK;
}

/* Sends x to the others, receives theirs and adds all in order of rank; the result is in the
 * scratch memory's first `count` values. */
static lac_status sum_pieces(lac_fabric *f, lac_fabric_span span, lac_fabric_call call,
                             const float *mine, size_t count, lac_error *err)
{
    float *sum = f->scratch, *piece = f->scratch + count;
    lac_status status = LAC_OK;
    for (uint32_t i = 0; i < span.count && status == LAC_OK; i++) {
        const float *x = mine;
        if (span.first + i != f->rank) {
            status = f->ops->receive(f, span.first + i, LAC_FABRIC_SUMS, call, piece,
                                     count * sizeof *piece, NULL, err);
            x = piece;
        }
        if (status != LAC_OK)
            break;
        if (i == 0)
            memcpy(sum, x, count * sizeof *sum);
        else
            for (size_t k = 0; k < count; k++)
                sum[k] += x[k];
    }
    return status;
}

static lac_status sum_whole(lac_fabric *f, lac_fabric_span span, lac_fabric_call call, float *x,
                            size_t count, lac_error *err)
{
    lac_status status = LAC_OK;
    for (uint32_t r = span.first; r < span.first + span.count && status == LAC_OK; r++)
        if (r != f->rank)
            status = f->ops->send(f, r, LAC_FABRIC_SUMS, call, x, count * sizeof *x, err);
    if (status == LAC_OK)
        status = sum_pieces(f, span, call, x, count, err);
    if (status == LAC_OK)
        status = f->ops->settle(f, call, err);
    if (status == LAC_OK)
        memcpy(x, f->scratch, count * sizeof *x);
    return status;
}

/* Each rank adds one part and hands the result round. */
static lac_status sum_in_parts(lac_fabric *f, lac_fabric_span span, lac_fabric_call call, float *x,
                               size_t count, lac_error *err)
{
    size_t begin[LAC_RANKS_MAX + 1];
    uint32_t own = f->rank - span.first;
    for (uint32_t i = 0; i <= span.count; i++)
        begin[i] = count * i / span.count;
    lac_status status = LAC_OK;
    for (uint32_t i = 0; i < span.count && status == LAC_OK; i++)
        if (i != own)
            status = f->ops->send(f, span.first + i, LAC_FABRIC_SUMS, call, x + begin[i],
                                  (begin[i + 1] - begin[i]) * sizeof *x, err);
    size_t mine = begin[own + 1] - begin[own];
    if (status == LAC_OK)
        status = sum_pieces(f, span, call, x + begin[own], mine, err);
    if (status == LAC_OK)
        status = f->ops->settle(f, call, err);
    if (status != LAC_OK)
        return status;
    memcpy(x + begin[own], f->scratch, mine * sizeof *x);
    for (uint32_t i = 0; i < span.count && status == LAC_OK; i++)
        if (i != own)
            status = f->ops->send(f, span.first + i, LAC_FABRIC_SUMS, call, x + begin[own],
                                  mine * sizeof *x, err);
    for (uint32_t i = 0; i < span.count && status == LAC_OK; i++)
        if (i != own)
            status = f->ops->receive(f, span.first + i, LAC_FABRIC_SUMS, call, x + begin[i],
                                     (begin[i + 1] - begin[i]) * sizeof *x, NULL, err);
    return status == LAC_OK ? f->ops->settle(f, call, err) : status;
}

lac_status lac__collect_all_reduce(lac_fabric *f, lac_fabric_span span, lac_fabric_call call,
                                   float *x, size_t count, lac_error *err)
{
    lac_status status = scratch_reserve(f, 2 * count, err);
    if (status != LAC_OK)
        return status;
    return count <= WHOLE_MAX || span.count == 2 ? sum_whole(f, span, call, x, count, err)
                                                 : sum_in_parts(f, span, call, x, count, err);
}
