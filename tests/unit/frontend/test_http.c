/* The HTTP layer: what is accepted, what is refused and with which status, limits, keep-alive,
 * deadlines, and that cutting the bytes changes nothing. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include "request.h"

static const char chat_body[] = "{" HI "}";

START_TEST(test_strict_mode)
{
    ck_assert_int_eq(LLHTTP_STRICT_MODE, 1);
    /* Without strict mode this header would end at the lone CR and smuggle the next. */
    lac__request r = {0};
    lac__request_start(&r, 1000);
    static const char bytes[] = "GET / HTTP/1.1\r\nHost: x\rX: y\r\n\r\n";
    lac__request_feed(&r, bytes, sizeof bytes - 1);
    ck_assert_int_eq(r.stage, LAC__REQUEST_FAILED);
    ck_assert_int_eq(r.problem.http, 400);
    lac__request_free(&r);
}
END_TEST

START_TEST(test_get_routes)
{
    harness h;
    harness_start(&h, NULL);
    client c;
    client_open(&c, &h);
    static const struct {
        const char *path;
        int status;
        const char *body;
    } cases[] = {
        {"/livez", 200, "{\"status\":\"ok\"}"},
        {"/readyz", 200, "{\"status\":\"ok\"}"},
        {"/health", 200, "{\"status\":\"ok\"}"},
        {"/metrics", 200, "# HELP"},
        {"/v1/models", 200, "{\"object\":\"list\",\"data\":[{\"id\":\"tiny\""},
        {"/v1/models/tiny-2", 200, "\"created\":6"},
        {"/v1/models/none", 404, "\"code\":\"model_not_found\""},
        {"/v1/models/", 404, "unknown URL"},
        {"/livez?x=1", 200, "ok"},
        {"http://host:1/livez", 200, "ok"},
        {"/nothing", 404,
         "{\"error\":{\"message\":\"unknown URL: GET /nothing\","
         "\"type\":\"invalid_request_error\",\"param\":null,\"code\":\"unknown_url\"}}"},
        {"/v1/chat/completions", 405, "allowed POST"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int head = 0; head < 2; head++) { /* on one connection: all of these keep it */
            char text[256];
            snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: x\r\nX-Request-Id: id-%zu\r\n\r\n",
                     head ? "HEAD" : "GET", cases[i].path, i);
            client_text(&c, text);
            reply r;
            client_reply(&c, &r, head);
            ck_assert_msg(r.status == cases[i].status, "%s: %d", cases[i].path, r.status);
            ck_assert(r.complete);
            snprintf(text, sizeof text, "id-%zu", i);
            ck_assert_str_eq(reply_header(&r, "X-Request-Id"), text);
            ck_assert_ptr_nonnull(reply_header(&r, "Date"));
            ck_assert_ptr_null(reply_header(&r, "Connection"));
            if (!head)
                ck_assert_msg(strstr(r.body.data, cases[i].body), "%s", r.body.data);
            reply_free(&r);
        }
    }
    ck_assert_uint_eq(c.in.length, 0);
    client_close(&c);
    ck_assert_double_eq(
        metric_sum(&h, "lacuna_http_requests_total", "route=\"livez\",code=\"200\""), 6);
    harness_stop(&h);
}
END_TEST

START_TEST(test_not_ready)
{
    harness h;
    harness_start(&h, NULL);
    h.is_ready = false;
    client c;
    client_open(&c, &h);
    reply r;
    client_get(&c, "/readyz", &r);
    ck_assert_int_eq(r.status, 503);
    ck_assert_str_eq(reply_header(&r, "Retry-After"), "1");
    reply_free(&r);
    client_close(&c);
    harness_stop(&h);
}
END_TEST

/* { bytes, status, text of the reply }: each on its own connection; the server lives on. */
#define H "Host: x\r\n"
static const struct {
    const char *bytes;
    int status;
    const char *says;
} hostile[] = {
    {"\x16\x03\x01\x02\x00\x01\x00", 400, "malformed http"},
    {"\r\n\r\nGARBAGE\r\n\r\n", 501, "method"},
    {"BREW /pot HTTP/1.1\r\n" H "\r\n", 501, "method"},
    {"get /livez HTTP/1.1\r\n" H "\r\n", 400, "malformed"},
    {"CONNECT a:1 HTTP/1.1\r\n" H "\r\n", 501, "CONNECT"},
    {"GET /livez HTTP/1.9\r\n" H "\r\n", 505, "version"},
    {"GET /livez HTTP/2.0\r\n" H "\r\n", 505, "version"},
    {"GET /livez HTTP/0.9\r\n\r\n", 505, "version"},
    {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "version"},
    {"GET /livez\r\n\r\n", 505, "version"},
    {"GET  HTTP/1.1\r\n" H "\r\n", 400, ""},
    {"GET /a b HTTP/1.1\r\n" H "\r\n", 400, ""},
    {"GET /\x01 HTTP/1.1\r\n" H "\r\n", 400, "target"},
    {"GET /livez HTTP/1.1\r\n\r\n", 400, "Host is missing"},
    {"GET /livez HTTP/1.1\r\n" H H "\r\n", 400, "Host came twice"},
    {"GET /livez HTTP/1.1\nHost: x\n\n", 400, ""},
    {"GET /livez HTTP/1.1\r\n" H "X: a\r\n b\r\n\r\n", 400, "folding"},
    {"GET /livez HTTP/1.1\r\n Host: x\r\n\r\n", 400, "folding"},
    {"GET /livez HTTP/1.1\r\n" H "X : a\r\n\r\n", 400, "header"},
    {"GET /livez HTTP/1.1\r\n" H "X\r\n\r\n", 400, "header"},
    {"GET /livez HTTP/1.1\r\n" H ": a\r\n\r\n", 400, "header"},
    {"GET /livez HTTP/1.1\r\n" H "X: a\rY: b\r\n\r\n", 400, ""},
    {"GET /livez HTTP/1.1\r\n" H "X: \x01\r\n\r\n", 400, "header"},
    {"POST /v1/completions HTTP/1.1\r\n" H "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400,
     "Content-Length"},
    {"POST /v1/completions HTTP/1.1\r\n" H "Content-Length: -1\r\n\r\n", 400, "Content-Length"},
    {"POST /v1/completions HTTP/1.1\r\n" H "Content-Length: 2x\r\n\r\n{}", 400, "Content-Length"},
    {"POST /v1/completions HTTP/1.1\r\n" H "Content-Length: 99999999999999999999\r\n\r\n", 400,
     "Content-Length"},
    {"POST /v1/completions HTTP/1.1\r\n" H "Content-Length: 9999999999\r\n\r\n", 413,
     "body is 9999999999 bytes, allowed at most 8388608"},
    {"POST /v1/completions HTTP/1.1\r\n" H
     "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n",
     400, "Content-Length"},
    {"POST /v1/completions HTTP/1.1\r\n" H "Transfer-Encoding: identity\r\n\r\n", 400,
     "Transfer-Encoding"},
    {"POST /v1/completions HTTP/1.1\r\n" H "Transfer-Encoding: chunked, gzip\r\n\r\n", 400,
     "Transfer-Encoding"},
    {"POST /v1/completions HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400,
     "chunk"},
    {"POST /v1/completions HTTP/1.1\r\n" H
     "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
     400, "chunk"},
    {"POST /v1/completions HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n2\r\n{}x\r\n", 400,
     ""},
    {"POST /v1/completions HTTP/1.1\r\n" H "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
     415, "Content-Encoding"},
    {"POST /v1/completions HTTP/1.1\r\n" H "Expect: magic\r\nContent-Length: 2\r\n\r\n{}", 417,
     "Expect"},
    {"DELETE /v1/models HTTP/1.1\r\n" H "\r\n", 405, "allowed GET"},
    {"POST /livez HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\n{}", 405, "allowed GET"},
    {"OPTIONS * HTTP/1.1\r\n" H "\r\n", 404, "unknown URL"},
    {"\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n", 400, "blank lines"},
};

static void one_reply(harness *h, const char *bytes, size_t length, size_t piece, reply *r)
{
    client c;
    client_open(&c, h);
    for (size_t at = 0; at < length; at += piece) {
        client_send(&c, bytes + at, length - at < piece ? length - at : piece);
        if (piece < length)
            harness_turn(h, 0);
    }
    client_reply(&c, r, false);
    client_close(&c);
}

START_TEST(test_hostile)
{
    harness h;
    harness_start(&h, NULL);
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++)
        for (size_t piece = 1; piece < 100000; piece *= 313) {
            reply r;
            one_reply(&h, hostile[i].bytes, strlen(hostile[i].bytes), piece, &r);
            ck_assert_msg(r.status == hostile[i].status, "case %zu piece %zu: %d, not %d: %s", i,
                          piece, r.status, hostile[i].status, r.body.data);
            ck_assert_msg(strstr(r.body.data, "{\"error\":{\"message\":\"") == r.body.data,
                          "case %zu: %s", i, r.body.data);
            ck_assert_msg(strstr(r.body.data, hostile[i].says), "case %zu: %s", i, r.body.data);
            reply_free(&r);
        }
    reply r;
    post(&h, "/v1/chat/completions", chat_body, &r);
    ck_assert_int_eq(r.status, 200);
    reply_free(&r);
    ck_assert_uint_eq(h.submits_count, 1);
    harness_stop(&h);
}
END_TEST

/* The head's limits, each at its last good value and one beyond. */
static int head_status(harness *h, size_t url, size_t headers, size_t value)
{
    lac_buf text = {0};
    lac_buf_text(&text, "GET /");
    for (size_t i = 0; i < url; i++)
        lac_buf_text(&text, "a");
    lac_buf_text(&text, " HTTP/1.1\r\nHost: x\r\n");
    for (size_t i = 1; i < headers; i++)
        lac_buf_text(&text, "A: b\r\n");
    if (value) {
        lac_buf_text(&text, "V:");
        for (size_t i = 0; i < value; i++)
            lac_buf_text(&text, " "); /* white space that the parser does not report */
        lac_buf_text(&text, "\r\n");
    }
    lac_buf_text(&text, "\r\n");
    int status[2];
    for (size_t i = 0; i < 2; i++) {
        reply r;
        one_reply(h, text.data, text.length, i ? 1 : text.length, &r);
        status[i] = r.status;
        reply_free(&r);
    }
    ck_assert_int_eq(status[0], status[1]);
    lac_buf_free(&text);
    return status[0];
}

START_TEST(test_head_limits)
{
    harness h;
    harness_start(&h, NULL);
    size_t fixed = strlen("GET / HTTP/1.1\r\n");
    ck_assert_int_eq(head_status(&h, LAC_HTTP_URL_MAX - fixed, 1, 0), 404);
    ck_assert_int_eq(head_status(&h, LAC_HTTP_URL_MAX - fixed + 1, 1, 0), 414);
    ck_assert_int_eq(head_status(&h, 1, LAC_HTTP_HEADERS_MAX, 0), 404);
    ck_assert_int_eq(head_status(&h, 1, LAC_HTTP_HEADERS_MAX + 1, 0), 431);
    size_t other = strlen("Host: x\r\nV:\r\n\r\n");
    ck_assert_int_eq(head_status(&h, 1, 1, LAC_HTTP_HEADERS_BYTES_MAX - other), 404);
    ck_assert_int_eq(head_status(&h, 1, 1, LAC_HTTP_HEADERS_BYTES_MAX - other + 1), 431);
    harness_stop(&h);
}
END_TEST

START_TEST(test_body_limits)
{
    lac_frontend_options options = {.host = "127.0.0.1", .body_max = 1000};
    harness h;
    harness_start(&h, &options);
    static const struct {
        size_t chunk, count;
        int status;
    } cases[] = {{1000, 1, 400}, {500, 3, 413}, {1, 1001, 413}, {0, 0, 400}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lac_buf text = {0};
        lac_buf_text(&text,
                     "POST /v1/completions HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n");
        for (size_t n = 0; n < cases[i].count; n++) {
            lac_buf_printf(&text, "%zx\r\n", cases[i].chunk);
            for (size_t b = 0; b < cases[i].chunk; b++)
                lac_buf_text(&text, "x");
            lac_buf_text(&text, "\r\n");
        }
        lac_buf_text(&text, "0\r\n\r\n");
        reply r;
        one_reply(&h, text.data, text.length, text.length, &r);
        ck_assert_msg(r.status == cases[i].status, "case %zu: %d %s", i, r.status, r.body.data);
        reply_free(&r);
        lac_buf_free(&text);
    }
    harness_stop(&h);
}
END_TEST

START_TEST(test_chunk_limits)
{
    lac__request r = {0};
    lac__request_start(&r, 1 << 20);
    static const char head[] = "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n";
    lac__request_feed(&r, head, sizeof head - 1);
    ck_assert_int_eq(r.stage, LAC__REQUEST_BODY);
    for (int i = 0; i < LAC_HTTP_CHUNKS_MAX; i++)
        ck_assert_uint_eq(lac__request_feed(&r, "1\r\nx\r\n", 6), 6);
    ck_assert_int_eq(r.stage, LAC__REQUEST_BODY);
    lac__request_feed(&r, "1\r\nx\r\n", 6);
    ck_assert_int_eq(r.stage, LAC__REQUEST_FAILED);
    ck_assert_int_eq(r.problem.http, 413);
    lac__request_free(&r);

    /* Framing that carries nothing is bounded too. */
    lac__request_start(&r, 1 << 20);
    lac__request_feed(&r, head, sizeof head - 1);
    lac__request_feed(&r, "1;a=", 4);
    size_t fed = 0;
    for (; r.stage == LAC__REQUEST_BODY && fed < 4u << 20; fed += 64)
        lac__request_feed(&r, "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
                          64);
    ck_assert_int_eq(r.problem.http, 413);
    lac__request_free(&r);
}
END_TEST

START_TEST(test_connection_header)
{
    harness h;
    harness_start(&h, NULL);
    static const struct {
        const char *request, *connection;
        bool stays;
    } cases[] = {
        {"GET /livez HTTP/1.1\r\n" H "\r\n", NULL, true},
        {"GET /livez HTTP/1.1\r\n" H "Connection: close\r\n\r\n", "close", false},
        {"GET /livez HTTP/1.0\r\n\r\n", "close", false},
        {"GET /livez HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "keep-alive", true},
        {"GET /livez HTTP/1.1\r\n" H "Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n", NULL, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        client c;
        client_open(&c, &h);
        client_text(&c, cases[i].request);
        reply r;
        client_reply(&c, &r, false);
        ck_assert_int_eq(r.status, 200);
        const char *connection = reply_header(&r, "Connection");
        if (cases[i].connection)
            ck_assert_str_eq(connection, cases[i].connection);
        else
            ck_assert_ptr_null(connection);
        ck_assert_msg(client_wait_end(&c, 50) != cases[i].stays, "case %zu", i);
        ck_assert(!c.reset);
        reply_free(&r);
        client_close(&c);
    }
    harness_stop(&h);
}
END_TEST

START_TEST(test_expect_continue)
{
    harness h;
    harness_start(&h, NULL);
    client c;
    client_open(&c, &h);
    lac_buf head = {0};
    lac_buf_printf(&head,
                   "POST /v1/chat/completions HTTP/1.1\r\n" H
                   "Expect: 100-Continue\r\nContent-Length: %zu\r\n\r\n",
                   strlen(chat_body));
    client_send(&c, head.data, head.length);
    ck_assert(client_wait(&c, "HTTP/1.1 100 Continue\r\n\r\n", 1000));
    client_text(&c, chat_body);
    reply r;
    client_reply(&c, &r, false);
    ck_assert_int_eq(r.status, 200);
    reply_free(&r);
    client_close(&c);
    /* What will be refused anyway is refused before the body comes. */
    client_open(&c, &h);
    client_text(&c,
                "POST /nowhere HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 9\r\n\r\n");
    ck_assert(client_wait(&c, "404 Not Found", 1000));
    ck_assert(client_wait_end(&c, 1000));
    client_close(&c);
    lac_buf_free(&head);
    harness_stop(&h);
}
END_TEST

/* Twenty requests in one write, a completion between them: answered in order, nothing lost. */
START_TEST(test_pipeline)
{
    harness h;
    harness_start(&h, NULL);
    h.later = true;
    lac_buf text = {0};
    for (int i = 0; i < 20; i++) {
        if (i % 5 == 4)
            lac_buf_printf(&text,
                           "POST /v1/chat/completions HTTP/1.1\r\n" H
                           "X-Request-Id: %d\r\nContent-Length: %zu\r\n\r\n%s",
                           i, strlen(chat_body), chat_body);
        else
            lac_buf_printf(&text, "GET /livez HTTP/1.1\r\n" H "X-Request-Id: %d\r\n\r\n", i);
    }
    for (size_t piece = 1; piece <= text.length; piece += text.length - 1) {
        client c;
        client_open(&c, &h);
        for (size_t at = 0; at < text.length; at += piece) {
            client_send(&c, text.data + at, piece);
            harness_turn(&h, 0);
        }
        for (int i = 0; i < 20; i++) {
            reply r;
            client_reply(&c, &r, false);
            ck_assert_int_eq(r.status, 200);
            ck_assert_int_eq(atoi(reply_header(&r, "X-Request-Id")), i);
            reply_free(&r);
        }
        client_close(&c);
    }
    lac_buf_free(&text);
    harness_stop(&h);
}
END_TEST

START_TEST(test_hold_overflow)
{
    harness h;
    harness_start(&h, NULL);
    h.script = CORE_SILENT;
    client c;
    open_chat(&h, &c, false);
    char text[8192];
    memset(text, 'x', sizeof text);
    client_send(&c, text, LAC_HTTP_HOLD_MAX);
    harness_turn(&h, 20);
    harness_turn(&h, 20);
    ck_assert(client_take(&c));
    ck_assert_uint_eq(h.cancels_count, 0);
    client_send(&c, text, 1);
    ck_assert(client_wait_end(&c, 1000));
    ck_assert_uint_eq(h.cancels_count, 1);
    ck_assert_uint_eq(h.cancelled, h.submits[0].stream);
    client_close(&c);
    harness_stop(&h);
}
END_TEST

START_TEST(test_deadlines)
{
    lac_frontend_options options = {.host = "127.0.0.1",
                                    .header_ms = 150,
                                    .idle_ms = 400,
                                    .body_grace_ms = 150,
                                    .linger_ms = 100};
    harness h;
    harness_start(&h, &options);
    client silent, half, idle, slow;
    client_open(&silent, &h);
    client_open(&half, &h);
    client_open(&idle, &h);
    client_open(&slow, &h);
    client_text(&half, "GET /livez HT");
    client_text(&idle, "GET /livez HTTP/1.1\r\n" H "\r\n");
    client_text(&slow, "POST /v1/completions HTTP/1.1\r\n" H "Content-Length: 5000\r\n\r\n{");
    ck_assert(client_wait(&idle, "200 OK", 100));
    ck_assert(client_wait(&half, "408 Request Timeout", 1500));
    ck_assert(client_wait(&half, "head of the request did not come in time, allowed 150 ms", 10));
    ck_assert(client_wait(&slow, "408 Request Timeout", 1500));
    ck_assert(client_wait_end(&silent, 1500));
    ck_assert_uint_eq(silent.in.length, 0);
    ck_assert(client_wait_end(&half, 1500));
    ck_assert(client_wait_end(&slow, 1500));
    ck_assert(client_take(&idle)); /* idle is allowed longer */
    ck_assert(client_wait_end(&idle, 1500));
    client_close(&silent);
    client_close(&half);
    client_close(&idle);
    client_close(&slow);
    WAIT_FOR(&h, metric_sum(&h, "lacuna_http_connections", "") == 0);
    harness_stop(&h);
}
END_TEST

START_TEST(test_connection_limits)
{
    lac_frontend_options options = {.host = "127.0.0.1", .per_address_max = 3};
    harness h;
    harness_start(&h, &options);
    client c[4];
    for (int i = 0; i < 4; i++)
        client_open(&c[i], &h);
    reply r;
    client_reply(&c[3], &r, false);
    ck_assert_int_eq(r.status, 429);
    ck_assert_str_eq(reply_header(&r, "Retry-After"), "1");
    ck_assert_ptr_nonnull(strstr(r.body.data, "more than 3 connections from this address"));
    reply_free(&r);
    client_close(&c[3]);
    client_close(&c[0]);
    WAIT_FOR(&h, metric_sum(&h, "lacuna_http_connections", "") == 2);
    client_open(&c[0], &h);
    client_get(&c[0], "/livez", &r);
    ck_assert_int_eq(r.status, 200);
    reply_free(&r);
    for (int i = 0; i < 3; i++)
        client_close(&c[i]);
    harness_stop(&h);

    options = (lac_frontend_options){.host = "127.0.0.1", .connections_max = 2};
    harness_start(&h, &options);
    for (int i = 0; i < 3; i++)
        client_open(&c[i], &h);
    client_reply(&c[2], &r, false);
    ck_assert_int_eq(r.status, 503);
    reply_free(&r);
    for (int i = 0; i < 3; i++)
        client_close(&c[i]);
    harness_stop(&h);
}
END_TEST

START_TEST(test_addresses)
{
    static const struct {
        const char *host;
        bool wide;
        lac_status status;
    } cases[] = {{"0.0.0.0", false, LAC_EREFUSED}, {"0.0.0.0", true, LAC_OK},
                 {"::", false, LAC_EREFUSED},      {"192.0.2.1", false, LAC_EREFUSED},
                 {"example", false, LAC_EINVAL},   {"127.0.0.5", false, LAC_OK},
                 {"localhost", false, LAC_OK}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uv_loop_t loop;
        uv_loop_init(&loop);
        lac_metrics *metrics = lac_metrics_create(64);
        lac_frontend_options options = {.host = cases[i].host, .allow_wide = cases[i].wide};
        lac_frontend_hooks hooks = {0};
        lac_frontend *frontend = NULL;
        lac_error err = {0};
        ck_assert_int_eq(lac_frontend_create(&loop, &options, &hooks, metrics, &frontend, &err),
                         cases[i].status);
        if (cases[i].status != LAC_OK)
            ck_assert_ptr_nonnull(strstr(err.text, cases[i].host));
        lac_frontend_close(&frontend, NULL, NULL);
        uv_run(&loop, UV_RUN_DEFAULT);
        ck_assert_int_eq(uv_loop_close(&loop), 0);
        lac_metrics_destroy(&metrics);
    }
}
END_TEST

START_TEST(test_busy_port)
{
    harness h;
    harness_start(&h, NULL);
    lac_frontend_options options = {.host = "127.0.0.1", .port = (uint16_t)h.port};
    lac_frontend_hooks hooks = {0};
    lac_frontend *second = NULL;
    lac_error err = {0};
    ck_assert_int_eq(lac_frontend_create(&h.loop, &options, &hooks, h.metrics, &second, &err),
                     LAC_EIO);
    ck_assert_ptr_null(second);
    ck_assert_msg(strstr(err.text, "address already in use"), "%s", err.text);
    harness_stop(&h);
}
END_TEST

/* ---- classes ---- */

static const lac_run_account account = {.class_name = "logs",
                                        .mask = "A7,A25",
                                        .layers = 30,
                                        .active_layers = 29,
                                        .skip_rate = 0.03125f,
                                        .cost_skip_rate = 0.015625f,
                                        .flops = 1.5e9,
                                        .kv_bytes = 4096,
                                        .why = "structured input: \"certified\""};

static void post_with(client *c, const char *headers, const char *body, reply *r)
{
    char text[1024];
    snprintf(text, sizeof text,
             "POST /v1/completions HTTP/1.1\r\nHost: x\r\n%sContent-Length: %zu\r\n\r\n%s", headers,
             strlen(body), body);
    client_text(c, text);
    client_reply(c, r, false);
}

START_TEST(test_class_of_the_answer)
{
    static const char *const bodies[] = {
        "{\"prompt\":\"a\"}",
        "{\"prompt\":\"a\",\"stream\":true,\"stream_options\":{\"include_usage\":true}}"};
    harness h;
    harness_start(&h, NULL);
    h.account = &account;
    client c;
    client_open(&c, &h);
    reply r;
    for (int i = 0; i < 2; i++) {
        post_with(&c, "", bodies[i], &r);
        ck_assert_int_eq(r.status, 200);
        ck_assert_str_eq(reply_header(&r, "X-Lacuna-Class"), "logs");
        ck_assert_str_eq(reply_header(&r, "X-Lacuna-Mask"), "A7,A25");
        ck_assert_str_eq(reply_header(&r, "X-Lacuna-Layers"), "active=29 total=30 skip=0.0312");
        ck_assert_str_eq(reply_header(&r, "X-Lacuna-Why"), account.why);
        ck_assert_str_eq(reply_header(&r, "X-Lacuna-Request"), "77");
        ck_assert_ptr_null(reply_header(&r, "X-Lacuna-Forced"));
        ck_assert_ptr_nonnull(strstr(
            r.body.data, ",\"lacuna\":{\"class\":\"logs\",\"mask\":\"A7,A25\",\"layers\":30,"
                         "\"active_layers\":29,\"skip_rate\":0.03125,\"cost_skip_rate\":0.015625,"
                         "\"flops\":1500000000,\"kv_bytes\":4096,\"forced\":false,"
                         "\"why\":\"structured input: \\\"certified\\\"\"}}"));
        reply_free(&r);
    }
    h.account = NULL; /* an older worker says nothing, and nothing is made up */
    post_with(&c, "", bodies[0], &r);
    ck_assert_ptr_null(reply_header(&r, "X-Lacuna-Class"));
    ck_assert_ptr_null(strstr(r.body.data, "lacuna"));
    reply_free(&r);
    client_close(&c);
    harness_stop(&h);
}
END_TEST

START_TEST(test_class_headers)
{
    static const char body[] = "{\"prompt\":\"a\"}";
    harness h;
    harness_start(&h, NULL);
    client c;
    client_open(&c, &h);
    reply r;
    post_with(&c,
              "X-Lacuna-Hint: AbCdEfGhIjKlMnOpQrStUvWxYz01_-23\r\nX-Lacuna-Sparse: TRUE\r\n"
              "X-Lacuna-Class: logs-std\r\nX-Lacuna-Tier: gold\r\n",
              body, &r);
    ck_assert_int_eq(r.status, 200);
    reply_free(&r);
    const submit_copy *s = &h.submits[0];
    ck_assert_str_eq(s->hint, "AbCdEfGhIjKlMnOpQrStUvWxYz01_-23");
    ck_assert_str_eq(s->force, "logs-std");
    ck_assert_int_eq(s->sparse, LAC_SPARSE_ON);
    ck_assert(s->has_tier && s->tier_max == LAC_TIER_GOLD);
    /* The next request of the connection asks for nothing. */
    post_with(&c, "X-Lacuna-Other: 1\r\n", body, &r);
    ck_assert_int_eq(r.status, 200);
    reply_free(&r);
    s = &h.submits[1];
    ck_assert(!*s->hint && !*s->force && !s->sparse && !s->has_tier);
    /* A hint that is too long still is when the core counts it. */
    post_with(&c, "X-Lacuna-Hint: AbCdEfGhIjKlMnOpQrStUvWxYz01_-23x\r\nX-Lacuna-Sparse: false\r\n",
              body, &r);
    reply_free(&r);
    ck_assert_uint_eq(strlen(h.submits[2].hint), 33);
    ck_assert_int_eq(h.submits[2].sparse, LAC_SPARSE_OFF);
    client_close(&c);
    static const char *const bad[] = {"X-Lacuna-Sparse: maybe\r\n", "X-Lacuna-Class: a b\r\n",
                                      "X-Lacuna-Class:\r\n", "X-Lacuna-Tier: iron\r\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        client_open(&c, &h);
        post_with(&c, bad[i], body, &r);
        ck_assert_int_eq(r.status, 400);
        ck_assert_ptr_nonnull(strstr(r.body.data, "X-Lacuna-"));
        reply_free(&r);
        client_close(&c);
    }
    ck_assert_uint_eq(h.submits_count, 3);
    harness_stop(&h);
}
END_TEST

START_TEST(test_drain)
{
    harness h;
    harness_start(&h, NULL);
    h.script = CORE_SILENT;
    client idle, working;
    client_open(&idle, &h);
    client_text(&idle, "GET /livez HTTP/1.1\r\n" H "\r\n");
    ck_assert(client_wait(&idle, "200 OK", 1000));
    open_chat(&h, &working, false);
    lac_frontend_drain(h.frontend);
    ck_assert(client_wait_end(&idle, 1000));
    core_tokens(&h, h.submits[0].stream, 0, "bye");
    core_done(&h, h.submits[0].stream, LAC_FINISH_STOP);
    reply r;
    client_reply(&working, &r, false);
    ck_assert_int_eq(r.status, 200);
    ck_assert_str_eq(reply_header(&r, "Connection"), "close");
    reply_free(&r);
    ck_assert(client_wait_end(&working, 1000));
    client_close(&idle);
    client_close(&working);
    harness_stop(&h);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_strict_mode,
                                  test_get_routes,
                                  test_not_ready,
                                  test_hostile,
                                  test_head_limits,
                                  test_body_limits,
                                  test_chunk_limits,
                                  test_connection_header,
                                  test_expect_continue,
                                  test_pipeline,
                                  test_hold_overflow,
                                  test_deadlines,
                                  test_connection_limits,
                                  test_addresses,
                                  test_busy_port,
                                  test_drain,
                                  test_class_of_the_answer,
                                  test_class_headers,
                                  NULL};
    return run_suite("frontend http", tests);
}
