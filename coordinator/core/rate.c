/* How often something happened in the last seconds: a ring of counts by second. Pure. */
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

uint64_t lac__rate_sum(const lac__rate *rate, uint64_t now_ms, uint32_t seconds)
{
    LAC_ASSERT(seconds <= LAC__RATE_SECONDS);
    uint64_t second = now_ms / 1000, sum = 0;
    for (uint64_t i = 0; i < seconds && i <= rate->second; i++)
        if (rate->second - i + seconds > second)
            sum += rate->counts[(rate->second - i) % LAC__RATE_SECONDS];
    return sum;
}

double lac__rate_mean(const lac__rate *rate, uint64_t now_ms, uint64_t start_ms, uint32_t seconds)
{
    uint64_t passed = (now_ms - start_ms) / 1000 + 1;
    double over = passed < seconds ? (double)passed : seconds;
    return (double)lac__rate_sum(rate, now_ms, seconds) / over;
}
