/* Classes: full is untouched by them; a mixed batch gives each request what it gets alone; KV pages
 * only for kept attention; a class lasts as long as its sequence; zero units are dropped without a
 * trace in the output. */
#include <stdio.h>
#include <unistd.h>

#include "model/gguf_write.h"
#include "runner.h"

#define MODEL LAC_TINY_DIR "/tiny-llama-q4_1.gguf" /* 3 layers */
enum { PROMPTS = 8, ANSWER = 36, CLASSES = 4, LAYERS = 3 };

static runner run, other;
static const char *const masks[CLASSES] = {"", "A1", "A0,F2", "F0,A1,A2,F1"};
static const char *const names[CLASSES] = {"full", "one", "two", "deep"};
static const size_t lengths[PROMPTS] = {1,  5,  31, 32,
                                        33, 63, 64, 90}; /* both sides of page edges */

static const uint32_t *prompt_of(uint32_t i)
{
    static uint32_t prompt[PROMPTS][128];
    for (size_t t = 0; t < lengths[i]; t++)
        prompt[i][t] = 3 + (uint32_t)((t * 37 + i * 101 + t * t * 5) % 270);
    return prompt[i];
}

static lac_engine_class classes[CLASSES - 1];

static lac_engine_options options_of(uint32_t classes_count)
{
    for (uint32_t c = 1; c < CLASSES; c++) {
        classes[c - 1] = (lac_engine_class){.name = names[c]};
        ck_assert_int_eq(lac_mask_parse(masks[c], LAYERS, &classes[c - 1].mask, NULL), LAC_OK);
    }
    return (lac_engine_options){.model_path = MODEL,
                                .threads = 1,
                                .slots = PROMPTS,
                                .speculate = LAC_SPECULATE_OFF, /* rows are counted */
                                .classes = classes,
                                .classes_count = classes_count};
}

static lac_engine_account accounts[PROMPTS];

static void sink(void *arg, const lac_engine_event *event)
{
    runner_sink(arg, event);
    ck_assert_int_eq(event->account != NULL, event->finish != LAC_FINISH_NONE);
    if (event->account)
        accounts[event->id] = *event->account;
}

static void submit(lac_engine *engine, uint32_t i, uint32_t class_index)
{
    lac_engine_request request = {.id = i,
                                  .prompt = prompt_of(i),
                                  .prompt_count = lengths[i],
                                  .sampling = runner_greedy(ANSWER),
                                  .class_index = class_index};
    request.sampling.ignore_eos = true;
    lac_error err = {0};
    lac_status status = lac_engine_submit(engine, &request, &err);
    ck_assert_msg(status == LAC_OK, "%s", err.text);
}

static void drain(lac_engine *engine, runner *out)
{
    while (lac_engine_step(engine, sink, out))
        ;
}

static void all_of(lac_engine *engine, bool together, uint32_t (*class_of)(uint32_t i), runner *out)
{
    memset(out, 0, sizeof(*out));
    for (uint32_t i = 0; i < PROMPTS; i++) {
        submit(engine, i, class_of(i));
        if (!together)
            drain(engine, out);
    }
    drain(engine, out);
}

static uint32_t full(uint32_t i)
{
    (void)i;
    return 0;
}

static uint32_t mixed(uint32_t i)
{
    return (i * 3) % CLASSES;
}

static void expect_same(void)
{
    for (uint32_t i = 0; i < PROMPTS; i++)
        runner_same(&run.results[i], &other.results[i]);
}

/* ---- logits, bit for bit ---- */

enum { VOCAB = 281, SCORED = 70 };

static void row_copy(void *arg, size_t index, const float *logits)
{
    memcpy((float *)arg + index * VOCAB, logits, VOCAB * sizeof(float));
}

static float *scored(lac_engine *engine, uint32_t class_index)
{
    ck_assert_uint_eq(lac_engine_model(engine)->vocab, VOCAB);
    float *rows = calloc(SCORED * VOCAB, sizeof(float));
    lac_error err = {0};
    lac_status status =
        lac_engine_score_as(engine, class_index, prompt_of(7), SCORED, row_copy, rows, &err);
    ck_assert_msg(status == LAC_OK, "%s", err.text);
    return rows;
}

static void expect_same_logits(float *a, float *b)
{
    ck_assert_mem_eq(a, b, SCORED * VOCAB * sizeof(float));
    free(a);
    free(b);
}

START_TEST(full_is_untouched_by_classes)
{
    lac_engine_options options = options_of(0);
    lac_engine *engine = runner_engine(&options);
    all_of(engine, true, full, &run);
    float *before = scored(engine, 0);
    lac_engine_destroy(&engine);
    options = options_of(CLASSES - 1);
    engine = runner_engine(&options);
    all_of(engine, true, full, &other);
    expect_same_logits(before, scored(engine, 0));
    lac_engine_destroy(&engine);
    expect_same();
}
END_TEST

START_TEST(a_mixed_batch_changes_nothing)
{
    lac_engine_options options = options_of(CLASSES - 1);
    for (uint32_t threads = 1; threads <= 2; threads++) {
        options.threads = threads;
        lac_engine *engine = runner_engine(&options);
        all_of(engine, false, mixed, &run);
        all_of(engine, true, mixed, &other);
        expect_same();
        all_of(engine, true, full, &run);
        uint32_t differ = 0;
        for (uint32_t i = 0; i < PROMPTS; i++)
            differ += mixed(i) > 0 && memcmp(run.results[i].tokens, other.results[i].tokens,
                                             ANSWER * sizeof(uint32_t)) != 0;
        ck_assert_uint_gt(differ, 2); /* the masks do something */
        lac_engine_destroy(&engine);
    }
}
END_TEST

/* A class by row lists, and the same class as a program without the units. */
START_TEST(lists_equal_a_program_without_the_units)
{
    for (uint32_t c = 1; c < CLASSES; c++) {
        lac_engine_options options = options_of(CLASSES - 1);
        lac_engine *engine = runner_engine(&options);
        float *by_lists = scored(engine, c);
        lac_engine_stats all, less;
        lac_engine_stats_read(engine, &all);
        lac_engine_destroy(&engine);
        options.classes = &classes[c - 1];
        options.classes_count = 1;
        options.without_full = true;
        engine = runner_engine(&options);
        expect_same_logits(by_lists, scored(engine, 1));
        lac_engine_stats_read(engine, &less);
        ck_assert_uint_eq(all.units_loaded, 2 * LAYERS);
        ck_assert_uint_eq(less.units_loaded, 2 * LAYERS - lac_mask_count(&classes[c - 1].mask));
        ck_assert_uint_lt(less.weight_bytes, all.weight_bytes);
        lac_unit_record record = {0};
        for (uint32_t u = 0; u < 2 * LAYERS; u++) {
            bool erased = lac_mask_has(&classes[c - 1].mask, u);
            ck_assert_int_eq(lac_engine_unit(engine, u, &record),
                             erased ? LAC_UNIT_ERASED : LAC_UNIT_ACTIVE);
        }
        uint64_t bytes = 0;
        for (uint32_t u = 0; u < 2 * LAYERS; u++)
            if (lac_mask_has(&classes[c - 1].mask, u))
                bytes = lac_model_unit_bytes(lac_engine_model(engine), u);
        ck_assert_uint_eq(record.words, (bytes + 7) / 8); /* of the last erased one */
        lac_engine_destroy(&engine);
    }
}
END_TEST

/* ---- pages and account ---- */

START_TEST(pages_only_for_kept_attention)
{
    static const uint32_t kept[CLASSES] = {3, 2, 2, 1};
    lac_engine_options options = options_of(CLASSES - 1);
    lac_engine *engine = runner_engine(&options);
    lac_engine_stats stats;
    lac_engine_stats_read(engine, &stats);
    uint64_t page_bytes = stats.kv_bytes / stats.kv_pages;
    for (uint32_t c = 0; c < CLASSES; c++)
        for (uint32_t i = 2; i <= 4; i++) { /* 31, 32 and 33 tokens */
            memset(&run, 0, sizeof(run));
            submit(engine, i, c);
            lac_engine_step(engine, sink, &run); /* the whole prompt */
            lac_engine_stats_read(engine, &stats);
            ck_assert_uint_eq(stats.kv_pages_used, kept[c] * (lengths[i] > 32 ? 2 : 1));
            drain(engine, &run);
            lac_engine_stats_read(engine, &stats);
            ck_assert_uint_eq(stats.kv_pages_used, 0);
            uint64_t blocks = (lengths[i] + ANSWER - 1 + 31) / 32;
            ck_assert_uint_eq(accounts[i].kv_bytes, blocks * kept[c] * page_bytes);
            ck_assert_uint_eq(accounts[i].class_index, c);
            ck_assert_str_eq(accounts[i].class_name, names[c]);
            ck_assert_uint_eq(accounts[i].tokens, lengths[i] + ANSWER - 1);
            lac_mask mask = {0};
            lac_mask_parse(masks[c], LAYERS, &mask, NULL);
            ck_assert_double_eq_tol(accounts[i].skip_rate, lac_mask_count(&mask) / 6.0, 1e-12);
            ck_assert_uint_eq(accounts[i].active_layers, c == 3 ? 2 : 3);
            ck_assert_uint_eq(stats.active_layers, c == 3 ? 2 : 3);
        }
    lac_engine_destroy(&engine);
}
END_TEST

/* Every attention erased: nothing is left to keep. */
START_TEST(no_attention_at_all)
{
    lac_engine_class none = {.name = "none"};
    ck_assert_int_eq(lac_mask_parse("A0,A1,A2", LAYERS, &none.mask, NULL), LAC_OK);
    lac_engine_options options = options_of(0);
    options.classes = &none;
    options.classes_count = 1;
    lac_engine *engine = runner_engine(&options);
    memset(&run, 0, sizeof(run));
    submit(engine, 7, 1);
    drain(engine, &run);
    ck_assert_uint_eq(accounts[7].kv_bytes, 0);
    float *lists = scored(engine, 1);
    lac_engine_destroy(&engine);
    options.without_full = true;
    engine = runner_engine(&options);
    memset(&other, 0, sizeof(other));
    submit(engine, 7, 1);
    drain(engine, &other);
    runner_same(&run.results[7], &other.results[7]);
    expect_same_logits(lists, scored(engine, 1));
    lac_engine_destroy(&engine);
}
END_TEST

START_TEST(preemption_keeps_classes)
{
    lac_engine_options options = options_of(CLASSES - 1);
    lac_engine *engine = runner_engine(&options);
    all_of(engine, false, mixed, &run);
    lac_engine_stats stats;
    lac_engine_stats_read(engine, &stats);
    options.kv_bytes = stats.kv_bytes / stats.kv_pages * LAYERS * 6;
    lac_engine_destroy(&engine);
    engine = runner_engine(&options);
    all_of(engine, true, mixed, &other);
    lac_engine_stats_read(engine, &stats);
    ck_assert_uint_eq(stats.kv_pages_used, 0);
    lac_engine_destroy(&engine);
    expect_same();
}
END_TEST

/* ---- rules ---- */

/* No call changes a class. Going on as full computes everything again: the same as had full been
 * given those tokens from the start. */
START_TEST(a_class_lasts_as_long_as_its_sequence)
{
    lac_engine_options options = options_of(CLASSES - 1);
    lac_engine *engine = runner_engine(&options);
    memset(&run, 0, sizeof(run));
    submit(engine, 4, 3);
    for (int i = 0; i < 6; i++)
        lac_engine_step(engine, sink, &run);
    lac_engine_request request = {.id = 4,
                                  .prompt = prompt_of(4),
                                  .prompt_count = lengths[4],
                                  .accepted = run.results[4].tokens,
                                  .accepted_count = run.results[4].tokens_count,
                                  .sampling = runner_greedy(ANSWER)};
    request.sampling.ignore_eos = true;
    ck_assert_int_eq(lac_engine_submit(engine, &request, NULL), LAC_EEXIST);
    ck_assert_int_eq(lac_engine_cancel(engine, 4), LAC_OK);
    uint32_t given = run.results[4].tokens_count, tokens[128];
    memcpy(tokens, prompt_of(4), lengths[4] * sizeof(uint32_t));
    memcpy(tokens + lengths[4], run.results[4].tokens, given * sizeof(uint32_t));
    memset(&other, 0, sizeof(other));
    ck_assert_int_eq(lac_engine_submit(engine, &request, NULL), LAC_OK);
    drain(engine, &other);
    ck_assert_uint_eq(accounts[4].tokens, lengths[4] + ANSWER - 1); /* none taken over */
    memset(&run, 0, sizeof(run));
    lac_sampling sampling = runner_greedy(ANSWER - given);
    sampling.ignore_eos = true;
    runner_submit(engine, 5, tokens, lengths[4] + given, &sampling);
    drain(engine, &run);
    ck_assert_uint_eq(run.results[5].tokens_count, other.results[4].tokens_count);
    ck_assert_mem_eq(run.results[5].tokens, other.results[4].tokens,
                     run.results[5].tokens_count * sizeof(uint32_t));
    lac_engine_destroy(&engine);
}
END_TEST

START_TEST(what_is_refused)
{
    lac_error err = {0};
    lac_engine *engine = NULL;
    lac_engine_options options = options_of(1);
    options.without_full = true;
    engine = runner_engine(&options);
    uint32_t token = 5, index = 0;
    lac_engine_request request = {
        .prompt = &token, .prompt_count = 1, .sampling = runner_greedy(2)};
    ck_assert_int_eq(lac_engine_submit(engine, &request, &err), LAC_EREFUSED);
    ck_assert_ptr_nonnull(strstr(err.text, "full"));
    request.class_index = 2;
    ck_assert_int_eq(lac_engine_submit(engine, &request, &err), LAC_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "class_index is 2, allowed 0..1"));
    ck_assert(lac_engine_class_find(engine, "one", &index) && index == 1);
    ck_assert(!lac_engine_class_find(engine, "three", &index));
    lac_engine_destroy(&engine);
    options = options_of(2);
    classes[1].name = "one";
    ck_assert_int_eq(lac_engine_create(&options, &engine, &err), LAC_EINVAL);
    options = options_of(2);
    lac_mask_set(&classes[1].mask, 6);
    ck_assert_int_eq(lac_engine_create(&options, &engine, &err), LAC_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "A3"));
    options = options_of(0);
    options.without_full = true;
    ck_assert_int_eq(lac_engine_create(&options, &engine, &err), LAC_EINVAL);
    options = options_of(LAC_CLASSES_MAX);
    ck_assert_int_eq(lac_engine_create(&options, &engine, &err), LAC_EINVAL);
}
END_TEST

/* ---- zero units ---- */

/* Writes the model with the named tensors' bytes zero, and `claim` as the promise when not NULL. */
static void write_zeroed(char *path, const char *const *zeros, const char *claim)
{
    lac_gguf *gguf = NULL;
    lac_error err = {0};
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    ck_assert_int_eq(lac_gguf_open(MODEL, &gguf, &err), LAC_OK);
    lac_gguf_writer *writer = lac_gguf_writer_create(gguf);
    for (size_t i = 0; i < lac_gguf_tensor_count(gguf); i++) {
        const lac_gguf_tensor *t = lac_gguf_tensor_at(gguf, i);
        bool zero = false;
        for (const char *const *name = zeros; *name; name++)
            zero |= strcmp(*name, t->name) == 0;
        lac_gguf_writer_tensor(writer, t->name, t, zero);
    }
    if (claim)
        lac_gguf_writer_string(writer, LAC_MODEL_ZERO_KEY, claim);
    lac_status status = lac_gguf_writer_write(writer, path, &err);
    ck_assert_msg(status == LAC_OK, "%s", err.text);
    lac_gguf_writer_destroy(&writer);
    lac_gguf_close(&gguf);
}

START_TEST(zero_units_are_dropped_without_a_trace)
{
    static const char *const zeros[] = {"blk.1.attn_output.weight", "blk.2.ffn_norm.weight", NULL};
    char path[] = "/tmp/lacuna-test-XXXXXX";
    write_zeroed(path, zeros, "A1,F2");
    lac_engine_options options = options_of(0);
    options.model_path = path;
    lac_engine *engine = runner_engine(&options);
    lac_engine_stats stats;
    lac_engine_stats_read(engine, &stats);
    ck_assert_uint_eq(stats.units_zeroed, 2);
    ck_assert_uint_eq(stats.units_loaded, 2 * LAYERS - 2);
    ck_assert_int_eq(lac_engine_unit(engine, 2, NULL), LAC_UNIT_ERASED);
    float *dropped = scored(engine, 0);
    lac_engine_destroy(&engine);
    options.keep_zeroed = true;
    engine = runner_engine(&options);
    lac_engine_stats_read(engine, &stats);
    ck_assert_uint_eq(stats.units_loaded, 2 * LAYERS);
    ck_assert_int_eq(lac_engine_unit(engine, 2, NULL), LAC_UNIT_ZEROED);
    expect_same_logits(dropped, scored(engine, 0));
    lac_engine_destroy(&engine);
    unlink(path);
}
END_TEST

START_TEST(a_false_promise_is_an_error)
{
    static const char *const zeros[] = {"blk.1.attn_output.weight", NULL};
    char path[] = "/tmp/lacuna-test-XXXXXX";
    write_zeroed(path, zeros, "A1,F0");
    lac_engine_options options = options_of(0);
    options.model_path = path;
    lac_engine *engine = NULL;
    lac_error err = {0};
    ck_assert_int_eq(lac_engine_create(&options, &engine, &err), LAC_ECORRUPT);
    ck_assert_ptr_nonnull(strstr(err.text, "F0"));
    unlink(path);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("classes");
    TCase *tc = tcase_create("classes");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, full_is_untouched_by_classes);
    tcase_add_test(tc, a_mixed_batch_changes_nothing);
    tcase_add_test(tc, lists_equal_a_program_without_the_units);
    tcase_add_test(tc, pages_only_for_kept_attention);
    tcase_add_test(tc, no_attention_at_all);
    tcase_add_test(tc, preemption_keeps_classes);
    tcase_add_test(tc, a_class_lasts_as_long_as_its_sequence);
    tcase_add_test(tc, what_is_refused);
    tcase_add_test(tc, zero_units_are_dropped_without_a_trace);
    tcase_add_test(tc, a_false_promise_is_an_error);
    suite_add_tcase(suite, tc);
    return runner_main(suite);
}
