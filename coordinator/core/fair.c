/* Whose turn it is: deficit round robin over the tenants that wait (Shreedhar and Varghese 1995),
 * in tokens of predicted work, by weight. A tenant may send what its deficit pays for; when nobody
 * that could go can pay, all of them get as many rounds of their quantum as the nearest one needs.
 * So over any time in which two tenants wait, the work they get is in the ratio of their weights,
 * within one request each. Whoever has had its turn goes to the end of the row. What a request took
 * beyond its prediction, or less, is put right at its end.
 *
 * Within a tenant requests go in order of arrival and priority. What asks for less than normal
 * priority goes when nothing else can, until it has waited as long as that is worth: then it counts
 * as the rest. Loop thread. */
#include "state.h"

enum { LAC__QUANTUM = 1 }; /* tokens a round for a weight of 1: rounds are skipped, not counted */

/* ---- the lists ---- */

static void join(lac_core *core, lac__tenant *t)
{
    t->prev = core->waiting_tail;
    t->next = NULL;
    *(t->prev ? &t->prev->next : &core->waiting_head) = t;
    core->waiting_tail = t;
}

static void step_out(lac_core *core, lac__tenant *t)
{
    *(t->prev ? &t->prev->next : &core->waiting_head) = t->next;
    *(t->next ? &t->next->prev : &core->waiting_tail) = t->prev;
    t->prev = t->next = NULL;
}

static void quit(lac_core *core, lac__tenant *t)
{
    step_out(core, t);
    /* Rights are not saved up by not waiting; debts stay until nothing of it is left here. */
    if (t->deficit > 0)
        t->deficit = 0;
}

void lac__fair_add(lac_core *core, lac__request *r)
{
    lac__tenant *t = r->tenant;
    lac__request *before = t->queue.tail;
    if (t->queue.head && lac__record_before(r, t->queue.head))
        before = NULL;
    while (before && lac__record_before(r, before))
        before = before->kin_prev;
    r->kin_prev = before;
    r->kin_next = before ? before->kin_next : t->queue.head;
    *(r->kin_prev ? &r->kin_prev->kin_next : &t->queue.head) = r;
    *(r->kin_next ? &r->kin_next->kin_prev : &t->queue.tail) = r;
    if (!t->queue.count++)
        join(core, t);
}

void lac__fair_remove(lac_core *core, lac__request *r)
{
    lac__tenant *t = r->tenant;
    *(r->kin_prev ? &r->kin_prev->kin_next : &t->queue.head) = r->kin_next;
    *(r->kin_next ? &r->kin_next->kin_prev : &t->queue.tail) = r->kin_prev;
    if (t->cursor == r)
        t->cursor = r->kin_next;
    r->kin_prev = r->kin_next = NULL;
    LAC_ASSERT(t->queue.count > 0);
    if (!--t->queue.count)
        quit(core, t);
}

/* ---- work ---- */

static int64_t work_of(const lac_core *core, const lac__request *r)
{
    double tokens = core->output_mean;
    if (r->sampling.max_tokens && r->sampling.max_tokens < tokens)
        tokens = r->sampling.max_tokens;
    return (int64_t)r->tokens_estimate + (int64_t)tokens + 1;
}

void lac__fair_ended(const lac__request *r)
{
    lac__tenant *t = r->tenant;
    if (r->work)
        t->deficit += r->work - (int64_t)r->tokens_estimate - (int64_t)r->accepted_count;
    if (!t->live || (t->deficit > 0 && !t->queue.count))
        t->deficit = 0;
}

/* ---- a pass over all that waits ---- */

/* What one look at a tenant brought. */
typedef struct {
    int64_t lacks; /* for the next one that could go; 0 = none could */
    bool tried;    /* it could pay for one, whatever became of it */
    bool sent;     /* a group has it now */
} turn;

static turn visit(lac_core *core, lac__tenant *t, bool background)
{
    turn result = {0};
    while (t->cursor) {
        lac__request *r = t->cursor;
        bool later = r->order_ms > (int64_t)core->now_ms;
        t->cursor = r->kin_next;
        if (later != background || !lac__queue_ready(core, r))
            continue;
        int64_t work = r->work ? 0 : work_of(core, r); /* a moved one has paid */
        if (work > t->deficit && work) {
            t->cursor = r;
            result.lacks = work - t->deficit;
            break;
        }
        result.tried = true;
        /* Paid before it goes: what is left when its last one goes is not kept. */
        t->deficit -= work;
        if (lac__queue_place(core, r)) {
            r->work += work;
            result.sent = true;
        } else if (t->queue.count) {
            t->deficit += work;
        }
    }
    return result;
}

/* One look at everybody; the rounds until the nearest can pay, 0 when nobody lacks anything, −1
 * when somebody could pay: rights are given out only when there are none left that could be used.
 */
static int64_t look(lac_core *core, bool background)
{
    int64_t rounds = 0;
    bool tried = false;
    for (lac__tenant *t = core->waiting_head, *next; t; t = next) {
        next = t->next; /* it leaves the row when its last one goes */
        turn result = visit(core, t, background);
        int64_t quantum = (int64_t)LAC__QUANTUM * t->rules.weight;
        int64_t need = (result.lacks + quantum - 1) / quantum;
        t->lacks = result.lacks;
        tried |= result.tried;
        if (need && (!rounds || need < rounds))
            rounds = need;
        if (need && result.sent) {
            step_out(core, t);
            join(core, t);
        }
    }
    return tried ? -1 : rounds;
}

void lac__fair_pass(lac_core *core, bool background)
{
    for (lac__tenant *t = core->waiting_head; t; t = t->next)
        t->cursor = t->queue.head;
    for (int64_t rounds; (rounds = look(core, background)) != 0;)
        for (lac__tenant *t = core->waiting_head; rounds > 0 && t; t = t->next)
            if (t->lacks)
                t->deficit += rounds * LAC__QUANTUM * t->rules.weight;
}

/* Its share of the turns, by those that wait now: whoever comes is one of them. */
static double share_of(const lac_core *core, const lac__tenant *t)
{
    uint64_t weights = t->queue.count ? 0 : t->rules.weight;
    for (const lac__tenant *other = core->waiting_head; other; other = other->next)
        weights += other->rules.weight;
    return (double)t->rules.weight / (double)weights;
}

uint64_t lac__fair_ahead(const lac_core *core, const lac__tenant *t, int64_t order_ms)
{
    uint64_t own = t->queue.count;
    for (const lac__request *r = t->queue.tail; r && r->order_ms > order_ms; r = r->kin_prev)
        own--;
    double ahead = ((double)own + 1) / share_of(core, t) - 1;
    double most = (double)(core->queue.count - core->batch_queued);
    return (uint64_t)(ahead < most ? ahead : most);
}

void lac__fair_audit(const lac_core *core, const lac__tenant *t)
{
    uint64_t count = 0;
    for (const lac__request *r = t->queue.head; r; r = r->kin_next, count++) {
        LAC_ASSERT(r->tenant == t && r->state == LAC__REQUEST_QUEUED);
        LAC_ASSERT(!r->kin_next || lac__record_before(r, r->kin_next));
    }
    LAC_ASSERT(count == t->queue.count);
    bool waits = t->prev || t->next || core->waiting_head == t;
    LAC_ASSERT(waits == (t->queue.count > 0));
    LAC_ASSERT(t->queue.count || t->deficit <= 0);
    LAC_ASSERT(t->live || t->deficit == 0);
}
