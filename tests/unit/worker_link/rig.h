/* A rank in a process of its own, with the fake engine inside, and a coordinator played by the test
 * over a real socket. */
#ifndef LAC_TESTS_RIG_H
#define LAC_TESTS_RIG_H

#include <check.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/msg.h"
#include "fake_engine.h"

enum { RIG_STREAMS = 32, RIG_TEXT = 1 << 16, RIG_RUNNING = 16, RIG_CLASSES = 2 };

/* What came for one request, of any attempt. */
typedef struct {
    uint64_t request;
    uint32_t attempt;
    uint32_t next_pos, tokens; /* positions seen so far; tokens in all */
    uint32_t gaps, wrong; /* chunks that did not start at next_pos; tokens that are not theirs */
    char text[RIG_TEXT];
    uint32_t text_length;
    lac_finish finish;
    lac_status error;
    lac_usage usage;
    char reason[LAC_REASON_MAX + 1];
    uint32_t accounts;
    lac_run_account account; /* the last; its mask is the next field */
    char mask[64];
} rig_stream_t;

typedef struct {
    pid_t rank;
    bool rank_gone;
    int rank_status; /* of waitpid */
    uint64_t peer;   /* who sent the last message */
    uint64_t epoch, session;
    bool auto_ack; /* answer a Hello by itself */
    uint32_t hellos, beats, outputs, drained;
    uint32_t
        bad_envelopes; /* of another session or epoch, or out of sequence, since the last ack */
    uint64_t last_seq;
    lac_hello hello;
    lac_running running[RIG_RUNNING];
    lac_class_facts classes[RIG_CLASSES]; /* their masks are gone */
    char address[32];                     /* of the last Hello */
    uint32_t knocks;                      /* Hellos without one */
    uint32_t faults;
    lac_fault fault;
    uint32_t shadows;
    lac_shadow shadow; /* the last */
    lac_heartbeat beat;
    rig_stream_t streams[RIG_STREAMS];
    uint32_t streams_count;
} rig_t;
extern rig_t rig;

/* What the program does when it is started as "--rank": the arguments after that. */
int rig_rank_main(char **argv);

void rig_start(void);
void rig_start_with(const char *model, const char *chat_family);
/* One of several ranks; returns at once. */
void rig_start_rank(uint32_t rank, uint32_t pp, uint32_t tp);
/* Ends the rank, however it is, and frees everything. */
void rig_stop(void);

void rig_turn(unsigned ms); /* runs the coordinator's loop for a while */
#define RIG_UNTIL(condition, ms)                                                                   \
    do {                                                                                           \
        for (unsigned rig_left = (ms); !(condition) && rig_left >= 5; rig_left -= 5)               \
            rig_turn(5);                                                                           \
        ck_assert_msg(condition, "not within %u ms: %s", (unsigned)(ms), #condition);              \
    } while (0)

void rig_send(lac_msg_type type, lac_msg *msg);
void rig_send_as(lac_msg_type type, lac_msg *msg, uint64_t epoch, uint64_t session);
void rig_ack(uint64_t epoch, uint64_t session);
/* A prompt of `first` and two more ids. */
void rig_dispatch(uint64_t request, uint32_t attempt, uint32_t first, uint32_t max_tokens);
lac_dispatch rig_ask(uint64_t request, uint32_t attempt, uint32_t max_tokens);
void rig_dispatch_ask(const lac_dispatch *ask);
void rig_cancel(uint64_t request, uint32_t attempt);

/* The stream of a request; made empty when nothing has come. */
rig_stream_t *rig_stream(uint64_t request);
/* The coordinator goes, and comes back at the same address. */
void rig_coordinator_close(void);
void rig_coordinator_open(void);
/* The rank's exit status, or 128 + signal; fails when it does not end in time. */
int rig_rank_exit(unsigned ms);

#endif
