/* What becomes of running requests when their group cannot finish them: the accepted tokens go with
 * the prompt to another group, at most LAC_MOVES_MAX times, after a jittered wait and within the
 * fleet's retry budget. A request under which LAC_CRASHES_MAX groups died is taken for the cause
 * and not tried again. Loop thread.
 *
 * A lost connection is only a doubt: it becomes a crash when the group does not come back as the
 * same start. A request with a crash or a doubt is a suspect until it gets beyond the position
 * where it was taken away; suspects run one a group, so that the next death names its cause. */
#include "state.h"

enum { LAC__BACKOFF_MS = 50 };

bool lac__recovery_suspect(const lac__request *r)
{
    return r->crashes + r->doubts_count && r->accepted_count <= r->crash_pos;
}

bool lac__recovery_has_suspect(const lac__group *group)
{
    for (const lac__request *r = group->running.head; r; r = r->next)
        if (lac__recovery_suspect(r))
            return true;
    return false;
}

/* ---- when to try again ---- */

/* The streams of one group may always move: what the budget is against is retries feeding the
 * overload that caused them, not a single death. */
static uint64_t budget(const lac_core *core)
{
    uint64_t tenth = lac__rate_sum(&core->arrived, core->now_ms, LAC__RATE_SHORT) / 10,
             least = LAC_RETRY_FLOOR;
    for (const lac__group *g = core->groups_head; g; g = g->next)
        if (lac__router_window(g) > least)
            least = lac__router_window(g);
    return tenth > least ? tenth : least;
}

static void set_backoff(lac_core *core, lac__request *r)
{
    LAC_ASSERT(r->moves >= 1 && r->moves <= LAC_MOVES_MAX);
    uint64_t base = (uint64_t)LAC__BACKOFF_MS << (r->moves - 1);
    r->not_before_ms = core->now_ms + base / 2 + lac_rng_below(&core->rng, base);
    r->budget_ms = 0;
}

lac__hold lac__recovery_hold(lac_core *core, lac__request *r)
{
    if (!r->moves)
        return LAC__HOLD_NONE;
    if (core->now_ms < r->not_before_ms)
        return LAC__HOLD_BACKOFF;
    if (r->doubts_count &&
        (r->crashes + r->doubts_count >= LAC_CRASHES_MAX || lac__poison_guarded(core, r->content)))
        return LAC__HOLD_DOUBT;
    if (lac__rate_sum(&core->retried, core->now_ms, LAC__RATE_SHORT) < budget(core))
        return LAC__HOLD_NONE;
    if (!r->budget_ms) {
        r->budget_ms = core->now_ms;
        lac_metric_add(core->meters.budget_waits, 1);
    }
    return core->now_ms - r->budget_ms < LAC_RETRY_WAIT_MS ? LAC__HOLD_BUDGET : LAC__HOLD_GIVE_UP;
}

/* ---- blame ---- */

/* Counts a death of `group` under a request; false when that ended the request. */
static bool blame(lac_core *core, lac__request *r, uint64_t group, const char *why)
{
    r->crashes++;
    lac__poison_death(core, r->content, group);
    if (r->crashes >= LAC_CRASHES_MAX) {
        if (!r->beyond) /* twice at the same place */
            lac__poison_quarantine(core, r->content);
        lac__record_refuse(core, r, LAC__OUTCOME_LOST, LAC_EPEER, 0,
                           "%u worker groups died while they ran this request (last: %s); it is "
                           "not tried again",
                           r->crashes, why);
        return false;
    }
    if (lac__poison_guarded(core, r->content)) {
        lac_metric_add(core->meters.guarded, 1);
        lac__record_refuse(core, r, LAC__OUTCOME_LOST, LAC_EPEER, 0,
                           "%d worker groups died within %d s while they ran this content; it is "
                           "not moved any more",
                           LAC_GUARD_DEATHS, LAC_GUARD_MS / 1000);
        return false;
    }
    return true;
}

static void doubt(lac__request *r, const lac__group *group)
{
    LAC_ASSERT(r->doubts_count < LAC__DOUBTS_MAX);
    r->doubts[r->doubts_count++] = group->serial;
}

/* Takes the doubt about that group away; false when there was none. */
static bool undoubt(lac__request *r, uint64_t group)
{
    for (uint32_t i = 0; i < r->doubts_count; i++) {
        if (r->doubts[i] == group) {
            r->doubts[i] = r->doubts[--r->doubts_count];
            return true;
        }
    }
    return false;
}

void lac__recovery_resolve(lac_core *core, const lac__group *group, bool died, const char *why)
{
    for (lac__request *r = core->by_id, *next; r; r = next) {
        next = r->hh.next;
        if (!undoubt(r, group->serial) || r->end != LAC__END_NONE)
            continue;
        core->pump = true;
        if (died)
            blame(core, r, group->serial, why);
        else
            lac_metric_add(core->meters.forgiven, 1);
    }
}

/* ---- moving ---- */

void lac__recovery_move(lac_core *core, lac__request *r, lac__blame how, const char *why)
{
    LAC_ASSERT(r->state == LAC__REQUEST_RUNNING);
    lac__group *group = r->group;
    r->moves++;
    lac_metric_add(core->meters.moves, 1);
    if (how != LAC__BLAME_NONE) {
        r->beyond = r->accepted_count > r->crash_pos;
        r->crash_pos = r->accepted_count;
    }
    if (how == LAC__BLAME_CRASH && !blame(core, r, group->serial, why))
        return;
    if (r->moves > LAC_MOVES_MAX) {
        lac__record_refuse(core, r, LAC__OUTCOME_LOST, LAC_EPEER, 0,
                           "moved %u times, limit %d (last: %s)", r->moves - 1, LAC_MOVES_MAX, why);
        return;
    }
    if (how == LAC__BLAME_DOUBT)
        doubt(r, group);
    lac__output_cancel(core, group, r->id, r->attempt);
    set_backoff(core, r);
    lac__record_to_queue(core, r);
}

void lac__recovery_move_all(lac_core *core, lac__group *group, lac__blame how, const char *why)
{
    size_t count = group->running.count;
    if (count)
        lac__note(core, LAC_LOG_WARN, "group %s: moving %zu requests: %s", group->id, count, why);
    for (lac__request *r = group->running.head, *next; r; r = next) {
        next = r->next;
        lac__recovery_move(core, r, how, why);
    }
    LAC_ASSERT(group->running.count == 0);
}

void lac__recovery_resume(lac_core *core, lac__group *group, const lac_hello *hello)
{
    LAC_ASSERT(group->ranks[0]);
    lac__recovery_resolve(core, group, false, "");
    uint64_t session = group->ranks[0]->session;
    for (uint32_t i = 0; i < hello->running_count; i++) {
        const lac_running *claim = &hello->running[i];
        lac__request *r = lac__record_by_id(core, claim->request);
        bool ours = r && r->state == LAC__REQUEST_RUNNING && r->group == group &&
                    r->attempt == claim->attempt;
        if (!ours)
            lac__output_cancel(core, group, claim->request, claim->attempt);
        else if (claim->next_pos <= r->accepted_count) /* it may repeat, but has lost nothing */
            r->confirmed = session;
    }
    for (lac__request *r = group->running.head, *next; r; r = next) {
        next = r->next;
        if (r->confirmed != session)
            lac__recovery_move(core, r, LAC__BLAME_NONE, "lost between two sessions of its worker");
    }
}
