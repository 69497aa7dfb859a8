/* A command whose engine is a group of ranks: this process starts one process a rank, each of which
 * is the same command again, and watches them. Main thread. */
#ifndef LAC_TOOLS_RANKS_H
#define LAC_TOOLS_RANKS_H

#include "engine_options.h"
#include "topology/placement.h"

/* In the process that people start, with --pp or --tp above 1: runs the ranks and returns the exit
 * code of the command. −1: go on, this process is the only rank or one of several. */
int lac_tool_ranks(const lac_tool_spec *spec, const lac_tool_engine *options, char **argv);

/* In a rank of several: joins the others and fills engine->group. A no-op in the only rank. */
lac_status lac_tool_ranks_join(const lac_tool_engine *options, lac_engine_options *engine,
                               lac_error *err);
/* After the engine is destroyed: leaves the others. */
void lac_tool_ranks_leave(void);
/* True in a rank that has to follow. */
bool lac_tool_ranks_follows(void);

/* The placement that the options ask for; `classes` as the engine will be given them. */
lac_status lac_tool_placement(const lac_model *model, const lac_tool_engine *options,
                              lac_placement *out, lac_error *err);

#endif
