/* The classes known of each model: which groups hold them, what is certified, the guard of each for
 * each input type, their counters. Owns the records and their life: one lives while a group holds
 * it or a request runs as it. Decides nothing about requests (path.c does). Loop thread. */
#include "state.h"

#include <stdio.h>
#include <string.h>

/* ---- records ---- */

static lac_metric *series(lac_core *core, lac_metric_id id, const lac__class *class)
{
    lac_buf labels = {0};
    lac_metric_label(&labels, "model", class->model->name);
    lac_metric_label(&labels, "class", class->facts.name);
    lac_metric *metric = lac_metrics_get(core->metrics, id, labels.data);
    lac_buf_free(&labels);
    return metric;
}

static void make_meters(lac_core *core, lac__class *class)
{
    const lac_class_facts *facts = &class->facts;
    class->requests_total = series(core, LAC_M_CLASS_REQUESTS, class);
    class->tokens_total = series(core, LAC_M_CLASS_TOKENS, class);
    class->duration = series(core, LAC_M_PATH_DURATION, class);
    class->itl = series(core, LAC_M_PATH_ITL, class);
    class->kv_saved = series(core, LAC_M_CLASS_KV_SAVED, class);
    lac_metric_set(series(core, LAC_M_CLASS_ACTIVE_LAYERS, class), facts->active_layers);
    lac_metric_set(series(core, LAC_M_CLASS_SKIP_RATE, class), (double)facts->skip_rate);
    lac_metric_set(series(core, LAC_M_CLASS_COST_SKIP_RATE, class), (double)facts->cost_skip_rate);
}

static lac__class *class_create(lac_core *core, lac__model *model, const lac_class_facts *facts)
{
    lac__class *class = lac_alloc(1, sizeof *class);
    class->model = model;
    class->facts = *facts;
    const char *mask = facts->mask ? facts->mask : "";
    class->mask = lac_strndup(mask, strlen(mask));
    class->facts.mask = class->mask;
    make_meters(core, class);
    model->classes[model->classes_count++] = class;
    return class;
}

lac__class *lac__class_hold(lac__class *class)
{
    if (class)
        class->holders++;
    return class;
}

void lac__class_drop(lac__class **class)
{
    lac__class *c = *class;
    *class = NULL;
    if (!c)
        return;
    LAC_ASSERT(c->holders > 0);
    if (--c->holders)
        return;
    lac__model *model = c->model;
    uint32_t at = 0;
    while (model->classes[at] != c)
        at++;
    model->classes[at] = model->classes[--model->classes_count];
    free(c->mask);
    free(c);
}

static bool same_facts(const lac__class *class, const lac_class_facts *facts)
{
    return !strcmp(class->facts.name, facts->name) &&
           !memcmp(class->facts.serves, facts->serves, sizeof facts->serves);
}

lac__class *lac__class_find(const lac__model *model, const lac_digest *digest)
{
    for (uint32_t i = 0; i < model->classes_count; i++)
        if (!memcmp(&model->classes[i]->facts.digest, digest, sizeof *digest))
            return model->classes[i];
    return NULL;
}

lac__class *lac__class_named(const lac__model *model, const char *name)
{
    for (uint32_t i = 0; i < model->classes_count; i++)
        if (!strcmp(model->classes[i]->facts.name, name))
            return model->classes[i];
    return NULL;
}

/* ---- groups ---- */

bool lac__group_holds(const lac__group *group, const lac__class *class)
{
    for (uint32_t i = 0; i < group->classes_count; i++)
        if (group->classes[i] == class)
            return true;
    return false;
}

bool lac__class_served(const lac_core *core, const lac__class *class)
{
    for (const lac__group *g = core->groups_head; g; g = g->next)
        if (g->state == LAC__GROUP_READY && !g->lost && lac__group_holds(g, class))
            return true;
    return false;
}

void lac__classes_leave(lac_core *core, lac__group *group)
{
    while (group->classes_count)
        lac__class_drop(&group->classes[--group->classes_count]);
    core->classes_version++;
}

/* Certificates may be made anew for the same class: the newest Hello is right. */
void lac__classes_hello(lac_core *core, lac__group *group, const lac_hello *hello)
{
    lac__model *model = group->model;
    lac__class *before[LAC_CLASSES_MAX - 1];
    uint32_t before_count = group->classes_count;
    memcpy(before, group->classes, sizeof before);
    group->classes_count = 0;
    for (uint32_t i = 0; i < hello->classes_count; i++) {
        const lac_class_facts *facts = &hello->classes[i];
        lac__class *class = lac__class_find(model, &facts->digest);
        if (!class && model->classes_count == LAC_MODEL_CLASSES_MAX) {
            lac__note(core, LAC_LOG_WARN,
                      "group %s: class %s is not used, %d of its model are known", group->id,
                      facts->name, LAC_MODEL_CLASSES_MAX);
            continue;
        }
        if (!class)
            class = class_create(core, model, facts);
        else if (!same_facts(class, facts)) {
            memcpy(class->facts.serves, facts->serves, sizeof facts->serves);
            lac__copy_text(class->facts.name, sizeof class->facts.name, facts->name);
        }
        group->classes[group->classes_count++] = lac__class_hold(class);
    }
    for (uint32_t i = 0; i < before_count; i++)
        lac__class_drop(&before[i]);
    core->classes_version++;
}

/* ---- guards: kept by digest and type, so that they outlive the groups ---- */

lac__guard *lac__guard_of(lac_core *core, const lac_digest *digest, lac_input_type type)
{
    lac__guards *all = &core->guards;
    for (uint32_t i = 0; i < all->count; i++)
        if (all->entries[i].type == type &&
            !memcmp(&all->entries[i].digest, digest, sizeof *digest))
            return &all->entries[i].guard;
    uint32_t at = all->count;
    /* One that never said anything makes room; what tripped is never forgotten for it. */
    for (uint32_t i = 0; at == LAC_GUARDS_MAX && i < LAC_GUARDS_MAX; i++)
        if (all->entries[i].guard.state == LAC__GUARD_CLOSED && all->entries[i].guard.evidence < 1)
            at = i;
    if (at == LAC_GUARDS_MAX)
        return NULL;
    all->count += at == all->count;
    all->entries[at] = (lac__guard_entry){.digest = *digest, .type = type};
    return &all->entries[at].guard;
}

static void guard_changed(lac_core *core, const lac_digest *digest, lac_input_type type,
                          const lac__guard *guard)
{
    char hex[17];
    lac_hex(digest->bytes, 8, hex);
    core->classes_version++;
    core->guards.version++;
    lac_metric_add(core->path.guard_changes[guard->state], 1);
    lac__note(core, guard->state == LAC__GUARD_CLOSED ? LAC_LOG_INFO : LAC_LOG_WARN,
              "guard of class %s for %s input is %s after %llu scores (%llu trips)", hex,
              lac_input_type_name(type), lac__guard_state_name(guard->state),
              (unsigned long long)guard->shadows, (unsigned long long)guard->trips);
}

/* One type that trips is a class that does not suit it. Two of them at a time are an engine or
 * weights that are not what was calibrated: then nothing but full is to be trusted. */
static void model_tripped(lac_core *core, lac__model *model, lac_input_type type)
{
    uint64_t now = core->now_ms ? core->now_ms : 1;
    model->tripped_ms[type] = now;
    for (int t = 0; t < LAC_INPUT_TYPES; t++)
        if (t != (int)type && model->tripped_ms[t] &&
            now - model->tripped_ms[t] <= LAC__GUARD_COOL_MS && !model->held_until_ms) {
            model->held_until_ms = now + LAC__GUARD_COOL_MS;
            core->classes_version++;
            lac__note(
                core, LAC_LOG_WARN,
                "model %s: guards for %s and %s input opened within %d s, all requests run in "
                "full for as long",
                model->name, lac_input_type_name((lac_input_type)t), lac_input_type_name(type),
                LAC__GUARD_COOL_MS / 1000);
        }
}

static bool take_score(lac__guard *guard, const lac_shadow *shadow, double loss, uint64_t now_ms)
{
    if (shadow->canary)
        return lac__guard_canary(guard, loss, now_ms);
    bool changed = lac__guard_observe(guard, loss, now_ms);
    if (shadow->top1_p > 0 && shadow->top1_p_full > 0)
        changed |=
            lac__guard_sureness(guard, (double)shadow->top1_p, (double)shadow->top1_p_full, now_ms);
    return changed;
}

void lac__guards_shadow(lac_core *core, const lac__group *group, const lac_shadow *shadow)
{
    lac__class *class = lac__class_find(group->model, &shadow->class_digest);
    if (!class || shadow->input_type >= LAC_INPUT_TYPES)
        return; /* forced for a type nobody could judge, or gone meanwhile */
    const lac_class_serve *serve = &class->facts.serves[shadow->input_type];
    if (serve->tier == LAC_TIER_NONE)
        return; /* forced: nothing was promised */
    lac__guard *guard = lac__guard_of(core, &shadow->class_digest, shadow->input_type);
    if (!guard)
        return;
    lac_metric_add(core->path.shadows, 1);
    core->guards.version++;
    double bound = serve->kl_upper > 0 ? (double)serve->kl_upper : lac_tier_kl_max(serve->tier);
    if (!take_score(guard, shadow, lac__guard_loss(shadow->kl_mean, bound), core->now_ms))
        return;
    guard_changed(core, &shadow->class_digest, shadow->input_type, guard);
    if (guard->state == LAC__GUARD_OPEN || guard->state == LAC__GUARD_REVOKED)
        model_tripped(core, group->model, shadow->input_type);
}

void lac__guards_tick(lac_core *core)
{
    for (lac__group *g = core->groups_head; g; g = g->next)
        if (g->model && g->model->held_until_ms && core->now_ms >= g->model->held_until_ms) {
            g->model->held_until_ms = 0;
            core->classes_version++;
            lac__note(core, LAC_LOG_INFO, "model %s: classes are decided again", g->model->name);
        }
    double states[LAC__GUARD_STATES] = {0};
    for (uint32_t i = 0; i < core->guards.count; i++) {
        lac__guard_entry *e = &core->guards.entries[i];
        if (lac__guard_tick(&e->guard, core->now_ms))
            guard_changed(core, &e->digest, e->type, &e->guard);
        states[e->guard.state]++;
    }
    for (int s = 0; s < LAC__GUARD_STATES; s++)
        lac_metric_set(core->path.guards[s], states[s]);
}

/* ---- guards as text, for whoever keeps them over a restart ---- */

static const char header[] = "lacuna guards 1\n";

uint64_t lac_core_guards_version(const lac_core *core)
{
    return core->guards.version;
}

void lac_core_guards_save(const lac_core *core, lac_buf *out)
{
    lac_buf_text(out, header);
    for (uint32_t i = 0; i < core->guards.count; i++) {
        const lac__guard_entry *e = &core->guards.entries[i];
        const lac__guard *g = &e->guard;
        char hex[65];
        lac_hex(e->digest.bytes, sizeof e->digest.bytes, hex);
        uint64_t left = g->until_ms > core->now_ms ? g->until_ms - core->now_ms : 0;
        lac_buf_printf(out, "%s %s %s %.17g %llu %llu %u %u %u %llu\n", hex,
                       lac_input_type_name(e->type), lac__guard_state_name(g->state), g->evidence,
                       (unsigned long long)g->shadows, (unsigned long long)g->trips, g->opens,
                       g->probes, g->probes_bad, (unsigned long long)left);
    }
}

static bool read_line(lac_core *core, const char *line)
{
    char hex[80], type_name[32], state_name[32];
    lac__guard g = {0};
    unsigned long long shadows, trips, left;
    lac_digest digest;
    lac_input_type type;
    if (sscanf(line, "%79s %31s %31s %lf %llu %llu %u %u %u %llu", hex, type_name, state_name,
               &g.evidence, &shadows, &trips, &g.opens, &g.probes, &g.probes_bad, &left) != 10 ||
        !lac_unhex(hex, digest.bytes, sizeof digest.bytes) ||
        !lac_input_type_parse(type_name, &type) ||
        !(g.evidence >= 0 && g.evidence < LAC__GUARD_TRIP) || g.opens > LAC__GUARD_OPENS)
        return false;
    int state = 0;
    while (state < LAC__GUARD_STATES &&
           strcmp(state_name, lac__guard_state_name((lac__guard_state)state)) != 0)
        state++;
    lac__guard *to = state < LAC__GUARD_STATES ? lac__guard_of(core, &digest, type) : NULL;
    if (!to)
        return false;
    g.state = (lac__guard_state)state;
    g.shadows = shadows;
    g.trips = trips;
    g.until_ms = core->now_ms + left;
    *to = g;
    return true;
}

lac_status lac_core_guards_load(lac_core *core, const char *text, lac_error *err)
{
    if (strncmp(text, header, sizeof header - 1) != 0)
        return lac_fail(err, LAC_EUNSUPPORTED, "guards: the first line is not \"%.*s\"",
                        (int)sizeof header - 2, header);
    int number = 1;
    for (const char *at = text + sizeof header - 1; *at; number++) {
        char line[256];
        size_t length = strcspn(at, "\n");
        if (length >= sizeof line)
            return lac_fail(err, LAC_ECORRUPT, "guards: line %d is too long", number + 1);
        memcpy(line, at, length);
        line[length] = 0;
        if (!read_line(core, line))
            return lac_fail(err, LAC_ECORRUPT, "guards: line %d is not one", number + 1);
        at += length + (at[length] == '\n');
    }
    core->classes_version++;
    return LAC_OK;
}
