/* The autoscaler's arithmetic: need, then what windows and guards leave of it. Pure. */
#include "core/scaler.h"

#include <math.h>

#include "base/assert.h"

static const double surge_sigmas = 4; /* the last seconds count when chance does not explain them */
static const double backlog_grace_s = 30; /* beyond the cold start, to work the queue off */
static const double keep =
    1.2; /* busy slots are taken for so many times as much before one group goes */
static const double day_weight = 0.3; /* of the newest day */
enum {
    UP_MIN = 8,
    DOWN_SHARE = 4 /* of the surplus goes in one step */,
    DOWN_WINDOW_MIN_MS = 60000,
    DOWN_WINDOW_COLD_STARTS = 12,
    NEVER_SEEN = -1
};

static const char *const names[LAC_SCALER_REASONS] = {
    [LAC_SCALER_STEADY] = "steady",
    [LAC_SCALER_UP] = "more work than groups",
    [LAC_SCALER_GUARD] = "waits",
    [LAC_SCALER_FORECAST] = "forecast",
    [LAC_SCALER_WAKE] = "wakes from zero",
    [LAC_SCALER_DOWN] = "fewer are enough",
    [LAC_SCALER_IDLE] = "idle",
    [LAC_SCALER_WAIT] = "window",
    [LAC_SCALER_TURNING] = "turned too often",
    [LAC_SCALER_BLIND] = "nothing known",
};

const char *lac_scaler_reason_name(lac_scaler_reason reason)
{
    return names[reason];
}

lac_scaler_policy lac_scaler_policy_default(uint32_t groups_min, uint32_t groups_max)
{
    return (lac_scaler_policy){.groups_min = groups_min,
                               .groups_max = groups_max,
                               .beta = 1.5,
                               .down_window_ms = 300000,
                               .down_step_ms = 60000,
                               .idle_ms = 300000,
                               .forecast = true};
}

static uint32_t clamp(double groups, const lac_scaler_policy *policy)
{
    if (groups < policy->groups_min)
        return policy->groups_min;
    return groups > policy->groups_max ? policy->groups_max : (uint32_t)groups;
}

static uint32_t groups_for(double busy, double backlog, const lac_scaler_policy *policy,
                           const lac_scaler_snapshot *s)
{
    return clamp(ceil((busy + backlog + policy->beta * sqrt(busy)) / s->slots_per_group), policy);
}

/* ---- the time of day ---- */

static int bin_of(int64_t wall_s)
{
    return (int)(wall_s % 86400 * LAC_SCALER_DAY_BINS / 86400);
}

static void learn_day(lac_scaler *scaler, const lac_scaler_snapshot *s, double busy)
{
    if (s->wall_s <= 0)
        return;
    float *bin = &scaler->day[bin_of(s->wall_s)];
    /* Weighed so that one pass through a bin (180 decisions) counts as one day. */
    double weight = day_weight / (900000.0 / LAC_SCALER_PERIOD_MS);
    *bin = *bin < 0 ? (float)busy : (float)(*bin + weight * (busy - *bin));
}

/* Busy slots when a group ordered now would be ready; 0 when that time of day was never seen. */
static double forecast(const lac_scaler *scaler, const lac_scaler_snapshot *s)
{
    if (s->wall_s <= 0)
        return 0;
    float bin = scaler->day[bin_of(s->wall_s + (int64_t)s->cold_start_s + 60)];
    return bin < 0 ? 0 : bin;
}

/* ---- windows ---- */

static void remember(lac_scaler *scaler, uint64_t now_ms, uint32_t need)
{
    scaler->needs[scaler->needs_next].ms = now_ms;
    scaler->needs[scaler->needs_next].need = need;
    scaler->needs_next = (scaler->needs_next + 1) % LAC_SCALER_HISTORY;
    if (scaler->needs_count < LAC_SCALER_HISTORY)
        scaler->needs_count++;
}

static uint32_t largest_need(const lac_scaler *scaler, uint64_t now_ms, uint32_t window_ms)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < scaler->needs_count; i++)
        if (now_ms - scaler->needs[i].ms <= window_ms && scaler->needs[i].need > most)
            most = scaler->needs[i].need;
    return most;
}

static void turn(lac_scaler *scaler, uint64_t now_ms, int direction)
{
    if (scaler->direction && scaler->direction != direction)
        scaler->turn_ms = now_ms;
    scaler->direction = direction;
}

/* Growth is never refused, so that going down now could mean up again at once: with no turn before
 * it, that makes two within LAC_SCALER_TURN_MS. */
static bool turned_lately(const lac_scaler *scaler, uint64_t now_ms)
{
    return scaler->direction > 0 && scaler->turn_ms &&
           now_ms - scaler->turn_ms < LAC_SCALER_TURN_MS;
}

/* At most doubles, or eight more, within one cold start: what was ordered has to show its effect.
 */
static uint32_t grow(lac_scaler *scaler, const lac_scaler_snapshot *s, uint32_t have, uint32_t need)
{
    uint64_t cold_ms = (uint64_t)(s->cold_start_s * 1000);
    if (!scaler->up_since_ms || s->now_ms - scaler->up_since_ms >= cold_ms) {
        scaler->up_since_ms = s->now_ms ? s->now_ms : 1;
        scaler->up_base = have;
    }
    uint32_t limit = scaler->up_base + (scaler->up_base > UP_MIN ? scaler->up_base : UP_MIN);
    uint32_t groups = need < limit ? need : limit;
    return groups > have ? groups : have;
}

/* A wrong step down costs one cold start, so the window is some of them. */
static uint32_t down_window_ms(const lac_scaler_policy *policy, const lac_scaler_snapshot *s)
{
    double window = s->cold_start_s * 1000 * DOWN_WINDOW_COLD_STARTS;
    if (window < DOWN_WINDOW_MIN_MS)
        window = DOWN_WINDOW_MIN_MS;
    return window < policy->down_window_ms ? (uint32_t)window : policy->down_window_ms;
}

static void shrink(lac_scaler *scaler, const lac_scaler_policy *policy,
                   const lac_scaler_snapshot *s, uint32_t have, lac_scaler_decision *out)
{
    uint32_t window_ms = down_window_ms(policy, s);
    uint32_t enough = largest_need(scaler, s->now_ms, window_ms);
    bool early = s->now_ms - scaler->started_ms < window_ms;
    bool last = have == 1 && enough == 0;
    out->groups = have;
    out->reason = LAC_SCALER_WAIT;
    if (last) {
        if (s->waiting || s->running || s->now_ms - scaler->last_busy_ms < policy->idle_ms)
            return;
        out->groups = 0;
        out->reason = LAC_SCALER_IDLE;
    } else {
        /* The last group goes only by the rule above. */
        if (enough == 0)
            enough = 1;
        if (early || s->starting || enough >= have ||
            s->now_ms - scaler->last_down_ms < policy->down_step_ms)
            return;
        if (turned_lately(scaler, s->now_ms)) {
            out->reason = LAC_SCALER_TURNING;
            return;
        }
        uint32_t step = (have - enough + DOWN_SHARE - 1) / DOWN_SHARE;
        out->groups = have - step;
        out->reason = LAC_SCALER_DOWN;
    }
    scaler->last_down_ms = s->now_ms;
    turn(scaler, s->now_ms, -1);
}

static void begin(lac_scaler *scaler, uint64_t now_ms)
{
    scaler->begun = true;
    scaler->started_ms = scaler->last_busy_ms = now_ms;
    for (int i = 0; i < LAC_SCALER_DAY_BINS; i++)
        scaler->day[i] = NEVER_SEEN;
}

/* Arrivals a second. A Poisson count of mean n varies by its root: only what exceeds that is a
 * surge. */
static double arrival_rate(const lac_scaler_snapshot *s)
{
    double usual = s->arrivals_s * LAC_SCALER_SHORT_S;
    double now = s->arrivals_short_s * LAC_SCALER_SHORT_S;
    return now > usual + surge_sigmas * sqrt(usual) + 1 ? s->arrivals_short_s : s->arrivals_s;
}

/* What the formula asks for and why. */
static uint32_t needed(const lac_scaler *scaler, const lac_scaler_policy *policy,
                       const lac_scaler_snapshot *s, lac_scaler_decision *out)
{
    out->busy = arrival_rate(s) * s->slot_seconds;
    out->backlog = s->queued_slot_seconds / (s->cold_start_s + backlog_grace_s);
    out->margin = policy->beta * sqrt(out->busy);
    out->slots_per_group = s->slots_per_group;
    uint32_t need = groups_for(out->busy, out->backlog, policy, s);
    out->reason = LAC_SCALER_UP;
    if (s->wait_target_ms > 0 && s->wait_ms > s->wait_target_ms / 2 && !s->starting &&
        need <= s->ready) {
        need = clamp(s->ready + 1.0, policy);
        out->reason = LAC_SCALER_GUARD;
    }
    double later = policy->forecast ? forecast(scaler, s) : 0;
    uint32_t need_later = later > 0 ? groups_for(later, 0, policy, s) : 0;
    if (need_later > need) {
        need = need_later;
        out->reason = LAC_SCALER_FORECAST;
    }
    if (!need && (s->waiting || s->running)) {
        need = clamp(1, policy);
        out->reason = LAC_SCALER_WAKE;
    }
    return need;
}

void lac_scaler_decide(lac_scaler *scaler, const lac_scaler_policy *policy,
                       const lac_scaler_snapshot *s, lac_scaler_decision *out)
{
    LAC_ASSERT(s->slots_per_group > 0 && policy->groups_min <= policy->groups_max);
    if (!scaler->begun)
        begin(scaler, s->now_ms);
    *out = (lac_scaler_decision){0};
    uint32_t have = s->ready + s->starting;
    if (!s->known) {
        out->groups = out->need = clamp(have, policy);
        out->reason = LAC_SCALER_BLIND;
        return;
    }
    if (s->waiting || s->running)
        scaler->last_busy_ms = s->now_ms;
    uint32_t need = needed(scaler, policy, s, out);
    learn_day(scaler, s, out->busy);
    uint32_t kept = groups_for(keep * out->busy, out->backlog, policy, s);
    remember(scaler, s->now_ms, kept > need ? kept : need);
    out->need = need;
    if (have > policy->groups_max) {
        out->groups = policy->groups_max;
        out->reason = LAC_SCALER_DOWN;
    } else if (need > have) {
        out->groups = grow(scaler, s, have, need);
        turn(scaler, s->now_ms, 1);
    } else if (need < have) {
        shrink(scaler, policy, s, have, out);
    } else {
        out->groups = have;
        out->reason = LAC_SCALER_STEADY;
    }
}
