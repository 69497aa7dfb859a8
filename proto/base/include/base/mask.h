/* A mask: the set of erased units of a model. Unit 2l is the attention of layer l ("A7"), unit 2l+1
 * its FFN ("F7"). Text form: units in ascending order joined by commas, "" for none. Pure. */
#ifndef LAC_BASE_MASK_H
#define LAC_BASE_MASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/status.h"

typedef struct {
    uint64_t bits[LAC_UNITS_MAX / 64];
} lac_mask;

static inline bool lac_mask_has(const lac_mask *mask, unsigned unit)
{
    return mask->bits[unit / 64] >> (unit % 64) & 1u;
}
static inline void lac_mask_set(lac_mask *mask, unsigned unit)
{
    mask->bits[unit / 64] |= UINT64_C(1) << (unit % 64);
}
unsigned lac_mask_count(const lac_mask *mask);
bool lac_mask_equal(const lac_mask *a, const lac_mask *b);
/* Every unit of `inner` is in `outer`. */
bool lac_mask_within(const lac_mask *inner, const lac_mask *outer);
/* Any order and case is read; an unknown letter, a layer ≥ `layers` or a repeat is LAC_EINVAL
 * naming it. Writes *out only on success. */
lac_status lac_mask_parse(const char *text, unsigned layers, lac_mask *out, lac_error *err);
/* Appends the canonical text. */
void lac_mask_text(const lac_mask *mask, lac_buf *out);

#endif
