/* Bytes → one HTTP request, by llhttp in strict mode, with the limits of base/limits.h around it.
 * Loop thread (pure). Must not know sockets, routes or JSON.
 *
 * A small scanner runs over the head before the parser sees it: it counts what the parser does not
 * report (white space, folded lines), finds the blank line, and so makes every limit independent of
 * how the bytes were cut into reads. */
#include "request.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/assert.h"
#include "trace.h"

enum {
    BLANK_LINES_MAX = 8,             /* before a request line: some old clients send one */
    CHUNK_OVERHEAD_MAX = 1024 * 1024 /* chunk sizes, extensions, trailers of one request */
};

static lac__request *of(llhttp_t *parser)
{
    return parser->data;
}

static int fail(lac__request *r, int http, const char *code, const char *param, const char *text)
{
    if (r->problem.http == 0)
        lac__problem_set(&r->problem, http, code, param, "%s", text);
    return HPE_USER;
}

static int on_url(llhttp_t *parser, const char *at, size_t length)
{
    lac__request *r = of(parser);
    LAC_ASSERT(r->url_length + length <= LAC_HTTP_URL_MAX); /* the scanner stopped longer lines */
    memcpy(r->url + r->url_length, at, length);
    r->url_length += (uint32_t)length;
    r->url[r->url_length] = '\0';
    return 0;
}

static int on_field(llhttp_t *parser, const char *at, size_t length)
{
    lac__request *r = of(parser);
    for (size_t i = 0; i < length; i++, r->name_length++)
        if (r->name_length < sizeof r->name - 1)
            r->name[r->name_length] = at[i];
    return 0;
}

static int on_value(llhttp_t *parser, const char *at, size_t length)
{
    lac__request *r = of(parser);
    size_t room = sizeof r->value - 1 - r->value_length;
    if (length > room) {
        r->value_cut = true;
        length = room;
    }
    memcpy(r->value + r->value_length, at, length);
    r->value_length += (uint32_t)length;
    return 0;
}

/* An id is echoed into our own header and into logs: only plain characters, else it is dropped. */
static void take_id(lac__request *r)
{
    if (r->value_cut || r->value_length == 0 || r->value_length > LAC__REQUEST_ID_MAX)
        return;
    for (uint32_t i = 0; i < r->value_length; i++) {
        char c = r->value[i];
        bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                     strchr("-_.:+/=", c);
        if (!plain)
            return;
    }
    memcpy(r->id, r->value, r->value_length + 1);
}

static bool is_key(const char *text)
{
    for (const char *c = text; *c; c++)
        if (*c <= ' ' || *c >= 127)
            return false;
    return *text;
}

static bool is_name(const char *text)
{
    for (const char *c = text; *c; c++)
        if (!(*c >= '0' && *c <= '9') && !(*c >= 'a' && *c <= 'z') && !(*c >= 'A' && *c <= 'Z') &&
            !strchr("._-", *c))
            return false;
    return *text != '\0';
}

/* What shapes the choice of a class; 0 also for a header that is none of these. */
static int take_class_header(lac__request *r)
{
    if (strcasecmp(r->name, "x-lacuna-hint") == 0) {
        /* One too long stays too long: the core counts it. */
        snprintf(r->hint, sizeof r->hint, "%.*s", LAC_HINT_TEXT_MAX, r->value);
    } else if (strcasecmp(r->name, "x-lacuna-sparse") == 0) {
        bool on = strcasecmp(r->value, "true") == 0;
        if (!on && strcasecmp(r->value, "false") != 0)
            return fail(r, 400, "bad_header", "X-Lacuna-Sparse",
                        "header X-Lacuna-Sparse is unknown, allowed true or false");
        r->sparse = on ? LAC_SPARSE_ON : LAC_SPARSE_OFF;
    } else if (strcasecmp(r->name, "x-lacuna-class") == 0) {
        if (r->value_cut || r->value_length > LAC_NAME_MAX || !is_name(r->value))
            return fail(r, 400, "bad_header", "X-Lacuna-Class",
                        "header X-Lacuna-Class is no name of a class, allowed A-Z a-z 0-9 . _ -");
        memcpy(r->force, r->value, r->value_length + 1);
    } else if (strcasecmp(r->name, "x-lacuna-tier") == 0) {
        r->has_tier = true;
        r->tier_max = LAC_TIER_NONE;
        if (strcasecmp(r->value, "none") != 0 && !lac_tier_parse(r->value, &r->tier_max))
            return fail(r, 400, "bad_header", "X-Lacuna-Tier",
                        "header X-Lacuna-Tier is unknown, allowed none, gold, standard, economy");
    }
    return 0;
}

static int take_header(lac__request *r)
{
    if (r->name_length >= sizeof r->name)
        return 0; /* none of ours is that long */
    if (strcasecmp(r->name, "host") == 0) {
        if (r->has_host)
            return fail(r, 400, "bad_header", "Host", "header Host came twice, allowed once");
        r->has_host = true;
        if (!r->value_cut && r->value_length < sizeof r->host)
            memcpy(r->host, r->value, r->value_length + 1);
    } else if (strcasecmp(r->name, "x-request-id") == 0) {
        take_id(r);
    } else if (strcasecmp(r->name, "content-type") == 0) {
        memcpy(r->content_type, r->value, r->value_length + 1);
    } else if (strcasecmp(r->name, "idempotency-key") == 0) {
        if (!is_key(r->value) || r->value_length > LAC_JOB_KEY_MAX)
            return fail(r, 400, "bad_header", "Idempotency-Key",
                        "header Idempotency-Key is not 1 to 64 plain characters");
        memcpy(r->idempotency_key, r->value, r->value_length + 1);
    } else if (strcasecmp(r->name, "traceparent") == 0) {
        if (!r->value_cut)
            lac__trace_read(r->value, r->trace);
    } else if (strcasecmp(r->name, "origin") == 0) {
        if (!r->value_cut && is_key(r->value))
            memcpy(r->origin, r->value, r->value_length + 1);
    } else if (strcasecmp(r->name, "access-control-request-method") == 0) {
        r->asks_method = true;
    } else if (strcasecmp(r->name, "content-encoding") == 0) {
        if (strcasecmp(r->value, "identity") != 0)
            return fail(r, 415, "unsupported_encoding", "Content-Encoding",
                        "header Content-Encoding is given, allowed only identity");
    } else if (strcasecmp(r->name, "expect") == 0) {
        if (strcasecmp(r->value, "100-continue") != 0)
            return fail(r, 417, "bad_header", "Expect",
                        "header Expect is unknown, allowed only 100-continue");
        r->expect_continue = true;
    } else if (strcasecmp(r->name, "authorization") == 0) {
        /* Another scheme or a key too long is no key of ours. */
        if (!r->value_cut && strncasecmp(r->value, "bearer ", 7) == 0)
            snprintf(r->key, sizeof r->key, "%s", r->value + 7 + strspn(r->value + 7, " "));
        explicit_bzero(r->value, sizeof r->value);
    } else if (strncasecmp(r->name, "x-lacuna-", 9) == 0) {
        return take_class_header(r);
    }
    return 0;
}

static int on_value_complete(llhttp_t *parser)
{
    lac__request *r = of(parser);
    if (r->name_length < sizeof r->name)
        r->name[r->name_length] = '\0';
    while (r->value_length > 0 && strchr(" \t", r->value[r->value_length - 1]))
        r->value_length--;
    r->value[r->value_length] = '\0';
    /* Trailers come after the head and change nothing. */
    int result = r->stage == LAC__REQUEST_HEAD ? take_header(r) : 0;
    r->name_length = r->value_length = 0;
    r->value_cut = false;
    return result;
}

static int on_head(llhttp_t *parser)
{
    lac__request *r = of(parser);
    /* We speak no other protocol: an offer to upgrade is ignored, the request is served as it is.
     */
    parser->upgrade = parser->method == HTTP_CONNECT;
    r->method = parser->method;
    r->http10 = parser->http_major == 1 && parser->http_minor == 0;
    r->keep_alive = llhttp_should_keep_alive(parser);
    r->expects_body = (parser->flags & F_CHUNKED) || parser->content_length > 0;
    if (parser->http_major != 1 || parser->http_minor > 1)
        return fail(r, 505, "bad_version", NULL, "http version is neither 1.0 nor 1.1");
    if (parser->method == HTTP_CONNECT)
        return fail(r, 501, "unsupported_method", NULL, "method CONNECT is not served here");
    if (!r->has_host && !r->http10)
        return fail(r, 400, "bad_header", "Host", "header Host is missing, HTTP/1.1 needs it");
    if (!(parser->flags & F_CHUNKED) && parser->content_length > r->body_max) {
        lac__problem_set(&r->problem, 413, "body_too_large", NULL,
                         "body is %llu bytes, allowed at most %zu",
                         (unsigned long long)parser->content_length, r->body_max);
        return HPE_USER;
    }
    r->expect_continue = r->expect_continue && r->expects_body && !r->http10;
    r->stage = LAC__REQUEST_BODY;
    return 0;
}

static int on_body(llhttp_t *parser, const char *at, size_t length)
{
    lac__request *r = of(parser);
    r->body_seen += length;
    if (r->body_seen > r->body_max) {
        lac__problem_set(&r->problem, 413, "body_too_large", NULL,
                         "body is over %zu bytes, the most allowed", r->body_max);
        return HPE_USER;
    }
    if (!r->discard_body)
        lac_buf_add(&r->body, at, length);
    return 0;
}

static int on_chunk(llhttp_t *parser)
{
    lac__request *r = of(parser);
    if (++r->chunks <= LAC_HTTP_CHUNKS_MAX)
        return 0;
    lac__problem_set(&r->problem, 413, "body_too_large", NULL,
                     "body is cut into more than %d chunks, the most allowed", LAC_HTTP_CHUNKS_MAX);
    return -1;
}

static int on_complete(llhttp_t *parser)
{
    of(parser)->stage = LAC__REQUEST_COMPLETE;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_url = on_url,
    .on_header_field = on_field,
    .on_header_value = on_value,
    .on_header_value_complete = on_value_complete,
    .on_headers_complete = on_head,
    .on_body = on_body,
    .on_chunk_header = on_chunk,
    .on_message_complete = on_complete,
};

void lac__request_start(lac__request *r, size_t body_max)
{
    LAC_ASSERT(r->body.data == NULL);
    memset(r, 0, offsetof(lac__request, url));
    r->url[0] = '\0';
    r->body_max = body_max;
    r->body.cap = body_max;
    llhttp_init(&r->parser, HTTP_REQUEST, &settings);
    r->parser.data = r;
}

void lac__request_free(lac__request *r)
{
    lac_buf_free(&r->body);
}

/* What the parser's refusals mean: { errno, status, code, param, text }. */
static const struct {
    llhttp_errno_t error;
    int http;
    const char *code, *param, *text;
} refusals[] = {
    {HPE_INVALID_VERSION, 505, "bad_version", NULL, "http version is neither 1.0 nor 1.1"},
    {HPE_PAUSED_H2_UPGRADE, 505, "bad_version", NULL, "http version is 2, allowed 1.0 and 1.1"},
    {HPE_INVALID_URL, 400, "bad_request", NULL, "request target is malformed"},
    {HPE_INVALID_CONTENT_LENGTH, 400, "bad_header", "Content-Length",
     "header Content-Length is malformed, allowed one decimal number below 2^64"},
    {HPE_UNEXPECTED_CONTENT_LENGTH, 400, "bad_header", "Content-Length",
     "header Content-Length came twice or beside Transfer-Encoding"},
    {HPE_INVALID_TRANSFER_ENCODING, 400, "bad_header", "Transfer-Encoding",
     "header Transfer-Encoding is unknown, allowed only chunked"},
    {HPE_INVALID_CHUNK_SIZE, 400, "bad_request", NULL,
     "chunk size is malformed, allowed hexadecimal below 2^64"},
    {HPE_INVALID_HEADER_TOKEN, 400, "bad_header", NULL, "a header holds a forbidden character"},
    {HPE_UNEXPECTED_SPACE, 400, "bad_header", NULL, "a header holds a space where none is allowed"},
};

static void parser_refused(lac__request *r, llhttp_errno_t error)
{
    r->stage = LAC__REQUEST_FAILED;
    if (r->problem.http)
        return; /* a callback said it better */
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        if (refusals[i].error == error) {
            fail(r, refusals[i].http, refusals[i].code, refusals[i].param, refusals[i].text);
            return;
        }
    if (error == HPE_INVALID_METHOD && r->first >= 'A' && r->first <= 'Z') {
        fail(r, 501, "unsupported_method", NULL, "method is unknown to this server");
        return;
    }
    lac__problem_set(&r->problem, 400, "bad_request", NULL, "malformed http: %s",
                     r->parser.reason && *r->parser.reason ? r->parser.reason
                                                           : llhttp_errno_name(error));
}

/* Runs the parser over bytes that passed the scanner; returns how many it took. */
static size_t parse(lac__request *r, const char *data, size_t length)
{
    llhttp_errno_t error = llhttp_execute(&r->parser, data, length);
    if (error == HPE_OK)
        return length;
    const char *at = llhttp_get_error_pos(&r->parser);
    size_t used = at && at >= data && at <= data + length ? (size_t)(at - data) : length;
    if (error != HPE_PAUSED || r->stage != LAC__REQUEST_COMPLETE)
        parser_refused(r, error);
    return used;
}

typedef enum { SCAN_MORE, SCAN_END, SCAN_BAD } scan_result;

/* The request line alone is skipped when blank, and has its own limit. */
static scan_result scan_request_line(lac__request *r, char c)
{
    if (r->line_bytes == 0 && (c == '\r' || c == '\n')) {
        if (++r->blank_lines <= 2 * BLANK_LINES_MAX)
            return SCAN_MORE;
        fail(r, 400, "bad_request", NULL, "more than 8 blank lines before a request");
        return SCAN_BAD;
    }
    if (r->line_bytes == 0)
        r->first = c;
    if (++r->line_bytes > LAC_HTTP_URL_MAX) {
        lac__problem_set(&r->problem, 414, "uri_too_long", NULL,
                         "request line is over %d bytes, the most allowed", LAC_HTTP_URL_MAX);
        return SCAN_BAD;
    }
    if (c == '\n') {
        r->lines = 1;
        r->line_bytes = 0;
    }
    return SCAN_MORE;
}

static scan_result scan_byte(lac__request *r, char c)
{
    if (r->lines == 0)
        return scan_request_line(r, c);
    if (r->line_bytes == 0 && (c == ' ' || c == '\t')) {
        fail(r, 400, "bad_header", NULL, "a header line starts with white space (folding)");
        return SCAN_BAD;
    }
    if (r->line_bytes == 0 && c == ':') { /* the parser lets it pass */
        fail(r, 400, "bad_header", NULL, "a header has no name");
        return SCAN_BAD;
    }
    r->line_bytes++;
    if (++r->header_bytes > LAC_HTTP_HEADERS_BYTES_MAX) {
        lac__problem_set(&r->problem, 431, "headers_too_large", NULL,
                         "headers are over %d bytes, the most allowed", LAC_HTTP_HEADERS_BYTES_MAX);
        return SCAN_BAD;
    }
    if (c != '\n')
        return SCAN_MORE;
    if (r->line_bytes <= 2)
        return SCAN_END;
    r->line_bytes = 0;
    if (r->lines++ <= LAC_HTTP_HEADERS_MAX)
        return SCAN_MORE;
    lac__problem_set(&r->problem, 431, "headers_too_large", NULL,
                     "more than %d headers, the most allowed", LAC_HTTP_HEADERS_MAX);
    return SCAN_BAD;
}

static size_t feed_head(lac__request *r, const char *data, size_t length)
{
    scan_result result = SCAN_MORE;
    size_t end = 0;
    /* The scanner's finding must not hide an earlier one of the parser, so it waits here. */
    while (end < length && result == SCAN_MORE)
        result = scan_byte(r, data[end++]);
    lac__problem found = r->problem;
    r->problem.http = 0;
    size_t used = parse(r, data, result == SCAN_BAD ? end - 1 : end);
    if (r->stage == LAC__REQUEST_FAILED)
        return used;
    if (result == SCAN_BAD) {
        r->problem = found;
        r->stage = LAC__REQUEST_FAILED;
    } else if (result == SCAN_END && r->stage == LAC__REQUEST_HEAD) {
        if (r->parser.method == HTTP_PRI) /* the preface goes on behind its blank line */
            fail(r, 505, "bad_version", NULL, "http version is 2, allowed 1.0 and 1.1");
        else
            fail(r, 400, "bad_request", NULL, "malformed http: the head ends too early");
        r->stage = LAC__REQUEST_FAILED;
    }
    return used;
}

size_t lac__request_feed(lac__request *r, const char *data, size_t length)
{
    if (r->stage == LAC__REQUEST_HEAD)
        return feed_head(r, data, length);
    if (r->stage != LAC__REQUEST_BODY)
        return 0;
    uint64_t before = r->body_seen;
    size_t used = parse(r, data, length);
    r->overhead += used - (r->body_seen - before);
    if (r->stage != LAC__REQUEST_FAILED && r->overhead > CHUNK_OVERHEAD_MAX) {
        lac__problem_set(&r->problem, 413, "body_too_large", NULL,
                         "chunk framing is over %d bytes, the most allowed", CHUNK_OVERHEAD_MAX);
        r->stage = LAC__REQUEST_FAILED;
    }
    return used;
}
