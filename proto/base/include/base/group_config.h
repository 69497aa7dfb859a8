/* What the ranks of one group agree on before they load: the text that the coordinator sends to all
 * of them, the same bytes to each, and its digest. Pure, any thread. */
#ifndef LAC_BASE_GROUP_CONFIG_H
#define LAC_BASE_GROUP_CONFIG_H

#include <stdint.h>

#include "base/digest.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/status.h"

typedef struct {
    uint32_t pp, tp;                    /* 1 ≤ pp × tp ≤ LAC_RANKS_MAX */
    uint32_t context_max, slots;        /* ≥ 1 */
    char model[LAC_MODEL_NAME_MAX + 1]; /* the name that clients ask for */
    lac_digest model_digest, plan_digest;
} lac_group_config;

/* The text, one "name value" a line in a fixed order: equal configs give equal bytes. */
void lac_group_config_write(const lac_group_config *config, lac_buf *out);
/* LAC_EUNSUPPORTED for another form, LAC_EINVAL names a line. */
lac_status lac_group_config_parse(const char *text, size_t length, lac_group_config *out,
                                  lac_error *err);

#endif
