/* Owns one sequence's sampler: parameters, counted tokens, the order of the filters,
 * log-probabilities. The sequence's thread. Knows nothing of models, backends or text. */
#include "sampler/sampler.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/rng.h"
#include "counts.h"
#include "select.h"
#include "weigh.h"

typedef struct {
    uint32_t token;
    float bias;
    float raw; /* scratch of one choice, as in lac__count */
} bias_entry;

struct lac_sampler {
    lac_sampling sampling; /* its bias pointer is cleared: the entries are below */
    uint32_t vocab;
    bool penalised;
    uint64_t accepted; /* output tokens */
    lac__counts counts;
    uint32_t bias_count;
    bias_entry bias[];
};

/* The least log-probability that messages carry; that of a token whose logit is −∞. */
static const float least_logprob = -1e9f;

lac_sampler *lac_sampler_create(const lac_sampling *sampling, uint32_t vocab)
{
    LAC_ASSERT(vocab > 0 && vocab <= LAC_VOCAB_MAX);
    LAC_ASSERT(sampling->bias_count <= LAC_LOGIT_BIAS_MAX);
    LAC_ASSERT(sampling->top_logprobs <= LAC_TOP_LOGPROBS_MAX);
    lac_sampler *sampler =
        lac_alloc(1, sizeof *sampler + sampling->bias_count * sizeof *sampler->bias);
    sampler->sampling = *sampling;
    sampler->sampling.bias = NULL;
    sampler->vocab = vocab;
    sampler->penalised = sampling->repetition_penalty != 1.0f ||
                         sampling->presence_penalty != 0.0f || sampling->frequency_penalty != 0.0f;
    for (uint32_t i = 0; i < sampling->bias_count; i++) {
        LAC_ASSERT(sampling->bias[i].token < vocab);
        sampler->bias[i].token = sampling->bias[i].token;
        sampler->bias[i].bias = sampling->bias[i].bias;
    }
    sampler->bias_count = sampling->bias_count;
    return sampler;
}

void lac_sampler_destroy(lac_sampler **sampler)
{
    if (!*sampler)
        return;
    lac__counts_free(&(*sampler)->counts);
    free(*sampler);
    *sampler = NULL;
}

void lac_sampler_prompt(lac_sampler *sampler, const uint32_t *tokens, size_t count)
{
    if (sampler->sampling.repetition_penalty == 1.0f)
        return;
    for (size_t i = 0; i < count; i++) {
        LAC_ASSERT(tokens[i] < sampler->vocab);
        lac__counts_get(&sampler->counts, tokens[i]);
    }
    /* Room for an answer of usual length, so that the steps find it there. */
    size_t room = (size_t)sampler->counts.used + 256;
    lac__counts_reserve(&sampler->counts, room < LAC_VOCAB_MAX ? room : LAC_VOCAB_MAX);
}

void lac_sampler_accept(lac_sampler *sampler, uint32_t token)
{
    LAC_ASSERT(token < sampler->vocab);
    sampler->accepted++;
    if (sampler->penalised)
        lac__counts_get(&sampler->counts, token)->output++;
}

bool lac_sampler_is_plain_greedy(const lac_sampler *sampler)
{
    const lac_sampling *s = &sampler->sampling;
    return s->temperature == 0.0f && !sampler->penalised && sampler->bias_count == 0 &&
           !s->logprobs && !s->ignore_eos && sampler->accepted >= s->min_tokens;
}

/* ---- log-probabilities: of the logits as the model gave them ---- */

static float logprob(float logit, float max, double log_total)
{
    double value = ((double)logit - (double)max) - log_total;
    return value > (double)least_logprob ? (float)value : least_logprob;
}

/* log Σ e^(logit − max). */
static double log_total(const float *logits, uint32_t vocab, float max)
{
    float weights[LAC__BLOCK];
    double total = 0;
    for (uint32_t at = 0; at < vocab; at += LAC__BLOCK) {
        uint32_t left = vocab - at;
        total += lac__weigh(logits + at, left < LAC__BLOCK ? left : LAC__BLOCK, max, 1.0f, weights);
    }
    return lac__log(total);
}

/* The `wanted` best tokens, descending, equal ones by id; *logprob holds logits for now. */
static uint32_t find_top(const float *logits, uint32_t vocab, uint32_t wanted, lac_candidate *top)
{
    uint32_t count = 0;
    if (wanted > vocab)
        wanted = vocab;
    if (wanted == 0)
        return 0;
    for (uint32_t token = 0; token < vocab; token++) {
        float logit = logits[token];
        if (count == wanted && !(logit > top[count - 1].logprob))
            continue;
        uint32_t at = count < wanted ? count++ : count - 1;
        for (; at > 0 && top[at - 1].logprob < logit; at--)
            top[at] = top[at - 1];
        top[at] = (lac_candidate){token, logit};
    }
    return count;
}

/* What a token's logit was before bias and penalties. */
static float raw_logit(const lac_sampler *sampler, const float *logits, uint32_t token)
{
    for (uint32_t i = 0; i < sampler->bias_count; i++) {
        if (sampler->bias[i].token == token)
            return sampler->bias[i].raw;
    }
    const lac__count *count = lac__counts_find(&sampler->counts, token);
    return count ? count->raw : logits[token];
}

/* ---- the order of application: bias, penalties, temperature, top-k, top-p, min-p, draw ---- */

static void save_raw(lac_sampler *sampler, const float *logits)
{
    for (uint32_t i = 0; i < sampler->bias_count; i++)
        sampler->bias[i].raw = logits[sampler->bias[i].token];
    for (uint32_t i = 0; i < sampler->counts.used; i++)
        sampler->counts.list[i].raw = logits[sampler->counts.list[i].token];
}

/* Repetition as in Keskar et al. (CTRL, 2019): a positive logit is divided, a negative one
 * multiplied. Presence and frequency as OpenAI defines them: subtracted once, and once for each
 * occurrence. */
static void adjust(const lac_sampler *sampler, float *logits)
{
    const lac_sampling *s = &sampler->sampling;
    for (uint32_t i = 0; i < sampler->bias_count; i++)
        logits[sampler->bias[i].token] += sampler->bias[i].bias;
    if (!sampler->penalised)
        return;
    for (uint32_t i = 0; i < sampler->counts.used; i++) {
        const lac__count *count = &sampler->counts.list[i];
        float logit = logits[count->token];
        if (s->repetition_penalty != 1.0f)
            logit = logit > 0.0f ? logit / s->repetition_penalty : logit * s->repetition_penalty;
        if (count->output > 0)
            logit -= s->frequency_penalty * (float)count->output + s->presence_penalty;
        logits[count->token] = logit;
    }
}

/* The first token that has the largest logit. */
static uint32_t best(const float *logits, uint32_t vocab, float max)
{
    for (uint32_t i = 0; i < vocab; i++) {
        if (logits[i] == max)
            return i;
    }
    LAC_ASSERT(!"the largest logit is among the logits");
    return 0;
}

static uint32_t draw(const lac_sampler *sampler, float *logits, size_t vocab, float max,
                     uint64_t position)
{
    const lac_sampling *s = &sampler->sampling;
    lac__field field;
    field.logits = logits;
    field.vocab = vocab;
    field.max = max;
    /* A temperature near 0 must not give 0 · ∞ for the best token. */
    float inverse = 1.0f / s->temperature;
    field.inverse_temperature = inverse < FLT_MAX ? inverse : FLT_MAX;
    if (s->top_k > 0)
        lac__field_top_k(&field, (size_t)s->top_k);
    lac__field_weigh(&field);
    if (s->top_p < 1.0f) {
        lac__field_top_p(&field, (double)s->top_p);
        lac__field_weigh(&field);
    }
    if (s->min_p > 0.0f) {
        lac__field_min_p(&field, s->min_p);
        lac__field_weigh(&field);
    }
    return lac__field_draw(&field, lac_rng_draw(s->seed, s->choice, position));
}

uint32_t lac_sampler_top(const lac_sampler *sampler)
{
    const lac_sampling *s = &sampler->sampling;
    bool alone = s->temperature > 0.0f && s->top_k > 0 && s->top_k <= LAC_SAMPLER_TOP_MAX &&
                 !sampler->penalised && sampler->bias_count == 0 && !s->logprobs &&
                 !s->ignore_eos && sampler->accepted >= s->min_tokens;
    uint32_t top = alone ? (uint32_t)s->top_k : 0;
    return top < sampler->vocab ? top : sampler->vocab;
}

/* The field of all logits without the blocks in which nothing is left: sums are made of the same
 * numbers in the same order, so the draw is the same to the bit. */
uint32_t lac_sampler_choose_top(const lac_sampler *sampler, lac_candidate *top, uint32_t count,
                                uint64_t position)
{
    float logits[LAC_SAMPLER_TOP_MAX * LAC__BLOCK], values[LAC_SAMPLER_TOP_MAX];
    uint32_t block_of[LAC_SAMPLER_TOP_MAX], blocks = 0;
    LAC_ASSERT(count > 0 && count <= LAC_SAMPLER_TOP_MAX);
    for (uint32_t i = 1; i < count; i++) { /* by id */
        lac_candidate c = top[i];
        uint32_t at = i;
        for (; at > 0 && top[at - 1].token > c.token; at--)
            top[at] = top[at - 1];
        top[at] = c;
    }
    for (uint32_t i = 0; i < count; i++)
        values[i] = top[i].logprob;
    float max = lac__clean(values, count);
    if (max == -INFINITY)
        return 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t block = top[i].token / LAC__BLOCK;
        LAC_ASSERT(top[i].token < sampler->vocab);
        if (blocks == 0 || block_of[blocks - 1] != block) {
            for (uint32_t j = 0; j < LAC__BLOCK; j++)
                logits[blocks * LAC__BLOCK + j] = -INFINITY;
            block_of[blocks++] = block;
        }
        logits[(blocks - 1) * LAC__BLOCK + top[i].token % LAC__BLOCK] = values[i];
    }
    uint32_t at = draw(sampler, logits, (size_t)blocks * LAC__BLOCK, max, position);
    return block_of[at / LAC__BLOCK] * LAC__BLOCK + at % LAC__BLOCK;
}

/* Excludes what is not allowed; a word of the mask that is empty or full goes at once. */
static void restrict_to(const uint64_t *allowed, float *logits, uint32_t vocab)
{
    for (uint32_t base = 0; base < vocab; base += 64) {
        uint64_t bits = allowed[base / 64];
        uint32_t end = vocab - base < 64 ? vocab - base : 64;
        for (uint32_t i = 0; bits != UINT64_MAX && i < end; i++)
            if (!(bits >> i & 1))
                logits[base + i] = -INFINITY;
    }
}

void lac_sampler_choose(lac_sampler *sampler, float *logits, uint64_t position,
                        const uint32_t *banned, size_t banned_count, lac_choice *out)
{
    lac_sampler_choose_among(sampler, logits, position, banned, banned_count, NULL, out);
}

void lac_sampler_choose_among(lac_sampler *sampler, float *logits, uint64_t position,
                              const uint32_t *banned, size_t banned_count, const uint64_t *allowed,
                              lac_choice *out)
{
    const lac_sampling *s = &sampler->sampling;
    memset(out, 0, sizeof *out);
    float raw_max = lac__clean(logits, sampler->vocab);
    double raw_log_total = 0;
    if (s->logprobs && raw_max > -INFINITY) {
        raw_log_total = log_total(logits, sampler->vocab, raw_max);
        save_raw(sampler, logits);
        out->top_count = find_top(logits, sampler->vocab, s->top_logprobs, out->top);
        for (uint32_t i = 0; i < out->top_count; i++)
            out->top[i].logprob = logprob(out->top[i].logprob, raw_max, raw_log_total);
    }

    adjust(sampler, logits);
    for (size_t i = 0; i < banned_count; i++) {
        LAC_ASSERT(banned[i] < sampler->vocab);
        logits[banned[i]] = -INFINITY;
    }
    if (allowed)
        restrict_to(allowed, logits, sampler->vocab);
    bool changed = allowed || banned_count > 0 || sampler->penalised || sampler->bias_count > 0;
    float max = changed ? lac__clean(logits, sampler->vocab) : raw_max;
    /* No number is left to choose by (a broken model, or every token banned): token 0, as greedy.
     */
    out->token = s->temperature == 0.0f || max == -INFINITY
                     ? best(logits, sampler->vocab, max)
                     : draw(sampler, logits, sampler->vocab, max, position);
    if (s->logprobs) {
        out->chosen.token = out->token;
        out->chosen.logprob = raw_max > -INFINITY ? logprob(raw_logit(sampler, logits, out->token),
                                                            raw_max, raw_log_total)
                                                  : least_logprob;
    }
}
