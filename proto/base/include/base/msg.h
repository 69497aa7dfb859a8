/* The validated plain form of every message between processes: the codec fills and reads these,
 * core events carry them. No socket and no protobuf type is visible here.
 *
 * Pointers inside a decoded message point into the message's own memory and live until
 * lac_msg_free(); in a message to be sent they are the sender's and need only outlive the encode.
 * Long text is (pointer, length) and may hold NUL bytes; short text is a fixed NUL-ended array.
 * "UTF-8" below means checked by the validator. */
#ifndef LAC_BASE_MSG_H
#define LAC_BASE_MSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/class_facts.h"
#include "base/digest.h"
#include "base/job.h"
#include "base/limits.h"
#include "base/sampling.h"
#include "base/status.h"

enum { LAC_PROTO_MAJOR = 1, LAC_PROTO_MINOR = 3 };

typedef enum {
    LAC_MSG_NONE = 0,
    /* worker → coordinator */
    LAC_MSG_HELLO = 1,
    LAC_MSG_HEARTBEAT = 2,
    LAC_MSG_STEP_OUTPUT = 3,
    LAC_MSG_DRAINED = 4,
    LAC_MSG_FAULT = 5,
    LAC_MSG_SHADOW = 6,
    /* coordinator → worker */
    LAC_MSG_HELLO_ACK = 16,
    LAC_MSG_HELLO_REJECT = 17,
    LAC_MSG_REREGISTER = 18,
    LAC_MSG_DIE = 19,
    LAC_MSG_DISPATCH = 20,
    LAC_MSG_CANCEL = 21,
    LAC_MSG_DRAIN = 22,
    LAC_MSG_FORM = 28,
    /* client → coordinator */
    LAC_MSG_SUBMIT = 32,
    LAC_MSG_CLIENT_CANCEL = 33,
    LAC_MSG_CREDIT = 34,
    LAC_MSG_STATUS_QUERY = 35,
    LAC_MSG_PATH_QUERY = 36,
    LAC_MSG_PLAN_QUERY = 37,
    LAC_MSG_PATH_FORCE = 38,
    LAC_MSG_SCALE = 39,
    LAC_MSG_DRAIN_GROUP = 40,
    LAC_MSG_FEEDBACK = 46,
    /* coordinator → client */
    LAC_MSG_ACCEPTED = 48,
    LAC_MSG_TOKENS = 49,
    LAC_MSG_DONE = 50,
    LAC_MSG_REFUSED = 51,
    LAC_MSG_STATUS_REPLY = 52,
    LAC_MSG_PATH_REPLY = 53,
    LAC_MSG_PLAN_REPLY = 54,
    LAC_MSG_ORDERED = 55,
    /* client → coordinator: batch jobs, and what answers them */
    LAC_MSG_JOB_SUBMIT = 64,
    LAC_MSG_JOB_QUERY = 65,
    LAC_MSG_JOB_CANCEL = 66,
    LAC_MSG_JOB_REPLY = 80
} lac_msg_type;

typedef struct {
    uint16_t major, minor;
    uint16_t type;    /* a lac_msg_type; unknown ones are counted and dropped by the receiver */
    uint64_t epoch;   /* the coordinator's; 0 before a worker knows it, and on the client plane */
    uint64_t session; /* of the accepted Hello; 0 before it */
    uint64_t seq;     /* counts up from 1 per sender and session */
} lac_envelope;

typedef struct {
    const char *data; /* not NUL-ended; NULL when length is 0 */
    uint32_t length;
} lac_span;

/* ---- a request's input ---- */

typedef enum { LAC_PROMPT_NONE, LAC_PROMPT_CHAT, LAC_PROMPT_TEXT, LAC_PROMPT_IDS } lac_prompt_kind;

typedef struct {
    char role[LAC_ROLE_BYTES_MAX + 1]; /* [a-z_]+ */
    lac_span content;                  /* UTF-8, as every text here */
    lac_span reasoning;                /* of an assistant: what it thought before */
    lac_span calls;   /* of an assistant: JSON array of {"id", "name", "arguments": an object} */
    lac_span call_id; /* of a tool: the call it answers */
} lac_chat_message;

/* What is wanted of a prompt. All but TEXT are answered by one chunk of text without tokens. */
typedef enum {
    LAC_WANT_TEXT,        /* what follows it */
    LAC_WANT_TOKENS,      /* its ids, as "[1,2,3]" */
    LAC_WANT_TEXT_OF_IDS  /* their text; bytes that are none become U+FFFD */
} lac_want;

/* Of models that think before they answer. */
typedef enum { LAC_THINKING_DEFAULT, LAC_THINKING_ON, LAC_THINKING_OFF } lac_thinking;

typedef struct {
    lac_prompt_kind kind;
    lac_want want;
    uint32_t messages_count; /* chat: 1 … LAC_MESSAGES_MAX */
    const lac_chat_message *messages;
    lac_span text; /* text: UTF-8, ≤ LAC_PROMPT_BYTES_MAX */
    uint32_t ids_count;
    const uint32_t *ids; /* ids: 1 … LAC_CONTEXT_MAX */
    lac_span suffix;     /* text: what stands behind the gap to fill; empty = none */
    bool parts;          /* the answer's text is divided into parts: base/parts.h */
    bool without_bos;    /* text: nothing is put before it, whatever the model's file says */
    /* Chat alone. */
    lac_span tools; /* JSON array of the functions that may be called, ≤ LAC_TOOLS_BYTES_MAX */
    bool tool_required; /* the answer is a call: of tool_name, or of any while that is "" */
    bool one_call;      /* no second call in one answer */
    char tool_name[LAC_NAME_MAX + 1];
    lac_thinking thinking;
} lac_prompt;

typedef struct {
    uint32_t prompt_tokens;
    uint32_t completion_tokens;
    uint32_t cached_tokens; /* prompt tokens whose keys and values were already there */
} lac_usage;

typedef enum {
    LAC_FINISH_NONE = 0,
    LAC_FINISH_STOP = 1,   /* end token or stop string */
    LAC_FINISH_LENGTH = 2, /* max_tokens or context full */
    LAC_FINISH_CANCEL = 3,
    LAC_FINISH_ERROR = 4
} lac_finish;
const char *lac_finish_name(lac_finish finish); /* "stop", "length", "cancel", "error", "none" */

typedef struct {
    uint32_t token;
    float logprob; /* natural log, of the distribution before temperature and filters; ≥ −1e9 */
    lac_span text; /* the token's bytes, perhaps half a character */
} lac_top_logprob;

typedef struct {
    lac_top_logprob chosen;
    uint32_t top_count;
    const lac_top_logprob *top; /* descending */
} lac_logprob;

/* Tokens one sequence gained. Text is whole UTF-8 characters with stop strings already cut, so it
 * may lag behind the tokens; concatenated it is the answer. */
typedef struct {
    uint32_t first_pos; /* index of tokens[0] in the completion, counted from 0 */
    uint32_t tokens_count;
    const uint32_t *tokens;
    lac_span text;
    uint32_t logprobs_count; /* 0 or tokens_count */
    const lac_logprob *logprobs;
} lac_chunk;

/* ---- worker plane ---- */

typedef struct {
    uint64_t request;
    uint32_t attempt;
    uint32_t next_pos;
} lac_running;

typedef struct {
    char group[LAC_NAME_MAX + 1]; /* [A-Za-z0-9._-]+ */
    uint8_t incarnation[16];      /* zero from a hand-started rank: the coordinator gives one */
    uint32_t rank, pp, tp;        /* rank < pp × tp ≤ LAC_RANKS_MAX */
    uint64_t features;
    uint64_t pid;
    char model[LAC_MODEL_NAME_MAX + 1]; /* [A-Za-z0-9._-]+ */
    lac_digest model_digest;
    char architecture[LAC_NAME_MAX + 1];
    char chat_family[LAC_NAME_MAX + 1]; /* "" when chat is not possible */
    char isa[LAC_NAME_MAX + 1];
    uint32_t layers, vocab, context_max;
    uint32_t slots;                 /* sequences it runs at once, 1 … LAC_SLOTS_MAX */
    uint64_t kv_pages, model_bytes; /* totals */
    uint32_t threads;
    uint32_t running_count;
    const lac_running *running;
    uint32_t classes_count; /* < LAC_CLASSES_MAX; full is not among them, every group serves it */
    const lac_class_facts *classes;
    /* Of one rank of several; the only rank of a group leaves all of it out. */
    char host[LAC_NAME_MAX + 1]; /* names this start of its machine: what shares memory */
    lac_span address;       /* where the others reach it, ≤ LAC_FABRIC_BLOB_MAX; NULL until it
                               has an incarnation */
    lac_digest plan_digest; /* over all that the ranks must have alike */
    bool formed;            /* it has loaded, under this config: */
    lac_digest config_digest;
    uint32_t layer_first, layer_end; /* of its stage, once formed: first … end − 1 */
    uint32_t erased_units;           /* of those layers: not in memory */
} lac_hello;

typedef struct {
    uint64_t session, epoch;
    uint8_t incarnation[16];
    uint32_t heartbeat_ms, lease_ms;
} lac_hello_ack;

typedef struct {
    uint16_t major_min, major_max;
    char reason[LAC_REASON_MAX + 1];
} lac_hello_reject;

/* All ranks are there: what they are to be, and where each reaches the others. */
typedef struct {
    uint8_t incarnation[16];
    lac_span config; /* text of base/group_config.h, the same for all; LAC_GROUP_CONFIG_MAX */
    lac_digest config_digest;
    uint32_t addresses_count;  /* pp × tp ≥ 2 */
    const lac_span *addresses; /* in order of rank, ≤ LAC_FABRIC_BLOB_MAX each */
} lac_form;

/* What a worker ran as one class since it started. */
typedef struct {
    uint32_t index; /* 0 = full, else 1 + the place in its Hello */
    uint32_t active_layers;
    uint64_t requests, tokens; /* ended; rows run */
    float skip_rate, cost_skip_rate;
} lac_class_beat;

/* Published by the engine thread's own progress, not by a helper that can live on alone. */
typedef struct {
    uint64_t report_seq;
    uint64_t step_counter;
    bool busy;
    uint64_t step_age_ms;     /* how long the present step has run; 0 when idle */
    uint32_t queued, running; /* sequences */
    uint64_t kv_pages_used, kv_pages;
    uint64_t dispatch_seq_seen;            /* highest, for the router's local accounting */
    uint64_t prompt_tokens, output_tokens; /* totals since start */
    uint32_t itl_us;     /* smoothed gap between tokens of a sequence; 0 = none yet */
    uint32_t prefill_us; /* smoothed cost of one prompt token; 0 = none yet */
    uint64_t rss_bytes;
    uint32_t active_layers; /* of the last step */
    bool draining;
    uint32_t classes_count; /* ≤ LAC_CLASSES_MAX, full included; 0 = not reported */
    lac_class_beat classes[LAC_CLASSES_MAX];
    uint64_t class_reruns;  /* requests a class failed on, run again in full; total */
    uint64_t class_unknown; /* dispatches that named a class it does not have; total */
    uint64_t shadows;       /* requests scored afterwards; total */
    uint64_t erased_bytes,
        released_bytes; /* of units erased in every class: of them not in memory */
} lac_heartbeat;

typedef struct {
    uint64_t request;
    uint32_t attempt;
    lac_chunk chunk;
    lac_finish finish;
    lac_usage usage;                 /* complete once finish is set */
    lac_status error;                /* finish == LAC_FINISH_ERROR */
    char reason[LAC_REASON_MAX + 1]; /* and its text: names field, value and limit */
    const lac_run_account *account;  /* with the end, and when the class changed; else NULL */
} lac_step_item;

typedef struct {
    uint32_t items_count;
    const lac_step_item *items;
} lac_step_output;

typedef struct {
    uint64_t request;
    uint32_t attempt;
    uint64_t dispatch_seq;
    uint32_t deadline_ms; /* remaining; 0 = none */
    lac_prompt prompt;
    uint32_t accepted_count; /* tokens already produced by an earlier attempt */
    const uint32_t *accepted;
    lac_sampling sampling; /* has_seed is true */
    bool echo;             /* completions: the prompt's own text leads the answer */
    bool has_class;        /* false: full */
    lac_digest class_digest;
    lac_input_type input_type; /* LAC_INPUT_TYPES = unknown; shadow reports carry it back */
    bool shadow;               /* score it afterwards under full */
    uint8_t cache_salt[16];    /* cached prefixes are shared only under the same one */
    char trace[LAC_TRACE_MAX + 1]; /* of the request, for logs; "" = none */
} lac_dispatch;

/* One masked request, scored afterwards under its class and in full over the tokens it produced; or
 * the canary texts of the plan, all of a type together. */
typedef struct {
    lac_digest class_digest;
    lac_input_type input_type;
    uint32_t tokens;  /* scored, ≥ 1 */
    double kl_mean;   /* nats, full to class, ≥ 0 */
    float top1_agree; /* 0 … 1 */
    float top1_p,
        top1_p_full; /* mean probability of the best token, class and full; 0 = not said */
    bool canary;
} lac_shadow;

typedef struct {
    uint64_t request;
    uint32_t attempt;
} lac_cancel;

typedef struct {
    uint32_t deadline_ms;
} lac_drain;

typedef struct {
    lac_status status;
    char reason[LAC_REASON_MAX + 1];
} lac_fault;

typedef struct {
    char reason[LAC_REASON_MAX + 1];
} lac_die;

/* ---- client plane; `stream` is the client's own number for a request ---- */

/* May a class be chosen? */
typedef enum {
    LAC_SPARSE_DEFAULT, /* as the server is set */
    LAC_SPARSE_ON,      /* the best certified one, if any */
    LAC_SPARSE_OFF      /* full */
} lac_sparse;

/* What a request is to be to the server: how soon, and how much may be left out for it. */
typedef enum {
    LAC_SERVICE_AUTO,     /* as its tenant is set; brownout if that allows it */
    LAC_SERVICE_STANDARD, /* as its tenant is set, no brownout */
    LAC_SERVICE_FLEX,     /* later, and with the deepest class its tenant allows */
    LAC_SERVICE_PRIORITY, /* sooner, gold classes at most, no brownout */
    LAC_SERVICES
} lac_service;

typedef struct {
    uint64_t stream;
    char model[LAC_MODEL_NAME_MAX + 1]; /* "" = the default */
    lac_prompt prompt;
    lac_sampling sampling;
    uint32_t deadline_ms;
    uint32_t credit;  /* Tokens messages the client takes before it grants more; ≥ 1 */
    bool echo;        /* text prompts: the prompt's own text leads the answer */
    int32_t priority; /* −LAC_PRIORITY_MAX … LAC_PRIORITY_MAX; 0 = normal, higher goes first */
    char hint[LAC_HINT_TEXT_MAX + 1]; /* "" = none; the core judges its form */
    lac_sparse sparse;
    bool has_tier;
    lac_tier tier_max;            /* with has_tier: no class of a higher tier */
    char force[LAC_NAME_MAX + 1]; /* a class by name, certified or not; "" = none */
    lac_service service;
    char trace[LAC_TRACE_MAX + 1]; /* the W3C traceparent it belongs to; "" = none */
} lac_submit;

typedef struct {
    uint64_t stream;
} lac_client_cancel;

typedef struct {
    uint64_t stream;
    uint32_t messages;
} lac_credit;

/* What a tenant may use a minute and what of it is left; a limit of 0 does not exist. */
typedef struct {
    uint64_t requests_limit, requests_left;
    uint64_t tokens_limit, tokens_left;
    uint32_t requests_reset_ms, tokens_reset_ms; /* until all of it is there again */
} lac_quota;

typedef struct {
    uint64_t stream;
    uint64_t request;
    char model[LAC_MODEL_NAME_MAX + 1];
    lac_quota quota;
} lac_accepted;

typedef struct {
    uint64_t stream;
    lac_chunk chunk;
    const lac_run_account *account; /* with the first tokens of a class: what it is; else NULL */
} lac_tokens;

typedef struct {
    uint64_t stream;
    lac_finish finish;
    lac_usage usage;
    const lac_run_account *account; /* NULL when nobody gave one */
} lac_done;

/* Where the status alone does not say it. */
typedef enum {
    LAC_CAUSE_NONE,
    LAC_CAUSE_QUOTA,  /* BUSY: its tenant has used up what it may */
    LAC_CAUSE_DENIED, /* REFUSED: its tenant may not do that at all */
    LAC_CAUSES
} lac_cause;

typedef struct {
    uint64_t stream; /* 0: the message as a whole was refused */
    lac_status status;
    uint32_t retry_after_ms;
    char reason[LAC_REASON_MAX + 1];
    lac_cause cause;
    lac_quota quota;
} lac_refused;

/* How good an answer was, by its number. Answered by ORDERED, or REFUSED. */
typedef struct {
    uint64_t stream;
    uint64_t request;
    bool good;
} lac_feedback;

typedef struct {
    uint64_t stream;
} lac_status_query;

typedef struct {
    uint32_t rank;
    uint64_t pid;
    uint32_t active_layers;
    uint64_t rss_bytes;
    uint32_t layer_first, layer_end; /* it holds first … end − 1; 0, 0 until it has loaded */
    uint32_t erased_units;           /* of them: not in memory */
    uint64_t weight_bytes;           /* of the rest */
    char host[LAC_NAME_MAX + 1];     /* "" = not said */
} lac_rank_status;

/* A class on one group. */
typedef struct {
    char name[LAC_NAME_MAX + 1];
    uint32_t running, active_layers;
    uint64_t tokens;
    float skip_rate, cost_skip_rate;
} lac_class_status;

typedef struct {
    char id[LAC_NAME_MAX + 1];
    char state[LAC_NAME_MAX + 1]; /* "READY", "SUSPECT", … */
    char model[LAC_MODEL_NAME_MAX + 1];
    char isa[LAC_NAME_MAX + 1];
    uint32_t layers, slots, running, queued;
    uint64_t kv_pages_used, kv_pages;
    uint32_t itl_us;
    uint64_t output_tokens;
    uint64_t heartbeat_age_ms;
    uint32_t ranks_count;
    const lac_rank_status *ranks;
    uint32_t classes_count; /* ≤ LAC_CLASSES_MAX, full first; 0 from a group that reports none */
    const lac_class_status *classes;
    uint32_t pp, tp; /* stages and ranks of a stage; rank = stage × tp + part */
} lac_group_status;

typedef struct {
    uint64_t stream;
    char version[LAC_NAME_MAX + 1];
    char http[LAC_ENDPOINT_MAX + 1]; /* the address served, "" when none */
    uint64_t epoch, uptime_ms;
    uint32_t queued, running;
    uint64_t requests_total, tokens_total;
    uint32_t groups_count;
    const lac_group_status *groups;
    uint64_t queued_tokens; /* estimated prompt tokens of those queued */
    uint32_t streams;       /* requests whose client has not got all of its answer */
    uint32_t checks_count;  /* ≤ LAC_CHECKS_MAX */
    const lac_check *checks;
    uint32_t decided_count; /* ≤ LAC_DECIDED_MAX, the newest first */
    const lac_decided *decided;
} lac_status_reply;

/* "How would you judge this prompt?" It is not served. Or, with `request`: "how did you judge that
 * one?" */
typedef struct {
    uint64_t stream;
    lac_prompt prompt; /* kind NONE with `request` */
    uint64_t request;  /* 0 = the prompt is asked about */
    char model[LAC_MODEL_NAME_MAX + 1];
} lac_path_query;

typedef struct {
    char name[LAC_NAME_MAX + 1];
    uint32_t value; /* 0 … 1000 */
} lac_path_feature;

typedef struct {
    uint64_t stream;
    char type[LAC_NAME_MAX + 1], task[LAC_NAME_MAX + 1]; /* "structured", "summarize" */
    uint32_t tokens_max;                                 /* of the length bucket; 0 = no bound */
    lac_digest fingerprint;
    char class_name[LAC_NAME_MAX + 1];
    char class_reason[LAC_REASON_MAX + 1]; /* printable ASCII, both */
    char type_reason[LAC_REASON_MAX + 1];
    uint32_t features_count;
    const lac_path_feature *features;
    uint64_t request;             /* the one asked about, 0 for a prompt */
    const char *mask;             /* of the class; NULL = none */
    char group[LAC_NAME_MAX + 1]; /* where that request ran last, "" for a prompt */
} lac_path_reply;

/* "Which classes do you know?" */
typedef struct {
    uint64_t stream;
} lac_plan_query;

/* From now on every request of a model runs as that class, certified or not; "" ends it. Answered
 * by PLAN_REPLY, or REFUSED. */
typedef struct {
    uint64_t stream;
    char class_name[LAC_NAME_MAX + 1]; /* also "full" */
    char model[LAC_MODEL_NAME_MAX + 1];
} lac_path_force;

/* How many groups to launch from now on; equal: just so many, else by load. Answered by ORDERED, or
 * REFUSED. */
typedef struct {
    uint64_t stream;
    uint32_t groups_min, groups_max;
} lac_scale;

/* No new work for a group, which then ends. Answered by ORDERED, or REFUSED. */
typedef struct {
    uint64_t stream;
    char group[LAC_NAME_MAX + 1];
    uint32_t deadline_ms; /* then what still runs moves; 0 = the server's own */
} lac_drain_group;

/* An order was taken: what will happen, for people. */
typedef struct {
    uint64_t stream;
    char text[LAC_REASON_MAX + 1];
} lac_ordered;

/* A class and an input type, as the guard sees them. */
typedef struct {
    char state[LAC_NAME_MAX + 1]; /* "closed", "open", "half-open", "revoked" */
    double evidence;              /* of the e-process; trips at 10⁴ */
    uint64_t shadows, trips;
} lac_guard_status;

typedef struct {
    char model[LAC_MODEL_NAME_MAX + 1];
    lac_class_facts facts;
    uint32_t groups; /* READY ones that hold it */
    uint64_t requests, tokens;
    bool forced;
    lac_guard_status guards[LAC_INPUT_TYPES]; /* state "" where nothing is certified */
} lac_known_class;

typedef struct {
    uint64_t stream;
    lac_tier tier_max;             /* what the server allows */
    char forced[LAC_NAME_MAX + 1]; /* of the default model; "" = none */
    uint32_t classes_count;        /* ≤ LAC_PLAN_CLASSES_MAX */
    const lac_known_class *classes;
} lac_plan_reply;

/* ---- batch jobs; all three are answered by JOB_REPLY, or REFUSED ---- */

typedef struct {
    lac_span custom_id; /* the client's name for it, UTF-8, ≤ LAC_JOB_CUSTOM_ID_MAX */
    lac_span body;      /* the request as JSON, UTF-8 */
} lac_job_item;

/* Items of a job, in pieces: the same key is the same job, so that a piece whose answer was lost can
 * be sent again. It runs once a piece came without `more`. */
typedef struct {
    uint64_t stream;
    char key[LAC_JOB_KEY_MAX + 1]; /* [A-Za-z0-9._-]+ */
    lac_job_endpoint endpoint;
    int32_t priority;
    uint32_t attempts_max; /* 0 = LAC_JOB_ATTEMPTS */
    uint32_t window_s;     /* its deadline, from now on; 0 = none */
    uint32_t first;        /* place of items[0] in the job */
    bool more;
    uint32_t items_count; /* ≥ 1 in the first piece */
    const lac_job_item *items;
} lac_job_submit;

typedef struct {
    uint64_t stream;
    uint64_t job;   /* 0: the newest jobs are listed, from behind `after` on */
    bool results;   /* of that job: its ended items, from place `first` on */
    uint32_t first;
    uint32_t limit; /* 0 = as many as fit */
    uint64_t after;
} lac_job_query;

typedef struct {
    uint64_t stream, job;
} lac_job_cancel;

/* An item with its end. */
typedef struct {
    uint32_t index; /* its place in the job */
    lac_item_state state;
    uint32_t attempts, http, prompt_tokens, completion_tokens;
    char class_name[LAC_NAME_MAX + 1]; /* it ran as; "" = nobody said */
    lac_span custom_id, reply;         /* JSON; empty when it was never answered */
} lac_job_result;

typedef struct {
    uint64_t stream;
    uint32_t jobs_count; /* ≤ LAC_JOBS_PAGE_MAX */
    const lac_job_view *jobs;
    uint32_t results_count; /* ≤ LAC_JOB_RESULTS_PAGE_MAX */
    const lac_job_result *results;
    bool more;     /* there are further ones */
    uint32_t next; /* results: where they begin */
} lac_job_reply;

/* ---- any message ---- */

typedef struct {
    lac_envelope envelope;
    union {
        lac_hello hello;
        lac_heartbeat heartbeat;
        lac_step_output step_output;
        lac_fault fault; /* also DRAINED, which needs no body: left empty */
        lac_shadow shadow;
        lac_hello_ack hello_ack;
        lac_hello_reject hello_reject;
        lac_die die; /* also REREGISTER */
        lac_dispatch dispatch;
        lac_cancel cancel;
        lac_drain drain;
        lac_form form;
        lac_submit submit;
        lac_client_cancel client_cancel;
        lac_credit credit;
        lac_status_query status_query;
        lac_accepted accepted;
        lac_tokens tokens;
        lac_done done;
        lac_refused refused;
        lac_status_reply status_reply;
        lac_path_query path_query;
        lac_path_reply path_reply;
        lac_plan_query plan_query;
        lac_path_force path_force;
        lac_scale scale;
        lac_drain_group drain_group;
        lac_ordered ordered;
        lac_plan_reply plan_reply;
        lac_job_submit job_submit;
        lac_job_query job_query;
        lac_job_cancel job_cancel;
        lac_job_reply job_reply;
        lac_feedback feedback;
    } body;
    void *memory; /* what the pointers point into; NULL in a message to be sent */
    /* On the client plane: whose key brought it. Never on the wire; set by whoever checked the key.
     * NULL or "": nobody asked for one. */
    const char *tenant;
} lac_msg;

/* Frees a decoded message's memory. Accepts NULL fields, clears them. */
void lac_msg_free(lac_msg *msg);
const char *lac_msg_name(uint16_t type); /* "hello", … or "unknown" */

#endif
