/* What is known of one unit (one residual branch: the attention or the FFN of a layer): its state,
 * the facts that decide it, and the record an erased one leaves behind. Plain structs shared by
 * those who read weights and those who judge. Pure. */
#ifndef LAC_BASE_UNIT_H
#define LAC_BASE_UNIT_H

#include <stdbool.h>
#include <stdint.h>

typedef enum {
    LAC_UNIT_ACTIVE, /* weights in memory, contribution not provably zero */
    LAC_UNIT_ZEROED, /* weights present, contribution provably zero */
    LAC_UNIT_ERASED  /* no weights in memory: a record at most */
} lac_unit_state;

/* "All elements are zero" of a tensor the unit has; of one it does not have both are false. A
 * tensor that should be there and is not never gets this far: opening the model fails. */
typedef struct {
    bool there, zero;
} lac_zero_fact;

typedef struct {
    bool present; /* the file gives the unit a shape: heads, or an FFN width */
    lac_zero_fact pre_norm, post_norm;
    lac_zero_fact output, output_bias; /* what maps the branch back to the residual stream */
    lac_zero_fact inner_bias[3];       /* attention: q, k, v */
} lac_unit_facts;

/* What stays of a unit whose weights are not in memory: enough to find them again and to know that
 * they are still the same. */
typedef struct {
    uint64_t offset; /* of its first tensor in the file */
    uint32_t words;  /* bytes of its tensors, in units of 8, rounded up */
    uint32_t hash; /* first 4 bytes of a SHA-256 over names, shapes, first and last 4 KiB of each */
} lac_unit_record;
_Static_assert(sizeof(lac_unit_record) == 16, "a placeholder has 16 bytes");

#endif
