/* Depth and count of JSON values, from bytes alone: a parser spends some forty bytes on each value,
 * so both are bounded before it runs. Pure, any thread. */
#include "json_scan.h"

#include "base/limits.h"

bool lac__json_scan(const char *text, size_t length, lac__problem *problem)
{
    size_t depth = 0, values = 1;
    bool quoted = false;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (quoted) {
            if (c == '\\')
                i++;
            else if (c == '"')
                quoted = false;
            continue;
        }
        switch (c) {
        case '"': quoted = true; break;
        case ',': values++; break;
        case '[':
        case '{':
            values++;
            if (++depth > LAC_JSON_DEPTH_MAX)
                return lac__problem_set(problem, 400, "invalid_json", NULL,
                                        "body nests JSON deeper than %d, the most allowed",
                                        LAC_JSON_DEPTH_MAX);
            break;
        case ']':
        case '}':
            if (depth > 0)
                depth--;
            break;
        default: break;
        }
    }
    if (values > LAC_JSON_VALUES_MAX)
        return lac__problem_set(problem, 400, "invalid_json", NULL,
                                "body holds %zu JSON values, allowed at most %d", values,
                                LAC_JSON_VALUES_MAX);
    return true;
}
