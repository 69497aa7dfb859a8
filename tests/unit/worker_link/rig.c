#include "rig.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "link/link.h"
#include "wire/socket.h"

rig_t rig;

static uv_loop_t loop;
static lac_wire *wire;
static lac_socket *listener;
static char endpoint[LAC_ENDPOINT_MAX + 1];

static void log_setup(void)
{
    lac_log_setup(getenv("RIG_LOG") != NULL ? LAC_LOG_TRACE : LAC_LOG_ERROR, "rig", false);
}

static void fake_map(int shared)
{
    fake = mmap(NULL, sizeof(*fake), PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0);
    if (fake == MAP_FAILED)
        abort(); /* the rank's process has no test that could fail */
}

static void take_item(const lac_step_item *item)
{
    rig_stream_t *s = rig_stream(item->request);
    s->attempt = item->attempt;
    s->gaps += item->chunk.first_pos != s->next_pos;
    for (uint32_t i = 0; i < item->chunk.tokens_count; i++)
        s->wrong += item->chunk.tokens[i] != FAKE_TOKEN_BASE + (item->chunk.first_pos + i) % 100;
    s->next_pos = item->chunk.first_pos + item->chunk.tokens_count;
    s->tokens += item->chunk.tokens_count;
    if (item->chunk.text.length > 0 && s->text_length + item->chunk.text.length < RIG_TEXT) {
        memcpy(s->text + s->text_length, item->chunk.text.data, item->chunk.text.length);
        s->text_length += item->chunk.text.length;
    }
    s->finish = item->finish;
    s->error = item->error;
    s->usage = item->usage;
    memcpy(s->reason, item->reason, sizeof(s->reason));
    if (item->account != NULL) {
        s->accounts++;
        s->account = *item->account;
        snprintf(s->mask, sizeof(s->mask), "%s", item->account->mask ? item->account->mask : "");
    }
}

static void on_message(void *arg, uint64_t peer, const lac_msg *msg)
{
    (void)arg;
    rig.peer = peer;
    const lac_envelope *e = &msg->envelope;
    if (e->type != LAC_MSG_HELLO) {
        rig.bad_envelopes +=
            e->session != rig.session || e->epoch != rig.epoch || e->seq != rig.last_seq + 1;
        rig.last_seq = e->seq;
    }
    switch (e->type) {
    case LAC_MSG_HELLO:
        rig.hello = msg->body.hello;
        for (uint32_t i = 0; i < rig.hello.classes_count && i < RIG_CLASSES; i++)
            rig.classes[i] = msg->body.hello.classes[i];
        ck_assert_uint_le(rig.hello.running_count, RIG_RUNNING);
        for (uint32_t i = 0; i < rig.hello.running_count; i++)
            rig.running[i] = msg->body.hello.running[i];
        snprintf(rig.address, sizeof(rig.address), "%.*s", (int)rig.hello.address.length,
                 rig.hello.address.length > 0 ? rig.hello.address.data : "");
        rig.knocks += rig.hello.address.length == 0;
        rig.hellos++;
        if (rig.auto_ack)
            rig_ack(rig.epoch, rig.session + 1);
        break;
    case LAC_MSG_HEARTBEAT:
        rig.beats++;
        rig.beat = msg->body.heartbeat;
        break;
    case LAC_MSG_STEP_OUTPUT:
        rig.outputs++;
        for (uint32_t i = 0; i < msg->body.step_output.items_count; i++)
            take_item(&msg->body.step_output.items[i]);
        break;
    case LAC_MSG_SHADOW:
        rig.shadows++;
        rig.shadow = msg->body.shadow;
        break;
    case LAC_MSG_FAULT:
        rig.faults++;
        rig.fault = msg->body.fault;
        break;
    case LAC_MSG_DRAINED: rig.drained++; break;
    default: ck_abort_msg("a rank sent %s", lac_msg_name(e->type));
    }
}

static void on_bad(void *arg, uint64_t peer, const lac_envelope *envelope, const lac_error *err)
{
    (void)arg;
    (void)peer;
    (void)envelope;
    ck_abort_msg("a frame did not decode: %s", err->text);
}

static void on_lost(void *arg, uint64_t peer)
{
    (void)arg;
    (void)peer;
}

void rig_coordinator_open(void)
{
    lac_socket_events events = {.message = on_message, .bad = on_bad, .lost = on_lost};
    lac_error err = {.status = LAC_OK};
    lac_status status = LAC_BUSY;
    for (int i = 0; i < 100 && status != LAC_OK; i++) { /* the old port may need a moment */
        status = lac_socket_open(wire, &loop, LAC_SOCKET_LISTEN_WORKERS, endpoint, false, &events,
                                 &listener, &err);
        if (status != LAC_OK)
            usleep(20000);
    }
    ck_assert_msg(status == LAC_OK, "%s", err.text);
    snprintf(endpoint, sizeof(endpoint), "%s", lac_socket_endpoint(listener));
}

void rig_coordinator_close(void)
{
    lac_socket_close(&listener);
    rig_turn(5);
}

/* The rank's own process: what lacuna-worker's main does after its options. It is this program once
 * more, so that it shares no descriptor and no library state with the coordinator. */
int rig_rank_main(char **argv)
{
    char *rank_endpoint = argv[0], *model = argv[1], *chat_family = argv[2];
    fake_map((int)strtol(argv[3], NULL, 10));
    log_setup();
    lac_link_options options = {.coordinator = rank_endpoint,
                                .group = "g0",
                                .model_name = "",
                                .chat_family = chat_family,
                                .plan = strcmp(model, "fake.gguf") == 0 ? "fake.plan" : "",
                                .engine = {.model_path = model}};
    const char *rank = getenv("RIG_RANK");
    if (rank != NULL)
        sscanf(rank, "%2u:%2u:%2u", &options.rank, &options.pp, &options.tp);
    lac_link *link = NULL;
    lac_error err;
    if (lac_link_create(&options, &link, &err) != LAC_OK)
        return 9;
    int code = lac_link_run(link);
    lac_link_destroy(&link);
    return code;
}

static void rank_start(int shared, const char *model, const char *chat_family)
{
    char number[16];
    snprintf(number, sizeof(number), "%d", shared);
    rig.rank = fork();
    ck_assert_int_ge(rig.rank, 0);
    if (rig.rank > 0)
        return;
    fcntl(shared, F_SETFD, 0);
    execl("/proc/self/exe", "rank", "--rank", endpoint, model, chat_family, number, (char *)NULL);
    _exit(99);
}

void rig_start_with(const char *model, const char *chat_family)
{
    lac_error err;
    log_setup();
    memset(&rig, 0, sizeof(rig));
    rig.epoch = 5;
    rig.auto_ack = true;
    int shared = memfd_create("fake", MFD_CLOEXEC);
    ck_assert(shared >= 0 && ftruncate(shared, sizeof(*fake)) == 0);
    fake_map(shared);
    atomic_store(&fake->step_us, 2000);
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(lac_wire_create(&wire, &err), LAC_OK);
    snprintf(endpoint, sizeof(endpoint), "tcp://127.0.0.1:0");
    rig_coordinator_open();
    rank_start(shared, model, chat_family);
    close(shared);
}

void rig_start(void)
{
    rig_start_with("fake.gguf", "");
    RIG_UNTIL(rig.hellos == 1 && rig.beats > 0, 5000);
}

void rig_start_rank(uint32_t rank, uint32_t pp, uint32_t tp)
{
    char text[32];
    snprintf(text, sizeof(text), "%u:%u:%u", rank, pp, tp);
    setenv("RIG_RANK", text, 1);
    rig_start_with("fake.gguf", "");
    unsetenv("RIG_RANK");
}

void rig_stop(void)
{
    if (!rig.rank_gone) {
        kill(rig.rank, SIGKILL);
        waitpid(rig.rank, NULL, 0);
    }
    if (listener != NULL)
        lac_socket_close(&listener);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    lac_wire_destroy(&wire);
    munmap(fake, sizeof(*fake));
}

static void on_time(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

void rig_turn(unsigned ms)
{
    uv_timer_t timer;
    uv_timer_init(&loop, &timer);
    uv_timer_start(&timer, on_time, ms, 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&loop, UV_RUN_NOWAIT);
    if (!rig.rank_gone && waitpid(rig.rank, &rig.rank_status, WNOHANG) == rig.rank)
        rig.rank_gone = true;
}

int rig_rank_exit(unsigned ms)
{
    RIG_UNTIL(rig.rank_gone, ms);
    return WIFEXITED(rig.rank_status) ? WEXITSTATUS(rig.rank_status)
                                      : 128 + WTERMSIG(rig.rank_status);
}

void rig_send_as(lac_msg_type type, lac_msg *msg, uint64_t epoch, uint64_t session)
{
    lac_error err = {.status = LAC_OK};
    msg->envelope = (lac_envelope){.major = LAC_PROTO_MAJOR,
                                   .minor = LAC_PROTO_MINOR,
                                   .type = (uint16_t)type,
                                   .epoch = epoch,
                                   .session = session,
                                   .seq = 1};
    lac_status status = lac_socket_send(listener, rig.peer, msg, &err);
    ck_assert_msg(status == LAC_OK, "%s: %s", lac_msg_name((uint16_t)type), err.text);
}

void rig_send(lac_msg_type type, lac_msg *msg)
{
    rig_send_as(type, msg, rig.epoch, rig.session);
}

void rig_ack(uint64_t epoch, uint64_t session)
{
    lac_msg msg = {.body.hello_ack = {.session = session,
                                      .epoch = epoch,
                                      .incarnation = {1, 2, 3},
                                      .heartbeat_ms = 100,
                                      .lease_ms = 1000}};
    rig_send_as(LAC_MSG_HELLO_ACK, &msg, epoch, session);
    if (epoch >= rig.epoch) {
        rig.epoch = epoch;
        rig.session = session;
        rig.last_seq = 0;
    }
}

lac_dispatch rig_ask(uint64_t request, uint32_t attempt, uint32_t max_tokens)
{
    static const uint32_t ids[] = {1, 2, 3};
    static uint64_t dispatch_seq;
    lac_dispatch ask = {.request = request,
                        .attempt = attempt,
                        .dispatch_seq = ++dispatch_seq,
                        .prompt = {.kind = LAC_PROMPT_IDS, .ids_count = 3, .ids = ids},
                        .sampling = lac_sampling_default()};
    ask.sampling.has_seed = true;
    ask.sampling.max_tokens = max_tokens;
    return ask;
}

void rig_dispatch_ask(const lac_dispatch *ask)
{
    lac_msg msg = {.body.dispatch = *ask};
    rig_send(LAC_MSG_DISPATCH, &msg);
}

void rig_dispatch(uint64_t request, uint32_t attempt, uint32_t first, uint32_t max_tokens)
{
    uint32_t ids[] = {first, 2, 3};
    lac_dispatch ask = rig_ask(request, attempt, max_tokens);
    ask.prompt.ids = ids;
    rig_dispatch_ask(&ask);
}

void rig_cancel(uint64_t request, uint32_t attempt)
{
    lac_msg msg = {.body.cancel = {.request = request, .attempt = attempt}};
    rig_send(LAC_MSG_CANCEL, &msg);
}

rig_stream_t *rig_stream(uint64_t request)
{
    for (uint32_t i = 0; i < rig.streams_count; i++)
        if (rig.streams[i].request == request)
            return &rig.streams[i];
    ck_assert_uint_lt(rig.streams_count, RIG_STREAMS);
    rig_stream_t *s = &rig.streams[rig.streams_count++];
    s->request = request;
    return s;
}
