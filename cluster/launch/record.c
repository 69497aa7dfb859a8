/* Records of started processes as small files, one a rank. Owns their format. */
#include "record.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/host.h"
#include "base/text.h"

#define SUFFIX ".group"
enum { PATH_BYTES = 4096, TEXT_MAX = 512, HEX = 32, STARTED_FIELD = 22 };

static bool read_small(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t got = read(fd, out, size - 1);
    close(fd);
    if (got <= 0)
        return false;
    out[got] = 0;
    return true;
}

bool lac__process_started(pid_t pid, uint64_t *out)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (!read_small(path, text, sizeof text))
        return false;
    /* The name, field 2, may hold anything: fields are counted from its closing bracket. */
    char *at = strrchr(text, ')');
    if (!at || at[1] != ' ' || at[2] == 'Z')
        return false;
    int field = 2;
    for (at++; *at && field < STARTED_FIELD; at++)
        field += *at == ' ';
    int64_t ticks = 0;
    at[strcspn(at, " \n")] = 0;
    if (field != STARTED_FIELD || !lac_parse_i64(at, 0, INT64_MAX, &ticks))
        return false;
    *out = (uint64_t)ticks;
    return true;
}

bool lac__record_alive(const lac__record *record)
{
    uint64_t started;
    return lac__process_started(record->pid, &started) && started == record->started;
}

static bool path_of(const char *dir, const lac__record *record, const char *suffix,
                    char out[PATH_BYTES])
{
    char hex[HEX + 1], rank[16] = "";
    lac_hex(record->group.incarnation, sizeof record->group.incarnation, hex);
    if (record->rank)
        snprintf(rank, sizeof rank, "-%u", record->rank);
    return (size_t)snprintf(out, PATH_BYTES, "%s/%s%s%s", dir, hex, rank, suffix) < PATH_BYTES;
}

lac_status lac__record_write(const char *dir, const lac__record *record, lac_error *err)
{
    char path[PATH_BYTES], fresh[PATH_BYTES], boot[LAC_BOOT_ID + 1], text[TEXT_MAX];
    if (!path_of(dir, record, SUFFIX, path) || !path_of(dir, record, ".new", fresh))
        return lac_fail(err, LAC_ETOOBIG, "state-dir has more than %d bytes", PATH_BYTES - 64);
    if (!lac_boot_id(boot))
        return lac_fail(err, LAC_EIO, "the boot id of this host cannot be read");
    int length = snprintf(text, sizeof text, "%d %llu %s %s\n", (int)record->pid,
                          (unsigned long long)record->started, boot, record->group.group);
    int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return lac_fail(err, LAC_EIO, "%s: %s", fresh, strerror(errno));
    bool written = write(fd, text, (size_t)length) == length;
    int code = errno;
    close(fd);
    if (!written || rename(fresh, path)) {
        code = written ? errno : code;
        unlink(fresh);
        return lac_fail(err, LAC_EIO, "%s: cannot write: %s", path, strerror(code));
    }
    return LAC_OK;
}

void lac__record_remove(const char *dir, const lac__record *record)
{
    char path[PATH_BYTES];
    if (path_of(dir, record, SUFFIX, path))
        unlink(path);
}

/* "INCARNATION.group" or "INCARNATION-RANK.group" */
static bool parse_name(const char *name, lac__record *out)
{
    char hex[HEX + 1], rank[16];
    size_t length = strlen(name), end = length - strlen(SUFFIX);
    int64_t number = 0;
    if (length < HEX + strlen(SUFFIX) || strcmp(name + end, SUFFIX) != 0)
        return false;
    if (end > HEX) {
        if (name[HEX] != '-' || end - HEX - 1 >= sizeof rank)
            return false;
        snprintf(rank, sizeof rank, "%.*s", (int)(end - HEX - 1), name + HEX + 1);
        if (!lac_parse_i64(rank, 1, LAC_RANKS_MAX - 1, &number))
            return false;
    }
    snprintf(hex, sizeof hex, "%.*s", HEX, name);
    out->rank = (uint32_t)number;
    return lac_unhex(hex, out->group.incarnation, HEX / 2);
}

/* "PID STARTED BOOT GROUP\n" */
static bool parse(const char *name, char *text, const char *boot, lac__record *out)
{
    char *part[4], *rest = NULL;
    int count = 0;
    if (!parse_name(name, out))
        return false;
    for (char *p = strtok_r(text, " \n", &rest); p && count < 4; p = strtok_r(NULL, " \n", &rest))
        part[count++] = p;
    int64_t pid = 0, started = 0;
    if (count != 4 || !lac_parse_i64(part[0], 2, INT32_MAX, &pid) ||
        !lac_parse_i64(part[1], 0, INT64_MAX, &started) || strcmp(part[2], boot) != 0 ||
        strlen(part[3]) > LAC_NAME_MAX)
        return false;
    out->pid = (pid_t)pid;
    out->started = (uint64_t)started;
    snprintf(out->group.group, sizeof out->group.group, "%s", part[3]);
    return true;
}

lac_status lac__record_scan(const char *dir, void (*each)(void *arg, const lac__record *record),
                            void *arg, lac_error *err)
{
    char boot[LAC_BOOT_ID + 1];
    if (!lac_boot_id(boot))
        return lac_fail(err, LAC_EIO, "the boot id of this host cannot be read");
    DIR *folder = opendir(dir);
    if (!folder)
        return lac_fail(err, LAC_EIO, "%s: %s", dir, strerror(errno));
    for (struct dirent *entry; (entry = readdir(folder));) {
        size_t length = strlen(entry->d_name), suffix = strlen(SUFFIX);
        char path[PATH_BYTES], text[TEXT_MAX];
        if (length <= suffix || strcmp(entry->d_name + length - suffix, SUFFIX) != 0 ||
            (size_t)snprintf(path, sizeof path, "%s/%s", dir, entry->d_name) >= sizeof path)
            continue;
        lac__record record = {0};
        if (read_small(path, text, sizeof text) && parse(entry->d_name, text, boot, &record))
            each(arg, &record);
        else
            unlink(path);
    }
    closedir(folder);
    return LAC_OK;
}
