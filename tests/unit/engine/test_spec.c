/* Speculation in the engine: forced on, every answer is the one without it, to the bit of each
 * log-probability, however it is sampled, batched, masked, preempted or ended; steps are saved; and
 * of its own accord it does not run what is not right. */
#include "base/rng.h"
#include "runner.h"

#define MODEL LAC_TINY_DIR "/tiny-llama-q4_1.gguf" /* 3 layers */
enum { LAYERS = 3, KINDS = 9, PROMPTS = 2 * KINDS, ANSWER = 60 };

static runner run, other;
static lac_engine_class masked = {.name = "masked"};
static const lac_logit_bias bias[2] = {{.token = 20, .bias = 4}, {.token = 31, .bias = -3}};

/* The ways to draw and to end that have something of their own to get wrong. */
static lac_sampling sampling_of(uint32_t kind)
{
    lac_sampling s = runner_greedy(ANSWER);
    s.seed = 100 + kind;
    switch (kind) {
    case 0: break; /* the best token alone decides */
    case 1: s.ignore_eos = true; break;
    case 2: s.temperature = 0.2f, s.logprobs = true, s.top_logprobs = 3; break;
    case 3: s.logprobs = true, s.repetition_penalty = 1.1f, s.frequency_penalty = 0.2f; break;
    case 4: s.temperature = 0.6f, s.top_k = 5, s.top_p = 0.9f, s.presence_penalty = 0.3f; break;
    case 5: s.bias = bias, s.bias_count = 2, s.logprobs = true; break;
    case 6: s.min_tokens = 30; break;
    case 7: s.stops_count = 1, s.stops[0].length = 1, s.stops[0].bytes[0] = 'e'; break;
    case 8: s.max_tokens = 7, s.temperature = 0.1f, s.min_p = 0.05f; break;
    }
    return s;
}

static lac_engine_options options_of(lac_speculate speculate)
{
    ck_assert_int_eq(lac_mask_parse("A1,F2", LAYERS, &masked.mask, NULL), LAC_OK);
    return (lac_engine_options){.model_path = MODEL,
                                .threads = 1,
                                .slots = PROMPTS,
                                .classes = &masked,
                                .classes_count = 1,
                                .speculate = speculate};
}

/* A text that repeats itself now and then. */
static void submit_kind(lac_engine *engine, uint32_t i)
{
    uint32_t prompt[120], count = 20 + 7 * (i % 11);
    for (uint32_t t = 0; t < count; t++)
        prompt[t] = 3 + (t % 13 * 37 + i * 101) % 270;
    lac_engine_request request = {.id = i,
                                  .prompt = prompt,
                                  .prompt_count = count,
                                  .sampling = sampling_of(i % KINDS),
                                  .class_index = i / KINDS};
    lac_error err = {0};
    lac_status status = lac_engine_submit(engine, &request, &err);
    ck_assert_msg(status == LAC_OK, "%s", err.text);
}

static lac_engine_stats run_all(const lac_engine_options *options, bool together, runner *out)
{
    memset(out, 0, sizeof(*out));
    lac_engine *engine = runner_engine(options);
    for (uint32_t i = 0; i < PROMPTS; i++) {
        submit_kind(engine, i);
        if (!together)
            runner_drain(engine, out);
    }
    runner_drain(engine, out);
    lac_engine_stats stats;
    lac_engine_stats_read(engine, &stats);
    ck_assert_uint_eq(stats.kv_pages_used, 0);
    lac_engine_destroy(&engine);
    return stats;
}

static void expect_same(void)
{
    for (uint32_t i = 0; i < PROMPTS; i++)
        runner_same(&run.results[i], &other.results[i]);
}

START_TEST(answers_are_those_without)
{
    lac_engine_options options = options_of(LAC_SPECULATE_OFF);
    lac_engine_stats plain = run_all(&options, false, &run);
    ck_assert_uint_eq(plain.draft_tokens, 0);
    options = options_of(LAC_SPECULATE_ON);
    lac_engine_stats stats = run_all(&options, false, &other);
    expect_same();
    ck_assert_uint_gt(stats.draft_accepted, 100);
    ck_assert_uint_gt(stats.draft_tokens, stats.draft_accepted); /* some were wrong */
    ck_assert_uint_eq(stats.output_tokens, plain.output_tokens);
    ck_assert_uint_eq(plain.steps - stats.steps, stats.draft_accepted);
    for (uint32_t threads = 1; threads <= 2; threads++) {
        options.threads = threads;
        run_all(&options, true, &other);
        expect_same();
    }
    options = options_of(LAC_SPECULATE_AUTO);
    run_all(&options, true, &other);
    expect_same();
}
END_TEST

/* Pages for a few: drafts give way, and what is preempted goes on as it was. */
START_TEST(answers_are_those_without_when_pages_are_short)
{
    lac_engine_options options = options_of(LAC_SPECULATE_OFF);
    lac_engine_stats plain = run_all(&options, false, &run);
    uint64_t page_bytes = plain.kv_bytes / plain.kv_pages, preemptions = 0, drafts = 0;
    for (uint32_t blocks = 9; blocks < 100; blocks += 15) {
        options = options_of(LAC_SPECULATE_ON);
        options.kv_bytes = page_bytes * LAYERS * blocks;
        lac_engine_stats stats = run_all(&options, true, &other);
        expect_same();
        preemptions += stats.preemptions;
        drafts += stats.draft_accepted;
    }
    ck_assert_uint_gt(preemptions, 5);
    ck_assert_uint_gt(drafts, 5);
}
END_TEST

/* A prompt and its answer are found by the next one, whether drafts made them or not. */
START_TEST(the_prefix_cache_takes_what_was_confirmed)
{
    lac_engine_options options = options_of(LAC_SPECULATE_ON);
    lac_engine *engine = runner_engine(&options);
    lac_sampling sampling = runner_greedy(60);
    sampling.ignore_eos = true;
    uint32_t prompt[160];
    for (uint32_t t = 0; t < 40; t++)
        prompt[t] = 3 + t % 13 * 37 % 270;
    memset(&run, 0, sizeof(run));
    runner_submit(engine, 0, prompt, 40, &sampling);
    runner_drain(engine, &run);
    memcpy(prompt + 40, run.results[0].tokens, 60 * sizeof(uint32_t));
    runner_submit(engine, 1, prompt, 100, &sampling);
    runner_drain(engine, &run);
    ck_assert_uint_eq(run.results[1].usage.cached_tokens, 96);
    lac_engine_stats stats;
    lac_engine_stats_read(engine, &stats);
    ck_assert_uint_gt(stats.draft_accepted, 0);
    lac_engine_destroy(&engine);
    options = options_of(LAC_SPECULATE_OFF);
    options.without_prefix_cache = true;
    engine = runner_engine(&options);
    memset(&other, 0, sizeof(other));
    runner_submit(engine, 1, prompt, 100, &sampling);
    runner_drain(engine, &other);
    runner_same(&run.results[1], &other.results[1]);
    lac_engine_destroy(&engine);
}
END_TEST

/* Random prompts under a high temperature: nothing repeats, so nothing is worth a row. */
START_TEST(of_its_own_accord_it_leaves_random_text_alone)
{
    lac_engine_options options = options_of(LAC_SPECULATE_AUTO);
    lac_engine *engine = runner_engine(&options);
    lac_sampling sampling = runner_greedy(120);
    sampling.temperature = 1.5f;
    sampling.ignore_eos = true;
    lac_rng rng;
    lac_rng_seed(&rng, 4);
    memset(&run, 0, sizeof(run));
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t prompt[100];
        for (uint32_t t = 0; t < 100; t++)
            prompt[t] = 3 + (uint32_t)lac_rng_below(&rng, 200);
        sampling.seed = i;
        runner_submit(engine, i, prompt, 100, &sampling);
    }
    runner_drain(engine, &run);
    lac_engine_stats stats;
    lac_engine_stats_read(engine, &stats);
    ck_assert_uint_lt(stats.draft_tokens, stats.output_tokens / 50);
    lac_engine_destroy(&engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("spec");
    TCase *tc = tcase_create("spec");
    tcase_set_timeout(tc, 240);
    tcase_add_test(tc, answers_are_those_without);
    tcase_add_test(tc, answers_are_those_without_when_pages_are_short);
    tcase_add_test(tc, the_prefix_cache_takes_what_was_confirmed);
    tcase_add_test(tc, of_its_own_accord_it_leaves_random_text_alone);
    suite_add_tcase(suite, tc);
    return runner_main(suite);
}
