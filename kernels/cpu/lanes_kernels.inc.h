/* Ends a file of one instruction set: the row kernels and attention by name, for its table. */
#include "rows.inc.h"

#include "attention.inc.h"

#define LAC__LANE_KERNELS                                                                          \
    .norm = rows_norm, .quantise = rows_quantise, .act = rows_act, .add = rows_add,                \
    .rope = rows_rope, .softcap = rows_softcap, .softmax = rows_softmax, .to_f16 = rows_to_f16,    \
    .to_q8 = rows_to_q8, .best = rows_best, .attention = attention_run,                            \
    .attention_merge = attention_merge
