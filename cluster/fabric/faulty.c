/* A fabric that goes wrong at a chosen call, around one that does not. For tests: what a rank that
 * is slow, deaf, hung or dead does to the others. Must not know a transport. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "ops.h"

typedef struct {
    lac_fabric base;
    lac_fabric *inner;
    lac_fabric_fault fault;
    uint32_t calls;
} faulty;

static void sleep_ms(uint32_t ms)
{
    for (uint64_t end = lac_now_ms() + ms, now; (now = lac_now_ms()) < end;)
        usleep((useconds_t)(end - now > 100 ? 100 : end - now) * 1000);
}

/* Counts a call and lets the fault happen when it is its turn. True: leave the call out. */
static bool strikes(faulty *f)
{
    if (f->fault.kind == LAC_FAULT_VERSION || f->calls++ != f->fault.call)
        return false;
    switch (f->fault.kind) {
    case LAC_FAULT_DELAY: sleep_ms(f->fault.ms); return false;
    case LAC_FAULT_HANG:
        for (;;)
            sleep_ms(1000);
    case LAC_FAULT_DEATH: raise(SIGKILL); return false;
    default: return true;
    }
}

static faulty *of(lac_fabric *f)
{
    return (faulty *)(void *)f;
}

static void faulty_destroy(lac_fabric *f)
{
    lac_fabric_close(&of(f)->inner);
    free(f);
}

static lac_status faulty_connect(lac_fabric *f, const lac_fabric_blob *addresses,
                                 const bool *memory, uint64_t deadline_ns, lac_error *err)
{
    lac_fabric *inner = of(f)->inner;
    for (uint32_t r = 0; r < f->ranks; r++) { /* who watches is who waits */
        inner->watched[r].fd = f->watched[r].fd;
        f->watched[r].fd = -1;
    }
    lac_status status = inner->ops->connect(inner, addresses, memory, deadline_ns, err);
    inner->connected = status == LAC_OK;
    return status;
}

static lac_fabric_lane faulty_lane(const lac_fabric *f, uint32_t rank)
{
    return lac_fabric_lane_of(((const faulty *)(const void *)f)->inner, rank);
}

static lac_status faulty_send(lac_fabric *f, uint32_t to, lac_fabric_channel channel,
                              lac_fabric_call call, const void *data, size_t bytes, lac_error *err)
{
    if (strikes(of(f)))
        return LAC_OK;
    return lac_fabric_send(of(f)->inner, to, channel, call, data, bytes, err);
}

static lac_status faulty_settle(lac_fabric *f, lac_fabric_call call, lac_error *err)
{
    (void)strikes(of(f));
    return lac_fabric_settle(of(f)->inner, call, err);
}

static lac_status faulty_receive(lac_fabric *f, uint32_t from, lac_fabric_channel channel,
                                 lac_fabric_call call, void *data, size_t bytes, size_t *got,
                                 lac_error *err)
{
    (void)strikes(of(f));
    return lac_fabric_receive(of(f)->inner, from, channel, call, data, bytes, got, err);
}

static lac_status faulty_broadcast(lac_fabric *f, uint32_t root, lac_fabric_call call, void *data,
                                   size_t room, size_t *bytes, lac_error *err)
{
    if (strikes(of(f)) && f->rank == root)
        return LAC_OK;
    return lac_fabric_broadcast(of(f)->inner, root, call, data, room, bytes, err);
}

static lac_status faulty_all_reduce(lac_fabric *f, lac_fabric_span span, lac_fabric_call call,
                                    float *x, size_t count, lac_error *err)
{
    if (strikes(of(f)))
        return LAC_OK;
    return lac_fabric_all_reduce(of(f)->inner, span, call, x, count, err);
}

static lac_status faulty_all_gather(lac_fabric *f, lac_fabric_span span, lac_fabric_call call,
                                    const void *mine, size_t bytes, void *all, lac_error *err)
{
    (void)strikes(of(f));
    return lac_fabric_all_gather(of(f)->inner, span, call, mine, bytes, all, err);
}

static lac_status faulty_barrier(lac_fabric *f, lac_fabric_span span, lac_fabric_call call,
                                 lac_error *err)
{
    if (strikes(of(f)))
        return LAC_OK;
    return lac_fabric_barrier(of(f)->inner, span, call, err);
}

static void faulty_abort(lac_fabric *f, const char *reason)
{
    lac_fabric *inner = of(f)->inner;
    inner->ops->abort(inner, reason);
    (void)lac__fabric_fail(inner, NULL, "%s", reason);
}

static lac_status faulty_health(lac_fabric *f, lac_error *err)
{
    return lac_fabric_health(of(f)->inner, err);
}

lac_fabric *lac_fabric_faulty(lac_fabric *inner, lac_fabric_fault fault)
{
    static const lac__fabric_ops ops = {.name = "faulty",
                                        .destroy = faulty_destroy,
                                        .connect = faulty_connect,
                                        .lane = faulty_lane,
                                        .send = faulty_send,
                                        .settle = faulty_settle,
                                        .receive = faulty_receive,
                                        .broadcast = faulty_broadcast,
                                        .all_reduce = faulty_all_reduce,
                                        .all_gather = faulty_all_gather,
                                        .barrier = faulty_barrier,
                                        .abort = faulty_abort,
                                        .health = faulty_health};
    LAC_ASSERT(!inner->connected);
    faulty *f = lac_alloc(1, sizeof *f);
    f->base = (lac_fabric){.ops = &ops, .rank = inner->rank, .ranks = inner->ranks};
    memcpy(f->base.incarnation, inner->incarnation, sizeof inner->incarnation);
    memcpy(f->base.address, inner->address, inner->address_bytes);
    f->base.address_bytes = inner->address_bytes;
    memcpy(f->base.watched, inner->watched, sizeof inner->watched);
    if (fault.kind == LAC_FAULT_VERSION)
        f->base.address[4]++;
    f->inner = inner;
    f->fault = fault;
    return &f->base;
}
