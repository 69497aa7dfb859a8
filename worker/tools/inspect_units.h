/* What inspect says about a model's units: the state of each, gates for a build pipeline, and the
 * difference from an older file. */
#ifndef LAC_TOOLS_INSPECT_UNITS_H
#define LAC_TOOLS_INSPECT_UNITS_H

#include "model/model.h"
#include "tools.h"

typedef struct {
    lac_unit_state state;
    uint64_t bytes;         /* of its tensors */
    lac_unit_record record; /* of one that is not active */
    double bound;           /* largest size in its output projection; −1 = not looked at */
    bool near_zero;         /* small beside the other units of its kind: a report, no more */
} lac_tool_unit;

typedef struct {
    uint32_t units_count, active, zeroed, erased;
    double sparsity; /* share of units that are not active */
    bool near_read;
    lac_tool_unit *units; /* [units_count] */
} lac_tool_units;

/* Reads the bytes that decide; with `near_zero` all of each output projection. LAC_ECORRUPT when
 * the file claims a zero unit that is not. Freed with lac_tool_units_free(). */
lac_status lac_tool_units_read(const lac_model *model, bool near_zero, lac_tool_units *out,
                               lac_error *err);
void lac_tool_units_free(lac_tool_units *units);

/* LAC_EREFUSED naming share and limit when fewer than `least` of the units are not active. */
lac_status lac_tool_units_gate(const lac_tool_units *units, double least, lac_error *err);
/* LAC_EREFUSED naming the units that were not active in `old` and are now. */
lac_status lac_tool_units_against(const lac_tool_units *units, const lac_tool_units *old,
                                  const char *old_path, lac_error *err);

/* Members of a JSON object, without its braces; lines of the table. `old` may be NULL. */
void lac_tool_units_json(const lac_tool_units *units, const lac_tool_units *old, lac_buf *out);
void lac_tool_units_table(const lac_tool_units *units, const lac_tool_units *old, bool all,
                          lac_buf *out);

#endif
