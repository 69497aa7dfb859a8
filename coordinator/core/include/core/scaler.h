/* How many groups the fleet should have. A pure function of what was measured and of a small state
 * that remembers its own past: no clock, no I/O, no other part of the core.
 *
 * Staffing by Little's law: arrivals × slot time is the mean number of busy slots R; the waiting
 * work has to be done before a group started now would be of use; a margin of beta × √R covers
 * chance (square-root staffing, Halfin and Whitt 1981). Slot times are those measured at the
 * present skip rate, so a fall of it is seen as lost capacity before a queue has grown. Waits say
 * that something is wrong, not how much is missing, so they only add one group as a guard. */
#ifndef LAC_CORE_SCALER_H
#define LAC_CORE_SCALER_H

#include <stdbool.h>
#include <stdint.h>

enum {
    LAC_SCALER_PERIOD_MS = 2500, /* between two decisions */
    LAC_SCALER_SHORT_S = 5,      /* the window that sees a surge */
    LAC_SCALER_HISTORY = 128,    /* needs remembered: more than the window holds */
    LAC_SCALER_TURN_MS = 600000, /* at most two changes of direction within */
    LAC_SCALER_DAY_BINS = 96,    /* quarters of an hour */
};

typedef struct {
    uint32_t groups_min, groups_max;
    double beta;             /* 1.5 */
    uint32_t down_window_ms; /* the largest need of a dozen cold starts is kept, at most of this:
                                300,000 */
    uint32_t down_step_ms;   /* between two steps down: 60,000 */
    uint32_t idle_ms;        /* without any work before the last group goes; groups_min is 0 */
    bool forecast;           /* by time of day */
} lac_scaler_policy;

/* What the fleet looks like. */
typedef struct {
    uint64_t now_ms;
    int64_t wall_s;                 /* for the time of day; 0 = unknown */
    bool known;                     /* false: reports are missing or verdicts are frozen */
    double arrivals_s;              /* requests a second, over the last minute */
    double arrivals_short_s;        /* the same over the last LAC_SCALER_SHORT_S */
    double slot_seconds;            /* mean time a request holds a slot */
    double queued_slot_seconds;     /* waiting work */
    double slots_per_group;         /* that keep the ITL target; > 0 */
    double wait_ms, wait_target_ms; /* oldest in the queue; what is promised (0 = nothing) */
    double cold_start_s;            /* from order to READY */
    uint32_t ready, starting;       /* groups; those on their way out are in neither */
    uint32_t waiting, running;      /* requests */
} lac_scaler_snapshot;

typedef enum {
    LAC_SCALER_STEADY,   /* as many as needed */
    LAC_SCALER_UP,       /* more work than groups */
    LAC_SCALER_GUARD,    /* somebody waits too long */
    LAC_SCALER_FORECAST, /* this hour usually needs more */
    LAC_SCALER_WAKE,     /* from zero */
    LAC_SCALER_DOWN,
    LAC_SCALER_IDLE,    /* the last one goes */
    LAC_SCALER_WAIT,    /* fewer would do, but not for long enough yet */
    LAC_SCALER_TURNING, /* changed its mind lately: keeps the higher value */
    LAC_SCALER_BLIND,   /* nothing is known: holds */
    LAC_SCALER_REASONS
} lac_scaler_reason;

/* A decision with what it was made of. */
typedef struct {
    uint32_t groups; /* to have */
    uint32_t need;   /* by the formula, within the limits, before windows */
    double busy, backlog, margin, slots_per_group; /* slots */
    lac_scaler_reason reason;
} lac_scaler_decision;

typedef struct {
    struct {
        uint64_t ms;
        uint32_t need;
    } needs[LAC_SCALER_HISTORY];
    uint32_t needs_next, needs_count;
    uint64_t started_ms, last_down_ms, last_busy_ms;
    uint64_t up_since_ms; /* start of the cold start that growth is measured in */
    uint32_t up_base;
    int direction;                  /* of the last change: −1, 0, 1 */
    uint64_t turn_ms;               /* when it last changed its mind; 0 = never */
    float day[LAC_SCALER_DAY_BINS]; /* busy slots by time of day, smoothed over days; < 0 = never
                                       seen */
    bool begun;
} lac_scaler;

/* The policy of an installation that says nothing but its limits. */
lac_scaler_policy lac_scaler_policy_default(uint32_t groups_min, uint32_t groups_max);

/* Called every LAC_SCALER_PERIOD_MS with a zeroed state at first. `now_ms` never goes back. */
void lac_scaler_decide(lac_scaler *scaler, const lac_scaler_policy *policy,
                       const lac_scaler_snapshot *snapshot, lac_scaler_decision *out);
const char *lac_scaler_reason_name(lac_scaler_reason reason);

#endif
