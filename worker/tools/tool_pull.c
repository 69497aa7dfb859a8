/* lacuna-engine pull: a model file from the network, whole or not at all under its name. Main
 * thread. Knows no protocol (fetch.c does) and no tensor: the file must open as a model. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "fetch.h"
#include "model/model.h"
#include "tools.h"

enum { PATH_BYTES_MAX = 4000, BAR_WIDTH = 24, BAR_EVERY_MS = 100 };

typedef struct {
    char url[8192], out[PATH_BYTES_MAX], sha256[80];
    int64_t max_size;
} pull_options;

#define OPTION(field, text, kind, named, start, line)                                              \
    {                                                                                              \
        .name = text, .type = kind, .offset = offsetof(pull_options, field),                       \
        .size = sizeof(((pull_options *)0)->field), .value = named, .preset = start, .low = 1,     \
        .high = 1e18, .help = line                                                                 \
    }
static const lac_option options[] = {
    OPTION(out, "out", LAC_OPT_STRING, "FILE", NULL, "where to; the URL's last part by default"),
    OPTION(sha256, "sha256", LAC_OPT_STRING, "HEX", NULL, "the file must have this checksum"),
    OPTION(max_size, "max-size", LAC_OPT_SIZE, "BYTES", "1024G", "a longer file is refused"),
};

static const lac_tool_spec spec = {
    .name = "pull",
    .synopsis = "URL [--out FILE] [--sha256 HEX]",
    .help = "Fetches a model file by http, https or file. It grows as FILE.part and gets its name "
            "when it\n"
            "is whole, has the checksum and opens as a model; the same command goes on with what "
            "an\n"
            "interrupted one left.",
    .options = options,
    .options_count = sizeof options / sizeof options[0],
};

/* ---- what a terminal sees ---- */

typedef struct {
    const char *name;
    bool terminal;
    uint64_t start_ms, shown_ms, first_bytes;
} shown;

static void bar_show(void *arg, uint64_t done, uint64_t total)
{
    shown *s = arg;
    uint64_t now = lac_now_ns() / 1000000;
    if (s->start_ms == 0) {
        s->start_ms = now;
        s->first_bytes = done;
    }
    if (!s->terminal || (now - s->shown_ms < BAR_EVERY_MS && done != total))
        return;
    s->shown_ms = now;
    double seconds = (double)(now - s->start_ms) / 1000;
    double rate = seconds > 0 ? (double)(done - s->first_bytes) / seconds : 0;
    char bar[BAR_WIDTH + 1] = "";
    if (total > 0) {
        int full = (int)(BAR_WIDTH * ((double)done / (double)total));
        for (int i = 0; i < BAR_WIDTH; i++)
            bar[i] = i < full ? '=' : ' ';
        bar[BAR_WIDTH] = '\0';
        fprintf(stderr, "\r\033[K%.40s [%s] %3.0f %% of %.1f MB, %.1f MB/s", s->name, bar,
                100.0 * (double)done / (double)total, (double)total / 1e6, rate / 1e6);
        if (rate > 0 && done < total)
            fprintf(stderr, ", %.0f s", (double)(total - done) / rate);
    } else {
        fprintf(stderr, "\r\033[K%.40s %.1f MB, %.1f MB/s", s->name, (double)done / 1e6,
                rate / 1e6);
    }
    fflush(stderr);
}

static void bar_end(const shown *s)
{
    if (s->terminal && s->shown_ms)
        fprintf(stderr, "\r\033[K");
}

static void note_show(void *arg, const char *text)
{
    shown *s = arg;
    bar_end(s);
    fprintf(stderr, "lacuna-engine pull: %s: %s\n", s->name, text);
}

/* ---- names and checksums ---- */

static bool scheme_known(const char *url)
{
    return strncasecmp(url, "http://", 7) == 0 || strncasecmp(url, "https://", 8) == 0 ||
           strncasecmp(url, "file://", 7) == 0;
}

/* The last part of the URL's path, when it is a plain file name. */
static bool name_from(const char *url, char *out, size_t size)
{
    const char *path = strchr(strstr(url, "://") + 3, '/');
    if (!path)
        return false;
    size_t length = strcspn(path, "?#"), first = length;
    while (first > 0 && path[first - 1] != '/')
        first--;
    length -= first;
    path += first;
    if (length == 0 || length >= size || path[0] == '.')
        return false;
    for (size_t i = 0; i < length; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", path[i]))
            return false;
    memcpy(out, path, length);
    out[length] = '\0';
    return true;
}

static bool sha256_valid(const char *hex)
{
    return strlen(hex) == 64 && strspn(hex, "0123456789abcdefABCDEF") == 64;
}

static lac_status sum_check(const pull_options *opt, const char *hex, lac_error *err)
{
    if (opt->sha256[0] && strcasecmp(opt->sha256, hex) != 0)
        return lac_fail(err, LAC_ECORRUPT, "SHA-256 is %s, expected %.64s", hex, opt->sha256);
    return LAC_OK;
}

static lac_status file_sum(const char *path, char hex[65], lac_error *err)
{
    static char block[1 << 16];
    FILE *file = fopen(path, "rbe");
    if (!file)
        return lac_fail(err, LAC_EIO, "%s: %s", path, strerror(errno));
    lac_hasher *hasher = lac_hasher_create();
    size_t got;
    while ((got = fread(block, 1, sizeof block, file)) > 0)
        lac_hasher_add(hasher, block, got);
    bool bad = ferror(file);
    fclose(file);
    lac_digest digest;
    lac_hasher_finish(&hasher, &digest);
    lac_hex(digest.bytes, sizeof digest.bytes, hex);
    return bad ? lac_fail(err, LAC_EIO, "%s: cannot be read", path) : LAC_OK;
}

/* ---- the end of it ---- */

/* A whole model, or one file of a split set, which only opens together with the others. */
static lac_status kind_check(const char *path, char *what, size_t size, lac_error *err)
{
    uint32_t no, count;
    lac_model *model = NULL;
    lac_status status = lac_gguf_split(path, &no, &count, err);
    if (status != LAC_OK)
        return status;
    if (count > 1) {
        snprintf(what, size, "file %u of %u of a model", no + 1, count);
        return LAC_OK;
    }
    status = lac_model_open(path, &model, err);
    if (status == LAC_OK)
        snprintf(what, size, "%s, %u layers", model->architecture, model->layers_count);
    lac_model_close(&model);
    return status;
}

static lac_status rename_durably(const char *from, const char *to, lac_error *err)
{
    char folder[PATH_BYTES_MAX];
    const char *slash = strrchr(to, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - to) + 1 : 1, slash ? to : ".");
    if (rename(from, to) != 0)
        return lac_fail(err, LAC_EIO, "%s: %s", to, strerror(errno));
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd); /* some file systems cannot */
        close(fd);
    }
    return LAC_OK;
}

static lac_status pull(const pull_options *opt, const char *out, lac_error *err)
{
    char part[PATH_BYTES_MAX + 8], hex[65], what[128];
    const char *name = strrchr(out, '/') ? strrchr(out, '/') + 1 : out;
    shown s = {.name = name, .terminal = isatty(STDERR_FILENO)};
    snprintf(part, sizeof part, "%s.part", out);
    lac_fetch fetch = {.url = opt->url,
                       .path = part,
                       .bytes_max = (uint64_t)opt->max_size,
                       .checked_later = opt->sha256[0] != '\0',
                       .progress = bar_show,
                       .note = note_show,
                       .arg = &s};
    lac_fetched fetched;
    lac_status status = lac_fetch_file(&fetch, &fetched, err);
    bar_end(&s);
    if (status != LAC_OK)
        return status == LAC_EIO || status == LAC_BUSY ? status : lac_fail_in(err, "%s", name);
    lac_hex(fetched.sha256.bytes, sizeof fetched.sha256.bytes, hex);
    status = sum_check(opt, hex, err);
    if (status == LAC_OK)
        status = kind_check(part, what, sizeof what, err);
    if (status != LAC_OK) {
        /* Whole but wrong: going on with it would fail for ever. */
        lac_fetch_forget(part);
        return lac_fail_in(err, "%s", name);
    }
    status = rename_durably(part, out, err);
    if (status != LAC_OK)
        return status;
    lac_fetch_settle(part);
    printf("%s: %s, %llu bytes (%llu fetched), SHA-256 %s\n", out, what,
           (unsigned long long)fetched.bytes, (unsigned long long)(fetched.bytes - fetched.resumed),
           hex);
    return LAC_OK;
}

int lac_tool_pull(int argc, char **argv)
{
    pull_options opt;
    char out[PATH_BYTES_MAX], hex[65];
    const char *url;
    int code = lac_tool_options_word(&spec, argc, argv, &opt, &url);
    if (code >= 0)
        return code;
    if (!url)
        return lac_tool_misuse(&spec, "a URL is needed");
    if (strlen(url) >= sizeof opt.url)
        return lac_tool_misuse(&spec, "the URL has %zu bytes, limit %zu", strlen(url),
                               sizeof opt.url - 1);
    snprintf(opt.url, sizeof opt.url, "%s", url);
    if (!scheme_known(opt.url))
        return lac_tool_misuse(&spec, "\"%.64s\" is no http, https or file URL", opt.url);
    if (opt.sha256[0] && !sha256_valid(opt.sha256))
        return lac_tool_misuse(&spec, "--sha256 must be 64 hexadecimal digits");
    snprintf(out, sizeof out, "%s", opt.out);
    if (!out[0] && !name_from(opt.url, out, sizeof out))
        return lac_tool_misuse(&spec, "the URL ends in no plain file name: --out FILE is needed");
    signal(SIGXFSZ, SIG_IGN); /* a limit of the shell becomes an error of write() */
    lac_error err = {0};
    lac_status status;
    if (access(out, F_OK) != 0) {
        status = pull(&opt, out, &err);
    } else if (!opt.sha256[0]) {
        status =
            lac_fail(&err, LAC_EEXIST, "%s exists: remove it, or name another with --out", out);
    } else {
        status = file_sum(out, hex, &err);
        if (status == LAC_OK && sum_check(&opt, hex, &err) != LAC_OK)
            status = lac_fail_in(&err, "%s exists", out);
        if (status == LAC_OK)
            printf("%s: is there already, SHA-256 %s\n", out, hex);
    }
    return status == LAC_OK ? LAC_TOOL_OK : lac_tool_fail(&spec, &err);
}
