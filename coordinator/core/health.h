/* Whether the ways through the model keep what they promise: five figures over the last minutes,
 * each with its band and, outside it, with the cause. Seen by this folder and its tests only. Pure:
 * time is an argument. Knows no request, group or message.
 *
 *   ECR  executed over expected: erased unit-tokens of requests a class was chosen for, over those
 *        that the class promised for what they computed
 *   PES  path efficiency: decode time that those requests saved, over the time predicted from the
 *        class's cost and the same group's pace in full at the same load
 *   PSR  path success: those that ended well under their class, over all of them that ended
 *   skip rate, skipped layers
 *        share of all requests that ran as a class, and mean layers a request left out: the last
 *        LAC__HEALTH_NOW minutes against the hour before them
 *
 * The first three have fixed limits. The last two have a band around what the hour before had: a
 * tenth of a share (a tenth of the layers' mean, one layer at least), or three standard errors if
 * that is more. */
#ifndef LAC_CORE_HEALTH_H
#define LAC_CORE_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "type.h"

#define LAC__ECR_MIN 0.95
#define LAC__PES_MIN 0.85
#define LAC__PSR_MIN 0.992

enum {
    LAC__HEALTH_MINUTES = 65, /* kept */
    LAC__HEALTH_NOW = 5,      /* the newest of them are judged */
    LAC__HEALTH_SAMPLES = 20, /* fewer say nothing */
    LAC__HEALTH_CHECKS = 5
};

/* Why a request did not do what its class promised. */
typedef enum {
    LAC__MISS_NOTHING,
    LAC__MISS_NO_GROUP, /* no READY group held the class any more */
    LAC__MISS_NO_ROOM,  /* none that held it had room */
    LAC__MISS_WORKER,   /* the worker ran it in full */
    LAC__MISS_ERROR,    /* it failed */
    LAC__MISS_DEADLINE,
    LAC__MISS_LOST,       /* its groups died */
    LAC__MISS_RECOMPUTED, /* as the class, but with rows run more than once or in full */
    LAC__MISS_MIXED,      /* full requests ran in the same batches */
    LAC__MISS_SLOW,       /* nobody ran in full beside it, and yet it was slower than predicted */
    LAC__MISSES
} lac__miss;
const char *lac__miss_name(lac__miss miss); /* "no_room" */

/* One request that ended. */
typedef struct {
    lac__type type;
    bool masked;               /* it ran as a class to its end */
    uint32_t skipped_layers;   /* of its last account; 0 in full */
    bool chosen;               /* a class was chosen for it: the rest counts */
    bool judged;               /* it ended by itself, not by its client */
    lac__miss miss;            /* NOTHING: it ended well under its class */
    double expected, executed; /* erased unit-tokens, as a share of one unit a row; 0 = not known */
    double predicted_ms, saved_ms; /* 0 = not measured */
    bool mixed;
} lac__path_sample;

typedef struct {
    uint32_t ended[LAC__TYPES], masked[LAC__TYPES];
    double layers[LAC__TYPES], layers_squared;
    uint32_t chosen, measured[2]; /* of ECR, of PES */
    uint32_t missed_by[LAC__MISSES];
    double expected, executed, missed[LAC__MISSES]; /* missed unit-tokens */
    double predicted_ms, saved_ms, late_ms[LAC__MISSES];
} lac__health_minute;

/* Zero at first. */
typedef struct {
    lac__health_minute minutes[LAC__HEALTH_MINUTES];
    uint64_t minute; /* the newest, counted from the clock's 0 */
} lac__health;

void lac__health_add(lac__health *health, uint64_t now_ms, const lac__path_sample *sample);
/* "ecr", "pes", "psr", "skip_rate", "skipped_layers", in that order. `changed`, if not NULL, gets
 * the types that moved one of the last two out of its band. */
void lac__health_checks(lac__health *health, uint64_t now_ms, lac_check out[LAC__HEALTH_CHECKS],
                        bool changed[LAC__TYPES]);

#endif
