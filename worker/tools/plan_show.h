/* A plan for people: a table with a map of the units in the terminal, and the map as SVG. */
#ifndef LAC_TOOLS_PLAN_SHOW_H
#define LAC_TOOLS_PLAN_SHOW_H

#include "base/mem.h"
#include "plan/plan.h"

void lac_tool_plan_table(const lac_plan *plan, lac_buf *out);
/* One row a class and kind of unit, one column a layer: what runs, what a patch stands in for, what
 * is left out. A whole document. */
void lac_tool_plan_svg(const lac_plan *plan, lac_buf *out);

#endif
