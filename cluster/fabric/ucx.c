/* The fabric over UCX: shared memory between ranks of a host, TCP between hosts. One UCP worker and
 * one endpoint a peer; messages are tagged (channel, sender, incarnation, step).
 *
 * Traps of UCX 1.13 that this file is shaped by:
 *  - Endpoints that report a dead peer silently go over TCP on one host, because shared memory is
 *    left out unless its own error handling is switched on. It is (environment), and connect()
 *    warns when a rank of this host is not reached through memory; a test looks at the lanes.
 *  - Peers are looked after every 20 s by default: here twice a second.
 *  - Its log goes to standard output by default, which is the caller's.
 * Must not know what the bytes mean. One thread at a time. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>
#include <ucs/config/global_opts.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "ops.h"

enum {
    CHANNEL_ABORT = 6, /* beside lac_fabric_channel */
    CHANNEL_BYE = 7,
    SPIN_US = 5,     /* then the processor is offered to others */
    YIELD_US = 1000, /* then this rank sleeps between looks */
    SLEEP_US = 200,
    IDLE_US = 100000, /* then it sleeps longer, */
    IDLE_SLEEP_US = 1000,
    WATCH_MS = 100,  /* between two looks at the processes of this host */
    FAIR_POLLS = 16, /* polls between two looks at clock and abort */
};

/* Tag: channel 3 bits, sender 6, incarnation 24 (folded), step 31. The whole incarnation was
 * compared when the ranks met; here it keeps an old rank's last words out. */
static uint64_t tag_of(uint32_t channel, uint32_t from, uint32_t incarnation, uint32_t step)
{
    return (uint64_t)channel << 61 | (uint64_t)from << 55 |
           (uint64_t)(incarnation & 0xffffff) << 31 | (step & 0x7fffffff);
}
#define TAG_QUEUE   (UINT64_C(0x1ff) << 55) /* channel and sender */
#define TAG_CHANNEL (UINT64_C(7) << 61)
_Static_assert(LAC_RANKS_MAX <= 64, "a sender has six bits");

typedef struct {
    struct ucx *owner;
    uint32_t rank;
    ucp_ep_h ep;
    bool memory; /* its lanes are shared memory */
    bool broken; /* UCX says it is gone */
    ucs_status_t why;
} peer;

typedef struct ucx {
    lac_fabric base;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_address_t *address;
    size_t address_bytes;
    peer peers[LAC_RANKS_MAX];
    bool some_broken;
    uint64_t watched_ns; /* when the processes were looked at last */
    void *pending[LAC_FABRIC_PENDING_MAX];
    uint32_t pending_count;
    uint32_t fold; /* of the incarnation */
} ucx;

static ucx *of(lac_fabric *f)
{
    return (ucx *)(void *)f;
}

/* ---- waiting ---- */

typedef struct {
    uint64_t start_ns, deadline_ns;
    uint32_t polls;
} waiter;

static waiter wait_begin(lac_fabric_call call)
{
    return (waiter){.deadline_ns = call.deadline_ns};
}

/* A message that waits in a queue, taken out of UCX's hands. */
static ucp_tag_message_h message_probe(ucx *u, uint64_t tag, uint64_t mask,
                                       ucp_tag_recv_info_t *info)
{
    return ucp_tag_probe_nb(u->worker, tag, mask, 1, info);
}

static lac_status request_wait(ucx *u, void *request, waiter *w, lac_error *err);

/* Fetches a probed message into `data`, which holds info->length. */
static lac_status message_fetch(ucx *u, ucp_tag_message_h message, const ucp_tag_recv_info_t *info,
                                void *data, waiter *w, lac_error *err)
{
    ucp_request_param_t param = {0};
    void *request = ucp_tag_msg_recv_nbx(u->worker, data, info->length, message, &param);
    return request_wait(u, request, w, err);
}

/* Has some rank ended the group? Its reason becomes the failure. */
static bool aborted(ucx *u)
{
    ucp_tag_recv_info_t info;
    ucp_tag_message_h message =
        message_probe(u, tag_of(CHANNEL_ABORT, 0, 0, 0), TAG_CHANNEL, &info);
    if (!message)
        return false;
    char text[LAC_REASON_MAX + 1] = "";
    if (info.length <= LAC_REASON_MAX) {
        ucp_request_param_t param = {0};
        void *request = ucp_tag_msg_recv_nbx(u->worker, text, info.length, message, &param);
        for (int i = 0; UCS_PTR_IS_PTR(request) && i < 10000 &&
                        ucp_request_check_status(request) == UCS_INPROGRESS;
             i++)
            ucp_worker_progress(u->worker);
        if (UCS_PTR_IS_PTR(request))
            ucp_request_free(request);
    }
    (void)lac__fabric_fail(&u->base, NULL, "%s", *text ? text : "a rank ended the group");
    return true;
}

static bool said_bye(ucx *u, uint32_t rank)
{
    ucp_tag_recv_info_t info;
    return ucp_tag_probe_nb(u->worker, tag_of(CHANNEL_BYE, rank, 0, 0), TAG_QUEUE, 0, &info) !=
           NULL;
}

/* UCX asks after peers by itself, and takes a dead process that nobody has reaped for a living one.
 */
static void processes_look(ucx *u, uint64_t now)
{
    if (now - u->watched_ns < WATCH_MS * UINT64_C(1000000))
        return;
    u->watched_ns = now;
    int dead = lac__fabric_dead(&u->base);
    if (dead < 0 || u->peers[dead].broken)
        return;
    u->peers[dead].broken = u->some_broken = true;
    u->peers[dead].why = UCS_ERR_ENDPOINT_TIMEOUT;
}

/* The failure that endpoints and aborts add up to. A peer that said goodbye may well be gone. */
static lac_status look(ucx *u, lac_error *err)
{
    if (u->base.failure.status == LAC_OK && !aborted(u) && u->some_broken)
        for (uint32_t r = 0; r < u->base.ranks; r++)
            if (u->peers[r].broken && !said_bye(u, r))
                return lac__fabric_fail(&u->base, err, "rank %u is gone (%s)", r,
                                        u->peers[r].why == UCS_ERR_ENDPOINT_TIMEOUT
                                            ? "it gives no sign of life"
                                            : ucs_status_string(u->peers[r].why));
    return u->base.failure.status == LAC_OK ? LAC_OK : lac__fabric_failed(&u->base, err);
}

/* One look at the network. Waits a little the longer nothing comes, so that ranks which share a
 * core with others, or wait for work, do not burn it. LAC_EDEADLINE has no text yet. */
static lac_status wait_more(ucx *u, waiter *w, lac_error *err)
{
    if (ucp_worker_progress(u->worker) > 0)
        return LAC_OK;
    if (++w->polls % FAIR_POLLS != 0)
        return LAC_OK;
    lac_status status = look(u, err);
    if (status != LAC_OK)
        return status;
    uint64_t now = lac_now_ns();
    if (w->start_ns == 0)
        w->start_ns = now;
    processes_look(u, now);
    if (now >= w->deadline_ns)
        return LAC_EDEADLINE;
    uint64_t us = (now - w->start_ns) / 1000;
    if (us > YIELD_US) {
        w->polls = FAIR_POLLS - 1; /* each look is a whole one from here on */
        usleep(us > IDLE_US ? IDLE_SLEEP_US : SLEEP_US);
    } else if (us > SPIN_US) {
        sched_yield();
    }
    return LAC_OK;
}

static lac_status request_wait(ucx *u, void *request, waiter *w, lac_error *err)
{
    if (!request)
        return LAC_OK;
    ucs_status_t state = UCS_INPROGRESS;
    lac_status status = LAC_OK;
    if (UCS_PTR_IS_ERR(request))
        return lac__fabric_fail(&u->base, err, "a message failed: %s",
                                ucs_status_string(UCS_PTR_STATUS(request)));
    while (status == LAC_OK && (state = ucp_request_check_status(request)) == UCS_INPROGRESS)
        status = wait_more(u, w, err);
    if (state == UCS_INPROGRESS)
        ucp_request_cancel(u->worker, request);
    ucp_request_free(request);
    if (status == LAC_OK && state != UCS_OK) {
        status = look(u, err); /* who is gone says more than what failed */
        if (status == LAC_OK)
            status =
                lac__fabric_fail(&u->base, err, "a message failed: %s", ucs_status_string(state));
    }
    return status;
}

/* ---- send, settle, receive ---- */

static lac_status ucx_settle(lac_fabric *f, lac_fabric_call call, lac_error *err)
{
    ucx *u = of(f);
    waiter w = wait_begin(call);
    lac_status status = LAC_OK;
    for (uint32_t i = 0; i < u->pending_count; i++) {
        if (status == LAC_OK)
            status = request_wait(u, u->pending[i], &w, err);
        else { /* after a failure nobody waits for the others */
            ucp_request_cancel(u->worker, u->pending[i]);
            ucp_request_free(u->pending[i]);
        }
    }
    u->pending_count = 0;
    return status == LAC_EDEADLINE
               ? lac_fail(err, status, "what was sent in step %u is not out in time", call.step)
               : status;
}

static void *send_start(ucx *u, uint32_t to, uint64_t tag, const void *data, size_t bytes)
{
    ucp_request_param_t param = {0};
    return ucp_tag_send_nbx(u->peers[to].ep, data, bytes, tag, &param);
}

static lac_status ucx_send(lac_fabric *f, uint32_t to, lac_fabric_channel channel,
                           lac_fabric_call call, const void *data, size_t bytes, lac_error *err)
{
    ucx *u = of(f);
    if (u->pending_count == LAC_FABRIC_PENDING_MAX) {
        lac_status status = ucx_settle(f, call, err);
        if (status != LAC_OK)
            return status;
    }
    void *request =
        send_start(u, to, tag_of((uint32_t)channel, f->rank, u->fold, call.step), data, bytes);
    if (UCS_PTR_IS_ERR(request)) {
        lac_status status = look(u, err);
        return status != LAC_OK ? status
                                : lac__fabric_fail(f, err, "rank %u is gone (%s)", to,
                                                   ucs_status_string(UCS_PTR_STATUS(request)));
    }
    if (request)
        u->pending[u->pending_count++] = request;
    return LAC_OK;
}

static const char *channel_name(lac_fabric_channel channel)
{
    static const char *const names[] = {"hidden rows", "a result", "an order", "a part of a sum"};
    return names[channel];
}

/* Takes a refused message out of the way. */
static void discard(ucx *u, ucp_tag_message_h message, const ucp_tag_recv_info_t *info)
{
    void *data = lac_try_alloc(1, info->length + 1);
    waiter w = {.deadline_ns = lac_now_ns() + UINT64_C(1000000000)};
    if (data)
        (void)message_fetch(u, message, info, data, &w, NULL);
    free(data);
}

/* What a message is measured by before a byte of it is used. */
static lac_status message_check(ucx *u, uint32_t from, lac_fabric_channel channel,
                                lac_fabric_call call, const ucp_tag_recv_info_t *info, size_t bytes,
                                bool exact, lac_error *err)
{
    uint32_t step = (uint32_t)(info->sender_tag & 0x7fffffff);
    uint32_t fold = (uint32_t)(info->sender_tag >> 31 & 0xffffff);
    if (fold != (u->fold & 0xffffff))
        return lac_fail(err, LAC_EEPOCH, "rank %u sent %s of another incarnation", from,
                        channel_name(channel));
    if (step != (call.step & 0x7fffffff))
        return lac_fail(err, LAC_EEPOCH, "rank %u sent %s of step %u, this rank is at step %u",
                        from, channel_name(channel), step, call.step);
    if (exact ? info->length != bytes : info->length > bytes)
        return lac_fail(err, LAC_EPROTO, "rank %u sent %s of %zu bytes in step %u, %s%zu expected",
                        from, channel_name(channel), info->length, step, exact ? "" : "at most ",
                        bytes);
    return LAC_OK;
}

static lac_status ucx_receive(lac_fabric *f, uint32_t from, lac_fabric_channel channel,
                              lac_fabric_call call, void *data, size_t bytes, size_t *got,
                              lac_error *err)
{
    ucx *u = of(f);
    waiter w = wait_begin(call);
    ucp_tag_recv_info_t info;
    ucp_tag_message_h message;
    lac_status status = LAC_OK;
    while (!(message = message_probe(u, tag_of((uint32_t)channel, from, 0, 0), TAG_QUEUE, &info))) {
        status = wait_more(u, &w, err);
        if (status == LAC_EDEADLINE)
            return lac_fail(err, status, "rank %u did not send %s of step %u in time", from,
                            channel_name(channel), call.step);
        if (status != LAC_OK)
            return status;
    }
    status = message_check(u, from, channel, call, &info, bytes, !got, err);
    if (status != LAC_OK) {
        discard(u, message, &info);
        return status;
    }
    status = message_fetch(u, message, &info, data, &w, err);
    if (status == LAC_EDEADLINE) /* begun and not ended: nobody can go on from here */
        return lac__fabric_fail(f, err, "rank %u stopped in the middle of %s of step %u", from,
                                channel_name(channel), call.step);
    if (status == LAC_OK && got)
        *got = info.length;
    return status;
}

/* ---- abort, health ---- */

static void ucx_abort(lac_fabric *f, const char *reason)
{
    ucx *u = of(f);
    for (uint32_t r = 0; r < f->ranks; r++) {
        if (r == f->rank || u->peers[r].broken || !u->peers[r].ep)
            continue;
        void *request =
            send_start(u, r, tag_of(CHANNEL_ABORT, f->rank, u->fold, 0), reason, strlen(reason));
        if (UCS_PTR_IS_PTR(request)) {
            for (int i = 0; i < 1000 && ucp_request_check_status(request) == UCS_INPROGRESS; i++)
                ucp_worker_progress(u->worker);
            ucp_request_free(request);
        }
    }
    for (int i = 0; i < 1000; i++)
        ucp_worker_progress(u->worker);
}

static lac_status ucx_health(lac_fabric *f, lac_error *err)
{
    ucx *u = of(f);
    for (int i = 0; i < FAIR_POLLS && ucp_worker_progress(u->worker) > 0; i++)
        ;
    processes_look(u, lac_now_ns());
    return look(u, err);
}

/* ---- life ---- */

static void peer_broke(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    peer *p = arg;
    (void)ep;
    p->broken = true;
    p->why = status;
    p->owner->some_broken = true;
}

/* Settings that are read from the environment only; what the user has set there holds. */
static void environment_set(void)
{
    setenv("UCX_POSIX_ERROR_HANDLING", "y", 0);
    setenv("UCX_SYSV_ERROR_HANDLING", "y", 0);
    (void)ucs_global_opts_set_value("LOG_LEVEL", "fatal");
}

static lac_status context_open(ucx *u, lac_error *err)
{
    static const char *const settings[][2] = {
        {"TLS", "posix,cma,tcp,self"},
        {"KEEPALIVE_INTERVAL", "500ms"},
    };
    ucp_config_t *config;
    ucs_status_t status = ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK)
        return lac_fail(err, LAC_EIO, "UCX configuration: %s", ucs_status_string(status));
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        char name[64];
        snprintf(name, sizeof name, "UCX_%s", settings[i][0]);
        if (!getenv(name))
            status = ucp_config_modify(config, settings[i][0], settings[i][1]);
        if (status != UCS_OK)
            lac_warn("UCX does not know %s", settings[i][0]);
    }
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    status = ucp_init(&params, config, &u->context);
    ucp_config_release(config);
    return status == UCS_OK ? LAC_OK : lac_fail(err, LAC_EIO, "UCX: %s", ucs_status_string(status));
}

static void endpoints_close(ucx *u)
{
    for (uint32_t r = 0; r < u->base.ranks; r++) {
        if (!u->peers[r].ep)
            continue;
        ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                     .flags = UCP_EP_CLOSE_FLAG_FORCE};
        void *request = ucp_ep_close_nbx(u->peers[r].ep, &param);
        for (int i = 0; UCS_PTR_IS_PTR(request) && i < 100000 &&
                        ucp_request_check_status(request) == UCS_INPROGRESS;
             i++)
            ucp_worker_progress(u->worker);
        if (UCS_PTR_IS_PTR(request))
            ucp_request_free(request);
    }
}

/* So that a rank which closes first does not look like one that died. */
static void goodbye(ucx *u)
{
    static const char bye[1] = {'b'};
    lac_fabric *f = &u->base;
    lac_fabric_call call = {.deadline_ns =
                                lac_now_ns() + (uint64_t)LAC_FABRIC_BYE_MS * UINT64_C(1000000)};
    if (!f->connected || f->failure.status != LAC_OK)
        return;
    for (uint32_t r = 0; r < f->ranks; r++) {
        if (r == f->rank)
            continue;
        void *request = send_start(u, r, tag_of(CHANNEL_BYE, f->rank, u->fold, 0), bye, 1);
        if (UCS_PTR_IS_PTR(request) && u->pending_count < LAC_FABRIC_PENDING_MAX)
            u->pending[u->pending_count++] = request;
    }
    waiter w = wait_begin(call);
    lac_status status = ucx_settle(f, call, NULL);
    for (uint32_t r = 0; r < f->ranks && status == LAC_OK; r++)
        while (r != f->rank && status == LAC_OK && !said_bye(u, r))
            status = wait_more(u, &w, NULL);
}

static void ucx_destroy(lac_fabric *f)
{
    ucx *u = of(f);
    if (u->worker) {
        goodbye(u);
        for (uint32_t i = 0; i < u->pending_count; i++) {
            ucp_request_cancel(u->worker, u->pending[i]);
            ucp_request_free(u->pending[i]);
        }
        endpoints_close(u);
        ucp_tag_recv_info_t info;
        for (ucp_tag_message_h message; (message = message_probe(u, 0, 0, &info));)
            discard(u, message, &info); /* the others' goodbyes */
        if (u->address)
            ucp_worker_release_address(u->worker, u->address);
        ucp_worker_destroy(u->worker);
    }
    if (u->context)
        ucp_cleanup(u->context);
    free(u);
}

/* Which transports carry messages to an endpoint: UCX says so only in print. */
static bool lanes_are_memory(const peer *p)
{
    char *text = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);
    if (!file)
        return false;
    ucp_ep_print_info(p->ep, file);
    fclose(file);
    bool memory = false, network = false;
    for (char *line = text; line && (line = strstr(line, "lane[")); line++) {
        char *end = strchr(line, '\n'), *am = strstr(line, "am am_bw");
        if (!am)
            am = strstr(line, " am");
        if (!end || !am || am > end)
            continue; /* a lane that carries no messages, such as the one that looks after peers */
        char *shm = strstr(line, "posix"), *tcp = strstr(line, "tcp");
        memory |= shm && shm < end;
        network |= tcp && tcp < end;
    }
    free(text);
    return memory && !network;
}

static lac_status ucx_connect(lac_fabric *f, const lac_fabric_blob *addresses, const bool *memory,
                              uint64_t deadline_ns, lac_error *err)
{
    ucx *u = of(f);
    (void)deadline_ns;
    for (uint32_t i = 0; i < 16; i++)
        u->fold = u->fold * 31 + f->incarnation[i];
    for (uint32_t r = 0; r < f->ranks; r++) {
        peer *p = &u->peers[r];
        *p = (peer){.owner = u, .rank = r};
        if (r == f->rank)
            continue;
        ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                                UCP_EP_PARAM_FIELD_ERR_HANDLER |
                                                UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                                  .address = addresses[r].data,
                                  .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                                  .err_handler = {.cb = peer_broke, .arg = p}};
        ucs_status_t status = ucp_ep_create(u->worker, &params, &p->ep);
        if (status != UCS_OK)
            return lac_fail(err, LAC_EPEER, "rank %u cannot be reached: %s", r,
                            ucs_status_string(status));
        p->memory = lanes_are_memory(p);
        if (memory[r] && !p->memory)
            lac_warn("rank %u runs on this host and is not reached through memory", r);
    }
    return LAC_OK;
}

static lac_fabric_lane ucx_lane(const lac_fabric *f, uint32_t rank)
{
    const ucx *u = (const ucx *)(const void *)f;
    return u->peers[rank].memory ? LAC_FABRIC_MEMORY : LAC_FABRIC_NETWORK;
}

lac_status lac__ucx_open(lac_fabric **out, uint8_t *own, size_t room, size_t *own_bytes,
                         lac_error *err)
{
    static const lac__fabric_ops ops = {.name = "ucx",
                                        .destroy = ucx_destroy,
                                        .connect = ucx_connect,
                                        .lane = ucx_lane,
                                        .send = ucx_send,
                                        .settle = ucx_settle,
                                        .receive = ucx_receive,
                                        .broadcast = lac__collect_broadcast,
                                        .all_reduce = lac__collect_all_reduce,
                                        .all_gather = lac__collect_all_gather,
                                        .barrier = lac__collect_barrier,
                                        .abort = ucx_abort,
                                        .health = ucx_health};
    environment_set();
    ucx *u = lac_alloc(1, sizeof *u);
    u->base.ops = &ops;
    lac_status status = context_open(u, err);
    if (status != LAC_OK)
        goto fail;
    ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    ucs_status_t ucs = ucp_worker_create(u->context, &params, &u->worker);
    if (ucs == UCS_OK)
        ucs = ucp_worker_get_address(u->worker, &u->address, &u->address_bytes);
    if (ucs != UCS_OK) {
        status = lac_fail(err, LAC_EIO, "UCX worker: %s", ucs_status_string(ucs));
        goto fail;
    }
    if (u->address_bytes > room) {
        status = lac_fail(err, LAC_ETOOBIG, "UCX address has %zu bytes, room is %zu",
                          u->address_bytes, room);
        goto fail;
    }
    memcpy(own, u->address, u->address_bytes);
    *own_bytes = u->address_bytes;
    *out = &u->base;
    return LAC_OK;
fail:
    ucx_destroy(&u->base);
    return status;
}
