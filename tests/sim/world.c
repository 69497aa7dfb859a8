/* Simulated time, the order of events, connections that delay and lose, and the run as a whole. */
#include "sim.h"

#include <stdarg.h>

sim_totals totals;

/* ---- the right answers ---- */

static uint64_t mix(uint64_t x)
{
    x ^= x >> 31;
    x *= 0x9e3779b97f4a7c15u;
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9u;
    return x ^ x >> 32;
}

uint32_t sim_token(uint64_t number, uint32_t pos)
{
    return (uint32_t)(mix(number * 1000003 + pos) % 50000);
}

char sim_letter(uint64_t number, uint32_t pos)
{
    return (char)('a' + mix(number * 7919 + pos) % 26);
}

uint32_t sim_length(uint64_t number, uint32_t max_tokens)
{
    uint32_t own = 1 + (uint32_t)(mix(number ^ 0x5555) % (SIM_TOKENS_MAX - 1));
    return max_tokens && max_tokens < own ? max_tokens : own;
}

/* ---- chance ---- */

bool sim_chance(sim *s, double p)
{
    return lac_rng_unit(&s->rng) < p;
}

uint64_t sim_between(sim *s, uint64_t low, uint64_t high)
{
    return low + lac_rng_below(&s->rng, high - low + 1);
}

void sim_trace(const sim *s, const char *format, ...)
{
    if (!s->verbose)
        return;
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%9.3f ", (double)s->now / 1000);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

/* ---- the heap of what is to come ---- */

static bool before(const sim_event *a, const sim_event *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

void sim_push(sim *s, uint64_t delay, sim_event event)
{
    if (s->heap_count == s->heap_size) {
        s->heap_size = s->heap_size ? s->heap_size * 2 : 256;
        s->heap = lac_realloc(s->heap, s->heap_size, sizeof *s->heap);
    }
    event.at = s->now + delay;
    event.order = ++s->order;
    size_t i = s->heap_count++;
    for (; i && before(&event, &s->heap[(i - 1) / 2]); i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = event;
}

static sim_event pop(sim *s)
{
    sim_event first = s->heap[0], last = s->heap[--s->heap_count];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= s->heap_count)
            break;
        if (child + 1 < s->heap_count && before(&s->heap[child + 1], &s->heap[child]))
            child++;
        if (!before(&s->heap[child], &last))
            break;
        s->heap[i] = s->heap[child];
        i = child;
    }
    s->heap[i] = last;
    return first;
}

/* ---- connections ---- */

uint64_t sim_open(sim *s, int worker, int rank)
{
    LAC_ASSERT(s->connections_count < SIM_CONNECTIONS_MAX);
    s->connections[s->connections_count] = (sim_connection){.worker = worker, .rank = rank, .open = true};
    return ++s->connections_count;
}

void sim_close(sim *s, uint64_t peer, bool told)
{
    sim_connection *c = &s->connections[peer - 1];
    if (!told) {
        c->swallow = true;
        return;
    }
    c->open = false;
    if (sim_chance(s, 0.7))
        sim_push(s, sim_between(s, 0, 20),
                 (sim_event){.kind = SIM_CORE_LOST, .plane = LAC_PLANE_WORKER, .peer = peer});
}

/* Packets of one direction of one connection stay in order. */
static uint64_t in_order(sim *s, uint64_t *last, uint64_t delay)
{
    uint64_t at = s->now + delay;
    if (at < *last)
        at = *last;
    *last = at;
    return at - s->now;
}

void sim_send_to_core(sim *s, lac_plane plane, uint64_t peer, sim_packet *packet)
{
    uint64_t delay = sim_chance(s, 0.05) ? sim_between(s, 0, 300) : sim_between(s, 0, 5);
    if (plane == LAC_PLANE_WORKER) {
        sim_connection *c = &s->connections[peer - 1];
        if (!c->open || c->swallow) {
            free(packet);
            return;
        }
        delay = in_order(s, &c->last_in, delay);
    } else {
        delay = 0; /* a client's own order matters to it; its delay would show nothing new */
    }
    sim_push(s, delay,
             (sim_event){.kind = SIM_TO_CORE, .plane = plane, .peer = peer, .packet = packet});
}

/* ---- the core's side ---- */

static uint64_t number_of(const lac_prompt *prompt)
{
    LAC_ASSERT(prompt->kind == LAC_PROMPT_TEXT);
    char text[32] = {0};
    size_t length = prompt->text.length < sizeof text - 1 ? prompt->text.length : sizeof text - 1;
    memcpy(text, prompt->text.data, length);
    return strtoull(text, NULL, 10);
}

/* Rules may change while a request waits, so the more generous of both ends counts. */
static lac_tier deepest(const sim *s, const sim_stream *t)
{
    const char *name = sim_tenant(t->client);
    const lac_tenant *rules = name ? &s->rules[name[1] - '1'] : NULL;
    return rules && (rules->brownout || t->flex) ? LAC_TIER_ECONOMY : LAC_TIER_STANDARD;
}

/* A class never serves a type or a tier it may not, runs where it is, and is kept over moves or
 * given up for good. */
static void check_class(sim *s, sim_stream *t, const sim_worker *w, const lac_dispatch *d)
{
    lac_input_type type = t->structured ? LAC_INPUT_STRUCTURED : LAC_INPUT_UNSTRUCTURED;
    LAC_ASSERT(d->input_type == type);
    uint8_t class = d->has_class ? d->class_digest.bytes[0] : 0;
    if (class) {
        LAC_ASSERT(class <= SIM_CLASSES && (w->classes >> (class - 1) & 1));
        lac_tier tier = sim_class(class - 1).serves[type].tier;
        LAC_ASSERT(tier != LAC_TIER_NONE && tier <= deepest(s, t));
        LAC_ASSERT(!t->in_full);
        LAC_ASSERT(!t->dispatched || class == t->class);
    }
    LAC_ASSERT(!d->shadow || class);
    totals.as_class += class != 0;
    totals.kept += t->dispatched && class;
    totals.fell += t->dispatched && t->class && !class;
    t->class = t->dispatched ? t->class : class;
    t->dispatched = true;
    t->in_full = !class;
}

/* A worker gets the fields it acts on; what a replay brings is checked here, where it still lives.
 */
static void copy_dispatch(sim *s, const sim_worker *w, sim_packet *packet, const lac_dispatch *d)
{
    uint64_t number = number_of(&d->prompt);
    LAC_ASSERT(d->sampling.has_seed);
    LAC_ASSERT(d->accepted_count <= SIM_TOKENS_MAX);
    /* What its client has, a group need not make again. */
    uint64_t stream = number - s->seed * SIM_STREAMS_MAX;
    LAC_ASSERT(stream >= 1 && stream <= s->streams_count);
    LAC_ASSERT(d->accepted_count >= s->streams[stream - 1].next_pos);
    check_class(s, &s->streams[stream - 1], w, d);
    for (uint32_t i = 0; i < d->accepted_count; i++)
        LAC_ASSERT(d->accepted[i] == sim_token(number, i));
    packet->msg.body.dispatch = (lac_dispatch){.request = d->request,
                                               .attempt = d->attempt,
                                               .dispatch_seq = d->dispatch_seq,
                                               .accepted_count = d->accepted_count,
                                               .sampling = d->sampling,
                                               .has_class = d->has_class,
                                               .class_digest = d->class_digest,
                                               .input_type = d->input_type,
                                               .shadow = d->shadow};
    packet->msg.body.dispatch.sampling.seed = number;
}

static lac_status to_worker(sim *s, const lac_action *action)
{
    LAC_ASSERT(action->peer >= 1 && action->peer <= s->connections_count);
    sim_connection *c = &s->connections[action->peer - 1];
    if (!c->open)
        return LAC_EPEER;
    if (!s->calm && sim_chance(s, 0.01 * s->fault_rate))
        return LAC_BUSY;
    if (c->swallow)
        return LAC_OK;
    sim_packet *packet = lac_alloc(1, sizeof *packet);
    packet->msg.envelope = action->msg->envelope;
    if (action->msg->envelope.type == LAC_MSG_DISPATCH)
        copy_dispatch(s, &s->workers[c->worker], packet, &action->msg->body.dispatch);
    else
        packet->msg.body = action->msg->body;
    sim_push(s, in_order(s, &c->last_out, sim_between(s, 0, 5)),
             (sim_event){.kind = SIM_TO_WORKER, .peer = action->peer, .packet = packet});
    return LAC_OK;
}

static lac_status sink(void *arg, const lac_action *action)
{
    sim *s = arg;
    lac_status status =
        action->plane == LAC_PLANE_WORKER ? to_worker(s, action) : sim_client_take(s, action);
    if (s->recorder)
        lac_recorder_sent(s->recorder, action, status);
    return status;
}

static void note(void *arg, lac_log_level level, const char *format, const char *text)
{
    (void)format;
    (void)level;
    sim_trace(arg, "core: %s", text);
}

void sim_core_step(sim *s, lac_event event)
{
    lac_prompt_facts facts;
    if (s->recorder) {
        if (event.kind == LAC_EVENT_MESSAGE && event.msg->envelope.type == LAC_MSG_SUBMIT) {
            lac_core_prompt_facts(s->core, &event.msg->body.submit, &facts);
            event.facts = &facts;
        }
        lac_recorder_begin(s->recorder, s->now, &event);
    }
    lac_core_step(s->core, s->now, &event);
    if (s->recorder)
        lac_recorder_end(s->recorder);
    if (s->events % 16 == 0)
        lac_core_audit(s->core);
}

/* "t1" allows brownouts, "t2" has quotas that it meets; the rest has no rules of its own. */
static void set_tenants(sim *s)
{
    for (int i = 0; i < 2; i++) {
        lac_tenant *t = &s->rules[i];
        *t = lac_tenant_default(i ? "t2" : "t1");
        t->weight = (uint32_t)sim_between(s, 1, 9);
        t->has_tier_max = true;
        t->tier_max = LAC_TIER_ECONOMY;
        t->brownout = i == 0;
        t->priority_max = (int32_t)sim_between(s, 0, 4) - 2;
    }
    s->rules[1].requests_minute = sim_between(s, 0, 1) * sim_between(s, 5, 100);
    s->rules[1].tokens_minute = sim_between(s, 0, 1) * sim_between(s, 100, 5000);
    s->rules[1].concurrency = (uint32_t)(sim_between(s, 0, 1) * sim_between(s, 1, 6));
    lac_error err;
    if (s->recorder)
        lac_recorder_begin_tenants(s->recorder, s->now, s->rules, 2);
    lac_status status = lac_core_set_tenants(s->core, s->now, s->rules, 2, &err);
    LAC_ASSERT(status == LAC_OK);
    if (s->recorder)
        lac_recorder_end(s->recorder);
}

void sim_drain(sim *s, const char *group, uint32_t deadline_ms)
{
    if (s->recorder)
        lac_recorder_begin_drain(s->recorder, s->now, group, deadline_ms);
    lac_core_drain_group(s->core, s->now, group, deadline_ms);
    if (s->recorder)
        lac_recorder_end(s->recorder);
}

/* ---- the run ---- */

static void deliver_to_worker(sim *s, sim_event *e)
{
    const sim_connection *c = &s->connections[e->peer - 1];
    sim_worker *w = &s->workers[c->worker];
    if (c->rank) {
        if (w->up && w->rank[c->rank].peer == e->peer && c->open)
            sim_rank_packet(s, c->worker, (uint32_t)c->rank, &e->packet->msg);
        return;
    }
    if (w->up && w->peer == e->peer && c->open) {
        if (w->frozen) { /* it reads when it goes on */
            LAC_ASSERT(w->mail_count < SIM_MAIL_MAX);
            w->mail[w->mail_count++] = e->packet;
            e->packet = NULL;
            return;
        }
        sim_worker_packet(s, c->worker, &e->packet->msg);
    }
}

static bool current(const sim *s, const sim_event *e)
{
    return s->workers[e->actor].up && s->workers[e->actor].life == e->life;
}

static void act(sim *s, sim_event *e)
{
    switch (e->kind) {
    case SIM_TO_CORE:
        sim_core_step(s, (lac_event){.kind = LAC_EVENT_MESSAGE,
                                     .plane = e->plane,
                                     .peer = e->peer,
                                     .msg = &e->packet->msg});
        break;
    case SIM_TO_WORKER: deliver_to_worker(s, e); break;
    case SIM_CORE_LOST:
        sim_core_step(s, (lac_event){.kind = LAC_EVENT_LOST, .plane = e->plane, .peer = e->peer});
        break;
    case SIM_TICK:
        sim_core_step(s, (lac_event){.kind = LAC_EVENT_TICK, .wall_s = 1700000000});
        if (sim_chance(s, 0.002))
            set_tenants(s);
        sim_push(s, 100, (sim_event){.kind = SIM_TICK});
        break;
    case SIM_WORKER_STEP:
        if (current(s, e))
            sim_worker_step(s, e->actor);
        break;
    case SIM_WORKER_BEAT:
        if (current(s, e))
            sim_worker_beat(s, e->actor);
        break;
    case SIM_WORKER_LOADED:
        if (current(s, e))
            sim_worker_loaded(s, e->actor, (uint32_t)e->peer);
        break;
    case SIM_RANK_UP:
        if (current(s, e))
            sim_rank_up(s, e->actor, (uint32_t)e->peer);
        break;
    case SIM_WORKER_FATE: sim_worker_fate(s, e->actor); break;
    case SIM_WORKER_UP: sim_worker_up(s, e->actor); break;
    case SIM_CLIENT_ACT: sim_client_act(s, e->actor); break;
    }
    free(e->packet);
}

static void run_until(sim *s, uint64_t end)
{
    while (s->heap_count && s->heap[0].at <= end) {
        sim_event e = pop(s);
        s->now = e.at;
        s->events++;
        act(s, &e);
    }
    s->now = end;
}

static void begin(sim *s, uint64_t seed, bool verbose)
{
    s->seed = seed;
    s->verbose = verbose;
    s->now = 1000;
    lac_rng_seed(&s->rng, seed);
    s->fault_rate = sim_chance(s, 0.1) ? 0 : lac_rng_unit(&s->rng);
    s->metrics = lac_metrics_create(512);
    lac_core_options options = {
        .epoch = sim_between(s, 1, 1000),
        .seed = seed,
        .queue_max = (uint32_t)sim_between(s, 2, 64),
        .bytes_max = sim_chance(s, 0.05) ? 20000 : 0,
        .policy = sim_chance(s, 0.6) ? (sim_chance(s, 0.5) ? "round-robin" : "cost") : NULL,
        .tier_max = LAC_TIER_STANDARD,
        .shadow_share = 0.3,
        .brownout_ms = (uint32_t)sim_between(s, 0, 1) * 300,
        .note = note,
        .note_arg = s};
    s->core = lac_core_create(&options, s->metrics, sink, s);
    LAC_ASSERT(s->core);
    if (sim_record)
        s->recorder = lac_recorder_create(&options, "");
    set_tenants(s);
    s->workers_count = (int)sim_between(s, 1, SIM_WORKERS_MAX);
    s->clients_count = (int)sim_between(s, 1, SIM_CLIENTS_MAX);
    sim_push(s, 0, (sim_event){.kind = SIM_TICK});
    for (int i = 0; i < s->workers_count; i++) {
        s->workers[i].slots = (uint32_t)sim_between(s, 1, 8);
        s->workers[i].model = sim_chance(s, 0.1);
        s->workers[i].ranks = sim_chance(s, 0.6) ? 1 : (uint32_t)sim_between(s, 2, SIM_RANKS_MAX);
        sim_push(s, sim_between(s, 0, 3000), (sim_event){.kind = SIM_WORKER_UP, .actor = i});
        sim_push(s, sim_between(s, 0, 10000), (sim_event){.kind = SIM_WORKER_FATE, .actor = i});
    }
    for (int i = 0; i < s->clients_count; i++) {
        s->clients[i].peer = i ? ++s->peers_made : 0;
        sim_push(s, sim_between(s, 0, 2000), (sim_event){.kind = SIM_CLIENT_ACT, .actor = i});
    }
    s->faults_until = s->now + sim_between(s, 5000, 60000);
}

static double count(const sim *s, const char *name, const char *labels)
{
    return lac_metric_value(lac_metrics_series(s->metrics, LAC_METRIC_COUNTER, name, "", labels));
}

static void add_totals(const sim *s)
{
    totals.events += s->events;
    totals.streams += s->streams_count;
    /* No client here is full for so long that it may be forgotten without a word. */
    LAC_ASSERT(count(s, "lacuna_streams_given_up_total", "") == 0);
    totals.moves += count(s, "lacuna_retries_total", "");
    totals.duplicates += count(s, "lacuna_duplicates_dropped_total", "");
    totals.stale += count(s, "lacuna_stale_dropped_total", "");
    totals.fenced += count(s, "lacuna_fenced_frames_total", "");
    totals.reregisters += count(s, "lacuna_reregisters_total", "");
    totals.hung += count(s, "lacuna_group_verdicts_total", "event=\"hung\"");
    totals.expired += count(s, "lacuna_group_verdicts_total", "event=\"expired\"");
    totals.drained += count(s, "lacuna_group_verdicts_total", "event=\"drained\"");
    totals.freezes += count(s, "lacuna_verdict_freezes_total", "");
    totals.forgiven += count(s, "lacuna_crash_doubts_forgiven_total", "");
    totals.sheds += count(s, "lacuna_predicted_sheds_total", "");
    totals.quotas += count(s, "lacuna_quota_refusals_total", "quota=\"requests\"") +
                     count(s, "lacuna_quota_refusals_total", "quota=\"tokens\"") +
                     count(s, "lacuna_quota_refusals_total", "quota=\"concurrency\"");
    totals.browned += count(s, "lacuna_brownout_requests_total", "");
    totals.joined += count(s, "lacuna_group_verdicts_total", "event=\"joined\"");
    totals.broken += count(s, "lacuna_group_verdicts_total", "event=\"fault\"");
    totals.lost += count(s, "lacuna_requests_total", "outcome=\"lost\"");
}

void sim_run(uint64_t seed, bool verbose)
{
    sim *s = lac_alloc(1, sizeof *s);
    begin(s, seed, verbose);
    run_until(s, s->faults_until);
    sim_trace(s, "calm");
    s->calm = true;
    for (int i = 0; i < s->workers_count; i++)
        sim_worker_heal(s, i);
    sim_client_heal(s);
    run_until(s, s->now + SIM_CALM_MS);
    lac_core_audit(s->core);
    /* Whatever happened, it is over: nobody waits and nothing is kept. */
    LAC_ASSERT(lac_core_live(s->core) == 0);
    LAC_ASSERT(lac_core_ready(s->core));
    sim_client_check_ended(s);
    add_totals(s);
    lac_error err;
    if (s->recorder && lac_recorder_dump(s->recorder, sim_record, &err) != LAC_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    lac_recorder_destroy(&s->recorder);
    lac_core_destroy(&s->core);
    lac_metrics_destroy(&s->metrics);
    while (s->heap_count) {
        sim_event e = pop(s);
        free(e.packet);
    }
    for (int i = 0; i < s->workers_count; i++)
        sim_worker_drop_mail(&s->workers[i]);
    free(s->heap);
    free(s);
}
