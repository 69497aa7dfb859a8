/* Chooses tokens from logits, and releases text: the two things that decide what a client sees.
 * Deterministic: the draw is keyed by (seed, choice, position), never by a running state, so a
 * replayed sequence continues exactly. One sequence's objects belong to one thread. */
#ifndef LAC_SAMPLER_H
#define LAC_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/sampling.h"

typedef struct lac_sampler lac_sampler; /* counts of one sequence's tokens */

/* Copies what it needs of `sampling` (bias included). */
lac_sampler *lac_sampler_create(const lac_sampling *sampling, uint32_t vocab);
void lac_sampler_destroy(lac_sampler **sampler);
/* Counts tokens for the penalties: prompt tokens for repetition only, output tokens for all. */
void lac_sampler_prompt(lac_sampler *sampler, const uint32_t *tokens, size_t count);
void lac_sampler_accept(lac_sampler *sampler, uint32_t token);
/* True when the best logit alone decides: greedy with no bias, penalty, logprob or banned token, so
 * the caller need not ask the backend for logits. */
bool lac_sampler_is_plain_greedy(const lac_sampler *sampler);

typedef struct {
    uint32_t token;
    float logprob;
} lac_candidate;

enum { LAC_SAMPLER_TOP_MAX = 64 };
/* So many of the best logits decide alone, since top-k cuts all others and nothing needs them; 0 = all
 * are needed. May change with every token accepted. */
uint32_t lac_sampler_top(const lac_sampler *sampler);
/* Chooses among those: the token that lac_sampler_choose would have chosen from all logits. `top`
 * [count ≤ LAC_SAMPLER_TOP_MAX] holds logits, in any order; it is reordered. */
uint32_t lac_sampler_choose_top(const lac_sampler *sampler, lac_candidate *top, uint32_t count,
                                uint64_t position);

typedef struct {
    uint32_t token;
    lac_candidate chosen;                       /* when logprobs are asked for */
    uint32_t top_count;
    lac_candidate top[LAC_TOP_LOGPROBS_MAX]; /* descending; equal ones by id */
} lac_choice;

/* Chooses the token at `position` (index in the completion). `logits` [vocab] is changed in place.
 * `banned` lists tokens that may not be chosen now (end tokens before min_tokens or under ignore_eos). */
void lac_sampler_choose(lac_sampler *sampler, float *logits, uint64_t position, const uint32_t *banned,
                        size_t banned_count, lac_choice *out);
/* The same among tokens whose bit is set in `allowed` [(vocab + 63) / 64]; NULL = all. Log-probabilities
 * stay those of the whole vocabulary. */
void lac_sampler_choose_among(lac_sampler *sampler, float *logits, uint64_t position,
                              const uint32_t *banned, size_t banned_count, const uint64_t *allowed,
                              lac_choice *out);

/* ---- releasing text: whole UTF-8 characters only, stop strings cut, at any token boundary ---- */

typedef struct lac_release lac_release;
lac_release *lac_release_create(const lac_sampling *sampling);
void lac_release_destroy(lac_release **release);
/* Takes one token's bytes. *text (valid until the next call) is what may go out now: it ends on a
 * whole character and holds back the longest tail that could still become a stop string. Returns true
 * when a stop string was met: the text before it is released and nothing more will be. Bytes that can
 * never become a character are released as U+FFFD. */
bool lac_release_add(lac_release *release, const char *bytes, size_t length, const char **text,
                     size_t *text_length);
/* The end without a stop string: releases what was held back (an unfinished character as U+FFFD). */
void lac_release_end(lac_release *release, const char **text, size_t *text_length);

#endif
