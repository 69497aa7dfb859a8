/* Parts of the forward pass, for calibration: in an engine without classes, nothing else running. The
 * engine's thread.
 *
 * Running 0 … all units and then the head gives the bits of lac_engine_score(); leaving a unit out gives
 * those of a class that erases it. So a search over masks starts from the states before the unit it
 * changes and runs only what comes after. */
#ifndef LAC_ENGINE_SPAN_H
#define LAC_ENGINE_SPAN_H

#include "engine/engine.h"

/* Runs units `first` … `end`−1 over a window of `rows` (≤ LAC_BATCH_ROWS_MAX) tokens at positions
 * 0, 1, …; out [rows][hidden] is the residual stream after them. With `in` NULL the stream starts
 * with the tokens' embeddings, else with in [rows][hidden] and `tokens` is not read. `out` may be
 * `in`. A unit that is not in memory does nothing. LAC_EINVAL names what is out of range, LAC_BUSY
 * when a sequence runs, LAC_EUNSUPPORTED in an engine with classes. */
lac_status lac_engine_units_run(lac_engine *engine, uint32_t first, uint32_t end,
                                const uint32_t *tokens, uint32_t rows, const float *in, float *out,
                                lac_error *err);
/* The head over states [count][hidden] after the last unit: calls `row` for each. */
lac_status lac_engine_head_run(lac_engine *engine, const float *states, size_t count,
                               lac_engine_row row, void *arg, lac_error *err);

#endif
