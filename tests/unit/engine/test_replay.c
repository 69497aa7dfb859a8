/* Continuing a sequence that another attempt began, at every split: the tokens and the text go on
 * exactly, and nothing that went out is sent twice. Also a step that fails. */
#include <stdio.h>
#include <unistd.h>

#include "runner.h"

#define MODEL LAC_TINY_DIR "/tiny-llama-q4_1.gguf"
enum { ANSWER = 24 };

static runner whole, part;
static const uint32_t prompt[] = {20, 77, 130, 9, 260, 31, 45};
enum { PROMPT = sizeof(prompt) / sizeof(prompt[0]) };

static void continue_at(lac_engine *engine, const lac_sampling *sampling, uint32_t split)
{
    memset(&part, 0, sizeof(part));
    lac_engine_request request = {.id = 0,
                                  .prompt = prompt,
                                  .prompt_count = PROMPT,
                                  .accepted = whole.results[0].tokens,
                                  .accepted_count = split,
                                  .sampling = *sampling};
    lac_error err = {0};
    lac_status status = lac_engine_submit(engine, &request, &err);
    ck_assert_msg(status == LAC_OK, "%s", err.text);
    runner_drain(engine, &part);
    const runner_result *all = &whole.results[0], *rest = &part.results[0];
    ck_assert_uint_eq(rest->first_pos, split);
    ck_assert_uint_eq(split + rest->tokens_count, all->tokens_count);
    ck_assert_mem_eq(rest->tokens, all->tokens + split, rest->tokens_count * sizeof(uint32_t));
    uint32_t sent = all->text_after[split];
    ck_assert_uint_eq(rest->text_length, all->text_length - sent);
    ck_assert_mem_eq(rest->text, all->text + sent, rest->text_length);
    ck_assert_int_eq(rest->finish, all->finish);
    ck_assert_uint_eq(rest->usage.completion_tokens, all->usage.completion_tokens);
    ck_assert_uint_eq(rest->usage.prompt_tokens, PROMPT);
}

static void continue_everywhere(const lac_sampling *sampling)
{
    lac_engine_options options = {.model_path = MODEL, .threads = 1, .slots = 2};
    lac_engine *engine = runner_engine(&options);
    memset(&whole, 0, sizeof(whole));
    runner_submit(engine, 0, prompt, PROMPT, sampling);
    runner_drain(engine, &whole);
    ck_assert_uint_gt(whole.results[0].tokens_count, 3);
    for (uint32_t split = 0; split < whole.results[0].tokens_count; split++)
        continue_at(engine, sampling, split);
    lac_engine_destroy(&engine);
}

START_TEST(greedy_goes_on)
{
    lac_sampling sampling = runner_greedy(ANSWER);
    sampling.ignore_eos = true;
    continue_everywhere(&sampling);
}
END_TEST

START_TEST(sampled_with_penalties_goes_on)
{
    lac_sampling sampling = runner_greedy(ANSWER);
    sampling.temperature = 1.2f;
    sampling.seed = 5;
    sampling.top_k = 50;
    sampling.repetition_penalty = 1.3f;
    sampling.presence_penalty = 0.5f;
    sampling.frequency_penalty = 0.7f;
    sampling.ignore_eos = true;
    continue_everywhere(&sampling);
}
END_TEST

/* A stop string that the answer meets in its middle, so that text is held back before it. */
START_TEST(held_back_text_goes_on)
{
    lac_sampling sampling = runner_greedy(ANSWER);
    sampling.temperature = 1;
    sampling.seed = 3;
    sampling.ignore_eos = true;
    lac_engine_options options = {.model_path = MODEL, .threads = 1, .slots = 2};
    lac_engine *engine = runner_engine(&options);
    memset(&whole, 0, sizeof(whole));
    runner_submit(engine, 0, prompt, PROMPT, &sampling);
    runner_drain(engine, &whole);
    lac_engine_destroy(&engine);
    const runner_result *all = &whole.results[0];
    ck_assert_uint_gt(all->text_length, 16);
    uint32_t from = all->text_length / 2, length = 6;
    while (((unsigned char)all->text[from] & 0xC0) == 0x80)
        from++; /* a stop string begins with a whole character */
    while (((unsigned char)all->text[from + length] & 0xC0) == 0x80)
        length++;
    sampling.stops_count = 1;
    sampling.stops[0].length = length;
    memcpy(sampling.stops[0].bytes, all->text + from, length);
    continue_everywhere(&sampling);
    ck_assert_int_eq(whole.results[0].finish, LAC_FINISH_STOP);
}
END_TEST

START_TEST(accepted_tokens_that_end_it)
{
    lac_engine_options options = {.model_path = MODEL, .threads = 1, .slots = 2};
    lac_engine *engine = runner_engine(&options);
    uint32_t accepted[4] = {40, 41, lac_tokenizer_eos(lac_engine_tokenizer(engine)), 42};
    lac_engine_request request = {.prompt = prompt,
                                  .prompt_count = PROMPT,
                                  .accepted = accepted,
                                  .accepted_count = 3,
                                  .sampling = runner_greedy(ANSWER)};
    lac_error err = {0};
    memset(&part, 0, sizeof(part));
    ck_assert_int_eq(lac_engine_submit(engine, &request, &err), LAC_OK);
    runner_drain(engine, &part);
    ck_assert_int_eq(part.results[0].finish, LAC_FINISH_STOP);
    ck_assert_uint_eq(part.results[0].tokens_count, 0);
    ck_assert_uint_eq(part.results[0].usage.completion_tokens, 3);
    request.accepted_count = 2;
    request.sampling.max_tokens = 2;
    memset(&part, 0, sizeof(part));
    ck_assert_int_eq(lac_engine_submit(engine, &request, &err), LAC_OK);
    runner_drain(engine, &part);
    ck_assert_int_eq(part.results[0].finish, LAC_FINISH_LENGTH);
    request.accepted_count = 1000;
    ck_assert_int_eq(lac_engine_submit(engine, &request, &err), LAC_ETOOBIG);
    lac_engine_destroy(&engine);
}
END_TEST

/* A model whose embedding of one token is not a number: sequences that hold it fail, the others in
 * the same step do not, and the engine goes on. */
static void write_broken_model(char *path, uint32_t token)
{
    FILE *from = fopen(LAC_TINY_DIR "/tiny-llama-f16.gguf", "rb");
    ck_assert_ptr_nonnull(from);
    static char bytes[1 << 20];
    size_t length = fread(bytes, 1, sizeof(bytes), from);
    fclose(from);
    lac_gguf *gguf = NULL;
    lac_error err = {0};
    ck_assert_int_eq(lac_gguf_parse(bytes, length, &gguf, &err), LAC_OK);
    const lac_gguf_tensor *embed = lac_gguf_tensor_find(gguf, "token_embd.weight");
    char *row = (char *)embed->data + token * embed->dims[0] * 2;
    memset(row, 0xff, embed->dims[0] * 2);
    lac_gguf_close(&gguf);
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, bytes, length), (ssize_t)length);
    close(fd);
}

START_TEST(only_the_broken_sequence_fails)
{
    char path[] = "/tmp/lacuna-test-XXXXXX";
    write_broken_model(path, 200);
    lac_engine_options options = {.model_path = path, .threads = 1, .slots = 4};
    lac_engine *engine = runner_engine(&options);
    unlink(path);
    lac_sampling sampling = runner_greedy(10);
    lac_logit_bias bias = {.token = 200, .bias = -100};
    sampling.bias = &bias;
    sampling.bias_count = 1;
    sampling.ignore_eos = true;
    memset(&whole, 0, sizeof(whole));
    runner_submit(engine, 0, prompt, PROMPT, &sampling);
    runner_drain(engine, &whole);
    memset(&part, 0, sizeof(part));
    const uint32_t broken[] = {20, 200, 7};
    runner_submit(engine, 0, prompt, PROMPT, &sampling);
    runner_submit(engine, 1, broken, 3, &sampling);
    runner_submit(engine, 2, prompt, PROMPT, &sampling);
    runner_drain(engine, &part);
    ck_assert_int_eq(part.results[1].finish, LAC_FINISH_ERROR);
    ck_assert_int_ne(part.results[1].error, LAC_OK);
    ck_assert_uint_gt(strlen(part.results[1].reason), 0);
    runner_same(&whole.results[0], &part.results[0]);
    runner_same(&whole.results[0], &part.results[2]);
    lac_engine_stats stats;
    lac_engine_stats_read(engine, &stats);
    ck_assert_uint_eq(stats.kv_pages_used, 0);
    lac_engine_destroy(&engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("replay");
    TCase *tc = tcase_create("replay");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, greedy_goes_on);
    tcase_add_test(tc, sampled_with_penalties_goes_on);
    tcase_add_test(tc, held_back_text_goes_on);
    tcase_add_test(tc, accepted_tokens_that_end_it);
    tcase_add_test(tc, only_the_broken_sequence_fails);
    suite_add_tcase(suite, tc);
    return runner_main(suite);
}
