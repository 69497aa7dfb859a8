/* The log writer: formats a whole line on the stack and writes it with one call, so that lines of
 * several threads never mix. Set up once before threads start; afterwards only the counts of events
 * change, under their lock. */
#include <ctype.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

enum { LINE_MAX_BYTES = 1024, EVENTS_MAX = 256, WINDOW_MS = 10000 };

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

/* ---- events ---- */

void lac_log_event(const char *format, char out[LAC_LOG_EVENT_MAX + 1])
{
    size_t length = 0;
    bool gap = false;
    for (const char *p = format; *p && length < LAC_LOG_EVENT_MAX; p++) {
        if (*p == '%') {
            p++;
            p += strspn(p, "-+ #0123456789.*hlLqjzt");
            gap = true;
            if (!*p)
                break;
        } else if (isalnum((unsigned char)*p)) {
            if (gap && length && length < LAC_LOG_EVENT_MAX - 1)
                out[length++] = '-';
            gap = false;
            out[length++] = (char)tolower((unsigned char)*p);
        } else {
            gap = true;
        }
    }
    out[length] = 0;
    if (!length)
        memcpy(out, "message", sizeof "message");
}

/* How often one event came in the present window. Those that share a place share a limit. */
static struct {
    pthread_mutex_t lock;
    unsigned limit;
    uint64_t suppressed;
    struct {
        uint64_t since_ms;
        unsigned count, suppressed;
    } events[EVENTS_MAX];
} rate = {.lock = PTHREAD_MUTEX_INITIALIZER};

void lac_log_limit(unsigned lines)
{
    rate.limit = lines;
}

uint64_t lac_log_suppressed(void)
{
    pthread_mutex_lock(&rate.lock);
    uint64_t suppressed = rate.suppressed;
    pthread_mutex_unlock(&rate.lock);
    return suppressed;
}

/* False when that line is one too many; `missed`: how many were before the first of a window. */
static bool admitted(const char *event, unsigned *missed)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (const char *p = event; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 16777619u;
    size_t at = hash % EVENTS_MAX;
    uint64_t now = lac_now_ms();
    *missed = 0;
    if (!rate.limit)
        return true;
    pthread_mutex_lock(&rate.lock);
    if (!rate.events[at].count || now - rate.events[at].since_ms >= WINDOW_MS) {
        *missed = rate.events[at].suppressed;
        rate.events[at].since_ms = now;
        rate.events[at].count = rate.events[at].suppressed = 0;
    }
    bool yes = rate.events[at].count++ < rate.limit;
    rate.events[at].suppressed += !yes;
    rate.suppressed += !yes;
    pthread_mutex_unlock(&rate.lock);
    return yes;
}

/* ---- lines ---- */

static void write_json(lac_buf *line, lac_log_level level, const char *event, unsigned missed,
                       const char *stamp, long ms, const char *text)
{
    lac_buf_printf(line, "{\"time\":\"%s.%03ldZ\",\"mono_ms\":%llu,\"level\":\"%s\",", stamp, ms,
                   (unsigned long long)lac_now_ms(), level_names[level]);
    lac_buf_printf(line, "\"component\":\"%s\",\"pid\":%d,\"event\":\"%s\",", setup.component,
                   (int)getpid(), event);
    if (missed)
        lac_buf_printf(line, "\"suppressed\":%u,", missed);
    lac_buf_text(line, "\"text\":");
    lac_buf_json(line, text, strlen(text));
    lac_buf_text(line, "}\n");
}

void lac_log_text(lac_log_level level, const char *format, const char *text)
{
    char event[LAC_LOG_EVENT_MAX + 1], stamp[32];
    unsigned missed;
    lac_log_event(format, event);
    if (!admitted(event, &missed))
        return;
    struct timespec wall;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &wall);
    gmtime_r(&wall.tv_sec, &utc);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
    long ms = wall.tv_nsec / 1000000;
    lac_buf line = {.cap = 8 * LINE_MAX_BYTES};
    if (setup.json) {
        write_json(&line, level, event, missed, stamp, ms, text);
    } else {
        lac_buf_printf(&line, "%s.%03ldZ %-5s %s[%d]: %s", stamp, ms, level_names[level],
                       setup.component, (int)getpid(), text);
        if (missed)
            lac_buf_printf(&line, " (%u lines like this were left out before)", missed);
        lac_buf_text(&line, "\n");
    }
    write_line(line.data, line.length);
    lac_buf_free(&line);
}

void lac_log_write(lac_log_level level, const char *format, ...)
{
    char text[LINE_MAX_BYTES];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (length >= 0)
        lac_log_text(level, format, text);
}
