/* What tenants may do. A tenant is the name of a key: of an API key over HTTP, of a client's key on
 * the native plane. Plain values; the core keeps copies (core.h, lac_core_set_tenants). */
#ifndef LAC_CORE_TENANT_H
#define LAC_CORE_TENANT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/class.h"
#include "base/limits.h"

/* The rules of one tenant, or of all that have none of their own. */
typedef struct {
    char name[LAC_NAME_MAX + 1]; /* "*" = the rest, and those without a key */
    uint32_t weight;             /* 1 … LAC_TENANT_WEIGHT_MAX: its share of the work while more
                                    waits than can run */
    uint64_t requests_minute;    /* ≤ LAC_QUOTA_MAX; 0 = no limit, all three */
    uint64_t tokens_minute;      /* prompt and answer together */
    uint32_t concurrency;        /* requests waiting or running */
    int32_t priority_max;        /* what asks for more gets this */
    bool has_tier;               /* else the server's own limit */
    lac_tier tier;               /* the deepest class its requests run as */
    bool has_tier_max;           /* else the same as `tier` */
    lac_tier tier_max;           /* the deepest they may ask for, or get in a brownout */
    bool brownout;               /* while the server is saturated they run as deep as tier_max */
    bool sparse_header;          /* its requests may say whether a class is used at all */
    uint32_t models_count;       /* 0 = all */
    char models[LAC_TENANT_MODELS_MAX][LAC_MODEL_NAME_MAX + 1];
} lac_tenant;

/* No limits, weight 1, no brownout. */
lac_tenant lac_tenant_default(const char *name);

#endif
