/* Simulated workers. They answer rightly; what goes wrong is when they answer, how often, and
 * whether they live to. */
#include "sim.h"

static sim_packet *packet_of(const sim_worker *w, uint16_t type)
{
    sim_packet *packet = lac_alloc(1, sizeof *packet);
    packet->msg.envelope = (lac_envelope){.type = type, .epoch = w->epoch, .session = w->session};
    return packet;
}

lac_class_facts sim_class(int index)
{
    static const struct {
        const char *name;
        lac_input_type type;
        lac_tier tier;
        float cost;
    } rows[SIM_CLASSES] = {{"tables", LAC_INPUT_STRUCTURED, LAC_TIER_STANDARD, 0.8f},
                           {"prose", LAC_INPUT_UNSTRUCTURED, LAC_TIER_GOLD, 0.9f},
                           {"cheap", LAC_INPUT_STRUCTURED, LAC_TIER_ECONOMY, 0.5f}};
    lac_class_facts f = {.digest = {{(uint8_t)(index + 1)}},
                         .mask = "A1",
                         .active_layers = 2,
                         .skip_rate = 0.25f,
                         .cost_skip_rate = 0.25f,
                         .cost = rows[index].cost};
    snprintf(f.name, sizeof f.name, "%s", rows[index].name);
    f.serves[rows[index].type] = (lac_class_serve){rows[index].tier, 0.01f, 0.02f};
    return f;
}

/* What one of several ranks adds to its Hello. */
static void fill_rank(const sim_worker *w, uint32_t rank, sim_packet *packet)
{
    lac_hello *h = &packet->msg.body.hello;
    const sim_rank *r = &w->rank[rank];
    h->rank = rank;
    h->pp = w->ranks;
    h->pid += 1000000 * rank;
    if (!r->named)
        memset(h->incarnation, 0, 16);
    else
        snprintf(packet->address, sizeof packet->address, "%u.%llu", rank,
                 (unsigned long long)w->life % 1000);
    h->address = (lac_span){packet->address, (uint32_t)strlen(packet->address)};
    h->formed = r->formed;
    h->config_digest = r->config;
    if (!r->formed)
        h->classes_count = 0;
}

static void say_hello_as(sim *s, int worker, uint32_t rank)
{
    sim_worker *w = &s->workers[worker];
    sim_packet *packet = packet_of(w, LAC_MSG_HELLO);
    lac_hello *h = &packet->msg.body.hello;
    *h = (lac_hello){.pp = 1,
                     .tp = 1,
                     .pid = w->life,
                     .layers = 2,
                     .vocab = 50000,
                     .context_max = 4096,
                     .slots = w->slots};
    snprintf(h->group, sizeof h->group, "g%d", worker);
    snprintf(h->model, sizeof h->model, "m%d", w->model);
    memcpy(h->incarnation, w->incarnation, 16);
    for (uint32_t i = 0; i < w->count && !rank; i++)
        packet->running[i] = (lac_running){w->sequences[i].request, w->sequences[i].attempt,
                                           w->sequences[i].next_pos};
    for (int i = 0; i < SIM_CLASSES && !rank; i++)
        if (w->classes >> i & 1)
            packet->classes[h->classes_count++] = sim_class(i);
    h->classes = packet->classes;
    h->running_count = rank ? 0 : w->count;
    h->running = packet->running;
    if (w->ranks > 1)
        fill_rank(w, rank, packet);
    *(rank ? &w->rank[rank].registered : &w->registered) = false;
    sim_send_to_core(s, LAC_PLANE_WORKER, rank ? w->rank[rank].peer : w->peer, packet);
}

static void say_hello(sim *s, int worker)
{
    say_hello_as(s, worker, 0);
}

static sim_event mine(const sim *s, int worker, sim_kind kind)
{
    return (sim_event){.kind = kind, .actor = worker, .life = s->workers[worker].life};
}

void sim_worker_start(sim *s, int worker)
{
    sim_worker *w = &s->workers[worker];
    sim_worker fresh = {
        .up = true, .life = w->life + 1, .slots = w->slots, .model = w->model, .ranks = w->ranks};
    *w = fresh;
    /* By a launcher, which draws the number, or by hand. */
    bool launched = w->ranks > 1 && sim_chance(s, 0.5);
    for (int i = 0; i < 16 && launched; i++)
        w->incarnation[i] = (uint8_t)sim_between(s, 1, 255);
    for (uint32_t r = 0; r < w->ranks; r++)
        w->rank[r].named = launched;
    w->classes = (uint32_t)sim_between(s, 0, 7);
    w->peer = sim_open(s, worker, 0);
    for (uint32_t r = 1; r < w->ranks; r++)
        w->rank[r].peer = sim_open(s, worker, (int)r);
    sim_trace(s, "worker %d starts, life %llu peer %llu", worker, (unsigned long long)w->life,
              (unsigned long long)w->peer);
    for (uint32_t r = 0; r < w->ranks; r++)
        say_hello_as(s, worker, r);
    sim_push(s, sim_between(s, 1, 500), mine(s, worker, SIM_WORKER_BEAT));
    sim_push(s, sim_between(s, 1, 30), mine(s, worker, SIM_WORKER_STEP));
}

static void die(sim *s, int worker, bool told)
{
    sim_worker *w = &s->workers[worker];
    sim_trace(s, "worker %d dies", worker);
    w->up = false;
    sim_worker_drop_mail(w);
    sim_close(s, w->peer, told);
    for (uint32_t r = 1; r < w->ranks; r++)
        sim_close(s, w->rank[r].peer, told);
    sim_push(s, sim_between(s, 10, 5000), (sim_event){.kind = SIM_WORKER_UP, .actor = worker});
}

/* ---- what it is told ---- */

static sim_sequence *find(sim_worker *w, uint64_t request, uint32_t attempt)
{
    for (uint32_t i = 0; i < w->count; i++)
        if (w->sequences[i].request == request && w->sequences[i].attempt == attempt)
            return &w->sequences[i];
    return NULL;
}

static void drop(sim_worker *w, sim_sequence *sequence)
{
    *sequence = w->sequences[--w->count];
}

static void refuse_busy(sim *s, sim_worker *w, const lac_dispatch *d)
{
    sim_packet *packet = packet_of(w, LAC_MSG_STEP_OUTPUT);
    packet->items[0] = (lac_step_item){.request = d->request,
                                       .attempt = d->attempt,
                                       .chunk.first_pos = d->accepted_count,
                                       .finish = LAC_FINISH_ERROR,
                                       .error = LAC_BUSY};
    packet->msg.body.step_output = (lac_step_output){.items_count = 1, .items = packet->items};
    sim_send_to_core(s, LAC_PLANE_WORKER, w->peer, packet);
}

static void take_dispatch(sim *s, sim_worker *w, const lac_dispatch *d)
{
    LAC_ASSERT(d->dispatch_seq > w->dispatch_seq_seen);
    LAC_ASSERT(!w->drained);
    for (uint32_t r = 0; r < w->ranks && w->ranks > 1; r++)
        LAC_ASSERT(w->rank[r].formed); /* nothing before the second barrier */
    w->dispatch_seq_seen = d->dispatch_seq;
    bool full = w->count >= SIM_SEQUENCES_MAX;
    if (full || (!s->calm && sim_chance(s, 0.02 * s->fault_rate))) {
        refuse_busy(s, w, d);
        return;
    }
    w->sequences[w->count++] = (sim_sequence){.request = d->request,
                                              .number = d->sampling.seed,
                                              .attempt = d->attempt,
                                              .next_pos = d->accepted_count,
                                              .max_tokens = d->sampling.max_tokens,
                                              .class = d->has_class ? d->class_digest.bytes[0] : 0,
                                              .type = d->input_type,
                                              .shadow = d->shadow};
}

/* ---- one of several ranks ---- */

/* It knows the incarnation: the others can reach it. */
static void get_name(sim *s, int worker, uint32_t rank)
{
    sim_worker *w = &s->workers[worker];
    bool news = w->ranks > 1 && !w->rank[rank].named;
    w->rank[rank].named = true;
    if (news)
        say_hello_as(s, worker, rank);
}

static void take_form(sim *s, int worker, uint32_t rank, const lac_form *form)
{
    sim_worker *w = &s->workers[worker];
    sim_rank *r = &w->rank[rank];
    LAC_ASSERT(form->addresses_count == w->ranks && r->named);
    LAC_ASSERT(!memcmp(form->incarnation, w->incarnation, 16));
    if (r->told) /* on another connection: the same again */
        LAC_ASSERT(!memcmp(&r->config, &form->config_digest, sizeof r->config));
    r->config = form->config_digest;
    if (r->told)
        return;
    r->told = true;
    sim_event loaded = mine(s, worker, SIM_WORKER_LOADED);
    loaded.peer = rank;
    sim_push(s, sim_between(s, 5, 3000), loaded);
}

void sim_worker_loaded(sim *s, int worker, uint32_t rank)
{
    sim_worker *w = &s->workers[worker];
    if (!s->calm && sim_chance(s, 0.05 * s->fault_rate)) { /* it cannot: too little memory */
        sim_packet *packet = packet_of(w, LAC_MSG_FAULT);
        if (rank)
            packet->msg.envelope.session = w->rank[rank].session;
        packet->msg.body.fault = (lac_fault){.status = LAC_ENOMEM};
        sim_send_to_core(s, LAC_PLANE_WORKER, rank ? w->rank[rank].peer : w->peer, packet);
        die(s, worker, true);
        return;
    }
    w->rank[rank].formed = true;
    totals.formed++;
    say_hello_as(s, worker, rank);
}

void sim_rank_packet(sim *s, int worker, uint32_t rank, const lac_msg *msg)
{
    sim_worker *w = &s->workers[worker];
    sim_rank *r = &w->rank[rank];
    bool end = msg->envelope.type == LAC_MSG_DIE || msg->envelope.type == LAC_MSG_HELLO_REJECT;
    if (r->frozen) { /* of what it reads when it goes on only its end matters */
        r->sentenced |= end;
        return;
    }
    switch (msg->envelope.type) {
    case LAC_MSG_HELLO_ACK:
        r->session = msg->body.hello_ack.session;
        r->epoch = msg->body.hello_ack.epoch;
        r->registered = true;
        memcpy(w->incarnation, msg->body.hello_ack.incarnation, 16);
        get_name(s, worker, rank);
        break;
    case LAC_MSG_FORM: take_form(s, worker, rank, &msg->body.form); break;
    case LAC_MSG_REREGISTER: say_hello_as(s, worker, rank); break;
    case LAC_MSG_HELLO_REJECT:
    case LAC_MSG_DIE: die(s, worker, true); break;
    default: LAC_ASSERT(!"a rank that does not lead got what only a leader gets");
    }
}

void sim_rank_up(sim *s, int worker, uint32_t rank)
{
    sim_rank *r = &s->workers[worker].rank[rank];
    r->frozen = false;
    if (r->sentenced)
        die(s, worker, true);
}

static bool followers_go(const sim_worker *w)
{
    for (uint32_t r = 1; r < w->ranks; r++)
        if (w->rank[r].frozen)
            return false;
    return w->ranks == 1 || w->rank[0].formed;
}

static void followers_beat(sim *s, int worker)
{
    sim_worker *w = &s->workers[worker];
    for (uint32_t i = 1; i < w->ranks && w->up; i++) {
        sim_rank *r = &w->rank[i];
        if (r->frozen)
            continue;
        if (!r->registered) {
            if (sim_chance(s, 0.3))
                say_hello_as(s, worker, i);
            continue;
        }
        sim_packet *packet = packet_of(w, LAC_MSG_HEARTBEAT);
        packet->msg.envelope.session = r->session;
        packet->msg.envelope.epoch = r->epoch;
        packet->msg.body.heartbeat = (lac_heartbeat){.report_seq = ++r->report_seq};
        sim_send_to_core(s, LAC_PLANE_WORKER, r->peer, packet);
    }
}

/* Something happens to a rank that does not lead. */
static void rank_fate(sim *s, int worker)
{
    sim_worker *w = &s->workers[worker];
    uint32_t rank = (uint32_t)sim_between(s, 1, w->ranks - 1);
    sim_rank *r = &w->rank[rank];
    if (r->frozen)
        return;
    switch (sim_between(s, 0, 2)) {
    case 0: { /* it dies, which the leader sees as well */
        sim_trace(s, "worker %d: rank %u dies", worker, rank);
        totals.rank_lost++;
        sim_close(s, r->peer, sim_chance(s, 0.8));
        sim_packet *packet = packet_of(w, LAC_MSG_FAULT);
        packet->msg.body.fault = (lac_fault){.status = LAC_EPEER};
        sim_send_to_core(s, LAC_PLANE_WORKER, w->peer, packet);
        die(s, worker, true);
        break;
    }
    case 1: {
        sim_trace(s, "worker %d: rank %u freezes", worker, rank);
        sim_event up = mine(s, worker, SIM_RANK_UP);
        up.peer = rank;
        r->frozen = true;
        sim_push(s, sim_between(s, 200, 12000), up);
        break;
    }
    case 2:
        sim_trace(s, "worker %d: rank %u reconnects", worker, rank);
        sim_close(s, r->peer, true);
        r->peer = sim_open(s, worker, (int)rank);
        break;
    }
}

void sim_worker_packet(sim *s, int worker, const lac_msg *msg)
{
    sim_worker *w = &s->workers[worker];
    sim_sequence *sequence;
    switch (msg->envelope.type) {
    case LAC_MSG_HELLO_ACK:
        w->session = msg->body.hello_ack.session;
        w->epoch = msg->body.hello_ack.epoch;
        memcpy(w->incarnation, msg->body.hello_ack.incarnation, 16);
        w->registered = true;
        get_name(s, worker, 0);
        break;
    case LAC_MSG_FORM: take_form(s, worker, 0, &msg->body.form); break;
    case LAC_MSG_HELLO_REJECT:
        /* Its name is taken by a process that is not yet known to be gone. */
        die(s, worker, true);
        break;
    case LAC_MSG_REREGISTER:
        if (w->registered || sim_chance(s, 0.3)) /* more of the same need no second Hello */
            say_hello(s, worker);
        break;
    case LAC_MSG_DIE: die(s, worker, true); break;
    case LAC_MSG_DISPATCH: take_dispatch(s, w, &msg->body.dispatch); break;
    case LAC_MSG_CANCEL:
        sequence = find(w, msg->body.cancel.request, msg->body.cancel.attempt);
        if (sequence)
            drop(w, sequence);
        break;
    case LAC_MSG_DRAIN: w->draining = true; break;
    default: LAC_ASSERT(!"a worker got what no worker gets");
    }
}

/* ---- what it does ---- */

/* One sequence's part of a step. Sometimes it says what it said before, or skips. */
static void fill_item(sim *s, sim_packet *packet, uint32_t i, sim_sequence *q)
{
    lac_step_item *item = &packet->items[i];
    uint32_t length = sim_length(q->number, q->max_tokens), from = q->next_pos;
    uint32_t count = (uint32_t)sim_between(s, 1, 3);
    if (!s->calm && sim_chance(s, 0.01 * s->fault_rate) && from)
        from -= (uint32_t)sim_between(s, 1, from < 3 ? from : 3);
    else if (!s->calm && sim_chance(s, 0.003 * s->fault_rate))
        from += 1;
    if (from < q->next_pos && from + count > q->next_pos)
        count = q->next_pos - from; /* a repeated chunk, whole */
    if (from > length)
        from = length;
    if (from + count > length)
        count = length - from;
    for (uint32_t k = 0; k < count; k++) {
        packet->tokens[i][k] = sim_token(q->number, from + k);
        packet->text[i][k] = sim_letter(q->number, from + k);
    }
    *item = (lac_step_item){.request = q->request,
                            .attempt = q->attempt,
                            .chunk = {.first_pos = from,
                                      .tokens_count = count,
                                      .tokens = packet->tokens[i],
                                      .text = {packet->text[i], count}}};
    if (from + count > q->next_pos)
        q->next_pos = from + count;
    if (q->next_pos >= length) {
        item->finish =
            q->max_tokens && length == q->max_tokens ? LAC_FINISH_LENGTH : LAC_FINISH_STOP;
        item->usage = (lac_usage){.prompt_tokens = 3, .completion_tokens = length};
        lac_run_account *account = &packet->accounts[i];
        bool failed = q->class && sim_chance(s, 0.02); /* the class did: it ended in full */
        snprintf(account->class_name, sizeof account->class_name, "%s",
                 q->class && !failed ? sim_class(q->class - 1).name : "full");
        account->layers = account->active_layers = 2;
        item->account = account;
    }
}

/* Scores come when they come, mostly good ones. */
static void send_shadow(sim *s, sim_worker *w, const sim_sequence *q)
{
    sim_packet *packet = packet_of(w, LAC_MSG_SHADOW);
    packet->msg.body.shadow = (lac_shadow){.class_digest = {{q->class}},
                                           .input_type = q->type,
                                           .tokens = 5,
                                           .kl_mean = sim_chance(s, 0.1) ? 0.5 : 0.01,
                                           .top1_agree = 1,
                                           .top1_p = 0.5f,
                                           .top1_p_full = 0.5f,
                                           .canary = sim_chance(s, 0.05)};
    if (sim_chance(s, 0.1)) /* one in a while that was lost */
        packet->msg.body.shadow.top1_p = 0.05f;
    totals.shadows++;
    sim_send_to_core(s, LAC_PLANE_WORKER, w->peer, packet);
}

static void finish_drain(sim *s, int worker)
{
    sim_worker *w = &s->workers[worker];
    w->drained = true;
    sim_send_to_core(s, LAC_PLANE_WORKER, w->peer, packet_of(w, LAC_MSG_DRAINED));
    w->up = false;
    for (uint32_t r = 1; r < w->ranks; r++) /* they are let go */
        sim_close(s, w->rank[r].peer, true);
    sim_trace(s, "worker %d drained", worker);
    sim_push(s, sim_between(s, 500, 4000), (sim_event){.kind = SIM_WORKER_UP, .actor = worker});
}

void sim_worker_step(sim *s, int worker)
{
    sim_worker *w = &s->workers[worker];
    sim_push(s, sim_between(s, 5, 60), mine(s, worker, SIM_WORKER_STEP));
    if (w->frozen || w->hung || !w->registered || !followers_go(w))
        return;
    if (w->draining && !w->count) {
        finish_drain(s, worker);
        return;
    }
    if (!w->count)
        return;
    sim_packet *packet = packet_of(w, LAC_MSG_STEP_OUTPUT);
    uint32_t n = w->count < w->slots ? w->count : w->slots;
    for (uint32_t i = 0; i < n; i++)
        fill_item(s, packet, i, &w->sequences[i]);
    for (uint32_t i = n; i-- > 0;)
        if (packet->items[i].finish != LAC_FINISH_NONE) {
            if (w->sequences[i].shadow)
                send_shadow(s, w, &w->sequences[i]);
            drop(w, &w->sequences[i]);
        }
    packet->msg.body.step_output = (lac_step_output){.items_count = n, .items = packet->items};
    w->steps++;
    sim_send_to_core(s, LAC_PLANE_WORKER, w->peer, packet);
}

void sim_worker_beat(sim *s, int worker)
{
    sim_worker *w = &s->workers[worker];
    sim_push(s, 500, mine(s, worker, SIM_WORKER_BEAT));
    followers_beat(s, worker);
    if (w->frozen || !w->up)
        return;
    if (!w->registered) {
        if (sim_chance(s, 0.3)) /* the answer may have been lost */
            say_hello(s, worker);
        return;
    }
    sim_packet *packet = packet_of(w, LAC_MSG_HEARTBEAT);
    uint32_t running = w->count < w->slots ? w->count : w->slots;
    packet->msg.body.heartbeat = (lac_heartbeat){.report_seq = ++w->report_seq,
                                                 .step_counter = w->steps,
                                                 .busy = w->count > 0,
                                                 .running = running,
                                                 .queued = w->count - running,
                                                 .dispatch_seq_seen = w->dispatch_seq_seen,
                                                 .draining = w->draining};
    sim_send_to_core(s, LAC_PLANE_WORKER, w->peer, packet);
}

/* ---- what happens to it ---- */

void sim_worker_drop_mail(sim_worker *w)
{
    while (w->mail_count)
        free(w->mail[--w->mail_count]);
}

/* Goes on and reads what came meanwhile, which may be its death sentence. */
static void thaw(sim *s, int worker)
{
    sim_worker *w = &s->workers[worker];
    w->frozen = false;
    for (uint32_t i = 0; i < w->mail_count && w->up; i++)
        sim_worker_packet(s, worker, &w->mail[i]->msg);
    sim_worker_drop_mail(w);
}

static void reconnect(sim *s, int worker)
{
    sim_worker *w = &s->workers[worker];
    sim_trace(s, "worker %d reconnects", worker);
    sim_close(s, w->peer, true);
    w->peer = sim_open(s, worker, 0);
}

void sim_worker_fate(sim *s, int worker)
{
    sim_worker *w = &s->workers[worker];
    if (s->calm)
        return;
    sim_push(s, sim_between(s, 500, 20000), (sim_event){.kind = SIM_WORKER_FATE, .actor = worker});
    if (!w->up || w->frozen || w->hung || !sim_chance(s, s->fault_rate))
        return;
    if (w->ranks > 1 && sim_chance(s, 0.4)) {
        rank_fate(s, worker);
        return;
    }
    switch (sim_between(s, 0, 8)) {
    case 0:
    case 1: die(s, worker, true); break;
    case 2: die(s, worker, false); break; /* power off: nobody hears of it */
    case 3:
    case 4:
        sim_trace(s, "worker %d freezes", worker);
        w->frozen = true;
        sim_push(s, sim_between(s, 200, 12000),
                 (sim_event){.kind = SIM_WORKER_UP, .actor = worker});
        break;
    case 5:
        sim_trace(s, "worker %d hangs", worker);
        w->hung = true;
        break;
    case 6: reconnect(s, worker); break;
    case 7: w->draining = true; break;
    case 8: {
        char name[8];
        snprintf(name, sizeof name, "g%d", worker);
        sim_drain(s, name, (uint32_t)sim_between(s, 1, 3000));
        break;
    }
    }
}

void sim_worker_up(sim *s, int worker)
{
    sim_worker *w = &s->workers[worker];
    if (w->up)
        thaw(s, worker);
    else
        sim_worker_start(s, worker);
}

void sim_worker_heal(sim *s, int worker)
{
    sim_worker *w = &s->workers[worker];
    if (w->up)
        thaw(s, worker);
    for (uint32_t r = 1; r < w->ranks && w->up; r++)
        sim_rank_up(s, worker, r);
    if (w->up && w->hung)
        die(s, worker, true);
}
