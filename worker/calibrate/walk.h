/* Windows of tokens, states of the model over them, and what a calibration run consists of.
 * Internal to worker/calibrate. */
#ifndef LAC_CALIBRATE_WALK_H
#define LAC_CALIBRATE_WALK_H

#include "calibrate/calibrate.h"
#include "calibrate/memo.h"
#include "calibrate/prompts.h"
#include "engine/engine.h"
#include "engine/span.h"

/* One stretch of text, run by itself from position 0. */
typedef struct {
    uint32_t *tokens; /* [count] */
    uint32_t count, document, prompt;
    size_t at; /* its first row where the windows' states lie one after another */
} lac__window;

typedef struct {
    lac__window *windows; /* [count] */
    uint32_t count;
    size_t rows;
} lac__windows;

/* A mask with what stands in for its units. */
typedef struct {
    lac_mask mask;
    lac_fit_patch *patches; /* [units]; rank 0: none */
} lac__masked;

typedef struct {
    const lac_calibrate_options *options;
    lac_engine *engine;
    const lac_model *model;
    uint32_t units, hidden, vocab;
    float eps;
    lac_memo *memo;
    double *cost;    /* [units] bytes a token at options' batch and context; 0: not there */
    double cost_all; /* of all units */
    /* progress, in rows × units; the head counts as head_units */
    const char *stage;
    double work_done, work_all, head_units;
    uint64_t last_ns;
} lac__run;

/* Loads the model and opens the state file. `options` outlives the run. */
lac_status lac__run_open(const lac_calibrate_options *options, lac__run *out, lac_error *err);
void lac__run_close(lac__run *run);

/* Cuts prompts into windows of at most `length` tokens, `tokens_max` in all (0 = no limit), spread
 * over the documents for which take(document) holds; `whole`: one window a prompt, its start, and
 * at most prompts_max of them (0 = all). Freed with lac__windows_free(). */
lac_status lac__windows_make(const lac__run *run, const lac_prompt_set *set, uint32_t length,
                             size_t tokens_max, bool (*take)(uint32_t document), lac__windows *out,
                             lac_error *err);
lac_status lac__requests_make(const lac__run *run, const lac_prompt_set *set, uint32_t length,
                              uint32_t prompts_max, lac__windows *out, lac_error *err);
void lac__windows_free(lac__windows *windows);

void lac__masked_free(lac__masked *masked, uint32_t units);

/* Runs units from … to−1 over a window's states [count][hidden] in place, those of the mask
 * replaced by their patches. masked NULL: the full model. from 0: states start as embeddings. */
lac_status lac__walk(lac__run *run, const lac__window *window, const lac__masked *masked,
                     uint32_t from, uint32_t to, float *states, lac_error *err);

/* The lowest unit of a mask; `units` when it is empty. */
uint32_t lac__lowest(const lac_mask *mask, uint32_t units);

/* Counts work as done and tells progress. LAC_ECANCELLED when it says stop. */
lac_status lac__tick(lac__run *run, double work, lac_error *err);

/* ---- divergence from the full model over rows of one window ---- */

typedef struct {
    const float *log_p;   /* [rows][vocab] the full model's */
    const uint32_t *best; /* [rows] its most likely tokens */
    double kl_sum;
    uint32_t agree;
    double *kl; /* [rows] of each, or NULL */
    uint32_t vocab;
} lac__divergence;

/* Log-probabilities [rows][vocab] and best tokens of final states. */
lac_status lac__log_probs(lac__run *run, const float *states, uint32_t rows, float *log_p,
                          uint32_t *best, lac_error *err);
/* Adds the divergence of final states [rows][hidden]. */
lac_status lac__diverge(lac__run *run, const float *states, uint32_t rows, lac__divergence *out,
                        lac_error *err);

#endif
