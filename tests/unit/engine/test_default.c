/* The engine on the default model, when it is there: the same greedy text alone, in a batch of
 * eight mixed prompts, at one and two threads; memory within its bound; what masks cost and save.
 */
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "runner.h"

enum { PROMPTS = 8, ANSWER = 24, SKIPPED = 77 };

static char model_path[4096];
static runner run, other;

static const char *texts[PROMPTS] = {
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

/* One request under a setting of speculation; what it cost into *stats. */
static void ask(lac_speculate speculate, const char *text, float temperature, runner *out,
                lac_engine_stats *stats)
{
    lac_engine_options options = {
        .model_path = model_path, .threads = 2, .slots = 1, .speculate = speculate};
    lac_engine *engine = runner_engine(&options);
    lac_sampling sampling = runner_greedy(100);
    sampling.temperature = temperature;
    sampling.seed = 3;
    sampling.logprobs = temperature > 0;
    memset(out, 0, sizeof(*out));
    texts[0] = text;
    submit_text(engine, 0, &sampling);
    runner_drain(engine, out);
    lac_engine_stats_read(engine, stats);
    lac_engine_destroy(&engine);
}

/* Drafts come true where the answer copies the prompt; in prose they are hardly run. */
START_TEST(speculation_changes_nothing_and_saves_steps)
{
    static const char copying[] =
        "<|im_start|>user\nRepeat these lines exactly:\n"
        "2031-03-05 07:14:09 level=warn unit=lamp msg=\"bulb current low\"\n"
        "2031-03-05 07:14:11 level=info unit=door msg=\"closed by hand\"\n"
        "2031-03-05 07:15:42 level=warn unit=pump msg=\"pressure above limit\"\n"
        "<|im_end|>\n<|im_start|>assistant\n";
    static const char prose[] = "It was late in the autumn when the old ferryman";
    const char *const first = texts[0];
    for (int t = 0; t < 2; t++) {
        float temperature = t ? 0.2f : 0.0f;
        lac_engine_stats plain, forced, own;
        ask(LAC_SPECULATE_OFF, copying, temperature, &run, &plain);
        ask(LAC_SPECULATE_ON, copying, temperature, &other, &forced);
        runner_same(&run.results[0], &other.results[0]);
        ask(LAC_SPECULATE_AUTO, copying, temperature, &other, &own);
        runner_same(&run.results[0], &other.results[0]);
        printf("copying at %.1f: %u tokens in %llu steps plain, %llu forced, %llu by itself "
               "(%llu rows)\n",
               (double)temperature, run.results[0].tokens_count, (unsigned long long)plain.steps,
               (unsigned long long)forced.steps, (unsigned long long)own.steps,
               (unsigned long long)own.draft_tokens);
        ck_assert_uint_lt(forced.steps * 3, plain.steps * 2);
        ask(LAC_SPECULATE_OFF, prose, temperature ? 0.8f : 0.0f, &run, &plain);
        ask(LAC_SPECULATE_AUTO, prose, temperature ? 0.8f : 0.0f, &other, &own);
        runner_same(&run.results[0], &other.results[0]);
        printf("prose: %llu draft rows in %llu steps, %llu right\n",
               (unsigned long long)own.draft_tokens, (unsigned long long)own.steps,
               (unsigned long long)own.draft_accepted);
        if (t)
            ck_assert_uint_lt(own.draft_tokens - own.draft_accepted, own.steps / 5);
    }
    texts[0] = first;
}
END_TEST

/* Every prompt twice in one engine, then all at once: what the prefix cache gives is what was
 * computed. */
START_TEST(prefix_cache_changes_nothing)
{
    lac_sampling sampling = runner_greedy(ANSWER);
    sampling.temperature = 0.7f;
    sampling.seed = 5;
    lac_engine_options options = {
        .model_path = model_path, .threads = 2, .without_prefix_cache = true};
    memset(&run, 0, sizeof(run));
    lac_engine *engine = runner_engine(&options);
    for (uint32_t i = 0; i < PROMPTS; i++) {
        submit_text(engine, i, &sampling);
        runner_drain(engine, &run);
        ck_assert_uint_eq(run.results[i].usage.cached_tokens, 0);
    }
    lac_engine_destroy(&engine);
    options.without_prefix_cache = false;
    engine = runner_engine(&options);
    for (int round = 0; round < 3; round++) {
        memset(&other, 0, sizeof(other));
        for (uint32_t i = 0; i < PROMPTS; i++) {
            submit_text(engine, i, &sampling);
            if (round < 2)
                runner_drain(engine, &other);
        }
        runner_drain(engine, &other);
        for (uint32_t i = 0; i < PROMPTS; i++) {
            runner_same(&run.results[i], &other.results[i]);
            lac_usage usage = other.results[i].usage;
            ck_assert_uint_eq(usage.cached_tokens,
                              round ? (usage.prompt_tokens - 1) / LAC_KV_BLOCK * LAC_KV_BLOCK : 0);
        }
    }
    lac_engine_stats stats;
    lac_engine_stats_read(engine, &stats);
    ck_assert_uint_gt(stats.cached_tokens, 0);
    lac_engine_destroy(&engine);
}
END_TEST

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

#ifndef LAC_SANITIZED /* sanitizers have memory of their own */
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
#endif

/* ---- masks ---- */

enum { MASKS = 5, SCORED_MAX = 600 };
static const char *const mask_texts[MASKS] = {"A25", "A25,A7", "A25,A7,A26,A22",
                                              "A25,A7,A26,A22,A9,A13,A29,A10",
                                              "A25,A7,A26,A22,A9,A13,A29,A10,F14,F25,F17,F16"};
static lac_engine_class mask_classes[MASKS];

/* Lines like a program's log, none alike. */
static uint32_t *structured_ids(const lac_engine *engine, size_t *count)
{
    static const char *const units[] = {"lamp", "horn", "pump", "radio"};
    static const char *const levels[] = {"info", "info", "warn", "info", "error"};
    lac_buf text = {0};
    for (uint32_t i = 0; i < 4; i++)
        lac_buf_printf(&text,
                       "2031-03-05 07:%02u:%02u level=%s unit=%s id=%u msg=\"state changed\" "
                       "amps=%u.%02u\n",
                       14 + i, (i * 17) % 60, levels[i % 5], units[(i * 3) % 4], 1000 + i * 7,
                       1 + i % 3, (i * 29) % 100);
    uint32_t *ids = NULL;
    lac_error err = {0};
    lac_status status = lac_tokenizer_encode(lac_engine_tokenizer(engine), text.data, text.length,
                                             (lac_encode_options){0}, &ids, count, &err);
    ck_assert_msg(status == LAC_OK, "%s", err.text);
    lac_buf_free(&text);
    ck_assert_uint_le(*count, SCORED_MAX);
    return ids;
}

typedef struct {
    uint32_t vocab;
    float *full; /* [count][vocab] log-probabilities of the first pass */
    bool first;
    double kl;
} kl_sum;

static void kl_take(void *arg, size_t index, const float *logits)
{
    kl_sum *s = arg;
    float *full = s->full + index * s->vocab;
    double top = logits[0], sum = 0;
    for (uint32_t i = 1; i < s->vocab; i++)
        top = logits[i] > top ? logits[i] : top;
    for (uint32_t i = 0; i < s->vocab; i++)
        sum += expf((float)(logits[i] - top));
    double total = top + log(sum);
    for (uint32_t i = 0; i < s->vocab; i++) {
        if (s->first)
            full[i] = (float)(logits[i] - total);
        else
            s->kl += expf(full[i]) * (full[i] - (logits[i] - total));
    }
}

static lac_engine *mask_engine(void)
{
    lac_engine_options options = {.model_path = model_path,
                                  .speculate = LAC_SPECULATE_OFF, /* rows are counted */
                                  .threads = 1,
                                  .kv_bytes = 128 << 20,
                                  .classes = mask_classes,
                                  .classes_count = MASKS};
    for (uint32_t m = 0; m < MASKS; m++) {
        mask_classes[m] = (lac_engine_class){.name = mask_texts[m]};
        ck_assert_int_eq(lac_mask_parse(mask_texts[m], 30, &mask_classes[m].mask, NULL), LAC_OK);
    }
    return runner_engine(&options);
}

/* One attention unit of 30 is nearly free on structured text, one FFN among more is not. */
START_TEST(masks_cost_little_on_structured_text)
{
    lac_engine *engine = mask_engine();
    size_t count;
    uint32_t *ids = structured_ids(engine, &count);
    kl_sum s = {.vocab = lac_engine_model(engine)->vocab, .first = true};
    s.full = malloc(count * s.vocab * sizeof(float));
    double kl[MASKS];
    lac_error err = {0};
    ck_assert_int_eq(lac_engine_score_as(engine, 0, ids, count, kl_take, &s, &err), LAC_OK);
    s.first = false;
    for (uint32_t m = 0; m < MASKS; m++) {
        s.kl = 0;
        ck_assert_int_eq(lac_engine_score_as(engine, m + 1, ids, count, kl_take, &s, &err), LAC_OK);
        kl[m] = s.kl / (double)count;
        printf("KL to full over %zu tokens %.4f, mask %s\n", count, kl[m], mask_texts[m]);
    }
    ck_assert(kl[0] > 1e-6 && kl[0] < 0.03);
    ck_assert(kl[1] > kl[0] && kl[1] < 0.08);
    ck_assert(kl[3] > kl[1] && kl[4] > kl[3]);
    free(s.full);
    free(ids);
    lac_engine_destroy(&engine);
}
END_TEST

/* Prints time a token beside executed cost; a machine that others use is no place to assert it. */
START_TEST(time_follows_executed_cost)
{
    enum { STEPS = 16 };
    lac_engine *engine = mask_engine();
    lac_sampling sampling = runner_greedy(STEPS + 1);
    sampling.ignore_eos = true;
    uint32_t prompt = 40;
    double full_us = 0;
    for (uint32_t c = 0; c <= MASKS; c++) {
        double best = 1e18;
        lac_engine_stats before, after;
        memset(&run, 0, sizeof(run));
        lac_engine_request request = {
            .id = c, .prompt = &prompt, .prompt_count = 1, .sampling = sampling, .class_index = c};
        ck_assert_int_eq(lac_engine_submit(engine, &request, NULL), LAC_OK);
        lac_engine_stats_read(engine, &before);
        for (;;) {
            uint64_t start = lac_now_ns();
            if (!lac_engine_step(engine, runner_sink, &run))
                break;
            double us = (double)(lac_now_ns() - start) / 1e3;
            best = us < best ? us : best;
        }
        lac_engine_stats_read(engine, &after);
        full_us = c == 0 ? best : full_us;
        printf("%.0f us a token (%.3f of full), %.1f MFLOP a token, class %s\n", best,
               best / full_us, (after.flops - before.flops) / (STEPS + 1) / 1e6,
               c ? mask_texts[c - 1] : "full");
        ck_assert_uint_eq(run.results[c].tokens_count, STEPS + 1);
    }
    lac_engine_destroy(&engine);
}
END_TEST

typedef struct {
    float *rows;
    size_t vocab;
    double kl, worst;
    uint32_t same, count;
    bool first;
} divergence;

static double log_total(const float *logits, size_t vocab, size_t *best)
{
    double top = -INFINITY, sum = 0;
    for (size_t v = 0; v < vocab; v++)
        if ((double)logits[v] > top)
            top = (double)logits[v], *best = v;
    for (size_t v = 0; v < vocab; v++)
        sum += exp((double)logits[v] - top);
    return top + log(sum);
}

/* KL of what comes second to what came first. */
static void diverge(void *arg, size_t index, const float *logits)
{
    divergence *d = arg;
    float *first = d->rows + index * d->vocab;
    if (d->first) {
        memcpy(first, logits, d->vocab * sizeof(*logits));
        return;
    }
    size_t best = 0, other_best = 0;
    double kl = 0, z = log_total(first, d->vocab, &best),
           other_z = log_total(logits, d->vocab, &other_best);
    for (size_t v = 0; v < d->vocab; v++) {
        double log_p = (double)first[v] - z;
        kl += exp(log_p) * (log_p - ((double)logits[v] - other_z));
    }
    d->kl += kl;
    d->worst = kl > d->worst ? kl : d->worst;
    d->same += best == other_best;
    d->count++;
}

START_TEST(keys_and_values_in_bytes_stay_near)
{
    divergence d = {.first = true};
    uint32_t *ids = NULL;
    size_t count = 0;
    for (int type = 0; type < 2; type++) {
        lac_engine_options options = {
            .model_path = model_path, .threads = 2, .kv_type = type ? LAC_KV_Q8 : LAC_KV_F16};
        lac_engine *engine = runner_engine(&options);
        lac_error err = {0};
        if (!ids) {
            lac_buf text = {.cap = 4096};
            for (uint32_t i = 1; i < PROMPTS; i++)
                lac_buf_printf(&text, "%s\n", texts[i]);
            ck_assert_int_eq(
                lac_tokenizer_encode(lac_engine_tokenizer(engine), text.data, text.length,
                                     (lac_encode_options){.special = true}, &ids, &count, &err),
                LAC_OK);
            lac_buf_free(&text);
            d.vocab = lac_engine_model(engine)->vocab;
            d.rows = malloc(count * d.vocab * sizeof(float));
        }
        lac_status status = lac_engine_score(engine, ids, count, diverge, &d, &err);
        ck_assert_msg(status == LAC_OK, "%s", err.text);
        d.first = false;
        lac_engine_destroy(&engine);
    }
    printf("q8 keys and values: mean KL %.5f, worst %.5f, same best token %.3f of %u\n",
           d.kl / d.count, d.worst, (double)d.same / d.count, d.count);
    ck_assert_double_gt(d.kl, 0);
    /* 0.0053 as measured; any last-bit difference flips roundings of activations worth 0.0037. */
    ck_assert_double_lt(d.kl / d.count, 0.008);
    ck_assert_uint_ge(d.same * 100, d.count * 95);
    free(d.rows);
    free(ids);
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
    tcase_add_test(tc, speculation_changes_nothing_and_saves_steps);
    tcase_add_test(tc, prefix_cache_changes_nothing);
    tcase_add_test(tc, same_text_alone_batched_and_threaded);
    tcase_add_test(tc, keys_and_values_in_bytes_stay_near);
#ifndef LAC_SANITIZED
    tcase_add_test(tc, memory_stays_within_its_bound);
#endif
    suite_add_tcase(suite, tc);
    TCase *masks = tcase_create("masks");
    tcase_set_timeout(masks, 280);
    tcase_add_test(masks, masks_cost_little_on_structured_text);
    tcase_add_test(masks, time_follows_executed_cost);
    suite_add_tcase(suite, masks);
    return runner_main(suite);
}
