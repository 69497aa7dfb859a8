/* The session of a rank: its two tables and its fence. Pure; the link thread owns the object. Must
 * not know sockets, clocks or the engine. */
#include "link/session.h"

#include <string.h>

#include "base/assert.h"
#include "base/log.h"

static const lac_link_duties duties[LAC_LINK_STATES] = {
    [LAC_LINK_DISCONNECTED] = {.name = "disconnected", .says_hello = true},
    [LAC_LINK_HELLO_SENT] = {.name = "hello sent"},
    [LAC_LINK_SERVING] = {.name = "serving", .beats = true, .reports = true, .takes_work = true},
    [LAC_LINK_DRAINING] = {.name = "draining", .beats = true, .reports = true},
    [LAC_LINK_STOPPED] = {.name = "stopped"},
};

/* One row an event, one column a state, in the order of lac_link_state. */
#define DISC  LAC_LINK_DISCONNECTED
#define HELLO LAC_LINK_HELLO_SENT
#define SERVE LAC_LINK_SERVING
#define DRAIN LAC_LINK_DRAINING
#define STOP  LAC_LINK_STOPPED
static const lac_link_state next[LAC_LINK_EVENTS][LAC_LINK_STATES] = {
    /* clang-format off                 DISC   HELLO  SERVE  DRAIN  STOP */
    [LAC_LINK_EV_SAID_HELLO] = {HELLO, HELLO, SERVE, DRAIN, STOP},
    [LAC_LINK_EV_ACK] = {SERVE, SERVE, SERVE, DRAIN, STOP},
    [LAC_LINK_EV_REREGISTER] = {DISC, HELLO, DISC, DISC, STOP},
    [LAC_LINK_EV_SILENT] = {DISC, DISC, DISC, DISC, STOP},
    [LAC_LINK_EV_DRAIN] = {DISC, HELLO, DRAIN, DRAIN, STOP},
    [LAC_LINK_EV_DRAINED] = {STOP, STOP, SERVE, STOP, STOP},
    [LAC_LINK_EV_END] = {STOP, STOP, STOP, STOP, STOP},
    /* clang-format on */
};

void lac_session_init(lac_session *session)
{
    *session = (lac_session){
        .state = LAC_LINK_DISCONNECTED, .heartbeat_ms = LAC_HEARTBEAT_MS, .lease_ms = LAC_LEASE_MS};
}

bool lac_session_event(lac_session *session, lac_link_event event)
{
    LAC_ASSERT(event < LAC_LINK_EVENTS && session->state < LAC_LINK_STATES);
    lac_link_state old = session->state;
    if (event == LAC_LINK_EV_DRAIN)
        session->draining = true;
    lac_link_state to = next[event][old];
    /* A drain asked for while nobody listened takes effect with the next session. */
    if (to == LAC_LINK_SERVING && session->draining)
        to = LAC_LINK_DRAINING;
    LAC_ASSERT(event != LAC_LINK_EV_DRAINED || session->draining);
    session->state = to;
    if (to != old)
        lac_debug("session %s, was %s", duties[to].name, duties[old].name);
    return to != old;
}

const lac_link_duties *lac_session_duties(const lac_session *session)
{
    return &duties[session->state];
}

lac_status lac_session_admit(const lac_session *session, const lac_envelope *envelope,
                             lac_error *err)
{
    if (envelope->epoch < session->epoch)
        return lac_fail(err, LAC_EEPOCH, "%s of epoch %llu, the coordinator is at %llu",
                        lac_msg_name(envelope->type), (unsigned long long)envelope->epoch,
                        (unsigned long long)session->epoch);
    switch (envelope->type) {
    case LAC_MSG_HELLO_ACK:
    case LAC_MSG_HELLO_REJECT:
    case LAC_MSG_REREGISTER:
    case LAC_MSG_DIE: return LAC_OK;
    default: break;
    }
    bool open = session->state == LAC_LINK_SERVING || session->state == LAC_LINK_DRAINING;
    if (!open || envelope->session != session->session)
        return lac_fail(err, LAC_EEPOCH, "%s of session %llu, ours is %llu (%s)",
                        lac_msg_name(envelope->type), (unsigned long long)envelope->session,
                        (unsigned long long)session->session, duties[session->state].name);
    return LAC_OK;
}

lac_status lac_session_accept(lac_session *session, const lac_hello_ack *ack, lac_error *err)
{
    if (ack->epoch < session->epoch)
        return lac_fail(err, LAC_EEPOCH, "hello_ack of epoch %llu, the coordinator is at %llu",
                        (unsigned long long)ack->epoch, (unsigned long long)session->epoch);
    session->epoch = ack->epoch;
    session->session = ack->session;
    session->seq = 0;
    memcpy(session->incarnation, ack->incarnation, sizeof(session->incarnation));
    session->heartbeat_ms = ack->heartbeat_ms > 0 ? ack->heartbeat_ms : LAC_HEARTBEAT_MS;
    session->lease_ms = ack->lease_ms > 0 ? ack->lease_ms : LAC_LEASE_MS;
    lac_session_event(session, LAC_LINK_EV_ACK);
    return LAC_OK;
}

lac_envelope lac_session_stamp(lac_session *session, lac_msg_type type)
{
    /* A Hello opens a session, so it belongs to none. */
    bool hello = type == LAC_MSG_HELLO;
    return (lac_envelope){.major = LAC_PROTO_MAJOR,
                          .minor = LAC_PROTO_MINOR,
                          .type = (uint16_t)type,
                          .epoch = session->epoch,
                          .session = hello ? 0 : session->session,
                          .seq = hello ? 1 : ++session->seq};
}
