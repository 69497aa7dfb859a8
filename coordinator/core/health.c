/* The health of paths: minutes in a ring, sums over the newest, their bands and causes. The
 * definitions are in health.h. Pure. */
#include "health.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"

static const char *const miss_names[LAC__MISSES] = {
    [LAC__MISS_NOTHING] = "",
    [LAC__MISS_NO_GROUP] = "no_group",
    [LAC__MISS_NO_ROOM] = "no_room",
    [LAC__MISS_WORKER] = "worker",
    [LAC__MISS_ERROR] = "error",
    [LAC__MISS_DEADLINE] = "deadline",
    [LAC__MISS_LOST] = "lost",
    [LAC__MISS_RECOMPUTED] = "recomputed",
    [LAC__MISS_MIXED] = "mixed_batches",
    [LAC__MISS_SLOW] = "slower_than_planned",
};

static const char *const miss_texts[LAC__MISSES] = {
    [LAC__MISS_NOTHING] = "",
    [LAC__MISS_NO_GROUP] = "no ready group held the class any more",
    [LAC__MISS_NO_ROOM] = "no group that holds the class had room",
    [LAC__MISS_WORKER] = "workers ran requests in full instead",
    [LAC__MISS_ERROR] = "requests failed",
    [LAC__MISS_DEADLINE] = "requests ran out of time",
    [LAC__MISS_LOST] = "groups died under requests",
    [LAC__MISS_RECOMPUTED] = "rows ran more than once, or in full",
    [LAC__MISS_MIXED] = "full requests ran in the same batches",
    [LAC__MISS_SLOW] = "the class is slower than its cost says",
};

const char *lac__miss_name(lac__miss miss)
{
    return miss < LAC__MISSES ? miss_names[miss] : "";
}

/* ---- minutes ---- */

/* The minute of `now_ms`, those passed in silence emptied. */
static lac__health_minute *turn_to(lac__health *h, uint64_t now_ms)
{
    uint64_t minute = now_ms / 60000;
    LAC_ASSERT(minute >= h->minute);
    uint64_t passed = minute - h->minute;
    for (uint64_t i = 1; i <= passed && i <= LAC__HEALTH_MINUTES; i++)
        h->minutes[(h->minute + i) % LAC__HEALTH_MINUTES] = (lac__health_minute){0};
    h->minute = minute;
    return &h->minutes[minute % LAC__HEALTH_MINUTES];
}

static void add_executed(lac__health_minute *m, const lac__path_sample *s)
{
    if (s->expected <= 0)
        return;
    double executed = s->executed < s->expected ? s->executed : s->expected;
    m->measured[0]++;
    m->expected += s->expected;
    m->executed += executed;
    lac__miss miss = s->miss == LAC__MISS_NOTHING ? LAC__MISS_RECOMPUTED : s->miss;
    m->missed[miss] += s->expected - executed;
}

static void add_time(lac__health_minute *m, const lac__path_sample *s)
{
    if (s->predicted_ms <= 0)
        return;
    m->measured[1]++;
    m->predicted_ms += s->predicted_ms;
    m->saved_ms += s->saved_ms;
    m->late_ms[s->mixed ? LAC__MISS_MIXED : LAC__MISS_SLOW] += s->predicted_ms - s->saved_ms;
}

void lac__health_add(lac__health *h, uint64_t now_ms, const lac__path_sample *s)
{
    lac__health_minute *m = turn_to(h, now_ms);
    LAC_ASSERT(s->type < LAC__TYPES && s->miss < LAC__MISSES);
    m->ended[s->type]++;
    m->masked[s->type] += s->masked;
    m->layers[s->type] += s->skipped_layers;
    m->layers_squared += (double)s->skipped_layers * s->skipped_layers;
    if (!s->chosen || !s->judged)
        return;
    m->chosen++;
    m->missed_by[s->miss]++;
    add_executed(m, s);
    add_time(m, s);
}

/* The sum of `count` minutes, of which the newest lies `back` before the present one. */
static lac__health_minute sum(const lac__health *h, uint64_t back, uint64_t count)
{
    lac__health_minute all = {0};
    for (uint64_t i = back; i < back + count && i <= h->minute; i++) {
        const lac__health_minute *m = &h->minutes[(h->minute - i) % LAC__HEALTH_MINUTES];
        for (int t = 0; t < LAC__TYPES; t++) {
            all.ended[t] += m->ended[t];
            all.masked[t] += m->masked[t];
            all.layers[t] += m->layers[t];
        }
        for (int b = 0; b < LAC__MISSES; b++) {
            all.missed_by[b] += m->missed_by[b];
            all.missed[b] += m->missed[b];
            all.late_ms[b] += m->late_ms[b];
        }
        all.layers_squared += m->layers_squared;
        all.chosen += m->chosen;
        all.measured[0] += m->measured[0];
        all.measured[1] += m->measured[1];
        all.expected += m->expected;
        all.executed += m->executed;
        all.predicted_ms += m->predicted_ms;
        all.saved_ms += m->saved_ms;
    }
    return all;
}

/* ---- checks ---- */

static void start(lac_check *c, const char *name, double low, double high)
{
    *c = (lac_check){.good = true, .low = low, .high = high};
    snprintf(c->name, sizeof c->name, "%s", name);
}

static void say(lac_check *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(lac_check *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(c->text, sizeof c->text, format, args);
    va_end(args);
}

static void judge(lac_check *c, double value)
{
    c->known = true;
    c->value = value;
    c->good = value >= c->low && (c->high < 0 || value <= c->high);
}

/* Names the largest of what is missed_by. */
static void blame(lac_check *c, const double weights[LAC__MISSES])
{
    int worst = LAC__MISS_NOTHING;
    double all = 0;
    for (int b = LAC__MISS_NOTHING + 1; b < LAC__MISSES; b++) {
        all += weights[b] > 0 ? weights[b] : 0;
        if (weights[b] > (worst ? weights[worst] : 0))
            worst = b;
    }
    if (c->good || !worst)
        return;
    snprintf(c->cause, sizeof c->cause, "%s", miss_names[worst]);
    say(c, "%s (%.0f %% of what is missing)", miss_texts[worst], 100 * weights[worst] / all);
}

static void check_promises(const lac__health_minute *now, lac_check out[3])
{
    double failed[LAC__MISSES];
    uint32_t served = now->missed_by[LAC__MISS_NOTHING];
    start(&out[0], "ecr", LAC__ECR_MIN, -1);
    start(&out[1], "pes", LAC__PES_MIN, -1);
    start(&out[2], "psr", LAC__PSR_MIN, -1);
    if (now->measured[0] >= LAC__HEALTH_SAMPLES && now->expected > 0)
        judge(&out[0], now->executed / now->expected);
    if (now->measured[1] >= LAC__HEALTH_SAMPLES && now->predicted_ms > 0)
        judge(&out[1], now->saved_ms / now->predicted_ms);
    if (now->chosen >= LAC__HEALTH_SAMPLES)
        judge(&out[2], (double)served / now->chosen);
    for (int b = 0; b < LAC__MISSES; b++)
        failed[b] = now->missed_by[b];
    blame(&out[0], now->missed);
    blame(&out[1], now->late_ms);
    blame(&out[2], failed);
}

/* Adds the types whose part in the change is at least a third of the largest part. */
static void name_types(lac_check *c, const double now[LAC__TYPES], const double before[LAC__TYPES],
                       bool changed[LAC__TYPES])
{
    double total = 0, most = 0;
    int first = 0;
    for (int t = 0; t < LAC__TYPES; t++)
        total += now[t] - before[t];
    for (int t = 0; t < LAC__TYPES; t++) {
        double part = (now[t] - before[t]) * (total < 0 ? -1 : 1);
        if (part > most) {
            most = part;
            first = t;
        }
    }
    snprintf(c->cause, sizeof c->cause, "%s", lac__type_name((lac__type)first));
    size_t used = (size_t)snprintf(c->text, sizeof c->text,
                                   "it %s; types that changed:", total < 0 ? "fell" : "rose");
    for (int t = 0; t < LAC__TYPES && used < sizeof c->text; t++) {
        double part = (now[t] - before[t]) * (total < 0 ? -1 : 1);
        if (part <= 0 || part < most / 3)
            continue;
        changed[t] = true;
        used += (size_t)snprintf(c->text + used, sizeof c->text - used, " %s %+.2f",
                                 lac__type_name((lac__type)t), now[t] - before[t]);
    }
}

static uint32_t ended(const lac__health_minute *m)
{
    uint32_t all = 0;
    for (int t = 0; t < LAC__TYPES; t++)
        all += m->ended[t];
    return all;
}

/* `parts`: of each type, so that they add up to the whole's mean. */
static void check_band(lac_check *c, const char *name, const double now[LAC__TYPES],
                       const double before[LAC__TYPES], double width, bool changed[LAC__TYPES])
{
    double mean = 0, usual = 0;
    for (int t = 0; t < LAC__TYPES; t++) {
        mean += now[t];
        usual += before[t];
    }
    start(c, name, usual > width ? usual - width : 0, usual + width);
    judge(c, mean);
    if (!c->good)
        name_types(c, now, before, changed);
}

void lac__health_checks(lac__health *h, uint64_t now_ms, lac_check out[LAC__HEALTH_CHECKS],
                        bool changed[LAC__TYPES])
{
    bool unused[LAC__TYPES];
    changed = changed ? changed : unused;
    memset(changed, 0, LAC__TYPES * sizeof *changed);
    turn_to(h, now_ms);
    lac__health_minute now = sum(h, 0, LAC__HEALTH_NOW);
    lac__health_minute before = sum(h, LAC__HEALTH_NOW, LAC__HEALTH_MINUTES - LAC__HEALTH_NOW);
    check_promises(&now, out);
    start(&out[3], "skip_rate", 0, -1);
    start(&out[4], "skipped_layers", 0, -1);
    double n = ended(&now), n_before = ended(&before);
    if (n < LAC__HEALTH_SAMPLES || n_before < LAC__HEALTH_SAMPLES)
        return;
    double rates[2][LAC__TYPES], layers[2][LAC__TYPES], p = 0, mean = 0;
    for (int t = 0; t < LAC__TYPES; t++) {
        rates[0][t] = now.masked[t] / n;
        rates[1][t] = before.masked[t] / n_before;
        layers[0][t] = now.layers[t] / n;
        layers[1][t] = before.layers[t] / n_before;
        p += rates[1][t];
        mean += layers[1][t];
    }
    double scale = 1 / n + 1 / n_before;
    double variance = fmax(0, before.layers_squared / n_before - mean * mean);
    double rate_width = fmax(0.1, 3 * sqrt(p * (1 - p) * scale));
    double layers_width = fmax(fmax(1, mean / 10), 3 * sqrt(variance * scale));
    check_band(&out[3], "skip_rate", rates[0], rates[1], rate_width, changed);
    check_band(&out[4], "skipped_layers", layers[0], layers[1], layers_width, changed);
}
