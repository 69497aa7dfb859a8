/* What people see of classes and may change: the answer to a plan query, a class that is forced.
 * Loop thread. */
#include "state.h"

#include <string.h>

static void fill_guard(lac_core *core, const lac__class *class, lac_input_type type,
                       lac_guard_status *out)
{
    if (class->facts.serves[type].tier == LAC_TIER_NONE)
        return;
    const lac__guard *g = lac__guard_of(core, &class->facts.digest, type);
    lac__copy_text(out->state, sizeof out->state,
                   g ? lac__guard_state_name(g->state) : "unwatched");
    if (!g)
        return;
    out->evidence = g->evidence;
    out->shadows = g->shadows;
    out->trips = g->trips;
}

static void fill_class(lac_core *core, const lac__class *class, lac_known_class *out)
{
    *out = (lac_known_class){.facts = class->facts,
                             .requests = class->requests,
                             .tokens = class->tokens,
                             .forced = !strcmp(class->model->forced, class->facts.name)};
    lac__copy_text(out->model, sizeof out->model, class->model->name);
    for (const lac__group *g = core->groups_head; g; g = g->next)
        out->groups += g->state == LAC__GROUP_READY && lac__group_holds(g, class);
    for (int type = 0; type < LAC_INPUT_TYPES; type++)
        fill_guard(core, class, (lac_input_type)type, &out->guards[type]);
}

void lac__plan_reply(lac_core *core, lac_plane plane, uint64_t peer, uint64_t stream)
{
    lac_known_class *classes = lac_alloc(LAC_PLAN_CLASSES_MAX, sizeof *classes);
    uint32_t count = 0;
    for (size_t m = 0; m < core->models_count; m++)
        for (uint32_t i = 0; i < core->models[m].classes_count && count < LAC_PLAN_CLASSES_MAX; i++)
            fill_class(core, core->models[m].classes[i], &classes[count++]);
    lac_msg msg = {.body.plan_reply = {.stream = stream,
                                       .tier_max = core->options.tier_max,
                                       .classes_count = count,
                                       .classes = classes}};
    if (core->models_count)
        lac__copy_text(msg.body.plan_reply.forced, sizeof msg.body.plan_reply.forced,
                       core->models[0].forced);
    lac__send(core, plane, peer, 0, LAC_MSG_PLAN_REPLY, &msg);
    free(classes);
}

static void refuse(lac_core *core, lac_plane plane, uint64_t peer, uint64_t stream,
                   lac_status status, const char *reason)
{
    lac_msg msg = {.body.refused = {.stream = stream, .status = status}};
    lac__copy_text(msg.body.refused.reason, sizeof msg.body.refused.reason, reason);
    lac__send(core, plane, peer, 0, LAC_MSG_REFUSED, &msg);
}

void lac__plan_force(lac_core *core, lac_plane plane, uint64_t peer, const lac_path_force *force)
{
    lac__model *model = lac__models_named(core, force->model);
    if (!core->options.allow_force) {
        refuse(core, plane, peer, force->stream, LAC_EREFUSED,
               "classes are not forced here: start the coordinator with --allow-force");
        return;
    }
    bool known = model && (!*force->class_name || !strcmp(force->class_name, "full") ||
                           lac__class_named(model, force->class_name));
    if (!known) {
        refuse(core, plane, peer, force->stream, LAC_ENOTFOUND,
               model ? "no group has a class of that name" : "no worker serves that model");
        return;
    }
    lac__copy_text(model->forced, sizeof model->forced, force->class_name);
    lac__note(core, LAC_LOG_WARN, "model %s: class %s", model->name,
              *force->class_name ? "is forced by an administrator" : "is not forced any more");
    lac__plan_reply(core, plane, peer, force->stream);
}
