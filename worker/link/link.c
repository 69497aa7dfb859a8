/* The life of a rank's process: makes its parts, runs the loop, and takes them down again. Owns the
 * timers and signals and drives the session by them. Runs on the main thread, which is the link
 * thread. Must not know what is inside a request. */
#include "link/link.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/mem.h"
#include "parts.h"

/* Milliseconds from `then` to `now`; `then` may be newer by the length of a callback. */
static uint64_t since(uint64_t then, uint64_t now)
{
    return now > then ? now - then : 0;
}

/* ---- session ---- */

static void on_leave(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

void lac__link_event(lac_link *link, lac_link_event event)
{
    /* The last messages get a moment to reach the network: closing the socket drops what waits. */
    if (lac_session_event(&link->session, event) && link->session.state == LAC_LINK_STOPPED)
        uv_timer_start(&link->leave, on_leave, LAC__LEAVE_MS, 0);
}

void lac__link_drain(lac_link *link, uint32_t deadline_ms, const char *who)
{
    if (link->session.draining)
        return;
    uint32_t wait_ms = deadline_ms > 0 ? deadline_ms : LAC_DRAIN_MS;
    lac_info("drain asked for by %s: %zu requests run, at most %u ms", who,
             lac_tasks_count(link->tasks), wait_ms);
    link->drain_until_ms = lac_now_ms() + wait_ms;
    lac__link_event(link, LAC_LINK_EV_DRAIN);
    if (lac_session_duties(&link->session)->beats)
        lac__beat_send(link); /* so that nothing more is sent here */
}

void lac__link_settle(lac_link *link)
{
    if (!link->session.draining || link->session.state == LAC_LINK_STOPPED)
        return;
    uint64_t now = lac_now_ms();
    bool heard = lac_session_duties(&link->session)->reports;
    /* At the deadline the coordinator moves what is left; without one nobody waits for it. */
    bool over = now >= link->drain_until_ms ||
                (!heard && since(link->sent_ms, now) > link->session.lease_ms);
    if (!over && !lac__link_idle(link))
        return;
    if (!lac__link_idle(link))
        lac_warn("%zu requests were not finished by the end of the drain",
                 lac_tasks_count(link->tasks));
    lac_msg msg = {.body.fault = {0}};
    bool speaks = heard && link->hello.rank == 0; /* for its group */
    if (speaks && lac__link_send(link, LAC_MSG_DRAINED, &msg) != LAC_OK && !over)
        return; /* the next tick tries again */
    lac__link_event(link, LAC_LINK_EV_DRAINED);
}

/* ---- timers and signals ---- */

static void deadlines_check(lac_link *link, uint64_t now)
{
    for (lac_task *task = lac_tasks_next(link->tasks, NULL), *after; task != NULL; task = after) {
        after = lac_tasks_next(link->tasks, task);
        if (task->deadline_ms == 0 || now < task->deadline_ms || task->stage != LAC_TASK_RUNNING)
            continue;
        lac_runner_cancel(link->runner, task->id);
        task->deadline_ms = 0;
        lac_task_refuse(task, LAC_EDEADLINE, "deadline_ms: the request's time ran out");
        link->refusals++;
    }
}

/* What the session's state asks for as time passes. */
void lac__link_session_tick(lac_link *link)
{
    uint64_t now = lac_now_ms();
    const lac_link_duties *duties = lac_session_duties(&link->session);
    if (duties->says_hello && lac__hello_send(link)) {
        link->hello_ms = now;
        lac__link_event(link, LAC_LINK_EV_SAID_HELLO);
    } else if (link->session.state == LAC_LINK_HELLO_SENT &&
               since(link->hello_ms, now) > LAC__HELLO_WAIT_MS) {
        lac__link_event(link, LAC_LINK_EV_SILENT);
    } else if (duties->beats && now >= link->beat_ms) {
        lac__beat_send(link);
        link->beat_ms = now + link->session.heartbeat_ms;
    }
    if (duties->beats && since(link->sent_ms, now) > link->session.lease_ms) {
        lac_warn("nothing reached the coordinator for %llu ms, saying hello again",
                 (unsigned long long)since(link->sent_ms, now));
        lac__link_event(link, LAC_LINK_EV_SILENT);
    }
}

static void on_tick(uv_timer_t *timer)
{
    lac_link *link = timer->data;
    uint64_t now = lac_now_ms();
    if (link->session.state == LAC_LINK_STOPPED)
        return;
    deadlines_check(link, now);
    lac__link_session_tick(link);
    lac__link_pump(link);
    lac__link_settle(link);
}

/* The engine thread has a report. */
static void on_wake(uv_async_t *async)
{
    lac_link *link = async->data;
    if (link->session.state != LAC_LINK_STOPPED)
        lac__forming_wake(link);
    if (link->session.state == LAC_LINK_STOPPED)
        return;
    lac__link_pump(link);
    lac__link_settle(link);
}

static void on_signal(uv_signal_t *handle, int signum)
{
    lac_link *link = handle->data;
    if (link->signals++ > 0) {
        lac_warn("second signal: leaving at once");
        _exit(128 + signum);
    }
    if (!link->formed) { /* nothing runs yet: there is nothing to drain */
        lac__link_event(link, LAC_LINK_EV_END);
        return;
    }
    lac__link_drain(link, 0, signum == SIGTERM ? "SIGTERM" : "SIGINT");
    lac__link_settle(link);
}

static void runner_wake(void *arg)
{
    uv_async_send(arg); /* the one libuv call that any thread may make */
}

/* ---- creation ---- */

static lac_status chat_setup(lac_link *link, lac_error *err)
{
    const lac_model *model = lac_runner_model(link->runner);
    const lac_tokenizer *tokenizer = link->tools.tokenizer;
    const char *wanted = link->options.chat_family;
    const char *text = "", *bos = "", *eos = "";
    size_t length = 0;
    lac_error ignored = {.status = LAC_OK};
    lac_gguf_string(model->gguf, "tokenizer.chat_template", &text, &length, &ignored);
    if (wanted[0] != '\0') {
        link->tools.family = lac_chat_find(wanted);
        if (link->tools.family == NULL)
            return lac_fail(err, LAC_EINVAL, "chat-template is \"%.60s\", known are %s", wanted,
                            lac_chat_names());
    } else {
        link->tools.family = lac_chat_detect(text, length);
    }
    if (link->tools.family == NULL) {
        lac_warn("the model's chat template (%zu bytes) is of no known family: chat requests are "
                 "refused, completions are served; --chat-template names one of %s",
                 length, lac_chat_names());
        return LAC_OK;
    }
    size_t piece;
    if (lac_tokenizer_bos(tokenizer) != LAC_TOKEN_NONE)
        lac_tokenizer_piece(tokenizer, lac_tokenizer_bos(tokenizer), true, &bos, &piece);
    if (lac_tokenizer_eos(tokenizer) != LAC_TOKEN_NONE)
        lac_tokenizer_piece(tokenizer, lac_tokenizer_eos(tokenizer), true, &eos, &piece);
    lac_chat_context_read(link->tools.family, text, length, bos, eos, &link->tools.chat);
    return LAC_OK;
}

static void text_set(char *to, size_t size, const char *text)
{
    size_t length = strnlen(text, size - 1);
    memcpy(to, text, length);
    to[length] = '\0';
}

static void hello_fill(lac_link *link)
{
    const lac_model *model = lac_runner_model(link->runner);
    const lac_engine_stats *facts = lac_runner_facts(link->runner);
    const lac_link_options *options = &link->options;
    lac_hello *hello = &link->hello;
    hello->layers = model->layers_count;
    hello->vocab = model->vocab;
    hello->context_max = facts->context_max;
    hello->slots = facts->slots;
    hello->kv_pages = facts->kv_pages;
    hello->model_bytes = facts->weight_bytes;
    hello->threads = facts->threads;
    hello->classes_count = link->classes->count;
    hello->classes = link->classes->facts;
    text_set(hello->model, sizeof(hello->model),
             options->model_name[0] != '\0' ? options->model_name : model->name);
    text_set(hello->architecture, sizeof(hello->architecture), model->architecture);
    text_set(hello->isa, sizeof(hello->isa), facts->isa);
    if (link->tools.family != NULL)
        text_set(hello->chat_family, sizeof(hello->chat_family), lac_chat_name(link->tools.family));
    lac_model_digest(model, &hello->model_digest);
}

static void loop_setup(lac_link *link)
{
    /* libuv fails here only when the kernel gives no descriptors at start: nothing can go on. */
    LAC_ASSERT(uv_loop_init(&link->loop) == 0);
    LAC_ASSERT(uv_async_init(&link->loop, &link->wake, on_wake) == 0);
    uv_timer_init(&link->loop, &link->tick);
    uv_timer_init(&link->loop, &link->leave);
    LAC_ASSERT(uv_signal_init(&link->loop, &link->on_term) == 0);
    LAC_ASSERT(uv_signal_init(&link->loop, &link->on_int) == 0);
    link->wake.data = link->tick.data = link->on_term.data = link->on_int.data = link;
}

lac_runner_options lac__link_runner_options(lac_link *link)
{
    return (lac_runner_options){.engine = link->options.engine,
                                .plan = link->classes->plan,
                                .commands_max = LAC__COMMANDS_MAX,
                                .reports_max = LAC__REPORTS_MAX,
                                .wake = runner_wake,
                                .wake_arg = &link->wake};
}

lac_status lac__link_loaded(lac_link *link, lac_error *err)
{
    const lac_engine *engine = lac_runner_engine(link->runner);
    lac_status status = lac_classes_announce(link->classes, engine, err);
    if (status != LAC_OK)
        return status;
    link->tools.tokenizer = lac_runner_tokenizer(link->runner);
    link->tools.vocab = lac_runner_model(link->runner)->vocab;
    link->tools.context_max = lac_runner_facts(link->runner)->context_max;
    if (link->hello.rank == 0) { /* the others have no tokenizer */
        lac_prompt_tools_look(&link->tools);
        status = chat_setup(link, err);
    }
    if (status != LAC_OK)
        return status;
    hello_fill(link);
    if (link->rank)
        lac_rank_formed(link->rank, engine, &link->hello);
    return LAC_OK;
}

/* The only rank of a group loads at once; one of several when all of them are there. */
static lac_status engine_setup(lac_link *link, lac_error *err)
{
    const lac_link_options *o = &link->options;
    lac_status status = lac_classes_load(o->plan, &link->classes, err);
    if (status != LAC_OK)
        return status;
    link->options.engine.classes = link->classes->engine;
    link->options.engine.classes_count = link->classes->count;
    link->told = link->options.engine;
    link->hello = (lac_hello){.pp = 1, .tp = 1, .pid = (uint64_t)getpid()};
    memcpy(link->hello.incarnation, o->incarnation, sizeof(o->incarnation));
    text_set(link->hello.group, sizeof(link->hello.group), o->group);
    if (o->pp * o->tp > 1) {
        lac_rank_options options = {.rank = o->rank,
                                    .pp = o->pp,
                                    .tp = o->tp,
                                    .model_name = o->model_name,
                                    .classes = link->classes,
                                    .engine = &link->told};
        return lac_rank_create(&options, &link->hello, &link->rank, err);
    }
    lac_runner_options options = lac__link_runner_options(link);
    status = lac_runner_start(&options, &link->runner, err);
    if (status == LAC_OK)
        status = lac__link_loaded(link, err);
    link->formed = status == LAC_OK;
    return status;
}

/* The connection is there: a Hello need not wait for the next tick. */
static void on_connected(void *arg)
{
    lac_link *link = arg;
    if (lac_session_duties(&link->session)->says_hello)
        lac__link_session_tick(link);
}

static lac_status keys_setup(lac_link *link, lac_error *err)
{
    lac_key own;
    char server[LAC_KEY_TEXT + 1];
    lac_status status = lac_key_load(link->options.key, &own, err);
    if (status == LAC_OK)
        status = lac_key_load_public(link->options.server_key, server, err);
    if (status == LAC_OK)
        status = lac_wire_trust(link->wire, &own, server, err);
    explicit_bzero(&own, sizeof(own));
    return status;
}

static lac_status socket_setup(lac_link *link, lac_error *err)
{
    lac_socket_events events = {.arg = link,
                                .message = lac__link_message,
                                .bad = lac__link_bad,
                                .connected = on_connected,
                                .lost = lac__link_lost};
    lac_status status = lac_wire_create(&link->wire, err);
    if (status == LAC_OK && link->options.key != NULL && link->options.key[0] != '\0')
        status = keys_setup(link, err);
    if (status != LAC_OK)
        return status;
    return lac_socket_open(link->wire, &link->loop, LAC_SOCKET_CONNECT, link->options.coordinator,
                           true, &events, &link->socket, err);
}

lac_status lac_link_create(const lac_link_options *options, lac_link **out, lac_error *err)
{
    lac_link *link = lac_alloc(1, sizeof(*link));
    link->options = *options;
    lac_session_init(&link->session);
    link->tasks = lac_tasks_create(LAC_RUNNING_MAX);
    link->claims = lac_alloc(LAC_RUNNING_MAX, sizeof(*link->claims));
    link->outgoing = lac_alloc(LAC_STEP_ITEMS_MAX, sizeof(*link->outgoing));
    link->outgoing_ids = lac_alloc(LAC_STEP_ITEMS_MAX, sizeof(*link->outgoing_ids));
    loop_setup(link);
    lac_status status = engine_setup(link, err);
    if (status == LAC_OK)
        status = socket_setup(link, err);
    if (status != LAC_OK) {
        lac_link_destroy(&link);
        return status;
    }
    *out = link;
    return LAC_OK;
}

void lac_link_destroy(lac_link **link_pointer)
{
    lac_link *link = *link_pointer;
    if (link == NULL)
        return;
    /* Jobs on the pool read the tokenizer, which goes with the engine: let them end first. */
    while (link->jobs > 0)
        uv_run(&link->loop, UV_RUN_ONCE);
    if (link->pending != NULL)
        lac_runner_give_back(link->runner, link->pending);
    lac_runner_stop(&link->runner);
    if (link->socket != NULL)
        lac_socket_close(&link->socket);
    uv_close((uv_handle_t *)&link->wake, NULL);
    uv_close((uv_handle_t *)&link->tick, NULL);
    uv_close((uv_handle_t *)&link->leave, NULL);
    uv_close((uv_handle_t *)&link->on_term, NULL);
    uv_close((uv_handle_t *)&link->on_int, NULL);
    uv_run(&link->loop, UV_RUN_DEFAULT);
    LAC_ASSERT(uv_loop_close(&link->loop) == 0);
    if (link->wire != NULL)
        lac_wire_destroy(&link->wire);
    lac_rank_destroy(&link->rank);
    lac_tasks_destroy(&link->tasks);
    lac_classes_destroy(&link->classes);
    free(link->claims);
    lac_buf_free(&link->divided);
    free(link->outgoing);
    free(link->outgoing_ids);
    free(link);
    *link_pointer = NULL;
}

int lac_link_run(lac_link *link)
{
    const lac_hello *hello = &link->hello;
    lac_info("group %s rank %u of %u, model %s: %u layers, %u slots, context %u, %llu KV pages, %u "
             "threads, %s, chat %s, %u classes; coordinator %s",
             hello->group, hello->rank, hello->pp * hello->tp, hello->model, hello->layers,
             hello->slots, hello->context_max, (unsigned long long)hello->kv_pages, hello->threads,
             hello->isa[0] != '\0' ? hello->isa : "not loaded yet",
             hello->chat_family[0] != '\0' ? hello->chat_family : "none", hello->classes_count,
             link->options.coordinator);
    link->sent_ms = lac_now_ms();
    uv_signal_start(&link->on_term, on_signal, SIGTERM);
    uv_signal_start(&link->on_int, on_signal, SIGINT);
    uv_timer_start(&link->tick, on_tick, 0, LAC__TICK_MS);
    uv_run(&link->loop, UV_RUN_DEFAULT);
    uv_signal_stop(&link->on_term);
    uv_signal_stop(&link->on_int);
    /* The engine thread of one rank of several may be waiting for a rank that is gone, or in the
     * middle of loading: the kernel takes back what a process holds, and nobody else would end it.
     */
    bool orderly = link->formed && link->exit_code == 0 && (link->hello.rank == 0 || link->let_go);
    if (link->rank && !orderly) {
        lac_info("stopped, exit %d", link->exit_code);
        _exit(link->exit_code);
    }
    return link->exit_code;
}
