/* The growing file of a fetch. Main thread. Knows no network. Beside the file lies PATH.from: the
 * digest of the URL and the server's validator, one a line. */
#include "fetch_part.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/text.h"

enum { PATH_BYTES_MAX = 4096, DIGEST_HEX = 64, BLOCK_BYTES = 1 << 16 };

static lac_status io_fail(const char *path, lac_error *err)
{
    return lac_fail(err, LAC_EIO, "%s: %s", path, strerror(errno));
}

static void from_path(const char *path, char out[PATH_BYTES_MAX])
{
    int length = snprintf(out, PATH_BYTES_MAX, "%s.from", path);
    LAC_ASSERT(length > 0 && length < PATH_BYTES_MAX);
}

static void url_hex(const char *url, char out[DIGEST_HEX + 1])
{
    lac_digest digest;
    lac_sha256(url, strlen(url), &digest);
    lac_hex(digest.bytes, sizeof digest.bytes, out);
}

void lac_fetch_settle(const char *path)
{
    char from[PATH_BYTES_MAX];
    from_path(path, from);
    unlink(from);
}

void lac_fetch_forget(const char *path)
{
    lac_fetch_settle(path);
    unlink(path);
}

/* The validator that PATH.from holds for this URL; false when there is none for it. */
static bool from_read(const char *path, const char *url,
                      char validator[LAC_FETCH_VALIDATOR_MAX + 1])
{
    char from[PATH_BYTES_MAX], hex[DIGEST_HEX + 1];
    char line[DIGEST_HEX + LAC_FETCH_VALIDATOR_MAX + 3] = "";
    from_path(path, from);
    FILE *file = fopen(from, "re");
    if (!file)
        return false;
    size_t length = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    url_hex(url, hex);
    if (length < DIGEST_HEX + 2 || memcmp(line, hex, DIGEST_HEX) != 0 || line[DIGEST_HEX] != '\n' ||
        line[length - 1] != '\n' || memchr(line, 0, length))
        return false;
    size_t rest = length - DIGEST_HEX - 2;
    if (rest > LAC_FETCH_VALIDATOR_MAX || memchr(line + DIGEST_HEX + 1, '\n', rest))
        return false;
    memcpy(validator, line + DIGEST_HEX + 1, rest);
    validator[rest] = '\0';
    return true;
}

static lac_status from_write(const char *path, const char *url, const char *validator,
                             lac_error *err)
{
    char from[PATH_BYTES_MAX], hex[DIGEST_HEX + 1];
    from_path(path, from);
    url_hex(url, hex);
    FILE *file = fopen(from, "we");
    if (!file)
        return io_fail(from, err);
    bool wrote = fprintf(file, "%s\n%s\n", hex, validator) > 0;
    if (fclose(file) != 0 || !wrote)
        return io_fail(from, err);
    return LAC_OK;
}

static lac_status hash_bytes(lac__part *part, lac_error *err)
{
    char block[BLOCK_BYTES];
    for (uint64_t at = 0; at < part->bytes;) {
        ssize_t got = pread(part->fd, block, sizeof block, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? io_fail(part->path, err)
                           : lac_fail(err, LAC_EIO, "%s: it got shorter meanwhile", part->path);
        lac_hasher_add(part->hasher, block, (size_t)got);
        at += (uint64_t)got;
    }
    return LAC_OK;
}

lac_status lac__part_open(lac__part *part, const char *path, const char *url, bool checked_later,
                          lac_error *err)
{
    *part = (lac__part){.path = path, .hasher = lac_hasher_create()};
    struct stat info;
    part->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (part->fd < 0) {
        io_fail(path, err);
        goto fail;
    }
    if (flock(part->fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK)
            lac_fail(err, LAC_BUSY, "%s: another process is fetching it", path);
        else
            io_fail(path, err);
        goto fail;
    }
    if (fstat(part->fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        lac_fail(err, LAC_EIO, "%s: not a regular file", path);
        goto fail;
    }
    bool known = from_read(path, url, part->validator) && (part->validator[0] || checked_later);
    if (!known) {
        if (lac__part_restart(part, url, "", err) != LAC_OK)
            goto fail;
        return LAC_OK;
    }
    part->bytes = (uint64_t)info.st_size;
    if (hash_bytes(part, err) != LAC_OK)
        goto fail;
    return LAC_OK;
fail:
    lac__part_close(part);
    return err->status;
}

void lac__part_close(lac__part *part)
{
    if (part->fd >= 0)
        close(part->fd); /* which unlocks it */
    part->fd = -1;
    if (part->hasher) {
        lac_digest unused;
        lac_hasher_finish(&part->hasher, &unused);
    }
}

lac_status lac__part_restart(lac__part *part, const char *url, const char *validator,
                             lac_error *err)
{
    LAC_ASSERT(strlen(validator) <= LAC_FETCH_VALIDATOR_MAX);
    /* First the bytes, then their name: a crash between the two leaves nothing under a wrong name.
     */
    if (ftruncate(part->fd, 0) != 0)
        return io_fail(part->path, err);
    lac_digest unused;
    lac_hasher_finish(&part->hasher, &unused);
    part->hasher = lac_hasher_create();
    part->bytes = 0;
    snprintf(part->validator, sizeof part->validator, "%s", validator);
    return from_write(part->path, url, validator, err);
}

static lac_status write_fail(const lac__part *part, uint64_t total, lac_error *err)
{
    int code = errno;
    struct statvfs disk;
    char missing[64] = "";
    if (total > part->bytes && (code == ENOSPC || code == EDQUOT || code == EFBIG))
        snprintf(missing, sizeof missing, ", %llu bytes are still to come",
                 (unsigned long long)(total - part->bytes));
    else if (fstatvfs(part->fd, &disk) == 0 && disk.f_bavail == 0)
        snprintf(missing, sizeof missing, ", the disk is full");
    return lac_fail(err, LAC_EIO, "%s: %s after %llu bytes%s", part->path, strerror(code),
                    (unsigned long long)part->bytes, missing);
}

lac_status lac__part_add(lac__part *part, const void *bytes, size_t length, uint64_t total,
                         lac_error *err)
{
    for (size_t done = 0; done < length;) {
        ssize_t wrote =
            pwrite(part->fd, (const char *)bytes + done, length - done, (off_t)part->bytes);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return write_fail(part, total, err);
        lac_hasher_add(part->hasher, (const char *)bytes + done, (size_t)wrote);
        done += (size_t)wrote;
        part->bytes += (uint64_t)wrote;
    }
    return LAC_OK;
}

lac_status lac__part_finish(lac__part *part, lac_digest *out, lac_error *err)
{
    if (fsync(part->fd) != 0)
        return write_fail(part, 0, err);
    lac_digest digest;
    lac_hasher_finish(&part->hasher, &digest);
    *out = digest;
    return LAC_OK;
}
