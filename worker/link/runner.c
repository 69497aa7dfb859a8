/* The engine thread and its two rings. The thread owns the engine, from loading to freeing, and the
 * report it is filling; the link thread owns reports between take and give_back; everything else
 * they share is atomic or behind the doorbell's mutex. Must not know sockets, sessions or text.
 *
 * Backpressure: a step starts only with an empty report in hand, and there are only reports_max of
 * them. When the link cannot send, they are all out, and the engine waits instead of losing tokens.
 */
#include "link/runner.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/ring.h"
#include "grammar/grammar.h"
#include "link/canary.h"
#include "link/shadow.h"

typedef enum { COMMAND_SUBMIT, COMMAND_CANCEL } command_kind;

typedef struct {
    command_kind kind;
    lac_runner_sequence sequence; /* CANCEL: only the id */
} command;

/* Wakes a thread that has nothing to do; remembers a ring that came before the wait. */
typedef struct {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool rung;
} doorbell;

typedef struct {
    _Atomic uint64_t step_counter, step_started_ms, prompt_tokens, output_tokens, kv_pages_used;
    _Atomic uint32_t running, queued, itl_us, prefill_us, active_layers;
    _Atomic uint64_t class_reruns, shadows;
    _Atomic uint64_t class_requests[LAC_CLASSES_MAX], class_tokens[LAC_CLASSES_MAX];
} published;

struct lac_runner {
    lac_runner_options options;
    pthread_t thread;
    doorbell bell;
    _Atomic bool stopping;

    lac_ring *commands; /* link → engine: command * */
    lac_ring *ready;    /* engine → link: lac_report * */
    lac_ring *spare;    /* link → engine: lac_report * */
    lac_ring *scores;   /* engine → link: lac_shadow *, freed by who takes it */

    /* Engine thread only. */
    lac_engine *engine;
    lac_report *report; /* being filled; NULL when none is spare */
    size_t reports_made;
    lac_shadows *shadows;
    lac_canaries *canaries;

    published progress;
    lac_engine_stats facts;

    /* Behind the doorbell's mutex. */
    pthread_cond_t loaded;
    lac_runner_state state;
    lac_error why; /* FAILED, OVER */
};

/* ---- doorbell ---- */

static void bell_ring(doorbell *bell)
{
    pthread_mutex_lock(&bell->mutex);
    bell->rung = true;
    pthread_cond_signal(&bell->cond);
    pthread_mutex_unlock(&bell->mutex);
}

/* Until it rings, or until then (lac_now_ms; UINT64_MAX: for ever). */
static void bell_wait(doorbell *bell, uint64_t until_ms)
{
    struct timespec until = {.tv_sec = (time_t)(until_ms / 1000),
                             .tv_nsec = (long)(until_ms % 1000) * 1000000};
    int late = 0;
    pthread_mutex_lock(&bell->mutex);
    while (!bell->rung && late == 0)
        late = until_ms == UINT64_MAX ? pthread_cond_wait(&bell->cond, &bell->mutex)
                                      : pthread_cond_timedwait(&bell->cond, &bell->mutex, &until);
    bell->rung = false;
    pthread_mutex_unlock(&bell->mutex);
}

/* ---- engine thread ---- */

static void command_free(command *c)
{
    free(c->sequence.prompt);
    free(c->sequence.accepted);
    free((void *)c->sequence.sampling.bias);
    lac_grammar_destroy(&c->sequence.grammar);
    free(c);
}

static void publish(lac_runner *runner, bool stepped)
{
    lac_engine_stats stats;
    lac_engine_stats_read(runner->engine, &stats);
    published *p = &runner->progress;
    if (stepped)
        atomic_fetch_add_explicit(&p->step_counter, 1, memory_order_relaxed);
    atomic_store_explicit(&p->prompt_tokens, stats.prompt_tokens, memory_order_relaxed);
    atomic_store_explicit(&p->output_tokens, stats.output_tokens, memory_order_relaxed);
    atomic_store_explicit(&p->kv_pages_used, stats.kv_pages_used, memory_order_relaxed);
    atomic_store_explicit(&p->running, stats.running, memory_order_relaxed);
    atomic_store_explicit(&p->queued, stats.queued, memory_order_relaxed);
    atomic_store_explicit(&p->itl_us, (uint32_t)stats.itl_us, memory_order_relaxed);
    atomic_store_explicit(&p->prefill_us, (uint32_t)stats.prefill_us_per_token,
                          memory_order_relaxed);
    atomic_store_explicit(&p->active_layers, stats.active_layers, memory_order_relaxed);
    atomic_store_explicit(&p->class_reruns, stats.class_reruns, memory_order_relaxed);
    lac_engine_class_facts facts;
    for (uint32_t c = 0; lac_engine_class_read(runner->engine, c, &facts); c++) {
        atomic_store_explicit(&p->class_requests[c], facts.requests, memory_order_relaxed);
        atomic_store_explicit(&p->class_tokens[c], facts.tokens, memory_order_relaxed);
    }
}

/* What the wire says of it. The texts are the engine's and live as long. */
static void account_fill(const lac_runner *runner, const lac_engine_account *from,
                         lac_run_account *out)
{
    lac_engine_class_facts facts = {.mask = ""};
    lac_engine_class_read(runner->engine, from->class_index, &facts);
    *out = (lac_run_account){.mask = facts.mask,
                             .layers = from->layers,
                             .active_layers = from->active_layers,
                             .skip_rate = (float)from->skip_rate,
                             .cost_skip_rate = (float)from->cost_skip_rate,
                             .flops = from->flops,
                             .kv_bytes = from->kv_bytes};
    snprintf(out->class_name, sizeof(out->class_name), "%s", from->class_name);
    if (from->rerun)
        snprintf(out->why, sizeof(out->why), "the class %s on this request, run again in full",
                 from->unsure    ? "became too uncertain"
                 : from->doubted ? "was doubted by its probe"
                                 : "failed");
}

/* The engine's sink: one item of the present report. */
static void event_take(void *arg, const lac_engine_event *event)
{
    lac_runner *runner = arg;
    lac_step_item item = {.request = event->id,
                          .chunk = event->chunk,
                          .finish = event->finish,
                          .usage = event->usage,
                          .error = event->error};
    if (event->finish == LAC_FINISH_ERROR && event->reason != NULL)
        snprintf(item.reason, sizeof(item.reason), "%s", event->reason);
    lac_run_account account;
    if (event->account != NULL) {
        account_fill(runner, event->account, &account);
        item.account = &account;
    }
    lac_report_add(runner->report, &item);
    lac_shadows_event(runner->shadows, event);
}

static void submit_run(lac_runner *runner, const lac_runner_sequence *s)
{
    lac_engine_request request = {.id = s->id,
                                  .prompt = s->prompt,
                                  .prompt_count = s->prompt_count,
                                  .accepted = s->accepted,
                                  .accepted_count = s->accepted_count,
                                  .sampling = s->sampling,
                                  .grammar = s->grammar,
                                  .raw_text = s->raw_text,
                                  .class_index = s->class_index};
    memcpy(request.cache_salt, s->cache_salt, sizeof request.cache_salt);
    lac_error err = {.status = LAC_OK};
    lac_status status = lac_engine_submit(runner->engine, &request, &err);
    if (status == LAC_OK && s->shadow && s->class_index > 0)
        lac_shadows_begin(runner->shadows, s->id, s->class_index, &s->class_digest, s->input_type,
                          s->prompt, s->prompt_count, s->accepted, s->accepted_count);
    if (status == LAC_OK)
        return;
    lac_step_item item = {.request = s->id,
                          .chunk = {.first_pos = (uint32_t)s->accepted_count},
                          .finish = LAC_FINISH_ERROR,
                          .usage = {.prompt_tokens = (uint32_t)s->prompt_count},
                          .error = status};
    snprintf(item.reason, sizeof(item.reason), "%.*s", LAC_REASON_MAX, err.text);
    lac_report_add(runner->report, &item);
}

/* Takes what waits in the ring, as far as a report holds refusals; true if there was anything. */
static bool commands_run(lac_runner *runner)
{
    bool any = false;
    while (lac_report_count(runner->report) < LAC_STEP_ITEMS_MAX) {
        command *c = lac_ring_pop(runner->commands);
        if (c == NULL)
            break;
        any = true;
        if (c->kind == COMMAND_SUBMIT) {
            lac_shadows_interrupt(runner->shadows, runner->engine);
            lac_canaries_interrupt(runner->canaries, runner->engine);
            submit_run(runner, &c->sequence);
        } else {
            lac_engine_cancel(runner->engine, c->sequence.id); /* gone already is fine */
            lac_shadows_forget(runner->shadows, c->sequence.id);
        }
        command_free(c);
    }
    return any;
}

static bool step_run(lac_runner *runner)
{
    published *p = &runner->progress;
    atomic_store_explicit(&p->step_started_ms, lac_now_ms(), memory_order_relaxed);
    bool stepped = lac_engine_step(runner->engine, event_take, runner);
    atomic_store_explicit(&p->step_started_ms, 0, memory_order_relaxed);
    publish(runner, stepped);
    return stepped;
}

/* An empty report in hand: a spare one, or a new one while fewer than the bound exist. */
static bool report_hold(lac_runner *runner)
{
    if (runner->report == NULL)
        runner->report = lac_ring_pop(runner->spare);
    if (runner->report == NULL && runner->reports_made < runner->options.reports_max) {
        runner->report = lac_report_create();
        runner->reports_made++;
    }
    return runner->report != NULL;
}

static void report_pass(lac_runner *runner)
{
    if (lac_report_count(runner->report) == 0)
        return;
    bool pushed = lac_ring_push(runner->ready, runner->report);
    LAC_ASSERT(pushed); /* the ring holds every report there is */
    runner->report = NULL;
    runner->options.wake(runner->options.wake_arg);
}

/* A piece of scoring while nothing runs; false when there is none. Requests go before canaries, but
 * what is in the engine is ended first. */
static bool shadow_run(lac_runner *runner)
{
    lac_shadow result;
    bool scored, canary = lac_canaries_scoring(runner->canaries);
    if (canary || !lac_shadows_work(runner->shadows, runner->engine, &result, &scored)) {
        if (!lac_canaries_work(runner->canaries, runner->engine, lac_now_ms(), &result, &scored))
            return false;
    }
    if (!scored)
        return true;
    atomic_fetch_add_explicit(&runner->progress.shadows, 1, memory_order_relaxed);
    lac_shadow *score = lac_alloc(1, sizeof(*score));
    *score = result;
    if (lac_ring_push(runner->scores, score))
        runner->options.wake(runner->options.wake_arg);
    else
        free(score); /* nobody listens: the next sample will do */
    return true;
}

static void state_set(lac_runner *runner, lac_runner_state state, const lac_error *why)
{
    pthread_mutex_lock(&runner->bell.mutex);
    runner->state = state;
    runner->why = *why;
    pthread_cond_signal(&runner->loaded);
    pthread_mutex_unlock(&runner->bell.mutex);
    runner->options.wake(runner->options.wake_arg);
}

/* What the step that found it said of its sequences is not true of them: they go on elsewhere. */
static bool group_over(lac_runner *runner)
{
    lac_error why;
    if (!lac_engine_group_over(runner->engine, &why))
        return false;
    if (runner->report)
        lac_report_clear(runner->report);
    state_set(runner, LAC_RUNNER_OVER, &why);
    return true;
}

static void run(lac_runner *runner)
{
    while (!atomic_load(&runner->stopping)) {
        if (!report_hold(runner)) {
            bell_wait(&runner->bell, UINT64_MAX);
            continue;
        }
        /* Refusals travel alone: a step may need a whole report for itself. */
        bool commanded = commands_run(runner);
        report_pass(runner);
        if (!report_hold(runner))
            continue;
        bool stepped = step_run(runner);
        if (group_over(runner))
            break;
        report_pass(runner);
        if (commanded || stepped)
            continue;
        bool scoring = shadow_run(runner);
        if (group_over(runner))
            break;
        if (!scoring)
            bell_wait(&runner->bell, lac_canaries_due_ms(runner->canaries));
    }
}

static void follow(lac_runner *runner)
{
    lac_error err = {0};
    lac_status status = lac_engine_follow(runner->engine, &err);
    state_set(runner, status == LAC_OK ? LAC_RUNNER_ENDED : LAC_RUNNER_OVER, &err);
}

static void *thread_main(void *arg)
{
    lac_runner *runner = arg;
    pthread_setname_np(pthread_self(), "lac-engine");
    const lac_runner_options *options = &runner->options;
    lac_engine_options wanted = options->engine;
    lac_error err = {.status = LAC_OK};
    lac_status status = options->meet ? options->meet(options->rank, &wanted, &err) : LAC_OK;
    if (status == LAC_OK)
        status = lac_engine_create(&wanted, &runner->engine, &err);
    if (status == LAC_OK)
        lac_engine_stats_read(runner->engine, &runner->facts);
    state_set(runner, status == LAC_OK ? LAC_RUNNER_READY : LAC_RUNNER_FAILED, &err);
    if (status == LAC_OK && options->follows) {
        follow(runner);
    } else if (status == LAC_OK) {
        LAC_ASSERT(runner->facts.slots <= LAC_STEP_ITEMS_MAX);
        publish(runner, false);
        run(runner);
    }
    /* The link still reads the model and its tokenizer: the engine stays until it is asked to go. */
    while (status == LAC_OK && !atomic_load(&runner->stopping))
        bell_wait(&runner->bell, UINT64_MAX);
    lac_engine_destroy(&runner->engine);
    if (options->part)
        options->part(options->rank);
    return NULL;
}

/* ---- link thread ---- */

static void runner_free(lac_runner **runner)
{
    lac_runner *r = *runner;
    for (command *c; (c = lac_ring_pop(r->commands)) != NULL;)
        command_free(c);
    for (lac_report *report; (report = lac_ring_pop(r->ready)) != NULL;)
        lac_report_destroy(&report);
    for (lac_report *report; (report = lac_ring_pop(r->spare)) != NULL;)
        lac_report_destroy(&report);
    for (lac_shadow *score; (score = lac_ring_pop(r->scores)) != NULL;)
        free(score);
    lac_ring_destroy(&r->scores);
    lac_shadows_destroy(&r->shadows);
    lac_canaries_destroy(&r->canaries);
    lac_report_destroy(&r->report);
    lac_ring_destroy(&r->commands);
    lac_ring_destroy(&r->ready);
    lac_ring_destroy(&r->spare);
    pthread_cond_destroy(&r->loaded);
    pthread_cond_destroy(&r->bell.cond);
    pthread_mutex_destroy(&r->bell.mutex);
    free(r);
    *runner = NULL;
}

lac_status lac_runner_begin(const lac_runner_options *options, lac_runner **out, lac_error *err)
{
    lac_runner *runner = lac_alloc(1, sizeof(*runner));
    runner->options = *options;
    pthread_mutex_init(&runner->bell.mutex, NULL);
    pthread_condattr_t attributes; /* as lac_now_ms counts */
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&runner->bell.cond, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_cond_init(&runner->loaded, NULL);
    runner->commands = lac_ring_create(options->commands_max);
    runner->ready = lac_ring_create(options->reports_max);
    runner->spare = lac_ring_create(options->reports_max);
    runner->scores = lac_ring_create(LAC_SHADOWS_RUNNING);
    runner->shadows = lac_shadows_create();
    runner->canaries = lac_canaries_create(options->plan);

    int failed = pthread_create(&runner->thread, NULL, thread_main, runner);
    if (failed != 0) {
        runner_free(&runner);
        return lac_fail(err, LAC_EIO, "engine thread: %s", strerror(failed));
    }
    *out = runner;
    return LAC_OK;
}

lac_runner_state lac_runner_look(lac_runner *runner, lac_error *why)
{
    pthread_mutex_lock(&runner->bell.mutex);
    lac_runner_state state = runner->state;
    *why = runner->why;
    pthread_mutex_unlock(&runner->bell.mutex);
    return state;
}

lac_status lac_runner_start(const lac_runner_options *options, lac_runner **out, lac_error *err)
{
    lac_runner *runner;
    lac_status status = lac_runner_begin(options, &runner, err);
    if (status != LAC_OK)
        return status;
    pthread_mutex_lock(&runner->bell.mutex);
    while (runner->state == LAC_RUNNER_LOADING)
        pthread_cond_wait(&runner->loaded, &runner->bell.mutex);
    lac_error why = runner->why;
    pthread_mutex_unlock(&runner->bell.mutex);
    if (why.status != LAC_OK) {
        pthread_join(runner->thread, NULL);
        runner_free(&runner);
        return lac_fail(err, why.status, "%s", why.text);
    }
    *out = runner;
    return LAC_OK;
}

void lac_runner_stop(lac_runner **runner)
{
    if (*runner == NULL)
        return;
    atomic_store(&(*runner)->stopping, true);
    bell_ring(&(*runner)->bell);
    pthread_join((*runner)->thread, NULL);
    runner_free(runner);
}

static void command_push(lac_runner *runner, command_kind kind, const lac_runner_sequence *sequence)
{
    command *c = lac_alloc(1, sizeof(*c));
    c->kind = kind;
    c->sequence = *sequence;
    bool pushed = lac_ring_push(runner->commands, c);
    LAC_ASSERT(pushed); /* the caller asked for room */
    bell_ring(&runner->bell);
}

size_t lac_runner_room(const lac_runner *runner)
{
    size_t used = lac_ring_count(runner->commands);
    return used < runner->options.commands_max ? runner->options.commands_max - used : 0;
}

void lac_runner_submit(lac_runner *runner, const lac_runner_sequence *sequence)
{
    command_push(runner, COMMAND_SUBMIT, sequence);
}

void lac_runner_cancel(lac_runner *runner, uint64_t id)
{
    lac_runner_sequence sequence = {.id = id};
    command_push(runner, COMMAND_CANCEL, &sequence);
}

lac_report *lac_runner_take(lac_runner *runner)
{
    return lac_ring_pop(runner->ready);
}

void lac_runner_give_back(lac_runner *runner, lac_report *report)
{
    lac_report_clear(report);
    bool pushed = lac_ring_push(runner->spare, report);
    LAC_ASSERT(pushed);
    /* An engine that ran out of reports sleeps until one comes; an idle one looks once and sleeps
     * on. */
    bell_ring(&runner->bell);
}

bool lac_runner_shadow_take(lac_runner *runner, lac_shadow *out)
{
    lac_shadow *score = lac_ring_pop(runner->scores);
    if (score == NULL)
        return false;
    *out = *score;
    free(score);
    return true;
}

const lac_engine *lac_runner_engine(const lac_runner *runner)
{
    return runner->engine;
}

const lac_model *lac_runner_model(const lac_runner *runner)
{
    return lac_engine_model(runner->engine);
}

const lac_tokenizer *lac_runner_tokenizer(const lac_runner *runner)
{
    return lac_engine_tokenizer(runner->engine);
}

const lac_engine_stats *lac_runner_facts(const lac_runner *runner)
{
    return &runner->facts;
}

void lac_runner_progress_read(const lac_runner *runner, lac_runner_progress *out)
{
    const published *p = &runner->progress;
    *out = (lac_runner_progress){
        .step_counter = atomic_load_explicit(&p->step_counter, memory_order_relaxed),
        .step_started_ms = atomic_load_explicit(&p->step_started_ms, memory_order_relaxed),
        .prompt_tokens = atomic_load_explicit(&p->prompt_tokens, memory_order_relaxed),
        .output_tokens = atomic_load_explicit(&p->output_tokens, memory_order_relaxed),
        .kv_pages_used = atomic_load_explicit(&p->kv_pages_used, memory_order_relaxed),
        .running = atomic_load_explicit(&p->running, memory_order_relaxed),
        .queued = atomic_load_explicit(&p->queued, memory_order_relaxed),
        .itl_us = atomic_load_explicit(&p->itl_us, memory_order_relaxed),
        .prefill_us = atomic_load_explicit(&p->prefill_us, memory_order_relaxed),
        .active_layers = atomic_load_explicit(&p->active_layers, memory_order_relaxed),
        .class_reruns = atomic_load_explicit(&p->class_reruns, memory_order_relaxed),
        .shadows = atomic_load_explicit(&p->shadows, memory_order_relaxed)};
    for (int c = 0; c < LAC_CLASSES_MAX; c++) {
        out->class_requests[c] = atomic_load_explicit(&p->class_requests[c], memory_order_relaxed);
        out->class_tokens[c] = atomic_load_explicit(&p->class_tokens[c], memory_order_relaxed);
    }
}
