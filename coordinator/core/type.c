/* The input type: walks the decision tree of type_tree.inc, which is data that a script made from
 * labelled samples. Pure. Knows nothing of where features come from. */
#include "type.h"

#include <stdio.h>

#include "base/assert.h"

const lac__tree_row lac__tree[] = {
#include "type_tree.inc"
};
const size_t lac__tree_rows = sizeof lac__tree / sizeof *lac__tree;

const char *lac__type_name(lac__type type)
{
    static const char *const names[LAC__TYPES] = {"unknown", "structured", "unstructured", "hybrid",
                                                  "code"};
    return type < LAC__TYPES ? names[type] : "unknown";
}

/* One step down; < 0 is a type. */
static int step(const lac__features *features, int row)
{
    const lac__tree_row *r = &lac__tree[row];
    return features->value[r->feature] <= r->at_most ? r->low : r->high;
}

lac__type lac__type_of(const lac__features *features)
{
    int row = 0;
    for (int depth = 0; depth < LAC__TREE_DEPTH && row >= 0; depth++)
        row = step(features, row);
    LAC_ASSERT(row < 0 && -row < LAC__TYPES); /* the table is no deeper and names real types */
    return (lac__type)-row;
}

void lac__type_reason(const lac__features *features, char *out, size_t size)
{
    size_t used = 0;
    out[0] = 0;
    for (int row = 0, next; row >= 0 && used < size; row = next) {
        const lac__tree_row *r = &lac__tree[row];
        next = step(features, row);
        unsigned value = features->value[r->feature];
        int n = snprintf(out + used, size - used, "%s%s %u %s %u", used ? ", " : "",
                         lac__feature_name(r->feature), value, value <= r->at_most ? "<=" : ">",
                         r->at_most);
        used += (size_t)n;
    }
}
