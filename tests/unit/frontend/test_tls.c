/* TLS: what is spoken and what not, hostile and slow handshakes, goodbyes, and a new certificate
 * while a stream runs. Certificates are made here. */
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"
#include "tls.h"

static char cert_path[] = "/tmp/lacuna-cert-XXXXXX", key_path[] = "/tmp/lacuna-key-XXXXXX";
static const char ask[] = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 28\r\n\r\n"
                          "{\"prompt\":\"x\",\"stream\":true}";

/* A self-signed certificate for `name`, good for a day. */
static void make(const char *name)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), -60);
    X509_gmtime_adj(X509_getm_notAfter(cert), 86400);
    X509_set_pubkey(cert, key);
    X509_NAME *subject = X509_get_subject_name(cert);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(cert, subject);
    ck_assert_int_gt(X509_sign(cert, key, EVP_sha256()), 0);
    FILE *c = fopen(cert_path, "w"), *k = fopen(key_path, "w");
    ck_assert(PEM_write_X509(c, cert));
    ck_assert(PEM_write_PrivateKey(k, key, NULL, NULL, 0, NULL, NULL));
    fclose(c);
    fclose(k);
    chmod(key_path, 0600);
    X509_free(cert);
    EVP_PKEY_free(key);
}

static void setup(void)
{
    strcpy(cert_path + strlen(cert_path) - 6, "XXXXXX");
    strcpy(key_path + strlen(key_path) - 6, "XXXXXX");
    close(mkstemp(cert_path));
    close(mkstemp(key_path));
    make("first");
}

static void teardown(void)
{
    unlink(cert_path);
    unlink(key_path);
}

static void start(harness *h, uint32_t header_ms)
{
    lac_frontend_options options = {.host = "127.0.0.1",
                                    .tls_certificate = cert_path,
                                    .tls_key = key_path,
                                    .header_ms = header_ms};
    harness_start(h, &options);
}

/* ---- a client ---- */

typedef struct {
    client raw;
    SSL_CTX *context;
    SSL *ssl;
} secure;

static void begin(secure *s, harness *h, int highest, const char *alpn)
{
    client_open(&s->raw, h);
    s->context = SSL_CTX_new(TLS_client_method());
    if (highest) {
        SSL_CTX_set_security_level(s->context, 0);
        SSL_CTX_set_min_proto_version(s->context, TLS1_VERSION);
        SSL_CTX_set_max_proto_version(s->context, highest);
    }
    s->ssl = SSL_new(s->context);
    if (alpn)
        SSL_set_alpn_protos(s->ssl, (const unsigned char *)alpn, (unsigned)strlen(alpn));
    SSL_set_fd(s->ssl, s->raw.fd);
    SSL_set_connect_state(s->ssl);
}

/* Turns the loop until the handshake is over; true when it is good. */
static bool shake(secure *s)
{
    for (int i = 0; i < WAIT_MS; i++) {
        int good = SSL_do_handshake(s->ssl);
        if (good == 1)
            return true;
        int why = SSL_get_error(s->ssl, good);
        if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)
            return false;
        harness_turn(s->raw.h, 1);
    }
    return false;
}

/* Reads until the text comes (true) or the connection ends. */
static bool read_until(secure *s, const char *text, char *to, size_t size)
{
    size_t length = strlen(to);
    for (int i = 0; i < WAIT_MS; i++) {
        int got = SSL_read(s->ssl, to + length, (int)(size - length - 1));
        if (got > 0) {
            length += (size_t)got;
            to[length] = 0;
        }
        if (strstr(to, text))
            return true;
        int why = got > 0 ? SSL_ERROR_WANT_READ : SSL_get_error(s->ssl, got);
        if (why != SSL_ERROR_WANT_READ)
            return false;
        harness_turn(s->raw.h, 1);
    }
    return false;
}

static void write_text(secure *s, const char *text)
{
    ck_assert_int_eq(SSL_write(s->ssl, text, (int)strlen(text)), (int)strlen(text));
}

static void end(secure *s)
{
    SSL_free(s->ssl);
    SSL_CTX_free(s->context);
    client_close(&s->raw);
}

static void name_of(secure *s, char name[64])
{
    X509 *cert = SSL_get1_peer_certificate(s->ssl);
    X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_commonName, name, 64);
    X509_free(cert);
}

/* ---- what is spoken ---- */

START_TEST(replies_come_over_both_versions)
{
    harness h;
    start(&h, 0);
    const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    for (int i = 0; i < 2; i++) {
        secure s;
        static char text[65536];
        text[0] = 0;
        begin(&s, &h, versions[i], "\x2h2\x8http/1.1");
        ck_assert(shake(&s));
        ck_assert_int_eq(SSL_version(s.ssl), versions[i]);
        const unsigned char *protocol;
        unsigned length;
        SSL_get0_alpn_selected(s.ssl, &protocol, &length);
        ck_assert(length == 8 && !memcmp(protocol, "http/1.1", 8));
        write_text(&s, ask);
        ck_assert(read_until(&s, "[DONE]", text, sizeof text));
        ck_assert_ptr_nonnull(strstr(text, "200 OK"));
        /* The same connection again, then its end: with a goodbye. */
        write_text(&s, "GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        ck_assert(read_until(&s, "\"ok\"", text, sizeof text));
        while (read_until(&s, "\1", text, sizeof text))
            ck_abort();
        ck_assert(SSL_get_shutdown(s.ssl) & SSL_RECEIVED_SHUTDOWN);
        end(&s);
    }
    harness_stop(&h);
}
END_TEST

START_TEST(nothing_else_is)
{
    harness h;
    start(&h, 0);
    secure s;
    begin(&s, &h, TLS1_1_VERSION, NULL);
    ck_assert(!shake(&s));
    end(&s);
    begin(&s, &h, 0, "\x2h2");
    ck_assert(!shake(&s));
    end(&s);
    static const char *const hostile[] = {
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01\xff\xff\x01",
        "\x15\x03\x03\x00\x02\x02\x28", "\x80\x2e\x01\x03\x01", "\x17\x03\x03\x00\x01\x00"};
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        client c;
        client_open(&c, &h);
        send(c.fd, hostile[i], strlen(hostile[i]) + (i == 2), MSG_NOSIGNAL);
        for (int k = 0; k < 300; k++) { /* and more of it */
            char junk[64];
            memset(junk, (int)(k * 37 + (int)i), sizeof junk);
            if (send(c.fd, junk, sizeof junk, MSG_NOSIGNAL) < 0)
                break;
        }
        ck_assert(client_wait_end(&c, WAIT_MS));
        client_close(&c);
    }
    begin(&s, &h, 0, NULL); /* others are served as ever */
    ck_assert(shake(&s));
    end(&s);
    harness_stop(&h);
}
END_TEST

START_TEST(a_slow_handshake_ends)
{
    harness h;
    start(&h, 300);
    client silent, slow;
    client_open(&silent, &h);
    client_open(&slow, &h);
    for (int i = 0; i < 40; i++) { /* a byte now and then does not help */
        send(slow.fd, i ? "\x00" : "\x16", 1, MSG_NOSIGNAL);
        harness_turn(&h, 10);
    }
    ck_assert(client_wait_end(&silent, WAIT_MS));
    ck_assert(client_wait_end(&slow, WAIT_MS));
    client_close(&silent);
    client_close(&slow);
    harness_stop(&h);
}
END_TEST

/* A stream goes on under the certificate it began with; newcomers get the new one. */
START_TEST(renewal_drops_nothing)
{
    harness h;
    start(&h, 0);
    h.script = CORE_SILENT;
    secure old, fresh;
    char name[64];
    static char text[65536];
    text[0] = 0;
    begin(&old, &h, 0, NULL);
    ck_assert(shake(&old));
    write_text(&old, ask);
    for (int i = 0; i < WAIT_MS && !h.submits_count; i++)
        harness_turn(&h, 1);
    ck_assert_uint_eq(h.submits_count, 1);
    core_tokens(&h, h.submits[0].stream, 0, "before ");
    ck_assert(read_until(&old, "before", text, sizeof text));
    make("second");
    lac_error err;
    ck_assert_msg(lac_frontend_reload(h.frontend, &err) == LAC_OK, "%s", err.text);
    begin(&fresh, &h, 0, NULL);
    ck_assert(shake(&fresh));
    name_of(&fresh, name);
    ck_assert_str_eq(name, "second");
    core_tokens(&h, h.submits[0].stream, 1, "after");
    core_done(&h, h.submits[0].stream, LAC_FINISH_STOP);
    ck_assert(read_until(&old, "[DONE]", text, sizeof text));
    ck_assert_ptr_nonnull(strstr(text, "after"));
    name_of(&old, name);
    ck_assert_str_eq(name, "first");
    /* One that is no good changes nothing. */
    ck_assert_int_eq(truncate(cert_path, 10), 0);
    ck_assert_int_ne(lac_frontend_reload(h.frontend, &err), LAC_OK);
    end(&fresh);
    begin(&fresh, &h, 0, NULL);
    ck_assert(shake(&fresh));
    end(&fresh);
    end(&old);
    harness_stop(&h);
}
END_TEST

/* A client that leaves in mid-stream is seen, by its goodbye too. */
START_TEST(leaving_is_seen)
{
    harness h;
    start(&h, 0);
    h.script = CORE_SILENT;
    for (int i = 0; i < 2; i++) {
        secure s;
        begin(&s, &h, 0, NULL);
        ck_assert(shake(&s));
        write_text(&s, ask);
        for (int k = 0; k < WAIT_MS && h.submits_count == (size_t)i; k++)
            harness_turn(&h, 1);
        if (i)
            SSL_shutdown(s.ssl);
        else
            end(&s);
        for (int k = 0; k < WAIT_MS && h.cancels_count == (size_t)i; k++)
            harness_turn(&h, 1);
        ck_assert_uint_eq(h.cancels_count, i + 1);
        if (i)
            end(&s);
    }
    harness_stop(&h);
}
END_TEST

/* ---- files ---- */

START_TEST(files_are_checked)
{
    lac__tls *tls = NULL;
    lac_error err;
    ck_assert_msg(lac__tls_load(cert_path, key_path, &tls, &err) == LAC_OK, "%s", err.text);
    ck_assert_int_gt(lac__tls_expires_s(tls), 1700000000);
    lac__tls_free(&tls);
    chmod(key_path, 0640);
    ck_assert_int_eq(lac__tls_load(cert_path, key_path, &tls, &err), LAC_EREFUSED);
    ck_assert_msg(strstr(err.text, "mode 640, allowed 600 or 400") != NULL, "%s", err.text);
    chmod(key_path, 0600);
    char other[sizeof cert_path];
    strcpy(other, cert_path);
    strcpy(other + strlen(other) - 6, "XXXXXX");
    close(mkstemp(other));
    rename(cert_path, other);
    make("another");
    ck_assert_int_eq(lac__tls_load(other, key_path, &tls, &err), LAC_EINVAL);
    ck_assert_int_eq(lac__tls_load("/nonexistent/c", key_path, &tls, &err), LAC_EINVAL);
    ck_assert_int_eq(lac__tls_load(cert_path, "/nonexistent/k", &tls, &err), LAC_ENOTFOUND);
    unlink(other);
}
END_TEST

/* A wide address needs both, and says which is missing. */
START_TEST(a_wide_address_needs_tls_and_keys)
{
    uv_loop_t loop;
    uv_loop_init(&loop);
    lac_metrics *metrics = lac_metrics_create(64);
    lac_frontend *frontend = NULL;
    lac_error err;
    lac_frontend_hooks hooks = {0};
    lac_frontend_options options = {.host = "0.0.0.0"};
    ck_assert_int_eq(lac_frontend_create(&loop, &options, &hooks, metrics, &frontend, &err),
                     LAC_EREFUSED);
    ck_assert_ptr_nonnull(strstr(err.text, "without TLS and API keys"));
    options.tls_certificate = cert_path;
    options.tls_key = key_path;
    ck_assert_int_eq(lac_frontend_create(&loop, &options, &hooks, metrics, &frontend, &err),
                     LAC_EREFUSED);
    ck_assert_ptr_nonnull(strstr(err.text, "without API keys"));
    lac_metrics_destroy(&metrics);
    uv_loop_close(&loop);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("frontend_tls");
    TCase *t = tcase_create("tls");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, replies_come_over_both_versions);
    tcase_add_test(t, nothing_else_is);
    tcase_add_test(t, a_slow_handshake_ends);
    tcase_add_test(t, renewal_drops_nothing);
    tcase_add_test(t, leaving_is_seen);
    tcase_add_test(t, files_are_checked);
    tcase_add_test(t, a_wide_address_needs_tls_and_keys);
    suite_add_tcase(suite, t);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
