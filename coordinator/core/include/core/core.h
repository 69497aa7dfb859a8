/* The coordinator's decisions, as a pure state machine: step(now, event) → actions. No clock,
 * socket, thread or disk inside; every queue is bounded; the same events give the same actions. The
 * loop thread owns it.
 *
 * Four kinds of peers speak to it, all in the messages of base/msg.h: workers; native clients; the
 * HTTP front end, which is one more client (plane LAC_PLANE_HTTP, peer 0) whose streams are its
 * exchanges; and the runner of batch jobs (LAC_PLANE_BATCH). */
#ifndef LAC_CORE_H
#define LAC_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fleet.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/msg.h"
#include "base/status.h"
#include "core/jobs.h"
#include "core/models.h"
#include "core/tenant.h"

typedef struct lac_core lac_core;

/* BATCH is the runner of batch jobs: one more client (peer 0), whose requests stand behind all
 * others in the queue and take nothing of its room. */
typedef enum { LAC_PLANE_WORKER, LAC_PLANE_CLIENT, LAC_PLANE_HTTP, LAC_PLANE_BATCH } lac_plane;

/* Groups that a launcher runs for this core. */
typedef struct {
    uint32_t groups_max;           /* it can have at once; 0 = there is no launcher */
    uint32_t start_min, start_max; /* groups at first; equal: just so many, else by load */
    const char *prefix;            /* of their names, followed by a number; not copied */
    double slots_per_group;        /* until the first one says; 0 = 16 */
    double wait_target_ms;         /* in the queue; half of it adds a group; 0 = no promise */
} lac_core_fleet_options;

typedef struct {
    uint64_t epoch;            /* this start's number, > 0, already on disk */
    uint64_t seed;             /* of the core's own random numbers (incarnations, missing seeds) */
    uint32_t queue_max;        /* requests waiting centrally; 0 = 256 */
    uint64_t queue_tokens_max; /* their estimated tokens; 0 = 1 << 20 */
    uint32_t lease_ms, suspect_ms, heartbeat_ms; /* 0 = limits.h */
    uint64_t bytes_max;       /* prompts and answers kept in memory; 0 = 512 MiB */
    const char *policy;       /* routing: "cost" (NULL too), "least-loaded" or "round-robin" */
    const char *http_address; /* shown by status; not copied */
    lac_core_fleet_options fleet;
    lac_tier tier_max;    /* what certificates must keep to; NONE: requests run in full */
    uint32_t brownout_ms; /* a wait of that long is saturation: tenants that allow it run deeper
                             classes; 0 = never */
    double shadow_share;  /* of requests that run as a class, scored again in full; 0 … 1 */
    bool allow_force;     /* clients may force a class, certified or not */
    /* What people should know, as one log line, and the format it was made of; NULL drops it. Must
     * not call back into the core. */
    void (*note)(void *note_arg, lac_log_level level, const char *format, const char *text);
    void *note_arg;
} lac_core_options;

/* All that decisions take from the bytes of a prompt: who has these can repeat them without the
 * prompt. */
typedef struct {
    uint8_t type, task, bucket; /* the fingerprint */
    uint64_t content;           /* a seeded hash of the whole */
    uint32_t blocks_count;
    uint64_t blocks[LAC_PREFIX_BLOCKS_MAX]; /* the chain of seeded hashes of its first bytes */
} lac_prompt_facts;

typedef enum {
    LAC_EVENT_MESSAGE, /* a validated message from a peer */
    LAC_EVENT_LOST,    /* a peer's connection is known to be gone */
    LAC_EVENT_FLEET,   /* what the launcher sees: all of it */
    LAC_EVENT_TICK     /* time has passed; at least every 100 ms */
} lac_event_kind;

typedef struct {
    lac_event_kind kind;
    lac_plane plane;
    uint64_t peer;                 /* the transport's number for a connection; never reused */
    const lac_msg *msg;            /* MESSAGE: read during the step, not kept */
    const lac_prompt_facts *facts; /* of a SUBMIT; NULL: they are taken from its prompt */
    const lac_fleet_entry *fleet;  /* FLEET: read during the step, not kept */
    size_t fleet_count;
    int64_t wall_s;  /* TICK: wall time for what people read; 0 = unknown */
    uint32_t lag_ms; /* TICK: how late the loop's timer came */
} lac_event;

/* One message to one peer. The core fills the envelope's type, epoch and session; `msg` and all it
 * points to live until the sink returns. */
typedef struct {
    lac_plane plane;
    uint64_t peer;
    const lac_msg *msg;
} lac_action;
/* Returns LAC_OK; LAC_BUSY when the peer's queue is full; LAC_EPEER when it is gone. The core deals
 * with the result in the same step. Must not call back into the core. */
typedef lac_status (*lac_core_sink)(void *arg, const lac_action *action);

/* NULL when the policy's name is unknown. */
lac_core *lac_core_create(const lac_core_options *options, lac_metrics *metrics, lac_core_sink sink,
                          void *sink_arg);
void lac_core_destroy(lac_core **core);

/* `now_ms` never goes back. */
void lac_core_step(lac_core *core, uint64_t now_ms, const lac_event *event);

/* What a step would take from that prompt. */
void lac_core_prompt_facts(const lac_core *core, const lac_submit *submit, lac_prompt_facts *out);
/* Stop accepting: new requests are refused with a retry time, running ones go on. */
void lac_core_drain(lac_core *core, uint64_t now_ms);
/* No new work for one group; after `deadline_ms` (0 = LAC_DRAIN_MS) what still runs there moves to
 * another. LAC_ENOTFOUND when no living group has that name. */
lac_status lac_core_drain_group(lac_core *core, uint64_t now_ms, const char *group,
                                uint32_t deadline_ms);
/* The groups that the launcher should run now: all others of its own are to end. */
size_t lac_core_fleet_wanted(const lac_core *core, lac_fleet_group *out, size_t max);
/* How many groups to launch from now on; equal limits: just so many. LAC_EUNSUPPORTED without a
 * launcher, LAC_EINVAL beyond what it can have. */
lac_status lac_core_scale(lac_core *core, uint64_t now_ms, uint32_t groups_min, uint32_t groups_max,
                          lac_error *err);
/* The rules for tenants from now on, instead of those before; copied. What tenants have used up and
 * what waits stays. Names differ; a weight is 1 … LAC_TENANT_WEIGHT_MAX. LAC_ETOOBIG, LAC_ENOMEM:
 * the old ones stay. */
lac_status lac_core_set_tenants(lac_core *core, uint64_t now_ms, const lac_tenant *rows,
                                size_t count, lac_error *err);
/* Default, aliases and rows from now on; copied. LAC_EEXIST: an alias twice; LAC_EINVAL: a type or
 * task that is none. */
lac_status lac_core_set_models(lac_core *core, const lac_model_names *names, lac_error *err);
/* What a tenant (NULL or "": without one) says of an answer, once. LAC_ENOTFOUND: not among the
 * last that ended, or another's; LAC_EEXIST: said already. */
lac_status lac_core_feedback(lac_core *core, const char *tenant, uint64_t request, bool good,
                             lac_error *err);
/* The guards of classes as text, to be kept over a restart: the version moves when they change. */
uint64_t lac_core_guards_version(const lac_core *core);
void lac_core_guards_save(const lac_core *core, lac_buf *out);
/* Before the first event. LAC_EUNSUPPORTED (another form), LAC_ECORRUPT (a line). */
lac_status lac_core_guards_load(lac_core *core, const char *text, lac_error *err);
/* What people see: as the answer to a status query, `status` and all it points to live until `take`
 * returns. */
void lac_core_status(lac_core *core, void (*take)(void *arg, const lac_status_reply *status),
                     void *arg);
/* Appends all metrics as text: those of the registry, and those that are made at each reading. */
void lac_core_metrics(lac_core *core, lac_buf *out);
/* Requests that are queued or running, or whose client has not taken all of its answer yet. */
size_t lac_core_live(const lac_core *core);
/* How busy the fleet is, with and without batch items. */
void lac_core_jobs_load(const lac_core *core, lac_jobs_load *out);
/* At least one READY group, and not draining. */
bool lac_core_ready(const lac_core *core);

/* The models READY groups serve and their aliases: calls `each` once a distinct name. */
typedef struct {
    const char *name, *root, *architecture; /* root: the model that an alias means, or the name */
    uint32_t context_max;
    int64_t created_s; /* wall time the first group came, for /v1/models; from the last tick */
} lac_core_model;
void lac_core_models(const lac_core *core, void (*each)(void *arg, const lac_core_model *model),
                     void *arg);

/* Every invariant the slow way; aborts on a broken one. For tests; a step checks the cheap ones. */
void lac_core_audit(const lac_core *core);
/* True if the policy exists. */
bool lac_core_policy_known(const char *name);

#endif
