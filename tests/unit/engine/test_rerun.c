/* A class that fails in mid-request: its sequences go on in full, nothing that was said is taken
 * back, and others do not notice. Shadow scoring against scoring by hand. Reaches into the engine
 * to put a backend between that fails as told. */
#include <math.h>

#include "parts.h"
#include "runner.h"

#define MODEL LAC_TINY_DIR "/tiny-llama-q4_1.gguf" /* 3 layers */
enum { ANSWER = 24, PROMPT = 40 };

static runner run, other;
static lac_engine_account accounts[RUNNER_SEQUENCES_MAX];

/* ---- a backend that fails steps of classes ---- */

static lac_backend_ops bent;
static lac_status (*true_run)(lac_backend *, const lac_op *, size_t, lac_batch *, lac_error *);
static uint32_t good_steps; /* class steps that still go well */
static bool with_nan;
static bool with_looks;
static uint32_t sharp_looks; /* looks at logits that still are certain; then all are alike */

/* What the watch sees: certain of the best token at first, then of none. */
static void bend_looks(lac_batch *batch)
{
    for (uint32_t i = 0; i < batch->logit_rows_count; i++) {
        lac_logit_row *row = &batch->logit_rows[i];
        if (!row->logits)
            continue;
        memset(row->logits, 0, 281 * sizeof *row->logits);
        if (sharp_looks > 0)
            row->logits[row->best_token] = 100;
        sharp_looks -= sharp_looks > 0;
    }
}

static lac_status bent_run(lac_backend *backend, const lac_op *ops, size_t count, lac_batch *batch,
                           lac_error *err)
{
    lac_status status = true_run(backend, ops, count, batch, err);
    if (!batch->unit_rows || status != LAC_OK)
        return status;
    if (with_looks)
        bend_looks(batch);
    if (with_looks)
        return LAC_OK;
    if (good_steps > 0) {
        good_steps--;
        return LAC_OK;
    }
    if (!with_nan)
        return lac_fail(err, LAC_EINTERNAL, "told to");
    for (uint32_t i = 0; i < batch->logit_rows_count; i++)
        batch->logit_rows[i].best_logit = NAN;
    return LAC_OK;
}

static lac_engine *engine_make(bool bend)
{
    static lac_engine_class one;
    one = (lac_engine_class){.name = "one"};
    ck_assert_int_eq(lac_mask_parse("A1,F2", 3, &one.mask, NULL), LAC_OK);
    lac_engine_options options = {.model_path = MODEL,
                                  .threads = 1,
                                  .slots = 4,
                                  .classes = &one,
                                  .classes_count = 1,
                                  .speculate = LAC_SPECULATE_OFF}; /* steps are counted */
    lac_engine *engine = runner_engine(&options);
    if (bend) {
        bent = *engine->table;
        true_run = bent.run;
        bent.run = bent_run;
        engine->table = &bent;
    }
    return engine;
}

static const uint32_t *prompt(void)
{
    static uint32_t tokens[PROMPT];
    for (uint32_t t = 0; t < PROMPT; t++)
        tokens[t] = 3 + (t * 37 + t * t * 5) % 270;
    return tokens;
}

static void sink(void *arg, const lac_engine_event *event)
{
    runner_sink(arg, event);
    if (event->account)
        accounts[event->id] = *event->account;
}

static void submit(lac_engine *engine, uint64_t id, uint32_t class_index, const uint32_t *accepted,
                   size_t count)
{
    lac_engine_request request = {.id = id,
                                  .prompt = prompt(),
                                  .prompt_count = PROMPT,
                                  .accepted = accepted,
                                  .accepted_count = count,
                                  .sampling = runner_greedy(ANSWER),
                                  .class_index = class_index};
    request.sampling.ignore_eos = true;
    ck_assert_int_eq(lac_engine_submit(engine, &request, NULL), LAC_OK);
}

static void drain(lac_engine *engine, runner *out)
{
    while (lac_engine_step(engine, sink, out))
        ;
}

/* What full makes of the prompt and the first `kept` tokens of the class. */
static void expect_full_after(const runner_result *got, uint32_t kept)
{
    lac_engine *engine = engine_make(false);
    memset(&other, 0, sizeof other);
    submit(engine, 9, 0, got->tokens, kept);
    drain(engine, &other);
    ck_assert_uint_eq(other.results[9].tokens_count, ANSWER - kept);
    ck_assert_mem_eq(got->tokens + kept, other.results[9].tokens,
                     (ANSWER - kept) * sizeof *got->tokens);
    lac_engine_destroy(&engine);
}

START_TEST(a_failed_class_goes_on_in_full)
{
    enum { GOOD = 6 };
    lac_engine *engine = engine_make(true);
    memset(&run, 0, sizeof run);
    good_steps = GOOD;
    with_nan = _i == 1;
    submit(engine, 1, 1, NULL, 0);
    drain(engine, &run);
    const runner_result *r = &run.results[1];
    ck_assert_int_eq(r->finish, LAC_FINISH_LENGTH);
    ck_assert_uint_eq(r->tokens_count, ANSWER);
    ck_assert_str_eq(accounts[1].class_name, "full");
    ck_assert(accounts[1].rerun);
    ck_assert(accounts[1].skip_rate > 0); /* what the class ran counts too */
    lac_engine_stats stats;
    lac_engine_stats_read(engine, &stats);
    ck_assert_uint_eq(stats.class_reruns, 1);
    ck_assert_uint_eq(stats.kv_pages_used, 0);
    lac_engine_destroy(&engine);
    expect_full_after(r, GOOD); /* the prompt is one step, each token one more */
}
END_TEST

START_TEST(others_do_not_notice)
{
    lac_engine *engine = engine_make(true);
    memset(&run, 0, sizeof run);
    good_steps = 3;
    with_nan = false;
    submit(engine, 1, 1, NULL, 0);
    submit(engine, 2, 0, NULL, 0);
    drain(engine, &run);
    ck_assert_int_eq(run.results[1].finish, LAC_FINISH_LENGTH);
    ck_assert(accounts[1].rerun && !accounts[2].rerun);
    expect_full_after(&run.results[2], 0);
    lac_engine_destroy(&engine);
}
END_TEST

/* Every eighth token is looked at. After four certain ones two that are not are a spike: the
 * request goes on in full from there, and everything before it stays. */
START_TEST(a_class_that_grows_unsure_is_left)
{
    enum { LONG = 64, KEPT = 48 };
    lac_engine *engine = engine_make(true);
    memset(&run, 0, sizeof run);
    with_looks = true;
    sharp_looks = 4;
    lac_engine_request request = {.id = 1,
                                  .prompt = prompt(),
                                  .prompt_count = PROMPT,
                                  .sampling = runner_greedy(LONG),
                                  .class_index = 1};
    request.sampling.ignore_eos = true;
    ck_assert_int_eq(lac_engine_submit(engine, &request, NULL), LAC_OK);
    drain(engine, &run);
    with_looks = false;
    const runner_result *r = &run.results[1];
    ck_assert_int_eq(r->finish, LAC_FINISH_LENGTH);
    ck_assert_uint_eq(r->tokens_count, LONG);
    ck_assert_str_eq(accounts[1].class_name, "full");
    ck_assert(accounts[1].rerun && accounts[1].unsure);
    lac_engine_stats stats;
    lac_engine_stats_read(engine, &stats);
    ck_assert_uint_eq(stats.class_reruns, 1);
    ck_assert_uint_eq(stats.class_unsure, 1);
    ck_assert_uint_eq(stats.kv_pages_used, 0);
    lac_engine_destroy(&engine);
    engine = engine_make(false);
    memset(&other, 0, sizeof other);
    request.class_index = 0;
    request.accepted = r->tokens;
    request.accepted_count = KEPT;
    ck_assert_int_eq(lac_engine_submit(engine, &request, NULL), LAC_OK);
    drain(engine, &other);
    ck_assert_uint_eq(other.results[1].tokens_count, LONG - KEPT);
    ck_assert_mem_eq(r->tokens + KEPT, other.results[1].tokens, (LONG - KEPT) * sizeof *r->tokens);
    lac_engine_destroy(&engine);
}
END_TEST

/* ---- probe ---- */

/* A probe that says the same of everything. */
static lac_probe constant_probe(bool no)
{
    lac_probe p = {.bias = no ? 3 : -3, .threshold = LAC_PROBE_CONFIDENCE};
    for (int f = 0; f < LAC_PROBE_FEATURES; f++)
        p.scale[f] = 1;
    return p;
}

/* The tiny model has the three layers that a probe looks at and no more, so the class leaves out a
 * unit of another one that has been expanded: here one whose probe is what it is asked for. */
static lac_engine *probed_engine(const lac_probe *probe, const char *path, const char *mask)
{
    static lac_engine_class one;
    one = (lac_engine_class){.name = "one", .probe = probe};
    ck_assert_int_eq(lac_mask_parse(mask, 5, &one.mask, NULL), LAC_OK);
    lac_engine_options options = {.model_path = path,
                                  .threads = 2,
                                  .slots = 4,
                                  .classes = &one,
                                  .classes_count = 1,
                                  .keep_zeroed = true,
                                  .without_prefix_cache = true,
                                  .speculate = LAC_SPECULATE_OFF};
    return runner_engine(&options);
}

START_TEST(a_probe_may_only_send_back_to_full)
{
    const char *path = getenv("LACUNA_TEST_EXPANDED");
    ck_assert_msg(path, "the test's main makes it");
    lac_engine_stats stats;
    for (int no = 0; no < 2; no++) {
        lac_probe probe = constant_probe(no);
        lac_engine *engine = probed_engine(&probe, path, "A3,F4");
        memset(&run, 0, sizeof run);
        submit(engine, 1, 1, NULL, 0);
        submit(engine, 2, 0, NULL, 0);
        drain(engine, &run);
        lac_engine_stats_read(engine, &stats);
        ck_assert_uint_eq(stats.class_doubted, (unsigned)no);
        ck_assert_int_eq(accounts[1].doubted, no);
        ck_assert_str_eq(accounts[1].class_name, no ? "full" : "one");
        ck_assert(!accounts[2].rerun);
        ck_assert_uint_eq(run.results[1].tokens_count, ANSWER);
        ck_assert_uint_eq(stats.kv_pages_used, 0);
        /* The rows of the class before its probe looked: those of the first chunk. */
        uint64_t before = accounts[1].tokens - (PROMPT + ANSWER - 1);
        ck_assert(no ? before > 0 && before <= PROMPT : before == 0);
        /* The added blocks do nothing, so that class and full answer alike: with the probe or
         * without. */
        ck_assert_mem_eq(run.results[1].tokens, run.results[2].tokens, ANSWER * sizeof(uint32_t));
        lac_engine_destroy(&engine);
    }
}
END_TEST

/* What it would look at is not what it was trained on: it is not asked. */
START_TEST(a_class_of_early_units_has_no_probe)
{
    lac_probe probe = constant_probe(true);
    lac_engine *engine = probed_engine(&probe, MODEL, "A1");
    memset(&run, 0, sizeof run);
    submit(engine, 1, 1, NULL, 0);
    drain(engine, &run);
    ck_assert_str_eq(accounts[1].class_name, "one");
    lac_engine_destroy(&engine);
    lac_engine_class one = {.name = "one", .probe = &probe};
    lac_mask_set(&one.mask, 2);
    probe.scale[3] = 0;
    lac_engine_options options = {
        .model_path = MODEL, .threads = 1, .slots = 1, .classes = &one, .classes_count = 1};
    lac_error err = {0};
    ck_assert_int_eq(lac_engine_create(&options, &engine, &err), LAC_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "probe"));
}
END_TEST

/* ---- shadow scoring ---- */

typedef struct {
    float *rows; /* [count × vocab] */
    size_t vocab;
} kept_rows;

static void keep_row(void *arg, size_t index, const float *logits)
{
    kept_rows *kept = arg;
    memcpy(kept->rows + index * kept->vocab, logits, kept->vocab * sizeof(float));
}

static double log_p(const float *logits, size_t vocab, size_t v)
{
    long double sum = 0;
    for (size_t i = 0; i < vocab; i++)
        sum += expl((long double)logits[i]);
    return (double)((long double)logits[v] - logl(sum));
}

START_TEST(a_score_is_the_divergence_from_full)
{
    enum { COUNT = PROMPT + ANSWER };
    lac_engine *engine = engine_make(false);
    memset(&run, 0, sizeof run);
    submit(engine, 1, 1, NULL, 0);
    drain(engine, &run);
    uint32_t tokens[COUNT];
    memcpy(tokens, prompt(), PROMPT * sizeof *tokens);
    memcpy(tokens + PROMPT, run.results[1].tokens, ANSWER * sizeof *tokens);

    lac_error err = {0};
    lac_engine_shadow got;
    lac_status status = LAC_BUSY;
    ck_assert_int_eq(lac_engine_shadow_start(engine, 1, tokens, PROMPT, COUNT, &err), LAC_OK);
    ck_assert_int_eq(lac_engine_shadow_start(engine, 1, tokens, PROMPT, COUNT, &err), LAC_BUSY);
    int steps = 1;
    while (!lac_engine_shadow_step(engine, &got, &status))
        steps++;
    ck_assert_int_eq(status, LAC_OK);
    ck_assert_int_gt(steps, 1);
    ck_assert_uint_eq(got.tokens, ANSWER);

    kept_rows sides[2];
    for (uint32_t c = 0; c < 2; c++) {
        sides[c].vocab = lac_engine_model(engine)->vocab;
        sides[c].rows = lac_alloc(COUNT * sides[c].vocab, sizeof(float));
        ck_assert_int_eq(lac_engine_score_as(engine, c, tokens, COUNT, keep_row, &sides[c], &err),
                         LAC_OK);
    }
    double kl = 0;
    for (size_t at = PROMPT - 1; at < COUNT - 1; at++)
        for (size_t v = 0; v < sides[0].vocab; v++) {
            double full = log_p(sides[0].rows + at * sides[0].vocab, sides[0].vocab, v);
            kl +=
                exp(full) * (full - log_p(sides[1].rows + at * sides[1].vocab, sides[1].vocab, v));
        }
    ck_assert_double_gt(kl, 0);
    ck_assert_double_eq_tol(got.kl_mean, kl / ANSWER, 1e-5 * kl);
    for (int c = 0; c < 2; c++)
        free(sides[c].rows);

    lac_engine_stats stats;
    lac_engine_stats_read(engine, &stats);
    ck_assert_uint_eq(stats.kv_pages_used, 0);
    lac_engine_destroy(&engine);
}
END_TEST

START_TEST(a_stopped_score_leaves_nothing)
{
    lac_engine *engine = engine_make(false);
    lac_error err;
    lac_engine_shadow got;
    lac_status status;
    ck_assert_int_eq(lac_engine_shadow_start(engine, 1, prompt(), 8, PROMPT, &err), LAC_OK);
    ck_assert(!lac_engine_shadow_step(engine, &got, &status));
    lac_engine_shadow_stop(engine);
    lac_engine_shadow_stop(engine);
    lac_engine_stats stats;
    lac_engine_stats_read(engine, &stats);
    ck_assert_uint_eq(stats.kv_pages_used, 0);
    memset(&run, 0, sizeof run);
    submit(engine, 1, 0, NULL, 0);
    ck_assert_int_eq(lac_engine_shadow_start(engine, 1, prompt(), 8, PROMPT, &err), LAC_BUSY);
    drain(engine, &run);
    ck_assert_int_eq(lac_engine_shadow_start(engine, 2, prompt(), 8, PROMPT, &err), LAC_EINVAL);
    ck_assert_int_eq(lac_engine_shadow_start(engine, 1, prompt(), 8, 8, &err), LAC_EINVAL);
    ck_assert_int_eq(lac_engine_shadow_start(engine, 1, prompt(), 8, PROMPT, &err), LAC_OK);
    lac_engine_destroy(&engine); /* with a score in progress */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rerun and shadow");
    TCase *tc = tcase_create("engine");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, a_failed_class_goes_on_in_full, 0, 2);
    tcase_add_test(tc, others_do_not_notice);
    tcase_add_test(tc, a_class_that_grows_unsure_is_left);
    tcase_add_test(tc, a_probe_may_only_send_back_to_full);
    tcase_add_test(tc, a_class_of_early_units_has_no_probe);
    tcase_add_test(tc, a_score_is_the_divergence_from_full);
    tcase_add_test(tc, a_stopped_score_leaves_nothing);
    suite_add_tcase(suite, tc);
    SRunner *check = srunner_create(suite);
    srunner_run_all(check, CK_NORMAL);
    int failed = srunner_ntests_failed(check);
    srunner_free(check);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
