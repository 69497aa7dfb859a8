/* Cross-origin requests: only origins of the list get the headers that let a page read a reply. No
 * credentials are ever allowed: pages send an API key themselves. */
#include "cors.h"

#include <ctype.h>
#include <string.h>

#include "connection.h"
#include "routes.h"

/* One entry: its start and length; moves *list behind it. */
static size_t entry(const char **list, const char **at)
{
    *list += strspn(*list, ", ");
    *at = *list;
    size_t length = strcspn(*list, ", ");
    *list += length;
    return length;
}

static bool is_origin(const char *text, size_t length)
{
    size_t scheme = 0;
    if (length == 1 && *text == '*')
        return true;
    while (scheme < length && islower((unsigned char)text[scheme]))
        scheme++;
    if (scheme == 0 || length < scheme + 4 || memcmp(text + scheme, "://", 3) != 0)
        return false;
    for (size_t i = scheme + 3; i < length; i++)
        if (!isalnum((unsigned char)text[i]) && !strchr(".-:[]_", text[i]))
            return false;
    return true;
}

lac_status lac__cors_check(const char *list, lac_error *err)
{
    const char *at;
    for (size_t length; (length = entry(&list, &at)) > 0;)
        if (length > LAC_ENDPOINT_MAX - 2 || !is_origin(at, length))
            return lac_fail(err, LAC_EINVAL,
                            "cors-origins has \"%.*s\", allowed scheme://host[:port] with commas "
                            "between, or *",
                            (int)(length < 80 ? length : 80), at);
    return LAC_OK;
}

bool lac__cors_allows(const char *list, const char *origin)
{
    const char *at;
    if (!*origin)
        return false;
    for (size_t length; (length = entry(&list, &at)) > 0;)
        if ((length == 1 && *at == '*') ||
            (length == strlen(origin) && memcmp(at, origin, length) == 0))
            return true;
    return false;
}

void lac__cors_headers(const char *list, const char *origin, lac_buf *out)
{
    if (lac__cors_allows(list, origin))
        lac_buf_printf(out,
                       "Access-Control-Allow-Origin: %s\r\nAccess-Control-Expose-Headers: "
                       "X-Request-Id, Retry-After, traceparent, X-Lacuna-Class, X-Lacuna-Mask, "
                       "X-Lacuna-Layers, X-Lacuna-Why, X-Lacuna-Request\r\n",
                       origin);
    if (*list) /* a cache must not give one page's reply to another */
        lac_buf_text(out, "Vary: Origin\r\n");
}

static void preflight(lac__conn *conn)
{
    lac_buf body = {.cap = 64};
    lac__conn_reply(conn, 200, "text/plain",
                    "Access-Control-Allow-Methods: GET, POST, DELETE, OPTIONS\r\n"
                    "Access-Control-Allow-Headers: Authorization, Content-Type, Idempotency-Key, "
                    "X-Request-Id, traceparent, X-Lacuna-Hint, X-Lacuna-Sparse, X-Lacuna-Tier, "
                    "X-Lacuna-Class, X-Stainless-Arch, X-Stainless-Lang, X-Stainless-OS, "
                    "X-Stainless-Package-Version, X-Stainless-Retry-Count, X-Stainless-Runtime, "
                    "X-Stainless-Runtime-Version, X-Stainless-Timeout\r\n"
                    "Access-Control-Max-Age: 600\r\n",
                    &body);
    lac_buf_free(&body);
}

const lac__route *lac__cors_route(const lac__conn *conn)
{
    static const lac__route route = {"*", HTTP_OPTIONS, preflight, "preflight", true};
    const lac__request *r = &conn->request;
    bool is = r->method == HTTP_OPTIONS && r->asks_method &&
              lac__cors_allows(conn->frontend->cors, r->origin);
    return is ? &route : NULL;
}
