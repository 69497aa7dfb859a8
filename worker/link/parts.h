/* The parts of the link, shared by its files: link.c (life, timers, signals), inbound.c (what the
 * coordinator sends), outbound.c (what it is told), forming.c (becoming part of a group). All of it belongs to the link thread. */
#ifndef LAC_LINK_PARTS_H
#define LAC_LINK_PARTS_H

#include <uv.h>

#include "base/clock.h"
#include "link/classes.h"
#include "link/link.h"
#include "link/prompt.h"
#include "link/rank.h"
#include "link/runner.h"
#include "link/session.h"
#include "link/tasks.h"
#include "wire/socket.h"

enum {
    LAC__TICK_MS = 100,
    LAC__HELLO_WAIT_MS = 2000, /* for the answer to a Hello */
    LAC__LEAVE_MS = 100,       /* for the last messages to reach the network */
    LAC__REPORTS_MAX = 512,    /* steps the engine may run ahead while nobody listens */
    LAC__COMMANDS_MAX = 16384,
    LAC__JOB_BYTES_MAX = 256 << 20, /* prompts being made into tokens */
    LAC__PEER = 1                   /* a connecting socket's only peer */
};

struct lac_link {
    lac_link_options options;
    lac_engine_options told; /* as this process was told; options.engine gets what the group agrees */
    uv_loop_t loop;
    uv_async_t wake; /* from the engine thread: a report is ready */
    uv_timer_t tick, leave;
    uv_signal_t on_term, on_int;
    lac_wire *wire;
    lac_socket *socket;
    lac_runner *runner; /* NULL: one of several ranks, not told yet what to load */
    lac_rank *rank;     /* NULL: the only rank of its group */
    bool formed;        /* the engine is there; the hello says all of it */
    bool let_go;        /* a follower that its leader needs no more */
    lac_classes *classes;

    lac_session session;
    lac_hello hello; /* the facts; `running` is filled for each Hello */
    lac_running *claims;
    uint64_t hello_ms, sent_ms; /* last Hello sent; last message of any kind that left */
    uint64_t beat_ms;           /* next heartbeat */
    uint64_t report_seq, dispatch_seq_seen;
    uint64_t dropped;       /* messages of another epoch or session */
    uint64_t class_unknown; /* dispatches of a class that is not here */
    lac_shadow score;       /* with `score_waits`: taken from the engine, not sent yet */
    bool score_waits;

    lac_tasks *tasks;
    uint32_t refusals, answers, echoes; /* tasks with a report, or an echo, of our own to send */
    lac_prompt_tools tools;
    uint32_t jobs; /* on the pool */
    uint64_t job_bytes;
    lac_report *pending;     /* taken from the engine, not sent yet */
    lac_buf divided;         /* one item's text in parts; its memory is kept */
    lac_step_item *outgoing; /* [LAC_STEP_ITEMS_MAX] what is being sent */
    uint64_t *outgoing_ids;

    uint64_t drain_until_ms; /* once draining */
    int signals;
    int exit_code;
};

/* ---- inbound.c ---- */

void lac__link_message(void *arg, uint64_t peer, const lac_msg *msg);
void lac__link_bad(void *arg, uint64_t peer, const lac_envelope *envelope, const lac_error *err);
void lac__link_lost(void *arg, uint64_t peer);
/* Drops a task in any stage: the engine stops it before its next step. */
void lac__task_drop(lac_link *link, lac_task *task);

/* ---- outbound.c ---- */

/* Sends with the session's envelope. `msg` has its body filled. */
lac_status lac__link_send(lac_link *link, lac_msg_type type, lac_msg *msg);
bool lac__hello_send(lac_link *link);
void lac__beat_send(lac_link *link);
/* Sends what waits, as far as the session and the socket allow. */
void lac__link_pump(lac_link *link);
/* Nothing runs and nothing waits to be sent. */
bool lac__link_idle(const lac_link *link);

/* ---- forming.c; each is a no-op in the only rank of a group ---- */

/* The group's incarnation is known. */
void lac__forming_ack(lac_link *link);
void lac__forming_form(lac_link *link, const lac_form *form);
/* The engine thread has something to say about itself. */
void lac__forming_wake(lac_link *link);

/* ---- link.c ---- */

/* The engine as this process was told, and what wakes the link. */
lac_runner_options lac__link_runner_options(lac_link *link);
/* The engine is there: classes, chat and Hello are filled from it. */
lac_status lac__link_loaded(lac_link *link, lac_error *err);
/* What the session's state asks for now. */
void lac__link_session_tick(lac_link *link);

void lac__link_event(lac_link *link, lac_link_event event);
void lac__link_drain(lac_link *link, uint32_t deadline_ms, const char *who);
/* After a drain: leaves when nothing is left to do, or the time is over. */
void lac__link_settle(lac_link *link);

#endif
