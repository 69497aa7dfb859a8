/* What people see: the answer to a status query. Reads everything, changes nothing. */
#include "state.h"

#include <string.h>

/* Full first; counters from the last report. */
static void fill_classes(const lac__group *g, lac_group_status *out, lac_class_status *classes)
{
    const lac_heartbeat none = {0}, *beat = g->ranks[0] ? &g->ranks[0]->beat : &none;
    for (uint32_t c = 0; c <= g->classes_count; c++) {
        const lac__class *class = c ? g->classes[c - 1] : NULL;
        classes[c] =
            (lac_class_status){.active_layers = class ? class->facts.active_layers : g->layers,
                               .skip_rate = class ? class->facts.skip_rate : 0,
                               .cost_skip_rate = class ? class->facts.cost_skip_rate : 0};
        lac__copy_text(classes[c].name, sizeof classes[c].name, class ? class->facts.name : "full");
        for (const lac__request *r = g->running.head; r; r = r->next)
            classes[c].running += r->class == class;
        for (uint32_t i = 0; i < beat->classes_count; i++)
            classes[c].tokens += beat->classes[i].index == c ? beat->classes[i].tokens : 0;
    }
    out->classes = classes;
    out->classes_count = g->classes_count + 1;
}

static void fill_group(const lac_core *core, const lac__group *g, lac_group_status *out,
                       lac_rank_status *ranks, lac_class_status *classes)
{
    lac__copy_text(out->id, sizeof out->id, g->id);
    lac__copy_text(out->state, sizeof out->state, lac__group_state_name(g->state));
    lac__copy_text(out->model, sizeof out->model, g->model->name);
    lac__copy_text(out->isa, sizeof out->isa, g->isa);
    out->layers = g->layers;
    out->pp = g->pp;
    out->tp = g->tp;
    out->slots = g->slots;
    out->running = (uint32_t)g->running.count;
    out->kv_pages = g->kv_pages;
    for (uint32_t i = 0; i < g->ranks_count; i++) {
        const lac__rank *rank = g->ranks[i];
        if (!rank)
            continue;
        ranks[out->ranks_count++] = (lac_rank_status){.rank = rank->rank,
                                                      .pid = rank->pid,
                                                      .active_layers = rank->beat.active_layers,
                                                      .rss_bytes = rank->beat.rss_bytes,
                                                      .layer_first = rank->layer_first,
                                                      .layer_end = rank->layer_end,
                                                      .erased_units = rank->erased_units,
                                                      .weight_bytes = rank->weight_bytes};
        lac__copy_text(ranks[out->ranks_count - 1].host, sizeof rank->host, rank->host);
        if (i)
            continue;
        out->queued = rank->beat.queued;
        out->kv_pages_used = rank->beat.kv_pages_used;
        out->itl_us = rank->beat.itl_us;
        out->output_tokens = rank->beat.output_tokens;
        out->heartbeat_age_ms = core->now_ms - rank->seen_ms;
    }
    if (!g->ranks[0])
        out->heartbeat_age_ms = core->now_ms - g->state_ms;
    out->ranks = out->ranks_count ? ranks : NULL;
    fill_classes(g, out, classes);
}

void lac_core_status(lac_core *core, void (*take)(void *arg, const lac_status_reply *status),
                     void *arg)
{
    size_t ranks_count = 0, classes_count = 0, filled = 0;
    for (const lac__group *g = core->groups_head; g; g = g->next) {
        ranks_count += g->ranks_count;
        classes_count += g->classes_count + 1;
    }
    lac_class_status *classes = lac_alloc(classes_count + 1, sizeof *classes);
    lac_class_status *next_class = classes;
    lac_group_status *groups = lac_alloc(core->groups_count + 1, sizeof *groups);
    lac_rank_status *ranks = lac_alloc(ranks_count + 1, sizeof *ranks), *next = ranks;
    for (const lac__group *g = core->groups_head; g; g = g->next) {
        fill_group(core, g, &groups[filled++], next, next_class);
        next += g->ranks_count;
        next_class += g->classes_count + 1;
    }
    lac_check checks[LAC_CHECKS_MAX];
    lac_decided decided[LAC_DECIDED_MAX];
    lac_status_reply reply = {.epoch = core->options.epoch,
                              .uptime_ms = core->now_ms - core->start_ms,
                              .queued = (uint32_t)core->queue.count,
                              .queued_tokens = core->queue_tokens,
                              .running = (uint32_t)core->running_count,
                              .streams = HASH_COUNT(core->by_id),
                              .requests_total = core->requests_total,
                              .tokens_total = core->tokens_total,
                              .groups_count = (uint32_t)core->groups_count,
                              .groups = groups,
                              .checks_count = lac__sight_checks(core, checks),
                              .checks = checks,
                              .decided_count = lac__sight_decided(core, decided),
                              .decided = decided};
    lac__copy_text(reply.version, sizeof reply.version, LAC_VERSION);
    if (core->options.http_address)
        lac__copy_text(reply.http, sizeof reply.http, core->options.http_address);
    take(arg, &reply);
    free(groups);
    free(ranks);
    free(classes);
}

typedef struct {
    lac_core *core;
    lac_plane plane;
    uint64_t peer, stream;
} asker;

/* One that does not get through is asked for again: nothing waits on it. */
static void reply_to(void *arg, const lac_status_reply *status)
{
    asker *a = arg;
    lac_msg msg = {.body.status_reply = *status};
    msg.body.status_reply.stream = a->stream;
    lac__send(a->core, a->plane, a->peer, 0, LAC_MSG_STATUS_REPLY, &msg);
}

void lac__status_reply(lac_core *core, lac_plane plane, uint64_t peer, uint64_t stream)
{
    asker a = {core, plane, peer, stream};
    lac_core_status(core, reply_to, &a);
}
