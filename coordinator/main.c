/* lacuna-coordinator: builds the parts, runs the loop, drains, frees. It owns the process (loop,
 * clock, signals, standard output) and passes messages between the parts; it decides nothing about
 * requests. One thread: the loop's. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "base/rng.h"
#include "base/status_json.h"
#include "core/core.h"
#include "epoch.h"
#include "flight.h"
#include "frontend/frontend.h"
#include "guards.h"
#include "jobs_plane.h"
#include "launching.h"
#include "link/link.h"
#include "options.h"
#include "protection.h"
#include "runner.h"
#include "sight/recorder.h"
#include "store/store.h"
#include "tenants.h"
#include "wire/socket.h"

enum {
    TICK_MS = 100,
    GUARDS_MS = 1000,
    LAUNCH_MS = 500,          /* between two looks at what the launcher has */
    CLOCK_STEP_MAX_MS = 1000, /* what one blocked turn of the loop may cost the fleet's leases */
    FLUSH_MS = 500,           /* for the last bytes of answers after the last request ended */
    METRIC_SERIES_MAX = 4096
};

/* The parts of the process. */
typedef struct {
    lac__options options;
    uint64_t epoch;
    bool state_preset; /* no --state-dir was given */
    uv_loop_t loop;
    lac_metrics *metrics;
    lac_core *core;
    lac_frontend *frontend; /* NULL with --http off */
    lac_wire *wire;
    lac_link *link;
    lac__launching *launching; /* NULL without --launch */
    lac_store *store;          /* NULL with --jobs off, or when another coordinator has it */
    lac__runner *runner;       /* NULL without a store */
    uv_timer_t tick;
    uv_signal_t sigterm, sigint, sighup, sigusr1;
    lac_recorder *recorder; /* of the core's events */

    uint64_t core_ms, seen_ms; /* the core's clock, and the machine's when it was last read */
    uint64_t started_ms, tick_due_ms, launch_due_ms;
    uint64_t guards_version, guards_due_ms; /* what is on disk; when to write again */
    bool stepping;
    bool draining, stopping;
    uint64_t drain_until_ms, flush_until_ms;
    lac_metric *loop_lag, *rss, *uptime, *refused_keys, *recorded, *suppressed;
} coordinator;

/* ---- time ---- */

/* Time for the core: the machine's, except that a turn of the loop that was blocked counts as at
 * most one second. Otherwise our own pause would look like everybody's silence. */
static uint64_t core_now(coordinator *c)
{
    uint64_t now = lac_now_ms(), passed = now - c->seen_ms;
    c->seen_ms = now;
    c->core_ms += passed > CLOCK_STEP_MAX_MS ? CLOCK_STEP_MAX_MS : passed;
    return c->core_ms;
}

/* ---- events and actions ---- */

static void step(coordinator *c, const lac_event *event)
{
    /* Neither sockets nor the front end call back while they send, so a step is never inside
     * another; a message could not be kept for later, it dies with the call that brought it. */
    LAC_ASSERT(!c->stepping);
    c->stepping = true;
    lac_event whole = *event;
    lac_prompt_facts facts;
    if (event->kind == LAC_EVENT_MESSAGE && event->plane != LAC_PLANE_WORKER &&
        event->msg->envelope.type == LAC_MSG_SUBMIT) {
        lac_core_prompt_facts(c->core, &event->msg->body.submit, &facts);
        whole.facts = &facts;
    }
    uint64_t now = core_now(c);
    lac_recorder_begin(c->recorder, now, &whole);
    lac_core_step(c->core, now, &whole);
    lac_recorder_end(c->recorder);
    c->stepping = false;
}

static void on_link_event(void *arg, const lac_event *event)
{
    coordinator *c = arg;
    if (!lac__jobs_plane_take(c->store, &c->link, event))
        step(c, event);
}

static lac_status on_action(void *arg, const lac_action *action)
{
    coordinator *c = arg;
    lac_status status = LAC_EPEER;
    if (action->plane == LAC_PLANE_BATCH) {
        lac__runner_deliver(c->runner, action->msg);
        status = LAC_OK;
    } else if (action->plane != LAC_PLANE_HTTP) {
        status = c->link ? lac_link_send(c->link, action) : LAC_EPEER;
    } else if (c->frontend) {
        lac_frontend_deliver(c->frontend, action->msg);
        status = LAC_OK;
    }
    lac_recorder_sent(c->recorder, action, status);
    return status;
}

static void on_note(void *arg, lac_log_level level, const char *format, const char *text)
{
    (void)arg;
    if (lac_log_on(level))
        lac_log_text(level, format, text);
}

/* ---- what the front end asks ---- */

static void http_emit(void *arg, const lac_msg *msg)
{
    lac_event event = {.kind = LAC_EVENT_MESSAGE, .plane = LAC_PLANE_HTTP, .peer = 0, .msg = msg};
    step(arg, &event);
}

static bool http_ready(void *arg)
{
    coordinator *c = arg;
    return lac_core_ready(c->core);
}

static bool http_alive(void *arg)
{
    (void)arg;
    return true; /* the loop that answers is the loop that works */
}

typedef struct {
    lac_buf *out;
    bool any;
} model_list;

static void add_model(void *arg, const lac_core_model *model)
{
    model_list *list = arg;
    lac_buf_text(list->out, list->any ? ",{\"id\":" : "{\"id\":");
    lac_buf_json(list->out, model->name, strlen(model->name));
    lac_buf_printf(list->out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"lacuna\"",
                   (long long)model->created_s);
    lac_buf_text(list->out, ",\"architecture\":");
    lac_buf_json(list->out, model->architecture, strlen(model->architecture));
    lac_buf_printf(list->out, ",\"context_max\":%u", model->context_max);
    if (strcmp(model->root, model->name) != 0) {
        lac_buf_text(list->out, ",\"root\":");
        lac_buf_json(list->out, model->root, strlen(model->root));
    }
    lac_buf_text(list->out, "}");
    list->any = true;
}

static void http_models(void *arg, lac_buf *out)
{
    coordinator *c = arg;
    model_list list = {.out = out};
    lac_core_models(c->core, add_model, &list);
}

/* ---- batch jobs ---- */

static void batch_emit(void *arg, const lac_msg *msg)
{
    lac_event event = {.kind = LAC_EVENT_MESSAGE, .plane = LAC_PLANE_BATCH, .msg = msg};
    step(arg, &event);
}

static void batch_load(void *arg, lac_jobs_load *out)
{
    coordinator *c = arg;
    lac_core_jobs_load(c->core, out);
}

static void on_jobs_changed(void *arg)
{
    coordinator *c = arg;
    if (c->runner)
        lac__runner_wake(c->runner);
}

static uint64_t resident_bytes(void)
{
    size_t rss = 0;
    return uv_resident_set_memory(&rss) ? 0 : rss;
}

static void http_metrics(void *arg, lac_buf *out)
{
    coordinator *c = arg;
    lac_metric_set(c->rss, (double)resident_bytes());
    lac_metric_set(c->refused_keys, (double)lac_wire_guard_refused(c->wire));
    lac_metric_set(c->uptime, (double)(lac_now_ms() - c->started_ms) / 1000.0);
    lac_metric_add(c->recorded,
                   (double)lac_recorder_events(c->recorder) - lac_metric_value(c->recorded));
    lac_metric_add(c->suppressed, (double)lac_log_suppressed() - lac_metric_value(c->suppressed));
    lac_core_metrics(c->core, out);
}

static void write_status(void *arg, const lac_status_reply *status)
{
    lac_status_json(status, arg);
}

static void http_status(void *arg, lac_buf *out)
{
    coordinator *c = arg;
    lac_core_status(c->core, write_status, out);
}

typedef struct {
    lac_buf *out;
    bool well;
} health_answer;

static void write_health(void *arg, const lac_status_reply *status)
{
    health_answer *answer = arg;
    answer->well = lac_health_json(status, answer->out);
}

static bool http_health(void *arg, lac_buf *out)
{
    coordinator *c = arg;
    health_answer answer = {.out = out};
    lac_core_status(c->core, write_health, &answer);
    return answer.well;
}

static lac_status http_feedback(void *arg, const char *tenant, uint64_t request, bool good,
                                lac_error *err)
{
    coordinator *c = arg;
    return lac_core_feedback(c->core, tenant, request, good, err);
}

/* ---- the end ---- */

static void on_frontend_closed(void *arg)
{
    (void)arg;
}

/* Lets go of every handle: the loop then runs out of work and uv_run returns. */
static void stop(coordinator *c)
{
    if (c->stopping)
        return;
    c->stopping = true;
    uv_close((uv_handle_t *)&c->tick, NULL);
    uv_close((uv_handle_t *)&c->sigterm, NULL);
    uv_close((uv_handle_t *)&c->sigint, NULL);
    uv_close((uv_handle_t *)&c->sighup, NULL);
    uv_close((uv_handle_t *)&c->sigusr1, NULL);
    lac_link_destroy(&c->link);
    lac__launching_destroy(&c->launching);
    if (c->frontend)
        lac_frontend_close(&c->frontend, on_frontend_closed, c);
    if (c->runner)
        lac__runner_stop(c->runner);
    lac_store_close(&c->store);
}

static void drain_step(coordinator *c)
{
    uint64_t now = lac_now_ms();
    if (!c->flush_until_ms && (!lac_core_live(c->core) || now >= c->drain_until_ms)) {
        if (lac_core_live(c->core))
            lac_warn("stopping with %zu requests unfinished after %d ms", lac_core_live(c->core),
                     LAC_DRAIN_MS);
        if (c->frontend)
            lac_frontend_drain(c->frontend);
        c->flush_until_ms = now + FLUSH_MS;
    }
    if (!c->flush_until_ms || now < c->flush_until_ms)
        return;
    /* Groups end by themselves once asked; the launcher kills what does not. */
    if (!c->launching || c->options.launch_keep || lac__launching_stop(c->launching))
        stop(c);
}

static void on_signal(uv_signal_t *handle, int number)
{
    coordinator *c = handle->data;
    if (c->draining) {
        lac_info("second signal %d: stopping at once", number);
        stop(c);
        return;
    }
    lac_info("signal %d: refusing new requests, %zu to finish", number, lac_core_live(c->core));
    c->draining = true;
    c->drain_until_ms = lac_now_ms() + LAC_DRAIN_MS;
    uint64_t now = core_now(c);
    lac_recorder_begin_drain(c->recorder, now, "", 0);
    lac_core_drain(c->core, now);
    lac_recorder_end(c->recorder);
    if (c->runner)
        lac__runner_drain(c->runner);
}

static void on_dump(uv_signal_t *handle, int number)
{
    coordinator *c = handle->data;
    (void)number;
    lac__flight_write(c->recorder, c->options.state_dir);
}

/* What may be read again while running: who is let in. */
static void on_reload(uv_signal_t *handle, int number)
{
    coordinator *c = handle->data;
    lac_error err = {0};
    (void)number;
    if (lac_wire_guard_reload(c->wire, &err) != LAC_OK)
        lac_warn("the old list of keys stays: %s", err.text);
    if (c->frontend && lac_frontend_reload(c->frontend, &err) != LAC_OK)
        lac_warn("the old API keys and certificate stay: %s", err.text);
    if (*c->options.tenants &&
        lac__tenants_read(c->options.tenants, c->core, c->recorder, core_now(c), &err) != LAC_OK)
        lac_warn("the old rules of tenants stay: %s", err.text);
    lac_info("lists of keys and tenants were read again");
}

/* The launcher is asked before it is told: what it has just lost must not be wanted again unseen.
 */
static void launch_step(coordinator *c, uint64_t now)
{
    if (!c->launching || c->draining || now < c->launch_due_ms)
        return;
    c->launch_due_ms = now + LAUNCH_MS;
    lac_event event;
    lac__launching_look(c->launching, &event);
    step(c, &event);
    lac__launching_obey(c->launching, c->core);
}

/* At most once a second: what is lost with less are a few scores. */
static void guards_step(coordinator *c, uint64_t now)
{
    uint64_t version = lac_core_guards_version(c->core);
    if (version == c->guards_version || now < c->guards_due_ms)
        return;
    c->guards_version = version;
    c->guards_due_ms = now + GUARDS_MS;
    lac__guards_write(c->options.state_dir, c->core);
}

static void on_tick(uv_timer_t *handle)
{
    coordinator *c = handle->data;
    uint64_t now = lac_now_ms();
    uint64_t lag_ms = now > c->tick_due_ms ? now - c->tick_due_ms : 0;
    lac_metric_observe(c->loop_lag, (double)lag_ms / 1000.0);
    c->tick_due_ms = now + TICK_MS;
    lac_event event = {.kind = LAC_EVENT_TICK,
                       .wall_s = lac_wall_s(),
                       .lag_ms = lag_ms < UINT32_MAX ? (uint32_t)lag_ms : UINT32_MAX};
    step(c, &event);
    launch_step(c, now);
    guards_step(c, now);
    if (c->runner)
        lac__runner_tick(c->runner);
    if (c->draining)
        drain_step(c);
}

/* ---- building ---- */

static lac_status take_epoch(coordinator *c, lac_error *err)
{
    c->state_preset = !*c->options.state_dir;
    if (c->state_preset)
        lac__state_dir_default(c->options.state_dir, sizeof c->options.state_dir);
    return lac__epoch_next(c->options.state_dir, &c->epoch, err);
}

static void make_metrics(coordinator *c)
{
    c->metrics = lac_metrics_create(METRIC_SERIES_MAX);
    c->loop_lag = lac_metrics_get(c->metrics, LAC_M_LOOP_LAG, "");
    c->rss = lac_metrics_get(c->metrics, LAC_M_RSS, "");
    c->refused_keys = lac_metrics_get(c->metrics, LAC_M_REFUSED_KEYS, "");
    c->uptime = lac_metrics_get(c->metrics, LAC_M_UPTIME, "");
    c->recorded = lac_metrics_get(c->metrics, LAC_M_RECORDED, "");
    c->suppressed = lac_metrics_get(c->metrics, LAC_M_LOG_SUPPRESSED, "");
    lac_metric_set(lac_metrics_get(c->metrics, LAC_M_BUILD_INFO, "version=\"" LAC_VERSION "\""), 1);
    lac_metric_set(lac_metrics_get(c->metrics, LAC_M_EPOCH, ""), (double)c->epoch);
}

/* Before anybody is let in: what is wrong with the database is an error of the start. That another
 * coordinator of the same folder has it is none. */
static lac_status open_jobs(coordinator *c, lac_error *err)
{
    if (!c->options.jobs_on)
        return LAC_OK;
    lac_store_options options = {.dir = c->options.state_dir,
                                 .epoch = c->epoch,
                                 .bytes_max = (uint64_t)c->options.jobs_bytes,
                                 .retention_ms = c->options.jobs_days * 86400000,
                                 .changed = on_jobs_changed,
                                 .changed_arg = c};
    lac_status status = lac_store_open(&c->loop, &options, c->metrics, &c->store, err);
    if (status == LAC_BUSY)
        lac_info("no batch jobs here: %s", err->text);
    return status == LAC_BUSY ? LAC_OK : status;
}

static void start_jobs(coordinator *c)
{
    lac__runner_hooks hooks = {.arg = c, .emit = batch_emit, .load = batch_load};
    if (c->store)
        c->runner =
            lac__runner_create(&c->loop, c->store, c->options.batch_share, &hooks, c->metrics);
}

static lac_status open_http(coordinator *c, lac_error *err)
{
    if (!c->options.http_on)
        return LAC_OK;
    lac_frontend_options options = {.host = c->options.http_host,
                                    .port = c->options.http_port,
                                    .allow_wide = c->options.insecure_wide,
                                    .cors_origins = c->options.cors_origins,
                                    .api_keys = c->options.api_keys,
                                    .tls_certificate = c->options.tls_cert,
                                    .tls_key = c->options.tls_key,
                                    .store = c->store};
    lac_frontend_hooks hooks = {.arg = c,
                                .emit = http_emit,
                                .ready = http_ready,
                                .alive = http_alive,
                                .models = http_models,
                                .metrics = http_metrics,
                                .feedback = http_feedback,
                                .status = http_status,
                                .health = http_health};
    lac_status status =
        lac_frontend_create(&c->loop, &options, &hooks, c->metrics, &c->frontend, err);
    return status == LAC_OK ? LAC_OK : lac_fail_in(err, "http %s", c->options.http);
}

static lac_status open_planes(coordinator *c, lac_error *err)
{
    lac_status status = lac_wire_create(&c->wire, err);
    if (status == LAC_OK && *c->options.key) {
        lac_key key;
        status = lac_key_load(c->options.key, &key, err);
        if (status == LAC_OK)
            status = lac_wire_guard(c->wire, &key, c->options.allow, err);
        explicit_bzero(&key, sizeof key);
    }
    if (status != LAC_OK)
        return status;
    lac_link_options options = {.workers = c->options.worker_plane,
                                .clients = c->options.client_plane,
                                .allow_wide = c->options.insecure_wide,
                                .epoch = c->epoch};
    return lac_link_create(c->wire, &c->loop, &options, c->metrics, on_link_event, c, &c->link,
                           err);
}

static void make_core(coordinator *c)
{
    uint64_t seed = 0;
    lac_random_bytes(&seed, sizeof seed);
    lac_core_options options = {
        .epoch = c->epoch,
        .seed = seed,
        .queue_max = (uint32_t)c->options.queue,
        .queue_tokens_max = (uint64_t)c->options.queue_tokens,
        .policy = c->options.policy,
        .tier_max = c->options.tier_max,
        .shadow_share = c->options.shadow_share,
        .allow_force = c->options.allow_force,
        .brownout_ms = (uint32_t)c->options.brownout_wait_ms,
        .http_address = c->frontend ? lac_frontend_address(c->frontend) : NULL,
        .fleet = {.groups_max = c->launching ? (uint32_t)c->options.groups_max : 0,
                  .start_min = c->options.groups_start_min,
                  .start_max = c->options.groups_start_max,
                  .prefix = "auto",
                  .wait_target_ms = c->options.wait_target_ms},
        .note = on_note,
        .note_arg = c,
    };
    c->core = lac_core_create(&options, c->metrics, on_action, c);
    LAC_ASSERT(c->core); /* the policy's name was checked */
    lac__guards_read(c->options.state_dir, c->core);
    c->guards_version = lac_core_guards_version(c->core);
    c->recorder = lac__flight_start(c->options.state_dir, c->core, &options);
}

static void start_handles(coordinator *c)
{
    c->started_ms = c->seen_ms = lac_now_ms();
    c->core_ms = 1;
    c->tick_due_ms = c->started_ms;
    c->tick.data = c->sigterm.data = c->sigint.data = c->sighup.data = c->sigusr1.data = c;
    uv_timer_start(&c->tick, on_tick, 0, TICK_MS);
    uv_signal_start(&c->sigterm, on_signal, SIGTERM);
    uv_signal_start(&c->sigint, on_signal, SIGINT);
    uv_signal_start(&c->sighup, on_reload, SIGHUP);
    uv_signal_start(&c->sigusr1, on_dump, SIGUSR1);
}

/* On failure the caller's destroy() takes down what was built. */
static lac_status build(coordinator *c, lac_error *err)
{
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error of writing, not our end */
    if (uv_loop_init(&c->loop))
        return lac_fail(err, LAC_EIO, "the event loop could not be made");
    uv_timer_init(&c->loop, &c->tick);
    uv_signal_init(&c->loop, &c->sigterm);
    uv_signal_init(&c->loop, &c->sigint);
    uv_signal_init(&c->loop, &c->sighup);
    uv_signal_init(&c->loop, &c->sigusr1);
    lac_status status = take_epoch(c, err);
    if (status != LAC_OK)
        return status;
    make_metrics(c);
    status = open_jobs(c, err);
    if (status == LAC_OK)
        status = open_http(c, err);
    if (status != LAC_OK)
        return status;
    status = open_planes(c, err);
    if (status == LAC_OK)
        status =
            lac__launching_create(&c->loop, &c->options,
                                  lac_link_endpoint(c->link, LAC_PLANE_WORKER), &c->launching, err);
    if (status != LAC_OK)
        return status;
    make_core(c);
    lac_recorder_begin_models(c->recorder, 0, &c->options.model_names);
    status = lac_core_set_models(c->core, &c->options.model_names, err);
    lac_recorder_end(c->recorder);
    if (status == LAC_OK && *c->options.tenants)
        status = lac__tenants_read(c->options.tenants, c->core, c->recorder, 0, err);
    if (status != LAC_OK)
        return status;
    start_jobs(c);
    start_handles(c);
    return LAC_OK;
}

static void announce(const coordinator *c)
{
    lac_info("started version %s epoch %llu state-dir %s%s", LAC_VERSION,
             (unsigned long long)c->epoch, c->options.state_dir,
             c->state_preset ? " (no --state-dir given)" : "");
    printf("http %s\n", c->frontend ? lac_frontend_address(c->frontend) : "off");
    printf("client-plane %s\n", lac_link_endpoint(c->link, LAC_PLANE_CLIENT));
    printf("worker-plane %s\n", lac_link_endpoint(c->link, LAC_PLANE_WORKER));
    lac__protection_print(&c->options, c->frontend ? lac_frontend_address(c->frontend) : NULL,
                          lac_link_endpoint(c->link, LAC_PLANE_CLIENT),
                          lac_link_endpoint(c->link, LAC_PLANE_WORKER));
    printf("ready to accept workers\n");
    fflush(stdout);
}

static void destroy(coordinator *c)
{
    stop(c);
    uv_run(&c->loop, UV_RUN_DEFAULT);
    lac__runner_destroy(&c->runner);
    lac_wire_destroy(&c->wire);
    lac_core_destroy(&c->core);
    lac_recorder_destroy(&c->recorder);
    lac_metrics_destroy(&c->metrics);
    int busy = uv_loop_close(&c->loop);
    LAC_ASSERT(!busy); /* a handle was forgotten */
    uv_library_shutdown();
}

int main(int argc, char **argv)
{
    static coordinator c;
    lac_error err = {0};
    lac__task task;
    if (lac__options_load(argc, argv, &c.options, &task, &err) != LAC_OK) {
        fprintf(stderr, "lacuna-coordinator: %s\n", err.text);
        return 2;
    }
    if (task != LAC__RUN) {
        lac__options_print(task);
        return 0;
    }
    lac_log_setup(c.options.level, "coordinator", c.options.log_json);
    lac_log_limit((unsigned)c.options.log_rate);
    lac_status status = build(&c, &err);
    if (status == LAC_OK) {
        announce(&c);
        uv_run(&c.loop, UV_RUN_DEFAULT);
    } else {
        fprintf(stderr, "lacuna-coordinator: %s\n", err.text);
    }
    destroy(&c);
    return status == LAC_OK ? 0 : 1;
}
