/* The metrics that are made at each reading instead of being kept: of groups, which come and go, of
 * guards and of checks. So a group that is gone leaves nothing behind, and no series can pile up.
 * Loop thread. */
#include "state.h"

#include <math.h>

/* ---- families of groups ---- */

typedef double (*group_value)(const lac_core *core, const lac__group *group);

static const lac_heartbeat *beat_of(const lac__group *g)
{
    return g->ranks[0] && g->ranks[0]->beat_ms ? &g->ranks[0]->beat : NULL;
}

static double running(const lac_core *core, const lac__group *g)
{
    (void)core;
    return (double)g->running.count;
}

static double slots(const lac_core *core, const lac__group *g)
{
    (void)core;
    return g->slots;
}

static double heartbeat_age(const lac_core *core, const lac__group *g)
{
    return (double)(core->now_ms - (g->ranks[0] ? g->ranks[0]->seen_ms : g->state_ms)) / 1000;
}

#define LAC__OF_BEAT(name, expression)                                                             \
    static double name(const lac_core *core, const lac__group *g)                                  \
    {                                                                                              \
        const lac_heartbeat *b = beat_of(g);                                                       \
        (void)core;                                                                                \
        return b ? (double)(expression) : NAN;                                                     \
    }
LAC__OF_BEAT(queued, b->queued)
LAC__OF_BEAT(kv_used, b->kv_pages ? (double)b->kv_pages_used / (double)b->kv_pages : 0)
LAC__OF_BEAT(itl, b->itl_us / 1e6)
LAC__OF_BEAT(active_layers, b->active_layers)
LAC__OF_BEAT(tokens, b->output_tokens)
LAC__OF_BEAT(reruns, b->class_reruns)

static const struct {
    lac_metric_id id;
    group_value of;
} group_families[] = {
    {LAC_M_GROUP_RUNNING, running},
    {LAC_M_GROUP_QUEUED, queued},
    {LAC_M_GROUP_SLOTS, slots},
    {LAC_M_GROUP_KV_USED, kv_used},
    {LAC_M_GROUP_ITL, itl},
    {LAC_M_GROUP_HEARTBEAT_AGE, heartbeat_age},
    {LAC_M_GROUP_ACTIVE_LAYERS, active_layers},
    {LAC_M_GROUP_TOKENS, tokens},
    {LAC_M_RERUNS, reruns},
};

static void write_groups(const lac_core *core, lac_metric_id id, group_value of, lac_buf *out)
{
    bool any = false;
    for (const lac__group *g = core->groups_head; g; g = g->next) {
        double value = lac__group_living(g) ? of(core, g) : NAN;
        if (isnan(value))
            continue;
        if (!any)
            lac_metric_head(out, id);
        any = true;
        lac_buf labels = {0};
        lac_metric_label(&labels, "group", g->id);
        lac_metric_sample(out, id, labels.data, value);
        lac_buf_free(&labels);
    }
}

/* ---- families of groups and classes ---- */

/* 0 = full. NULL when the group reports nothing of it. */
static const lac_class_beat *class_beat(const lac__group *g, uint32_t index)
{
    const lac_heartbeat *b = beat_of(g);
    for (uint32_t i = 0; b && i < b->classes_count; i++)
        if (b->classes[i].index == index)
            return &b->classes[i];
    return NULL;
}

static double class_value(lac_metric_id id, const lac__group *g, uint32_t index)
{
    const lac__class *class = index ? g->classes[index - 1] : NULL;
    const lac_class_beat *b = class_beat(g, index);
    if (id == LAC_M_GROUP_CLASS_RUNNING) {
        double count = 0;
        for (const lac__request *r = g->running.head; r; r = r->next)
            count += r->class == class;
        return count;
    }
    if (!b)
        return NAN;
    return id == LAC_M_GROUP_CLASS_REQUESTS    ? (double)b->requests
           : id == LAC_M_GROUP_CLASS_TOKENS    ? (double)b->tokens
           : id == LAC_M_GROUP_CLASS_SKIP_RATE ? (double)b->skip_rate
                                               : (double)b->cost_skip_rate;
}

static size_t write_group_classes(const lac__group *g, lac_metric_id id, size_t written,
                                  lac_buf *out)
{
    for (uint32_t c = 0; lac__group_living(g) && c <= g->classes_count; c++) {
        double value = class_value(id, g, c);
        if (isnan(value))
            continue;
        if (!written++)
            lac_metric_head(out, id);
        lac_buf labels = {0};
        lac_metric_label(&labels, "group", g->id);
        lac_metric_label(&labels, "class", c ? g->classes[c - 1]->facts.name : "full");
        lac_metric_sample(out, id, labels.data, value);
        lac_buf_free(&labels);
    }
    return written;
}

static void write_classes(const lac_core *core, lac_buf *out)
{
    static const lac_metric_id ids[] = {LAC_M_GROUP_CLASS_RUNNING, LAC_M_GROUP_CLASS_REQUESTS,
                                        LAC_M_GROUP_CLASS_TOKENS, LAC_M_GROUP_CLASS_SKIP_RATE,
                                        LAC_M_GROUP_CLASS_COST_SKIP_RATE};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        size_t written = 0, most = lac_metric_series_max(ids[i]);
        for (const lac__group *g = core->groups_head; g; g = g->next)
            if (written + g->classes_count < most)
                written = write_group_classes(g, ids[i], written, out);
    }
}

/* ---- guards ---- */

static const lac__class *class_of(const lac_core *core, const lac_digest *digest)
{
    const lac__class *class = NULL;
    for (size_t m = 0; m < core->models_count && !class; m++)
        class = lac__class_find(&core->models[m], digest);
    return class;
}

static void write_guards(const lac_core *core, lac_buf *out)
{
    static const lac_metric_id ids[] = {LAC_M_GUARD_EVIDENCE, LAC_M_GUARD_TRIPS,
                                        LAC_M_GUARD_SCORES};
    for (size_t f = 0; f < sizeof ids / sizeof *ids; f++) {
        bool any = false;
        for (uint32_t i = 0; i < core->guards.count; i++) {
            const lac__guard_entry *e = &core->guards.entries[i];
            const lac__class *class = class_of(core, &e->digest);
            if (!class || class->facts.serves[e->type].tier == LAC_TIER_NONE)
                continue;
            if (!any)
                lac_metric_head(out, ids[f]);
            any = true;
            lac_buf labels = {0};
            lac_metric_label(&labels, "model", class->model->name);
            lac_metric_label(&labels, "class", class->facts.name);
            lac_metric_label(&labels, "type", lac_input_type_name(e->type));
            lac_metric_sample(out, ids[f], labels.data,
                              f == 0   ? e->guard.evidence
                              : f == 1 ? (double)e->guard.trips
                                       : (double)e->guard.shadows);
            lac_buf_free(&labels);
        }
    }
}

/* ---- checks ---- */

static void write_checks(lac_core *core, lac_buf *out)
{
    lac_check checks[LAC_CHECKS_MAX];
    uint32_t count = lac__sight_checks(core, checks);
    lac_metric_head(out, LAC_M_CHECK);
    for (uint32_t i = 0; i < count; i++) {
        lac_buf labels = {0};
        lac_metric_label(&labels, "check", checks[i].name);
        lac_metric_sample(out, LAC_M_CHECK, labels.data, checks[i].known ? checks[i].good : NAN);
        lac_buf_free(&labels);
    }
    bool any = false;
    for (uint32_t i = 0; i < count; i++) {
        if (checks[i].good)
            continue;
        if (!any)
            lac_metric_head(out, LAC_M_CHECK_CAUSE);
        any = true;
        lac_buf labels = {0};
        lac_metric_label(&labels, "check", checks[i].name);
        lac_metric_label(&labels, "cause", checks[i].cause);
        lac_metric_sample(out, LAC_M_CHECK_CAUSE, labels.data, 1);
        lac_buf_free(&labels);
    }
}

/* The gauges of the registry that follow from the checks. */
static void set_paths(lac_core *core)
{
    lac_check checks[LAC__HEALTH_CHECKS];
    bool changed[LAC__TYPES];
    lac__health_checks(&core->health, core->now_ms, checks, changed);
    for (int i = 0; i < LAC__HEALTH_CHECKS; i++)
        lac_metric_set(core->path.now[i], checks[i].known ? checks[i].value : NAN);
    for (int t = 0; t < LAC__TYPES; t++)
        lac_metric_set(core->path.changed[t], changed[t]);
}

void lac_core_metrics(lac_core *core, lac_buf *out)
{
    set_paths(core);
    lac_metrics_render(core->metrics, out);
    for (size_t i = 0; i < sizeof group_families / sizeof *group_families; i++)
        write_groups(core, group_families[i].id, group_families[i].of, out);
    write_classes(core, out);
    write_guards(core, out);
    write_checks(core, out);
}
