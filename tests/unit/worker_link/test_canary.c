/* Canaries: every class on the texts of the types it serves, again after the pause, anew after an
 * interruption. The engine is the fake one: a token a byte, each text takes FAKE_SHADOW_STEPS. */
#include <string.h>

#include "fake_engine.h"
#include "link/canary.h"
#include "suites.h"

static lac_plan plan;
static fake_state state;

static lac_engine *setup(void)
{
    static char abcdef[] = "abcdef", xy[] = "xy", prose[] = "prose";
    fake = &state;
    memset(&state, 0, sizeof state);
    plan = (lac_plan){.classes_count = 1};
    plan.classes[0].digest.bytes[0] = 1;
    plan.classes[0].serves[LAC_INPUT_CODE].tier = LAC_TIER_GOLD;
    plan.canaries[LAC_INPUT_CODE] = (lac_plan_canaries){2, {abcdef, xy}};
    plan.canaries[LAC_INPUT_UNSTRUCTURED] = (lac_plan_canaries){1, {prose}}; /* nobody serves it */
    lac_engine_options options = {.model_path = "", .classes_count = 1};
    lac_engine *engine = NULL;
    ck_assert_int_eq(lac_engine_create(&options, &engine, NULL), LAC_OK);
    return engine;
}

/* Works until there is a score; false when nothing more is due. */
static bool next_score(lac_canaries *c, lac_engine *engine, uint64_t now, lac_shadow *out)
{
    bool scored = false;
    for (int i = 0; i < 1000 && !scored; i++)
        if (!lac_canaries_work(c, engine, now, out, &scored))
            return false;
    ck_assert(scored);
    return true;
}

START_TEST(a_round_scores_what_is_served)
{
    lac_engine *engine = setup();
    lac_canaries *c = lac_canaries_create(&plan);
    lac_shadow score;
    ck_assert_uint_eq(lac_canaries_due_ms(c), 0);
    ck_assert(next_score(c, engine, 1000, &score));
    ck_assert(score.canary);
    ck_assert_uint_eq(score.class_digest.bytes[0], 1);
    ck_assert_int_eq(score.input_type, LAC_INPUT_CODE);
    ck_assert_uint_eq(score.tokens, 5 + 1); /* the first of each text is given */
    ck_assert_double_eq(score.kl_mean, 0.5);
    ck_assert_float_eq(score.top1_agree, 0.75f);
    ck_assert(!next_score(c, engine, 1000, &score));
    ck_assert_uint_eq(atomic_load(&fake->shadow_starts), 2);
    ck_assert_uint_eq(lac_canaries_due_ms(c), 1000 + LAC_CANARY_MS);
    ck_assert(!next_score(c, engine, 999 + LAC_CANARY_MS, &score));
    ck_assert(next_score(c, engine, 1000 + LAC_CANARY_MS, &score));
    ck_assert_uint_eq(atomic_load(&fake->shadow_starts), 4);
    lac_canaries_destroy(&c);
    lac_engine_destroy(&engine);
}
END_TEST

START_TEST(an_interrupted_text_begins_anew)
{
    lac_engine *engine = setup();
    lac_canaries *c = lac_canaries_create(&plan);
    lac_shadow score;
    bool scored;
    for (int i = 0; i < 10; i++)
        ck_assert(lac_canaries_work(c, engine, 0, &score, &scored) && !scored);
    ck_assert(lac_canaries_scoring(c));
    lac_canaries_interrupt(c, engine);
    lac_canaries_interrupt(c, engine);
    ck_assert(!lac_canaries_scoring(c));
    ck_assert_uint_eq(atomic_load(&fake->shadow_stops), 1);
    ck_assert(next_score(c, engine, 0, &score));
    ck_assert_uint_eq(score.tokens, 6);
    ck_assert_uint_eq(atomic_load(&fake->shadow_starts), 3);
    lac_canaries_destroy(&c);
    lac_engine_destroy(&engine);
}
END_TEST

START_TEST(without_texts_nothing_is_due)
{
    lac_shadow score;
    bool scored = true;
    lac_engine *engine = setup();
    memset(plan.canaries, 0, sizeof plan.canaries);
    for (int i = 0; i < 2; i++) {
        lac_canaries *c = lac_canaries_create(i ? &plan : NULL);
        ck_assert_uint_eq(lac_canaries_due_ms(c), UINT64_MAX);
        ck_assert(!lac_canaries_work(c, engine, 1, &score, &scored) && !scored);
        lac_canaries_destroy(&c);
    }
    lac_engine_destroy(&engine);
}
END_TEST

Suite *suite_canary(void)
{
    Suite *suite = suite_create("canary");
    TCase *tc = tcase_create("canary");
    tcase_add_test(tc, a_round_scores_what_is_served);
    tcase_add_test(tc, an_interrupted_text_begins_anew);
    tcase_add_test(tc, without_texts_nothing_is_due);
    suite_add_tcase(suite, tc);
    return suite;
}
