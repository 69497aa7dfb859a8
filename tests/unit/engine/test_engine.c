/* The engine on tiny random models: the same tokens alone and in a batch, at one and two threads,
 * under preemption; bounds, cancel, seeds, penalties and errors. */
#include "runner.h"

#define MODEL LAC_TINY_DIR "/tiny-llama-q4_1.gguf"
enum { PROMPTS = 8, ANSWER = 40 };

static runner run, other, third;

static const uint32_t *prompt_of(uint32_t i, size_t *count)
{
    static uint32_t prompt[PROMPTS][128];
    static const size_t lengths[PROMPTS] = {1, 5, 31, 32, 33, 64, 90, 100};
    for (size_t t = 0; t < lengths[i]; t++)
        prompt[i][t] = 3 + (uint32_t)((t * 37 + i * 101 + t * t * 5) % 270);
    *count = lengths[i];
    return prompt[i];
}

static lac_engine_options options_of(uint32_t threads)
{
    return (lac_engine_options){
        .model_path = MODEL, .threads = threads, .slots = PROMPTS, .queue_max = 8};
}

static void submit_all(lac_engine *engine, const lac_sampling *sampling)
{
    for (uint32_t i = 0; i < PROMPTS; i++) {
        size_t count;
        const uint32_t *prompt = prompt_of(i, &count);
        runner_submit(engine, i, prompt, count, sampling);
    }
}

/* What each prompt gives by itself: the reference of the tests below. */
static void run_each_alone(const lac_engine_options *options, const lac_sampling *sampling,
                           runner *out)
{
    memset(out, 0, sizeof(*out));
    lac_engine *engine = runner_engine(options);
    for (uint32_t i = 0; i < PROMPTS; i++) {
        size_t count;
        const uint32_t *prompt = prompt_of(i, &count);
        runner_submit(engine, i, prompt, count, sampling);
        runner_drain(engine, out);
    }
    lac_engine_destroy(&engine);
}

static void expect_same(const runner *a, const runner *b)
{
    for (uint32_t i = 0; i < PROMPTS; i++)
        runner_same(&a->results[i], &b->results[i]);
}

START_TEST(batch_and_threads_change_nothing)
{
    lac_sampling sampling = runner_greedy(ANSWER);
    lac_engine_options options = options_of(1);
    run_each_alone(&options, &sampling, &run);
    for (uint32_t i = 0; i < PROMPTS; i++)
        ck_assert_uint_gt(run.results[i].tokens_count, 0);
    for (uint32_t threads = 1; threads <= 2; threads++) {
        options.threads = threads;
        memset(&other, 0, sizeof(other));
        lac_engine *engine = runner_engine(&options);
        submit_all(engine, &sampling);
        runner_drain(engine, &other);
        lac_engine_stats stats;
        lac_engine_stats_read(engine, &stats);
        ck_assert_uint_eq(stats.kv_pages_used, 0);
        ck_assert_uint_eq(stats.running + stats.queued, 0);
        lac_engine_destroy(&engine);
        expect_same(&run, &other);
    }
}
END_TEST

START_TEST(preemption_loses_nothing)
{
    lac_sampling sampling = runner_greedy(ANSWER);
    sampling.temperature = 0.9f;
    sampling.seed = 11;
    lac_engine_options options = options_of(1);
    run_each_alone(&options, &sampling, &run);
    /* Room for about two of the longest: eight in a batch push each other out. */
    lac_engine *engine = runner_engine(&options);
    lac_engine_stats stats;
    lac_engine_stats_read(engine, &stats);
    uint64_t page_bytes = stats.kv_bytes / stats.kv_pages, layers = 3;
    lac_engine_destroy(&engine);
    options.kv_bytes = page_bytes * layers * 9;
    memset(&other, 0, sizeof(other));
    engine = runner_engine(&options);
    submit_all(engine, &sampling);
    runner_drain(engine, &other);
    lac_engine_stats_read(engine, &stats);
    ck_assert_uint_eq(stats.kv_pages, 9 * layers);
    ck_assert_uint_eq(stats.kv_pages_used, 0);
    uint64_t prompt_rows = 0;
    for (uint32_t i = 0; i < PROMPTS; i++) {
        size_t count;
        prompt_of(i, &count);
        prompt_rows += count;
    }
    ck_assert_uint_gt(stats.prompt_tokens, prompt_rows); /* some were computed twice */
    lac_engine_destroy(&engine);
    expect_same(&run, &other);
}
END_TEST

START_TEST(cancel_gives_pages_back)
{
    lac_engine_options options = options_of(1);
    lac_engine *engine = runner_engine(&options);
    lac_sampling sampling = runner_greedy(100);
    memset(&run, 0, sizeof(run));
    for (int round = 0; round < 50; round++) {
        memset(&run, 0, sizeof(run));
        submit_all(engine, &sampling);
        for (int steps = 0; steps < round % 7; steps++)
            lac_engine_step(engine, runner_sink, &run);
        for (uint32_t i = 0; i < PROMPTS; i++) {
            lac_status expected = run.results[i].finish == LAC_FINISH_NONE ? LAC_OK : LAC_ENOTFOUND;
            ck_assert_int_eq(lac_engine_cancel(engine, i), expected);
        }
        lac_engine_stats stats;
        lac_engine_stats_read(engine, &stats);
        ck_assert_uint_eq(stats.kv_pages_used, 0);
        ck_assert(!lac_engine_step(engine, runner_sink, &run));
        ck_assert_int_eq(lac_engine_cancel(engine, 3), LAC_ENOTFOUND);
    }
    lac_engine_destroy(&engine);
}
END_TEST

START_TEST(destroy_in_mid_flight)
{
    lac_engine_options options = options_of(2);
    lac_engine *engine = runner_engine(&options);
    lac_sampling sampling = runner_greedy(100);
    memset(&run, 0, sizeof(run));
    submit_all(engine, &sampling);
    lac_engine_step(engine, runner_sink, &run);
    lac_engine_destroy(&engine);
    ck_assert_ptr_null(engine);
}
END_TEST

START_TEST(bounds_are_named)
{
    lac_engine_options options = options_of(1);
    options.slots = 2;
    options.queue_max = 3;
    lac_engine *engine = runner_engine(&options);
    lac_sampling sampling = runner_greedy(4);
    static uint32_t tokens[300];
    for (uint32_t i = 0; i < 300; i++)
        tokens[i] = 5;
    lac_engine_request request = {.id = 1, .prompt = tokens, .sampling = sampling};
    lac_error err = {0};
    ck_assert_int_eq(lac_engine_submit(engine, &request, &err), LAC_EINVAL);
    request.prompt_count = 256;
    ck_assert_int_eq(lac_engine_submit(engine, &request, &err), LAC_ETOOBIG);
    ck_assert_ptr_nonnull(strstr(err.text, "256"));
    ck_assert_ptr_nonnull(strstr(err.text, "limit 255"));
    request.prompt_count = 3;
    tokens[1] = 100000;
    ck_assert_int_eq(lac_engine_submit(engine, &request, &err), LAC_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "prompt token 1 is 100000"));
    tokens[1] = 5;
    request.sampling.top_p = 7;
    ck_assert_int_eq(lac_engine_submit(engine, &request, &err), LAC_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "top_p"));
    request.sampling.top_p = 1;
    ck_assert_int_eq(lac_engine_submit(engine, &request, &err), LAC_OK);
    ck_assert_int_eq(lac_engine_submit(engine, &request, &err), LAC_EEXIST);
    for (request.id = 2; request.id <= 5; request.id++)
        ck_assert_int_eq(lac_engine_submit(engine, &request, &err), LAC_OK);
    ck_assert_int_eq(lac_engine_submit(engine, &request, &err), LAC_BUSY);
    ck_assert_ptr_nonnull(strstr(err.text, "queue_max is 3"));
    memset(&run, 0, sizeof(run));
    runner_drain(engine, &run);
    for (uint64_t id = 1; id <= 5; id++)
        ck_assert_int_ne(run.results[id].finish, LAC_FINISH_NONE);
    lac_engine_destroy(&engine);
}
END_TEST

START_TEST(a_pool_smaller_than_the_context_limits)
{
    lac_engine_options options = options_of(1);
    lac_engine *engine = runner_engine(&options);
    lac_engine_stats stats;
    lac_engine_stats_read(engine, &stats);
    options.kv_bytes = stats.kv_bytes / stats.kv_pages * 3 * 2; /* 64 tokens */
    lac_engine_destroy(&engine);
    engine = runner_engine(&options);
    size_t count;
    const uint32_t *prompt = prompt_of(5, &count);
    lac_engine_request request = {
        .prompt = prompt, .prompt_count = count, .sampling = runner_greedy(0)};
    lac_error err = {0};
    ck_assert_int_eq(lac_engine_submit(engine, &request, &err), LAC_ETOOBIG);
    ck_assert_ptr_nonnull(strstr(err.text, "KV pool"));
    request.prompt_count = 63;
    request.sampling.ignore_eos = true;
    ck_assert_int_eq(lac_engine_submit(engine, &request, &err), LAC_OK);
    memset(&run, 0, sizeof(run));
    runner_drain(engine, &run);
    ck_assert_int_eq(run.results[0].finish, LAC_FINISH_LENGTH);
    ck_assert_uint_eq(run.results[0].tokens_count, 1);
    lac_engine_destroy(&engine);
    options.kv_bytes = 1000;
    ck_assert_int_eq(lac_engine_create(&options, &engine, &err), LAC_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "1000 bytes"));
}
END_TEST

START_TEST(lengths_and_usage)
{
    lac_engine_options options = options_of(1);
    lac_engine *engine = runner_engine(&options);
    size_t count;
    const uint32_t *prompt = prompt_of(1, &count);
    lac_sampling sampling = runner_greedy(7);
    sampling.ignore_eos = true;
    sampling.logprobs = true;
    sampling.top_logprobs = 3;
    memset(&run, 0, sizeof(run));
    runner_submit(engine, 0, prompt, count, &sampling);
    sampling.max_tokens = 0; /* to the end of the context */
    sampling.logprobs = false;
    sampling.top_logprobs = 0;
    runner_submit(engine, 1, prompt, count, &sampling);
    runner_drain(engine, &run);
    ck_assert_int_eq(run.results[0].finish, LAC_FINISH_LENGTH);
    ck_assert_uint_eq(run.results[0].tokens_count, 7);
    ck_assert_uint_eq(run.results[0].logprobs, 7);
    ck_assert_uint_eq(run.results[0].usage.prompt_tokens, count);
    ck_assert_uint_eq(run.results[0].usage.completion_tokens, 7);
    ck_assert_int_eq(run.results[1].finish, LAC_FINISH_LENGTH);
    ck_assert_uint_eq(run.results[1].tokens_count + count, 256);
    ck_assert_mem_eq(run.results[0].tokens, run.results[1].tokens, 7 * sizeof(uint32_t));
    for (uint32_t i = 0; i < run.results[1].tokens_count; i++)
        ck_assert(!lac_tokenizer_is_end(lac_engine_tokenizer(engine), run.results[1].tokens[i]));
    lac_engine_destroy(&engine);
}
END_TEST

START_TEST(seeds_decide_the_text)
{
    lac_engine_options options = options_of(1);
    lac_engine *engine = runner_engine(&options);
    size_t count;
    const uint32_t *prompt = prompt_of(2, &count);
    lac_sampling sampling = runner_greedy(30);
    sampling.ignore_eos = true;
    sampling.temperature = 1;
    sampling.seed = 42;
    memset(&run, 0, sizeof(run));
    runner_submit(engine, 0, prompt, count, &sampling);
    runner_submit(engine, 1, prompt, count, &sampling);
    sampling.seed = 43;
    runner_submit(engine, 2, prompt, count, &sampling);
    sampling.seed = 42;
    sampling.choice = 1;
    runner_submit(engine, 3, prompt, count, &sampling);
    runner_drain(engine, &run);
    runner_same(&run.results[0], &run.results[1]);
    for (int i = 2; i <= 3; i++)
        ck_assert_mem_ne(run.results[0].tokens, run.results[i].tokens, 30 * sizeof(uint32_t));
    lac_engine_destroy(&engine);
}
END_TEST

START_TEST(an_end_token_ends_without_text)
{
    lac_engine_options options = options_of(1);
    lac_engine *engine = runner_engine(&options);
    size_t count;
    const uint32_t *prompt = prompt_of(4, &count);
    uint32_t end = lac_tokenizer_eos(lac_engine_tokenizer(engine));
    ck_assert_uint_ne(end, LAC_TOKEN_NONE);
    lac_logit_bias bias = {.token = end, .bias = 100};
    lac_sampling sampling = runner_greedy(20);
    sampling.bias = &bias;
    sampling.bias_count = 1;
    memset(&run, 0, sizeof(run));
    runner_submit(engine, 0, prompt, count, &sampling);
    sampling.min_tokens = 5;
    runner_submit(engine, 1, prompt, count, &sampling);
    sampling.min_tokens = 0;
    sampling.ignore_eos = true;
    runner_submit(engine, 2, prompt, count, &sampling);
    runner_drain(engine, &run);
    ck_assert_int_eq(run.results[0].finish, LAC_FINISH_STOP);
    ck_assert_uint_eq(run.results[0].tokens_count, 1);
    ck_assert_uint_eq(run.results[0].tokens[0], end);
    ck_assert_uint_eq(run.results[0].text_length, 0);
    ck_assert_int_eq(run.results[1].finish, LAC_FINISH_STOP);
    ck_assert_uint_eq(run.results[1].tokens_count, 6);
    ck_assert_int_eq(run.results[2].finish, LAC_FINISH_LENGTH);
    lac_engine_destroy(&engine);
}
END_TEST

/* Where the best token is a banned end token the next best is chosen, the same as with all logits
 * at hand from the start. One-token prompts, so that some of them want to end at once. */
START_TEST(a_banned_end_gives_the_next_best)
{
    enum { FIRST = 3, SEQUENCES = 24 };
    lac_engine_options options = options_of(1);
    options.model_path = LAC_TINY_DIR "/tiny-llama-f16.gguf";
    options.slots = SEQUENCES;
    lac_engine *engine = runner_engine(&options);
    uint32_t wanted_to_end = 0;
    for (uint32_t from = FIRST; from + SEQUENCES <= 270; from += SEQUENCES) {
        runner *results[3] = {&run, &other, &third};
        for (int kind = 0; kind < 3; kind++) {
            lac_sampling sampling = runner_greedy(20);
            sampling.ignore_eos = kind > 0;
            sampling.logprobs = kind > 1;
            memset(results[kind], 0, sizeof(run));
            for (uint32_t i = 0; i < SEQUENCES; i++) {
                uint32_t token = from + i;
                runner_submit(engine, i, &token, 1, &sampling);
            }
            runner_drain(engine, results[kind]);
        }
        for (uint32_t i = 0; i < SEQUENCES; i++) {
            wanted_to_end += run.results[i].finish == LAC_FINISH_STOP;
            ck_assert_uint_eq(other.results[i].tokens_count, 20);
            runner_same(&other.results[i], &third.results[i]);
        }
    }
    ck_assert_uint_gt(wanted_to_end, 0);
    lac_engine_destroy(&engine);
}
END_TEST

static uint32_t count_of(const runner_result *result, uint32_t token)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < result->tokens_count; i++)
        count += result->tokens[i] == token;
    return count;
}

/* A bias makes one token win every time; each time it does, the penalty takes some of it back. */
START_TEST(penalties_count_the_output)
{
    lac_engine_options options = options_of(1);
    lac_engine *engine = runner_engine(&options);
    size_t count;
    const uint32_t *prompt = prompt_of(2, &count);
    lac_logit_bias bias = {.token = 50, .bias = 40};
    lac_sampling sampling = runner_greedy(60);
    sampling.bias = &bias;
    sampling.bias_count = 1;
    memset(&run, 0, sizeof(run));
    runner_submit(engine, 0, prompt, count, &sampling);
    sampling.frequency_penalty = 2;
    runner_submit(engine, 1, prompt, count, &sampling);
    runner_drain(engine, &run);
    ck_assert_uint_eq(count_of(&run.results[0], 50), 60);
    ck_assert_uint_ge(count_of(&run.results[1], 50), 5);
    ck_assert_uint_lt(count_of(&run.results[1], 50), 40);
    lac_engine_destroy(&engine);
}
END_TEST

static void row_count(void *arg, size_t index, const float *logits)
{
    uint32_t **next = arg;
    uint32_t best = 0;
    for (uint32_t i = 1; i < 281; i++)
        if (logits[i] > logits[best])
            best = i;
    (*next)[index] = best;
}

/* The scored distribution is the one that greedy decoding follows. */
START_TEST(score_agrees_with_decoding)
{
    lac_engine_options options = options_of(1);
    lac_engine *engine = runner_engine(&options);
    ck_assert_uint_eq(lac_engine_model(engine)->vocab, 281);
    size_t count;
    const uint32_t *prompt = prompt_of(6, &count);
    lac_sampling sampling = runner_greedy(50);
    memset(&run, 0, sizeof(run));
    runner_submit(engine, 0, prompt, count, &sampling);
    lac_error err = {0};
    uint32_t tokens[256], best[256], *next = best;
    ck_assert_int_eq(lac_engine_score(engine, prompt, count, row_count, &next, &err), LAC_BUSY);
    runner_drain(engine, &run);
    memcpy(tokens, prompt, count * sizeof(uint32_t));
    memcpy(tokens + count, run.results[0].tokens, run.results[0].tokens_count * sizeof(uint32_t));
    size_t all = count + run.results[0].tokens_count - 1;
    ck_assert_int_eq(lac_engine_score(engine, tokens, all, row_count, &next, &err), LAC_OK);
    for (size_t i = count - 1; i < all; i++)
        ck_assert_uint_eq(best[i], run.results[0].tokens[i - count + 1]);
    ck_assert_int_eq(lac_engine_score(engine, tokens, 0, row_count, &next, &err), LAC_EINVAL);
    lac_engine_stats stats;
    lac_engine_stats_read(engine, &stats);
    ck_assert_uint_eq(stats.kv_pages_used, 0);
    lac_engine_destroy(&engine);
}
END_TEST

/* Every family of tiny model runs, batched as alone. */
START_TEST(all_tiny_models_run)
{
    static const char *const files[] = {
        LAC_TINY_DIR "/tiny-llama-f32.gguf",  LAC_TINY_DIR "/tiny-llama-f16.gguf",
        LAC_TINY_DIR "/tiny-llama-q8_0.gguf", LAC_TINY_DIR "/tiny-llama-q4_0.gguf",
        LAC_TINY_DIR "/tiny-qwen2-bf16.gguf", LAC_TINY_DIR "/tiny-qwen3-q4_0.gguf"};
    lac_engine_options options = options_of(1);
    options.model_path = files[_i];
    lac_sampling sampling = runner_greedy(ANSWER);
    run_each_alone(&options, &sampling, &run);
    memset(&other, 0, sizeof(other));
    lac_engine *engine = runner_engine(&options);
    submit_all(engine, &sampling);
    runner_drain(engine, &other);
    lac_engine_destroy(&engine);
    expect_same(&run, &other);
}
END_TEST

START_TEST(a_missing_model_is_an_error)
{
    lac_engine_options options = options_of(1);
    options.model_path = LAC_TINY_DIR "/no-such-file.gguf";
    lac_engine *engine = NULL;
    lac_error err = {0};
    ck_assert_int_ne(lac_engine_create(&options, &engine, &err), LAC_OK);
    ck_assert_ptr_nonnull(strstr(err.text, "no-such-file.gguf"));
    ck_assert_ptr_null(engine);
    options.model_path = MODEL;
    options.context_max = 257;
    ck_assert_int_eq(lac_engine_create(&options, &engine, &err), LAC_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "context_max is 257"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine");
    TCase *tc = tcase_create("tiny");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, batch_and_threads_change_nothing);
    tcase_add_test(tc, preemption_loses_nothing);
    tcase_add_test(tc, cancel_gives_pages_back);
    tcase_add_test(tc, destroy_in_mid_flight);
    tcase_add_test(tc, bounds_are_named);
    tcase_add_test(tc, a_pool_smaller_than_the_context_limits);
    tcase_add_test(tc, lengths_and_usage);
    tcase_add_test(tc, seeds_decide_the_text);
    tcase_add_test(tc, an_end_token_ends_without_text);
    tcase_add_test(tc, a_banned_end_gives_the_next_best);
    tcase_add_test(tc, penalties_count_the_output);
    tcase_add_test(tc, score_agrees_with_decoding);
    tcase_add_loop_test(tc, all_tiny_models_run, 0, 6);
    tcase_add_test(tc, a_missing_model_is_an_error);
    suite_add_tcase(suite, tc);
    return runner_main(suite);
}
