/* Any bytes as a prompt's text: features stay in 0 … 1000, a type comes out, the same again for the
 * same bytes, and neither hint nor trimming reads past the ends. */
#include <stdlib.h>
#include <string.h>

#include "type.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lac_prompt prompt = {.kind = LAC_PROMPT_TEXT, .text = {(const char *)data, (uint32_t)size}};
    lac__fingerprint first, second;
    lac__features features, again;
    lac__fingerprint_of(&prompt, &first, &features);
    lac__fingerprint_of(&prompt, &second, &again);
    if (memcmp(&features, &again, sizeof features) != 0 || first.type != second.type ||
        first.hint != second.hint || first.bucket != second.bucket)
        abort();
    for (int f = 0; f < LAC__FEATURES; f++)
        if (features.value[f] > 1000)
            abort();
    if (first.type >= LAC__TYPES || first.hint >= LAC__HINTS || first.bucket >= LAC__BUCKETS)
        abort();
    char reason[40];
    lac__type_reason(&features, reason, sizeof reason);
    lac_span trimmed = lac__hint_trim(prompt.text);
    if (trimmed.length > size ||
        (trimmed.length && (trimmed.data < prompt.text.data ||
                            trimmed.data + trimmed.length > prompt.text.data + size)))
        abort();
    return 0;
}
