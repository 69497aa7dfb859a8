/* The core as a whole: makes it, takes events apart, checks what must hold after each step. It owns
 * no rule of its own; the files named in state.h do. Loop thread; knows no clock, socket or disk.
 */
#include "state.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LAC__AUDIT_STEPS = 1024 };

void lac__copy_text(char *to, size_t size, const char *from)
{
    size_t length = strnlen(from, size - 1);
    memcpy(to, from, length);
    to[length] = 0;
}

void lac__note(const lac_core *core, lac_log_level level, const char *format, ...)
{
    if (!core->options.note)
        return;
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    core->options.note(core->options.note_arg, level, format, text);
}

lac_status lac__send(lac_core *core, lac_plane plane, uint64_t peer, uint64_t session,
                     uint16_t type, lac_msg *msg)
{
    msg->envelope = (lac_envelope){
        .major = LAC_PROTO_MAJOR,
        .minor = LAC_PROTO_MINOR,
        .type = type,
        .epoch = plane == LAC_PLANE_WORKER ? core->options.epoch : 0,
        .session = session,
    };
    lac_action action = {.plane = plane, .peer = peer, .msg = msg};
    return core->sink(core->sink_arg, &action);
}

static void fill_defaults(lac_core_options *options)
{
    if (!options->queue_max)
        options->queue_max = 256;
    if (!options->queue_tokens_max)
        options->queue_tokens_max = 1u << 20;
    if (!options->lease_ms)
        options->lease_ms = LAC_LEASE_MS;
    if (!options->suspect_ms)
        options->suspect_ms = LAC_SUSPECT_MS;
    if (!options->heartbeat_ms)
        options->heartbeat_ms = LAC_HEARTBEAT_MS;
    if (!options->bytes_max)
        options->bytes_max = (uint64_t)512 << 20;
}

lac_core *lac_core_create(const lac_core_options *options, lac_metrics *metrics, lac_core_sink sink,
                          void *sink_arg)
{
    LAC_ASSERT(options->epoch > 0);
    LAC_ASSERT(sink);
    const lac__policy *policy = lac__policy_find(options->policy);
    if (!policy)
        return NULL;
    lac_core *core = lac_alloc(1, sizeof *core);
    core->options = *options;
    fill_defaults(&core->options);
    core->metrics = metrics;
    core->sink = sink;
    core->sink_arg = sink_arg;
    core->policy = policy;
    lac_rng_seed(&core->rng, options->seed);
    core->output_mean = 128;
    core->hash_seed = lac__hash_mix(options->seed, options->epoch);
    core->slot_ms_mean = 5000;
    lac__meters_create(core);
    lac__path_meters(core);
    lac__fleet_create(core);
    return core;
}

void lac_core_destroy(lac_core **core)
{
    if (!*core)
        return;
    lac__records_free(*core);
    lac__tenants_free(*core);
    lac__registry_free(*core);
    lac__decisions_destroy(&(*core)->decisions);
    lac__fleet_free(*core);
    free(*core);
    *core = NULL;
}

static void worker_message(lac_core *core, uint64_t peer, const lac_msg *msg)
{
    if (msg->envelope.type == LAC_MSG_HELLO) {
        lac__registry_hello(core, peer, &msg->body.hello);
        return;
    }
    lac__rank *rank = lac__registry_rank(core, peer, &msg->envelope);
    if (!rank)
        return;
    /* One rank speaks for its group; of the others only that they live, or cannot go on. */
    bool any_rank = msg->envelope.type == LAC_MSG_HEARTBEAT || msg->envelope.type == LAC_MSG_FAULT;
    if (rank->rank > 0 && !any_rank) {
        lac_metric_add(core->meters.protocol_errors, 1);
        return;
    }
    switch (msg->envelope.type) {
    case LAC_MSG_HEARTBEAT: lac__registry_heartbeat(core, rank, &msg->body.heartbeat); break;
    case LAC_MSG_FAULT:
        lac__group_step(core, rank->group, LAC__GROUP_FAULT, msg->body.fault.reason);
        break;
    case LAC_MSG_STEP_OUTPUT: lac__output_step(core, rank, &msg->body.step_output); break;
    case LAC_MSG_SHADOW: lac__guards_shadow(core, rank->group, &msg->body.shadow); break;
    case LAC_MSG_DRAINED: lac__group_step(core, rank->group, LAC__GROUP_DRAINED, "drained"); break;
    default: lac_metric_add(core->meters.protocol_errors, 1); break;
    }
}

static void check_counts(const lac_core *core)
{
    LAC_ASSERT(core->queue.count + core->running_count + core->done.count ==
               HASH_COUNT(core->by_id));
    LAC_ASSERT(HASH_COUNT(core->by_id) <= LAC_REQUESTS_MAX);
    LAC_ASSERT(core->groups_count <= LAC_GROUPS_MAX);
    LAC_ASSERT(core->batch_queued <= core->queue.count);
    LAC_ASSERT(core->batch_running <= core->running_count);
    LAC_ASSERT(core->batch_tokens <= core->queue_tokens);
}

void lac_core_step(lac_core *core, uint64_t now_ms, const lac_event *event)
{
    LAC_ASSERT(now_ms >= core->now_ms);
    core->now_ms = now_ms;
    if (!core->started) {
        core->started = true;
        core->start_ms = now_ms;
    }
    core->steps++;
    lac_prompt_facts facts;
    core->facts = event->facts;
    if (event->kind == LAC_EVENT_MESSAGE && event->msg->envelope.type == LAC_MSG_SUBMIT &&
        event->plane != LAC_PLANE_WORKER && !core->facts) {
        lac_core_prompt_facts(core, &event->msg->body.submit, &facts);
        core->facts = &facts;
    }
    switch (event->kind) {
    case LAC_EVENT_MESSAGE:
        if (event->plane == LAC_PLANE_WORKER)
            worker_message(core, event->peer, event->msg);
        else
            lac__client_message(core, event->plane, event->peer, event->msg);
        break;
    case LAC_EVENT_LOST:
        if (event->plane == LAC_PLANE_WORKER)
            lac__registry_lost(core, event->peer);
        else
            lac__client_lost(core, event->plane, event->peer);
        break;
    case LAC_EVENT_FLEET: lac__fleet_report(core, event->fleet, event->fleet_count); break;
    case LAC_EVENT_TICK:
        if (event->wall_s)
            core->wall_s = event->wall_s;
        lac__registry_tick(core);
        lac__records_tick(core);
        lac__guards_tick(core);
        lac__brownout_tick(core);
        lac__fleet_tick(core);
        lac__sight_tick(core, event->lag_ms);
        core->pump = true;
        break;
    }
    core->facts = NULL;
    /* Sending may reveal that a peer is gone, which moves requests, which sends again. Each round
     * takes at least one group or client away, so this ends. */
    do {
        core->unsettled = false;
        lac__registry_settle(core);
        lac__records_settle(core);
        lac__queue_pump(core);
    } while (core->unsettled);
    if (event->kind == LAC_EVENT_TICK)
        lac__meters_tick(core);
    check_counts(core);
    if (core->steps % LAC__AUDIT_STEPS == 0)
        lac_core_audit(core);
}

void lac_core_drain(lac_core *core, uint64_t now_ms)
{
    LAC_ASSERT(now_ms >= core->now_ms);
    core->now_ms = now_ms;
    core->draining = true;
}

lac_status lac_core_drain_group(lac_core *core, uint64_t now_ms, const char *id,
                                uint32_t deadline_ms)
{
    LAC_ASSERT(now_ms >= core->now_ms);
    core->now_ms = now_ms;
    lac__group *group = lac__registry_find(core, id);
    if (!group || !lac__group_living(group))
        return LAC_ENOTFOUND;
    if (!deadline_ms)
        deadline_ms = LAC_DRAIN_MS;
    lac_msg msg = {.body.drain = {.deadline_ms = deadline_ms}};
    lac__group_send(core, group, LAC_MSG_DRAIN, &msg);
    group->drain_until_ms = now_ms + deadline_ms;
    lac__group_step(core, group, LAC__GROUP_DRAIN, "asked to");
    return LAC_OK;
}

size_t lac_core_live(const lac_core *core)
{
    return HASH_COUNT(core->by_id);
}

bool lac_core_ready(const lac_core *core)
{
    if (core->draining)
        return false;
    for (const lac__group *g = core->groups_head; g; g = g->next)
        if (g->state == LAC__GROUP_READY)
            return true;
    return false;
}

static lac_core_model listed(const lac__model *m, const char *name)
{
    return (lac_core_model){.name = name,
                            .root = m->name,
                            .architecture = m->architecture,
                            .context_max = m->context_max,
                            .created_s = m->created_s};
}

void lac_core_models(const lac_core *core, void (*each)(void *arg, const lac_core_model *model),
                     void *arg)
{
    for (size_t i = 0; i < core->models_count; i++) {
        lac_core_model model = listed(&core->models[i], core->models[i].name);
        if (core->models[i].ready)
            each(arg, &model);
    }
    for (size_t i = 0; i < core->names.aliases_count; i++) {
        const lac_alias *a = &core->names.aliases[i];
        const lac__model *m = lac__registry_model(core, a->model);
        if (!m || !m->ready || lac__registry_model(core, a->name))
            continue;
        lac_core_model model = listed(m, a->name);
        each(arg, &model);
    }
}

bool lac_core_policy_known(const char *name)
{
    return lac__policy_find(name) != NULL;
}

static uint64_t audit_list(const lac__list *list, lac__request_state state, const lac__group *group)
{
    uint64_t count = 0;
    for (const lac__request *r = list->head; r; r = r->next) {
        LAC_ASSERT(r->state == state);
        LAC_ASSERT(r->group == group);
        LAC_ASSERT(!r->next || r->next->prev == r);
        LAC_ASSERT(r->sent_count <= r->accepted_count);
        /* First come, first served within a priority; moved ones return to their place. */
        LAC_ASSERT(!r->next || lac__record_before(r, r->next));
        count++;
    }
    LAC_ASSERT(count == list->count);
    return count;
}

/* The account of a group's load is what was dispatched to it less what left it, and never more than
 * its window; at most one suspect runs there; a declared-dead start has no living record. */
static void audit_group(const lac_core *core, const lac__group *g)
{
    uint64_t prefill = 0, suspects = 0;
    for (const lac__request *r = g->running.head; r; r = r->next) {
        prefill += r->charged;
        suspects += lac__recovery_suspect(r);
        LAC_ASSERT(r->dispatch_seq >= 1 && r->dispatch_seq <= g->dispatch_seq);
        LAC_ASSERT(!r->charged || !r->accepted_count || r->attempt > 1);
    }
    LAC_ASSERT(prefill == g->prefill_tokens);
    LAC_ASSERT(suspects <= 1);
    LAC_ASSERT(g->running.count <= LAC_SLOTS_MAX + LAC_SLOTS_MAX / 4);
    for (size_t i = 0; lac__group_living(g) && i < core->fenced_count; i++)
        LAC_ASSERT(memcmp(core->fenced[i], g->incarnation, 16) != 0);
}

/* One live attempt at most, and only while it runs; positions within what was asked; blame within
 * its bounds. */
static void audit_request(const lac_core *core, const lac__request *r)
{
    LAC_ASSERT((r->state == LAC__REQUEST_RUNNING) == (r->group != NULL));
    LAC_ASSERT(r->state == LAC__REQUEST_RUNNING || !r->charged);
    LAC_ASSERT(r->state != LAC__REQUEST_RUNNING || r->attempt >= 1);
    LAC_ASSERT(r->moves <= r->attempt);
    LAC_ASSERT(r->crashes <= LAC_CRASHES_MAX && r->doubts_count <= LAC__DOUBTS_MAX);
    LAC_ASSERT(r->crash_pos <= r->accepted_count);
    /* A class is one of its model; without `decided` there is none. */
    LAC_ASSERT(!r->class || (r->decided && r->class->model == r->served));
    LAC_ASSERT(r->state != LAC__REQUEST_RUNNING || r->decided);
    LAC_ASSERT(!r->sampling.max_tokens || r->accepted_count <= r->sampling.max_tokens);
    LAC_ASSERT(r->id >> 40 == (core->options.epoch & 0xffffff));
}

void lac_core_audit(const lac_core *core)
{
    uint64_t running = 0, tokens = 0, bytes = 0;
    size_t groups = 0;
    for (const lac__group *g = core->groups_head; g; g = g->next, groups++) {
        running += audit_list(&g->running, LAC__REQUEST_RUNNING, g);
        if (!lac__group_living(g))
            LAC_ASSERT(g->running.count == 0);
        audit_group(core, g);
        for (uint32_t i = 0; i < g->ranks_count; i++)
            LAC_ASSERT(!g->ranks[i] || g->ranks[i]->group == g);
    }
    for (size_t i = 0; i < core->models_count; i++) {
        uint32_t ready = 0;
        for (const lac__group *g = core->groups_head; g; g = g->next)
            ready += g->state == LAC__GROUP_READY && g->model == &core->models[i];
        LAC_ASSERT(ready == core->models[i].ready);
    }
    LAC_ASSERT(groups == core->groups_count);
    LAC_ASSERT(running == core->running_count);
    audit_list(&core->queue, LAC__REQUEST_QUEUED, NULL);
    audit_list(&core->done, LAC__REQUEST_DONE, NULL);
    for (const lac__request *r = core->by_id; r; r = r->hh.next) {
        bytes += r->bytes;
        if (r->state == LAC__REQUEST_QUEUED)
            tokens += r->tokens_estimate;
        LAC_ASSERT(r->state != LAC__REQUEST_NEW);
        LAC_ASSERT((r->state == LAC__REQUEST_DONE) == (r->end != LAC__END_NONE));
        LAC_ASSERT(r->moves <= LAC_MOVES_MAX + 1);
        audit_request(core, r);
    }
    LAC_ASSERT(tokens == core->queue_tokens);
    LAC_ASSERT(bytes == core->bytes);
    lac__fleet_audit(core);
    lac__tenants_audit(core);
    LAC_ASSERT(core->poison.quarantine_count <= LAC_QUARANTINE_MAX);
    LAC_ASSERT(core->poison.suspicions_count <= LAC_QUARANTINE_MAX);
    check_counts(core);
}
