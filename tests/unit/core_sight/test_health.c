/* The health of paths: the five figures, their bands and causes, over minutes that pass. Pure. */
#include <check.h>
#include <string.h>

#include "health.h"

static lac__health health;
static lac_check checks[LAC__HEALTH_CHECKS];
static bool changed[LAC__TYPES];

static void add(uint64_t minute, int count, lac__path_sample sample)
{
    for (int i = 0; i < count; i++)
        lac__health_add(&health, minute * 60000, &sample);
}

static void look(uint64_t minute)
{
    lac__health_checks(&health, minute * 60000, checks, changed);
}

/* A request of structured input that a class was chosen for and that kept all promises. */
static lac__path_sample good(void)
{
    return (lac__path_sample){.type = LAC__TYPE_STRUCTURED,
                              .masked = true,
                              .skipped_layers = 3,
                              .chosen = true,
                              .judged = true,
                              .expected = 10,
                              .executed = 10,
                              .predicted_ms = 100,
                              .saved_ms = 100};
}

static lac__path_sample full(lac__type type)
{
    return (lac__path_sample){.type = type, .judged = true};
}

static void begin(void)
{
    health = (lac__health){0};
}

START_TEST(nothing_is_known_of_few)
{
    look(0);
    for (int i = 0; i < LAC__HEALTH_CHECKS; i++)
        ck_assert(!checks[i].known && checks[i].good && !*checks[i].cause);
    add(1, LAC__HEALTH_SAMPLES - 1, good());
    look(1);
    ck_assert(!checks[0].known && !checks[2].known);
    add(1, 1, good());
    look(1);
    ck_assert(checks[0].known && checks[1].known && checks[2].known);
    ck_assert_double_eq(checks[0].value, 1);
    ck_assert_double_eq(checks[1].value, 1);
    ck_assert_double_eq(checks[2].value, 1);
}
END_TEST

START_TEST(ecr_names_what_is_missing)
{
    lac__path_sample partly = good(), fell = good();
    partly.executed = 9; /* 10 % less than promised */
    add(1, 40, good());
    add(1, 40, partly);
    look(1);
    ck_assert_double_eq_tol(checks[0].value, 0.95, 1e-12);
    ck_assert(checks[0].good);
    add(1, 1, partly);
    look(1);
    ck_assert(!checks[0].good);
    ck_assert_str_eq(checks[0].cause, "recomputed");
    fell.executed = 0;
    fell.miss = LAC__MISS_NO_ROOM;
    add(1, 10, fell);
    look(1);
    ck_assert_str_eq(checks[0].cause, "no_room");
    ck_assert_ptr_nonnull(strstr(checks[0].text, "had room (71 %"));
}
END_TEST

/* More than was promised by one request does not make up for another's want. */
START_TEST(ecr_takes_no_surplus)
{
    lac__path_sample none = good(), more = good();
    none.executed = 0;
    more.executed = 20;
    add(1, 20, none);
    add(1, 20, more);
    look(1);
    ck_assert_double_eq_tol(checks[0].value, 0.5, 1e-12);
}
END_TEST

START_TEST(pes_tells_mixed_batches_from_a_slow_class)
{
    lac__path_sample slow = good();
    slow.saved_ms = 60;
    add(1, 30, slow);
    look(1);
    ck_assert_double_eq_tol(checks[1].value, 0.6, 1e-12);
    ck_assert(!checks[1].good);
    ck_assert_str_eq(checks[1].cause, "slower_than_planned");
    slow.mixed = true;
    add(1, 60, slow);
    look(1);
    ck_assert_str_eq(checks[1].cause, "mixed_batches");
    ck_assert(checks[0].good && checks[2].good);
}
END_TEST

START_TEST(psr_counts_falls_and_errors_and_no_cancels)
{
    lac__path_sample bad = good(), gone = good();
    add(1, 248, good());
    bad.miss = LAC__MISS_ERROR;
    add(1, 2, bad);
    look(1);
    ck_assert_double_eq_tol(checks[2].value, 0.992, 1e-12);
    ck_assert(checks[2].good);
    gone.judged = false;
    gone.miss = LAC__MISS_ERROR;
    add(1, 50, gone);
    look(1);
    ck_assert(checks[2].good);
    bad.miss = LAC__MISS_LOST;
    add(1, 3, bad);
    look(1);
    ck_assert(!checks[2].good);
    ck_assert_str_eq(checks[2].cause, "lost");
}
END_TEST

START_TEST(what_is_old_does_not_count)
{
    lac__path_sample bad = good();
    bad.miss = LAC__MISS_WORKER;
    add(1, 100, bad);
    look(5);
    ck_assert(!checks[2].good);
    add(6, 20, good());
    look(6);
    ck_assert(checks[2].good);
    ck_assert_double_eq(checks[2].value, 1);
}
END_TEST

START_TEST(the_band_names_the_types_that_changed)
{
    for (uint64_t minute = 1; minute <= 30; minute++) {
        add(minute, 10, good());
        add(minute, 10, full(LAC__TYPE_UNSTRUCTURED));
    }
    look(30);
    ck_assert(checks[3].known && checks[3].good && checks[4].good);
    ck_assert_double_eq_tol(checks[3].value, 0.5, 1e-12);
    ck_assert_double_eq_tol(checks[4].value, 1.5, 1e-12);
    /* Structured input goes on in full. */
    for (uint64_t minute = 31; minute <= 36; minute++) {
        add(minute, 10, full(LAC__TYPE_STRUCTURED));
        add(minute, 10, full(LAC__TYPE_UNSTRUCTURED));
    }
    look(36);
    ck_assert(!checks[3].good);
    ck_assert_str_eq(checks[3].cause, "structured");
    ck_assert_ptr_nonnull(strstr(checks[3].text, "it fell; types that changed: structured -0.48"));
    ck_assert(changed[LAC__TYPE_STRUCTURED] && !changed[LAC__TYPE_UNSTRUCTURED]);
    ck_assert(!checks[4].good);
}
END_TEST

/* More of a type that is not masked moves the rate too, without any class being at fault. */
START_TEST(a_new_mixture_is_named)
{
    for (uint64_t minute = 1; minute <= 30; minute++)
        add(minute, 20, good());
    add(36, 40, good());
    add(36, 40, full(LAC__TYPE_CODE));
    look(36);
    ck_assert(!checks[3].good);
    ck_assert_str_eq(checks[3].cause, "structured"); /* its share halved */
}
END_TEST

START_TEST(chance_stays_within_the_band)
{
    for (uint64_t minute = 1; minute <= 30; minute++) {
        add(minute, 1, good());
        add(minute, 1, full(LAC__TYPE_CODE));
    }
    add(36, 14, good()); /* 0.7 instead of 0.5, of 20 only */
    add(36, 6, full(LAC__TYPE_CODE));
    look(36);
    ck_assert(checks[3].known);
    ck_assert(checks[3].good);
}
END_TEST

START_TEST(silence_empties_the_ring)
{
    add(1, 100, good());
    look(1 + LAC__HEALTH_MINUTES);
    for (int i = 0; i < LAC__HEALTH_CHECKS; i++)
        ck_assert(!checks[i].known);
    look(1u << 30);
    ck_assert(!checks[0].known);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("health");
    TCase *t = tcase_create("health");
    tcase_add_checked_fixture(t, begin, NULL);
    tcase_add_test(t, nothing_is_known_of_few);
    tcase_add_test(t, ecr_names_what_is_missing);
    tcase_add_test(t, ecr_takes_no_surplus);
    tcase_add_test(t, pes_tells_mixed_batches_from_a_slow_class);
    tcase_add_test(t, psr_counts_falls_and_errors_and_no_cancels);
    tcase_add_test(t, what_is_old_does_not_count);
    tcase_add_test(t, the_band_names_the_types_that_changed);
    tcase_add_test(t, a_new_mixture_is_named);
    tcase_add_test(t, chance_stays_within_the_band);
    tcase_add_test(t, silence_empties_the_ring);
    suite_add_tcase(suite, t);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
