/* One URL into a growing file, through libcurl (its only door). Main thread; a fetch blocks.
 * Headers are looked at anew for each answer of a chain of redirects; the body is judged at its
 * first byte: a 206 must go on exactly where the file ends and be of the same state, a 200 begins
 * anew. */
#include "fetch.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/assert.h"
#include "base/text.h"
#include "fetch_part.h"

/* What the headers of the latest answer said. */
typedef struct {
    char etag[LAC_FETCH_VALIDATOR_MAX + 1], modified[LAC_FETCH_VALIDATOR_MAX + 1];
    char range[96]; /* Content-Range */
} answer_headers;

typedef struct {
    const lac_fetch *fetch;
    lac__part part;
    CURL *curl;
    struct curl_slist *if_range;
    answer_headers headers;
    bool began;        /* this answer's first byte was judged */
    bool anew;         /* the answer cannot be gone on with: ask for all of it */
    uint64_t asked_at; /* where this request's range begins */
    uint64_t total;    /* 0 = unknown */
    uint64_t resumed;
    lac_error *err; /* status is set once something is final */
} transfer;

/* ---- headers ---- */

static void keep_value(const char *text, size_t length, char *out, size_t size)
{
    while (length > 0 && (*text == ' ' || *text == '\t'))
        text++, length--;
    while (length > 0 && (text[length - 1] == '\r' || text[length - 1] == '\n' ||
                          text[length - 1] == ' ' || text[length - 1] == '\t'))
        length--;
    out[0] = '\0';
    if (length >= size)
        return; /* too long to be kept: as if it were not there */
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] < 0x20 || (unsigned char)text[i] > 0x7e)
            return;
    memcpy(out, text, length);
    out[length] = '\0';
}

static size_t on_header(char *line, size_t size, size_t count, void *arg)
{
    transfer *t = arg;
    size_t length = size * count;
    const char *colon = memchr(line, ':', length);
    if (length >= 5 && memcmp(line, "HTTP/", 5) == 0) {
        t->headers = (answer_headers){0};
        return length;
    }
    if (!colon)
        return length;
    size_t name = (size_t)(colon - line), rest = length - name - 1;
    if (name == 4 && strncasecmp(line, "ETag", 4) == 0)
        keep_value(colon + 1, rest, t->headers.etag, sizeof t->headers.etag);
    else if (name == 13 && strncasecmp(line, "Last-Modified", 13) == 0)
        keep_value(colon + 1, rest, t->headers.modified, sizeof t->headers.modified);
    else if (name == 13 && strncasecmp(line, "Content-Range", 13) == 0)
        keep_value(colon + 1, rest, t->headers.range, sizeof t->headers.range);
    return length;
}

/* What If-Range may name: a strong ETag, else the date (RFC 9110, 13.1.5). */
static const char *validator_of(const answer_headers *headers)
{
    return headers->etag[0] == '"' ? headers->etag : headers->modified;
}

/* "bytes 5-99/100" → 5 and 100; "bytes 5-99/" and a star → 5 and 0. */
static bool range_parse(const char *text, uint64_t *first, uint64_t *total)
{
    unsigned long long a, b, all = 0;
    int used = 0;
    if (sscanf(text, "bytes %19llu-%19llu/%n", &a, &b, &used) != 2 || used == 0 || b < a)
        return false;
    if (strcmp(text + used, "*") != 0) {
        int end = 0;
        if (sscanf(text + used, "%19llu%n", &all, &end) != 1 || text[used + end] || all <= b)
            return false;
    }
    *first = a;
    *total = all;
    return true;
}

/* "bytes" star slash N, the form of a 416; 0 when it is another. */
static uint64_t range_of_refusal(const char *text)
{
    unsigned long long all = 0;
    int end = 0;
    return sscanf(text, "bytes */%19llu%n", &all, &end) == 1 && !text[end] ? all : 0;
}

/* ---- body ---- */

static void note(const transfer *t, const char *text)
{
    if (t->fetch->note)
        t->fetch->note(t->fetch->arg, text);
}

static lac_status size_check(transfer *t)
{
    if (t->total > t->fetch->bytes_max)
        return lac_fail(t->err, LAC_ETOOBIG, "the file has %llu bytes, limit %llu",
                        (unsigned long long)t->total, (unsigned long long)t->fetch->bytes_max);
    return LAC_OK;
}

/* The first byte of an answer: is it what was asked for? */
static lac_status body_begins(transfer *t)
{
    long code = 0;
    curl_off_t length = -1;
    curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &code);
    curl_easy_getinfo(t->curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    const char *validator = validator_of(&t->headers);
    t->began = true;
    if (code == 206) {
        uint64_t first, total;
        bool right = range_parse(t->headers.range, &first, &total) && first == t->part.bytes;
        bool same =
            !t->part.validator[0] || !validator[0] || strcmp(validator, t->part.validator) == 0;
        if (!right || !same) {
            t->anew = true;
            return LAC_AGAIN;
        }
        t->total = total;
        return size_check(t);
    }
    t->total = length > 0 ? (uint64_t)length : 0;
    if (size_check(t) != LAC_OK)
        return t->err->status;
    if (t->part.bytes > 0)
        note(t, t->asked_at > 0 ? "the file changed or the server sends no parts: from the start"
                                : "from the start");
    t->resumed = 0;
    return lac__part_restart(&t->part, t->fetch->url, validator, t->err);
}

static size_t on_body(char *bytes, size_t size, size_t count, void *arg)
{
    transfer *t = arg;
    size_t length = size * count;
    long code = 0;
    curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &code);
    if (code >= 300)
        return length; /* the text of an error */
    if (!t->began && body_begins(t) != LAC_OK)
        return 0;
    if (t->part.bytes > t->fetch->bytes_max || length > t->fetch->bytes_max - t->part.bytes) {
        lac_fail(t->err, LAC_ETOOBIG, "more than %llu bytes",
                 (unsigned long long)t->fetch->bytes_max);
        return 0;
    }
    if (lac__part_add(&t->part, bytes, length, t->total, t->err) != LAC_OK)
        return 0;
    if (t->fetch->progress)
        t->fetch->progress(t->fetch->arg, t->part.bytes, t->total);
    return length;
}

/* ---- one request ---- */

static lac_status curl_prepare(transfer *t)
{
    bool secure = strncasecmp(t->fetch->url, "https:", 6) == 0;
    CURL *c = t->curl;
    CURLcode bad = CURLE_OK;
#define SET(option, value)                                                                         \
    if (bad == CURLE_OK)                                                                           \
    bad = curl_easy_setopt(c, option, value)
    SET(CURLOPT_URL, t->fetch->url);
    SET(CURLOPT_PROTOCOLS_STR, "http,https,file");
    SET(CURLOPT_REDIR_PROTOCOLS_STR,
        secure ? "https" : "http,https"); /* never down, never to disk */
    SET(CURLOPT_FOLLOWLOCATION, 1L);
    SET(CURLOPT_MAXREDIRS, (long)LAC_FETCH_REDIRECTS_MAX);
    SET(CURLOPT_CONNECTTIMEOUT, (long)LAC_FETCH_CONNECT_S);
    SET(CURLOPT_LOW_SPEED_LIMIT, 1L);
    SET(CURLOPT_LOW_SPEED_TIME, (long)LAC_FETCH_SILENCE_S);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_USERAGENT, "lacuna-engine/" LAC_VERSION);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, t);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, t);
#undef SET
    return bad == CURLE_OK
               ? LAC_OK
               : lac_fail(t->err, LAC_EINTERNAL, "libcurl: %s", curl_easy_strerror(bad));
}

static CURLcode ask(transfer *t)
{
    char range[32], line[LAC_FETCH_VALIDATOR_MAX + 16];
    t->began = t->anew = false;
    t->asked_at = strncasecmp(t->fetch->url, "file:", 5) == 0 ? 0 : t->part.bytes;
    curl_slist_free_all(t->if_range);
    t->if_range = NULL;
    if (t->asked_at > 0) {
        snprintf(range, sizeof range, "%llu-", (unsigned long long)t->asked_at);
        if (t->part.validator[0]) {
            snprintf(line, sizeof line, "If-Range: %s", t->part.validator);
            t->if_range = curl_slist_append(NULL, line);
        }
    }
    curl_easy_setopt(t->curl, CURLOPT_RANGE, t->asked_at > 0 ? range : NULL);
    curl_easy_setopt(t->curl, CURLOPT_HTTPHEADER, t->if_range);
    return curl_easy_perform(t->curl);
}

/* An answer without a usable body: by its code. LAC_AGAIN = worth another try. */
static lac_status code_judge(transfer *t, long code)
{
    if (code == 416 && range_of_refusal(t->headers.range) == t->part.bytes && t->part.bytes > 0)
        return LAC_OK; /* it was whole already */
    if (code == 416) {
        t->anew = true;
        return LAC_AGAIN;
    }
    if (code == 408 || code == 425 || code == 429 || code >= 500) {
        lac_fail(t->err, LAC_EPEER, "the server answers %ld", code);
        return LAC_AGAIN;
    }
    lac_status status = code == 404 || code == 410   ? LAC_ENOTFOUND
                        : code == 401 || code == 403 ? LAC_EREFUSED
                                                     : LAC_EPEER;
    return lac_fail(t->err, status, "the server answers %ld%s", code,
                    status == LAC_ENOTFOUND  ? " (not found)"
                    : status == LAC_EREFUSED ? " (not allowed)"
                                             : "");
}

static lac_status curl_judge(transfer *t, CURLcode got)
{
    switch (got) {
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
        return lac_fail(t->err, LAC_EINVAL,
                        "%s (http, https and file are understood; a redirect "
                        "never leads from https to http)",
                        curl_easy_strerror(got));
    case CURLE_TOO_MANY_REDIRECTS:
        return lac_fail(t->err, LAC_EPEER, "more than %d redirects", LAC_FETCH_REDIRECTS_MAX);
    case CURLE_FILE_COULDNT_READ_FILE:
        return lac_fail(t->err, LAC_ENOTFOUND, "cannot read the file");
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_OUT_OF_MEMORY: return lac_fail(t->err, LAC_EPEER, "%s", curl_easy_strerror(got));
    default: break;
    }
    lac_fail(t->err, LAC_EPEER, "%s", curl_easy_strerror(got));
    return LAC_AGAIN;
}

/* LAC_OK: the file is whole. LAC_AGAIN: another try may help, t->err tells why. */
static lac_status try_once(transfer *t)
{
    *t->err = (lac_error){0};
    CURLcode got = ask(t);
    if (t->anew)
        return LAC_AGAIN;
    if (got == CURLE_WRITE_ERROR && t->err->status != LAC_OK)
        return t->err->status;
    if (got != CURLE_OK)
        return curl_judge(t, got);
    long code = 0;
    curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &code);
    if (code >= 300)
        return code_judge(t, code);
    if (!t->began)
        return lac_fail(t->err, LAC_EPEER, "the answer is empty");
    if (t->total > 0 && t->part.bytes != t->total) {
        lac_fail(t->err, LAC_EPEER, "the answer ends early");
        return LAC_AGAIN;
    }
    return LAC_OK;
}

static void pause_before(uint32_t tries)
{
    struct timespec wait = {.tv_sec = 0, .tv_nsec = 100000000};
    for (uint32_t i = 1; i < tries && i < 5; i++) {
        wait.tv_sec = wait.tv_sec * 2 + (wait.tv_nsec * 2) / 1000000000;
        wait.tv_nsec = wait.tv_nsec * 2 % 1000000000;
    }
    nanosleep(&wait, NULL);
}

static lac_status give_up(transfer *t)
{
    char why[LAC_ERROR_TEXT_MAX / 2], all[32] = "";
    snprintf(why, sizeof why, "%.150s", t->err->text[0] ? t->err->text : "no usable answer");
    if (t->total > 0)
        snprintf(all, sizeof all, " of %llu", (unsigned long long)t->total);
    return lac_fail(t->err, LAC_EPEER, "%s; %llu%s bytes are here, the same command goes on", why,
                    (unsigned long long)t->part.bytes, all);
}

/* Tries until the file is whole or nothing comes any more. */
static lac_status run(transfer *t)
{
    uint32_t fruitless = 0;
    for (uint32_t answers = 0; answers < LAC_FETCH_ANSWERS_MAX; answers++) {
        uint64_t before = t->part.bytes;
        lac_status status = try_once(t);
        if (status != LAC_AGAIN)
            return status;
        if (t->anew && lac__part_restart(&t->part, t->fetch->url, "", t->err) != LAC_OK)
            return t->err->status;
        fruitless = t->part.bytes > before ? 0 : fruitless + 1;
        if (fruitless == LAC_FETCH_TRIES_MAX)
            break;
        note(t, t->anew ? "the file changed on the server: from the start"
                        : "the connection was lost: going on");
        pause_before(fruitless + 1);
    }
    return give_up(t);
}

lac_status lac_fetch_file(const lac_fetch *fetch, lac_fetched *out, lac_error *err)
{
    lac_error own = {0};
    transfer t = {.fetch = fetch, .err = err ? err : &own};
    *t.err = (lac_error){0};
    if (lac__part_open(&t.part, fetch->path, fetch->url, fetch->checked_later, t.err) != LAC_OK)
        return t.err->status;
    t.resumed = t.part.bytes;
    lac_fetched fetched = {0};
    lac_status status = LAC_OK;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != 0 || !(t.curl = curl_easy_init())) {
        status = lac_fail(t.err, LAC_EINTERNAL, "libcurl does not start");
        goto close;
    }
    status = curl_prepare(&t);
    if (status == LAC_OK)
        status = run(&t);
    if (status == LAC_OK)
        status = lac__part_finish(&t.part, &fetched.sha256, t.err);
    if (status == LAC_OK) {
        fetched.bytes = t.part.bytes;
        fetched.resumed = t.resumed;
        *out = fetched;
    }
    curl_easy_cleanup(t.curl);
    curl_slist_free_all(t.if_range);
    curl_global_cleanup();
close:
    lac__part_close(&t.part);
    return status;
}
