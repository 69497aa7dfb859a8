/* API keys: the file, the comparison, and what HTTP does without a key. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "access.h"
#include "base/digest.h"
#include "base/text.h"
#include "harness.h"

static char path[] = "/tmp/lacuna-access-XXXXXX";

static void write_file(const char *text)
{
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

static const char *hash_of(const char *key)
{
    static char hex[2][65];
    static int next;
    lac_digest digest;
    char *out = hex[next++ % 2];
    lac_sha256(key, strlen(key), &digest);
    lac_hex(digest.bytes, sizeof digest.bytes, out);
    return out;
}

static void write_keys(const char *first, const char *second)
{
    char text[512];
    snprintf(text, sizeof text, "# who may\n\nkim %s\nlee %s\n", hash_of(first), hash_of(second));
    write_file(text);
}

static void setup(void)
{
    strcpy(path + strlen(path) - 6, "XXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
}

static void teardown(void)
{
    unlink(path);
}

START_TEST(test_list)
{
    lac__access *a = NULL;
    lac_error err;
    write_keys("one", "two");
    ck_assert_msg(lac__access_load(path, &a, &err) == LAC_OK, "%s", err.text);
    ck_assert_str_eq(lac__access_name(a, "one"), "kim");
    ck_assert_str_eq(lac__access_name(a, "two"), "lee");
    ck_assert(!lac__access_name(a, "") && !lac__access_name(a, "on") &&
              !lac__access_name(a, "one ") && !lac__access_name(a, hash_of("one")));
    lac__access_free(&a);

    char long_line[1024], twice[512];
    memset(long_line, 'x', sizeof long_line - 1);
    long_line[sizeof long_line - 1] = 0;
    snprintf(twice, sizeof twice, "kim %s\nlee %s\n", hash_of("one"), hash_of("one"));
    const struct {
        const char *text, *says;
    } bad[] = {{"", "lets nobody in"},
               {"# only words\n", "lets nobody in"},
               {"kim\n", ":1: expected NAME HASH"},
               {"kim 12ab\n", ":1: expected NAME HASH"},
               {twice, ":2: name or key is there already (\"kim\")"},
               {long_line, ":1: the line has more than"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_file(bad[i].text);
        ck_assert_int_ne(lac__access_load(path, &a, &err), LAC_OK);
        ck_assert_msg(strstr(err.text, bad[i].says) != NULL, "%s", err.text);
    }
    unlink(path);
    ck_assert_int_eq(lac__access_load(path, &a, &err), LAC_ENOTFOUND);
}
END_TEST

static int ask(client *c, const char *request_path, const char *header)
{
    char text[512];
    reply r;
    snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: x\r\n%s\r\n", request_path, header);
    client_text(c, text);
    client_reply(c, &r, false);
    if (r.status == 401) {
        ck_assert_str_eq(reply_header(&r, "WWW-Authenticate"), "Bearer");
        ck_assert_ptr_nonnull(strstr(r.body.data, "\"code\":\"invalid_api_key\""));
    }
    int status = r.status;
    reply_free(&r);
    return status;
}

START_TEST(test_http)
{
    harness h;
    client c;
    lac_error err;
    write_keys("one", "two");
    lac_frontend_options options = {.host = "127.0.0.1", .api_keys = path};
    harness_start(&h, &options);
    client_open(&c, &h);
    ck_assert_int_eq(ask(&c, "/livez", ""), 200); /* a probe has no key */
    ck_assert_int_eq(ask(&c, "/metrics", ""), 200);
    ck_assert_int_eq(ask(&c, "/v1/models", ""), 401);
    ck_assert_int_eq(ask(&c, "/nothing", ""), 401); /* not even what there is */
    ck_assert_int_eq(ask(&c, "/v1/models", "Authorization: Bearer three\r\n"), 401);
    ck_assert_int_eq(ask(&c, "/v1/models", "Authorization: Basic one\r\n"), 401);
    ck_assert_int_eq(ask(&c, "/v1/models", "Authorization: Bearer one\r\n"), 200);
    ck_assert_int_eq(ask(&c, "/v1/models", "authorization: bearer   two\r\n"), 200);
    ck_assert_int_eq(ask(&c, "/v1/models", ""), 401); /* of this request, not of the connection */

    static const char post[] = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
                               "Content-Length: 3\r\n\r\n{}\n";
    reply r;
    client_text(&c, post);
    client_reply(&c, &r, false);
    ck_assert_int_eq(r.status, 401);
    reply_free(&r);
    ck_assert_uint_eq(h.submits_count, 0);

    write_file("nonsense\n");
    ck_assert_int_ne(lac_frontend_reload(h.frontend, &err), LAC_OK);
    ck_assert_int_eq(ask(&c, "/v1/models", "Authorization: Bearer one\r\n"), 200);
    write_keys("two", "three");
    ck_assert_int_eq(lac_frontend_reload(h.frontend, &err), LAC_OK);
    ck_assert_int_eq(ask(&c, "/v1/models", "Authorization: Bearer one\r\n"), 401);
    ck_assert_int_eq(ask(&c, "/v1/models", "Authorization: Bearer three\r\n"), 200);
    client_close(&c);
    harness_stop(&h);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("frontend_access");
    TCase *keys = tcase_create("keys");
    tcase_add_checked_fixture(keys, setup, teardown);
    tcase_add_test(keys, test_list);
    tcase_add_test(keys, test_http);
    suite_add_tcase(suite, keys);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
