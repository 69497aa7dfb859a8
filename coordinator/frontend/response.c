/* HTTP/1.x responses as bytes. Loop thread (pure but for the wall clock in Date). Must not know
 * sockets or what the bodies mean. */
#include "response.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "base/clock.h"
#include "errors.h"

/* RFC 9110 5.6.7; names are written out because strftime follows the locale. */
static void date_line(lac_buf *out)
{
    static const char days[] = "SunMonTueWedThuFriSat";
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    time_t now = (time_t)lac_wall_s();
    struct tm tm;
    if (!gmtime_r(&now, &tm))
        return;
    lac_buf_printf(out, "Date: %.3s, %02d %.3s %d %02d:%02d:%02d GMT\r\n", days + 3 * tm.tm_wday,
                   tm.tm_mday, months + 3 * tm.tm_mon, tm.tm_year + 1900, tm.tm_hour, tm.tm_min,
                   tm.tm_sec);
}

static void status_line(const lac__response *response, int http, const char *type, lac_buf *out)
{
    lac_buf_printf(out, "HTTP/1.1 %d %s\r\n", http, lac__http_reason(http));
    date_line(out);
    lac_buf_printf(out, "Content-Type: %s\r\nX-Request-Id: %s\r\n", type, response->request_id);
    lac_buf_text(out, response->shared);
}

static void connection_line(const lac__response *response, bool keep_alive, lac_buf *out)
{
    if (!keep_alive)
        lac_buf_text(out, "Connection: close\r\n");
    else if (response->http10)
        lac_buf_text(out, "Connection: keep-alive\r\n");
}

void lac__response_whole(const lac__response *response, int http, const char *type,
                         const char *extra, const char *body, size_t length, lac_buf *out)
{
    status_line(response, http, type, out);
    lac_buf_printf(out, "Content-Length: %zu\r\n", length);
    connection_line(response, response->keep_alive, out);
    lac_buf_text(out, extra);
    lac_buf_text(out, "\r\n");
    if (!response->head_only && length > 0)
        lac_buf_add(out, body, length);
}

void lac__response_stream(const lac__response *response, const char *extra, lac_buf *out)
{
    status_line(response, 200, "text/event-stream", out);
    lac_buf_text(out, "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n");
    if (!response->http10)
        lac_buf_text(out, "Transfer-Encoding: chunked\r\n");
    connection_line(response, response->keep_alive && !response->http10, out);
    lac_buf_text(out, extra);
    lac_buf_text(out, "\r\n");
}

static void framed(const lac__response *response, const char *before, const char *text,
                   size_t length, const char *after, lac_buf *out)
{
    if (!response->http10)
        lac_buf_printf(out, "%zx\r\n", strlen(before) + length + strlen(after));
    lac_buf_text(out, before);
    lac_buf_add(out, text, length);
    lac_buf_text(out, after);
    if (!response->http10)
        lac_buf_text(out, "\r\n");
}

void lac__response_event(const lac__response *response, bool named, const char *text, size_t length,
                         lac_buf *out)
{
    static const char type[] = "{\"type\":\"";
    char before[128] = "data: ";
    LAC_ASSERT(length > 0);
    if (named && length > sizeof type && memcmp(text, type, sizeof type - 1) == 0) {
        const char *name = text + sizeof type - 1;
        snprintf(before, sizeof before, "event: %.*s\ndata: ", (int)strcspn(name, "\""), name);
    }
    framed(response, before, text, length, "\n\n", out);
}

/* A comment: readers skip it, dead paths do not survive it. */
void lac__response_ping(const lac__response *response, lac_buf *out)
{
    framed(response, "", ": ping", 6, "\n\n", out);
}

void lac__response_stream_end(const lac__response *response, lac_buf *out)
{
    if (!response->http10)
        lac_buf_text(out, "0\r\n\r\n");
}
