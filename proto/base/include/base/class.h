/* What a class is, for everyone who speaks of one: plan files, messages, the core that chooses and
 * the engine that runs. A class is a mask with patches, a name, a scope, and for each input type it
 * serves a tier and a certificate. Pure, any thread. */
#ifndef LAC_BASE_CLASS_H
#define LAC_BASE_CLASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/limits.h"
#include "base/mask.h"

typedef enum {
    LAC_SCOPE_REQUEST, /* prefill and decode leave the units out */
    LAC_SCOPE_DECODE,  /* the prompt runs in full, what is generated leaves them out */
    LAC_SCOPES
} lac_scope;

typedef enum {
    LAC_INPUT_STRUCTURED,
    LAC_INPUT_UNSTRUCTURED,
    LAC_INPUT_HYBRID,
    LAC_INPUT_CODE,
    LAC_INPUT_TYPES
} lac_input_type;

typedef enum {
    LAC_TIER_NONE, /* not certified: never chosen, only forced */
    LAC_TIER_GOLD,
    LAC_TIER_STANDARD,
    LAC_TIER_ECONOMY,
    LAC_TIERS
} lac_tier;

/* "request", "structured", "gold"; NULL for a number that is none. */
const char *lac_scope_name(lac_scope scope);
const char *lac_input_type_name(lac_input_type type);
const char *lac_tier_name(lac_tier tier);
/* False, *out untouched, when there is no such name. "none" is no tier that can be named. */
bool lac_scope_parse(const char *name, lac_scope *out);
bool lac_input_type_parse(const char *name, lac_input_type *out);
bool lac_tier_parse(const char *name, lac_tier *out);
/* Largest upper bound of the mean KL that the tier allows: 0.01, 0.03, 0.10; 0 for NONE. */
double lac_tier_kl_max(lac_tier tier);

/* Stands in for an erased unit: h := h + up·down·rmsnorm(h), rmsnorm without weight and with the
 * model's eps. */
typedef struct {
    uint32_t unit;
    uint32_t rank;        /* multiple of LAC_PATCH_RANK_STEP below the model's width, or the width */
    const uint16_t *down; /* [rank][hidden] F16, row-major; NULL at full rank */
    const uint16_t *up;   /* [hidden][rank] F16 */
    lac_digest digest;    /* over unit, rank and both matrices */
} lac_patch;

/* What was measured on documents that the search never saw; one for each class and input type. */
typedef struct {
    double kl_mean;    /* mean KL divergence to full, nats a token */
    double kl_upper;   /* one-sided 95 % bound of it */
    double kl_p95;     /* 95th percentile over requests of their mean KL */
    double top1;       /* share of positions whose most likely token is full's, 0..1 */
    double cost_saved; /* share of a token's cost left out, 0..1 */
    lac_digest data;   /* of the hold-out set */
    uint32_t documents, requests;
    uint64_t tokens;
    char method[LAC_METHOD_MAX + 1]; /* how the bound was made */
    char date[10 + 1];               /* YYYY-MM-DD */
} lac_certificate;

/* Identity of a class: caches, certificates, breakers and hints are keyed by it. SHA-256 over the
 * model's digest, the bits of 2·layers units, the scope, and the patches' digests in order of
 * unit. */
void lac_class_digest(const lac_digest *model, uint32_t layers, const lac_mask *mask,
                      lac_scope scope, const lac_digest *patches, size_t patches_count,
                      lac_digest *out);

enum { LAC_HINT_LENGTH = 32 };
/* The digest's first 24 bytes in base64url (RFC 4648, section 5; no padding is needed). */
void lac_class_hint(const lac_digest *digest, char out[LAC_HINT_LENGTH + 1]);

#endif
