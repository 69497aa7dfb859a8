/* The life of a group as two tables: (state, event) → next state, and what entering a state does.
 * Owns the verdict on a group's state and nothing else of it. Loop thread. */
#include "state.h"

#include <string.h>

#define NONE         LAC__GROUP_NONE
#define PROVISIONING LAC__GROUP_PROVISIONING
#define FORMING      LAC__GROUP_FORMING
#define READY        LAC__GROUP_READY
#define SUSPECT      LAC__GROUP_SUSPECT
#define DRAINING     LAC__GROUP_DRAINING
#define FENCED       LAC__GROUP_FENCED
#define STOPPED      LAC__GROUP_STOPPED

/* NONE = the event cannot come in that state: only a bug brings it. Nothing leads out of FENCED and
 * STOPPED: a new start is a new group record with a new incarnation. */
/* clang-format off */
static const lac__group_state next_state[LAC__GROUP_STATES][LAC__GROUP_EVENTS] = {
    /*                JOINED   FORMED    LATE          ALIVE         LOST          EXPIRED HUNG    FAULT   SICK          DRAIN     DRAINED */
    [PROVISIONING] = {FORMING, READY,    PROVISIONING, PROVISIONING, PROVISIONING, FENCED, FENCED, FENCED, PROVISIONING, FENCED,   FENCED},
    [FORMING]      = {FORMING, READY,    FORMING,      FORMING,      FENCED,       FENCED, FENCED, FENCED, FORMING,      FENCED,   FENCED},
    [READY]        = {NONE,    READY,    SUSPECT,      READY,        SUSPECT,      FENCED, FENCED, FENCED, DRAINING,     DRAINING, STOPPED},
    [SUSPECT]      = {NONE,    READY,    SUSPECT,      READY,        SUSPECT,      FENCED, FENCED, FENCED, DRAINING,     DRAINING, STOPPED},
    [DRAINING]     = {NONE,    DRAINING, DRAINING,     DRAINING,     STOPPED,      FENCED, FENCED, FENCED, DRAINING,     DRAINING, STOPPED},
    [FENCED]       = {NONE,    NONE,     NONE,         NONE,         FENCED,       NONE,   NONE,   NONE,   NONE,         NONE,     NONE},
    [STOPPED]      = {NONE,    NONE,     NONE,         NONE,         STOPPED,      NONE,   NONE,   NONE,   NONE,         NONE,     NONE},
};
/* clang-format on */

#undef NONE
#undef PROVISIONING
#undef FORMING
#undef READY
#undef SUSPECT
#undef DRAINING
#undef FENCED
#undef STOPPED

static void remember_fenced(lac_core *core, const uint8_t incarnation[16])
{
    memcpy(core->fenced[core->fenced_next], incarnation, 16);
    core->fenced_next = (core->fenced_next + 1) % LAC_FENCED_MAX;
    if (core->fenced_count < LAC_FENCED_MAX)
        core->fenced_count++;
}

static void enter_ready(lac_core *core, lac__group *group, const char *why)
{
    (void)why;
    group->model->ready++;
    core->pump = true;
}

static void enter_fenced(lac_core *core, lac__group *group, const char *why)
{
    remember_fenced(core, group->incarnation);
    for (uint32_t i = 0; i < group->ranks_count; i++) {
        if (!group->ranks[i])
            continue;
        lac_msg msg = {0};
        lac__copy_text(msg.body.die.reason, sizeof msg.body.die.reason, why);
        /* Only a courtesy: what it still sends is refused whether it hears this or not. */
        lac__send(core, LAC_PLANE_WORKER, group->ranks[i]->peer, group->ranks[i]->session,
                  LAC_MSG_DIE, &msg);
    }
    lac__recovery_move_all(core, group, LAC__BLAME_CRASH, why);
    lac__recovery_resolve(core, group, true, why);
}

static void enter_stopped(lac_core *core, lac__group *group, const char *why)
{
    remember_fenced(core, group->incarnation);
    lac__recovery_move_all(core, group, LAC__BLAME_NONE, why);
    lac__recovery_resolve(core, group, false, why);
}

static void (*const on_enter[LAC__GROUP_STATES])(lac_core *core, lac__group *group,
                                                 const char *why) = {
    [LAC__GROUP_FORMING] = lac__forming_enter,
    [LAC__GROUP_READY] = enter_ready,
    [LAC__GROUP_FENCED] = enter_fenced,
    [LAC__GROUP_STOPPED] = enter_stopped,
};

static const char *const state_names[LAC__GROUP_STATES] = {
    [LAC__GROUP_NONE] = "NONE",       [LAC__GROUP_PROVISIONING] = "PROVISIONING",
    [LAC__GROUP_FORMING] = "FORMING", [LAC__GROUP_READY] = "READY",
    [LAC__GROUP_SUSPECT] = "SUSPECT", [LAC__GROUP_DRAINING] = "DRAINING",
    [LAC__GROUP_FENCED] = "FENCED",   [LAC__GROUP_STOPPED] = "STOPPED",
};

const char *lac__group_state_name(lac__group_state state)
{
    return state_names[state];
}

bool lac__group_living(const lac__group *group)
{
    return group->state != LAC__GROUP_FENCED && group->state != LAC__GROUP_STOPPED;
}

void lac__group_step(lac_core *core, lac__group *group, lac__group_event event, const char *why)
{
    lac__group_state before = group->state, after = next_state[before][event];
    LAC_ASSERT(after != LAC__GROUP_NONE);
    if (after == before)
        return;
    if (before == LAC__GROUP_READY) {
        LAC_ASSERT(group->model->ready > 0);
        group->model->ready--;
    }
    group->state = after;
    core->classes_version++;
    group->state_ms = core->now_ms;
    lac_metric_add(core->meters.verdicts[event], 1);
    bool bad = after == LAC__GROUP_SUSPECT || after == LAC__GROUP_FENCED;
    lac__note(core, bad ? LAC_LOG_WARN : LAC_LOG_INFO, "group %s: %s -> %s: %s", group->id,
              state_names[before], state_names[after], why);
    if (on_enter[after])
        on_enter[after](core, group, why);
}
