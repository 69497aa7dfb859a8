/* A world around the coordinator's core in which everything that may go wrong does, by a seed:
 * workers of one rank or several that crash, freeze, hang, reconnect, repeat themselves, skip or
 * drain; clients that cancel, vanish, read slowly or take nothing; connections that delay and lose.
 * No time passes but simulated time. */
#ifndef LAC_SIM_H
#define LAC_SIM_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/rng.h"
#include "core/core.h"
#include "sight/recorder.h"

enum {
    SIM_WORKERS_MAX = 6,
    SIM_RANKS_MAX = 3,   /* of one worker: it is a group */
    SIM_CLIENTS_MAX = 5, /* [0] is the HTTP front end */
    SIM_SEQUENCES_MAX = 64,
    SIM_STREAMS_MAX = 400,
    SIM_TOKENS_MAX = 64,
    SIM_CLASSES = 3,
    SIM_CONNECTIONS_MAX = 4096,
    SIM_MAIL_MAX = 1024,
    SIM_CALM_MS = 150000 /* after the faults, within which everything must end */
};

typedef struct sim sim;

/* ---- world.c: time, packets, connections ---- */

typedef enum {
    SIM_TO_CORE,     /* a packet arrives at the core */
    SIM_TO_WORKER,   /* a packet arrives at a worker */
    SIM_WORKER_STEP, /* a worker's engine makes a step */
    SIM_WORKER_BEAT,
    SIM_WORKER_LOADED, /* one of several ranks has loaded; `peer` is its number */
    SIM_RANK_UP,       /* a frozen one goes on; likewise */
    SIM_WORKER_FATE,   /* something happens to a worker */
    SIM_WORKER_UP,     /* it starts (again), or a frozen one goes on */
    SIM_CLIENT_ACT,
    SIM_CORE_LOST, /* the transport tells the core that a peer is gone */
    SIM_TICK
} sim_kind;

typedef struct {
    lac_msg msg;
    lac_step_item items[SIM_SEQUENCES_MAX];
    uint32_t tokens[SIM_SEQUENCES_MAX][4];
    char text[SIM_SEQUENCES_MAX][4];
    lac_running running[SIM_SEQUENCES_MAX];
    lac_class_facts classes[SIM_CLASSES];
    lac_run_account accounts[SIM_SEQUENCES_MAX];
    char address[8];
} sim_packet;

typedef struct {
    uint64_t at, order;
    sim_kind kind;
    lac_plane plane;
    uint64_t peer; /* connection, for packets */
    int actor;     /* worker or client */
    uint64_t life; /* of the worker's process: events of an earlier one are void */
    sim_packet *packet;
} sim_event;

/* A worker's connection. Numbers are never reused. */
typedef struct {
    int worker, rank;
    bool open;                  /* false: a send answers LAC_EPEER */
    bool swallow;               /* nobody reads, nobody notices */
    uint64_t last_in, last_out; /* packets of one direction keep their order */
} sim_connection;

/* ---- worker.c ---- */

typedef struct {
    uint64_t request, number; /* `number`: which answer this is to be */
    uint32_t attempt, next_pos, max_tokens;
    uint8_t class; /* 1 + its index; 0 = full */
    lac_input_type type;
    bool shadow;
} sim_sequence;

/* A rank that does not lead, and what a leader of several has beside the rest. */
typedef struct {
    bool frozen, registered, named, told, formed; /* named: it knows its incarnation */
    bool sentenced;                               /* its end came while it was frozen */
    uint64_t peer, session, epoch, report_seq;
    lac_digest config;
} sim_rank;

typedef struct {
    uint32_t ranks;
    sim_rank rank[SIM_RANKS_MAX]; /* of [0] only named, told, formed and config are used */
    bool up, frozen, hung, draining, drained, registered;
    uint64_t life, peer, session, epoch, report_seq, steps, dispatch_seq_seen;
    uint8_t incarnation[16];
    uint32_t slots;
    uint32_t classes; /* bit i: it holds sim_class(i) */
    int model;
    sim_sequence sequences[SIM_SEQUENCES_MAX];
    uint32_t count;
    sim_packet *mail[SIM_MAIL_MAX]; /* what came while it was frozen */
    uint32_t mail_count;
} sim_worker;

/* What the classes of the simulation are certified for. */
lac_class_facts sim_class(int index);
void sim_worker_start(sim *s, int worker);
void sim_worker_packet(sim *s, int worker, const lac_msg *msg);
/* To one of its ranks but the first. */
void sim_rank_packet(sim *s, int worker, uint32_t rank, const lac_msg *msg);
void sim_worker_loaded(sim *s, int worker, uint32_t rank);
void sim_rank_up(sim *s, int worker, uint32_t rank);
void sim_worker_step(sim *s, int worker);
void sim_worker_beat(sim *s, int worker);
void sim_worker_fate(sim *s, int worker);
void sim_worker_up(sim *s, int worker);
void sim_worker_heal(sim *s, int worker);
void sim_worker_drop_mail(sim_worker *w);

/* ---- client.c ---- */

typedef struct {
    int client;
    uint64_t stream, number;
    uint32_t max_tokens;
    bool accepted, ended, cancelled, gone;
    bool structured;          /* its prompt is a table, else prose */
    bool flex;                /* as deep as its tenant may go */
    bool dispatched, in_full; /* once; once without a class */
    uint8_t class;            /* of its first dispatch */
    uint32_t next_pos, text_length, credit;
    lac_finish finish;
} sim_stream;

typedef struct {
    uint64_t peer;
    bool full; /* its queue takes nothing just now, for less than it would be given up for */
    uint64_t full_ms;
    bool slow; /* grants no credit */
} sim_client;

void sim_client_act(sim *s, int client);
lac_status sim_client_take(sim *s, const lac_action *action);
void sim_client_heal(sim *s);
/* The name of a client's key; NULL = it has none. */
const char *sim_tenant(int client);
void sim_client_check_ended(const sim *s);

struct sim {
    uint64_t seed, now, order, faults_until;
    bool verbose, calm;
    lac_rng rng;
    lac_core *core;
    lac_recorder *recorder; /* NULL: nobody asked for one */
    lac_metrics *metrics;
    sim_event *heap;
    size_t heap_count, heap_size;
    uint64_t events;
    sim_connection connections[SIM_CONNECTIONS_MAX];
    uint64_t connections_count;
    sim_worker workers[SIM_WORKERS_MAX];
    int workers_count;
    sim_client clients[SIM_CLIENTS_MAX];
    int clients_count;
    uint64_t peers_made;
    sim_stream streams[SIM_STREAMS_MAX];
    size_t streams_count;
    double fault_rate;   /* 0 … 1 */
    lac_tenant rules[2]; /* of "t1" and "t2" */
};

/* What a run did, summed over runs, so that a run in which nothing happens is noticed. */
typedef struct {
    uint64_t events, streams, tokens, stopped, length, cancelled, refused[LAC_EINTERNAL + 1];
    double moves, duplicates, stale, fenced, reregisters, hung, expired, drained, lost, freezes,
        forgiven, sheds, as_class, kept, fell, shadows, quotas, browned,
        joined, formed, broken, rank_lost;
} sim_totals;
extern sim_totals totals;

extern const char *sim_record; /* where a run's recording goes; NULL = nowhere */
void sim_run(uint64_t seed, bool verbose);
void sim_push(sim *s, uint64_t delay, sim_event event);
uint64_t sim_open(sim *s, int worker, int rank);
/* Closes; `told`: the core hears of it by itself. In-flight packets to it are lost. */
void sim_close(sim *s, uint64_t peer, bool told);
void sim_send_to_core(sim *s, lac_plane plane, uint64_t peer, sim_packet *packet);
/* The core takes an event now. */
void sim_core_step(sim *s, lac_event event);
/* Somebody asks for a group to end. */
void sim_drain(sim *s, const char *group, uint32_t deadline_ms);
bool sim_chance(sim *s, double p);
uint64_t sim_between(sim *s, uint64_t low, uint64_t high);
void sim_trace(const sim *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The one right answer to request `number`. */
uint32_t sim_token(uint64_t number, uint32_t pos);
uint32_t sim_length(uint64_t number, uint32_t max_tokens);
char sim_letter(uint64_t number, uint32_t pos);

#endif
