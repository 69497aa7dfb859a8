/* Parts of the forward pass: put together they give the bits of scoring, with units left out those
 * of a class; what is out of range is refused by name. */
#include <stdio.h>

#include "engine/span.h"
#include "runner.h"

enum { ROWS = 70, LAYERS = 3, UNITS = 2 * LAYERS };

static uint32_t tokens[ROWS];
static const char *const models[] = {"tiny-llama-q4_1.gguf", "tiny-gemma3-q8_0.gguf",
                                     "tiny-qwen3-q4_0.gguf"};

static lac_engine *engine_of(const char *file, const char *mask)
{
    static lac_engine_class class;
    char path[512];
    snprintf(path, sizeof path, LAC_TINY_DIR "/%s", file);
    lac_engine_options options = {.model_path = path, .threads = 1};
    if (mask) {
        lac_model *model = NULL;
        ck_assert_int_eq(lac_model_open(path, &model, NULL), LAC_OK);
        class = (lac_engine_class){.name = "masked"};
        ck_assert_int_eq(lac_mask_parse(mask, model->layers_count, &class.mask, NULL), LAC_OK);
        lac_model_close(&model);
        options.classes = &class;
        options.classes_count = 1;
    }
    return runner_engine(&options);
}

typedef struct {
    uint32_t vocab;
    float *logits; /* [ROWS][vocab] */
} table;

static void take(void *arg, size_t index, const float *logits)
{
    table *t = arg;
    memcpy(t->logits + index * t->vocab, logits, t->vocab * sizeof *logits);
}

static table scored(lac_engine *engine, uint32_t class_index)
{
    table t = {.vocab = lac_engine_model(engine)->vocab};
    t.logits = calloc((size_t)ROWS * t.vocab, sizeof(float));
    ck_assert_int_eq(lac_engine_score_as(engine, class_index, tokens, ROWS, take, &t, NULL),
                     LAC_OK);
    return t;
}

/* Unit by unit, but those of the mask, then the head. */
static table walked(lac_engine *engine, const lac_mask *mask)
{
    const lac_model *model = lac_engine_model(engine);
    table t = {.vocab = model->vocab};
    t.logits = calloc((size_t)ROWS * t.vocab, sizeof(float));
    float *h = calloc((size_t)ROWS * model->hidden, sizeof(float));
    ck_assert_int_eq(lac_engine_units_run(engine, 0, 0, tokens, ROWS, NULL, h, NULL), LAC_OK);
    for (uint32_t u = 0; u < 2 * model->layers_count; u++)
        if (!lac_mask_has(mask, u))
            ck_assert_int_eq(lac_engine_units_run(engine, u, u + 1, NULL, ROWS, h, h, NULL),
                             LAC_OK);
    ck_assert_int_eq(lac_engine_head_run(engine, h, ROWS, take, &t, NULL), LAC_OK);
    free(h);
    return t;
}

static void tokens_fill(void)
{
    for (uint32_t i = 0; i < ROWS; i++)
        tokens[i] = 3 + (i * 37 + i * i * 5) % 200;
}

START_TEST(parts_are_the_whole)
{
    tokens_fill();
    lac_engine *engine = engine_of(models[_i], NULL);
    lac_mask none = {0};
    table want = scored(engine, 0), got = walked(engine, &none);
    ck_assert_mem_eq(want.logits, got.logits, (size_t)ROWS * want.vocab * sizeof(float));
    free(want.logits);
    free(got.logits);
    lac_engine_destroy(&engine);
}
END_TEST

START_TEST(units_left_out_are_a_class)
{
    tokens_fill();
    lac_engine *masked = engine_of(models[_i], "A1,F0"), *plain = engine_of(models[_i], NULL);
    lac_mask mask = {0};
    lac_mask_set(&mask, 2);
    lac_mask_set(&mask, 1);
    table want = scored(masked, 1), full = scored(masked, 0), got = walked(plain, &mask);
    ck_assert_mem_eq(want.logits, got.logits, (size_t)ROWS * want.vocab * sizeof(float));
    ck_assert(memcmp(full.logits, got.logits, (size_t)ROWS * want.vocab * sizeof(float)) != 0);
    free(want.logits);
    free(full.logits);
    free(got.logits);
    lac_engine_destroy(&masked);
    lac_engine_destroy(&plain);
}
END_TEST

START_TEST(what_does_not_fit_is_refused)
{
    tokens_fill();
    lac_engine *engine = engine_of(models[0], NULL);
    float *h = calloc((size_t)ROWS * lac_engine_model(engine)->hidden, sizeof(float));
    lac_error err = {0};
    ck_assert_int_eq(lac_engine_units_run(engine, 2, 1, tokens, ROWS, h, h, &err), LAC_EINVAL);
    ck_assert_int_eq(lac_engine_units_run(engine, 0, UNITS + 1, tokens, ROWS, NULL, h, &err),
                     LAC_EINVAL);
    ck_assert_int_eq(lac_engine_units_run(engine, 1, 2, tokens, ROWS, NULL, h, &err), LAC_EINVAL);
    ck_assert_int_eq(lac_engine_units_run(engine, 0, 1, tokens, 0, NULL, h, &err), LAC_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "window is 0 tokens"));
    tokens[5] = lac_engine_model(engine)->vocab;
    ck_assert_int_eq(lac_engine_units_run(engine, 0, 1, tokens, ROWS, NULL, h, &err), LAC_EINVAL);
    tokens_fill();
    lac_sampling greedy = runner_greedy(4);
    runner_submit(engine, 1, tokens, 4, &greedy);
    ck_assert_int_eq(lac_engine_units_run(engine, 0, 1, tokens, ROWS, NULL, h, &err), LAC_BUSY);
    lac_engine_destroy(&engine);
    engine = engine_of(models[0], "A1");
    ck_assert_int_eq(lac_engine_units_run(engine, 0, 1, tokens, ROWS, NULL, h, &err),
                     LAC_EUNSUPPORTED);
    ck_assert_int_eq(lac_engine_head_run(engine, h, 1, take, NULL, &err), LAC_EUNSUPPORTED);
    lac_engine_destroy(&engine);
    free(h);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("span");
    TCase *tcase = tcase_create("span");
    tcase_set_timeout(tcase, 60);
    int count = (int)(sizeof models / sizeof models[0]);
    tcase_add_loop_test(tcase, parts_are_the_whole, 0, count);
    tcase_add_loop_test(tcase, units_left_out_are_a_class, 0, count);
    tcase_add_test(tcase, what_does_not_fit_is_refused);
    suite_add_tcase(suite, tcase);
    return runner_main(suite);
}
