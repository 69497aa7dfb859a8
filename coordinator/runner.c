/* The runner of batch jobs. Owns the items that are at the core; which job is next, how much may
 * run and what an error means is decided by core/jobs.h and the store. Loop thread.
 *
 * The core delivers from inside its steps, so what it says is only noted; cancels, credits and
 * calls to the store happen in turns of the loop. */
#include "runner.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "frontend/item.h"

enum {
    CHOICE_BITS = 4,
    SEAT_BITS = 12,
    CREDIT = 4096,   /* Tokens messages on their way to one choice */
    AGAIN_MS = 1000, /* before the store is asked or told again */
    REPLY_MAX = 16 << 20,
};
_Static_assert(LAC_CHOICES_MAX <= 1 << CHOICE_BITS, "a choice must fit in its stream's number");
_Static_assert(LAC_JOBS_IN_FLIGHT_MAX <= 1 << SEAT_BITS, "a seat must fit in its stream's number");

typedef enum {
    SEAT_FREE,
    SEAT_RUNNING, /* at the core */
    SEAT_ENDING,  /* its end is known, not yet handed to the store */
    SEAT_TELLING  /* the store has the call */
} seat_state;

typedef struct {
    lac__runner *runner;
    seat_state state;
    lac_store_claim claim; /* its body is gone once it was submitted */
    lac_item *item;
    uint64_t serial;                 /* of this use of the seat */
    bool begun;                      /* it has a token */
    bool open[LAC_CHOICES_MAX];      /* streams that the core has not ended */
    uint32_t taken[LAC_CHOICES_MAX]; /* Tokens messages not yet credited */
    uint64_t tell_ms;                /* ENDING: not before */
    lac_store_call call;
    lac_buf reply;
} seat;

struct lac__runner {
    uv_idle_t work; /* runs while there is something to do */
    lac_store *store;
    lac__runner_hooks hooks;
    double share;
    seat seats[LAC_JOBS_IN_FLIGHT_MAX];
    uint64_t serials;
    uint32_t used;
    bool claiming, checking, check; /* a call is out; one more should follow */
    lac_store_call claim_call, check_call;
    uint64_t claim_ms; /* not before */
    bool draining, stopped;
    lac_metric *in_flight, *taken_back, *attempts;
};

static int64_t wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void on_work(uv_idle_t *work);

static void wake(lac__runner *r)
{
    if (!r->stopped)
        uv_idle_start(&r->work, on_work);
}

/* ---- the core ---- */

static uint64_t stream_of(const seat *s, uint32_t choice)
{
    uint64_t index = (uint64_t)(s - s->runner->seats);
    return s->serial << (SEAT_BITS + CHOICE_BITS) | index << CHOICE_BITS | choice;
}

static seat *seat_of(lac__runner *r, uint64_t stream, uint32_t *choice)
{
    uint64_t index = stream >> CHOICE_BITS & ((1 << SEAT_BITS) - 1);
    if (index >= LAC_JOBS_IN_FLIGHT_MAX)
        return NULL;
    seat *s = &r->seats[index];
    *choice = (uint32_t)(stream & ((1 << CHOICE_BITS) - 1));
    return s->state == SEAT_RUNNING && *choice < LAC_CHOICES_MAX && stream_of(s, *choice) == stream
               ? s
               : NULL;
}

static void cancel_open(seat *s)
{
    lac__runner *r = s->runner;
    for (uint32_t i = 0; i < LAC_CHOICES_MAX; i++) {
        if (!s->open[i])
            continue;
        s->open[i] = false;
        lac_msg msg = {.envelope.type = LAC_MSG_CLIENT_CANCEL};
        msg.body.client_cancel.stream = stream_of(s, i);
        r->hooks.emit(r->hooks.arg, &msg);
    }
}

static void grant(seat *s)
{
    lac__runner *r = s->runner;
    for (uint32_t i = 0; i < LAC_CHOICES_MAX; i++) {
        if (!s->open[i] || s->taken[i] < CREDIT / 2)
            continue;
        lac_msg msg = {.envelope.type = LAC_MSG_CREDIT};
        msg.body.credit.stream = stream_of(s, i);
        msg.body.credit.messages = s->taken[i];
        s->taken[i] = 0;
        r->hooks.emit(r->hooks.arg, &msg);
    }
}

void lac__runner_deliver(lac__runner *r, const lac_msg *msg)
{
    uint64_t stream = msg->envelope.type == LAC_MSG_ACCEPTED  ? msg->body.accepted.stream
                      : msg->envelope.type == LAC_MSG_TOKENS  ? msg->body.tokens.stream
                      : msg->envelope.type == LAC_MSG_DONE    ? msg->body.done.stream
                      : msg->envelope.type == LAC_MSG_REFUSED ? msg->body.refused.stream
                                                              : 0;
    uint32_t choice;
    seat *s = stream ? seat_of(r, stream, &choice) : NULL;
    if (!s)
        return;
    if (msg->envelope.type == LAC_MSG_TOKENS) {
        s->begun = true;
        s->taken[choice]++;
    }
    if (msg->envelope.type == LAC_MSG_DONE || msg->envelope.type == LAC_MSG_REFUSED)
        s->open[choice] = false;
    lac_item_take(s->item, choice, msg);
    wake(r);
}

/* ---- ends ---- */

static void seat_free(seat *s)
{
    lac_item_free(&s->item);
    lac_buf_free(&s->reply);
    lac_store_call_free(&s->call);
    s->state = SEAT_FREE;
    s->runner->used--;
    lac_metric_set(s->runner->in_flight, s->runner->used);
}

static void on_told(lac_store_call *call)
{
    seat *s = call->arg;
    lac__runner *r = s->runner;
    lac_status status = call->error.status;
    /* A lease that is over is somebody else's business; anything else may work later. */
    if (status == LAC_OK || status == LAC_EEPOCH || r->stopped) {
        seat_free(s);
    } else {
        lac_store_call_free(call);
        s->state = SEAT_ENDING;
        s->tell_ms = lac_now_ms() + AGAIN_MS;
    }
    wake(r);
}

static void tell(seat *s)
{
    lac__runner *r = s->runner;
    s->call.kind = LAC_STORE_END;
    s->call.done = on_told;
    s->call.arg = s;
    s->state = SEAT_TELLING;
    if (lac_store_do(r->store, &s->call, NULL) == LAC_OK)
        return;
    s->state = SEAT_ENDING;
    s->tell_ms = lac_now_ms() + AGAIN_MS;
}

/* Its end without a reply: it waits again, or its job was called off. */
static void end_without(seat *s, lac_item_state state, bool refund, int64_t not_before_ms)
{
    lac_item_free(&s->item);
    s->call.end = (lac_store_end){.ref = s->claim.ref,
                                  .attempt = s->claim.attempt,
                                  .state = state,
                                  .refund = refund,
                                  .not_before_ms = not_before_ms};
    s->state = SEAT_ENDING;
    s->tell_ms = 0;
}

static void end_with_reply(seat *s, lac_item_state state)
{
    lac_item_end end;
    s->reply = (lac_buf){.cap = REPLY_MAX};
    lac_item_reply(s->item, &end, &s->reply);
    s->call.end = (lac_store_end){.ref = s->claim.ref,
                                  .attempt = s->claim.attempt,
                                  .state = state,
                                  .http = end.http,
                                  .prompt_tokens = end.prompt_tokens,
                                  .completion_tokens = end.completion_tokens};
    memcpy(s->call.end.class_name, end.class_name, sizeof end.class_name);
    LAC_ASSERT(!s->reply.overflow); /* the item bounds it */
    if (state == LAC_ITEM_DONE && end.http != 200)
        s->call.end.state = LAC_ITEM_FAILED;
    s->call.end.reply = (lac_span){s->reply.data, (uint32_t)s->reply.length};
    lac_item_free(&s->item);
    s->state = SEAT_ENDING;
    s->tell_ms = 0;
}

/* The item has its end at the core. */
static void conclude(seat *s)
{
    int64_t at = 0;
    lac_status error = lac_item_error(s->item);
    cancel_open(s);
    if (error == LAC_OK) {
        end_with_reply(s, LAC_ITEM_DONE);
        return;
    }
    switch (lac_jobs_after(error, s->claim.attempt, s->claim.attempts_max, wall_ms(),
                           s->claim.deadline_ms, &at)) {
    case LAC_JOBS_AGAIN: end_without(s, LAC_ITEM_RETURNED, false, at); break;
    case LAC_JOBS_REFUND: end_without(s, LAC_ITEM_RETURNED, true, at); break;
    case LAC_JOBS_FAIL: end_with_reply(s, LAC_ITEM_FAILED); break;
    case LAC_JOBS_EXPIRE: end_without(s, LAC_ITEM_EXPIRED, false, 0); break;
    case LAC_JOBS_CANCEL: end_without(s, LAC_ITEM_CANCELLED, false, 0); break;
    }
}

/* The youngest first: least of their work is lost. */
static void take_back(lac__runner *r, uint32_t count)
{
    while (count--) {
        seat *youngest = NULL;
        for (int i = 0; i < LAC_JOBS_IN_FLIGHT_MAX; i++) {
            seat *s = &r->seats[i];
            if (s->state == SEAT_RUNNING && (!youngest || s->serial > youngest->serial))
                youngest = s;
        }
        if (!youngest)
            return;
        cancel_open(youngest);
        end_without(youngest, LAC_ITEM_RETURNED, true, 0);
        lac_metric_add(r->taken_back, 1);
    }
}

/* ---- starts ---- */

static void seat_take(seat *s, const lac_store_claim *claim)
{
    lac__runner *r = s->runner;
    int64_t left_ms = claim->lease_until_ms - wall_ms();
    s->claim = *claim;
    s->claim.body = (lac_span){0};
    s->serial = ++r->serials;
    s->begun = false;
    memset(s->open, 0, sizeof s->open);
    memset(s->taken, 0, sizeof s->taken);
    s->state = SEAT_RUNNING;
    r->used++;
    lac_metric_set(r->in_flight, r->used);
    lac_metric_add(r->attempts, 1);
    lac_debug("batch item: job %016llx item %llu attempt %u of %u", (unsigned long long)claim->job,
              (unsigned long long)claim->ref, claim->attempt, claim->attempts_max);
    s->item = lac_item_create(claim->endpoint, claim->body.data, claim->body.length,
                              claim->job ^ claim->ref << 20 ^ s->serial);
    for (uint32_t i = 0; i < lac_item_choices(s->item) && !lac_item_ended(s->item); i++) {
        lac_msg msg = {.envelope.type = LAC_MSG_SUBMIT, .tenant = s->claim.tenant};
        msg.body.submit = *lac_item_submit(s->item, i);
        msg.body.submit.stream = stream_of(s, i);
        msg.body.submit.sampling.choice = i;
        msg.body.submit.credit = CREDIT;
        msg.body.submit.deadline_ms = left_ms < 1 ? 1 : (uint32_t)left_ms;
        s->open[i] = true;
        r->hooks.emit(r->hooks.arg, &msg);
    }
    lac_item_sent(s->item);
}

static seat *seat_find(lac__runner *r)
{
    for (int i = 0; i < LAC_JOBS_IN_FLIGHT_MAX; i++)
        if (r->seats[i].state == SEAT_FREE)
            return &r->seats[i];
    return NULL;
}

static void on_claimed(lac_store_call *call)
{
    lac__runner *r = call->arg;
    r->claiming = false;
    for (uint32_t i = 0; i < call->count && !call->error.status; i++) {
        seat *s = seat_find(r);
        LAC_ASSERT(s); /* no more were asked for than were free, and only claims take seats */
        if (r->draining || r->stopped) {
            s->claim = call->claims[i];
            s->state = SEAT_RUNNING;
            s->serial = ++r->serials;
            memset(s->open, 0, sizeof s->open);
            r->used++;
            end_without(s, LAC_ITEM_RETURNED, true, 0);
        } else {
            seat_take(s, &call->claims[i]);
        }
    }
    /* What rests is asked for again; without any job only news of the store are worth it. */
    if (call->error.status || (!call->count && lac_store_live(r->store)))
        r->claim_ms = lac_now_ms() + AGAIN_MS;
    else if (!call->count)
        r->claim_ms = UINT64_MAX;
    lac_store_call_free(call);
    wake(r);
}

static void claim(lac__runner *r, int32_t room)
{
    uint32_t seats_left = LAC_JOBS_IN_FLIGHT_MAX - r->used;
    if (room <= 0 || r->claiming || r->draining || !seats_left || lac_now_ms() < r->claim_ms ||
        !lac_store_writable(r->store))
        return;
    r->claim_call =
        (lac_store_call){.kind = LAC_STORE_CLAIM,
                         .done = on_claimed,
                         .arg = r,
                         .limit = (uint32_t)room < seats_left ? (uint32_t)room : seats_left};
    r->claiming = lac_store_do(r->store, &r->claim_call, NULL) == LAC_OK;
    if (!r->claiming)
        r->claim_ms = lac_now_ms() + AGAIN_MS;
}

/* ---- jobs that were called off or have expired ---- */

static void on_checked(lac_store_call *call)
{
    lac__runner *r = call->arg;
    r->checking = false;
    for (uint32_t i = 0; i < call->count && !call->error.status; i++) {
        const lac_job_view *job = &call->jobs[i].view;
        for (int k = 0; k < LAC_JOBS_IN_FLIGHT_MAX; k++) {
            seat *s = &r->seats[k];
            if (s->state != SEAT_RUNNING || s->claim.job != job->id || r->stopped)
                continue;
            cancel_open(s);
            end_without(s, job->state == LAC_JOB_EXPIRING ? LAC_ITEM_EXPIRED : LAC_ITEM_CANCELLED,
                        false, 0);
        }
    }
    lac_store_call_free(call);
    wake(r);
}

static void check(lac__runner *r)
{
    if (!r->check || r->checking || !r->used)
        return;
    r->check = false;
    r->check_call = (lac_store_call){.kind = LAC_STORE_STOPPING, .done = on_checked, .arg = r};
    r->checking = lac_store_do(r->store, &r->check_call, NULL) == LAC_OK;
    r->check = !r->checking;
}

/* ---- turns ---- */

static void turn(lac__runner *r)
{
    uint64_t now = lac_now_ms();
    uint32_t starting = 0;
    for (int i = 0; i < LAC_JOBS_IN_FLIGHT_MAX; i++) {
        seat *s = &r->seats[i];
        starting += s->state == SEAT_RUNNING && !s->begun && !lac_item_ended(s->item);
        if (s->state == SEAT_RUNNING && lac_item_ended(s->item))
            conclude(s);
        else if (s->state == SEAT_RUNNING)
            grant(s);
        if (s->state == SEAT_ENDING && now >= s->tell_ms)
            tell(s);
    }
    check(r);
    if (r->draining)
        return;
    lac_jobs_load load;
    r->hooks.load(r->hooks.arg, &load);
    load.starting = starting;
    int32_t room = lac_jobs_room(r->share, &load);
    if (room < 0)
        take_back(r, (uint32_t)-room);
    claim(r, room);
}

static void on_work(uv_idle_t *work)
{
    uv_idle_stop(work);
    turn(work->data);
}

void lac__runner_tick(lac__runner *r)
{
    if (!r->stopped)
        turn(r);
}

void lac__runner_wake(lac__runner *r)
{
    r->check = true;
    r->claim_ms = 0;
    wake(r);
}

/* ---- life ---- */

lac__runner *lac__runner_create(uv_loop_t *loop, lac_store *store, double share,
                                const lac__runner_hooks *hooks, lac_metrics *metrics)
{
    lac__runner *r = lac_alloc(1, sizeof *r);
    uv_idle_init(loop, &r->work);
    r->work.data = r;
    r->store = store;
    r->share = share;
    r->hooks = *hooks;
    for (int i = 0; i < LAC_JOBS_IN_FLIGHT_MAX; i++)
        r->seats[i].runner = r;
    r->in_flight = lac_metrics_get(metrics, LAC_M_BATCH_IN_FLIGHT, "");
    r->attempts = lac_metrics_get(metrics, LAC_M_BATCH_ATTEMPTS, "");
    r->taken_back = lac_metrics_get(metrics, LAC_M_BATCH_TAKEN_BACK, "");
    return r;
}

void lac__runner_drain(lac__runner *r)
{
    if (r->draining)
        return;
    r->draining = true;
    for (int i = 0; i < LAC_JOBS_IN_FLIGHT_MAX; i++) {
        seat *s = &r->seats[i];
        if (s->state != SEAT_RUNNING || lac_item_ended(s->item))
            continue;
        cancel_open(s);
        end_without(s, LAC_ITEM_RETURNED, true, 0);
    }
    wake(r);
}

void lac__runner_stop(lac__runner *r)
{
    if (r->stopped)
        return;
    r->draining = r->stopped = true;
    uv_close((uv_handle_t *)&r->work, NULL);
    for (int i = 0; i < LAC_JOBS_IN_FLIGHT_MAX; i++) {
        seat *s = &r->seats[i];
        memset(s->open, 0, sizeof s->open); /* the core goes too */
        if (s->state == SEAT_RUNNING && lac_item_ended(s->item))
            conclude(s);
        else if (s->state == SEAT_RUNNING)
            end_without(s, LAC_ITEM_RETURNED, true, 0);
        if (s->state == SEAT_ENDING)
            tell(s);
    }
}

void lac__runner_destroy(lac__runner **pointer)
{
    lac__runner *r = *pointer;
    if (!r)
        return;
    *pointer = NULL;
    for (int i = 0; i < LAC_JOBS_IN_FLIGHT_MAX; i++)
        if (r->seats[i].state != SEAT_FREE)
            seat_free(&r->seats[i]);
    free(r);
}
