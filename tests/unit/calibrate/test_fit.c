/* Patches of several units: each is fitted to the stream as the patches below it leave it, so it
 * comes closer to the full model than one fitted to the full model's own states. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "search.h"

enum { FIRST = 0, SECOND = 2 /* A0, A1 of a model of two layers */ };

static char state[64];

static void prompts_make(const char *letters, lac_prompt_set *out)
{
    lac_buf text = {0};
    lac_rng rng;
    lac_rng_seed(&rng, 5);
    for (int d = 0; d < 24; d++) {
        lac_buf_printf(&text,
                       "{\"id\":\"%s%d\",\"document\":\"%s%d\",\"type\":\"code\",\"text\":\"",
                       letters, d, letters, d);
        for (int i = 0; i < 90; i++)
            lac_buf_printf(&text, "%c", letters[lac_rng_below(&rng, strlen(letters))]);
        lac_buf_text(&text, "\"}\n");
    }
    ck_assert_int_eq(lac_prompts_parse("set", text.data, text.length, "code", NULL, out, NULL),
                     LAC_OK);
    lac_buf_free(&text);
}

/* Mean square distance from the full model's states after the second unit. */
static double distance(lac__search *s, const lac__masked *masked)
{
    lac__run *run = s->run;
    const float *wanted = s->fit_after[lac__candidate_index(s, SECOND)];
    float *h = calloc((size_t)run->options->window * run->hidden, sizeof *h);
    double sum = 0;
    for (uint32_t i = 0; i < s->fit.count; i++) {
        const lac__window *w = &s->fit.windows[i];
        ck_assert_int_eq(lac__walk(run, w, masked, 0, SECOND + 1, h, NULL), LAC_OK);
        for (size_t k = 0; k < (size_t)w->count * run->hidden; k++) {
            double d = (double)h[k] - (double)wanted[w->at * run->hidden + k];
            sum += d * d;
        }
    }
    free(h);
    return sum / (double)(s->fit.rows * run->hidden);
}

START_TEST(each_patch_corrects_those_below)
{
    lac_prompt_set calibration = {0}, holdout = {0};
    snprintf(state, sizeof state, "/tmp/lacuna-fit-%d", (int)getpid());
    prompts_make("abcdefgh", &calibration);
    prompts_make("stuvwxyz", &holdout);
    lac_calibrate_options options = {.model_path = LAC_TINY_DIR "/tiny-llama-f32.gguf",
                                     .threads = 1,
                                     .calibration = &calibration,
                                     .holdout = &holdout,
                                     .state_path = state,
                                     .window = 64,
                                     .patches = true,
                                     .rank = 32,
                                     .rank_max = 32,
                                     .batch = 1,
                                     .context = 64};
    lac__run run;
    lac__search s = {0};
    lac_error err = {0};
    ck_assert_msg(lac__run_open(&options, &run, &err) == LAC_OK, "%s", err.text);
    ck_assert_msg(lac__search_open(&run, &s, &err) == LAC_OK, "%s", err.text);
    s.candidates_count = 2;
    s.candidates[0] = FIRST;
    s.candidates[1] = SECOND;

    lac_mask one = {0}, both = {0};
    lac_mask_set(&one, SECOND);
    lac_mask_set(&both, FIRST);
    lac_mask_set(&both, SECOND);
    lac__masked alone, together, bare = {.mask = both};
    ck_assert_msg(lac__search_fit(&s, &one, NULL, 0, &alone, NULL, &err) == LAC_OK, "%s", err.text);
    ck_assert_msg(lac__search_fit(&s, &both, NULL, 0, &together, NULL, &err) == LAC_OK, "%s",
                  err.text);
    double corrected = distance(&s, &together), without = distance(&s, &bare);
    lac_fit_patch own = together.patches[SECOND];
    together.patches[SECOND] = alone.patches[SECOND];
    double uncorrected = distance(&s, &together);
    together.patches[SECOND] = own;
    ck_assert_msg(corrected < 0.98 * uncorrected && uncorrected < without,
                  "corrected %g, not corrected %g, without patches %g", corrected, uncorrected,
                  without);
    /* A patch that an unmasked candidate would get is the one it has once it is in the mask. */
    lac_mask first = {0};
    lac_mask_set(&first, FIRST);
    const uint32_t more[1] = {SECOND};
    lac_fit_patch next = {0};
    lac__masked below;
    ck_assert_int_eq(lac__search_fit(&s, &first, more, 1, &below, &next, &err), LAC_OK);
    ck_assert_uint_eq(next.rank, own.rank);
    ck_assert_mem_eq(next.up, own.up, sizeof(float) * own.rank * own.hidden);
    ck_assert_mem_eq(next.down, own.down, sizeof(float) * own.rank * own.hidden);

    lac_fit_patch_free(&next);
    lac__masked_free(&alone, run.units);
    lac__masked_free(&below, run.units);
    lac__masked_free(&together, run.units);
    lac__search_close(&s);
    lac__run_close(&run);
    lac_prompts_free(&calibration);
    lac_prompts_free(&holdout);
    (void)unlink(state);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fit");
    TCase *tcase = tcase_create("fit");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, each_patch_corrects_those_below);
    suite_add_tcase(suite, tcase);
    SRunner *all = srunner_create(suite);
    srunner_run_all(all, CK_NORMAL);
    int failed = srunner_ntests_failed(all);
    srunner_free(all);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
