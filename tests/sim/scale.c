/* The autoscaler against arrival traces: a queue with slots, groups that take their time to start,
 * and the policy deciding every five seconds from what could be measured. Each trace is a function
 * of its seed. Holds the promises: nearly everybody starts within the target at little more than
 * the group hours of an oracle that knows the future, no limit cycle under constant load, few
 * changes of mind. */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/rng.h"
#include "core/scaler.h"

enum {
    SLOTS = 8, /* of a group */
    GROUPS_MAX = 32,
    TICK_MS = 100,
    HOURS_MAX = 4,
    TICKS_MAX = HOURS_MAX * 3600 * 1000 / TICK_MS,
    REQUESTS_MAX = 200000,
    RATE_TICKS = 600, /* a minute */
    RATE_SHORT_TICKS = LAC_SCALER_SHORT_S * 1000 / TICK_MS,
    ORACLE_TICKS = 600, /* even an oracle keeps a group for a minute */
    CHANGES_MAX = 1024,
};
static const double wait_target_s = 1, service_mean_s = 6, service_sigma = 0.8;

typedef struct {
    const char *name;
    double hours;
    double (*rate)(double t);    /* requests a second */
    double blind_from, blind_to; /* seconds without reports */
    bool constant;
} trace;

static double diurnal(double t)
{
    return 4 + 3 * sin(2 * M_PI * t / 7200 - M_PI / 2);
}
static double burst(double t)
{
    return 2 + (fmod(t, 3600) > 1800 && fmod(t, 3600) < 1980 ? 6 : 0);
}
static double one_step(double t)
{
    return t < 1800 ? 1 : 5;
}
/* Its period is near the controller's own window, where a naive one resonates. */
static double sawtooth(double t)
{
    return 1 + 4 * fmod(t, 300) / 300;
}
static double flash(double t)
{
    return t > 1800 && t < 2100 ? 10 : 1.5;
}
static double steady(double t)
{
    (void)t;
    return 3;
}

static const trace traces[] = {
    {.name = "diurnal", .hours = 4, .rate = diurnal},
    {.name = "burst", .hours = 3, .rate = burst},
    {.name = "step", .hours = 2, .rate = one_step},
    {.name = "sawtooth", .hours = 2, .rate = sawtooth},
    {.name = "flash crowd", .hours = 2, .rate = flash},
    {.name = "metric loss", .hours = 2, .rate = one_step, .blind_from = 1900, .blind_to = 2200},
    {.name = "constant", .hours = 2, .rate = steady, .constant = true},
};
enum { TRACES = sizeof traces / sizeof *traces };

/* One run's world; static because it is large. */
static struct {
    double arrived[REQUESTS_MAX], length[REQUESTS_MAX];
    uint32_t at_tick[TICKS_MAX]; /* arrivals in each tick */
    size_t count;
    double ends[GROUPS_MAX * SLOTS]; /* of what runs */
    uint32_t running;
    uint64_t ready_ms[GROUPS_MAX]; /* of groups that start */
    uint32_t starting, ready;
} W;

typedef struct {
    double within, p99_wait, group_hours, oracle_hours;
    uint32_t changes, all_turns;
    uint32_t turns; /* the most within ten minutes */
} result;

static double normal(lac_rng *rng)
{
    double u = lac_rng_unit(rng), v = lac_rng_unit(rng);
    return sqrt(-2 * log(1 - u)) * cos(2 * M_PI * v);
}

static uint32_t poisson(lac_rng *rng, double mean)
{
    double limit = exp(-mean), product = lac_rng_unit(rng);
    uint32_t n = 0;
    for (; product > limit; n++)
        product *= lac_rng_unit(rng);
    return n;
}

static uint32_t draw(const trace *t, uint64_t seed)
{
    lac_rng rng;
    lac_rng_seed(&rng, seed);
    uint32_t ticks = (uint32_t)(t->hours * 3600 * 1000 / TICK_MS);
    W.count = 0;
    for (uint32_t i = 0; i < ticks; i++) {
        double at = i * TICK_MS / 1000.0;
        W.at_tick[i] = poisson(&rng, t->rate(at) * TICK_MS / 1000);
        for (uint32_t k = 0; k < W.at_tick[i]; k++) {
            LAC_ASSERT(W.count < REQUESTS_MAX);
            W.arrived[W.count] = at;
            W.length[W.count++] = service_mean_s * exp(service_sigma * normal(&rng) -
                                                       service_sigma * service_sigma / 2);
        }
    }
    return ticks;
}

/* Group hours of one that knows every arrival and length: in each minute just the groups that its
 * largest number of busy slots needs, each started a cold start ahead. */
static double oracle_hours(uint32_t ticks, double cold_s)
{
    static int32_t change[TICKS_MAX + 1];
    static uint32_t busy[TICKS_MAX];
    memset(change, 0, sizeof change);
    for (size_t i = 0; i < W.count; i++) {
        uint32_t from = (uint32_t)(W.arrived[i] * 1000 / TICK_MS);
        double to = ceil((W.arrived[i] + W.length[i]) * 1000 / TICK_MS);
        change[from]++;
        change[to < ticks ? (uint32_t)to : ticks]--;
    }
    int32_t now = 0;
    for (uint32_t i = 0; i < ticks; i++)
        busy[i] = (uint32_t)(now += change[i]);
    double hours = 0;
    uint32_t before = 0;
    for (uint32_t i = 0; i < ticks; i += ORACLE_TICKS) {
        uint32_t most = 1;
        for (uint32_t k = i; k < i + ORACLE_TICKS && k < ticks; k++)
            most = busy[k] > most ? busy[k] : most;
        uint32_t groups = (most + SLOTS - 1) / SLOTS;
        hours += groups * ORACLE_TICKS * TICK_MS / 3.6e6;
        if (groups > before)
            hours += (groups - before) * cold_s / 3600;
        before = groups;
    }
    return hours;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double rate_over(uint32_t tick, uint32_t window)
{
    uint32_t from = tick + 1 > window ? tick + 1 - window : 0, sum = 0;
    for (uint32_t i = from; i <= tick; i++)
        sum += W.at_tick[i];
    return sum * 1000.0 / ((tick + 1 - from) * TICK_MS);
}

static void end_finished(double now)
{
    for (uint32_t i = 0; i < W.running;) {
        if (W.ends[i] > now) {
            i++;
            continue;
        }
        W.ends[i] = W.ends[--W.running];
    }
}

static void groups_ready(uint64_t now_ms)
{
    for (uint32_t i = 0; i < W.starting;) {
        if (W.ready_ms[i] > now_ms) {
            i++;
            continue;
        }
        W.ready_ms[i] = W.ready_ms[--W.starting];
        W.ready++;
    }
}

/* Obeys: starts what is missing, takes away first what is still starting. */
static void obey(uint32_t groups, uint64_t now_ms, double cold_s)
{
    while (W.ready + W.starting < groups && W.ready + W.starting < GROUPS_MAX)
        W.ready_ms[W.starting++] = now_ms + (uint64_t)(cold_s * 1000);
    while (W.ready + W.starting > groups) {
        if (W.starting)
            W.starting--;
        else
            W.ready--;
    }
}

static result run(const trace *t, uint64_t seed, double cold_s, uint32_t warm)
{
    static double waits[REQUESTS_MAX];
    uint64_t turned_ms[CHANGES_MAX];
    uint32_t turns = 0;
    uint32_t ticks = draw(t, seed);
    size_t next = 0, come = 0;
    lac_scaler scaler = {0};
    lac_scaler_policy policy = lac_scaler_policy_default(warm, GROUPS_MAX);
    result out = {0};
    int direction = 0;
    W.running = W.starting = 0;
    W.ready = warm;
    for (uint32_t i = 0; i < ticks; i++) {
        uint64_t now_ms = (uint64_t)i * TICK_MS;
        double now = (double)now_ms / 1000;
        end_finished(now);
        groups_ready(now_ms);
        come += W.at_tick[i];
        while (next < come && W.running < W.ready * SLOTS) {
            waits[next] = now - W.arrived[next];
            W.ends[W.running++] = now + W.length[next++];
        }
        out.group_hours += (W.ready + W.starting) * TICK_MS / 3.6e6;
        if (now_ms % LAC_SCALER_PERIOD_MS)
            continue;
        lac_scaler_snapshot s = {.now_ms = now_ms + 1,
                                 .known = !(now >= t->blind_from && now < t->blind_to),
                                 .arrivals_s = rate_over(i, RATE_TICKS),
                                 .arrivals_short_s = rate_over(i, RATE_SHORT_TICKS),
                                 .slot_seconds = service_mean_s,
                                 .queued_slot_seconds = (double)(come - next) * service_mean_s,
                                 .slots_per_group = SLOTS,
                                 .wait_ms = next < come ? (now - W.arrived[next]) * 1000 : 0,
                                 .wait_target_ms = wait_target_s * 1000,
                                 .cold_start_s = cold_s,
                                 .ready = W.ready,
                                 .starting = W.starting,
                                 .waiting = (uint32_t)(come - next),
                                 .running = W.running};
        lac_scaler_decision d;
        lac_scaler_decide(&scaler, &policy, &s, &d);
        LAC_ASSERT(d.groups >= warm && d.groups <= GROUPS_MAX);
        uint32_t have = W.ready + W.starting;
        if (!s.known)
            LAC_ASSERT(d.groups == have);
        if (d.groups == have)
            continue;
        int now_direction = d.groups > have ? 1 : -1;
        out.changes++;
        if (direction && direction != now_direction) {
            out.all_turns++;
            LAC_ASSERT(turns < CHANGES_MAX);
            turned_ms[turns++] = now_ms;
            uint32_t lately = 0;
            for (uint32_t n = 0; n < turns; n++)
                lately += now_ms - turned_ms[n] < LAC_SCALER_TURN_MS;
            out.turns = lately > out.turns ? lately : out.turns;
        }
        direction = now_direction;
        obey(d.groups, now_ms, cold_s);
    }
    uint32_t good = 0;
    for (size_t i = 0; i < next; i++)
        good += waits[i] <= wait_target_s;
    out.within = next ? (double)good / (double)come : 1;
    qsort(waits, next, sizeof *waits, by_value);
    out.p99_wait = next ? waits[next * 99 / 100] : 0;
    out.oracle_hours = oracle_hours(ticks, cold_s);
    return out;
}

static void add(result *sum, const result *one)
{
    sum->within += one->within;
    sum->p99_wait += one->p99_wait;
    sum->group_hours += one->group_hours;
    sum->oracle_hours += one->oracle_hours;
    sum->changes += one->changes;
    sum->turns = one->turns > sum->turns ? one->turns : sum->turns;
    sum->all_turns = one->all_turns > sum->all_turns ? one->all_turns : sum->all_turns;
}

int main(int argc, char **argv)
{
    static const struct {
        double cold_s;
        uint32_t warm;
    } starts[] = {{10, 1}, {60, 2}, {300, 3}};
    int seeds = 3, broken = 0;
    for (int c; (c = getopt(argc, argv, "n:")) != -1;)
        seeds = c == 'n' ? atoi(optarg) : seeds;
    printf("%-12s %6s %8s %9s %12s %7s %8s %6s\n", "trace", "cold s", "<= 1 s", "p99 wait",
           "group hours", "oracle", "changes", "turns");
    for (size_t k = 0; k < sizeof starts / sizeof *starts; k++)
        for (int i = 0; i < TRACES; i++) {
            result sum = {0};
            for (int seed = 1; seed <= seeds; seed++) {
                result one = run(&traces[i], (uint64_t)seed, starts[k].cold_s, starts[k].warm);
                add(&sum, &one);
            }
            double within = sum.within / seeds, ratio = sum.group_hours / sum.oracle_hours;
            printf("%-12s %6.0f %7.2f%% %7.2f s %12.2f %6.2fx %8.1f %6u\n", traces[i].name,
                   starts[k].cold_s, 100 * within, sum.p99_wait / seeds, sum.group_hours / seeds,
                   ratio, (double)sum.changes / seeds, sum.turns);
            bool held = starts[k].cold_s > 10 || (within >= 0.98 && ratio <= 1.35);
            held = held && sum.turns <= 2 &&
                   !(traces[i].constant && sum.all_turns > 4 * traces[i].hours);
            broken += !held;
            if (!held)
                printf(
                    "  ^ promise broken: at a cold start of 10 s >= 98 %% within the target at <= "
                    "1.35x; at most 2 turns in ten minutes, 4 an hour under constant load (%u)\n",
                    sum.all_turns);
        }
    return broken ? 1 : 0;
}
