/* Sliding windows in the engine: a long sequence holds a constant number of windowed pages, and its
 * bits are the same whoever shares with it, is preempted, drafts, moves or leaves units out. The
 * model is a tiny gemma3 whose file is told of a longer context and a wider window. */
#include <stdio.h>
#include <unistd.h>

#include "runner.h"

#define MODEL LAC_TINY_DIR "/tiny-gemma3-q8_0.gguf"
enum {
    LAYERS = 13,
    GLOBAL = 2, /* layers 5 and 11 see all positions */
    WINDOWED = LAYERS - GLOBAL,
    WINDOW = 70,
    WINDOW_BLOCKS = 4, /* three that its 69 positions before a block can touch, and the block */
    CONTEXT = 2048,
    LONG = 1500,
    ANSWER = 40,
    QUESTIONS = 6
};

static char path[] = "/tmp/lacuna-window-XXXXXX";
static runner base, run;

static void number_set(char *bytes, size_t length, const char *key, uint32_t value)
{
    char *at = memmem(bytes, length, key, strlen(key));
    ck_assert_ptr_nonnull(at);
    at += strlen(key);
    uint32_t type;
    memcpy(&type, at, sizeof(type));
    ck_assert_uint_eq(type, 4); /* GGUF's number for uint32 */
    memcpy(at + sizeof(type), &value, sizeof(value));
}

static void model_write(void)
{
    static char bytes[4 << 20];
    FILE *in = fopen(MODEL, "rb");
    ck_assert_ptr_nonnull(in);
    size_t length = fread(bytes, 1, sizeof(bytes), in);
    fclose(in);
    number_set(bytes, length, "gemma3.context_length", CONTEXT);
    number_set(bytes, length, "gemma3.attention.sliding_window", WINDOW);
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, bytes, length), (ssize_t)length);
    close(fd);
}

static void model_remove(void)
{
    unlink(path);
}

/* Two that share 300 tokens, a long one, a short one, one again, one that repeats itself. */
static uint32_t prompt_fill(uint32_t id, uint32_t *out)
{
    static const uint32_t counts[QUESTIONS] = {400, 430, LONG, 9, 400, 700};
    for (uint32_t i = 0; i < counts[id]; i++) {
        uint32_t seed = id < 2 && i < 300 ? 0 : id == 4 ? 0 : id, at = id == 5 ? i % 50 : i;
        out[i] = 3 + (at * 37 + seed * 101 + at * at % 97 * 5) % 270;
    }
    return counts[id];
}

static lac_engine_options options_of(void)
{
    return (lac_engine_options){.model_path = path, .threads = 1, .slots = 4, .queue_max = 16};
}

static lac_engine_request request_of(uint32_t id, const uint32_t *prompt, uint32_t count)
{
    lac_engine_request request = {
        .id = id, .prompt = prompt, .prompt_count = count, .sampling = runner_greedy(ANSWER)};
    request.sampling.logprobs = true;
    request.sampling.top_logprobs = 3;
    request.sampling.ignore_eos = true;
    request.sampling.temperature = id == 5 ? 1.2f : 0.0f; /* so that some drafts are wrong */
    return request;
}

static void ask(lac_engine *engine, uint32_t id, uint32_t class_index)
{
    uint32_t prompt[CONTEXT];
    lac_engine_request request = request_of(id, prompt, prompt_fill(id, prompt));
    request.class_index = class_index;
    lac_error err = {0};
    lac_status status = lac_engine_submit(engine, &request, &err);
    ck_assert_msg(status == LAC_OK, "%s", err.text);
}

static void run_all(lac_engine *engine, runner *out, uint32_t class_index)
{
    memset(out, 0, sizeof(*out));
    for (uint32_t id = 0; id < QUESTIONS; id++)
        ask(engine, id, class_index);
    runner_drain(engine, out);
}

static void same_as_base(const runner *other)
{
    for (uint32_t id = 0; id < QUESTIONS; id++) {
        ck_assert_uint_eq(other->results[id].tokens_count, ANSWER);
        runner_same(&base.results[id], &other->results[id]);
    }
}

/* The answers of one after the other, with nothing shared and room for all. */
static void base_make(const lac_engine_options *with, uint32_t class_index)
{
    lac_engine_options options = *with;
    options.without_prefix_cache = true;
    options.speculate = LAC_SPECULATE_OFF;
    options.slots = 1;
    lac_engine *engine = runner_engine(&options);
    run_all(engine, &base, class_index);
    lac_engine_destroy(&engine);
}

START_TEST(a_long_sequence_holds_a_constant_number_of_windowed_pages)
{
    for (int cache = 0; cache < 2; cache++) {
        lac_engine_options options = options_of();
        options.without_prefix_cache = cache == 0;
        options.speculate = LAC_SPECULATE_OFF;
        lac_engine *engine = runner_engine(&options);
        memset(&run, 0, sizeof(run));
        ask(engine, 2, 0);
        lac_engine_stats stats;
        uint64_t computed = 0, widest = 0;
        while (lac_engine_step(engine, runner_sink, &run)) {
            lac_engine_stats_read(engine, &stats);
            computed = stats.prompt_tokens + (stats.output_tokens ? stats.output_tokens - 1 : 0);
            uint64_t blocks = (computed + LAC_KV_BLOCK - 1) / LAC_KV_BLOCK;
            if (stats.kv_pages_used == 0)
                break; /* it ended */
            ck_assert_uint_le(stats.kv_pages_used, GLOBAL * blocks + WINDOWED * WINDOW_BLOCKS);
            ck_assert_uint_ge(stats.kv_pages_used, GLOBAL * blocks);
            uint64_t windowed = (stats.kv_pages_used - GLOBAL * blocks) / WINDOWED;
            widest = windowed > widest ? windowed : widest;
        }
        ck_assert_uint_gt(computed, LONG);
        ck_assert_uint_ge(widest, WINDOW_BLOCKS - 1);
        ck_assert_uint_eq(run.results[2].tokens_count, ANSWER);
        lac_engine_destroy(&engine);
    }
}
END_TEST

START_TEST(bits_do_not_depend_on_who_shares)
{
    lac_engine_options options = options_of();
    base_make(&options, 0);
    for (int threads = 1; threads <= 2; threads++)
        for (int speculate = LAC_SPECULATE_OFF; speculate <= LAC_SPECULATE_ON; speculate++) {
            options.threads = (uint32_t)threads;
            options.speculate = (lac_speculate)speculate;
            lac_engine *engine = runner_engine(&options);
            run_all(engine, &run, 0);
            same_as_base(&run);
            run_all(engine, &run, 0); /* all of it is cached now */
            same_as_base(&run);
            ck_assert_uint_ge(run.results[2].usage.cached_tokens, LONG - LAC_KV_BLOCK - 1);
            lac_engine_stats stats;
            lac_engine_stats_read(engine, &stats);
            ck_assert_uint_eq(stats.kv_pages_used, 0);
            if (speculate == LAC_SPECULATE_ON)
                ck_assert_uint_gt(stats.draft_tokens, stats.draft_accepted); /* some were undone */
            lac_engine_destroy(&engine);
        }
}
END_TEST

/* Blocks for all units that would hold 352 tokens hold 1,540 with windows, while others wait, give
 * way and come back. */
START_TEST(a_small_pool_holds_long_sequences)
{
    lac_engine_options options = options_of();
    base_make(&options, 0);
    for (int cache = 0; cache < 2; cache++) {
        lac_engine_stats stats;
        lac_engine *engine = runner_engine(&options);
        lac_engine_stats_read(engine, &stats);
        uint64_t page = stats.kv_bytes / stats.kv_pages;
        lac_engine_destroy(&engine);
        lac_engine_options small = options;
        small.without_prefix_cache = cache == 0;
        small.kv_bytes = 11 * LAYERS * page;
        engine = runner_engine(&small);
        run_all(engine, &run, 0);
        same_as_base(&run);
        run_all(engine, &run, 0);
        same_as_base(&run);
        lac_engine_stats_read(engine, &stats);
        ck_assert_uint_eq(stats.kv_pages, 11 * LAYERS);
        ck_assert_uint_gt(stats.preemptions, 0);
        lac_engine_destroy(&engine);
    }
}
END_TEST

/* Units left out for a whole request or from the answer on, windowed and global ones. */
START_TEST(classes_and_windows)
{
    static const char *const masks[3] = {"A0,A3,A11", "A5,F2", "A1,A5,A7,F3"};
    lac_engine_class classes[3] = {{.name = "one"}, {.name = "two"}, {.name = "later"}};
    for (uint32_t c = 0; c < 3; c++)
        ck_assert_int_eq(lac_mask_parse(masks[c], LAYERS, &classes[c].mask, NULL), LAC_OK);
    classes[2].scope = LAC_SCOPE_DECODE;
    lac_engine_options options = options_of();
    options.classes = classes;
    options.classes_count = 3;
    for (uint32_t c = 1; c <= 3; c++) {
        base_make(&options, c);
        lac_engine *engine = runner_engine(&options);
        run_all(engine, &run, c);
        same_as_base(&run);
        run_all(engine, &run, c);
        same_as_base(&run);
        lac_engine_stats stats;
        lac_engine_stats_read(engine, &stats);
        ck_assert_uint_eq(stats.kv_pages_used, 0);
        lac_engine_destroy(&engine);
    }
}
END_TEST

/* A sequence that another engine goes on with, from its tokens alone. */
START_TEST(a_sequence_moves)
{
    lac_engine_options options = options_of();
    base_make(&options, 0);
    lac_engine *engine = runner_engine(&options);
    memset(&run, 0, sizeof(run));
    uint32_t prompt[CONTEXT], half = ANSWER / 2;
    lac_engine_request request = request_of(2, prompt, prompt_fill(2, prompt));
    request.accepted = base.results[2].tokens;
    request.accepted_count = half;
    lac_error err = {0};
    ck_assert_msg(lac_engine_submit(engine, &request, &err) == LAC_OK, "%s", err.text);
    runner_drain(engine, &run);
    ck_assert_uint_eq(run.results[2].tokens_count, ANSWER - half);
    ck_assert_mem_eq(run.results[2].tokens, base.results[2].tokens + half,
                     (ANSWER - half) * sizeof(uint32_t));
    lac_engine_destroy(&engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("window");
    TCase *tc = tcase_create("window");
    tcase_set_timeout(tc, 300);
    tcase_add_unchecked_fixture(tc, model_write, model_remove);
    tcase_add_test(tc, a_long_sequence_holds_a_constant_number_of_windowed_pages);
    tcase_add_test(tc, bits_do_not_depend_on_who_shares);
    tcase_add_test(tc, a_small_pool_holds_long_sequences);
    tcase_add_test(tc, classes_and_windows);
    tcase_add_test(tc, a_sequence_moves);
    suite_add_tcase(suite, tc);
    return runner_main(suite);
}
