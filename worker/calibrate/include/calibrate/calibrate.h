/* Finds what a model may leave out for one type of input, and proves it: search on calibration
 * prompts, patches, certificates on hold-out prompts. The main thread, which also owns the engine
 * it makes. */
#ifndef LAC_CALIBRATE_H
#define LAC_CALIBRATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/class.h"
#include "base/mem.h"
#include "base/status.h"
#include "calibrate/prompts.h"
#include "calibrate/ridge.h"
#include "calibrate/statistics.h"
#include "kernels/kernels.h"
#include "probe/probe.h"

enum {
    LAC_CALIBRATE_UNITS_MAX = 16,     /* units of one mask */
    LAC_CALIBRATE_POINTS_MAX = 24,    /* masks on the curve */
    LAC_CALIBRATE_DOCUMENTS_MIN = 60, /* for a certificate … */
    LAC_CALIBRATE_REQUESTS_MIN = 300, /* … both */
};

typedef struct {
    const char *model_path;
    uint32_t threads;
    lac_isa isa;
    const lac_prompt_set *calibration, *holdout; /* of one type, disjoint */
    lac_tier tier;                               /* the deepest that is looked for */
    const char *state_path;                      /* what was found so far; removed at the end */
    uint32_t window;     /* tokens of a calibration window, and of a request at most: 8 … 512 */
    uint32_t fit_tokens; /* patches are fitted on so many … */
    uint32_t select_tokens;  /* … and masks compared on so many, of other documents */
    uint32_t requests_max;   /* of the hold-out, from its start; 0 = all */
    uint32_t preselect;      /* units kept by influence */
    uint32_t candidates;     /* of them by their own KL */
    uint32_t shortlist;      /* tried in each round */
    uint32_t units_max;      /* of a mask, at most LAC_CALIBRATE_UNITS_MAX */
    uint32_t swaps;          /* exchanges tried at the end */
    bool patches;            /* fit patches */
    uint32_t rank, rank_max; /* of a patch; rank 0: chosen by cost */
    double batch, context;   /* at which cost is reckoned */
    /* Called now and then; `share` of all the work is done. False stops with LAC_ECANCELLED. */
    bool (*progress)(void *arg, const char *stage, double share);
    void *progress_arg;
} lac_calibrate_options;

/* One mask of the curve. */
typedef struct {
    lac_mask mask;
    double cost_saved;             /* share of a token's bytes left out, patches counted */
    double search_kl, search_top1; /* on the selection windows */
    bool measured;                 /* on the hold-out: */
    lac_stat_bounds kl, top1;
    double p95;
    double kind_kl[LAC_KINDS]; /* mean KL by kind of the token that follows */
    uint64_t kind_tokens[LAC_KINDS];
    lac_tier tier; /* certified; NONE: not */
    uint32_t patches_count;
    uint32_t patch_units[LAC_CALIBRATE_UNITS_MAX];
    lac_fit_patch patches[LAC_CALIBRATE_UNITS_MAX]; /* when measured */
    lac_probe probe; /* of a certified mask; report.worth: it belongs into the plan */
    lac_probe_report probe_report;
} lac_calibrate_point;

typedef struct {
    uint32_t points_count;
    lac_calibrate_point points[LAC_CALIBRATE_POINTS_MAX]; /* by depth; [0] leaves nothing out */
    uint32_t documents, requests;                         /* of the hold-out that were measured */
    uint64_t tokens;
    bool enough; /* documents and requests for a certificate */
    uint64_t fit_rows, select_rows;
    /* The point certified for each tier: the deepest within it; 0 = none. */
    uint32_t certified[LAC_TIERS];
} lac_calibrate_result;

/* LAC_ECANCELLED when progress said stop: the state file then knows all finished steps. */
lac_status lac_calibrate(const lac_calibrate_options *options, lac_calibrate_result **out,
                         lac_error *err);
void lac_calibrate_result_free(lac_calibrate_result **result);

/* The curve as CSV and as an SVG picture. */
void lac_calibrate_csv(const lac_calibrate_result *result, lac_buf *out);
void lac_calibrate_svg(const lac_calibrate_result *result, const char *title, lac_buf *out);

#endif
