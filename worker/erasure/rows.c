/* Row lists by the set of classes that keep a unit. Pure bookkeeping; the engine's thread. Must not
 * know sequences, kernels or what a unit computes. */
#include "erasure/rows.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/mem.h"

/* One distinct set of keeping classes. */
typedef struct {
    uint32_t keepers; /* bit c: class c runs the units of this pattern */
    uint32_t count;
    uint32_t *rows; /* [rows_max] */
} pattern;

struct lac_unit_rows {
    uint32_t units, classes_count, rows_max;
    uint32_t *pattern_of; /* [units] */
    pattern *patterns;    /* [patterns_count] */
    uint32_t patterns_count;
    uint32_t *rows; /* one allocation for all patterns */
};

lac_unit_rows *lac_unit_rows_create(uint32_t units, const lac_mask *masks, uint32_t classes_count,
                                    uint32_t rows_max)
{
    LAC_ASSERT(units <= LAC_UNITS_MAX);
    LAC_ASSERT(classes_count >= 1 && classes_count <= LAC_CLASSES_MAX);
    lac_unit_rows *r = lac_alloc(1, sizeof *r);
    r->units = units;
    r->classes_count = classes_count;
    r->rows_max = rows_max;
    r->pattern_of = lac_alloc(units + 1, sizeof *r->pattern_of);
    r->patterns = lac_alloc(units + 1, sizeof *r->patterns);
    for (uint32_t u = 0; u < units; u++) {
        uint32_t keepers = 0, p = 0;
        for (uint32_t c = 0; c < classes_count; c++)
            keepers |= lac_mask_has(&masks[c], u) ? 0u : 1u << c;
        while (p < r->patterns_count && r->patterns[p].keepers != keepers)
            p++;
        if (p == r->patterns_count)
            r->patterns[r->patterns_count++].keepers = keepers;
        r->pattern_of[u] = p;
    }
    r->rows = lac_alloc((size_t)r->patterns_count * rows_max + 1, sizeof *r->rows);
    for (uint32_t p = 0; p < r->patterns_count; p++)
        r->patterns[p].rows = r->rows + (size_t)p * rows_max;
    return r;
}

void lac_unit_rows_destroy(lac_unit_rows **rows)
{
    if (!rows || !*rows)
        return;
    free((*rows)->pattern_of);
    free((*rows)->patterns);
    free((*rows)->rows);
    free(*rows);
    *rows = NULL;
}

void lac_unit_rows_fill(lac_unit_rows *rows, const uint32_t class_rows[LAC_CLASSES_MAX])
{
    uint64_t all = 0;
    for (uint32_t c = 0; c < LAC_CLASSES_MAX; c++) {
        LAC_ASSERT(c < rows->classes_count || class_rows[c] == 0);
        all += class_rows[c];
    }
    LAC_ASSERT(all <= rows->rows_max);
    for (uint32_t i = 0; i < rows->patterns_count; i++) {
        pattern *p = &rows->patterns[i];
        uint32_t first = 0;
        p->count = 0;
        for (uint32_t c = 0; c < rows->classes_count; first += class_rows[c++])
            for (uint32_t row = 0; (p->keepers >> c & 1) && row < class_rows[c]; row++)
                p->rows[p->count++] = first + row;
    }
}

const uint32_t *lac_unit_rows_of(const lac_unit_rows *rows, uint32_t unit, uint32_t *count)
{
    LAC_ASSERT(unit < rows->units);
    const pattern *p = &rows->patterns[rows->pattern_of[unit]];
    *count = p->count;
    return p->rows;
}
