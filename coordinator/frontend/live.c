/* The live page: one file without any outside resource, sent with a policy that allows its own
 * script and style by their hashes and nothing else; the state it asks for every second. Loop
 * thread. Must not know what the state means. */
#include "live.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/assert.h"
#include "base/digest.h"
#include "connection.h"
#include "routes.h"

static const char content_json[] = "application/json";
static const char no_store[] = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n";

/* ---- who may see it ---- */

static bool local(const lac__conn *conn)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
    const char *host = conn->request.host;
    /* The page's own questions carry no Origin; those of other pages do, whatever CORS allows. */
    if (!conn->frontend->loopback || *conn->request.origin)
        return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t length = strlen(names[i]);
        if (!strncasecmp(host, names[i], length) && (!host[length] || host[length] == ':'))
            return true;
    }
    /* An address of its own among 127.0.0.0/8. */
    return !strncmp(host, "127.", 4) && strspn(host, "0123456789.:") == strlen(host);
}

bool lac__live_open(const lac__conn *conn)
{
    bool ours = conn->route->handle == lac__live_show || conn->route->handle == lac__live_state;
    return ours && local(conn);
}

/* ---- the policy ---- */

/* RFC 4648, section 4, of the 32 bytes of a digest. */
static void base64(const lac_digest *digest, char out[45])
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *in = digest->bytes;
    size_t at = 0;
    for (size_t i = 0; i < sizeof digest->bytes; i += 3) {
        uint32_t left = (uint32_t)(sizeof digest->bytes - i);
        uint32_t three = (uint32_t)in[i] << 16 | (left > 1 ? (uint32_t)in[i + 1] << 8 : 0) |
                         (left > 2 ? in[i + 2] : 0);
        for (uint32_t k = 0; k < 4; k++)
            out[at++] = k <= left ? letters[three >> (18 - 6 * k) & 63] : '=';
    }
    out[at] = 0;
}

/* The hash of what stands between `open` and `close` in the page. */
static void hash_between(const char *open, const char *close, char out[45])
{
    const char *page = (const char *)lac__live_page;
    const char *from = memmem(page, lac__live_page_size, open, strlen(open));
    LAC_ASSERT(from);
    from += strlen(open);
    const char *to =
        memmem(from, lac__live_page_size - (size_t)(from - page), close, strlen(close));
    LAC_ASSERT(to);
    lac_digest digest;
    lac_sha256(from, (size_t)(to - from), &digest);
    base64(&digest, out);
}

/* Made once: the page is part of the program. */
static const char *policy(void)
{
    static char text[512];
    if (*text)
        return text;
    char script[45], style[45];
    hash_between("<script>", "</script>", script);
    hash_between("<style>", "</style>", style);
    snprintf(text, sizeof text,
             "Content-Security-Policy: default-src 'none'; script-src 'sha256-%s'; style-src "
             "'sha256-%s'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
             "frame-ancestors 'none'\r\nReferrer-Policy: no-referrer\r\n%s",
             script, style, no_store);
    return text;
}

/* ---- replies ---- */

/* True when this client may not see the state; then it was told so. With keys it has shown one. */
static bool hidden(lac__conn *conn)
{
    if (conn->frontend->access || local(conn))
        return false;
    lac__problem problem;
    lac__problem_set(
        &problem, 403, "local_only", "Host",
        "the live page is shown on this machine only (Host localhost or 127.0.0.1), or "
        "with an API key");
    lac__conn_problem(conn, &problem);
    return true;
}

void lac__live_show(lac__conn *conn)
{
    if (hidden(conn))
        return;
    lac_buf body = {.cap = LAC_HTTP_REPLY_MAX};
    lac_buf_add(&body, lac__live_page, lac__live_page_size);
    lac__conn_reply(conn, 200, "text/html; charset=utf-8", policy(), &body);
    lac_buf_free(&body);
}

void lac__live_state(lac__conn *conn)
{
    const lac_frontend_hooks *hooks = &conn->frontend->hooks;
    if (hidden(conn))
        return;
    lac_buf body = {.cap = LAC_HTTP_REPLY_MAX};
    hooks->status(hooks->arg, &body);
    lac__conn_reply(conn, 200, content_json, no_store, &body);
    lac_buf_free(&body);
}

void lac__live_health(lac__conn *conn)
{
    const lac_frontend_hooks *hooks = &conn->frontend->hooks;
    lac_buf body = {.cap = LAC_HTTP_REPLY_MAX};
    bool well = hooks->health(hooks->arg, &body);
    lac__conn_reply(conn, well ? 200 : 503, content_json, no_store, &body);
    lac_buf_free(&body);
}
