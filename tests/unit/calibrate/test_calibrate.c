/* The whole of a calibration on a tiny model: a unit made harmless is found, certified and written
 * as a class; nothing is certified where nothing is harmless; a run that was stopped anywhere ends
 * as one that was not; the command's exit statuses. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/rng.h"
#include "calibrate/calibrate.h"
#include "model/gguf_write.h"
#include "model/model.h"
#include "plan/plan.h"

#define MODEL LAC_TINY_DIR "/tiny-llama-f32.gguf"
enum { LAYERS = 2, HARMLESS = 2 /* A1 */ };

static char folder[64], harmless[128], state[128];
static lac_prompt_set calibration, holdout;

/* ---- inputs ---- */

/* The model with the output projections of some attentions ("01": layers 0 and 1) at a part of
 * their size. */
static void harmless_write(const char *layers, float part)
{
    lac_gguf *gguf = NULL;
    ck_assert_int_eq(lac_gguf_open(MODEL, &gguf, NULL), LAC_OK);
    lac_gguf_writer *writer = lac_gguf_writer_create(gguf);
    lac_gguf_tensor small[LAYERS];
    float *data[LAYERS] = {NULL};
    for (size_t i = 0; i < lac_gguf_tensor_count(gguf); i++) {
        const lac_gguf_tensor *t = lac_gguf_tensor_at(gguf, i);
        uint32_t layer = strncmp(t->name, "blk.", 4) == 0 ? (uint32_t)(t->name[4] - '0') : LAYERS;
        if (layer >= LAYERS || strcmp(t->name + 5, ".attn_output.weight") != 0 ||
            !strchr(layers, t->name[4])) {
            lac_gguf_writer_tensor(writer, t->name, t, false);
            continue;
        }
        ck_assert_int_eq(t->type, LAC_TYPE_F32);
        data[layer] = malloc(t->bytes);
        for (size_t k = 0; k < t->elements; k++)
            data[layer][k] = ((const float *)t->data)[k] * part;
        small[layer] = *t;
        small[layer].data = data[layer];
        lac_gguf_writer_tensor(writer, t->name, &small[layer], false);
    }
    snprintf(harmless, sizeof harmless, "%s/harmless.gguf", folder);
    ck_assert_int_eq(lac_gguf_writer_write(writer, harmless, NULL), LAC_OK);
    lac_gguf_writer_destroy(&writer);
    lac_gguf_close(&gguf);
    for (int l = 0; l < LAYERS; l++)
        free(data[l]);
}

/* Random words, of other letters in each set. */
static void prompts_text(uint32_t documents, uint32_t requests, const char *letters, lac_buf *out)
{
    lac_rng rng;
    lac_rng_seed(&rng, (uint64_t)letters[0]);
    for (uint32_t d = 0; d < documents; d++)
        for (uint32_t r = 0; r < requests; r++) {
            lac_buf_printf(out,
                           "{\"id\":\"%c%u.%u\",\"document\":\"%c%u\",\"type\":\"structured\","
                           "\"text\":\"",
                           letters[0], d, r, letters[0], d);
            for (int i = 0; i < 60; i++)
                lac_buf_printf(out, "%c%s", letters[lac_rng_below(&rng, strlen(letters))],
                               i % 4 == 3 ? " " : "");
            lac_buf_text(out, "\"}\n");
        }
}

static void file_put(const char *name, const lac_buf *text)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text->data, 1, text->length, file), text->length);
    fclose(file);
}

static void setup(void)
{
    snprintf(folder, sizeof folder, "/tmp/lacuna-calibrate-%d", (int)getpid());
    ck_assert_int_eq(mkdir(folder, 0700), 0);
    snprintf(state, sizeof state, "%s/state", folder);
    harmless_write("1", 0.002f);
    lac_buf a = {0}, b = {0};
    prompts_text(16, 4, "abcdefgh", &a);
    prompts_text(LAC_CALIBRATE_DOCUMENTS_MIN, 5, "ijklmnop0123456789", &b);
    file_put("prompts.jsonl", &a);
    file_put("holdout.jsonl", &b);
    ck_assert_int_eq(
        lac_prompts_parse("a", a.data, a.length, "structured", NULL, &calibration, NULL), LAC_OK);
    ck_assert_int_eq(lac_prompts_parse("b", b.data, b.length, "structured", NULL, &holdout, NULL),
                     LAC_OK);
    lac_buf_free(&a);
    lac_buf_free(&b);
}

static void teardown(void)
{
    char command[128];
    lac_prompts_free(&calibration);
    lac_prompts_free(&holdout);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

static lac_calibrate_options options_of(const char *model)
{
    return (lac_calibrate_options){.model_path = model,
                                   .threads = 1,
                                   .calibration = &calibration,
                                   .holdout = &holdout,
                                   .tier = LAC_TIER_STANDARD,
                                   .state_path = state,
                                   .window = 48,
                                   .fit_tokens = 1500,
                                   .select_tokens = 500,
                                   .preselect = 6,
                                   .candidates = 5,
                                   .shortlist = 4,
                                   .units_max = 3,
                                   .swaps = 1,
                                   .patches = true,
                                   .rank_max = 16,
                                   .batch = 1,
                                   .context = 64};
}

static lac_calibrate_result *calibrated(const lac_calibrate_options *options)
{
    lac_calibrate_result *result = NULL;
    lac_error err = {0};
    lac_status status = lac_calibrate(options, &result, &err);
    ck_assert_msg(status == LAC_OK, "%s", err.text);
    return result;
}

/* ---- what is found ---- */

START_TEST(a_harmless_unit_is_found)
{
    lac_calibrate_options options = options_of(harmless);
    options.patches = _i == 0;
    lac_calibrate_result *r = calibrated(&options);
    uint32_t point = r->certified[LAC_TIER_GOLD];
    ck_assert_uint_gt(point, 0);
    const lac_calibrate_point *p = &r->points[point];
    ck_assert(lac_mask_has(&p->mask, HARMLESS));
    ck_assert_uint_eq(lac_mask_count(&p->mask), 1);
    ck_assert(p->measured && p->tier == LAC_TIER_GOLD);
    ck_assert(p->kl.mean > 0 && p->kl.mean <= p->kl.high && p->kl.high < 0.01);
    ck_assert(p->top1.mean > 0.9 && p->p95 >= p->kl.mean);
    ck_assert_uint_eq(p->patches_count, options.patches ? 1 : 0);
    ck_assert(p->cost_saved > 0.01 && p->cost_saved < 0.5);
    ck_assert_uint_eq(r->documents, LAC_CALIBRATE_DOCUMENTS_MIN);
    ck_assert_uint_eq(r->requests, LAC_CALIBRATE_REQUESTS_MIN);
    ck_assert(r->enough);
    uint64_t kinds = 0;
    for (int k = 0; k < LAC_KINDS; k++)
        kinds += p->kind_tokens[k];
    ck_assert_uint_eq(kinds, r->tokens - r->requests); /* the last token has no next */
    lac_calibrate_result_free(&r);
    (void)unlink(state);
}
END_TEST

START_TEST(patches_make_up_for_the_unit)
{
    lac_calibrate_options options = options_of(harmless);
    lac_calibrate_result *with = calibrated(&options);
    (void)unlink(state);
    options.patches = false;
    lac_calibrate_result *without = calibrated(&options);
    ck_assert(with->points[1].search_kl < without->points[1].search_kl);
    ck_assert(with->points[1].cost_saved < without->points[1].cost_saved);
    lac_calibrate_result_free(&with);
    lac_calibrate_result_free(&without);
    (void)unlink(state);
}
END_TEST

/* Two units: the second patch is fitted to what the first left over. */
START_TEST(patches_are_fitted_together)
{
    harmless_write("01", 0.03f);
    lac_calibrate_options options = options_of(harmless);
    options.tier = LAC_TIER_ECONOMY;
    options.candidates = options.units_max = 2; /* the two attentions */
    lac_calibrate_result *with = calibrated(&options);
    (void)unlink(state);
    options.patches = false;
    lac_calibrate_result *without = calibrated(&options);
    lac_mask both = {0};
    lac_mask_set(&both, 0);
    lac_mask_set(&both, 2);
    const lac_calibrate_point *p = NULL, *q = NULL;
    for (uint32_t i = 0; i < with->points_count; i++)
        p = lac_mask_equal(&with->points[i].mask, &both) ? &with->points[i] : p;
    for (uint32_t i = 0; i < without->points_count; i++)
        q = lac_mask_equal(&without->points[i].mask, &both) ? &without->points[i] : q;
    ck_assert(p && q);
    ck_assert_msg(p->search_kl < 0.6 * q->search_kl, "%g with patches, %g without", p->search_kl,
                  q->search_kl);
    lac_calibrate_result_free(&with);
    lac_calibrate_result_free(&without);
    (void)unlink(state);
}
END_TEST

/* Whatever the harm: a certificate is a bound within the tier, and the deepest there is. */
START_TEST(certificates_keep_their_tier)
{
    static const float parts[] = {0.05f, 0.1f, 0.15f, 0.2f, 0.3f, 0.4f};
    uint32_t near = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        harmless_write("01", parts[i]);
        lac_calibrate_options options = options_of(harmless);
        options.patches = false;
        options.tier = LAC_TIER_ECONOMY;
        lac_calibrate_result *r = calibrated(&options);
        for (lac_tier tier = LAC_TIER_GOLD; tier < LAC_TIERS; tier++) {
            uint32_t best = 0;
            for (uint32_t p = 1; p < r->points_count; p++) {
                bool within =
                    r->points[p].measured && r->points[p].kl.high <= lac_tier_kl_max(tier);
                near += r->points[p].measured && !within;
                if (within && r->points[p].cost_saved > r->points[best].cost_saved)
                    best = p;
            }
            ck_assert_uint_eq(r->certified[tier], best);
        }
        lac_calibrate_result_free(&r);
        (void)unlink(state);
    }
    ck_assert_uint_gt(near, 0); /* some were measured and not good enough */
}
END_TEST

START_TEST(nothing_is_certified_where_nothing_is_harmless)
{
    lac_calibrate_options options = options_of(MODEL);
    options.patches = false;
    lac_calibrate_result *r = calibrated(&options);
    for (int t = 0; t < LAC_TIERS; t++)
        ck_assert_uint_eq(r->certified[t], 0);
    ck_assert_uint_ge(r->points_count, 2); /* the curve says by how much */
    ck_assert(r->points[1].search_kl > 0.03);
    lac_calibrate_result_free(&r);
    (void)unlink(state);
}
END_TEST

START_TEST(too_few_requests_certify_nothing)
{
    lac_calibrate_options options = options_of(harmless);
    options.requests_max = LAC_CALIBRATE_REQUESTS_MIN - 1;
    lac_calibrate_result *r = calibrated(&options);
    ck_assert(!r->enough);
    ck_assert_uint_eq(r->certified[LAC_TIER_GOLD], 0);
    ck_assert(r->points[1].measured && r->points[1].kl.high < 0.01);
    lac_calibrate_result_free(&r);
    (void)unlink(state);
}
END_TEST

/* ---- going on ---- */

static void same_results(const lac_calibrate_result *a, const lac_calibrate_result *b)
{
    ck_assert_uint_eq(a->points_count, b->points_count);
    ck_assert_mem_eq(a->certified, b->certified, sizeof a->certified);
    for (uint32_t i = 0; i < a->points_count; i++) {
        const lac_calibrate_point *p = &a->points[i], *q = &b->points[i];
        ck_assert(lac_mask_equal(&p->mask, &q->mask));
        ck_assert_mem_eq(&p->kl, &q->kl, sizeof p->kl);
        ck_assert_double_eq(p->search_kl, q->search_kl);
        ck_assert_double_eq(p->p95, q->p95);
        ck_assert_uint_eq(p->patches_count, q->patches_count);
        for (uint32_t k = 0; k < p->patches_count; k++)
            ck_assert_mem_eq(p->patches[k].up, q->patches[k].up,
                             sizeof(float) * p->patches[k].rank * p->patches[k].hidden);
    }
}

START_TEST(a_run_that_was_killed_ends_the_same)
{
    lac_calibrate_options options = options_of(harmless);
    lac_calibrate_result *whole = calibrated(&options);
    struct stat info;
    ck_assert_int_eq(stat(state, &info), 0);
    for (int cut = 1; cut < 8; cut++) {
        ck_assert_int_eq(truncate(state, info.st_size * cut * cut / 64), 0);
        lac_calibrate_result *again = calibrated(&options);
        same_results(whole, again);
        lac_calibrate_result_free(&again);
    }
    lac_calibrate_result_free(&whole);
}
END_TEST

static bool stop(void *arg, const char *stage, double share)
{
    ck_assert_ptr_nonnull(stage);
    ck_assert(share >= 0 && share <= 1);
    return (*(int *)arg)-- > 0;
}

START_TEST(a_run_can_be_stopped_and_goes_on)
{
    lac_calibrate_options options = options_of(harmless);
    lac_calibrate_result *whole = calibrated(&options), *result = NULL;
    (void)unlink(state);
    int calls = 0;
    lac_error err = {0};
    options.progress = stop;
    options.progress_arg = &calls;
    ck_assert_int_eq(lac_calibrate(&options, &result, &err), LAC_ECANCELLED);
    ck_assert_ptr_null(result);
    options.progress = NULL;
    result = calibrated(&options);
    same_results(whole, result);
    lac_calibrate_result_free(&whole);
    lac_calibrate_result_free(&result);
}
END_TEST

START_TEST(bad_options_are_named)
{
    lac_calibrate_options options = options_of(harmless);
    lac_calibrate_result *result = NULL;
    lac_error err = {0};
    options.window = 4;
    ck_assert_int_eq(lac_calibrate(&options, &result, &err), LAC_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "window is 4, allowed 8..512"));
    options = options_of(harmless);
    options.rank = 12;
    ck_assert_int_eq(lac_calibrate(&options, &result, &err), LAC_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "rank is 12"));
    options = options_of(harmless);
    options.tier = LAC_TIER_NONE;
    ck_assert_int_eq(lac_calibrate(&options, &result, &err), LAC_EINVAL);
}
END_TEST

/* ---- the curve ---- */

START_TEST(curve_is_written)
{
    lac_calibrate_options options = options_of(harmless);
    lac_calibrate_result *r = calibrated(&options);
    lac_buf csv = {0}, svg = {0};
    lac_calibrate_csv(r, &csv);
    lac_calibrate_svg(r, "a <title> & more", &svg);
    uint32_t lines = 0;
    for (size_t i = 0; i < csv.length; i++)
        lines += csv.data[i] == '\n';
    ck_assert_uint_eq(lines, r->points_count + 1);
    ck_assert_ptr_nonnull(strstr(csv.data, "\n1,\"A1\","));
    ck_assert_ptr_nonnull(strstr(csv.data, ",gold,"));
    ck_assert_ptr_nonnull(strstr(svg.data, "a &#60;title> &#38; more"));
    ck_assert_ptr_nonnull(strstr(svg.data, "</svg>"));
    lac_buf_free(&csv);
    lac_buf_free(&svg);
    lac_calibrate_result_free(&r);
}
END_TEST

/* ---- the command ---- */

static int command(const char *model, const char *holdout_name, const char *more)
{
    char line[1024];
    snprintf(line, sizeof line,
             "%s calibrate --model %s --type structured --prompts %s/prompts.jsonl --holdout %s/%s "
             "--out %s/plan.json --threads 1 --window 48 --fit-tokens 1500 --select-tokens 500 "
             "--units 2 --context 64 --rank-max 16 %s >%s/out 2>%s/err",
             LAC_ENGINE_PROGRAM, model, folder, folder, holdout_name, folder, more, folder, folder);
    int status = system(line);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool said(const char *file, const char *text)
{
    char path[160], bytes[4096] = "";
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *in = fopen(path, "rb");
    ck_assert_ptr_nonnull(in);
    ck_assert_uint_lt(fread(bytes, 1, sizeof bytes - 1, in), sizeof bytes - 1);
    fclose(in);
    return strstr(bytes, text) != NULL;
}

START_TEST(command_writes_a_plan)
{
    ck_assert_int_eq(command(harmless, "holdout.jsonl", ""), 0);
    char path[160];
    snprintf(path, sizeof path, "%s/plan.json", folder);
    lac_model *model = NULL;
    lac_plan *plan = NULL;
    lac_error err = {0};
    ck_assert_int_eq(lac_model_open(harmless, &model, NULL), LAC_OK);
    ck_assert_msg(lac_plan_load(path, model, &plan, &err) == LAC_OK, "%s", err.text);
    const lac_plan_class *class = lac_plan_find(plan, "structured-gold");
    ck_assert_ptr_nonnull(class);
    ck_assert(lac_mask_has(&class->mask, HARMLESS));
    ck_assert_uint_eq(class->patches_count, 1);
    const lac_plan_serve *serve = &class->serves[LAC_INPUT_STRUCTURED];
    ck_assert_int_eq(serve->tier, LAC_TIER_GOLD);
    ck_assert_uint_eq(serve->certificate.requests, LAC_CALIBRATE_REQUESTS_MIN);
    ck_assert_uint_eq(serve->certificate.documents, LAC_CALIBRATE_DOCUMENTS_MIN);
    ck_assert(serve->certificate.kl_upper > 0 && serve->certificate.kl_upper <= 0.01);
    ck_assert_mem_eq(&serve->certificate.data, &holdout.digest, sizeof holdout.digest);
    ck_assert_str_eq(serve->certificate.method, LAC_STAT_METHOD);
    ck_assert(said("plan.json.csv", "\"A1\""));
    snprintf(path, sizeof path, "%s/plan.json.state", folder);
    ck_assert_int_ne(access(path, F_OK), 0);
    lac_plan_destroy(&plan);
    lac_model_close(&model);
}
END_TEST

START_TEST(command_says_when_nothing_is_certified)
{
    ck_assert_int_eq(command(MODEL, "holdout.jsonl", "--no-patches"), 3);
    ck_assert(said("out", "no mask certified for type structured at tier standard"));
    ck_assert(said("plan.json", "\"classes\""));
    ck_assert(!said("plan.json", "structured-"));
}
END_TEST

START_TEST(command_refuses)
{
    ck_assert_int_eq(command(MODEL, "prompts.jsonl", ""), 1);
    ck_assert(said("err", "hold-out overlaps calibration"));
    ck_assert_int_eq(command(MODEL, "holdout.jsonl", "--tier platinum"), 2);
    ck_assert(said("err", "--tier is \"platinum\", allowed gold, standard, economy"));
    ck_assert_int_eq(command(MODEL, "holdout.jsonl", "--type prose"), 2);
    ck_assert_int_eq(command("/no/such/model", "holdout.jsonl", ""), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("calibrate");
    TCase *tcase = tcase_create("calibrate");
    tcase_set_timeout(tcase, 240);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, a_harmless_unit_is_found, 0, 2);
    tcase_add_test(tcase, patches_make_up_for_the_unit);
    tcase_add_test(tcase, patches_are_fitted_together);
    tcase_add_test(tcase, certificates_keep_their_tier);
    tcase_add_test(tcase, nothing_is_certified_where_nothing_is_harmless);
    tcase_add_test(tcase, too_few_requests_certify_nothing);
    tcase_add_test(tcase, a_run_that_was_killed_ends_the_same);
    tcase_add_test(tcase, a_run_can_be_stopped_and_goes_on);
    tcase_add_test(tcase, bad_options_are_named);
    tcase_add_test(tcase, curve_is_written);
    tcase_add_test(tcase, command_writes_a_plan);
    tcase_add_test(tcase, command_says_when_nothing_is_certified);
    tcase_add_test(tcase, command_refuses);
    suite_add_tcase(suite, tcase);
    SRunner *all = srunner_create(suite);
    srunner_run_all(all, CK_NORMAL);
    int failed = srunner_ntests_failed(all);
    srunner_free(all);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
