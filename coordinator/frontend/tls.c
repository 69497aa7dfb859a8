/* TLS by OpenSSL over memory BIOs: no socket, no callback of ours but the choice of protocol. Owns
 * the rules of what is spoken. Loop thread. */
#include "tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"

/* TLS 1.2 suites with forward secrecy and authenticated encryption; 1.3 has no others. */
static const char ciphers[] = "ECDHE+AESGCM:ECDHE+CHACHA20";

struct lac__tls {
    SSL_CTX *context;
    int64_t expires_s;
};

struct lac__tls_conn {
    SSL *ssl;
    BIO *in, *out; /* the SSL's */
    bool bye;
};

/* ---- certificate and key ---- */

static lac_status openssl_error(lac_error *err, const char *what, const char *path)
{
    unsigned long code = ERR_get_error();
    const char *reason = ERR_reason_error_string(code);
    ERR_clear_error();
    return lac_fail(err, LAC_EINVAL, "%s %.160s: %s", what, path,
                    reason ? reason : "cannot be used");
}

static lac_status check_mode(const char *path, lac_error *err)
{
    struct stat s;
    if (stat(path, &s) != 0)
        return lac_fail(err, LAC_ENOTFOUND, "tls-key %.160s: %s", path, strerror(errno));
    if (!S_ISREG(s.st_mode))
        return lac_fail(err, LAC_EINVAL, "tls-key %.160s is no file", path);
    if (s.st_mode & 077)
        return lac_fail(err, LAC_EREFUSED, "tls-key %.160s has mode %03o, allowed 600 or 400", path,
                        (unsigned)s.st_mode & 0777);
    if (s.st_uid != geteuid() && s.st_uid != 0)
        return lac_fail(err, LAC_EREFUSED, "tls-key %.160s belongs to user %u, allowed its reader",
                        path, (unsigned)s.st_uid);
    return LAC_OK;
}

/* An encrypted key would need somebody to ask. */
static int no_password(char *to, int size, int writes, void *arg)
{
    (void)to, (void)size, (void)writes, (void)arg;
    return -1;
}

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_length,
                           const unsigned char *in, unsigned in_length, void *arg)
{
    static const unsigned char ours[] = "\x8http/1.1";
    (void)ssl, (void)arg;
    int found = SSL_select_next_proto((unsigned char **)(uintptr_t)out, out_length, ours,
                                      sizeof ours - 1, in, in_length);
    return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

static SSL_CTX *make_context(void)
{
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    if (!context)
        return NULL;
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                     SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_default_passwd_cb(context, no_password);
    SSL_CTX_set_alpn_select_cb(context, choose_protocol, NULL);
    if (SSL_CTX_set_cipher_list(context, ciphers) == 1)
        return context;
    SSL_CTX_free(context);
    return NULL;
}

static int64_t expires_s(SSL_CTX *context)
{
    struct tm end;
    const X509 *certificate = SSL_CTX_get0_certificate(context);
    if (!certificate || !ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &end))
        return 0;
    return (int64_t)timegm(&end);
}

lac_status lac__tls_load(const char *certificate, const char *key, lac__tls **out, lac_error *err)
{
    lac_status status = check_mode(key, err);
    if (status != LAC_OK)
        return status;
    ERR_clear_error();
    SSL_CTX *context = make_context();
    if (!context)
        return openssl_error(err, "tls", "context");
    if (SSL_CTX_use_certificate_chain_file(context, certificate) != 1)
        status = openssl_error(err, "tls-cert", certificate);
    else if (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1)
        status = openssl_error(err, "tls-key", key);
    else if (SSL_CTX_check_private_key(context) != 1)
        status = openssl_error(err, "tls-key does not belong to tls-cert:", key);
    if (status != LAC_OK) {
        SSL_CTX_free(context);
        return status;
    }
    *out = lac_alloc(1, sizeof **out);
    **out = (lac__tls){.context = context, .expires_s = expires_s(context)};
    return LAC_OK;
}

void lac__tls_free(lac__tls **tls)
{
    if (!*tls)
        return;
    SSL_CTX_free((*tls)->context);
    free(*tls);
    *tls = NULL;
}

int64_t lac__tls_expires_s(const lac__tls *tls)
{
    return tls->expires_s;
}

/* ---- a connection ---- */

lac__tls_conn *lac__tls_accept(lac__tls *tls)
{
    SSL *ssl = SSL_new(tls->context);
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    if (!ssl || !in || !out) {
        SSL_free(ssl);
        BIO_free(in);
        BIO_free(out);
        return NULL;
    }
    SSL_set_bio(ssl, in, out);
    SSL_set_accept_state(ssl);
    lac__tls_conn *conn = lac_alloc(1, sizeof *conn);
    *conn = (lac__tls_conn){.ssl = ssl, .in = in, .out = out};
    return conn;
}

void lac__tls_conn_free(lac__tls_conn **conn)
{
    if (!*conn)
        return;
    SSL_free((*conn)->ssl);
    free(*conn);
    *conn = NULL;
}

bool lac__tls_established(const lac__tls_conn *conn)
{
    return SSL_is_init_finished(conn->ssl);
}

void lac__tls_take(lac__tls_conn *conn, const char *data, size_t length)
{
    LAC_ASSERT(length <= INT32_MAX);
    int taken = BIO_write(conn->in, data, (int)length);
    LAC_ASSERT(taken == (int)length); /* memory that is not there ends the process elsewhere too */
}

lac__tls_result lac__tls_next(lac__tls_conn *conn, char *to, size_t size, size_t *length)
{
    ERR_clear_error();
    size_t got = 0;
    int good = SSL_read_ex(conn->ssl, to, size, &got);
    if (good) {
        *length = got;
        return LAC__TLS_BYTES;
    }
    switch (SSL_get_error(conn->ssl, good)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE: return LAC__TLS_NONE;
    case SSL_ERROR_ZERO_RETURN: return LAC__TLS_BYE;
    default:
        conn->bye = true; /* what failed takes no goodbye */
        ERR_clear_error();
        return LAC__TLS_BAD;
    }
}

bool lac__tls_waits(const lac__tls_conn *conn)
{
    return BIO_pending(conn->out) > 0;
}

bool lac__tls_seal(lac__tls_conn *conn, lac_buf *bytes)
{
    size_t written = 0;
    if (bytes->length > 0) {
        ERR_clear_error();
        if (!SSL_write_ex(conn->ssl, bytes->data, bytes->length, &written) ||
            written != bytes->length)
            return false;
    }
    lac_buf_clear(bytes);
    char *record;
    long waiting = BIO_get_mem_data(conn->out, &record);
    if (waiting > 0 && !lac_buf_add(bytes, record, (size_t)waiting))
        return false;
    (void)BIO_reset(conn->out);
    return true;
}

bool lac__tls_bye(lac__tls_conn *conn)
{
    if (conn->bye || !lac__tls_established(conn))
        return false;
    conn->bye = true;
    ERR_clear_error();
    SSL_shutdown(conn->ssl); /* 0: our goodbye is written, theirs is not awaited */
    return lac__tls_waits(conn);
}
