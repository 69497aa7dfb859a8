/* STATE_DIR/guards: written to a temporary name, synced, renamed. Its text is the core's business.
 */
#include "guards.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

enum { TEXT_MAX = 256 << 10 }; /* LAC_GUARDS_MAX lines have less */

static bool path_of(char *path, size_t size, const char *dir, const char *name)
{
    return (size_t)snprintf(path, size, "%s/%s", dir, name) < size;
}

void lac__guards_read(const char *state_dir, lac_core *core)
{
    char path[LAC_ENDPOINT_MAX + 16];
    FILE *file = path_of(path, sizeof path, state_dir, "guards") ? fopen(path, "re") : NULL;
    if (!file) {
        if (errno != ENOENT)
            lac_warn("%s: %s", path, strerror(errno));
        return;
    }
    char *text = lac_alloc(TEXT_MAX + 1, 1);
    size_t length = fread(text, 1, TEXT_MAX, file);
    fclose(file);
    text[length] = 0;
    lac_error err;
    if (lac_core_guards_load(core, text, &err) != LAC_OK)
        lac_warn("%s: %s; its classes are guarded from new on", path, err.text);
    free(text);
}

void lac__guards_write(const char *state_dir, const lac_core *core)
{
    char path[LAC_ENDPOINT_MAX + 16], fresh[LAC_ENDPOINT_MAX + 16];
    lac_buf text = {.cap = TEXT_MAX};
    lac_core_guards_save(core, &text);
    bool good = !text.overflow && path_of(path, sizeof path, state_dir, "guards") &&
                path_of(fresh, sizeof fresh, state_dir, "guards.new");
    int fd = good ? open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
    good = fd >= 0 && write(fd, text.data, text.length) == (ssize_t)text.length && !fsync(fd);
    if (fd >= 0)
        good = !close(fd) && good;
    if (!good || rename(fresh, path))
        lac_error_log("%s/guards cannot be written: %s", state_dir, strerror(errno));
    lac_buf_free(&text);
}
