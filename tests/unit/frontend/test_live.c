/* The live page: who may see it, the policy it comes with, health in three answers. */
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/text.h"
#include "harness.h"
#include "live.h"

static void get(harness *h, const char *path, const char *host, const char *more, reply *r)
{
    client c;
    char text[512];
    client_open(&c, h);
    snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", path, host, more);
    client_text(&c, text);
    client_reply(&c, r, false);
    client_close(&c);
}

static int status_of(harness *h, const char *path, const char *host)
{
    reply r;
    get(h, path, host, "", &r);
    int status = r.status;
    reply_free(&r);
    return status;
}

START_TEST(test_page_and_state)
{
    harness h;
    reply r;
    harness_start(&h, NULL);
    static const char *const paths[] = {"/", "/live"};
    for (int i = 0; i < 2; i++) {
        get(&h, paths[i], "localhost:8080", "", &r);
        ck_assert_int_eq(r.status, 200);
        ck_assert_str_eq(reply_header(&r, "Content-Type"), "text/html; charset=utf-8");
        ck_assert_uint_eq(r.body.length, lac__live_page_size);
        ck_assert_mem_eq(r.body.data, lac__live_page, lac__live_page_size);
        reply_free(&r);
    }
    get(&h, "/live.json", "127.0.0.1", "", &r);
    ck_assert_int_eq(r.status, 200);
    ck_assert_str_eq(r.body.data, "{\"state\":1}");
    ck_assert_str_eq(reply_header(&r, "Cache-Control"), "no-store");
    reply_free(&r);
    harness_stop(&h);
}
END_TEST

/* 'sha256-…' of what stands between two marks, by another library's base64. */
static void expect_hash(const reply *r, const char *policy, const char *open, const char *close)
{
    const char *from = strstr(r->body.data, open);
    ck_assert_ptr_nonnull(from);
    from += strlen(open);
    const char *to = strstr(from, close);
    ck_assert_ptr_nonnull(to);
    ck_assert_ptr_null(strstr(to + 1, open)); /* one of each: the policy knows one hash */
    lac_digest digest;
    unsigned char text[64];
    char want[80];
    lac_sha256(from, (size_t)(to - from), &digest);
    EVP_EncodeBlock(text, digest.bytes, sizeof digest.bytes);
    snprintf(want, sizeof want, "'sha256-%s'", (char *)text);
    ck_assert_msg(strstr(policy, want) != NULL, "%s is not in %s", want, policy);
}

START_TEST(test_policy)
{
    harness h;
    reply r;
    harness_start(&h, NULL);
    get(&h, "/live", "localhost", "", &r);
    char policy[600];
    const char *header = reply_header(&r, "Content-Security-Policy");
    ck_assert_ptr_nonnull(header);
    snprintf(policy, sizeof policy, "%s", header);
    ck_assert_ptr_nonnull(strstr(policy, "default-src 'none'"));
    ck_assert_ptr_null(strstr(policy, "unsafe"));
    ck_assert_ptr_null(strstr(policy, "http"));
    expect_hash(&r, policy, "<script>", "</script>");
    expect_hash(&r, policy, "<style>", "</style>");
    /* Nothing from elsewhere, nothing that the policy would stop. */
    static const char *const never[] = {"http:",   "https:",   "src=",      "@import", "url(",
                                        " style=", " onclick", "innerHTML", "eval("};
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        ck_assert_msg(!strstr(r.body.data, never[i]), "the page has %s", never[i]);
    reply_free(&r);
    harness_stop(&h);
}
END_TEST

START_TEST(test_only_from_here)
{
    harness h;
    harness_start(&h, NULL);
    static const struct {
        const char *host;
        int status;
    } cases[] = {{"localhost", 200},      {"LOCALHOST:1", 200},  {"[::1]:8080", 200},
                 {"127.9.0.1:80", 200},   {"evil.example", 403}, {"localhost.evil", 403},
                 {"127.0.0.1.evil", 403}, {"127.evil.com", 403}, {"10.0.0.1", 403}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_int_eq(status_of(&h, "/", cases[i].host), cases[i].status);
        ck_assert_int_eq(status_of(&h, "/live.json", cases[i].host), cases[i].status);
    }
    reply r;
    get(&h, "/live.json", "localhost", "Origin: https://evil.example\r\n", &r);
    ck_assert_int_eq(r.status, 403);
    reply_free(&r);
    /* Others are not asked for it. */
    ck_assert_int_eq(status_of(&h, "/livez", "evil.example"), 200);
    ck_assert_int_eq(status_of(&h, "/live/x", "localhost"), 404);
    harness_stop(&h);
}
END_TEST

START_TEST(test_wide_needs_a_key)
{
    char file[] = "/tmp/lacuna-live-XXXXXX", hex[65];
    int fd = mkstemp(file);
    ck_assert_int_ge(fd, 0);
    lac_digest digest;
    lac_sha256("one", 3, &digest);
    lac_hex(digest.bytes, sizeof digest.bytes, hex);
    ck_assert_int_gt(dprintf(fd, "kim %s\n", hex), 0);
    close(fd);
    harness h;
    reply r;
    lac_frontend_options wide = {.host = "0.0.0.0", .allow_wide = true};
    harness_start(&h, &wide);
    ck_assert_int_eq(status_of(&h, "/live.json", "localhost"), 403);
    harness_stop(&h);

    wide.api_keys = file;
    harness_start(&h, &wide);
    ck_assert_int_eq(status_of(&h, "/live.json", "localhost"), 401);
    get(&h, "/live.json", "localhost", "Authorization: Bearer one\r\n", &r);
    ck_assert_int_eq(r.status, 200);
    reply_free(&r);
    harness_stop(&h);

    lac_frontend_options here = {.host = "127.0.0.1", .api_keys = file};
    harness_start(&h, &here);
    ck_assert_int_eq(status_of(&h, "/live.json", "localhost"), 200);
    ck_assert_int_eq(status_of(&h, "/live.json", "evil.example"), 401);
    harness_stop(&h);
    unlink(file);
}
END_TEST

START_TEST(test_health)
{
    harness h;
    reply r;
    harness_start(&h, NULL);
    get(&h, "/healthz", "any", "", &r);
    ck_assert_int_eq(r.status, 200);
    ck_assert_str_eq(r.body.data, "{\"ready\":true}");
    reply_free(&r);
    h.is_ready = false;
    get(&h, "/healthz", "any", "", &r);
    ck_assert_int_eq(r.status, 503);
    ck_assert_str_eq(r.body.data, "{\"ready\":false}");
    reply_free(&r);
    harness_stop(&h);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_page_and_state,   test_policy, test_only_from_here,
                                  test_wide_needs_a_key, test_health, NULL};
    return run_suite("frontend_live", tests);
}
