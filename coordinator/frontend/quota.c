/* Quotas and retry times as header lines. Pure, any thread; knows no connection. */
#include "quota.h"

/* As OpenAI writes times: "250ms", "2s", "1m0s". Rounded up: earlier would be too early. */
static void duration(uint32_t ms, lac_buf *out)
{
    uint32_t seconds = (ms + 999) / 1000;
    if (ms < 1000)
        lac_buf_printf(out, "%ums", ms);
    else if (seconds < 60)
        lac_buf_printf(out, "%us", seconds);
    else
        lac_buf_printf(out, "%um%us", seconds / 60, seconds % 60);
}

static void lines(const char *what, uint64_t limit, uint64_t left, uint32_t reset_ms, lac_buf *out)
{
    if (!limit)
        return;
    lac_buf_printf(out, "x-ratelimit-limit-%s: %llu\r\nx-ratelimit-remaining-%s: %llu\r\n", what,
                   (unsigned long long)limit, what, (unsigned long long)left);
    lac_buf_printf(out, "x-ratelimit-reset-%s: ", what);
    duration(reset_ms, out);
    lac_buf_text(out, "\r\n");
}

void lac__quota_headers(const lac_quota *q, lac_buf *out)
{
    lines("requests", q->requests_limit, q->requests_left, q->requests_reset_ms, out);
    lines("tokens", q->tokens_limit, q->tokens_left, q->tokens_reset_ms, out);
}

void lac__refusal_headers(const lac__problem *problem, const lac_quota *quota, lac_buf *out)
{
    if (problem->retry_after_ms > 0)
        lac_buf_printf(out, "Retry-After: %u\r\n", (problem->retry_after_ms + 999) / 1000);
    lac__quota_headers(quota, out);
}
