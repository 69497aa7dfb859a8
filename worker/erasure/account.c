/* Prices of a class and the account of a request. Pure; any thread. Must not know sequences,
 * weights or clocks. */
#include "erasure/account.h"

static bool window_add(lac_class_price *price, uint32_t window, double flops)
{
    uint32_t i = 0;
    while (i < price->windows_count && price->windows[i].window != window)
        i++;
    if (i == LAC_ACCOUNT_WINDOWS_MAX)
        return false;
    if (i == price->windows_count)
        price->windows[price->windows_count++].window = window;
    price->windows[i].flops += flops;
    return true;
}

static bool layer_add(lac_class_price *price, const lac_model_shape *shape, uint32_t l,
                      const lac_mask *erased)
{
    const lac_layer_shape *layer = &shape->layers[l];
    double d = shape->hidden, q = (double)layer->heads * shape->head_dim;
    double kv = (double)layer->kv_heads * shape->head_dim;
    bool attention = layer->heads > 0 && !lac_mask_has(erased, 2 * l);
    bool ffn = layer->ffn > 0 && !lac_mask_has(erased, 2 * l + 1);
    price->units_erased += !attention + !ffn;
    price->active_layers += attention || ffn;
    price->cost += layer->attention_cost + layer->ffn_cost;
    price->cost_erased += (attention ? 0 : layer->attention_cost) + (ffn ? 0 : layer->ffn_cost);
    if (ffn)
        price->row_flops += 6 * d * layer->ffn * (layer->experts ? layer->experts_used : 1) +
                            2 * d * layer->experts;
    if (!attention)
        return true;
    if (layer->kv_heads == 0) { /* linear: one product, no position looked at */
        price->row_flops += 2 * d * d;
        return true;
    }
    price->row_flops += 2 * d * (q + 2 * kv) + 2 * q * d;
    return window_add(price, layer->window, 4 * q);
}

bool lac_class_price_make(const lac_model_shape *shape, const lac_mask *erased,
                          lac_class_price *out)
{
    lac_class_price price = {.units_count = 2 * shape->layers_count,
                             .head_flops = 2.0 * shape->hidden * shape->vocab};
    for (uint32_t l = 0; l < shape->layers_count; l++)
        if (!layer_add(&price, shape, l, erased))
            return false;
    *out = price;
    return true;
}

void lac_class_price_patch(lac_class_price *price, uint32_t hidden, uint32_t rank, double cost)
{
    double products = rank == hidden ? 1 : 2;
    price->row_flops += products * 2 * hidden * rank;
    price->cost_erased -= cost;
}

/* Sum over rows at pos … pos+rows−1 of the positions each looks at: p + 1, at most the window. */
static double positions_seen(uint32_t window, uint32_t pos, uint32_t rows)
{
    double growing = rows, full = 0;
    if (window > 0) {
        growing = pos >= window ? 0 : window - pos;
        growing = growing < rows ? growing : rows;
        full = rows - growing;
    }
    return growing * pos + growing * (growing + 1) / 2 + full * window;
}

void lac_account_add(lac_account *account, const lac_class_price *price, uint32_t pos,
                     uint32_t rows, uint32_t logit_rows)
{
    account->tokens += rows;
    account->unit_tokens += (uint64_t)rows * price->units_count;
    account->unit_tokens_erased += (uint64_t)rows * price->units_erased;
    account->cost += rows * price->cost;
    account->cost_erased += rows * price->cost_erased;
    account->flops += rows * price->row_flops + logit_rows * price->head_flops;
    for (uint32_t i = 0; i < price->windows_count; i++)
        account->flops +=
            price->windows[i].flops * positions_seen(price->windows[i].window, pos, rows);
}

double lac_account_skip_rate(const lac_account *account)
{
    return account->unit_tokens > 0
               ? (double)account->unit_tokens_erased / (double)account->unit_tokens
               : 0;
}

double lac_account_cost_skip_rate(const lac_account *account)
{
    return account->cost > 0 ? account->cost_erased / account->cost : 0;
}
