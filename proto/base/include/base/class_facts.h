/* What is said of classes between processes: the facts a worker announces, and the account of what
 * one request ran. Plain structs; pure, any thread. */
#ifndef LAC_BASE_CLASS_FACTS_H
#define LAC_BASE_CLASS_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/class.h"
#include "base/limits.h"

/* A type and what is certified for it. LAC_INPUT_TYPES stands for a type nobody could judge. */
typedef struct {
    lac_tier tier;           /* NONE: the class does not serve this type */
    float kl_mean, kl_upper; /* of the certificate: nats a token, mean and its upper bound */
} lac_class_serve;

/* A class as a worker announces it. */
typedef struct {
    lac_digest digest;
    char name[LAC_NAME_MAX + 1]; /* [A-Za-z0-9._-]+, not "full" */
    lac_scope scope;
    lac_class_serve serves[LAC_INPUT_TYPES];
    const char *mask; /* canonical text of the erased units, ≤ LAC_MASK_TEXT_MAX; NULL = none */
    uint32_t active_layers;
    float skip_rate, cost_skip_rate; /* 0 … 1 */
    float cost;                      /* time of a token relative to full; > 0 */
} lac_class_facts;

/* What one request ran, recomputed rows included. */
typedef struct {
    bool forced;                       /* the class was forced, certified or not */
    char class_name[LAC_NAME_MAX + 1]; /* "full" or a class's name */
    const char *mask;                  /* as above */
    uint32_t layers, active_layers;
    float skip_rate, cost_skip_rate; /* 0 … 1 */
    double flops;
    uint64_t kv_bytes;
    char why[LAC_WHY_MAX + 1]; /* why this class: printable ASCII */
} lac_run_account;

/* True when the text has the form of a hint: LAC_HINT_LENGTH characters of base64url. */
bool lac_class_hint_valid(const char *text);
/* True when a hint names that digest. Any text may be asked about. */
bool lac_class_hinted(const char *text, const lac_digest *digest);

#endif
