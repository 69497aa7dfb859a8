/* 8 MiB of anything in 2 s: texts that make naive tokenizers quadratic. Time is the thread's own
 * processor time, so that a busy machine does not fail the test; under sanitizers the texts are a
 * sixty-fourth as long. Runs on real models where they are present, else on small vocabularies. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/limits.h"
#include "tokenizer/tokenizer.h"

#ifdef LAC_SANITIZED
enum { LENGTH = LAC_PROMPT_BYTES_MAX / 64, LIMIT_MS = 60000 };
#else
enum { LENGTH = LAC_PROMPT_BYTES_MAX, LIMIT_MS = 2000 };
#endif

typedef struct {
    const char *name;
    const char *alphabet; /* bytes drawn at random, or … */
    const char *repeated; /* … a text over and over */
} shape;

static const shape shapes[] = {
    {"spaces", NULL, " "},
    {"newlines", NULL, "\n"},
    {"spaces and newlines", " \n", NULL},
    {"mixed white space", " \t\r\n", NULL},
    {"one letter", NULL, "a"},
    {"two letters in turn", NULL, "ab"},
    {"letters", "abcdefghijklmnopqrstuvwxyz", NULL},
    {"frequent letters", "aeinrstoh", NULL},
    {"words", "aeinrstoh   ", NULL},
    {"digits", "0123456789", NULL},
    {"symbols", "!@#$%^&*()_+-={}", NULL},
    {"contractions", NULL, "'s"},
    {"emoji", NULL, "\xf0\x9f\x98\x80"},
    {"zwj sequence", NULL, "\xf0\x9f\x91\xa9\xe2\x80\x8d"},
    {"cjk", NULL, "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e"},
    {"combining marks", NULL, "e\xcc\x81"},
    {"cut characters", NULL, "\xe6\x97"},
    {"bytes", NULL, NULL},
    {"begun special texts", NULL, "<|im_end"},
};

static lac_gguf *gguf;
static lac_tokenizer *tokenizer;

/* What the variable names, else the file in the cache folder, else a small one of the tree. */
static void open_from(const char *variable, const char *cached, const char *small)
{
    char path[4096];
    const char *named = getenv(variable), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    lac_error err = {0};
    if (named && *named)
        snprintf(path, sizeof path, "%s", named);
    else if (cache && *cache)
        snprintf(path, sizeof path, "%s/lacuna/%s", cache, cached);
    else
        snprintf(path, sizeof path, "%s/.cache/lacuna/%s", home ? home : "", cached);
    if (access(path, R_OK) != 0)
        snprintf(path, sizeof path, LAC_SOURCE_DIR "/tests/golden/tokenizer/%s", small);
    ck_assert_msg(lac_gguf_open(path, &gguf, &err) == LAC_OK, "%s", err.text);
    ck_assert_msg(lac_tokenizer_create(gguf, &tokenizer, &err) == LAC_OK, "%s", err.text);
}

static void open_tokenizer(void)
{
    open_from("LACUNA_TEST_MODEL", "SmolLM2-135M-Instruct.Q4_1.gguf", "smollm.gguf");
}

static void open_sentencepiece(void)
{
    open_from("LACUNA_TEST_GEMMA", "gemma-3-270m-q4_k_m.gguf", "spm-plain.gguf");
}

static void close_tokenizer(void)
{
    lac_tokenizer_destroy(&tokenizer);
    lac_gguf_close(&gguf);
}

static void fill(char *text, const shape *s)
{
    uint32_t state = 1;
    size_t period = s->repeated ? strlen(s->repeated) : 0;
    size_t letters = s->alphabet ? strlen(s->alphabet) : 0;
    for (size_t i = 0; i < LENGTH; i++) {
        state = state * 1664525u + 1013904223u;
        text[i] = period    ? s->repeated[i % period]
                  : letters ? s->alphabet[(state >> 16) % letters]
                            : (char)(state >> 24);
    }
}

static double thread_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Check writes a message for every assertion, so none stands in a loop over millions of tokens. */
static bool same_bytes(const char *text, const uint32_t *ids, size_t count)
{
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const char *bytes;
        size_t n;
        lac_tokenizer_piece(tokenizer, ids[i], true, &bytes, &n);
        if (n > LENGTH - at || memcmp(text + at, bytes, n) != 0)
            return false;
        at += n;
    }
    return at == LENGTH;
}

START_TEST(within_the_limit)
{
    const shape *s = &shapes[_i];
    char *text = malloc(LENGTH);
    uint32_t *ids;
    size_t count;
    lac_error err = {0};
    fill(text, s);
    double start = thread_seconds();
    lac_status status = lac_tokenizer_encode(
        tokenizer, text, LENGTH, (lac_encode_options){.special = true}, &ids, &count, &err);
    double took = thread_seconds() - start;
    ck_assert_msg(status == LAC_OK, "%s: %s", s->name, err.text);
    printf("%-22s %6.0f ms, %zu tokens\n", s->name, took * 1e3, count);
    ck_assert_msg(took * 1e3 <= LIMIT_MS, "%s: %.0f ms, limit %d ms", s->name, took * 1e3,
                  LIMIT_MS);
    /* The default model's vocabulary lacks some of the bytes drawn at random. */
    if (s->repeated || s->alphabet)
        ck_assert_msg(same_bytes(text, ids, count), "%s: decoding gives other bytes", s->name);
    free(ids);
    free(text);
}
END_TEST

static void add_case(Suite *suite, const char *name, void (*open)(void))
{
    TCase *tcase = tcase_create(name);
    tcase_set_timeout(tcase, 60);
    /* Once for all texts: every test is a fork of this process. */
    tcase_add_unchecked_fixture(tcase, open, close_tokenizer);
    tcase_add_loop_test(tcase, within_the_limit, 0, sizeof shapes / sizeof shapes[0]);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    Suite *suite = suite_create("long texts");
    add_case(suite, "byte-level BPE", open_tokenizer);
    add_case(suite, "SentencePiece", open_sentencepiece);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
