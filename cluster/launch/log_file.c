/* Rotation by copy and truncate: the writer is another process that cannot be told to open its file
 * anew. What it writes between copy and truncate is lost; logs bear that. */
#include "log_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"

enum { PATH_BYTES = 4200, TAIL = 2048 };

int lac__log_open(const char *path)
{
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static void copy(int from, const char *to, off_t bytes)
{
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (out < 0)
        return;
    while (bytes > 0) {
        ssize_t moved = sendfile(out, from, NULL, (size_t)bytes);
        if (moved <= 0)
            break; /* a full disk: the newest lines matter more than the old ones */
        bytes -= moved;
    }
    close(out);
}

void lac__log_rotate(const char *path, uint64_t limit)
{
    char older[PATH_BYTES], newer[PATH_BYTES];
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    struct stat info;
    if (fstat(fd, &info) || (uint64_t)info.st_size <= limit) {
        close(fd);
        return;
    }
    for (int i = LAC__LOG_KEPT - 1; i >= 1; i--) {
        snprintf(older, sizeof older, "%s.%d", path, i);
        snprintf(newer, sizeof newer, "%s.%d", path, i - 1);
        if (i > 1)
            rename(newer, older);
    }
    snprintf(newer, sizeof newer, "%s.1", path);
    copy(fd, newer, info.st_size);
    if (ftruncate(fd, 0))
        (void)errno; /* it stays long and is tried again */
    close(fd);
}

void lac__log_last_line(const char *path, char *out, size_t size)
{
    char text[TAIL + 1];
    out[0] = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    off_t end = lseek(fd, 0, SEEK_END);
    off_t from = end > TAIL ? end - TAIL : 0;
    ssize_t got = pread(fd, text, TAIL, from);
    close(fd);
    if (got <= 0)
        return;
    while (got > 0 && (text[got - 1] == '\n' || text[got - 1] == ' '))
        got--;
    text[got] = 0;
    const char *line = strrchr(text, '\n');
    line = line ? line + 1 : text;
    size_t length = strlen(line), kept = length < size - 1 ? length : size - 1;
    for (size_t i = 0; i < kept; i++) {
        unsigned char c = (unsigned char)line[i];
        out[i] = (char)(c < 0x20 || c == 0x7f ? '?' : c);
    }
    kept = lac_utf8_whole(out, kept);
    out[kept] = 0;
    if (!lac_utf8_valid(out, kept))
        for (size_t i = 0; i < kept; i++)
            out[i] = (unsigned char)out[i] < 0x80 ? out[i] : '?';
}
