/* Speculation by n-grams (prompt lookup): the tokens that followed the last time the text ended
 * like this are a draft, checked in one step as extra rows of the sequence. A draft token is kept
 * only when the sampler draws that very token from that row's logits, so the text is the one
 * without. Here is what to draft and whether it pays; pure, no model, no clock. The idea: Saxena,
 * "Prompt lookup decoding" (2023); accepting only what the sampler draws makes it exact under any
 * sampling. */
#ifndef LAC_SPEC_H
#define LAC_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LAC_SPEC_DRAFT_MAX = 16,    /* draft tokens of one sequence in one step */
    LAC_SPEC_MATCH_MIN = 3,     /* tokens that must have been the same before */
    LAC_SPEC_MATCH_MAX = 16,    /* more say nothing more */
    LAC_SPEC_SEQUENCES_MAX = 64 /* with more decodes in a step nobody drafts */
};

/* Tokens that may follow tokens[0 … count), at most `max` ≤ LAC_SPEC_DRAFT_MAX, into out: what
 * followed the longest earlier occurrence of its end, the latest among equals; a match that
 * overlaps the end goes round. Returns how many, 0 when nothing of LAC_SPEC_MATCH_MIN tokens is
 * there. Time is one pass over the tokens. */
uint32_t lac_spec_draft(const uint32_t *tokens, uint32_t count, uint32_t max, uint32_t *out);

/* ---- whether it pays ---- */

enum { LAC_SPEC_SIZES = 7 }; /* of draft rows a step: 1, 2, 4, … 64 and more */

/* One engine's: what steps cost, and how often drafts were right. Zero is "nothing known yet". */
typedef struct {
    double plain_us[LAC_SPEC_SEQUENCES_MAX + 1]; /* smoothed step of so many decodes alone */
    double row_us[LAC_SPEC_SIZES]; /* smoothed cost of one draft row, by their number */
    double rate;                   /* of draft tokens that were right, smoothed */
    bool rate_known;
} lac_spec_cost;

/* One sequence's. */
typedef struct {
    double rate; /* as above, its own; starts as the engine's */
    bool rate_known;
    uint32_t passed; /* drafts in a row that were not worth their rows */
} lac_spec_trust;

/* Of `found` draft tokens, how many to run in a step of `decodes` decodes in which `drafts` rows
 * are drafts of others: the number with the largest expected gain of time by what was measured, 0
 * when none gains; then every now and then a short try, since texts change. 0 also until a plain
 * step of so many decodes was measured. */
uint32_t lac_spec_rows(const lac_spec_cost *cost, lac_spec_trust *trust, uint32_t decodes,
                       uint32_t drafts, uint32_t found);
/* Of `drafted` tokens that were run, the first `right` were drawn. */
void lac_spec_verified(lac_spec_cost *cost, lac_spec_trust *trust, uint32_t drafted,
                       uint32_t right);
/* A step without prompt rows took `us`. */
void lac_spec_measure(lac_spec_cost *cost, uint32_t decodes, uint32_t drafts, double us);

#endif
