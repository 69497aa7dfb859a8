/* What the core shows of itself: each ended request held against what its class promised, the
 * values that are watched with what is to blame, the metrics that are made at each reading, the
 * latest decisions. Reads everything, decides nothing; the definitions are in health.h. Loop
 * thread. */
#include "state.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    LAC__PACE_TOKENS = 8,  /* shorter answers do not measure a pace: the clock has milliseconds */
    LAC__PACE_SAMPLES = 4, /* of a baseline before it is believed */
    LAC__LAG_MAX_MS = 250
};
static const double pace_weight = 1.0 / 8, queue_fill_max = 0.8, refused_max = 0.05;

/* ---- a request ---- */

void lac__sight_chosen(lac_core *core, lac__request *r)
{
    if (!r->class)
        return;
    r->chosen = true;
    r->chosen_skip = r->class->facts.skip_rate;
    r->chosen_cost = r->class->facts.cost;
    r->chosen_scope = r->class->facts.scope;
    r->miss = LAC__MISS_NOTHING;
    lac_metric_add(core->path.chosen, 1);
}

void lac__sight_tokens(lac_core *core, lac__request *r, uint32_t count)
{
    if (!count)
        return;
    if (r->token_ms)
        lac_metric_observe(core->meters.itl, (double)(core->now_ms - r->token_ms) / 1000 / count);
    r->token_ms = core->now_ms ? core->now_ms : 1;
    if (!r->first_ms)
        r->first_ms = r->token_ms;
}

/* Mean time between its tokens; 0 when it cannot be told. A moved request's pause is no pace. */
static double itl_ms(const lac__request *r)
{
    if (r->moves || r->accepted_count < LAC__PACE_TOKENS)
        return 0;
    return (double)(r->token_ms - r->first_ms) / (r->accepted_count - 1);
}

static lac__baseline *baseline_of(lac__group *group)
{
    size_t load = 0;
    for (size_t n = group->running.count; n > 1 && load < LAC__LOADS - 1; n /= 2)
        load++;
    return &group->full[load];
}

static bool anyone(const lac__group *group, bool as_class)
{
    for (const lac__request *r = group->running.head; r; r = r->next)
        if ((r->class != NULL) == as_class)
            return true;
    return false;
}

/* What a pace in full says of this group, and what a pace as a class saved against it. */
static void measure(lac__request *r, lac__path_sample *s)
{
    double pace = r->state == LAC__REQUEST_RUNNING ? itl_ms(r) : 0;
    if (pace <= 0)
        return;
    lac__baseline *b = baseline_of(r->group);
    if (!r->class && !anyone(r->group, true)) {
        b->itl_us += b->samples ? pace_weight * (1000 * pace - b->itl_us) : 1000 * pace;
        b->samples++;
    } else if (r->class && b->samples >= LAC__PACE_SAMPLES) {
        double full = b->itl_us / 1000, tokens = r->accepted_count - 1;
        s->predicted_ms = full * (1 - (double)r->class->facts.cost) * tokens;
        s->saved_ms = (full - pace) * tokens;
        s->mixed = anyone(r->group, false);
    }
}

/* In `decode` scope the prompt runs in full, so only what is generated was promised. */
static void count_units(const lac__request *r, lac__path_sample *s)
{
    if (!r->has_account || !s->judged || s->miss == LAC__MISS_ERROR)
        return;
    double made = r->usage.completion_tokens;
    double rows = made + r->usage.prompt_tokens - r->usage.cached_tokens;
    double promised = r->chosen_scope == LAC_SCOPE_DECODE ? made : rows;
    s->expected = (double)r->chosen_skip * promised;
    s->executed = (double)r->account.skip_rate * rows;
}

static lac__miss miss_of(const lac__request *r, lac__outcome outcome)
{
    switch (outcome) {
    case LAC__OUTCOME_STOP:
    case LAC__OUTCOME_LENGTH: return r->miss;
    case LAC__OUTCOME_DEADLINE: return LAC__MISS_DEADLINE;
    case LAC__OUTCOME_LOST: return LAC__MISS_LOST;
    case LAC__OUTCOME_NOBODY: return LAC__MISS_NO_GROUP;
    default: return LAC__MISS_ERROR;
    }
}

/* Full's bytes of a token are learned from requests in full; only a class of `request` scope keeps
 * nothing of its erased attention from the first token on. */
static void count_kv(lac__request *r)
{
    double rows = (double)r->usage.prompt_tokens + r->usage.completion_tokens;
    if (!r->has_account || rows <= 0 || !r->account.kv_bytes)
        return;
    double bytes = (double)r->account.kv_bytes;
    if (!r->class)
        r->served->kv_row_bytes = bytes / rows;
    else if (r->served->kv_row_bytes * rows > bytes)
        lac_metric_add(r->class->kv_saved, r->served->kv_row_bytes * rows - bytes);
}

static void observe_path(lac_core *core, lac__request *r)
{
    lac__model *model = r->served;
    if (!model->full_duration) {
        lac_buf labels = {0};
        lac_metric_label(&labels, "model", model->name);
        lac_metric_label(&labels, "class", "full");
        model->full_duration = lac_metrics_get(core->metrics, LAC_M_PATH_DURATION, labels.data);
        model->full_itl = lac_metrics_get(core->metrics, LAC_M_PATH_ITL, labels.data);
        lac_buf_free(&labels);
    }
    lac_metric_observe(r->class ? r->class->duration : model->full_duration,
                       (double)(core->now_ms - r->arrived_ms) / 1000);
    double pace = itl_ms(r);
    if (pace > 0)
        lac_metric_observe(r->class ? r->class->itl : model->full_itl, pace / 1000);
    count_kv(r);
}

void lac__sight_ended(lac_core *core, lac__request *r, lac__outcome outcome)
{
    bool well = outcome == LAC__OUTCOME_STOP || outcome == LAC__OUTCOME_LENGTH;
    if (!r->decided)
        return;
    lac__path_sample s = {.type = r->fingerprint.type,
                          .masked = r->class != NULL,
                          .chosen = r->chosen,
                          .judged = outcome != LAC__OUTCOME_CANCEL,
                          .miss = miss_of(r, outcome)};
    if (r->class) {
        uint32_t active = r->has_account ? r->account.active_layers : r->class->facts.active_layers;
        s.skipped_layers = r->layers > active ? r->layers - active : 0;
    }
    if (well) {
        count_units(r, &s);
        measure(r, &s);
        observe_path(core, r);
    }
    if (r->chosen && well && s.miss == LAC__MISS_NOTHING)
        lac_metric_add(core->path.served, 1);
    lac__health_add(&core->health, core->now_ms, &s);
}

/* ---- what is watched ---- */

static lac_check *check(lac_check *out, uint32_t *count, const char *name, double value, double low,
                        double high)
{
    LAC_ASSERT(*count < LAC_CHECKS_MAX);
    lac_check *c = &out[(*count)++];
    *c = (lac_check){.known = true,
                     .value = value,
                     .low = low,
                     .high = high,
                     .good = value >= low && (high < 0 || value <= high)};
    snprintf(c->name, sizeof c->name, "%s", name);
    return c;
}

static void because(lac_check *c, const char *cause, const char *text)
{
    if (c->good)
        return;
    snprintf(c->cause, sizeof c->cause, "%s", cause);
    snprintf(c->text, sizeof c->text, "%s", text);
}

static double fill_of(const lac_core *core)
{
    double requests = (double)core->queue.count / core->options.queue_max;
    double tokens = (double)core->queue_tokens / (double)core->options.queue_tokens_max;
    return fmax(requests, tokens);
}

static void check_groups(const lac_core *core, lac_check *out, uint32_t *count)
{
    double ready = 0, suspect = 0, open = 0;
    for (const lac__group *g = core->groups_head; g; g = g->next) {
        ready += g->state == LAC__GROUP_READY;
        suspect += g->state == LAC__GROUP_SUSPECT;
        open += lac__group_living(g) && g->breaker.open;
    }
    because(check(out, count, "ready", ready, 1, -1), core->draining ? "draining" : "no_group",
            "no group of workers is READY");
    because(check(out, count, "suspect_groups", suspect, 0, 0), "silent",
            "groups are silent or make no steps");
    because(check(out, count, "open_breakers", open, 0, 0), "failures",
            "groups failed several requests in a row");
}

static void check_guards(const lac_core *core, lac_check *out, uint32_t *count)
{
    double tripped = 0;
    for (uint32_t i = 0; i < core->guards.count; i++) {
        lac__guard_state state = core->guards.entries[i].guard.state;
        tripped += state == LAC__GUARD_OPEN || state == LAC__GUARD_REVOKED;
    }
    because(check(out, count, "tripped_guards", tripped, 0, 0), "divergence",
            "classes differ from full by more than their certificates say");
}

static void check_load(const lac_core *core, lac_check *out, uint32_t *count)
{
    double offered = (double)lac__rate_sum(&core->offered, core->now_ms, LAC__RATE_SECONDS);
    double taken = (double)lac__rate_sum(&core->arrived, core->now_ms, LAC__RATE_SECONDS);
    double lag = fmax(core->lag.worst_ms[0], core->lag.worst_ms[1]);
    because(check(out, count, "queue_fill", fill_of(core), 0, queue_fill_max), "load",
            "more comes than the groups can do");
    because(
        check(out, count, "refused_share", offered > 0 ? 1 - taken / offered : 0, 0, refused_max),
        "load", "requests of the last minute were refused");
    because(check(out, count, "verdicts_frozen", lac__verdict_frozen(core), 0, 0), "many_silent",
            "so many groups fell silent at once that none is declared dead");
    because(check(out, count, "loop_lag_ms", lag, 0, LAC__LAG_MAX_MS), "loop",
            "the coordinator itself came late: its machine is short of time");
}

uint32_t lac__sight_checks(lac_core *core, lac_check out[LAC_CHECKS_MAX])
{
    _Static_assert((int)LAC__HEALTH_CHECKS + 8 <= (int)LAC_CHECKS_MAX, "all of them fit");
    uint32_t count = 0;
    check_groups(core, out, &count);
    check_load(core, out, &count);
    check_guards(core, out, &count);
    lac__health_checks(&core->health, core->now_ms, out + count, NULL);
    return count + LAC__HEALTH_CHECKS;
}

void lac__sight_tick(lac_core *core, uint32_t lag_ms)
{
    uint64_t minute = core->now_ms / 60000;
    if (minute != core->lag.minute) {
        core->lag.worst_ms[1] = minute == core->lag.minute + 1 ? core->lag.worst_ms[0] : 0;
        core->lag.worst_ms[0] = 0;
        core->lag.minute = minute;
    }
    if (lag_ms > core->lag.worst_ms[0])
        core->lag.worst_ms[0] = lag_ms;
}

/* ---- the latest decisions ---- */

uint32_t lac__sight_decided(const lac_core *core, lac_decided out[LAC_DECIDED_MAX])
{
    uint32_t count = 0;
    for (uint32_t i = 1; i <= LAC_PATHS_KEPT && count < LAC_DECIDED_MAX; i++) {
        const lac__kept_path *k =
            &core->kept[(core->kept_next + LAC_PATHS_KEPT - i) % LAC_PATHS_KEPT];
        if (!k->request)
            break;
        lac_decided *d = &out[count++];
        *d = (lac_decided){.request = k->request,
                           .age_ms = core->now_ms - k->ended_ms,
                           .tokens = k->tokens,
                           .total_ms = k->total_ms};
        lac__copy_text(d->type, sizeof d->type, lac__type_name(k->fingerprint.type));
        lac__copy_text(d->task, sizeof d->task, lac__hint_name(k->fingerprint.hint));
        lac__copy_text(d->class_name, sizeof d->class_name, k->class_name);
        lac__copy_text(d->group, sizeof d->group, k->group);
        lac__copy_text(d->outcome, sizeof d->outcome, lac__outcome_name(k->outcome));
        lac__copy_text(d->why, sizeof d->why, k->why);
    }
    return count;
}
