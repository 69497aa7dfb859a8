/* The guard: what trips it and what does not, in simulation; the life of its breaker. Losses are
 * Beta distributed with precision 20, as when the figures it is built on were made. */
#include <check.h>
#include <math.h>

#include "base/rng.h"
#include "guard.h"
#include "suites.h"

/* ---- draws ---- */

static double normal(lac_rng *rng)
{
    double u = lac_rng_unit(rng), v = lac_rng_unit(rng);
    return sqrt(-2 * log(u > 0 ? u : 1e-300)) * cos(2 * 3.14159265358979323846 * v);
}

/* Marsaglia and Tsang 2000; below 1 by the power of a uniform. */
static double gamma_draw(lac_rng *rng, double shape)
{
    if (shape < 1) {
        double u = lac_rng_unit(rng);
        return gamma_draw(rng, shape + 1) * pow(u > 0 ? u : 1e-300, 1 / shape);
    }
    double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double x = normal(rng), t = 1 + c * x, v = t * t * t;
        if (v <= 0)
            continue;
        double u = lac_rng_unit(rng);
        if (log(u > 0 ? u : 1e-300) < 0.5 * x * x + d - d * v + d * log(v))
            return d * v;
    }
}

static double beta_draw(lac_rng *rng, double mean)
{
    enum { PRECISION = 20 };
    double a = gamma_draw(rng, mean * PRECISION), b = gamma_draw(rng, (1 - mean) * PRECISION);
    return a + b > 0 ? a / (a + b) : 0;
}

/* Scores until it trips; `most` when it does not. */
static uint32_t scores_to_trip(lac_rng *rng, double mean, uint32_t most)
{
    lac__guard g = {0};
    for (uint32_t i = 1; i <= most; i++)
        if (lac__guard_observe(&g, beta_draw(rng, mean), 1))
            return i;
    return most;
}

/* ---- the figures ---- */

START_TEST(a_doubled_loss_trips_within_130)
{
    enum { RUNS = 2000, WITHIN = 130 };
    lac_rng rng;
    lac_rng_seed(&rng, 11);
    uint32_t in_time = 0;
    for (int i = 0; i < RUNS; i++)
        in_time += scores_to_trip(&rng, 2 * LAC__GUARD_EPSILON, WITHIN + 1) <= WITHIN;
    ck_assert_msg(in_time >= RUNS * 0.9, "%u of %d runs tripped within %d", in_time, RUNS, WITHIN);
}
END_TEST

START_TEST(at_the_bound_it_hardly_ever_trips)
{
    enum { RUNS = 400, SHADOWS = 20000 };
    lac_rng rng;
    lac_rng_seed(&rng, 12);
    uint32_t false_trips = 0;
    for (int i = 0; i < RUNS; i++)
        false_trips += scores_to_trip(&rng, LAC__GUARD_EPSILON, SHADOWS + 1) <= SHADOWS;
    /* At most 5 %, with room for the noise of 400 runs (three deviations: 0.033). */
    ck_assert_msg(false_trips <= RUNS * (0.05 + 0.033), "%u of %d runs tripped", false_trips, RUNS);
}
END_TEST

/* A long good past buys no patience. */
START_TEST(detection_does_not_depend_on_the_past)
{
    lac__guard g = {0};
    for (int i = 0; i < 100000; i++)
        ck_assert(!lac__guard_observe(&g, 0, 1));
    uint32_t bad = 0;
    while (!lac__guard_observe(&g, 0.1, 1))
        bad++;
    ck_assert_uint_le(bad, 14); /* log 10⁴ ÷ log(1 + 12 · 0.08) */
}
END_TEST

START_TEST(losses_are_on_the_bounds_scale)
{
    ck_assert_double_eq(lac__guard_loss(0, 0.03), 0);
    ck_assert_double_eq(lac__guard_loss(0.03, 0.03), LAC__GUARD_EPSILON);
    ck_assert_double_eq(lac__guard_loss(0.06, 0.03), 2 * LAC__GUARD_EPSILON);
    ck_assert_double_eq(lac__guard_loss(1000, 0.03), 1);
    ck_assert_double_eq(lac__guard_loss(1e-9, 0), 1);
    ck_assert_double_eq(lac__guard_loss(0, 0), 0);
    ck_assert_double_eq(lac__guard_loss(NAN, 0.03), 0);
}
END_TEST

/* ---- the breaker ---- */

static void trip(lac__guard *g, uint64_t now_ms)
{
    while (!lac__guard_observe(g, 1, now_ms))
        ;
}

START_TEST(it_opens_cools_and_closes)
{
    lac__guard g = {0};
    trip(&g, 1000);
    ck_assert_int_eq(g.state, LAC__GUARD_OPEN);
    ck_assert_uint_eq(g.trips, 1);
    ck_assert(!lac__guard_observe(&g, 1, 2000)); /* a late score of before changes nothing */
    ck_assert(!lac__guard_tick(&g, 1000 + LAC__GUARD_COOL_MS - 1));
    ck_assert(lac__guard_tick(&g, 1000 + LAC__GUARD_COOL_MS));
    ck_assert_int_eq(g.state, LAC__GUARD_HALF_OPEN);
    for (int i = 1; i < LAC__GUARD_PROBES; i++)
        ck_assert(!lac__guard_observe(&g, i <= LAC__GUARD_PROBES_BAD ? 0.1 : 0.005, 3000000));
    ck_assert(lac__guard_observe(&g, 0.005, 3000000));
    ck_assert_int_eq(g.state, LAC__GUARD_CLOSED);
    ck_assert_uint_eq(g.trips, 1);
    ck_assert_uint_eq(g.opens, 0);
}
END_TEST

START_TEST(bad_probes_open_it_for_longer_then_for_good)
{
    lac__guard g = {0};
    uint64_t now = 1000;
    for (uint32_t round = 1; round < LAC__GUARD_OPENS; round++) {
        if (round == 1)
            trip(&g, now);
        ck_assert_int_eq(g.state, LAC__GUARD_OPEN);
        uint64_t cool = (uint64_t)LAC__GUARD_COOL_MS << (round - 1);
        ck_assert_uint_eq(g.until_ms, now + cool);
        now += cool;
        ck_assert(lac__guard_tick(&g, now));
        for (int i = 0; i < LAC__GUARD_PROBES_BAD; i++)
            ck_assert(!lac__guard_observe(&g, 0.0801, now));
        ck_assert(lac__guard_observe(&g, 0.0801, now));
    }
    ck_assert_int_eq(g.state, LAC__GUARD_REVOKED);
    ck_assert(!lac__guard_tick(&g, UINT64_MAX));
    ck_assert(!lac__guard_observe(&g, 0, now));
}
END_TEST

/* ---- sureness and canaries ---- */

/* Requests that differ as much as they like do not trip it while full differs with them. */
START_TEST(requests_that_differ_are_not_the_classs_fault)
{
    enum { REQUESTS = 20000 };
    lac_rng rng;
    lac_rng_seed(&rng, 13);
    lac__guard g = {0};
    for (int i = 0; i < REQUESTS; i++) {
        double full = 0.3 + 0.7 * lac_rng_unit(&rng); /* deviation 0.20 */
        double class = full + 0.03 * normal(&rng);
        ck_assert_msg(!lac__guard_sureness(&g, class, full, 1), "tripped at request %d", i);
    }
    ck_assert_int_eq(g.state, LAC__GUARD_CLOSED);
}
END_TEST

START_TEST(a_class_that_is_sure_at_random_trips_soon)
{
    enum { RUNS = 500, WITHIN = 40 };
    lac_rng rng;
    lac_rng_seed(&rng, 14);
    uint32_t in_time = 0;
    for (int run = 0; run < RUNS; run++) {
        lac__guard g = {0};
        for (int i = 0; i < WITHIN && g.state == LAC__GUARD_CLOSED; i++)
            lac__guard_sureness(&g, lac_rng_unit(&rng), 0.8 + 0.05 * normal(&rng), 1);
        in_time += g.state == LAC__GUARD_OPEN;
    }
    ck_assert_msg(in_time >= RUNS * 0.99, "%u of %d runs opened within %d", in_time, RUNS, WITHIN);
}
END_TEST

START_TEST(five_looks_decide_and_the_border_is_015)
{
    /* Full as sure each time; the class's sample deviation is exactly d. */
    for (int above = 0; above < 2; above++) {
        double d = above ? 0.1501 : 0.1499, step = d * sqrt(2); /* ±step twice and 0: variance d² */
        lac__guard g = {0};
        const double at[LAC__GUARD_LOOKS] = {step, -step, 0, 0, 0};
        for (int i = 0; i < LAC__GUARD_LOOKS; i++)
            ck_assert_int_eq(lac__guard_sureness(&g, 0.5 + at[i], 0.5, 7),
                             above && i == LAC__GUARD_LOOKS - 1);
        ck_assert_int_eq(g.state, above ? LAC__GUARD_OPEN : LAC__GUARD_CLOSED);
        ck_assert(!lac__guard_sureness(&g, above ? 0 : 0.5, 0.5, 8)); /* open: says nothing more */
    }
}
END_TEST

START_TEST(a_bad_canary_opens_it_at_once)
{
    lac__guard g = {0};
    ck_assert(!lac__guard_canary(&g, LAC__GUARD_BAD * LAC__GUARD_EPSILON, 1));
    ck_assert_int_eq(g.state, LAC__GUARD_CLOSED);
    ck_assert(lac__guard_canary(&g, LAC__GUARD_BAD * LAC__GUARD_EPSILON + 1e-9, 1));
    ck_assert_int_eq(g.state, LAC__GUARD_OPEN);
    ck_assert_uint_eq(g.trips, 1);
    ck_assert(!lac__guard_canary(&g, 1, 2));
    ck_assert(lac__guard_tick(&g, 1 + LAC__GUARD_COOL_MS));
    ck_assert(lac__guard_canary(&g, 1, 3)); /* half open too */
}
END_TEST

TCase *guard_case(void)
{
    TCase *t = tcase_create("guard");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, a_doubled_loss_trips_within_130);
    tcase_add_test(t, at_the_bound_it_hardly_ever_trips);
    tcase_add_test(t, detection_does_not_depend_on_the_past);
    tcase_add_test(t, losses_are_on_the_bounds_scale);
    tcase_add_test(t, it_opens_cools_and_closes);
    tcase_add_test(t, bad_probes_open_it_for_longer_then_for_good);
    tcase_add_test(t, requests_that_differ_are_not_the_classs_fault);
    tcase_add_test(t, a_class_that_is_sure_at_random_trips_soon);
    tcase_add_test(t, five_looks_decide_and_the_border_is_015);
    tcase_add_test(t, a_bad_canary_opens_it_at_once);
    return t;
}
