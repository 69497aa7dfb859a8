/* Assertions that stay on in release builds: for what only a bug can break. What the world can
 * break returns a status instead. */
#ifndef LAC_BASE_ASSERT_H
#define LAC_BASE_ASSERT_H

/* Logs the broken condition and its place, then aborts. */
_Noreturn void lac__assert_fail(const char *condition, const char *file, int line);

#define LAC_ASSERT(condition)                                                                      \
    do {                                                                                           \
        if (__builtin_expect(!(condition), 0))                                                     \
            lac__assert_fail(#condition, __FILE__, __LINE__);                                      \
    } while (0)

#endif
