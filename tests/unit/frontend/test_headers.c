/* Headers that every endpoint has: web pages of other origins, traces, idempotency keys. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include "cors.h"
#include "trace.h"

static void send_post(client *c, const char *path, const char *headers, const char *body)
{
    lac_buf text = {0};
    lac_buf_printf(&text,
                   "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%s"
                   "Content-Length: %zu\r\n\r\n%s",
                   path, headers, strlen(body), body);
    client_send(c, text.data, text.length);
    lac_buf_free(&text);
}

static void ask(harness *h, const char *headers, const char *body, reply *r)
{
    client c;
    client_open(&c, h);
    send_post(&c, "/v1/chat/completions", headers, body);
    client_reply(&c, r, false);
    client_close(&c);
}

START_TEST(test_traces)
{
    static const char *const bad[] = {"",
                                      "00",
                                      "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
                                      "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                                      "00-00000000000000000000000000000000-b7ad6b7169203331-01",
                                      "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
                                      "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                                      "00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01",
                                      "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
                                      "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01x"};
    char out[LAC_TRACE_MAX + 1] = "", child[LAC_TRACE_MAX + 1];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(!lac__trace_read(bad[i], out), "%s", bad[i]);
    ck_assert(lac__trace_read("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", out));
    ck_assert_str_eq(out, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    ck_assert(lac__trace_read("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00-more", out));
    lac__trace_child(out, 0xabc, child);
    ck_assert_str_eq(child, "00-0af7651916cd43dd8448eb211c80319c-0000000000000abc-00");
    harness h;
    reply r;
    harness_start(&h, NULL);
    ask(&h, "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n", "{" HI "}",
        &r);
    const char *got = reply_header(&r, "traceparent");
    ck_assert_ptr_nonnull(got);
    ck_assert_int_eq(strncmp(got, "00-0af7651916cd43dd8448eb211c80319c-", 36), 0);
    ck_assert_int_ne(strncmp(got + 36, "b7ad6b7169203331", 16), 0);
    ck_assert_str_eq(h.submits[0].trace, got);
    reply_free(&r);
    ask(&h, "traceparent: nonsense\r\n", "{" HI "}", &r);
    ck_assert_ptr_null(reply_header(&r, "traceparent"));
    ck_assert_str_eq(h.submits[1].trace, "");
    reply_free(&r);
    harness_stop(&h);
}
END_TEST

START_TEST(test_origins)
{
    lac_error err;
    ck_assert_int_eq(lac__cors_check("https://a.example, http://localhost:3000,*", &err), LAC_OK);
    ck_assert_int_eq(lac__cors_check("https://a.example/path", &err), LAC_EINVAL);
    ck_assert_int_eq(lac__cors_check("a.example", &err), LAC_EINVAL);
    ck_assert(lac__cors_allows("https://a.example,https://b", "https://b"));
    ck_assert(!lac__cors_allows("https://a.example", "https://a.exampl"));
    ck_assert(!lac__cors_allows("", "https://a") && !lac__cors_allows("*", ""));
    harness h;
    reply r;
    client c;
    harness_start(
        &h, &(lac_frontend_options){.host = "127.0.0.1", .cors_origins = "https://a.example"});
    ask(&h, "Origin: https://a.example\r\n", "{" HI "}", &r);
    ck_assert_str_eq(reply_header(&r, "Access-Control-Allow-Origin"), "https://a.example");
    ck_assert_str_eq(reply_header(&r, "Vary"), "Origin");
    reply_free(&r);
    ask(&h, "Origin: https://evil.example\r\n", "{" HI "}", &r);
    ck_assert_ptr_null(reply_header(&r, "Access-Control-Allow-Origin"));
    reply_free(&r);
    client_open(&c, &h);
    client_text(&c,
                "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: x\r\nOrigin: https://a.example\r\n"
                "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: "
                "authorization\r\n\r\n");
    client_reply(&c, &r, false);
    ck_assert_int_eq(r.status, 200);
    ck_assert_str_eq(reply_header(&r, "Access-Control-Allow-Origin"), "https://a.example");
    ck_assert_ptr_nonnull(
        strstr(reply_header(&r, "Access-Control-Allow-Headers"), "Authorization"));
    reply_free(&r);
    client_text(&c, "OPTIONS /v1/models HTTP/1.1\r\nHost: x\r\nOrigin: https://evil.example\r\n"
                    "Access-Control-Request-Method: GET\r\n\r\n");
    client_reply(&c, &r, false);
    ck_assert_int_eq(r.status, 405);
    ck_assert_ptr_null(reply_header(&r, "Access-Control-Allow-Origin"));
    reply_free(&r);
    client_close(&c);
    harness_stop(&h);
}
END_TEST

#define KEY(text) "Idempotency-Key: " text "\r\n"

START_TEST(test_same_key)
{
    harness h;
    reply first, second;
    harness_start(&h, NULL);
    ask(&h, KEY("one"), "{" HI "}", &first);
    ck_assert_int_eq(first.status, 200);
    ck_assert_ptr_null(reply_header(&first, "Idempotent-Replayed"));
    ask(&h, KEY("one"), "{" HI "}", &second);
    ck_assert_str_eq(reply_header(&second, "Idempotent-Replayed"), "true");
    ck_assert_uint_eq(first.body.length, second.body.length);
    ck_assert(memcmp(first.body.data, second.body.data, first.body.length) == 0);
    ck_assert_uint_eq(h.submits_count, 1);
    reply_free(&second);
    ask(&h, KEY("one"), "{" HI ",\"n\":2}", &second);
    ck_assert_int_eq(second.status, 422);
    ck_assert_ptr_nonnull(strstr(second.body.data, "another body"));
    reply_free(&second);
    ask(&h, KEY("two"), "{" HI "}", &second);
    ck_assert_uint_eq(h.submits_count, 2);
    reply_free(&second);
    ask(&h, KEY("with space"), "{" HI "}", &second);
    ck_assert_int_eq(second.status, 400);
    reply_free(&second);
    reply_free(&first);
    /* A stream is repeated event by event. */
    ask(&h, KEY("three"), "{" HI ",\"stream\":true}", &first);
    ask(&h, KEY("three"), "{" HI ",\"stream\":true}", &second);
    ck_assert_uint_eq(h.submits_count, 3);
    ck_assert_str_eq(first.body.data, second.body.data);
    ck_assert_ptr_nonnull(strstr(second.body.data, "[DONE]"));
    reply_free(&first);
    reply_free(&second);
    harness_stop(&h);
}
END_TEST

START_TEST(test_twins_wait)
{
    harness h;
    client a, b, c;
    reply r;
    harness_start(&h, NULL);
    h.script = CORE_SILENT;
    client_open(&a, &h), client_open(&b, &h), client_open(&c, &h);
    send_post(&a, "/v1/chat/completions", KEY("k"), "{" HI "}");
    WAIT_FOR(&h, h.submits_count == 1);
    send_post(&b, "/v1/chat/completions", KEY("k"), "{" HI "}");
    send_post(&c, "/v1/chat/completions", KEY("k"), "{" HI "}");
    for (int i = 0; i < 20; i++)
        harness_turn(&h, 1);
    ck_assert_uint_eq(h.submits_count, 1);
    /* The first leaves: the second runs, the third gets its answer. */
    client_close(&a);
    WAIT_FOR(&h, h.submits_count == 2);
    ck_assert_uint_eq(h.cancels_count, 1);
    uint64_t stream = h.submits[1].stream;
    core_tokens(&h, stream, 0, "It");
    core_done(&h, stream, LAC_FINISH_STOP);
    client_reply(&b, &r, false);
    ck_assert_int_eq(r.status, 200);
    ck_assert_ptr_null(reply_header(&r, "Idempotent-Replayed"));
    reply_free(&r);
    client_reply(&c, &r, false);
    ck_assert_int_eq(r.status, 200);
    ck_assert_str_eq(reply_header(&r, "Idempotent-Replayed"), "true");
    ck_assert_ptr_nonnull(strstr(r.body.data, "\"It\""));
    reply_free(&r);
    ck_assert_uint_eq(h.submits_count, 2);
    client_close(&b), client_close(&c);
    harness_stop(&h);
}
END_TEST

/* What failed is not kept. */
START_TEST(test_failures_are_forgotten)
{
    harness h;
    reply r;
    harness_start(&h, NULL);
    h.script = CORE_REFUSE;
    h.status = LAC_BUSY;
    ask(&h, KEY("k"), "{" HI "}", &r);
    ck_assert_int_eq(r.status, 429);
    reply_free(&r);
    h.script = CORE_ANSWER;
    ask(&h, KEY("k"), "{" HI "}", &r);
    ck_assert_int_eq(r.status, 200);
    ck_assert_uint_eq(h.submits_count, 2);
    reply_free(&r);
    harness_stop(&h);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        test_traces, test_origins, test_same_key, test_twins_wait, test_failures_are_forgotten,
        NULL};
    return run_suite("headers", tests);
}
