/* Key files and allow files. Owns their format. Any thread. */
#include "wire/keys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include "base/mem.h"

enum { FILE_MAX = 1 << 20, PATH_BYTES = 4096 };

const char *lac_role_name(lac_role role)
{
    static const char *const names[] = {"", "worker", "client", "admin"};
    return names[role];
}

/* ---- files ---- */

static lac_status write_new(const char *path, mode_t mode, const char *text, lac_error *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0)
        return lac_fail(err, errno == EEXIST ? LAC_EEXIST : LAC_EIO, "%s: %s", path,
                        errno == EEXIST ? "is there already; a key is never replaced"
                                        : strerror(errno));
    size_t length = strlen(text);
    bool written = write(fd, text, length) == (ssize_t)length && !fsync(fd);
    int code = errno;
    close(fd);
    if (written)
        return LAC_OK;
    unlink(path);
    return lac_fail(err, LAC_EIO, "%s: cannot write: %s", path, strerror(code));
}

/* The whole of a small text file, malloc'd. With `secret` only its owner may have access to it. */
static lac_status read_text(const char *path, bool secret, char **out, lac_error *err)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info)) {
        lac_fail(err, errno == ENOENT ? LAC_ENOTFOUND : LAC_EIO, "%s: %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return err->status;
    }
    lac_status status = LAC_OK;
    if (secret && (info.st_mode & 077))
        status = lac_fail(err, LAC_EREFUSED,
                          "%s: mode is %03o, others may read this secret key; chmod 600 it", path,
                          (unsigned)info.st_mode & 0777);
    else if (info.st_size > FILE_MAX)
        status = lac_fail(err, LAC_ETOOBIG, "%s has %lld bytes, allowed %d", path,
                          (long long)info.st_size, FILE_MAX);
    if (status == LAC_OK) {
        char *text = lac_alloc((size_t)info.st_size + 1, 1);
        ssize_t got = read(fd, text, (size_t)info.st_size);
        if (got < 0) {
            status = lac_fail(err, LAC_EIO, "%s: %s", path, strerror(errno));
            free(text);
        } else {
            text[got] = 0;
            *out = text;
        }
    }
    close(fd);
    return status;
}

static bool is_key(const char *text)
{
    unsigned char bytes[LAC_KEY_BYTES];
    return strlen(text) == LAC_KEY_TEXT && zmq_z85_decode(bytes, text) != NULL;
}

/* Finds "NAME KEY" among the lines. The text is cut up. */
static bool find_line(const char *text, const char *name, char out[LAC_KEY_TEXT + 1])
{
    size_t length = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) != 0 || line[length] != ' ')
            continue;
        snprintf(out, LAC_KEY_TEXT + 1, "%.*s", (int)strcspn(line + length + 1, " \r\n"),
                 line + length + 1);
        return is_key(out);
    }
    return false;
}

/* ---- keys ---- */

lac_status lac_key_make(const char *path, lac_error *err)
{
    lac_key key;
    char text[256], public_path[PATH_BYTES];
    if ((size_t)snprintf(public_path, sizeof public_path, "%s.pub", path) >= sizeof public_path)
        return lac_fail(err, LAC_ETOOBIG, "key has a path of %zu bytes, allowed %d", strlen(path),
                        PATH_BYTES - 5);
    if (zmq_curve_keypair(key.public_key, key.secret_key))
        return lac_fail(err, LAC_EUNSUPPORTED, "this libzmq makes no CURVE keys");
    snprintf(text, sizeof text, "public %s\nsecret %s\n", key.public_key, key.secret_key);
    lac_status status = write_new(path, 0600, text, err);
    snprintf(text, sizeof text, "public %s\n", key.public_key);
    if (status == LAC_OK) {
        status = write_new(public_path, 0644, text, err);
        if (status != LAC_OK)
            unlink(path);
    }
    explicit_bzero(&key, sizeof key);
    explicit_bzero(text, sizeof text);
    return status;
}

lac_status lac_key_load(const char *path, lac_key *out, lac_error *err)
{
    char *text = NULL;
    lac_key key;
    lac_status status = read_text(path, true, &text, err);
    if (status != LAC_OK)
        return status;
    if (find_line(text, "public", key.public_key) && find_line(text, "secret", key.secret_key))
        *out = key;
    else
        status =
            lac_fail(err, LAC_ECORRUPT, "%s is no key file (two lines, public and secret)", path);
    explicit_bzero(text, strlen(text));
    explicit_bzero(&key, sizeof key);
    free(text);
    return status;
}

lac_status lac_key_load_public(const char *path, char out[LAC_KEY_TEXT + 1], lac_error *err)
{
    char *text = NULL, key[LAC_KEY_TEXT + 1];
    lac_status status = read_text(path, false, &text, err);
    if (status != LAC_OK)
        return status;
    if (find_line(text, "public", key))
        memcpy(out, key, sizeof key);
    else
        status = lac_fail(err, LAC_ECORRUPT, "%s holds no public key", path);
    explicit_bzero(text, strlen(text));
    free(text);
    return status;
}

/* ---- who is let in ---- */

static bool parse_role(const char *text, lac_role *out)
{
    for (lac_role role = LAC_ROLE_WORKER; role <= LAC_ROLE_ADMIN; role++)
        if (!strcmp(text, lac_role_name(role))) {
            *out = role;
            return true;
        }
    return false;
}

static lac_status parse_line(const char *path, unsigned number, char *line, lac_allowed *out,
                             lac_error *err)
{
    char *rest = NULL, *role = strtok_r(line, " \t\r", &rest),
         *name = strtok_r(NULL, " \t\r", &rest), *key = strtok_r(NULL, " \t\r", &rest);
    if (!key || strtok_r(NULL, " \t\r", &rest))
        return lac_fail(err, LAC_EINVAL, "%s:%u: expected ROLE NAME KEY", path, number);
    if (!parse_role(role, &out->role))
        return lac_fail(err, LAC_EINVAL, "%s:%u: role is \"%.40s\", allowed: worker, client, admin",
                        path, number, role);
    if (strlen(name) > LAC_NAME_MAX ||
        (strcmp(name, "*") != 0 &&
         strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") !=
             strlen(name)))
        return lac_fail(err, LAC_EINVAL,
                        "%s:%u: name is \"%.70s\", allowed: * or up to %d of A-Z a-z 0-9 . _ -",
                        path, number, name, LAC_NAME_MAX);
    if (!is_key(key))
        return lac_fail(err, LAC_EINVAL, "%s:%u: the key is not %d characters of Z85", path, number,
                        LAC_KEY_TEXT);
    snprintf(out->name, sizeof out->name, "%s", name);
    zmq_z85_decode(out->key, key);
    return LAC_OK;
}

static lac_status parse_all(const char *path, char *text, lac_allowed *list, size_t *count,
                            lac_error *err)
{
    unsigned number = 0;
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        number++;
        if (line[strspn(line, " \t\r")] == 0 || *line == '#')
            continue;
        if (*count == LAC_ALLOWED_MAX)
            return lac_fail(err, LAC_ETOOBIG, "%s has more than %d keys", path, LAC_ALLOWED_MAX);
        lac_status status = parse_line(path, number, line, &list[*count], err);
        if (status != LAC_OK)
            return status;
        for (size_t i = 0; i < *count; i++)
            if (!memcmp(list[i].key, list[*count].key, LAC_KEY_BYTES))
                return lac_fail(err, LAC_EEXIST, "%s:%u: this key is there already (%s %s)", path,
                                number, lac_role_name(list[i].role), list[i].name);
        (*count)++;
    }
    return *count ? LAC_OK : lac_fail(err, LAC_EINVAL, "%s lets nobody in", path);
}

lac_status lac_allow_load(const char *path, lac_allowed **out, size_t *count, lac_error *err)
{
    char *text = NULL;
    size_t read = 0;
    lac_status status = read_text(path, false, &text, err);
    if (status != LAC_OK)
        return status;
    lac_allowed *list = lac_alloc(LAC_ALLOWED_MAX, sizeof *list);
    status = parse_all(path, text, list, &read, err);
    free(text);
    if (status != LAC_OK) {
        free(list);
        return status;
    }
    *out = list;
    *count = read;
    return LAC_OK;
}
