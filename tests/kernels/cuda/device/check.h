/* As much of Check as the kernel tests use, without forks (a device does not survive one) and
 * without the library (a machine with a GPU may not have it). The first failed assertion ends the
 * program. */
#ifndef LAC_TESTS_CUDA_DEVICE_CHECK_H
#define LAC_TESTS_CUDA_DEVICE_CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *name;
    void (*run)(int _i);
    int from, to;
} TTest;
typedef struct {
    TTest tests[32];
    int count;
} TCase;
typedef struct {
    const char *name;
    TCase *cases[4];
    int count;
} Suite;

#define START_TEST(name)                                                                           \
    static void name(int _i)                                                                       \
    {                                                                                              \
        (void)_i;
#define END_TEST }

static inline Suite *suite_create(const char *name)
{
    Suite *s = calloc(1, sizeof *s);
    s->name = name;
    return s;
}
static inline TCase *tcase_create(const char *name)
{
    (void)name;
    return calloc(1, sizeof(TCase));
}
static inline void suite_add_tcase(Suite *s, TCase *t)
{
    s->cases[s->count++] = t;
}
#define tcase_set_timeout(t, seconds) ((void)(t))
#define tcase_add_test(t, name)       tcase_add_loop_test(t, name, 0, 1)
#define tcase_add_loop_test(t, name, a, b)                                                         \
    ((t)->tests[(t)->count++] = (TTest){#name, name, (a), (b)})

#define ck_assert_msg(x, ...)                                                                      \
    ((x) ? (void)0                                                                                 \
         : (printf("FAILED %s:%d: ", __FILE__, __LINE__), printf(__VA_ARGS__), printf("\n"),       \
            exit(1)))
#define ck_assert(x)              ck_assert_msg(x, "%s", #x)
#define ck_assert_int_eq(a, b)    ck_assert_msg((intmax_t)(a) == (intmax_t)(b), "%s == %s", #a, #b)
#define ck_assert_uint_eq(a, b)   ck_assert_msg((uintmax_t)(a) == (uintmax_t)(b), "%s == %s", #a, #b)
#define ck_assert_uint_gt(a, b)   ck_assert_msg((uintmax_t)(a) > (uintmax_t)(b), "%s > %s", #a, #b)
#define ck_assert_uint_lt(a, b)   ck_assert_msg((uintmax_t)(a) < (uintmax_t)(b), "%s < %s", #a, #b)
#define ck_assert_mem_eq(a, b, n) ck_assert_msg(memcmp(a, b, n) == 0, "%s equals %s", #a, #b)

#endif
