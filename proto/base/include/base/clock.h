/* Time. The core never calls this: it is given `now`. Any thread. */
#ifndef LAC_BASE_CLOCK_H
#define LAC_BASE_CLOCK_H

#include <stdint.h>

/* Monotonic time; wall-clock jumps do not move it. */
uint64_t lac_now_ns(void);
static inline uint64_t lac_now_ms(void)
{
    return lac_now_ns() / 1000000u;
}
/* Seconds since 1970, for what people read. */
int64_t lac_wall_s(void);

#endif
