/* The life of a rank's session with the coordinator, as two tables: (event, state) → next state,
 * and state → what the link does in it. Also the fence: which messages still count. Pure: no clock,
 * no socket. The link thread owns it. */
#ifndef LAC_LINK_SESSION_H
#define LAC_LINK_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/msg.h"
#include "base/status.h"

typedef enum {
    LAC_LINK_DISCONNECTED, /* nobody knows us: a Hello is due */
    LAC_LINK_HELLO_SENT,   /* waiting for its answer */
    LAC_LINK_SERVING,
    LAC_LINK_DRAINING, /* as serving, but no new work */
    LAC_LINK_STOPPED,  /* the process ends */
    LAC_LINK_STATES
} lac_link_state;

typedef enum {
    LAC_LINK_EV_SAID_HELLO,
    LAC_LINK_EV_ACK,
    LAC_LINK_EV_REREGISTER, /* the coordinator does not know our session */
    LAC_LINK_EV_SILENT,     /* no answer to a Hello, or nothing could be sent for a whole lease */
    LAC_LINK_EV_DRAIN,      /* asked by the coordinator or by SIGTERM */
    LAC_LINK_EV_DRAINED,    /* draining, and nothing runs or waits to be sent any more */
    LAC_LINK_EV_END,        /* Die, Hello refused, or a second signal */
    LAC_LINK_EVENTS
} lac_link_event;

/* What the link does in a state. */
typedef struct {
    const char *name;
    bool says_hello; /* tries to send a Hello */
    bool beats;      /* sends heartbeats */
    bool reports;    /* sends step outputs; otherwise they wait */
    bool takes_work;
} lac_link_duties;

typedef struct {
    lac_link_state state;
    bool draining;    /* kept through a reconnect */
    uint64_t epoch;   /* the highest the coordinator has shown */
    uint64_t session; /* of the last accepted Hello, 0 before one */
    uint64_t seq;     /* of the last message sent in this session */
    uint8_t incarnation[16];
    uint32_t heartbeat_ms, lease_ms;
} lac_session;

/* DISCONNECTED, with the default times. */
void lac_session_init(lac_session *session);
/* Moves by the table; an event that means nothing in the present state changes nothing. Returns
 * true when the state changed. */
bool lac_session_event(lac_session *session, lac_link_event event);
const lac_link_duties *lac_session_duties(const lac_session *session);

/* Whether a received message counts. LAC_EEPOCH: it is of an older epoch, or of another session
 * than ours; drop it. Messages that make or end a session count in any session. */
lac_status lac_session_admit(const lac_session *session, const lac_envelope *envelope,
                             lac_error *err);
/* Takes over what the HelloAck says and makes the move. LAC_EEPOCH for a lower epoch than already
 * seen: nothing changed. */
lac_status lac_session_accept(lac_session *session, const lac_hello_ack *ack, lac_error *err);
/* The envelope of the next message of this type. */
lac_envelope lac_session_stamp(lac_session *session, lac_msg_type type);

#endif
