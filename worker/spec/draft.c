/* Finding a draft in the text itself. Pure, any thread. Must not know tokens' meaning or the model.
 */
#include "base/assert.h"
#include "spec/spec.h"

/* Tokens before `end` that equal those before `count`, at most LAC_SPEC_MATCH_MAX. */
static uint32_t match_length(const uint32_t *tokens, uint32_t count, uint32_t end)
{
    uint32_t length = 0;
    while (length < LAC_SPEC_MATCH_MAX && length < end &&
           tokens[end - 1 - length] == tokens[count - 1 - length])
        length++;
    return length;
}

uint32_t lac_spec_draft(const uint32_t *tokens, uint32_t count, uint32_t max, uint32_t *out)
{
    LAC_ASSERT(max <= LAC_SPEC_DRAFT_MAX);
    if (count <= LAC_SPEC_MATCH_MIN || max == 0)
        return 0;
    uint32_t last = tokens[count - 1], best = LAC_SPEC_MATCH_MIN - 1, from = 0;
    for (uint32_t end = count - 1; end >= LAC_SPEC_MATCH_MIN && best < LAC_SPEC_MATCH_MAX; end--) {
        if (tokens[end - 1] != last)
            continue;
        uint32_t length = match_length(tokens, count, end);
        if (length > best) {
            best = length;
            from = end;
        }
    }
    if (from == 0)
        return 0;
    uint32_t known = count - from;
    for (uint32_t i = 0; i < max; i++)
        out[i] = i < known ? tokens[from + i] : out[i - known];
    return max;
}
