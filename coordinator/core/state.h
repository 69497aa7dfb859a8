/* What the files of the core share: its records; calls.h has the calls between them. Nothing here
 * is visible outside this folder. One thread owns all of it; there is no clock and no I/O behind
 * any call.
 *
 * Who owns what: registry.c the groups, ranks and sessions; forming.c how ranks become a group;
 * verdict.c what silence means; breaker.c groups that fail; requests.c the records and
 * which of queued / running / done each is in; queue.c admission and the central queue; router.c
 * the choice of a group; tenant.c rights and quotas; fair.c whose turn it is; recovery.c what
 * happens to requests of a group that is gone; poison.c which contents kill; output.c what workers
 * produce; delivery.c what clients get; client.c what clients ask; status.c what people see;
 * fleet.c the groups that are launched for us. */
#ifndef LAC_CORE_STATE_H
#define LAC_CORE_STATE_H

#include <stdlib.h>

#include "base/assert.h"
#include "base/limits.h"
#include "base/rng.h"
#include "base/text.h"
#include "core/core.h"
#include "core/scaler.h"
#include "guard.h"
#include "health.h"
#include "type.h"

#define uthash_fatal(text) lac__assert_fail("uthash: " text, __FILE__, __LINE__)
#include <uthash.h>

typedef struct lac__request lac__request;
typedef struct lac__group lac__group;
typedef struct lac__class lac__class;
typedef struct lac__model lac__model;
typedef struct lac__tenant lac__tenant;

/* ---- intrusive lists of requests: each record is in exactly one ---- */

typedef struct {
    lac__request *head, *tail;
    size_t count;
} lac__list;

/* ---- tenants ---- */

typedef struct {
    uint64_t limit; /* a minute; 0 = none */
    int64_t level;  /* in 1/60000 of one; below 0 is debt */
    uint64_t at_ms;
} lac__bucket;

typedef enum {
    LAC__QUOTA_REQUESTS,
    LAC__QUOTA_TOKENS,
    LAC__QUOTA_CONCURRENCY,
    LAC__QUOTA_DENIED,
    LAC__QUOTAS
} lac__quota_kind;

struct lac__tenant {
    UT_hash_handle hh; /* by its name */
    lac_tenant rules;
    uint8_t salt[16]; /* of cached prefixes; zero without a name */
    lac__bucket requests, tokens;
    uint32_t records;         /* that point here */
    uint32_t live;            /* of them queued or running */
    lac__list queue;          /* linked by kin_prev, kin_next */
    lac__tenant *prev, *next; /* among those that wait */
    lac__request *cursor;     /* during a pass: the next to look at */
    int64_t lacks;            /* and what it has too little for that one */
    int64_t deficit;          /* tokens of work it may still send */
};

/* How deep a request may go: usually, and while the server is saturated. */
typedef struct {
    lac_tier usual, brownout;
} lac__tiers;

/* ---- models and their classes ---- */

/* Lives while a group holds it or a request runs as it: `holders`. */
struct lac__class {
    lac__model *model;
    lac_class_facts facts; /* its mask is `mask` */
    char *mask;
    uint32_t holders;
    uint64_t requests, tokens; /* ended; output */
    lac_metric *requests_total, *tokens_total, *duration, *itl, *kv_saved;
};

struct lac__model {
    char name[LAC_MODEL_NAME_MAX + 1];
    char architecture[LAC_NAME_MAX + 1];
    uint32_t context_max;
    int64_t created_s;
    uint32_t ready; /* READY groups that serve it */
    bool blocked;   /* during one pass over the queue: no group has room */
    struct {
        bool on;
        uint64_t since_ms;   /* since when it looks the other way; 0 = it does not */
        double busy, thrift; /* share of slots in use; cost of what it runs, without it: 1 */
    } brownout;
    lac__class *classes[LAC_MODEL_CLASSES_MAX];
    uint32_t classes_count;
    char forced[LAC_NAME_MAX + 1]; /* every request runs as that class; "" = as it is decided */
    lac_digest plan;               /* over all that decisions depend on besides the fingerprint */
    uint64_t plan_version;         /* core->classes_version that `plan` is of */
    uint64_t tripped_ms[LAC_INPUT_TYPES]; /* when a guard of the type last opened; 0 = never */
    uint64_t held_until_ms;               /* all run in full until then: several types tripped */
    lac_metric *full_duration, *full_itl; /* of requests in full */
    double kv_row_bytes; /* keys and values that full keeps of a token; 0 = not known yet */
};

/* ---- groups ---- */

typedef enum {
    LAC__GROUP_NONE = 0,
    LAC__GROUP_PROVISIONING, /* some of its ranks are there */
    LAC__GROUP_FORMING,      /* all are, and were told what to load */
    LAC__GROUP_READY,
    LAC__GROUP_SUSPECT,  /* silent, stalled or disconnected: no new work, streams kept */
    LAC__GROUP_DRAINING, /* no new work; what runs may finish */
    LAC__GROUP_FENCED,   /* declared dead: nothing of this incarnation counts any more */
    LAC__GROUP_STOPPED,  /* drained and gone */
    LAC__GROUP_STATES
} lac__group_state;

typedef enum {
    LAC__GROUP_JOINED,  /* first barrier: every rank is there and can be reached */
    LAC__GROUP_FORMED,  /* second barrier: every rank has loaded */
    LAC__GROUP_LATE,    /* no frame for suspect_ms, or busy without a step for LAC_STALLED_MS */
    LAC__GROUP_ALIVE,   /* frames and steps again */
    LAC__GROUP_LOST,    /* a connection is known to be gone */
    LAC__GROUP_EXPIRED, /* the lease ran out */
    LAC__GROUP_HUNG,    /* heartbeats without steps */
    LAC__GROUP_FAULT,   /* it says so itself, or spoke nonsense too often */
    LAC__GROUP_SICK,    /* slower than its own baseline for long */
    LAC__GROUP_DRAIN,   /* asked to stop, by people or by itself */
    LAC__GROUP_DRAINED,
    LAC__GROUP_EVENTS
} lac__group_event;

/* How far a rank has come. */
typedef enum {
    LAC__RANK_KNOCKING, /* it asked for its group's incarnation */
    LAC__RANK_JOINED,   /* the others can reach it; it has loaded nothing */
    LAC__RANK_FORMED,   /* it has loaded and met the others; the only rank of a group always */
    LAC__RANK_PHASES
} lac__rank_phase;

typedef struct {
    uint64_t peer;
    UT_hash_handle hh; /* by peer */
    lac__group *group;
    uint32_t rank;
    lac__rank_phase phase;
    bool told; /* what it is to load */
    bool lost; /* a send or the transport said so: dealt with when the step settles */
    char host[LAC_NAME_MAX + 1];
    uint8_t *address;
    uint32_t address_bytes;
    lac_digest config_digest; /* FORMED */
    uint32_t layer_first, layer_end, erased_units;
    uint64_t weight_bytes;
    uint64_t session;
    uint64_t pid;
    uint64_t seen_ms; /* last frame */
    bool probed;      /* asked to say Hello again during this silence */
    lac_heartbeat beat;
    uint64_t beat_ms; /* when `beat` came; 0 = none yet */
    uint64_t step_ms; /* when the step counter last moved, or it was last idle */
    uint32_t protocol_errors;
} lac__rank;

/* The chain of block hashes of a prompt's first bytes. */
typedef struct {
    uint64_t blocks[LAC_PREFIX_BLOCKS_MAX];
    uint32_t count;
} lac__prefix;

/* Chains a group was given lately. */
typedef struct {
    uint64_t blocks[LAC_PREFIX_TABLE], seen_ms[LAC_PREFIX_TABLE];
} lac__prefix_table;

typedef struct {
    double prefill_ms, itl_ms;
} lac__prices;

/* Milliseconds; see cost.c. */
typedef struct {
    double queue, prefill, own, harm, change, total;
    uint32_t hit; /* blocks of its prefix the group likely has */
} lac__cost;

/* Why a group was chosen. */
typedef struct {
    double score, second; /* of the winner and of the next best */
    lac__cost cost;       /* zero for policies that do not know it */
    uint32_t candidates;
    bool home, bounded, explored;
} lac__choice;

/* How fast a group usually is, by itself. */
enum { LAC__STEPS_KEPT = 100, LAC__LOADS = 8 };

typedef struct {
    double itl_us;
    uint32_t samples;
} lac__baseline;

typedef struct {
    uint32_t steps_ms[LAC__STEPS_KEPT], next, count; /* mean step between two heartbeats */
    lac__baseline baselines[LAC__LOADS];             /* by log2 of the running sequences */
    uint64_t slow_ms;                                /* slower than its baseline since; 0 = not */
} lac__pace;

typedef struct {
    uint32_t failures, successes; /* in a row */
    bool open;                    /* half open from until_ms on */
    uint64_t until_ms, probe;     /* probe: the one request that is tried while half open */
} lac__breaker;

struct lac__group {
    lac__group *prev, *next; /* order of arrival */
    char id[LAC_NAME_MAX + 1];
    lac__group_state state;
    uint64_t state_ms; /* since */
    uint8_t incarnation[16];
    char isa[LAC_NAME_MAX + 1];
    lac_digest digest;
    lac__model *model;
    lac__class *classes[LAC_CLASSES_MAX - 1]; /* full is not among them */
    uint32_t classes_count;
    uint32_t layers, slots, context_max;
    uint64_t kv_pages;
    lac__rank *ranks[LAC_RANKS_MAX]; /* NULL = not connected */
    uint32_t ranks_count, pp, tp;
    uint32_t first_rank; /* whose Hello made the record */
    lac_digest plan_digest, config_digest;
    bool lost;                 /* one of its ranks is */
    uint64_t drain_until_ms;   /* 0 = its own business */
    uint64_t blocked_until_ms; /* it was full lately: no dispatch before */
    lac__list running;
    uint32_t excess; /* sequences it reported beyond the ones we know of */
    uint64_t dispatch_seq, dispatched;
    uint64_t turn; /* round-robin: when it last got something */
    uint64_t born_ms, name_hash;
    uint64_t prefill_tokens; /* of its requests that have no token yet */
    lac__prefix_table prefixes;
    lac__pace pace;
    lac__breaker breaker;
    lac__baseline full[LAC__LOADS]; /* time between tokens while nobody there runs as a class */
    uint64_t vanished_ms;           /* when its silence made it SUSPECT; 0 = never */
    uint64_t serial; /* counts up from 1: names this start even when the record is gone */
};

/* ---- requests ---- */

typedef enum {
    LAC__REQUEST_NEW,     /* in no list yet */
    LAC__REQUEST_QUEUED,  /* in core->queue */
    LAC__REQUEST_RUNNING, /* in its group's list */
    LAC__REQUEST_DONE,    /* in core->done: its end is known, its client has not got it all */
    LAC__REQUEST_STATES
} lac__request_state;

typedef enum { LAC__END_NONE, LAC__END_DONE, LAC__END_REFUSED } lac__end;

/* What is held against a request when it is taken off a group. */
typedef enum {
    LAC__BLAME_NONE,
    LAC__BLAME_DOUBT, /* the connection is gone: a crash unless the same start comes back */
    LAC__BLAME_CRASH
} lac__blame;

/* Why a queued request may not be dispatched yet. */
typedef enum {
    LAC__HOLD_NONE,
    LAC__HOLD_BACKOFF,
    LAC__HOLD_DOUBT,  /* until it is known whether it killed its groups */
    LAC__HOLD_BUDGET, /* the fleet retries too much already */
    LAC__HOLD_GIVE_UP /* the budget was spent for LAC_RETRY_WAIT_MS */
} lac__hold;

enum { LAC__DOUBTS_MAX = LAC_MOVES_MAX + 1 };

/* Hashed as bytes, so it has no padding: `plane` is a lac_plane. */
typedef struct {
    uint64_t plane, peer, stream;
} lac__stream_key;

/* A logprob held for a client without credit; one block with its texts. */
typedef struct lac__held_logprob {
    struct lac__held_logprob *next;
    lac_logprob value;
} lac__held_logprob;

struct lac__request {
    lac__request *prev, *next; /* of the list it is in */
    uint64_t id;
    lac__stream_key key;
    UT_hash_handle hh;        /* by id; its insertion order is the order of arrival */
    UT_hash_handle hh_stream; /* by key */
    lac__request_state state;

    char model[LAC_MODEL_NAME_MAX + 1]; /* as asked; "" = the default */
    lac__model *served;                 /* NULL while no group that serves it was ever seen */
    void *memory;                       /* what prompt and sampling point into */
    lac_prompt prompt;
    lac_sampling sampling;
    bool echo;
    char trace[LAC_TRACE_MAX + 1];
    lac__fingerprint fingerprint; /* of the prompt, from admission on */
    lac_digest fingerprint_key;
    lac__tenant *tenant;               /* NULL for the record of a refusal */
    lac__request *kin_prev, *kin_next; /* QUEUED: of its tenant's queue */
    int64_t work;                      /* it was charged when it was dispatched first */
    uint64_t reserved;                 /* of its tenant's tokens */
    lac_service service;
    uint64_t tokens_estimate, bytes;
    uint64_t arrived_ms, deadline_ms; /* absolute; 0 = none */
    int64_t order_ms;                 /* its place in the queue: arrival, moved by priority */
    uint64_t nobody_ms;               /* when waiting for any READY group began; 0 = not waiting */

    lac__class *class; /* held; NULL = full */
    bool decided;      /* `class` and `why` stand */
    bool forced, eligible, shadow;
    bool path_told; /* the client knows of its class */
    bool chosen;    /* a class was chosen for it: what that promised is in the next four */
    float chosen_skip, chosen_cost;
    lac_scope chosen_scope;
    lac__miss miss;   /* why it went on in full after all */
    bool has_account; /* `account` is what the worker said */
    bool has_tier;
    lac_sparse sparse;
    lac_tier tier_max;
    char hint[LAC_HINT_TEXT_MAX + 1], force[LAC_NAME_MAX + 1];
    char why[LAC_WHY_MAX + 1];
    uint32_t layers;                   /* of the group that ran it last */
    char last_group[LAC_NAME_MAX + 1]; /* its name */
    lac_run_account account;

    lac__group *group;  /* RUNNING */
    lac__choice choice; /* why that one, or the one before */
    lac__prefix chain;  /* of its prompt alone */
    lac__prefix prefix; /* the same under its model and class */
    uint64_t charged;   /* of its group's prefill_tokens */
    uint32_t attempt;   /* counted before dispatch */
    uint32_t moves, crashes;
    uint64_t doubts[LAC__DOUBTS_MAX]; /* serials of groups that may have died of it */
    uint32_t doubts_count;
    uint32_t crash_pos;     /* what it had accepted when it was last taken off a dying group */
    bool beyond;            /* and that was further on than the time before */
    uint64_t not_before_ms; /* backoff */
    uint64_t budget_ms;     /* since when it waits for the retry budget; 0 = not waiting */
    uint64_t content;       /* hash of what was asked */
    uint64_t confirmed;     /* the session whose Hello listed it last */
    uint64_t dispatch_seq;
    uint64_t group_ms; /* RUNNING since */

    uint64_t first_ms, token_ms; /* the first and the last token came; 0 = none yet */
    uint32_t *accepted;          /* tokens taken from workers, each position once */
    uint32_t accepted_count, accepted_cap;
    bool bare_text; /* text without tokens was taken at position bare_pos */
    uint32_t bare_pos;
    lac_usage usage;

    uint32_t sent_count; /* tokens the client has */
    lac_buf text;        /* text it has not */
    lac__held_logprob *held_head, *held_tail;
    uint32_t held_count;
    uint32_t credit;
    uint64_t starved_ms;  /* since when something waits for the client; 0 = nothing does */
    uint64_t given_up_ms; /* since when only the word that it is given up waits; 0 = it is not */
    bool acknowledged;    /* ACCEPTED was sent */
    bool orphan;          /* its client is gone */
    lac__end end;
    lac_finish finish;
    lac_status status;
    lac_cause cause;
    uint32_t retry_after_ms;
    char reason[LAC_REASON_MAX + 1];
};

/* ---- the core ---- */

typedef enum {
    LAC__OUTCOME_STOP,
    LAC__OUTCOME_LENGTH,
    LAC__OUTCOME_CANCEL,
    LAC__OUTCOME_ERROR,  /* the worker refused it or failed on it */
    LAC__OUTCOME_BUSY,   /* 429 */
    LAC__OUTCOME_NOBODY, /* 503 */
    LAC__OUTCOME_DEADLINE,
    LAC__OUTCOME_INVALID, /* unknown model, duplicate stream */
    LAC__OUTCOME_LOST,    /* moved too often, or poison */
    LAC__OUTCOMES
} lac__outcome;

/* Of the records, those kept for refusals that find their client's queue full. */
enum { LAC__REFUSALS_KEPT = LAC_REQUESTS_MAX / 16 };

/* Why a request is not let in. */
typedef struct {
    lac__outcome outcome;
    lac_status status;
    uint32_t retry_after_ms;
    lac_cause cause;
    lac__tenant *tenant; /* NULL: not known */
    char reason[LAC_REASON_MAX + 1];
} lac__refusal;

/* Why a request was refused although nothing is wrong with it. */
typedef enum {
    LAC__SHED_QUEUE,    /* as many wait as may */
    LAC__SHED_DEADLINE, /* it would wait beyond its own */
    LAC__SHED_RECORDS,
    LAC__SHED_MEMORY,
    LAC__SHEDS
} lac__shed;

typedef struct {
    lac_metric *requests[LAC__OUTCOMES];
    lac_metric *groups[LAC__GROUP_STATES];
    lac_metric *verdicts[LAC__GROUP_EVENTS];
    lac_metric *queue_requests, *queue_tokens, *running;
    lac_metric *given_up;
    lac_metric *ttft, *queue_wait, *duration, *itl;
    lac_metric *shed[LAC__SHEDS];
    lac_metric *prompt_tokens, *cached_tokens, *output_tokens;
    lac_metric *quotas[LAC__QUOTAS], *routed;
    lac_metric *brownouts, *brownout, *browned;
    lac_metric *sheds, *freezes, *frozen, *breaker_opens, *breakers_open;
    lac_metric *budget_waits, *forgiven, *guarded, *quarantined, *quarantine_size;
    lac_metric *duplicates, *stale, *fenced, *protocol_errors, *moves, *reregisters;
} lac__meters;

enum { LAC__RATE_SECONDS = 60, LAC__RATE_SHORT = 10 };

typedef struct {
    uint32_t counts[LAC__RATE_SECONDS];
    uint64_t second;
} lac__rate;

typedef struct {
    uint64_t content;
    struct {
        uint64_t group, ms; /* its serial; 0 = none */
    } deaths[LAC_GUARD_DEATHS];
    uint32_t next;
} lac__suspicion;

typedef struct {
    struct {
        uint64_t content, until_ms;
    } quarantine[LAC_QUARANTINE_MAX];
    size_t quarantine_count;
    lac__suspicion suspicions[LAC_QUARANTINE_MAX];
    size_t suspicions_count;
} lac__poison;

/* ---- paths ---- */

/* Why a request has the class it has, in order of how near it came to one. */
typedef enum {
    LAC__WHY_NO_PLAN,
    LAC__WHY_TYPE,     /* nothing is certified for its type */
    LAC__WHY_TIER,     /* only at a tier that is not allowed */
    LAC__WHY_GUARD,    /* it tripped */
    LAC__WHY_NO_GROUP, /* no READY group has it */
    LAC__WHY_CERTIFIED
} lac__why;

/* What became of a hint. */
typedef enum {
    LAC__HINT_HONOURED,
    LAC__HINT_LENGTH, /* refused: it is none */
    LAC__HINT_UNKNOWN,
    LAC__HINT_UNCERTIFIED,
    LAC__HINT_TRIPPED,
    LAC__HINT_DEVIATES, /* too far from what we would choose */
    LAC__HINT_ENDS
} lac__hint_end;

/* Why a request with a class went on in full. */
typedef enum { LAC__FELL_NO_GROUP, LAC__FELL_NO_ROOM, LAC__FELL_WORKER, LAC__FELL } lac__fell;

typedef struct {
    lac_metric *hints[LAC__HINT_ENDS], *fell[LAC__FELL];
    lac_metric *guards[LAC__GUARD_STATES], *guard_changes[LAC__GUARD_STATES];
    lac_metric *eligible, *masked, *skip_rate, *shadows;
    lac_metric *chosen, *served, *now[LAC__HEALTH_CHECKS], *changed[LAC__TYPES];
} lac__path_meters_t;

typedef struct {
    lac_digest digest;
    lac_input_type type;
    lac__guard guard;
} lac__guard_entry;

typedef struct {
    lac__guard_entry entries[LAC_GUARDS_MAX];
    uint32_t count;
    uint64_t version; /* moves when there is something to save */
} lac__guards;

/* What is kept of a request that ended. */
typedef struct {
    uint64_t request;
    lac__fingerprint fingerprint;
    char class_name[LAC_NAME_MAX + 1], group[LAC_NAME_MAX + 1], why[LAC_WHY_MAX + 1];
    char tenant[LAC_NAME_MAX + 1];
    bool masked, eligible, judged;
    lac__outcome outcome;
    uint64_t ended_ms;
    uint32_t tokens, total_ms;
} lac__kept_path;

typedef struct lac__policy lac__policy;
typedef struct lac__fleet lac__fleet;

struct lac_core {
    lac_core_options options;
    lac_metrics *metrics;
    lac__meters meters;
    lac_metric *by_type[LAC__TYPES], *by_hint[LAC__HINTS];
    lac_core_sink sink;
    void *sink_arg;
    lac_rng rng;
    const lac__policy *policy;

    const lac_prompt_facts *facts; /* of the SUBMIT in hand; NULL in any other step */
    uint64_t now_ms, start_ms;
    bool started;
    int64_t wall_s;
    uint64_t steps;
    bool draining;

    lac__model models[LAC_MODELS_MAX]; /* [0] is the default where none is configured */
    lac_model_names names;
    size_t models_count;

    lac__group *groups_head, *groups_tail;
    size_t groups_count;
    lac__rank *ranks; /* uthash by peer */
    uint64_t sessions, turns;
    uint8_t fenced[LAC_FENCED_MAX][16];
    size_t fenced_count, fenced_next;
    bool unsettled; /* a group was lost or a client vanished in this step */

    lac__request *by_id, *by_stream; /* uthash */
    size_t orphans;                  /* records whose client was found gone in this step */
    uint64_t requests_made;
    lac__path_meters_t path;
    lac__health health;
    struct {
        uint64_t minute;
        uint32_t worst_ms[2]; /* of this minute and of the one before */
    } lag;
    lac__decisions *decisions;
    lac__guards guards;
    uint64_t classes_version; /* moves when a class, a certificate, a group or a guard does */
    lac__kept_path kept[LAC_PATHS_KEPT];
    uint32_t kept_next;
    lac__tenant *tenants; /* uthash by name */
    lac__tenant *waiting_head, *waiting_tail;
    lac_tenant *rules;
    size_t rules_count;
    lac__list queue, done;
    size_t running_count;
    uint32_t batch_queued, batch_running; /* of those, batch items */
    uint64_t batch_tokens;                /* of queue_tokens */
    uint64_t queue_tokens, bytes;
    bool pump; /* the queue may be able to move */

    lac__rate ended, arrived, retried; /* requests */
    lac__rate offered;                 /* refused ones too */
    double slot_ms_mean;               /* that a request is at a group, smoothed */
    lac__fleet *fleet;                 /* NULL: nothing is launched for us */
    lac__poison poison;
    uint64_t hash_seed, groups_made;
    double output_mean; /* tokens a request makes, smoothed */
    struct {
        uint64_t since_ms;      /* verdicts are frozen; 0 = they are not */
        uint64_t rest_until_ms; /* no freezing again before */
    } freeze;
    uint64_t requests_total, tokens_total;
};

#include "calls.h"

#endif
