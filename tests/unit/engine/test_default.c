/* The engine on the default model, when it is there: the same greedy text alone, in a batch of
 * eight mixed prompts, at one and two threads; memory within its bound. */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runner.h"

enum { PROMPTS = 8, ANSWER = 24, SKIPPED = 77 };

static char model_path[4096];
static runner run, other;

static const char *const texts[PROMPTS] = {
    "The capital of France is",
    "<|im_start|>user\nName three colours.<|im_end|>\n<|im_start|>assistant\n",
    "def fibonacci(n):\n",
    "{\"name\": \"Anna\", \"age\": 31, \"city\": \"",
    "1, 2, 3, 4, 5,",
    "2031-03-05 07:14:09 level=warn unit=lamp msg=\"bulb current low\"\n2031-03-05 07:14:11 level=",
    ("Once upon a time, in a lighthouse far to the north, there lived a keeper who wrote one line "
     "a day and counted what was left on the shelves. One morning"),
    "H",
};

static bool find_model(void)
{
    const char *given = getenv("LACUNA_TEST_MODEL"), *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    const char *file = "lacuna/SmolLM2-135M-Instruct.Q4_1.gguf";
    if (given && *given)
        snprintf(model_path, sizeof(model_path), "%s", given);
    else if (cache && *cache)
        snprintf(model_path, sizeof(model_path), "%s/%s", cache, file);
    else
        snprintf(model_path, sizeof(model_path), "%s/.cache/%s", home ? home : "", file);
    return access(model_path, R_OK) == 0;
}

static void submit_text(lac_engine *engine, uint32_t i, const lac_sampling *sampling)
{
    uint32_t *ids = NULL;
    size_t count = 0;
    lac_error err = {0};
    lac_status status =
        lac_tokenizer_encode(lac_engine_tokenizer(engine), texts[i], strlen(texts[i]),
                             (lac_encode_options){.special = true}, &ids, &count, &err);
    ck_assert_msg(status == LAC_OK, "%s", err.text);
    runner_submit(engine, i, ids, count, sampling);
    free(ids);
}

START_TEST(same_text_alone_batched_and_threaded)
{
    lac_sampling sampling = runner_greedy(ANSWER);
    lac_engine_options options = {.model_path = model_path, .threads = 1};
    memset(&run, 0, sizeof(run));
    lac_engine *engine = runner_engine(&options);
    for (uint32_t i = 0; i < PROMPTS; i++) {
        submit_text(engine, i, &sampling);
        runner_drain(engine, &run);
    }
    lac_engine_destroy(&engine);
    ck_assert_ptr_nonnull(memmem(run.results[0].text, run.results[0].text_length, "Paris", 5));
    for (uint32_t threads = 1; threads <= 2; threads++) {
        options.threads = threads;
        memset(&other, 0, sizeof(other));
        engine = runner_engine(&options);
        for (uint32_t i = 0; i < PROMPTS; i++)
            submit_text(engine, i, &sampling);
        runner_drain(engine, &other);
        lac_engine_destroy(&engine);
        for (uint32_t i = 0; i < PROMPTS; i++)
            runner_same(&run.results[i], &other.results[i]);
    }
}
END_TEST

/* Highest resident size so far, in bytes. */
static uint64_t peak_bytes(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    unsigned long long kb = 0;
    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof(line), file))
        if (sscanf(line, "VmHWM: %llu kB", &kb) == 1)
            break;
    fclose(file);
    return kb * 1024;
}

START_TEST(memory_stays_within_its_bound)
{
    struct stat file;
    ck_assert_int_eq(stat(model_path, &file), 0);
    lac_engine_options options = {.model_path = model_path, .threads = 2, .kv_bytes = 64 << 20};
    lac_engine *engine = runner_engine(&options);
    lac_sampling sampling = runner_greedy(ANSWER);
    memset(&run, 0, sizeof(run));
    for (uint32_t i = 0; i < PROMPTS; i++)
        submit_text(engine, i, &sampling);
    runner_drain(engine, &run);
    lac_engine_stats stats;
    lac_engine_stats_read(engine, &stats);
    lac_engine_destroy(&engine);
    uint64_t limit = (uint64_t)file.st_size + stats.kv_bytes + (100 << 20);
    uint64_t peak = peak_bytes();
    printf("peak %.1f MB, limit %.1f MB (file %.1f, pool %.1f)\n", (double)peak / 1e6,
           (double)limit / 1e6, (double)file.st_size / 1e6, (double)stats.kv_bytes / 1e6);
    ck_assert_uint_le(peak, limit);
}
END_TEST

int main(void)
{
    if (!find_model()) {
        printf(
            "skipped: the default model is not there (LACUNA_TEST_MODEL, or the cache folder)\n");
        return SKIPPED;
    }
    Suite *suite = suite_create("default model");
    TCase *tc = tcase_create("default");
    tcase_set_timeout(tc, 280);
    tcase_add_test(tc, same_text_alone_batched_and_threaded);
#ifndef LAC_SANITIZED
    tcase_add_test(tc, memory_stays_within_its_bound); /* sanitizers have memory of their own */
#endif
    suite_add_tcase(suite, tc);
    return runner_main(suite);
}
