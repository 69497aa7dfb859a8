/* The start count on disk: write to a temporary name, fsync, rename, fsync the directory. Runs
 * once, at start, before anything is bound: a worker that has seen this number never obeys a lower
 * one. */
#include "epoch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/text.h"

enum { DIGITS_MAX = 24 };

void lac__state_dir_default(char *dir, size_t size)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (state && *state == '/')
        snprintf(dir, size, "%s/lacuna", state);
    else if (home && *home == '/')
        snprintf(dir, size, "%s/.local/state/lacuna", home);
    else
        snprintf(dir, size, "/tmp/lacuna-%u", (unsigned)getuid());
}

static lac_status make_dirs(const char *dir, lac_error *err)
{
    char path[LAC_ENDPOINT_MAX + 1];
    if ((size_t)snprintf(path, sizeof path, "%s", dir) >= sizeof path)
        return lac_fail(err, LAC_ETOOBIG, "state-dir has more than %d bytes", LAC_ENDPOINT_MAX);
    for (char *at = path + 1;; at++) {
        char was = *at;
        if (was && was != '/')
            continue;
        *at = 0;
        if (mkdir(path, 0700) && errno != EEXIST)
            return lac_fail(err, LAC_EIO, "state-dir %s: cannot make it: %s", path,
                            strerror(errno));
        *at = was;
        if (!was)
            return LAC_OK;
    }
}

static lac_status read_number(int dir, const char *name, uint64_t *out, lac_error *err)
{
    int fd = openat(dir, "epoch", O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        *out = 0;
        return LAC_OK;
    }
    if (fd < 0)
        return lac_fail(err, LAC_EIO, "%s/epoch: %s", name, strerror(errno));
    char text[DIGITS_MAX + 1];
    ssize_t got = read(fd, text, DIGITS_MAX);
    int code = errno;
    close(fd);
    if (got < 0)
        return lac_fail(err, LAC_EIO, "%s/epoch: %s", name, strerror(code));
    while (got > 0 && text[got - 1] == '\n')
        got--;
    text[got] = 0;
    int64_t number = 0;
    if (!lac_parse_i64(text, 1, INT64_MAX - 1, &number))
        return lac_fail(
            err, LAC_ECORRUPT,
            "%s/epoch holds no number from 1 up; workers remember the highest, so write "
            "one at least as high by hand",
            name);
    *out = (uint64_t)number;
    return LAC_OK;
}

static lac_status write_number(int dir, const char *name, uint64_t number, lac_error *err)
{
    char text[DIGITS_MAX + 1];
    int length = snprintf(text, sizeof text, "%llu\n", (unsigned long long)number);
    int fd = openat(dir, "epoch.new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return lac_fail(err, LAC_EIO, "%s/epoch.new: %s", name, strerror(errno));
    bool written = write(fd, text, (size_t)length) == length && !fsync(fd);
    int code = errno;
    if (close(fd) && written) {
        written = false;
        code = errno;
    }
    if (!written) {
        unlinkat(dir, "epoch.new", 0);
        return lac_fail(err, LAC_EIO, "%s/epoch.new: cannot write: %s", name, strerror(code));
    }
    if (renameat(dir, "epoch.new", dir, "epoch") || fsync(dir))
        return lac_fail(err, LAC_EIO, "%s/epoch: cannot replace: %s", name, strerror(errno));
    return LAC_OK;
}

lac_status lac__epoch_next(const char *name, uint64_t *out, lac_error *err)
{
    lac_status status = make_dirs(name, err);
    if (status != LAC_OK)
        return status;
    int dir = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return lac_fail(err, LAC_EIO, "state-dir %s: %s", name, strerror(errno));
    uint64_t number = 0;
    if (flock(dir, LOCK_EX)) /* released with the descriptor */
        status = lac_fail(err, LAC_EIO, "state-dir %s: cannot lock: %s", name, strerror(errno));
    else
        status = read_number(dir, name, &number, err);
    if (status == LAC_OK)
        status = write_number(dir, name, number + 1, err);
    close(dir);
    if (status == LAC_OK)
        *out = number + 1;
    return status;
}
