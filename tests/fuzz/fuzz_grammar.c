/* A schema, a zero byte, and bytes of an answer: whatever the schema is, it is refused or can be
 * followed to an end; what is whole is JSON. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "parts.h"

static bool can_go_on(const lac_grammar *g, const lac__place *place)
{
    static lac__place next;
    for (unsigned b = 0; b < 256; b++)
        if (lac__place_feed(g, place, (uint8_t)b, &next))
            return true;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static lac__place places[2];
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    size_t length = zero ? (size_t)(zero - data) : size, taken = 0;
    lac_grammar *g = NULL;
    lac_error err;
    if (lac_grammar_create((const char *)data, length, &g, &err) != LAC_OK)
        return 0;
    const char *answer = zero ? (const char *)zero + 1 : "";
    size_t answer_length = zero ? size - length - 1 : 0;
    lac__place_start(g, &places[0]);
    for (; taken < answer_length; taken++)
        if (!lac__place_feed(g, &places[taken % 2], (uint8_t)answer[taken],
                             &places[(taken + 1) % 2]))
            break;
    const lac__place *place = &places[taken % 2];
    bool whole = lac__place_complete(g, place);
    if (!whole && !can_go_on(g, place))
        abort();
    json_t *json = whole ? json_loadb(answer, taken, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;
    if (whole && !json)
        abort();
    json_decref(json);
    lac_grammar_destroy(&g);
    return 0;
}
