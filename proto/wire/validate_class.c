/* What is allowed in what is said of classes. Works on plain structs; every error names field,
 * value and limit. Pure, any thread. */
#include <math.h>

#include "base/mask.h"
#include "codec.h"

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

/* Nobody's model makes a request of more. */
#define FLOPS_MAX 1e24
/* A class may cost more than full by its overhead, never tenfold. */
enum { COST_MAX = 10, KL_MAX = 1000 };

lac_status lac__check_real(const char *field, double value, double low, double high, lac_error *err)
{
    if (!isfinite(value) || value < low || value > high)
        return lac_fail(err, LAC_EINVAL, "%s is %g, allowed: %g to %g", field, value, low, high);
    return LAC_OK;
}

lac_status lac__check_tier(const char *field, lac_tier tier, lac_error *err)
{
    const lac__range range = {field, (uint64_t)tier, LAC_TIER_NONE, LAC_TIER_ECONOMY};
    return lac__check_ranges(&range, 1, err);
}

lac_status lac__check_input_type(const char *field, lac_input_type type, lac_error *err)
{
    const lac__range range = {field, (uint64_t)type, 0, LAC_INPUT_TYPES};
    return lac__check_ranges(&range, 1, err);
}

lac_status lac__check_mask(const char *field, const char *mask, uint32_t layers, lac_error *err)
{
    if (!mask || !mask[0])
        return LAC_OK;
    if (strnlen(mask, LAC_MASK_TEXT_MAX + 1) > LAC_MASK_TEXT_MAX)
        return lac_fail(err, LAC_EINVAL, "%s has more than %d bytes", field, LAC_MASK_TEXT_MAX);
    lac_mask units;
    LAC__TRY_IN(lac_mask_parse(mask, layers, &units, err), err, "%s", field);
    lac_buf text = {.cap = LAC_MASK_TEXT_MAX + 1};
    lac_mask_text(&units, &text);
    bool canonical = text.length == strlen(mask) && !memcmp(text.data, mask, text.length);
    lac_buf_free(&text);
    if (!canonical)
        return lac_fail(err, LAC_EINVAL, "%s is \"%.40s\", allowed: units in ascending order",
                        field, mask);
    return LAC_OK;
}

lac_status lac__check_class(const lac_class_facts *f, uint32_t layers, lac_error *err)
{
    LAC__TRY(lac__check_name("class.name", f->name, sizeof f->name, false, err));
    if (!strcmp(f->name, "full"))
        return lac_fail(err, LAC_EINVAL, "class.name is full, which every group serves anyway");
    const lac__range ranges[] = {
        {"class.scope", (uint64_t)f->scope, 0, LAC_SCOPES - 1},
        {"class.active_layers", f->active_layers, 0, layers},
    };
    LAC__TRY(lac__check_ranges(ranges, COUNT(ranges), err));
    LAC__TRY(lac__check_mask("class.mask", f->mask, layers, err));
    LAC__TRY(lac__check_real("class.skip_rate", f->skip_rate, 0, 1, err));
    LAC__TRY(lac__check_real("class.cost_skip_rate", f->cost_skip_rate, 0, 1, err));
    LAC__TRY(lac__check_real("class.cost", f->cost, 1e-6, COST_MAX, err));
    for (unsigned type = 0; type < LAC_INPUT_TYPES; type++) {
        const lac_class_serve *k = &f->serves[type];
        LAC__TRY(lac__check_tier("class.serves.tier", k->tier, err));
        LAC__TRY(lac__check_real("class.serves.kl_mean", k->kl_mean, 0, KL_MAX, err));
        LAC__TRY(lac__check_real("class.serves.kl_upper", k->kl_upper, 0, KL_MAX, err));
    }
    return LAC_OK;
}

lac_status lac__check_account(const lac_run_account *a, lac_error *err)
{
    if (!a)
        return LAC_OK;
    LAC__TRY(lac__check_name("account.class_name", a->class_name, sizeof a->class_name, true, err));
    LAC__TRY(lac__check_label("account.why", a->why, sizeof a->why, err));
    const lac__range ranges[] = {
        {"account.layers", a->layers, 0, LAC_LAYERS_MAX},
        {"account.active_layers", a->active_layers, 0, a->layers},
    };
    LAC__TRY(lac__check_ranges(ranges, COUNT(ranges), err));
    LAC__TRY(lac__check_mask("account.mask", a->mask, LAC_LAYERS_MAX, err));
    LAC__TRY(lac__check_real("account.skip_rate", a->skip_rate, 0, 1, err));
    LAC__TRY(lac__check_real("account.cost_skip_rate", a->cost_skip_rate, 0, 1, err));
    return lac__check_real("account.flops", a->flops, 0, FLOPS_MAX, err);
}
