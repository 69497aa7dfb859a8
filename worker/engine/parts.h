/* What an engine consists of, for the files of worker/engine. */
#ifndef LAC_ENGINE_PARTS_H
#define LAC_ENGINE_PARTS_H

#include "base/mem.h"
#include "engine/engine.h"
#include "erasure/account.h"
#include "erasure/rows.h"
#include "erasure/watch.h"
#include "grammar/grammar.h"
#include "group.h"
#include "kv/pool.h"
#include "kv/prefix.h"
#include "probe/probe.h"
#include "program.h"
#include "sampler/sampler.h"
#include "sched/sched.h"
#include "spec/spec.h"

enum {
    LAC__SLOTS_DEFAULT = 16,
    LAC__QUEUE_DEFAULT = 64,
    LAC__ITL_DEFAULT_MS = 50,
    LAC__KV_CONTEXTS = 16, /* full contexts the default pool holds at most */
    LAC__SCORE_ROWS = 64,  /* rows of logits kept at once while scoring */
    LAC__DRAFT_ROWS = 64,  /* draft rows of one step */
};

/* A class as this engine runs it. */
typedef struct {
    char name[LAC_NAME_MAX + 1];
    bool live;
    lac_scope scope;
    lac_mask mask;   /* as it was given */
    lac_mask erased; /* every unit that does not run: the mask's and those dropped for all */
    bool *kept;      /* [layout.units_count] attention units it owns pages for */
    uint32_t block_cost[LAC_KV_SIZES_MAX];     /* pages of each size a block takes */
    uint32_t block_windowed[LAC_KV_SIZES_MAX]; /* of them those of sliding windows */
    uint32_t pool_tokens;                      /* tokens one sequence reaches by the pool */
    lac_class_price price;
    lac_mask patched;         /* units of the mask that a patch stands in for */
    const lac_patch *patches; /* [patches_count] as they were given: only while the engine loads */
    uint32_t patches_count;
    bool has_probe;
    lac_probe probe;
    lac_digest computed_as; /* over all that decides the bits of its rows in this engine */
    char *mask_text;
    double cost; /* weight bytes a row reads, of those of full */
    uint64_t requests, tokens;
} lac__class;

typedef struct {
    uint64_t id;
    lac_sequence_state state;
    uint32_t class_index;
    lac_account account;
    uint64_t kv_bytes; /* of the pages it held, at most */
    uint32_t *tokens;  /* [limit] prompt, accepted, then what it chose */
    uint32_t prompt_count;
    uint32_t known;       /* tokens so far */
    uint32_t limit;       /* tokens it may reach: context, pool or max_tokens */
    uint32_t computed;    /* tokens whose keys and values are in its pages */
    uint32_t cached;      /* prompt tokens of them that were there already */
    uint32_t draft_count; /* tokens that may follow the known ones, to run in the next step */
    uint32_t draft[LAC_SPEC_DRAFT_MAX];
    lac_spec_trust trust;
    bool again;            /* was preempted: what it finds now is its own work */
    uint32_t class_from;   /* rows from this position on run as the class, those before in full */
    bool narrowed;         /* it has given back the pages that the class leaves out */
    lac_digest prefix_key; /* who may share its pages, and as what */
    uint8_t cache_salt[16];
    int kv;                /* in the pool; LAC_KV_SEQUENCE_NONE while WAITING */
    lac_sampling sampling; /* bias is NULL: the sampler has its own copy */
    lac_sampler *sampler;
    lac_grammar_state *grammar; /* where in its grammar it is; NULL = free */
    lac_release *release;
    float *logits; /* [vocab] once its choice needs them, until it loses its pages */
    bool raw_text, rerun;
    bool probed, doubted; /* its probe has looked; and said no */
    bool unsure;          /* it runs again because its class grew too uncertain */
    uint32_t looked;      /* outputs / LAC_WATCH_EVERY at the last look */
    lac_watch watch;      /* on the class's entropy */
    float *look; /* [vocab] logits of the rows looked at, where its choice needs none; or NULL */
    lac_finish finish; /* set when the accepted tokens already end it */
    lac_error error;   /* of the step that failed */
} lac__sequence;

/* One step's arrays, reserved at load for the largest step. */
typedef struct {
    lac_sched_sequence *sequences; /* [live_max] */
    lac_sched_order order;         /* [live_max] each */
    uint32_t *tokens;              /* [rows_max] */
    lac_segment *segments;         /* [slots] */
    lac_logit_row *logit_rows;     /* [slots + draft_rows] */
    int *logit_of;                 /* [slots] run → its first logit row, or −1 */
    uint32_t *drafts;    /* [slots] run → its last rows that are drafts, each with logits */
    lac_top_logit *top;  /* [slots + draft_rows][LAC_TOP_LOGITS_MAX] best logits of a row */
    float *draft_logits; /* [score_rows][vocab] of them, once one needs all its logits */
    uint32_t draft_logits_used;
    float *tap;               /* [rows_max][hidden] for probes; NULL where no class has one */
    lac_status *status;       /* [slots] of each run */
    int *kv;                  /* [slots] sequences that hold pages, oldest first */
    lac_prefix_share *shares; /* [slots] of each of them */
    lac_sched_run *sorted;    /* [live_max] runs while they are put in order of class */
    lac_row_list *unit_rows;  /* [units] */
    uint32_t *row_numbers;    /* [rows_max] 0, 1, 2, … where a class has patches, else NULL */
    lac_row_list patch_rows[LAC_CLASSES_MAX]; /* rows of each class with patches */
    uint32_t class_rows[LAC_CLASSES_MAX];     /* rows of each class in the batch that is run */
} lac__step_arrays;

struct lac_engine {
    lac_model *model;
    lac__shard shard;
    lac__group *group; /* NULL: one rank */
    lac_kv_type kv_type;
    lac_tokenizer *tokenizer;
    const lac_backend_ops *table;
    lac_backend *backend;
    lac__kv_layout layout;
    lac_kv_pool *pool;
    lac__program program;

    lac__class classes[LAC_CLASSES_MAX]; /* 0 = full */
    uint32_t classes_count;
    lac_mask zeroed;          /* provably zero by the file's bytes */
    lac_mask dropped;         /* not in the program, weights not in memory */
    bool full_runs;           /* what is dropped adds nothing: rows may run in full */
    lac_unit_record *records; /* [units] of the dropped ones */
    lac_unit_rows *rows;      /* NULL: every live class runs the whole program */
    uint32_t present;         /* bit c: class c had rows in the last step */
    lac_account account;      /* of everything it ran */

    uint32_t context_max; /* tokens one sequence reaches by context */
    uint32_t slots, queue_max, rows_max, score_rows, draft_rows;
    uint64_t kv_bytes;
    double itl_target_us;
    uint32_t *end_tokens; /* ids that end a text */
    size_t end_tokens_count;
    lac_words *words; /* the vocabulary in order, once a grammar asked for it */

    lac__sequence **live; /* [live_max] by arrival, oldest first */
    uint32_t live_count, live_max;
    bool in_step;
    lac__step_arrays step;
    lac_buf text; /* one event's text */
    lac_top_logprob top[LAC_TOP_LOGPROBS_MAX];

    lac_sched_cost cost;
    lac_speculate speculate;
    lac_spec_cost spec_cost;
    uint64_t draft_tokens, draft_accepted;
    double itl_us;
    uint64_t steps, prompt_tokens, output_tokens, cached_tokens, preemptions;
    uint32_t active_layers;
    uint64_t class_reruns, class_unsure, class_doubted;
    struct lac__shadow *shadow; /* being scored; NULL = none */
    struct lac__trace *trace;   /* who hears of each operation; NULL = nobody */
};

/* Runs a batch whose row lists are set on this rank alone and tells the tracer. */
lac_status lac__trace_run(lac_engine *engine, lac_batch *batch, lac_error *err);

/* Whether the class's probe wants to see the states of the sequence's next rows. */
bool lac__probe_waits(const lac_engine *engine, const lac__sequence *sequence, uint32_t rows);
/* Asks the probe about rows `row` … of the batch just run, for which it waited. True: it said no,
 * and the sequence starts again in full; nothing of the rows is to be used. */
bool lac__probe_refuses(lac_engine *engine, lac__sequence *sequence, uint32_t row, uint32_t rows);

/* Where the logits of the sequence's next row go when it is to be looked at; NULL when it is not.
 */
float *lac__watch_place(const lac_engine *engine, lac__sequence *sequence);
/* Looks at the row if it is to be looked at. True: the class has become too uncertain, and the
 * sequence goes on in full; nothing of the row is to be used. */
bool lac__watch_spikes(lac_engine *engine, lac__sequence *sequence, const lac_logit_row *row);

/* Zero units, classes, what is dropped. Needs the model. */
lac_status lac__classes_find(lac_engine *engine, const lac_engine_options *options, lac_error *err);
/* Pages, prices and row lists of the classes. Needs the pool. */
lac_status lac__classes_size(lac_engine *engine, lac_error *err);
void lac__classes_free(lac_engine *engine);
/* LAC_EINVAL for a number that is no class, LAC_EREFUSED for one that is not live. */
lac_status lac__class_check(const lac_engine *engine, uint32_t class_index, lac_error *err);
/* The position from which a request's rows run as its class. */
uint32_t lac__class_from(const lac_engine *engine, uint32_t class_index, uint32_t class_from,
                         uint32_t prompt_count);
/* Tokens that a sequence of the class reaches that runs in full up to `class_from`. */
uint32_t lac__class_tokens_max(const lac_engine *engine, uint32_t class_index, uint32_t class_from);
/* The class that the sequence's next rows run as: its own, or full before class_from. */
uint32_t lac__class_now(const lac__sequence *sequence);
/* Gives back the pages that the class leaves out, once all rows before class_from are computed. */
void lac__class_narrow(lac_engine *engine, lac__sequence *sequence);
/* Pages for the next `rows` rows of a sequence that has the pool to itself, or for as many of them
 * as there are pages, one at least: how many. */
uint32_t lac__rows_reserve(lac_engine *engine, int kv, uint32_t done, uint32_t rows);
/* Sets the batch's row lists for rows that lie in order of class, class_rows[c] of class c; NULL
 * when all of them run the whole program. */
void lac__classes_batch(lac_engine *engine, const uint32_t class_rows[LAC_CLASSES_MAX],
                        lac_batch *batch);
/* Layers of which a row of one of these classes runs a unit. */
uint32_t lac__classes_active_layers(const lac_engine *engine, uint32_t present);

/* The key of everything that decides the bits of a sequence's keys and values in this engine, whose
 * model is the same for all: what it is computed as, how they are kept, and who may share them. */
void lac__prefix_key(const lac_engine *engine, uint32_t class_index, const uint8_t salt[16],
                     lac_digest *out);
/* Before the order is made: prefills under way go on with what others finished; waiting ones learn
 * what they will find. Fills what the scheduler has to know of pages. True when so few are free
 * that somebody may be preempted. */
bool lac__prefix_prepare(lac_engine *engine);
/* Opens the sequences that the order admits, with the cached blocks it counted on. Before any run
 * reserves pages, which could give those blocks up. */
void lac__prefix_admit(lac_engine *engine);
/* Makes what the sequence has computed findable, as far as its key speaks of it. */
void lac__prefix_offer(lac_engine *engine, const lac__sequence *sequence);

/* Sets how many draft tokens each decode would run in the next step, and tells the scheduler. */
void lac__drafts_make(lac_engine *engine);
/* Adds the logit rows of a run's drafts, which are the batch's rows from `row` on. */
void lac__drafts_place(lac_engine *engine, const lac__sequence *sequence, uint32_t row,
                       uint32_t drafts, lac_batch *batch);
/* Delivers the tokens of a run's logit rows, as far as each draft token was the one drawn. */
void lac__drafts_verify(lac_engine *engine, lac__sequence *sequence, lac_logit_row *rows,
                        uint32_t drafts, lac_engine_sink sink, void *arg);

/* Gives back pages and logits; the sequence waits again with its tokens kept. */
void lac__sequence_preempt(lac_engine *engine, lac__sequence *sequence);
/* Its class failed: all it has is run again in full. False when it is full already, full is not
 * live, or its tokens do not fit. */
bool lac__sequence_rerun(lac_engine *engine, lac__sequence *sequence);
/* Frees the sequence with everything it holds and clears the pointer. */
void lac__sequence_destroy(lac_engine *engine, lac__sequence **sequence);
uint32_t lac__sequence_outputs(const lac__sequence *sequence);
/* True while end tokens may not be chosen. */
bool lac__sequence_bans_end(const lac__sequence *sequence);
/* True when the row's best token is all that was asked for and may not be chosen. */
bool lac__sequence_bans_best(const lac_engine *engine, const lac__sequence *sequence,
                             const lac_logit_row *row);
/* So many best logits alone decide; 0 = not so. */
uint32_t lac__sequence_top(const lac_engine *engine, const lac__sequence *sequence);
/* Where the step's next logit row leaves its best ones. */
lac_top_logit *lac__top_place(const lac_engine *engine, const lac_batch *batch);
/* True when the best token alone decides, unless it is a banned end token: then the row is run
 * again for all its logits, and from then on asks for them at once. */
bool lac__sequence_best_decides(const lac__sequence *sequence);
/* Takes a chosen or accepted token into the penalties and the text. *text is what may go out, in
 * engine->text. Returns why the sequence ends with it, or LAC_FINISH_NONE. */
lac_finish lac__sequence_accept(lac_engine *engine, lac__sequence *sequence, uint32_t token);

/* Chooses, accepts and reports a sequence's next token from its logit row. */
void lac__deliver_token(lac_engine *engine, lac__sequence *sequence, lac_logit_row *row,
                        lac_engine_sink sink, void *arg);
/* Reports an end without a token: sequence->finish, or with LAC_FINISH_ERROR sequence->error. */
void lac__deliver_end(lac_engine *engine, lac__sequence *sequence, lac_engine_sink sink, void *arg);

#endif
