/* What a request really ran, counted as it runs. A class's prices are made once from the model's
 * shapes and its mask; adding a run of rows is a handful of multiplications. Pure, any thread.
 *
 * FLOPs of one row (a multiply-add is two), d = hidden, h and g = query and KV heads, w = head
 * width, f = FFN width, c = positions it looks at:
 *
 *   attention unit   2·d·w·(h + 2g)  +  2·h·w·d  +  4·h·w·c
 *   linear unit      2·d²   (h > 0, g = 0)
 *   FFN unit         6·d·f
 *   FFN of experts   6·d·f·used  +  2·d·experts
 *   patch            4·d·r, at full rank 2·d²
 *   head             2·d·vocab, for rows whose logits are wanted
 *
 * Norms, RoPE, softmax and activations are left out, as is usual. */
#ifndef LAC_ERASURE_ACCOUNT_H
#define LAC_ERASURE_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/mask.h"

/* The shape of one layer. */
typedef struct {
    uint32_t heads, kv_heads; /* 0 heads: no attention unit */
    uint32_t ffn;             /* 0: no FFN unit; the width of one expert where there are some */
    uint32_t experts, experts_used;  /* 0: one FFN for all rows */
    uint32_t window;                 /* 0 = all positions */
    double attention_cost, ffn_cost; /* any measure, the same for all units: bytes or time */
} lac_layer_shape;

typedef struct {
    uint32_t layers_count, hidden, head_dim, vocab;
    const lac_layer_shape *layers;
} lac_model_shape;

enum { LAC_ACCOUNT_WINDOWS_MAX = 8 }; /* different sliding windows in one model */

/* Attention units that look equally far back. */
typedef struct {
    uint32_t window;
    double flops; /* of all of them, for one row and one position looked at */
} lac_window_price;

/* What a row of a class costs. */
typedef struct {
    uint32_t units_count, units_erased; /* 2 a layer; units without a shape count as erased */
    uint32_t active_layers;             /* layers of which at least one unit runs */
    double cost, cost_erased;           /* of all units; of those left out */
    double row_flops;                   /* projections and FFNs of the units that run */
    double head_flops;
    lac_window_price windows[LAC_ACCOUNT_WINDOWS_MAX];
    uint32_t windows_count;
} lac_class_price;

/* `erased` is the mask with every unit that does not run. False when the model has more different
 * windows than LAC_ACCOUNT_WINDOWS_MAX; *out is then untouched. */
bool lac_class_price_make(const lac_model_shape *shape, const lac_mask *erased,
                          lac_class_price *out);

/* Adds a patch that stands in for one of the erased units: 4·d·r FLOPs a row (two products), 2·d² at
 * full rank (r = d, one); `cost` in the measure of the units' costs is no longer left out. */
void lac_class_price_patch(lac_class_price *price, uint32_t hidden, uint32_t rank, double cost);

typedef struct {
    uint64_t tokens; /* rows run */
    uint64_t unit_tokens, unit_tokens_erased;
    double cost, cost_erased;
    double flops;
} lac_account;

/* Adds rows at positions pos … pos+rows−1, of which logit_rows went through the head. */
void lac_account_add(lac_account *account, const lac_class_price *price, uint32_t pos,
                     uint32_t rows, uint32_t logit_rows);

double lac_account_skip_rate(const lac_account *account);      /* 0 before the first row */
double lac_account_cost_skip_rate(const lac_account *account); /* the same, weighed by cost */

#endif
