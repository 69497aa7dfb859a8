/* Keys and values in bytes: the same bits on every instruction set, alone and in a batch, at one
 * and two threads, with and without prefix cache, drafted and preempted; half the memory; near the
 * results with halves. */
#include "runner.h"

enum { QUESTIONS = 5, ANSWER = 24, CONTEXT = 256 };

static const char *const models[] = {LAC_TINY_DIR "/tiny-llama-q4_1.gguf",
                                     LAC_TINY_DIR "/tiny-gemma3-q8_0.gguf",
                                     LAC_TINY_DIR "/tiny-qwen3-q4_0.gguf"};
static runner base, run;

static lac_engine_options options_of(int model)
{
    return (lac_engine_options){
        .model_path = models[model], .threads = 1, .slots = 4, .kv_type = LAC_KV_Q8};
}

static void run_all(const lac_engine_options *options, runner *out, lac_engine_stats *stats)
{
    static const uint32_t counts[QUESTIONS] = {1, 33, 90, 40, 91};
    lac_engine *engine = runner_engine(options);
    memset(out, 0, sizeof(*out));
    for (uint32_t id = 0; id < QUESTIONS; id++) {
        uint32_t prompt[CONTEXT];
        for (uint32_t i = 0; i < counts[id]; i++)
            prompt[i] = 3 + ((id == 3 ? i % 10 : i) * 37 + i * i % 97 * 5) % 270;
        lac_sampling sampling = runner_greedy(ANSWER);
        sampling.logprobs = true;
        sampling.top_logprobs = 5;
        sampling.ignore_eos = true;
        runner_submit(engine, id, prompt, counts[id], &sampling);
    }
    runner_drain(engine, out);
    lac_engine_stats_read(engine, stats);
    lac_engine_destroy(&engine);
}

static void same_as_base(void)
{
    for (uint32_t id = 0; id < QUESTIONS; id++)
        runner_same(&base.results[id], &run.results[id]);
}

START_TEST(bits_are_the_same_everywhere)
{
    lac_engine_stats stats;
    lac_engine_options options = options_of(_i);
    options.slots = 1;
    options.isa = LAC_ISA_SCALAR;
    options.without_prefix_cache = true;
    options.speculate = LAC_SPECULATE_OFF;
    run_all(&options, &base, &stats);
    ck_assert_int_eq(stats.kv_type, LAC_KV_Q8);
    for (int isa = LAC_ISA_SCALAR; isa <= LAC_ISA_AVX512; isa++) {
        if (!lac_cpu_isa_have((lac_isa)isa))
            continue;
        options = options_of(_i);
        options.isa = (lac_isa)isa;
        options.threads = 2;
        options.speculate = LAC_SPECULATE_ON;
        run_all(&options, &run, &stats);
        same_as_base();
    }
    options = options_of(_i);
    uint64_t page = stats.kv_bytes / stats.kv_pages;
    options.kv_bytes = page * stats.units_count / 2 * 7; /* for two of them, hardly */
    run_all(&options, &run, &stats);
    same_as_base();
}
END_TEST

START_TEST(bytes_take_little_more_than_half)
{
    lac_engine_stats halves, bytes;
    lac_engine_options options = options_of(_i);
    options.kv_bytes = 4 << 20;
    run_all(&options, &base, &bytes);
    options.kv_type = LAC_KV_F16;
    run_all(&options, &run, &halves);
    ck_assert_int_eq(halves.kv_type, LAC_KV_F16);
    /* 16 bits against 8 and a scale of 16 bits for up to 32 values */
    ck_assert_uint_ge(bytes.kv_pages * 100, halves.kv_pages * (_i == 0 ? 155 : 177));
    bool other = false;
    for (uint32_t id = 0; id < QUESTIONS; id++)
        other |= base.results[id].bits != run.results[id].bits;
    ck_assert(other); /* it is not the same engine under another name */
}
END_TEST

typedef struct {
    float *rows;
    uint32_t vocab;
} kept;

static void keep(void *arg, size_t index, const float *logits)
{
    kept *k = arg;
    memcpy(k->rows + index * k->vocab, logits, k->vocab * sizeof(*logits));
}

START_TEST(results_stay_near_those_with_halves)
{
    enum { TOKENS = 120 };
    uint32_t tokens[TOKENS];
    float *rows[2];
    uint32_t vocab = 0;
    for (uint32_t i = 0; i < TOKENS; i++)
        tokens[i] = 3 + (i * 37 + i * i % 89 * 7) % 270;
    for (int type = 0; type < 2; type++) {
        lac_engine_options options = options_of(_i);
        options.isa = LAC_ISA_REFERENCE; /* no other rounding in the way */
        options.kv_type = type ? LAC_KV_Q8 : LAC_KV_F16;
        lac_engine *engine = runner_engine(&options);
        lac_error err = {0};
        vocab = lac_engine_model(engine)->vocab;
        rows[type] = malloc(sizeof(float) * vocab * TOKENS);
        kept k = {rows[type], vocab};
        ck_assert_int_eq(lac_engine_score(engine, tokens, TOKENS, keep, &k, &err), LAC_OK);
        lac_engine_destroy(&engine);
    }
    double difference = 0, size = 0;
    for (size_t i = 0; i < (size_t)vocab * TOKENS; i++) {
        double d = (double)rows[0][i] - rows[1][i];
        difference += d * d;
        size += (double)rows[0][i] * rows[0][i];
    }
    ck_assert_double_gt(difference, 0);
    ck_assert_double_lt(difference, 1e-3 * size);
    free(rows[0]);
    free(rows[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kv types");
    TCase *tc = tcase_create("kv types");
    tcase_set_timeout(tc, 240);
    tcase_add_loop_test(tc, bits_are_the_same_everywhere, 0, 3);
    tcase_add_loop_test(tc, bytes_take_little_more_than_half, 0, 3);
    tcase_add_loop_test(tc, results_stay_near_those_with_halves, 0, 3);
    suite_add_tcase(suite, tc);
    return runner_main(suite);
}
