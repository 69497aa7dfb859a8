/* Logging to standard error: one line an event, lower case, name then value, no prompt text ever.
 * Lines are written whole from any thread. */
#ifndef LAC_BASE_LOG_H
#define LAC_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

/* Ordered by volume. */
typedef enum {
    LAC_LOG_ERROR,
    LAC_LOG_WARN,
    LAC_LOG_INFO,
    LAC_LOG_DEBUG,
    LAC_LOG_TRACE
} lac_log_level;

/* Sets the most verbose level written and the component named in each line (a literal, not copied).
 * `json` writes JSON lines. Call once, before threads start. */
void lac_log_setup(lac_log_level level, const char *component, bool json);
/* At most so many lines of one event in ten seconds; what is beyond is counted, and the event's
 * next line says how many there were. 0, as at first: no limit. Call once, before threads start. */
void lac_log_limit(unsigned lines);
uint64_t lac_log_suppressed(void); /* lines left out so far, of all events */
bool lac_log_level_parse(const char *name, lac_log_level *out);
bool lac_log_on(lac_log_level level);
void lac_log_write(lac_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A line whose text was made elsewhere, out of `format`. */
void lac_log_text(lac_log_level level, const char *format, const char *text);
/* What identifies the lines of one place in the program: the words of its format, so
 * "group %s: moving %zu requests" is "group-moving-requests"; without any "message". */
enum { LAC_LOG_EVENT_MAX = 48 };
void lac_log_event(const char *format, char out[LAC_LOG_EVENT_MAX + 1]);

#define lac_log(level, ...)                                                                        \
    do {                                                                                           \
        if (lac_log_on(level))                                                                     \
            lac_log_write(level, __VA_ARGS__);                                                     \
    } while (0)
#define lac_error_log(...) lac_log(LAC_LOG_ERROR, __VA_ARGS__)
#define lac_warn(...)      lac_log(LAC_LOG_WARN, __VA_ARGS__)
#define lac_info(...)      lac_log(LAC_LOG_INFO, __VA_ARGS__)
#define lac_debug(...)     lac_log(LAC_LOG_DEBUG, __VA_ARGS__)

#endif
