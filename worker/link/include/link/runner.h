/* The engine thread: alone owns the engine, takes commands from a bounded ring, steps, and gives
 * back one report a step through another. Publishes its own progress, so that a heartbeat cannot
 * say "all is well" for a thread that is stuck. Knows no socket and no session. */
#ifndef LAC_LINK_RUNNER_H
#define LAC_LINK_RUNNER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sampling.h"
#include "base/status.h"
#include "engine/engine.h"
#include "link/report.h"
#include "plan/plan.h"

typedef struct lac_runner lac_runner;

typedef struct {
    lac_engine_options engine;
    const lac_plan *plan; /* whose canaries are scored when there is nothing else to do; NULL: none;
                             outlives it */
    size_t commands_max; /* commands in the ring at once */
    size_t reports_max;  /* reports not yet given back; when all are out the engine waits */
    /* Called on the engine thread when a report is ready, and when its state changed. Must not
     * block. */
    void (*wake)(void *arg);
    void *wake_arg;
    /* One rank of several: `meet` before the engine is made, `part` when it is gone. NULL: alone.
     */
    lac_status (*meet)(void *arg, lac_engine_options *engine, lac_error *err);
    void (*part)(void *arg);
    void *rank;
    bool follows; /* takes no commands: runs its share of the leader's steps */
} lac_runner_options;

typedef enum {
    LAC_RUNNER_LOADING,
    LAC_RUNNER_READY,
    LAC_RUNNER_FAILED, /* to load */
    LAC_RUNNER_OVER,   /* a rank of its group is lost: this process has to end */
    LAC_RUNNER_ENDED   /* a follower whose leader let it go */
} lac_runner_state;

/* Starts the thread, which loads the model; look says what becomes of it. */
lac_status lac_runner_begin(const lac_runner_options *options, lac_runner **out, lac_error *err);
/* FAILED, OVER: *why is filled. */
lac_runner_state lac_runner_look(lac_runner *runner, lac_error *why);
/* The same, and returns when it is ready to run or has failed. */
lac_status lac_runner_start(const lac_runner_options *options, lac_runner **out, lac_error *err);
/* Ends the thread at its next step border, frees the engine. Accepts NULL, clears the pointer. */
void lac_runner_stop(lac_runner **runner);

/* The rest is for one thread, the link's. */

/* A sequence to start: arrays are malloc'd and change owners with the call. */
typedef struct {
    uint64_t id;
    uint32_t *prompt;
    size_t prompt_count;
    uint32_t *accepted;
    size_t accepted_count;
    lac_sampling sampling; /* its bias array too; of its grammar only the next field is read */
    struct lac_grammar *grammar; /* NULL = the answer is free; changes owners too */
    bool raw_text;               /* control tokens of the answer give their text */
    uint32_t class_index;
    bool shadow; /* score it again in full when it has ended */
    uint8_t cache_salt[16];
    lac_digest class_digest;
    lac_input_type input_type;
} lac_runner_sequence;
/* Commands that still fit the ring. Pushing into a full one is a bug, so the link keeps room for a
 * cancel of everything that runs. */
size_t lac_runner_room(const lac_runner *runner);
/* An error of the engine comes back as a report's item with LAC_FINISH_ERROR. */
void lac_runner_submit(lac_runner *runner, const lac_runner_sequence *sequence);
/* Takes effect before the next step; no item follows for the sequence once that is taken. */
void lac_runner_cancel(lac_runner *runner, uint64_t id);

/* The oldest report not yet taken, or NULL; hand it back when it is sent. */
lac_report *lac_runner_take(lac_runner *runner);
void lac_runner_give_back(lac_runner *runner, lac_report *report);

/* The oldest score not yet taken; false when there is none. */
bool lac_runner_shadow_take(lac_runner *runner, lac_shadow *out);

/* Valid once READY, until stop; in a follower while it is READY. */
const lac_engine *lac_runner_engine(const lac_runner *runner); /* only its read-only parts */
const lac_model *lac_runner_model(const lac_runner *runner);
const lac_tokenizer *lac_runner_tokenizer(const lac_runner *runner);
/* As the engine was after loading. */
const lac_engine_stats *lac_runner_facts(const lac_runner *runner);

/* What the engine thread last published about itself. Each number is whole; together they may be of
 * two neighbouring steps. */
typedef struct {
    uint64_t step_counter;
    uint64_t step_started_ms; /* 0: not inside a step */
    uint64_t prompt_tokens, output_tokens;
    uint64_t kv_pages_used;
    uint32_t running, queued;
    uint32_t itl_us, prefill_us;
    uint32_t active_layers;
    uint64_t class_reruns, shadows;
    uint64_t class_requests[LAC_CLASSES_MAX], class_tokens[LAC_CLASSES_MAX];
} lac_runner_progress;
void lac_runner_progress_read(const lac_runner *runner, lac_runner_progress *out);

#endif
