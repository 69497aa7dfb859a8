/* Names, digest and hint of classes. Pure, any thread. Knows nothing of files or models. */
#include "base/class.h"

#include <string.h>

#include "base/assert.h"

static const char *const scopes[LAC_SCOPES] = {"request", "decode"};
static const char *const types[LAC_INPUT_TYPES] = {"structured", "unstructured", "hybrid", "code"};
static const char *const tiers[LAC_TIERS] = {"none", "gold", "standard", "economy"};

/* Index of a name from `first` on; `count` when there is none. */
static uint32_t find(const char *const *names, uint32_t first, uint32_t count, const char *name)
{
    uint32_t i = first;
    while (i < count && strcmp(names[i], name) != 0)
        i++;
    return i;
}

const char *lac_scope_name(lac_scope scope)
{
    return (unsigned)scope < LAC_SCOPES ? scopes[scope] : NULL;
}

const char *lac_input_type_name(lac_input_type type)
{
    return (unsigned)type < LAC_INPUT_TYPES ? types[type] : NULL;
}

const char *lac_tier_name(lac_tier tier)
{
    return (unsigned)tier < LAC_TIERS ? tiers[tier] : NULL;
}

bool lac_scope_parse(const char *name, lac_scope *out)
{
    uint32_t i = find(scopes, 0, LAC_SCOPES, name);
    if (i == LAC_SCOPES)
        return false;
    *out = (lac_scope)i;
    return true;
}

bool lac_input_type_parse(const char *name, lac_input_type *out)
{
    uint32_t i = find(types, 0, LAC_INPUT_TYPES, name);
    if (i == LAC_INPUT_TYPES)
        return false;
    *out = (lac_input_type)i;
    return true;
}

bool lac_tier_parse(const char *name, lac_tier *out)
{
    uint32_t i = find(tiers, 1, LAC_TIERS, name);
    if (i == LAC_TIERS)
        return false;
    *out = (lac_tier)i;
    return true;
}

double lac_tier_kl_max(lac_tier tier)
{
    static const double most[LAC_TIERS] = {0, 0.01, 0.03, 0.10};
    return (unsigned)tier < LAC_TIERS ? most[tier] : 0;
}

void lac_class_digest(const lac_digest *model, uint32_t layers, const lac_mask *mask,
                      lac_scope scope, const lac_digest *patches, size_t patches_count,
                      lac_digest *out)
{
    static const char tag[] = "lacuna class 1";
    LAC_ASSERT(layers <= LAC_LAYERS_MAX);
    uint8_t bits[LAC_UNITS_MAX / 8] = {0}, scope_byte = (uint8_t)scope;
    for (uint32_t u = 0; u < 2 * layers; u++)
        bits[u / 8] |= (uint8_t)(lac_mask_has(mask, u) << u % 8);
    lac_hasher *hasher = lac_hasher_create();
    lac_hasher_add(hasher, tag, sizeof tag);
    lac_hasher_add(hasher, model->bytes, sizeof model->bytes);
    lac_hasher_add(hasher, bits, (2 * layers + 7) / 8);
    lac_hasher_add(hasher, &scope_byte, 1);
    for (size_t i = 0; i < patches_count; i++)
        lac_hasher_add(hasher, patches[i].bytes, sizeof patches[i].bytes);
    lac_hasher_finish(&hasher, out);
}

void lac_class_hint(const lac_digest *digest, char out[LAC_HINT_LENGTH + 1])
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    for (int i = 0; i < LAC_HINT_LENGTH / 4; i++) {
        const uint8_t *b = digest->bytes + 3 * i;
        uint32_t three = (uint32_t)b[0] << 16 | (uint32_t)b[1] << 8 | b[2];
        for (int k = 0; k < 4; k++)
            out[4 * i + k] = alphabet[three >> (18 - 6 * k) & 63];
    }
    out[LAC_HINT_LENGTH] = '\0';
}
