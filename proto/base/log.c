/* The log writer: formats a whole line on the stack and writes it with one call, so that lines of
 * several threads never mix. Set up once before threads start; afterwards read-only. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

enum { LINE_MAX_BYTES = 1024 };

static const char *const level_names[] = {"error", "warn", "info", "debug", "trace"};

static struct {
    lac_log_level level;
    const char *component;
    bool json;
} setup = {LAC_LOG_INFO, "lacuna", false};

void lac_log_setup(lac_log_level level, const char *component, bool json)
{
    setup.level = level;
    setup.component = component;
    setup.json = json;
}

bool lac_log_level_parse(const char *name, lac_log_level *out)
{
    for (int i = 0; i <= LAC_LOG_TRACE; i++) {
        if (!strcmp(name, level_names[i])) {
            *out = (lac_log_level)i;
            return true;
        }
    }
    return false;
}

bool lac_log_on(lac_log_level level)
{
    return level <= setup.level;
}

static void write_line(const char *line, size_t length)
{
    while (length) {
        ssize_t n = write(STDERR_FILENO, line, length);
        if (n <= 0)
            return; /* nobody can be told that the log is gone */
        line += n;
        length -= (size_t)n;
    }
}

void lac_log_write(lac_log_level level, const char *format, ...)
{
    char text[LINE_MAX_BYTES];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (length < 0)
        return;
    size_t text_length = (size_t)length < sizeof text ? (size_t)length : sizeof text - 1;

    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    struct tm utc;
    gmtime_r(&wall.tv_sec, &utc);
    char stamp[32];
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);

    lac_buf line = {.cap = 8 * LINE_MAX_BYTES};
    if (setup.json) {
        lac_buf_printf(&line, "{\"time\":\"%s.%03ldZ\",\"mono_ms\":%llu,\"level\":\"%s\",", stamp,
                       wall.tv_nsec / 1000000, (unsigned long long)lac_now_ms(),
                       level_names[level]);
        lac_buf_printf(&line, "\"component\":\"%s\",\"pid\":%d,\"text\":", setup.component,
                       (int)getpid());
        lac_buf_json(&line, text, text_length);
        lac_buf_text(&line, "}\n");
    } else {
        lac_buf_printf(&line, "%s.%03ldZ %-5s %s[%d]: ", stamp, wall.tv_nsec / 1000000,
                       level_names[level], setup.component, (int)getpid());
        lac_buf_add(&line, text, text_length);
        lac_buf_add(&line, "\n", 1);
    }
    write_line(line.data, line.length);
    lac_buf_free(&line);
}
