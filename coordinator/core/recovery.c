/* What becomes of running requests when their group cannot finish them: the accepted tokens go with
 * the prompt to another group, at most LAC_MOVES_MAX times; a request under which LAC_CRASHES_MAX
 * groups died is taken for the cause and not tried again. Loop thread. */
#include "state.h"

void lac__recovery_move(lac_core *core, lac__request *r, bool crashed, const char *why)
{
    LAC_ASSERT(r->state == LAC__REQUEST_RUNNING);
    lac__group *group = r->group;
    r->crashes += crashed;
    r->moves++;
    lac_metric_add(core->meters.moves, 1);
    if (r->crashes >= LAC_CRASHES_MAX) {
        lac__record_refuse(core, r, LAC__OUTCOME_LOST, LAC_EPEER, 0,
                           "%u worker groups died while they ran this request (last: %s); it is "
                           "not tried again",
                           r->crashes, why);
        return;
    }
    if (r->moves > LAC_MOVES_MAX) {
        lac__record_refuse(core, r, LAC__OUTCOME_LOST, LAC_EPEER, 0,
                           "moved %u times, limit %d (last: %s)", r->moves - 1, LAC_MOVES_MAX, why);
        return;
    }
    lac__output_cancel(core, group, r->id, r->attempt);
    lac__record_to_queue(core, r);
}

void lac__recovery_move_all(lac_core *core, lac__group *group, bool crashed, const char *why)
{
    size_t count = group->running.count;
    if (count)
        lac__note(core, LAC_LOG_WARN, "group %s: moving %zu requests: %s", group->id, count, why);
    for (lac__request *r = group->running.head, *next; r; r = next) {
        next = r->next;
        lac__recovery_move(core, r, crashed, why);
    }
    LAC_ASSERT(group->running.count == 0);
}

void lac__recovery_resume(lac_core *core, lac__group *group, const lac_hello *hello)
{
    LAC_ASSERT(group->ranks[0]);
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
            lac__recovery_move(core, r, false, "lost between two sessions of its worker");
    }
}
