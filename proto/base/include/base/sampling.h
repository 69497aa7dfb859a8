/* How a request wants its tokens chosen: shared by the API, the wire and the sampler. */
#ifndef LAC_BASE_SAMPLING_H
#define LAC_BASE_SAMPLING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/status.h"

typedef struct {
    uint32_t token;
    float bias; /* −100 … 100, added to the logit */
} lac_logit_bias;

typedef struct {
    uint32_t length;
    char bytes[LAC_STOP_BYTES_MAX];
} lac_stop;

/* Order of application: logit bias, penalties, temperature, top-k, top-p, min-p, draw. */
typedef struct {
    float temperature;        /* 0 = greedy; 0 … 2 */
    float top_p;              /* (0 … 1], 1 = off */
    float min_p;              /* 0 … 1, 0 = off */
    int32_t top_k;            /* 0 = off */
    float repetition_penalty; /* (0 … 2], 1 = off; over prompt and output */
    float presence_penalty;   /* −2 … 2, over the output */
    float frequency_penalty;  /* −2 … 2, over the output */
    bool has_seed;            /* the coordinator draws a missing seed before dispatch */
    uint64_t seed;
    uint32_t choice;     /* which of n choices: part of the draw's key */
    uint32_t max_tokens; /* 0 = as many as the context holds */
    uint32_t min_tokens; /* end tokens are not chosen before this many */
    bool ignore_eos;
    bool logprobs;         /* report the chosen token's */
    uint32_t top_logprobs; /* and of this many others, ≤ LAC_TOP_LOGPROBS_MAX */
    uint32_t stops_count;
    lac_stop stops[LAC_STOPS_MAX];
    uint32_t bias_count;
    const lac_logit_bias *bias; /* ≤ LAC_LOGIT_BIAS_MAX, owned by whoever holds the request */
    uint32_t grammar_length;    /* 0 = the answer is free */
    const char *grammar; /* JSON Schema that it must match, ≤ LAC_GRAMMAR_BYTES_MAX; owned as bias */
} lac_sampling;

/* temperature 1, everything else off. */
lac_sampling lac_sampling_default(void);

/* Every range above; LAC_EINVAL names field, value and limit. `vocab` 0 = token ids not checked. */
lac_status lac_sampling_check(const lac_sampling *sampling, uint32_t vocab, lac_error *err);

#endif
