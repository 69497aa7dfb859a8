/* A token bucket that holds one minute's worth and fills evenly: within any time d it gives at most
 * limit · (1 + d / 1 min). Levels are whole numbers of 1/60000, which is what comes in a
 * millisecond for a limit of 1, so that nothing is lost by rounding. Pure. */
#include "state.h"

enum { LAC__UNITS = 60000 };

static int64_t full_of(const lac__bucket *b)
{
    return (int64_t)b->limit * LAC__UNITS;
}

static void refill(lac__bucket *b, uint64_t now_ms)
{
    LAC_ASSERT(now_ms >= b->at_ms);
    uint64_t passed = now_ms - b->at_ms;
    b->at_ms = now_ms;
    uint64_t missing = (uint64_t)(full_of(b) - b->level);
    if (passed > missing / b->limit)
        b->level = full_of(b);
    else
        b->level += (int64_t)(passed * b->limit);
}

void lac__bucket_limit(lac__bucket *b, uint64_t limit, uint64_t now_ms)
{
    LAC_ASSERT(limit <= LAC_QUOTA_MAX);
    if (b->limit)
        refill(b, now_ms);
    bool fresh = !b->limit;
    b->limit = limit;
    b->at_ms = now_ms;
    if (fresh || b->level > full_of(b))
        b->level = full_of(b);
}

uint32_t lac__bucket_wait_ms(lac__bucket *b, uint64_t amount, uint64_t now_ms)
{
    if (!b->limit)
        return 0;
    refill(b, now_ms);
    /* More than it ever holds is given when it is full, and paid off afterwards. */
    int64_t need = (int64_t)(amount < b->limit ? amount : b->limit) * LAC__UNITS;
    if (b->level >= need)
        return 0;
    uint64_t wait = ((uint64_t)(need - b->level) + b->limit - 1) / b->limit;
    return wait > UINT32_MAX ? UINT32_MAX : (uint32_t)wait;
}

void lac__bucket_take(lac__bucket *b, int64_t amount, uint64_t now_ms)
{
    if (!b->limit)
        return;
    refill(b, now_ms);
    b->level -= amount * LAC__UNITS;
    if (b->level > full_of(b))
        b->level = full_of(b);
}

uint64_t lac__bucket_left(lac__bucket *b, uint64_t now_ms, uint32_t *reset_ms)
{
    *reset_ms = 0;
    if (!b->limit)
        return 0;
    refill(b, now_ms);
    *reset_ms = lac__bucket_wait_ms(b, b->limit, now_ms);
    return b->level > 0 ? (uint64_t)b->level / LAC__UNITS : 0;
}
