/* What is left of a tenant's quota, as HTTP header lines. Pure. */
#ifndef LAC__FRONTEND_QUOTA_H
#define LAC__FRONTEND_QUOTA_H

#include "base/mem.h"
#include "base/msg.h"
#include "errors.h"

/* OpenAI's x-ratelimit-* lines of the limits there are. */
void lac__quota_headers(const lac_quota *quota, lac_buf *out);
/* Retry-After and the lines above, for a refusal. */
void lac__refusal_headers(const lac__problem *problem, const lac_quota *quota, lac_buf *out);

#endif
