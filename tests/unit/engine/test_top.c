/* Top-k requests draw from the head's best logits alone, where nothing else needs all of them: the
 * same tokens as with all, in a batch, drafted, and under two thread counts. */
#include "runner.h"

enum { QUESTIONS = 8, ANSWER = 60 };

static runner all, top;

static void run_all(uint32_t threads, lac_speculate speculate, bool logprobs, runner *out)
{
    lac_engine_options options = {.model_path = LAC_TINY_DIR "/tiny-llama-q4_1.gguf",
                                  .threads = threads,
                                  .slots = 5,
                                  .speculate = speculate};
    lac_engine *engine = runner_engine(&options);
    memset(out, 0, sizeof(*out));
    for (uint32_t id = 0; id < QUESTIONS; id++) {
        uint32_t prompt[64], count = 5 + 7 * id;
        for (uint32_t i = 0; i < count; i++)
            prompt[i] = 3 + (i * 37 + id * 11) % 270;
        lac_sampling sampling = runner_greedy(ANSWER);
        sampling.temperature = id % 2 ? 1.0f : 0.05f; /* one that runs in circles, for drafts */
        sampling.seed = id;
        sampling.top_k = (int32_t)(1 + id * 9);
        sampling.top_p = id % 3 ? 1.0f : 0.8f;
        sampling.min_tokens = id == 4 ? 10 : 0;
        sampling.logprobs = logprobs; /* they need all logits */
        runner_submit(engine, id, prompt, count, &sampling);
    }
    runner_drain(engine, out);
    lac_engine_destroy(&engine);
}

START_TEST(the_same_tokens_as_from_all_logits)
{
    run_all(1, LAC_SPECULATE_OFF, true, &all);
    uint32_t tokens = 0;
    for (uint32_t threads = 1; threads <= 2; threads++)
        for (int speculate = LAC_SPECULATE_OFF; speculate <= LAC_SPECULATE_ON; speculate++) {
            run_all(threads, (lac_speculate)speculate, false, &top);
            for (uint32_t id = 0; id < QUESTIONS; id++) {
                ck_assert_uint_eq(top.results[id].logprobs, 0);
                runner_same(&all.results[id], &top.results[id]);
                tokens += top.results[id].tokens_count;
            }
        }
    ck_assert_uint_gt(tokens, 500);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("top");
    TCase *tc = tcase_create("top");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, the_same_tokens_as_from_all_logits);
    suite_add_tcase(suite, tc);
    return runner_main(suite);
}
