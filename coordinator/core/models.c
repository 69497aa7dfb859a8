/* Which model a request is for: the default, aliases, and rows that send a type and a task to
 * another model. The models themselves come with their groups (registry.c). Loop thread. */
#include "state.h"

#include <stdio.h>
#include <string.h>

/* ---- the rules ---- */

static bool known_type(const char *type)
{
    lac_input_type found;
    return !strcmp(type, "*") || lac_input_type_parse(type, &found);
}

static bool known_task(const char *task)
{
    for (int h = 0; h < LAC__HINTS; h++)
        if (!strcmp(task, lac__hint_name((lac__hint)h)))
            return true;
    return !strcmp(task, "*");
}

lac_status lac_core_set_models(lac_core *core, const lac_model_names *names, lac_error *err)
{
    for (size_t i = 0; i < names->aliases_count; i++)
        for (size_t k = 0; k < i; k++)
            if (!strcmp(names->aliases[i].name, names->aliases[k].name))
                return lac_fail(err, LAC_EEXIST, "alias \"%s\" is given twice",
                                names->aliases[i].name);
    for (size_t i = 0; i < names->routes_count; i++) {
        const lac_route *r = &names->routes[i];
        if (!known_type(r->type))
            return lac_fail(err, LAC_EINVAL,
                            "route %zu: type is \"%s\", allowed: structured, unstructured, hybrid, "
                            "code, *",
                            i + 1, r->type);
        if (!known_task(r->task))
            return lac_fail(err, LAC_EINVAL,
                            "route %zu: task is \"%s\", allowed: summarize, extract, compare, "
                            "classify, generate, none, *",
                            i + 1, r->task);
    }
    core->names = *names;
    return LAC_OK;
}

/* ---- names ---- */

const char *lac__models_target(const lac_core *core, const char *asked)
{
    if (!*asked)
        asked = core->names.preset;
    if (lac__registry_model(core, asked))
        return asked;
    for (size_t i = 0; i < core->names.aliases_count; i++)
        if (!strcmp(core->names.aliases[i].name, asked))
            return core->names.aliases[i].model;
    return asked;
}

lac__model *lac__models_named(lac_core *core, const char *asked)
{
    const char *target = lac__models_target(core, asked);
    if (!*target)
        return core->models_count ? &core->models[0] : NULL;
    return lac__registry_model(core, target);
}

void lac__models_list(const lac_core *core, lac_buf *out)
{
    const char *comma = "";
    for (size_t i = 0; i < core->models_count; i++)
        if (core->models[i].ready) {
            lac_buf_printf(out, "%s%s", comma, core->models[i].name);
            comma = ", ";
        }
    for (size_t i = 0; i < core->names.aliases_count; i++) {
        const lac_alias *a = &core->names.aliases[i];
        const lac__model *model = lac__registry_model(core, a->model);
        if (!model || !model->ready)
            continue;
        lac_buf_printf(out, "%s%s (%s)", comma, a->name, a->model);
        comma = ", ";
    }
}

/* ---- a request ---- */

static bool fits(const lac_route *route, const lac__request *r)
{
    const char *type = lac__type_name(r->fingerprint.type);
    const char *task = lac__hint_name(r->fingerprint.hint);
    return (!strcmp(route->asked, "*") || !strcmp(route->asked, r->model)) &&
           (!strcmp(route->type, "*") || !strcmp(route->type, type)) &&
           (!strcmp(route->task, "*") || !strcmp(route->task, task));
}

void lac__models_choose(lac_core *core, lac__request *r)
{
    for (size_t i = 0; i < core->names.routes_count; i++) {
        const lac_route *route = &core->names.routes[i];
        const lac__model *model = lac__registry_model(core, route->model);
        if (!fits(route, r) || !model || !model->ready ||
            !lac__tenant_may_use(r->tenant, route->model))
            continue;
        lac__copy_text(r->model, sizeof r->model, route->model);
        lac_metric_add(core->meters.routed, 1);
        break;
    }
    const char *target = lac__models_target(core, r->model);
    if (target != r->model)
        lac__copy_text(r->model, sizeof r->model, target);
    lac__prefix_salt(&r->chain, lac__tenant_prefix_seed(core, r), &r->prefix);
    r->served = lac__models_named(core, r->model);
}
