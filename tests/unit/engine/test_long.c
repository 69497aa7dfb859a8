/* Long contexts: a tiny random model whose file is told of a longer context runs prompts up to it,
 * in memory that grows with the tokens and nothing else, and gives the same tokens at one and two
 * threads. The longest prompt is the program's argument, 16,384 without one. One of its six layers
 * sees everything, with two heads of 16, since time grows with the square of the length; the others
 * have windows, whose memory does not grow at all. */
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "runner.h"

#define MODEL LAC_TINY_DIR "/tiny-gemma3-linear.gguf"
enum {
    ANSWER = 8,
    ROOM = 64,
    WINDOWED = 5,                                        /* layers */
    SEEN = (21 + LAC_BATCH_ROWS_MAX) / LAC_KV_BLOCK + 2, /* blocks of a window while a chunk runs */
    PAGE = 2 * 16 * LAC_KV_BLOCK * 2                     /* bytes: one KV head of 16 halves */
};

static uint32_t longest = 16384;
static char path[] = "/tmp/lacuna-long-XXXXXX";
static runner run, other;
static uint64_t kv_bytes;

/* The model's file with another context length, which nothing in its weights knows. */
static void model_write(uint32_t context)
{
    static char bytes[4 << 20];
    static const char key[] = "gemma3.context_length";
    FILE *in = fopen(MODEL, "rb");
    ck_assert_ptr_nonnull(in);
    size_t length = fread(bytes, 1, sizeof(bytes), in);
    fclose(in);
    char *at = memmem(bytes, length, key, sizeof(key) - 1);
    ck_assert_ptr_nonnull(at);
    at += sizeof(key) - 1;
    uint32_t type;
    memcpy(&type, at, sizeof(type));
    ck_assert_uint_eq(type, 4); /* GGUF's number for uint32 */
    memcpy(at + sizeof(type), &context, sizeof(context));
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, bytes, length), (ssize_t)length);
    close(fd);
}

static void sink(void *arg, const lac_engine_event *event)
{
    runner_sink(arg, event);
    if (event->account)
        kv_bytes = event->account->kv_bytes;
}

static uint64_t resident_bytes(void)
{
    unsigned long long all = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%llu %llu", &all, &resident), 2);
    fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Runs a prompt of so many tokens; bytes by which the process grew into *grown. */
static void run_one(uint32_t tokens, uint32_t threads, runner *out, uint64_t *grown)
{
    lac_engine_options options = {
        .model_path = path, .threads = threads, .slots = 1, .without_prefix_cache = true};
    lac_engine *engine = runner_engine(&options);
    uint32_t *prompt = malloc(sizeof(*prompt) * tokens);
    for (uint32_t i = 0; i < tokens; i++)
        prompt[i] = 3 + (i * 37 + i * i % 101 * 5) % 270;
    lac_engine_request request = {
        .prompt = prompt, .prompt_count = tokens, .sampling = runner_greedy(ANSWER)};
    request.sampling.ignore_eos = true;
    memset(out, 0, sizeof(*out));
    lac_error err = {0};
    uint64_t before = resident_bytes(), start = lac_now_ns();
    ck_assert_msg(lac_engine_submit(engine, &request, &err) == LAC_OK, "%s", err.text);
    while (lac_engine_step(engine, sink, out))
        ;
    double seconds = (double)(lac_now_ns() - start) / 1e9;
    uint64_t after = resident_bytes();
    *grown = after > before ? after - before : 0;
    ck_assert_uint_eq(out->results[0].tokens_count, ANSWER);
    printf("%6u tokens, %u threads: %.1f s, %.0f tok/s, KV %.1f MB, process grew %.1f MB\n", tokens,
           threads, seconds, tokens / seconds, (double)kv_bytes / 1e6, (double)*grown / 1e6);
    free(prompt);
    lac_engine_destroy(&engine);
}

START_TEST(long_prompts_run_in_linear_memory)
{
    model_write(longest + ROOM);
    uint64_t grown;
    for (uint32_t tokens = longest / 8; tokens <= longest; tokens *= 2) {
        run_one(tokens, 2, &run, &grown);
        uint64_t blocks = (tokens + ANSWER - 1 + LAC_KV_BLOCK - 1) / LAC_KV_BLOCK;
        ck_assert_uint_ge(kv_bytes, PAGE * blocks);
        ck_assert_uint_le(kv_bytes, PAGE * (blocks + WINDOWED * SEEN));
        ck_assert_uint_lt(grown, kv_bytes + tokens * sizeof(uint32_t) + (8 << 20));
        if (tokens == longest / 4) {
            run_one(tokens, 1, &other, &grown);
            runner_same(&run.results[0], &other.results[0]);
        }
    }
    unlink(path);
}
END_TEST

int main(int argc, char **argv)
{
    if (argc > 1)
        longest = (uint32_t)strtoul(argv[1], NULL, 10);
    Suite *suite = suite_create("long");
    TCase *tc = tcase_create("long");
    tcase_set_timeout(tc, 3600);
    tcase_add_test(tc, long_prompts_run_in_linear_memory);
    suite_add_tcase(suite, tc);
    return runner_main(suite);
}
