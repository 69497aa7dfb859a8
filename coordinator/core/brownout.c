/* When a model is saturated: its queue would take longer to serve than is allowed, or its oldest
 * request has waited that long, or the queue as a whole is about to refuse. It is so from the time
 * on that this has lasted a second (at once when the queue is nearly full), until for ten seconds
 * the wait has been below half of the bound and what runs would fit without it too: served deeper,
 * the queue is short just because of that. What it means for a request is path.c's. Loop thread. */
#include "state.h"

static const double smoothing = 1.0 / 32; /* of occupancy, a tick; of costs, a request */
static const double fits = 0.9;           /* of the slots */

typedef struct {
    uint64_t waiting, oldest_ms, slots, running;
} demand;

static void measure(const lac_core *core, demand all[LAC_MODELS_MAX])
{
    for (const lac__request *r = core->queue.head; r; r = r->next) {
        if (!r->served || r->order_ms > (int64_t)core->now_ms)
            continue; /* what may wait says nothing */
        demand *d = &all[r->served - core->models];
        uint64_t age_ms = core->now_ms - r->arrived_ms;
        d->waiting++;
        if (!r->attempt && age_ms > d->oldest_ms)
            d->oldest_ms = age_ms;
    }
    for (const lac__group *g = core->groups_head; g; g = g->next)
        if (g->state == LAC__GROUP_READY) {
            all[g->model - core->models].slots += g->slots;
            all[g->model - core->models].running += g->running.count;
        }
}

void lac__brownout_decided(lac__model *model, double ratio)
{
    model->brownout.thrift += (ratio - model->brownout.thrift) * smoothing;
}

static uint64_t wait_ms(const lac_core *core, const demand *d)
{
    uint64_t predicted = (uint64_t)((double)d->waiting * core->slot_ms_mean / (double)d->slots);
    return predicted > d->oldest_ms ? predicted : d->oldest_ms;
}

static void turn(lac_core *core, lac__model *model, bool on, uint64_t wait)
{
    model->brownout.on = on;
    model->brownout.since_ms = 0;
    model->brownout.thrift = 1;
    /* Those that wait were judged when there was no room for them: now it is judged otherwise. */
    for (lac__request *r = core->queue.head; r; r = r->next)
        if (r->served == model)
            lac__path_forget(core, r);
    core->pump = true;
    lac_metric_add(core->meters.brownouts, on);
    lac__note(core, on ? LAC_LOG_WARN : LAC_LOG_INFO,
              "model %s: %s: the wait is about %llu ms, bound %u ms", model->name,
              on ? "brownout begins" : "brownout ends", (unsigned long long)wait,
              core->options.brownout_ms);
}

static void judge(lac_core *core, lac__model *model, const demand *d, bool full)
{
    uint64_t bound = core->options.brownout_ms, wait = d->slots ? wait_ms(core, d) : 0;
    bool on = model->brownout.on, urgent = full && d->waiting && d->slots;
    double busy = d->slots ? (double)d->running / (double)d->slots : 0;
    model->brownout.busy += (busy - model->brownout.busy) * smoothing;
    bool relaxed = wait * 2 < bound && model->brownout.busy < fits * model->brownout.thrift;
    bool other = on ? relaxed && !urgent : wait >= bound || urgent;
    if (!other) {
        model->brownout.since_ms = 0;
        return;
    }
    if (!model->brownout.since_ms)
        model->brownout.since_ms = core->now_ms;
    uint64_t lasted = core->now_ms - model->brownout.since_ms;
    if (lasted >= (on ? LAC_BROWNOUT_CALM_MS : LAC_BROWNOUT_RISE_MS) || urgent)
        turn(core, model, !on, wait);
}

void lac__brownout_tick(lac_core *core)
{
    demand all[LAC_MODELS_MAX] = {0};
    double on = 0;
    if (!core->options.brownout_ms)
        return;
    measure(core, all);
    bool full = (core->queue.count - core->batch_queued) * 4 >= (uint64_t)core->options.queue_max * 3;
    for (size_t i = 0; i < core->models_count; i++) {
        judge(core, &core->models[i], &all[i], full);
        on += core->models[i].brownout.on;
    }
    lac_metric_set(core->meters.brownout, on);
}
