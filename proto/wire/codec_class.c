/* Moves what is said of classes between protobuf structs and plain ones: the facts a worker
 * announces, the account of a request, masks, tiers, input types. Owns no range check
 * (validate_class.c has them). Pure, any thread. */
#include "codec.h"

/* ---- enumerations ---- */

Pb__Tier lac__put_tier(lac_tier tier)
{
    _Static_assert((int)LAC_TIER_GOLD == (int)PB__TIER__TIER_GOLD &&
                       (int)LAC_TIER_STANDARD == (int)PB__TIER__TIER_STANDARD &&
                       (int)LAC_TIER_ECONOMY == (int)PB__TIER__TIER_ECONOMY,
                   "the numbers are the same on both sides");
    return tier == LAC_TIER_NONE ? PB__TIER__TIER_NONE : (Pb__Tier)tier;
}

lac_status lac__get_tier(lac__codec *c, const char *field, int has, Pb__Tier in, lac_tier *out)
{
    if (has && ((int)in < PB__TIER__TIER_GOLD || (int)in > PB__TIER__TIER_NONE))
        return lac_fail(c->err, LAC_EINVAL, "%s is %d, which is no known tier", field, (int)in);
    *out = has && in != PB__TIER__TIER_NONE ? (lac_tier)in : LAC_TIER_NONE;
    return LAC_OK;
}

lac_status lac__get_input_type(lac__codec *c, const char *field, int has, Pb__InputType in,
                               lac_input_type *out)
{
    if (has && ((int)in < PB__INPUT_TYPE__INPUT_STRUCTURED || (int)in > LAC_INPUT_TYPES))
        return lac_fail(c->err, LAC_EINVAL, "%s is %d, which is no known input type", field,
                        (int)in);
    *out = has ? (lac_input_type)(in - 1) : LAC_INPUT_TYPES;
    return LAC_OK;
}

int lac__put_input_type(lac_input_type type, Pb__InputType *out)
{
    _Static_assert((int)LAC_INPUT_STRUCTURED == (int)PB__INPUT_TYPE__INPUT_STRUCTURED - 1 &&
                       (int)LAC_INPUT_UNSTRUCTURED == (int)PB__INPUT_TYPE__INPUT_UNSTRUCTURED - 1 &&
                       (int)LAC_INPUT_HYBRID == (int)PB__INPUT_TYPE__INPUT_HYBRID - 1 &&
                       (int)LAC_INPUT_CODE == (int)PB__INPUT_TYPE__INPUT_CODE - 1,
                   "the numbers on the wire are one more");
    *out = type < LAC_INPUT_TYPES ? (Pb__InputType)(type + 1) : PB__INPUT_TYPE__INPUT_UNKNOWN;
    return type < LAC_INPUT_TYPES;
}

static lac_status get_scope(lac__codec *c, int has, Pb__Scope in, lac_scope *out)
{
    if (!has || (int)in < PB__SCOPE__SCOPE_REQUEST || (int)in > LAC_SCOPES)
        return lac_fail(c->err, LAC_EINVAL, "class.scope is %d, which is no known scope",
                        has ? (int)in : 0);
    *out = (lac_scope)(in - 1);
    return LAC_OK;
}

/* ---- masks ---- */

static ProtobufCBinaryData put_mask(const char *mask)
{
    return lac__bin(mask, mask ? strnlen(mask, LAC_MASK_TEXT_MAX) : 0);
}

lac_status lac__get_mask(lac__codec *c, const char *field, ProtobufCBinaryData in, const char **out)
{
    *out = NULL;
    if (!in.len)
        return LAC_OK;
    if (in.len > LAC_MASK_TEXT_MAX)
        return lac_fail(c->err, LAC_EINVAL, "%s has %zu bytes, allowed: at most %d", field, in.len,
                        LAC_MASK_TEXT_MAX);
    char *text;
    LAC__TRY(lac__get_alloc(c, in.len + 1, 1, &text));
    LAC__TRY(lac__get_text(c, field, in, text, in.len + 1));
    *out = text;
    return LAC_OK;
}

/* ---- facts ---- */

static void put_serves(lac__codec *c, const lac_class_facts *facts, Pb__Class *out)
{
    size_t count = 0;
    Pb__Serve *list = lac__put_alloc(c, LAC_INPUT_TYPES, sizeof *list);
    out->serves = lac__put_alloc(c, LAC_INPUT_TYPES, sizeof *out->serves);
    for (int type = 0; type < LAC_INPUT_TYPES; type++) {
        const lac_class_serve *from = &facts->serves[type];
        if (from->tier == LAC_TIER_NONE)
            continue;
        Pb__Serve *to = &list[count];
        pb__serve__init(to);
        to->has_tier = 1;
        to->has_type = lac__put_input_type((lac_input_type)type, &to->type);
        to->tier = lac__put_tier(from->tier);
        LAC__PUT(to, kl_mean, from->kl_mean);
        LAC__PUT(to, kl_upper, from->kl_upper);
        out->serves[count++] = to;
    }
    out->n_serves = count;
}

void lac__put_class(lac__codec *c, const lac_class_facts *in, Pb__Class *out)
{
    pb__class__init(out);
    out->has_digest = 1;
    out->digest = lac__bin(in->digest.bytes, sizeof in->digest.bytes);
    LAC__PUT_TEXT(out, name, in->name);
    out->has_scope = 1;
    out->scope = (Pb__Scope)(in->scope + 1);
    put_serves(c, in, out);
    out->mask = put_mask(in->mask);
    out->has_mask = out->mask.len != 0;
    LAC__PUT(out, active_layers, in->active_layers);
    LAC__PUT(out, skip_rate, in->skip_rate);
    LAC__PUT(out, cost_skip_rate, in->cost_skip_rate);
    LAC__PUT(out, cost, in->cost);
}

static lac_status get_serve(lac__codec *c, const Pb__Serve *in, lac_class_facts *out)
{
    lac_input_type type = LAC_INPUT_TYPES;
    lac_tier tier = LAC_TIER_NONE;
    LAC__TRY(lac__get_input_type(c, "class.serves.type", in->has_type != 0, in->type, &type));
    LAC__TRY(lac__get_tier(c, "class.serves.tier", in->has_tier != 0, in->tier, &tier));
    if (type == LAC_INPUT_TYPES || tier == LAC_TIER_NONE)
        return lac_fail(c->err, LAC_EINVAL, "class.serves has one without type or tier");
    if (out->serves[type].tier != LAC_TIER_NONE)
        return lac_fail(c->err, LAC_EINVAL, "class.serves has type %s twice",
                        lac_input_type_name(type));
    out->serves[type] =
        (lac_class_serve){.tier = tier, .kl_mean = in->kl_mean, .kl_upper = in->kl_upper};
    return LAC_OK;
}

lac_status lac__get_class(lac__codec *c, const Pb__Class *in, lac_class_facts *out)
{
    if (!in)
        return lac_fail(c->err, LAC_EINVAL, "class is missing");
    if (in->digest.len != sizeof out->digest.bytes)
        return lac_fail(c->err, LAC_EINVAL, "class.digest has %zu bytes, allowed: %zu",
                        in->digest.len, sizeof out->digest.bytes);
    memcpy(out->digest.bytes, in->digest.data, sizeof out->digest.bytes);
    LAC__TRY(lac__get_text(c, "class.name", in->name, out->name, sizeof out->name));
    LAC__TRY(get_scope(c, in->has_scope, in->scope, &out->scope));
    if (in->n_serves > LAC_INPUT_TYPES)
        return lac_fail(c->err, LAC_EINVAL, "class.serves has %zu entries, allowed: %d",
                        in->n_serves, LAC_INPUT_TYPES);
    for (size_t i = 0; i < in->n_serves; i++)
        LAC__TRY(get_serve(c, in->serves[i], out));
    LAC__TRY(lac__get_mask(c, "class.mask", in->mask, &out->mask));
    out->active_layers = in->active_layers;
    out->skip_rate = in->skip_rate;
    out->cost_skip_rate = in->cost_skip_rate;
    out->cost = in->cost;
    return LAC_OK;
}

/* ---- account ---- */

Pb__Account *lac__put_account(lac__codec *c, const lac_run_account *in)
{
    if (!in)
        return NULL;
    Pb__Account *out = lac__put_alloc(c, 1, sizeof *out);
    pb__account__init(out);
    LAC__PUT(out, forced, in->forced);
    LAC__PUT_TEXT(out, class_name, in->class_name);
    out->mask = put_mask(in->mask);
    out->has_mask = out->mask.len != 0;
    LAC__PUT(out, layers, in->layers);
    LAC__PUT(out, active_layers, in->active_layers);
    LAC__PUT(out, skip_rate, in->skip_rate);
    LAC__PUT(out, cost_skip_rate, in->cost_skip_rate);
    LAC__PUT(out, flops, in->flops);
    LAC__PUT(out, kv_bytes, in->kv_bytes);
    LAC__PUT_TEXT(out, why, in->why);
    return out;
}

lac_status lac__get_account(lac__codec *c, const Pb__Account *in, const lac_run_account **out)
{
    *out = NULL;
    if (!in)
        return LAC_OK;
    lac_run_account *account;
    LAC__TRY(lac__get_alloc(c, 1, sizeof *account, &account));
    LAC__TRY(lac__get_text(c, "account.class_name", in->class_name, account->class_name,
                           sizeof account->class_name));
    LAC__TRY(lac__get_text(c, "account.why", in->why, account->why, sizeof account->why));
    LAC__TRY(lac__get_mask(c, "account.mask", in->mask, &account->mask));
    account->forced = in->forced != 0;
    account->layers = in->layers;
    account->active_layers = in->active_layers;
    account->skip_rate = in->skip_rate;
    account->cost_skip_rate = in->cost_skip_rate;
    account->flops = in->flops;
    account->kv_bytes = in->kv_bytes;
    *out = account;
    return LAC_OK;
}
