/* The type of held-out texts that other generators made than those the tree was learned from. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "suites.h"
#include "type.h"

enum { KINDS_MAX = 64, TEXT_MAX = 1 << 20 };

const char *heldout_path;

typedef struct {
    char name[64];
    unsigned count, wrong;
} kind_row;

static kind_row *kind_of(kind_row *kinds, const char *name)
{
    for (int i = 0; i < KINDS_MAX; i++) {
        if (!*kinds[i].name)
            snprintf(kinds[i].name, sizeof kinds[i].name, "%s", name);
        if (!strcmp(kinds[i].name, name))
            return &kinds[i];
    }
    ck_abort_msg("more than %d kinds", KINDS_MAX);
    return NULL;
}

/* Of this thread: others share the machine. */
static uint64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

START_TEST(heldout_texts)
{
    FILE *file = fopen(heldout_path, "rb");
    ck_assert_msg(file != NULL, "%s cannot be read", heldout_path);
    char *text = malloc(TEXT_MAX), label[32], name[64];
    kind_row kinds[KINDS_MAX] = {0};
    uint64_t times[8192];
    size_t length, count = 0, wrong = 0;
    while (fscanf(file, " === %31s %63s %zu", label, name, &length) == 3) {
        ck_assert(length < TEXT_MAX && getc(file) == '\n' &&
                  fread(text, 1, length, file) == length);
        lac_prompt prompt = {.kind = LAC_PROMPT_TEXT, .text = {text, (uint32_t)length}};
        lac__fingerprint fingerprint;
        uint64_t start = clock_ns();
        lac__fingerprint_of(&prompt, &fingerprint, NULL);
        times[count % 8192] = clock_ns() - start;
        kind_row *kind = kind_of(kinds, name);
        bool bad = strcmp(lac__type_name(fingerprint.type), label) != 0;
        kind->count++;
        kind->wrong += bad;
        wrong += bad;
        count++;
    }
    fclose(file);
    free(text);
    for (int i = 0; i < KINDS_MAX && *kinds[i].name; i++)
        if (kinds[i].wrong)
            printf("  %s: %u of %u wrong\n", kinds[i].name, kinds[i].wrong, kinds[i].count);
    qsort(times, count, sizeof *times, by_value);
    printf("held out: %zu texts, %zu wrong; a decision p50 %.1f us, p99 %.1f us\n", count, wrong,
           (double)times[count / 2] / 1000, (double)times[count * 99 / 100] / 1000);
    ck_assert_uint_ge(count, 500);
    ck_assert_uint_ge((count - wrong) * 100, count * 97);
}
END_TEST

/* Not asserted: other processes share the machine. */
START_TEST(speed_at_any_length)
{
    enum { RUNS = 400 };
    static const char line[] =
        "2025-03-04 10:00:01 INFO [gate] request 4711 took 12 ms, {\"a\": 1}\n";
    static uint64_t times[RUNS];
    for (uint32_t length = 256; length <= 8u << 20; length *= 32) {
        char *text = malloc(length);
        for (uint32_t i = 0; i < length; i++)
            text[i] = line[i % (sizeof line - 1)];
        lac_prompt prompt = {.kind = LAC_PROMPT_TEXT, .text = {text, length}};
        lac__fingerprint fingerprint;
        for (int i = 0; i < RUNS; i++) {
            uint64_t start = clock_ns();
            lac__fingerprint_of(&prompt, &fingerprint, NULL);
            times[i] = clock_ns() - start;
        }
        qsort(times, RUNS, sizeof *times, by_value);
        printf("%8u bytes: p50 %.1f us, p99 %.1f us\n", length, (double)times[RUNS / 2] / 1000,
               (double)times[RUNS * 99 / 100] / 1000);
        ck_assert_int_eq(fingerprint.type, LAC__TYPE_STRUCTURED);
        free(text);
    }
    lac__decisions *cache = lac__decisions_create(1024);
    lac__decision_key key = {0};
    lac__decision decision = {0};
    for (uint32_t i = 0; i < 1024; i++) {
        lac_sha256(&i, sizeof i, &key.fingerprint);
        lac__decisions_put(cache, &key, &decision);
    }
    unsigned found = 0;
    uint64_t start = clock_ns();
    for (int i = 0; i < 100000; i++)
        found += lac__decisions_find(cache, &key, &decision);
    ck_assert_uint_eq(found, 100000);
    printf("look-up: %.3f us\n", (double)(clock_ns() - start) / 100000 / 1000);
    lac__decisions_destroy(&cache);
}
END_TEST

TCase *heldout_case(void)
{
    TCase *tc = tcase_create("heldout");
    tcase_add_test(tc, heldout_texts);
    return tc;
}

TCase *speed_case(void)
{
    TCase *tc = tcase_create("speed");
    tcase_add_test(tc, speed_at_any_length);
    return tc;
}
