/* Who is in the fleet: groups, their ranks, sessions and leases. Owns identity (incarnation,
 * session, epoch) and time verdicts; what a verdict does is in lifecycle.c, what becomes of
 * requests in recovery.c. Loop thread. */
#include "state.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- finding ---- */

lac__group *lac__registry_find(const lac_core *core, const char *id)
{
    /* The newest of a name: an older one of that name is dead. */
    for (lac__group *g = core->groups_tail; g; g = g->prev)
        if (!strcmp(g->id, id))
            return g;
    return NULL;
}

static lac__rank *find_rank(const lac_core *core, uint64_t peer)
{
    lac__rank *rank = NULL;
    HASH_FIND(hh, core->ranks, &peer, sizeof peer, rank);
    return rank;
}

lac__model *lac__registry_model(const lac_core *core, const char *name)
{
    for (size_t i = 0; i < core->models_count; i++)
        if (!strcmp(core->models[i].name, name))
            return (lac__model *)&core->models[i]; /* the core's own, whoever asks */
    return NULL;
}

static bool model_in_use(const lac_core *core, const lac__model *model)
{
    for (const lac__group *g = core->groups_head; g; g = g->next)
        if (g->model == model)
            return true;
    for (const lac__request *r = core->by_id; r; r = r->hh.next)
        if (r->served == model)
            return true;
    return false;
}

/* NULL when LAC_MODELS_MAX names are in use. */
static lac__model *make_model(lac_core *core, const lac_hello *hello)
{
    lac__model *model = lac__registry_model(core, hello->model);
    if (model) {
        /* What any group can take is what we may promise. */
        if (hello->context_max < model->context_max)
            model->context_max = hello->context_max;
        return model;
    }
    if (core->models_count < LAC_MODELS_MAX)
        model = &core->models[core->models_count++];
    for (size_t i = 1; !model && i < LAC_MODELS_MAX; i++)
        if (!model_in_use(core, &core->models[i]))
            model = &core->models[i];
    if (!model)
        return NULL;
    *model = (lac__model){.context_max = hello->context_max, .created_s = core->wall_s};
    lac__copy_text(model->name, sizeof model->name, hello->model);
    lac__copy_text(model->architecture, sizeof model->architecture, hello->architecture);
    return model;
}

/* ---- making and freeing ---- */

static void drop_rank(lac_core *core, lac__rank *rank)
{
    rank->group->ranks[rank->rank] = NULL;
    HASH_DEL(core->ranks, rank);
    free(rank->address);
    free(rank);
}

static void drop_group(lac_core *core, lac__group *group)
{
    LAC_ASSERT(group->running.count == 0);
    lac__classes_leave(core, group);
    for (uint32_t i = 0; i < group->ranks_count; i++)
        if (group->ranks[i])
            drop_rank(core, group->ranks[i]);
    *(group->prev ? &group->prev->next : &core->groups_head) = group->next;
    *(group->next ? &group->next->prev : &core->groups_tail) = group->prev;
    core->groups_count--;
    free(group);
}

void lac__registry_free(lac_core *core)
{
    while (core->groups_head)
        drop_group(core, core->groups_head);
}

static bool is_zero(const uint8_t incarnation[16])
{
    static const uint8_t zero[16];
    return !memcmp(incarnation, zero, 16);
}

static bool is_fenced(const lac_core *core, const uint8_t incarnation[16])
{
    for (size_t i = 0; i < core->fenced_count; i++)
        if (!memcmp(core->fenced[i], incarnation, 16))
            return true;
    return false;
}

static lac__group *make_group(lac_core *core, const lac_hello *hello, lac__model *model)
{
    lac__group *g = lac_alloc(1, sizeof *g);
    lac__copy_text(g->id, sizeof g->id, hello->group);
    lac__copy_text(g->isa, sizeof g->isa, hello->isa);
    g->serial = ++core->groups_made;
    g->born_ms = core->now_ms;
    g->name_hash = lac__hash_bytes(core->hash_seed, g->id, strlen(g->id));
    g->state = LAC__GROUP_PROVISIONING;
    g->state_ms = core->now_ms;
    g->digest = hello->model_digest;
    g->model = model;
    g->layers = hello->layers;
    g->slots = hello->slots;
    g->context_max = hello->context_max;
    g->kv_pages = hello->kv_pages;
    g->pp = hello->pp;
    g->tp = hello->tp;
    g->ranks_count = hello->pp * hello->tp;
    g->first_rank = hello->rank;
    g->plan_digest = hello->plan_digest;
    memcpy(g->incarnation, hello->incarnation, 16);
    while (is_zero(g->incarnation)) {
        uint64_t draw[2] = {lac_rng_next(&core->rng), lac_rng_next(&core->rng)};
        memcpy(g->incarnation, draw, 16);
    }
    g->prev = core->groups_tail;
    *(g->prev ? &g->prev->next : &core->groups_head) = g;
    core->groups_tail = g;
    core->groups_count++;
    return g;
}

static void set_rank(lac_core *core, lac__group *group, uint64_t peer, const lac_hello *hello)
{
    lac__rank *rank = group->ranks[hello->rank];
    lac__rank before = {0};
    if (rank) {
        before = *rank;
        drop_rank(core, rank);
    }
    rank = lac_alloc(1, sizeof *rank);
    /* A stalled engine does not become a fresh one by saying Hello again. */
    rank->beat = before.beat;
    rank->beat.report_seq = 0;
    rank->beat_ms = before.beat_ms;
    rank->step_ms = before.beat_ms ? before.step_ms : core->now_ms;
    rank->peer = peer;
    rank->group = group;
    rank->rank = hello->rank;
    rank->pid = hello->pid;
    rank->seen_ms = core->now_ms;
    rank->session = (core->options.epoch & 0xffffff) << 40 | ++core->sessions;
    lac__forming_take(rank, hello);
    group->ranks[hello->rank] = rank;
    HASH_ADD(hh, core->ranks, peer, sizeof rank->peer, rank);
}

/* ---- speaking ---- */

static void mark_lost(lac_core *core, lac__rank *rank)
{
    rank->lost = rank->group->lost = core->unsettled = true;
}

lac_status lac__rank_send(lac_core *core, lac__rank *rank, uint16_t type, lac_msg *msg)
{
    if (rank->lost || !lac__group_living(rank->group))
        return LAC_EPEER;
    lac_status status = lac__send(core, LAC_PLANE_WORKER, rank->peer, rank->session, type, msg);
    if (status == LAC_EPEER)
        mark_lost(core, rank);
    return status;
}

lac_status lac__group_send(lac_core *core, lac__group *group, uint16_t type, lac_msg *msg)
{
    return group->ranks[0] ? lac__rank_send(core, group->ranks[0], type, msg) : LAC_EPEER;
}

static void send_reason(lac_core *core, uint64_t peer, uint16_t type, const char *reason)
{
    lac_msg msg = {0};
    if (type == LAC_MSG_HELLO_REJECT) {
        msg.body.hello_reject.major_min = msg.body.hello_reject.major_max = LAC_PROTO_MAJOR;
        lac__copy_text(msg.body.hello_reject.reason, sizeof msg.body.hello_reject.reason, reason);
    } else {
        lac__copy_text(msg.body.die.reason, sizeof msg.body.die.reason, reason);
    }
    lac__send(core, LAC_PLANE_WORKER, peer, 0, type, &msg);
}

static void reject(lac_core *core, uint64_t peer, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void reject(lac_core *core, uint64_t peer, const char *format, ...)
{
    char reason[LAC_REASON_MAX + 1];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    lac__note(core, LAC_LOG_WARN, "hello rejected: %s", reason);
    send_reason(core, peer, LAC_MSG_HELLO_REJECT, reason);
}

static void reregister(lac_core *core, uint64_t peer, const char *reason)
{
    lac_metric_add(core->meters.reregisters, 1);
    send_reason(core, peer, LAC_MSG_REREGISTER, reason);
}

/* Asks a rank to say Hello again: a healthy one does, at no harm to its streams; of one that is
 * gone the transport says so at once, long before its lease runs out. */
static void probe(lac_core *core, lac__rank *rank)
{
    lac_msg msg = {0};
    lac__copy_text(msg.body.die.reason, sizeof msg.body.die.reason, "are you still there?");
    lac__rank_send(core, rank, LAC_MSG_REREGISTER, &msg);
}

/* ---- Hello ---- */

/* Some rank of it that is there. */
static lac__rank *present(const lac__group *group)
{
    for (uint32_t i = 0; i < group->ranks_count; i++)
        if (group->ranks[i] && !group->ranks[i]->lost)
            return group->ranks[i];
    return NULL;
}

/* True when the name is free for a newcomer; otherwise the newcomer was told why not. */
static bool name_free(lac_core *core, uint64_t peer, lac__group *older, const lac_hello *hello)
{
    for (lac__rank *asked = NULL, *rank; (rank = present(older)) && rank != asked; asked = rank)
        probe(core, rank);
    lac__rank *rank = present(older);
    if (!rank) {
        lac__group_step(core, older, LAC__GROUP_EXPIRED, "gone, and its name is taken by a newer");
        return true;
    }
    reject(core, peer,
           "group is \"%s\", which pid %llu serves (%s, last heard %llu ms ago); stop it or choose "
           "another name",
           hello->group, (unsigned long long)rank->pid, lac__group_state_name(older->state),
           (unsigned long long)(core->now_ms - rank->seen_ms));
    return false;
}

static bool fits_fleet(lac_core *core, uint64_t peer, const lac_hello *hello)
{
    if (hello->slots < 1 || hello->slots > LAC_SLOTS_MAX) {
        reject(core, peer, "slots is %u, allowed 1..%d", hello->slots, LAC_SLOTS_MAX);
        return false;
    }
    for (const lac__group *g = core->groups_head; g; g = g->next) {
        if (!lac__group_living(g) || !strcmp(g->id, hello->group) ||
            strcmp(g->model->name, hello->model))
            continue;
        if (memcmp(&g->digest, &hello->model_digest, sizeof g->digest) != 0) {
            reject(core, peer,
                   "model is \"%s\" with another digest than group %s serves under that name: a "
                   "request could not move between them",
                   hello->model, g->id);
            return false;
        }
    }
    return true;
}

/* The session exists once the worker can know of it. */
static bool acknowledge(lac_core *core, lac__rank *rank)
{
    lac_msg msg = {.body.hello_ack = {.session = rank->session,
                                      .epoch = core->options.epoch,
                                      .heartbeat_ms = core->options.heartbeat_ms,
                                      .lease_ms = core->options.lease_ms}};
    memcpy(msg.body.hello_ack.incarnation, rank->group->incarnation, 16);
    return lac__rank_send(core, rank, LAC_MSG_HELLO_ACK, &msg) == LAC_OK;
}

/* Takes a Hello for its word: the rank's record, its session, and what they make of the group.
 * False: the answer did not reach it. */
static bool take(lac_core *core, lac__group *group, uint64_t peer, const lac_hello *hello,
                 const char *why)
{
    set_rank(core, group, peer, hello);
    group->lost = false;
    for (uint32_t i = 0; i < group->ranks_count; i++)
        group->lost |= group->ranks[i] && group->ranks[i]->lost;
    lac__rank *rank = group->ranks[hello->rank];
    if (hello->rank == 0) { /* the others are given what it has */
        lac__copy_text(group->isa, sizeof group->isa, hello->isa);
        group->slots = hello->slots;
        group->context_max = hello->context_max;
        group->kv_pages = hello->kv_pages;
        lac__classes_hello(core, group, hello);
    }
    if (!acknowledge(core, rank))
        return false;
    if (hello->rank == 0)
        lac__recovery_resume(core, group, hello);
    else if (lac__group_whole(group))
        lac__recovery_resolve(core, group, false, "");
    lac__forming_step(core, group, why);
    return true;
}

static bool make_room(lac_core *core)
{
    if (core->groups_count < LAC_GROUPS_MAX)
        return true;
    for (lac__group *g = core->groups_head; g; g = g->next) {
        if (!lac__group_living(g)) {
            drop_group(core, g);
            return true;
        }
    }
    return false;
}

static void welcome(lac_core *core, uint64_t peer, const lac_hello *hello)
{
    if (!make_room(core)) {
        reject(core, peer, "%d groups are here already, which is the limit", LAC_GROUPS_MAX);
        return;
    }
    lac__model *model = make_model(core, hello);
    if (!model) {
        reject(core, peer, "model is \"%s\": %d names are served already, which is the limit",
               hello->model, LAC_MODELS_MAX);
        return;
    }
    lac__group *group = make_group(core, hello, model);
    if (!take(core, group, peer, hello, "all ranks said hello"))
        drop_group(core, group); /* it asks again */
}

/* The same start of the same process, on this or another connection. */
static bool same_start(const lac__group *group, uint64_t peer, const lac_hello *hello)
{
    if (!is_zero(hello->incarnation))
        return !memcmp(hello->incarnation, group->incarnation, 16);
    if (hello->rank >= group->ranks_count)
        return false;
    /* It never got its number: our answer was lost, it asks again. Or it is one more of the ranks
     * that were started by hand. */
    const lac__rank *rank = group->ranks[hello->rank];
    return rank ? rank->peer == peer
                : group->state == LAC__GROUP_PROVISIONING && group->ranks_count > 1;
}

/* Of a start that is known: the rank itself again, or another of its group. */
static void same_start_hello(lac_core *core, lac__group *group, uint64_t peer,
                             const lac_hello *hello)
{
    char why[LAC_REASON_MAX + 1];
    bool formed = group->state != LAC__GROUP_PROVISIONING && group->state != LAC__GROUP_FORMING;
    if (!lac__forming_agrees(group, hello, why, sizeof why)) {
        reject(core, peer, "group \"%s\" %s: %s", group->id,
               formed ? "runs otherwise" : "does not form", why);
        if (!formed)
            lac__group_step(core, group, LAC__GROUP_FAULT, why);
        return;
    }
    const lac__rank *before = group->ranks[hello->rank];
    if (group->ranks_count > 1 && before && before->peer != peer && before->pid != hello->pid) {
        reject(core, peer, "rank %u of group \"%s\" is pid %llu", hello->rank, group->id,
               (unsigned long long)before->pid);
        return;
    }
    if (lac__forming_breaks(group, hello, why, sizeof why)) {
        lac__group_step(core, group, LAC__GROUP_FAULT, why);
        send_reason(core, peer, LAC_MSG_DIE, why);
        return;
    }
    if (!take(core, group, peer, hello, "said hello again") && group->ranks[hello->rank])
        mark_lost(core, group->ranks[hello->rank]); /* its old session is gone, the new never was */
}

void lac__registry_hello(lac_core *core, uint64_t peer, const lac_hello *hello)
{
    if (!fits_fleet(core, peer, hello))
        return;
    if (!is_zero(hello->incarnation) && is_fenced(core, hello->incarnation)) {
        lac_metric_add(core->meters.fenced, 1);
        send_reason(core, peer, LAC_MSG_DIE, "this start was declared dead; start again");
        return;
    }
    lac__rank *known = find_rank(core, peer);
    if (known && strcmp(known->group->id, hello->group) != 0)
        lac__registry_lost(core, peer); /* it left the name it had */
    lac__group *group = lac__registry_find(core, hello->group);
    if (!group || !lac__group_living(group)) {
        known = find_rank(core, peer);
        if (known) /* a dead group's connection starts anew */
            drop_rank(core, known);
        welcome(core, peer, hello);
        return;
    }
    if (same_start(group, peer, hello)) {
        same_start_hello(core, group, peer, hello);
        return;
    }
    known = find_rank(core, peer);
    if (known) /* one process replaced by another behind one connection cannot be */
        lac__registry_lost(core, peer);
    if (name_free(core, peer, group, hello))
        welcome(core, peer, hello);
}

/* ---- frames and leases ---- */

lac__rank *lac__registry_rank(lac_core *core, uint64_t peer, const lac_envelope *envelope)
{
    lac__rank *rank = find_rank(core, peer);
    if (!rank || rank->session != envelope->session || envelope->epoch != core->options.epoch) {
        if (envelope->session)
            lac_metric_add(core->meters.stale, 1);
        reregister(core, peer, rank ? "session or epoch is not the present one" : "unknown here");
        return NULL;
    }
    if (rank->group->state == LAC__GROUP_STOPPED && rank->rank > 0)
        return NULL; /* its leader lets it go in its own time */
    if (!lac__group_living(rank->group)) {
        lac_metric_add(core->meters.fenced, 1);
        send_reason(core, peer, LAC_MSG_DIE, "this start was declared dead; start again");
        return NULL;
    }
    rank->seen_ms = core->now_ms;
    rank->probed = false;
    if (rank->group->state == LAC__GROUP_SUSPECT)
        lac__verdict_judge(core, rank->group);
    return lac__group_living(rank->group) ? rank : NULL;
}

static void heartbeat_take(lac_core *core, lac__rank *rank, const lac_heartbeat *beat)
{
    if (!beat->busy || !rank->beat_ms || !rank->beat.busy ||
        beat->step_counter != rank->beat.step_counter)
        rank->step_ms = core->now_ms;
    rank->beat = *beat;
    rank->beat_ms = core->now_ms ? core->now_ms : 1;
}

/* A rank that is not the leader: alive, and perhaps asked to end. */
static void follower_heartbeat(lac_core *core, lac__rank *rank, const lac_heartbeat *beat)
{
    lac__group *group = rank->group;
    heartbeat_take(core, rank, beat);
    if (beat->draining && group->state != LAC__GROUP_DRAINING)
        lac_core_drain_group(core, core->now_ms, group->id, 0);
    else
        lac__verdict_judge(core, group);
}

void lac__registry_heartbeat(lac_core *core, lac__rank *rank, const lac_heartbeat *beat)
{
    if (beat->report_seq && beat->report_seq <= rank->beat.report_seq)
        return; /* older than what we know */
    if (rank->rank > 0) {
        follower_heartbeat(core, rank, beat);
        return;
    }
    lac__verdict_measure(core, rank, beat);
    heartbeat_take(core, rank, beat);
    lac__group *group = rank->group;
    lac__router_reconcile(group, beat);
    lac__verdict_pace(core, group, beat);
    core->pump = true;
    if (beat->draining)
        lac__group_step(core, group, LAC__GROUP_DRAIN, "drains itself");
    else
        lac__verdict_judge(core, group);
}

void lac__registry_lost(lac_core *core, uint64_t peer)
{
    lac__rank *rank = find_rank(core, peer);
    if (!rank)
        return;
    lac__group *group = rank->group;
    /* A connection that closes after a second of silence is one more silence; one that closes
     * between two heartbeats is a process that is gone. */
    bool silence = group->state == LAC__GROUP_READY &&
                   core->now_ms - rank->seen_ms >= core->options.suspect_ms / 2;
    char why[64] = "its connection is gone";
    if (group->ranks_count > 1)
        snprintf(why, sizeof why, "rank %u: its connection is gone", rank->rank);
    drop_rank(core, rank);
    lac__group_step(core, group, LAC__GROUP_LOST, why);
    if (silence)
        lac__verdict_vanished(core, group);
    /* Its streams go on elsewhere at once; the group itself has suspect_ms to say hello again. */
    if (lac__group_living(group))
        lac__recovery_move_all(core, group, LAC__BLAME_DOUBT, why);
}

void lac__registry_settle(lac_core *core)
{
    for (lac__group *g = core->groups_head; g; g = g->next) {
        for (uint32_t i = 0; g->lost && i < g->ranks_count; i++)
            if (g->ranks[i] && g->ranks[i]->lost)
                lac__registry_lost(core, g->ranks[i]->peer);
        g->lost = false;
    }
}

static void tick_group(lac_core *core, lac__group *group)
{
    if (!lac__group_living(group)) {
        if (core->now_ms - group->state_ms >= LAC_DEAD_SHOWN_MS)
            drop_group(core, group);
        return;
    }
    if (group->state == LAC__GROUP_DRAINING && group->drain_until_ms &&
        core->now_ms >= group->drain_until_ms) {
        group->drain_until_ms = 0;
        lac__recovery_move_all(core, group, LAC__BLAME_NONE, "its drain deadline passed");
    }
    for (uint32_t i = 0; i < group->ranks_count; i++) {
        lac__rank *rank = group->ranks[i];
        if (!rank || rank->probed || core->now_ms - rank->seen_ms < core->options.suspect_ms / 2)
            continue;
        rank->probed = true;
        probe(core, rank);
    }
    if (group->state == LAC__GROUP_PROVISIONING || group->state == LAC__GROUP_FORMING)
        lac__forming_tick(core, group);
    else if (!lac__group_whole(group) &&
             core->now_ms - group->state_ms >= core->options.suspect_ms &&
             !lac__verdict_frozen(core))
        lac__group_step(core, group, LAC__GROUP_EXPIRED, "disconnected and did not come back");
    if (lac__group_living(group) && lac__group_whole(group))
        lac__verdict_judge(core, group);
}

void lac__registry_tick(lac_core *core)
{
    lac__verdict_tick(core);
    for (lac__group *g = core->groups_head, *next; g; g = next) {
        next = g->next;
        tick_group(core, g);
    }
}
