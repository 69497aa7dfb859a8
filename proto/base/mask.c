/* Masks: set arithmetic on units and their text form. Pure, any thread. Knows nothing of models:
 * the caller says how many layers there are. */
#include "base/mask.h"

#include <string.h>

#include "base/assert.h"

enum { WORDS = LAC_UNITS_MAX / 64 };

unsigned lac_mask_count(const lac_mask *mask)
{
    unsigned count = 0;
    for (int i = 0; i < WORDS; i++)
        count += (unsigned)__builtin_popcountll(mask->bits[i]);
    return count;
}

bool lac_mask_equal(const lac_mask *a, const lac_mask *b)
{
    return memcmp(a->bits, b->bits, sizeof(a->bits)) == 0;
}

bool lac_mask_within(const lac_mask *inner, const lac_mask *outer)
{
    for (int i = 0; i < WORDS; i++)
        if (inner->bits[i] & ~outer->bits[i])
            return false;
    return true;
}

/* One unit from [text, end), which holds no comma. */
static lac_status unit_parse(const char *text, const char *end, unsigned layers, unsigned *unit,
                             lac_error *err)
{
    int shown = end - text > 16 ? 16 : (int)(end - text);
    if (text == end)
        return lac_fail(err, LAC_EINVAL, "mask has an empty unit, expected A or F and a layer");
    char kind = (char)(text[0] & ~0x20); /* upper case of an ASCII letter */
    if (kind != 'A' && kind != 'F')
        return lac_fail(err, LAC_EINVAL, "mask unit \"%.*s\" must start with A or F", shown, text);
    if (text + 1 == end)
        return lac_fail(err, LAC_EINVAL, "mask unit \"%.*s\" has no layer", shown, text);
    unsigned layer = 0;
    for (const char *p = text + 1; p < end; p++) {
        if (*p < '0' || *p > '9')
            return lac_fail(err, LAC_EINVAL, "mask unit \"%.*s\" has no decimal layer", shown,
                            text);
        layer = layer * 10 + (unsigned)(*p - '0');
        if (layer >= layers)
            return lac_fail(err, LAC_EINVAL, "mask unit \"%.*s\" is past the last layer, %u", shown,
                            text, layers - 1);
    }
    *unit = 2 * layer + (kind == 'F');
    return LAC_OK;
}

lac_status lac_mask_parse(const char *text, unsigned layers, lac_mask *out, lac_error *err)
{
    LAC_ASSERT(layers >= 1 && layers <= LAC_LAYERS_MAX);
    lac_mask mask = {{0}};
    for (const char *at = text; *text != '\0'; at++) {
        const char *end = at + strcspn(at, ",");
        unsigned unit = 0;
        lac_status status = unit_parse(at, end, layers, &unit, err);
        if (status != LAC_OK)
            return status;
        if (lac_mask_has(&mask, unit))
            return lac_fail(err, LAC_EINVAL, "mask names unit %c%u twice", unit % 2 ? 'F' : 'A',
                            unit / 2);
        lac_mask_set(&mask, unit);
        at = end;
        if (*at == '\0')
            break;
    }
    *out = mask;
    return LAC_OK;
}

void lac_mask_text(const lac_mask *mask, lac_buf *out)
{
    const char *comma = "";
    for (unsigned unit = 0; unit < LAC_UNITS_MAX; unit++) {
        if (!lac_mask_has(mask, unit))
            continue;
        lac_buf_printf(out, "%s%c%u", comma, unit % 2 ? 'F' : 'A', unit / 2);
        comma = ",";
    }
}
