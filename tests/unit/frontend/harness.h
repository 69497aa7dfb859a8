/* Runs the real front end on a free loopback port, with a scripted core behind it and raw sockets
 * in front of it, all in one thread: waiting turns the loop. */
#ifndef FRONTEND_HARNESS_H
#define FRONTEND_HARNESS_H

#include <check.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/mem.h"
#include "frontend/frontend.h"

enum { SUBMITS_MAX = 64, WAIT_MS = 5000 };

#define HI "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"

/* What the scripted core does with a SUBMIT. */
typedef enum {
    CORE_ANSWER, /* accepts, sends `pieces`, finishes */
    CORE_REFUSE, /* refuses with `status`, `retry_after_ms`, `reason` */
    CORE_SILENT  /* accepts; the test goes on by hand */
} core_script;

typedef struct {
    uint64_t stream;
    lac_prompt_kind kind;
    char model[LAC_MODEL_NAME_MAX + 1];
    char first_role[LAC_ROLE_BYTES_MAX + 1];
    lac_buf text; /* content of the first message, or the prompt */
    uint32_t messages, ids, first_id, credit;
    char hint[LAC_HINT_TEXT_MAX + 1], force[LAC_NAME_MAX + 1];
    lac_sparse sparse;
    bool has_tier;
    lac_tier tier_max;
    char trace[LAC_TRACE_MAX + 1];
    lac_want want;
    lac_sampling sampling; /* its bias is not kept */
    lac_logit_bias bias;   /* the first one */
} submit_copy;

typedef struct {
    uv_loop_t loop;
    lac_metrics *metrics;
    lac_frontend *frontend;
    unsigned port;
    bool closed, is_ready;

    core_script script;
    const char *const *pieces; /* NULL-ended */
    bool logprobs;
    lac_finish finish;
    lac_status status;
    uint32_t retry_after_ms;
    const char *reason;
    const lac_run_account *account; /* with tokens and the end; NULL = none */
    bool later; /* answer from another turn of the loop instead of inside emit */

    submit_copy submits[SUBMITS_MAX];
    size_t submits_count, cancels_count, credits_count;
    uint64_t credited, cancelled; /* messages; the last stream cancelled */
} harness;

/* Options may be NULL. Starts with CORE_ANSWER of "Hello", " world". */
void harness_start(harness *h, const lac_frontend_options *options);
/* Fails the test if a handle, a stream or memory is left. */
void harness_stop(harness *h);
void harness_turn(harness *h, int ms);

/* The core's messages by hand. */
void core_accept(harness *h, uint64_t stream);
void core_tokens(harness *h, uint64_t stream, uint32_t first_pos, const char *text);
void core_done(harness *h, uint64_t stream, lac_finish finish);
void core_refuse(harness *h, uint64_t stream);

/* A raw client. */
typedef struct {
    harness *h;
    int fd;
    lac_buf in;
    bool eof, reset;
} client;

void client_open(client *c, harness *h);
void client_close(client *c);
void client_send(client *c, const char *bytes, size_t length);
void client_text(client *c, const char *text);
/* Takes what has come; false when the other side has closed. */
bool client_take(client *c);
/* Waits until the input holds `text`; false when the connection ends or the time is over first. */
bool client_wait(client *c, const char *text, int ms);
bool client_wait_end(client *c, int ms);

typedef struct {
    int status;
    lac_buf head, body; /* a chunked body is unframed */
    bool complete;      /* by its own framing; false when the end of the connection ended it */
} reply;

/* Waits for one reply and removes it from the input. */
void client_reply(client *c, reply *r, bool head_only);
void reply_free(reply *r);
/* A header's value, or NULL; valid until the next call. */
const char *reply_header(const reply *r, const char *name);

/* Sends one whole POST of a JSON body on an open connection. */
void client_post(client *c, const char *path, const char *body);
/* Sends a GET and takes its reply. */
void client_get(client *c, const char *path, reply *r);
/* Opens a connection with a chat request ("hi") on it that the core has seen. */
void open_chat(harness *h, client *c, bool stream);
/* One POST of a JSON body on a connection of its own. */
void post(harness *h, const char *path, const char *body, reply *r);

/* Sum of the series of a metric that carry `labels` (a piece of their text). */
double metric_sum(harness *h, const char *name, const char *labels);

/* Runs the tests, NULL-ended, as one suite: what main() returns. */
int run_suite(const char *name, const TTest *const *tests);

#define WAIT_FOR(h, condition)                                                                     \
    do {                                                                                           \
        for (int turns_ = 0; !(condition) && turns_ < WAIT_MS; turns_++)                           \
            harness_turn(h, 1);                                                                    \
        ck_assert(condition);                                                                      \
    } while (0)

#endif
