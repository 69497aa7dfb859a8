/* One completion request's life between the client's socket and the core. Loop thread. */
#ifndef LAC__FRONTEND_EXCHANGE_H
#define LAC__FRONTEND_EXCHANGE_H

#include <stdint.h>

#include "api.h"
#include "base/msg.h"
#include "errors.h"
#include "frontend/frontend.h"
#include "idempotency.h"
#include "reply.h"
#include "writer.h"

typedef struct lac__exchange lac__exchange;
struct lac__conn;
typedef struct lac__job lac__job;

typedef enum {
    LAC__X_PARSING, /* its body is being read as JSON */
    LAC__X_WAITING, /* for the answer of another request with its idempotency key */
    LAC__X_GATHER,  /* submitted; the whole answer will be one reply */
    LAC__X_HOLD,    /* submitted; a stream whose status line is still held back */
    LAC__X_OPEN,    /* a stream whose head is written */
    LAC__X_ENDED,
    LAC__X_STATES
} lac__exchange_state;

typedef enum {
    LAC__E_PARSED,        /* the body is good, the answer comes as one reply */
    LAC__E_PARSED_STREAM, /* the body is good, the answer is to be streamed */
    LAC__E_TWIN,          /* the body is good, and another request with its key is being served */
    LAC__E_KNOWN,         /* the answer is known from another request with its key */
    LAC__E_BAD,           /* the body was refused here */
    LAC__E_TOKENS,
    LAC__E_DONE,
    LAC__E_REFUSED, /* by the core */
    LAC__E_QUIET,   /* nothing was written for the ping interval */
    LAC__E_GONE,    /* the client */
    LAC__E_EVENTS
} lac__exchange_event;

/* One choice's place at the core. */
typedef struct {
    lac__exchange *exchange;
    uint64_t stream; /* 0 = not submitted, or already ended for the core */
    uint32_t taken;  /* Tokens messages not yet credited */
} lac__seat;

struct lac__exchange {
    lac_frontend *frontend;
    struct lac__conn *conn;
    lac__exchange_state state;
    lac__job *job;        /* parsing in the pool; NULL otherwise */
    lac__api_request api; /* until it is submitted, then empty but for the flags */
    lac__problem problem; /* of BAD and REFUSED */
    const lac__writer *writer;
    lac__answer answer;
    lac__keyed keyed;                 /* its place among requests with an idempotency key */
    lac__seat seats[LAC_CHOICES_MAX]; /* as many as the answer's choices */
    uint32_t finished;                /* choices */
    bool done;                        /* all of them */
    bool refused;                     /* one was, which ends all */
    lac_usage usage;                  /* of the finished ones, the prompt counted once */
    uint64_t request;                 /* the core's number of the first choice; 0 = not known */
    bool has_account;                 /* what it runs as is known: from the first tokens on */
    lac_run_account account;
    char *mask;        /* of the account */
    lac_quota quota;   /* of its tenant, when it was let in or not */
    uint64_t quiet_ms; /* since when nothing was written */
    bool keep_alive;   /* the connection may serve another request afterwards */
    bool dirty;
    lac__exchange *dirty_prev, *dirty_next;
};

/* Streams in flight. A stream number is (start of the slot << SLOT_BITS | slot), never reused. */
enum { LAC__SLOT_BITS = 15, LAC__SLOTS = 1 << LAC__SLOT_BITS };
typedef struct {
    lac__seat *slots[LAC__SLOTS];
    uint16_t free[LAC__SLOTS]; /* a stack of free slots */
    uint32_t free_count;
    uint64_t started;
    lac__exchange *dirty_first, *dirty_last; /* those that want a turn */
    uint32_t dirty_count;
} lac__exchanges;

void lac__exchanges_start(lac__exchanges *exchanges);

/* Begins with the connection's complete request; the exchange frees itself when it ends. */
void lac__exchange_start(struct lac__conn *conn, lac__api_kind kind);
/* The client is gone: cancels and frees. */
void lac__exchange_gone(lac__exchange *exchange);
/* The socket has room again, or time has passed. May end and free the exchange. */
void lac__exchange_tick(lac__exchange *exchange, uint64_t now_ms);
/* The request it waited for has ended: with nothing to repeat, it runs itself; else it repeats the
 * answer. False when it has ended and is freed. */
bool lac__exchange_run(lac__exchange *exchange);
bool lac__exchange_replay(lac__exchange *exchange);
void lac__exchange_refuse(lac__exchange *exchange); /* with its problem; it ends */
/* Asks for a turn of the work handle. */
void lac__exchange_wake(lac__exchange *exchange);
/* Gives every woken exchange its turn. */
void lac__exchanges_run(lac_frontend *frontend);

/* ---- seats.c ---- */

/* A number at the core for a choice, until the core has ended it or it is cancelled. */
void lac__seat_open(lac__seat *seat);
void lac__seat_close(lac__seat *seat);
uint32_t lac__seat_index(const lac__seat *seat); /* which choice of its exchange */
/* Notes what the core says. Writes and emits nothing. */
void lac__exchanges_deliver(lac_frontend *frontend, const lac_msg *msg);

#endif
