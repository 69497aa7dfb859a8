/* Runs sequences on an engine and collects what each of them gained. For the engine's tests. */
#ifndef LAC_TEST_RUNNER_H
#define LAC_TEST_RUNNER_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"

enum { RUNNER_TOKENS_MAX = 1024, RUNNER_TEXT_MAX = 16384, RUNNER_SEQUENCES_MAX = 32 };

typedef struct {
    uint32_t tokens[RUNNER_TOKENS_MAX];
    uint32_t tokens_count;
    uint32_t
        text_after[RUNNER_TOKENS_MAX + 1]; /* text length once that many tokens were reported */
    char text[RUNNER_TEXT_MAX];
    uint32_t text_length, events, logprobs;
    uint64_t bits;      /* a hash of every log-probability, chosen and top */
    uint32_t first_pos; /* of the first event */
    lac_finish finish;
    lac_usage usage;
    lac_status error;
    char reason[LAC_REASON_MAX + 128];
} runner_result;

typedef struct {
    runner_result results[RUNNER_SEQUENCES_MAX]; /* by sequence id */
} runner;

static inline uint64_t runner_bits(uint64_t bits, const lac_logprob *p)
{
    for (uint32_t t = 0; t <= p->top_count; t++) {
        const lac_top_logprob *one = t ? &p->top[t - 1] : &p->chosen;
        uint32_t word;
        memcpy(&word, &one->logprob, sizeof(word));
        bits = (bits ^ word ^ (uint64_t)one->token << 32) * UINT64_C(0x9e3779b97f4a7c15);
    }
    return bits;
}

static inline void runner_sink(void *arg, const lac_engine_event *event)
{
    runner_result *r = &((runner *)arg)->results[event->id];
    ck_assert_int_eq(r->finish, LAC_FINISH_NONE);
    if (r->events++ == 0)
        r->first_pos = event->chunk.first_pos;
    ck_assert_uint_eq(event->chunk.first_pos, r->first_pos + r->tokens_count);
    for (uint32_t i = 0; i < event->chunk.tokens_count; i++)
        r->tokens[r->tokens_count++] = event->chunk.tokens[i];
    ck_assert_uint_le(event->chunk.text.length, LAC_TOKEN_TEXT_MAX);
    ck_assert_uint_le(r->text_length + event->chunk.text.length, RUNNER_TEXT_MAX);
    if (event->chunk.text.length > 0)
        memcpy(r->text + r->text_length, event->chunk.text.data, event->chunk.text.length);
    r->text_length += event->chunk.text.length;
    r->text_after[r->tokens_count] = r->text_length;
    r->logprobs += event->chunk.logprobs_count;
    for (uint32_t i = 0; i < event->chunk.logprobs_count; i++)
        r->bits = runner_bits(r->bits, &event->chunk.logprobs[i]);
    r->finish = event->finish;
    r->usage = event->usage;
    r->error = event->error;
    if (event->reason)
        strncpy(r->reason, event->reason, sizeof(r->reason) - 1);
}

static inline void runner_drain(lac_engine *engine, runner *run)
{
    for (int steps = 0; lac_engine_step(engine, runner_sink, run); steps++)
        ck_assert_int_lt(steps, 20000);
}

static inline lac_engine *runner_engine(const lac_engine_options *options)
{
    lac_engine *engine = NULL;
    lac_error err = {0};
    lac_status status = lac_engine_create(options, &engine, &err);
    ck_assert_msg(status == LAC_OK, "%s", err.text);
    return engine;
}

static inline lac_sampling runner_greedy(uint32_t max_tokens)
{
    lac_sampling sampling = lac_sampling_default();
    sampling.temperature = 0;
    sampling.has_seed = true;
    sampling.max_tokens = max_tokens;
    return sampling;
}

static inline void runner_submit(lac_engine *engine, uint64_t id, const uint32_t *prompt,
                                 size_t count, const lac_sampling *sampling)
{
    lac_engine_request request = {
        .id = id, .prompt = prompt, .prompt_count = count, .sampling = *sampling};
    lac_error err = {0};
    lac_status status = lac_engine_submit(engine, &request, &err);
    ck_assert_msg(status == LAC_OK, "%s", err.text);
}

/* Both runs gave the same tokens, log-probabilities (where both did), text and end. */
static inline void runner_same(const runner_result *a, const runner_result *b)
{
    ck_assert_uint_eq(a->tokens_count, b->tokens_count);
    ck_assert_mem_eq(a->tokens, b->tokens, a->tokens_count * sizeof(uint32_t));
    if (a->logprobs > 0 && b->logprobs > 0)
        ck_assert_uint_eq(a->bits, b->bits);
    ck_assert_uint_eq(a->text_length, b->text_length);
    ck_assert_mem_eq(a->text, b->text, a->text_length);
    ck_assert_int_eq(a->finish, b->finish);
}

static inline int runner_main(Suite *suite)
{
    SRunner *all = srunner_create(suite);
    srunner_run_all(all, CK_NORMAL);
    int failed = srunner_ntests_failed(all);
    srunner_free(all);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
