/* The C client library of Lacuna: submit a prompt to a coordinator, pull the answer as it comes.
 *
 * One internal thread owns the connection; every function here is safe from any thread. Functions
 * that can fail return 0 or a negative LAC_CLIENT_… code and leave a text for lac_client_error().
 */
#ifndef LACUNA_CLIENT_H
#define LACUNA_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LAC_CLIENT_API __attribute__((visibility("default")))

typedef struct lac_client lac_client;
typedef struct lac_stream lac_stream;

enum {
    LAC_CLIENT_OK = 0,
    LAC_CLIENT_TIMEOUT = -1, /* nothing came in time; the stream goes on */
    LAC_CLIENT_INVALID = -2, /* an argument, or the server refused the request as malformed */
    LAC_CLIENT_BUSY = -3,    /* the server is full: see lac_stream_retry_after_ms */
    LAC_CLIENT_LOST = -4,    /* no connection to the coordinator */
    LAC_CLIENT_FAILED = -5   /* the request failed on the server */
};

/* `endpoint` like "tcp://127.0.0.1:7070"; NULL = that one. Connecting goes on in the background. */
LAC_CLIENT_API int lac_client_connect(const char *endpoint, lac_client **out);
/* The same to a coordinator that asks for keys: `key` is this program's key file, `server_key` the
 * file with the coordinator's public key. Both NULL: as above. */
LAC_CLIENT_API int lac_client_connect_keyed(const char *endpoint, const char *key,
                                            const char *server_key, lac_client **out);
/* Makes a pair of keys: PATH, for its owner alone, and PATH.pub. Never over a file that is there.
 */
LAC_CLIENT_API int lac_client_key_make(const char *path);
/* Makes an API key for HTTP: the key itself (shown once) and the hash that the server keeps of it.
 */
enum { LAC_CLIENT_API_KEY = 68, LAC_CLIENT_API_HASH = 64 };
LAC_CLIENT_API void lac_client_api_key_make(char key[LAC_CLIENT_API_KEY + 1],
                                            char hash[LAC_CLIENT_API_HASH + 1]);
/* Cancels what still runs, stops the thread, frees. Accepts a NULL client, clears the pointer. */
LAC_CLIENT_API void lac_client_close(lac_client **client);
/* The last error text of the calling thread. Never NULL. */
LAC_CLIENT_API const char *lac_client_error(void);
LAC_CLIENT_API const char *lac_client_version(void);

typedef struct {
    const char *role; /* "system", "user", "assistant" */
    const char *content;
} lac_client_message;

typedef struct {
    size_t size;        /* sizeof(lac_client_request): set by the initialiser below */
    const char *model;  /* NULL = the server's default */
    const char *prompt; /* raw text, or NULL with messages */
    const lac_client_message *messages;
    size_t messages_count;
    uint32_t max_tokens; /* 0 = as many as fit */
    double temperature, top_p, min_p;
    int top_k;
    int has_seed;
    uint64_t seed;
    const char *const *stops;
    size_t stops_count;
    uint32_t deadline_ms; /* 0 = none */
    const char *hint;     /* names a class, as `lacuna plan show` prints it: advice; NULL = none */
    int sparse; /* 1 = a certified class if there is one, -1 = full, 0 = the server's way */
    const char *class_name; /* forces one, where the server allows it; NULL = none */
    /* Refused because the server is full or a quota is used up: asks again after the time it was
     * told, while that is within so long of the first; 0 = that is an error at once. */
    uint32_t patience_ms;
} lac_client_request;
#define LAC_CLIENT_REQUEST_INIT                                                                    \
    {                                                                                              \
        .size = sizeof(lac_client_request), .temperature = 1.0, .top_p = 1.0                       \
    }

/* Starts a request; never blocks on the network. The stream is the caller's, to be closed. */
LAC_CLIENT_API int lac_client_submit(lac_client *client, const lac_client_request *request,
                                     lac_stream **out);

typedef struct {
    const char *text; /* whole UTF-8 characters, not NUL-ended; lives until the next call */
    size_t length;
    const uint32_t *tokens;
    size_t tokens_count;
    int done;           /* nothing comes after this piece */
    const char *finish; /* with done: "stop", "length", … */
} lac_client_piece;

/* Waits for the next piece. LAC_CLIENT_TIMEOUT after timeout_ms (−1 = for ever). After the piece
 * with `done`, or an error other than TIMEOUT, the stream has ended and every call says the same
 * again. */
LAC_CLIENT_API int lac_stream_next(lac_stream *stream, int timeout_ms, lac_client_piece *piece);
/* Tells the server to stop; what is on its way may still come. */
LAC_CLIENT_API void lac_stream_cancel(lac_stream *stream);
LAC_CLIENT_API void lac_stream_usage(const lac_stream *stream, uint32_t *prompt_tokens,
                                     uint32_t *completion_tokens);
/* Prompt tokens that the server did not have to compute; 0 before the end. */
LAC_CLIENT_API uint32_t lac_stream_cached_tokens(const lac_stream *stream);
/* What the request runs, or ran: known from the first piece on, with its numbers after the last.
 * LAC_CLIENT_TIMEOUT while nothing is known. The texts live as long as the stream. */
typedef struct {
    const char *class_name, *mask, *why; /* "full" leaves nothing out; mask like "A7,A25" */
    uint32_t layers, active_layers;
    double skip_rate, cost_skip_rate; /* of all units; the same by cost */
    double flops;
    uint64_t kv_bytes;
    int forced;
} lac_client_account;
LAC_CLIENT_API int lac_stream_account(lac_stream *stream, lac_client_account *account);
LAC_CLIENT_API uint32_t lac_stream_retry_after_ms(const lac_stream *stream);
LAC_CLIENT_API void lac_stream_close(lac_stream **stream);

/* The cluster's state as JSON text (malloc'd, the caller frees). */
LAC_CLIENT_API int lac_client_status(lac_client *client, int timeout_ms, char **json);

/* How the coordinator would judge this text, which is not served: features, input type, task,
 * fingerprint, class, reasons. JSON text (malloc'd, the caller frees). */
LAC_CLIENT_API int lac_client_path(lac_client *client, const char *text, size_t length,
                                   int timeout_ms, char **json);

/* How many groups the coordinator shall launch from now on: `groups_min` = `groups_max`: just so
 * many, else by load. JSON {"text":…} says what will happen (malloc'd, the caller frees). */
LAC_CLIENT_API int lac_client_scale(lac_client *client, uint32_t groups_min, uint32_t groups_max,
                                    int timeout_ms, char **json);
/* No new work for a group, which then ends; after deadline_ms (0 = the server's own) what still
 * runs there moves to another. */
LAC_CLIENT_API int lac_client_drain(lac_client *client, const char *group, uint32_t deadline_ms,
                                    int timeout_ms, char **json);

/* Was the answer of a request good? Counted by the class that gave it, once for each request, which
 * must be one of lately and of the same key. JSON {"text":…} (malloc'd, the caller frees). */
LAC_CLIENT_API int lac_client_feedback(lac_client *client, uint64_t request, int good,
                                       int timeout_ms, char **json);

/* Batch jobs: many requests at once, kept on the server's disk and run when it has time. An answer
 * that says so means that what was submitted is on disk. */
typedef struct {
    const char *custom_id; /* your name for it; NULL = none */
    const char *body;      /* a request as the HTTP API takes it, JSON text */
    size_t length;         /* of it */
} lac_client_item;

typedef struct {
    size_t size;          /* sizeof(lac_client_job): set by the initialiser below */
    const char *key;      /* the same key again is the same job; NULL = a new one */
    const char *endpoint; /* "/v1/chat/completions" (NULL too) or "/v1/completions" */
    int priority;         /* −2 … 2 */
    uint32_t attempts_max; /* starts of one item before it is given up; 0 = 3 */
    uint32_t window_s;     /* what has not run by then expires; 0 = never */
    const lac_client_item *items;
    size_t items_count; /* 1 … 50,000 */
} lac_client_job;
#define LAC_CLIENT_JOB_INIT                                                                        \
    {                                                                                              \
        .size = sizeof(lac_client_job)                                                             \
    }

/* All of these answer JSON {"jobs":[…],"results":[…],"more":…,"next":…} (malloc'd, the caller
 * frees). `timeout_ms` is for each message on the way. */
LAC_CLIENT_API int lac_client_job_submit(lac_client *client, const lac_client_job *job,
                                         int timeout_ms, char **json);
/* The newest `limit` (0 = 100), or those before the job `after`. */
LAC_CLIENT_API int lac_client_jobs(lac_client *client, uint64_t after, unsigned limit,
                                   int timeout_ms, char **json);
LAC_CLIENT_API int lac_client_job_show(lac_client *client, uint64_t job, int timeout_ms,
                                       char **json);
/* Ended items from place `first` on; while "more", ask again from "next" on. */
LAC_CLIENT_API int lac_client_job_results(lac_client *client, uint64_t job, unsigned first,
                                          int timeout_ms, char **json);
/* Stops what runs and starts no more. Of a job that has ended it changes nothing. */
LAC_CLIENT_API int lac_client_job_cancel(lac_client *client, uint64_t job, int timeout_ms,
                                         char **json);
/* Until it has ended; LAC_CLIENT_TIMEOUT (with *json set all the same) after timeout_ms, −1 = for
 * ever. */
LAC_CLIENT_API int lac_client_job_wait(lac_client *client, uint64_t job, int timeout_ms,
                                       char **json);

/* How a request of lately was judged, by the number its log line or reply has. */
LAC_CLIENT_API int lac_client_path_of(lac_client *client, uint64_t request, int timeout_ms,
                                      char **json);
/* The classes the coordinator knows, with certificates and guards. */
LAC_CLIENT_API int lac_client_plan(lac_client *client, int timeout_ms, char **json);
/* Runs every request as that class from now on ("full" too); NULL ends it. Answers as
 * lac_client_plan does. */
LAC_CLIENT_API int lac_client_force(lac_client *client, const char *class_name, int timeout_ms,
                                    char **json);

#ifdef __cplusplus
}
#endif

#endif
