/* Classes with patches and classes that hold only from a position on: alone and in mixed batches
 * bit for bit, through preemption, replay and the prefix cache, against scoring row by row. */
#include <stdio.h>

#include "runner.h"

#define MODEL LAC_TINY_DIR "/tiny-llama-q4_1.gguf" /* 3 layers */
enum { LAYERS = 3, HIDDEN = 96, VOCAB = 281, PROMPTS = 8, ANSWER = 40, RANK = 8 };

static const size_t lengths[PROMPTS] = {1, 5, 31, 32, 33, 63, 64, 90};

/* Two classes patch A1 otherwise, one of them F2 too, by a full matrix; two begin with the answer,
 * one of those with the patches of "low". */
enum { FULL, LOW, BOTH, LATE, LATE_LOW, PLAIN, CLASSES };
static const char *const names[CLASSES] = {"full", "low", "both", "late", "late-low", "plain"};
static const char *const masks[CLASSES] = {"", "A1", "A1,F2", "A0,A1,F1", "A1", "A1"};

static uint16_t matrices[4][HIDDEN * HIDDEN];
static lac_patch low[1], both[2];
static lac_engine_class classes[CLASSES - 1];
static runner run, other;

static const uint32_t *prompt_of(uint32_t i)
{
    static uint32_t prompt[PROMPTS][128];
    for (size_t t = 0; t < lengths[i]; t++)
        prompt[i][t] = 3 + (uint32_t)((t * 37 + i * 101 + t * t * 5) % 270);
    return prompt[i];
}

static void matrices_make(void)
{
    uint32_t x = 1;
    for (int m = 0; m < 4; m++)
        for (int i = 0; i < HIDDEN * HIDDEN; i++) {
            x = x * 1664525u + 1013904223u;
            matrices[m][i] = (uint16_t)((x >> 9 & 0x83ff) | 0x2c00 | (x >> 20 & 0x400)); /* ≤ 1/4 */
        }
    low[0] = (lac_patch){.unit = 2, .rank = RANK, .down = matrices[0], .up = matrices[1]};
    both[0] = (lac_patch){.unit = 2, .rank = 16, .down = matrices[2], .up = matrices[1]};
    both[1] = (lac_patch){.unit = 5, .rank = HIDDEN, .up = matrices[3]};
}

static lac_engine_options options_of(void)
{
    matrices_make();
    for (uint32_t c = 1; c < CLASSES; c++) {
        lac_engine_class *class = &classes[c - 1];
        *class = (lac_engine_class){.name = names[c]};
        ck_assert_int_eq(lac_mask_parse(masks[c], LAYERS, &class->mask, NULL), LAC_OK);
        if (c == LATE || c == LATE_LOW)
            class->scope = LAC_SCOPE_DECODE;
        if (c == LOW || c == LATE_LOW)
            class->patches = low, class->patches_count = 1;
        if (c == BOTH)
            class->patches = both, class->patches_count = 2;
    }
    return (lac_engine_options){.model_path = MODEL,
                                .threads = 1,
                                .slots = PROMPTS,
                                .speculate = LAC_SPECULATE_OFF, /* rows are counted */
                                .classes = classes,
                                .classes_count = CLASSES - 1};
}

static lac_engine_account accounts[PROMPTS];

static void sink(void *arg, const lac_engine_event *event)
{
    runner_sink(arg, event);
    if (event->account)
        accounts[event->id] = *event->account;
}

static lac_engine_request request_of(uint32_t i, uint32_t class_index)
{
    lac_engine_request request = {.id = i,
                                  .prompt = prompt_of(i),
                                  .prompt_count = lengths[i],
                                  .sampling = runner_greedy(ANSWER),
                                  .class_index = class_index};
    request.sampling.ignore_eos = true;
    return request;
}

static void submit(lac_engine *engine, const lac_engine_request *request)
{
    lac_error err = {0};
    ck_assert_msg(lac_engine_submit(engine, request, &err) == LAC_OK, "%s", err.text);
}

static void drain(lac_engine *engine, runner *out)
{
    for (int steps = 0; lac_engine_step(engine, sink, out); steps++)
        ck_assert_int_lt(steps, 20000);
}

static uint32_t mixed(uint32_t i)
{
    return (i * 5 + 1) % CLASSES;
}

static void all_of(lac_engine *engine, bool together, uint32_t only, runner *out)
{
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < PROMPTS; i++) {
        lac_engine_request request = request_of(i, only < CLASSES ? only : mixed(i));
        submit(engine, &request);
        if (!together)
            drain(engine, out);
    }
    drain(engine, out);
}

static void expect_same(void)
{
    for (uint32_t i = 0; i < PROMPTS; i++)
        runner_same(&run.results[i], &other.results[i]);
}

/* ---- what a row computes ---- */

static void row_copy(void *arg, size_t index, const float *logits)
{
    memcpy((float *)arg + index * VOCAB, logits, VOCAB * sizeof(float));
}

static float *scored(lac_engine *engine, uint32_t class_index, uint32_t from, const uint32_t *ids,
                     size_t count)
{
    float *rows = calloc(count * VOCAB, sizeof(float));
    lac_error err = {0};
    lac_status status =
        lac_engine_score_from(engine, class_index, from, ids, count, row_copy, rows, &err);
    ck_assert_msg(status == LAC_OK, "%s", err.text);
    return rows;
}

static bool rows_equal(const float *a, const float *b, size_t first, size_t last)
{
    return memcmp(a + first * VOCAB, b + first * VOCAB, (last - first) * VOCAB * sizeof *a) == 0;
}

/* A patch of zeros is no patch; others show, each in its own class only; and a class that holds
 * from a position on is full before it. */
START_TEST(patches_and_positions_in_a_score)
{
    enum { N = 90, FROM = 37 };
    static uint16_t zeros[HIDDEN * RANK];
    lac_engine_options options = options_of();
    lac_engine *engine = runner_engine(&options);
    float *rows[CLASSES];
    for (uint32_t c = 0; c < CLASSES; c++)
        rows[c] = scored(engine, c, 0, prompt_of(7), N);
    for (uint32_t c = 0; c < CLASSES; c++)
        for (uint32_t d = 0; d < c; d++)
            ck_assert_int_eq(rows_equal(rows[c], rows[d], 0, N),
                             (c == LATE_LOW && d == LOW)); /* the same but for the scope */
    float *late = scored(engine, LOW, FROM, prompt_of(7), N);
    ck_assert(rows_equal(late, rows[FULL], 0, FROM));
    ck_assert(!rows_equal(late, rows[FULL], FROM, FROM + 1));
    ck_assert(!rows_equal(late, rows[LOW], FROM, FROM + 1)); /* it looks back at full's rows */
    lac_engine_destroy(&engine);
    low[0].down = low[0].up = zeros;
    engine = runner_engine(&options);
    float *none = scored(engine, LOW, 0, prompt_of(7), N);
    ck_assert(rows_equal(none, rows[PLAIN], 0, N));
    lac_engine_destroy(&engine);
    for (uint32_t c = 0; c < CLASSES; c++)
        free(rows[c]);
    free(late);
    free(none);
}
END_TEST

/* Lists beside other classes, and a program that has only what the class needs. */
START_TEST(a_class_alone_in_its_engine_is_the_same)
{
    enum { N = 90 };
    for (uint32_t c = LOW; c < CLASSES; c++) {
        lac_engine_options options = options_of();
        lac_engine *engine = runner_engine(&options);
        uint32_t from = c == LATE || c == LATE_LOW ? 11 : 0;
        float *among = scored(engine, c, from, prompt_of(7), N);
        lac_engine_destroy(&engine);
        options.classes = &classes[c - 1];
        options.classes_count = 1;
        options.without_full = true;
        engine = runner_engine(&options);
        float *alone = scored(engine, 1, from, prompt_of(7), N);
        ck_assert(rows_equal(among, alone, 0, N));
        lac_engine_stats stats;
        lac_engine_stats_read(engine, &stats);
        /* Prompts of scope decode need every unit. */
        ck_assert_uint_eq(stats.units_loaded,
                          2 * LAYERS - (from ? 0 : lac_mask_count(&classes[c - 1].mask)));
        lac_engine_destroy(&engine);
        free(among);
        free(alone);
    }
}
END_TEST

START_TEST(a_mixed_batch_changes_nothing)
{
    for (uint32_t threads = 1; threads <= 2; threads++) {
        lac_engine_options options = options_of();
        options.threads = threads;
        lac_engine *engine = runner_engine(&options);
        all_of(engine, false, CLASSES, &run);
        all_of(engine, true, CLASSES, &other);
        expect_same();
        lac_engine_destroy(&engine);
    }
}
END_TEST

/* What is generated is what scoring says comes next. */
static void expect_scored(lac_engine *engine, uint32_t i, uint32_t class_index, uint32_t from)
{
    uint32_t ids[256];
    size_t prompt = lengths[i], all = prompt + ANSWER;
    memcpy(ids, prompt_of(i), prompt * sizeof *ids);
    memcpy(ids + prompt, run.results[i].tokens, ANSWER * sizeof *ids);
    float *rows = scored(engine, class_index, from, ids, all - 1);
    for (size_t t = prompt; t < all; t++) {
        const float *row = rows + (t - 1) * VOCAB;
        uint32_t best = VOCAB;
        for (uint32_t k = 0; k < VOCAB; k++)
            if (!lac_tokenizer_is_end(lac_engine_tokenizer(engine),
                                      k) && /* banned in the request */
                (best == VOCAB || row[k] > row[best]))
                best = k;
        ck_assert_uint_eq(best, ids[t]);
    }
    free(rows);
}

START_TEST(generated_is_what_scoring_says)
{
    lac_engine_options options = options_of();
    lac_engine *engine = runner_engine(&options);
    all_of(engine, true, CLASSES, &run);
    for (uint32_t i = 0; i < PROMPTS; i++) {
        bool late = mixed(i) == LATE || mixed(i) == LATE_LOW;
        expect_scored(engine, i, mixed(i), late ? (uint32_t)lengths[i] : 0);
    }
    lac_engine_destroy(&engine);
}
END_TEST

/* ---- scope decode through everything that can happen to a sequence ---- */

START_TEST(cache_and_preemption_change_nothing)
{
    lac_engine_options options = options_of();
    options.without_prefix_cache = true;
    lac_engine *engine = runner_engine(&options);
    all_of(engine, false, LATE, &run);
    lac_engine_destroy(&engine);
    options.without_prefix_cache = false;
    engine = runner_engine(&options);
    all_of(engine, true, LATE, &other);
    expect_same();
    all_of(engine, true, LATE, &other); /* every prompt is there now */
    expect_same();
    ck_assert_uint_eq(other.results[7].usage.cached_tokens, 64);
    all_of(engine, true, FULL, &other); /* what full may share with them */
    ck_assert_uint_eq(other.results[7].usage.cached_tokens, 64);
    all_of(engine, true, LATE, &other);
    expect_same();
    lac_engine_destroy(&engine);
    for (int cache = 0; cache < 2; cache++) {
        options.without_prefix_cache = cache == 0;
        options.kv_bytes = 100000; /* about one long sequence and a half */
        engine = runner_engine(&options);
        all_of(engine, true, LATE, &other);
        expect_same();
        lac_engine_stats stats;
        lac_engine_stats_read(engine, &stats);
        ck_assert_uint_gt(stats.preemptions, 0);
        ck_assert_uint_eq(stats.kv_pages_used, 0);
        lac_engine_destroy(&engine);
        options.kv_bytes = 0;
    }
}
END_TEST

/* Another worker goes on where one was lost: accepted tokens run as they ran. */
START_TEST(replay_runs_the_answer_as_the_class)
{
    lac_engine_options options = options_of();
    lac_engine *engine = runner_engine(&options);
    for (uint32_t c = LOW; c < CLASSES; c++) {
        all_of(engine, false, c, &run);
        for (uint32_t i = 0; i < PROMPTS; i += 3) {
            memset(&other, 0, sizeof other);
            lac_engine_request request = request_of(i, c);
            request.accepted = run.results[i].tokens;
            request.accepted_count = 17;
            submit(engine, &request);
            drain(engine, &other);
            ck_assert_uint_eq(other.results[i].tokens_count, ANSWER - 17);
            ck_assert_mem_eq(other.results[i].tokens, run.results[i].tokens + 17,
                             (ANSWER - 17) * sizeof(uint32_t));
        }
    }
    lac_engine_destroy(&engine);
}
END_TEST

/* A class from the middle of a prompt. */
START_TEST(a_class_from_a_position_of_the_prompt)
{
    lac_engine_options options = options_of();
    lac_engine *engine = runner_engine(&options);
    for (uint32_t from = 0; from <= 90; from += 15) {
        lac_engine_request request = request_of(7, BOTH);
        request.class_from = from;
        memset(&run, 0, sizeof run);
        submit(engine, &request);
        drain(engine, &run);
        expect_scored(engine, 7, BOTH, from);
    }
    lac_engine_request request = request_of(7, BOTH);
    lac_error err = {0};
    request.class_from = 91;
    ck_assert_int_eq(lac_engine_submit(engine, &request, &err), LAC_EINVAL);
    ck_assert_str_eq(err.text, "class_from is 91, allowed 0..90 (the prompt)");
    lac_engine_destroy(&engine);
    options.without_full = true; /* A1 is in nobody's program now */
    options.classes_count = 2;
    engine = runner_engine(&options);
    request.class_from = 5;
    request.class_index = LOW;
    ck_assert_int_eq(lac_engine_submit(engine, &request, &err), LAC_EREFUSED);
    ck_assert_int_eq(lac_engine_score_from(engine, LOW, 5, prompt_of(7), 10, row_copy, NULL, &err),
                     LAC_EREFUSED);
    lac_engine_destroy(&engine);
}
END_TEST

/* ---- books ---- */

START_TEST(pages_of_what_is_left_out_are_given_back)
{
    lac_engine_options options = options_of();
    options.without_prefix_cache = true;
    lac_engine *engine = runner_engine(&options);
    uint64_t used[2];
    for (uint32_t c = 0; c < 2; c++) {
        lac_engine_request request = request_of(7, c ? LATE : FULL); /* 90 tokens: 3 blocks */
        lac_engine_stats stats;
        memset(&run, 0, sizeof run);
        submit(engine, &request);
        while (run.results[7].tokens_count < 10)
            ck_assert(lac_engine_step(engine, sink, &run));
        lac_engine_stats_read(engine, &stats);
        used[c] = stats.kv_pages_used;
        drain(engine, &run);
    }
    ck_assert_uint_eq(used[0], 4 * LAYERS);
    ck_assert_uint_eq(used[1], 4); /* A2 alone */
    lac_engine_destroy(&engine);
}
END_TEST

START_TEST(accounts_count_patches_and_prompts)
{
    lac_engine_options options = options_of();
    options.without_prefix_cache = true;
    lac_engine *engine = runner_engine(&options);
    double flops[CLASSES];
    for (uint32_t c = 0; c < CLASSES; c++) {
        lac_engine_request request = request_of(7, c);
        memset(&run, 0, sizeof run);
        submit(engine, &request);
        drain(engine, &run);
        flops[c] = accounts[7].flops;
        ck_assert_uint_eq(accounts[7].tokens, lengths[7] + ANSWER - 1);
        if (c == LATE)
            ck_assert_double_eq_tol(accounts[7].skip_rate, 0.5 * (ANSWER - 1) / (90 + ANSWER - 1),
                                    1e-9);
    }
    double rows = 90 + ANSWER - 1;
    ck_assert_double_eq_tol(flops[LOW] - flops[PLAIN], rows * 4 * HIDDEN * RANK, 1);
    ck_assert(flops[LATE_LOW] > flops[LOW] && flops[LATE_LOW] < flops[FULL]);
    lac_engine_destroy(&engine);
}
END_TEST

START_TEST(bad_patches_are_refused)
{
    static const struct {
        uint32_t unit, rank;
        bool down;
        const char *named;
    } bad[] = {{3, RANK, true, "unit F1"},      {400, RANK, true, "unit A200"},
               {2, 1, true, "rank of patch 0"}, {2, HIDDEN + 8, true, "rank of patch 0"},
               {2, RANK, false, "rank of"},     {2, HIDDEN, true, "rank of"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        lac_engine_options options = options_of();
        lac_patch patch = {.unit = bad[i].unit,
                           .rank = bad[i].rank,
                           .down = bad[i].down ? matrices[0] : NULL,
                           .up = matrices[1]};
        lac_engine *engine = NULL;
        lac_error err = {0};
        classes[0].patches = &patch;
        ck_assert_int_eq(lac_engine_create(&options, &engine, &err), LAC_EINVAL);
        ck_assert_msg(strstr(err.text, bad[i].named) != NULL, "%s", err.text);
        ck_assert_ptr_null(engine);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("patches");
    TCase *tc = tcase_create("patches");
    tcase_add_test(tc, patches_and_positions_in_a_score);
    tcase_add_test(tc, a_class_alone_in_its_engine_is_the_same);
    tcase_add_test(tc, a_mixed_batch_changes_nothing);
    tcase_add_test(tc, generated_is_what_scoring_says);
    tcase_add_test(tc, cache_and_preemption_change_nothing);
    tcase_add_test(tc, replay_runs_the_answer_as_the_class);
    tcase_add_test(tc, a_class_from_a_position_of_the_prompt);
    tcase_add_test(tc, pages_of_what_is_left_out_are_given_back);
    tcase_add_test(tc, accounts_count_patches_and_prompts);
    tcase_add_test(tc, bad_patches_are_refused);
    tcase_set_timeout(tc, 120);
    suite_add_tcase(suite, tc);
    return runner_main(suite);
}
