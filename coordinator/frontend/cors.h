/* Which web pages may ask: the allow-list of origins (Fetch standard, CORS protocol). Pure but for
 * the reply to a preflight. */
#ifndef LAC__FRONTEND_CORS_H
#define LAC__FRONTEND_CORS_H

#include "base/status.h"
#include "parts.h"

struct lac__route;

/* A list of origins with commas between, "*" for any, or "" for none; LAC_EINVAL names the entry
 * that is no scheme://host[:port]. */
lac_status lac__cors_check(const char *list, lac_error *err);
bool lac__cors_allows(const char *list, const char *origin);
/* Header lines of every reply to an allowed origin. */
void lac__cors_headers(const char *list, const char *origin, lac_buf *out);
/* The route of a preflight from an allowed origin, else NULL. */
const struct lac__route *lac__cors_route(const lac__conn *conn);

#endif
