/* What the files of the client library share: the client, its streams, the questions. Not
 * installed.
 *
 * Two kinds of threads meet here. The user's threads create and read streams; the one internal
 * thread owns loop and socket. Everything below `lock` in the client, and every field of a stream,
 * is touched only with the lock held; nothing is sent and nobody is waited for while it is. */
#ifndef LAC_CLIENT_INTERNAL_H
#define LAC_CLIENT_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include <uthash.h>
#include <uv.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/msg.h"
#include "base/status.h"
#include "lacuna_client.h"
#include "wire/socket.h"

enum {
    CLIENT_STREAMS_MAX = LAC_CLIENTS_MAX,
    CLIENT_CREDIT = 64,       /* Tokens messages a stream holds before its reader must take some */
    CLIENT_CONNECT_MS = 5000, /* a request waits this long for a connection */
    CLIENT_TICK_MS = 50,      /* how often what could not be sent is tried again */
    CLIENT_PROBE_MS = 5000,   /* silence with running requests before the coordinator is asked */
    CLIENT_SILENT_MS = 20000, /* … and before it is taken for lost */
    CLIENT_CANCEL_MS = 3000,  /* a cancelled request without an answer ends by itself */
    CLIENT_FAREWELL_MS = 30   /* time for the last cancels to leave */
};

typedef struct stream_piece {
    struct stream_piece *next;
    uint32_t tokens_count;
    uint32_t length;
    uint32_t *tokens; /* both inside this block */
    char *text;
} stream_piece;

typedef enum {
    STREAM_NEW,  /* the request has not been sent */
    STREAM_SENT, /* the coordinator has it */
    STREAM_ENDED /* `result` says how; pieces may still wait to be read */
} stream_state;

struct lac_stream {
    lac_client *client;
    uint64_t id;
    stream_state state;
    bool accepted; /* the coordinator said so */
    bool cancel;   /* the user wants no more */
    bool cancel_sent;
    bool released;      /* the user closed it: freed by the internal thread once ended */
    uint64_t since_ms;  /* submitted, or cancel sent */
    lac_submit *submit; /* until sent, or accepted where there is patience */
    uint64_t patience_until_ms, not_before_ms; /* 0 = none; of the next try */
    lac_arena *memory;                         /* of `submit` */
    stream_piece *head, *tail, *shown;         /* `shown` is what the user was given last */
    uint32_t waiting;                          /* pieces in the list */
    uint32_t owed;                             /* taken by the user, not yet granted again */
    uint32_t next_pos;
    lac_usage usage;
    bool has_account;
    lac_run_account account;
    char *masks[2]; /* of the account, and of the one before, which the user may still read */
    lac_finish finish;
    uint32_t retry_after_ms;
    int result; /* LAC_CLIENT_OK: finished as `finish` says */
    char error[LAC_ERROR_TEXT_MAX];
    pthread_cond_t changed;
    UT_hash_handle hh;
};

/* One question with one answer, like lac_client_status; on its caller's stack. */
typedef struct client_question {
    struct client_question *next;
    uint64_t id;
    uint16_t type, reply; /* LAC_MSG_… of the question and of its answer; REFUSED answers too */
    lac_msg msg;          /* the question; its `stream` is set to `id` when it is sent */
    bool sent, done;
    char *json;
    int result; /* once done */
    char error[LAC_ERROR_TEXT_MAX];
    pthread_cond_t changed;
} client_question;

struct lac_client {
    char endpoint[LAC_ENDPOINT_MAX + 1];
    bool keyed;
    lac_key key; /* wiped once the socket has it */
    char server_key[LAC_KEY_TEXT + 1];
    pthread_t thread;
    /* The internal thread's alone. */
    uv_loop_t loop;
    uv_timer_t tick;
    lac_wire *wire;
    lac_socket *socket;
    uint64_t seq, heard_ms, probed_ms;
    bool leaving; /* the tick belongs to the farewell */
    /* From any thread. */
    uv_async_t wake;
    pthread_mutex_t lock;
    bool connected, stopping;
    uint32_t references; /* the client itself and each stream not yet freed */
    uint64_t last_id;
    lac_stream *streams; /* by id, ended ones included until they are released */
    client_question *questions;
};

/* ---- error.c: the text of lac_client_error, one a thread ---- */
int client_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- stream.c ---- */
/* With the lock held: ends the stream unless it has ended, and wakes its reader. */
void stream_end(lac_stream *stream, int result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* With the lock held, internal thread: takes a chunk in, or ends the stream if it does not fit. */
void stream_add(lac_stream *stream, const lac_chunk *chunk);
/* It will not be sent again. */
void stream_forget_submit(lac_stream *stream);
/* With the lock held: what the coordinator says it runs; NULL changes nothing. */
void stream_account(lac_stream *stream, const lac_run_account *account);
/* With the lock held. Takes it out of its client's table and frees it. */
void stream_free(lac_stream *stream);

/* ---- loop.c: the internal thread ---- */
/* Opens loop and socket, starts the thread. */
lac_status loop_start(lac_client *client, lac_error *err);
/* Tells the thread that there is something to do. Any thread. */
void loop_wake(lac_client *client);
/* Stops and joins it; frees loop and socket. */
void loop_stop(lac_client *client);

/* ---- inbound.c: what the coordinator says, on the internal thread ---- */
void inbound_message(lac_client *client, const lac_msg *msg);
/* Ends every stream that was sent: its answer cannot be known any more. */
void inbound_lost(lac_client *client, const char *why);

/* ---- status_json.c ---- */
/* malloc'd. */
char *status_json(const lac_status_reply *reply);
char *path_json(const lac_path_reply *reply);
char *plan_json(const lac_plan_reply *reply);
char *ordered_json(const lac_ordered *reply);
/* jobs_json.c */
char *jobs_json(const lac_job_reply *reply);

/* ---- client.c ---- */
/* Asks and waits; the answer as JSON, malloc'd. A library code. */
int client_ask(lac_client *client, client_question *q, int timeout_ms, char **json);
void client_unref(lac_client *client);       /* with the lock held, which it lets go of */
void client_cond_init(pthread_cond_t *cond); /* on the monotonic clock */
void client_deadline(int timeout_ms, struct timespec *out);
/* With the lock held; false once the time is over. `end` NULL waits for ever. */
bool client_wait(pthread_cond_t *changed, pthread_mutex_t *lock, const struct timespec *end);

#endif
