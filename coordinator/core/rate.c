/* How often something happened in the last LAC__RATE_SECONDS: a ring of counts by second. Pure. */
#include "state.h"

static void advance(lac__rate *rate, uint64_t now_ms)
{
    uint64_t second = now_ms / 1000, gap = second - rate->second;
    LAC_ASSERT(second >= rate->second);
    for (uint64_t i = 1; i <= gap && i <= LAC__RATE_SECONDS; i++)
        rate->counts[(rate->second + i) % LAC__RATE_SECONDS] = 0;
    rate->second = second;
}

void lac__rate_add(lac__rate *rate, uint64_t now_ms)
{
    advance(rate, now_ms);
    rate->counts[rate->second % LAC__RATE_SECONDS]++;
}

uint64_t lac__rate_sum(const lac__rate *rate, uint64_t now_ms)
{
    uint64_t second = now_ms / 1000, sum = 0;
    for (uint64_t i = 0; i < LAC__RATE_SECONDS && i <= rate->second; i++)
        if (rate->second - i + LAC__RATE_SECONDS > second)
            sum += rate->counts[(rate->second - i) % LAC__RATE_SECONDS];
    return sum;
}
