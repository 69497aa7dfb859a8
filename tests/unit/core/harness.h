/* Drives a core with scripted events and records what it sends. A test reads like the conversation
 * it describes. */
#ifndef LAC_TEST_CORE_HARNESS_H
#define LAC_TEST_CORE_HARNESS_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"

/* One recorded message, with the fields tests look at. */
typedef struct {
    lac_plane plane;
    uint64_t peer, session, epoch;
    uint16_t type;
    uint64_t stream, request, seq;
    uint32_t attempt, first_pos, tokens_count, accepted_count, retry_after_ms, deadline_ms;
    uint32_t logprobs_count;
    uint32_t tokens[64], accepted[64];
    char text[512], model[LAC_MODEL_NAME_MAX + 1], reason[LAC_REASON_MAX + 1];
    uint8_t incarnation[16];
    lac_digest config_digest;
    uint32_t addresses_count;
    char addresses[2][8];
    lac_status status;
    lac_finish finish;
    lac_usage usage;
    uint64_t seed;
    bool echo;
    char logprob_text[16];
    bool has_class, shadow;
    lac_digest class_digest;
    lac_input_type input_type;
    char class_name[LAC_NAME_MAX + 1], why[LAC_WHY_MAX + 1], mask[64]; /* of an account */
    float skip_rate;
    lac_cause cause;
    lac_quota quota;
    uint8_t cache_salt[16];
} sent;

typedef struct {
    lac_core *core;
    lac_metrics *metrics;
    uint64_t now;
    sent log[4096];
    size_t log_count, read;
    uint64_t busy_peer, gone_peer; /* sends to these fail */
    lac_plane busy_plane, gone_plane;
    char config[1024]; /* of the last Form */
    char notes[65536];
} bench;

enum { EPOCH = 7 };

void bench_open(bench *b);
void bench_open_with(bench *b, lac_core_options options);
void bench_close(bench *b);

/* The next unread message of that type (skipping others); NULL when there is none. */
const sent *next_sent(bench *b, uint16_t type);
/* The next one, which must be there. */
const sent *expect(bench *b, uint16_t type);
/* A moved request's next dispatch, after its backoff. */
const sent *expect_moved(bench *b);
/* None of that type among the unread. */
void expect_none(bench *b, uint16_t type);
void forget(bench *b);
double metric(bench *b, const char *name, const char *labels);

void event(bench *b, lac_plane plane, uint64_t peer, lac_msg *msg);
void tick(bench *b, uint64_t after_ms);
/* Ticks every 100 ms for that long. */
void wait_ms(bench *b, uint64_t ms);
void lost(bench *b, lac_plane plane, uint64_t peer);

/* A worker of one rank on connection `peer`; its session is kept by the connection's number. */
lac_hello hello_of(const char *group, const char *model, uint32_t slots);
void say_hello(bench *b, uint64_t peer, const lac_hello *hello);
/* Says Hello and takes the ack; returns the session. */
uint64_t join(bench *b, uint64_t peer, const char *group, uint32_t slots);
void beat(bench *b, uint64_t peer, uint64_t session, lac_heartbeat heartbeat);
/* Beats (idle) every 500 ms for that long, for up to four workers. */
void keep_alive(bench *b, uint64_t ms, int workers, const uint64_t *peers,
                const uint64_t *sessions);
/* `count` tokens with the values first_pos+100… and one letter of text each. */
void output(bench *b, uint64_t peer, uint64_t session, const sent *dispatch, uint32_t first_pos,
            uint32_t count, lac_finish finish);
void output_item(bench *b, uint64_t peer, uint64_t session, const lac_step_item *item);

lac_submit submit_of(uint64_t stream, const char *text);
void submit(bench *b, uint64_t peer, const lac_submit *submit);
void submit_as(bench *b, uint64_t peer, const char *tenant, const lac_submit *submit);
/* Submits and takes the dispatch. */
const sent *submit_and_dispatch(bench *b, uint64_t peer, uint64_t stream);
void cancel(bench *b, uint64_t peer, uint64_t stream);
void grant(bench *b, uint64_t peer, uint64_t stream, uint32_t messages);

TCase *registry_case(void);
TCase *forming_case(void);
TCase *requests_case(void);
TCase *recovery_case(void);
TCase *queue_case(void);
TCase *retry_case(void);
TCase *verdict_case(void);
TCase *router_case(void);
TCase *path_case(void);
TCase *classes_case(void);
TCase *batch_case(void);
TCase *tenant_case(void);
TCase *brownout_case(void);
TCase *names_case(void);

#endif
