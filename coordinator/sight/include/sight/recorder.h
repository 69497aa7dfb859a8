/* The flight recorder: the latest events of the core in one bounded block of memory, written to a
 * file when somebody asks or when the process dies, so that the same steps can be made again
 * elsewhere. Texts and tokens of prompts and answers are never in it: their lengths are, and what
 * the core decides by (core.h, lac_prompt_facts).
 *
 * A recording that holds every event since the start gives the same actions again; one whose
 * beginning was overwritten shows what happened. It is read by the build that wrote it.
 *
 * Loop thread, but for the crash handler. */
#ifndef LAC_SIGHT_RECORDER_H
#define LAC_SIGHT_RECORDER_H

#include "core/core.h"

enum {
    LAC_RECORDED_EVENTS = 10000,        /* kept, the newest */
    LAC_RECORDED_BYTES = 8 << 20,       /* of them, whatever their number */
    LAC_RECORDED_EVENT_BYTES = 1 << 18, /* a larger one is kept without its body */
    LAC_RECORDED_FAILURES = 2048        /* answers other than OK in one step; with more it is not
                                           whole */
};

typedef struct lac_recorder lac_recorder;

/* `guards`: what lac_core_guards_load was given, "" = nothing. Copies both. */
lac_recorder *lac_recorder_create(const lac_core_options *options, const char *guards);
void lac_recorder_destroy(lac_recorder **recorder);
/* Around each step: before it, each action with the sink's answer, after it. */
void lac_recorder_begin(lac_recorder *recorder, uint64_t now_ms, const lac_event *event);
void lac_recorder_sent(lac_recorder *recorder, const lac_action *action, lac_status answer);
void lac_recorder_end(lac_recorder *recorder);
/* The same around what sets rules: lac_core_set_tenants, lac_core_set_models. */
void lac_recorder_begin_tenants(lac_recorder *recorder, uint64_t now_ms, const lac_tenant *rows,
                                size_t count);
void lac_recorder_begin_models(lac_recorder *recorder, uint64_t now_ms,
                               const lac_model_names *names);
/* The same around lac_core_drain (`group` "") and lac_core_drain_group. */
void lac_recorder_begin_drain(lac_recorder *recorder, uint64_t now_ms, const char *group,
                              uint32_t deadline_ms);
uint64_t lac_recorder_events(const lac_recorder *recorder); /* since the start */
/* Writes what is there to a new file, 0600; LAC_EIO says why not. */
lac_status lac_recorder_dump(const lac_recorder *recorder, const char *path, lac_error *err);
/* From now on a crash of this process (assertion, invalid access) writes to that path first. One
 * recorder a process; NULL ends it. */
void lac_recorder_on_crash(const lac_recorder *recorder, const char *path);

/* ---- reading ---- */

typedef struct lac_recording lac_recording;

typedef enum {
    LAC_RECORDED_EVENT,
    LAC_RECORDED_DRAIN, /* lac_core_drain, or …_group when there is a name */
    LAC_RECORDED_TENANTS,
    LAC_RECORDED_MODELS,
    LAC_RECORDED_KINDS
} lac_recorded_kind;

typedef struct {
    lac_recorded_kind kind;
    uint64_t number; /* counts from 0 at the start of the process */
    uint64_t now_ms;
    char group[LAC_NAME_MAX + 1]; /* DRAIN */
    uint32_t deadline_ms;
    const lac_tenant *tenants; /* TENANTS */
    size_t tenants_count;
    const lac_model_names *models; /* MODELS */
    bool whole;                    /* false: the event's body was not kept */
    bool finished;                 /* false: the process died during this step */
    lac_event event;               /* what it points to lives until the next one is read */
    uint64_t hash;                 /* over all its actions */
    uint32_t actions;
    uint32_t failures_count; /* actions that did not go out: the place among them, the answer */
    const struct lac_failure {
        uint32_t action;
        lac_status answer;
    } * failures;
} lac_recorded;

/* LAC_EIO, LAC_ECORRUPT, LAC_EUNSUPPORTED (of another build). */
lac_status lac_recording_open(const char *path, lac_recording **out, lac_error *err);
void lac_recording_close(lac_recording **recording);
/* The core's options without note; texts live as long as the recording. */
const lac_core_options *lac_recording_options(const lac_recording *recording);
const char *lac_recording_guards(const lac_recording *recording);
/* False at the end, with an error of LAC_OK, or at a broken place. */
bool lac_recording_next(lac_recording *recording, lac_recorded *out, lac_error *err);

/* Adds an action to the hash of a step, which begins at 0. What only people read is left out. */
uint64_t lac_action_hash(uint64_t hash, const lac_action *action);

#endif
