/* The engine: a model in memory, its KV pool, and the sequences that run on it. Takes token ids, gives
 * tokens and finished text; batches everything that runs. Knows no sockets, no chat templates, no
 * files but the model. One thread owns it and calls everything below, except where said. */
#ifndef LAC_ENGINE_H
#define LAC_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/class.h"
#include "base/mask.h"
#include "base/msg.h"
#include "base/sampling.h"
#include "base/status.h"
#include "base/unit.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "tokenizer/tokenizer.h"

typedef struct lac_engine lac_engine;

/* A set of units that requests of this class leave out, and what stands in for them. */
typedef struct {
    const char *name; /* 1 … LAC_NAME_MAX bytes, unique, not "full" */
    lac_mask mask;    /* only units of the model */
    lac_scope scope;  /* DECODE: prompts run in full, what is generated leaves the units out */
    const lac_patch *patches; /* [patches_count] ascending units of the mask; read by create only */
    uint32_t patches_count;
    /* Looks at a prompt's first rows, and may send the request back to full; NULL: none. Copied. Not used in
     * a group of ranks, nor where the class leaves out a unit of the layers it looks at. */
    const struct lac_probe *probe;
} lac_engine_class;

/* Running tokens that the text itself suggests as extra rows of a step (worker/spec). The answer is the
 * same in every setting. */
typedef enum {
    LAC_SPECULATE_AUTO, /* as many as measured time says is a gain */
    LAC_SPECULATE_OFF,
    LAC_SPECULATE_ON /* as many as there are, whatever they cost: to test and to measure */
} lac_speculate;
bool lac_speculate_parse(const char *name, lac_speculate *out); /* "auto", "off", "on" */

/* This engine as one rank of a group. Rank 0 leads: its engine takes requests and runs like any
 * other, and every step runs on all ranks. The others call lac_engine_follow(). Ranks must be given
 * the same model, classes, sizes and placement: create compares digests before anything is loaded. */
typedef struct {
    struct lac_fabric *fabric; /* connected; outlives the engine. NULL: a group of one */
    const struct lac_placement *placement; /* of the model over the fabric's ranks; outlives the engine */
    uint32_t deadline_ms;           /* of one message within a step; 0 = LAC_FABRIC_STEP_MS */
} lac_engine_group;

typedef struct {
    const char *model_path;
    uint32_t threads;       /* 0 = cores this process may use */
    bool pin;
    lac_isa isa;
    const char *device;     /* NULL or "cpu", "cuda", "cuda:N"; read by create alone */
    uint32_t context_max;   /* 0 = the model's own */
    uint32_t slots;         /* sequences at once, 1 … LAC_SLOTS_MAX; 0 = 16 */
    uint32_t queue_max;     /* sequences waiting for a slot or pages; 0 = 64 */
    lac_kv_type kv_type;    /* F16, or Q8 for half the bytes; float32 activations keep F16 as F32 */
    uint64_t kv_bytes;      /* 0 = min(25 % of RAM / ranks_here, 16 full contexts) */
    uint32_t ranks_here;    /* engines that share this machine; 0 = 1 */
    uint32_t itl_target_ms; /* shapes the prefill chunk while others decode; 0 = 50 */
    /* Classes 1 … classes_count (< LAC_CLASSES_MAX), copied; class 0 is "full", an empty mask. Units
     * that no live class runs are not loaded. */
    const lac_engine_class *classes;
    uint32_t classes_count;
    bool without_full; /* class 0 is not live: requests of it are LAC_EREFUSED */
    bool keep_zeroed;  /* run units that are provably zero like any other, to compare */
    bool without_prefix_cache; /* compute every prompt from its first token */
    lac_speculate speculate;
    /* Called during load with bytes done and all; may be NULL. */
    void (*progress)(void *arg, uint64_t done, uint64_t total);
    void *progress_arg;
    lac_engine_group group;
} lac_engine_options;

/* With more than one rank create also fails when another rank's does: LAC_EPEER with its reason,
 * LAC_EPROTO naming both digests when two ranks were given different things. */
lac_status lac_engine_create(const lac_engine_options *options, lac_engine **out, lac_error *err);
void lac_engine_destroy(lac_engine **engine);

/* Read-only parts; both are safe from any thread while the engine lives. */
const lac_model *lac_engine_model(const lac_engine *engine);
const lac_tokenizer *lac_engine_tokenizer(const lac_engine *engine); /* NULL in a follower */

typedef struct {
    const char *isa;
    uint32_t threads, slots, context_max;
    lac_kv_type kv_type;
    uint64_t kv_bytes, kv_pages;
    uint64_t kv_pages_used;   /* sequences hold them */
    uint64_t kv_pages_cached; /* only the prefix cache holds them: free when needed */
    uint64_t weight_bytes;
    uint32_t running, queued;
    uint64_t steps, prompt_tokens, output_tokens;
    uint64_t cached_tokens; /* prompt tokens that need not be computed */
    uint64_t preemptions;
    uint64_t draft_tokens, draft_accepted; /* guessed and run; of them part of the answer */
    double itl_us, prefill_us_per_token; /* smoothed; 0 before the first */
    uint32_t active_layers;              /* of the last step */
    uint32_t classes_count;              /* class 0 included */
    uint32_t units_count, units_loaded;  /* 2 a layer; of them in memory */
    uint32_t units_zeroed;               /* provably zero in the file */
    uint64_t unit_tokens, unit_tokens_skipped;
    double flops;
    uint64_t class_reruns;  /* sequences whose class failed or grew unsure, run again in full */
    uint64_t class_unsure;  /* of them those whose entropy rose */
    uint64_t class_doubted; /* of them those whose probe said no */
    uint64_t dropped_bytes; /* weights of units that are not in memory */
} lac_engine_stats;
void lac_engine_stats_read(const lac_engine *engine, lac_engine_stats *out);

/* The number of a class by name; false when there is none. */
bool lac_engine_class_find(const lac_engine *engine, const char *name, uint32_t *index);
/* A class as this engine runs it; false when there is no such number. Texts live as long as the
 * engine; facts never change, counters do. */
typedef struct {
    const char *name, *mask; /* the mask as it was given, canonical text; "" for full */
    bool live;
    uint32_t active_layers;
    double skip_rate, cost_skip_rate; /* of a row */
    double cost;                      /* weight bytes a row reads, of those of full */
    uint64_t requests, tokens;        /* that ended as this class; rows run as it */
} lac_engine_class_facts;
bool lac_engine_class_read(const lac_engine *engine, uint32_t index, lac_engine_class_facts *out);
/* State of a unit in this engine. Of an erased one *record (or NULL) says what stays of it. */
lac_unit_state lac_engine_unit(const lac_engine *engine, uint32_t unit, lac_unit_record *record);

typedef struct {
    uint64_t id; /* the caller's; unique among live sequences */
    const uint32_t *prompt; /* copied; ≥ 1 token, ≤ context_max − 1 */
    size_t prompt_count;
    const uint32_t *accepted; /* output of an earlier attempt to continue; copied */
    size_t accepted_count;
    lac_sampling sampling;   /* copied, has_seed true; its text of a grammar is not read */
    struct lac_grammar *grammar; /* the answer must match it; NULL = free; held by the sequence too */
    bool raw_text;           /* special tokens in the output give their text */
    /* 0 = full. A sequence keeps its class from its first row to its last: keys and values of units it
     * leaves out are never made, so there is no call that gives it those units back. To go on with
     * more units, cancel it and submit prompt and accepted tokens anew under the other class:
     * everything is then computed again from position 0. */
    uint32_t class_index;
    /* The class holds from this position on, ≤ prompt_count; the rows before it run in full. What is
     * left out there is never read again, so its keys and values are given back. A class of scope
     * DECODE holds from the end of the prompt, whatever this says. LAC_EREFUSED above 0 where the
     * engine has not loaded what full needs. */
    uint32_t class_from;
    /* Requests share cached keys and values only with those of the same salt: a tenant cannot see by
     * its waiting time what another one sent. All zero: shared by all who give none. */
    uint8_t cache_salt[16];
} lac_engine_request;

/* Queues a sequence. LAC_EINVAL (field, value, limit), LAC_ETOOBIG (prompt over the context or the
 * pool), LAC_EEXIST, LAC_BUSY when queue_max wait, LAC_EREFUSED for a class that is not live. */
lac_status lac_engine_submit(lac_engine *engine, const lac_engine_request *request, lac_error *err);
/* Drops a sequence before the next step; its pages are free at once and no event follows.
 * LAC_ENOTFOUND when it is not (any more) there. */
lac_status lac_engine_cancel(lac_engine *engine, uint64_t id);

/* What a request ran, recomputed rows included. FLOPs by the formula in erasure/account.h. */
typedef struct {
    uint32_t class_index;
    const char *class_name;
    uint32_t layers, active_layers;
    double skip_rate;      /* erased unit-tokens of all unit-tokens */
    double cost_skip_rate; /* the same with units weighed by the bytes of their weights */
    uint64_t tokens;       /* rows run */
    double flops;
    uint64_t kv_bytes; /* of the pages it held, at most */
    bool rerun;        /* its class failed in mid-request: what followed ran as `class_index` */
    bool unsure;       /* … or became too uncertain of its text */
    bool doubted;      /* … or its probe said no after the first rows */
} lac_engine_account;

/* What one sequence gained in a step; pointers live until the callback returns. */
typedef struct {
    uint64_t id;
    lac_chunk chunk;   /* first_pos counts accepted tokens too */
    lac_finish finish; /* after anything but NONE the sequence is gone */
    lac_usage usage;
    lac_status error;
    const char *reason; /* with LAC_FINISH_ERROR */
    const lac_engine_account *account; /* with the last event, else NULL */
} lac_engine_event;
typedef void (*lac_engine_sink)(void *arg, const lac_engine_event *event);

/* Runs one step over everything that can run and reports through `sink`. Returns false when there was
 * nothing to do. */
bool lac_engine_step(lac_engine *engine, lac_engine_sink sink, void *arg);

/* What a rank other than 0 does: runs its share of every step until the leader's engine is
 * destroyed (LAC_OK) or the group is over (LAC_EPEER and its like: the process has to end). */
lac_status lac_engine_follow(lac_engine *engine, lac_error *err);
/* True in a leader whose group is over: no step can run any more, and what the last one reported as
 * failed did not fail by itself. *why is filled. */
bool lac_engine_group_over(const lac_engine *engine, lac_error *why);

/* For offline scoring: runs `count` tokens as one sequence (chunked, nothing else may run) and calls
 * `row` for each position i with the logits [vocab] that follow token i. */
typedef void (*lac_engine_row)(void *arg, size_t index, const float *logits);
lac_status lac_engine_score(lac_engine *engine, const uint32_t *tokens, size_t count,
                            lac_engine_row row, void *arg, lac_error *err);
/* The same under a class; one of scope DECODE runs the first token in full. */
lac_status lac_engine_score_as(lac_engine *engine, uint32_t class_index, const uint32_t *tokens,
                               size_t count, lac_engine_row row, void *arg, lac_error *err);
/* The same under a class that holds from position `class_from` on (≤ count), whatever its scope: a
 * prompt of so many tokens and the answer to it. */
lac_status lac_engine_score_from(lac_engine *engine, uint32_t class_index, uint32_t class_from,
                                 const uint32_t *tokens, size_t count, lac_engine_row row,
                                 void *arg, lac_error *err);

/* Scores tokens that a class produced: mean KL divergence from full to the class, and how often both
 * prefer the same token, over positions prompt_count … count − 1. Done in small steps, so that a
 * caller who has requests to serve is free again soon. One at a time. */
typedef struct {
    uint32_t tokens; /* positions scored */
    double kl_mean;  /* nats */
    double top1_agree;
    double top1_p, top1_p_full; /* mean probability of the best token, class and full */
} lac_engine_shadow;
/* Copies the tokens. LAC_BUSY while sequences are live, another is scored, or pages are short. */
lac_status lac_engine_shadow_start(lac_engine *engine, uint32_t class_index, const uint32_t *tokens,
                                   size_t prompt_count, size_t count, lac_error *err);
/* Runs the next rows. True at its end: *status says how it went, *out is filled when it went well.
 * Nothing may be submitted before the end, or the stop. */
bool lac_engine_shadow_step(lac_engine *engine, lac_engine_shadow *out, lac_status *status);
/* Gives it up; a no-op when none runs. */
void lac_engine_shadow_stop(lac_engine *engine);

#endif
