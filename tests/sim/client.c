/* Simulated clients. They know the right answer to what they ask and stop the run when they get
 * another, get it twice, get more than they granted, or get nothing. */
#include "sim.h"

static sim_packet *packet_of(uint16_t type)
{
    sim_packet *packet = lac_alloc(1, sizeof *packet);
    packet->msg.envelope.type = type;
    return packet;
}

static lac_plane plane_of(int client)
{
    return client ? LAC_PLANE_CLIENT : LAC_PLANE_HTTP;
}

const char *sim_tenant(int client)
{
    static const char *const names[] = {NULL, "t1", "t2"};
    return names[client % 3];
}

static void send(sim *s, int client, sim_packet *packet)
{
    packet->msg.tenant = sim_tenant(client);
    sim_send_to_core(s, plane_of(client), s->clients[client].peer, packet);
}

static void submit(sim *s, int client)
{
    if (s->streams_count == SIM_STREAMS_MAX)
        return;
    sim_stream *t = &s->streams[s->streams_count++];
    *t = (sim_stream){.client = client,
                      .stream = s->streams_count,
                      .number = s->seed * SIM_STREAMS_MAX + s->streams_count,
                      .credit = (uint32_t)sim_between(s, 1, 4)};
    if (sim_chance(s, 0.4))
        t->max_tokens = (uint32_t)sim_between(s, 1, SIM_TOKENS_MAX);
    sim_packet *packet = packet_of(LAC_MSG_SUBMIT);
    lac_submit *body = &packet->msg.body.submit;
    static const char table[] = "\nid,name,size\n1,ab,10\n2,cd,20\n3,ef,30\n4,gh,40\n";
    static const char prose[] = " times the king asked his daughters whether they loved him more "
                                "than all the gold of the country by the sea.";
    t->structured = t->number % 2 == 0;
    int length = snprintf(packet->text[0], sizeof packet->text, "%llu%s",
                          (unsigned long long)t->number, t->structured ? table : prose);
    *body = (lac_submit){
        .stream = t->stream,
        .prompt = {.kind = LAC_PROMPT_TEXT, .text = {packet->text[0], (uint32_t)length}},
        .sampling = lac_sampling_default(),
        .credit = t->credit};
    body->sampling.max_tokens = t->max_tokens;
    if (sim_chance(s, 0.1))
        body->deadline_ms = (uint32_t)sim_between(s, 1, 5000);
    body->priority = (int32_t)sim_between(s, 0, 4) - 2;
    body->service = (lac_service)sim_between(s, 0, LAC_SERVICES - 1);
    t->flex = body->service == LAC_SERVICE_FLEX;
    if (sim_chance(s, 0.15))
        snprintf(body->model, sizeof body->model, "m%d", (int)sim_between(s, 0, 2));
    send(s, client, packet);
}

static sim_stream *some_stream(sim *s, int client)
{
    if (!s->streams_count)
        return NULL;
    size_t recent = s->streams_count < 24 ? s->streams_count : 24; /* older ones have ended */
    sim_stream *t = &s->streams[s->streams_count - sim_between(s, 1, recent)];
    return t->client == client && !t->ended && !t->gone ? t : NULL;
}

static void grant(sim *s, sim_stream *t, uint32_t messages)
{
    sim_packet *packet = packet_of(LAC_MSG_CREDIT);
    packet->msg.body.credit = (lac_credit){.stream = t->stream, .messages = messages};
    t->credit += messages;
    send(s, t->client, packet);
}

static void grant_all(sim *s, int client)
{
    for (size_t i = 0; i < s->streams_count; i++) {
        sim_stream *t = &s->streams[i];
        if (t->client == client && !t->ended && !t->gone && t->credit < 2)
            grant(s, t, (uint32_t)sim_between(s, 1, 8));
    }
}

static void vanish(sim *s, int client)
{
    sim_client *c = &s->clients[client];
    sim_trace(s, "client %d vanishes", client);
    for (size_t i = 0; i < s->streams_count; i++)
        if (s->streams[i].client == client)
            s->streams[i].gone = true;
    /* Told by the transport, or found by a send: sim_client_take() knows nobody of that number. */
    if (sim_chance(s, 0.5))
        sim_push(s, 0,
                 (sim_event){.kind = SIM_CORE_LOST, .plane = plane_of(client), .peer = c->peer});
    c->peer = ++s->peers_made;
}

/* The same stream again, at once, while it is known to live: its request must not suffer. */
static void submit_again(sim *s, const sim_stream *t)
{
    lac_msg msg = {.envelope.type = LAC_MSG_SUBMIT,
                   .body.submit = {.stream = t->stream,
                                   .prompt = {.kind = LAC_PROMPT_TEXT, .text = {"0", 1}},
                                   .sampling = lac_sampling_default(),
                                   .credit = 1}};
    sim_core_step(s, (lac_event){.kind = LAC_EVENT_MESSAGE,
                                 .plane = plane_of(t->client),
                                 .peer = s->clients[t->client].peer,
                                 .msg = &msg});
}

void sim_client_act(sim *s, int client)
{
    sim_client *c = &s->clients[client];
    sim_push(s, sim_between(s, 5, s->calm ? 500 : 400),
             (sim_event){.kind = SIM_CLIENT_ACT, .actor = client});
    if (s->now - c->full_ms > LAC_SLOW_READER_MS / 2)
        c->full = false;
    if (!c->slow)
        grant_all(s, client);
    if (s->calm)
        return;
    uint64_t what = sim_between(s, 0, 99);
    sim_stream *t = some_stream(s, client);
    if (what < 40) {
        submit(s, client);
    } else if (what < 45 && t) {
        sim_packet *packet = packet_of(LAC_MSG_CLIENT_CANCEL);
        packet->msg.body.client_cancel.stream = t->stream;
        t->cancelled = true;
        send(s, client, packet);
    } else if (what < 48) {
        c->slow = !c->slow && sim_chance(s, s->fault_rate);
    } else if (what < 51) {
        c->full = !c->full && sim_chance(s, s->fault_rate);
        c->full_ms = s->now;
    } else if (what < 52 && client && sim_chance(s, s->fault_rate)) {
        vanish(s, client);
    } else if (what < 53) {
        send(s, client, packet_of(LAC_MSG_STATUS_QUERY));
    } else if (what < 54 && t && t->accepted) {
        submit_again(s, t);
    }
}

void sim_client_heal(sim *s)
{
    for (int i = 0; i < s->clients_count; i++)
        s->clients[i].slow = s->clients[i].full = false;
}

/* ---- what they get ---- */

static sim_stream *stream_of(sim *s, uint64_t stream)
{
    LAC_ASSERT(stream >= 1 && stream <= s->streams_count);
    return &s->streams[stream - 1];
}

static void take_tokens(sim_stream *t, const lac_chunk *c)
{
    LAC_ASSERT(t->accepted && !t->ended);
    LAC_ASSERT(t->credit > 0);
    t->credit--;
    LAC_ASSERT(c->first_pos == t->next_pos);
    LAC_ASSERT(c->tokens_count || c->text.length);
    for (uint32_t i = 0; i < c->tokens_count; i++)
        LAC_ASSERT(c->tokens[i] == sim_token(t->number, t->next_pos + i));
    for (uint32_t i = 0; i < c->text.length; i++)
        LAC_ASSERT(c->text.data[i] == sim_letter(t->number, t->text_length + i));
    t->next_pos += c->tokens_count;
    t->text_length += c->text.length;
    totals.tokens += c->tokens_count;
}

static void take_done(sim_stream *t, const lac_done *d)
{
    LAC_ASSERT(!t->ended);
    t->ended = true;
    t->finish = d->finish;
    if (d->finish == LAC_FINISH_CANCEL) {
        LAC_ASSERT(t->cancelled);
        totals.cancelled++;
        return;
    }
    uint32_t length = sim_length(t->number, t->max_tokens);
    /* A cancel that came when the end was already known gives up what was not delivered yet. */
    if (!t->cancelled) {
        LAC_ASSERT(t->next_pos == length);
        LAC_ASSERT(t->text_length == length);
    }
    LAC_ASSERT(d->usage.completion_tokens == length);
    bool by_length = t->max_tokens && length == t->max_tokens;
    LAC_ASSERT(d->finish == (by_length ? LAC_FINISH_LENGTH : LAC_FINISH_STOP));
    *(by_length ? &totals.length : &totals.stopped) += 1;
}

lac_status sim_client_take(sim *s, const lac_action *action)
{
    int client = -1;
    for (int i = 0; i < s->clients_count; i++)
        if (plane_of(i) == action->plane && s->clients[i].peer == action->peer)
            client = i;
    if (client < 0)
        return LAC_EPEER;
    if (s->clients[client].full)
        return LAC_BUSY;
    const lac_msg *msg = action->msg;
    sim_stream *t;
    switch (msg->envelope.type) {
    case LAC_MSG_ACCEPTED:
        t = stream_of(s, msg->body.accepted.stream);
        LAC_ASSERT(t->client == client && !t->accepted && !t->ended);
        t->accepted = true;
        break;
    case LAC_MSG_TOKENS:
        t = stream_of(s, msg->body.tokens.stream);
        LAC_ASSERT(t->client == client);
        take_tokens(t, &msg->body.tokens.chunk);
        break;
    case LAC_MSG_DONE:
        t = stream_of(s, msg->body.done.stream);
        LAC_ASSERT(t->client == client);
        take_done(t, &msg->body.done);
        break;
    case LAC_MSG_REFUSED:
        LAC_ASSERT(msg->body.refused.status != LAC_OK);
        totals.refused[msg->body.refused.status]++;
        if (!msg->body.refused.stream)
            break;
        t = stream_of(s, msg->body.refused.stream);
        LAC_ASSERT(t->client == client && !t->ended);
        t->ended = true;
        break;
    case LAC_MSG_STATUS_REPLY: break;
    default: LAC_ASSERT(!"a client got what no client gets");
    }
    return LAC_OK;
}

void sim_client_check_ended(const sim *s)
{
    for (size_t i = 0; i < s->streams_count; i++) {
        if (!s->streams[i].ended && !s->streams[i].gone)
            sim_trace(s, "stream %zu of client %d has not ended", i + 1, s->streams[i].client);
        LAC_ASSERT(s->streams[i].ended || s->streams[i].gone);
    }
}
