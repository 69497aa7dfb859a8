/* Every sampling parameter against a plain reference (sort everything, double precision), the
 * distribution of the draw by chi-square, log-probabilities, replay. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "sampler/sampler.h"

enum { VOCAB_MAX = 5000 };

static lac_sampling plain(void)
{
    return (lac_sampling){
        .temperature = 1, .top_p = 1, .repetition_penalty = 1, .has_seed = true, .seed = 1};
}

/* A choice by a fresh sampler over a copy of the logits. */
static lac_choice choose(const lac_sampling *sampling, const float *logits, uint32_t vocab,
                         uint64_t position, const uint32_t *banned, size_t banned_count)
{
    float copy[VOCAB_MAX];
    memcpy(copy, logits, vocab * sizeof *copy);
    lac_sampler *sampler = lac_sampler_create(sampling, vocab);
    lac_choice choice;
    lac_sampler_choose(sampler, copy, position, banned, banned_count, &choice);
    lac_sampler_destroy(&sampler);
    ck_assert_ptr_null(sampler);
    return choice;
}

static float gauss(lac_rng *rng)
{
    double sum = 0;
    for (int i = 0; i < 12; i++)
        sum += lac_rng_unit(rng);
    return (float)(sum - 6);
}

/* ---- the reference: what is kept, with which probability ---- */

typedef struct {
    double logit, probability;
    uint32_t token;
} entry;

static int descending(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit > y->logit ? -1 : 1;
    return x->token < y->token ? -1 : 1;
}

static int by_token(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    return x->token < y->token ? -1 : 1;
}

static void normalise(entry *entries, size_t count)
{
    double total = 0;
    for (size_t i = 0; i < count; i++)
        total += entries[i].probability;
    for (size_t i = 0; i < count; i++)
        entries[i].probability /= total;
}

/* Fills the kept tokens in order of ids; *near is set when a filter's border is too close to call
 * in single precision. */
static size_t reference(const lac_sampling *s, const float *logits, uint32_t vocab, entry *entries,
                        bool *near)
{
    double best = -INFINITY;
    for (uint32_t i = 0; i < vocab; i++)
        best = fmax(best, (double)logits[i]);
    for (uint32_t i = 0; i < vocab; i++)
        entries[i] =
            (entry){(double)logits[i], exp(((double)logits[i] - best) / (double)s->temperature), i};
    qsort(entries, vocab, sizeof *entries, descending);
    size_t kept = vocab;
    *near = false;
    if (s->top_k > 0 && (size_t)s->top_k < kept)
        kept = (size_t)s->top_k;
    normalise(entries, kept);
    if (s->top_p < 1.0f) {
        double reached = 0;
        for (size_t i = 0; i < kept; i++) {
            reached += entries[i].probability;
            *near |= fabs(reached - (double)s->top_p) < 1e-6;
            if (reached >= (double)s->top_p)
                kept = i + 1;
        }
        normalise(entries, kept);
    }
    if (s->min_p > 0.0f) {
        size_t count = 0;
        for (size_t i = 0; i < kept; i++) {
            double ratio = entries[i].probability / entries[0].probability;
            *near |= fabs(ratio - (double)s->min_p) < 1e-6;
            count += ratio >= (double)s->min_p;
        }
        kept = count;
        normalise(entries, kept);
    }
    qsort(entries, kept, sizeof *entries, by_token);
    return kept;
}

/* Draws many times and compares each with the reference's walk by id. Draws within 1e-5 of a border
 * between two tokens are not compared; there must be few. */
static void compare_with_reference(const lac_sampling *s, const float *logits, uint32_t vocab,
                                   int draws)
{
    static entry entries[VOCAB_MAX];
    bool near;
    size_t kept = reference(s, logits, vocab, entries, &near);
    if (near)
        return;
    int skipped = 0;
    for (int position = 0; position < draws; position++) {
        double unit = lac_rng_draw(s->seed, s->choice, (uint64_t)position), reached = 0;
        size_t at = 0;
        while (at + 1 < kept && reached + entries[at].probability <= unit)
            reached += entries[at++].probability;
        if (unit - reached < 1e-5 || reached + entries[at].probability - unit < 1e-5) {
            skipped++;
            continue;
        }
        lac_choice got = choose(s, logits, vocab, (uint64_t)position, NULL, 0);
        ck_assert_uint_eq(got.token, entries[at].token);
    }
    ck_assert_int_lt(skipped, draws / 4 + 1);
}

START_TEST(filters_against_reference)
{
    lac_rng rng;
    lac_rng_seed(&rng, 7);
    static float logits[VOCAB_MAX];
    const uint32_t vocabs[] = {1, 2, 3, 5, 255, 256, 257, 1000, 4999};
    for (int round = 0; round < 400; round++) {
        uint32_t vocab = vocabs[lac_rng_below(&rng, sizeof vocabs / sizeof *vocabs)];
        bool coarse = lac_rng_below(&rng, 3) == 0; /* many equal logits */
        float scale = (float[]){0.0f, 0.5f, 3.0f, 20.0f}[lac_rng_below(&rng, 4)];
        for (uint32_t i = 0; i < vocab; i++) {
            logits[i] = gauss(&rng) * scale;
            if (coarse)
                logits[i] = roundf(logits[i]);
        }
        lac_sampling s = plain();
        s.seed = lac_rng_next(&rng);
        s.choice = (uint32_t)lac_rng_below(&rng, 4);
        s.temperature = (float[]){1.0f, 0.3f, 0.7f, 2.0f}[lac_rng_below(&rng, 4)];
        s.top_k = (int32_t[]){0, 1, 2, 40, 300, 100000}[lac_rng_below(&rng, 6)];
        s.top_p = (float[]){1.0f, 0.95f, 0.5f, 0.999f, 1e-6f}[lac_rng_below(&rng, 5)];
        s.min_p = (float[]){0.0f, 0.05f, 0.5f, 1.0f}[lac_rng_below(&rng, 4)];
        compare_with_reference(&s, logits, vocab, 16);
    }
}
END_TEST

/* The draw as a distribution: 8 tokens, 40,000 draws, chi-square with 7 degrees of freedom; 24.3 is
 * exceeded once in a thousand, and the seeds are fixed. */
START_TEST(draw_follows_the_distribution)
{
    const float logits[8] = {0.0f, 1.0f, -1.0f, 2.0f, 0.5f, -2.0f, 1.5f, 0.0f};
    for (uint64_t seed = 1; seed <= 5; seed++) {
        lac_sampling s = plain();
        s.seed = seed;
        s.temperature = seed % 2 ? 1.0f : 0.6f;
        double expected[8], total = 0, chi = 0;
        int counts[8] = {0}, draws = 40000;
        for (int i = 0; i < 8; i++)
            total += expected[i] = exp((double)logits[i] / (double)s.temperature);
        for (int position = 0; position < draws; position++)
            counts[choose(&s, logits, 8, (uint64_t)position, NULL, 0).token]++;
        for (int i = 0; i < 8; i++) {
            double want = expected[i] / total * draws;
            chi += (counts[i] - want) * (counts[i] - want) / want;
        }
        ck_assert_double_lt(chi, 24.3);
        ck_assert_double_gt(chi, 0.3); /* too good is not random either */
    }
}
END_TEST

START_TEST(draw_depends_on_all_three_keys)
{
    float logits[64] = {0};
    lac_sampling s = plain(), other = plain(), third = plain();
    other.seed = 2;
    third.choice = 1;
    int differ_seed = 0, differ_choice = 0, differ_position = 0;
    for (uint64_t p = 0; p < 64; p++) {
        uint32_t token = choose(&s, logits, 64, p, NULL, 0).token;
        ck_assert_uint_eq(token, choose(&s, logits, 64, p, NULL, 0).token);
        differ_seed += token != choose(&other, logits, 64, p, NULL, 0).token;
        differ_choice += token != choose(&third, logits, 64, p, NULL, 0).token;
        differ_position += token != choose(&s, logits, 64, p + 64, NULL, 0).token;
    }
    ck_assert(differ_seed > 50 && differ_choice > 50 && differ_position > 50);
}
END_TEST

START_TEST(greedy_takes_the_best_and_the_lower_id)
{
    lac_sampling s = plain();
    s.temperature = 0;
    float logits[6] = {1, 3, 2, 3, NAN, -INFINITY};
    ck_assert_uint_eq(choose(&s, logits, 6, 0, NULL, 0).token, 1);
    const uint32_t banned[] = {1};
    ck_assert_uint_eq(choose(&s, logits, 6, 0, banned, 1).token, 3);
    s.temperature = 1;
    s.top_k = 1;
    for (uint64_t p = 0; p < 20; p++)
        ck_assert_uint_eq(choose(&s, logits, 6, p, NULL, 0).token, 1);
    s.top_k = 0;
    s.temperature = 1e-40f; /* smaller than any normal float */
    for (uint64_t p = 0; p < 20; p++) {
        uint32_t token = choose(&s, logits, 6, p, NULL, 0).token;
        ck_assert(token == 1 || token == 3);
    }
}
END_TEST

START_TEST(banned_tokens_are_never_drawn)
{
    lac_sampling s = plain();
    float logits[4] = {1, 9, 1, 9};
    const uint32_t banned[] = {1, 3};
    int seen[4] = {0};
    for (uint64_t p = 0; p < 200; p++)
        seen[choose(&s, logits, 4, p, banned, 2).token]++;
    ck_assert(seen[1] == 0 && seen[3] == 0 && seen[0] > 50 && seen[2] > 50);
}
END_TEST

START_TEST(nothing_to_choose_by)
{
    lac_sampling s = plain();
    s.logprobs = true;
    s.top_logprobs = 3;
    float logits[3] = {NAN, -INFINITY, NAN};
    lac_choice choice = choose(&s, logits, 3, 0, NULL, 0);
    ck_assert_uint_eq(choice.token, 0);
    ck_assert(choice.chosen.logprob == -1e9f && choice.top_count == 0);
}
END_TEST

START_TEST(bias)
{
    lac_logit_bias entries[] = {{2, 5.0f}, {0, -100.0f}};
    lac_sampling s = plain();
    s.temperature = 0;
    s.bias = entries;
    s.bias_count = 2;
    float logits[4] = {6, 4, 2, 1};
    lac_sampler *sampler = lac_sampler_create(&s, 4);
    ck_assert(!lac_sampler_is_plain_greedy(sampler));
    entries[0].bias = 0; /* the sampler has its own copy */
    lac_choice choice;
    lac_sampler_choose(sampler, logits, 0, NULL, 0, &choice);
    ck_assert_uint_eq(choice.token, 2);
    ck_assert(logits[0] == -94.0f && logits[2] == 7.0f);
    lac_sampler_destroy(&sampler);
}
END_TEST

/* Bias, then repetition, frequency and presence, value by value. */
START_TEST(penalties)
{
    const lac_logit_bias entries[] = {{1, 1.0f}};
    lac_sampling s = plain();
    s.temperature = 0;
    s.repetition_penalty = 2.0f;
    s.frequency_penalty = 0.25f;
    s.presence_penalty = 0.5f;
    s.bias = entries;
    s.bias_count = 1;
    lac_sampler *sampler = lac_sampler_create(&s, 6);
    const uint32_t prompt[] = {0, 1, 1, 2};
    lac_sampler_prompt(sampler, prompt, 4);
    lac_sampler_accept(sampler, 1);
    lac_sampler_accept(sampler, 1);
    lac_sampler_accept(sampler, 1);
    lac_sampler_accept(sampler, 3);
    float logits[6] = {4, 7, -3, 2, 1, -1};
    lac_choice choice;
    lac_sampler_choose(sampler, logits, 0, NULL, 0, &choice);
    ck_assert(logits[0] == 2.0f);                      /* prompt only */
    ck_assert(logits[1] == (7.0f + 1.0f) / 2 - 1.25f); /* three times in the output */
    ck_assert(logits[2] == -6.0f);                     /* a negative one is multiplied */
    ck_assert(logits[3] == 1.0f - 0.75f);
    ck_assert(logits[4] == 1.0f && logits[5] == -1.0f);
    ck_assert_uint_eq(choice.token, 1);
    lac_sampler_destroy(&sampler);
}
END_TEST

START_TEST(presence_and_frequency_leave_the_prompt_alone)
{
    lac_sampling s = plain();
    s.temperature = 0;
    s.presence_penalty = 2;
    lac_sampler *sampler = lac_sampler_create(&s, 3);
    const uint32_t prompt[] = {0, 1};
    lac_sampler_prompt(sampler, prompt, 2);
    lac_sampler_accept(sampler, 1);
    float logits[3] = {5, 6, 1};
    lac_choice choice;
    lac_sampler_choose(sampler, logits, 0, NULL, 0, &choice);
    ck_assert(logits[0] == 5.0f && logits[1] == 4.0f);
    ck_assert_uint_eq(choice.token, 0);
    lac_sampler_destroy(&sampler);
}
END_TEST

/* Many distinct tokens: the table of counts grows and still finds each. */
START_TEST(penalties_over_many_tokens)
{
    static float logits[VOCAB_MAX];
    lac_sampling s = plain();
    s.temperature = 0;
    s.frequency_penalty = 1;
    lac_sampler *sampler = lac_sampler_create(&s, VOCAB_MAX);
    for (uint32_t i = 0; i < 20000; i++)
        lac_sampler_accept(sampler, i * 7919 % 3000);
    lac_choice choice;
    lac_sampler_choose(sampler, logits, 0, NULL, 0, &choice);
    for (uint32_t i = 0; i < VOCAB_MAX; i++) {
        bool counted = logits[i] == -6.0f || logits[i] == -7.0f;
        ck_assert_msg(i < 3000 ? counted : logits[i] == 0.0f, "token %u", i);
    }
    double sum = 0;
    for (uint32_t i = 0; i < VOCAB_MAX; i++)
        sum += (double)logits[i];
    ck_assert_double_eq(sum, -20000.0);
    ck_assert_uint_eq(choice.token, 3000);
    lac_sampler_destroy(&sampler);
}
END_TEST

/* Of the model's own distribution, whatever bias, penalties, temperature and filters do. */
START_TEST(logprobs_are_of_the_raw_distribution)
{
    lac_rng rng;
    lac_rng_seed(&rng, 11);
    static float logits[VOCAB_MAX];
    for (int round = 0; round < 60; round++) {
        uint32_t vocab = 1 + (uint32_t)lac_rng_below(&rng, 3000);
        for (uint32_t i = 0; i < vocab; i++)
            logits[i] = roundf(gauss(&rng) * 40) / 8;
        lac_logit_bias entries[] = {{(uint32_t)lac_rng_below(&rng, vocab), 30.0f}};
        lac_sampling s = plain();
        s.seed = lac_rng_next(&rng);
        s.logprobs = true;
        s.top_logprobs = (uint32_t)lac_rng_below(&rng, LAC_TOP_LOGPROBS_MAX + 1);
        s.temperature = round % 3 == 0 ? 0.0f : 1.7f;
        s.top_k = round % 4 == 0 ? 20 : 0;
        if (round % 2) {
            s.bias = entries;
            s.bias_count = 1;
        }
        if (round % 5 == 0)
            s.repetition_penalty = 1.5f;
        float copy[VOCAB_MAX];
        memcpy(copy, logits, vocab * sizeof *copy);
        lac_sampler *sampler = lac_sampler_create(&s, vocab);
        ck_assert(!lac_sampler_is_plain_greedy(sampler));
        for (uint32_t i = 0; i < vocab; i += 2)
            lac_sampler_accept(sampler, i);
        lac_choice got;
        lac_sampler_choose(sampler, copy, 0, NULL, 0, &got);
        lac_sampler_destroy(&sampler);

        static entry entries_sorted[VOCAB_MAX];
        double total = 0;
        for (uint32_t i = 0; i < vocab; i++) {
            entries_sorted[i] = (entry){(double)logits[i], 0, i};
            total += exp((double)logits[i]);
        }
        qsort(entries_sorted, vocab, sizeof *entries_sorted, descending);
        ck_assert_uint_eq(got.chosen.token, got.token);
        ck_assert_double_lt(
            fabs((double)got.chosen.logprob - ((double)logits[got.token] - log(total))), 1e-5);
        ck_assert_uint_eq(got.top_count, s.top_logprobs < vocab ? s.top_logprobs : vocab);
        for (uint32_t i = 0; i < got.top_count; i++) {
            ck_assert_uint_eq(got.top[i].token, entries_sorted[i].token);
            ck_assert_double_lt(
                fabs((double)got.top[i].logprob - (entries_sorted[i].logit - log(total))), 1e-5);
        }
    }
}
END_TEST

START_TEST(plain_greedy)
{
    lac_sampling s = plain();
    s.temperature = 0;
    s.min_tokens = 2;
    lac_sampler *sampler = lac_sampler_create(&s, 10);
    ck_assert(!lac_sampler_is_plain_greedy(sampler)); /* end tokens are banned as yet */
    lac_sampler_accept(sampler, 3);
    lac_sampler_accept(sampler, 3);
    ck_assert(lac_sampler_is_plain_greedy(sampler));
    lac_sampler_destroy(&sampler);
    lac_sampling changed[6];
    for (int i = 0; i < 6; i++) {
        changed[i] = plain();
        changed[i].temperature = 0;
    }
    changed[0].temperature = 0.1f;
    changed[1].repetition_penalty = 1.1f;
    changed[2].presence_penalty = 0.1f;
    changed[3].frequency_penalty = -0.1f;
    changed[4].ignore_eos = true;
    changed[5].logprobs = true;
    for (int i = 0; i < 6; i++) {
        sampler = lac_sampler_create(&changed[i], 10);
        ck_assert_msg(!lac_sampler_is_plain_greedy(sampler), "case %d", i);
        lac_sampler_destroy(&sampler);
    }
    lac_sampler_destroy(&sampler); /* NULL: nothing happens */
}
END_TEST

/* A sequence that is moved at any point continues as if it had not been. */
START_TEST(replay_continues_exactly)
{
    enum { VOCAB = 700, STEPS = 60 };
    lac_sampling s = plain();
    s.seed = 99;
    s.choice = 3;
    s.temperature = 0.9f;
    s.top_p = 0.95f;
    s.repetition_penalty = 1.2f;
    s.frequency_penalty = 0.3f;
    const uint32_t prompt[] = {5, 6, 7, 600};
    uint32_t first[STEPS];
    for (int moved = -1; moved < STEPS; moved += 7) {
        lac_sampler *sampler = lac_sampler_create(&s, VOCAB);
        lac_sampler_prompt(sampler, prompt, 4);
        for (int step = 0; step < STEPS; step++) {
            if (step == moved) {
                lac_sampler_destroy(&sampler);
                sampler = lac_sampler_create(&s, VOCAB);
                lac_sampler_prompt(sampler, prompt, 4);
                for (int i = 0; i < step; i++)
                    lac_sampler_accept(sampler, first[i]);
            }
            float logits[VOCAB];
            lac_rng rng;
            lac_rng_seed(&rng, step == 0 ? 1 : first[step - 1]);
            for (int i = 0; i < VOCAB; i++)
                logits[i] = gauss(&rng) * 2;
            lac_choice choice;
            lac_sampler_choose(sampler, logits, (uint64_t)step, NULL, 0, &choice);
            if (moved < 0)
                first[step] = choice.token;
            else
                ck_assert_uint_eq(choice.token, first[step]);
            lac_sampler_accept(sampler, choice.token);
        }
        lac_sampler_destroy(&sampler);
    }
}
END_TEST

/* Fixed tokens for fixed seeds: the draw, the order and the arithmetic must never change silently,
 * for a sequence may move between two versions of the program. */
START_TEST(recorded_draws)
{
    static const uint32_t recorded[12] = {3377, 3796, 3320, 3631, 2148, 4081,
                                          2086, 706,  2176, 3751, 3961, 2596};
    enum { VOCAB = 4096 };
    static float logits[VOCAB];
    for (int i = 0; i < VOCAB; i++)
        logits[i] = (float)(i * 7919 % 4096) / 512.0f;
    for (uint64_t p = 0; p < 12; p++) {
        lac_sampling s = plain();
        s.seed = 20 + p;
        s.temperature = 0.8f;
        s.top_p = p % 3 == 0 ? 0.9f : 1.0f;
        s.top_k = p % 4 == 1 ? 50 : 0;
        uint32_t token = choose(&s, logits, VOCAB, p, NULL, 0).token;
        ck_assert_msg(token == recorded[p], "position %d: %u", (int)p, token);
    }
}
END_TEST

/* Of the best logits alone the same token is drawn as of all, equal logits and −0 among them. */
START_TEST(the_best_alone_decide)
{
    static float logits[VOCAB_MAX], copy[VOCAB_MAX];
    lac_rng rng;
    lac_rng_seed(&rng, 21);
    for (int round = 0; round < 3000; round++) {
        uint32_t vocab = 1 + (uint32_t)lac_rng_below(&rng, VOCAB_MAX);
        lac_sampling sampling = plain();
        sampling.seed = (uint64_t)round;
        sampling.top_k = 1 + (int32_t)lac_rng_below(&rng, LAC_SAMPLER_TOP_MAX);
        sampling.temperature = 0.1f + 2.0f * (float)lac_rng_unit(&rng);
        sampling.top_p = round % 3 ? 1.0f : (float)lac_rng_unit(&rng) * 0.99f + 0.01f;
        sampling.min_p = round % 4 ? 0.0f : (float)lac_rng_unit(&rng) * 0.5f;
        for (uint32_t i = 0; i < vocab; i++) {
            logits[i] = 3 * gauss(&rng);
            if (round % 2) /* many equal ones */
                logits[i] = floorf(logits[i]);
            if (round % 5 == 0 && logits[i] > 0)
                logits[i] = -0.0f;
        }
        lac_sampler *sampler = lac_sampler_create(&sampling, vocab);
        lac_candidate top[LAC_SAMPLER_TOP_MAX];
        uint32_t wanted = lac_sampler_top(sampler), count = 0;
        ck_assert_uint_eq(wanted,
                          (uint32_t)sampling.top_k < vocab ? (uint32_t)sampling.top_k : vocab);
        for (uint32_t i = 0; i < vocab; i++) {
            if (count == wanted && !(logits[i] > top[count - 1].logprob))
                continue;
            uint32_t at = count < wanted ? count++ : count - 1;
            for (; at > 0 && top[at - 1].logprob < logits[i]; at--)
                top[at] = top[at - 1];
            top[at] = (lac_candidate){i, logits[i]};
        }
        lac_choice all;
        memcpy(copy, logits, vocab * sizeof *copy);
        lac_sampler_choose(sampler, copy, 5, NULL, 0, &all);
        ck_assert_uint_eq(lac_sampler_choose_top(sampler, top, count, 5), all.token);
        lac_sampler_destroy(&sampler);
    }
}
END_TEST

START_TEST(all_are_needed_where_something_else_counts)
{
    lac_sampling cases[8];
    for (int i = 0; i < 8; i++) {
        cases[i] = plain();
        cases[i].top_k = 20;
    }
    cases[1].top_k = 0;
    cases[2].top_k = LAC_SAMPLER_TOP_MAX + 1;
    cases[3].temperature = 0;
    cases[4].logprobs = true;
    cases[5].repetition_penalty = 1.1f;
    cases[6].ignore_eos = true;
    cases[7].min_tokens = 1;
    for (int i = 0; i < 8; i++) {
        lac_sampler *sampler = lac_sampler_create(&cases[i], 100);
        ck_assert_uint_eq(lac_sampler_top(sampler), i == 0 ? 20 : 0);
        lac_sampler_accept(sampler, 3);
        ck_assert_uint_eq(lac_sampler_top(sampler), i == 0 || i == 7 ? 20 : 0);
        lac_sampler_destroy(&sampler);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("choose");
    TCase *tests = tcase_create("choose");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, the_best_alone_decide);
    tcase_add_test(tests, all_are_needed_where_something_else_counts);
    tcase_add_test(tests, filters_against_reference);
    tcase_add_test(tests, draw_follows_the_distribution);
    tcase_add_test(tests, draw_depends_on_all_three_keys);
    tcase_add_test(tests, greedy_takes_the_best_and_the_lower_id);
    tcase_add_test(tests, banned_tokens_are_never_drawn);
    tcase_add_test(tests, nothing_to_choose_by);
    tcase_add_test(tests, bias);
    tcase_add_test(tests, penalties);
    tcase_add_test(tests, presence_and_frequency_leave_the_prompt_alone);
    tcase_add_test(tests, penalties_over_many_tokens);
    tcase_add_test(tests, logprobs_are_of_the_raw_distribution);
    tcase_add_test(tests, plain_greedy);
    tcase_add_test(tests, replay_continues_exactly);
    tcase_add_test(tests, recorded_draws);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
