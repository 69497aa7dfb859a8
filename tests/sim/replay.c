/* Makes the steps of a recording again: sim_replay FILE [--list]. Status 0 when every step gave the
 * same actions, 1 at the first that did not, 2 for a file that cannot be read, 3 for a recording
 * whose beginning was overwritten: what it starts from is not known, so it is only shown. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sight/recorder.h"

typedef struct {
    lac_core *core;
    const lac_recorded *now;
    uint64_t hash;
    uint32_t actions, failed;
    bool list;
} replay;

/* Answers as the real sink did. */
static lac_status sink(void *arg, const lac_action *action)
{
    replay *r = arg;
    lac_status answer = LAC_OK;
    r->hash = lac_action_hash(r->hash, action);
    if (r->list)
        printf("        -> plane %d peer %" PRIu64 " %s\n", action->plane, action->peer,
               lac_msg_name(action->msg->envelope.type));
    if (r->failed < r->now->failures_count && r->now->failures[r->failed].action == r->actions)
        answer = r->now->failures[r->failed++].answer;
    r->actions++;
    return answer;
}

static void note(void *arg, lac_log_level level, const char *format, const char *text)
{
    (void)format;
    const replay *r = arg;
    (void)level;
    if (r->list)
        printf("        %s\n", text);
}

static const char *name_of(const lac_recorded *e)
{
    static const char *const kinds[] = {"message", "lost", "fleet", "tick"};
    static const char *const calls[] = {NULL, "drain", "tenants", "models"};
    if (e->kind != LAC_RECORDED_EVENT)
        return calls[e->kind];
    return e->event.kind == LAC_EVENT_MESSAGE ? lac_msg_name(e->event.msg->envelope.type)
                                              : kinds[e->event.kind];
}

static void show(const lac_recorded *e)
{
    printf("%8" PRIu64 " %8" PRIu64 " ms plane %d peer %" PRIu64 " %s, %" PRIu32 " actions%s%s\n",
           e->number, e->now_ms, e->event.plane, e->event.peer, name_of(e), e->actions,
           e->whole ? "" : ", body not kept", e->finished ? "" : ", not finished");
}

/* Questions change nothing, so their bodies are not kept. */
static bool question(const lac_recorded *e)
{
    bool message = e->kind == LAC_RECORDED_EVENT && e->event.kind == LAC_EVENT_MESSAGE;
    uint16_t type = message ? e->event.msg->envelope.type : 0;
    return type == LAC_MSG_STATUS_QUERY || type == LAC_MSG_PATH_QUERY || type == LAC_MSG_PLAN_QUERY;
}

/* Makes the step: an event, or one of the calls around them. */
static void make(lac_core *core, const lac_recorded *e)
{
    lac_error err;
    switch (e->kind) {
    case LAC_RECORDED_EVENT: lac_core_step(core, e->now_ms, &e->event); break;
    case LAC_RECORDED_TENANTS:
        lac_core_set_tenants(core, e->now_ms, e->tenants, e->tenants_count, &err);
        break;
    case LAC_RECORDED_MODELS: lac_core_set_models(core, e->models, &err); break;
    case LAC_RECORDED_DRAIN:
        if (*e->group)
            lac_core_drain_group(core, e->now_ms, e->group, e->deadline_ms);
        else
            lac_core_drain(core, e->now_ms);
        break;
    case LAC_RECORDED_KINDS: break;
    }
}

static bool same(replay *r, const lac_recorded *e)
{
    r->now = e;
    r->hash = 0;
    r->actions = r->failed = 0;
    if (question(e))
        return true;
    if (!e->whole) {
        printf("event %" PRIu64 " (%s) was not kept whole: what follows may differ\n", e->number,
               name_of(e));
        return true;
    }
    make(r->core, e);
    if (!e->finished || (r->hash == e->hash && r->actions == e->actions))
        return true;
    printf("event %" PRIu64 " differs: %" PRIu32 " actions with hash %016" PRIx64
           ", recorded %" PRIu32 " with %016" PRIx64 "\n",
           e->number, r->actions, r->hash, e->actions, e->hash);
    show(e);
    return false;
}

static int run(lac_recording *recording, bool list)
{
    lac_recorded e;
    lac_error err = {0};
    lac_core_options options = *lac_recording_options(recording);
    replay r = {.list = list};
    options.note = note;
    options.note_arg = &r;
    lac_metrics *metrics = lac_metrics_create(4096);
    r.core = lac_core_create(&options, metrics, sink, &r);
    int code = r.core ? 0 : 2;
    if (r.core && *lac_recording_guards(recording))
        lac_core_guards_load(r.core, lac_recording_guards(recording), &err);
    uint64_t count = 0, first = 0;
    while (code != 1 && code != 2 && lac_recording_next(recording, &e, &err)) {
        if (!count++) {
            first = e.number;
            code = first ? 3 : 0;
        }
        if (list || code == 3)
            show(&e);
        if (code == 0 && !same(&r, &e))
            code = 1;
    }
    if (err.status != LAC_OK) {
        fprintf(stderr, "sim_replay: %s\n", err.text);
        code = 2;
    } else if (code == 0) {
        printf("%" PRIu64 " events gave the same actions\n", count);
    } else if (code == 3) {
        printf("the events before %" PRIu64 " were overwritten: shown, not repeated\n", first);
    }
    if (r.core)
        lac_core_destroy(&r.core);
    lac_metrics_destroy(&metrics);
    return code;
}

int main(int argc, char **argv)
{
    bool list = argc == 3 && !strcmp(argv[2], "--list");
    lac_recording *recording = NULL;
    lac_error err = {0};
    if (argc != 2 && !list) {
        fprintf(stderr, "usage: sim_replay FILE [--list]\n");
        return 2;
    }
    if (lac_recording_open(argv[1], &recording, &err) != LAC_OK) {
        fprintf(stderr, "sim_replay: %s\n", err.text);
        return 2;
    }
    int code = run(recording, list);
    lac_recording_close(&recording);
    return code;
}
